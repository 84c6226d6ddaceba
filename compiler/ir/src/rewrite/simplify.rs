//! Simplifies arithmetic on indices as far as constant extents allow: `(3 * i + j) / 3` is `i` if
//! `j < 3`.
//!
//! A 64-bit value that is an affine expression of indices is replaced by that expression wherever
//! it is used, especially in subscripts. So fusion and code generation see through reshapes that
//! were written as quotients and remainders. Conditions between constants are decided, and the
//! branch that is never taken is removed.
//!
//! Sums, differences and products are the same modulo 2^64 in any order. Quotients are simplified
//! only if all indices have constant extents and nothing wraps. (An index that vanishes from an
//! access in this way has at least one value, so the access does not rely on more than before: see
//! [`super::hoist`].) A condition that holds for every value of an index stays, because an access
//! under it may rely on the index having a value.

use std::collections::BTreeMap;

use cranelift_entity::SecondaryMap;

use super::replace::for_each_use_mut;
use crate::nest::{Block, IndexId, Kernel, Op, Statement, Subscript, ValueId};
use crate::visit::for_each_statement;
use crate::{Affine, BinaryOp, CompareOp, Dtype, Scalar, Size, UnaryOp};

/// Simplifies a kernel and returns whether anything changed.
pub fn simplify(kernel: &mut Kernel) -> bool {
    let body = std::mem::take(&mut kernel.body);
    let mut simplifier = Simplifier {
        kernel,
        lengths: SecondaryMap::new(),
        known: SecondaryMap::new(),
        became: BTreeMap::new(),
        changed: false,
    };
    let body = simplifier.block(body);
    let changed = simplifier.changed;
    kernel.body = body;
    changed
}

/// A scalar without its loads.
#[derive(Clone)]
enum Known {
    /// An `i64`.
    Integer(Affine<IndexId>),
    /// A `bool`.
    Truth(bool),
}

struct Simplifier<'k> {
    kernel: &'k Kernel,
    /// The number of values of an index, if that is a constant above 0.
    lengths: SecondaryMap<IndexId, Option<i64>>,
    known: SecondaryMap<ValueId, Option<Known>>,
    /// Values that are replaced by others.
    became: BTreeMap<ValueId, ValueId>,
    changed: bool,
}

