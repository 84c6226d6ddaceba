//! Collects the errors, and puts those of the parser into words.

use std::convert::Infallible;

use lalrpop_util::ParseError;

use crate::ast::Span;
use crate::lexer::{Tok, Token};
use crate::{Diagnostic, MAX_ERRORS, codes, hints};

/// The errors found so far, up to a limit.
#[derive(Default)]
pub(crate) struct Errors {
    diagnostics: Vec<Diagnostic>,
    /// The number of errors that more text could resolve.
    unfinished: usize,
}

impl Errors {
    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        if !self.full() {
            self.diagnostics.push(diagnostic);
        }
    }

    /// Adds an error that is known only to come from text that ends too early.
    pub(crate) fn push_unfinished(&mut self, diagnostic: Diagnostic) {
        self.unfinished += usize::from(!self.full());
        self.push(diagnostic);
    }

    /// Whether the text has no error other than ending too early.
    pub(crate) fn only_unfinished(&self) -> bool {
        self.unfinished > 0 && self.unfinished == self.diagnostics.len()
    }

    /// Whether the limit is reached, so that further errors would not be shown.
    pub(crate) fn full(&self) -> bool {
        self.diagnostics.len() >= MAX_ERRORS
    }

    /// Whether an error has been reported within a place. Other errors there may be consequences of
    /// it.
    pub(crate) fn any_within(&self, place: Span) -> bool {
        self.diagnostics.iter().any(|diagnostic| {
            let at = diagnostic.labels[0].span;
            place.start <= at.start && at.end <= place.end
        })
    }

    /// All of them, in the order of the source.
    pub(crate) fn finish(mut self) -> Result<(), Vec<Diagnostic>> {
        self.diagnostics.sort_by_key(|diagnostic| diagnostic.labels[0].span);
        if self.diagnostics.is_empty() { Ok(()) } else { Err(self.diagnostics) }
    }
}

/// Source text for a message: in backquotes, on one line, and shortened.
pub(crate) fn quote(text: &str) -> String {
    const LONGEST: usize = 40;
    let mut chars = text.lines().next().unwrap_or_default().chars();
    let mut quoted = "`".to_owned();
    for c in chars.by_ref().take(LONGEST) {
        match c {
            '\'' | '"' | '\\' => quoted.push(c),
            _ => quoted.extend(c.escape_debug()),
        }
    }
    if chars.next().is_some() || text.contains('\n') {
        quoted.push('…');
    }
    quoted + "`"
}

/// The piece in which the parser found an error.
pub(crate) struct Place<'s, 't> {
    pub(crate) source: &'s str,
    /// The kind of piece that is read.
    pub(crate) read_as: Tok,
    pub(crate) tokens: &'t [Token],
    /// The token after the piece; `None` at the end of the input.
    pub(crate) next: Option<Token>,
}

/// The terminals that the grammar would accept next, by name.
struct Expected(Vec<String>);

impl Expected {
    fn new(mut terminals: Vec<String>) -> Expected {
        // The block of a loop begins with a brace.
        terminals.iter_mut().filter(|terminal| *terminal == "block").for_each(|block| "{".clone_into(block));
        // Before `=`, a name has been taken for the name of an argument. Any other operator could
        // have followed it as well.
        if terminals.len() == 2 && ["\"(\"", "\"[\""].iter().all(|open| terminals.iter().any(|other| other == open)) {
            terminals.push("+".to_owned());
        }
        Expected(terminals)
    }

    fn has(&self, terminal: &str) -> bool {
        self.0.iter().any(|expected| expected.trim_matches('"') == terminal)
    }

    /// Whether an expression may begin here.
    fn operand(&self) -> bool {
        self.has("number")
    }

    /// Whether an expression may go on here.
    fn operator(&self) -> bool {
        self.has("+")
    }

    /// In words, grouped by kind.
    fn describe(&self, may_end: bool) -> String {
        const PUNCTUATION: [&str; 17] =
            ["fn", "let", "then", "else", "while", "(", "[", ")", "]", ",", ":", "->", "=", "{", "@", "<", "<="];
        let mut words = vec![];
        if self.has("text") {
            words.push("a path in double quotes or the name of a library".to_owned());
        } else if self.operand() {
            words.push("an expression".to_owned());
        } else if self.operator() {
            words.push("an operator".to_owned());
        } else if self.has("dtype") {
            words.push("a type".to_owned());
        } else if self.has("name") {
            words.push("a name".to_owned());
        }
        for terminal in PUNCTUATION {
            // Brackets that are part of an expression, and operators, have already been named. It
            // would not help to say that an argument may have a name.
            let named = match terminal {
                "(" | "[" => self.operand() || self.operator(),
                "@" | "<" | "<=" | "=" => self.operator(),
                _ => false,
            };
            if self.has(terminal) && !named {
                words.push(format!("`{terminal}`"));
            }
        }
        if may_end {
            words.push("a new line".to_owned());
        }
        match words.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => "a new line".to_owned(),
        }
    }
}

