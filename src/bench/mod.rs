//! Measures the gain from fusion: runs the unfused and the fused function in turn, with copies in
//! between, so that all are measured in the same state of the machine.

pub(crate) mod copy;
pub(crate) mod report;
mod setup;

use std::fmt;
use std::time::{Duration, Instant};

use compiler::explain::{Figures, Stage};
use ir::array::{Array, ArrayError};
use ir::decision::Passes;

use crate::kernel::Kernel;
use crate::{CompileError, Device, DeviceArray, ExplainError, Function, GpuError, Options, RunError, page};

use copy::Copies;

/// The minimum and maximum number of rounds.
const ROUNDS: std::ops::Range<usize> = 4..100;

/// No round begins after this time.
const ENOUGH: Duration = Duration::from_secs(3);

/// The measurements. Their `Display` is a table for people.
#[derive(Clone, Debug)]
pub struct Benchmark {
    /// The function.
    pub function: String,
    /// The value of each size name.
    pub sizes: Vec<(String, i64)>,
    /// The number of threads.
    pub threads: usize,
    /// The GPU, if it ran on one.
    pub gpu: Option<String>,
    /// The passes that merged kernels.
    pub fuse: Passes,
    /// The number of measurements of each.
    pub rounds: usize,
    /// Bytes of the inputs and results.
    pub working_set: u64,
    /// A copy of arrays larger than the caches: the bytes that it reads and writes, and its time.
    pub copy: Measured,
    /// Without fusion.
    pub unfused: Measurement,
    /// With fusion.
    pub fused: Measurement,
    /// Whether fusion made a difference.
    pub difference: Difference,
}

/// How the fused function compares to the unfused one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// Both are the same program, which was measured once.
    Same,
    /// The difference is within noise: the interquartile ranges overlap.
    None,
    /// It is faster.
    Faster,
    /// It is slower.
    Slower,
}

impl Difference {
    /// Compares two measurements by their quartiles.
    fn between(unfused: (Duration, Duration), fused: (Duration, Duration)) -> Difference {
        if fused.1 < unfused.0 {
            Difference::Faster
        } else if unfused.1 < fused.0 {
            Difference::Slower
        } else {
            Difference::None
        }
    }

    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Difference::Same => "same",
            Difference::None => "none",
            Difference::Faster => "faster",
            Difference::Slower => "slower",
        }
    }
}

/// The measurements of one form of the function.
#[derive(Clone, Debug, Default)]
pub struct Measurement {
    /// Each kernel, in the order they run.
    pub kernels: Vec<Measured>,
    /// The whole call.
    pub total: Measured,
}

/// A measured time.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Its name.
    pub title: String,
    /// Bytes that cross between memory and caches, for kernels by the cost model.
    pub bytes: Option<u64>,
    /// Scalar operations; an upper bound if they depend on data, and 0 if unknown.
    pub operations: u64,
    /// The median.
    pub time: Duration,
    /// The quartiles: half of the rounds are between them.
    pub quartiles: (Duration, Duration),
    /// The rate of a copy that moves about as many bytes, in bytes per nanosecond.
    pub copy_rate: Option<f64>,
    /// Whether the arrays of that copy are in cache.
    pub in_cache: bool,
}

impl Measured {
    fn new(title: impl Into<String>, (bytes, operations): (Option<u64>, u64), mut times: Vec<Duration>) -> Measured {
        times.sort_unstable();
        let at = |part: usize| times.get((times.len() - 1) * part / 4).copied().unwrap_or_default();
        let quartiles = (at(1), at(3));
        Measured { title: title.into(), bytes, operations, time: at(2), quartiles, copy_rate: None, in_cache: false }
    }

    fn beside(self, copies: &Copies) -> Measured {
        match self.bytes.and_then(|bytes| copies.beside(bytes)) {
            Some(beside) => Measured { copy_rate: Some(beside.rate), in_cache: beside.in_cache, ..self },
            None => self,
        }
    }

    /// The rate relative to that of a copy that moves about as many bytes.
    pub fn share(&self) -> Option<f64> {
        Some(self.rate()? / self.copy_rate?)
    }

    /// Bytes in a nanosecond, that is, gigabytes in a second.
    pub fn rate(&self) -> Option<f64> {
        Some(self.bytes? as f64 / self.time.as_nanos().max(1) as f64)
    }
}

