//! Runs compiled code on every input of a function of one argument, and compares it with the
//! correct results.
//!
//! A [`Case`] is a program of one function and a judge of its results. Types of up to 32 bits are
//! visited completely. For wider ones, the upper half takes every value, and the lower half a few
//! that are critical for rounding. The code for each width of vectors that the machine has must
//! give the same bits.

mod catalogue;
mod convert;
#[path = "../../../compiler/tests/all/accuracy/reference.rs"]
pub mod reference;

use std::sync::atomic::{AtomicU64, Ordering};

use fuseloop::{Array, Dtype, Kernel, Options, Program, Scalar, Simd};

pub use catalogue::{Group, cases};

/// The maximum error of a result, in units in the last place.
pub const LIMIT: f64 = 2.0;

/// Inputs of one call.
const BLOCK: u64 = 1 << 16;

/// A function of one argument and the judge of its results.
pub struct Case {
    /// Its name, such as `exp` or `i8(f32)`.
    pub name: String,
    /// Its group.
    pub group: Group,
    /// The program: one function.
    source: String,
    from: Dtype,
    to: Dtype,
    judge: Judge,
}

/// Adds its findings on the bytes of some inputs and their results.
type Judge = Box<dyn Fn(&[u8], &[u8], &mut Finding) + Send + Sync>;

/// The findings of a case.
#[derive(Clone, Copy, Debug, Default)]
pub struct Finding {
    /// Inputs visited.
    pub inputs: u64,
    /// The greatest distance from the exact result in units in the last place; infinite for a wrong
    /// one.
    pub worst: f64,
    /// The bits of the input where it is.
    pub at: u64,
    /// Results that are not the correctly rounded ones.
    pub unrounded: u64,
    /// Results that depend on the width of vectors.
    pub differing: u64,
}

/// Which inputs are visited, and what for.
#[derive(Clone, Copy, Debug)]
pub struct Visit {
    /// Only every `stride`-th input is visited.
    pub stride: u64,
    /// Threads that share the inputs.
    pub threads: usize,
    /// Whether results are judged, or only compared between widths of vectors.
    pub judged: bool,
}

impl Finding {
    /// Counts a result that is so far off.
    fn add(&mut self, input: u64, units: f64, rounded: bool) {
        self.unrounded += u64::from(!rounded);
        if units > self.worst {
            (self.worst, self.at) = (units, input);
        }
    }

    fn join(mut self, other: Finding) -> Finding {
        if other.worst > self.worst || other.worst == self.worst && other.at < self.at {
            (self.worst, self.at) = (other.worst, other.at);
        }
        self.inputs += other.inputs;
        self.unrounded += other.unrounded;
        self.differing += other.differing;
        self
    }

    /// Whether it is what the language promises.
    pub fn holds(&self) -> bool {
        self.worst <= LIMIT && self.differing == 0
    }
}

impl Case {
    /// How many inputs there are if every `stride`-th is visited; all of them for a narrow type.
    pub fn inputs(&self, stride: u64) -> u64 {
        match self.from.bytes() {
            _ if self.from == Dtype::Bool => 2,
            narrow @ ..=2 => 1 << (8 * narrow),
            _ => (1u64 << 32).div_ceil(stride),
        }
    }

    /// Visits inputs. `progress` is called with the number of inputs done since the last call.
    pub fn run(&self, visit: Visit, progress: &(dyn Fn(u64) + Sync)) -> Result<Finding, String> {
        let program = Program::parse(self.source.as_str()).map_err(|e| e.to_string())?;
        let function = program.main().map_err(|e| e.to_string())?;
        let widths = [Simd::W512, Simd::W256, Simd::W128].into_iter().filter(|simd| simd.is_here());
        let compiled = widths.map(|simd| function.compile(&Options { threads: 1, simd, ..Options::default() }));
        let kernels = compiled.collect::<Result<Vec<Kernel>, _>>().map_err(|e| e.to_string())?;
        let next = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let work = || self.work(&kernels, visit, &next, progress);
            let running: Vec<_> = (0..visit.threads.max(1)).map(|_| scope.spawn(work)).collect();
            running.into_iter().try_fold(Finding::default(), |sum, thread| {
                let found = thread.join().map_err(|_| format!("a thread of {} panicked", self.name))??;
                Ok(sum.join(found))
            })
        })
    }

    /// Processes one block after the other until none is left; the widest kernel comes first.
    fn work(
        &self,
        kernels: &[Kernel],
        visit: Visit,
        next: &AtomicU64,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Finding, String> {
        let count = self.inputs(visit.stride);
        let mut found = Finding::default();
        let mut arrays: Option<(Array, Vec<Array>)> = None;
        loop {
            let first = next.fetch_add(1, Ordering::Relaxed) * BLOCK;
            if first >= count {
                return Ok(found);
            }
            let here = BLOCK.min(count - first);
            let len = usize::try_from(here).map_err(|e| e.to_string())?;
            let (input, outputs) = match &mut arrays {
                Some(made) if made.0.len() == len => made,
                other => {
                    let make = |dtype| Array::zeros(dtype, &[len]).map_err(|e| e.to_string());
                    let outputs = kernels.iter().map(|_| make(self.to)).collect::<Result<_, _>>()?;
                    other.insert((make(self.from)?, outputs))
                }
            };
            match self.from.bytes() {
                1 => self.fill::<1>(input.bytes_mut(), first, visit.stride),
                2 => self.fill::<2>(input.bytes_mut(), first, visit.stride),
                4 => self.fill::<4>(input.bytes_mut(), first, visit.stride),
                _ => self.fill::<8>(input.bytes_mut(), first, visit.stride),
            }
            for (kernel, output) in kernels.iter().zip(outputs.iter_mut()) {
                kernel.call_into((&*input,), (output,)).map_err(|e| e.to_string())?;
            }
            let Some((widest, others)) = outputs.split_first() else { return Ok(found) };
            for other in others.iter().filter(|other| *other != widest) {
                found.differing += (0..len).filter(|n| other.get(*n) != widest.get(*n)).count() as u64;
            }
            if visit.judged {
                (self.judge)(input.bytes(), widest.bytes(), &mut found);
            }
            found.inputs += here;
            progress(here);
        }
    }

    /// Writes the inputs from a number on. A constant number of bytes makes this fast.
    fn fill<const BYTES: usize>(&self, to: &mut [u8], first: u64, stride: u64) {
        for (element, number) in to.chunks_exact_mut(BYTES).zip(first..) {
            element.copy_from_slice(&self.input(number, stride).to_le_bytes()[..BYTES]);
        }
    }

    /// The bits of an input, by its number.
    fn input(&self, number: u64, stride: u64) -> u64 {
        /// Lower halves of wide inputs: near 0, and near half of the bits that a narrower type
        /// drops.
        const LOW: [u64; 8] = [0, 1, 0x1000_0000, 0x0fff_ffff, 0x1000_0001, 0x8000_0000, 0x3000_0000, 0xffff_ffff];
        let spread = number * stride;
        match self.from.bytes() {
            ..=2 => number,
            4 => spread,
            _ => spread << 32 | LOW[(number.wrapping_mul(0x9e37_79b9) >> 16 & 7) as usize],
        }
    }

    /// An input as a number, for people.
    pub fn show(&self, bits: u64) -> String {
        format!("{:?} ({bits:#x})", Scalar::from_bits(self.from, bits))
    }
}
