//! The engine behind a kernel: the device of the options, ready to run. [`Device::Auto`] has the
//! CPU's code from the start, and the GPU's once enough calls would have gained from it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use backends::cuda::{self, Cache, DeviceArray, Gpu, Replay};
use backends::{cpu, ptx};
use compiler::analysis::cost;
use ir::array::{Array, ArrayMut, ArrayRef};
use ir::bind::Binding;
use ir::nest::Program;
use schedule::{Machine, schedule};

use super::{Device, Kernel, Options};
use crate::error::Context;
use crate::{CompileError, RunError, RunErrorKind};

/// The engine that runs a kernel.
pub(super) enum Engine {
    /// The CPU.
    Cpu(Box<cpu::Module>),
    /// A GPU, with the options for the CPU, which is asked for the exact fault if there are
    /// several.
    Gpu(Box<OnGpu>),
    /// Whichever of the two is faster.
    Auto(Box<Either>),
    /// The interpreter.
    Interp,
}

/// A kernel on a GPU.
pub(super) struct OnGpu {
    module: cuda::Module,
    cpu: cpu::Options,
}

/// A kernel that runs on the CPU, or on the GPU once that pays off.
pub(super) struct Either {
    cpu: cpu::Module,
    options: Options,
    /// The GPU; `None` inside if there is none.
    gpu: OnceLock<Option<OnGpu>>,
    /// The nanoseconds that the GPU would have saved so far.
    lost: AtomicU64,
}

/// The cost in nanoseconds of initializing a GPU, and of assembling a kernel for it.
const START: u64 = 300_000_000;
const ASSEMBLE: u64 = 30_000_000;
/// The bytes per nanosecond between the host and a GPU, and the minimum nanoseconds of a call.
const BUS: f64 = 20.0;
const CALL: f64 = 30_000.0;

impl Engine {
    pub(super) fn new(program: &Program, options: &Options, threads: usize) -> Result<Engine, CompileError> {
        let cpu = cpu::Options { threads, simd: options.simd, ..cpu::Options::default() };
        Ok(match options.device {
            Device::Cpu => Engine::Cpu(Box::new(on_cpu(program, &cpu)?)),
            Device::Gpu => Engine::Gpu(Box::new(OnGpu::new(program, options, cpu)?)),
            Device::Auto => Engine::Auto(Box::new(Either {
                cpu: on_cpu(program, &cpu)?,
                options: options.clone(),
                gpu: OnceLock::new(),
                lost: AtomicU64::new(0),
            })),
            Device::Interp => Engine::Interp,
        })
    }

    /// The GPU that it runs on, if one is ready.
    pub(super) fn on_gpu(&self) -> Option<&OnGpu> {
        match self {
            Engine::Gpu(gpu) => Some(gpu),
            Engine::Auto(either) => either.gpu.get()?.as_ref(),
            Engine::Cpu(_) | Engine::Interp => None,
        }
    }
}

/// A program's code for the CPU.
fn on_cpu(program: &Program, options: &cpu::Options) -> Result<cpu::Module, CompileError> {
    Ok(cpu::Module::compile(&schedule(program, Machine::CPU)?, options)?)
}

impl OnGpu {
    fn new(program: &Program, options: &Options, cpu: cpu::Options) -> Result<OnGpu, CompileError> {
        let gpu = Gpu::get(0)?;
        let limit = options.max_device_memory.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let cache = options.cache.as_ref().map(Cache::new);
        let scheduled = schedule(program, Machine::PTX)?;
        Ok(OnGpu { module: cuda::Module::new(&gpu, &scheduled, options.math, limit, cache.as_ref())?, cpu })
    }

