//! Where lines may break, and what belongs together: the tokens as a flat list of what is to be printed, with groups
//! that break as a whole (after Oppen, "Prettyprinting", 1980).
//!
//! Lines break only where the layout rule reads over a line end: after an opening bracket and `,` inside brackets,
//! after an operator, `=`, `then` and `else`, before `else` and a closing bracket. Comments follow the token that
//! they stand behind; the next line break puts them out.

use std::ops::Range;

use super::tokens::Text;
use crate::ast::Span;
use crate::lexer::Tok;

/// A piece of the text to come.
pub(super) struct Item {
    /// How many groups begin before it.
    pub(super) opens: u32,
    pub(super) kind: Kind,
}

/// What a piece of the text is.
pub(super) enum Kind {
    Text(Span),
    Space,
    Comments(Range<usize>),
    Break(Break),
    /// A line ends for certain.
    End(End),
    /// After the `=` before a value, which is the next group: where that has its place. Indents what follows if it
    /// has a line of its own.
    Value {
        /// Whether the value may break inside brackets at its end rather than start a line of its own.
        hangs: bool,
    },
    /// A comma if the group is broken.
    TrailingComma,
    /// Lines that begin from here on are indented by so many levels more.
    Indent(usize),
    /// Takes back the last indentation.
    Dedent,
    /// The end of a group.
    Close,
}

/// A place where a line ends if its group is broken.
pub(super) struct Break {
    /// Whether there is a space if it does not.
    pub(super) space: bool,
    /// Whether it does only if what follows would not fit.
    pub(super) fill: bool,
    /// Whether what is inside brackets or a block ends here: comments belong to that.
    pub(super) closes: bool,
}

/// The end of a line for certain.
#[derive(Default)]
pub(super) struct End {
    /// Whether a blank line was there and may stay.
    pub(super) blank: bool,
    /// Whether blank lines are not kept here: there is nothing before, or what follows belongs to it.
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

    /// Makes all from an item on a group.
    fn group(&mut self, from: usize) {
        if let Some(first) = self.items.get_mut(from) {
            first.opens += 1;
            self.push(Kind::Close);
        }
    }

    /// The next token; none at the end of the file, which ends all there is.
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

    /// The next token as it is.
    fn take(&mut self) {
        if let Some(token) = self.text.tokens.get(self.at) {
            self.push(Kind::Text(token.span));
            self.skip();
        }
    }

    /// Of the next token only the comments behind it.
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
                Tok::At => self.decorators(),
                Tok::Fn => {}
                // Not in a program that parses.
                _ => self.take(),
            }
            if self.tok() == Some(Tok::Fn) {
                self.function();
            }
        }
        self.push(Kind::End(End { function: true, ..End::default() }));
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
        self.bracket();
        if self.tok() == Some(Tok::Arrow) {
            self.take_spaced();
            self.push(Kind::Space);
            self.operand();
        }
        match self.tok() {
            Some(Tok::Equals) => self.value(),
            Some(Tok::OpenBrace) => self.block(),
            _ => {}
        }
    }

    fn block(&mut self) {
        self.push(Kind::Indent(1));
        self.take_spaced();
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
                self.operand();
                self.value();
            } else {
                self.expr(0, true);
            }
            if self.at == from {
                self.take();
            }
        }
        self.push(Kind::Dedent);
        self.push(Kind::End(End { closes: true, ..End::default() }));
        self.take();
    }

    /// `= value`
    fn value(&mut self) {
        self.take_spaced();
        // True of a lone token too, to no effect: what is too long for its own line is too long behind `=`.
        let hangs = self.text.tokens.get(self.applied(self.at)).is_none_or(|token| token.begins);
        self.push(Kind::Value { hangs });
        let from = self.items.len();
        self.expr(0, false);
        self.group(from);
        self.push(Kind::Dedent);
    }

    /// The token behind a name or bracket and the brackets that follow it.
    fn applied(&self, from: usize) -> usize {
        let tokens = &self.text.tokens;
        let after = |at: usize| tokens.get(at).map_or(at, |token| token.partner.max(at) + 1);
        let mut at = match tokens.get(from).map(|token| token.tok) {
            Some(Tok::Name | Tok::Dtype(_) | Tok::Number | Tok::OpenRound | Tok::OpenSquare) => after(from),
            _ => return from,
        };
        while tokens.get(at).is_some_and(|token| is_bracket(token.tok) && !token.begins) {
            at = after(at);
        }
        at
    }

    /// An expression of operators that bind at least so tight. Where it has several lines, those after the first are
    /// indented if wanted.
    fn expr(&mut self, least: u32, indent: bool) {
        let from = self.items.len();
        self.operand();
        // The indentations of the chains that end here: each is a part, and the first, of the next.
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

    /// How tight the next token binds as an operator between two operands at which a line may break.
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

    /// An operand of those operators; also a type, and what a `let` binds.
    fn operand(&mut self) {
        loop {
            while matches!(self.tok(), Some(Tok::Minus | Tok::Bang)) {
                self.take();
            }
            match self.tok() {
                Some(Tok::If) => return self.condition(),
                Some(Tok::OpenRound) => self.parentheses(),
                Some(Tok::OpenSquare) => self.bracket(),
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

    /// A bracket that applies nothing; of several around the same, the innermost.
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

    /// A pair of brackets with what is inside.
    fn bracket(&mut self) {
        let Some(token) = self.text.tokens.get(self.at) else { return };
        let (close, square) = (token.partner, token.tok == Tok::OpenSquare);
        let inside = self.at + 1;
        let several = self.has_several(inside, close);
        let end = self.applied(inside);
        let only = end == close || (end + 1 == close && self.text.tokens[end].tok == Tok::Comma);
        let nothing = inside == close && token.comments.is_empty();
        // `relu(sum(...))` breaks inside the inner brackets alone.
        if (only && end > inside + 1) || nothing {
            self.take();
            self.elements(close, square, false, LINE);
            self.take();
            return;
        }
        let from = self.items.len();
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
        self.group(from);
    }

    /// What stands between brackets, with breaks after commas.
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

    /// Whether there is a comma that does not trail.
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

    /// Whether all that stands there is numbers and names: a table, which has as many in a line as fit.
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

    /// What follows `then` or `else`.
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
