//! What things are called in C, so that a header compiles whatever the names in the source are and whatever other headers come
//! before it. A name that C, C++, their headers or those of POSIX may define as a macro gets a `_` at its end, or an `x` before a `_` that it
//! begins with.

use std::collections::BTreeSet;

/// A name of the source as C may have it.
pub(super) fn in_c(name: &str) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
    let name: String = name.chars().map(legal).collect();
    match is_reserved(&name) {
        // `_SIZE_T_` is a macro as `_SIZE_T` is.
        true if name.starts_with('_') => format!("x{name}"),
        true => format!("{name}_"),
        false => name,
    }
}

/// The symbol of a function. A prefix makes it a name of its own.
pub(super) fn symbol(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { in_c(name) } else { format!("{prefix}{name}") }
}

/// A name that is not taken yet.
pub(super) fn distinct(mut name: String, taken: &mut BTreeSet<String>) -> String {
    while !taken.insert(name.clone()) {
        name.push('_');
    }
    name
}

/// Whether a name may be a keyword, a type or a macro.
fn is_reserved(name: &str) -> bool {
    // Macros are written in capitals, such as `EOF`, but for endings and prefixes: `M_PIf`, `PRId64`, `L_tmpnam`. A single
    // capital is a size in most programs, and a macro in none of the headers but for `I`. `__linux__` is a macro, too.
    let capital = |c: char| c.is_ascii_uppercase() || c == '_';
    let mut chars = name.chars();
    let begins_as_macro =
        chars.next().is_some_and(capital) && chars.next().is_some_and(|c| capital(c) || c.is_ascii_digit());
    begins_as_macro
        || name.ends_with("_t")
        || POSIX_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || WORDS.binary_search(&name).is_ok()
}

/// Beginnings of the names of structure members: POSIX lets its headers define macros of such names.
const POSIX_PREFIXES: [&str; 5] = ["s6_", "sa_", "si_", "sigev_", "st_"];

/// Keywords of C and C++, and the other macros of their headers, in order.
const WORDS: &[&str] = &[
    "I",
    "alignas",
    "alignof",
    "and",
    "and_eq",
    "asm",
    "auto",
    "bitand",
    "bitor",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "class",
    "co_await",
    "co_return",
    "co_yield",
    "compl",
    "complex",
    "concept",
    "const",
    "const_cast",
    "consteval",
    "constexpr",
    "constinit",
    "continue",
    "d_fileno",
    "decltype",
    "default",
    "delete",
    "do",
    "double",
    "dynamic_cast",
    "else",
    "enum",
    "errno",
    "explicit",
    "export",
    "extern",
    "false",
    "float",
    "for",
    "friend",
    "goto",
    "h_addr",
    "h_errno",
    "i386",
    "if",
    "imaginary",
    "inline",
    "int",
    "linux",
    "long",
    "math_errhandling",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "noreturn",
    "not",
    "not_eq",
    "nullptr",
    "operator",
    "or",
    "or_eq",
    "private",
    "protected",
    "public",
    "register",
    "reinterpret_cast",
    "requires",
    "restrict",
    "return",
    "sched_priority",
    "short",
    "signed",
    "sizeof",
    "static",
    "static_assert",
    "static_cast",
    "stderr",
    "stdin",
    "stdout",
    "struct",
    "switch",
    "template",
    "this",
    "thread_local",
    "throw",
    "true",
    "try",
    "typedef",
    "typeid",
    "typename",
    "typeof",
    "typeof_unqual",
    "union",
    "unix",
    "unsigned",
    "using",
    "va_list",
    "virtual",
    "void",
    "volatile",
    "while",
    "xor",
    "xor_eq",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_in_order() {
        assert!(WORDS.is_sorted());
    }

    #[test]
    fn names_that_c_has_get_a_mark() {
        for name in ["double", "EOF", "int8_t", "M_PIf", "L_tmpnam", "PRId64", "I", "st_atime", "B50"] {
            assert_eq!(in_c(name), format!("{name}_"));
        }
        for name in ["__linux__", "_Bool", "_SIZE_T"] {
            assert_eq!(in_c(name), format!("x{name}"));
        }
        for name in ["x", "N", "Nx", "x_", "total", "t", "eof", "start", "_x", "doubles"] {
            assert_eq!(in_c(name), name);
        }
        assert_eq!((symbol("", "double"), symbol("fl_", "int8_t")), ("double_".to_owned(), "fl_int8_t".to_owned()));
    }
}
