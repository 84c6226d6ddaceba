//! Source text and the functions in it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backends::cpu::Listing;
use compiler::check::Instances;
use grammar::Diagnostic;
use grammar::ast::{File, Span};
use ir::Dtype;
use ir::checked::Checked;
use schedule::{Machine, schedule};

#[cfg(all(feature = "gpu", feature = "reports"))]
use crate::LaunchError;
use crate::boundary;
use crate::error::codes;
use crate::kernel::Thrift;
use crate::limit;
use crate::link::link;
use crate::render::{Report, draw};
#[cfg(feature = "reports")]
use crate::{BenchError, Benchmark, ExplainError, Explanation};
use crate::{CompileError, Kernel, Loader, Options, Partition, Signature, Source, Style, Times, Warnings};

/// A source text, parsed and checked: functions that can be compiled, each on its own.
///
/// ```
/// use fuseloop::Program;
///
/// let source = "fn twice(x: f32[n]) = 2 * x\nfn total(x: f32[n]) = sum(twice(x))";
/// let program = Program::parse(source)?;
/// let signatures: Vec<String> = program.functions().map(|one| one.to_string()).collect();
/// assert_eq!(signatures, ["fn twice(x: f32[n]) -> f32[n]", "fn total(x: f32[n]) -> f32"]);
/// # Ok::<(), fuseloop::Errors>(())
/// ```
#[derive(Debug)]
pub struct Program {
    source: Arc<Source>,
    functions: Vec<Entry>,
    warnings: Warnings,
    /// The position of each function in `functions`.
    names: BTreeMap<String, usize>,
    parse: Duration,
    check: Duration,
}

#[derive(Debug)]
struct Entry {
    checked: Arc<Checked>,
    signature: Signature,
    /// The start of its text, if the source contains it verbatim.
    start: Option<usize>,
    /// The same function where `float` is `f64`, if it has a parameter of that type.
    wide: Option<Box<Entry>>,
    /// How it is checked again, if that can give a program that takes less memory.
    thrift: Option<Thrift>,
}

impl Entry {
    fn new(checked: Checked, start: Option<usize>, wide: Option<Box<Entry>>) -> Entry {
        Entry { signature: Signature::new(&checked), checked: Arc::new(checked), start, wide, thrift: None }
    }

    /// The same for a function of a file.
    fn within(self, file: &Arc<File>, float: Dtype) -> Entry {
        Entry { thrift: Thrift::of(file, float, &self.checked), ..self }
    }
}

/// Every independent error of a source text.
#[derive(Clone, Debug)]
pub struct Errors {
    source: Arc<Source>,
    diagnostics: Vec<Diagnostic>,
}

/// The error that a program has no function of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFunction {
    /// The name that was asked for; `None` if there was none and the program has neither a single
    /// function nor one called `main`.
    pub name: Option<String>,
    /// The program's functions.
    pub known: Vec<String>,
}

/// A source text with the files that it uses, parsed.
pub(crate) struct Linked {
    pub source: Arc<Source>,
    pub file: Arc<File>,
    /// The bytes of the program itself: parts that the caller has added can be called, and are not
    /// of it.
    own: usize,
}

impl Linked {
    /// Reads and parses a text and the files that it uses.
    pub fn new(mut source: Source, loader: Option<&dyn Loader>) -> Result<Linked, Errors> {
        let own = source.parts.first().map_or(source.text.len(), |part| part.start);
        let linked = link(&mut source, loader);
        let source = Arc::new(source);
        match linked {
            Ok(file) => Ok(Linked { source, file: Arc::new(file), own }),
            Err(diagnostics) => Err(Errors { source, diagnostics }),
        }
    }

    /// Errors in it.
    pub fn failed(&self, diagnostics: Vec<Diagnostic>) -> Errors {
        Errors { source: Arc::clone(&self.source), diagnostics }
    }

    fn is_own(&self, span: Span) -> bool {
        (span.start as usize) < self.own
    }

