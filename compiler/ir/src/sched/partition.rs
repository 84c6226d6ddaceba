//! Splits of loops (index set splitting: Griebl, Feautrier, Lengauer, "Index Set Splitting", 2000).
//! If a branch that accesses memory depends on a comparison of the index, the loop is split where
//! the comparison changes, so that each part has a body without the branch, which may run in
//! vectors. If the comparison is the same in all iterations, the loop runs in one of two ways.
//! Typical sources are concatenation, padding, and stencils at their edges.

use std::collections::BTreeMap;

use crate::leaf::Site;
use crate::nest::{Block, IndexId, Op, Program, Statement, ValueId};
use crate::{Affine, BinaryOp, CompareOp, Dtype, Scalar, Size, UnaryOp, visit};

/// How a `bool` that a loop can be split at depends on the loop's index.
#[derive(Clone, Debug)]
pub enum Split {
    /// It is a value from outside of the loop.
    Outside,
    /// A loop-invariant comparison.
    Same(CompareOp, [Comparand; 2]),
    /// A comparison that changes once as the index grows.
    Threshold(Threshold),
}

/// The comparison `sign * index + base op bound`.
#[derive(Clone, Debug)]
pub struct Threshold {
    /// 1 or -1.
    pub sign: i64,
    /// The other terms of the sum. The loop binds none of their indices.
    pub base: Affine<IndexId>,
    /// The other operand of the comparison.
    pub bound: Comparand,
    /// The comparison.
    pub op: CompareOp,
}

/// An operand of a comparison.
#[derive(Clone, Debug)]
pub enum Comparand {
    /// A value from outside of the loop.
    Outside(ValueId),
    /// A sum of indices and sizes.
    Affine(Affine<IndexId>),
    /// A constant.
    Constant(i64),
}

impl Split {
    /// How a `bool` depends on the index of a loop with this body, if the loop can be split at it.
    pub fn of(site: Site<'_>, index: IndexId, body: &Block, value: ValueId) -> Option<Split> {
        Body::new(index, body).test(site, index, value)
    }

    /// The first `bool` that a loop can be split at, among those that branches with accesses to
    /// memory depend on.
    pub(super) fn first(site: Site<'_>, index: IndexId, block: &Block) -> Option<ValueId> {
        let body = Body::new(index, block);
        let mut found = None;
        visit::for_each_statement(block, &mut |statement| {
            let Statement::If { condition, then, otherwise, .. } = statement else { return };
            let touches = |b: &Block| !visit::loads(b).is_empty() || !visit::stores(b).is_empty();
            if found.is_none() && (touches(then) || touches(otherwise)) {
                found = body.first(site, index, *condition);
            }
        });
        found
    }
}

/// The body of a loop without the branches that depend on a `bool`, which is `side`.
pub fn given(site: Site<'_>, body: &Block, value: ValueId, side: bool) -> Block {
    fold(site, body, &mut BTreeMap::from([(value, side)]))
}

/// The body of a loop and its definitions.
struct Body<'b> {
    ops: BTreeMap<ValueId, &'b Op>,
    bound: Vec<IndexId>,
    /// Results of branches and loops.
    results: Vec<ValueId>,
}

