//! Names in a function that nothing uses: parameters and `let`s; and recurrences that use none of
//! their own.

use std::collections::BTreeSet;

use grammar::Diagnostic;
use grammar::ast::{Binder, Definition, Equation, ExprId, ExprKind, File, Function, Let, Name, Pattern, Results, Span};

use super::reducers::Reducer;
use super::{codes, is_meant, underscore};

/// The warnings about the names of a function.
pub(super) fn unused(file: &File, function: &Function) -> Vec<Diagnostic> {
    let names = Names::default();
    let mut walk = Walk { file, scope: vec![], names, found: vec![] };
    walk.signature(function);
    walk.block(&function.lets, function.result);
    walk.names.sizes_use_parameters(file, function);
    walk.found.extend(walk.names.warnings());
    walk.found
}

/// The kind of thing that a name stands for.
#[derive(Clone, Copy)]
enum Kind<'a> {
    Parameter,
    Let,
    /// One name of a `let` that has several.
    Part,
    /// An array of a `let rec`.
    Recurrence,
    /// A length of parameters.
    Size,
    /// An index of a `let`.
    Index(&'a Binder),
    /// Another index, or a state of a loop.
    Other,
}

struct Declared<'a> {
    text: &'a str,
    span: Span,
    kind: Kind<'a>,
    used: bool,
}

/// The names that a function declares, in the order in which they come into scope.
#[derive(Default)]
struct Names<'a>(Vec<Declared<'a>>);

/// The walk through a function that finds the uses of its names.
struct Walk<'a> {
    file: &'a File,
    /// The numbers of the names in scope, the innermost last.
    scope: Vec<usize>,
    names: Names<'a>,
    found: Vec<Diagnostic>,
}

impl<'a> Walk<'a> {
    /// The names of the signature, and the uses of names in it. Integer parameters and sizes may
    /// stand in the types of all parameters.
    fn signature(&mut self, function: &'a Function) {
        let (numbers, arrays): (Vec<_>, Vec<_>) = function.params.iter().partition(|param| param.ty.shape.is_empty());
        numbers.iter().for_each(|param| self.declare(&param.name, Kind::Parameter));
        // A length that is a name alone declares it, and is no use of it.
        let is_name = |dim: &&ExprId| matches!(self.file.exprs[**dim].kind, ExprKind::Name(_));
        let (alone, others): (Vec<_>, Vec<_>) = arrays.iter().flat_map(|param| &param.ty.shape).partition(is_name);
        let file = self.file;
        for (is_use, dims) in [(false, alone), (true, others)] {
            for (name, span) in dims.into_iter().flat_map(|dim: &ExprId| names(file, *dim)) {
                match self.find(name) {
                    Some(number) => {
                        let known = &mut self.names.0[number];
                        known.used |= is_use || matches!(known.kind, Kind::Parameter);
                    }
                    None => self.push(name, span, Kind::Size),
                }
            }
        }
        arrays.iter().for_each(|param| self.declare(&param.name, Kind::Parameter));
        let types = match &function.results {
            None => vec![],
            Some(Results::One(ty)) => vec![ty],
            Some(Results::Tuple(types)) => types.iter().map(|(_, ty)| ty).collect(),
        };
        types.iter().flat_map(|ty| &ty.shape).for_each(|size| self.expr(*size));
        function.condition.iter().for_each(|condition| self.expr(*condition));
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.scope.iter().rev().copied().find(|number| self.names.0[*number].text == name)
    }

    fn push(&mut self, text: &'a str, span: Span, kind: Kind<'a>) {
        self.scope.push(self.names.0.len());
        self.names.0.push(Declared { text, span, kind, used: false });
    }

    fn declare(&mut self, name: &'a Name, kind: Kind<'a>) {
        self.push(&name.text, name.span, kind);
    }

    /// The statements of a block and its result. Its names are no longer in scope after it.
    fn block(&mut self, lets: &'a [Let], result: ExprId) {
        let depth = self.scope.len();
        lets.iter().for_each(|one| self.statement(one));
        self.expr(result);
        self.scope.truncate(depth);
    }

    fn statement(&mut self, one: &'a Let) {
        match &one.definition {
            Definition::Values { target, value } => {
                self.under(&target.binders, Kind::Index, &[*value]);
                let kind = match target.pattern {
                    Pattern::Name(_) => Kind::Let,
                    Pattern::Tuple(_) => Kind::Part,
                };
                target.pattern.names().iter().for_each(|name| self.declare(name, kind));
            }
            Definition::Recurrence(equations) => self.recurrence(one.span, equations),
        }
    }

    fn recurrence(&mut self, span: Span, equations: &'a [Equation]) {
        let first = self.names.0.len();
        equations.iter().for_each(|equation| self.declare(&equation.name, Kind::Recurrence));
        let mut refers = false;
        for (k, equation) in equations.iter().enumerate() {
            let used = self.names.0[first + k].used;
            self.under(&equation.binders, |_| Kind::Other, &[equation.value]);
            refers |= self.names.0[first..][..equations.len()].iter().any(|declared| declared.used);
            // An array that only its own elements need is not used.
            self.names.0[first + k].used = used;
        }
        if refers {
            return;
        }
        let name = &equations[0].name;
        let message = format!("`{}` does not refer to itself", name.text);
        let warning = Diagnostic::new(codes::NO_RECURRENCE, name.span, message);
        let begin = Span { start: span.start, end: name.span.start };
        self.found.push(match equations {
            [_] => warning.help("its elements do not depend on each other: write `let`").suggest(begin, "let "),
            _ => warning.help("none of these arrays needs another: write a `let` for each"),
        });
    }

