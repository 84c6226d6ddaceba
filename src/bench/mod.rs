//! Measuring what fusion gains: the unfused and the fused function in turn, with a copy of large arrays between, so that all three
//! meet the same machine.

pub(crate) mod report;
mod setup;

use std::fmt;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use compiler::explain::{Figures, Stage};
use ir::array::{Array, ArrayError};
use ir::decision::Passes;

use crate::kernel::Kernel;
use crate::{CompileError, Device, DeviceArray, Dtype, ExplainError, Function, Gpu, GpuError, Options, RunError, page};

/// Bytes of each of the two arrays of the copy: beyond the caches of most machines.
const COPY: usize = 256 << 20;

/// There are at least so many rounds, and at most.
const ROUNDS: std::ops::Range<usize> = 4..100;

/// How long rounds begin.
const ENOUGH: Duration = Duration::from_secs(3);

/// What was measured. Its `Display` is a table for people.
#[derive(Clone, Debug)]
pub struct Benchmark {
    /// The function.
    pub function: String,
    /// The value of each size name.
    pub sizes: Vec<(String, i64)>,
    /// How many threads there were.
    pub threads: usize,
    /// The GPU, if it ran on one.
    pub gpu: Option<String>,
    /// The passes that merged kernels.
    pub fuse: Passes,
    /// How often each was measured.
    pub rounds: usize,
    /// Bytes of the inputs and results.
    pub working_set: u64,
    /// A copy of large arrays: the bytes that it reads and writes, and how long it took.
    pub copy: Measured,
    /// Without fusion.
    pub unfused: Measurement,
    /// With fusion.
    pub fused: Measurement,
}

/// The measurements of one form of the function.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// Each kernel, in the order they run.
    pub kernels: Vec<Measured>,
    /// The whole call.
    pub total: Measured,
}

/// How long something took.
#[derive(Clone, Debug)]
pub struct Measured {
    /// What.
    pub title: String,
    /// Bytes that cross between memory and caches: for kernels, by the cost model.
    pub bytes: Option<u64>,
    /// Floating-point operations, by the cost model.
    pub flops: f64,
    /// The median.
    pub time: Duration,
    /// The quartiles: half of the rounds are between them.
    pub quartiles: (Duration, Duration),
}

impl Measured {
    fn new(title: impl Into<String>, (bytes, flops): (Option<u64>, f64), mut times: Vec<Duration>) -> Measured {
        times.sort_unstable();
        let at = |part: usize| times.get((times.len() - 1) * part / 4).copied().unwrap_or_default();
        Measured { title: title.into(), bytes, flops, time: at(2), quartiles: (at(1), at(3)) }
    }

    /// Bytes in a nanosecond, that is, gigabytes in a second.
    pub fn rate(&self) -> Option<f64> {
        Some(self.bytes? as f64 / self.time.as_nanos().max(1) as f64)
    }
}

impl Benchmark {
    /// Measures a function; a size name without a size gets one. `progress` is told how much is done, of 1.
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
        let mut forms = [Rounds::new(&unfused), Rounds::new(&fused)];
        let mut copy = Copy::new(fused.threads(), fused.gpu())?;
        copy.measure(false)?;
        let begin = Instant::now();
        let mut rounds = 0;
        while rounds < ROUNDS.start || (rounds < ROUNDS.end && begin.elapsed() < ENOUGH) {
            for form in &mut forms {
                // Once before, so that caches hold what its own call leaves there; the first time, memory is mapped and threads are made.
                form.measure(&mut arrays, false)?;
                form.measure(&mut arrays, true)?;
            }
            copy.measure(true)?;
            rounds += 1;
            let part = rounds as f64 / ROUNDS.start as f64;
            progress(part.min(begin.elapsed().as_secs_f64() / ENOUGH.as_secs_f64()).min(1.0));
        }
        let report = explanation.report();
        let [before, after] = forms;
        Ok(Benchmark {
            function: report.function.clone(),
            sizes: sizes.named,
            threads: fused.threads(),
            gpu: fused.gpu().map(|gpu| gpu.facts().name),
            fuse: options.fuse,
            rounds,
            working_set,
            copy: copy.measured(),
            unfused: before.measurement(&report.before),
            fused: after.measurement(&report.after),
        })
    }

    /// How long the fused function takes, of the time of the unfused one.
    pub fn ratio(&self) -> f64 {
        self.fused.total.time.as_secs_f64() / self.unfused.total.time.as_secs_f64().max(1e-9)
    }

    /// The measurements as a page: one file of HTML that needs no other, with this machine's roofline.
    pub fn to_html(&self) -> String {
        page::bench(self)
    }

    /// The measurements for programs: one line, whose fields `docs/json.md` lists.
    pub fn to_json(&self) -> String {
        report::json(self)
    }
}

