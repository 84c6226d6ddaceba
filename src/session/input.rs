//! Reads an entry, followed by the functions that it calls and the files that it uses, so that one
//! text holds everything that its errors point at.
//!
//! `load("a.npy")` is not part of the language, which knows no files. Before the text is read, it
//! is replaced by a name of the same number of bytes, and the array in the file becomes the value
//! of that name.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use compiler::check::codes::UNKNOWN_FUNCTION;
use grammar::ast::{Entry, Expr, ExprKind, File, Function, Input, Let, Module, Span, Use};
use grammar::{Diagnostic, Highlight, highlight};

use super::used::{Remembered, rebase};
use super::{Definition, PROMPT, Session, SessionError};
use crate::files::Place;
use crate::link::link_uses;
use crate::{Errors, Signature, Source, Warnings};

/// An entry that has been read.
pub(super) struct Reading {
    /// The text as it was written, followed by the functions that it calls and the files that it
    /// uses.
    pub(super) source: Arc<Source>,
    /// The entry without these functions.
    pub(super) input: Input,
    /// The whole text: the functions that can be called, and every expression.
    pub(super) file: File,
    /// The `use`s of the entry itself.
    pub(super) uses: Vec<Use>,
    /// The used files as they were read.
    pub(super) files: Arc<Remembered>,
    /// The files that it loads, by the name that stands for each.
    pub(super) loads: BTreeMap<String, Load>,
    /// The time that reading took.
    pub(super) time: Duration,
}

/// `load("a.npy")`
pub(super) struct Load {
    pub(super) place: Place,
    pub(super) at: Range<usize>,
}

impl Reading {
    pub(super) fn new(session: &Session, name: &str, text: &str) -> Result<Reading, SessionError> {
        let start = Instant::now();
        let mut source = Source::new(name, text);
        let (code, loads) = without_loads(&source)?;
        let read = |source: &Source, code: &str| {
            grammar::parse_input(code).map_err(|e| Errors::new(Arc::new(source.clone()), e))
        };
        let input = read(&source, &code)?;
        let own_uses = input.entries.iter().filter(|entry| matches!(entry, Entry::Use(_))).count();
        let plain = code.len();
        let mut whole = code;
        for Needed { name, line, text } in session.needed(&input) {
            source.push_part(name, line, &text);
            whole.push('\n');
            whole.push_str(&text);
        }
        let added = whole.len() > plain;
        let Input { entries, exprs } = if added { read(&source, &whole)? } else { input.clone() };
        let mut file = File { exprs, ..File::default() };
        let program = file.modules.push(Module::default());
        for entry in entries {
            match entry {
                Entry::Function(function) => file.functions.push(function),
                Entry::Use(one) => file.modules[program].uses.push(one),
                Entry::Let(_) | Entry::Value(_) => {}
            }
        }
        if name != PROMPT {
            rebase(Path::new(name), &mut file.modules[program].uses[..own_uses]);
        }
        let files = if own_uses > 0 { Arc::default() } else { Arc::clone(&session.files) };
        if let Err(errors) = link_uses(&mut source, Some(files.as_ref()), &mut file) {
            return Err(Errors::new(Arc::new(source), errors).into());
        }
        let uses = file.modules[program].uses[..own_uses].to_vec();
        Ok(Reading { source: Arc::new(source), input, file, uses, files, loads, time: start.elapsed() })
    }

    /// Checks a function of the entry and returns its signature. The inner error means that the
    /// only errors are calls of functions that are not defined yet.
    pub(super) fn check(&self, name: &str) -> Result<Result<Signature, Errors>, Errors> {
        let errors = match compiler::check::check(&self.file, name) {
            Ok(checked) => return Ok(Ok(Signature::new(&checked))),
            Err(errors) => errors,
        };
        let missing = errors.iter().all(|error| self.is_missing(error));
        let errors = Errors::new(Arc::clone(&self.source), errors);
        if missing { Ok(Err(errors)) } else { Err(errors) }
    }

    /// The warnings about a function of the entry that has no errors.
    pub(super) fn warnings(&self, name: &str) -> Warnings {
        let function = self.file.own().find(|function| function.name.text == name);
        let found = function.map(|function| compiler::check::warnings::of_function(&self.file, function));
        Warnings::new(Arc::clone(&self.source), found.unwrap_or_default())
    }

