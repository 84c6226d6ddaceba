//! Text to results through each engine, under one name.

use std::fmt;

use grammar::Diagnostic;
use interp::nest::RunError as InterpError;
use ir::array::{Array, ArrayRef};
use ir::bind::{BindError, Fault};
use ir::nest::Program;

/// A function of a source, ready to run on every engine.
pub struct Compiled {
    /// Its loop nests.
    pub program: Program,
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
}

impl Engine {
    /// Every engine; the first is what the others are held to.
    pub const ALL: [Engine; 1] = [Engine::Interp];
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
    Ok(Compiled { program })
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
        }
    }
}
