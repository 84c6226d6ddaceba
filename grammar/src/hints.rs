//! Tables of syntax from other languages, and what to write here instead.

use crate::ast::Dtype;

/// A replacement: in words, and as text if that alone is enough.
pub(crate) type Instead = (&'static str, Option<&'static str>);

/// Operators elsewhere.
pub(crate) const OPERATORS: &[(&str, Instead)] = &[
    ("&", ("write `&&` for a condition, `bit_and(a, b)` for bits", None)),
    ("|", ("write `||` for a condition, `bit_or(a, b)` for bits", None)),
    ("~", ("write `!a` for a condition, `bit_not(a)` for bits", None)),
    ("<<", ("write `shift_left(a, b)`", None)),
    (">>", ("write `shift_right(a, b)`", None)),
    ("**", ("write `^` for a power: `x ^ 2`", Some("^"))),
    ("//", ("a comment begins with `#`; integer division is `/`, or `floor_div(a, b)` to round down", None)),
    ("/*", ("a comment begins with `#` and runs to the end of the line", None)),
    ("===", ("write `==`", Some("=="))),
    ("!==", ("write `!=`", Some("!="))),
    ("<>", ("write `!=`", Some("!="))),
    ("=<", ("write `<=`", Some("<="))),
    ("=>", ("write `>=` to compare, `=` to define", None)),
    (":=", ("write `let name = value`", None)),
    ("+=", ("nothing is assigned to: bind a new value with `let`, or write `sum[i](...)`", None)),
    ("-=", ("nothing is assigned to: bind a new value with `let`", None)),
    ("*=", ("nothing is assigned to: bind a new value with `let`, or write `prod[i](...)`", None)),
    ("/=", ("nothing is assigned to: bind a new value with `let`; to compare write `!=`", None)),
    ("++", ("nothing is assigned to: bind a new value with `let`", None)),
    ("?", ("write `if c then a else b`", None)),
    (".", ("there are no fields or methods: write `f(x)` for `x.f()`, `size(x, 0)` for a length", None)),
    ("\\", ("a line goes on inside brackets and after an operator: no mark is needed", None)),
];

/// Characters that look like an operator.
pub(crate) const CHARACTERS: &[(char, &str)] = &[
    ('−', "-"),
    ('–', "-"),
    ('×', "*"),
    ('·', "*"),
    ('÷', "/"),
    ('≤', "<="),
    ('≥', ">="),
    ('≠', "!="),
    ('∧', "&&"),
    ('∨', "||"),
    ('¬', "!"),
    ('→', "->"),
    ('π', "pi"),
    ('∞', "inf"),
    ('∑', "sum"),
    ('²', "^ 2"),
];

/// Characters that enclose text.
pub(crate) const QUOTES: [char; 12] = ['"', '\'', '‘', '’', '‚', '‛', '“', '”', '„', '‟', '«', '»'];

/// Members of an array elsewhere, behind a `.`.
pub(crate) const MEMBERS: &[(&str, &str)] = &[
    ("shape", "the length of an axis is its size name, or `size(x, 0)`"),
    ("size", "the length of an axis is its size name, or `size(x, 0)`"),
    ("ndim", "the number of axes is part of the parameter's type"),
    ("dtype", "the type of the elements is part of the parameter's type"),
    ("T", "write `transpose(x)`"),
    ("t", "write `transpose(x)`"),
    ("astype", "a type converts: `f32(x)`"),
    ("to", "a type converts: `f32(x)`"),
    ("map", "a function of scalars is applied to each element: write `f(x)`"),
    ("iter", "write `let y[i] = ...` for an array, `sum[i](...)` to reduce"),
    ("len", "the length of an axis is its size name, or `size(x, 0)`"),
    ("dot", "write `sum(a * b)` of vectors, `a @ b` of matrices"),
    ("item", "a scalar is not an array: leave it out"),
    ("clone", "values are never changed: leave it out"),
    ("copy", "values are never changed: leave it out"),
];

/// The alternatives to `for`, for a message.
pub(crate) const NO_LOOPS: &str = "write `let y[i] = ...` for an array, `sum[i](...)` to reduce, `sum[k <= i](...)` for a running sum, \
                                   `loop x = first, t < n { next }` to repeat a step";

/// How to repeat something until a condition holds, for a message.
const UNTIL: &str = "a loop that ends by a condition is `loop x = first while c { next }`";

/// How to use functions of another file, for a message.
const IMPORT: &str = "functions of another file: write `use \"file.fl\"`, or `use nn` for a library, between functions";