    /// The parts of the program itself that are probably not meant.
    pub fn warnings(&self) -> Warnings {
        let mut warnings = compiler::check::warnings::of_program(&self.file);
        warnings.retain(|warning| warning.labels.first().is_none_or(|label| self.is_own(label.span)));
        Warnings::new(Arc::clone(&self.source), warnings)
    }
}

impl Program {
    /// Parses a source text and checks every function in it: names, types, shapes and bounds.
    ///
    /// # Errors
    ///
    /// Every independent error of the text, each with its place and, where there is one, a
    /// suggestion that fixes it.
    ///
    /// ```
    /// let errors = fuseloop::Program::parse("fn f(x: f32[n]) = y + z").unwrap_err();
    /// assert!(errors.to_string().contains("<source>:1:19"));
    /// ```
    pub fn parse(source: impl Into<Source>) -> Result<Program, Errors> {
        Program::read(source.into(), None)
    }

    /// The same for a text that may use files (`use "lib/rows.fl"`), which `loader` finds and
    /// reads: [`Folder`](crate::Folder) for files next to the program.
    ///
    /// # Errors
    ///
    /// Those of all the files, as of one text.
    ///
    /// The functions in the [`parts`](Source::parts) of a source can be called, and are not among
    /// those of the program.
    pub fn parse_with(source: impl Into<Source>, loader: &dyn Loader) -> Result<Program, Errors> {
        Program::read(source.into(), Some(loader))
    }

    fn read(source: Source, loader: Option<&dyn Loader>) -> Result<Program, Errors> {
        boundary::enter(|message| Errors::fault(&source, message), || Program::read_within(source.clone(), loader))
    }

    fn read_within(source: Source, loader: Option<&dyn Loader>) -> Result<Program, Errors> {
        let start = Instant::now();
        let linked = Linked::new(source, loader)?;
        let parsed = Instant::now();
        let file = &linked.file;
        let all = compiler::check::check_instances(file).map_err(|errors| linked.failed(errors))?;
        let entry = |(instances, function): (Instances, &grammar::ast::Function)| {
            let start = function.decorators.first().map_or(function.span.start, |first| first.span.start);
            let start = Some(start as usize);
            let of = |checked, float, wide| Entry::new(checked, start, wide).within(file, float);
            let wide = instances.wide.map(|checked| Box::new(of(checked, Dtype::F64, None)));
            of(instances.narrow, Dtype::F32, wide)
        };
        let functions = all.into_iter().zip(file.own()).filter(|(_, function)| linked.is_own(function.span));
        let functions = functions.map(entry).collect();
        let warnings = linked.warnings();
        Ok(Program::new(linked.source, functions, warnings, (parsed - start, parsed.elapsed())))
    }

    /// The gradient of a function of a source as a program: a function of the same parameters, with
    /// every call inlined, which gives the derivatives of the result in some parameters; in all of
    /// floats, if none are named. `loader` reads the files that the source uses.
    ///
    /// # Errors
    ///
    /// Those of the function, and if something in it has no derivative.
    ///
    /// ```
    /// use fuseloop::Program;
    ///
    /// let text = Program::gradient("fn f(x: f32[n]) = sum(x * x)", None, "f", &[])?;
    /// assert_eq!(text, "fn f_grad(x: f32[n]) -> f32[n] = 2 * x\n");
    /// # Ok::<(), fuseloop::Errors>(())
    /// ```
    pub fn gradient(
        source: impl Into<Source>,
        loader: Option<&dyn Loader>,
        function: &str,
        of: &[String],
    ) -> Result<String, Errors> {
        let mut source = source.into();
        let copy = source.clone();
        boundary::enter(
            |message| Errors::fault(&copy, message),
            || {
                let linked = link(&mut source, loader);
                let failed = |diagnostics| Errors { source: Arc::new(source.clone()), diagnostics };
                let file = linked.map_err(failed)?;
                let checked = compiler::check::check_gradient(&file, function, of).map_err(failed)?;
                compiler::written::write(&checked).map_err(|unwritten| {
                    let message = format!("the gradient of `{function}` cannot be written: it has {}", unwritten.0);
                    let name = file.own().find(|one| one.name.text == function);
                    let span = name.map_or(Span::default(), |one| one.name.span);
                    let error = Diagnostic::new(compiler::check::codes::NOT_DERIVED, span, message);
                    let help = format!("take `grad[...]({function}(...))` in a program, which needs no such text");
                    failed(vec![error.help(help)])
                })
            },
        )
    }

