//! The cost of operations: how long each takes in comparison with the others. Every estimate of
//! time counts by these weights.
//!
//! A core starts two operations of weight 1 per cycle, on all lanes of a vector: additions,
//! comparisons, selections. Loads and stores have no weight, because estimates count their bytes.

use crate::nest::{Block, Op, Program};
use crate::{BinaryOp, Dtype, UnaryOp, visit};

impl UnaryOp {
    /// The weight of the operation.
    fn weight(self) -> f64 {
        match self {
            UnaryOp::Sqrt => 5.0,
            UnaryOp::Neg
            | UnaryOp::Not
            | UnaryOp::Abs
            | UnaryOp::Floor
            | UnaryOp::Ceil
            | UnaryOp::Trunc
            | UnaryOp::Round => 1.0,
        }
    }
}

impl BinaryOp {
    /// The weight of the operation on elements of a type.
    fn weight(self, element: Dtype) -> f64 {
        match self {
            BinaryOp::Div if element.is_float() => 5.0,
            BinaryOp::Rem if element.is_float() => 40.0,
            BinaryOp::Div | BinaryOp::Rem => 20.0,
            BinaryOp::Add
            | BinaryOp::Sub
            | BinaryOp::Mul
            | BinaryOp::Min
            | BinaryOp::Max
            | BinaryOp::And
            | BinaryOp::Or
            | BinaryOp::Xor
            | BinaryOp::Shl
            | BinaryOp::Shr => 1.0,
        }
    }
}

impl Op {
    /// The weight of the operation with a result of type `result`. A call has no weight by itself,
    /// because the operations of the function count.
    pub fn weight(&self, result: Dtype) -> f64 {
        match self {
            Op::Constant(_) | Op::Affine(_) | Op::Bitcast(..) | Op::Load { .. } | Op::Call(..) => 0.0,
            Op::Unary(op, _) => op.weight(),
            Op::Binary(op, ..) => op.weight(result),
            Op::Fma(..) | Op::Compare(..) | Op::Select(..) => 1.0,
            // Most machines have no instructions for half precision, so that conversions take
            // several.
            Op::Cast(to, _) if to.is_storage() => 4.0,
            Op::Cast(..) => 1.0,
            Op::Check { .. } => 2.0,
            // Four steps within a group and two carries.
            Op::Prefix(..) => 6.0,
            // Some passes over the keys, each with a load and a store of them and of counts.
            Op::Place(_) => 60.0,
        }
    }

    /// Whether the operation takes an instruction other than a load in each iteration. Constants
    /// and indices are computed outside of the loop, or are part of other instructions.
    pub fn is_arithmetic(&self) -> bool {
        match self {
            Op::Constant(_) | Op::Affine(_) | Op::Load { .. } => false,
            Op::Unary(..)
            | Op::Binary(..)
            | Op::Compare(..)
            | Op::Fma(..)
            | Op::Select(..)
            | Op::Cast(..)
            | Op::Bitcast(..)
            | Op::Call(..)
            | Op::Check { .. }
            | Op::Prefix(..)
            | Op::Place(_) => true,
        }
    }
}

impl Program {
    /// How many operations a block has in its text, with those of the functions that it calls in
    /// place of the calls. Only those that `counts` are counted.
    pub fn operations_of(&self, block: &Block, counts: fn(&Op) -> bool) -> usize {
        let mut count = 0;
        visit::for_each_op(block, &mut |_, op| {
            count += if let Op::Call(function, _) = op {
                self.operations_of(&self.functions[*function].body, counts)
            } else {
                usize::from(counts(op))
            };
        });
        count
    }
}
