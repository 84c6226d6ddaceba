//! What fusion made of a function, and why: as text, as JSON, as a graph.

mod dot;
mod json;
pub(crate) mod limit;
mod text;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use compiler::explain::{Report, Sizes, explain};
use ir::checked::Checked;

use crate::{CompileError, Options, Source, Style};

/// What fusion made of a function: its kernels before and after, what they move and compute, and for each two operations that
/// could share a kernel whether they do, or why not and what to write instead.
#[derive(Clone, Debug)]
pub struct Explanation {
    source: Arc<Source>,
    report: Report,
}

/// Why there is no explanation.
#[derive(Clone, Debug)]
pub enum ExplainError {
    /// The function cannot be compiled.
    Compile(CompileError),
    /// A size that the function has no name for.
    UnknownSize {
        /// What was given.
        name: String,
        /// The function's size names.
        known: Vec<String>,
    },
    /// A size below 0.
    NegativeSize {
        /// The name.
        name: String,
        /// The size.
        value: i64,
    },
}

impl Explanation {
    pub(crate) fn new(
        source: Arc<Source>,
        checked: &Checked,
        options: &Options,
        sizes: &[(&str, i64)],
    ) -> Result<Explanation, ExplainError> {
        let names = Sizes::new(checked);
        let mut given = BTreeMap::new();
        for (name, value) in sizes {
            let Some((symbol, _)) = names.names().find(|(_, known)| known == name) else {
                let known = names.names().map(|(_, name)| name.to_owned()).collect();
                return Err(ExplainError::UnknownSize { name: (*name).to_owned(), known });
            };
            if *value < 0 {
                return Err(ExplainError::NegativeSize { name: (*name).to_owned(), value: *value });
            }
            given.insert(symbol, *value);
        }
        let compiled = compiler::pipeline::compile(checked, &options.pipeline()).map_err(CompileError::from)?;
        let report = explain(checked, &compiled, options.fuse, &source.text, &given);
        Ok(Explanation { source, report })
    }

    /// Kernels of the unfused program: one an operation.
    pub fn kernels_before(&self) -> usize {
        self.report.before.kernels.len()
    }

    /// Kernels that are launched.
    pub fn kernels_after(&self) -> usize {
        self.report.after.kernels.len()
    }

    /// Bytes that cross between memory and caches without fusion, if all sizes that they depend on are given.
    pub fn bytes_before(&self) -> Option<u64> {
        self.report.before.total.bytes.value
    }

    /// Bytes that cross between memory and caches, if all sizes that they depend on are given.
    pub fn bytes_after(&self) -> Option<u64> {
        self.report.after.total.bytes.value
    }

    /// The report, for people.
    pub fn render(&self, style: Style) -> String {
        text::render(&self.source, &self.report, style)
    }

    /// The report, for programs: one line, whose fields `docs/json.md` lists.
    pub fn to_json(&self) -> String {
        json::write(&self.source, &self.report)
    }

    /// The operations and what flows between them, those of a kernel together: a graph for Graphviz.
    pub fn to_dot(&self) -> String {
        dot::write(&self.report)
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(Style::Plain))
    }
}

impl From<CompileError> for ExplainError {
    fn from(error: CompileError) -> ExplainError {
        ExplainError::Compile(error)
    }
}

impl fmt::Display for ExplainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExplainError::Compile(error) => error.fmt(f),
            ExplainError::UnknownSize { name, known } if known.is_empty() => {
                write!(f, "there is no size `{name}`: the function has no size names")
            }
            ExplainError::UnknownSize { name, known } => {
                let known: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
                write!(f, "there is no size `{name}`; there is {}", known.join(", "))
            }
            ExplainError::NegativeSize { name, value } => write!(f, "the size `{name}` is {value}, below 0"),
        }
    }
}

impl std::error::Error for ExplainError {}
