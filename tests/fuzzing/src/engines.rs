//! Runs a source text on each engine, through one interface.

use std::cell::{OnceCell, RefCell};
use std::fmt;
use std::sync::{Arc, OnceLock};

use backends::cpu::{self, MemoryRegime, RunError as CpuError, Simd};
use backends::cuda::{Gpu, Loaded};
use backends::cuda_c;
use backends::ptx::{self, Runner};
use compiler::pipeline::{self, Options, PipelineError};
use grammar::Diagnostic;
use guarded::{Edge, Guarded};
use interp::nest::RunError as NestError;
use interp::source::{self, RunError as SourceError};
use ir::Dtype;
use ir::array::{Array, ArrayError, ArrayMut, ArrayRef};
use ir::bind::{BindError, Binding, Fault};
use ir::checked::Checked;
use ir::choice::Choice;
use ir::decision::{Decision, Passes};
use ir::nest::{Program, Statement};
use ir::sched::{Machine, Scheduled};
use ir::verify::verify;
use ir::visit::for_each_statement;
use schedule::schedule_with;

use crate::emulated::Emulated;
use crate::nvrtc;

/// A function of a source, ready to run on every engine, fused in several ways.
pub struct Compiled {
    /// Its checked form.
    pub checked: Checked,
    /// Its loop nests: unfused, fused as the cost model decides, and fused in the ways that were
    /// asked for.
    pub forms: Vec<Form>,
}

/// A function's loop nests, fused in some way.
pub struct Form {
    /// The way.
    pub options: Options,
    /// The loop nests.
    pub program: Program,
    /// The decision on each pair of operations.
    pub decisions: Vec<Decision>,
    /// Whether threads on the CPU wait for each other before each kernel, however short, and yield
    /// between its pieces. Then they meet in every order, and a call takes many times as long.
    pub meet: bool,
    /// Which arrays the CPU treats as larger than its caches.
    pub far: MemoryRegime,
    /// The form compiled for the CPU at each width, when it is first run there.
    modules: [OnceCell<Result<cpu::Module, String>>; 4],
    /// The form as PTX on the device, if it has run there.
    loaded: RefCell<Option<Runner<Loaded>>>,
}

/// Why there is nothing to run.
#[derive(Debug)]
pub enum Rejected {
    /// The source has errors.
    Source(Vec<Diagnostic>),
    /// A stated limit, or a bug of ours.
    Compiler(String),
}

/// A way to run a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// The checked program, element by element.
    Source,
    /// Its loop nests, interpreted.
    Nest,
    /// Compiled code, with this number of threads and this vector width.
    Cpu(usize, Simd),
    /// PTX on the emulator.
    Ptx,
    /// CUDA C, as far as it covers the kernels, on the emulator. NVIDIA's run-time compiler has to
    /// be there.
    CudaC,
    /// PTX on this machine's first CUDA device.
    Gpu,
    /// CUDA C there, as far as it covers the kernels.
    GpuCudaC,
}

impl Engine {
    /// Every engine. The others are compared with the first.
    pub const ALL: [Engine; 6] = [
        Engine::Source,
        Engine::Nest,
        Engine::Cpu(1, Simd::Auto),
        Engine::Cpu(2, Simd::Auto),
        Engine::Cpu(1, Simd::W128),
        Engine::Cpu(1, Simd::W256),
    ];
}

/// The widths of vectors, by name.
const WIDTHS: [(&str, Simd); 4] = [("auto", Simd::Auto), ("128", Simd::W128), ("256", Simd::W256), ("512", Simd::W512)];

/// `interp`, `cpu:2:256`, `emulator`, `gpu`.
impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Engine::Source => f.write_str("source"),
            Engine::Nest => f.write_str("interp"),
            Engine::Cpu(threads, simd) => {
                let name = WIDTHS.iter().find(|(_, width)| width == simd).map_or("auto", |(name, _)| name);
                write!(f, "cpu:{threads}:{name}")
            }
            Engine::Ptx => f.write_str("emulator"),
            Engine::CudaC => f.write_str("cuda-c"),
            Engine::Gpu => f.write_str("gpu"),
            Engine::GpuCudaC => f.write_str("gpu-cuda-c"),
        }
    }
}

