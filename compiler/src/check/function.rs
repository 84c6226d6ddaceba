//! Functions: parameters and size names, calls and results.
//!
//! A called function is checked again at each call, with the sizes and values of that call: so
//! proofs can use them, and an array in place of a scalar parameter lifts the whole function over
//! it.

use std::collections::{BTreeMap, BTreeSet};

use grammar::Diagnostic;
use grammar::ast::{self, Definition, ExprKind, Pattern, Results, Span, Target};
use ir::checked::{Checked, ExprId, GuardId, Param, Type};
use ir::nest::{Purpose, Relation, Requirement, Symbol, SymbolSource};
use ir::{Dtype, Size};

use super::arena::Here;
use super::generic::{Arguments, element_type};
use super::modules::Meaning;
use super::scope::Binding;
use super::{Checker, Side, builtin, codes, count, origin};

impl<'a> Checker<'a> {
    /// Goes through a function as it is called from outside: its results.
    pub(super) fn entry(&mut self, number: usize) -> Option<Vec<ExprId>> {
        let function = &self.source.file.functions[number];
        self.arena.out.name = function.name.text.clone();
        if self.too_many_calls(number) {
            return None;
        }
        self.decorators(function);
        let arguments = self.entry_arguments(function)?;
        self.stated(function, Checked::TOP)?;
        self.body(function, &arguments, Checked::TOP)
    }

    /// Names the results of the function that is called from outside.
    pub(super) fn name_results(&mut self, number: usize, results: Vec<ExprId>) {
        let names = self.result_names(&self.source.file.functions[number], results.len());
        self.arena.out.results = names.into_iter().zip(results).collect();
    }

    fn decorators(&mut self, function: &ast::Function) {
        for (k, decorator) in function.decorators.iter().enumerate() {
            if function.decorators[..k].iter().any(|d| d.name.text == decorator.name.text) {
                let message = format!("`@{}` is given twice", decorator.name.text);
                self.report.error(Diagnostic::new(codes::DECORATOR, decorator.span, message));
            }
            let args: Vec<_> = decorator.args.iter().map(|a| &self.ast(*a).kind).collect();
            match (decorator.name.text.as_str(), args.as_slice()) {
                ("kernels", [ExprKind::Int(n)]) if *n > 0 => self.arena.out.max_kernels = Some(*n),
                ("kernels", _) => {
                    let message = "`@kernels` takes one number of at least 1";
                    self.report
                        .error(Diagnostic::new(codes::DECORATOR, decorator.span, message).help("write `@kernels(1)`"));
                }
                ("fast", []) => self.arena.out.fast = true,
                ("fast", _) => {
                    let message = "`@fast` takes no arguments";
                    self.report.error(Diagnostic::new(codes::DECORATOR, decorator.span, message).help("write `@fast`"));
                }
                (name, _) => {
                    let message = format!("there is no decorator `@{name}`");
                    let help = "there are `@kernels(n)` and `@fast`";
                    self.report.error(Diagnostic::new(codes::DECORATOR, decorator.span, message).help(help));
                }
            }
        }
    }

