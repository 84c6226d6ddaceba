//! From text to tree: cuts the tokens into the pieces that the grammar reads, and assembles
//! functions from them. The block of a loop is cut into pieces of its own before the piece that
//! the loop stands in is read.
//!
//! The layout has matched all brackets, so where a piece ends does not depend on errors inside it,
//! and each piece reports at most one error.

use cranelift_entity::PrimaryMap;
use lalrpop_util::ParseError;

use crate::ast::{Block, Entry, Expr, ExprId, File, Function, Input, Let, Module, ModuleId, Span, Use};
use crate::builder::{Body, Builder, Header, Piece};
use crate::diagnostic::Diagnostic;
use crate::layout::{Lines, arrange_from};
use crate::lexer::{Tok, Token};
use crate::parser::PieceParser;
use crate::report::{Errors, Place, report, unexpected};
use crate::{MAX_ERRORS, MAX_SOURCE, codes};

/// Reads a source file. If there are errors, returns all independent ones in source order.
pub fn parse(source: &str) -> Result<File, Vec<Diagnostic>> {
    let mut file = File::default();
    parse_module(source, 0, &mut file)?;
    Ok(file)
}

/// Reads the source file that begins at byte `start` of `source` and adds it to a program as its
/// next module. The bytes before are the files read so far, so that a place in the source tells the
/// file. If there are errors, returns all independent ones; the module then has no functions.
pub fn parse_module(source: &str, start: usize, file: &mut File) -> Result<ModuleId, Vec<Diagnostic>> {
    let functions = file.functions.len();
    let (module, errors) = recover_module(source, start, file);
    if errors.is_empty() {
        return Ok(module);
    }
    file.functions.truncate(functions);
    file.modules[module].uses.clear();
    Err(errors)
}

/// The same, except that errors keep out only the statements, functions and `use`s that they are
/// in; all functions, where one is too deep or there are more errors than are reported.
pub fn recover_module(source: &str, start: usize, file: &mut File) -> (ModuleId, Vec<Diagnostic>) {
    let module = file.modules.push(Module { start: start as u32, uses: vec![] });
    let at = Start { byte: start, module, exprs: std::mem::take(&mut file.exprs) };
    let ((functions, uses), Builder { exprs, errors, .. }) = read(source, at, |reader| reader.file());
    file.exprs = exprs;
    let errors = errors.finish().err().unwrap_or_default();
    file.modules[module].uses = uses;
    // Whoever walks through the functions relies on the limit of their depth. Errors beyond the
    // limit are not known, so that any of these may be deeper.
    let too_deep = errors.len() >= MAX_ERRORS || errors.iter().any(|error| error.code == codes::TOO_DEEP);
    if !too_deep {
        file.functions.extend(functions);
    }
    (module, errors)
}

/// Reads text typed at a prompt. If there are errors, returns all independent ones in source order.
pub fn parse_input(source: &str) -> Result<Input, Vec<Diagnostic>> {
    let (entries, Builder { exprs, errors, .. }) = read(source, Start::default(), |reader| reader.input());
    errors.finish().map(|()| Input { entries, exprs })
}

/// Whether text typed at a prompt is incomplete: a bracket is open, even if there are other errors,
/// or the only error is that more input is expected.
///
/// ```
/// assert!(grammar::is_unfinished("fn f(x: f32[n]) {") && grammar::is_unfinished("let y = 2 *"));
/// assert!(grammar::is_unfinished("if c") && grammar::is_unfinished("@kernels(1)") && grammar::is_unfinished("let y"));
/// assert!(grammar::is_unfinished("fn f(x: f32[n])\n") && grammar::is_unfinished("fn f(x: f32[n])\n -> f32[n]\n"));
/// assert!(grammar::is_unfinished("fn f(x: f32[n]) where") && grammar::is_unfinished("fn f(x: f32[n])\n where n > 1\n"));
/// assert!(grammar::is_unfinished("if true then 1\n") && grammar::is_unfinished("let y[i < 3]") && !grammar::is_unfinished("fn f"));
/// assert!(grammar::is_unfinished("loop x = 1, t < 3\n") && grammar::is_unfinished("loop x = 1 while x < 3 {\n"));
/// assert!(!grammar::is_unfinished("2 * 3") && !grammar::is_unfinished("2 * )") && !grammar::is_unfinished("f32"));
/// ```
pub fn is_unfinished(source: &str) -> bool {
    let mut lines = Lines::default();
    lines.push(source);
    lines.go_on() || read(source, Start::default(), |reader| reader.input()).1.errors.only_unfinished()
}

