//! Reads the text form of a program, as `print` writes it. The result is well-formed text and
//! nothing more: `verify` checks whether it is a valid program. Any input ends in a program or an
//! error; nesting, ids and the growth of sizes have limits.

mod body;
mod sched;
mod token;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use cranelift_entity::EntityRef;
use logos::Logos;

use crate::nest::{
    Buffer, BufferId, Carried, CheckKind, FunctionId, IndexId, Node, Program, Purpose, ReducerId, Relation, Repeat,
    Requirement, Role, Site, SiteId, Symbol, SymbolSource,
};
use crate::size::Atom;
use crate::verify::MAX_DEPTH;
use crate::{Affine, Dtype, Origin, ReduceOp, Scalar, Size, SymbolId};
use token::Token;

/// The limit on the atoms of a size in the text, multiplied out.
const MAX_ATOMS: usize = 4096;
/// Values have numbers below this.
const MAX_VALUE: u32 = 1 << 20;

/// Text that is no program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// The error.
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for ParseError {}

impl FromStr for Program {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Program, ParseError> {
        let mut parser = Parser::new(text)?;
        parser.program()?;
        parser.end()?;
        Ok(parser.program)
    }
}

type Result<T, E = ParseError> = std::result::Result<T, E>;

struct Parser<'s> {
    text: &'s str,
    /// Each token with its position in bytes.
    tokens: Vec<(Token<'s>, usize)>,
    next: usize,
    depth: usize,
    program: Program,
    symbols: BTreeMap<String, SymbolId>,
    buffers: BTreeMap<String, BufferId>,
    functions: BTreeMap<String, FunctionId>,
    reducers: BTreeMap<String, ReducerId>,
    /// The indices that the kernel being read has bound so far.
    indices: BTreeMap<String, IndexId>,
}

impl<'s> Parser<'s> {
    fn new(text: &'s str) -> Result<Parser<'s>> {
        let mut parser = Parser {
            text,
            tokens: vec![],
            next: 0,
            depth: 0,
            program: Program::default(),
            symbols: BTreeMap::new(),
            buffers: BTreeMap::new(),
            functions: BTreeMap::new(),
            reducers: BTreeMap::new(),
            indices: BTreeMap::new(),
        };
        for (token, span) in Token::lexer(text).spanned() {
            match token {
                Ok(token) => parser.tokens.push((token, span.start)),
                Err(()) => return Err(parser.error_at(span.start, "a character that no token begins with".into())),
            }
        }
        Ok(parser)
    }

    fn error_at(&self, position: usize, message: String) -> ParseError {
        let before = self.text.get(..position).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        ParseError { line, column, message }
    }

    /// An error at the next token.
    fn error(&self, message: impl Into<String>) -> ParseError {
        self.error_at(self.tokens.get(self.next).map_or(self.text.len(), |t| t.1), message.into())
    }

    /// An error at the token just taken.
    fn error_before(&self, message: impl Into<String>) -> ParseError {
        self.error_at(self.next.checked_sub(1).and_then(|k| self.tokens.get(k)).map_or(0, |t| t.1), message.into())
    }

    fn expected(&self, what: &str) -> ParseError {
        match self.peek() {
            Some(found) => self.error(format!("expected {what}, found {found}")),
            None => self.error(format!("expected {what}, found the end")),
        }
    }

    fn peek(&self) -> Option<Token<'s>> {
        self.tokens.get(self.next).map(|t| t.0)
    }

    fn take(&mut self, token: Token<'_>) -> bool {
        let found = self.peek() == Some(token);
        self.next += usize::from(found);
        found
    }

    fn take_mark(&mut self, mark: &str) -> bool {
        self.take(Token::Mark(mark))
    }

    fn take_word(&mut self, word: &str) -> bool {
        self.take(Token::Word(word))
    }

    fn mark(&mut self, mark: &str) -> Result<()> {
        if self.take_mark(mark) { Ok(()) } else { Err(self.expected(&format!("`{mark}`"))) }
    }