    /// Parameters of the program: a size name for each axis, bound where the name stands alone for
    /// the first time, or else solved for.
    fn entry_arguments(&mut self, function: &'a ast::Function) -> Option<Vec<ExprId>> {
        let mut types = vec![];
        for param in &function.params {
            types.push((self.type_here(param.ty.dtype)?, param));
        }
        // Integer scalars first: they may stand in the sizes of the other parameters.
        for (input, (dtype, param)) in types.iter().enumerate() {
            if param.ty.shape.is_empty() && dtype.is_int() {
                let source = SymbolSource::Scalar { input };
                let symbol = self.arena.scalar(input, Symbol { name: param.name.text.clone(), source });
                self.scope.push(&param.name.text, Binding::Size(Size::symbol(symbol)));
            }
        }
        for (input, (_, param)) in types.iter().enumerate() {
            for (axis, dim) in param.ty.shape.iter().enumerate() {
                if let ExprKind::Name(name) = &self.ast(*dim).kind
                    && self.scope.get(name).is_none()
                {
                    let source = SymbolSource::Dimension { input, axis };
                    let symbol = self.arena.symbol(Symbol { name: name.clone(), source });
                    self.scope.push(name, Binding::Size(Size::symbol(symbol)));
                }
            }
        }
        self.solve_parameters(function);
        let mut arguments = vec![];
        for (input, (dtype, param)) in types.into_iter().enumerate() {
            let mut shape = vec![];
            for (axis, dim) in param.ty.shape.iter().enumerate() {
                shape.push(self.entry_size(input, axis, *dim, &param.name.text)?);
            }
            self.check_rank(shape.len(), param.ty.span)?;
            let here = Here { span: param.name.span, guard: Checked::TOP };
            let name = param.name.text.clone();
            let param = Param { name, ty: Type { dtype, shape }, origin: origin(param.name.span) };
            arguments.push(self.arena.param(param, here));
        }
        Some(arguments)
    }

    fn entry_size(&mut self, input: usize, axis: usize, dim: ast::ExprId, param: &str) -> Option<Size> {
        let size = self.size(dim, Checked::TOP)?;
        let source = SymbolSource::Dimension { input, axis };
        let binds = size.as_symbol().is_some_and(|s| self.arena.out.symbols[s].source == source);
        if !binds {
            // Not a name that this axis binds: the call must bring just this length.
            let symbol = self.length(input, axis, param);
            self.requirements.require(Requirement {
                left: Size::symbol(symbol),
                relation: Relation::Equal,
                right: size.clone(),
                unless_empty: vec![],
                left_is: format!("axis {axis} of `{param}`"),
                right_is: "its declared size".into(),
                purpose: Purpose::Declared,
                origin: origin(self.ast(dim).span),
            });
        }
        Some(size)
    }

    /// A size: numbers and size names, and `+ - * /` (which rounds down) of those.
    pub(super) fn size(&mut self, id: ast::ExprId, guard: GuardId) -> Option<Size> {
        if let Some(size) = self.plain_size(id) {
            return Some(size);
        }
        let span = self.ast(id).span;
        if let Some((name, at)) = self.unbound(id) {
            let error = self.unbound_size(id, name, at);
            self.report.error(error);
            return None;
        }
        let value = self.expr(id, Some(Dtype::I64), guard)?;
        if let Some(size) = self.arena.size_value(value) {
            return Some(size.clone());
        }
        let error = if self.arena.free(value).is_empty() {
            Diagnostic::new(codes::NOT_A_SIZE, span, "a size is made of numbers, size names and integer parameters")
        } else {
            let index = self.arena.out.indices[self.arena.free(value)[0]].name.clone();
            let message = format!("the size of an array cannot depend on the index `{index}`");
            Diagnostic::new(codes::RAGGED, span, message)
        };
        self.report.error(error.help("sizes are settled before anything runs"));
        None
    }

    /// The first name in a size that nothing binds.
    pub(super) fn unbound(&self, id: ast::ExprId) -> Option<(&'a str, Span)> {
        match &self.ast(id).kind {
            ExprKind::Name(name) if self.scope.get(name).is_none() => Some((name, self.ast(id).span)),
            ExprKind::Unary(_, a) => self.unbound(*a),
            ExprKind::Binary(_, a, b) => self.unbound(*a).or_else(|| self.unbound(*b)),
            _ => None,
        }
    }

    /// The same, without an error if it is no size.
    pub(super) fn plain_size(&self, id: ast::ExprId) -> Option<Size> {
        self.size_where(id, |_, divisor| divisor.as_constant().is_none_or(|d| d > 0))
    }