impl Benchmark {
    /// Measures a function. A size name that is not given a size gets one. `progress` is called
    /// with the finished fraction, from 0 to 1.
    pub(crate) fn new(
        function: &Function<'_>,
        options: &Options,
        sizes: &[(&str, i64)],
        progress: &mut dyn FnMut(f64),
    ) -> Result<Benchmark, BenchError> {
        let device = if options.device == Device::Gpu { Device::Gpu } else { Device::Cpu };
        let compile = |fuse| function.compile(&Options { fuse, device, ..options.clone() });
        let (unfused, fused) = (compile(Passes::NONE)?, compile(options.fuse)?);
        let names = function.explain(options, sizes)?;
        let sizes = setup::sizes(unfused.program(), &names.report().sizes, sizes);
        let named: Vec<(&str, i64)> = sizes.named.iter().map(|(name, size)| (name.as_str(), *size)).collect();
        let explanation = function.explain(options, &named)?;
        let inputs = setup::inputs(unfused.program(), &sizes.all)?;
        let borrowed: Vec<_> = inputs.iter().map(Array::as_ref).collect();
        let shapes = unfused.output_shapes(&borrowed)?;
        let slots = unfused.signature().results.iter().zip(&shapes);
        let outputs: Vec<Array> =
            slots.map(|(slot, shape)| crate::zeros(slot.dtype, shape)).collect::<Result<_, _>>()?;
        let working_set = inputs.iter().chain(&outputs).map(|array| array.bytes().len() as u64).sum();
        let mut arrays = match fused.gpu() {
            None => Arrays::Host { inputs, outputs },
            Some(_) => Arrays::Gpu { inputs: fused.upload(&inputs)?, outputs: fused.upload(&outputs)? },
        };
        let report = explanation.report();
        let mut forms = vec![(Rounds::new(&fused), &report.after)];
        if unfused.program() != fused.program() {
            forms.insert(0, (Rounds::new(&unfused), &report.before));
        }
        let kernels = report.before.kernels.iter().chain(&report.after.kernels).map(|kernel| &kernel.figures);
        let figures = kernels.chain([&report.before.total, &report.after.total]);
        let moved = figures.filter_map(|figures| figures.bytes.value);
        let mut copies = Copies::new(options, fused.gpu(), moved)?;
        copies.measure(false)?;
        let begin = Instant::now();
        let mut rounds = 0;
        while rounds < ROUNDS.start || (rounds < ROUNDS.end && begin.elapsed() < ENOUGH) {
            for (form, _) in &mut forms {
                // A first call, so that the caches hold the data that its own call leaves there. It
                // also maps memory and starts threads.
                form.measure(&mut arrays, false)?;
                form.measure(&mut arrays, true)?;
            }
            copies.measure(true)?;
            rounds += 1;
            let part = rounds as f64 / ROUNDS.start as f64;
            progress(part.min(begin.elapsed().as_secs_f64() / ENOUGH.as_secs_f64()).min(1.0));
        }
        let mut measured: Vec<_> = forms.into_iter().map(|(form, stage)| form.measurement(stage, &copies)).collect();
        let after = measured.pop().unwrap_or_default();
        let (before, difference) = match measured.pop() {
            Some(before) => {
                let difference = Difference::between(before.total.quartiles, after.total.quartiles);
                (before, difference)
            }
            None => (after.clone(), Difference::Same),
        };
        Ok(Benchmark {
            function: report.function.clone(),
            sizes: sizes.named,
            threads: fused.threads(),
            gpu: fused.gpu().map(|gpu| gpu.facts().name),
            fuse: options.fuse,
            rounds,
            working_set,
            copy: copies.largest(),
            unfused: before,
            fused: after,
            difference,
        })
    }

    /// The time of the fused function, relative to that of the unfused one.
    pub fn ratio(&self) -> f64 {
        self.fused.total.time.as_secs_f64() / self.unfused.total.time.as_secs_f64().max(1e-9)
    }

    /// The measurements as a self-contained HTML page, with this machine's roofline.
    pub fn to_html(&self) -> String {
        page::bench(self)
    }

