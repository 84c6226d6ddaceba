//! The reducers of the language, as a table. A reducer is an operation of the IR over a family of
//! types, and a *finish*, which computes the result from the final state. To add one with a state
//! of its own, add its merge to `math::reducers`; to add one that finishes a state in another way,
//! add a [`Finish`].

use ir::{Extreme, Monoid, ReduceOp};

/// The types of elements that a reducer takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    Numbers,
    Floats,
    Bools,
}

/// How the result is computed from the state of all elements.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Finish {
    /// The result is the state itself.
    State,
    /// The result is the state divided by the number of elements.
    OverCount,
}

/// A reducer of the language.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Reducer {
    pub(super) name: &'static str,
    pub(super) op: ReduceOp,
    pub(super) takes: Takes,
    pub(super) finish: Finish,
}

/// Every reducer.
pub(super) const REDUCERS: [Reducer; 9] = [
    entry("sum", ReduceOp::Monoid(Monoid::Sum), Takes::Numbers, Finish::State),
    entry("prod", ReduceOp::Monoid(Monoid::Prod), Takes::Numbers, Finish::State),
    entry("max", ReduceOp::Monoid(Monoid::Max), Takes::Numbers, Finish::State),
    entry("min", ReduceOp::Monoid(Monoid::Min), Takes::Numbers, Finish::State),
    entry("mean", ReduceOp::Monoid(Monoid::Sum), Takes::Floats, Finish::OverCount),
    entry("any", ReduceOp::Monoid(Monoid::Any), Takes::Bools, Finish::State),
    entry("all", ReduceOp::Monoid(Monoid::All), Takes::Bools, Finish::State),
    entry("argmax", ReduceOp::Position(Extreme::Greatest), Takes::Numbers, Finish::State),
    entry("argmin", ReduceOp::Position(Extreme::Least), Takes::Numbers, Finish::State),
];

const fn entry(name: &'static str, op: ReduceOp, takes: Takes, finish: Finish) -> Reducer {
    Reducer { name, op, takes, finish }
}

/// The reducer of that name.
pub(super) fn reducer(name: &str) -> Option<Reducer> {
    REDUCERS.into_iter().find(|reducer| reducer.name == name)
}

impl Reducer {
    /// Whether it gives the place of an element.
    pub(super) fn is_position(self) -> bool {
        matches!(self.op, ReduceOp::Position(_))
    }

    /// Whether it is a plain sum: a sum of products can become a contraction.
    pub(super) fn is_sum(self) -> bool {
        self.op == ReduceOp::Monoid(Monoid::Sum) && self.finish == Finish::State
    }
}
