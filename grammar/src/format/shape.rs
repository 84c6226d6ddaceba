//! Finds the possible line breaks and the groups: turns the tokens into a flat list of items to
//! print, with groups that are broken as a whole (after Oppen, "Prettyprinting", 1980).
//!
//! Lines break only where the layout rule ignores a line end: after an opening bracket and after
//! `,` inside brackets and between the states of a loop; after an operator, `=`, `then` and `else`;
//! before `else`, `where`, `while` and a closing bracket. A comment stays behind the token that it
//! follows and is printed at the next line break.

use std::ops::Range;

use super::tokens::Text;
use crate::ast::Span;
use crate::lexer::Tok;

/// An item to print.
pub(super) struct Item {
    /// How many groups begin before it.
    pub(super) opens: u32,
    pub(super) kind: Kind,
}

/// The kinds of items.
pub(super) enum Kind {
    Text(Span),
    Space,
    Comments(Range<usize>),
    Break(Break),
    /// A line break that is always taken.
    End(End),
    /// The break between `=` and a value, which is the next group. If it is taken, the value is
    /// indented on a line of its own.
    Value {
        /// Whether the value may instead stay on the line and break inside the brackets at its end.
        hangs: bool,
    },
    /// A comma if the group is broken.
    TrailingComma,
    /// Indents the lines that begin from here on by this many more levels.
    Indent(usize),
    /// Takes back the last indentation.
    Dedent,
    /// The beginning of a group that is always broken: several statements.
    Open,
    /// The end of a group.
    Close,
}

/// A place where the line breaks if its group is broken.
pub(super) struct Break {
    /// Whether a space stands here if the line does not break.
    pub(super) space: bool,
    /// Whether the line breaks here only if the items up to the next break would not fit.
    pub(super) fill: bool,
    /// Whether what is inside brackets or a block ends here: comments belong to that.
    pub(super) closes: bool,
}

/// The end of a line for certain.
#[derive(Default)]
pub(super) struct End {
    /// Whether a blank line was there and may stay.
    pub(super) blank: bool,
    /// Whether blank lines are not kept here: there is nothing before, or what follows belongs to
    /// it.
    pub(super) tight: bool,
    /// Whether what is inside a block ends here.
    pub(super) closes: bool,
    /// Whether a function ends, or begins, here.
    pub(super) function: bool,
}

const LINE: Break = Break { space: true, fill: false, closes: false };
const SOFT: Break = Break { space: false, fill: false, closes: false };
const SOFT_CLOSE: Break = Break { space: false, fill: false, closes: true };
const FILL: Break = Break { space: true, fill: true, closes: false };

/// The whole program.
pub(super) fn items(text: &Text<'_>) -> Vec<Item> {
    let mut shaper = Shaper { text, at: 0, items: vec![] };
    shaper.file();
    shaper.items
}

struct Shaper<'t, 's> {
    text: &'t Text<'s>,
    /// The next token.
    at: usize,
    items: Vec<Item>,
}

impl Shaper<'_, '_> {
    fn push(&mut self, kind: Kind) {
        self.items.push(Item { opens: 0, kind });
    }

    /// Makes one group of all items from `from` on.
    fn group(&mut self, from: usize) {
        if let Some(first) = self.items.get_mut(from) {
            first.opens += 1;
            self.push(Kind::Close);
        }
    }

    /// The next token, or `None` at the end of the file.
    fn tok(&self) -> Option<Tok> {
        self.text.tokens.get(self.at).map(|token| token.tok)
    }

    /// The next token if it belongs to the statement of the one before it.
    fn continued(&self) -> Option<Tok> {
        self.text.tokens.get(self.at).filter(|token| !token.begins).map(|token| token.tok)
    }

    fn blank(&self) -> bool {
        self.text.tokens.get(self.at).is_some_and(|token| token.blank)
    }

    /// Takes the next token unchanged.
    fn take(&mut self) {
        if let Some(token) = self.text.tokens.get(self.at) {
            self.push(Kind::Text(token.span));
            self.skip();
        }
    }

    /// Drops the next token but keeps the comments behind it.
    fn skip(&mut self) {
        if let Some(token) = self.text.tokens.get(self.at) {
            if !token.comments.is_empty() {
                self.push(Kind::Comments(token.comments.clone()));
            }
            self.at += 1;
        }
    }

    fn take_spaced(&mut self) {
        self.push(Kind::Space);
        self.take();
    }

