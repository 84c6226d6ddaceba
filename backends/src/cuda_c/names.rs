//! Identifiers of CUDA C from names of a program.

use std::collections::BTreeSet;

/// Words that are no identifiers, or that mean something in the text around kernels.
const TAKEN: &[&str] = &[
    "alignas",
    "alignof",
    "and",
    "asm",
    "auto",
    "bf16",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "class",
    "const",
    "constexpr",
    "continue",
    "decltype",
    "default",
    "delete",
    "do",
    "double",
    "else",
    "enum",
    "explicit",
    "export",
    "extern",
    "f16",
    "false",
    "float",
    "for",
    "friend",
    "goto",
    "if",
    "inline",
    "int",
    "long",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "nullptr",
    "operator",
    "or",
    "passed",
    "private",
    "protected",
    "public",
    "register",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "struct",
    "switch",
    "template",
    "this",
    "throw",
    "true",
    "try",
    "typedef",
    "typeid",
    "typename",
    "union",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "wchar_t",
    "while",
    "xor",
    "absolute",
    "add",
    "bits",
    "checked",
    "fabs",
    "fabsf",
    "fma",
    "fmaf",
    "fmod",
    "fmodf",
    "greatest",
    "least",
    "left",
    "mul",
    "quotient",
    "remainder",
    "right",
    "sub",
    "to_float",
    "to_half",
    "to_int",
    "to_long",
    "to_unsigned",
    "within",
    "sqrt",
    "sqrtf",
    "floor",
    "floorf",
    "ceil",
    "ceilf",
    "trunc",
    "truncf",
    "rint",
    "rintf",
    "Fault",
    "Vector",
    "main",
    "bands",
    "blocks",
    "chunk",
    "column",
    "columns",
    "rows",
    "spans",
    "blockIdx",
    "blockDim",
    "gridDim",
    "threadIdx",
    "warpSize",
    "fault",
    "first",
    "number",
    "lane",
    "block",
    "whole",
    "end",
];

/// The identifiers of a scope.
#[derive(Clone, Debug, Default)]
pub(super) struct Names(BTreeSet<String>);

impl Names {
    /// An identifier like a name that nothing else in the scope has.
    pub(super) fn fresh(&mut self, wanted: &str) -> String {
        let clean = identifier(wanted);
        let mut name = clean.clone();
        let mut k = 0;
        while TAKEN.contains(&name.as_str()) || !self.0.insert(name.clone()) {
            k += 1;
            name = format!("{clean}_{k}");
        }
        name
    }
}

impl Names {
    /// Notes that something has a name.
    pub(super) fn take(&mut self, name: &str) {
        self.0.insert(name.to_owned());
    }
}

/// A name with the characters that an identifier may have.
pub(super) fn identifier(name: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let clean: String = name.chars().map(fits).collect();
    // Identifiers with two underscores, or an underscore first, belong to compilers.
    let words: Vec<&str> = clean.split('_').filter(|word| !word.is_empty()).collect();
    let joined = words.join("_");
    if joined.starts_with(|c: char| c.is_ascii_alphabetic()) { joined } else { format!("v{joined}") }
}