impl std::str::FromStr for Engine {
    /// The text that names no engine.
    type Err = String;

    fn from_str(text: &str) -> Result<Engine, String> {
        let unknown = || format!("there is no engine `{text}`");
        Ok(match text {
            "source" => Engine::Source,
            "interp" => Engine::Nest,
            "emulator" => Engine::Ptx,
            "cuda-c" => Engine::CudaC,
            "gpu" => Engine::Gpu,
            "gpu-cuda-c" => Engine::GpuCudaC,
            _ => {
                let rest = text.strip_prefix("cpu:").and_then(|rest| rest.split_once(':'));
                let (threads, name) = rest.ok_or_else(unknown)?;
                let (_, simd) = WIDTHS.iter().find(|(width, _)| *width == name).ok_or_else(unknown)?;
                Engine::Cpu(threads.parse().map_err(|_| unknown())?, *simd)
            }
        })
    }
}

/// The results of a call, or the reason why there are none.
#[derive(Clone, PartialEq)]
pub enum Outcome {
    /// The results, in order.
    Results(Vec<Array>),
    /// The inputs do not fit.
    Refused(BindError),
    /// A subscript was outside.
    Fault(Fault),
    /// The interpreter of the source, which keeps every array, would need more memory than it may
    /// have.
    BeyondMemory,
    /// Anything else: always a failure of the test.
    Broken(String),
}

impl Outcome {
    /// The first element that differs, in words.
    pub fn first_difference(&self, other: &Outcome) -> Option<String> {
        let (Outcome::Results(these), Outcome::Results(others)) = (self, other) else { return None };
        let results = these.iter().zip(others).enumerate();
        let mut elements = results.flat_map(|(n, (a, b))| (0..a.len()).map(move |k| (n, k, a.get(k), b.get(k))));
        let (result, element, a, b) = elements.find(|(_, _, a, b)| a != b)?;
        Some(format!("result {result}, element {element}: {a:?} and {b:?}"))
    }
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Results(arrays) => f.debug_list().entries(arrays.iter().map(Shown::<Array>)).finish(),
            Outcome::Refused(error) => write!(f, "refused: {error:?}"),
            Outcome::Fault(fault) => write!(f, "{fault:?}"),
            Outcome::BeyondMemory => f.write_str("beyond memory"),
            Outcome::Broken(what) => write!(f, "broken: {what}"),
        }
    }
}

/// The machine's first CUDA device. The caller has checked that there is one.
fn gpu() -> &'static Arc<Gpu> {
    static GPU: OnceLock<Arc<Gpu>> = OnceLock::new();
    GPU.get_or_init(|| Gpu::get(0).unwrap_or_else(|error| panic!("{error}")))
}

/// A byte that no program leaves in an array by chance.
pub(crate) fn poison(dtype: Dtype) -> u8 {
    if dtype == Dtype::Bool { 1 } else { 0xa5 }
}

/// Something as a failure shows it.
pub struct Shown<'a, T>(pub &'a T);

/// An array's type, shape and first elements.
impl fmt::Debug for Shown<'_, Array> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let elements = (0..self.0.len().min(24)).filter_map(|n| self.0.get(n));
        let elements: Vec<String> = elements.map(|s| format!("{s:?}")).collect();
        let more = if self.0.len() > elements.len() { ", ..." } else { "" };
        write!(f, "{}{:?} = [{}{more}]", self.0.dtype(), self.0.shape(), elements.join(", "))
    }
}

/// A way to fuse, as an expression that reproduces it.
impl fmt::Display for Shown<'_, Options> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { fuse, policy, fuel, max_steps } = self.0;
        write!(f, "Options {{ fuse: \"{fuse}\".parse().unwrap(), policy: Policy::{policy:?}, fuel: {fuel:?}, ")?;
        write!(f, "max_steps: {max_steps:?} }}")
    }
}

