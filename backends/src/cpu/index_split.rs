//! Loop splitting (index-set splitting). If a branch that accesses memory depends on a comparison
//! of the index, the loop is split where the comparison changes, so that each part has a body
//! without the branch, which may be vectorizable. If the comparison is loop-invariant, the loop is
//! unswitched instead. Typical sources are concatenation, padding, and stencils at their edges.

use std::collections::BTreeMap;
use std::ops::Range;

use cranelift_codegen::ir::{InstBuilder, Value};
use ir::nest::{Block, IndexId, Op, Program, Statement, ValueId};
use ir::{Affine, BinaryOp, CompareOp, Dtype, Scalar, Size, UnaryOp, visit};

use super::emit::Emitter;
use super::nest::Axis;
use super::scalar;

/// The nesting limit of splits, and the limit of statements in all copies of the body.
const MAX_DEPTH: u32 = 5;
const MAX_STATEMENTS: usize = 2048;

/// A `bool` that a loop can be split at.
struct Split {
    value: ValueId,
    test: Test,
}

/// How it depends on the index.
enum Test {
    /// A value from outside of the loop.
    Outside,
    /// A loop-invariant comparison.
    Same(CompareOp, [Comparand; 2]),
    /// A comparison that changes once as the index grows.
    Threshold(Threshold),
}

/// The comparison `sign * index + base op bound`.
struct Threshold {
    sign: i64,
    base: Affine<IndexId>,
    bound: Comparand,
    op: CompareOp,
}

/// An operand of a comparison.
#[derive(Clone)]
enum Comparand {
    /// A value from outside of the loop.
    Outside(ValueId),
    Affine(Affine<IndexId>),
    Constant(i64),
}

/// The body of a loop and its definitions.
struct Body<'b> {
    ops: BTreeMap<ValueId, &'b Op>,
    bound: Vec<IndexId>,
    /// Results of branches and loops.
    results: Vec<ValueId>,
}

impl Body<'_> {
    /// The value as an operand, if it is affine or invariant in the body.
    fn operand(&self, value: ValueId) -> Option<Comparand> {
        match self.ops.get(&value) {
            None => (!self.results.contains(&value)).then_some(Comparand::Outside(value)),
            Some(Op::Constant(Scalar::I64(k))) => Some(Comparand::Constant(*k)),
            Some(Op::Affine(a)) => {
                let free = a.terms().iter().all(|(index, _)| !self.bound.contains(index));
                free.then(|| Comparand::Affine(a.clone()))
            }
            Some(_) => None,
        }
    }

    /// Finds a comparison in a condition that the loop over `index` can be split at.
    fn split(&self, e: &Emitter<'_>, index: IndexId, condition: ValueId) -> Option<Split> {
        let Some(op) = self.ops.get(&condition) else {
            let test = Test::Outside;
            return (!self.results.contains(&condition)).then_some(Split { value: condition, test });
        };
        match op {
            Op::Unary(UnaryOp::Not, a) => self.split(e, index, *a),
            Op::Binary(BinaryOp::And | BinaryOp::Or, a, b) => {
                self.split(e, index, *a).or_else(|| self.split(e, index, *b))
            }
            Op::Compare(op, a, b) if e.dtype(*a) == Dtype::I64 => {
                let operands = [self.operand(*a)?, self.operand(*b)?];
                let varies = operands.each_ref().map(|o| match o {
                    Comparand::Affine(a) => a.coefficient(index).as_constant(),
                    _ => Some(0),
                });
                let (at, op) = match (varies, op) {
                    ([Some(0), Some(0)], _) => {
                        return Some(Split { value: condition, test: Test::Same(*op, operands) });
                    }
                    (_, CompareOp::Eq | CompareOp::Ne) => return None,
                    ([Some(1 | -1), Some(0)], op) => (0, *op),
                    ([Some(0), Some(1 | -1)], op) => (1, op.swapped()),
                    _ => return None,
                };
                let (Comparand::Affine(affine), Some(sign)) = (&operands[at], varies[at]) else { return None };
                if !does_not_wrap(e.unit.program, affine) {
                    return None;
                }
                let base = affine.sub(&Affine::index(index).scale(&Size::constant(sign)));
                let bound = operands[1 - at].clone();
                Some(Split { value: condition, test: Test::Threshold(Threshold { sign, base, bound, op }) })
            }
            _ => None,
        }
    }
}

