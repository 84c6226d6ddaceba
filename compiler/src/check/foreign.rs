//! What NumPy, Python, Rust and Julia call things, and how they are written here. Tables only.

/// What to write in place of a name: in words, and the name itself where that is all there is to it.
pub(super) type Instead = (&'static str, Option<&'static str>);

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
    ("stack", ("write `let z[k, i] = if k == 0 then x[i] else y[i]`, with the bound `k < 2`", None)),
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
    ("left_shift", ("write `shift_left`", Some("shift_left"))),
    ("right_shift", ("write `shift_right`", Some("shift_right"))),
    ("floor_divide", ("write `floor_div`", Some("floor_div"))),
    ("fmod", ("write `a % b`", None)),
    ("remainder", ("write `mod`", Some("mod"))),
    ("where", ("write `if c then a else b`", Some("select"))),
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
    ("zeros", ("write `let z[i < n] = 0.0`; beside an array a number alone will do", None)),
    ("ones", ("write `let z[i < n] = 1.0`; beside an array a number alone will do", None)),
    ("full", ("write `let z[i < n] = value`; beside an array a scalar alone will do", None)),
    ("eye", ("write `let z[i < n, j < n] = if i == j then 1.0 else 0.0`", None)),
    ("linspace", ("write `a + (b - a) * f32(iota(n)) / f32(n - 1)`", None)),
    ("zeros_like", ("write `x * 0`, or a number: it goes with any array", None)),
    ("ones_like", ("write `x * 0 + 1`, or a number: it goes with any array", None)),
    ("softmax", ("write `exp(x - max(x)) / sum(exp(x - max(x)))`", None)),
    ("norm", ("write `sqrt(sum(x * x))`", None)),
    ("var", ("write `mean((x - mean(x)) ^ 2)`", None)),
    ("std", ("write `sqrt(mean((x - mean(x)) ^ 2))`", None)),
    ("cumsum", ("write `let c[i] = sum[k <= i](x[k])`", None)),
    ("cumprod", ("write `let c[i] = prod[k <= i](x[k])`", None)),
    ("diff", ("write `x[1:] - x[:n - 1]`", None)),
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
    ("sort", ("there is no sorting: it is no loop nest", None)),
    ("argsort", ("there is no sorting: it is no loop nest", None)),
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

/// What to write for a function of another language.
pub(super) fn function(name: &str) -> Option<Instead> {
    look_up(FUNCTIONS, name)
}

/// What to write for a value of another language.
pub(super) fn value(name: &str) -> Option<Instead> {
    look_up(VALUES, name)
}

fn look_up(table: &[(&str, Instead)], name: &str) -> Option<Instead> {
    table.iter().find(|(known, _)| *known == name).map(|(_, instead)| *instead)
}
