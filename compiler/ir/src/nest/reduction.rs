//! Reductions: the states that elements become, and the merging of two states. A loop computes the
//! last state ([`Reduction`]), a scan every prefix ([`Prefix`]). Both merge by a primitive or by a
//! [`Reducer`] of the program.

use cranelift_entity::{PrimaryMap, entity_impl};

use super::{Block, ValueId};
use crate::{Dtype, Extreme, Monoid, Order, Scalar};

/// A reducer of the program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReducerId(u32);
entity_impl!(ReducerId, "r");

/// A reducer with a state of several values, or with a merge that is more than a primitive.
///
/// An element becomes a state in the body of the loop (the *lift*), and the last state becomes a
/// result in the statements after the loop (the *finish*). Both are ordinary statements, so they
/// fuse and vectorize like any other scalar code. The reducer itself is the rest: the state of no
/// elements, and the merge of two states.
///
/// ```
/// let program: ir::nest::Program = "program @mean {
///   symbol n = dim 0 of input 0
///   input %x: f64[n]
///   output %y: f64
///   reducer @count_and_sum ordered of (i64 0, f64 0.0) = merge(v0: i64, v1: f64, v2: i64, v3: f64) {
///     v4 = add v0, v2
///     v5 = add v1, v3
///     yield v4, v5
///   }
///   kernel @k {
///     v0 = const i64 1
///     v1, v2 = reduce i < n { v3 = load %x[i] } with @count_and_sum lanes (v0, v3)
///     v4 = cast f64 v1
///     v5 = div v2, v4
///     store %y[], v5
///   }
/// }"
/// .parse()?;
/// ir::verify::verify(&program)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reducer {
    /// The name in IR text, such as `argmax.f32`.
    pub name: String,
    /// The state of no elements. Engines may merge it, on either side and any number of times, into
    /// the states of parts of a reduction; the state of all elements must have the same bits with
    /// and without it.
    pub identity: Vec<Scalar>,
    /// Which orders of merging give the same bits.
    pub law: Law,
    /// The parameters of the merge: a state of earlier elements, followed by one of later ones.
    pub params: Vec<ValueId>,
    /// The types of all values of the merge.
    pub values: PrimaryMap<ValueId, Dtype>,
    /// The merge: statements as of a [`super::Function`].
    pub body: Block,
    /// The state of all those elements.
    pub results: Vec<ValueId>,
}

impl Reducer {
    /// The types of the state's values.
    pub fn state(&self) -> impl ExactSizeIterator<Item = Dtype> {
        self.identity.iter().map(|value| value.dtype())
    }
}

/// Which orders of merging states give the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Law {
    /// One order: a reduction says which.
    Ordered,
    /// Any order. The merge is associative and commutative.
    Free,
    /// Any order, and the state is always that of a single element: the first one among those with
    /// a first value equal to the greatest or least of all first values (0 and -0 are equal, and so
    /// are NaNs). So an engine may find the extreme before it looks for the element.
    First(Extreme),
}

impl Law {
    /// Whether the order of the elements can change the result's bits.
    pub fn depends_on_order(self) -> bool {
        self == Law::Ordered
    }
}

/// How two states of a reduction become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Merge {
    /// By a primitive.
    Monoid(Monoid),
    /// By a reducer of the program.
    Reducer(ReducerId),
}

/// A value of the state that an element becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// A value that the body defines or sees.
    Value(ValueId),
    /// The number of the iteration, from 0, row-major over the dims (`i64`).
    Number,
}

impl Input {
    /// The input with another value.
    pub fn map(self, name: impl FnOnce(ValueId) -> ValueId) -> Input {
        match self {
            Input::Value(value) => Input::Value(name(value)),
            Input::Number => Input::Number,
        }
    }

    /// The value, if it is one.
    pub fn value(self) -> Option<ValueId> {
        match self {
            Input::Value(value) => Some(value),
            Input::Number => None,
        }
    }
}

/// One reduction of a loop of kind [`super::LoopKind::Reduce`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reduction {
    /// The state of all elements, defined after the loop.
    pub results: Vec<ValueId>,
    /// How states are merged.
    pub merge: Merge,
    /// The order of merging: part of the meaning.
    pub order: Order,
    /// The state that the element of an iteration becomes, visible at the end of the body.
    pub inputs: Vec<Input>,
}

impl Reduction {
    /// A reduction by a primitive.
    pub fn monoid(result: ValueId, monoid: Monoid, order: Order, input: ValueId) -> Reduction {
        Reduction { results: vec![result], merge: Merge::Monoid(monoid), order, inputs: vec![Input::Value(input)] }
    }

    /// The values among the inputs.
    pub fn values(&self) -> impl Iterator<Item = ValueId> {
        self.inputs.iter().filter_map(|input| input.value())
    }

    /// The reduction as one of single values by a primitive, if it is one.
    pub fn single(&self) -> Option<Single> {
        match (self.merge, self.inputs.as_slice(), self.results.as_slice()) {
            (Merge::Monoid(monoid), [Input::Value(input)], [result]) => {
                Some(Single { result: *result, monoid, order: self.order, input: *input })
            }
            _ => None,
        }
    }
}

/// A reduction of single values by a primitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Single {
    /// Defined after the loop.
    pub result: ValueId,
    /// The reduction.
    pub monoid: Monoid,
    /// Its order.
    pub order: Order,
    /// The value that is reduced.
    pub input: ValueId,
}

/// A running reduction; see [`super::Op::Prefix`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// How states are merged.
    pub merge: Merge,
    /// The state that the element of an iteration becomes.
    pub inputs: Vec<Input>,
    /// The number of the value that it selects from the state so far.
    pub field: usize,
}

impl Prefix {
    /// The prefix as one of single values by a primitive, if it is one.
    pub fn single(&self) -> Option<(Monoid, ValueId)> {
        match (self.merge, self.inputs.as_slice()) {
            (Merge::Monoid(monoid), [Input::Value(input)]) => Some((monoid, *input)),
            _ => None,
        }
    }
}
