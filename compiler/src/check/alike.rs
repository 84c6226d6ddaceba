//! Nodes that have the same value wherever both are computed, because they are the same operation
//! on the same values: `p[i]` in a condition, and `p[i]` in the branch that it guards. Proofs take
//! such nodes for one variable.

use std::collections::BTreeMap;

use cranelift_entity::SecondaryMap;
use ir::checked::{ExprId, IndexId, Kind};
use ir::{Affine, Dtype};

/// The operation and the operands that decide the value of a node.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Value {
    operation: Operation,
    dtype: Dtype,
    operands: Vec<Operand>,
}

/// An operation on scalars.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Operation {
    Access,
    Cast,
    Unary(ir::UnaryOp),
    Binary(ir::BinaryOp),
    Math(ir::MathFn),
}

/// An operand: its value as an affine expression, or else the first node like it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Operand {
    Affine(Affine<IndexId>),
    Node(ExprId),
}

/// The nodes so far, by their values.
#[derive(Default)]
pub(super) struct Alike {
    first: BTreeMap<Value, ExprId>,
    /// The first node like each one, of those that have an earlier one.
    same: SecondaryMap<ExprId, Option<ExprId>>,
}

impl Alike {
    /// The first node with the value of this one.
    pub fn first(&self, id: ExprId) -> ExprId {
        self.same[id].unwrap_or(id)
    }

    /// Adds a node, given the values of the nodes before it as affine expressions.
    pub fn add<'m>(
        &mut self,
        id: ExprId,
        kind: &Kind,
        dtype: Dtype,
        affine: impl Fn(ExprId) -> Option<&'m Affine<IndexId>>,
    ) {
        let (operation, operands) = match kind {
            Kind::Access { array, at } => {
                (Operation::Access, std::iter::once(*array).chain(at.iter().map(|s| s.value)).collect())
            }
            Kind::Cast(a) => (Operation::Cast, vec![*a]),
            Kind::Unary(op, a) => (Operation::Unary(*op), vec![*a]),
            Kind::Binary(op, a, b) => (Operation::Binary(*op), vec![*a, *b]),
            Kind::Math(function, list) => (Operation::Math(*function), list.clone()),
            _ => return,
        };
        let operand = |id: ExprId| match affine(id) {
            Some(value) => Operand::Affine(value.clone()),
            None => Operand::Node(self.first(id)),
        };
        let operands = operands.into_iter().map(operand).collect();
        let first = *self.first.entry(Value { operation, dtype, operands }).or_insert(id);
        if first != id {
            self.same[id] = Some(first);
        }
    }
}
