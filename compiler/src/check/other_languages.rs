//! Names from NumPy, Python, Rust and Julia, and how to write the same here. Tables only.

/// The replacement of a name: in words, and as a name where one name replaces the other.
pub(super) type Instead = (&'static str, Option<&'static str>);

/// The alternative to arrays with elements that are each computed from the previous one.
pub(super) const RUNNING: &str = "a running sum is `let c[i] = sum[k <= i](x[k])`, and so are running products, maxima and minima; a \
                                  state that each step updates is `let rec s[t <= n] = if t == 0 then s0 else step(x[t - 1], s[t - 1])`";

const STEPS: &str = "write `loop x = first, t < n while c { next }`";

const NO_SORT: &str = "nothing sorts an array; `let rank[i] = sum[j](if x[j] < x[i] then 1 else 0)` counts the lesser elements, in a time that \
                       grows with the square of the length";

const NO_ALGEBRA: &str = "matrices are multiplied, `a @ b`, and transposed; nothing solves systems or decomposes";

/// Functions of other languages, by name.
const FUNCTIONS: &[(&str, Instead)] = &[
    ("absolute", ("write `abs`", Some("abs"))),
    ("fabs", ("write `abs`", Some("abs"))),
    ("maximum", ("write `max`", Some("max"))),
    ("fmax", ("write `max`", Some("max"))),
    ("amax", ("write `max`", Some("max"))),
    ("minimum", ("write `min`", Some("min"))),
    ("fmin", ("write `min`", Some("min"))),
    ("amin", ("write `min`", Some("min"))),
    ("ln", ("write `log`", Some("log"))),
    ("arange", ("write `iota`", Some("iota"))),
    ("range", ("write `iota(n)` for an array, `sum[i < n](...)` to reduce", Some("iota"))),
    ("clip", ("write `clamp`", Some("clamp"))),
    ("rint", ("write `round`, which rounds ties to even", Some("round"))),
    ("product", ("write `prod`", Some("prod"))),
    ("average", ("write `mean`", Some("mean"))),
    ("concatenate", ("write `concat(x, y, axis = 0)`", Some("concat"))),
    ("cat", ("write `concat(x, y, axis = 0)`", Some("concat"))),
    ("hstack", ("write `concat(x, y, axis = 1)`", None)),
    ("vstack", ("write `concat(x, y, axis = 0)`", Some("concat"))),
    ("stack", ("write `let z[k < 2, i] = if k == 0 then x[i] else y[i]`", None)),
    ("float", ("write `f32`", Some("f32"))),
    ("float32", ("write `f32`", Some("f32"))),
    ("float64", ("write `f64`", Some("f64"))),
    ("double", ("write `f64`", Some("f64"))),
    ("int", ("write `i64`", Some("i64"))),
    ("int32", ("write `i32`", Some("i32"))),
    ("int64", ("write `i64`", Some("i64"))),
    ("usize", ("write `i64`", Some("i64"))),
    ("bitwise_and", ("write `bit_and`", Some("bit_and"))),
    ("bitwise_or", ("write `bit_or`", Some("bit_or"))),
    ("bitwise_xor", ("write `bit_xor`", Some("bit_xor"))),
    ("invert", ("write `bit_not`", Some("bit_not"))),
    ("bitwise_count", ("write `popcount`", Some("popcount"))),
    ("bit_count", ("write `popcount`", Some("popcount"))),
    ("count_ones", ("write `popcount`", Some("popcount"))),
    ("left_shift", ("write `shift_left`", Some("shift_left"))),
    ("right_shift", ("write `shift_right`", Some("shift_right"))),
    ("floor_divide", ("write `floor_div`", Some("floor_div"))),
    ("fmod", ("write `a % b`", None)),
    ("remainder", ("write `mod`", Some("mod"))),
    ("ifelse", ("write `if c then a else b`", Some("select"))),
    ("power", ("write `a ^ b`", None)),
    ("square", ("write `x ^ 2`", None)),
    ("add", ("write `a + b`", None)),
    ("subtract", ("write `a - b`", None)),
    ("multiply", ("write `a * b`", None)),
    ("divide", ("write `a / b`", None)),
    ("matmul", ("write `a @ b`", None)),
    ("dot", ("write `sum(a * b)` of vectors, `a @ b` of matrices", None)),
    ("inner", ("write `sum(a * b)`", None)),
    ("outer", ("write `let z[i, j] = x[i] * y[j]`", None)),
    ("einsum", ("write it in index notation: `let c[i, j] = sum[k](a[i, k] * b[k, j])`", None)),
    ("not", ("write `!c`", None)),
    ("logical_and", ("write `a && b`", None)),
    ("logical_or", ("write `a || b`", None)),
    ("logical_not", ("write `!c`", None)),
    ("len", ("the length of an axis is its size name, or `size(x, 0)`", None)),
    ("length", ("the length of an axis is its size name, or `size(x, 0)`", None)),
    ("shape", ("the length of an axis is its size name, or `size(x, 0)`", None)),
    ("zeros", ("write `let z[i < n] = 0.0`; next to an array a number is enough", None)),
    ("ones", ("write `let z[i < n] = 1.0`; next to an array a number is enough", None)),
    ("full", ("write `let z[i < n] = value`; next to an array a scalar is enough", None)),
    ("eye", ("write `let z[i < n, j < n] = if i == j then 1.0 else 0.0`", None)),
    ("linspace", ("write `a + (b - a) * f32(iota(n)) / f32(n - 1)`, with `f64` where `a` is one", None)),
    ("zeros_like", ("write `x * 0`, or a number: it goes with any array", None)),
    ("ones_like", ("write `x * 0 + 1`, or a number: it goes with any array", None)),
    ("inv", (NO_ALGEBRA, None)),
    ("inverse", (NO_ALGEBRA, None)),
    ("solve", (NO_ALGEBRA, None)),
    ("det", (NO_ALGEBRA, None)),
    ("svd", (NO_ALGEBRA, None)),
    ("qr", (NO_ALGEBRA, None)),
    ("eig", (NO_ALGEBRA, None)),
    ("eigh", (NO_ALGEBRA, None)),
    ("cholesky", (NO_ALGEBRA, None)),
    ("pinv", (NO_ALGEBRA, None)),
    ("trace", ("write `sum[i](x[i, i])`", None)),
    (
        "diag",
        (
            "of a matrix write `let d[i] = x[i, i]`; of a vector `let m[i < n, j < n] = if i == j then x[i] else 0`",
            None,
        ),
    ),
    ("diagonal", ("write `let d[i] = x[i, i]`", None)),
    ("tril", ("write `let y[i < n, j < n] = if i >= j then x[i, j] else 0`", None)),
    ("triu", ("write `let y[i < n, j < n] = if i <= j then x[i, j] else 0`", None)),
    ("kron", ("write `let z[i < n * p, j < m * q] = x[i / p, j / q] * y[i % p, j % q]`", None)),
    ("tile", ("write `let y[i < 3 * n] = x[i % n]`", None)),
    ("repeat", ("write `let y[i < 3 * n] = x[i / 3]`", None)),
    ("pad", ("write `let y[i < n + 2] = if i >= 1 && i <= n then x[i - 1] else 0`", None)),
    ("meshgrid", ("write `let z[i < n, j < m] = ...`, which has both indices", None)),
    ("convolve", ("write `let y[i] = sum[k](x[i + k] * w[k])`", None)),
    ("correlate", ("write `let y[i] = sum[k](x[i + k] * w[k])`", None)),
    ("hypot", ("write `sqrt(a * a + b * b)`", None)),
    ("logsumexp", ("write `max(x) + log(sum(exp(x - max(x))))`", None)),
    ("ptp", ("write `max(x) - min(x)`", None)),
    ("count_nonzero", ("write `sum[i](if x[i] != 0 then 1 else 0)`", None)),
    ("bincount", ("write `let h[b < bins] = sum[i](if x[i] == b then 1 else 0)`", None)),
    ("allclose", ("write `all(abs(a - b) <= 1e-6)`", None)),
    ("isclose", ("write `abs(a - b) <= 1e-6`", None)),
    ("variance", ("write `var`", Some("var"))),
    ("stdev", ("write `std`", Some("std"))),
    ("cumsum", ("write `let c[i] = sum[k <= i](x[k])`", None)),
    ("cumprod", ("write `let c[i] = prod[k <= i](x[k])`", None)),
    ("cummax", ("write `let c[i] = max[k <= i](x[k])`", None)),
    ("cummin", ("write `let c[i] = min[k <= i](x[k])`", None)),
    ("scan", (RUNNING, None)),
    ("fold", (RUNNING, None)),
    ("accumulate", (RUNNING, None)),
    ("iterate", (STEPS, None)),
    ("while_loop", (STEPS, None)),
    ("fori_loop", (STEPS, None)),
    ("roll", ("write `let y[i < n] = x[(i + 1) % n]`", None)),
    ("flip", ("write `let y[i < n] = x[n - 1 - i]`", None)),
    ("reverse", ("write `let y[i < n] = x[n - 1 - i]`", None)),
    ("take", ("write `x[idx]`", None)),
    ("gather", ("write `x[idx]`", None)),
    ("flatten", ("write `reshape(x, _)`", None)),
    ("ravel", ("write `reshape(x, _)`", None)),
    ("squeeze", ("write `reshape(x, n)`, or `x[0]`", None)),
    ("unsqueeze", ("write `reshape(x, n, 1)`", None)),
    ("expand_dims", ("write `reshape(x, n, 1)`", None)),
    ("map", ("a function of scalars is applied to each element: write `f(x)`", None)),
    ("vmap", ("write `let y[i] = f(x[i])`", None)),
    ("reduce", ("the reducers are sum, prod, max, min, mean, any, all, argmax and argmin", None)),
    ("sort", (NO_SORT, None)),
    ("argsort", (NO_SORT, None)),
    ("median", (NO_SORT, None)),
    ("quantile", (NO_SORT, None)),
    ("percentile", (NO_SORT, None)),
    ("topk", (NO_SORT, None)),
    ("top_k", (NO_SORT, None)),
    ("partition", (NO_SORT, None)),
    ("searchsorted", ("write `let at[i] = sum[k](if edges[k] < x[i] then 1 else 0)`", None)),
    ("unique", ("there is none: the size of an array cannot depend on data", None)),
    ("nonzero", ("there is none: the size of an array cannot depend on data", None)),
    ("print", ("what a function results in is printed when it is run", None)),
    ("println", ("what a function results in is printed when it is run", None)),
    ("assert", ("what sizes must meet is inferred; there are no other assertions", None)),
    ("rand", ("write `uniform(seed, i)` in index notation", None)),
    ("randn", ("write `normal(seed, i)` in index notation", None)),
    ("random", ("write `uniform(seed, i)` in index notation", None)),
];

