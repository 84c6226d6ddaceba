//! Invalid calls and operators: their errors and suggestions.

use super::check::outcomes;

#[test]
fn calls_of_functions_of_the_language_with_other_arguments_than_they_take() {
    insta::assert_snapshot!(outcomes(&[
        "fn f(x: f32) = sqrt(x, 1)",
        "fn f(x: f32) = atan2(x)",
        "fn f(x: f32[n, m]) = transpose(x, 1)",
        "fn f(x: f32) = max(x, 1, 2)",
        "fn f(x: f32[n]) = any(x, x, x)",
        "fn f() = uniform(1)",
        "fn f(x: f32[n]) = size(x)",
        "fn f(x: f32[n]) = reshape(x)",
        "fn f() = reshape()",
        "fn f() = concat()",
    ]), @r"
    fn f(x: f32) = sqrt(x, 1)
      => E0106 at `sqrt(x, 1)`: `sqrt` takes 1 argument; there are 2

    fn f(x: f32) = atan2(x)
      => E0106 at `atan2(x)`: `atan2` takes 2 arguments; there are 1

    fn f(x: f32[n, m]) = transpose(x, 1)
      => E0106 at `transpose(x, 1)`: `transpose` takes 1 argument; there are 2

    fn f(x: f32) = max(x, 1, 2)
      => E0106 at `max(x, 1, 2)`: `max` takes one array to reduce, or two values to compare; there are 3

    fn f(x: f32[n]) = any(x, x, x)
      => E0106 at `any(x, x, x)`: `any` takes one array; there are 3

    fn f() = uniform(1)
      => E0106 at `uniform(1)`: `uniform` takes a seed and indices: `uniform(seed, i)`; there are 1

    fn f(x: f32[n]) = size(x)
      => E0106 at `size(x)`: `size` takes an array and an axis: `size(x, 0)`; there are 1

    fn f(x: f32[n]) = reshape(x)
      => E0106 at `reshape(x)`: `reshape` takes an array and its new sizes: `reshape(x, n, m)`; there are 1
         help: the sizes follow: `reshape(x, n, m)`

    fn f() = reshape()
      => E0106 at `reshape()`: `reshape` takes an array and its new sizes: `reshape(x, n, m)`; there are 0

    fn f() = concat()
      => E0106 at `concat()`: `concat` takes at least two arrays: `concat(x, y, axis = 0)`; there are 0
    ");
}

#[test]
fn arguments_by_names_that_there_are_not() {
    insta::assert_snapshot!(outcomes(&[
        "fn f(x: f32) = sqrt(x, dim = 0)",
        "fn f(x: f32) = sqrt(x, base = 2)",
        "fn f(x: f32[n]) = sum(x, dtype = 0)",
    ]), @r"
    fn f(x: f32) = sqrt(x, dim = 0)
      => E0107 at `dim`: `sqrt` has no argument `dim`
         help: give the arguments in order

    fn f(x: f32) = sqrt(x, base = 2)
      => E0107 at `base`: `sqrt` has no argument `base`
         help: give the arguments in order

    fn f(x: f32[n]) = sum(x, dtype = 0)
      => E0107 at `dtype`: `sum` has no argument `dtype`
         help: a type converts: `f32(x)`
    ");
}

#[test]
fn statistics_of_what_has_none() {
    insta::assert_snapshot!(outcomes(&[
        "fn f(x: f32) = var(x)",
        "fn f(x: i64[n]) = std(x)",
        "fn f(x: bool[n]) = diff(x)",
        "fn f(x: f32[n]) = var[i](x[i])",
        "fn f(x: f32[n]) = diff[i](x[i])",
        "fn f(x: f32[n]) = norm(x, axis = 1)",
        "fn f(x: f32[n]) = norm(x, 0)",
        "fn f(x: f32[n]) = diff(x, 2)",
        "fn f(x: f32[n]) = var(x, ddof = 1)",
        "fn f() = diff(iota(0))",
        "fn f(x: f32[n]) = nrom(x)",
        "fn f(x: f32[n]) = variance(x)",
        "fn f(x: u8[n]) = x + 0x1_0000_0000",
    ]), @r"
    fn f(x: f32) = var(x)
      => E0114 at `var(x)`: `var` takes an array, this is a scalar

    fn f(x: i64[n]) = std(x)
      => E0111 at `std(x)`: `std` takes floats, this is `i64`
         help: convert it: `f32(...)`

    fn f(x: bool[n]) = diff(x)
      => E0111 at `diff(x)`: `diff` takes numbers, this is `bool`
         help: use `&&`, `||` and `!` on truth values, or convert: `i64(...)`

    fn f(x: f32[n]) = var[i](x[i])
      => E0128 at `var`: `var` is not a reducer: it takes no indices
         help: with `let m = mean[i](x[i])` before it, write `mean[i]((x[i] - m) ^ 2)`

    fn f(x: f32[n]) = diff[i](x[i])
      => E0128 at `diff`: `diff` is not a reducer: it takes no indices
         help: write `let d[i] = x[i + 1] - x[i]`

    fn f(x: f32[n]) = norm(x, axis = 1)
      => E0129 at `1`: the axis must be 0: the array has one axis

    fn f(x: f32[n]) = norm(x, 0)
      => E0106 at `norm(x, 0)`: `norm` takes one array; there are 2
         help: an axis has its name: `axis = 1`

    fn f(x: f32[n]) = diff(x, 2)
      => E0106 at `diff(x, 2)`: `diff` takes one array; there are 2
         help: for differences of differences write `diff(diff(x))`

    fn f(x: f32[n]) = var(x, ddof = 1)
      => E0107 at `ddof`: `var` has no argument `ddof`
         help: the divisor is the number of elements, `n`: multiply by `n / (n - 1)`

    fn f() = diff(iota(0))
      => E0118 at `diff(iota(0))`: the number of differences cannot be negative: this is -1

    fn f(x: f32[n]) = nrom(x)
      => E0102 at `nrom`: there is no function `nrom`
         help: a function is defined by `fn`, above or below

    fn f(x: f32[n]) = variance(x)
      => E0102 at `variance`: there is no function `variance`
         help: write `var`
         write `var` for `variance`

    fn f(x: u8[n]) = x + 0x1_0000_0000
      => E0112 at `0x1_0000_0000`: the literal 4294967296 does not fit `i32`
    ");
}

#[test]
fn sizes_and_axes_that_cannot_be() {
    insta::assert_snapshot!(outcomes(&[
        "fn f() = iota(-3)",
        "fn f() = iota(0)",
        "fn f(x: f32) = size(x, 0)",
        "fn f(x: f32[n, m]) = sum(x, axis = -0)",
        "fn f(x: f32[n], y: f32[n, m]) = concat(x, y)",
    ]), @r"
    fn f() = iota(-3)
      => E0118 at `-3`: a size cannot be negative: this is -3

    fn f() = iota(0)
      => fn f() -> i64[0]

    fn f(x: f32) = size(x, 0)
      => E0129 at `0`: a scalar has no axis

    fn f(x: f32[n, m]) = sum(x, axis = -0)
      => E0129 at `-0`: the axis must be a number from 0 to 1: the array has 2 axes

    fn f(x: f32[n], y: f32[n, m]) = concat(x, y)
      => E0114 at `concat(x, y)`: `concat` takes arrays of one rank: 1 and 2 axes
         help: a scalar becomes an array as `[a]`
    ");
}

#[test]
fn operands_of_other_types() {
    insta::assert_snapshot!(outcomes(&[
        "fn f(a: bool, b: bool) = a + b",
        "fn f(a: bool) = -a",
        "fn f(x: f16, y: f64) = x + y",
        "fn f(x: i32, y: u32) = x + y",
        "fn f(x: i64) = x ^ 2",
        "fn f(x: f32[n], b: bool) = x > 0 && b",
        "fn f(x: f32[n], b: bool) = b || x > 0",
    ]), @r"
    fn f(a: bool, b: bool) = a + b
      => E0111 at `a + b`: `+` takes numbers, this is `bool`
         help: use `&&`, `||` and `!` on truth values, or convert: `i64(...)`

    fn f(a: bool) = -a
      => E0111 at `-a`: `-` takes numbers, this is `bool`
         help: use `&&`, `||` and `!` on truth values, or convert: `i64(...)`

    fn f(x: f16, y: f64) = x + y
      => E0110 at `x + y`: the operands have different types: `f16` (`f32` in arithmetic) and `f64`
         help: nothing converts by itself: write `f32(...)` or `f64(...)`
         write `f64(` for ``
         write `)` for ``

    fn f(x: i32, y: u32) = x + y
      => E0110 at `x + y`: the operands have different types: `i32` and `u32`
         help: nothing converts by itself: write `i32(...)` or `u32(...)`
         write `i32(` for ``
         write `)` for ``

    fn f(x: i64) = x ^ 2
      => fn f(x: i64) -> i64

    fn f(x: f32[n], b: bool) = x > 0 && b
      => fn f(x: f32[n], b: bool) -> bool[n]

    fn f(x: f32[n], b: bool) = b || x > 0
      => fn f(x: f32[n], b: bool) -> bool[n]
    ");
}

/// A name that resembles no other is not guessed, and a literal in an erroneous expression is not
/// judged by a type that it may not have.
#[test]
fn unknown_names() {
    insta::assert_snapshot!(outcomes(&[
        "fn f(rate: f32) = zrat",
        "fn f(rate: f32) = ra",
        "fn f() -> i32 = y + 3000000000",
    ]), @r"
    fn f(rate: f32) = zrat
      => E0101 at `zrat`: there is no `zrat` here
         help: names come from parameters, sizes, `let` and indices

    fn f(rate: f32) = ra
      => E0101 at `ra`: there is no `ra` here
         help: names come from parameters, sizes, `let` and indices

    fn f() -> i32 = y + 3000000000
      => E0101 at `y`: there is no `y` here
         help: names come from parameters, sizes, `let` and indices
    ");
}