/// Where reading starts.
struct Start {
    byte: usize,
    module: ModuleId,
    /// The nodes of the modules before.
    exprs: PrimaryMap<ExprId, Expr>,
}

impl Default for Start {
    fn default() -> Start {
        Start { byte: 0, module: ModuleId::PROGRAM, exprs: PrimaryMap::new() }
    }
}

/// Runs a reader over a text. Its errors are collected in the builder.
fn read<'s, T: Default>(source: &'s str, start: Start, how: impl FnOnce(&mut Reader<'s, '_>) -> T) -> (T, Builder<'s>) {
    if source.len() > MAX_SOURCE {
        let mut errors = Errors::default();
        let message = format!("the source has {} bytes, more than the limit of {MAX_SOURCE}", source.len());
        errors.push(Diagnostic::new(codes::SOURCE_TOO_LARGE, Span::default(), message));
        return (T::default(), Builder::new(source, errors));
    }
    let (tokens, errors) = arrange_from(source, start.byte);
    let builder = Builder::after(start.exprs, source, errors);
    let mut reader = Reader { tokens: &tokens, at: 0, module: start.module, parser: PieceParser::new(), builder };
    let read = how(&mut reader);
    (read, reader.builder)
}

/// The owner of a block.
#[derive(Clone, Copy)]
enum Purpose {
    Function,
    Loop,
}

struct Reader<'s, 't> {
    tokens: &'t [Token],
    /// The next token.
    at: usize,
    module: ModuleId,
    parser: PieceParser,
    builder: Builder<'s>,
}

impl Reader<'_, '_> {
    fn file(&mut self) -> (Vec<Function>, Vec<Use>) {
        let (mut functions, mut uses) = (vec![], vec![]);
        while self.at < self.tokens.len() && !self.builder.errors.full() {
            match self.tokens[self.at].tok {
                Tok::Newline | Tok::Semicolon => self.at += 1,
                Tok::Use => uses.extend(self.use_()),
                Tok::Fn | Tok::At => functions.extend(self.function()),
                _ => {
                    // Only the head of a function may stand here.
                    self.piece(Tok::AsHeader, self.next_function(self.at));
                }
            }
        }
        (functions, uses)
    }

    /// Reads a `use`.
    fn use_(&mut self) -> Option<Use> {
        let end = self.find(self.tokens.len(), |tok| matches!(tok, Tok::Newline | Tok::Semicolon | Tok::Fn));
        match self.piece(Tok::AsUse, end) {
            Some(Piece::Use(one)) => Some(one),
            _ => None,
        }
    }

    /// `use`s, functions, `let`s and expressions, in any order.
    fn input(&mut self) -> Vec<Entry> {
        let mut entries = vec![];
        while self.at < self.tokens.len() && !self.builder.errors.full() {
            match self.tokens[self.at].tok {
                Tok::Newline | Tok::Semicolon => self.at += 1,
                Tok::Use => entries.extend(self.use_().map(Entry::Use)),
                Tok::Fn | Tok::At => entries.extend(self.function().map(Entry::Function)),
                _ => {
                    let ends = |tok| matches!(tok, Tok::Newline | Tok::Semicolon | Tok::Fn);
                    entries.extend(match self.piece(Tok::AsStatement, self.find(self.tokens.len(), ends)) {
                        Some(Piece::Let(one)) => Some(Entry::Let(*one)),
                        Some(Piece::Result(value)) => Some(Entry::Value(value)),
                        _ => None,
                    });
                }
            }
        }
        entries
    }

