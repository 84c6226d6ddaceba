//! Text to results through each engine, under one name.

use std::fmt;

use backends::cpu::{self, RunError as CpuError};
use grammar::Diagnostic;
use interp::nest::RunError as InterpError;
use ir::Dtype;
use ir::array::{Array, ArrayMut, ArrayRef};
use ir::bind::{BindError, Binding, Fault};
use ir::nest::Program;

/// A function of a source, ready to run on every engine.
pub struct Compiled {
    /// Its loop nests.
    pub program: Program,
    /// The same, compiled for the CPU.
    module: cpu::Module,
}

/// Why there is nothing to run.
#[derive(Debug)]
pub enum Rejected {
    /// The source has errors.
    Source(Vec<Diagnostic>),
    /// A stated limit, or a bug of ours.
    Compiler(String),
}

/// An engine that runs loop nests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// The reference interpreter.
    Interp,
    /// Compiled code, on so many threads.
    Cpu(usize),
}

impl Engine {
    /// Every engine; the first is what the others are held to.
    pub const ALL: [Engine; 3] = [Engine::Interp, Engine::Cpu(1), Engine::Cpu(2)];
}

/// What a call gives: results, or why there are none.
#[derive(Clone, PartialEq)]
pub enum Outcome {
    /// The results, in order.
    Results(Vec<Array>),
    /// The inputs do not fit.
    Refused(BindError),
    /// A subscript was outside.
    Fault(Fault),
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

    /// Whether two outcomes are one to the user: the same bits (any NaN as any NaN), or the same error.
    /// Of several subscripts outside, whichever of one site is met first may be reported.
    pub fn agrees(&self, other: &Outcome) -> bool {
        match (self, other) {
            (Outcome::Broken(_), _) | (_, Outcome::Broken(_)) => false,
            (Outcome::Fault(a), Outcome::Fault(b)) => a.site == b.site,
            (a, b) => a == b,
        }
    }
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Results(arrays) => f.debug_list().entries(arrays.iter().map(Shown)).finish(),
            Outcome::Refused(error) => write!(f, "refused: {error:?}"),
            Outcome::Fault(fault) => write!(f, "{fault:?}"),
            Outcome::Broken(what) => write!(f, "broken: {what}"),
        }
    }
}

/// An array's type, shape and first elements.
pub struct Shown<'a>(pub &'a Array);

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let elements = (0..self.0.len().min(24)).filter_map(|n| self.0.get(n));
        let elements: Vec<String> = elements.map(|s| format!("{s:?}")).collect();
        let more = if self.0.len() > elements.len() { ", ..." } else { "" };
        write!(f, "{}{:?} = [{}{more}]", self.0.dtype(), self.0.shape(), elements.join(", "))
    }
}

/// Compiles a function of a source.
pub fn compile(source: &str, entry: &str) -> Result<Compiled, Rejected> {
    let file = grammar::parse(source).map_err(Rejected::Source)?;
    let checked = compiler::check::check(&file, entry).map_err(Rejected::Source)?;
    let program = compiler::pipeline::compile(&checked).map_err(|error| Rejected::Compiler(error.to_string()))?;
    let module = cpu::Module::compile(&program, &cpu::Options::default());
    let module = module.map_err(|error| Rejected::Compiler(error.to_string()))?;
    Ok(Compiled { program, module })
}

impl Compiled {
    /// Calls the function on one engine.
    pub fn run(&self, engine: Engine, inputs: &[ArrayRef<'_>]) -> Outcome {
        match engine {
            Engine::Interp => match interp::nest::run(&self.program, inputs) {
                Ok(outcome) => Outcome::Results(outcome.outputs),
                Err(InterpError::Bind(error)) => Outcome::Refused(error),
                Err(InterpError::Fault(fault)) => Outcome::Fault(fault),
                Err(other) => Outcome::Broken(format!("{other:?}")),
            },
            Engine::Cpu(threads) => self.run_cpu(inputs, threads),
        }
    }

    fn run_cpu(&self, inputs: &[ArrayRef<'_>], threads: usize) -> Outcome {
        let outputs = match self.outputs(inputs) {
            Ok(outputs) => outputs,
            Err(error) => return Outcome::Refused(error),
        };
        let mut written = outputs.clone();
        let mut lent: Vec<ArrayMut<'_>> = written.iter_mut().map(Array::as_mut).collect();
        let untouched = |written: &[Array]| outputs.iter().zip(written).all(|(a, b)| a.bytes() == b.bytes());
        match self.module.run(inputs, &mut lent, threads) {
            Ok(()) => Outcome::Results(written),
            Err(_) if !untouched(&written) => Outcome::Broken("a run without results has written outputs".into()),
            Err(CpuError::Bind(error)) => Outcome::Refused(error),
            Err(CpuError::Fault(fault)) => Outcome::Fault(fault),
            Err(other) => Outcome::Broken(other.to_string()),
        }
    }

    /// Memory for the results, filled with what no program leaves by chance.
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
            array.bytes_mut().fill(if dtype == Dtype::Bool { 1 } else { 0xa5 });
            Ok(array)
        };
        self.program.outputs().into_iter().map(array).collect()
    }
}
