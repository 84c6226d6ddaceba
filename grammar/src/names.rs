//! The names in a function: where each is declared and where it is used, for editors and for
//! warnings.

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
    /// Whether something needs its value here. That is not so where it is declared, for a length of
    /// a parameter that is this size alone, and where an array of a recurrence is an operand of its
    /// own elements.
    pub is_use: bool,
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
    let mut walk = Walk { file, scope: vec![], elements_of: vec![], found: vec![] };
    walk.function(function);
    walk.found
}

/// The names that an expression mentions, and where each stands, in no order.
pub fn mentioned(file: &File, id: ExprId) -> Vec<(&str, Span)> {
    let (mut pending, mut found) = (vec![id], vec![]);
    while let Some(id) = pending.pop() {
        let expr = &file.exprs[id];
        match &expr.kind {
            ExprKind::Name(name) => found.push((name.as_str(), expr.own)),
            kind => kind.for_each_operand(|operand| pending.push(operand)),
        }
    }
    found
}

struct Walk<'a> {
    file: &'a File,
    /// The names in scope with their declarations, the innermost last.
    scope: Vec<(&'a str, Span, Role)>,
    /// The declarations of the arrays whose elements these are.
    elements_of: Vec<Span>,
    found: Vec<Occurrence>,
}

impl<'a> Walk<'a> {
    fn function(&mut self, function: &'a Function) {
        self.declared(&function.name.text, function.name.span, Role::Function);
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
        let alone = matches!(self.file.exprs[id].kind, ExprKind::Name(_));
        let mut names = mentioned(self.file, id);
        names.sort_by_key(|(_, span)| *span);
        for (name, span) in names {
            if !self.scope.iter().any(|(known, ..)| *known == name) {
                self.scope.push((name, span, Role::Size));
            }
            self.mention(name, span, |role| !(alone && role == Role::Size));
        }
    }

    fn ty(&mut self, ty: &Type) {
        ty.shape.iter().for_each(|size| self.expr(*size));
    }

    fn declared(&mut self, name: &str, span: Span, role: Role) {
        self.found.push(Occurrence { text: name.to_owned(), span, role, declared: Some(span), is_use: false });
    }

    fn called(&mut self, callee: &Name) {
        let (text, span) = (callee.text.clone(), callee.span);
        self.found.push(Occurrence { text, span, role: Role::Function, declared: None, is_use: true });
    }

    fn declare(&mut self, name: &'a Name, role: Role) {
        self.declared(&name.text, name.span, role);
        self.scope.push((&name.text, name.span, role));
    }

    fn used(&mut self, name: &str, span: Span) {
        self.mention(name, span, |_| true);
    }

    fn mention(&mut self, name: &str, span: Span, may_use: impl Fn(Role) -> bool) {
        let known = self.scope.iter().rev().find(|(known, ..)| *known == name).copied();
        if let Some((_, declared, role)) = known {
            let is_use = declared != span && !self.elements_of.contains(&declared) && may_use(role);
            self.found.push(Occurrence { text: name.to_owned(), span, role, declared: Some(declared), is_use });
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
                for equation in equations {
                    self.elements_of.push(equation.name.span);
                    self.under(&equation.binders, &[equation.value]);
                    self.elements_of.pop();
                }
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
        stacker::maybe_grow(64 << 10, 1 << 20, || self.parts(id));
    }

    fn parts(&mut self, id: ExprId) {
        let file = self.file;
        let expr = &file.exprs[id];
        match &expr.kind {
            ExprKind::Name(name) => self.used(name, expr.own),
            ExprKind::Call { callee, args } => {
                self.called(callee);
                args.iter().for_each(|arg| self.expr(arg.value));
            }
            ExprKind::Reduce { callee, binders, filter, body } => {
                self.called(callee);
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
