//! Reductions as engines see them: how states are merged, and the types of states.

use crate::build::Values;
use crate::nest::{Input, Merge, Prefix, Program, ReducerId, Reduction, ValueId};
use crate::sabotage::{self, Bug};
use crate::{BinaryOp, Dtype, Monoid, Scalar};

/// A reduction by a primitive over elements of a type.
#[derive(Clone, Copy)]
pub struct Fold {
    /// The operation.
    pub op: Monoid,
    /// The type of the elements.
    pub dtype: Dtype,
}

impl Fold {
    /// The primitive that combines two elements.
    pub fn primitive(self) -> BinaryOp {
        self.op.primitive()
    }

    /// The value of an empty reduction, in the type that engines compute with: `f32` for half
    /// floats.
    pub fn identity(self) -> Scalar {
        let is_half = matches!(self.dtype, Dtype::F16 | Dtype::Bf16);
        let element = if is_half { Dtype::F32 } else { self.dtype };
        if self.op == Monoid::Max && element.is_float() && sabotage::on(Bug::WrongIdentity) {
            return Scalar::greatest(element);
        }
        self.op.identity(element)
    }
}

/// How a reduction merges its states.
#[derive(Clone, Copy)]
pub enum Merging {
    /// By a primitive: the state is one value.
    Fold(Fold),
    /// By a reducer of the program.
    Reducer(ReducerId),
}

impl Merging {
    /// The merge of a reduction over values of these types.
    pub fn of(values: &Values, r: &Reduction) -> Merging {
        Merging::new(&|value| values[value], r.merge, &r.inputs)
    }

    /// The merge of a running reduction.
    pub fn of_prefix(values: &Values, prefix: &Prefix) -> Merging {
        Merging::new(&|value| values[value], prefix.merge, &prefix.inputs)
    }

    /// That of some inputs.
    pub(crate) fn new(dtype: &dyn Fn(ValueId) -> Dtype, merge: Merge, inputs: &[Input]) -> Merging {
        match merge {
            Merge::Monoid(op) => {
                let dtype = inputs.first().and_then(|input| input.value()).map_or(Dtype::I64, dtype);
                Merging::Fold(Fold { op, dtype })
            }
            Merge::Reducer(id) => Merging::Reducer(id),
        }
    }

    /// Whether the order of the elements can change the result's bits.
    pub fn depends_on_order(self, program: &Program) -> bool {
        match self {
            Merging::Fold(fold) => fold.op.depends_on_order(fold.dtype),
            Merging::Reducer(id) => program.reducers[id].law.depends_on_order(),
        }
    }

    /// The types of the state's values.
    pub fn dtypes(self, program: &Program) -> Vec<Dtype> {
        match self {
            Merging::Fold(fold) => vec![fold.dtype],
            Merging::Reducer(id) => program.reducers[id].state().collect(),
        }
    }
}
