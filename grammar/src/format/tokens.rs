//! The tokens of a program without errors, and what stands between them: comments, blank lines and
//! ends of statements.

use std::ops::Range;

use crate::ast::Span;
use crate::layout::arrange;
use crate::lexer::Tok;

/// A program cut into tokens and comments.
pub(super) struct Text<'s> {
    pub(super) source: &'s str,
    /// All tokens but the ends of statements.
    pub(super) tokens: Vec<Token>,
    pub(super) comments: Vec<Comment>,
    /// The number of comments before the first token.
    pub(super) header: usize,
}

/// A token with its surroundings.
pub(super) struct Token {
    pub(super) tok: Tok,
    pub(super) span: Span,
    /// Whether a statement ended before it.
    pub(super) begins: bool,
    /// Whether there is a blank line right before it.
    pub(super) blank: bool,
    /// The comments between it and the next token.
    pub(super) comments: Range<usize>,
    /// For a bracket, the index of its partner.
    pub(super) partner: usize,
}

/// A comment, from its `#` to the end of the line.
pub(super) struct Comment {
    pub(super) span: Span,
    /// Whether it has a line of its own.
    pub(super) own_line: bool,
    /// Whether it stands on a line of its own and continues the comment at the end of the code
    /// above, in the same column.
    pub(super) continues: bool,
    /// Whether there is a blank line right before it.
    pub(super) blank: bool,
    /// Its column, if that looks deliberate: apart from the code, and without tabs.
    pub(super) column: Option<usize>,
}

impl<'s> Text<'s> {
    pub(super) fn text(&self, span: Span) -> &'s str {
        self.source.get(span.start as usize..span.end as usize).unwrap_or_default()
    }
}

/// Cuts a program that parses into its tokens and comments.
pub(super) fn read(source: &str) -> Text<'_> {
    let (arranged, _) = arrange(source);
    let mut text = Text { source, tokens: vec![], comments: vec![], header: 0 };
    let mut open = vec![];
    let mut begins = false;
    let mut end = 0;
    for token in arranged {
        if matches!(token.tok, Tok::Newline | Tok::Semicolon) {
            begins = true;
            continue;
        }
        let blank = text.between(end, token.span.start as usize);
        let at = text.tokens.len();
        let mut partner = at;
        if token.tok.closed_by().is_some() {
            open.push(at);
        } else if token.tok.closes()
            && let Some(opening) = open.pop()
        {
            text.tokens[opening].partner = at;
            partner = opening;
        }
        let comments = text.comments.len()..text.comments.len();
        text.tokens.push(Token { tok: token.tok, span: token.span, begins, blank, comments, partner });
        begins = false;
        end = token.span.end as usize;
    }
    text.between(end, source.len());
    text
}

impl Text<'_> {
    /// Reads the comments between two tokens and returns whether a blank line follows the last of
    /// them.
    fn between(&mut self, start: usize, end: usize) -> bool {
        let first = self.comments.len();
        let source = self.source;
        let between = source.get(start..end).unwrap_or_default();
        let mut blank = false;
        let mut at = start;
        let mut lines = between.split('\n').peekable();
        while let Some(line) = lines.next() {
            // A comment before the first token stands alone even on the first line.
            let own_line = at > start || start == 0;
            match line.find('#') {
                Some(mark) => {
                    let comment = self.comment(at + mark, line[mark..].trim_end().len(), own_line, blank, first);
                    self.comments.push(comment);
                    blank = false;
                }
                None => blank |= own_line && lines.peek().is_some(),
            }
            at += line.len() + 1;
        }
        let comments = first..self.comments.len();
        match self.tokens.last_mut() {
            Some(token) => token.comments = comments,
            None => self.header = comments.end,
        }
        blank
    }

    fn comment(&self, start: usize, length: usize, own_line: bool, blank: bool, first: usize) -> Comment {
        let before = &self.source[..start];
        let line = &before[before.rfind('\n').map_or(0, |end| end + 1)..];
        let apart = line.ends_with("  ") && !line.contains('\t');
        let column = apart.then(|| line.chars().count());
        let previous = self.comments[first..].last();
        // It has a line of its own if another comment precedes it between the same tokens.
        let continues = !blank
            && column.is_some()
            && previous.is_some_and(|previous| previous.column == column && (!previous.own_line || previous.continues));
        let span = Span { start: start as u32, end: (start + length) as u32 };
        Comment { span, own_line, continues, blank, column }
    }
}