    fn file(&mut self) {
        self.push(Kind::Comments(0..self.text.header));
        while let Some(tok) = self.tok() {
            self.push(Kind::End(End { blank: self.blank(), function: true, ..End::default() }));
            match tok {
                Tok::Use => {
                    self.use_();
                    continue;
                }
                Tok::At => self.decorators(),
                Tok::Fn => {}
                // Cannot occur in a program that parses.
                _ => self.take(),
            }
            if self.tok() == Some(Tok::Fn) {
                self.function();
            }
        }
        self.push(Kind::End(End { function: true, ..End::default() }));
    }

    /// `use nn (softmax, gelu_mlp)`
    fn use_(&mut self) {
        self.take();
        self.take_spaced();
        if self.continued() == Some(Tok::OpenRound) {
            self.push(Kind::Space);
            self.bracket();
        }
    }

    fn decorators(&mut self) {
        while self.tok() == Some(Tok::At) {
            self.take();
            self.take();
            if self.tok() == Some(Tok::OpenRound) {
                self.bracket();
            }
            self.push(Kind::End(End { tight: true, ..End::default() }));
        }
    }

    fn function(&mut self) {
        self.take();
        self.take_spaced();
        self.head();
        if self.tok() == Some(Tok::Where) {
            let from = self.items.len();
            // Further to the right than the statements below it.
            self.push(Kind::Indent(2));
            self.push(Kind::Break(LINE));
            self.take();
            self.push(Kind::Space);
            self.expr(0, true);
            self.push(Kind::Dedent);
            self.group(from);
        }
        match self.tok() {
            Some(Tok::Equals) => self.value(),
            Some(Tok::OpenBrace) => self.block(),
            _ => {}
        }
    }

    /// `(x: f32[n]) -> f32[n]`. The type of a single result is in the group of the parameters, so
    /// that these break first. A tuple of results breaks by itself.
    fn head(&mut self) {
        let from = self.items.len();
        let breaks = self.in_brackets();
        let arrow = self.tok() == Some(Tok::Arrow);
        let tuple = arrow && self.text.tokens.get(self.at + 1).is_some_and(|next| next.tok == Tok::OpenRound);
        if breaks && tuple {
            self.group(from);
        }
        if arrow {
            self.take_spaced();
            self.push(Kind::Space);
            self.operand();
        }
        if breaks && !tuple {
            self.group(from);
        }
    }

    fn block(&mut self) {
        self.push(Kind::Indent(1));
        self.take_spaced();
        self.statements();
        self.take();
    }

    /// The statements of a block, each on lines of its own.
    fn statements(&mut self) {
        let mut first = true;
        while let Some(tok) = self.tok()
            && tok != Tok::CloseBrace
        {
            self.push(Kind::End(End { blank: self.blank(), tight: first, ..End::default() }));
            first = false;
            let from = self.at;
            if tok == Tok::Let {
                self.take();
                self.push(Kind::Space);
                self.definitions();
            } else {
                self.expr(0, true);
            }
            if self.at == from {
                self.take();
            }
        }
        self.push(Kind::Dedent);
        self.push(Kind::End(End { closes: true, ..End::default() }));
    }

    /// `loop x = x0, t < n while c { next }`. A block with statements takes several lines.
    fn loop_(&mut self) {
        let from = self.items.len();
        self.push(Kind::Indent(1));
        self.take();
        self.push(Kind::Space);
        while let Some(tok) = self.tok()
            && tok != Tok::OpenBrace
        {
            let at = self.at;
            match tok {
                Tok::Comma => {
                    self.take();
                    self.push(Kind::Break(LINE));
                }
                Tok::While => {
                    self.push(Kind::Break(LINE));
                    self.take();
                    self.push(Kind::Space);
                }
                Tok::Equals => {
                    self.take_spaced();
                    self.push(Kind::Space);
                }
                _ => self.expr(0, true),
            }
            if self.at == at {
                self.take();
            }
        }
        self.push(Kind::Dedent);
        self.group(from);
        self.push(Kind::Space);
        let block = self.items.len();
        let statements = self.text.tokens.get(self.at + 1).is_some_and(|first| first.tok == Tok::Let);
        if statements {
            self.push(Kind::Open);
        }
        self.push(Kind::Indent(1));
        self.take();
        if statements {
            self.statements();
            self.push(Kind::Close);
            self.take();
        } else {
            self.push(Kind::Break(LINE));
            self.expr(0, true);
            self.push(Kind::Dedent);
            self.push(Kind::Break(Break { closes: true, ..LINE }));
            self.take();
            self.group(block);
        }
    }