    /// One checked function of a source, with the times for reading and checking it.
    #[cfg(feature = "repl")]
    pub(crate) fn single(source: Arc<Source>, checked: Checked, (parse, check): (Duration, Duration)) -> Program {
        let only = Entry::new(checked, None, None);
        Program::new(source, vec![only], Warnings::default(), (parse, check))
    }

    fn new(
        source: Arc<Source>,
        functions: Vec<Entry>,
        warnings: Warnings,
        (parse, check): (Duration, Duration),
    ) -> Program {
        let names = functions.iter().enumerate().map(|(at, entry)| (entry.signature.name.clone(), at)).collect();
        Program { source, functions, warnings, names, parse, check }
    }

    /// The first function, for a program that has at least one.
    #[cfg(feature = "files")]
    pub(crate) fn first(&self) -> Function<'_> {
        Function { program: self, entry: &self.functions[0] }
    }

    /// The parts of its own file that are probably not meant.
    pub fn warnings(&self) -> &Warnings {
        &self.warnings
    }

    /// The functions' signatures, in the order of the source.
    pub fn functions(&self) -> impl Iterator<Item = &Signature> {
        self.functions.iter().map(|f| &f.signature)
    }

    /// The signature of a function.
    pub fn signature(&self, name: &str) -> Option<&Signature> {
        self.entry(name).map(|entry| &entry.signature)
    }

    /// A function, by name.
    ///
    /// # Errors
    ///
    /// [`UnknownFunction`] lists the functions that there are.
    pub fn function(&self, name: &str) -> Result<Function<'_>, UnknownFunction> {
        self.found(self.entry(name), Some(name))
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        self.names.get(name).map(|at| &self.functions[*at])
    }

    /// The function that is meant if none is named: `main`, or the only one.
    ///
    /// # Errors
    ///
    /// [`UnknownFunction`] if there is neither.
    pub fn main(&self) -> Result<Function<'_>, UnknownFunction> {
        let only = match self.functions.as_slice() {
            [only] => Some(only),
            _ => self.entry("main"),
        };
        self.found(only, None)
    }

    fn found<'a>(&'a self, entry: Option<&'a Entry>, name: Option<&str>) -> Result<Function<'a>, UnknownFunction> {
        entry.map(|entry| Function { program: self, entry }).ok_or_else(|| UnknownFunction {
            name: name.map(str::to_owned),
            known: self.functions().map(|s| s.name.clone()).collect(),
        })
    }
}

/// The source text in the one style, which changes only its layout; or its errors if it does not
/// parse.
///
/// # Errors
///
/// Those of the syntax; names and types are not looked at.
///
/// ```
/// assert_eq!(fuseloop::format("fn f(x:f32[n])=x*2 # twice")?, "fn f(x: f32[n]) = x * 2  # twice\n");
/// # Ok::<(), fuseloop::Errors>(())
/// ```
pub fn format(source: impl Into<Source>) -> Result<String, Errors> {
    let source = source.into();
    grammar::format(&source.text).map_err(|diagnostics| Errors { source: Arc::new(source), diagnostics })
}

/// A function of a program.
#[derive(Clone, Copy, Debug)]
pub struct Function<'a> {
    program: &'a Program,
    entry: &'a Entry,
}