    /// An expression as a size, if its run-time value is that size. Both wrap alike, but division
    /// of sizes rounds down, while division of integers truncates and gives 0 for a zero divisor.
    /// They agree on non-negative lengths with a positive divisor.
    pub(super) fn number(&self, id: ast::ExprId) -> Option<Size> {
        let facts = self.facts();
        let agree = |dividend: &Size, divisor: &Size| {
            divisor.as_constant().is_some_and(|d| d > 0) && facts.is_small(dividend) && facts.never_negative(dividend)
        };
        self.size_where(id, agree)
    }

    /// An expression as a size, if it consists of sizes and `divides` accepts its divisions.
    fn size_where(&self, id: ast::ExprId, divides: impl Fn(&Size, &Size) -> bool + Copy) -> Option<Size> {
        match &self.ast(id).kind {
            ExprKind::Int(v) => i64::try_from(*v).ok().map(Size::constant),
            ExprKind::Name(name) => match self.scope.get(name)? {
                Binding::Size(size) => Some(size.clone()),
                Binding::Value(value) | Binding::Index(value) => self.arena.size_value(*value).cloned(),
                Binding::Literal(id) => self.arena.size_value(self.untyped.default_value(*id)?).cloned(),
                Binding::Unbound | Binding::Broken => None,
            },
            ExprKind::Unary(ast::UnaryOp::Neg, a) => Some(-&self.size_where(*a, divides)?),
            ExprKind::Binary(op, a, b) => {
                let (a, b) = (self.size_where(*a, divides)?, self.size_where(*b, divides)?);
                match op {
                    ast::BinaryOp::Add => Some(&a + &b),
                    ast::BinaryOp::Sub => Some(&a - &b),
                    ast::BinaryOp::Mul => Some(&a * &b),
                    ast::BinaryOp::Div if divides(&a, &b) => Some(a.floor_div(&b)),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The body of a function with its parameters bound: the results.
    fn body(&mut self, function: &'a ast::Function, arguments: &[ExprId], guard: GuardId) -> Option<Vec<ExprId>> {
        self.expect_distinct(function.params.iter().map(|param| &param.name), |name| {
            format!("the parameter `{name}` is declared twice")
        });
        for (param, argument) in function.params.iter().zip(arguments) {
            self.scope.push(&param.name.text, Binding::Value(*argument));
        }
        let signature = self.scope.len();
        for statement in &function.lets {
            self.statement(statement, guard);
        }
        let parts = match &self.ast(function.result).kind {
            ExprKind::Tuple(parts) => parts.len(),
            _ => 1,
        };
        let results = self.several(function.result, &self.declared_dtypes(function, parts), guard)?;
        // The declared results see the names of the signature: a `let` may have the name of a size.
        self.scope.truncate(signature);
        self.declared_results(function, &results, guard)?;
        Some(results)
    }

    /// The values of an expression where there may be several, with the types that their context
    /// wants, as far as there are any.
    pub(super) fn several(&mut self, id: ast::ExprId, wants: &[Option<Dtype>], guard: GuardId) -> Option<Vec<ExprId>> {
        let ast::Expr { kind, span, .. } = self.ast(id);
        let want = match wants {
            [want] => *want,
            _ => None,
        };
        match kind {
            ExprKind::Tuple(parts) => {
                let wants = wants.iter().copied().chain(std::iter::repeat(None));
                let values: Vec<_> =
                    parts.iter().zip(wants).map(|(part, want)| self.expr(*part, want, guard)).collect();
                values.into_iter().collect()
            }
            ExprKind::Call { .. } => self.call(id, want, guard),
            ExprKind::Loop(one) => self.loop_(one, Here { span: *span, guard }),
            ExprKind::Derivative(derivative) => self.derivative(derivative, want, Here { span: *span, guard }),
            _ => Some(vec![self.expr(id, want, guard)?]),
        }
    }

    /// A statement of a block: its names come into scope.
    pub(super) fn statement(&mut self, statement: &'a ast::Let, guard: GuardId) {
        let (untyped, mark) = (self.untyped_names(statement, guard), self.report.mark());
        let values = match &statement.definition {
            Definition::Values { target: Target { pattern, binders }, value } if binders.is_empty() => {
                self.values(pattern, *value, None, statement.span, guard)
            }
            Definition::Values { target, value } => {
                let names = target.pattern.names();
                self.scope.begin(names);
                let here = Here { span: names[0].span, guard };
                let values = self.indexed(target, *value, None, statement.span, here);
                self.scope.begin(&[]);
                values
            }
            Definition::Recurrence(equations) => self.recurrence(equations, guard),
        };
        let late = match values.is_none() && untyped.iter().all(Option::is_some) {
            true => self.only_out_of_range(mark),
            false => None,
        };
        for (k, (name, untyped)) in statement.names().into_iter().zip(untyped).enumerate() {
            let value = values.as_ref().map(|v| v[k]);
            match (untyped.filter(|_| name.text != "_"), value.ok_or(late.clone())) {
                (Some(untyped), Ok(value)) => self.bind_untyped(name, untyped, Ok(value)),
                (Some(untyped), Err(Some(errors))) => self.bind_untyped(name, untyped, Err(errors)),
                _ => self.bind(name, value),
            }
        }
    }

    /// The values of a `let`: as many as it has names. A single one takes the type that is wanted.
    pub(super) fn values(
        &mut self,
        pattern: &Pattern,
        value: ast::ExprId,
        want: Option<Dtype>,
        span: Span,
        guard: GuardId,
    ) -> Option<Vec<ExprId>> {
        let names = match pattern {
            Pattern::Name(_) => return Some(vec![self.expr(value, want, guard)?]),
            Pattern::Tuple(names) => names,
        };
        let (values, found) = match &self.ast(value).kind {
            ExprKind::Call { .. } | ExprKind::Loop(_) | ExprKind::Derivative(_) => {
                let values = self.several(value, &[None], guard);
                let found = values.as_ref().map(Vec::len);
                (values, found)
            }
            ExprKind::Tuple(parts) => (self.several(value, &vec![None; parts.len()], guard), Some(parts.len())),
            _ => (None, Some(1)),
        };
        if let Some(found) = found.filter(|found| *found != names.len()) {
            let message = format!("{} for {}", count(names.len(), "name", "names"), count(found, "value", "values"));
            self.report.error(Diagnostic::new(codes::TUPLE_USE, span, message));
        }
        values.filter(|v| v.len() == names.len())
    }

    fn bind(&mut self, name: &ast::Name, value: Option<ExprId>) {
        let binding = match value {
            Some(value) if name.text == "_" => Binding::Value(value),
            Some(value) => {
                self.name_value(name, value);
                Binding::Value(value)
            }
            None => Binding::Broken,
        };
        self.scope.push(&name.text, binding);
    }

    /// Gives a value the name of a `let`, unless it has one.
    pub(super) fn name_value(&mut self, name: &ast::Name, value: ExprId) {
        self.arena.out.exprs[value].name.get_or_insert_with(|| name.text.clone());
    }

    /// The declared element type of each result, for literals.
    fn declared_dtypes(&self, function: &ast::Function, count: usize) -> Vec<Option<Dtype>> {
        let of = |ty: &ast::Type| self.type_here(ty.dtype);
        match &function.results {
            Some(Results::One(ty)) if count == 1 => vec![of(ty)],
            Some(Results::Tuple(types)) if types.len() == count => types.iter().map(|(_, ty)| of(ty)).collect(),
            _ => vec![None; count],
        }
    }

    fn declared_results(&mut self, function: &ast::Function, results: &[ExprId], guard: GuardId) -> Option<()> {
        let declared: Vec<&ast::Type> = match &function.results {
            None => return Some(()),
            Some(Results::One(ty)) => vec![ty],
            Some(Results::Tuple(types)) => types.iter().map(|(_, ty)| ty).collect(),
        };
        let span = self.ast(function.result).span;
        if declared.len() != results.len() {
            let declared = count(declared.len(), "result is", "results are");
            let message = format!("{declared} declared, the body gives {}", results.len());
            self.report.error(Diagnostic::new(codes::RESULT_MISMATCH, span, message));
            return None;
        }
        for (ty, result) in declared.into_iter().zip(results) {
            let found = self.arena.ty(*result).clone();
            let dtype = self.expect_type(ty.dtype, ty.span)?;
            if dtype != found.dtype || ty.shape.len() != found.shape.len() {
                let shown = self.arena.show_type(&found);
                let declared: Option<Vec<Size>> = ty.shape.iter().map(|dim| self.plain_size(*dim)).collect();
                let message = match (ty.shape.len(), declared) {
                    (0, _) => format!("the result is {shown}, declared is the scalar `{dtype}`"),
                    (_, Some(shape)) => {
                        let declared = self.arena.show_type(&Type { dtype, shape });
                        format!("the result is {shown}, declared is {declared}")
                    }
                    (n, None) => {
                        format!("the result is {shown}, declared is `{dtype}` with {}", count(n, "axis", "axes"))
                    }
                };
                let error = Diagnostic::new(codes::RESULT_MISMATCH, span, message).here(format!("this is {shown}"));
                let error = error.label(ty.span, "declared here");
                let convertible = ty.shape.len() == found.shape.len();
                let convert = if convertible { format!("convert it, `{dtype}(...)`, or ") } else { String::new() };
                // In a function that is called, the sizes have the caller's names.
                let own = self.report.calls.is_outermost(self.report.calls.current());
                let declare = |error: Diagnostic| {
                    let error = error.help(format!("{convert}declare what it is"));
                    if own { error.suggest(ty.span, shown.trim_matches('`')) } else { error }
                };
                let error = match convertible {
                    true => self.with_origin(error, *result, Some(dtype), declare),
                    false => declare(error),
                };
                self.report.error(error);
                return None;
            }
            for (axis, (dim, size)) in ty.shape.iter().zip(&found.shape).enumerate() {
                let declared = self.size(*dim, guard)?;
                let found = Side::new(size, format!("axis {axis} of the result"));
                self.unify(found, Side::new(&declared, "its declared size"), self.ast(*dim).span)?;
            }
        }
        Some(())
    }

    fn result_names(&mut self, function: &'a ast::Function, count: usize) -> Vec<String> {
        if let Some(Results::Tuple(types)) = &function.results {
            let names = types.iter().filter_map(|(name, _)| name.as_ref());
            self.expect_distinct(names, |name| format!("two results are called `{name}`"));
        }
        let declared = match &function.results {
            Some(Results::Tuple(types)) => types.iter().map(|(name, _)| name.clone().map(|n| n.text)).collect(),
            _ => vec![None; count],
        };
        let unnamed = |k: usize| if count == 1 { "out".to_string() } else { format!("out{k}") };
        let mut taken = BTreeSet::new();
        let distinct = |(k, name): (usize, Option<String>)| {
            let mut name = name.unwrap_or_else(|| unnamed(k));
            while !taken.insert(name.clone()) {
                name.push('_');
            }
            name
        };
        declared.into_iter().enumerate().map(distinct).collect()
    }

    /// Reports duplicate names.
    pub(super) fn expect_distinct(
        &mut self,
        names: impl Iterator<Item = &'a ast::Name>,
        message: impl Fn(&str) -> String,
    ) {
        let mut seen = BTreeMap::new();
        for name in names {
            if let Some(first) = seen.insert(name.text.as_str(), name.span) {
                let error = Diagnostic::new(codes::DUPLICATE_NAME, name.span, message(&name.text));
                self.report.error(error.label(first, "first here"));
                seen.insert(name.text.as_str(), first);
            }
        }
    }

    /// Whether a value hides the function of that name.
    pub(super) fn is_hidden(&self, callee: &str) -> bool {
        self.scope.get(callee).is_some_and(|binding| !matches!(binding, Binding::Size(_)))
    }

    /// Reports a call of a function that a value hides.
    pub(super) fn expect_function(&mut self, callee: &ast::Name) -> Option<()> {
        if !self.is_hidden(&callee.text) {
            return Some(());
        }
        let name = callee.text.as_str();
        if !matches!(self.scope.get(name), Some(Binding::Broken)) {
            let message = format!("`{name}` is a value here, not a function");
            let error = Diagnostic::new(codes::UNKNOWN_FUNCTION, callee.span, message);
            self.report.error(match self.has_function(name) || builtin::is_function(name) {
                true => {
                    error.help(format!("a parameter, `let` or index hides the function `{name}`: rename one of them"))
                }
                false => error.help(format!("index it: `{name}[i]`")),
            });
        }
        None
    }

    /// A call: of a function of the program, or else of the language.
    pub(super) fn call(&mut self, id: ast::ExprId, want: Option<Dtype>, guard: GuardId) -> Option<Vec<ExprId>> {
        let ast::Expr { kind: ExprKind::Call { callee, args }, span, .. } = self.ast(id) else { return None };
        let here = Here { span: *span, guard };
        self.expect_function(callee)?;
        let number = match self.meaning(&callee.text) {
            Meaning::Function(number) => number,
            Meaning::Nothing => return self.builtin_call(callee, args, want, here),
            Meaning::Clash(functions) => {
                self.clash(callee, &functions);
                return None;
            }
        };
        self.expect_inlinable(number, *span)?;
        let function = &self.source.file.functions[number];
        if let Some(name) = args.iter().find_map(|a| a.name.as_ref()) {
            let message = format!("arguments of `{}` have no names", callee.text);
            self.report.error(Diagnostic::new(codes::ARGUMENT_NAME, name.span, message).help("give them in order"));
            return None;
        }
        if args.len() != function.params.len() {
            let message = {
                let takes = count(function.params.len(), "argument", "arguments");
                format!("`{}` takes {takes}, the call has {}", callee.text, args.len())
            };
            let error = Diagnostic::new(codes::ARGUMENT_COUNT, *span, message);
            self.report.error(error.label(function.name.span, "declared here"));
            return None;
        }
        let arguments = self.arguments(function, args, want, here)?;
        self.instance(number, &arguments, here)
    }

    /// Checks the body of a function for the arguments of one call, lifted over arrays that stand
    /// for scalars.
    fn instance(&mut self, number: usize, arguments: &Arguments, here: Here) -> Option<Vec<ExprId>> {
        let function = &self.source.file.functions[number];
        let Arguments { values: arguments, float } = arguments;
        let mut lifted = vec![];
        for (param, (argument, span)) in function.params.iter().zip(arguments) {
            let dtype = element_type(param.ty.dtype, *float)?;
            let found = self.arena.dtype(*argument);
            let declared = match param.ty.dtype {
                ast::Dtype::Float => format!("`float`, which is `{dtype}` here"),
                _ => format!("`{dtype}`"),
            };
            let name = &param.name.text;
            let fits = [0, self.arena.ty(*argument).shape.len()].contains(&param.ty.shape.len());
            if found != dtype && !fits {
                let axes = count(param.ty.shape.len(), "axis", "axes");
                let found = self.arena.show_type(&self.arena.ty(*argument).clone());
                let message = format!("`{name}` is declared {declared} with {axes}, the argument is {found}");
                let error = Diagnostic::new(codes::RANK_MISMATCH, *span, message).label(param.ty.span, "declared here");
                self.report.error(error.help(format!("it needs another type, `{dtype}`, and another number of axes")));
                return None;
            }
            if found != dtype {
                let message = format!("`{name}` is declared {declared}, the argument is `{found}`");
                let error =
                    Diagnostic::new(codes::DTYPE_MISMATCH, *span, message).label(param.ty.span, "declared here");
                let convert = |error: Diagnostic| {
                    error.help(format!("convert it: `{dtype}(...)`")).wrap(*span, format!("{dtype}("), ")")
                };
                let error = self.with_origin(error, *argument, Some(dtype), convert);
                self.report.error(error);
                return None;
            }
            let (rank, declared) = (self.arena.ty(*argument).shape.len(), param.ty.shape.len());
            if declared == 0 {
                lifted.push(*argument);
            } else if rank != declared {
                let message = format!("`{name}` has {}, the argument has {rank}", count(declared, "axis", "axes"));
                let error = Diagnostic::new(codes::RANK_MISMATCH, *span, message).label(param.ty.span, "declared here");
                self.report.error(match rank > declared {
                    true => error.help(format!("apply it to each row: `let y[i] = {}(x[i])`", function.name.text)),
                    false => error,
                });
                return None;
            }
        }
        let indices = self.lifted_indices(&lifted, here.span)?;
        let derived = self.derived_names(function);
        let mut values = vec![];
        for (param, (argument, _)) in function.params.iter().zip(arguments) {
            let over = param.ty.shape.is_empty() && !indices.is_empty();
            let value = if over { self.arena.lifted_element(*argument, &indices, here) } else { *argument };
            // Other parameters may have the same value.
            let derived = derived.iter().any(|name| *name == param.name.text);
            values.push(if derived { self.arena.of_its_own(value, here) } else { value });
        }
        self.scope.enter();
        self.report.calls.push(number, &function.name.text, here.span, *float);
        self.arena.ends.open.extend(&indices);
        // The body of a function may be a call itself, which leads here again without an expression
        // in between.
        let results = stacker::maybe_grow(128 << 10, 4 << 20, || {
            self.instance_sizes(function, &values, arguments, here.guard)?;
            self.stated(function, here.guard)?;
            self.body(function, &values, here.guard)
        });
        self.arena.ends.close(&indices);
        self.report.calls.pop();
        self.scope.leave();
        Some(results?.into_iter().map(|r| self.arena.comprehension(indices.clone(), r, here)).collect())
    }

    /// Binds the size names of a called function to the lengths of the arguments, and checks the
    /// others.
    fn instance_sizes(
        &mut self,
        function: &'a ast::Function,
        values: &[ExprId],
        arguments: &[(ExprId, Span)],
        guard: GuardId,
    ) -> Option<()> {
        for (param, value) in function.params.iter().zip(values) {
            if param.ty.shape.is_empty() {
                self.scope.push(&param.name.text, Binding::Value(*value));
            }
        }
        let mut checks = vec![];
        for ((param, value), (_, span)) in function.params.iter().zip(values).zip(arguments) {
            for (axis, dim) in param.ty.shape.iter().enumerate() {
                let length = self.arena.ty(*value).shape[axis].clone();
                match &self.ast(*dim).kind {
                    ExprKind::Name(name) if self.scope.get(name).is_none() => {
                        self.scope.push(name, Binding::Size(length));
                    }
                    _ => checks.push((param, axis, *dim, length, *span)),
                }
            }
        }
        let axes: Vec<_> = checks.iter().map(|(_, _, dim, length, span)| (*dim, length.clone(), *span)).collect();
        self.solve_arguments(&axes)?;
        for (param, axis, dim, length, span) in checks {
            let declared = self.size(dim, guard)?;
            let found = Side::new(&length, format!("axis {axis} of the argument `{}`", param.name.text));
            self.unify(found, Side::new(&declared, "its declared size"), span)?;
        }
        Some(())
    }
}
