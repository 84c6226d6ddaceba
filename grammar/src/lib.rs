//! Source text to syntax tree: a lexer (logos), a layout rule that ends statements at newlines, a
//! grammar (lalrpop), and an arena tree. Errors are [`Diagnostic`]s.

#![forbid(unsafe_code)]

pub mod ast;
mod builder;
pub mod codes;
pub mod diagnostic;
mod format;
mod hidden;
mod highlight;
mod hints;
mod layout;
mod lexer;
mod names;
pub mod print;
mod read;
mod report;
pub mod source;

pub use diagnostic::{Code, Diagnostic, Edit, Label, Report, Severity, Style};
pub use format::format;
pub use highlight::{Highlight, highlight};
pub use layout::Lines;
pub use names::{Occurrence, Role, mentioned, occurrences};
pub use read::{is_unfinished, parse, parse_input, parse_module, recover_module};
pub use source::{Part, Source};

/// The limit on the depth of an expression, counted in operators, calls and parentheses. The stages
/// after the parser may therefore recurse.
pub const MAX_DEPTH: u32 = 1000;

/// The limit on the bytes of a source.
pub const MAX_SOURCE: usize = 16 << 20;

/// The limit on the errors reported for one source.
pub const MAX_ERRORS: usize = 100;

fn depth_error(span: ast::Span) -> Diagnostic {
    Diagnostic::new(codes::TOO_DEEP, span, format!("this expression is more than {MAX_DEPTH} operations deep"))
        .note("operators, calls and brackets count")
        .help("give parts of it a name with `let`")
}

#[expect(clippy::all, unused_qualifications, reason = "generated")]
mod parser {
    include!("grammar.generated");
}