/// Compiles a function of a source, unfused and fused as the cost model decides.
pub fn compile(source: &str, entry: &str) -> Result<Compiled, Rejected> {
    compile_in(source, entry, &[])
}

/// Compiles a function of a source, unfused, fused as the cost model decides, and fused in some
/// further ways.
pub fn compile_in(source: &str, entry: &str, ways: &[Options]) -> Result<Compiled, Rejected> {
    let file = grammar::parse(source).map_err(Rejected::Source)?;
    let checked = compiler::check::check(&file, entry).map_err(Rejected::Source)?;
    let unfused = Options { fuse: Passes::NONE, ..Options::default() };
    let all = [unfused, Options::default()];
    let forms: Result<Vec<Form>, String> = all.iter().chain(ways).map(|options| Form::new(&checked, options)).collect();
    Ok(Compiled { checked, forms: forms.map_err(Rejected::Compiler)? })
}

/// Whether a program has contractions: matrix products of floats, where the order of addition is
/// free.
pub fn has_contractions(program: &Program) -> bool {
    let mut found = false;
    for kernel in program.kernels.values() {
        for_each_statement(&kernel.body, &mut |s| found |= matches!(s, Statement::Contract(_)));
    }
    found
}

impl Form {
    /// Fuses a function in some way.
    pub fn new(checked: &Checked, options: &Options) -> Result<Form, String> {
        Form::of(pipeline::compile(checked, options), options)
    }

    /// Fuses loop nests with one kernel for each operation in some way.
    pub fn of_nests(unfused: &Program, options: &Options) -> Result<Form, String> {
        Form::of(pipeline::fuse(unfused.clone(), options), options)
    }

    fn of(compiled: Result<pipeline::Compiled, PipelineError>, options: &Options) -> Result<Form, String> {
        let shown = Shown(options);
        let compiled = compiled.map_err(|error| format!("{shown}: {error}"))?;
        let program = compiled.program;
        verify(&program).map_err(|error| format!("{shown}: {error}\n{program}"))?;
        let loaded = RefCell::new(None);
        Ok(Form {
            options: options.clone(),
            program,
            decisions: compiled.decisions,
            meet: true,
            far: MemoryRegime::Auto,
            modules: Default::default(),
            loaded,
        })
    }

    /// The program scheduled for a target. A coin that decides on merges decides on rewrites there too.
    fn scheduled(&self, machine: Machine) -> Result<Scheduled, String> {
        let mut choice = Choice::new(self.options.policy, None);
        schedule_with(&self.program, machine, &mut choice).map_err(|error| error.to_string())
    }

    /// The program's code for CUDA devices.
    pub fn for_gpu(&self) -> Result<ptx::Module, String> {
        ptx::Module::compile(&self.scheduled(Machine::PTX)?).map_err(|error| error.to_string())
    }

    /// The same with kernels that are written in CUDA C, as far as it covers them.
    fn by_cuda_c(&self) -> Result<ptx::Module, String> {
        let scheduled = self.scheduled(Machine::PTX)?.apart();
        let mut module = ptx::Module::compile(&scheduled).map_err(|error| error.to_string())?;
        let written = cuda_c::Module::new(&scheduled).map_err(|error| error.to_string())?;
        written.compile_into(&mut module, nvrtc::compile)?;
        Ok(module)
    }