/// An error of the parser in the user's words.
pub(crate) fn report(error: ParseError<u32, Tok, Infallible>, place: &Place<'_, '_>) -> Diagnostic {
    let end = place.source.len() as u32;
    let after = place.next.unwrap_or(Token { tok: Tok::Newline, span: Span { start: end, end } });
    let (found, expected) = match error {
        ParseError::UnrecognizedToken { token: (start, tok, end), expected } => {
            (Token { tok, span: Span { start, end } }, expected)
        }
        ParseError::ExtraToken { token: (start, tok, end) } => (Token { tok, span: Span { start, end } }, vec![]),
        ParseError::UnrecognizedEof { expected, .. } => (after, expected),
        ParseError::InvalidToken { .. } => (after, vec![]),
        ParseError::User { error } => match error {},
    };
    let expected = Expected::new(expected);
    let before = &place.tokens[..place.tokens.iter().take_while(|token| token.span.start < found.span.start).count()];
    let use_may_end = place.read_as == Tok::AsUse && before.len() > 1;
    let may_end = place.read_as != Tok::AsHeader
        && open_brackets(before) == 0
        && (expected.operator() || use_may_end)
        && !["then", "else", "{"].iter().any(|terminal| expected.has(terminal));
    let message = format!("expected {}, found {}", expected.describe(may_end), describe(found, place));
    let diagnostic = Diagnostic::new(codes::SYNTAX, found.span, message);
    if let Some((token, (help, instead))) = foreign_word(found, before.last(), place) {
        let diagnostic = diagnostic.help(help);
        return match instead {
            Some(instead) => diagnostic.suggest(token.span, instead),
            None => diagnostic,
        };
    }
    match help(found, before, &expected, place) {
        Some(help) => diagnostic.help(help),
        None => diagnostic,
    }
}

/// The number of brackets that are still open after these tokens.
fn open_brackets(tokens: &[Token]) -> i64 {
    tokens.iter().map(|t| i64::from(t.tok.closed_by().is_some()) - i64::from(t.tok.closes())).sum()
}

/// A keyword of another language, at the error or just before it.
fn foreign_word(found: Token, previous: Option<&Token>, place: &Place<'_, '_>) -> Option<(Token, hints::Instead)> {
    // NumPy's function of that name.
    let next = place.tokens.iter().find(|token| token.span.start >= found.span.end);
    if found.tok == Tok::Where && next.is_some_and(|next| next.tok == Tok::OpenRound) {
        return Some((found, ("write `if c then a else b`", Some("select"))));
    }
    let word = |token: Token| match token.tok {
        Tok::Name if place.read_as != Tok::AsUse => {
            Some((token, hints::look_up(hints::WORDS, text(token, place.source))?))
        }
        _ => None,
    };
    word(found).or_else(|| previous.copied().and_then(word))
}

/// The error for tokens that follow a function on its line.
pub(crate) fn unexpected(found: Token, place: &Place<'_, '_>) -> Diagnostic {
    let message = format!("expected a new line, found {}", describe(found, place));
    Diagnostic::new(codes::SYNTAX, found.span, message)
}

fn text(token: Token, source: &str) -> &str {
    source.get(token.span.start as usize..token.span.end as usize).unwrap_or_default()
}

fn describe(found: Token, place: &Place<'_, '_>) -> String {
    match found.tok {
        Tok::Newline if found.span.end as usize >= place.source.len() => "the end of the input".to_owned(),
        Tok::Newline => "the end of the line".to_owned(),
        Tok::Dtype(dtype) => format!("the type `{}`", dtype.name()),
        tok if tok.is_keyword() => {
            format!("the keyword `{}`", text(found, place.source))
        }
        _ => quote(text(found, place.source)),
    }
}