    /// Reads a function. Returns `None` if it has no head or no result.
    fn function(&mut self) -> Option<Function> {
        let first = self.tokens[self.at].span.start;
        let in_decorators =
            |tok| matches!(tok, Tok::At | Tok::Name | Tok::OpenRound | Tok::CloseRound | Tok::Newline | Tok::Semicolon);
        let own = self.find(self.tokens.len(), |tok| !in_decorators(tok));
        let limit = self.next_function(own + 1);
        let opening = self.find(limit, |tok| matches!(tok, Tok::Equals | Tok::OpenBrace));
        let head = self.find(opening, |tok| tok == Tok::Where);
        let header = match self.piece(Tok::AsHeader, (head + 1).min(limit)) {
            Some(Piece::Header(header)) => Some(*header),
            _ => None,
        };
        let condition = if head < opening { self.condition(opening, limit) } else { Some(None) };
        let mut body = None;
        if opening < limit && self.tokens[opening].tok == Tok::OpenBrace {
            body = self.block(first, limit, Purpose::Function);
        } else if opening < limit {
            let end = self.find(limit, |tok| matches!(tok, Tok::Newline | Tok::Semicolon));
            body = match self.piece(Tok::AsResult, end) {
                Some(Piece::Result(result)) => Some(Block { lets: vec![], result }),
                _ => None,
            };
        }
        let end = self.tokens[self.at - 1].span.end;
        self.after_function(limit, Span { start: first, end });
        let Header { decorators, name, params, results, span: signature } = header?;
        let condition = condition?;
        let Block { lets, result } = body?;
        let (module, span) = (self.module, Span { start: signature.start, end });
        Some(Function { decorators, module, name, params, results, condition, lets, result, signature, span })
    }

    /// Reads the condition of a signature, up to the `=` or `{` at `opening`, and that. Returns
    /// `None` if there is an error.
    fn condition(&mut self, opening: usize, limit: usize) -> Option<Option<ExprId>> {
        let newlines = self.tokens[self.at..opening].iter().rev().take_while(|token| token.tok == Tok::Newline).count();
        let condition = self.piece(Tok::AsResult, opening - newlines);
        self.at = (opening + 1).min(limit);
        let Some(Piece::Result(condition)) = condition else { return None };
        if opening == limit {
            let span = self.builder.exprs[condition].span;
            let message = "expected `=` or `{` after the condition of the function";
            let error = Diagnostic::new(codes::SYNTAX, span, message);
            match self.tokens.get(limit) {
                Some(_) => self.builder.errors.push(error),
                None => self.builder.errors.push_unfinished(error),
            }
            return None;
        }
        Some(Some(condition))
    }

    /// Reads a block after its `{`. Returns `None` if there is an error from `first` on.
    fn block(&mut self, first: u32, limit: usize, purpose: Purpose) -> Option<Block> {
        let close = self.find(limit, |tok| tok == Tok::CloseBrace);
        let end = self.tokens.get(close).map_or(first, |token| token.span.end);
        let (mut lets, mut results): (Vec<Let>, Vec<ExprId>) = (vec![], vec![]);
        let mut last_is_let = false;
        while self.at < close && !self.builder.errors.full() {
            let piece = self.find(close, |tok| matches!(tok, Tok::Newline | Tok::Semicolon));
            match self.piece(Tok::AsStatement, piece) {
                Some(Piece::Let(one)) => {
                    lets.push(*one);
                    last_is_let = true;
                }
                Some(Piece::Result(result)) => {
                    results.push(result);
                    last_is_let = false;
                }
                _ => {}
            }
            self.at = (piece + 1).min(close);
        }
        self.at = (close + 1).min(limit);
        // After an error the block may seem to lack a result, or to have unused values, without
        // being at fault.
        if self.builder.errors.any_within(Span { start: first, end }) {
            return None;
        }
        let result = results.pop().filter(|_| !last_is_let);
        let unused = results.into_iter().map(|unused| self.builder.exprs[unused].span).collect::<Vec<_>>();
        for span in unused {
            self.builder.errors.push(
                Diagnostic::new(codes::UNUSED_VALUE, span, "nothing uses this value")
                    .note("the last expression of a block is its result")
                    .help("name it, `let name = ...`, or remove it"),
            );
        }
        if result.is_none() {
            self.no_result(purpose, self.tokens[close].span, lets.last());
        }
        Some(Block { lets, result: result? })
    }

