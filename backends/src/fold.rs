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
    /// The primitive that joins two elements; of `argmax` and `argmin`, what they compare.
    pub(crate) fn primitive(self) -> BinaryOp {
        self.op.primitive()
    }

    /// The value of no elements, as engines hold it: half floats as `f32`.
    pub(crate) fn identity(self) -> Scalar {
        let is_half = matches!(self.dtype, Dtype::F16 | Dtype::Bf16);
        let element = if is_half { Dtype::F32 } else { self.dtype };
        match self.op {
            ReduceOp::Max if element.is_float() && sabotage::on(Bug::WrongIdentity) => Scalar::greatest(element),
            op => op.identity(element),
        }
    }

    pub(crate) fn is_arg(self) -> bool {
        self.op.is_arg()
    }
}
