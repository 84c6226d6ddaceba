//! Text to results through each engine, under one name.

use std::fmt;

use backends::cpu::{self, RunError as CpuError};
use compiler::pipeline::Options;
use grammar::Diagnostic;
use interp::nest::RunError as NestError;
use interp::source::{self, RunError as SourceError};
use ir::Dtype;
use ir::array::{Array, ArrayMut, ArrayRef};
use ir::bind::{BindError, Binding, Fault};
use ir::checked::Checked;
use ir::nest::{KernelId, Program};

/// A function of a source, ready to run on every engine.
pub struct Compiled {
    /// What it means.
    pub checked: Checked,
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

/// A way to run a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// The checked program, element by element.
    Source,
    /// Its loop nests, interpreted.
    Nest,
    /// Compiled code, on so many threads.
    Cpu(usize),
}

impl Engine {
    /// Every engine; the first is what the others are held to.
    pub const ALL: [Engine; 4] = [Engine::Source, Engine::Nest, Engine::Cpu(1), Engine::Cpu(2)];
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
    let program = compiler::pipeline::compile(&checked, &Options::default());
    let program = program.map_err(|error| Rejected::Compiler(error.to_string()))?.program;
    let module = cpu::Module::compile(&program, &cpu::Options::default());
    let module = module.map_err(|error| Rejected::Compiler(error.to_string()))?;
    Ok(Compiled { checked, program, module })
}

impl Compiled {
    /// Runs every engine and holds them to each other; gives what the first says.
    ///
    /// All give the same bits (any NaN as any NaN), or none gives results. An access that is outside and that a result needs is
    /// an error on all of them; which of several is reported, and whether one that no result needs is met at all, is open.
    pub fn hold(&self, inputs: &[ArrayRef<'_>]) -> Result<Outcome, String> {
        let outcomes = Engine::ALL.map(|engine| (engine, self.run(engine, inputs)));
        let [(_, meant), (_, nest), ..] = &outcomes;
        for (engine, found) in &outcomes {
            let agrees = match (meant, found) {
                (Outcome::Broken(_), _) | (_, Outcome::Broken(_)) => false,
                (Outcome::Results(_) | Outcome::Fault(_), Outcome::Fault(fault)) => {
                    let is_one = || source::may_fault(&self.checked, inputs, &compiler::math::define, *fault);
                    matches!(nest, Outcome::Fault(_)) && (meant == found || is_one() == Ok(true))
                }
                (Outcome::Results(_), Outcome::Results(_)) => meant == found && matches!(nest, Outcome::Results(_)),
                (Outcome::Refused(meant), Outcome::Refused(found)) => {
                    let late = |e: &BindError| matches!(e, BindError::Length { .. } | BindError::KernelSize { .. });
                    meant == found || late(meant) && late(found)
                }
                _ => false,
            };
            // The first may have results where the others meet what no result needs.
            let is_first = *engine == Engine::ALL[0] && !matches!(found, Outcome::Broken(_));
            if !(agrees || is_first) {
                let place = meant.first_difference(found).unwrap_or_default();
                return Err(format!("{engine:?} differs: {place}\nexpected {meant:?}\nfound    {found:?}"));
            }
        }
        let [(_, meant), ..] = outcomes;
        Ok(meant)
    }

    /// Calls the function on one engine.
    pub fn run(&self, engine: Engine, inputs: &[ArrayRef<'_>]) -> Outcome {
        match engine {
            Engine::Source => match source::run(&self.checked, inputs, &compiler::math::define) {
                Ok(results) => Outcome::Results(results),
                Err(SourceError::Bind(error)) => Outcome::Refused(error),
                Err(SourceError::Length { result, axis, length }) => Outcome::Refused(BindError::Length {
                    buffer: self.program.outputs()[result],
                    axis,
                    value: Ok(length),
                }),
                Err(SourceError::Size(error)) => {
                    Outcome::Refused(BindError::KernelSize { kernel: KernelId::from_u32(0), error })
                }
                Err(SourceError::Fault(fault)) => Outcome::Fault(fault),
                Err(other) => Outcome::Broken(format!("{other:?}")),
            },
            Engine::Nest => match interp::nest::run(&self.program, inputs) {
                Ok(outcome) => Outcome::Results(outcome.outputs),
                Err(NestError::Bind(error)) => Outcome::Refused(error),
                Err(NestError::Fault(fault)) => Outcome::Fault(fault),
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