/// A guess at what the author meant.
fn help(found: Token, before: &[Token], expected: &Expected, place: &Place<'_, '_>) -> Option<String> {
    // The first arm that fits wins: arms that recognise a habit of another language come before
    // those that fit almost any error at the same token.
    let header = place.read_as == Tok::AsHeader;
    let fixed = match found.tok {
        Tok::Equals if header && !before.is_empty() && (expected.has(":") || expected.has(",")) => {
            "a parameter has a type and no default: `k: i64`"
        }
        Tok::Colon if header && expected.has("->") => "the type of the result follows `->`",
        Tok::Colon if expected.has("=") && before.first().is_some_and(|first| first.tok == Tok::Let) => {
            "a `let` has no type, it is inferred; a type converts: `let y = f32(...)`"
        }
        Tok::If if expected.operator() => "write `if c then a else b`: the condition comes first",
        Tok::OpenBrace | Tok::Colon if expected.has("then") => "write `if c then a else b`, without braces",
        Tok::OpenSquare if expected.has("dtype") && !expected.operand() => {
            "an array's type is that of its elements followed by its sizes: `f32[n]`"
        }
        Tok::Colon | Tok::Star if header && expected.operand() => {
            "a size is a number, or a name that the call gives a value: `f32[n, 3]`"
        }
        Tok::Name if header && before.is_empty() => "a function begins with `fn`: `fn f(x: f32[n]) = ...`",
        Tok::Equals if expected.operator() && open_brackets(before) > 0 => "to compare, write `==`",
        Tok::Equals if expected.operator() => match before {
            [Token { tok: Tok::Name, .. }, Token { tok: Tok::OpenSquare, .. }, ..] => {
                "arrays cannot be changed: make a new one, `let y[i < n] = if i == 0 then 1 else x[i]`"
            }
            [Token { tok: Tok::Name, .. }, rest @ ..] if !rest.iter().any(|token| token.tok == Tok::If) => {
                return Some(format!("to name a value, write `let {} = ...`", text(before[0], place.source)));
            }
            _ => "to compare, write `==`",
        },
        Tok::OpenBrace if place.read_as == Tok::AsResult && before.is_empty() => {
            "a block has no `=` before it: `fn f(x: f32[n]) { ... }`"
        }
        _ if expected.has("then") || expected.has("else") => "an `if` has both branches: `if c then a else b`",
        Tok::Let if place.read_as == Tok::AsResult => {
            "a function with `let` has a block for a body: `fn f(x: f32[n]) { let ...; result }`"
        }
        Tok::Let if place.read_as == Tok::AsHeader && before.is_empty() => "a `let` belongs in the body of a function",
        Tok::Bang if expected.operand() => "`!` binds looser than the operator before it: write `(!a)`",
        Tok::Plus if expected.operand() && (place.read_as == Tok::AsResult || !before.is_empty()) => {
            "there is no unary `+`"
        }
        tok if before.is_empty() && place.read_as != Tok::AsResult && tok.operates() && tok != Tok::Minus => {
            "a line that begins with an operator is a new statement: end the line before it with the operator"
        }
        tok if (matches!(tok, Tok::Dtype(_)) || (tok.is_keyword() && tok != Tok::Fn))
            && expected.has("name")
            && !expected.operand()
            && !expected.has("dtype") =>
        {
            return Some(format!("`{}` has a meaning in the language: choose another name", text(found, place.source)));
        }
        Tok::Equals if expected.has("[") && before.iter().any(|token| token.tok == Tok::Rec) => {
            "a recurrence has indices: `let rec y[t < n] = ...`"
        }
        _ if place.read_as == Tok::AsUse => {
            "write `use \"file.fl\"` or `use nn`, with the functions to pick in parentheses: `use nn (softmax)`"
        }
        Tok::Use => "`use` stands between functions, outside of their bodies, and is no name",
        Tok::Rec => "write `let rec y[t < n] = ...` for an array that refers to earlier elements of itself",
        Tok::While => "a loop that ends by a condition is `loop x = first while c { next }`",
        _ if expected.has("{") && expected.has("while") => {
            "a loop has a block for its steps: `loop x = first, t < n { next }`"
        }
        Tok::Where if before.last().is_some_and(|last| last.tok == Tok::OpenSquare) => {
            "name the index before its condition: `sum[i where c](e)`"
        }
        Tok::Where => {
            "write `if c then a else b`; `where` stands in the brackets of a reducer, `sum[i where c](e)`, or after a \
             signature"
        }
        _ if expected.has("(") && !expected.operator() && before.iter().any(|token| token.tok == Tok::Where) => {
            "a condition selects what is reduced: `sum[i where c](x[i])`"
        }
        Tok::OpenRound if expected.operator() => "only a name can be called",
        _ if expected.has(":") && place.read_as == Tok::AsHeader && !expected.operator() => {
            "a parameter has a type: `x: f32[n]`"
        }
        Tok::Equals | Tok::OpenBrace
            if place.read_as == Tok::AsHeader
                && expected.has("(")
                && !expected.operator()
                && !expected.has("dtype") =>
        {
            "a function has parentheses after its name: `fn f() = ...`"
        }
        Tok::OpenBrace => "braces enclose only the body of a function",
        Tok::Semicolon => "inside brackets a `;` has no meaning: write `,`",
        _ => return None,
    };
    Some(fixed.to_owned())
}
