//! Warnings about a program, as data and drawn.

use std::fmt;
use std::sync::Arc;

use compiler::check::warnings::codes::UNUSED_FUNCTION;
use grammar::Diagnostic;

use crate::render::{Report, draw};
use crate::{Source, Style};

/// The parts of a program that are probably not meant, although it can be run.
///
/// ```
/// let program = fuseloop::Program::parse("fn f(x: f32[n], y: f32) = x * 2")?;
/// let warnings = program.warnings();
/// assert_eq!(warnings.len(), 1);
/// assert!(warnings.to_string().starts_with("warning[W0002]: the parameter `y` is never used"));
/// # Ok::<(), fuseloop::Errors>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Warnings {
    source: Arc<Source>,
    diagnostics: Vec<Diagnostic>,
}

impl Warnings {
    pub(crate) fn new(source: Arc<Source>, diagnostics: Vec<Diagnostic>) -> Warnings {
        Warnings { source, diagnostics }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.diagnostics.is_empty()
    }

    /// How many there are, up to a limit.
    pub fn len(&self) -> usize {
        self.diagnostics.len()
    }

    /// The warnings, in the order of the source.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// The source.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The warnings for a host that does not only call `main`: without those about functions that
    /// `main` does not need.
    pub fn for_all_functions(mut self) -> Warnings {
        self.diagnostics.retain(|warning| warning.code != UNUSED_FUNCTION);
        self
    }

    /// The warnings, each ready to be drawn or written as JSON.
    pub fn reports(&self) -> impl Iterator<Item = Report> {
        self.diagnostics.iter().map(Report::from)
    }

    /// The warnings drawn over the source, separated by blank lines.
    pub fn render(&self, style: Style) -> String {
        let drawn: Vec<String> = self.reports().map(|report| draw(&self.source, &report, style)).collect();
        drawn.join("\n\n")
    }
}

impl fmt::Display for Warnings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(Style::Plain))
    }
}
