//! A compiled function. It can be called with arrays of any size, any number of times, from any
//! thread.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use backends::cpu::Simd;
use backends::{Math, Phases};
use compiler::plan::peak::Peak;
use ir::Binding;
use ir::array::{Array, ArrayMut, ArrayRef, Input, Inputs, Outputs};
use ir::checked::Checked;
use ir::decision::Passes;
use ir::nest::Program;
use ir::sabotage::{self, Bug};
use ir::sched::Machine;

use crate::boundary;
use crate::error::Context;
use crate::limit;
use crate::{CompileError, NameFault, Outline, Partition, RunError, RunErrorKind, Signature, Source};

/// How a function is compiled and run. No option changes a result by even a bit, except `math`.
///
/// ```
/// use fuseloop::{Device, Options};
///
/// let options = Options { device: Device::Interp, ..Options::default() };
/// assert_eq!(options.threads, 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The device that runs it.
    pub device: Device,
    /// The number of threads that may work on a call; 0 stands for all that the machine has.
    pub threads: usize,
    /// The limit on the bytes of a call's arrays, inputs and temporaries included. A call that
    /// needs more at once is refused (E0240). `None`, the default, is no limit.
    pub max_memory: Option<u64>,
    /// The limit on a call's GPU memory. A call that needs more than is free is refused in any
    /// case.
    pub max_device_memory: Option<u64>,
    /// The limit on the steps of each loop: a call in which one takes more ends in an error
    /// (E0244).
    pub max_steps: Option<u64>,
    /// A folder in which assembled GPU kernels are cached.
    pub cache: Option<PathBuf>,
    /// The passes that may merge kernels.
    pub fuse: Passes,
    /// The vector width of [`Device::Cpu`].
    pub simd: Simd,
    /// Whether functions may give up exact bits for speed. A function marked `@fast` is always
    /// [`Math::Fast`].
    pub math: Math,
}

impl Options {
    /// Whether a function may give up exact bits.
    pub(crate) fn math(&self, checked: &Checked) -> Math {
        if checked.fast { Math::Fast } else { self.math }
    }

    pub(crate) fn pipeline(&self) -> compiler::pipeline::Options {
        let (fuse, max_steps) = (self.fuse, self.max_steps);
        compiler::pipeline::Options { fuse, max_steps, ..compiler::pipeline::Options::default() }
    }
}

/// A request to cancel, shared by those who may make it and the call that it ends.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Makes the request.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Takes the request back, so that it may be made again for a later call.
    pub fn withdraw(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Whether the request was made.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How one call differs from other calls of its kernel.
///
/// ```
/// use fuseloop::{CallOptions, Options, Program};
///
/// let kernel = Program::parse("fn total(x: f64[n]) = sum(x)")?.main()?.compile(&Options::default())?;
/// let alone = CallOptions { threads: 1, ..CallOptions::default() };
/// let total = kernel.call_with((&vec![0.5f64; 1000],), &alone)?;
/// assert_eq!(total[0].as_slice::<f64>()?, [500.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct CallOptions<'a> {
    /// The number of threads that may work on it, no more than [`Options::threads`]; 0 stands for
    /// those.
    pub threads: usize,
    /// The request that ends it.
    pub cancel: Option<&'a Cancel>,
}

impl<'a> CallOptions<'a> {
    /// A call that `cancel` ends, on all threads.
    pub fn until(cancel: &'a Cancel) -> CallOptions<'a> {
        CallOptions { cancel: Some(cancel), ..CallOptions::default() }
    }
}

/// The device that runs a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// Machine code for this processor.
    #[default]
    Cpu,
    /// Machine code for this machine's first CUDA device.
    /// [`Function::compile`](crate::Function::compile) returns an error if there is none.
    Gpu,
    /// For each call, the faster of the two for its arrays according to the cost model; the CPU if
    /// there is no GPU.
    Auto,
    /// The reference interpreter, which is slow and defines the meaning of a program.
    Interp,
}

impl Device {
    /// The machine that schedules are shown for.
    pub(crate) fn machine(self) -> Machine {
        match self {
            Device::Gpu => Machine::PTX,
            Device::Cpu | Device::Auto | Device::Interp => Machine::CPU,
        }
    }
}

/// The time that each stage from the text to a callable function took.
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

