//! Names in C, chosen so that a header compiles whatever the names in the source are and whatever
//! headers come before it. A name that C, C++, their headers or those of POSIX may define as a
//! macro gets a `_` appended, or an `x` prepended if it begins with a `_`.

use std::collections::BTreeSet;

use crate::c_words::WORDS;

/// A name of the source in C.
pub(super) fn in_c(name: &str) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
    let name: String = name.chars().map(legal).collect();
    match is_reserved(&name) {
        // `_SIZE_T_` can be a macro just as `_SIZE_T` can.
        true if name.starts_with('_') => format!("x{name}"),
        true => format!("{name}_"),
        false => name,
    }
}

/// The symbol of a function. With a prefix no other change is needed.
pub(super) fn symbol(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { in_c(name) } else { format!("{prefix}{name}") }
}

/// Makes a name unique by appending `_`, and reserves it.
pub(super) fn distinct(mut name: String, taken: &mut BTreeSet<String>) -> String {
    while !taken.insert(name.clone()) {
        name.push('_');
    }
    name
}

/// Whether a name may be a keyword, a type or a macro in C.
fn is_reserved(name: &str) -> bool {
    // Macros are in capitals, such as `EOF`, except for some suffixes and prefixes: `M_PIf`,
    // `PRId64`, `L_tmpnam`. Single capitals are allowed: most programs name sizes so, and the only
    // such macro in the headers is `I`. `__linux__` is a macro, too.
    let capital = |c: char| c.is_ascii_uppercase() || c == '_';
    let mut chars = name.chars();
    let begins_as_macro =
        chars.next().is_some_and(capital) && chars.next().is_some_and(|c| capital(c) || c.is_ascii_digit());
    begins_as_macro
        || name.ends_with("_t")
        || POSIX_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || WORDS.binary_search(&name).is_ok()
}

/// Prefixes of the names of structure members, for which POSIX allows its headers to define macros.
const POSIX_PREFIXES: [&str; 5] = ["s6_", "sa_", "si_", "sigev_", "st_"];

#[cfg(test)]
mod tests {
    use super::*;

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
