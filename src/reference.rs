//! The functions, reducers, conversions, constants and keywords of the language, as one table. The
//! prompt's `:help` and the tables of the language reference are made from it.
//!
//! ```
//! let entries = fuseloop::reference::find("clamp");
//! assert_eq!(entries[0].signature, "clamp(x, lo, hi)");
//! ```

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A function of scalars; it applies to arrays elementwise.
    Scalar,
    /// A function of whole arrays.
    Whole,
    /// A reduction of many values to one.
    Reducer,
    /// A type. Its name, used as a function, converts to it.
    Conversion,
    /// A named constant.
    Constant,
    /// A keyword.
    Keyword,
}

impl Kind {
    /// Whether it is written like a call.
    pub fn is_called(self) -> bool {
        matches!(self, Scalar | Whole | Reducer | Conversion)
    }
}

/// An entry of the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its kind.
    pub kind: Kind,
    /// Its syntax.
    pub signature: &'static str,
    /// The types that it takes; empty if there is no choice.
    pub types: &'static str,
    /// A description, in one sentence.
    pub about: &'static str,
    /// An example to enter at the prompt,
    pub example: &'static str,
    /// and its value, as the prompt shows it.
    pub value: &'static str,
}

impl Entry {
    /// Its name.
    pub fn name(&self) -> &'static str {
        let end = self.signature.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        &self.signature[..end.unwrap_or(self.signature.len())]
    }
}

/// All entries with this name: `max` is both a function and a reducer.
pub fn find(name: &str) -> Vec<&'static Entry> {
    ENTRIES.iter().filter(|entry| entry.name() == name).collect()
}

/// The entries of some kinds as a Markdown table, for the language reference.
pub fn table(kinds: &[Kind]) -> String {
    let mut text = "| | of | what it is | for example | is |\n|---|---|---|---|---|\n".to_owned();
    for entry in ENTRIES.iter().filter(|entry| kinds.contains(&entry.kind)) {
        let Entry { signature, types, about, example, value, .. } = entry;
        text += &format!("| `{signature}` | {types} | {about} | `{example}` | `{value}` |\n");
    }
    text
}

const fn entry(
    kind: Kind,
    signature: &'static str,
    types: &'static str,
    about: &'static str,
    example: (&'static str, &'static str),
) -> Entry {
    Entry { kind, signature, types, about, example: example.0, value: example.1 }
}

use Kind::{Constant, Conversion, Keyword, Reducer, Scalar, Whole};

const FLOATS: &str = "floats";
const INTEGERS: &str = "integers";
const NUMBERS: &str = "numbers";
const ALL: &str = "all";

