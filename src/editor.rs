//! The words and names of a text that is being written, for editors: errors in some functions keep
//! out no others.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use compiler::check::{Slot, check, function_named};
use grammar::ast::{File, Function, ModuleId, Span};
use grammar::{Highlight, highlight};
pub use grammar::{Occurrence, Role};
use ir::checked::Checked;

use crate::link::link_uses;
#[cfg(feature = "reports")]
use crate::{CompileError, ExplainError, Explanation, Options};
use crate::{Loader, Signature, Source, boundary};

mod checks;
mod hints;

pub use checks::Checks;
pub use hints::{Hint, HintKind};

/// The names that may follow `@` before a function.
const DECORATORS: [&str; 2] = ["fast", "kernels"];

/// The functions and names of a text, with those of the files that it uses.
///
/// ```
/// use fuseloop::editor::Names;
///
/// let names = Names::new("fn f(x: f32[n]) = x + x\nfn g(x: f32[n]) = ", None);
/// let x = names.at(5).expect("the parameter");
/// assert_eq!((x.text.as_str(), names.same(&x).len()), ("x", 3));
/// assert_eq!(names.type_of(&x).as_deref(), Some("f32[n]"));
/// ```
#[derive(Debug, Default)]
pub struct Names {
    source: Arc<Source>,
    file: File,
    /// The functions that have been checked; `None` for those with errors.
    checked: Mutex<BTreeMap<String, Option<Arc<Checked>>>>,
}

/// A function where it stands.
#[derive(Clone, Debug)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// The place of its name.
    pub at: Range<usize>,
    /// All of it.
    pub bytes: Range<usize>,
    /// Its signature as it is written.
    pub signature: String,
    /// The comment in the lines right above it.
    pub comment: String,
}

/// The class of a word, by which editors colour it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `fn`, `let`, `if` and their like.
    Keyword,
    /// `f32` and its like.
    Type,
    /// A name that is not called.
    Variable,
    /// The name of a function where it is defined.
    Definition,
    /// A function that is called.
    Function,
    /// A function of the language that is called.
    Builtin,
    /// `kernels` in `@kernels(1)`.
    Decorator,
    /// A number.
    Number,
    /// The path of a file, in quotes.
    Text,
    /// An operator or punctuation.
    Operator,
    /// From `#` to the end of the line.
    Comment,
}

/// The words of a text that have a class, in order.
///
/// ```
/// use fuseloop::editor::{Class, words};
///
/// let classes: Vec<Class> = words("exp(x)").into_iter().map(|(_, class)| class).collect();
/// assert_eq!(classes, [Class::Builtin, Class::Variable]);
/// assert_eq!(words("sum[i](x[i])")[0].1, Class::Builtin);
/// ```
pub fn words(text: &str) -> Vec<(Range<usize>, Class)> {
    let words = highlight(text);
    let word = |at: usize| words.get(at).and_then(|(span, _)| text.get(bytes(*span)));
    // For each bracket the number of the word that closes it.
    let (mut open, mut closed) = (vec![], BTreeMap::new());
    for at in (0..words.len()).filter(|at| words[*at].1 == Highlight::Bracket) {
        match word(at) {
            Some("(" | "[" | "{") => open.push(at),
            _ => closed.extend(open.pop().map(|opening| (opening, at))),
        }
    }
    // A reducer has indices before its arguments: `sum[i < n](x[i])`. Brackets in the next line
    // belong to the next statement.
    let is_called = |name: usize| {
        let indices = closed.get(&(name + 1)).filter(|_| word(name + 1) == Some("["));
        let last = *indices.unwrap_or(&name);
        let gap = words.get(last).zip(words.get(last + 1)).map(|((a, _), (b, _))| a.end as usize..b.start as usize);
        word(last + 1) == Some("(") && gap.and_then(|gap| text.get(gap)).is_some_and(|gap| !gap.contains('\n'))
    };
    let class = |at: usize, class: Highlight| {
        let before = at.checked_sub(1).and_then(word);
        Some(match class {
            Highlight::Keyword => Class::Keyword,
            Highlight::Type => Class::Type,
            Highlight::Name if before == Some("fn") => Class::Definition,
            Highlight::Name if before == Some("@") && DECORATORS.contains(&word(at).unwrap_or_default()) => {
                Class::Decorator
            }
            Highlight::Name if is_called(at) => {
                let known = crate::reference::find(word(at).unwrap_or_default());
                if known.iter().any(|entry| entry.kind.is_called()) { Class::Builtin } else { Class::Function }
            }
            Highlight::Name => Class::Variable,
            Highlight::Number => Class::Number,
            Highlight::Text => Class::Text,
            Highlight::Mark => Class::Operator,
            Highlight::Comment => Class::Comment,
            Highlight::Bracket | Highlight::Wrong => return None,
        })
    };
    words.iter().enumerate().filter_map(|(at, (span, one))| Some((bytes(*span), class(at, *one)?))).collect()
}