impl<'a> Function<'a> {
    /// The parameters and results.
    pub fn signature(&self) -> &'a Signature {
        &self.entry.signature
    }

    /// The same function for arguments in `f64`, if it has a parameter of type `float`. Without
    /// this, `float` is `f32`.
    ///
    /// ```
    /// use fuseloop::{Dtype, Program};
    ///
    /// let program = Program::parse("fn shares(x: float[n]) = x / sum(x)")?;
    /// let function = program.main()?.for_f64().expect("a parameter is a `float`");
    /// assert_eq!(function.signature().results[0].dtype, Dtype::F64);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn for_f64(&self) -> Option<Function<'a>> {
        Some(Function { program: self.program, entry: self.entry.wide.as_deref()? })
    }

    /// Compiles it, for arrays of any size. This takes some milliseconds on the CPU.
    ///
    /// # Errors
    ///
    /// [`CompileError`] if the function exceeds a limit of the compiler or the number of kernels
    /// that it allows itself (`@kernels(n)`), or if this machine or this build lacks the device. An
    /// error shows its place in the source, if it has one:
    ///
    /// ```
    /// use fuseloop::{Options, Program, Style};
    ///
    /// let source = "fn f(x: f32[n, m]) { let z[i] = loop y = x[i] while sum(y) > 1 { y / 2 }\n z }";
    /// let program = Program::parse(source)?;
    /// let error = program.main()?.compile(&Options::default()).unwrap_err();
    /// assert!(error.render(Style::Plain).contains("loop y = x[i] while sum(y) > 1"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compile(&self, options: &Options) -> Result<Kernel, CompileError> {
        let times = Times { parse: self.program.parse, check: self.program.check, ..Times::default() };
        let (source, signature) = (Arc::clone(&self.program.source), self.entry.signature.clone());
        let thrift = self.entry.thrift.as_ref();
        self.placed(boundary::compile(|| Kernel::new(source, (&self.entry.checked, thrift), signature, options, times)))
    }

    /// How its arrays may be cut into blocks that are computed apart from each other; see
    /// [`Kernel::partition`].
    pub fn partition(&self) -> Partition {
        Partition::new(Arc::clone(&self.program.source), Arc::clone(&self.entry.checked))
    }

    /// A result, with the source of an error that has a place in it.
    fn placed<T>(&self, result: Result<T, CompileError>) -> Result<T, CompileError> {
        result.map_err(|error| if error.report().labels.is_empty() { error } else { error.at(&self.program.source) })
    }

    /// The comment in the lines right above the function, without the `#`s.
    pub fn comment(&self) -> String {
        let before = self.entry.start.and_then(|start| self.program.source.text.get(..start)).unwrap_or_default();
        let above = before.rsplit('\n').skip(1).map(str::trim).take_while(|line| line.starts_with('#'));
        let mut lines: Vec<&str> = above.map(|line| line.trim_start_matches('#').trim_start()).collect();
        lines.reverse();
        lines.join("\n")
    }

    #[cfg(any(feature = "objects", all(feature = "gpu", feature = "reports")))]
    pub(crate) fn source(&self) -> &'a Arc<Source> {
        &self.program.source
    }

    /// Its loop nests, after fusion.
    #[cfg(any(feature = "objects", all(feature = "gpu", feature = "reports")))]
    pub(crate) fn lower(&self, options: &Options) -> Result<ir::nest::Program, CompileError> {
        Ok(compiler::pipeline::compile(&self.entry.checked, &options.pipeline())?.program)
    }

    /// Checks that the function takes no more kernels than its `@kernels(n)` allows, if it has one;
    /// the error lists the reasons that keep them apart. [`Function::compile`] checks this too.
    ///
    /// # Errors
    ///
    /// [`CompileError`] if it takes more.
    pub fn hold_kernels(&self) -> Result<(), CompileError> {
        boundary::compile(|| limit::hold(&self.program.source, &self.entry.checked, None))
    }

    /// The function as text, at a stage after the source.
    ///
    /// # Errors
    ///
    /// As [`Function::compile`], except that no device is needed.
    ///
    /// ```
    /// use fuseloop::{Emit, Options, Program};
    ///
    /// let program = Program::parse("fn scaled(x: f32[n]) = relu(x * 2)")?;
    /// let ptx = program.main()?.emit(&Options::default(), Emit::Ptx)?;
    /// assert!(ptx.contains("// <source>:1: fn scaled(x: f32[n]) = relu(x * 2)") && ptx.contains(".visible .entry"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn emit(&self, options: &Options, emit: Emit) -> Result<String, CompileError> {
        self.placed(boundary::compile(|| self.written(options, emit)))
    }

    fn written(&self, options: &Options, emit: Emit) -> Result<String, CompileError> {
        let compiled = compiler::pipeline::compile(&self.entry.checked, &options.pipeline())?;
        let listing = |listing| -> Result<String, CompileError> {
            let scheduled = schedule(&compiled.program, Machine::CPU)?;
            Ok(backends::cpu::listing(&scheduled, options.simd, listing)?)
        };
        #[cfg(feature = "gpu")]
        let noted = |origins: &[ir::Origin]| {
            let written = origins.iter().filter(|origin| origin.end > 0);
            self.program.source.lines_of(written.map(|origin| origin.start as usize))
        };
        Ok(match emit {
            Emit::Ir => compiled.program.to_string(),
            Emit::Schedule => schedule(&compiled.program, options.device.machine())?.to_string(),
            Emit::Clif => listing(Listing::Clif)?,
            Emit::Asm => listing(Listing::Asm)?,
            #[cfg(feature = "gpu")]
            Emit::Ptx => {
                let scheduled = schedule(&compiled.program, Machine::PTX)?;
                let module = backends::ptx::Module::compile_with(&scheduled, options.math(&self.entry.checked))?;
                module.for_later_devices().annotated(noted)
            }
            #[cfg(feature = "gpu")]
            Emit::Cuda => {
                let scheduled = schedule(&compiled.program, Machine::PTX)?;
                backends::cuda_c::Module::new(&scheduled)?.text(noted)?
            }
            #[cfg(not(feature = "gpu"))]
            Emit::Ptx => return Err(CompileError::left_out("PTX", "gpu")),
            #[cfg(not(feature = "gpu"))]
            Emit::Cuda => return Err(CompileError::left_out("CUDA C", "gpu")),
        })
    }

    #[cfg(all(feature = "gpu", feature = "reports"))]
    pub(crate) fn math(&self, options: &Options) -> crate::Math {
        options.math(&self.entry.checked)
    }

    /// Describes how a host launches the kernels of its PTX for a call of these sizes, including
    /// integer parameters, as JSON. Without any sizes it gives only parameters and results.
    /// docs/gpu.md lists the fields.
    ///
    /// # Errors
    ///
    /// [`LaunchError`] if sizes are missing or fit no call, or if the function cannot be compiled.
    ///
    /// ```
    /// use fuseloop::{Options, Program};
    ///
    /// let program = Program::parse("fn scaled(x: f32[n]) = x * 2")?;
    /// let launches = program.main()?.launches(&Options::default(), &[("n", 1000)]).expect("the size is given");
    /// assert!(launches.contains("\"kernel\": \"kernel0\""));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(all(feature = "gpu", feature = "reports"))]
    pub fn launches(&self, options: &Options, sizes: &[(&str, i64)]) -> Result<String, LaunchError> {
        crate::launch::describe(self, options, sizes)
    }

    /// Explains how fusion changes the function, with numbers wherever the sizes that they depend
    /// on are given by name.
    ///
    /// # Errors
    ///
    /// [`ExplainError`] if a size is unknown or fits no call, or if the function cannot be
    /// compiled.
    ///
    /// ```
    /// use fuseloop::{Options, Program};
    ///
    /// let program = Program::parse("fn scaled(x: f32[n]) = relu(x * 2) + 1")?;
    /// let explanation = program.main()?.explain(&Options::default(), &[("n", 1000)])?;
    /// assert_eq!((explanation.kernels_before(), explanation.kernels_after()), (3, 1));
    /// assert_eq!((explanation.bytes_before(), explanation.bytes_after()), (Some(24_000), Some(8_000)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "reports")]
    pub fn explain(&self, options: &Options, sizes: &[(&str, i64)]) -> Result<Explanation, ExplainError> {
        let source = Arc::clone(&self.program.source);
        let fault = |message| ExplainError::Compile(CompileError::fault(message));
        boundary::enter(fault, || Explanation::new(source, &self.entry.checked, options, sizes))
    }
}

