//! Functions: parameters and size names, calls and results.
//!
//! A call is checked anew at each place, with the sizes and values that it has there: so what holds for them can be
//! proved, and a scalar parameter that is given an array lifts the whole function over it.

use std::collections::{BTreeMap, BTreeSet};

use grammar::Diagnostic;
use grammar::ast::{self, ExprKind, Results, Span, Target};
use ir::checked::{Checked, ExprId, Kind, Param, Type};
use ir::nest::{Purpose, Relation, Requirement, Symbol, SymbolSource};
use ir::{Dtype, Size};

use super::expr::element_type;
use super::{Binding, Checker, builtin, codes, count, origin};

impl<'a> Checker<'a> {
    /// Checks a function as it is called from outside.
    pub(super) fn entry(mut self, number: usize) -> Result<Checked, Vec<Diagnostic>> {
        let function = &self.file.functions[number];
        self.out.name = function.name.text.clone();
        self.calls.push(number, None);
        if self.too_many_calls(number) {
            return Err(self.errors);
        }
        self.decorators(function);
        if let Some(arguments) = self.entry_arguments(function) {
            let results = self.body(function, &arguments);
            self.prove_accesses();
            if let Some(results) = results {
                let names = self.result_names(function, results.len());
                self.out.results = names.into_iter().zip(results).collect();
            }
        }
        if self.errors.is_empty() {
            self.finish();
        }
        self.out.combined = self.combined.get();
        if self.errors.is_empty() {
            Ok(self.out)
        } else {
            self.errors.sort_by_key(|e| e.labels[0].span);
            Err(self.errors)
        }
    }

    fn decorators(&mut self, function: &ast::Function) {
        for (k, decorator) in function.decorators.iter().enumerate() {
            if function.decorators[..k].iter().any(|d| d.name.text == decorator.name.text) {
                let message = format!("`@{}` is given twice", decorator.name.text);
                self.error(Diagnostic::new(codes::DECORATOR, decorator.span, message));
            }
            let args: Vec<_> = decorator.args.iter().map(|a| &self.ast(*a).kind).collect();
            match (decorator.name.text.as_str(), args.as_slice()) {
                ("kernels", [ExprKind::Int(n)]) if *n > 0 => self.out.max_kernels = Some(*n),
                ("kernels", _) => {
                    let message = "`@kernels` takes one number of at least 1";
                    self.error(Diagnostic::new(codes::DECORATOR, decorator.span, message).help("write `@kernels(1)`"));
                }
                ("fast", []) => self.out.fast = true,
                ("fast", _) => {
                    let message = "`@fast` takes no arguments";
                    self.error(Diagnostic::new(codes::DECORATOR, decorator.span, message).help("write `@fast`"));
                }
                (name, _) => {
                    let message = format!("there is no decorator `@{name}`");
                    let help = "there are `@kernels(n)` and `@fast`";
                    self.error(Diagnostic::new(codes::DECORATOR, decorator.span, message).help(help));
                }
            }
        }
    }

    /// Parameters of the program: a size name for each axis, bound where the name stands alone for the first time.
    fn entry_arguments(&mut self, function: &'a ast::Function) -> Option<Vec<ExprId>> {
        let mut types = vec![];
        for param in &function.params {
            types.push((element_type(param.ty.dtype), param));
        }
        // Integer scalars first: they may stand in the sizes of the other parameters.
        for (input, (dtype, param)) in types.iter().enumerate() {
            if param.ty.shape.is_empty() && dtype.is_int() {
                let source = SymbolSource::Scalar { input };
                let symbol = self.out.symbols.push(Symbol { name: param.name.text.clone(), source });
                self.scalars.insert(input, symbol);
                self.scope.push((param.name.text.clone(), Binding::Size(Size::symbol(symbol))));
            }
        }
        for (input, (_, param)) in types.iter().enumerate() {
            for (axis, dim) in param.ty.shape.iter().enumerate() {
                if let ExprKind::Name(name) = &self.ast(*dim).kind
                    && self.lookup(name).is_none()
                {
                    let source = SymbolSource::Dimension { input, axis };
                    let symbol = self.out.symbols.push(Symbol { name: name.clone(), source });
                    self.scope.push((name.clone(), Binding::Size(Size::symbol(symbol))));
                }
            }
        }
        let mut arguments = vec![];
        for (input, (dtype, param)) in types.into_iter().enumerate() {
            let mut shape = vec![];
            for (axis, dim) in param.ty.shape.iter().enumerate() {
                shape.push(self.entry_size(input, axis, *dim, &param.name.text)?);
            }
            self.check_rank(shape.len(), param.ty.span)?;
            let ty = Type { dtype, shape };
            let name = param.name.text.clone();
            self.out.params.push(Param { name: name.clone(), ty: ty.clone(), origin: origin(param.name.span) });
            let node = self.node(Kind::Param(input), ty, param.name.span);
            arguments.push(node);
        }
        Some(arguments)
    }

