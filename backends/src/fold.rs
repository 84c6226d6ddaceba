//! What a reduction does with two elements, and what it gives for none.

use ir::sabotage::{self, Bug};
use ir::{BinaryOp, Dtype, ReduceOp, Scalar};

/// A reduction's operation on elements of a type.
#[derive(Clone, Copy)]
pub(crate) struct Fold {
    pub(crate) op: ReduceOp,
    pub(crate) dtype: Dtype,
}

impl Fold {
    /// The primitive that joins two elements; `argmax` and `argmin` have none.
    pub(crate) fn primitive(self) -> BinaryOp {
        match self.op {
            ReduceOp::Sum => BinaryOp::Add,
            ReduceOp::Prod => BinaryOp::Mul,
            ReduceOp::Max | ReduceOp::ArgMax => BinaryOp::Max,
            ReduceOp::Min | ReduceOp::ArgMin => BinaryOp::Min,
            ReduceOp::Any => BinaryOp::Or,
            ReduceOp::All => BinaryOp::And,
        }
    }

    /// The value of no elements.
    pub(crate) fn identity(self) -> Scalar {
        let infinite = |negative: bool| {
            let v = if negative { f64::NEG_INFINITY } else { f64::INFINITY };
            if self.dtype == Dtype::F64 { Scalar::F64(v) } else { Scalar::F32(v as f32) }
        };
        let signed = self.dtype.is_signed_int();
        let bits = 8 * self.dtype.bytes();
        match self.op {
            ReduceOp::Sum | ReduceOp::Any => Scalar::zero(self.dtype),
            ReduceOp::Prod | ReduceOp::All => Scalar::one(self.dtype),
            ReduceOp::Max | ReduceOp::ArgMax | ReduceOp::Min | ReduceOp::ArgMin => {
                let least = matches!(self.op, ReduceOp::Max | ReduceOp::ArgMax);
                match self.dtype {
                    Dtype::Bool => Scalar::Bool(!least),
                    d if d.is_float() => infinite(least != sabotage::on(Bug::WrongIdentity)),
                    d if signed && least => Scalar::from_bits(d, 1 << (bits - 1)),
                    d if signed => Scalar::from_bits(d, (1 << (bits - 1)) - 1),
                    d => Scalar::from_bits(d, if least { 0 } else { u64::MAX }),
                }
            }
        }
    }

    pub(crate) fn is_arg(self) -> bool {
        matches!(self.op, ReduceOp::ArgMax | ReduceOp::ArgMin)
    }
}