/// Whether the sum cannot wrap, whatever the sizes are: it would compare as another number, and not
/// change at one iteration.
fn does_not_wrap(program: &Program, affine: &Affine<IndexId>) -> bool {
    let is_small = |(_, factor): &(IndexId, Size)| factor.as_constant().is_some_and(|k| k.unsigned_abs() <= 1 << 10);
    affine.terms().iter().all(is_small) && program.is_small(affine.constant_part())
}

/// Finds the first comparison to split at, in a branch that accesses memory.
fn find(e: &Emitter<'_>, index: IndexId, block: &Block) -> Option<Split> {
    let mut ops = BTreeMap::new();
    visit::for_each_op(block, &mut |value, op| _ = ops.insert(value, op));
    let mut bound = visit::bound_indices(block);
    bound.retain(|i| *i != index);
    let mut results = vec![];
    visit::for_each_statement(block, &mut |s| visit::for_each_definition(s, &mut |v| results.push(v)));
    results.retain(|v| !ops.contains_key(v));
    let body = Body { ops, bound, results };
    let mut found = None;
    visit::for_each_statement(block, &mut |statement| {
        let Statement::If { condition, then, otherwise, .. } = statement else { return };
        let touches = |b: &Block| !visit::loads(b).is_empty() || !visit::stores(b).is_empty();
        if found.is_none() && (touches(then) || touches(otherwise)) {
            found = body.split(e, index, *condition);
        }
    });
    found
}

/// Simplifies a block, given some `bool` values.
fn fold(e: &Emitter<'_>, block: &Block, known: &mut BTreeMap<ValueId, bool>) -> Block {
    let mut out = vec![];
    for statement in block {
        match statement {
            Statement::Let { value, op } => {
                let get = |v: &ValueId| known.get(v).copied();
                let constant = match op {
                    _ if known.contains_key(value) => get(value),
                    Op::Unary(UnaryOp::Not, a) => get(a).map(|a| !a),
                    Op::Binary(BinaryOp::And, a, b) => match (get(a), get(b)) {
                        (Some(false), _) | (_, Some(false)) => Some(false),
                        (Some(true), Some(true)) => Some(true),
                        _ => None,
                    },
                    Op::Binary(BinaryOp::Or, a, b) => match (get(a), get(b)) {
                        (Some(true), _) | (_, Some(true)) => Some(true),
                        (Some(false), Some(false)) => Some(false),
                        _ => None,
                    },
                    _ => None,
                };
                // If one operand is the neutral element, the result is the other one.
                let other = match op {
                    Op::Binary(BinaryOp::And | BinaryOp::Or, a, b) if constant.is_none() => {
                        get(a).map(|_| *b).or_else(|| get(b).map(|_| *a))
                    }
                    _ => None,
                };
                let op = match (constant, other) {
                    (Some(c), _) if e.dtype(*value) == Dtype::Bool => {
                        known.insert(*value, c);
                        Op::Constant(Scalar::Bool(c))
                    }
                    (None, Some(other)) if e.dtype(*value) == Dtype::Bool => Op::Cast(Dtype::Bool, other),
                    _ => op.clone(),
                };
                out.push(Statement::Let { value: *value, op });
            }
            Statement::If { condition, then, otherwise, results } => match known.get(condition).copied() {
                Some(side) => {
                    out.extend(fold(e, if side { then } else { otherwise }, known));
                    // A cast to the same type serves as a copy.
                    for (result, yes, no) in results {
                        let op = Op::Cast(e.dtype(*result), if side { *yes } else { *no });
                        out.push(Statement::Let { value: *result, op });
                    }
                }
                None => out.push(Statement::If {
                    condition: *condition,
                    then: fold(e, then, known),
                    otherwise: fold(e, otherwise, known),
                    results: results.clone(),
                }),
            },
            Statement::Loop(l) => {
                let mut l = l.clone();
                l.body = fold(e, &l.body, known);
                out.push(Statement::Loop(l));
            }
            Statement::While(_) => {
                let mut copy = statement.clone();
                copy.blocks_mut().for_each(|block| *block = fold(e, block, known));
                out.push(copy);
            }
            Statement::Store { .. } | Statement::Scatter { .. } | Statement::Contract(_) => out.push(statement.clone()),
        }
    }
    out
}