    /// Expressions that some indices are in scope of.
    fn under(&mut self, binders: &'a [Binder], kind: impl Fn(&'a Binder) -> Kind<'a>, exprs: &[ExprId]) {
        let depth = self.scope.len();
        for binder in binders {
            binder.bounds().for_each(|bound| self.expr(bound.limit));
            self.declare(&binder.name, kind(binder));
        }
        exprs.iter().for_each(|id| self.expr(*id));
        self.scope.truncate(depth);
    }

    fn expr(&mut self, id: ExprId) {
        stacker::maybe_grow(64 << 10, 1 << 20, || self.parts(id));
    }

    fn parts(&mut self, id: ExprId) {
        let file = self.file;
        match &file.exprs[id].kind {
            ExprKind::Name(name) => {
                if let Some(number) = self.find(name) {
                    self.names.0[number].used = true;
                }
            }
            ExprKind::Reduce { callee, binders, filter, body } => {
                if let [binder] = binders.as_slice() {
                    let reducer = Reducer { callee: &callee.text, binder, filter: *filter, body: *body };
                    let outer = |name: &str| match self.names.0[self.find(name)?].kind {
                        Kind::Index(binder) => Some(binder),
                        _ => None,
                    };
                    let warning = reducer.warning(file, &outer);
                    self.found.extend(warning);
                }
                let parts: Vec<ExprId> = filter.iter().copied().chain([*body]).collect();
                self.under(binders, |_| Kind::Other, &parts);
            }
            ExprKind::Loop(one) => {
                one.states.iter().for_each(|state| self.expr(state.first));
                let depth = self.scope.len();
                self.under(one.counter.as_slice(), |_| Kind::Other, &[]);
                one.counter.iter().for_each(|counter| self.declare(&counter.name, Kind::Other));
                one.states.iter().for_each(|state| self.declare(&state.name, Kind::Other));
                one.condition.iter().for_each(|condition| self.expr(*condition));
                self.block(&one.body.lets, one.body.result);
                self.scope.truncate(depth);
            }
            kind => kind.for_each_operand(|operand| self.expr(operand)),
        }
    }
}

impl Names<'_> {
    /// A size that is used needs a parameter that brings it: if the value of none of these is used,
    /// the first one is there for its size.
    fn sizes_use_parameters(&mut self, file: &File, function: &Function) {
        let sizes = self.0.iter().filter(|name| matches!(name.kind, Kind::Size) && name.used);
        let sizes: Vec<String> = sizes.map(|size| size.text.to_owned()).collect();
        for size in sizes {
            let bring = |brings: &dyn Fn(ExprId) -> bool| -> BTreeSet<Span> {
                let bring = function.params.iter().filter(|param| param.ty.shape.iter().any(|dim| brings(*dim)));
                bring.map(|param| param.name.span).collect()
            };
            let alone = bring(&|dim| matches!(&file.exprs[dim].kind, ExprKind::Name(name) if *name == size));
            let bring = match alone.is_empty() {
                true => bring(&|dim| names(file, dim).any(|(name, _)| name == size)),
                false => alone,
            };
            let mut bringing = self.0.iter_mut().filter(|name| bring.contains(&name.span));
            if let Some(first) = bringing.next()
                && !bringing.any(|other| other.used)
            {
                first.used = true;
            }
        }
    }

    fn warnings(&self) -> impl Iterator<Item = Diagnostic> {
        let unused = self.0.iter().filter(|name| !name.used && !is_meant(name.text));
        unused.filter_map(|name| {
            let (code, message) = match name.kind {
                Kind::Parameter => (codes::UNUSED_PARAMETER, format!("the parameter `{}` is never used", name.text)),
                Kind::Let | Kind::Part | Kind::Recurrence => {
                    (codes::UNUSED_LET, format!("`{}` is never used", name.text))
                }
                Kind::Size | Kind::Index(_) | Kind::Other => return None,
            };
            let warning = Diagnostic::new(code, name.span, message);
            let meant = format!("_{}", name.text);
            Some(match name.kind {
                Kind::Part => warning.help("leave it out").suggest(name.span, "_"),
                // The array mentions itself by its name.
                Kind::Recurrence => warning.help("remove it"),
                _ if self.0.iter().any(|other| other.text == meant) => warning.help("remove it"),
                _ => underscore(warning, name.span),
            })
        })
    }
}

/// The names in an expression, and where each stands.
pub(super) fn names(file: &File, id: ExprId) -> impl Iterator<Item = (&str, Span)> + Clone {
    let (mut pending, mut found) = (vec![id], vec![]);
    while let Some(id) = pending.pop() {
        let expr = &file.exprs[id];
        match &expr.kind {
            ExprKind::Name(name) => found.push((name.as_str(), expr.span)),
            kind => kind.for_each_operand(|operand| pending.push(operand)),
        }
    }
    found.into_iter()
}