    /// Reports that a block ends at `close` without a result.
    fn no_result(&mut self, purpose: Purpose, close: Span, last: Option<&Let>) {
        let message = match purpose {
            Purpose::Function => "expected the result of the function, found `}`",
            Purpose::Loop => "expected the next state of the loop, found `}`",
        };
        let diagnostic = Diagnostic::new(codes::NO_RESULT, close, message);
        self.builder.errors.push(match last.and_then(|last| Some((last.span.end, bound(last)?))) {
            Some((from, result)) => {
                let between = self.builder.text(Span { start: from, end: close.start });
                let (at, text) = match between.rsplit_once(['\n', ';']) {
                    Some((before, indent)) if between.as_bytes()[before.len()] == b'\n' => {
                        (from as usize + before.len() + 1, format!("{indent}    {result}\n"))
                    }
                    Some((before, _)) => (from as usize + before.len() + 1, format!(" {result}")),
                    None => (from as usize, format!("; {result}")),
                };
                let help = format!("end the block with its result: `{result}`");
                let place = Span { start: at as u32, end: at as u32 };
                diagnostic.help(help).suggest(place, text)
            }
            None => diagnostic.help("end the block with an expression"),
        });
    }

    /// Skips tokens that wrongly follow a function on its line; after an error, skips everything up
    /// to the next function.
    fn after_function(&mut self, limit: usize, function: Span) {
        if self.builder.errors.any_within(function) {
            self.at = limit;
            return;
        }
        let Some(next) = self.tokens.get(self.at).copied() else { return };
        let block = self.tokens[self.at - 1].tok == Tok::CloseBrace;
        let separate = matches!(next.tok, Tok::Newline | Tok::Semicolon) || (self.at == limit && block);
        if !separate {
            if !self.builder.errors.any_within(next.span) {
                let place = self.place(Tok::AsResult, &[], limit);
                self.builder.errors.push(unexpected(next, &place));
            }
            self.at = limit;
        }
    }

    /// The first wanted token before `limit` that is outside all brackets opened on the way.
    fn find(&self, limit: usize, wanted: impl Fn(Tok) -> bool) -> usize {
        let mut depth = 0u32;
        for (at, token) in self.tokens[..limit].iter().enumerate().skip(self.at) {
            if depth == 0 && wanted(token.tok) {
                return at;
            }
            if token.tok.closed_by().is_some() {
                depth += 1;
            } else if token.tok.closes() {
                depth = depth.saturating_sub(1);
            }
        }
        limit
    }

    /// Where the next function or its first decorator begins, or a `use`, from `from` on.
    fn next_function(&self, from: usize) -> usize {
        let mut depth = 0u32;
        for at in self.at..self.tokens.len() {
            let tok = self.tokens[at].tok;
            let on_its_own = || matches!(self.tokens[at - 1].tok, Tok::Newline | Tok::Semicolon | Tok::CloseBrace);
            if depth == 0 && at >= from && (tok == Tok::Fn || (matches!(tok, Tok::At | Tok::Use) && on_its_own())) {
                return at;
            }
            if tok.closed_by().is_some() {
                depth += 1;
            } else if tok.closes() {
                depth = depth.saturating_sub(1);
            }
        }
        self.tokens.len()
    }