/// A textual form of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emit {
    /// Its loop nests, after fusion.
    Ir,
    /// The parts that its kernels are cut into, and how each of them runs: on a GPU if that is the
    /// device of the options, else on the CPU.
    Schedule,
    /// Cranelift's intermediate representation, for this processor.
    Clif,
    /// This processor's instructions.
    Asm,
    /// PTX for NVIDIA's GPUs, with the source lines that each kernel computes as comments.
    Ptx,
    /// CUDA C that people can read, with the same bits as the PTX, and with names and lines of the
    /// source. Long running sums and matrix products are error E0263.
    Cuda,
}

#[cfg(feature = "reports")]
impl Function<'_> {
    /// Measures the function with and without fusion. A size name that is not given a size gets one
    /// that makes the arrays large. `progress` is called with the finished fraction, from 0 to 1.
    ///
    /// # Errors
    ///
    /// [`BenchError`] as for [`Function::explain`], and if a call fails.
    ///
    /// ```
    /// use fuseloop::{Options, Program};
    ///
    /// let program = Program::parse("fn norm(x: f32[n]) = sqrt(sum(x * x))")?;
    /// let benchmark = program.main()?.bench(&Options::default(), &[("n", 1000)], &mut |_| {})?;
    /// assert_eq!(benchmark.sizes, [("n".to_owned(), 1000)]);
    /// assert_eq!((benchmark.unfused.kernels.len(), benchmark.fused.kernels.len()), (3, 1));
    /// println!("{benchmark}"); // a table; `benchmark.to_json()` and `benchmark.to_html()` say more
    /// println!("fused it takes {:.2} times as long", benchmark.ratio());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn bench(
        &self,
        options: &Options,
        sizes: &[(&str, i64)],
        progress: &mut dyn FnMut(f64),
    ) -> Result<Benchmark, BenchError> {
        let fault = |message| BenchError::Explain(ExplainError::Compile(CompileError::fault(message)));
        boundary::enter(fault, || crate::bench::measure(self, options, sizes, progress))
    }
}