fn bytes(span: Span) -> Range<usize> {
    span.start as usize..span.end as usize
}

impl Names {
    /// Reads a text and the files that it uses; errors are left to
    /// [`Program::parse_with`](crate::Program::parse_with).
    pub fn new(source: impl Into<Source>, loader: Option<&dyn Loader>) -> Names {
        let mut source = source.into();
        let read = || {
            let mut file = File::default();
            grammar::recover_module(&source.text, 0, &mut file);
            // Files that cannot be read have no names.
            _ = link_uses(&mut source, loader, &mut file);
            Ok(Names { file, source: Arc::new(std::mem::take(&mut source)), ..Names::default() })
        };
        boundary::enter(|_| (), read).unwrap_or_default()
    }

    /// The text, with the files that it uses.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The functions of the text.
    pub fn functions(&self) -> impl Iterator<Item = Declared> {
        self.file.own().map(|function| self.declared(function))
    }

    /// The names of all functions of the program that the text can call.
    pub fn callable(&self) -> Vec<Declared> {
        let names = compiler::check::callable(&self.file, ModuleId::PROGRAM);
        // A name of the text itself means that one, which is looked up faster.
        let own: BTreeMap<&str, &Function> = self.file.own().map(|one| (one.name.text.as_str(), one)).collect();
        let found = |name: &String| match own.get(name.as_str()) {
            Some(function) => Some(self.declared(function)),
            None => self.function(name),
        };
        names.iter().filter_map(found).collect()
    }

    /// The function of the program that a name means in the text.
    pub fn function(&self, name: &str) -> Option<Declared> {
        let number = function_named(&self.file, ModuleId::PROGRAM, name)?;
        Some(self.declared(&self.file.functions[number]))
    }

    fn declared(&self, function: &Function) -> Declared {
        let written = self.source.text.get(bytes(function.signature)).unwrap_or_default();
        let start = function.decorators.first().map_or(function.span.start, |first| first.span.start) as usize;
        let bytes_of = start..function.span.end as usize;
        let before = self.source.text.get(..start).unwrap_or_default();
        let above = before.rsplit('\n').skip(1).map(str::trim).take_while(|line| line.starts_with('#'));
        let mut lines: Vec<&str> = above.map(|line| line.trim_start_matches('#').trim_start()).collect();
        lines.reverse();
        Declared {
            name: function.name.text.clone(),
            at: bytes(function.name.span),
            bytes: bytes_of,
            signature: written.to_owned(),
            comment: lines.join("\n"),
        }
    }

    /// All names in the functions of the text.
    pub fn all(&self) -> Vec<Occurrence> {
        self.inside(self.file.own()).collect()
    }

    /// The names in one of the functions of the text.
    pub fn within(&self, function: &Declared) -> Vec<Occurrence> {
        let is_it = |one: &&Function| bytes(one.name.span) == function.at;
        self.file.own().filter(is_it).flat_map(|function| grammar::occurrences(&self.file, function)).collect()
    }

    /// The name at a byte of the text, or right before it.
    pub fn at(&self, at: usize) -> Option<Occurrence> {
        let is_there = |span: Span| (span.start as usize..=span.end as usize).contains(&at);
        let near = self.file.own().filter(|function| is_there(function.span));
        self.inside(near).find(|one| is_there(one.span))
    }