    /// The measurements for programs, as one line with the fields listed in `docs/json.md`.
    pub fn to_json(&self) -> String {
        report::json(self)
    }
}

impl fmt::Display for Benchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        report::text(self, f)
    }
}

/// The arrays of a call, on the device that runs it.
enum Arrays {
    Host { inputs: Vec<Array>, outputs: Vec<Array> },
    Gpu { inputs: Vec<DeviceArray>, outputs: Vec<DeviceArray> },
}

/// The rounds of one form of the function.
struct Rounds<'k> {
    kernel: &'k Kernel,
    /// For each kernel, the time of each round.
    times: Vec<Vec<Duration>>,
    totals: Vec<Duration>,
}

impl<'k> Rounds<'k> {
    fn new(kernel: &'k Kernel) -> Rounds<'k> {
        Rounds { kernel, times: vec![vec![]; kernel.program().kernels.len()], totals: vec![] }
    }

    fn measure(&mut self, arrays: &mut Arrays, counts: bool) -> Result<(), RunError> {
        let mut times = vec![Duration::ZERO; self.times.len()];
        let start = Instant::now();
        let total = match arrays {
            Arrays::Host { inputs, outputs } => {
                let inputs: Vec<_> = inputs.iter().map(Array::as_ref).collect();
                let mut outputs: Vec<_> = outputs.iter_mut().map(Array::as_mut).collect();
                self.kernel.call_timed(&inputs, &mut outputs, &mut times)?;
                start.elapsed()
            }
            // Timed by the device's clock.
            Arrays::Gpu { inputs, outputs } => {
                let inputs: Vec<_> = inputs.iter().collect();
                let mut outputs: Vec<_> = outputs.iter_mut().collect();
                self.kernel.call_timed_on_gpu(&inputs, &mut outputs, &mut times)?;
                times.iter().sum()
            }
        };
        if counts {
            self.totals.push(total);
            self.times.iter_mut().zip(times).for_each(|(all, time)| all.push(time));
        }
        Ok(())
    }

    fn measurement(self, stage: &Stage, copies: &Copies) -> Measurement {
        let kernels = stage.kernels.iter().zip(self.times);
        let work = |figures: &Figures| (figures.bytes.value, figures.operations.value.unwrap_or(0));
        Measurement {
            kernels: kernels
                .map(|(k, times)| Measured::new(k.title(), work(&k.figures), times).beside(copies))
                .collect(),
            total: Measured::new("all", work(&stage.total), self.totals).beside(copies),
        }
    }
}

/// The reason why nothing was measured.
#[derive(Debug)]
pub enum BenchError {
    /// It cannot be compiled, or a size is not one of the function's.
    Explain(ExplainError),
    /// The call fails, for example because the sizes do not fit.
    Run(RunError),
    /// The memory for the arrays could not be allocated.
    Memory(ArrayError),
    /// The GPU failed.
    Gpu(GpuError),
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchError::Explain(error) => error.fmt(f),
            BenchError::Run(error) => error.fmt(f),
            BenchError::Memory(error) => error.fmt(f),
            BenchError::Gpu(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BenchError {}

impl From<CompileError> for BenchError {
    fn from(error: CompileError) -> BenchError {
        BenchError::Explain(error.into())
    }
}

impl From<ExplainError> for BenchError {
    fn from(error: ExplainError) -> BenchError {
        BenchError::Explain(error)
    }
}

impl From<RunError> for BenchError {
    fn from(error: RunError) -> BenchError {
        BenchError::Run(error)
    }
}

impl From<ArrayError> for BenchError {
    fn from(error: ArrayError) -> BenchError {
        BenchError::Memory(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_quartiles_are_no_difference() {
        let between = |a: [u64; 2], b: [u64; 2]| {
            let [a, b] = [a, b].map(|[low, high]| (Duration::from_micros(low), Duration::from_micros(high)));
            Difference::between(a, b)
        };
        assert_eq!(between([10, 12], [8, 9]), Difference::Faster);
        assert_eq!(between([10, 12], [8, 10]), Difference::None);
        assert_eq!(between([10, 12], [11, 20]), Difference::None);
        assert_eq!(between([10, 12], [5, 30]), Difference::None);
        assert_eq!(between([10, 12], [13, 14]), Difference::Slower);
    }
}
