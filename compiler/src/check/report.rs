//! The errors of a function, each with the calls that led to it.

use grammar::ast::Span;
use grammar::{Diagnostic, MAX_ERRORS};

use super::calls::{CallId, Calls};
use super::{MAX_EXPRS, codes};

/// The errors found so far, and the calls that an error shows.
pub(super) struct Report<'a> {
    /// The calls being inlined.
    pub calls: Calls<'a>,
    errors: Vec<Diagnostic>,
}

impl<'a> Report<'a> {
    /// No errors yet.
    pub fn new(calls: Calls<'a>) -> Report<'a> {
        Report { calls, errors: vec![] }
    }

    /// Whether there are as many errors as anybody reads.
    pub fn is_full(&self) -> bool {
        self.errors.len() >= MAX_ERRORS
    }

    /// Whether there is no error.
    pub fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// A mark to come back to.
    pub fn mark(&self) -> usize {
        self.errors.len()
    }

    /// Forgets the errors since a mark.
    pub fn back_to(&mut self, mark: usize) {
        self.errors.truncate(mark);
    }

    /// The errors since a mark.
    pub fn since(&self, mark: usize) -> &[Diagnostic] {
        self.errors.get(mark..).unwrap_or_default()
    }

    /// Reports an error that has its calls already.
    pub fn again(&mut self, error: Diagnostic) {
        let same = |e: &Diagnostic| e.code == error.code && e.labels[0].span == error.labels[0].span;
        if !self.is_full() && !self.errors.iter().any(same) {
            self.errors.push(error);
        }
    }

    /// The errors so far, which are no longer there.
    pub fn take(&mut self) -> Vec<Diagnostic> {
        std::mem::take(&mut self.errors)
    }

    /// Puts errors back before those that have come since.
    pub fn put_back(&mut self, mut earlier: Vec<Diagnostic>) {
        earlier.append(&mut self.errors);
        earlier.truncate(MAX_ERRORS);
        self.errors = earlier;
    }

    /// Reports an error in the function that is being inlined.
    pub fn error(&mut self, error: Diagnostic) {
        self.error_in(self.calls.current(), error);
    }

    /// Reports an error in the function that a call stands for.
    pub fn error_in(&mut self, call: CallId, error: Diagnostic) {
        if self.is_full() {
            return;
        }
        let traced = self
            .calls
            .trace(call)
            .take(3)
            .fold(error, |error, (name, at)| error.label(at, format!("in this call of `{name}`")));
        self.again(traced);
    }

    /// Reports, once, that the program has grown beyond the stated limit.
    pub fn too_large(&mut self, span: Span) {
        if !self.errors.iter().any(|e| e.code == codes::TOO_LARGE) {
            let message = format!("the function has more than {MAX_EXPRS} operations when its calls are inlined");
            self.error(Diagnostic::new(codes::TOO_LARGE, span, message));
        }
    }

    /// The errors, in the order of the source.
    pub fn into_sorted(self) -> Vec<Diagnostic> {
        let mut errors = self.errors;
        errors.sort_by_key(|e| e.labels[0].span);
        errors
    }
}