impl Errors {
    #[cfg(feature = "repl")]
    pub(crate) fn new(source: Arc<Source>, diagnostics: Vec<Diagnostic>) -> Errors {
        Errors { source, diagnostics }
    }

    /// The errors, in the order of the source.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// The source.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// A fault of our own.
    pub(crate) fn fault(source: &Source, message: String) -> Errors {
        let diagnostics = vec![Diagnostic::new(codes::FAULT, Span::default(), message)];
        Errors { source: Arc::new(source.clone()), diagnostics }
    }

    /// The errors, each ready to be drawn or written as JSON, up to a limit.
    pub fn reports(&self) -> impl Iterator<Item = Report> {
        self.diagnostics.iter().take(grammar::MAX_ERRORS).map(Report::from)
    }

    /// The errors drawn over the source, separated by blank lines.
    pub fn render(&self, style: Style) -> String {
        let mut drawn: Vec<String> = self.reports().map(|report| draw(&self.source, &report, style)).collect();
        if drawn.len() == grammar::MAX_ERRORS {
            drawn.push(format!("only the first {} errors are shown", grammar::MAX_ERRORS));
        }
        drawn.join("\n\n")
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(Style::Plain))
    }
}

impl std::error::Error for Errors {}

impl fmt::Display for UnknownFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "there is no function `{name}`")?,
            None if self.known.is_empty() => return f.write_str("the program has no function"),
            None => f.write_str("the program has several functions and none is called `main`")?,
        }
        let known: Vec<String> = self.known.iter().map(|name| format!("`{name}`")).collect();
        if known.is_empty() { Ok(()) } else { write!(f, "; it has {}", known.join(", ")) }
    }
}

impl std::error::Error for UnknownFunction {}