impl<'b> Body<'b> {
    fn new(index: IndexId, block: &'b Block) -> Body<'b> {
        let mut ops = BTreeMap::new();
        visit::for_each_op(block, &mut |value, op| _ = ops.insert(value, op));
        let mut bound = visit::bound_indices(block);
        bound.retain(|i| *i != index);
        let mut results = vec![];
        visit::for_each_statement(block, &mut |s| visit::for_each_definition(s, &mut |v| results.push(v)));
        results.retain(|v| !ops.contains_key(v));
        Body { ops, bound, results }
    }

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

    /// The first `bool` in a condition that the loop can be split at.
    fn first(&self, site: Site<'_>, index: IndexId, condition: ValueId) -> Option<ValueId> {
        match self.ops.get(&condition) {
            Some(Op::Unary(UnaryOp::Not, a)) => self.first(site, index, *a),
            Some(Op::Binary(BinaryOp::And | BinaryOp::Or, a, b)) => {
                self.first(site, index, *a).or_else(|| self.first(site, index, *b))
            }
            Some(_) | None => self.test(site, index, condition).map(|_| condition),
        }
    }

    /// How a `bool` depends on the index.
    fn test(&self, site: Site<'_>, index: IndexId, value: ValueId) -> Option<Split> {
        let Some(op) = self.ops.get(&value) else {
            return (!self.results.contains(&value)).then_some(Split::Outside);
        };
        let Op::Compare(op, a, b) = op else { return None };
        if (site.dtype)(*a) != Dtype::I64 {
            return None;
        }
        let operands = [self.operand(*a)?, self.operand(*b)?];
        let varies = operands.each_ref().map(|o| match o {
            Comparand::Affine(a) => a.coefficient(index).as_constant(),
            Comparand::Outside(_) | Comparand::Constant(_) => Some(0),
        });
        let (at, op) = match (varies, op) {
            ([Some(0), Some(0)], _) => return Some(Split::Same(*op, operands)),
            (_, CompareOp::Eq | CompareOp::Ne) => return None,
            ([Some(1 | -1), Some(0)], op) => (0, *op),
            ([Some(0), Some(1 | -1)], op) => (1, op.swapped()),
            _ => return None,
        };
        let (Comparand::Affine(affine), Some(sign)) = (&operands[at], varies[at]) else { return None };
        if !does_not_wrap(site.program, affine) {
            return None;
        }
        let base = affine.sub(&Affine::index(index).scale(&Size::constant(sign)));
        let bound = operands[1 - at].clone();
        Some(Split::Threshold(Threshold { sign, base, bound, op }))
    }
}

/// Whether the sum cannot wrap, whatever the sizes are: it would compare as another number, and not
/// change at one iteration.
fn does_not_wrap(program: &Program, affine: &Affine<IndexId>) -> bool {
    let is_small = |(_, factor): &(IndexId, Size)| factor.as_constant().is_some_and(|k| k.unsigned_abs() <= 1 << 10);
    affine.terms().iter().all(is_small) && program.is_small(affine.constant_part())
}

/// Simplifies a block, given some `bool` values.
fn fold(site: Site<'_>, block: &Block, known: &mut BTreeMap<ValueId, bool>) -> Block {
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
                    (Some(c), _) if (site.dtype)(*value) == Dtype::Bool => {
                        known.insert(*value, c);
                        Op::Constant(Scalar::Bool(c))
                    }
                    (None, Some(other)) if (site.dtype)(*value) == Dtype::Bool => Op::Cast(Dtype::Bool, other),
                    _ => op.clone(),
                };
                out.push(Statement::Let { value: *value, op });
            }
            Statement::If { condition, then, otherwise, results } => match known.get(condition).copied() {
                Some(side) => {
                    out.extend(fold(site, if side { then } else { otherwise }, known));
                    // A cast to the same type serves as a copy.
                    for (result, yes, no) in results {
                        let op = Op::Cast((site.dtype)(*result), if side { *yes } else { *no });
                        out.push(Statement::Let { value: *result, op });
                    }
                }
                None => out.push(Statement::If {
                    condition: *condition,
                    then: fold(site, then, known),
                    otherwise: fold(site, otherwise, known),
                    results: results.clone(),
                }),
            },
            Statement::Loop(l) => {
                let mut l = l.clone();
                l.body = fold(site, &l.body, known);
                out.push(Statement::Loop(l));
            }
            Statement::While(_) => {
                let mut copy = statement.clone();
                copy.blocks_mut().for_each(|block| *block = fold(site, block, known));
                out.push(copy);
            }
            Statement::Store { .. } | Statement::Scatter { .. } | Statement::Contract(_) => out.push(statement.clone()),
        }
    }
    out
}
