//! The errors and warnings of a text that is edited.

use std::sync::{Arc, Mutex, PoisonError};

use compiler::check::{Sound, check_edited};

use crate::program::Linked;
use crate::render::Report;
use crate::{Errors, Loader, Source, boundary, limit};

/// Finds the errors and warnings of a text again and again. Functions that an edit leaves without
/// errors are not checked again.
///
/// ```
/// use fuseloop::editor::Checks;
///
/// let checks = Checks::default();
/// let (_, reports) = checks.reports("fn f(x: f32[n]) = sum(x)\nfn g(x: f32[n]) = y", None);
/// assert_eq!(reports[0].message, "there is no `y` here");
/// let (_, reports) = checks.reports("fn f(x: f32[n]) = sum(x)\nfn g(x: f32[n]) = x", None);
/// assert!(reports.is_empty());
/// ```
#[derive(Debug, Default)]
pub struct Checks {
    sound: Mutex<Sound>,
}

impl Checks {
    /// The errors of a text and of the files that it uses, as
    /// [`Program::parse_with`](crate::Program::parse_with) finds them; if there are none, its
    /// warnings, and the functions that take more kernels than they allow themselves. Their places
    /// are in the source that comes with them.
    pub fn reports(&self, source: impl Into<Source>, loader: Option<&dyn Loader>) -> (Source, Vec<Report>) {
        let source = source.into();
        let found = boundary::enter(|message| Errors::fault(&source, message), || self.find(source.clone(), loader));
        found.unwrap_or_else(|errors| (errors.source().clone(), errors.reports().collect()))
    }

    fn find(&self, source: Source, loader: Option<&dyn Loader>) -> Result<(Source, Vec<Report>), Errors> {
        let linked = Linked::new(source, loader)?;
        // A panic leaves no entry half written.
        let mut sound = self.sound.lock().unwrap_or_else(PoisonError::into_inner);
        let checked = check_edited(&linked.file, &linked.source.text, &mut sound);
        drop(sound);
        let checked = checked.map_err(|errors| linked.failed(errors))?;
        let mut reports: Vec<Report> = linked.warnings().reports().collect();
        let refusals = checked.iter().filter_map(|one| limit::hold(&linked.source, &one.narrow, None).err());
        reports.extend(refusals.map(|error| error.report()));
        Ok((Arc::unwrap_or_clone(linked.source), reports))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Program;

    /// The messages of the errors, else of the warnings, and their places.
    fn said(reports: impl Iterator<Item = Report>) -> Vec<String> {
        reports.map(|report| format!("{:?} {} {:?}", report.code, report.message, report.labels)).collect()
    }

    /// The same of a program that is read as a whole.
    fn whole(text: &str) -> Vec<String> {
        match Program::parse(text) {
            Ok(program) => {
                let functions = program.functions().filter_map(|signature| program.function(&signature.name).ok());
                let refusals = functions.filter_map(|function| Some(function.hold_kernels().err()?.report()));
                said(program.warnings().reports().chain(refusals))
            }
            Err(errors) => said(errors.reports()),
        }
    }

    #[test]
    fn an_edit_leaves_no_error_out_and_none_behind() {
        let texts = [
            "fn f(x: f32[n]) = g(x)\nfn g(x: f32[n]) = sum(x)",
            "fn f(x: f32[n]) = g(x)\nfn g(x: f32[n]) = x",
            "fn f(x: f32[n]) -> f32 = g(x)\nfn g(x: f32[n]) = x",
            "fn f(x: f32[n]) -> f32 = g(x)\nfn g(x: f32[n]) = sum(x)",
            // A function of the language, then one of the text.
            "fn f(x: f32[n]) = exp(x)[0]",
            "fn f(x: f32[n]) = exp(x)[0]\nfn exp(x: f32[n]) = sum(x)",
            "fn exp(x: f32[n]) = x\nfn f(x: f32[n]) = exp(x)[0]",
            // Functions that call themselves, and one with the other's name.
            "fn f(x: f32[n]) = g(x)\nfn g(x: f32[n]) = f(x)",
            "fn g(x: f32[n]) = f(x)\nfn f(x: f32[n]) = x",
            "fn g(x: f32[n]) = f(x)\nfn f(x: f32[n]) = x\nfn f(x: f32[n]) = x",
            // Types and limits.
            "fn f(x: float[n]) = g(x)\nfn g(x: f32[n]) = x",
            "fn f(x: float[n]) = g(x)\nfn g(x: float[n]) = x",
            "@kernels(1) fn f(x: f32[n, n]) = x @ x @ x\nfn g(x: f32) = x",
            "@kernels(1) fn f(x: f32[n, n]) = x @ x @ x\nfn g(y: f32) = 1.0",
            "@kernels(2) fn f(x: f32[n, n]) = x @ x @ x\nfn g(y: f32) = 1.0",
        ];
        let checks = Checks::default();
        for text in texts.iter().chain(texts.iter().rev()) {
            assert_eq!(said(checks.reports(*text, None).1.into_iter()), whole(text), "{text}");
        }
    }

    #[test]
    fn the_errors_of_an_example_are_the_same_with_each_line_left_out() {
        let checks = Checks::default();
        for text in [include_str!("../../examples/greeks.fl"), include_str!("../../examples/logistic.fl")] {
            for left_out in 0..=text.lines().count() {
                let lines = text.lines().enumerate().filter(|(k, _)| *k != left_out).map(|(_, line)| line);
                let edited = lines.collect::<Vec<_>>().join("\n");
                assert_eq!(said(checks.reports(edited.as_str(), None).1.into_iter()), whole(&edited), "{edited}");
            }
        }
    }
}
