//! The hyperbolic functions.

use super::builder::Value;
use super::coefficients::TANH;
use super::exp::exp_normal;

/// Below, tanh is an odd polynomial; above, it is far enough from 0 that nothing cancels in 1 - 2 t / (1 + t) with
/// t = e^-2|x|.
const TANH_SMALL: f64 = 0.55;

/// tanh x. Both forms are evaluated for |x|; the sign is put back at the end, -0 included.
pub(super) fn tanh(x: Value) -> Value {
    let a = x.abs();
    let square = a * a;
    let small = (square * a).fma(square.polynomial(TANH.of(x.float())), a);
    // At -60 the result has long been 1, and t is still normal.
    let t = exp_normal((a * -2.0).at_least(-60.0));
    let large = (t / (t + 1.0)).fma(-2.0, 1.0);
    a.lt(TANH_SMALL).select(small, large).flip_sign(x.sign_bit())
}
