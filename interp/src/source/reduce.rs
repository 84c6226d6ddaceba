//! The reducers of the language as the reference describes them: sums, products and extrema in the
//! orders of `ir::order`, positions by looking at each element in turn.

use ir::{CompareOp, Dtype, Extreme, Order, ReduceOp, Scalar};

use crate::reduce::{Merger, Reduction, Running, State};
use crate::scalar::compare;

/// The reduction of no elements.
pub(super) fn of_none(op: ReduceOp, dtype: Dtype) -> Scalar {
    match op {
        ReduceOp::Monoid(monoid) => monoid.identity(dtype),
        ReduceOp::Position(_) => Scalar::I64(0),
    }
}

/// A reduction in progress.
pub(super) enum Reducing {
    Monoid(Box<Reduction<'static>>),
    Position(Leader),
}

impl Reducing {
    pub fn new(op: ReduceOp, order: Order, dtype: Dtype) -> Reducing {
        match op {
            ReduceOp::Monoid(monoid) => {
                Reducing::Monoid(Box::new(Reduction::new(Merger::Monoid(monoid, dtype), order)))
            }
            ReduceOp::Position(extreme) => Reducing::Position(Leader::new(extreme)),
        }
    }

    pub fn push(&mut self, x: Scalar) {
        match self {
            Reducing::Monoid(reduction) => reduction.push(State::from_slice(&[x])),
            Reducing::Position(leader) => leader.push(x),
        }
    }

    pub fn finish(self) -> Scalar {
        match self {
            Reducing::Monoid(reduction) => reduction.finish()[0],
            Reducing::Position(leader) => leader.number(),
        }
    }
}

/// A scan in progress.
pub(super) enum Prefixes {
    Monoid(Merger<'static>, Running),
    Position(Leader),
}

impl Prefixes {
    pub fn new(op: ReduceOp, dtype: Dtype) -> Prefixes {
        let monoid = match op {
            ReduceOp::Monoid(monoid) => monoid,
            ReduceOp::Position(extreme) => return Prefixes::Position(Leader::new(extreme)),
        };
        let merger = Merger::Monoid(monoid, dtype);
        let order = if monoid.depends_on_order(dtype) { Order::Scan } else { Order::Free };
        let running = Running::new(&merger, order);
        Prefixes::Monoid(merger, running)
    }

    /// The reduction of the elements up to and with this one.
    pub fn push(&mut self, x: Scalar) -> Scalar {
        match self {
            Prefixes::Monoid(merger, running) => running.push(merger, State::from_slice(&[x]))[0],
            Prefixes::Position(leader) => {
                leader.push(x);
                leader.number()
            }
        }
    }
}

/// The first of the greatest or least elements so far, or the first NaN.
pub(super) struct Leader {
    beats: CompareOp,
    count: i64,
    /// The element and its position.
    leads: Option<(Scalar, i64)>,
}

impl Leader {
    fn new(extreme: Extreme) -> Leader {
        let beats = match extreme {
            Extreme::Greatest => CompareOp::Gt,
            Extreme::Least => CompareOp::Lt,
        };
        Leader { beats, count: 0, leads: None }
    }

    fn push(&mut self, x: Scalar) {
        let ahead = |(leads, _): (Scalar, i64)| !leads.is_nan() && (x.is_nan() || compare(self.beats, x, leads));
        if self.leads.is_none_or(ahead) {
            self.leads = Some((x, self.count));
        }
        self.count += 1;
    }

    fn number(&self) -> Scalar {
        Scalar::I64(self.leads.map_or(0, |(_, number)| number))
    }
}