    /// `target = value`, or `rec` and the arrays of a recurrence, each on a line of its own.
    fn definitions(&mut self) {
        let recurrence = self.tok() == Some(Tok::Rec);
        if recurrence {
            self.take();
            self.push(Kind::Space);
        }
        // Values go on to the right of the names below them.
        let several = recurrence && self.has_several(self.at, self.end_of_statement());
        self.push(Kind::Indent(if several { 2 } else { 0 }));
        self.operand();
        self.value();
        while self.continued() == Some(Tok::Comma) {
            self.take();
            self.push(Kind::End(End { tight: true, ..End::default() }));
            self.operand();
            self.value();
        }
        self.push(Kind::Dedent);
    }

    /// The index after the last token of the statement that the next token belongs to.
    fn end_of_statement(&self) -> usize {
        let tokens = &self.text.tokens;
        let mut at = self.at;
        while tokens.get(at).is_some_and(|token| (!token.begins || at == self.at) && token.tok != Tok::CloseBrace) {
            at = tokens[at].partner.max(at) + 1;
        }
        at.min(tokens.len())
    }

    /// `= value`
    fn value(&mut self) {
        self.take_spaced();
        // A lone token counts too, without effect: one that is too long for a line of its own is
        // also too long behind `=`.
        let hangs = self.text.tokens.get(self.applied(self.at)).is_none_or(|token| token.begins);
        self.push(Kind::Value { hangs });
        let from = self.items.len();
        self.expr(0, false);
        self.group(from);
        self.push(Kind::Dedent);
    }

    /// The index after a name or bracket and the brackets applied to it.
    fn applied(&self, from: usize) -> usize {
        let tokens = &self.text.tokens;
        let after = |at: usize| tokens.get(at).map_or(at, |token| token.partner.max(at) + 1);
        let mut at = match tokens.get(from).map(|token| token.tok) {
            Some(Tok::Name | Tok::Dtype(_) | Tok::Number | Tok::OpenRound | Tok::OpenSquare) => after(from),
            Some(Tok::Loop) => after(self.block_of_loop(from)),
            _ => return from,
        };
        while tokens.get(at).is_some_and(|token| is_bracket(token.tok) && !token.begins) {
            at = after(at);
        }
        at
    }

    /// The index of the `{` of the loop at index `from`.
    fn block_of_loop(&self, from: usize) -> usize {
        let mut at = from + 1;
        while let Some(token) = self.text.tokens.get(at)
            && token.tok != Tok::OpenBrace
        {
            at = match token.tok {
                Tok::Loop => self.block_of_loop(at),
                _ => at,
            };
            at = self.text.tokens.get(at).map_or(at, |token| token.partner.max(at) + 1);
        }
        at
    }

    /// An expression of operators that bind at least as tightly as `least`. If it takes several
    /// lines, `indent` says whether those after the first are indented.
    fn expr(&mut self, least: u32, indent: bool) {
        let from = self.items.len();
        self.operand();
        // The indentations of the operator chains that end here. Each chain is the first part of
        // the next.
        let mut indents = vec![];
        while let Some(level) = self.level().filter(|level| *level >= least) {
            for indent in &indents {
                if let Some(Item { kind: Kind::Indent(levels), .. }) = self.items.get_mut(*indent) {
                    *levels += 1;
                }
            }
            indents.push(self.items.len());
            self.push(Kind::Indent(usize::from(indent)));
            while self.level() == Some(level) {
                self.take_spaced();
                self.push(Kind::Break(LINE));
                self.expr(level + 1, true);
            }
            self.push(Kind::Dedent);
            self.group(from);
        }
    }

    /// How tightly the next token binds, if it is a binary operator at which a line may break.
    fn level(&self) -> Option<u32> {
        let tok = self.continued()?;
        Some(match tok {
            Tok::OrOr => 0,
            Tok::AndAnd => 1,
            Tok::Plus | Tok::Minus => 3,
            Tok::Star | Tok::Slash | Tok::Percent | Tok::At => 4,
            _ if tok.compares() => 2,
            _ => return None,
        })
    }

    /// An operand of these operators, a type, or the left side of a `let`.
    fn operand(&mut self) {
        loop {
            while matches!(self.tok(), Some(Tok::Minus | Tok::Bang)) {
                self.take();
            }
            match self.tok() {
                Some(Tok::If) => return self.condition(),
                Some(Tok::OpenRound) => self.parentheses(),
                Some(Tok::OpenSquare) => self.bracket(),
                Some(Tok::Loop) => self.loop_(),
                Some(Tok::Name | Tok::Number | Tok::Hole | Tok::Dtype(_)) => self.take(),
                _ => return,
            }
            while self.continued().is_some_and(is_bracket) {
                self.bracket();
            }
            if self.continued() != Some(Tok::Caret) {
                return;
            }
            self.take_spaced();
            self.push(Kind::Space);
        }
    }

