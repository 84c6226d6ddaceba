//! The engine behind a kernel: the device of the options, ready to run. [`Device::Auto`] has the
//! CPU's code from the start, and the GPU's once enough calls would have gained from it.

#[cfg(feature = "gpu")]
mod gpu;
#[cfg(feature = "interp")]
mod interpreter;
#[cfg(not(all(feature = "gpu", feature = "interp")))]
mod left_out;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use backends::cpu;
use compiler::analysis::cost;
use ir::bind::Binding;
use ir::nest::Program;
use schedule::{Machine, schedule};

use super::{Device, Options};
use crate::CompileError;

#[cfg(feature = "gpu")]
pub(super) use gpu::OnGpu;
#[cfg(feature = "gpu")]
pub use gpu::{DeviceInput, DeviceInputs, DeviceOutputs};
#[cfg(feature = "interp")]
pub(super) use interpreter::Interpreter;
#[cfg(not(feature = "interp"))]
pub(super) use left_out::Interpreter;
#[cfg(not(feature = "gpu"))]
pub(super) use left_out::OnGpu;

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
    Interp(Interpreter),
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
            Device::Interp => Engine::Interp(Interpreter::new()?),
        })
    }
}

/// A program's code for the CPU.
fn on_cpu(program: &Program, options: &cpu::Options) -> Result<cpu::Module, CompileError> {
    Ok(cpu::Module::compile(&schedule(program, Machine::CPU)?, options)?)
}

impl Either {
    /// The engine for a call of these sizes on this many threads.
    pub(super) fn choose(&self, program: &Program, binding: &Binding, bytes: u64, threads: usize) -> Option<&OnGpu> {
        let sizes = cost::given(|symbol| binding.symbol(symbol));
        let runs = cost::runs(program, &sizes);
        let time = |machine: &cost::Machine, threads: f64| -> f64 {
            let price = |kernel| cost::price(program, kernel, &sizes, machine).time - machine.launch;
            let times = program.kernels.values().map(|kernel| machine.launch + price(kernel) / threads);
            times.zip(&runs).map(|(time, runs)| time * runs).sum()
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
        let ready = ASSEMBLE + if OnGpu::is_ready() { 0 } else { START };
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
