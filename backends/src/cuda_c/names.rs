//! Identifiers of CUDA C from names of a program.

use std::collections::BTreeSet;

use crate::c_words::WORDS;

/// Names that mean something in the text around kernels.
const TAKEN: &[&str] = &[
    "Fault",
    "Lanes",
    "Pairs",
    "Running",
    "Together",
    "Vector",
    "absolute",
    "add",
    "bands",
    "bf16",
    "bits",
    "block",
    "blockDim",
    "blockIdx",
    "blocks",
    "ceil",
    "ceilf",
    "checked",
    "chunk",
    "column",
    "columns",
    "end",
    "f16",
    "fabs",
    "fabsf",
    "fault",
    "first",
    "floor",
    "floorf",
    "fma",
    "fmaf",
    "fmod",
    "fmodf",
    "greatest",
    "gridDim",
    "lane",
    "least",
    "left",
    "main",
    "mul",
    "number",
    "passed",
    "quotient",
    "remainder",
    "right",
    "rint",
    "rintf",
    "rows",
    "spans",
    "sqrt",
    "sqrtf",
    "sub",
    "threadIdx",
    "to_float",
    "to_half",
    "to_int",
    "to_long",
    "to_unsigned",
    "to_unsigned_long",
    "trunc",
    "truncf",
    "warpSize",
    "wchar_t",
    "whole",
    "within",
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
        while TAKEN.contains(&name.as_str()) || WORDS.contains(&name.as_str()) || !self.0.insert(name.clone()) {
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
