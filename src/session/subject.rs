//! Compiles an expression of a session as a function. Its parameters are the values that the
//! expression mentions, with their current shapes. So shapes that do not fit are found before
//! anything runs, and drawn under the typed text.

use std::sync::Arc;
use std::time::Instant;

use compiler::check::codes::HOLE;
use grammar::Diagnostic;
use grammar::ast::{self, Entry, ExprKind, File, Let, ModuleId, Name, Param, Span, Type};

use super::input::{Reading, word};
use super::{Session, SessionError};
use crate::{Array, CallOptions, Cancel, Errors, Function, Options, Program, Signature, files};

/// A function to be compiled, and the values to call it with.
///
/// ```
/// use fuseloop::{Cancel, Options, Session};
///
/// let mut session = Session::default();
/// session.enter("let x = [1.0, 2.0, 3.5]")?;
///
/// // An expression is compiled as a function of the values that it mentions.
/// let subject = session.subject("sum(x * x)")?;
/// assert!(!subject.is_function());
/// assert_eq!(subject.inputs()?.len(), 1);
/// let explanation = subject.function().explain(&Options::default(), &[]).expect("it compiles");
/// assert_eq!(explanation.kernels_after(), 1);
/// let results = subject.run(&Options::default(), &Cancel::default())?;
/// assert_eq!(results[0].1.as_slice::<f32>().expect("of that type"), [17.25]);
///
/// // A function that is only named has no arguments yet.
/// session.enter("fn twice(x: f32[n]) = 2 * x")?;
/// assert!(session.subject("twice")?.is_function());
/// # Ok::<(), fuseloop::SessionError>(())
/// ```
#[derive(Debug)]
pub struct Subject {
    program: Program,
    /// `None` if a function was only named, so that its arguments are unknown.
    inputs: Option<Vec<Arc<Array>>>,
    /// The names that the called function gives its results.
    names: Vec<Option<String>>,
}

/// The name of the function.
const NAME: &str = "it";
/// The hint for a `_` without a last value.
const NO_LAST: &str =
    "`_` is the value of the entry before, if that had one; of several each gets a name: `let (a, b) = f(x)`";

impl Subject {
    /// The function of that name.
    pub(super) fn named(reading: &Reading, name: &str) -> Result<Subject, SessionError> {
        Ok(Subject { program: checked(reading, &reading.file, name, |_| {})?, inputs: None, names: vec![] })
    }

    /// A `let` or an expression.
    pub(super) fn new(session: &Session, reading: &Reading, entry: &Entry) -> Result<Subject, SessionError> {
        let mut file = reading.file.clone();
        let (span, lets, result) = match entry {
            Entry::Use(_) => return Err(SessionError::Subject("a `use` has no value".to_owned())),
            Entry::Function(function) => return Subject::named(reading, &function.name.text),
            Entry::Value(value) => (file.exprs[*value].span, vec![], *value),
            Entry::Let(one) => (one.span, vec![one.clone()], result(&mut file, one)),
        };
        let within = |at: Span| span.start <= at.start && at.end <= span.end;
        let mut mentioned: Vec<Name> = vec![];
        // A `let` does not yet mention the names that it binds.
        let exprs = reading.input.exprs.values().filter(|e| within(e.span));
        for (text, at) in exprs.filter_map(|e| Some((word(e)?, e.span))) {
            if !mentioned.iter().any(|name| name.text == text) {
                mentioned.push(Name { text: text.to_owned(), span: at });
            }
        }
        let (mut params, mut inputs) = (vec![], vec![]);
        for name in mentioned {
            let value = match (reading.loads.get(&name.text), session.values.get(&name.text)) {
                (Some(load), _) => Arc::new(files::read(&load.place).map_err(|error| SessionError::Load {
                    error,
                    source: reading.source.as_ref().clone(),
                    at: load.at.clone(),
                })?),
                (None, Some(value)) => Arc::clone(value),
                (None, None) => continue,
            };
            let ty = type_of(&mut file, &value, name.span);
            params.push(Param { name, ty });
            inputs.push(value);
        }
        let names = names(&file, result);
        let mut name = NAME.to_owned();
        while file.functions.iter().any(|function| function.name.text == name) {
            name.push('_');
        }
        let at = Name { text: name.clone(), span };
        file.functions.push(ast::Function {
            decorators: vec![],
            module: ModuleId::PROGRAM,
            name: at,
            params,
            results: None,
            condition: None,
            lets,
            result,
            signature: span,
            span,
        });
        let no_last = |error: &mut Diagnostic| {
            if error.code == HOLE && error.labels.first().is_some_and(|label| within(label.span)) {
                error.message = "there is no last value".to_owned();
                error.help = Some(NO_LAST.to_owned());
            }
        };
        let program = checked(reading, &file, &name, no_last)?;
        Ok(Subject { program, inputs: Some(inputs), names })
    }

