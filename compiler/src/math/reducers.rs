//! The reducers with states of more than one value: each merge as one fixed sequence of primitives,
//! for all engines. To add one, write its merge here, and in `lower::emit` how an element becomes a
//! state and a state the result.

use ir::nest::{Law, Reducer};
use ir::sabotage::{self, Bug};
use ir::{Dtype, Extreme, ReduceOp, Scalar};

use super::builder::{Value, build_reducer};

/// The reducer for `op` over elements of type `dtype`, named such as `argmax.f32`; `None` if it is
/// a [`ir::Monoid`], or if the type has no such reducer.
pub fn define_reducer(op: ReduceOp, dtype: Dtype) -> Option<Reducer> {
    if dtype.is_storage() || dtype == Dtype::Bool {
        return None;
    }
    let extreme = match op {
        ReduceOp::Monoid(_) => return None,
        ReduceOp::Position(extreme) => extreme,
    };
    // For no elements the number is 0. If this state wins against an element, all elements equal
    // the identity, and the first of those has number 0.
    let identity = vec![extreme.monoid().identity(dtype), Scalar::I64(0)];
    Some(build_reducer(op, dtype, Law::First(extreme), identity, |x, y| first(extreme, [x[0], x[1]], [y[0], y[1]])))
}

/// The better of two elements with their numbers: the first NaN, the greater or lesser, the first
/// of equals.
fn first<'b>(extreme: Extreme, [x, at]: [Value<'b>; 2], [y, there]: [Value<'b>; 2]) -> Vec<Value<'b>> {
    // Nothing beats a NaN, and a NaN is not below any number, so `!(a <= b)` makes it beat them
    // all.
    let no_better = |a: Value<'b>, b: Value<'b>| {
        let below = match extreme {
            Extreme::Greatest => a.le(b),
            Extreme::Least => b.le(a),
        };
        if a.is_float() { below | b.ne(b) } else { below }
    };
    let ties = if sabotage::on(Bug::LastOfEquals) { there.gt(at) } else { there.lt(at) };
    // With this order of operands, `ptxas` keeps the states of unrolled loops in registers; with
    // the reverse order it spills some.
    let wins = (no_better(x, y) & ties) | no_better(y, x).not();
    vec![wins.select(y, x), wins.select(there, at)]
}
