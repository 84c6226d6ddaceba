//! The machine's ceilings: streams through memory and fused multiply-adds, on a number of threads.
//!
//! Streams are measured with ordinary stores and with non-temporal ones, which write whole lines to
//! memory without reading them first. These are faster for arrays larger than the caches and slower
//! within them; the better of the two is the ceiling. Arrays larger than the caches are read as
//! Fuseloop reads them: on Intel's processors with prefetches in several pages at once, and on
//! others, if nothing is stored, with one instruction.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::Deserialize;

use crate::{Error, Task};

/// The kind of work.
#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Reads one array and writes one.
    Copy,
    /// The same, without reading what is overwritten.
    CopyNt,
    /// Reads two arrays and writes one.
    Triad,
    /// The same, without reading what is overwritten.
    TriadNt,
    /// Reads one array.
    Read,
    /// Multiplies and adds in registers: a pass is 2^20 operations per thread, and the "bytes" do
    /// not matter.
    Fma,
}

/// A line of the cache.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([f32; 16]);

/// Arrays to stream through, cut into a piece for each thread.
pub struct Ceiling {
    kind: Kind,
    threads: usize,
    to: Vec<Line>,
    from: Vec<Line>,
    with: Vec<Line>,
}

impl Ceiling {
    /// Arrays of this many bytes in all.
    pub fn new(kind: Kind, bytes: usize, threads: usize) -> Ceiling {
        let (written, read) = match kind {
            Kind::Copy | Kind::CopyNt => (1, 1),
            Kind::Triad | Kind::TriadNt => (1, 2),
            Kind::Read => (0, 1),
            Kind::Fma => (0, 0),
        };
        let lines = bytes / size_of::<Line>() / (written + read).max(1);
        let array = |there: bool| vec![Line([1.0; 16]); if there { lines.max(threads) } else { 0 }];
        Ceiling { kind, threads, to: array(written > 0), from: array(read > 0), with: array(read > 1) }
    }
}

impl Task for Ceiling {
    fn run(&mut self, times: usize) -> Result<(), Error> {
        let (kind, threads) = (self.kind, self.threads);
        let started = AtomicUsize::new(0);
        let started = &started;
        let cut = |lines: usize| lines.div_ceil(threads).max(1);
        let cut_to = cut(self.to.len());
        let mut to = self.to.chunks_mut(cut_to);
        let mut from = self.from.chunks(cut(self.from.len()));
        let mut with = self.with.chunks(cut(self.with.len()));
        std::thread::scope(|scope| {
            for thread in 1..=threads {
                let mut piece = Piece {
                    to: to.next().unwrap_or_default(),
                    from: from.next().unwrap_or_default(),
                    with: with.next().unwrap_or_default(),
                };
                let mut work = move || {
                    started.fetch_add(1, Ordering::Relaxed);
                    while started.load(Ordering::Relaxed) < threads {
                        spin_loop();
                    }
                    for _ in 0..times {
                        piece.pass(kind);
                    }
                };
                if thread == threads {
                    work();
                } else {
                    scope.spawn(work);
                }
            }
        });
        Ok(())
    }

    /// Long compared with the time for starting threads.
    fn shortest(&self) -> Duration {
        Duration::from_millis(4)
    }
}

/// The part of one thread.
struct Piece<'a> {
    to: &'a mut [Line],
    from: &'a [Line],
    with: &'a [Line],
}

/// Multiply-adds of a pass, in vectors: enough in flight to hide their latency.
const CHAINS: usize = 8;
const STEPS: usize = (1 << 20) / (2 * 16 * CHAINS);

