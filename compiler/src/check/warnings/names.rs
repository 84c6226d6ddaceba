//! Names in a function that nothing uses: parameters and `let`s; and recurrences that use none of
//! their own.

use std::collections::{BTreeMap, BTreeSet};

use grammar::ast::{Binder, Definition, ExprId, ExprKind, File, Function, Let, Pattern, Results, Span, Type};
use grammar::{Diagnostic, Occurrence, Role, mentioned, occurrences};

use super::reducers::Reducer;
use super::{codes, is_meant, underscore};

/// The warnings about the names of a function.
pub(super) fn unused(file: &File, function: &Function) -> Vec<Diagnostic> {
    let body = Body::new(file, function);
    let recurrences = body.lets.iter().filter_map(|one| body.no_recurrence(one));
    body.unused().chain(recurrences).chain(body.reducers()).collect()
}

/// A function, taken apart.
struct Body<'a> {
    file: &'a File,
    function: &'a Function,
    names: Vec<Occurrence>,
    /// The `let`s, also those within loops.
    lets: Vec<&'a Let>,
    /// The reducers with one index.
    reducers: Vec<Reducer<'a>>,
}

impl<'a> Body<'a> {
    fn new(file: &'a File, function: &'a Function) -> Body<'a> {
        let mut body = Body {
            file,
            function,
            names: occurrences(file, function),
            lets: function.lets.iter().collect(),
            reducers: vec![],
        };
        let types: Vec<&Type> = match &function.results {
            None => vec![],
            Some(Results::One(ty)) => vec![ty],
            Some(Results::Tuple(types)) => types.iter().map(|(_, ty)| ty).collect(),
        };
        let mut pending: Vec<ExprId> = types.iter().flat_map(|ty| &ty.shape).copied().collect();
        pending.extend(function.condition);
        for one in &function.lets {
            pending.extend(one.binders().into_iter().flat_map(Binder::bounds).map(|bound| bound.limit));
            pending.extend(one.values());
        }
        pending.push(function.result);
        while let Some(id) = pending.pop() {
            let kind = &file.exprs[id].kind;
            match kind {
                ExprKind::Loop(one) => body.lets.extend(&one.body.lets),
                ExprKind::Reduce { callee, binders, filter, body: of } => {
                    if let [binder] = binders.as_slice() {
                        body.reducers.push(Reducer { callee: &callee.text, binder, filter: *filter, body: *of });
                    }
                }
                _ => {}
            }
            kind.for_each_operand(|operand| pending.push(operand));
        }
        body
    }

    /// The warnings about reducers under the indices of a `let`.
    fn reducers(&self) -> impl Iterator<Item = Diagnostic> {
        let indices: BTreeMap<Span, &Binder> = self
            .lets
            .iter()
            .filter_map(|one| match &one.definition {
                Definition::Values { target, .. } => Some(&target.binders),
                Definition::Recurrence(_) => None,
            })
            .flatten()
            .map(|binder| (binder.name.span, binder))
            .collect();
        let uses = self.names.iter().filter(|one| one.role == Role::Index);
        let declared: BTreeMap<Span, Span> = uses.filter_map(|one| Some((one.span, one.declared?))).collect();
        self.reducers.iter().filter_map(move |reducer| {
            let outer = |id: ExprId| indices.get(declared.get(&self.file.exprs[id].own)?).copied();
            reducer.warning(self.file, &outer)
        })
    }

    /// The warning that no array of a `let rec` needs another or itself.
    fn no_recurrence(&self, one: &Let) -> Option<Diagnostic> {
        let Definition::Recurrence(equations) = &one.definition else { return None };
        let is_own = |declared: Span| equations.iter().any(|equation| equation.name.span == declared);
        let refers = |name: &Occurrence| {
            let within = one.span.start <= name.span.start && name.span.end <= one.span.end;
            within && name.declared.is_some_and(|declared| declared != name.span && is_own(declared))
        };
        if self.names.iter().any(refers) {
            return None;
        }
        let name = &equations[0].name;
        let message = format!("`{}` does not refer to itself", name.text);
        let warning = Diagnostic::new(codes::NO_RECURRENCE, name.span, message);
        let begin = Span { start: one.span.start, end: name.span.start };
        Some(match equations.as_slice() {
            [_] => warning.help("its elements do not depend on each other: write `let`").suggest(begin, "let "),
            _ => warning.help("none of these arrays needs another: write a `let` for each"),
        })
    }

    /// A size that is used needs a parameter that brings it: if the value of none of these is used,
    /// the first one is there for its size.
    fn sizes_use_parameters(&self, used: &mut BTreeSet<Span>) {
        let uses = self.names.iter().filter(|name| name.is_use && name.role == Role::Size);
        let sizes: BTreeMap<Option<Span>, &str> = uses.map(|size| (size.declared, size.text.as_str())).collect();
        for size in sizes.into_values() {
            let bring = |brings: &dyn Fn(ExprId) -> bool| -> Vec<Span> {
                let bring = self.function.params.iter().filter(|param| param.ty.shape.iter().any(|dim| brings(*dim)));
                bring.map(|param| param.name.span).collect()
            };
            let alone = bring(&|dim| matches!(&self.file.exprs[dim].kind, ExprKind::Name(name) if name == size));
            let bring = match alone.is_empty() {
                true => bring(&|dim| mentioned(self.file, dim).iter().any(|(name, _)| *name == size)),
                false => alone,
            };
            if !bring.iter().any(|param| used.contains(param)) {
                used.extend(bring.first());
            }
        }
    }

    /// The warnings about parameters and `let`s that are never used.
    fn unused(&self) -> impl Iterator<Item = Diagnostic> {
        let mut used: BTreeSet<Span> =
            self.names.iter().filter(|name| name.is_use).filter_map(|name| name.declared).collect();
        self.sizes_use_parameters(&mut used);
        let declared = self.names.iter().filter(|name| name.declared == Some(name.span));
        let unused = declared.filter(move |name| !used.contains(&name.span) && !is_meant(&name.text));
        unused.filter_map(|name| {
            let warning = match name.role {
                Role::Parameter => {
                    let message = format!("the parameter `{}` is never used", name.text);
                    Diagnostic::new(codes::UNUSED_PARAMETER, name.span, message)
                }
                Role::Let => Diagnostic::new(codes::UNUSED_LET, name.span, format!("`{}` is never used", name.text)),
                Role::Function | Role::Size | Role::Index | Role::State => return None,
            };
            let meant = format!("_{}", name.text);
            Some(match self.definition(name.span) {
                Some(Definition::Values { target, .. }) if matches!(target.pattern, Pattern::Tuple(_)) => {
                    warning.help("leave it out").suggest(name.span, "_")
                }
                // The array mentions itself by its name.
                Some(Definition::Recurrence(_)) => warning.help("remove it"),
                _ if self.names.iter().any(|other| other.text == meant) => warning.help("remove it"),
                _ => underscore(warning, name.span),
            })
        })
    }

    /// The definition that declares a name.
    fn definition(&self, name: Span) -> Option<&'a Definition> {
        let declares = |one: &&&Let| one.names().iter().any(|declared| declared.span == name);
        self.lets.iter().find(declares).map(|one| &one.definition)
    }
}