impl Simplifier<'_> {
    fn block(&mut self, block: Block) -> Block {
        let mut out = Vec::with_capacity(block.len());
        block.into_iter().for_each(|statement| self.statement(statement, &mut out));
        out
    }

    fn statement(&mut self, mut statement: Statement, out: &mut Block) {
        for (index, extent) in statement.dims() {
            self.lengths[*index] = extent.as_size().and_then(Size::as_constant).filter(|length| *length > 0);
        }
        // The branch that is taken replaces the statement, and its values replace the results. But
        // a table begins with the loop that merges into it, so that the last merge has to stay,
        // even where nothing is merged.
        if let Statement::If { condition, then, otherwise, results } = &mut statement
            && let Some(Known::Truth(holds)) = self.known[self.now(*condition)]
            && !merges(if holds { otherwise } else { then })
        {
            self.changed = true;
            let taken = std::mem::take(if holds { then } else { otherwise });
            taken.into_iter().for_each(|statement| self.statement(statement, out));
            for (result, yes, no) in results {
                let value = self.now(if holds { *yes } else { *no });
                self.became.insert(*result, value);
            }
            return;
        }
        for inner in statement.blocks_mut() {
            *inner = self.block(std::mem::take(inner));
        }
        for_each_use_mut(&mut statement, &mut |value| *value = self.became.get(value).copied().unwrap_or(*value));
        match &mut statement {
            Statement::Let { value, op: Op::Select(condition, yes, no) } => {
                if let Some(Known::Truth(holds)) = self.known[*condition] {
                    self.became.insert(*value, if holds { *yes } else { *no });
                    self.changed = true;
                    return;
                }
            }
            // The other side alone decides.
            Statement::Let { value, op: Op::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) }
                if let Some(side) = self.side(*op, *a, *b) =>
            {
                self.became.insert(*value, side);
                self.changed = true;
                return;
            }
            Statement::Let { value, op } => {
                if let Op::Load { at, .. } = op {
                    self.subscripts(at);
                }
                self.known[*value] = self.work_out(op).filter(|known| !overflows(known));
                let known = match &self.known[*value] {
                    // Already in the simplest form, so that nothing changes.
                    _ if matches!(op, Op::Constant(_) | Op::Affine(_)) => None,
                    Some(Known::Integer(affine)) => Some(Op::Affine(affine.clone())),
                    Some(Known::Truth(holds)) => Some(Op::Constant(Scalar::Bool(*holds))),
                    None => None,
                };
                if let Some(known) = known {
                    *op = known;
                    self.changed = true;
                }
            }
            Statement::Store { at, .. } | Statement::Scatter { at, .. } => self.subscripts(at),
            Statement::If { .. } | Statement::Loop(_) | Statement::While(_) | Statement::Contract(_) => {}
        }
        out.push(statement);
    }

    fn now(&self, value: ValueId) -> ValueId {
        self.became.get(&value).copied().unwrap_or(value)
    }

    fn subscripts(&mut self, at: &mut [Subscript]) {
        for subscript in at {
            if let Subscript::Value(value) = subscript
                && let Some(Known::Integer(affine)) = &self.known[*value]
            {
                *subscript = Subscript::Affine(affine.clone());
                self.changed = true;
            }
        }
    }

    fn work_out(&self, op: &Op) -> Option<Known> {
        Some(match op {
            Op::Constant(Scalar::I64(value)) => Known::Integer(Affine::constant(*value)),
            Op::Constant(Scalar::Bool(value)) => Known::Truth(*value),
            Op::Affine(affine) => Known::Integer(affine.clone()),
            Op::Unary(UnaryOp::Not, a) => Known::Truth(!self.truth(*a)?),
            Op::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) if self.kernel.values[*a] == Dtype::Bool => {
                let ends = *op == BinaryOp::Or;
                if ![a, b].iter().any(|side| self.truth(**side) == Some(ends)) {
                    return None;
                }
                Known::Truth(ends)
            }
            Op::Binary(op, a, b) if self.kernel.values[*a] == Dtype::I64 => {
                let (a, b) = (self.integer(*a)?, self.integer(*b)?);
                Known::Integer(match op {
                    BinaryOp::Add => a.add(b),
                    BinaryOp::Sub => a.sub(b),
                    BinaryOp::Mul => a.mul(b)?,
                    BinaryOp::Div => self.divide(a, constant(b)?)?.0,
                    BinaryOp::Rem => self.divide(a, constant(b)?)?.1,
                    BinaryOp::Min => Affine::constant(constant(a)?.min(constant(b)?)),
                    BinaryOp::Max => Affine::constant(constant(a)?.max(constant(b)?)),
                    BinaryOp::And | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Shl | BinaryOp::Shr => return None,
                })
            }
            Op::Compare(op, a, b) if self.kernel.values[*a] == Dtype::I64 => {
                let (a, b) = (constant(self.integer(*a)?)?, constant(self.integer(*b)?)?);
                Known::Truth(match op {
                    CompareOp::Eq => a == b,
                    CompareOp::Ne => a != b,
                    CompareOp::Lt => a < b,
                    CompareOp::Le => a <= b,
                    CompareOp::Gt => a > b,
                    CompareOp::Ge => a >= b,
                })
            }
            Op::Constant(_)
            | Op::Unary(..)
            | Op::Binary(..)
            | Op::Compare(..)
            | Op::Fma(..)
            | Op::Select(..)
            | Op::Cast(..)
            | Op::Bitcast(..)
            | Op::Call(..)
            | Op::Load { .. }
            | Op::Check { .. }
            | Op::Prefix(..)
            | Op::Place(_) => return None,
        })
    }

    fn truth(&self, value: ValueId) -> Option<bool> {
        match self.known[value] {
            Some(Known::Truth(holds)) => Some(holds),
            _ => None,
        }
    }

    /// The side that `&` or `|` of truth values is equal to, because the other changes nothing.
    fn side(&self, op: BinaryOp, a: ValueId, b: ValueId) -> Option<ValueId> {
        let neutral = Some(op == BinaryOp::And);
        match (self.truth(a), self.truth(b)) {
            (truth, _) if truth == neutral => Some(b),
            (_, truth) if truth == neutral => Some(a),
            _ => None,
        }
    }

    fn integer(&self, value: ValueId) -> Option<&Affine<IndexId>> {
        match &self.known[value] {
            Some(Known::Integer(affine)) => Some(affine),
            _ => None,
        }
    }

    /// Quotient and remainder, if both are affine.
    fn divide(&self, dividend: &Affine<IndexId>, by: i64) -> Option<(Affine<IndexId>, Affine<IndexId>)> {
        if by < 1 || self.range(dividend)?.0 < 0 {
            return None;
        }
        let mut quotient = Affine::constant(constant_of(dividend)?.div_euclid(by));
        let mut rest = Affine::constant(constant_of(dividend)?.rem_euclid(by));
        for (index, coefficient) in dividend.terms() {
            let coefficient = coefficient.as_constant()?;
            let (part, factor) =
                if coefficient % by == 0 { (&mut quotient, coefficient / by) } else { (&mut rest, coefficient) };
            *part = part.add(&Affine::index(*index).scale(&Size::constant(factor)));
        }
        let (least, greatest) = self.range(&rest)?;
        (least >= 0 && greatest < by).then_some((quotient, rest))
    }

    /// The least and the greatest value, where each index has a constant extent and nothing wraps.
    fn range(&self, affine: &Affine<IndexId>) -> Option<(i64, i64)> {
        let constant = constant_of(affine)?;
        let (mut least, mut greatest) = (constant, constant);
        for (index, coefficient) in affine.terms() {
            let reach = coefficient.as_constant()?.checked_mul(self.lengths[*index]? - 1)?;
            let end = if reach < 0 { &mut least } else { &mut greatest };
            *end = end.checked_add(reach)?;
        }
        Some((least, greatest))
    }
}

fn constant_of(affine: &Affine<IndexId>) -> Option<i64> {
    affine.constant_part().as_constant()
}

/// The value of an expression that is a constant.
fn constant(affine: &Affine<IndexId>) -> Option<i64> {
    affine.as_size()?.as_constant()
}

fn overflows(known: &Known) -> bool {
    match known {
        Known::Integer(a) => a.constant_part().is_overflow() || a.terms().iter().any(|(_, c)| c.is_overflow()),
        Known::Truth(_) => false,
    }
}

/// Whether a block merges values into tables.
fn merges(block: &Block) -> bool {
    let mut found = false;
    for_each_statement(block, &mut |statement| found |= matches!(statement, Statement::Scatter { .. }));
    found
}