    /// Runs a call. A GPU finds subscripts out of bounds in no fixed order, so after a fault the
    /// CPU repeats the call to find the first.
    pub(super) fn run(
        &self,
        context: &Context<'_>,
        inputs: &[ArrayRef<'_>],
        outputs: &mut [ArrayMut<'_>],
        phases: Option<&mut ptx::Phases>,
    ) -> Result<(), RunError> {
        let failure = match self.module.run(inputs, outputs, phases) {
            Ok(()) => return Ok(()),
            Err(failure) => failure,
        };
        if let cuda::Failure::Call(cpu::RunError::Fault(_)) = failure {
            let mut own = vec![];
            for output in outputs.iter() {
                own.push(crate::zeros(output.dtype(), output.shape()).map_err(|e| context.array(e))?);
            }
            let mut own: Vec<_> = own.iter_mut().map(Array::as_mut).collect();
            if let Ok(module) = on_cpu(context.program, &self.cpu)
                && let Err(error) = module.run(inputs, &mut own, 1)
            {
                return Err(context.cpu(error, inputs));
            }
        }
        Err(context.gpu(failure, inputs))
    }
}

impl Either {
    /// The engine for a call of these sizes on this many threads.
    pub(super) fn choose(&self, program: &Program, binding: &Binding, bytes: u64, threads: usize) -> Option<&OnGpu> {
        let sizes = cost::given(|symbol| binding.symbol(symbol));
        let time = |machine: &cost::Machine, threads: f64| -> f64 {
            let price = |kernel| cost::price(program, kernel, &sizes, machine).time - machine.launch;
            program.kernels.values().map(|kernel| machine.launch + price(kernel) / threads).sum()
        };
        let here = time(&cost::Machine::NOMINAL, threads as f64);
        let there = CALL + bytes as f64 / BUS + time(&cost::Machine::GPU, 1.0);
        if there >= here {
            return None;
        }
        if let Some(gpu) = self.gpu.get() {
            return gpu.as_ref();
        }
        // Initializing the GPU takes longer than most calls do, so it waits until calls have lost
        // as much time without it.
        let saved = (here - there) as u64;
        let lost = self.lost.fetch_add(saved, Ordering::Relaxed).saturating_add(saved);
        let ready = ASSEMBLE + if Gpu::is_ready(0) { 0 } else { START };
        if lost < ready {
            return None;
        }
        let cpu = cpu::Options { threads, simd: self.options.simd, ..cpu::Options::default() };
        self.gpu.get_or_init(|| OnGpu::new(program, &self.options, cpu).ok()).as_ref()
    }

    /// The CPU's code.
    pub(super) fn cpu(&self) -> &cpu::Module {
        &self.cpu
    }
}

impl Kernel {
    /// The GPU that it runs on, if it is compiled for one.
    pub fn gpu(&self) -> Option<&Arc<Gpu>> {
        self.engine.on_gpu().map(|gpu| gpu.module.gpu())
    }

    fn on_gpu(&self) -> Result<&OnGpu, RunError> {
        self.engine.on_gpu().ok_or_else(|| self.context().error(RunErrorKind::NotOnGpu))
    }

    /// Calls the function on arrays in the GPU's memory. Its kernels may still be running when this
    /// returns; later uses of the results wait for them.
    pub fn call_on_gpu(&self, inputs: &[&DeviceArray]) -> Result<Vec<DeviceArray>, RunError> {
        self.enter(|| self.results_on_gpu(inputs))
    }

    fn results_on_gpu(&self, inputs: &[&DeviceArray]) -> Result<Vec<DeviceArray>, RunError> {
        let gpu = self.on_gpu()?;
        let shapes = gpu.module.output_shapes(inputs).map_err(|e| self.context().gpu(e, inputs))?;
        let slots = self.signature.results.iter().zip(shapes);
        let zeros = slots.map(|(slot, shape)| DeviceArray::new(gpu.module.gpu(), slot.dtype, &shape));
        let zeros: Result<Vec<_>, _> = zeros.collect();
        let mut outputs = zeros.map_err(|e| self.context().gpu(e.into(), inputs))?;
        self.call_on_gpu_into(inputs, &mut outputs.iter_mut().collect::<Vec<_>>())?;
        Ok(outputs)
    }

    /// Calls the function on arrays in the GPU's memory and writes its results to other such
    /// arrays.
    pub fn call_on_gpu_into(&self, inputs: &[&DeviceArray], outputs: &mut [&mut DeviceArray]) -> Result<(), RunError> {
        self.enter(|| self.on_gpu()?.module.enqueue(inputs, outputs).map_err(|e| self.context().gpu(e, inputs)))
    }

    /// Arrays of the host, copied to the GPU's memory.
    pub(crate) fn upload(&self, arrays: &[Array]) -> Result<Vec<DeviceArray>, RunError> {
        let gpu = self.on_gpu()?.module.gpu();
        let none: [ArrayRef<'_>; 0] = [];
        let upload = |array: &Array| DeviceArray::upload(gpu, array.as_ref());
        arrays.iter().map(|a| upload(a).map_err(|e| self.context().gpu(e.into(), &none))).collect()
    }

    /// Like [`Kernel::call_on_gpu_into`], but waits, and adds the time of each kernel to its entry.
    pub(crate) fn call_timed_on_gpu(
        &self,
        inputs: &[&DeviceArray],
        outputs: &mut [&mut DeviceArray],
        times: &mut [Duration],
    ) -> Result<(), RunError> {
        self.on_gpu()?.module.run_timed(inputs, outputs, times).map_err(|e| self.context().gpu(e, inputs))
    }

    /// Prepares calls that are replayed together, each on inputs and results of its own.
    pub fn record(&self, calls: Vec<(Vec<DeviceArray>, Vec<DeviceArray>)>) -> Result<Replay<'_>, RunError> {
        let none: [ArrayRef<'_>; 0] = [];
        self.on_gpu()?.module.record(calls).map_err(|e| self.context().gpu(e, &none))
    }
}
