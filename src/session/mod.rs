//! A session: named functions and values, and text that is entered piece by piece, as at a prompt.
//!
//! ```
//! use fuseloop::{Outcome, Scalar, Session};
//!
//! let mut session = Session::default();
//! session.enter("fn twice(x: f32[n]) = 2 * x")?;
//! session.enter("let x = [1.0, 2.0, 3.5]")?;
//! let outcomes = session.enter("sum(twice(x))")?;
//! let [Outcome::Value { results }] = outcomes.as_slice() else { panic!("one value") };
//! assert_eq!(results[0].1.get(0), Some(Scalar::F32(13.0)));
//! # Ok::<(), fuseloop::SessionError>(())
//! ```
//!
//! A session is cheap to clone: text can be entered into a clone on another thread, which replaces
//! the original if all goes well.

mod input;
mod subject;
mod used;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use grammar::ast::Entry;

use crate::boundary;
use crate::files::FileError;
use crate::render::draw;
use crate::{Array, Cancel, CompileError, Errors, Options, Report, RunError, Signature, Source, Style, Warnings};

use input::{Reading, place, word};
pub use input::{Typed, is_name};
pub use subject::Subject;
use used::{Line, Remembered};

/// The name of the last value.
pub const LAST: &str = "_";

/// The name that errors use for typed text.
pub const PROMPT: &str = "<input>";

/// Functions and values by name.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// How entries are compiled and run.
    pub options: Options,
    functions: BTreeMap<String, Arc<Definition>>,
    values: BTreeMap<String, Arc<Array>>,
    /// The files and libraries that are used, and their texts.
    used: Vec<Line>,
    files: Arc<Remembered>,
}

/// A function as it was entered.
#[derive(Clone, Debug)]
struct Definition {
    text: String,
    /// The name of the text in which it was entered, and its line there.
    name: String,
    line: usize,
    /// Its signature, or the errors about functions that it calls but that are not defined yet.
    signature: Result<Signature, Errors>,
    /// The names of the functions that it calls.
    calls: Vec<String>,
}

/// The result of an entry.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Functions of a file or library can be called.
    Used {
        /// The `use`, with the path from the current folder.
        line: String,
        /// The functions.
        names: Vec<String>,
    },
    /// A function is defined.
    Defined {
        /// Its parameters and results.
        signature: Signature,
        /// The parts of it that are probably not meant.
        warnings: Warnings,
    },
    /// A function calls others that are not defined yet. It is checked once they are.
    Waits {
        /// The function.
        name: String,
        /// The errors about the missing functions.
        errors: Errors,
    },
    /// A function that waited for another one does not fit it, and is dropped.
    Refused {
        /// The errors.
        errors: Errors,
    },
    /// Values were bound to names.
    Bound {
        /// The names, each with its value.
        values: Vec<(String, Arc<Array>)>,
    },
    /// The entry is an expression with one value or several.
    Value {
        /// The values; several have a name each.
        results: Vec<(String, Arc<Array>)>,
    },
}

/// The reason why an entry failed. The session is unchanged.
#[derive(Debug)]
pub enum SessionError {
    /// The entry has errors.
    Program(Errors),
    /// It exceeds a limit of the compiler.
    Compile(CompileError),
    /// It was run and failed.
    Run(RunError),
    /// A file that it loads is missing or invalid.
    Load {
        /// The error in the file.
        error: FileError,
        /// The entry.
        source: Source,
        /// The place in it that names the file, in bytes.
        at: std::ops::Range<usize>,
    },
    /// It is not of the kind that is expected here.
    Subject(String),
}

impl Outcome {
    /// The name of the function that is defined, if one is.
    pub fn defined(&self) -> Option<&str> {
        match self {
            Outcome::Defined { signature, .. } => Some(&signature.name),
            _ => None,
        }
    }
}

impl Definition {
    /// The functions that it calls directly and that are not defined.
    fn missing<'d>(&'d self, session: &'d Session) -> impl Iterator<Item = &'d str> {
        let errors = self.signature.as_ref().err();
        let named =
            errors.into_iter().flat_map(|e| e.diagnostics().iter().filter_map(|error| place(e.source(), error)));
        let known = |name: &str| session.functions.contains_key(name) || session.has_used(name);
        named.filter(move |name| self.calls.iter().any(|callee| callee == name) && !known(name))
    }
}

/// An internal error, from any operation.
fn fault(message: String) -> SessionError {
    SessionError::Compile(CompileError::fault(message))
}

impl Session {
    /// A session without functions and values.
    pub fn new(options: Options) -> Session {
        Session { options, ..Session::default() }
    }