    /// The names in some functions of the text, and those that it picks from files.
    fn inside<'a>(&'a self, functions: impl Iterator<Item = &'a Function>) -> impl Iterator<Item = Occurrence> {
        let picks = self.file.modules.get(ModuleId::PROGRAM).into_iter().flat_map(|module| &module.uses);
        let picked = picks.flat_map(|one| &one.names).map(|name| Occurrence {
            text: name.text.clone(),
            span: name.span,
            role: Role::Function,
            declared: None,
            is_use: false,
        });
        functions.flat_map(|function| grammar::occurrences(&self.file, function)).chain(picked)
    }

    /// Where a name is declared: a range of [`Names::source`]. `None` for those of the language.
    pub fn declaration(&self, one: &Occurrence) -> Option<Range<usize>> {
        one.declared.map(bytes).or_else(|| Some(self.function(&one.text)?.at))
    }

    /// All places in the text where the same name stands, in order.
    pub fn same(&self, one: &Occurrence) -> Vec<Range<usize>> {
        let is = |other: &Occurrence| {
            other.text == one.text && (other.role, one.role) == (Role::Function, Role::Function)
                || other.text == one.text && other.declared.is_some() && other.declared == one.declared
        };
        let mut same: Vec<Range<usize>> =
            self.all().iter().filter(|other| is(other)).map(|other| bytes(other.span)).collect();
        same.sort_by_key(|place| place.start);
        same.dedup();
        same
    }

    /// The checked signature of a function of the text that has no errors.
    pub fn signature(&self, name: &str) -> Option<Signature> {
        Some(Signature::new(&*self.checked(name)?))
    }

    /// A function of the program, checked; `None` if it has errors.
    fn checked(&self, name: &str) -> Option<Arc<Checked>> {
        // A panic leaves no entry half written.
        let mut known = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(checked) = known.get(name) {
            return checked.clone();
        }
        let checked = boundary::enter(|_| (), || check(&self.file, name).map_err(|_| ())).ok().map(Arc::new);
        known.insert(name.to_owned(), checked.clone());
        checked
    }

    /// The report on a function of the program, as [`explain`](crate::Function::explain) gives it;
    /// `None` if the function has errors, whatever others have.
    ///
    /// ```
    /// use fuseloop::Options;
    /// use fuseloop::editor::Names;
    ///
    /// let names = Names::new("fn f(x: f32[n]) = sum(x)\nfn g(x: f32[n]) = y", None);
    /// let explained = names.explain("f", &Options::default(), &[("n", 10)]).expect("no error is in it");
    /// assert_eq!(explained?.kernels_after(), 1);
    /// assert!(names.explain("g", &Options::default(), &[]).is_none());
    /// # Ok::<(), fuseloop::ExplainError>(())
    /// ```
    #[cfg(feature = "reports")]
    pub fn explain(
        &self,
        name: &str,
        options: &Options,
        sizes: &[(&str, i64)],
    ) -> Option<Result<Explanation, ExplainError>> {
        let checked = self.checked(name)?;
        let fault = |message| ExplainError::Compile(CompileError::fault(message));
        Some(boundary::enter(fault, || Explanation::new(Arc::clone(&self.source), &checked, options, sizes)))
    }

    /// The function of the text that a place is in.
    fn around(&self, place: Span) -> Option<&Function> {
        self.file.own().find(|f| f.span.start <= place.start && place.end <= f.span.end)
    }

    /// The type of a parameter or `let`, as the source would write it, if its function has no
    /// errors.
    pub fn type_of(&self, one: &Occurrence) -> Option<String> {
        let declared = one.declared?;
        let function = self.around(declared)?;
        let checked = self.checked(&function.name.text)?;
        if one.role == Role::Parameter {
            let param = checked.params.iter().find(|param| param.name == one.text)?;
            return Some(Slot::new(&checked, &one.text, &param.ty).ty());
        }
        let statement = function.lets.iter().find(|one| one.names().iter().any(|name| name.span == declared))?;
        hints::type_of(&hints::Values::new(&checked), statement, &one.text)
    }
}