    /// Whether an error is about a function that is not defined yet but may be later. (The name of
    /// a value will not become a function.)
    fn is_missing(&self, error: &Diagnostic) -> bool {
        let callee = place(&self.source, error);
        let bound = |name: &str| {
            let of = |function: &Function| {
                function.params.iter().any(|param| param.name.text == name)
                    || function.lets.iter().flat_map(names).any(|bound| bound == name)
            };
            self.file.functions.iter().any(of)
        };
        error.code == UNKNOWN_FUNCTION && callee.is_some_and(|name| !bound(name))
    }

    /// A function of the entry, checked.
    pub(super) fn define(&self, function: &Function) -> Result<Definition, SessionError> {
        let signature = self.check(&function.name.text)?;
        let decorators = function.decorators.first().map_or(function.span.start, |first| first.span.start);
        let start = decorators.min(function.span.start);
        let within = |span: Span| start <= span.start && span.end <= function.span.end;
        let own = self.input.exprs.values().filter(|e| within(e.span));
        let before = &self.source.text[..start as usize];
        // Text typed at a prompt has scrolled away, so errors refer to its functions by their
        // names.
        let typed = self.source.name == PROMPT;
        let lines = if typed { 0 } else { before.bytes().filter(|byte| *byte == b'\n').count() };
        Ok(Definition {
            text: self.source.text[start as usize..function.span.end as usize].to_owned(),
            name: if typed { format!("fn {}", function.name.text) } else { self.source.name.clone() },
            line: lines + 1,
            signature,
            calls: calls(own).map(str::to_owned).collect(),
        })
    }
}

/// A text that an entry needs, and where it was entered.
struct Needed {
    name: String,
    line: usize,
    text: String,
}

impl Session {
    /// The functions that an input calls, directly and indirectly, without its own; and the `use`s
    /// of the session if they matter.
    fn needed(&self, input: &Input) -> Vec<Needed> {
        let mut needed = vec![];
        // Whether the files that the session uses matter.
        let mut uses = input.entries.iter().any(|entry| matches!(entry, Entry::Use(_)));
        let mut called: BTreeSet<&str> = BTreeSet::new();
        let mut waiting: Vec<&str> = calls(input.exprs.values()).collect();
        // A lone name may be meant as the function.
        waiting.extend(input.exprs.values().filter_map(word));
        let own = |name: &str| {
            input.entries.iter().any(|entry| matches!(entry, Entry::Function(function) if function.name.text == name))
        };
        while let Some(name) = waiting.pop() {
            let definition = self.functions.get(name).filter(|_| !own(name));
            uses |= definition.is_none() && self.has_used(name);
            if let Some(definition) = definition
                && called.insert(name)
            {
                let Definition { text, name, line, .. } = Definition::clone(definition);
                needed.push(Needed { name, line, text });
                waiting.extend(definition.calls.iter().map(String::as_str));
            }
        }
        // A definition replaces a function that was picked before.
        let replaced = |name: &str| own(name) || called.contains(name);
        let lines = self.used.iter().filter(|_| uses).filter_map(|line| line.without(replaced));
        needed.extend(lines.map(|line| Needed { name: PROMPT.to_owned(), line: 1, text: line.written(None) }));
        needed
    }

    /// A text of functions, followed by the functions of the session that they call and by what the
    /// session uses. [`Program::parse_with`](crate::Program::parse_with) makes a program of it,
    /// which has the functions of the text alone.
    ///
    /// ```
    /// use fuseloop::{Folder, Program, Session};
    ///
    /// let mut session = Session::default();
    /// session.enter("fn twice(x: f32[n]) = 2 * x")?;
    /// let source = session.complete("cell 2", "fn total(x: f32[n]) = sum(twice(x))");
    /// let program = Program::parse_with(source, &Folder::default())?;
    /// assert_eq!(program.functions().count(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn complete(&self, name: &str, text: &str) -> Source {
        let mut source = Source::new(name, text);
        // The errors of a text that cannot be read are those of the program.
        if let Ok(input) = grammar::parse_input(text) {
            let needed = self.needed(&input).into_iter();
            needed.for_each(|Needed { name, line, text }| source.push_part(name, line, &text));
        }
        source
    }

    /// The name of the text in which a function was entered, and a text with the function on the
    /// same line as there.
    pub fn definition(&self, name: &str) -> Option<(String, String)> {
        let found = self.functions.get(name)?;
        Some((found.name.clone(), "\n".repeat(found.line - 1) + &found.text))
    }

    /// The functions that call one of these, directly or indirectly.
    pub fn callers<'s>(&'s self, of: &[&str]) -> Vec<&'s str> {
        let mut callers = BTreeSet::new();
        let mut waiting: Vec<&str> = of.to_vec();
        while let Some(callee) = waiting.pop() {
            for (name, definition) in &self.functions {
                if definition.calls.iter().any(|called| called == callee) && callers.insert(name.as_str()) {
                    waiting.push(name);
                }
            }
        }
        callers.into_iter().collect()
    }
}