    /// Enters text: functions, `let`s and expressions, in any order, separated by newlines or `;`.
    /// After an error the session is unchanged.
    ///
    /// # Errors
    ///
    /// [`SessionError`] with the entry drawn, if it has errors or its evaluation fails.
    pub fn enter(&mut self, text: &str) -> Result<Vec<Outcome>, SessionError> {
        self.enter_from(PROMPT, text, &Cancel::default())
    }

    /// The same for a text with a name for errors to use, such as the file that it was read from.
    /// `cancel` can end it.
    ///
    /// # Errors
    ///
    /// As [`Session::enter`], and E0243 if the entry was cancelled.
    pub fn enter_from(&mut self, name: &str, text: &str, cancel: &Cancel) -> Result<Vec<Outcome>, SessionError> {
        let mut next = self.clone();
        let outcomes = boundary::enter(fault, || next.take(&Reading::new(self, name, text)?, cancel))?;
        *self = next;
        Ok(outcomes)
    }

    fn take(&mut self, reading: &Reading, cancel: &Cancel) -> Result<Vec<Outcome>, SessionError> {
        let mut outcomes = vec![];
        compiler::check::check_uses(&reading.file).map_err(|e| Errors::new(Arc::clone(&reading.source), e))?;
        for one in &reading.uses {
            let line = Line::new(one, &reading.file);
            outcomes.push(Outcome::Used { line: line.written(None), names: line.names.iter().cloned().collect() });
            self.used.retain(|other| !line.same(other));
            self.used.push(line);
        }
        self.files = Arc::clone(&reading.files);
        // The functions of one text may be in any order.
        for entry in &reading.input.entries {
            let Entry::Function(function) = entry else { continue };
            let definition = reading.define(function)?;
            outcomes.push(match &definition.signature {
                Ok(signature) => {
                    Outcome::Defined { signature: signature.clone(), warnings: reading.warnings(&function.name.text) }
                }
                Err(errors) => Outcome::Waits { name: function.name.text.clone(), errors: errors.clone() },
            });
            self.functions.insert(function.name.text.clone(), Arc::new(definition));
        }
        // A function that itself waits unblocks no other.
        if outcomes.iter().any(|outcome| matches!(outcome, Outcome::Defined { .. } | Outcome::Used { .. })) {
            outcomes.extend(self.check_waiting()?);
        }
        for entry in &reading.input.entries {
            let names: Vec<String> = match entry {
                Entry::Function(_) | Entry::Use(_) => continue,
                Entry::Value(_) => vec![],
                Entry::Let(one) => one.names().into_iter().map(|name| name.text.clone()).collect(),
            };
            let subject = Subject::new(self, reading, entry)?;
            let results = subject.run(&self.options, cancel)?;
            if names.is_empty() {
                match results.as_slice() {
                    [(_, only)] => self.values.insert(LAST.to_owned(), Arc::clone(only)),
                    // Several results set no last value, and clear the previous one.
                    _ => self.values.remove(LAST),
                };
                outcomes.push(Outcome::Value { results });
            } else {
                let values = names.into_iter().zip(results.into_iter().map(|(_, value)| value));
                // A hole names nothing.
                let values: Vec<_> = values.filter(|(name, _)| name != "_").collect();
                self.values.extend(values.iter().cloned());
                outcomes.push(Outcome::Bound { values });
            }
        }
        Ok(outcomes)
    }

    /// Checks the functions that waited, now that another is defined.
    fn check_waiting(&mut self) -> Result<Vec<Outcome>, SessionError> {
        let mut outcomes = vec![];
        let ready = self.ready();
        let reading = Reading::new(self, PROMPT, &ready.join("\n"))?;
        for name in ready {
            match reading.check(&name) {
                Ok(signature) => {
                    if let Ok(signature) = &signature {
                        let (signature, warnings) = (signature.clone(), reading.warnings(&name));
                        outcomes.push(Outcome::Defined { signature, warnings });
                    }
                    let definition = Definition { signature, ..Definition::clone(&self.functions[&name]) };
                    self.functions.insert(name, Arc::new(definition));
                }
                Err(errors) => {
                    self.functions.remove(&name);
                    outcomes.push(Outcome::Refused { errors });
                }
            }
        }
        Ok(outcomes)
    }

    /// The waiting functions that are ready to be checked: none of the functions that they call is
    /// undefined or itself waiting.
    fn ready(&self) -> Vec<String> {
        let waiting = self.functions.iter().filter(|(_, definition)| definition.signature.is_err());
        let (mut ready, mut callers) = (BTreeSet::new(), BTreeMap::<&str, Vec<&str>>::new());
        let mut stuck = vec![];
        for (name, definition) in waiting {
            ready.insert(name.as_str());
            definition.calls.iter().for_each(|callee| callers.entry(callee).or_default().push(name));
            if definition.missing(self).next().is_some() {
                stuck.push(name.as_str());
            }
        }
        while let Some(name) = stuck.pop() {
            if ready.remove(name) {
                stuck.extend(callers.get(name).into_iter().flatten());
            }
        }
        ready.into_iter().map(str::to_owned).collect()
    }