    /// The tokens up to `end` with one token in the place of each loop's block, which is read here.
    fn outline(&mut self, end: usize) -> Vec<Token> {
        let mut outline = Vec::with_capacity(end - self.at);
        // For each open bracket, the number of loops in it that lack their block.
        let mut loops = vec![0u32];
        while self.at < end {
            let Token { tok, span } = self.tokens[self.at];
            self.at += 1;
            let waiting = loops.last_mut().filter(|waiting| tok == Tok::OpenBrace && **waiting > 0);
            if let Some(waiting) = waiting {
                *waiting -= 1;
                let outer = std::mem::take(&mut self.builder.deepest);
                let block = self.block(span.start, end, Purpose::Loop);
                let depth = std::mem::replace(&mut self.builder.deepest, outer);
                let span = Span { start: span.start, end: self.tokens[self.at - 1].span.end };
                // If the block has an error, the loop around it is still read.
                let block = block.unwrap_or_else(|| {
                    let result = self.builder.hole(span.start, span.end).id;
                    Block { lets: vec![], result }
                });
                self.builder.bodies.push(Body { start: span.start, block, depth });
                outline.push(Token { tok: Tok::Block, span });
                continue;
            }
            if tok.closed_by().is_some() {
                loops.push(0);
            } else if tok.closes() && loops.len() > 1 {
                loops.pop();
            } else if let (Tok::Loop, Some(waiting)) = (tok, loops.last_mut()) {
                *waiting += 1;
            }
            outline.push(Token { tok, span });
        }
        outline
    }

    /// Reads the tokens up to `end` as one piece of the grammar. Reports at most one error.
    fn piece(&mut self, read_as: Tok, end: usize) -> Option<Piece> {
        let bodies = self.builder.bodies.len();
        let outline = self.outline(end);
        let tokens = outline.as_slice();
        let marker = (0, read_as, 0);
        let stream = std::iter::once(marker)
            .chain(tokens.iter().map(|token| (token.span.start, token.tok, token.span.end)))
            .map(Ok);
        let parsed = self.parser.parse(&mut self.builder, stream);
        self.builder.end_piece();
        self.builder.bodies.truncate(bodies);
        match parsed {
            Ok(piece) => Some(piece),
            Err(error) => {
                let within = match tokens {
                    [first, .., last] => Span { start: first.span.start, end: last.span.end },
                    [only] => only.span,
                    [] => Span { start: u32::MAX, end: 0 },
                };
                if !self.builder.errors.any_within(within) {
                    let place = self.place(read_as, tokens, end);
                    let ended = place.next.is_none()
                        && matches!(&error, ParseError::UnrecognizedEof { expected, .. } if may_follow(expected));
                    let diagnostic = report(error, &place);
                    match ended {
                        true => self.builder.errors.push_unfinished(diagnostic),
                        false => self.builder.errors.push(diagnostic),
                    }
                }
                None
            }
        }
    }

    fn place<'a>(&self, read_as: Tok, tokens: &'a [Token], end: usize) -> Place<'_, 'a> {
        // A closing bracket that the layout inserted has no text.
        let next = self.tokens[end..].iter().find(|token| !(token.tok.closes() && token.span.start == token.span.end));
        Place { source: self.builder.source, read_as, tokens, next: next.copied() }
    }
}

/// Whether one of the expected tokens may begin the next line, in which case a newline before it
/// does not end the statement.
fn may_follow(expected: &[String]) -> bool {
    const IN_THE_NEXT_LINE: [&str; 10] = ["then", "else", "while", "block", "=", "->", "{", ",", ":", "fn"];
    expected.iter().any(|terminal| IN_THE_NEXT_LINE.contains(&terminal.trim_matches('"')))
}

/// The names that a `let` binds, as an expression. `None` if it discards all.
fn bound(one: &Let) -> Option<String> {
    let names = one.names().into_iter().map(|name| name.text.as_str());
    let names: Vec<_> = names.filter(|name| *name != "_").collect();
    match names.as_slice() {
        [] => None,
        [one] => Some((*one).to_owned()),
        several => Some(format!("({})", several.join(", "))),
    }
}