/// A compiled function: machine code for a device that takes arrays of every size.
///
/// It is `Send` and `Sync`, and independent of the [`Program`](crate::Program) that it comes from.
/// [`Kernel::call`] is the usual way to call it, [`Kernel::call_into`] writes to memory of the
/// caller's, [`Kernel::call_named`] takes arguments by name, and [`Kernel::call_with`] can be
/// cancelled. The pages of the [guide](crate::guide) say which threads work on a call and what it
/// allocates.
///
/// ```
/// use fuseloop::{Options, Program};
///
/// let dot = {
///     let program = Program::parse("fn dot(x: f64[n], y: f64[n]) = sum(x * y)")?;
///     program.main()?.compile(&Options::default())?
/// };
/// for n in [0, 3, 1000] {
///     let (x, y) = (vec![2.0f64; n], vec![0.5f64; n]);
///     assert_eq!(dot.call((&x, &y))?[0].as_slice::<f64>()?, [n as f64]);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Kernel {
    source: Arc<Source>,
    checked: Arc<Checked>,
    signature: Signature,
    program: Program,
    engine: Engine,
    threads: usize,
    max_memory: Option<u64>,
    peak: Peak,
    times: Times,
    /// The same function in less memory, for calls beyond the limit.
    thriftier: Option<Thriftier>,
}

const _: () = {
    const fn shared_between_threads<T: Send + Sync>() {}
    shared_between_threads::<Kernel>();
};

impl Kernel {
    pub(crate) fn new(
        source: Arc<Source>,
        (checked, thrift): (&Arc<Checked>, Option<&Thrift>),
        signature: Signature,
        options: &Options,
        mut times: Times,
    ) -> Result<Kernel, CompileError> {
        let start = Instant::now();
        let compiled = compiler::pipeline::compile(checked, &options.pipeline())?;
        // A limit on steps adds kernels that count them.
        let plain = options.fuse == Passes::ALL && options.max_steps.is_none();
        limit::hold(&source, checked, plain.then_some(&compiled))?;
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
        let checked = Arc::clone(checked);
        let thriftier = thrift.filter(|_| max_memory.is_some()).map(|thrift| Thriftier::new(thrift, &options));
        Ok(Kernel { source, checked, signature, program, engine, threads, max_memory, peak, times, thriftier })
    }

    /// The parameters and results of the function.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// How its arrays may be cut into blocks that are computed apart from each other.
    pub fn partition(&self) -> Partition {
        Partition::new(Arc::clone(&self.source), Arc::clone(&self.checked))
    }

    /// The values of the size names in a call with arguments like these, in the order in which
    /// [`Blocks`](crate::Blocks) takes them.
    ///
    /// # Errors
    ///
    /// Those of [`Kernel::call`] that are found before anything runs.
    pub fn sizes(&self, arguments: &[Outline]) -> Result<Vec<i64>, RunError> {
        let bound = Binding::new(&self.program, arguments).map_err(|e| self.context().bind(e, arguments))?;
        Ok(self.checked.symbols.keys().map(|symbol| bound.symbol(symbol)).collect())
    }

    /// How long it took to make this kernel.
    pub fn times(&self) -> Times {
        self.times
    }