    /// The function that a text would compile: the one of that name, or an expression as a function
    /// of the values that it mentions.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the text has errors, or is neither.
    pub fn subject(&self, text: &str) -> Result<Subject, SessionError> {
        boundary::enter(fault, || self.read_subject(text))
    }

    fn read_subject(&self, text: &str) -> Result<Subject, SessionError> {
        let reading = Reading::new(self, PROMPT, text)?;
        match reading.input.entries.as_slice() {
            [Entry::Value(value)] => match word(&reading.input.exprs[*value]) {
                Some(name) if !self.values.contains_key(name) && self.has_function(name) => {
                    Subject::named(&reading, name)
                }
                _ => Subject::new(self, &reading, &reading.input.entries[0]),
            },
            [entry @ Entry::Let(_)] => Subject::new(self, &reading, entry),
            _ => Err(SessionError::Subject("expected an expression, or the name of a function".to_owned())),
        }
    }

    /// The names of the functions of files and libraries that can be called.
    pub fn used(&self) -> impl Iterator<Item = &str> {
        self.used.iter().flat_map(|line| &line.names).map(String::as_str)
    }

    fn has_used(&self, name: &str) -> bool {
        self.used.iter().any(|line| line.names.contains(name))
    }

    fn has_function(&self, name: &str) -> bool {
        self.functions.contains_key(name) || self.has_used(name)
    }

    /// The signature of each function, by name.
    pub fn functions(&self) -> impl Iterator<Item = &Signature> {
        self.functions.values().filter_map(|definition| definition.signature.as_ref().ok())
    }

    /// The functions that wait for others to be defined, which they call directly or indirectly.
    pub fn waiting(&self) -> impl Iterator<Item = &str> {
        let all = self.functions.iter();
        all.filter(|(_, definition)| definition.signature.is_err()).map(|(name, _)| name.as_str())
    }

    /// The errors about functions that are called but not defined.
    pub fn missing(&self) -> impl Iterator<Item = &Errors> {
        let called = self.functions.values().filter(|definition| definition.missing(self).next().is_some());
        called.filter_map(|definition| definition.signature.as_ref().err())
    }

    /// The values by name. The name of the last value is [`LAST`].
    pub fn values(&self) -> impl Iterator<Item = (&str, &Arc<Array>)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The value of a name.
    pub fn value(&self, name: &str) -> Option<&Arc<Array>> {
        self.values.get(name)
    }

    /// Binds a value to a name. It can be mentioned if [`is_name`].
    pub fn set(&mut self, name: &str, value: Arc<Array>) {
        self.values.insert(name.to_owned(), value);
    }

    /// Forgets the function and the value of a name, and returns whether there was one.
    pub fn forget(&mut self, name: &str) -> bool {
        let function = self.functions.remove(name);
        self.values.remove(name).is_some() || function.is_some()
    }

    /// Forgets all functions, values and used files.
    pub fn clear(&mut self) {
        self.used.clear();
        self.functions.clear();
        self.values.clear();
    }

    /// The functions as a program that is to be in a folder, with the files that it uses.
    pub fn source(&self, folder: &Path) -> String {
        let used: String = self.used.iter().map(|line| line.written(Some(folder)) + "\n").collect();
        let gap = if used.is_empty() || self.functions.is_empty() { "" } else { "\n" };
        let texts: Vec<&str> = self.functions.values().map(|definition| definition.text.trim()).collect();
        used + gap + &texts.iter().map(|text| format!("{text}\n")).collect::<Vec<_>>().join("\n")
    }
}

impl SessionError {
    /// The error with its reasons, drawn over the entry if it has a place there.
    pub fn render(&self, style: Style) -> String {
        match self {
            SessionError::Program(errors) => errors.render(style),
            SessionError::Compile(error) => error.render(style),
            SessionError::Run(error) => error.render(style),
            SessionError::Load { error, source, at } => {
                let report = Report { labels: vec![(at.clone(), String::new())], ..error.report() };
                draw(source, &report, style)
            }
            SessionError::Subject(message) => {
                let report = Report { message: message.clone(), ..Report::default() };
                draw(&Source::default(), &report, style)
            }
        }
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(Style::Plain))
    }
}

impl std::error::Error for SessionError {}

impl From<Errors> for SessionError {
    fn from(error: Errors) -> SessionError {
        SessionError::Program(error)
    }
}

impl From<CompileError> for SessionError {
    fn from(error: CompileError) -> SessionError {
        SessionError::Compile(error)
    }
}

impl From<RunError> for SessionError {
    fn from(error: RunError) -> SessionError {
        SessionError::Run(error)
    }
}

#[cfg(test)]
mod tests;