    fn entry_size(&mut self, input: usize, axis: usize, dim: ast::ExprId, param: &str) -> Option<Size> {
        let size = self.size(dim)?;
        let source = SymbolSource::Dimension { input, axis };
        let binds = size.as_symbol().is_some_and(|s| self.out.symbols[s].source == source);
        if !binds {
            // Not a name that this axis binds: the call must bring just this length.
            let symbol = self.out.symbols.push(Symbol { name: format!("{param}_{axis}"), source });
            self.require(Requirement {
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
    pub(super) fn size(&mut self, id: ast::ExprId) -> Option<Size> {
        if let Some(size) = self.plain_size(id) {
            return Some(size);
        }
        let span = self.ast(id).span;
        if let Some((name, at)) = self.unbound(id) {
            let message = format!("nothing binds the size `{name}`");
            let help = match at == span {
                true => {
                    format!("a parameter whose type has `{name}` alone for an axis binds it, as in `x: f32[{name}]`")
                }
                false => format!(
                    "a length is not solved for the names in it: name the length itself, `x: f32[m]`, and write what \
                     `{name}` is by it, as in `m / 2`; or pass `{name}: i64`"
                ),
            };
            self.error(Diagnostic::new(codes::UNBOUND_SIZE, at, message).help(help));
            return None;
        }
        let value = self.expr(id, Some(Dtype::I64))?;
        if let Some(size) = self.size_value(value) {
            return Some(size.clone());
        }
        let error = if self.free(value).is_empty() {
            Diagnostic::new(codes::NOT_A_SIZE, span, "a size is made of numbers, size names and integer parameters")
        } else {
            let index = self.out.indices[self.free(value)[0]].name.clone();
            let message = format!("the size of an array cannot depend on the index `{index}`");
            Diagnostic::new(codes::RAGGED, span, message)
        };
        self.error(error.help("sizes are settled before anything runs"));
        None
    }

    /// A name in a size that nothing binds.
    fn unbound(&self, id: ast::ExprId) -> Option<(&'a str, Span)> {
        match &self.ast(id).kind {
            ExprKind::Name(name) if self.lookup(name).is_none() => Some((name, self.ast(id).span)),
            ExprKind::Unary(_, a) => self.unbound(*a),
            ExprKind::Binary(_, a, b) => self.unbound(*a).or_else(|| self.unbound(*b)),
            _ => None,
        }
    }

    /// The same, without an error if it is none.
    pub(super) fn plain_size(&self, id: ast::ExprId) -> Option<Size> {
        self.size_where(id, |_, divisor| divisor.as_constant().is_none_or(|d| d > 0))
    }

    /// An expression as a size, if its run-time value is that size. Both wrap alike, but division
    /// of sizes rounds down, while division of integers truncates and gives 0 for a zero divisor.
    /// They agree on non-negative lengths with a positive divisor.
    pub(super) fn number(&self, id: ast::ExprId) -> Option<Size> {
        let agree = |dividend: &Size, divisor: &Size| {
            divisor.as_constant().is_some_and(|d| d > 0) && self.is_small(dividend) && self.never_negative(dividend)
        };
        self.size_where(id, agree)
    }

    /// An expression as a size, if it consists of sizes and `divides` accepts its divisions.
    fn size_where(&self, id: ast::ExprId, divides: impl Fn(&Size, &Size) -> bool + Copy) -> Option<Size> {
        match &self.ast(id).kind {
            ExprKind::Int(v) => i64::try_from(*v).ok().map(Size::constant),
            ExprKind::Name(name) => match self.lookup(name)? {
                Binding::Size(size) => Some(size.clone()),
                Binding::Value(value) => self.size_value(*value).cloned(),
                Binding::Broken => None,
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
    fn body(&mut self, function: &'a ast::Function, arguments: &[ExprId]) -> Option<Vec<ExprId>> {
        self.expect_distinct(function.params.iter().map(|param| &param.name), |name| {
            format!("the parameter `{name}` is declared twice")
        });
        for (param, argument) in function.params.iter().zip(arguments) {
            self.scope.push((param.name.text.clone(), Binding::Value(*argument)));
        }
        for statement in &function.lets {
            self.statement(statement);
        }
        let results = match &self.ast(function.result).kind {
            ExprKind::Tuple(parts) => {
                let wants = self.declared_dtypes(function, parts.len());
                let parts: Vec<_> = parts.iter().zip(wants).map(|(part, want)| self.expr(*part, want)).collect();
                parts.into_iter().collect::<Option<Vec<_>>>()?
            }
            ExprKind::Call { .. } => {
                let want = self.declared_dtypes(function, 1)[0];
                self.call(function.result, want)?
            }
            _ => {
                let want = self.declared_dtypes(function, 1)[0];
                vec![self.expr(function.result, want)?]
            }
        };
        self.declared_results(function, &results)?;
        Some(results)
    }

    fn statement(&mut self, statement: &'a ast::Let) {
        match &statement.target {
            Target::Name(name) => {
                let value = self.expr(statement.value, None);
                self.bind(name, value);
            }
            Target::Indexed { name, binders } => {
                self.making = Some(&name.text);
                let value = self.indexed(binders, statement.value, name.span);
                self.making = None;
                self.bind(name, value);
            }
            Target::Tuple(names) => {
                let (values, found) = match &self.ast(statement.value).kind {
                    ExprKind::Call { .. } => {
                        let values = self.call(statement.value, None);
                        let found = values.as_ref().map(Vec::len);
                        (values, found)
                    }
                    ExprKind::Tuple(parts) => {
                        let values: Vec<_> = parts.iter().map(|part| self.expr(*part, None)).collect();
                        (values.into_iter().collect(), Some(parts.len()))
                    }
                    _ => (None, Some(1)),
                };
                if let Some(found) = found.filter(|found| *found != names.len()) {
                    let message =
                        format!("{} for {}", count(names.len(), "name", "names"), count(found, "value", "values"));
                    self.error(Diagnostic::new(codes::TUPLE_USE, statement.span, message));
                }
                let values = values.filter(|v| v.len() == names.len());
                for (k, name) in names.iter().enumerate() {
                    self.bind(name, values.as_ref().map(|v| v[k]));
                }
            }
        }
    }

    fn bind(&mut self, name: &ast::Name, value: Option<ExprId>) {
        let binding = match value {
            Some(value) if name.text == "_" => Binding::Value(value),
            Some(value) => {
                self.out.exprs[value].name.get_or_insert_with(|| name.text.clone());
                Binding::Value(value)
            }
            None => Binding::Broken,
        };
        self.scope.push((name.text.clone(), binding));
    }

    /// What the declaration says of each result's element type, for literals.
    fn declared_dtypes(&self, function: &ast::Function, count: usize) -> Vec<Option<Dtype>> {
        let of = |ty: &ast::Type| Some(element_type(ty.dtype));
        match &function.results {
            Some(Results::One(ty)) if count == 1 => vec![of(ty)],
            Some(Results::Tuple(types)) if types.len() == count => types.iter().map(|(_, ty)| of(ty)).collect(),
            _ => vec![None; count],
        }
    }

    fn declared_results(&mut self, function: &ast::Function, results: &[ExprId]) -> Option<()> {
        let declared: Vec<&ast::Type> = match &function.results {
            None => return Some(()),
            Some(Results::One(ty)) => vec![ty],
            Some(Results::Tuple(types)) => types.iter().map(|(_, ty)| ty).collect(),
        };
        let span = self.ast(function.result).span;
        if declared.len() != results.len() {
            let declared = count(declared.len(), "result is", "results are");
            let message = format!("{declared} declared, the body gives {}", results.len());
            self.error(Diagnostic::new(codes::RESULT_MISMATCH, span, message));
            return None;
        }
        for (ty, result) in declared.into_iter().zip(results) {
            let found = self.ty(*result).clone();
            let dtype = element_type(ty.dtype);
            if dtype != found.dtype || ty.shape.len() != found.shape.len() {
                let shown = self.show_type(&found);
                let declared: Option<Vec<Size>> = ty.shape.iter().map(|dim| self.plain_size(*dim)).collect();
                let message = match (ty.shape.len(), declared) {
                    (0, _) => format!("the result is {shown}, declared is the scalar `{dtype}`"),
                    (_, Some(shape)) => {
                        let declared = self.show_type(&Type { dtype, shape });
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
                let error = error.help(format!("{convert}declare what it is"));
                // In a function that is called, the sizes have the caller's names.
                let own = self.calls.is_outermost(self.calls.current());
                self.error(if own { error.suggest(ty.span, shown.trim_matches('`')) } else { error });
                return None;
            }
            for (axis, (dim, size)) in ty.shape.iter().zip(&found.shape).enumerate() {
                let declared = self.size(*dim)?;
                let sides =
                    ((size, format!("axis {axis} of the result")), (&declared, "its declared size".to_string()));
                self.unify(sides.0, sides.1, self.ast(*dim).span)?;
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
    fn expect_distinct(&mut self, names: impl Iterator<Item = &'a ast::Name>, message: impl Fn(&str) -> String) {
        let mut seen = BTreeMap::new();
        for name in names {
            if let Some(first) = seen.insert(name.text.as_str(), name.span) {
                let error = Diagnostic::new(codes::DUPLICATE_NAME, name.span, message(&name.text));
                self.error(error.label(first, "first here"));
                seen.insert(name.text.as_str(), first);
            }
        }
    }

    /// Whether a value hides the function of that name.
    pub(super) fn is_hidden(&self, callee: &str) -> bool {
        matches!(self.lookup(callee), Some(Binding::Value(_) | Binding::Broken))
    }

    /// Reports a call of a function that a value hides.
    pub(super) fn expect_function(&mut self, callee: &ast::Name) -> Option<()> {
        if !self.is_hidden(&callee.text) {
            return Some(());
        }
        let name = callee.text.as_str();
        if matches!(self.lookup(name), Some(Binding::Value(_))) {
            let message = format!("`{name}` is a value here, not a function");
            let error = Diagnostic::new(codes::UNKNOWN_FUNCTION, callee.span, message);
            self.error(match self.functions.contains_key(name) || builtin::is_function(name) {
                true => {
                    error.help(format!("a parameter, `let` or index hides the function `{name}`: rename one of them"))
                }
                false => error.help(format!("index it: `{name}[i]`")),
            });
        }
        None
    }

    /// A call: of a function of the file, or else of the language.
    pub(super) fn call(&mut self, id: ast::ExprId, want: Option<Dtype>) -> Option<Vec<ExprId>> {
        let ast::Expr { kind: ExprKind::Call { callee, args }, span } = self.ast(id) else { return None };
        self.expect_function(callee)?;
        let Some(number) = self.functions.get(callee.text.as_str()).copied() else {
            return Some(vec![self.builtin_call(callee, args, want, *span)?]);
        };
        self.expect_inlinable(number, *span)?;
        let function = &self.file.functions[number];
        if let Some(name) = args.iter().find_map(|a| a.name.as_ref()) {
            let message = format!("arguments of `{}` have no names", callee.text);
            self.error(Diagnostic::new(codes::ARGUMENT_NAME, name.span, message).help("give them in order"));
            return None;
        }
        if args.len() != function.params.len() {
            let message = {
                let takes = count(function.params.len(), "argument", "arguments");
                format!("`{}` takes {takes}, the call has {}", callee.text, args.len())
            };
            let error = Diagnostic::new(codes::ARGUMENT_COUNT, *span, message);
            self.error(error.label(function.name.span, "declared here"));
            return None;
        }
        let mut arguments = vec![];
        for (arg, param) in args.iter().zip(&function.params) {
            let want = Some(element_type(param.ty.dtype));
            arguments.push((self.expr(arg.value, want), self.ast(arg.value).span));
        }
        let arguments: Vec<(ExprId, Span)> =
            arguments.into_iter().map(|(a, s)| a.map(|a| (a, s))).collect::<Option<_>>()?;
        self.instance(number, &arguments, *span)
    }

    /// Checks the body of a function for the arguments of one call, lifted over arrays that stand for scalars.
    fn instance(&mut self, number: usize, arguments: &[(ExprId, Span)], span: Span) -> Option<Vec<ExprId>> {
        let function = &self.file.functions[number];
        let mut lifted = vec![];
        for (param, (argument, span)) in function.params.iter().zip(arguments) {
            let dtype = element_type(param.ty.dtype);
            let found = self.dtype(*argument);
            let name = &param.name.text;
            let fits = [0, self.ty(*argument).shape.len()].contains(&param.ty.shape.len());
            if found != dtype && !fits {
                let axes = count(param.ty.shape.len(), "axis", "axes");
                let found = self.show_type(&self.ty(*argument).clone());
                let message = format!("`{name}` is declared `{dtype}` with {axes}, the argument is {found}");
                let error = Diagnostic::new(codes::RANK_MISMATCH, *span, message).label(param.ty.span, "declared here");
                self.error(error.help(format!("it needs another type, `{dtype}`, and another number of axes")));
                return None;
            }
            if found != dtype {
                let message = format!("`{name}` is declared `{dtype}`, the argument is `{found}`");
                let error =
                    Diagnostic::new(codes::DTYPE_MISMATCH, *span, message).label(param.ty.span, "declared here");
                let error = error.help(format!("convert it: `{dtype}(...)`"));
                self.error(error.wrap(*span, format!("{dtype}("), ")"));
                return None;
            }
            let (rank, declared) = (self.ty(*argument).shape.len(), param.ty.shape.len());
            if declared == 0 {
                lifted.push(*argument);
            } else if rank != declared {
                let message = format!("`{name}` has {}, the argument has {rank}", count(declared, "axis", "axes"));
                let error = Diagnostic::new(codes::RANK_MISMATCH, *span, message).label(param.ty.span, "declared here");
                self.error(match rank > declared {
                    true => error.help(format!("apply it to each row: `let y[i] = {}(x[i])`", function.name.text)),
                    false => error,
                });
                return None;
            }
        }
        let indices = self.lifted_indices(&lifted, span)?;
        let guard = self.guard;
        let mut values = vec![];
        for (param, (argument, _)) in function.params.iter().zip(arguments) {
            let over = param.ty.shape.is_empty() && !indices.is_empty();
            values.push(if over { self.lifted_element(*argument, guard, &indices, span) } else { *argument });
        }
        let caller = std::mem::take(&mut self.scope);
        self.calls.push(number, Some(span));
        self.binders.extend(&indices);
        // The body of a function may be a call itself, which leads here again without an expression
        // in between.
        let results = stacker::maybe_grow(128 << 10, 4 << 20, || {
            self.instance_sizes(function, &values, arguments).and_then(|()| self.body(function, &values))
        });
        self.binders.truncate(self.binders.len() - indices.len());
        self.calls.pop();
        self.scope = caller;
        Some(results?.into_iter().map(|r| self.comprehension(indices.clone(), r, span)).collect())
    }

    /// Binds the size names of a called function to the lengths of the arguments, and checks the others.
    fn instance_sizes(
        &mut self,
        function: &'a ast::Function,
        values: &[ExprId],
        arguments: &[(ExprId, Span)],
    ) -> Option<()> {
        for (param, value) in function.params.iter().zip(values) {
            if param.ty.shape.is_empty() {
                self.scope.push((param.name.text.clone(), Binding::Value(*value)));
            }
        }
        let mut checks = vec![];
        for ((param, value), (_, span)) in function.params.iter().zip(values).zip(arguments) {
            for (axis, dim) in param.ty.shape.iter().enumerate() {
                let length = self.ty(*value).shape[axis].clone();
                match &self.ast(*dim).kind {
                    ExprKind::Name(name) if self.lookup(name).is_none() => {
                        self.scope.push((name.clone(), Binding::Size(length)));
                    }
                    _ => checks.push((param, axis, *dim, length, *span)),
                }
            }
        }
        for (param, axis, dim, length, span) in checks {
            let declared = self.size(dim)?;
            let left = (&length, format!("axis {axis} of the argument `{}`", param.name.text));
            self.unify(left, (&declared, "its declared size".into()), span)?;
        }
        Some(())
    }
}