impl Emitter<'_> {
    /// Emits iterations `from..to` of an innermost loop, split at a comparison, if there is one to
    /// split at.
    pub(super) fn split_index_set(&mut self, axis: &Axis, range: Range<Value>, body: &Block) -> Option<()> {
        // Each split emits the body twice, so limit both the depth and the amount of code.
        let mut statements = 0;
        visit::for_each_statement(body, &mut |_| statements += 1);
        if self.split_depth == MAX_DEPTH || statements << self.split_depth > MAX_STATEMENTS {
            return None;
        }
        let split = find(self, axis.index, body)?;
        let Range { start: from, end: to } = range;
        let [yes, no] = [true, false].map(|side| fold(self, body, &mut BTreeMap::from([(split.value, side)])));
        self.split_depth += 1;
        let condition = match &split.test {
            Test::Threshold(threshold) => {
                let (at, below) = self.split_point(threshold);
                // The comparison may change outside of the range. Then one part is empty.
                let at = self.b.ins().smax(at, from);
                let at = self.least(at, to);
                let (low, high) = if below { (&yes, &no) } else { (&no, &yes) };
                self.innermost(axis, from, at, low);
                self.innermost(axis, at, to, high);
                None
            }
            Test::Same(op, operands) => {
                let [a, b] = operands.each_ref().map(|o| self.operand(o));
                Some(scalar::compare(&mut self.b, *op, Dtype::I64, a, b))
            }
            Test::Outside => Some(self.value(split.value)),
        };
        if let Some(condition) = condition {
            let run = |e: &mut Self, body: &Block| {
                e.innermost(axis, from, to, body);
                vec![]
            };
            self.either(condition, &[], |e| run(e, &yes), |e| run(e, &no));
        }
        self.split_depth -= 1;
        Some(())
    }

    /// The iteration at which a comparison changes, and whether it holds before or after it.
    fn split_point(&mut self, threshold: &Threshold) -> (Value, bool) {
        let base = self.affine(&threshold.base);
        let bound = self.operand(&threshold.bound);
        // Clamp, so that the arithmetic cannot wrap. The base is far inside these limits.
        let [least, most] = [-(1i64 << 62), 1 << 62].map(|k| self.int(k));
        let bound = self.b.ins().smax(bound, least);
        let bound = self.b.ins().smin(bound, most);
        // base + i < bound changes at i = bound - base; base - i < bound, that is, i > base -
        // bound, at base - bound.
        let (at, op) = if threshold.sign > 0 {
            (self.b.ins().isub(bound, base), threshold.op)
        } else {
            (self.b.ins().isub(base, bound), threshold.op.swapped())
        };
        let past = self.b.ins().iadd_imm_s(at, 1);
        // i < at holds for the iterations before `at`, i <= at before `at + 1`, and the others from
        // there on.
        match op {
            CompareOp::Lt => (at, true),
            CompareOp::Le => (past, true),
            CompareOp::Gt => (past, false),
            CompareOp::Ge | CompareOp::Eq | CompareOp::Ne => (at, false),
        }
    }

    fn operand(&mut self, operand: &Comparand) -> Value {
        match operand {
            Comparand::Outside(v) => self.value(*v),
            Comparand::Affine(a) => self.affine(a),
            Comparand::Constant(k) => self.int(*k),
        }
    }
}
