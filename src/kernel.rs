//! A compiled function: call it with arrays of any size, as often as you like, from any thread.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use backends::cpu::Simd;
use backends::ptx::{Math, Phases};
use compiler::plan::peak::Peak;
use ir::Binding;
use ir::array::{Array, ArrayMut, ArrayRef};
use ir::checked::Checked;
use ir::decision::Passes;
use ir::nest::Program;
use ir::sabotage::{self, Bug};

use crate::boundary;
use crate::error::Context;
use crate::explain::limit;
use crate::{CompileError, RunError, RunErrorKind, Signature, Source};

/// How a function is compiled and run. None of it changes a result by a bit.
///
/// ```
/// use fuseloop::{Device, Options};
///
/// let options = Options { device: Device::Interp, ..Options::default() };
/// assert_eq!(options.threads, 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// What runs it.
    pub device: Device,
    /// How many threads may work on a call; 0 stands for as many as the machine has.
    pub threads: usize,
    /// Refuses calls whose arrays, inputs and intermediate ones included, take more bytes at once.
    pub max_memory: Option<u64>,
    /// Refuses calls that take more of a GPU's memory; what it has not free is refused in any case.
    pub max_device_memory: Option<u64>,
    /// A folder in which a GPU's kernels are kept for the next time.
    pub cache: Option<PathBuf>,
    /// The passes that may merge kernels.
    pub fuse: Passes,
    /// How wide the vectors of [`Device::Cpu`] are.
    pub simd: Simd,
    /// What functions may give up for speed; one with `@fast` before it is [`Math::Fast`] whatever stands here.
    pub math: Math,
}

impl Options {
    /// What a function may give up.
    pub(crate) fn math(&self, checked: &Checked) -> Math {
        if checked.fast { Math::Fast } else { self.math }
    }

    pub(crate) fn pipeline(&self) -> compiler::pipeline::Options {
        compiler::pipeline::Options { fuse: self.fuse, ..compiler::pipeline::Options::default() }
    }
}

/// The wish that something ends, shared by those who may have it and who runs something.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Has the wish.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether somebody had it.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What runs a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// Machine code for this processor.
    #[default]
    Cpu,
    /// Machine code for this machine's first CUDA device. [`Function::compile`](crate::Function::compile) says if there is none.
    Gpu,
    /// For each call whichever of the two is faster with its arrays, by the cost model; the CPU where there is no GPU.
    Auto,
    /// The reference interpreter: slow, and the meaning of the program.
    Interp,
}

/// How long it took to get from text to something that can be called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Text to syntax tree.
    pub parse: Duration,
    /// Names, types, shapes and bounds of every function of the program.
    pub check: Duration,
    /// To kernels.
    pub lower: Duration,
    /// To machine code.
    pub compile: Duration,
}

impl Times {
    /// All of it.
    pub fn total(&self) -> Duration {
        self.parse + self.check + self.lower + self.compile
    }
}

/// A compiled function.
pub struct Kernel {
    source: Arc<Source>,
    signature: Signature,
    program: Program,
    engine: Engine,
    threads: usize,
    max_memory: Option<u64>,
    peak: Peak,
    times: Times,
}

const _: () = {
    const fn shared_between_threads<T: Send + Sync>() {}
    shared_between_threads::<Kernel>();
};

impl Kernel {
    pub(crate) fn new(
        source: Arc<Source>,
        checked: &Checked,
        signature: Signature,
        options: &Options,
        mut times: Times,
    ) -> Result<Kernel, CompileError> {
        let start = Instant::now();
        let compiled = compiler::pipeline::compile(checked, &options.pipeline())?;
        limit::hold(&source, checked, (options.fuse == Passes::ALL).then_some(&compiled))?;
        let program = compiled.program;
        times.lower = start.elapsed();
        let threads = match options.threads {
            0 => backends::cpu::cores(),
            n => n,
        };
        let start = Instant::now();
        let options = Options { math: options.math(checked), ..options.clone() };
        let engine = Engine::new(&program, &options, threads)?;
        times.compile = start.elapsed();
        let (peak, max_memory) = (Peak::of(&program), options.max_memory);
        Ok(Kernel { source, signature, program, engine, threads, max_memory, peak, times })
    }

    /// What the function takes and gives.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// How long it took to make this kernel.
    pub fn times(&self) -> Times {
        self.times
    }

