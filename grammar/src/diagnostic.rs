//! What is wrong with a program, in data: rendering lives elsewhere.

use std::fmt;
use std::ops::Range;

use crate::ast::Span;

/// A stable number of a kind of error, shown as `E0123`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(pub u16);

/// Declares the codes of a room, each with its title, and `ALL` of them by number.
#[macro_export]
macro_rules! codes {
    ($($name:ident = $number:literal, $title:literal;)*) => {
        $(#[doc = concat!($title, ".")] pub const $name: $crate::Code = $crate::Code($number);)*

        /// Every code of this room with its title, by number.
        pub const ALL: &[($crate::Code, &str)] = &[$(($name, $title)),*];
    };
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "E{:04}", self.0)
    }
}

/// One error, in the user's terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Which kind of error.
    pub code: Code,
    /// What is wrong, in a sentence without a full stop: expected and found.
    pub message: String,
    /// Where: the first is the place itself, the others explain it.
    pub labels: Vec<Label>,
    /// What else helps to understand it.
    pub notes: Vec<String>,
    /// What to do about it, where that is known.
    pub help: Option<String>,
    /// The edits that do it, to be made together; none where it takes a person.
    pub suggestion: Vec<Edit>,
}

/// A change of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// What to replace; empty to insert.
    pub span: Span,
    /// What to put there.
    pub replacement: String,
}

/// A place in the source with a word on its part in the error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The place.
    pub span: Span,
    /// Its part in it; may be empty for the first label.
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

    /// With an edit that mends it, together with those that it has.
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

/// An error with all that is said of it, ready to be drawn or written as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Which kind of error, if it has a code.
    pub code: Option<Code>,
    /// What is wrong.
    pub message: String,
    /// Bytes of the source, each with its part in the error; the first is the place itself.
    pub labels: Vec<(Range<usize>, String)>,
    /// What else helps to understand it.
    pub notes: Vec<String>,
    /// What to do about it.
    pub help: Option<String>,
    /// The edits that do it, together: bytes of the source, and what to put there.
    pub suggestion: Vec<(Range<usize>, String)>,
}

impl Report {
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