/// The text that an error refers to.
pub(super) fn place<'s>(source: &'s Source, error: &Diagnostic) -> Option<&'s str> {
    let span = error.labels.first()?.span;
    source.text.get(span.start as usize..span.end as usize)
}

/// The names of functions that expressions call.
fn calls<'e>(exprs: impl Iterator<Item = &'e Expr>) -> impl Iterator<Item = &'e str> {
    exprs.filter_map(|expr| match &expr.kind {
        ExprKind::Call { callee, .. } => Some(callee.text.as_str()),
        _ => None,
    })
}

/// The name, if the expression is one.
pub(super) fn word(expr: &Expr) -> Option<&str> {
    match &expr.kind {
        ExprKind::Name(name) => Some(name),
        ExprKind::Hole => Some(super::LAST),
        _ => None,
    }
}

/// Whether a text is a valid name in the language.
pub fn is_name(text: &str) -> bool {
    let whole = Span { start: 0, end: u32::try_from(text.len()).unwrap_or(u32::MAX) };
    highlight(text) == [(whole, Highlight::Name)]
}

/// Text typed at a prompt, line by line, until it is complete.
///
/// ```
/// let mut typed = fuseloop::session::Typed::default();
/// typed.push("let y = load(\"a.npy\") +\n");
/// assert!(!typed.is_whole());
/// typed.push("    1\n");
/// assert!(typed.is_whole());
/// ```
#[derive(Default)]
pub struct Typed {
    text: String,
    lines: grammar::Lines,
}

impl Typed {
    /// Adds one or more lines, each with its newline.
    pub fn push(&mut self, lines: &str) {
        self.text.push_str(lines);
        self.lines.push(lines);
    }

    /// The text so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text.
    pub fn into_text(self) -> String {
        self.text
    }

    /// The number of brackets left open.
    pub fn depth(&self) -> usize {
        self.lines.depth()
    }

    /// Whether the text is complete. For a text with errors, this only means that no bracket is
    /// open.
    pub fn is_whole(&self) -> bool {
        let unfinished = || {
            let code = without_loads(&Source::new("", self.text.as_str()));
            code.is_ok_and(|(code, _)| grammar::is_unfinished(&code))
        };
        self.text.len() > grammar::MAX_SOURCE || !(self.lines.go_on() || unfinished())
    }
}

/// The names that a `let` binds, including its indices.
fn names(one: &Let) -> Vec<&str> {
    let indices = one.binders().into_iter().map(|binder| &binder.name);
    one.names().into_iter().chain(indices).map(|name| name.text.as_str()).collect()
}

/// The text with each `load("...")` replaced by a name of the same number of bytes.
fn without_loads(source: &Source) -> Result<(String, BTreeMap<String, Load>), SessionError> {
    let text = source.text.as_str();
    let mut code = text.to_owned();
    let mut loads: BTreeMap<String, Load> = BTreeMap::new();
    if !text.contains("load") {
        return Ok((code, loads));
    }
    let bytes = |span: Span| span.start as usize..span.end as usize;
    let words: Vec<(Range<usize>, Highlight)> =
        highlight(text).into_iter().map(|(span, class)| (bytes(span), class)).collect();
    for four in words.windows(4) {
        let [
            (load, Highlight::Name),
            (open, Highlight::Bracket),
            (path, Highlight::Wrong),
            (close, Highlight::Bracket),
        ] = four
        else {
            continue;
        };
        let quoted = text[path.clone()].strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let (Some(path_text), "load", "(", ")") =
            (quoted, &text[load.clone()], &text[open.clone()], &text[close.clone()])
        else {
            continue;
        };
        let at = path.clone();
        let place = Place::parse(path_text).map_err(|error| SessionError::Load {
            error,
            source: source.clone(),
            at: at.clone(),
        })?;
        let whole = load.start..close.end;
        let plain = |byte: u8| if byte.is_ascii_alphanumeric() { char::from(byte) } else { '_' };
        let mut name: String = text[whole.clone()].bytes().map(plain).collect();
        // Two paths may yield the same name. The last byte, which was a bracket, is used to tell
        // them apart.
        for last in "_0123456789".chars() {
            name.pop();
            name.push(last);
            if loads.get(&name).is_none_or(|other| other.place == place) {
                break;
            }
        }
        code.replace_range(whole, &name);
        loads.insert(name, Load { place, at });
    }
    Ok((code, loads))
}