    fn word(&mut self, word: &str) -> Result<()> {
        if self.take_word(word) { Ok(()) } else { Err(self.expected(&format!("`{word}`"))) }
    }

    /// One of a family of words.
    fn named<T>(&mut self, what: &str, from_name: impl Fn(&str) -> Option<T>) -> Result<T> {
        let found = match self.peek() {
            Some(Token::Word(word)) => from_name(word),
            _ => None,
        };
        self.next += usize::from(found.is_some());
        found.ok_or_else(|| self.expected(what))
    }

    fn dtype(&mut self) -> Result<Dtype> {
        self.named("an element type", Dtype::from_name)
    }

    fn name(&mut self) -> Result<String> {
        match self.peek() {
            Some(Token::Word(word)) => {
                self.next += 1;
                Ok(word.to_string())
            }
            Some(Token::Text(_)) => self.text(),
            _ => Err(self.expected("a name")),
        }
    }

    /// Quoted text, without its quotes and escapes.
    fn text(&mut self) -> Result<String> {
        let Some(Token::Text(quoted)) = self.peek() else { return Err(self.expected("quoted text")) };
        let mut chars = quoted[1..quoted.len() - 1].chars();
        let mut text = String::new();
        while let Some(c) = chars.next() {
            if c != '\\' {
                text.push(c);
                continue;
            }
            match chars.next() {
                Some(c @ ('"' | '\\')) => text.push(c),
                Some('u') if chars.next() == Some('{') => {
                    let digits: String = chars.by_ref().take_while(|c| *c != '}').collect();
                    let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                    text.push(code.ok_or_else(|| self.error("no character has this code"))?);
                }
                _ => return Err(self.error("unknown escape in quoted text")),
            }
        }
        self.next += 1;
        Ok(text)
    }

    fn number<T: FromStr>(&mut self) -> Result<T> {
        let Some(Token::Int(digits)) = self.peek() else { return Err(self.expected("a number")) };
        let number = digits.parse().map_err(|_| self.error("the number is too large"))?;
        self.next += 1;
        Ok(number)
    }