/// All entries.
#[rustfmt::skip]
pub const ENTRIES: &[Entry] = &[
    entry(Scalar, "abs(x)", NUMBERS, "The absolute value; of the least integer, itself.", ("abs(-3)", "3  # i64")),
    entry(Scalar, "sign(x)", NUMBERS, "-1, 0 or 1; of floats it keeps zeros and NaN.", ("sign(-2.5)", "-1.0  # f32")),
    entry(Scalar, "min(x, y)", NUMBERS, "The lesser; NaN if either is, and -0 is below +0.", ("min(3, 5)", "3  # i64")),
    entry(Scalar, "max(x, y)", NUMBERS, "The greater; NaN if either is, and -0 is below +0.", ("max(3, 5)", "5  # i64")),
    entry(Scalar, "clamp(x, lo, hi)", NUMBERS, "`min(max(x, lo), hi)`: `x` if it is between the bounds, else the nearer bound.", ("clamp(7, 0, 5)", "5  # i64")),
    entry(Scalar, "relu(x)", NUMBERS, "`max(x, 0)`.", ("relu(-2.5)", "0.0  # f32")),
    entry(Scalar, "pow(x, y)", NUMBERS, "`x ^ y`; of floats with the special cases of C's annex F, so that `pow(1, y)` and `pow(x, 0)` are 1 even of NaN, and exact results are exact.", ("pow(2.0, 0.5)", "1.4142135  # f32")),
    entry(Scalar, "mod(x, y)", NUMBERS, "The remainder with the divisor's sign; of integers 0 by zero, of floats as NumPy's (`mod(x, 0)` is NaN).", ("mod(-7, 3)", "2  # i64")),
    entry(Scalar, "floor_div(x, y)", NUMBERS, "The quotient rounded down; of integers 0 by zero, of floats as NumPy's (`floor_div(x, 0)` is `x / 0`).", ("floor_div(-7, 3)", "-3  # i64")),
    entry(Scalar, "fma(x, y, z)", FLOATS, "`x * y + z`, rounded once.", ("fma(2.0, 3.0, 1.0)", "7.0  # f32")),
    entry(Scalar, "sqrt(x)", FLOATS, "The square root, correctly rounded; NaN of what is below 0.", ("sqrt(9.0)", "3.0  # f32")),
    entry(Scalar, "rsqrt(x)", FLOATS, "`1 / sqrt(x)`.", ("rsqrt(4.0)", "0.5  # f32")),
    entry(Scalar, "cbrt(x)", FLOATS, "The cube root; exact at cubes.", ("cbrt(27.0)", "3.0  # f32")),
    entry(Scalar, "floor(x)", FLOATS, "The greatest whole number that is not above `x`.", ("floor(-1.5)", "-2.0  # f32")),
    entry(Scalar, "ceil(x)", FLOATS, "The least whole number that is not below `x`.", ("ceil(-1.5)", "-1.0  # f32")),
    entry(Scalar, "trunc(x)", FLOATS, "The whole part of `x`.", ("trunc(-1.5)", "-1.0  # f32")),
    entry(Scalar, "round(x)", FLOATS, "The nearest whole number; of two that are as near, the even one.", ("round(2.5)", "2.0  # f32")),
    entry(Scalar, "exp(x)", FLOATS, "e to the power of `x`.", ("exp(1.0)", "2.7182817  # f32")),
    entry(Scalar, "exp2(x)", FLOATS, "2 to the power of `x`; exact where that is a power of 2.", ("exp2(3.0)", "8.0  # f32")),
    entry(Scalar, "expm1(x)", FLOATS, "`exp(x) - 1`, exact near 0.", ("expm1(1e-6)", "1.0000005e-06  # f32")),
    entry(Scalar, "log(x)", FLOATS, "The natural logarithm; NaN of what is below 0.", ("log(10.0)", "2.3025851  # f32")),
    entry(Scalar, "log2(x)", FLOATS, "The logarithm to base 2; exact at powers of 2.", ("log2(8.0)", "3.0  # f32")),
    entry(Scalar, "log10(x)", FLOATS, "The logarithm to base 10; exact at powers of 10.", ("log10(1000.0)", "3.0  # f32")),
    entry(Scalar, "log1p(x)", FLOATS, "`log(1 + x)`, exact near 0.", ("log1p(1e-6)", "9.999995e-07  # f32")),
    entry(Scalar, "sin(x)", FLOATS, "The sine of an angle in radians.", ("sin(pi / 2)", "1.0  # f32")),
    entry(Scalar, "cos(x)", FLOATS, "The cosine of an angle in radians.", ("cos(0.0)", "1.0  # f32")),
    entry(Scalar, "tan(x)", FLOATS, "The tangent of an angle in radians.", ("tan(1.0)", "1.5574077  # f32")),
    entry(Scalar, "asin(x)", FLOATS, "The angle whose sine is `x`; NaN outside of -1 to 1.", ("asin(1.0)", "1.5707964  # f32")),
    entry(Scalar, "acos(x)", FLOATS, "The angle whose cosine is `x`; NaN outside of -1 to 1.", ("acos(-1.0)", "3.1415927  # f32")),
    entry(Scalar, "atan(x)", FLOATS, "The angle whose tangent is `x`.", ("atan(1.0)", "0.7853982  # f32")),
    entry(Scalar, "atan2(y, x)", FLOATS, "The angle of the point (x, y), with the signs of zeros and the infinities of C's annex F: quadrants and diagonals are exact.", ("atan2(1.0, -1.0)", "2.3561945  # f32")),
    entry(Scalar, "sinh(x)", FLOATS, "The hyperbolic sine.", ("sinh(1.0)", "1.1752012  # f32")),
    entry(Scalar, "cosh(x)", FLOATS, "The hyperbolic cosine.", ("cosh(0.0)", "1.0  # f32")),
    entry(Scalar, "tanh(x)", FLOATS, "The hyperbolic tangent.", ("tanh(1.0)", "0.7615942  # f32")),
    entry(Scalar, "asinh(x)", FLOATS, "The number whose hyperbolic sine is `x`.", ("asinh(1.0)", "0.8813736  # f32")),
    entry(Scalar, "acosh(x)", FLOATS, "The number whose hyperbolic cosine is `x`; NaN below 1.", ("acosh(2.0)", "1.316958  # f32")),
    entry(Scalar, "atanh(x)", FLOATS, "The number whose hyperbolic tangent is `x`; NaN outside of -1 to 1.", ("atanh(0.5)", "0.54930615  # f32")),
    entry(Scalar, "sigmoid(x)", FLOATS, "`1 / (1 + exp(-x))`.", ("sigmoid(0.0)", "0.5  # f32")),
    entry(Scalar, "silu(x)", FLOATS, "`x * sigmoid(x)`.", ("silu(1.0)", "0.7310586  # f32")),
    entry(Scalar, "softplus(x)", FLOATS, "`log(1 + exp(x))`.", ("softplus(0.0)", "0.6931472  # f32")),
    entry(Scalar, "erf(x)", FLOATS, "The error function.", ("erf(1.0)", "0.8427008  # f32")),
    entry(Scalar, "erf_inv(x)", FLOATS, "The number whose `erf` is `x`; NaN outside of -1 to 1.", ("erf_inv(0.5)", "0.47693628  # f32")),
    entry(Scalar, "lgamma(x)", FLOATS, "The logarithm of the absolute value of the gamma function; infinity at 0 and at the negative integers.", ("lgamma(5.0)", "3.1780539  # f32")),
    entry(Scalar, "digamma(x)", FLOATS, "The derivative of `lgamma`; infinite at 0, with the opposite sign, and NaN at the negative integers.", ("digamma(1.0)", "-0.5772157  # f32")),
    entry(Scalar, "gelu(x)", FLOATS, "`x * (1 + erf(x / sqrt(2))) / 2`.", ("gelu(1.0)", "0.8413447  # f32")),
    entry(Scalar, "gelu_tanh(x)", FLOATS, "`gelu` by a hyperbolic tangent in place of `erf`.", ("gelu_tanh(1.0)", "0.841192  # f32")),
    entry(Scalar, "isnan(x)", FLOATS, "Whether `x` is NaN.", ("isnan(nan)", "true  # bool")),
    entry(Scalar, "isinf(x)", FLOATS, "Whether `x` is infinite.", ("isinf(1.0)", "false  # bool")),
    entry(Scalar, "isfinite(x)", FLOATS, "Whether `x` is neither infinite nor NaN.", ("isfinite(1.0)", "true  # bool")),
    entry(Scalar, "select(c, x, y)", ALL, "`x` where `c` is true, else `y`; both are computed.", ("select([true, false], 1, 2)", "[1, 2]  # i64[2]")),
    entry(Scalar, "bit_and(x, y)", INTEGERS, "The bits that are set in both.", ("bit_and(12, 10)", "8  # i64")),
    entry(Scalar, "bit_or(x, y)", INTEGERS, "The bits that are set in either.", ("bit_or(12, 10)", "14  # i64")),
    entry(Scalar, "bit_xor(x, y)", INTEGERS, "The bits that are set in one of the two.", ("bit_xor(12, 10)", "6  # i64")),
    entry(Scalar, "bit_not(x)", INTEGERS, "The bits that are not set.", ("bit_not(12)", "-13  # i64")),
    entry(Scalar, "shift_left(x, k)", INTEGERS, "The bits `k` places up; 0 by the width or more, or by a negative amount.", ("shift_left(1, 4)", "16  # i64")),
    entry(Scalar, "shift_right(x, k)", INTEGERS, "The bits `k` places down, of signed types with the sign; by the width or more, or by a negative amount, 0 or the sign.", ("shift_right(-16, 2)", "-4  # i64")),
    entry(Scalar, "popcount(x)", INTEGERS, "The number of bits that are set; of an `i8` those of the `i32` that it is widened to.", ("popcount(0xff)", "8  # i64")),
    entry(Scalar, "bitcast(i32, x)", NUMBERS, "The bits of `x` as a value of the type: `f32` with `i32 u32`, `f64` with `i64 u64`, `f16 bf16` with `i16 u16`; every NaN gives the bits of one.", ("bitcast(u32, 1.0)", "1065353216  # u32")),
    entry(Scalar, "uniform(seed, i, ...)", INTEGERS, "A random number in [0, 1), a float: the same for the same seed and indices.", ("uniform(1, 2) < 1", "true  # bool")),
    entry(Scalar, "normal(seed, i, ...)", INTEGERS, "A random number of mean 0 and variance 1, a float.", ("normal(1, 2) < 7", "true  # bool")),
    entry(Whole, "iota(n)", "sizes", "The numbers from 0 to `n - 1`, in `i64`.", ("iota(4)", "[0, 1, 2, 3]  # i64[4]")),
    entry(Whole, "size(x, k)", ALL, "The length of axis `k`, an `i64`.", ("size([[1, 2, 3]], 1)", "3  # i64")),
    entry(Whole, "transpose(x)", ALL, "The array with its axes in reverse order.", ("transpose([[1], [2]])", "[[1, 2]]  # i64[1, 2]")),
    entry(Whole, "reshape(x, n, ...)", ALL, "The elements, row-major, in another shape; one size may be `_`, which is worked out.", ("reshape(iota(6), _, 6)", "[[0, 1, 2, 3, 4, 5]]  # i64[1, 6]")),
    entry(Whole, "concat(x, y, ..., axis = k)", ALL, "The arrays joined along axis 0, or along the axis that is named.", ("concat([1, 2], [3])", "[1, 2, 3]  # i64[3]")),
    entry(Whole, "var(x, axis = k)", FLOATS, "The mean of the squared distances from the mean, of the whole array or along an axis; of nothing NaN.", ("var([1.0, 2.0, 6.0])", "4.6666665  # f32")),
    entry(Whole, "std(x, axis = k)", FLOATS, "The square root of `var`.", ("std([[1.0, 3.0], [2.0, 6.0]], axis = 1)", "[1., 2.]  # f32[2]")),
    entry(Whole, "norm(x, axis = k)", FLOATS, "The square root of the sum of the squares; of nothing 0.", ("norm([3.0, 4.0])", "5.0  # f32")),
    entry(Whole, "diff(x, axis = k)", NUMBERS, "Each element less the one before it, along the last axis or the one that is named.", ("diff([1, 4, 9])", "[3, 5]  # i64[2]")),
    entry(Whole, "sort(x, axis = k)", NUMBERS, "The elements in ascending order along the last axis or the one that is named; NaN last, -0 before 0.", ("sort([3, 1, 2])", "[1, 2, 3]  # i64[3]")),
    entry(Whole, "argsort(x, axis = k)", NUMBERS, "The numbers of the elements in the order of `sort`; equal ones stay in order.", ("argsort([30, 10, 20])", "[1, 2, 0]  # i64[3]")),
    entry(Whole, "top(k, x, axis = k)", NUMBERS, "The `k` greatest elements, the greatest first, and their numbers; NaN counts as the least.", ("let (v, _) = top(2, [3, 9, 4])", "v: i64[2]")),
    entry(Whole, "median(x, axis = k)", FLOATS, "The element in the middle, or the mean of two; of nothing, or if one is NaN, NaN.", ("median([3.0, 1.0, 2.0])", "2.0  # f32")),
    entry(Whole, "quantile(x, q, axis = k)", FLOATS, "The element at the place `q * (n - 1)` of the sorted ones, between two by a straight line; NaN as `median`, or if `q` is not in 0 to 1.", ("quantile([1.0, 2.0, 4.0], 0.75)", "3.0  # f32")),
    entry(Whole, "searchsorted(a, x)", NUMBERS, "For each element of `x` the number of elements of the sorted vector `a` that are less.", ("searchsorted([1, 2, 2, 5], [2, 3])", "[1, 3]  # i64[2]")),
    entry(Reducer, "sum(x)", NUMBERS, "The sum; of nothing 0. `sum(x, axis = 1)` is that along an axis, `sum[k < n](e)` over indices; so with all reducers.", ("sum([1, 2, 3])", "6  # i64")),
    entry(Reducer, "prod(x)", NUMBERS, "The product; of nothing 1.", ("prod[k < 5](k + 1)", "120  # i64")),
    entry(Reducer, "max(x)", NUMBERS, "The greatest; NaN if one is, of nothing -inf or the type's least.", ("max([1, 7, 3])", "7  # i64")),
    entry(Reducer, "min(x)", NUMBERS, "The least; NaN if one is, of nothing inf or the type's greatest.", ("min([[4, 1], [2, 3]], axis = 1)", "[1, 2]  # i64[2]")),
    entry(Reducer, "mean(x)", FLOATS, "The mean; of nothing NaN.", ("mean([1.0, 2.0, 6.0])", "3.0  # f32")),
    entry(Reducer, "any(x)", "`bool`", "Whether one is true; of nothing false.", ("any(iota(3) > 1)", "true  # bool")),
    entry(Reducer, "all(x)", "`bool`", "Whether all are true; of nothing true.", ("all(iota(3) > 1)", "false  # bool")),
    entry(Reducer, "argmax(x)", NUMBERS, "Where the greatest is, an `i64`: the first of equals, row-major, or the first NaN.", ("argmax([1, 7, 3])", "1  # i64")),
    entry(Reducer, "argmin(x)", NUMBERS, "Where the least is, an `i64`: the first of equals, row-major, or the first NaN.", ("argmin([1, 7, 3])", "0  # i64")),
    entry(Conversion, "bool(x)", NUMBERS, "Whether `x` is not 0.", ("bool(3)", "true  # bool")),
    entry(Conversion, "i8(x)", ALL, "To 8 bits with a sign, a storage type: integers wrap, floats are cut off and saturate, NaN to 0.", ("i8(-3.7)", "-3  # i8")),
    entry(Conversion, "i16(x)", ALL, "To 16 bits with a sign, a storage type: integers wrap, floats are cut off and saturate, NaN to 0.", ("i16(40000.0)", "32767  # i16")),
    entry(Conversion, "i32(x)", ALL, "To 32 bits with a sign: integers wrap, floats are cut off and saturate, NaN to 0.", ("i32(-3.7)", "-3  # i32")),
    entry(Conversion, "i64(x)", ALL, "To 64 bits with a sign: integers wrap, floats are cut off and saturate, NaN to 0.", ("i64(2.9)", "2  # i64")),
    entry(Conversion, "u8(x)", ALL, "To 8 bits without a sign, a storage type: integers wrap, floats are cut off and saturate, NaN to 0.", ("u8(sum([200, 100]))", "44  # u8")),
    entry(Conversion, "u16(x)", ALL, "To 16 bits without a sign, a storage type: integers wrap, floats are cut off and saturate, NaN to 0.", ("u16(70000.0)", "65535  # u16")),
    entry(Conversion, "u32(x)", ALL, "To 32 bits without a sign: integers wrap, floats are cut off and saturate, NaN to 0.", ("u32(7)", "7  # u32")),
    entry(Conversion, "u64(x)", ALL, "To 64 bits without a sign: integers wrap, floats are cut off and saturate, NaN to 0.", ("u64(7)", "7  # u64")),
    entry(Conversion, "f16(x)", ALL, "To a float of 16 bits, a storage type, rounded once.", ("f16(0.1)", "0.1  # f16")),
    entry(Conversion, "bf16(x)", ALL, "To a float of 16 bits with the range of `f32`, a storage type, rounded once.", ("bf16(1.0)", "1.0  # bf16")),
    entry(Conversion, "f32(x)", ALL, "To a float of 32 bits, rounded once.", ("f32(iota(3)) / 2", "[0.,  0.5, 1. ]  # f32[3]")),
    entry(Conversion, "f64(x)", ALL, "To a float of 64 bits.", ("f64(1) / 3", "0.3333333333333333  # f64")),
    entry(Constant, "pi", FLOATS, "The circumference of a circle of diameter 1.", ("pi", "3.1415927  # f32")),
    entry(Constant, "inf", FLOATS, "Infinity.", ("-inf", "-inf  # f32")),
    entry(Constant, "nan", FLOATS, "No number.", ("nan == nan", "false  # bool")),
    entry(Constant, "true", "`bool`", "What holds.", ("!false", "true  # bool")),
    entry(Constant, "false", "`bool`", "What does not hold.", ("!true", "false  # bool")),
    entry(Keyword, "fn f(x: f32[n]) = e", "", "Defines a function; `fn f(x: f32[n]) -> f32[n] { ... }` has `let`s and a result in braces.", ("fn twice(x: f32[n]) = 2 * x", "fn twice(x: f32[n]) -> f32[n]")),
    entry(Keyword, "float", "", "The type `f32` or `f64` of a parameter, as the arguments of a call decide; results and conversions of the function may be `float` too.", ("fn average(x: float[n]) = sum(x) / float(n)", "fn average(x: f32[n]) -> f32")),
    entry(Keyword, "use nn", "", "Makes the functions of a library, or of a file (`use \"path.fl\"`), available; `use nn (softmax)` picks some.", ("use nn (softmax)", "use nn (softmax): softmax")),
    entry(Keyword, "let y = e", "", "Gives a value a name; `let y[i, j < m] = e` makes an array of `e` at every index.", ("let y[i < 4] = i * i", "y: i64[4]")),
    entry(Keyword, "let rec y[t < n] = e", "", "Makes an array that refers to earlier elements of itself.", ("let rec f[t < 8] = if t < 2 then t else f[t - 1] + f[t - 2]", "f: i64[8]")),
    entry(Keyword, "if c then x else y", "", "`x` where `c` is true, else `y`; only the branch that is taken is computed.", ("if 2 > 1 then 3 else 4", "3  # i64")),
    entry(Keyword, "where", "", "Selects elements: `sum[i where c](e)`.", ("sum[i < 4 where i > 1](i)", "5  # i64")),
    entry(Keyword, "then", "", "Stands in `if c then x else y`.", ("if false then 3 else 4", "4  # i64")),
    entry(Keyword, "else", "", "Stands in `if c then x else y`.", ("if iota(3) > 1 then 5 else 6", "[6, 6, 5]  # i64[3]")),
];