    /// The shapes of the results for these inputs. (Values matter, not shapes alone: a size may be an argument.)
    pub fn output_shapes(&self, inputs: &[ArrayRef<'_>]) -> Result<Vec<Vec<usize>>, RunError> {
        self.enter(|| self.shapes(&self.bind(inputs)?))
    }

    /// Calls the function and gives its results, in order.
    pub fn call(&self, inputs: &[ArrayRef<'_>]) -> Result<Vec<Array>, RunError> {
        Ok(self.call_in_phases(inputs)?.0)
    }

    /// Calls the function unless somebody cancels it, before or as it runs. On the CPU and in the interpreter it then ends within
    /// milliseconds; a GPU ends what it has begun.
    ///
    /// ```
    /// use fuseloop::{Cancel, Options, Program};
    ///
    /// let program = Program::parse("fn forever() -> f64 = sum[i < 400000, j < 400000](sin(f64(i * j)))")?;
    /// let kernel = program.main()?.compile(&Options::default())?;
    /// let cancel = Cancel::default();
    /// let other = cancel.clone();
    /// let call = std::thread::spawn(move || kernel.call_unless(&[], &other).map(|_| ()));
    /// cancel.cancel();
    /// assert_eq!(call.join().unwrap().unwrap_err().code().to_string(), "E0243");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn call_unless(&self, inputs: &[ArrayRef<'_>], cancel: &Cancel) -> Result<Vec<Array>, RunError> {
        if cancel.is_cancelled() && !sabotage::on(Bug::CancelUnseen) {
            return Err(self.context().error(RunErrorKind::Cancelled));
        }
        Ok(self.enter(|| self.call_watched(inputs, Some(cancel)))?.0)
    }

    /// Calls the function, and says how long a GPU took to get the inputs, to run the kernels and to give the results back, if one did.
    pub fn call_in_phases(&self, inputs: &[ArrayRef<'_>]) -> Result<(Vec<Array>, Option<Phases>), RunError> {
        self.enter(|| self.call_watched(inputs, None))
    }

    /// Runs a request from outside, with panics turned into errors.
    fn enter<T>(&self, run: impl FnOnce() -> Result<T, RunError>) -> Result<T, RunError> {
        boundary::enter(|message| self.context().error(RunErrorKind::Engine(message)), run)
    }

    fn call_watched(
        &self,
        inputs: &[ArrayRef<'_>],
        cancel: Option<&Cancel>,
    ) -> Result<(Vec<Array>, Option<Phases>), RunError> {
        let shapes = self.shapes(&self.bind(inputs)?)?;
        if let Engine::Interp = self.engine {
            return Ok((self.interpret(inputs, cancel)?, None));
        }
        let slots = self.signature.results.iter().zip(&shapes);
        let outputs = slots.map(|(slot, shape)| crate::zeros(slot.dtype, shape).map_err(|e| self.context().array(e)));
        let mut outputs = outputs.collect::<Result<Vec<_>, _>>()?;
        let mut lent: Vec<_> = outputs.iter_mut().map(Array::as_mut).collect();
        let mut phases = Phases::default();
        let on_gpu = self.run(inputs, &mut lent, Some(&mut phases), cancel)?;
        Ok((outputs, on_gpu.then_some(phases)))
    }

    /// Calls the function and writes its results, in order, to arrays of the caller's. After an error these hold
    /// what they held before.
    ///
    /// ```
    /// use fuseloop::{Array, ArrayMut, ArrayRef, Dtype, Options, Program};
    ///
    /// let program = Program::parse("fn next(x: i32[n]) = x + 1")?;
    /// let kernel = program.main()?.compile(&Options::default())?;
    /// let mut out = Array::zeros(Dtype::I32, &[2])?;
    /// let x = [3i32, -1].map(i32::to_ne_bytes).concat();
    /// kernel.call_into(&[ArrayRef::new(Dtype::I32, &[2], &x)?], &mut [out.as_mut()])?;
    /// assert_eq!(out.bytes(), [4i32, 0].map(i32::to_ne_bytes).concat());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn call_into(&self, inputs: &[ArrayRef<'_>], outputs: &mut [ArrayMut<'_>]) -> Result<(), RunError> {
        self.enter(|| {
            // The compiling engine checks the arrays itself; checking them twice would take as long
            // as a small call.
            if self.max_memory.is_some() || matches!(self.engine, Engine::Interp) {
                self.fit(inputs, outputs)?;
            }
            self.run(inputs, outputs, None, None).map(|_| ())
        })
    }

    /// Whether the arrays fit the function and each other.
    fn fit(&self, inputs: &[ArrayRef<'_>], outputs: &[ArrayMut<'_>]) -> Result<(), RunError> {
        let shapes = self.shapes(&self.bind(inputs)?)?;
        let results = &self.signature.results;
        if outputs.len() != results.len() && !sabotage::on(Bug::OutputsUncounted) {
            let results = results.iter().map(|slot| slot.name.clone()).collect();
            return Err(self.context().error(RunErrorKind::OutputCount { results, found: outputs.len() }));
        }
        for ((slot, shape), output) in results.iter().zip(shapes).zip(outputs) {
            let expected = (slot.dtype, shape);
            let found = (output.dtype(), output.shape().to_vec());
            if found != expected {
                return Err(self.context().error(RunErrorKind::Output { result: slot.name.clone(), expected, found }));
            }
        }
        Ok(())
    }

    /// Runs the function, and says whether a GPU did.
    fn run(
        &self,
        inputs: &[ArrayRef<'_>],
        outputs: &mut [ArrayMut<'_>],
        phases: Option<&mut Phases>,
        cancel: Option<&Cancel>,
    ) -> Result<bool, RunError> {
        let cpu = match &self.engine {
            Engine::Cpu(module) => module,
            Engine::Gpu(gpu) => return self.run_on(gpu, inputs, outputs, phases),
            Engine::Auto(either) => {
                let binding = self.bind(inputs)?;
                let moved = inputs.iter().map(|input| input.bytes().len() as u64);
                let moved = moved.chain(outputs.iter_mut().map(|output| output.bytes_mut().len() as u64)).sum();
                match either.choose(&self.program, &binding, moved, self.threads) {
                    Some(gpu) => return self.run_on(gpu, inputs, outputs, phases),
                    None => either.cpu(),
                }
            }
            Engine::Interp => {
                for (to, from) in outputs.iter_mut().zip(self.interpret(inputs, cancel)?) {
                    to.bytes_mut().copy_from_slice(from.bytes());
                }
                return Ok(false);
            }
        };
        let done = match cancel {
            Some(cancel) => cpu.run_unless(inputs, outputs, self.threads, &cancel.0),
            None => cpu.run(inputs, outputs, self.threads),
        };
        match done {
            Ok(()) => Ok(false),
            // If the arrays do not fit, this says so in the terms of the source.
            Err(e) => Err(self.fit(inputs, outputs).err().unwrap_or_else(|| self.context().cpu(e, inputs))),
        }
    }

    fn run_on(
        &self,
        gpu: &OnGpu,
        inputs: &[ArrayRef<'_>],
        outputs: &mut [ArrayMut<'_>],
        phases: Option<&mut Phases>,
    ) -> Result<bool, RunError> {
        match gpu.run(&self.context(), inputs, outputs, phases) {
            Ok(()) => Ok(true),
            Err(error) => Err(self.fit(inputs, outputs).err().unwrap_or(error)),
        }
    }

    fn interpret(&self, inputs: &[ArrayRef<'_>], cancel: Option<&Cancel>) -> Result<Vec<Array>, RunError> {
        let outcome = match cancel {
            Some(cancel) => interp::nest::run_unless(&self.program, inputs, &cancel.0),
            None => interp::nest::run(&self.program, inputs),
        };
        outcome.map(|o| o.outputs).map_err(|e| self.context().interp(e, inputs))
    }

    /// Calls the function as [`Kernel::call_into`] does, and adds to the n-th of `times` how long its n-th kernel took.
    pub(crate) fn call_timed(
        &self,
        inputs: &[ArrayRef<'_>],
        outputs: &mut [ArrayMut<'_>],
        times: &mut [Duration],
    ) -> Result<(), RunError> {
        match &self.engine {
            Engine::Cpu(module) => {
                let done = module.run_timed(inputs, outputs, self.threads, times);
                done.map_err(|e| self.context().cpu(e, inputs))
            }
            _ => self.run(inputs, outputs, None, None).map(|_| ()),
        }
    }

    /// Its loop nests.
    pub(crate) fn program(&self) -> &Program {
        &self.program
    }

    /// How many threads may work on a call.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// The sizes of a call, if its inputs fit and the memory is granted.
    fn bind(&self, inputs: &[ArrayRef<'_>]) -> Result<Binding, RunError> {
        let context = self.context();
        let binding = Binding::new(&self.program, inputs).map_err(|e| context.bind(e, inputs))?;
        if let Some(limit) = self.max_memory {
            let beside = match &self.engine {
                Engine::Cpu(module) => module.beside(&binding, self.threads),
                Engine::Auto(either) => either.cpu().beside(&binding, self.threads),
                Engine::Gpu(_) | Engine::Interp => Ok(0),
            };
            let beside = beside.map_err(|e| context.cpu(e, inputs))?;
            let needed = self.peak.at(&|size| binding.number(size), self.threads).saturating_add(beside);
            if needed > limit.into() {
                return Err(context.error(RunErrorKind::Memory { needed, limit }));
            }
        }
        Ok(binding)
    }

    fn shapes(&self, binding: &Binding) -> Result<Vec<Vec<usize>>, RunError> {
        let outputs = self.program.outputs();
        let none: [ArrayRef<'_>; 0] = [];
        let shape = |buffer| binding.shape(&self.program, buffer).map_err(|e| self.context().bind(e, &none));
        let mut shapes: Vec<Vec<usize>> = outputs.into_iter().map(shape).collect::<Result<_, _>>()?;
        if sabotage::on(Bug::TurnedShapes) {
            shapes.reverse();
        }
        Ok(shapes)
    }

    fn context(&self) -> Context<'_> {
        Context { source: &self.source, program: &self.program, signature: &self.signature }
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("signature", &self.signature.to_string()).finish_non_exhaustive()
    }
}

mod engine;

use engine::{Engine, OnGpu};

#[cfg(test)]
mod tests;