    /// Items with commas between.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.take_mark(",") {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Items in brackets, separated by commas; there may be none.
    fn bracketed<T>(&mut self, open: &str, close: &str, item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.mark(open)?;
        if self.take_mark(close) {
            return Ok(vec![]);
        }
        let items = self.list(item)?;
        self.mark(close)?;
        Ok(items)
    }

    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= MAX_DEPTH {
            return Err(self.error(format!("nested more than {MAX_DEPTH} deep")));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn program(&mut self) -> Result<()> {
        self.word("program")?;
        self.mark("@")?;
        self.program.name = self.name()?;
        self.mark("{")?;
        let (mut inputs, mut outputs) = (0, 0);
        while !self.take_mark("}") {
            match self.peek() {
                Some(Token::Word("symbol")) => self.symbol()?,
                Some(Token::Word("input")) => {
                    let number = self.buffer_number(&mut inputs)?;
                    self.buffer(Role::Input(number))?;
                }
                Some(Token::Word("output")) => {
                    let number = self.buffer_number(&mut outputs)?;
                    self.buffer(Role::Output(number))?;
                }
                Some(Token::Word("temp")) => {
                    self.next += 1;
                    self.buffer(Role::Temp)?;
                }
                Some(Token::Word("scratch")) => {
                    self.next += 1;
                    self.buffer(Role::Scratch)?;
                }
                Some(Token::Word("constant")) => {
                    self.next += 1;
                    self.buffer(Role::Constant(vec![]))?;
                }
                Some(Token::Word(word)) if word.starts_with("slot") => self.slot()?,
                Some(Token::Word(word)) if word.starts_with("site") => self.site()?,
                Some(Token::Word("require")) => self.requirement()?,
                Some(Token::Word("function")) => self.function()?,
                Some(Token::Word("reducer")) => self.reducer()?,
                Some(Token::Word("kernel" | "repeat" | "exit")) => {
                    let node = self.node()?;
                    self.program.body.push(node);
                }
                _ => return Err(self.expected("a part of a program")),
            }
        }
        Ok(())
    }

    fn end(&self) -> Result<()> {
        if self.peek().is_some() { Err(self.expected("the end")) } else { Ok(()) }
    }

    /// A kernel, a loop over kernels, or an exit of one.
    fn node(&mut self) -> Result<Node> {
        if self.take_word("exit") {
            self.word("unless")?;
            return Ok(Node::Exit { unless: self.buffer_use()? });
        }
        if !self.take_word("repeat") {
            return Ok(Node::Kernel(self.kernel()?));
        }
        let trips = if self.take_word("forever") { None } else { Some(self.size()?) };
        let carried = if self.take_word("with") { self.list(Self::carried)? } else { vec![] };
        self.mark("{")?;
        let body = self.nested(|p| {
            let mut body = vec![];
            while !p.take_mark("}") {
                body.push(p.node()?);
            }
            Ok(body)
        })?;
        Ok(Node::Repeat(Repeat { trips, carried, body }))
    }

    fn carried(&mut self) -> Result<Carried> {
        let current = self.buffer_use()?;
        self.mark("=")?;
        let initial = self.buffer_use()?;
        self.word("then")?;
        Ok(Carried { initial, current, next: self.buffer_use()? })
    }

    fn symbol(&mut self) -> Result<()> {
        self.word("symbol")?;
        let name = self.name()?;
        self.mark("=")?;
        let source = if self.take_word("value") {
            SymbolSource::Scalar { input: self.of_input()? }
        } else if self.take_word("dim") {
            let axis = self.number()?;
            SymbolSource::Dimension { input: self.of_input()?, axis }
        } else {
            let value = self.size()?;
            self.word("for")?;
            self.word("dim")?;
            let axis = self.number()?;
            SymbolSource::Solved { input: self.of_input()?, axis, value }
        };
        let id = self.program.symbols.push(Symbol { name: name.clone(), source });
        match self.symbols.insert(name, id) {
            Some(_) => Err(self.error_before("a size of this name is there already")),
            None => Ok(()),
        }
    }

    /// `of input 0`
    fn of_input(&mut self) -> Result<usize> {
        self.word("of")?;
        self.word("input")?;
        self.number()
    }

    /// The number of an input or output: the next one unless it is given.
    fn buffer_number(&mut self, next: &mut usize) -> Result<usize> {
        self.next += 1;
        let number = if matches!(self.peek(), Some(Token::Int(_))) { self.number()? } else { *next };
        *next = number.saturating_add(1);
        Ok(number)
    }

    fn buffer(&mut self, role: Role) -> Result<()> {
        self.mark("%")?;
        let name = self.name()?;
        if self.buffers.contains_key(&name) {
            return Err(self.error_before("a buffer of this name is there already"));
        }
        self.mark(":")?;
        let dtype = self.dtype()?;
        let shape = match self.peek() {
            Some(Token::Mark("[")) => self.bracketed("[", "]", Self::size)?,
            _ => vec![],
        };
        let role = match role {
            Role::Constant(_) => {
                self.mark("=")?;
                Role::Constant(self.bracketed("[", "]", |p| p.scalar(dtype))?)
            }
            role => role,
        };
        let id = self.program.buffers.push(Buffer { name: name.clone(), dtype, shape, role });
        self.buffers.insert(name, id);
        Ok(())
    }

    fn buffer_use(&mut self) -> Result<BufferId> {
        self.mark("%")?;
        let name = self.name()?;
        self.buffers.get(&name).copied().ok_or_else(|| self.error_before(format!("there is no buffer %{name}")))
    }

    fn slot(&mut self) -> Result<()> {
        let number = |word: &str| word.strip_prefix("slot")?.parse::<usize>().ok();
        if self.named("a slot such as `slot0`", number)? != self.program.slots.len() {
            return Err(self.error_before("slots are numbered in order"));
        }
        self.mark("=")?;
        let members = self.list(Self::buffer_use)?;
        self.program.slots.push(members);
        Ok(())
    }

    fn site_id(&mut self) -> Result<SiteId> {
        let number = |word: &str| word.strip_prefix("site")?.parse::<u32>().ok();
        Ok(SiteId::from_u32(self.named("a site such as `site0`", |w| number(w).filter(|n| *n < u32::MAX))?))
    }

    fn site(&mut self) -> Result<()> {
        if self.site_id()?.index() != self.program.sites.len() {
            return Err(self.error_before("sites are numbered in order"));
        }
        self.mark("=")?;
        let what = if self.take_word("elements") {
            self.word("of")?;
            CheckKind::Elements(self.named("a reduction", ReduceOp::from_name)?)
        } else if self.take_word("steps") {
            CheckKind::Steps
        } else {
            self.word("axis")?;
            let axis = self.number()?;
            self.word("of")?;
            CheckKind::Axis { array: self.text()?, axis }
        };
        self.word("at")?;
        let origin = self.origin()?;
        self.program.sites.push(Site { origin, what });
        Ok(())
    }

    fn origin(&mut self) -> Result<Origin> {
        let start = self.number()?;
        self.mark("..")?;
        Ok(Origin { start, end: self.number()? })
    }

    fn requirement(&mut self) -> Result<()> {
        self.word("require")?;
        let left = self.size()?;
        let relation = if self.take_mark("==") {
            Relation::Equal
        } else {
            self.mark("<=")?;
            Relation::AtMost
        };
        let right = self.size()?;
        let mut unless_empty = vec![];
        if self.take_word("unless") {
            self.word("empty")?;
            unless_empty = self.bracketed("(", ")", Self::size)?;
        }
        self.word("as")?;
        let left_is = self.text()?;
        self.mark(",")?;
        let right_is = self.text()?;
        let mut purpose = Purpose::default();
        if self.take_word("for") {
            let known = Purpose::ALL.into_iter().find(|p| self.take_word(p.name()));
            purpose = known.ok_or_else(|| self.error("a purpose is expected"))?;
        }
        self.word("at")?;
        let origin = self.origin()?;
        let requirement = Requirement { left, relation, right, unless_empty, left_is, right_is, purpose, origin };
        self.program.requires.push(requirement);
        Ok(())
    }

    fn scalar(&mut self, dtype: Dtype) -> Result<Scalar> {
        let minus = if self.take_mark("-") { "-" } else { "" };
        let Some(Token::Word(text) | Token::Int(text) | Token::Float(text) | Token::Bits(text)) = self.peek() else {
            return Err(self.expected("a constant"));
        };
        let value = match text.strip_prefix("0x") {
            Some(digits) => {
                let bits = u64::from_str_radix(digits, 16).ok();
                bits.map(|b| Scalar::from_bits(dtype, b)).filter(|s| minus.is_empty() && Some(s.bits()) == bits)
            }
            None => Scalar::parse(dtype, &format!("{minus}{text}")),
        };
        let value = value.ok_or_else(|| self.error(format!("not a value of type {dtype}")))?;
        self.next += 1;
        Ok(value)
    }

    fn size(&mut self) -> Result<Size> {
        let affine = self.affine()?;
        affine.as_size().cloned().ok_or_else(|| self.error_before("a size has no indices"))
    }

    /// `+` and `-` over products. An index that the kernel has bound hides a size of its name.
    fn affine(&mut self) -> Result<Affine<IndexId>> {
        let minus = self.take_mark("-");
        let mut sum = self.product(minus)?;
        loop {
            let minus = match self.peek() {
                Some(Token::Mark("+")) => false,
                Some(Token::Mark("-")) => true,
                _ => return Ok(sum),
            };
            self.next += 1;
            sum = sum.add(&self.product(minus)?);
            if weight(&sum) > MAX_ATOMS {
                return Err(self.error_before("the expression is too large"));
            }
            self.bounded(&sum)?;
        }
    }

    /// `*` and `/` over factors, from the left, followed by the sign. (Only for the least number
    /// does the sign belong to the digits.)
    fn product(&mut self, minus: bool) -> Result<Affine<IndexId>> {
        let least = self.peek() == Some(Token::Int("9223372036854775808"));
        let mut product = self.factor(minus && least)?;
        loop {
            let divide = match self.peek() {
                Some(Token::Mark("*")) => false,
                Some(Token::Mark("/")) => true,
                _ if minus && !least => return Ok(product.scale(&Size::constant(-1))),
                _ => return Ok(product),
            };
            self.next += 1;
            let minus = self.take_mark("-");
            let factor = self.factor(minus)?;
            if divide {
                let (Some(a), Some(b)) = (product.as_size(), factor.as_size()) else {
                    return Err(self.error_before("a quotient with an index is not affine"));
                };
                product = Affine::size(a.floor_div(b));
                self.bounded(&product)?;
                continue;
            }
            if weight(&product).saturating_mul(weight(&factor)) > MAX_ATOMS {
                return Err(self.error_before("the expression is too large"));
            }
            product = product.mul(&factor).ok_or_else(|| self.error_before("a product of indices is not affine"))?;
            self.bounded(&product)?;
        }
    }

    /// Refuses an expression with text that would nest too deeply, since quotients are in brackets.
    fn bounded(&self, a: &Affine<IndexId>) -> Result<()> {
        let deepest = a.terms().iter().map(|(_, c)| c).chain([a.constant_part()]).map(nesting).max().unwrap_or(0);
        if self.depth + deepest > MAX_DEPTH {
            return Err(self.error_before(format!("nested more than {MAX_DEPTH} deep")));
        }
        Ok(())
    }

    fn factor(&mut self, minus: bool) -> Result<Affine<IndexId>> {
        if let Some(Token::Int(digits)) = self.peek() {
            let sign = if minus { "-" } else { "" };
            let value = format!("{sign}{digits}").parse().map_err(|_| self.error("the number is too large"))?;
            self.next += 1;
            return Ok(Affine::constant(value));
        }
        let value = if self.take_mark("(") {
            let inner = self.nested(Self::affine)?;
            self.mark(")")?;
            inner
        } else if self.take_word("overflow") {
            self.mark("(")?;
            let inner = self.nested(Self::size)?;
            self.mark(")")?;
            Affine::size(Size::overflow(inner))
        } else if self.take_word("keyed_chunk") {
            self.mark("(")?;
            let keys = self.nested(Self::size)?;
            self.mark(")")?;
            Affine::size(Size::keyed_chunk(&keys))
        } else {
            let name = self.name()?;
            match (self.indices.get(&name), self.symbols.get(&name)) {
                (Some(index), _) => Affine::index(*index),
                (None, Some(symbol)) => Affine::size(Size::symbol(*symbol)),
                (None, None) => return Err(self.error_before(format!("there is no index or size {name}"))),
            }
        };
        Ok(if minus { value.scale(&Size::constant(-1)) } else { value })
    }
}

/// The number of atoms of an expression, including those inside quotients. Products multiply them.
fn weight(a: &Affine<IndexId>) -> usize {
    a.terms().iter().map(|(_, c)| c).chain([a.constant_part()]).map(size_weight).sum()
}

/// How deep the quotients of a size nest.
fn nesting(size: &Size) -> usize {
    let atom = |atom: &Atom| match atom {
        Atom::FloorDiv(a, b) => 1 + nesting(a).max(nesting(b)),
        Atom::KeyedChunk(inner) | Atom::Overflow(inner) => 1 + nesting(inner),
        Atom::Symbol(_) => 0,
    };
    size.terms().iter().flat_map(|(atoms, _)| atoms).map(atom).max().unwrap_or(0)
}

fn size_weight(size: &Size) -> usize {
    let atom = |atom: &Atom| match atom {
        Atom::FloorDiv(a, b) => 1 + size_weight(a) + size_weight(b),
        Atom::KeyedChunk(inner) | Atom::Overflow(inner) => 1 + size_weight(inner),
        Atom::Symbol(_) => 1,
    };
    size.terms().iter().map(|(atoms, _)| 1 + atoms.iter().map(atom).sum::<usize>()).sum()
}