    /// A bracket that groups but applies nothing. Of several around the same expression, the
    /// innermost is kept.
    fn parentheses(&mut self) {
        let tokens = &self.text.tokens;
        let mut extra = vec![];
        while let Some(inner) = tokens.get(self.at + 1).filter(|inner| inner.tok == Tok::OpenRound)
            && {
                let comma = tokens.get(inner.partner + 1).is_some_and(|token| token.tok == Tok::Comma);
                inner.partner + 1 + usize::from(comma) == tokens[self.at].partner
            }
        {
            extra.push(tokens[self.at].partner);
            self.skip();
        }
        self.bracket();
        while let Some(close) = extra.pop() {
            while self.at <= close {
                self.skip();
            }
        }
    }

    /// A pair of brackets and its contents.
    fn bracket(&mut self) {
        let from = self.items.len();
        if self.in_brackets() {
            self.group(from);
        }
    }

    /// A pair of brackets and its contents, before they are made a group; whether they can be one,
    /// since lines may break behind the opening bracket.
    fn in_brackets(&mut self) -> bool {
        let Some(token) = self.text.tokens.get(self.at) else { return false };
        let (close, square) = (token.partner, token.tok == Tok::OpenSquare);
        let inside = self.at + 1;
        let several = self.has_several(inside, close);
        let end = self.applied(inside);
        let only = end == close || (end + 1 == close && self.text.tokens[end].tok == Tok::Comma);
        let nothing = inside == close && token.comments.is_empty();
        // `relu(sum(...))` breaks only inside the inner brackets.
        if (only && end > inside + 1) || nothing {
            self.take();
            self.elements(close, square, false, LINE);
            self.take();
            return false;
        }
        self.push(Kind::Indent(1));
        self.take();
        self.push(Kind::Break(SOFT));
        let fill = several && square && self.are_atoms(inside, close);
        self.elements(close, square, several, if fill { FILL } else { LINE });
        if several {
            self.push(Kind::TrailingComma);
        }
        self.push(Kind::Dedent);
        self.push(Kind::Break(SOFT_CLOSE));
        self.take();
        true
    }

    /// The contents of brackets, with breaks after commas.
    fn elements(&mut self, close: usize, square: bool, several: bool, between: Break) {
        let Break { space, fill, closes } = between;
        while self.at < close {
            match self.tok() {
                Some(Tok::Comma) if self.at + 1 == close => self.skip(),
                Some(Tok::Comma) => {
                    self.take();
                    self.push(Kind::Break(Break { space, fill, closes }));
                }
                Some(Tok::Colon) => {
                    self.take();
                    if !square {
                        self.push(Kind::Space);
                    }
                }
                Some(Tok::Where) => {
                    self.push(Kind::Break(LINE));
                    self.take();
                    self.push(Kind::Space);
                }
                Some(Tok::Equals) => {
                    self.take_spaced();
                    self.push(Kind::Space);
                }
                _ => {
                    let from = self.at;
                    self.expr(0, several);
                    if self.at == from {
                        self.take();
                    }
                }
            }
        }
    }

    /// Whether there is a comma other than a trailing one.
    fn has_several(&self, from: usize, close: usize) -> bool {
        let mut at = from;
        while at < close {
            let token = &self.text.tokens[at];
            if token.tok == Tok::Comma {
                return at + 1 < close;
            }
            at = token.partner.max(at) + 1;
        }
        false
    }

    /// Whether all elements are numbers or names. Such a table has as many elements on a line as
    /// fit.
    fn are_atoms(&self, from: usize, close: usize) -> bool {
        let atom = |tok| matches!(tok, Tok::Name | Tok::Number | Tok::Minus | Tok::Comma);
        self.text.tokens[from..close].iter().all(|token| atom(token.tok))
    }

    /// `if c then a else if d then b else e`
    fn condition(&mut self) {
        let from = self.items.len();
        loop {
            self.take();
            self.push(Kind::Space);
            self.expr(0, true);
            self.take_spaced();
            self.branch();
            self.push(Kind::Break(LINE));
            self.take();
            if self.tok() != Some(Tok::If) {
                break;
            }
            self.push(Kind::Space);
        }
        self.branch();
        self.group(from);
    }

    /// The branch after `then` or `else`.
    fn branch(&mut self) {
        let from = self.items.len();
        self.push(Kind::Indent(1));
        self.push(Kind::Break(LINE));
        self.expr(0, false);
        self.push(Kind::Dedent);
        self.group(from);
    }
}

fn is_bracket(tok: Tok) -> bool {
    matches!(tok, Tok::OpenRound | Tok::OpenSquare)
}