    /// Calls the function on one engine.
    pub fn run(&self, checked: &Checked, engine: Engine, inputs: &[ArrayRef<'_>]) -> Outcome {
        match engine {
            Engine::Source => self.run_source(checked, inputs),
            _ => self.run_nests(engine, inputs),
        }
    }

    fn run_source(&self, checked: &Checked, inputs: &[ArrayRef<'_>]) -> Outcome {
        match source::run(checked, inputs, &compiler::math::define) {
            Ok(results) => Outcome::Results(results),
            Err(SourceError::Bind(error)) => Outcome::Refused(error),
            Err(SourceError::Length { result, axis, length }) => {
                Outcome::Refused(BindError::Length { buffer: self.program.outputs()[result], axis, value: Ok(length) })
            }
            Err(SourceError::Size(error)) => {
                Outcome::Refused(BindError::Length { buffer: self.program.outputs()[0], axis: 0, value: Err(error) })
            }
            Err(SourceError::Fault(fault)) => Outcome::Fault(fault),
            Err(SourceError::OutOfMemory { .. }) => Outcome::BeyondMemory,
            Err(other) => Outcome::Broken(format!("{other:?}")),
        }
    }

    /// Calls the loop nests on one engine. The source is not one that runs them.
    pub fn run_nests(&self, engine: Engine, inputs: &[ArrayRef<'_>]) -> Outcome {
        match engine {
            Engine::Source => Outcome::Broken("the source is no loop nest".into()),
            Engine::Nest => match interp::nest::run(&self.program, inputs) {
                Ok(outcome) => Outcome::Results(outcome.outputs),
                Err(NestError::Bind(error)) => Outcome::Refused(error),
                Err(NestError::Fault(fault)) => Outcome::Fault(fault),
                Err(other) => Outcome::Broken(format!("{other:?}")),
            },
            Engine::Cpu(threads, simd) => {
                let module = match self.module(simd) {
                    Ok(module) => module,
                    Err(error) => return Outcome::Broken(error.clone()),
                };
                self.run_guarded(module, threads, inputs)
            }
            Engine::Ptx | Engine::CudaC => {
                let module = if engine == Engine::Ptx { self.for_gpu() } else { self.by_cuda_c() };
                let module = match module {
                    Ok(module) => module,
                    Err(error) => return Outcome::Broken(error),
                };
                // Calls of one program have several kinds of devices.
                let seed = inputs.iter().map(|input| input.shape().iter().product::<usize>() as u64).sum();
                let mut runner = Runner::new(module, Emulated::new(seed), None);
                let first = self.run_on(&mut runner, inputs);
                // The second call of the same sizes replays a recording.
                if seed % 4 != 1 {
                    return first;
                }
                let again = self.run_on(&mut runner, inputs);
                if again == first { first } else { again }
            }
            Engine::Gpu | Engine::GpuCudaC => {
                let module = || if engine == Engine::Gpu { self.for_gpu() } else { self.by_cuda_c() };
                let ready = |module| Runner::new(module, gpu().load(None), None);
                let mut loaded = self.loaded.borrow_mut();
                let runner = match loaded.take().map_or_else(|| module().map(ready), Ok) {
                    Ok(runner) => loaded.insert(runner),
                    Err(error) => return Outcome::Broken(error),
                };
                // The first call launches the kernels one by one; later ones may replay a
                // recording.
                let first = self.run_on(runner, inputs);
                let again = [(); 2].map(|()| self.run_on(runner, inputs));
                again.into_iter().find(|again| *again != first).unwrap_or(first)
            }
        }
    }

    /// The code for the CPU. Threads share even the least work, and at once, because results must
    /// not depend on that and random programs are small.
    fn module(&self, simd: Simd) -> &Result<cpu::Module, String> {
        self.modules[simd as usize].get_or_init(|| {
            let (rendezvous, memory_regime) = (self.meet, self.far);
            let options = cpu::Options {
                simd,
                least_share: 0,
                wake_from: 0,
                rendezvous,
                memory_regime,
                ..cpu::Options::default()
            };
            let compiled = self.scheduled(Machine::CPU);
            let compiled = compiled.and_then(|s| cpu::Module::compile(&s, &options).map_err(|error| error.to_string()));
            compiled.map_err(|error| format!("{}: {error}\n{}", Shown(&self.options), self.program))
        })
    }

    /// Runs compiled code on arrays that are surrounded by unmapped memory.
    fn run_guarded(&self, module: &cpu::Module, threads: usize, inputs: &[ArrayRef<'_>]) -> Outcome {
        let elements = inputs.first().map_or(0, |input| input.bytes().len() / input.dtype().bytes());
        let edge = if elements.is_multiple_of(4) { Edge::Front } else { Edge::Back };
        let guarded = |bytes: &[u8]| Guarded::of(bytes, edge).ok_or_else(|| Err("no memory".to_owned()));
        self.run_into(inputs, |outputs| {
            let own: Vec<Guarded> = inputs.iter().map(|input| guarded(input.bytes())).collect::<Result<_, _>>()?;
            let whole = |error: ArrayError| Err(format!("{error:?}"));
            let given = inputs.iter().zip(&own);
            let given = given.map(|(input, own)| ArrayRef::new(input.dtype(), input.shape(), own.bytes()));
            let given: Vec<_> = given.collect::<Result<_, _>>().map_err(whole)?;
            let mut results: Vec<Guarded> =
                outputs.iter_mut().map(|output| guarded(output.bytes_mut())).collect::<Result<_, _>>()?;
            let lent = outputs.iter().zip(&mut results);
            let lent = lent.map(|(output, own)| ArrayMut::new(output.dtype(), output.shape(), own.bytes_mut()));
            let mut lent: Vec<_> = lent.collect::<Result<_, _>>().map_err(whole)?;
            let done = module.run(&given, &mut lent, threads).map_err(Ok);
            drop(lent);
            for (output, own) in outputs.iter_mut().zip(&results) {
                output.bytes_mut().copy_from_slice(own.bytes());
            }
            done
        })
    }

    /// Calls the function on a device with the form's code.
    pub fn run_on<D>(&self, runner: &mut Runner<D>, inputs: &[ArrayRef<'_>]) -> Outcome
    where
        D: ptx::Device<Error: fmt::Display>,
    {
        self.run_into(inputs, |outputs| {
            runner.call(inputs, outputs, None).map_err(|error| match error {
                ptx::RunError::Call(error) => Ok(error),
                other => Err(format!("{other}\n{}", runner.module().text(ptx::Target::Sm90a))),
            })
        })
    }

    fn run_into(
        &self,
        inputs: &[ArrayRef<'_>],
        run: impl FnOnce(&mut [ArrayMut<'_>]) -> Result<(), Result<CpuError, String>>,
    ) -> Outcome {
        let outputs = match self.outputs(inputs) {
            Ok(outputs) => outputs,
            Err(error) => return Outcome::Refused(error),
        };
        let mut written = outputs.clone();
        let mut lent: Vec<ArrayMut<'_>> = written.iter_mut().map(Array::as_mut).collect();
        let untouched = |written: &[Array]| outputs.iter().zip(written).all(|(a, b)| a.bytes() == b.bytes());
        match run(&mut lent) {
            Ok(()) => Outcome::Results(written),
            Err(_) if !untouched(&written) => Outcome::Broken("a run without results has written outputs".into()),
            Err(Ok(CpuError::Bind(error))) => Outcome::Refused(error),
            Err(Ok(CpuError::Fault(fault))) => Outcome::Fault(fault),
            Err(Ok(other)) => Outcome::Broken(other.to_string()),
            Err(Err(message)) => Outcome::Broken(message),
        }
    }

    /// Memory for the results, filled with a value that no program leaves by chance.
    fn outputs(&self, inputs: &[ArrayRef<'_>]) -> Result<Vec<Array>, BindError> {
        let binding = Binding::new(&self.program, inputs)?;
        let array = |id| {
            let dtype = self.program.buffers[id].dtype;
            let shape = binding.shape(&self.program, id)?;
            let mut array = Array::zeros(dtype, &shape).map_err(|_| BindError::Length {
                buffer: id,
                axis: 0,
                value: Err(ir::size::SizeError::Overflow),
            })?;
            array.bytes_mut().fill(poison(dtype));
            Ok(array)
        };
        self.program.outputs().into_iter().map(array).collect()
    }
}

impl Compiled {
    /// The loop nests that users run: fused as the cost model decides.
    pub fn program(&self) -> &Program {
        &self.fused().program
    }

    fn fused(&self) -> &Form {
        &self.forms[1]
    }

    /// Calls the function as users do, on one engine.
    pub fn run(&self, engine: Engine, inputs: &[ArrayRef<'_>]) -> Outcome {
        self.fused().run(&self.checked, engine, inputs)
    }

    /// Runs every form on every engine and [compares](hold) them.
    pub fn hold(&self, inputs: &[ArrayRef<'_>]) -> Result<Outcome, String> {
        let forms: Vec<&Form> = self.forms.iter().collect();
        hold(&self.checked, &forms, inputs)
    }
}

/// Runs every form of a function on every engine and [compares](hold_on) them.
pub fn hold(checked: &Checked, forms: &[&Form], inputs: &[ArrayRef<'_>]) -> Result<Outcome, String> {
    hold_on(&Engine::ALL[1..], checked, forms, inputs)
}

/// Runs every form of a function on some engines, compares them, and returns the outcome of the
/// source. The first form is unfused.
///
/// Either all give the same bits (up to which NaN), or none gives results. A subscript that is out
/// of bounds and that a result needs is an error on all of them. It is open which of several is
/// reported, and whether one that no result needs is encountered, because a fused form computes
/// less than an unfused one. Engines that run the same form agree even on that.
pub fn hold_on(
    engines: &[Engine],
    checked: &Checked,
    forms: &[&Form],
    inputs: &[ArrayRef<'_>],
) -> Result<Outcome, String> {
    let meant = forms[0].run(checked, Engine::Source, inputs);
    let mut unfused = None;
    for form in forms {
        let nest = form.run(checked, Engine::Nest, inputs);
        let unfused = unfused.get_or_insert_with(|| nest.clone());
        // The unfused loop nests decide whether fused ones may encounter a fault, and these decide
        // whether compiled code may.
        let holds = |engine, witness: &Outcome, found: &Outcome| {
            if agree(checked, inputs, &meant, found) && allows(witness, found, engine) {
                return Ok(());
            }
            let place = meant.first_difference(found).unwrap_or_default();
            let way = Shown(&form.options);
            let message = format!("{way} on {engine:?} differs: {place}\nexpected {meant:?}\nfound    {found:?}");
            Err(message)
        };
        holds(Engine::Nest, unfused, &nest)?;
        for engine in engines.iter().filter(|engine| {
            matches!(engine, Engine::Cpu(..) | Engine::Ptx | Engine::CudaC | Engine::Gpu | Engine::GpuCudaC)
        }) {
            holds(*engine, &nest, &form.run(checked, *engine, inputs))?;
        }
    }
    Ok(meant)
}

/// Whether an engine's outcome is the meaning of the source, or a fault that no result needs.
pub(crate) fn agree(checked: &Checked, inputs: &[ArrayRef<'_>], meant: &Outcome, found: &Outcome) -> bool {
    match (meant, found) {
        (Outcome::Results(_) | Outcome::Fault(_), Outcome::Fault(fault)) => {
            meant == found || source::may_fault(checked, inputs, &compiler::math::define, *fault) == Ok(true)
        }
        (Outcome::Refused(meant), Outcome::Refused(found)) => {
            let late = |e: &BindError| matches!(e, BindError::Length { .. });
            meant == found || late(meant) && late(found)
        }
        (Outcome::Results(_), Outcome::Results(_)) => meant == found,
        _ => false,
    }
}

/// Whether an engine may have this outcome, given that of the witness: fused loop nests need not
/// encounter a fault, but compiled code encounters it exactly if its loop nests do.
pub(crate) fn allows(witness: &Outcome, found: &Outcome, engine: Engine) -> bool {
    match (witness, found) {
        (Outcome::Fault(_), Outcome::Results(_)) => engine == Engine::Nest,
        (Outcome::Results(_), Outcome::Fault(_)) => false,
        _ => true,
    }
}
