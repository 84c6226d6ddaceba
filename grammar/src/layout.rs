//! Where a statement ends, and brackets in pairs. Stands between lexer and parser.
//!
//! A newline or `;` ends a statement. A newline does not
//! - inside `()` and `[]`; `{` starts afresh: inside a block newlines count again;
//! - after what cannot end a statement: an operator, `=`, `,`, `:`, `->`, `then`, `else`, `if`, `let`, `fn`, an opening
//!   bracket;
//! - before what cannot begin one: `then`, `else`, `)`, `]`, `}`, `,`, `:`, `=`, `->`, `{`.
//!
//! A line that begins with an operator begins a statement, since `-x` may do so. The ends that reach the parser separate:
//! there is none at the beginning or end of a block or a file, and never two in a row.
//!
//! Brackets that do not match are reported here and made to match, so that the parser sees none that do not: `fn` closes
//! everything, `let` all brackets inside its block.

use crate::ast::Span;
use crate::codes;
use crate::diagnostic::Diagnostic;
use crate::lexer::{Lexer, Tok, Token};
use crate::report::Errors;
use crate::{MAX_DEPTH, depth_error};

/// The tokens of a text as the parser is to see them. Nothing if brackets nest beyond the limit.
pub(crate) fn arrange(source: &str, errors: &mut Errors) -> Option<Vec<Token>> {
    let mut lexer = Lexer::new(source);
    let mut layout = Layout { errors, tokens: vec![], open: vec![], pending: None };
    while let Some((token, complaint)) = lexer.next() {
        if let Some(complaint) = complaint {
            layout.errors.push(complaint);
        }
        layout.token(token);
        if layout.open.len() > MAX_DEPTH as usize {
            layout.errors.push(depth_error(token.span));
            return None;
        }
    }
    layout.unwind(0, "the end of the file");
    Some(layout.tokens)
}

struct Layout<'e> {
    errors: &'e mut Errors,
    tokens: Vec<Token>,
    /// The brackets that are open here.
    open: Vec<Token>,
    /// A newline or `;` since the last token.
    pending: Option<Token>,
}

impl Layout<'_> {
    fn token(&mut self, token: Token) {
        match token.tok {
            Tok::Newline => {
                self.pending.get_or_insert(token);
                return;
            }
            Tok::Semicolon if !self.in_brackets() => {
                self.pending = Some(token);
                return;
            }
            Tok::Fn => self.unwind(0, "the next `fn`"),
            Tok::Let => {
                let keep = self.open.iter().rposition(|open| open.tok == Tok::OpenBrace).map_or(0, |brace| brace + 1);
                self.unwind(keep, "the next `let`");
            }
            _ => {}
        }
        if token.tok.closes() {
            self.close(token);
            return;
        }
        self.end_statement(token.tok);
        if token.tok.closed_by().is_some() {
            self.open.push(token);
        }
        self.tokens.push(token);
    }

    fn in_brackets(&self) -> bool {
        self.open.last().is_some_and(|open| open.tok != Tok::OpenBrace)
    }

    /// Passes on the end of a statement that may lie before `next`.
    fn end_statement(&mut self, next: Tok) {
        let Some(end) = self.pending.take() else { return };
        let Some(previous) = self.tokens.last() else { return };
        let separates = !matches!(previous.tok, Tok::Newline | Tok::Semicolon | Tok::OpenBrace)
            && next != Tok::CloseBrace
            && !self.in_brackets();
        let ends = end.tok == Tok::Semicolon || (can_end(previous.tok) && can_begin(next));
        if separates && ends {
            // A line ends where its last token does, before spaces and a comment.
            let at = previous.span.end;
            let span = if end.tok == Tok::Semicolon { end.span } else { Span { start: at, end: at } };
            self.tokens.push(Token { tok: end.tok, span });
        }
    }

    fn close(&mut self, token: Token) {
        let closes = |open: &Token| open.tok.closed_by() == Some(token.tok);
        // A brace closes whatever was left open in its block; another bracket reaches no further than its block.
        let reach = match token.tok {
            Tok::CloseBrace => 0,
            _ => self.open.iter().rposition(|open| open.tok == Tok::OpenBrace).map_or(0, |brace| brace + 1),
        };
        let Some(partner) = self.open[reach..].iter().rposition(closes).map(|at| reach + at) else {
            let text = token.tok.text().unwrap_or_default();
            let diagnostic = match self.open.get(reach..).and_then(|open| open.last()) {
                Some(open) => {
                    let [opening, closing] =
                        [open.tok, open.tok.closed_by().unwrap_or(open.tok)].map(|tok| tok.text().unwrap_or_default());
                    Diagnostic::new(codes::UNOPENED, token.span, format!("expected `{closing}`, found `{text}`"))
                        .label(open.span, format!("this `{opening}` is open"))
                }
                None => Diagnostic::new(codes::UNOPENED, token.span, format!("this `{text}` closes nothing"))
                    .help("remove it, or open a bracket before it"),
            };
            self.errors.push(diagnostic);
            self.tokens.push(Token { tok: Tok::Wrong, span: token.span });
            return;
        };
        self.unwind(partner + 1, &format!("this `{}`", token.tok.text().unwrap_or_default()));
        self.end_statement(token.tok);
        self.open.pop();
        self.tokens.push(token);
    }

    /// Closes all but the first `keep` brackets, which somebody forgot before `place`.
    fn unwind(&mut self, keep: usize, place: &str) {
        let at = self.tokens.last().map_or(0, |last| last.span.end);
        let span = Span { start: at, end: at };
        while self.open.len() > keep {
            let Some(open) = self.open.pop() else { return };
            let Some(closing) = open.tok.closed_by() else { continue };
            let (open_text, close_text) = (open.tok.text().unwrap_or_default(), closing.text().unwrap_or_default());
            let mut diagnostic =
                Diagnostic::new(codes::UNCLOSED, open.span, format!("this `{open_text}` is not closed before {place}"))
                    .label(span, format!("expected `{close_text}` here, or earlier"));
            if open.tok == Tok::OpenBrace && place.contains("fn") {
                diagnostic = diagnostic.note("a function cannot stand inside another");
            }
            self.errors.push(diagnostic);
            self.tokens.push(Token { tok: closing, span });
        }
    }
}

fn can_end(tok: Tok) -> bool {
    tok.closes() || matches!(tok, Tok::Name | Tok::Number | Tok::Hole | Tok::Dtype(_) | Tok::Wrong)
}

fn can_begin(tok: Tok) -> bool {
    !tok.closes()
        && !matches!(tok, Tok::Then | Tok::Else | Tok::Comma | Tok::Colon | Tok::Equals | Tok::Arrow | Tok::OpenBrace)
}