/// Keywords of other languages.
pub(crate) const WORDS: &[(&str, Instead)] = &[
    ("def", ("a function is `fn f(x: f32[n]) = ...`", None)),
    ("function", ("a function is `fn f(x: f32[n]) = ...`", None)),
    ("func", ("a function is `fn f(x: f32[n]) = ...`", None)),
    ("fun", ("a function is `fn f(x: f32[n]) = ...`", None)),
    ("lambda", ("functions have names: `fn f(x: f32) = ...`", None)),
    ("return", ("no `return` is needed: the last expression of a block is its result", Some(""))),
    ("for", (NO_LOOPS, None)),
    ("until", (UNTIL, None)),
    ("do", (UNTIL, None)),
    ("and", ("write `&&`", Some("&&"))),
    ("or", ("write `||`", Some("||"))),
    ("not", ("write `!`", Some("!"))),
    ("elif", ("write `else if`", Some("else if"))),
    ("elsif", ("write `else if`", Some("else if"))),
    ("elseif", ("write `else if`", Some("else if"))),
    ("as", ("convert by the name of the type: `f32(x)`", None)),
    ("in", (NO_LOOPS, None)),
    ("pub", ("every function of a file can be called: leave `pub` out", None)),
    ("end", ("a block ends with `}`, an `if` with its `else`", None)),
    ("var", ("write `let name = value`", None)),
    ("const", ("write `let name = value`", None)),
    ("mut", ("nothing is assigned to: write `let name = value`", None)),
    ("import", (IMPORT, None)),
    ("include", (IMPORT, None)),
    ("from", (IMPORT, None)),
    ("class", ("there are no classes: a program is a list of functions", None)),
    ("struct", ("there are no structures: a function may have several results, `(a, b)`", None)),
];

/// Types by their names in other languages.
const TYPES: &[(&str, Dtype)] = &[
    ("float32", Dtype::F32),
    ("single", Dtype::F32),
    ("double", Dtype::F64),
    ("float64", Dtype::F64),
    ("half", Dtype::F16),
    ("float16", Dtype::F16),
    ("bfloat16", Dtype::Bf16),
    ("int", Dtype::I64),
    ("int8", Dtype::I8),
    ("int16", Dtype::I16),
    ("short", Dtype::I16),
    ("int32", Dtype::I32),
    ("int64", Dtype::I64),
    ("long", Dtype::I64),
    ("uint", Dtype::U64),
    ("uint8", Dtype::U8),
    ("byte", Dtype::U8),
    ("uint16", Dtype::U16),
    ("uint32", Dtype::U32),
    ("uint64", Dtype::U64),
    ("usize", Dtype::I64),
    ("isize", Dtype::I64),
    ("boolean", Dtype::Bool),
];

/// Arrays by their names in other languages.
pub(crate) const ARRAYS: &[&str] =
    &["array", "arrayview", "list", "matrix", "memref", "ndarray", "slice", "tensor", "tuple", "vec", "vector"];

/// The type that was probably meant: by its name in another language, by one letter, or by the same
/// letters in another order.
pub(crate) fn similar_type(name: &str) -> Option<Dtype> {
    let lower = name.get(..name.len().min(16))?.to_ascii_lowercase();
    let elsewhere = TYPES.iter().find(|(other, _)| *other == lower).map(|(_, dtype)| *dtype);
    let letters = |text: &str| {
        let mut letters = text.as_bytes().to_vec();
        letters.sort_unstable();
        letters
    };
    let same_letters = |dtype: &Dtype| letters(dtype.name()) == letters(&lower);
    let close = |dtype: &Dtype| one_edit(dtype.name(), &lower);
    let find = |similar: &dyn Fn(&Dtype) -> bool| Dtype::ALL.iter().copied().find(|dtype| similar(dtype));
    elsewhere.or_else(|| find(&same_letters)).or_else(|| find(&close))
}

/// Whether `a` and `b` differ by one letter changed, added or left out.
fn one_edit(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let head = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[head..], &b[head..]);
    let tail = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
    a.len() - tail <= 1 && b.len() - tail <= 1
}

/// The entry of a table for a key.
pub(crate) fn look_up<T: Copy>(table: &'static [(&'static str, T)], key: &str) -> Option<T> {
    table.iter().find(|(known, _)| *known == key).map(|(_, help)| *help)
}

/// The replacement for a `.`, given the text around it.
pub(crate) fn dot(before: &str, after: &str) -> &'static str {
    let name_end = after.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(after.len());
    let member = &after[..name_end];
    if after.starts_with('.') || before.ends_with('.') {
        "a slice is `x[a:b]`, a bounded index `i < n`; axes without a subscript are whole: `x[i]`"
    } else if after.starts_with(['*', '/', '+', '-', '^', '=', '<', '>']) {
        "operators apply to each element: write them without the `.`"
    } else if after.starts_with('(') {
        "a function of scalars is applied to each element: write it without the `.`"
    } else if ["np", "numpy", "jnp", "torch", "tf", "math", "std"].iter().any(|module| before.ends_with(module)) {
        "functions belong to no module: write `sum(x)` for `np.sum(x)`"
    } else {
        look_up(MEMBERS, member).unwrap_or("there are no fields or methods: write `f(x)` for `x.f()`")
    }
}
