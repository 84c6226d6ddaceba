//! Estimates how long a kernel takes, to decide whether more threads are worth their overhead. The
//! estimate never affects results.
//!
//! It counts operations by their weights ([`ir::cost`]) and the bytes loaded and stored, at the
//! rates of vectorized code with data in the L2 cache. For kernels that are slower, because of
//! memory or scalar code, it is too low: they may use more threads a little late, but never too
//! early.

use ir::build::Values;
use ir::nest::{Block, Extent, IndexId, Kernel, Op, Program, Statement, Subscript};
use ir::{Dtype, Size};

/// Operations of weight 1 on `f32` per nanosecond and core.
const RATE: f64 = 30.0;
/// The weights of a load and of a gather.
const LOAD: f64 = 1.0;
const GATHER: f64 = 8.0;
/// The assumed number of iterations of a loop, if it depends on an outer index, on data, or on the
/// condition of a `while`.
const MIDDLING: i64 = 64;

/// The cost of a kernel as a function of sizes.
#[derive(Debug, Default)]
pub(super) struct Cost {
    /// The weight of everything outside of loops.
    own: f64,
    /// Loops: their extents and the cost of an iteration.
    loops: Vec<(Vec<Size>, Cost)>,
}

impl Cost {
    pub(super) fn new(program: &Program, kernel: &Kernel) -> Cost {
        let estimator = Estimator { program, values: &kernel.values };
        estimator.block(&kernel.body)
    }

    /// The estimate in nanoseconds on one thread, for sizes given by `value`.
    pub(super) fn nanoseconds(&self, value: &impl Fn(&Size) -> i64) -> u64 {
        #[expect(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "what is too long for u64 is long")]
        let rounded = (self.weight(value) / RATE) as u64;
        rounded
    }

    fn weight(&self, value: &impl Fn(&Size) -> i64) -> f64 {
        let times = |extents: &[Size]| extents.iter().map(|extent| value(extent).max(0) as f64).product::<f64>();
        self.own + self.loops.iter().map(|(extents, inner)| times(extents) * inner.weight(value)).sum::<f64>()
    }
}

struct Estimator<'p> {
    program: &'p Program,
    values: &'p Values,
}

impl Estimator<'_> {
    fn block(&self, block: &Block) -> Cost {
        let mut total = Cost::default();
        let size = |extent: &Extent| extent.as_size().cloned().unwrap_or(Size::constant(MIDDLING));
        let sizes = |dims: &[(IndexId, Extent)]| dims.iter().map(|(_, e)| size(e)).collect::<Vec<_>>();
        for statement in block {
            match statement {
                Statement::Let { value, op } => total.own += self.operation(op, self.values[*value]),
                Statement::Store { value, .. } => total.own += bytes(self.values[*value]),
                Statement::Scatter { value, .. } => total.own += (GATHER + 1.0) * bytes(self.values[*value]),
                Statement::If { then, otherwise, .. } => {
                    for inner in [self.block(then), self.block(otherwise)] {
                        total.own += inner.own;
                        total.loops.extend(inner.loops);
                    }
                }
                Statement::Loop(l) => {
                    let mut inner = self.block(&l.body);
                    inner.own += l.kind.reductions().len() as f64;
                    total.loops.push((sizes(&l.dims), inner));
                }
                Statement::While(w) => {
                    let (_, extent) = &w.counter;
                    let steps = if w.condition.is_some() { Size::constant(MIDDLING) } else { size(extent) };
                    for inner in statement.blocks() {
                        total.loops.push((vec![steps.clone()], self.block(inner)));
                    }
                }
                Statement::Contract(c) => {
                    let both = c.free.iter().chain(&c.reduce).map(|(_, extent)| size(extent)).collect();
                    total.loops.push((both, Cost { own: bytes(self.values[c.result]), loops: vec![] }));
                    total.loops.push((sizes(&c.free), self.block(&c.epilogue)));
                }
            }
        }
        total
    }

    fn operation(&self, op: &Op, dtype: Dtype) -> f64 {
        if let Op::Call(function, _) = op {
            let function = &self.program.functions[*function];
            return Estimator { values: &function.values, ..*self }.function(&function.body);
        }
        let weight = match op.effects().load {
            Some(load) if load.at.iter().any(|s| matches!(s, Subscript::Value(_))) => GATHER,
            Some(_) => LOAD,
            None => op.weight(dtype),
        };
        weight * bytes(dtype)
    }

    /// The weight of a function. The cheaper side of a branch counts, because the other is for rare
    /// arguments.
    fn function(&self, body: &Block) -> f64 {
        let statement = |statement: &Statement| match statement {
            Statement::Let { value, op } => self.operation(op, self.values[*value]),
            Statement::If { then, otherwise, .. } => self.function(then).min(self.function(otherwise)),
            Statement::Store { .. }
            | Statement::Scatter { .. }
            | Statement::Loop(_)
            | Statement::While(_)
            | Statement::Contract(_) => 0.0,
        };
        body.iter().map(statement).sum()
    }
}

/// The size of a type relative to `f32`, which is proportional to the number of vectors.
fn bytes(dtype: Dtype) -> f64 {
    dtype.compute().bytes() as f64 / Dtype::F32.bytes() as f64
}