    /// The shapes of the results for these inputs, in order. They can depend on values, since a
    /// size may be an argument.
    ///
    /// # Errors
    ///
    /// Those of [`Kernel::call`] that are found before anything runs.
    ///
    /// ```
    /// use fuseloop::{Options, Program};
    ///
    /// let program = Program::parse("fn outer(x: f32[n], y: f32[m]) { let z[i, j] = x[i] * y[j]; z }")?;
    /// let kernel = program.main()?.compile(&Options::default())?;
    /// assert_eq!(kernel.output_shapes((&[1.0f32; 2], &[1.0f32; 3]))?, [[2, 3]]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn output_shapes(&self, inputs: impl Inputs) -> Result<Vec<Vec<usize>>, RunError> {
        self.lent(inputs, |inputs| self.enter(|| self.within_memory(inputs).shapes_of(inputs)))
    }

    /// Calls the function with its arguments, in the order of its parameters, and gives its
    /// results, in order. The arguments are a tuple of arrays, slices and scalars, or a slice of
    /// arrays: [`Inputs`]. They are borrowed for the call and not copied.
    ///
    /// # Errors
    ///
    /// Arguments of another number, element type, rank or shape than the function takes are
    /// reported before anything runs. A subscript that is data is reported when it is found to be
    /// out of bounds. [`RunError`] has the cause as data, its code and its place in the source.
    ///
    /// ```
    /// use fuseloop::{Array, Options, Program};
    ///
    /// let program = Program::parse("fn scale(x: f32[n, m], by: f32) = x * by")?;
    /// let kernel = program.main()?.compile(&Options::default())?;
    /// let x = Array::from_slice(&[2, 2], &[1.0f32, 2.0, 3.0, 4.0])?;
    /// let out = kernel.call((&x, 10.0f32))?;
    /// assert_eq!(out[0].as_slice::<f32>()?, [10.0, 20.0, 30.0, 40.0]);
    /// assert_eq!(kernel.call((&x,)).unwrap_err().code().to_string(), "E0200");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn call(&self, inputs: impl Inputs) -> Result<Vec<Array>, RunError> {
        Ok(self.call_in_phases(inputs)?.0)
    }

    /// Calls the function with its arguments by the names of its parameters, in any order.
    ///
    /// # Errors
    ///
    /// Those of [`Kernel::call`], and E0212 for a name that is no parameter's, is given twice or
    /// is missing.
    ///
    /// ```
    /// use fuseloop::{Options, Program};
    ///
    /// let program = Program::parse("fn axpy(a: f32, x: f32[n], y: f32[n]) = a * x + y")?;
    /// let kernel = program.main()?.compile(&Options::default())?;
    /// let (x, y) = (vec![1.0f32, 2.0], vec![10.0f32, 20.0]);
    /// let out = kernel.call_named(&[("y", &y), ("x", &x), ("a", &3.0f32)])?;
    /// assert_eq!(out[0].as_slice::<f32>()?, [13.0, 26.0]);
    /// let error = kernel.call_named(&[("y", &y), ("z", &x)]).unwrap_err();
    /// assert_eq!(error.to_string(), "the function has no parameter `z`, but `a`, `x`, `y`");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn call_named(&self, inputs: &[(&str, &dyn Input)]) -> Result<Vec<Array>, RunError> {
        self.call(&self.in_order(inputs)?)
    }

    /// Arguments that are given by name in the order of the parameters.
    fn in_order<'i, I: ?Sized>(&self, inputs: &[(&str, &'i I)]) -> Result<Vec<&'i I>, RunError> {
        let params = &self.signature.params;
        for (at, (name, _)) in inputs.iter().enumerate() {
            let fault = match params.iter().any(|param| param.name == *name) {
                false => Some(NameFault::Unknown),
                true if inputs[..at].iter().any(|(other, _)| other == name) => Some(NameFault::Twice),
                true => None,
            };
            if let Some(fault) = fault {
                return Err(self.name_error(name, fault));
            }
        }
        let by_name = |name: &str| inputs.iter().find(|(given, _)| *given == name).map(|(_, input)| *input);
        let in_order = params
            .iter()
            .map(|param| by_name(&param.name).ok_or_else(|| self.name_error(&param.name, NameFault::Missing)));
        in_order.collect()
    }

    fn name_error(&self, name: &str, fault: NameFault) -> RunError {
        let params = self.signature.params.iter().map(|param| param.name.clone()).collect();
        self.context().error(RunErrorKind::ArgumentName { name: name.to_owned(), fault, params })
    }

    /// Lends the arguments to a call.
    fn lent<T>(
        &self,
        inputs: impl Inputs,
        call: impl FnOnce(&[ArrayRef<'_>]) -> Result<T, RunError>,
    ) -> Result<T, RunError> {
        inputs.with(call).unwrap_or_else(|error| Err(self.context().array(error)))
    }

    /// Calls the function on the threads that `options` name, unless it is cancelled, before or
    /// during the call, by the request that they name. On the CPU and in the interpreter a cancelled
    /// call ends within milliseconds; a GPU finishes the kernels that it has begun.
    ///
    /// # Errors
    ///
    /// Those of [`Kernel::call`], and E0243 if the call was cancelled.
    ///
    /// ```
    /// use fuseloop::{CallOptions, Cancel, Options, Program};
    ///
    /// let program = Program::parse("fn forever() -> f64 = sum[i < 400000, j < 400000](sin(f64(i * j)))")?;
    /// let kernel = program.main()?.compile(&Options::default())?;
    /// let cancel = Cancel::default();
    /// let other = cancel.clone();
    /// let call = std::thread::spawn(move || kernel.call_with((), &CallOptions::until(&other)).map(|_| ()));
    /// cancel.cancel();
    /// assert_eq!(call.join().unwrap().unwrap_err().code().to_string(), "E0243");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn call_with(&self, inputs: impl Inputs, options: &CallOptions<'_>) -> Result<Vec<Array>, RunError> {
        self.unless_cancelled(options)?;
        Ok(self.lent(inputs, |inputs| self.enter(|| self.call_watched(inputs, options)))?.0)
    }

    fn unless_cancelled(&self, options: &CallOptions<'_>) -> Result<(), RunError> {
        match options.cancel.is_some_and(Cancel::is_cancelled) && !sabotage::on(Bug::CancelUnseen) {
            true => Err(self.context().error(RunErrorKind::Cancelled)),
            false => Ok(()),
        }
    }

    /// Calls the function. If it runs on a GPU, also returns the times for copying the inputs,
    /// running the kernels and copying the results.
    ///
    /// # Errors
    ///
    /// Those of [`Kernel::call`].
    pub fn call_in_phases(&self, inputs: impl Inputs) -> Result<(Vec<Array>, Option<Phases>), RunError> {
        self.lent(inputs, |inputs| self.enter(|| self.call_watched(inputs, &CallOptions::default())))
    }

    /// Runs a request from outside, turning panics into errors.
    fn enter<T>(&self, run: impl FnOnce() -> Result<T, RunError>) -> Result<T, RunError> {
        boundary::enter(|message| self.context().error(RunErrorKind::Engine(message)), run)
    }

    fn call_watched(
        &self,
        inputs: &[ArrayRef<'_>],
        options: &CallOptions<'_>,
    ) -> Result<(Vec<Array>, Option<Phases>), RunError> {
        let here = self.within_memory(inputs);
        if !std::ptr::eq(here, self) {
            return here.call_watched(inputs, options);
        }
        let shapes = self.shapes_of(inputs)?;
        if let Engine::Interp(interpreter) = &self.engine {
            return Ok((interpreter.run(&self.context(), inputs, options.cancel)?, None));
        }
        let slots = self.signature.results.iter().zip(&shapes);
        let outputs = slots.map(|(slot, shape)| crate::zeros(slot.dtype, shape).map_err(|e| self.context().array(e)));
        let mut outputs = outputs.collect::<Result<Vec<_>, _>>()?;
        let mut lent: Vec<_> = outputs.iter_mut().map(Array::as_mut).collect();
        let mut phases = Phases::default();
        let on_gpu = self.run(inputs, &mut lent, Some(&mut phases), options)?;
        Ok((outputs, on_gpu.then_some(phases)))
    }

    /// Calls the function and writes its results to the caller's memory, in order: a tuple of
    /// arrays and slices, or a slice of arrays ([`Outputs`]), each of the type and shape of its
    /// result. Nothing is allocated for them. After an error the memory is unchanged.
    ///
    /// # Errors
    ///
    /// Those of [`Kernel::call`]; E0230 for another number of results, and E0231 for memory of
    /// another type or shape.
    ///
    /// ```
    /// use fuseloop::{Options, Program};
    ///
    /// let program = Program::parse("fn next(x: i32[n]) = x + 1")?;
    /// let kernel = program.main()?.compile(&Options::default())?;
    /// let mut out = vec![0i32; 2];
    /// kernel.call_into((&[3i32, -1],), (&mut out,))?;
    /// assert_eq!(out, [4, 0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn call_into(&self, inputs: impl Inputs, outputs: impl Outputs) -> Result<(), RunError> {
        self.call_into_with(inputs, outputs, &CallOptions::default())
    }

    /// The same on the threads, and until the request, that `options` name.
    ///
    /// # Errors
    ///
    /// Those of [`Kernel::call_into`], and E0243 if the call was cancelled.
    pub fn call_into_with(
        &self,
        inputs: impl Inputs,
        outputs: impl Outputs,
        options: &CallOptions<'_>,
    ) -> Result<(), RunError> {
        self.unless_cancelled(options)?;
        self.lent(inputs, |inputs| {
            let into = |outputs: &mut [ArrayMut<'_>]| self.enter(|| self.write(inputs, outputs, options));
            outputs.with(into).unwrap_or_else(|error| Err(self.context().array(error)))
        })
    }

    fn write(
        &self,
        inputs: &[ArrayRef<'_>],
        outputs: &mut [ArrayMut<'_>],
        options: &CallOptions<'_>,
    ) -> Result<(), RunError> {
        let here = self.within_memory(inputs);
        if !std::ptr::eq(here, self) {
            return here.write(inputs, outputs, options);
        }
        // The compiled code checks the arrays itself, and checking them twice would take as long as
        // a small call.
        if self.max_memory.is_some() || matches!(self.engine, Engine::Interp(_)) {
            self.fit(inputs, outputs)?;
        }
        self.run(inputs, outputs, None, options).map(|_| ())
    }

    /// Checks that the arrays fit the function and each other.
    fn fit(&self, inputs: &[ArrayRef<'_>], outputs: &[ArrayMut<'_>]) -> Result<(), RunError> {
        let shapes = self.shapes_of(inputs)?;
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

    /// Runs the function and returns whether a GPU did it.
    fn run(
        &self,
        inputs: &[ArrayRef<'_>],
        outputs: &mut [ArrayMut<'_>],
        phases: Option<&mut Phases>,
        options: &CallOptions<'_>,
    ) -> Result<bool, RunError> {
        let threads = if options.threads == 0 { self.threads } else { options.threads.min(self.threads) };
        let cpu = match &self.engine {
            Engine::Cpu(module) => module,
            Engine::Gpu(gpu) => return self.run_on(gpu, inputs, outputs, phases),
            Engine::Auto(either) => {
                let binding = self.bind(inputs)?;
                let moved = inputs.iter().map(|input| input.bytes().len() as u64);
                let moved = moved.chain(outputs.iter_mut().map(|output| output.bytes_mut().len() as u64)).sum();
                match either.choose(&self.program, &binding, moved, threads) {
                    Some(gpu) => return self.run_on(gpu, inputs, outputs, phases),
                    None => either.cpu(),
                }
            }
            Engine::Interp(interpreter) => {
                let results = interpreter.run(&self.context(), inputs, options.cancel)?;
                for (to, from) in outputs.iter_mut().zip(results) {
                    to.bytes_mut().copy_from_slice(from.bytes());
                }
                return Ok(false);
            }
        };
        let done = match options.cancel {
            Some(cancel) => cpu.run_unless(inputs, outputs, threads, &cancel.0),
            None => cpu.run(inputs, outputs, threads),
        };
        match done {
            Ok(()) => Ok(false),
            // If the arrays do not fit, this reports it in the terms of the source.
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

    /// Like [`Kernel::call_into`], and adds the time of the n-th kernel to the n-th of `times`.
    #[cfg(feature = "reports")]
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
            _ => self.run(inputs, outputs, None, &CallOptions::default()).map(|_| ()),
        }
    }

    /// Its loop nests.
    #[cfg(feature = "reports")]
    pub(crate) fn program(&self) -> &Program {
        &self.program
    }

    /// The number of threads that may work on a call.
    #[cfg(feature = "reports")]
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// The sizes of a call, after checking that its inputs fit and that its memory is allowed.
    fn bind(&self, inputs: &[ArrayRef<'_>]) -> Result<Binding, RunError> {
        let context = self.context();
        let binding = Binding::new(&self.program, inputs).map_err(|e| context.bind(e, inputs))?;
        if let Some(limit) = self.max_memory {
            let beside = match &self.engine {
                Engine::Cpu(module) => module.beside(&binding, self.threads),
                Engine::Auto(either) => either.cpu().beside(&binding, self.threads),
                Engine::Gpu(_) | Engine::Interp(_) => Ok(0),
            };
            let beside = beside.map_err(|e| context.cpu(e, inputs))?;
            let needed = self.peak.at(&|size| binding.number(size), self.threads).saturating_add(beside);
            if needed > limit.into() {
                return Err(context.error(RunErrorKind::Memory { needed, limit }));
            }
        }
        Ok(binding)
    }

    /// This kernel, or if a call would take more memory than is allowed, one that takes less.
    fn within_memory(&self, inputs: &[ArrayRef<'_>]) -> &Kernel {
        let short = |kernel: &Kernel| {
            kernel.bind(inputs).is_err_and(|error| matches!(error.kind(), RunErrorKind::Memory { .. }))
        };
        match &self.thriftier {
            Some(thriftier) if short(self) => {
                let next = thriftier.kernel(&self.source, &self.signature);
                next.map(|next| next.within_memory(inputs)).filter(|next| !short(next)).unwrap_or(self)
            }
            _ => self,
        }
    }

    fn shapes_of(&self, inputs: &[ArrayRef<'_>]) -> Result<Vec<Vec<usize>>, RunError> {
        self.shapes(&self.bind(inputs)?)
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
mod thrift;

pub(crate) use thrift::Thrift;
use thrift::Thriftier;

#[cfg(feature = "gpu")]
pub use engine::{DeviceInput, DeviceInputs, DeviceOutputs};
use engine::{Engine, OnGpu};

#[cfg(all(test, feature = "reports"))]
mod tests;