    /// The function.
    pub fn function(&self) -> Function<'_> {
        self.program.first()
    }

    /// The parameters and results of the function.
    pub fn signature(&self) -> &Signature {
        self.function().signature()
    }

    /// Whether the arguments are unknown because the function was named but not called.
    pub fn is_function(&self) -> bool {
        self.inputs.is_none()
    }

    /// The values to call the function with; an error if they are unknown.
    ///
    /// # Errors
    ///
    /// [`SessionError::Subject`] for a function.
    pub fn inputs(&self) -> Result<&[Arc<Array>], SessionError> {
        let named = || SessionError::Subject(format!("`{}` is a function: call it", self.signature().name));
        self.inputs.as_deref().ok_or_else(named)
    }

    /// Its values, each with the name of the result. `cancel` can end the call.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if it cannot be compiled, or if the call fails.
    pub fn run(&self, options: &Options, cancel: &Cancel) -> Result<Vec<(String, Arc<Array>)>, SessionError> {
        let inputs = self.inputs()?;
        let kernel = self.function().compile(options)?;
        let results = kernel.call_with(inputs, &CallOptions::until(cancel))?;
        let given = |k: usize| self.names.get(k).cloned().flatten();
        let slots = kernel.signature().results.iter().enumerate();
        let names = slots.map(|(k, slot)| given(k).unwrap_or_else(|| slot.name.clone()));
        Ok(names.zip(results.into_iter().map(Arc::new)).collect())
    }
}

/// Checks a function and returns it as a program of its own. `reword` may rephrase its errors.
fn checked(
    reading: &Reading,
    file: &File,
    name: &str,
    reword: impl Fn(&mut Diagnostic),
) -> Result<Program, SessionError> {
    let start = Instant::now();
    let checked = compiler::check::check(file, name).map_err(|mut errors| {
        errors.iter_mut().for_each(reword);
        Errors::new(Arc::clone(&reading.source), errors)
    })?;
    Ok(Program::single(Arc::clone(&reading.source), checked, (reading.time, start.elapsed())))
}

/// The names of the results, if the expression is a call of a function with several named results.
fn names(file: &File, result: ast::ExprId) -> Vec<Option<String>> {
    let ExprKind::Call { callee, .. } = &file.exprs[result].kind else { return vec![] };
    let called = file.functions.iter().find(|function| function.name.text == callee.text);
    match called.and_then(|function| function.results.as_ref()) {
        Some(ast::Results::Tuple(parts)) => {
            parts.iter().map(|(name, _)| name.as_ref().map(|name| name.text.clone())).collect()
        }
        _ => vec![],
    }
}

/// The type of a value, as a parameter declares it.
fn type_of(file: &mut File, value: &Array, span: Span) -> Type {
    let name = value.dtype().name();
    let dtype = ast::Dtype::ALL.into_iter().find(|dtype| dtype.name() == name).unwrap_or(ast::Dtype::F32);
    let shape = value.shape().iter().map(|n| file.exprs.push(ast::Expr::new(ExprKind::Int(*n as u64), span)));
    Type { dtype, shape: shape.collect(), span }
}

/// The names that a `let` binds, as the result of a function.
fn result(file: &mut File, one: &Let) -> ast::ExprId {
    let mut name = |name: &Name| file.exprs.push(ast::Expr::new(ExprKind::Name(name.text.clone()), name.span));
    match one.names().as_slice() {
        [one] => name(one),
        names => {
            let parts: Vec<_> = names.iter().map(|one| name(one)).collect();
            let ends = |names: &[&Name]| Some((names.first()?.span.start, names.last()?.span.end));
            let (start, end) = ends(names).unwrap_or_default();
            file.exprs.push(ast::Expr::new(ExprKind::Tuple(parts), Span { start, end }))
        }
    }
}
