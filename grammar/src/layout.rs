//! Decides where statements end, and pairs brackets. It runs between the lexer and the parser.
//!
//! A newline or `;` ends a statement. A newline does not
//! - inside `()` and `[]`; `{` starts afresh: inside a block newlines count again;
//! - after a token that cannot end a statement: an operator, `=`, `,`, `:`, `->`, `then`, `else`,
//!   `where`, `if`, `loop`, `while`, `let`, `rec`, `fn`, `use`, an opening bracket;
//! - before a token that cannot begin one: `then`, `else`, `where`, `while`, `)`, `]`, `}`, `,`,
//!   `:`, `=`, `->`, `{`.
//!
//! A line that begins with an operator begins a new statement, since `-x` may begin one. The parser
//! sees statement ends as separators: never at the beginning or end of a block or a file, and never
//! two in a row.
//!
//! Unmatched brackets are reported and repaired here, so that the parser sees only matched ones. A
//! `fn` closes all open brackets; a `let` closes all those inside its block.
//!
//! The parser's share of the depth limit is also enforced here: everything that has begun and not
//! ended (brackets, `if`s, and operators that wait for their right operand) lies on the parser's
//! stack. A tree that grows deep to the left does not.

use crate::ast::Span;
use crate::diagnostic::Diagnostic;
use crate::lexer::{Lexer, Tok, Token};
use crate::report::Errors;
use crate::{MAX_DEPTH, codes, depth_error, hidden};

/// The tokens of a text for the parser, with the errors found. There are no tokens if the nesting
/// exceeds the limit.
pub(crate) fn arrange(source: &str) -> (Vec<Token>, Errors) {
    arrange_from(source, 0)
}

/// The same for the text from byte `start` on.
pub(crate) fn arrange_from(source: &str, start: usize) -> (Vec<Token>, Errors) {
    let mut layout = Layout::default();
    hidden::refuse(source, start, &mut layout.errors);
    layout.read(Lexer::at(source, start));
    if layout.too_deep {
        return (vec![], layout.errors);
    }
    layout.unwind(0, "the end of the input");
    (layout.tokens, layout.errors)
}

/// Decides whether text that arrives line by line, as at a prompt, is to be continued. It looks at
/// each line once, so that the time is linear in the length of the text.
///
/// ```
/// let mut lines = grammar::Lines::default();
/// lines.push("fn f(x: f32[n]) {\n");
/// assert!(lines.go_on() && lines.depth() == 1);
/// lines.push("    x * 2 }\n");
/// assert!(!lines.go_on());
/// ```
#[derive(Default)]
pub struct Lines(Layout);

impl Lines {
    /// Adds one or more lines. No token spans lines.
    pub fn push(&mut self, text: &str) {
        self.0.read(Lexer::new(text));
    }

    /// Whether a bracket is open, or the last line ends in a token that cannot end a statement.
    /// (The text may be incomplete even if not: see [`is_unfinished`](crate::is_unfinished).)
    pub fn go_on(&self) -> bool {
        let layout = &self.0;
        let semicolon = layout.pending.is_some_and(|end| end.tok == Tok::Semicolon);
        let operator = layout.tokens.last().is_some_and(|last| !can_end(last.tok)) && !semicolon;
        !layout.too_deep && (!layout.open.is_empty() || operator)
    }

    /// The number of open brackets.
    pub fn depth(&self) -> usize {
        self.0.open.len()
    }
}

#[derive(Default)]
struct Layout {
    errors: Errors,
    tokens: Vec<Token>,
    /// The brackets that are open here.
    open: Vec<Open>,
    /// The operators that wait for their right operand, the loops that wait for their block, and
    /// for each unfinished `if` the last of its keywords.
    waiting: Vec<Tok>,
    /// A newline or `;` since the last token.
    pending: Option<Token>,
    /// Whether the nesting exceeds the limit. If so, the rest of the text is not read.
    too_deep: bool,
}

/// A bracket that is open.
#[derive(Clone, Copy)]
struct Open {
    token: Token,
    /// The length of `waiting` before it.
    waiting: usize,
}

