//! What people write who come from other languages, and what to write instead. Tables only.

use crate::ast::Dtype;

/// Operators elsewhere: what to write here.
pub(crate) const OPERATORS: &[(&str, &str)] = &[
    ("&", "write `&&` for a condition, `bit_and(a, b)` for bits"),
    ("|", "write `||` for a condition, `bit_or(a, b)` for bits"),
    ("~", "write `!a` for a condition, `bit_not(a)` for bits"),
    ("<<", "write `shift_left(a, b)`"),
    (">>", "write `shift_right(a, b)`"),
    ("**", "write `^` for a power: `x ^ 2`"),
    ("//", "a comment begins with `#`; integer division is `/`, or `floor_div(a, b)` to round down"),
    ("/*", "a comment begins with `#` and runs to the end of the line"),
    ("===", "write `==`"),
    ("!==", "write `!=`"),
    ("<>", "write `!=`"),
    ("=<", "write `<=`"),
    ("=>", "write `>=` to compare, `=` to define"),
    (":=", "write `let name = value`"),
    ("+=", "nothing is assigned to: bind a new value with `let`, or write `sum[i](...)`"),
    ("-=", "nothing is assigned to: bind a new value with `let`"),
    ("*=", "nothing is assigned to: bind a new value with `let`, or write `prod[i](...)`"),
    ("/=", "nothing is assigned to: bind a new value with `let`; to compare write `!=`"),
    ("++", "nothing is assigned to: bind a new value with `let`"),
    ("?", "write `if c then a else b`"),
    (".", "there are no fields or methods: write `f(x)` for `x.f()`, `size(x, 0)` for a length"),
    ("\\", "a line goes on inside brackets and after an operator: no mark is needed"),
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

/// Words that mean something elsewhere: what to write here.
pub(crate) const WORDS: &[(&str, &str)] = &[
    ("def", "a function is `fn f(x: f32[n]) = ...`"),
    ("function", "a function is `fn f(x: f32[n]) = ...`"),
    ("func", "a function is `fn f(x: f32[n]) = ...`"),
    ("fun", "a function is `fn f(x: f32[n]) = ...`"),
    ("lambda", "functions have names: `fn f(x: f32) = ...`"),
    ("return", "no `return` is needed: the last expression of a block is its result"),
    ("for", "there are no loops: write `let y[i] = ...` for an array, `sum[i](...)` to reduce"),
    ("while", "there are no loops: write `let y[i] = ...` for an array, `sum[i](...)` to reduce"),
    ("and", "write `&&`"),
    ("or", "write `||`"),
    ("not", "write `!`"),
    ("elif", "write `else if`"),
    ("elsif", "write `else if`"),
    ("end", "a block ends with `}`, an `if` with its `else`"),
    ("var", "write `let name = value`"),
    ("const", "write `let name = value`"),
    ("mut", "nothing is assigned to: write `let name = value`"),
    ("import", "a program is one file: there is nothing to import"),
    ("from", "a program is one file: there is nothing to import"),
    ("use", "a program is one file: there is nothing to import"),
    ("class", "there are no classes: a program is a list of functions"),
    ("struct", "there are no structures: a function may have several results, `(a, b)`"),
];

/// Types by their names elsewhere.
const TYPES: &[(&str, Dtype)] = &[
    ("float", Dtype::F32),
    ("float32", Dtype::F32),
    ("single", Dtype::F32),
    ("double", Dtype::F64),
    ("float64", Dtype::F64),
    ("half", Dtype::F16),
    ("float16", Dtype::F16),
    ("bfloat16", Dtype::Bf16),
    ("int", Dtype::I64),
    ("int8", Dtype::I8),
    ("int32", Dtype::I32),
    ("int64", Dtype::I64),
    ("long", Dtype::I64),
    ("uint", Dtype::U64),
    ("uint8", Dtype::U8),
    ("byte", Dtype::U8),
    ("uint32", Dtype::U32),
    ("uint64", Dtype::U64),
    ("i16", Dtype::I32),
    ("u16", Dtype::U32),
    ("usize", Dtype::I64),
    ("isize", Dtype::I64),
    ("boolean", Dtype::Bool),
];

/// The type that somebody may have meant: by its name elsewhere, one letter away, or with the same letters.
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

/// Whether one letter changed, added or left out makes one of the other.
fn one_edit(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let head = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[head..], &b[head..]);
    let tail = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
    a.len() - tail <= 1 && b.len() - tail <= 1
}

/// What a table says of a key.
pub(crate) fn look_up(table: &'static [(&'static str, &'static str)], key: &str) -> Option<&'static str> {
    table.iter().find(|(known, _)| *known == key).map(|(_, help)| *help)
}