impl Piece<'_> {
    fn pass(&mut self, kind: Kind) {
        #[cfg(target_arch = "x86_64")]
        #[expect(unsafe_code, reason = "wide vectors and non-temporal stores have no other way")]
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has AVX-512.
            return unsafe { wide::avx512::pass(self, kind) };
        } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has AVX2 and FMA.
            return unsafe { wide::avx2::pass(self, kind) };
        }
        match kind {
            Kind::Copy | Kind::CopyNt => {
                for (to, a) in self.to.iter_mut().zip(self.from) {
                    *to = Line(a.0.map(|a| a * 3.0)); // A plain copy would become a call of memcpy.
                }
            }
            Kind::Triad | Kind::TriadNt => {
                for ((to, a), b) in self.to.iter_mut().zip(self.from).zip(self.with) {
                    *to = Line(std::array::from_fn(|i| a.0[i] + b.0[i] * 3.0));
                }
            }
            Kind::Read => {
                let mut sums = [Line([0.0; 16]); 8];
                for lines in self.from.chunks(8) {
                    sums.iter_mut().zip(lines).for_each(|(s, a)| *s = Line(std::array::from_fn(|i| s.0[i] + a.0[i])));
                }
                black_box(sums);
            }
            Kind::Fma => {
                let mut sums = [[1.0f32; 16]; CHAINS];
                let factor = black_box(0.5);
                for _ in 0..STEPS {
                    sums.iter_mut().flatten().for_each(|s| *s = *s * factor + 0.5);
                }
                black_box(sums);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "wide vectors and non-temporal stores have no other way")]
mod wide {
    //! The same with AVX-512 and AVX2.

    use std::arch::x86_64::{__cpuid, _MM_HINT_T0, _mm_prefetch};
    use std::sync::LazyLock;

    use super::Line;

    /// Lines that are read together, and pages that are read at once.
    const STEP: usize = 8;
    const PAGES: usize = 4;
    const PAGE: usize = 4096;
    /// Lines that stay in a core's caches.
    const NEAR: usize = (2 << 20) / size_of::<Line>();

    /// Whose processors gain by that.
    static INTEL: LazyLock<bool> = LazyLock::new(|| {
        let found = __cpuid(0);
        [found.ebx, found.edx, found.ecx].map(u32::to_le_bytes).concat() == *b"GenuineIntel"
    });

    /// Prefetches the next step's lines from each page.
    fn ahead(all: &[Line], step: &[Line]) {
        if all.len() <= NEAR || !*INTEL {
            return;
        }
        let at = step.as_ptr().cast::<i8>();
        let done = at.addr() % (PAGES * PAGE);
        let first = at.wrapping_sub(done).wrapping_add(PAGES * PAGE + done / PAGES);
        for line in 0..STEP {
            let bytes = line % PAGES * PAGE + line / PAGES * size_of::<Line>();
            // SAFETY: every processor with AVX has this instruction, which accesses no memory.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(bytes)) };
        }
    }

