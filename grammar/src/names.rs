//! The names in a function: where each is declared and where it is used, for editors.

use crate::ast::{Binder, Block, Definition, ExprId, ExprKind, File, Function, Let, Name, Param, Results, Span, Type};

/// The role of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A function of the program, of a file that it uses, or of the language.
    Function,
    /// A parameter.
    Parameter,
    /// A length of parameters.
    Size,
    /// A `let`.
    Let,
    /// An index, or the counter of a loop.
    Index,
    /// A state of a loop.
    State,
}

/// A name at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// The name.
    pub text: String,
    /// Where it stands.
    pub span: Span,
    /// Its role.
    pub role: Role,
    /// Where it is declared, which is the same place for the declaration itself. `None` for a
    /// function that is called.
    pub declared: Option<Span>,
}

/// The names in a function, in no order. Names that are declared nowhere are left out.
///
/// ```
/// let file = grammar::parse("fn f(x: f32[n]) { let y[i] = x[(i)]\n y }").unwrap();
/// let found = grammar::occurrences(&file, &file.functions[0]);
/// let of = |name: &str| found.iter().filter(|one| one.text == name).count();
/// assert_eq!((of("f"), of("x"), of("n"), of("i"), of("y")), (1, 2, 1, 2, 2));
/// ```
pub fn occurrences(file: &File, function: &Function) -> Vec<Occurrence> {
    let mut walk = Walk { file, scope: vec![], found: vec![] };
    walk.function(function);
    walk.found
}

struct Walk<'a> {
    file: &'a File,
    /// The names in scope with their declarations, the innermost last.
    scope: Vec<(&'a str, Span, Role)>,
    found: Vec<Occurrence>,
}

impl<'a> Walk<'a> {
    fn function(&mut self, function: &'a Function) {
        self.found(&function.name.text, function.name.span, Role::Function, Some(function.name.span));
        // Scalar parameters and sizes may stand in the types of all parameters.
        let (numbers, arrays): (Vec<&Param>, Vec<&Param>) =
            function.params.iter().partition(|param| param.ty.shape.is_empty());
        numbers.iter().for_each(|param| self.declare(&param.name, Role::Parameter));
        // A length that is a name alone declares it.
        let lengths = || arrays.iter().flat_map(|param| &param.ty.shape).copied();
        for id in lengths() {
            if let ExprKind::Name(name) = &self.file.exprs[id].kind
                && !self.scope.iter().any(|(known, ..)| known == name)
            {
                self.scope.push((name, self.file.exprs[id].own, Role::Size));
            }
        }
        lengths().for_each(|id| self.sizes(id));
        arrays.iter().for_each(|param| self.declare(&param.name, Role::Parameter));
        match &function.results {
            None => {}
            Some(Results::One(ty)) => self.ty(ty),
            Some(Results::Tuple(types)) => types.iter().for_each(|(_, ty)| self.ty(ty)),
        }
        function.condition.iter().for_each(|condition| self.expr(*condition));
        self.block(&function.lets, function.result);
    }

    /// A length of a parameter. A name that no parameter has alone is solved for: its first use
    /// declares it.
    fn sizes(&mut self, id: ExprId) {
        let mut names = vec![];
        let mut pending = vec![id];
        while let Some(id) = pending.pop() {
            let expr = &self.file.exprs[id];
            match &expr.kind {
                ExprKind::Name(name) => names.push((name.as_str(), expr.own)),
                kind => kind.for_each_operand(|operand| pending.push(operand)),
            }
        }
        names.sort_by_key(|(_, span)| *span);
        for (name, span) in names {
            if !self.scope.iter().any(|(known, ..)| *known == name) {
                self.scope.push((name, span, Role::Size));
            }
            self.used(name, span);
        }
    }

    fn ty(&mut self, ty: &Type) {
        ty.shape.iter().for_each(|size| self.expr(*size));
    }

    fn found(&mut self, text: &str, span: Span, role: Role, declared: Option<Span>) {
        self.found.push(Occurrence { text: text.to_owned(), span, role, declared });
    }

    fn declare(&mut self, name: &'a Name, role: Role) {
        self.found(&name.text, name.span, role, Some(name.span));
        self.scope.push((&name.text, name.span, role));
    }

    fn used(&mut self, name: &str, span: Span) {
        let known = self.scope.iter().rev().find(|(known, ..)| *known == name).copied();
        if let Some((_, declared, role)) = known {
            self.found(name, span, role, Some(declared));
        }
    }

    fn block(&mut self, lets: &'a [Let], result: ExprId) {
        let depth = self.scope.len();
        lets.iter().for_each(|one| self.statement(one));
        self.expr(result);
        self.scope.truncate(depth);
    }

    fn statement(&mut self, one: &'a Let) {
        match &one.definition {
            Definition::Values { target, value } => {
                self.under(&target.binders, &[*value]);
                target.pattern.names().iter().for_each(|name| self.declare(name, Role::Let));
            }
            Definition::Recurrence(equations) => {
                equations.iter().for_each(|equation| self.declare(&equation.name, Role::Let));
                equations.iter().for_each(|equation| self.under(&equation.binders, &[equation.value]));
            }
        }
    }

    /// Expressions that some indices are in scope of.
    fn under(&mut self, binders: &'a [Binder], exprs: &[ExprId]) {
        let depth = self.scope.len();
        for binder in binders {
            binder.bounds().for_each(|bound| self.expr(bound.limit));
            self.declare(&binder.name, Role::Index);
        }
        exprs.iter().for_each(|id| self.expr(*id));
        self.scope.truncate(depth);
    }

    fn expr(&mut self, id: ExprId) {
        let file = self.file;
        let expr = &file.exprs[id];
        match &expr.kind {
            ExprKind::Name(name) => self.used(name, expr.own),
            ExprKind::Call { callee, args } => {
                self.found(&callee.text, callee.span, Role::Function, None);
                args.iter().for_each(|arg| self.expr(arg.value));
            }
            ExprKind::Reduce { callee, binders, filter, body } => {
                self.found(&callee.text, callee.span, Role::Function, None);
                let parts: Vec<ExprId> = filter.iter().copied().chain([*body]).collect();
                self.under(binders, &parts);
            }
            ExprKind::Derivative(derivative) => {
                derivative.of.iter().for_each(|name| self.used(&name.text, name.span));
                expr.kind.for_each_operand(|operand| self.expr(operand));
            }
            ExprKind::Loop(one) => {
                one.states.iter().for_each(|state| self.expr(state.first));
                let depth = self.scope.len();
                if let Some(counter) = &one.counter {
                    counter.bounds().for_each(|bound| self.expr(bound.limit));
                    self.declare(&counter.name, Role::Index);
                }
                one.states.iter().for_each(|state| self.declare(&state.name, Role::State));
                one.condition.iter().for_each(|condition| self.expr(*condition));
                let Block { lets, result } = &one.body;
                self.block(lets, *result);
                self.scope.truncate(depth);
            }
            kind => kind.for_each_operand(|operand| self.expr(operand)),
        }
    }
}
