//! Errors and warnings about a program, as data. Rendering them is the business of others.

use std::fmt;
use std::ops::Range;

use crate::ast::Span;

/// A stable number of a kind of error, shown as `E0123`; or, from 1000 on, of a kind of warning:
/// 1001 is shown as `W0001`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(pub u16);

/// Whether a program with a diagnostic can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// It cannot.
    Error,
    /// It can, but it probably does not do what was meant.
    Warning,
}

impl Severity {
    /// The word that stands before the message.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

impl Code {
    /// The number from which codes are those of warnings.
    const FIRST_WARNING: u16 = 1000;

    /// The severity of everything with this code.
    pub fn severity(self) -> Severity {
        if self.0 < Code::FIRST_WARNING { Severity::Error } else { Severity::Warning }
    }

    /// The code that a text means, in any common spelling: `E0123`, `e123`, `123`, `w1`.
    pub fn parse(text: &str) -> Option<Code> {
        let warning = text.strip_prefix(['W', 'w']);
        let digits = warning.or_else(|| text.strip_prefix(['E', 'e'])).unwrap_or(text);
        let number: u16 = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()?;
        let first = if warning.is_some() { Code::FIRST_WARNING } else { 0 };
        number.checked_add(first).map(Code)
    }
}

/// Declares the codes of one stage, each with its title, and `ALL` of them in the order of their
/// numbers.
#[macro_export]
macro_rules! codes {
    ($($name:ident = $number:literal, $title:literal;)*) => {
        $(#[doc = concat!($title, ".")] pub const $name: $crate::Code = $crate::Code($number);)*

        /// Every code of this stage with its title, in the order of the numbers.
        pub const ALL: &[($crate::Code, &str)] = &[$(($name, $title)),*];
    };
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.severity() {
            Severity::Error => write!(f, "E{:04}", self.0),
            Severity::Warning => write!(f, "W{:04}", self.0 - Code::FIRST_WARNING),
        }
    }
}

/// One error or warning, in the user's terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The code of the error.
    pub code: Code,
    /// The error in a sentence without a full stop, stating what was expected and what was found.
    pub message: String,
    /// Its places: the first is where the error is, the others explain it.
    pub labels: Vec<Label>,
    /// Further facts that help to understand it.
    pub notes: Vec<String>,
    /// How to fix it, if that is known.
    pub help: Option<String>,
    /// The edits that fix it, to be applied together. Empty if the fix needs a human decision.
    pub suggestion: Vec<Edit>,
}

/// A change of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The text to replace; empty for an insertion.
    pub span: Span,
    /// The new text.
    pub replacement: String,
}

/// A place in the source with a few words on its role in the error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The place.
    pub span: Span,
    /// Its role; may be empty for the first label.
    pub text: String,
}

impl Diagnostic {
    /// An error at one place.
    pub fn new(code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
        let labels = vec![Label { span, text: String::new() }];
        Diagnostic { code, message: message.into(), labels, notes: vec![], help: None, suggestion: vec![] }
    }

    /// With a word on the first place.
    pub fn here(mut self, text: impl Into<String>) -> Diagnostic {
        self.labels[0].text = text.into();
        self
    }

    /// With another place.
    pub fn label(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.labels.push(Label { span, text: text.into() });
        self
    }

    /// With a note.
    pub fn note(mut self, text: impl Into<String>) -> Diagnostic {
        self.notes.push(text.into());
        self
    }

    /// With a hint.
    pub fn help(mut self, text: impl Into<String>) -> Diagnostic {
        self.help = Some(text.into());
        self
    }

    /// With an edit that fixes it, in addition to those that it already has.
    pub fn suggest(mut self, span: Span, replacement: impl Into<String>) -> Diagnostic {
        self.suggestion.push(Edit { span, replacement: replacement.into() });
        self
    }

    /// With the edit that puts something before and behind a place.
    pub fn wrap(self, span: Span, before: impl Into<String>, behind: impl Into<String>) -> Diagnostic {
        let (start, end) = (Span { end: span.start, ..span }, Span { start: span.end, ..span });
        self.suggest(start, before).suggest(end, behind)
    }
}

/// An error with everything said about it, ready to be drawn or written as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The code of the error, if it has one.
    pub code: Option<Code>,
    /// The error, in a sentence.
    pub message: String,
    /// Ranges of bytes in the source, each with its role in the error; the first is the place of
    /// the error.
    pub labels: Vec<(Range<usize>, String)>,
    /// Further facts that help to understand it.
    pub notes: Vec<String>,
    /// How to fix it.
    pub help: Option<String>,
    /// The edits that fix it, to be made together: ranges of bytes in the source with their
    /// replacements.
    pub suggestion: Vec<(Range<usize>, String)>,
}

impl Report {
    /// The severity of its code; without a code it is an error.
    pub fn severity(&self) -> Severity {
        self.code.map_or(Severity::Error, Code::severity)
    }

    /// A sentence alone.
    pub fn new(code: Code, message: impl Into<String>) -> Report {
        Report { code: Some(code), message: message.into(), ..Report::default() }
    }
}

fn bytes(span: Span) -> Range<usize> {
    span.start as usize..span.end as usize
}

impl From<&Diagnostic> for Report {
    fn from(d: &Diagnostic) -> Report {
        Report {
            code: Some(d.code),
            message: d.message.clone(),
            labels: d.labels.iter().map(|l| (bytes(l.span), l.text.clone())).collect(),
            notes: d.notes.clone(),
            help: d.help.clone(),
            suggestion: d.suggestion.iter().map(|s| (bytes(s.span), s.replacement.clone())).collect(),
        }
    }
}

/// Whether the drawing is coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Text alone.
    #[default]
    Plain,
    /// With ANSI colours.
    Colored,
}