/// Values of other languages, by name.
const VALUES: &[(&str, Instead)] = &[
    ("True", ("write `true`", Some("true"))),
    ("False", ("write `false`", Some("false"))),
    ("NaN", ("write `nan`", Some("nan"))),
    ("NAN", ("write `nan`", Some("nan"))),
    ("Inf", ("write `inf`", Some("inf"))),
    ("Infinity", ("write `inf`", Some("inf"))),
    ("infinity", ("write `inf`", Some("inf"))),
    ("INFINITY", ("write `inf`", Some("inf"))),
    ("PI", ("write `pi`", Some("pi"))),
    ("None", ("there is no missing value; a new axis is made by `reshape(x, n, 1)`", None)),
    ("newaxis", ("a new axis is made by `reshape(x, n, 1)`", None)),
    ("null", ("there is no missing value", None)),
    ("nothing", ("there is no missing value", None)),
    ("e", ("write `exp(1)`", Some("exp(1)"))),
];

/// The replacement of a function of another language.
pub(super) fn function(name: &str) -> Option<Instead> {
    look_up(FUNCTIONS, name)
}

/// The replacement of a value of another language.
pub(super) fn value(name: &str) -> Option<Instead> {
    look_up(VALUES, name)
}

fn look_up(table: &[(&str, Instead)], name: &str) -> Option<Instead> {
    table.iter().find(|(known, _)| *known == name).map(|(_, instead)| *instead)
}