impl fmt::Display for Benchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        report::text(self, f)
    }
}

/// The arrays of a call, where it runs.
enum Arrays {
    Host { inputs: Vec<Array>, outputs: Vec<Array> },
    Gpu { inputs: Vec<DeviceArray>, outputs: Vec<DeviceArray> },
}

/// The rounds of one form of the function.
struct Rounds<'k> {
    kernel: &'k Kernel,
    /// Of each kernel, the time of each round.
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
            // By the device's clock.
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

    fn measurement(self, stage: &Stage) -> Measurement {
        let kernels = stage.kernels.iter().zip(self.times);
        let work = |figures: &Figures| (figures.bytes.value, figures.flops);
        Measurement {
            kernels: kernels.map(|(k, times)| Measured::new(&k.title, work(&k.figures), times)).collect(),
            total: Measured::new("all", work(&stage.total), self.totals),
        }
    }
}

/// A copy of a large array: by so many threads, or by a GPU.
pub(crate) struct Copy {
    arrays: Copied,
    times: Vec<Duration>,
}

/// What is copied to what.
enum Copied {
    Host { from: Vec<u8>, to: Vec<u8>, threads: usize },
    Gpu { from: DeviceArray, to: DeviceArray },
}

impl Copy {
    pub(crate) fn new(threads: usize, gpu: Option<&Arc<Gpu>>) -> Result<Copy, BenchError> {
        let array = |byte| {
            let mut bytes = vec![];
            bytes.try_reserve_exact(COPY).map_err(|_| ArrayError::OutOfMemory { bytes: COPY })?;
            bytes.resize(COPY, byte);
            Ok::<_, ArrayError>(bytes)
        };
        let arrays = match gpu {
            None => Copied::Host { from: array(1)?, to: array(2)?, threads },
            Some(gpu) => {
                let array = || DeviceArray::zeros(gpu, Dtype::U8, &[COPY]).map_err(BenchError::Gpu);
                Copied::Gpu { from: array()?, to: array()? }
            }
        };
        Ok(Copy { arrays, times: vec![] })
    }

    pub(crate) fn measure(&mut self, counts: bool) -> Result<(), BenchError> {
        let time = match &mut self.arrays {
            Copied::Host { from, to, threads } => {
                let piece = COPY.div_ceil(*threads);
                let start = Instant::now();
                std::thread::scope(|scope| {
                    for (from, to) in from.chunks(piece).zip(to.chunks_mut(piece)) {
                        scope.spawn(|| to.copy_from_slice(black_box(from)));
                    }
                });
                start.elapsed()
            }
            Copied::Gpu { from, to } => from.copy_to(to).map_err(BenchError::Gpu)?,
        };
        if counts {
            self.times.push(time);
        }
        Ok(())
    }

    pub(crate) fn measured(self) -> Measured {
        Measured::new("copy", (Some(2 * COPY as u64), 0.0), self.times)
    }
}

/// Why nothing was measured.
#[derive(Debug)]
pub enum BenchError {
    /// It cannot be compiled, or a size is not one of the function's.
    Explain(ExplainError),
    /// The call fails: the sizes do not fit, say.
    Run(RunError),
    /// There is no memory for the arrays.
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