impl Layout {
    fn read(&mut self, mut lexer: Lexer<'_>) {
        while !self.too_deep
            && let Some((token, complaint)) = lexer.next()
        {
            if let Some(complaint) = complaint {
                self.errors.push(complaint);
            }
            self.token(token);
            if self.open.len() + self.waiting.len() > MAX_DEPTH as usize {
                self.errors.push(depth_error(token.span));
                self.too_deep = true;
            }
        }
    }

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
                self.unwind(self.block(), "the next `let`");
            }
            _ => {}
        }
        if token.tok.closes() {
            self.close(token);
            return;
        }
        self.end_statement(token.tok);
        self.wait(token.tok);
        if token.tok.closed_by().is_some() {
            self.open.push(Open { token, waiting: self.waiting.len() });
        }
        self.tokens.push(token);
    }

    fn in_brackets(&self) -> bool {
        self.open.last().is_some_and(|open| open.token.tok != Tok::OpenBrace)
    }

    /// The number of open brackets up to and including that of the innermost block.
    fn block(&self) -> usize {
        self.open.iter().rposition(|open| open.token.tok == Tok::OpenBrace).map_or(0, |brace| brace + 1)
    }

    /// Records what a token waits for, and ends the waiting that it satisfies.
    fn wait(&mut self, tok: Tok) {
        let base = self.open.last().map_or(0, |open| open.waiting);
        let operand_before = self.tokens.last().is_some_and(|previous| can_end(previous.tok));
        match tok {
            Tok::Comma | Tok::Colon | Tok::Where => self.waiting.truncate(base),
            Tok::If | Tok::Loop | Tok::Bang | Tok::Caret => self.waiting.push(tok),
            Tok::OpenBrace => {
                if let Some(at) = self.waiting[base..].iter().rposition(|waiting| *waiting == Tok::Loop) {
                    self.waiting.truncate(base + at);
                }
            }
            Tok::Minus if !operand_before => self.waiting.push(tok),
            Tok::Then | Tok::Else => {
                let before = if tok == Tok::Then { Tok::If } else { Tok::Then };
                if let Some(at) = self.waiting[base..].iter().rposition(|waiting| *waiting == before) {
                    self.waiting.truncate(base + at);
                    self.waiting.push(tok);
                }
            }
            _ if tok.operates() => {
                let ended = |waiting: &Tok| matches!(waiting, Tok::Bang | Tok::Minus | Tok::Caret);
                while self.waiting.len() > base && self.waiting.last().is_some_and(ended) {
                    self.waiting.pop();
                }
            }
            _ => {}
        }
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
            // A line ends where its last token does, before any spaces and comment.
            let at = previous.span.end;
            let span = if end.tok == Tok::Semicolon { end.span } else { Span { start: at, end: at } };
            self.tokens.push(Token { tok: end.tok, span });
            self.waiting.truncate(self.open.last().map_or(0, |open| open.waiting));
        }
    }

    fn close(&mut self, token: Token) {
        let closes = |open: &Open| open.token.tok.closed_by() == Some(token.tok);
        // A brace closes all brackets left open in its block; another bracket reaches no further
        // than its block.
        let reach = match token.tok {
            Tok::CloseBrace => 0,
            _ if self.open.last().is_some_and(closes) => self.open.len() - 1,
            _ => self.block(),
        };
        let text = token.tok.text().unwrap_or_default();
        match self.open[reach..].iter().rposition(closes) {
            Some(partner) => self.unwind(reach + partner + 1, &format!("this `{text}`")),
            None => {
                self.mismatch(token, text, reach);
                return;
            }
        }
        self.end_statement(token.tok);
        self.pop();
        self.tokens.push(token);
    }

    /// Reports a bracket that closes none of those open from `reach` on, and treats it as the one
    /// that was due.
    fn mismatch(&mut self, token: Token, text: &str, reach: usize) {
        let due = if self.open.len() > reach { self.pop() } else { None };
        let (tok, diagnostic) = match due.and_then(|open| Some((open, open.tok.closed_by()?))) {
            Some((open, closing)) => {
                let [opening, due] = [open.tok, closing].map(|tok| tok.text().unwrap_or_default());
                let message = format!("expected `{due}`, found `{text}`");
                let diagnostic = Diagnostic::new(codes::UNOPENED, token.span, message)
                    .label(open.span, format!("this `{opening}` is open"));
                (closing, diagnostic)
            }
            None => {
                let diagnostic = Diagnostic::new(codes::UNOPENED, token.span, format!("this `{text}` closes nothing"))
                    .help("remove it, or open a bracket before it")
                    .suggest(token.span, "");
                (Tok::Wrong, diagnostic)
            }
        };
        self.errors.push(diagnostic);
        self.tokens.push(Token { tok, span: token.span });
    }

    fn pop(&mut self) -> Option<Token> {
        let open = self.open.pop()?;
        self.waiting.truncate(open.waiting);
        Some(open.token)
    }

    /// Inserts the missing closing brackets for all but the first `keep` open ones, before `place`.
    fn unwind(&mut self, keep: usize, place: &str) {
        let at = self.tokens.last().map_or(0, |last| last.span.end);
        let span = Span { start: at, end: at };
        while self.open.len() > keep {
            let Some(open) = self.pop() else { return };
            let Some(closing) = open.tok.closed_by() else { continue };
            let (open_text, close_text) = (open.tok.text().unwrap_or_default(), closing.text().unwrap_or_default());
            let mut diagnostic =
                Diagnostic::new(codes::UNCLOSED, open.span, format!("this `{open_text}` is not closed before {place}"))
                    .label(span, format!("expected `{close_text}` here, or earlier"))
                    .help("close it")
                    .suggest(span, close_text);
            if open.tok == Tok::OpenBrace && place.contains("fn") {
                diagnostic = diagnostic.note("a function cannot be defined inside another");
            }
            self.errors.push(diagnostic);
            self.tokens.push(Token { tok: closing, span });
        }
    }
}

fn can_end(tok: Tok) -> bool {
    tok.closes() || matches!(tok, Tok::Name | Tok::Number | Tok::Text | Tok::Hole | Tok::Dtype(_) | Tok::Wrong)
}

fn can_begin(tok: Tok) -> bool {
    !tok.closes()
        && !matches!(
            tok,
            Tok::Then
                | Tok::Else
                | Tok::Where
                | Tok::While
                | Tok::Comma
                | Tok::Colon
                | Tok::Equals
                | Tok::Arrow
                | Tok::OpenBrace
        )
}
