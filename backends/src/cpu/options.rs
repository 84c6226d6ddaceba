//! The options of compiling and running. None of them changes a result.

/// The options for compiling and running a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The maximum number of threads of a run, at least 1. A run that asks for more gets this many.
    pub threads: usize,
    /// The minimum work per thread in nanoseconds, by an estimate: a kernel uses as many threads as
    /// have this much to do. Handing work to a thread costs a few hundred nanoseconds.
    pub least_share: u64,
    /// The work in nanoseconds, by an estimate, for which sleeping threads are woken: in one
    /// kernel, or in several in quick succession. They arrive some 40,000 ns later.
    pub wake_from: u64,
    /// For tests: threads wait shortly for each other before a kernel begins, and yield before each
    /// piece. This exposes more interleavings, however short the kernel is.
    pub rendezvous: bool,
    /// The width of vectors.
    pub simd: Simd,
    /// Which arrays are accessed as if they did not fit into the caches.
    pub memory_regime: MemoryRegime,
}

/// The width of vectors in innermost loops. It never changes a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Simd {
    /// The widest that this machine has.
    #[default]
    Auto,
    /// 128 bits: Cranelift's vectors, available on every machine.
    W128,
    /// 256 bits: AVX2 with fused multiply-add. Falls back to 128 bits.
    W256,
    /// 512 bits: AVX-512. Falls back to the widest that the machine has.
    W512,
}

/// Which arrays are prefetched and stored to as if they did not fit into the caches. It never
/// changes a result. All regimes but [`MemoryRegime::Auto`] are for tests, so that small arrays and
/// any machine exercise every way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryRegime {
    /// Large arrays, in the way that is fastest on this processor.
    #[default]
    Auto,
    /// All arrays, prefetched on several pages at once.
    Pages,
    /// All arrays, read as streams by a single instruction each.
    Streams,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            threads: 256,
            least_share: 3_000,
            wake_from: 100_000,
            rendezvous: false,
            simd: Simd::Auto,
            memory_regime: MemoryRegime::Auto,
        }
    }
}
