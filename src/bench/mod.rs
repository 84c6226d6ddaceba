//! Measures the gain from fusion: runs the unfused and the fused function in turn, with copies in
//! between, so that all are measured in the same state of the machine.

pub(crate) mod copy;
mod setup;

use std::fmt;
use std::time::{Duration, Instant};

use compiler::explain::{Figures, Stage};
use ir::array::{Array, ArrayError};
use ir::decision::Passes;
use reports::bench::{Benchmark, Difference, Measured, Measurement};

use crate::kernel::Kernel;
use crate::{CompileError, Device, ExplainError, Function, Options, RunError, roof};
#[cfg(feature = "gpu")]
use crate::{DeviceArray, GpuError};

use copy::Copies;

/// The minimum and maximum number of rounds.
const ROUNDS: std::ops::Range<usize> = 4..100;

/// On a GPU, calls are repeated for about this time, but at most as many times.
#[cfg(feature = "gpu")]
const SHORTEST: Duration = Duration::from_millis(2);
#[cfg(feature = "gpu")]
const MOST: u32 = 50;
/// No round begins after this time.
const ENOUGH: Duration = Duration::from_secs(3);

/// Measures a function. A size name that is not given a size gets one. `progress` is called
/// with the finished fraction, from 0 to 1.
pub(crate) fn measure(
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
    let shapes = unfused.output_shapes(&inputs)?;
    let slots = unfused.signature().results.iter().zip(&shapes);
    let outputs: Vec<Array> = slots.map(|(slot, shape)| crate::zeros(slot.dtype, shape)).collect::<Result<_, _>>()?;
    let working_set = inputs.iter().chain(&outputs).map(|array| array.bytes().len() as u64).sum();
    let mut arrays = Arrays::new(&fused, inputs, outputs)?;
    let report = explanation.report();
    let mut forms = vec![(Rounds::new(&fused), &report.after)];
    if unfused.program() != fused.program() {
        forms.insert(0, (Rounds::new(&unfused), &report.before));
    }
    let kernels = report.before.kernels.iter().chain(&report.after.kernels).map(|kernel| &kernel.figures);
    let figures = kernels.chain([&report.before.total, &report.after.total]);
    let moved = figures.filter_map(|figures| figures.bytes.value);
    let mut copies = Copies::new(options, Some(&fused), moved)?;
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
        gpu: fused.gpu_name(),
        fuse: options.fuse,
        rounds,
        working_set,
        copy: copies.largest(),
        unfused: before,
        fused: after,
        difference,
        roof: if fused.gpu_name().is_some() { || Some(roof::of_gpu()) } else { roof::of_cpu },
    })
}

/// The measurement with the copy that moves about as many bytes.
fn beside(measured: Measured, copies: &Copies) -> Measured {
    match measured.bytes.and_then(|bytes| copies.beside(bytes)) {
        Some(beside) => Measured { copy_rate: Some(beside.rate), in_cache: beside.in_cache, ..measured },
        None => measured,
    }
}

/// The arrays of a call, on the device that runs it.
enum Arrays {
    Host {
        inputs: Vec<Array>,
        outputs: Vec<Array>,
    },
    #[cfg(feature = "gpu")]
    Gpu {
        inputs: Vec<DeviceArray>,
        outputs: Vec<DeviceArray>,
    },
}

impl Arrays {
    /// The arrays where a kernel runs.
    fn new(_kernel: &Kernel, inputs: Vec<Array>, outputs: Vec<Array>) -> Result<Arrays, RunError> {
        #[cfg(feature = "gpu")]
        if _kernel.gpu().is_some() {
            return Ok(Arrays::Gpu { inputs: _kernel.upload(&inputs)?, outputs: _kernel.upload(&outputs)? });
        }
        Ok(Arrays::Host { inputs, outputs })
    }
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
            #[cfg(feature = "gpu")]
            Arrays::Gpu { inputs, outputs } => {
                let inputs: Vec<_> = inputs.iter().collect();
                let mut outputs: Vec<_> = outputs.iter_mut().collect();
                self.kernel.call_timed_on_gpu(&inputs, &mut outputs, &mut times)?;
                // Between kernels that are timed one by one the device waits for the host. A call
                // that is repeated is recorded, and its kernels run as fast as they can.
                let one_by_one = times.iter().sum::<Duration>();
                let repetitions = SHORTEST.as_nanos() / one_by_one.as_nanos().max(1);
                let repetitions = u32::try_from(repetitions).unwrap_or(MOST).clamp(1, MOST);
                let repeated = if counts { self.kernel.time_on_gpu(&inputs, &mut outputs, repetitions)? } else { None };
                repeated.unwrap_or(one_by_one)
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
                .map(|(k, times)| beside(Measured::new(k.title(), work(&k.figures), times), copies))
                .collect(),
            total: beside(Measured::new("all", work(&stage.total), self.totals), copies),
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
    #[cfg(feature = "gpu")]
    Gpu(GpuError),
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchError::Explain(error) => error.fmt(f),
            BenchError::Run(error) => error.fmt(f),
            BenchError::Memory(error) => error.fmt(f),
            #[cfg(feature = "gpu")]
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