    /// Passes with vectors of one width. The last arguments read a line at `{at}`, an instruction
    /// for each of its vectors.
    macro_rules! width {
        ($name:ident, $features:literal, $vector:ident, $set:ident, $load:ident, $store:ident, $stream:ident,
         $add:ident, $mul:ident, $fma:ident, $register:ident, $($read:literal),+) => {
            pub(super) mod $name {
                use std::arch::asm;
                use std::arch::x86_64::{$add, $fma, $load, $mul, $set, $store, $stream, $vector, _mm_sfence};
                use std::hint::black_box;

                use super::super::{CHAINS, Kind, Line, Piece, STEPS};
                use super::{INTEL, NEAR, STEP, ahead};

                const LANES: usize = size_of::<$vector>() / size_of::<f32>();
                /// Vectors of a line.
                const PARTS: usize = size_of::<Line>() / size_of::<$vector>();

                #[target_feature(enable = $features)]
                fn load(line: &Line, part: usize) -> $vector {
                    let vector: &[f32] = &line.0[part * LANES..][..LANES];
                    // SAFETY: a whole vector of a line, which is aligned to more than that.
                    unsafe { $load(vector.as_ptr()) }
                }

                #[target_feature(enable = $features)]
                fn store<const STREAM: bool>(line: &mut Line, part: usize, value: $vector) {
                    let vector: &mut [f32] = &mut line.0[part * LANES..][..LANES];
                    // SAFETY: a whole vector of a line, which is aligned to more than that; a fence
                    // comes before anyone else reads it.
                    unsafe {
                        if STREAM { $stream(vector.as_mut_ptr(), value) } else { $store(vector.as_mut_ptr(), value) }
                    }
                }

                #[target_feature(enable = $features)]
                fn copy<const STREAM: bool>(p: &mut Piece<'_>) {
                    let scale = $set(black_box(3.0));
                    for (to, from) in p.to.chunks_mut(STEP).zip(p.from.chunks(STEP)) {
                        ahead(p.from, from);
                        for (to, a) in to.iter_mut().zip(from) {
                            for part in 0..PARTS {
                                store::<STREAM>(to, part, $mul(load(a, part), scale));
                            }
                        }
                    }
                    _mm_sfence();
                }

                #[target_feature(enable = $features)]
                fn triad<const STREAM: bool>(p: &mut Piece<'_>) {
                    let scale = $set(black_box(3.0));
                    for ((to, from), with) in p.to.chunks_mut(STEP).zip(p.from.chunks(STEP)).zip(p.with.chunks(STEP)) {
                        ahead(p.from, from);
                        ahead(p.with, with);
                        for ((to, a), b) in to.iter_mut().zip(from).zip(with) {
                            for part in 0..PARTS {
                                store::<STREAM>(to, part, $fma(load(b, part), scale, load(a, part)));
                            }
                        }
                    }
                    _mm_sfence();
                }

                #[target_feature(enable = $features)]
                fn read(p: &Piece<'_>) {
                    if p.from.len() > NEAR && !*INTEL {
                        return read_in_order(p.from);
                    }
                    let mut sums = [[$set(0.0); PARTS]; STEP];
                    for lines in p.from.as_chunks::<STEP>().0 {
                        ahead(p.from, lines);
                        for (sums, line) in sums.iter_mut().zip(lines) {
                            for part in 0..PARTS {
                                sums[part] = $add(sums[part], load(line, part));
                            }
                        }
                    }
                    black_box(sums);
                }

                /// Reads line after line by the same instructions, in a loop that a compiler would
                /// unroll. A vector of 512 bits is a whole line: with such vectors the assembly
                /// names the second sum in a comment only, because each operand must be named.
                #[target_feature(enable = $features)]
                fn read_in_order(lines: &[Line]) {
                    let (mut sum, mut other) = ($set(0.0), $set(0.0));
                    let lines = lines.as_ptr_range();
                    if lines.is_empty() {
                        return;
                    }
                    // SAFETY: it reads the lines from the first to the last, in steps of one.
                    unsafe {
                        asm!(
                            "2:",
                            $($read,)+
                            "add {at}, 64",
                            "cmp {at}, {end}",
                            "jb 2b",
                            sum = inout($register) sum,
                            other = inout($register) other,
                            at = inout(reg) lines.start => _,
                            end = in(reg) lines.end,
                            options(readonly, nostack),
                        );
                    }
                    black_box((sum, other));
                }

                #[target_feature(enable = $features)]
                fn fma() {
                    let mut sums = [$set(1.0); CHAINS];
                    let (factor, term) = ($set(black_box(0.5)), $set(0.5));
                    for _ in 0..STEPS * PARTS {
                        for sum in &mut sums {
                            *sum = $fma(*sum, factor, term);
                        }
                    }
                    black_box(sums);
                }

                /// Passes once over a thread's piece.
                #[target_feature(enable = $features)]
                pub(in super::super) fn pass(p: &mut Piece<'_>, kind: Kind) {
                    match kind {
                        Kind::Copy => copy::<false>(p),
                        Kind::CopyNt => copy::<true>(p),
                        Kind::Triad => triad::<false>(p),
                        Kind::TriadNt => triad::<true>(p),
                        Kind::Read => read(p),
                        Kind::Fma => fma(),
                    }
                }
            }
        };
    }

    width!(
        avx512,
        "avx512f",
        __m512,
        _mm512_set1_ps,
        _mm512_load_ps,
        _mm512_store_ps,
        _mm512_stream_ps,
        _mm512_add_ps,
        _mm512_mul_ps,
        _mm512_fmadd_ps,
        zmm_reg,
        "vaddps {sum}, {sum}, [{at}]",
        "/* {other} */"
    );
    width!(
        avx2,
        "avx2,fma",
        __m256,
        _mm256_set1_ps,
        _mm256_load_ps,
        _mm256_store_ps,
        _mm256_stream_ps,
        _mm256_add_ps,
        _mm256_mul_ps,
        _mm256_fmadd_ps,
        ymm_reg,
        "vaddps {sum}, {sum}, [{at}]",
        "vaddps {other}, {other}, [{at} + 32]"
    );
}
