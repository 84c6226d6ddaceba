//! The functions of the language, as a table, and their calls.

use grammar::Diagnostic;
use grammar::ast::{self, ExprKind, Span};
use ir::checked::{ExprId, GuardId, Kind, Type};
use ir::nest::{Purpose, Relation, Requirement};
use ir::sabotage::{self, Bug};
use ir::{Affine, BinaryOp, CompareOp, Dtype, MathFn, Scalar, Size, UnaryOp};

use super::arena::{Arena, Branch, Here};
use super::derived::{DERIVED, derived};
use super::expr::Use;
use super::literal::Nature;
use super::reducers::{REDUCERS, reducer};
use super::{Checker, Side, codes, origin, other_languages, random};
use crate::library::Library;

/// A scalar function of the language.
#[derive(Clone, Copy)]
struct ScalarFunction {
    name: &'static str,
    /// The number of its arguments.
    arguments: usize,
    definition: Definition,
    domain: Domain,
}

/// The definition of a scalar function.
#[derive(Clone, Copy)]
enum Definition {
    Unary(UnaryOp),
    Binary(BinaryOp),
    Math(MathFn),
    Fma,
    Select,
    IsNan,
    IsInf,
    IsFinite,
}

/// Which types a scalar function takes.
#[derive(Clone, Copy, PartialEq)]
enum Domain {
    Floats,
    Ints,
    Numbers,
}

impl Domain {
    /// Whether a type is one of them.
    fn takes(self, dtype: Dtype) -> bool {
        match self {
            Domain::Floats => dtype.is_float(),
            Domain::Ints => dtype.is_int(),
            Domain::Numbers => dtype != Dtype::Bool,
        }
    }
}

/// Scalar functions in addition to those of [`MathFn`].
const SCALARS: &[ScalarFunction] = &[
    listed("abs", 1, Definition::Unary(UnaryOp::Abs), Domain::Numbers),
    listed("sqrt", 1, Definition::Unary(UnaryOp::Sqrt), Domain::Floats),
    listed("floor", 1, Definition::Unary(UnaryOp::Floor), Domain::Floats),
    listed("ceil", 1, Definition::Unary(UnaryOp::Ceil), Domain::Floats),
    listed("trunc", 1, Definition::Unary(UnaryOp::Trunc), Domain::Floats),
    listed("round", 1, Definition::Unary(UnaryOp::Round), Domain::Floats),
    listed("min", 2, Definition::Binary(BinaryOp::Min), Domain::Numbers),
    listed("max", 2, Definition::Binary(BinaryOp::Max), Domain::Numbers),
    listed("bit_and", 2, Definition::Binary(BinaryOp::And), Domain::Ints),
    listed("bit_or", 2, Definition::Binary(BinaryOp::Or), Domain::Ints),
    listed("bit_xor", 2, Definition::Binary(BinaryOp::Xor), Domain::Ints),
    listed("bit_not", 1, Definition::Unary(UnaryOp::Not), Domain::Ints),
    listed("shift_left", 2, Definition::Binary(BinaryOp::Shl), Domain::Ints),
    listed("shift_right", 2, Definition::Binary(BinaryOp::Shr), Domain::Ints),
    listed("fma", 3, Definition::Fma, Domain::Floats),
    listed("select", 3, Definition::Select, Domain::Numbers),
    listed("isnan", 1, Definition::IsNan, Domain::Floats),
    listed("isinf", 1, Definition::IsInf, Domain::Floats),
    listed("isfinite", 1, Definition::IsFinite, Domain::Floats),
];

const fn listed(name: &'static str, arguments: usize, definition: Definition, domain: Domain) -> ScalarFunction {
    ScalarFunction { name, arguments, definition, domain }
}

/// Functions of [`MathFn`] that integers have too.
const NUMBERS: &[MathFn] = &[MathFn::Relu, MathFn::Clamp, MathFn::Sign, MathFn::Pow, MathFn::Mod, MathFn::FloorDiv];

/// Functions of whole arrays, handled by name in [`Checker::builtin_call`].
const WHOLE: &[&str] =
    &["reshape", "concat", "transpose", "iota", "size", "quantile", "top", "searchsorted", "bitcast"];

/// Those of them that take an axis by its name.
const ALONG: &[&str] = &["concat", "quantile", "top"];

fn scalar(name: &str, arguments: usize) -> Option<ScalarFunction> {
    let listed = SCALARS.iter().find(|f| f.name == name && f.arguments == arguments).copied();
    let math = || math(name).filter(|m| m.arity() == arguments);
    listed.or_else(|| {
        math().map(|m| {
            let domain = match m {
                MathFn::Popcount => Domain::Ints,
                _ if NUMBERS.contains(&m) => Domain::Numbers,
                _ => Domain::Floats,
            };
            ScalarFunction { name: m.name(), arguments, definition: Definition::Math(m), domain }
        })
    })
}

fn scalar_arity(name: &str) -> Option<usize> {
    SCALARS.iter().find(|f| f.name == name).map(|f| f.arguments).or_else(|| math(name).map(MathFn::arity))
}

/// The function of numbers of that name; random ones have calls of their own.
fn math(name: &str) -> Option<MathFn> {
    MathFn::from_name(name).filter(|m| !m.is_random())
}

/// Whether this names a scalar function with that number of arguments.
pub(super) fn is_scalar_function(name: &str, arguments: usize) -> bool {
    scalar(name, arguments).is_some()
}

/// Whether this names a scalar function with that number of arguments that floats have.
pub(super) fn takes_floats(name: &str, arguments: usize) -> bool {
    scalar(name, arguments).is_some_and(|f| f.domain != Domain::Ints)
}

/// Whether this names a function that gives floats.
pub(super) fn is_float_function(name: &str) -> bool {
    random::function(name).is_some()
        || scalar_arity(name).and_then(|a| scalar(name, a)).is_some_and(|f| f.domain == Domain::Floats)
}

/// Whether this names a function of the language.
pub(super) fn is_function(name: &str) -> bool {
    let whole = |name| WHOLE.contains(&name) || derived(name).is_some();
    scalar_arity(name).is_some() || random::function(name).is_some() || reducer(name).is_some() || whole(name)
}

/// The name nearest to a misspelt one, if one is near.
pub fn nearest<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Option<String> {
    let limit = (name.chars().count() + 1) / 3;
    let distance = |n: &str| if n.eq_ignore_ascii_case(name) { 0 } else { distance(name, n) };
    names.map(|n| (distance(n), n)).filter(|(d, _)| *d <= limit).min().map(|(_, n)| n.to_string())
}

/// Edit distance (Wagner and Fischer, 1974).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let cost = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

impl Checker<'_> {
    /// A call of a function of the language: its results.
    pub(super) fn builtin_call(
        &mut self,
        callee: &ast::Name,
        args: &[ast::Arg],
        want: Option<Dtype>,
        here: Here,
    ) -> Option<Vec<ExprId>> {
        let positional: Vec<ast::ExprId> = args.iter().filter(|a| a.name.is_none()).map(|a| a.value).collect();
        let axis = self.axis_argument(callee, args)?;
        match (callee.text.as_str(), positional.as_slice()) {
            ("top", [k, x]) => self.top_call(*k, *x, axis, here),
            _ => Some(vec![self.builtin_value(callee, &positional, axis, want, here)?]),
        }
    }

    /// A call of a function of the language that has one result.
    fn builtin_value(
        &mut self,
        callee: &ast::Name,
        positional: &[ast::ExprId],
        axis: Option<ast::ExprId>,
        want: Option<Dtype>,
        here: Here,
    ) -> Option<ExprId> {
        let name = callee.text.as_str();
        if let (Some(reducer), 1) = (reducer(name), positional.len()) {
            return self.reduce_array(reducer, positional[0], axis, here);
        }
        if let (Some(function), [x]) = (derived(name), positional) {
            return self.derived_call(function, *x, axis, here);
        }
        if let Some(function) = scalar(name, positional.len()) {
            return self.scalar_call(function, positional, want, here);
        }
        if let (Some(function), 2..) = (random::function(name), positional.len()) {
            return self.draw(function, positional, want, here);
        }
        match (name, positional) {
            ("transpose", [x]) => {
                let x = self.expr(*x, want, here.guard)?;
                let indices = self.arena.axis_indices(&self.arena.ty(x).shape.clone(), here.span);
                let reversed: Vec<_> = indices.iter().rev().copied().collect();
                let at = indices.iter().map(|i| Affine::index(*i)).collect();
                let element = self.arena.element(x, at, here);
                Some(self.arena.comprehension(reversed, element, here))
            }
            ("iota", [n]) => {
                let n = self.size_argument(*n, here.guard)?;
                let index = self.arena.index("i", Affine::size(n), here.span);
                let body = self.arena.index_node(index, here);
                Some(self.arena.comprehension(vec![index], body, here))
            }
            ("size", [x, k]) => {
                let x = self.expr(*x, None, here.guard)?;
                let axis = self.literal_axis(*k, self.arena.ty(x).shape.len())?;
                let axis = if sabotage::on(Bug::SizeOfAxis) { 0 } else { axis };
                let size = self.arena.size_node(self.arena.ty(x).shape[axis].clone(), here);
                self.in_context(size, want, here)
            }
            ("reshape", [x, dims @ ..]) if !dims.is_empty() => self.reshape(*x, dims, want, here),
            ("quantile", [x, q]) => self.quantile_call(*x, *q, axis, here),
            ("searchsorted", [a, x]) => self.searchsorted(*a, *x, here),
            ("concat", [_, _, ..]) => self.concat(positional, axis, want, here),
            _ => {
                self.bad_call(callee, positional.len(), want, here.span);
                None
            }
        }
    }

    /// The value of `axis = k`, the one named argument that functions of the language have.
    fn axis_argument(&mut self, callee: &ast::Name, args: &[ast::Arg]) -> Option<Option<ast::ExprId>> {
        let mut axis = None;
        for arg in args {
            let Some(name) = &arg.name else { continue };
            let reduces = reducer(&callee.text).is_some() || derived(&callee.text).is_some();
            let takes = reduces || ALONG.contains(&callee.text.as_str());
            if name.text != "axis" || axis.is_some() || !takes {
                let message = match name.text == "axis" && takes {
                    true => "`axis` is given twice".to_string(),
                    false => format!("`{}` has no argument `{}`", callee.text, name.text),
                };
                let error = Diagnostic::new(codes::ARGUMENT_NAME, name.span, message);
                self.report.error(match name.text.as_str() {
                    "dim" | "dims" | "ax" | "axes" if takes => error.help("write `axis`").suggest(name.span, "axis"),
                    "keepdims" | "keepdim" => error.help("the axis goes; `reshape(sum(x, axis = 1), n, 1)` keeps it"),
                    "ddof" | "correction" => {
                        error.help("the divisor is the number of elements, `n`: multiply by `n / (n - 1)`")
                    }
                    "dtype" | "out" => error.help("a type converts: `f32(x)`"),
                    _ if takes => error.help("the one argument with a name is `axis`"),
                    _ => error.help("give the arguments in order"),
                });
                return None;
            }
            axis = Some(arg.value);
        }
        Some(axis)
    }

    fn bad_call(&mut self, callee: &ast::Name, count: usize, want: Option<Dtype>, span: Span) {
        if self.report.is_full() {
            return;
        }
        let name = callee.text.as_str();
        if is_function(name) {
            let expected = match name {
                "reshape" => "an array and its new sizes: `reshape(x, n, m)`".to_string(),
                "concat" => "at least two arrays: `concat(x, y, axis = 0)`".to_string(),
                "size" => "an array and an axis: `size(x, 0)`".to_string(),
                "quantile" => "an array and a share: `quantile(x, 0.25)`".to_string(),
                "searchsorted" => "a sorted vector and numbers to search: `searchsorted(a, x)`".to_string(),
                "bitcast" => "a type and a value: `bitcast(i32, x)`".to_string(),
                "top" => "a number and an array: `top(10, x)`".to_string(),
                _ if random::function(name).is_some() => format!("a seed and indices: `{name}(seed, i)`"),
                _ if derived(name).is_some() => "one array".to_string(),
                _ if reducer(name).is_some() && scalar_arity(name).is_none() => "one array".to_string(),
                _ if reducer(name).is_some() => "one array to reduce, or two values to compare".to_string(),
                _ => match scalar_arity(name).unwrap_or(1) {
                    1 => "1 argument".to_string(),
                    n => format!("{n} arguments"),
                },
            };
            let message = format!("`{name}` takes {expected}; there are {count}");
            let error = Diagnostic::new(codes::ARGUMENT_COUNT, span, message);
            self.report.error(match name {
                "concat" if count == 1 => error.help("the arrays are arguments of their own: `concat(x, y)`"),
                "reshape" if count == 1 => error.help("the sizes follow: `reshape(x, n, m)`"),
                "diff" if count == 2 => error.help("for differences of differences write `diff(diff(x))`"),
                _ if (reducer(name).is_some() || derived(name).is_some()) && count == 2 => {
                    error.help("an axis has its name: `axis = 1`")
                }
                _ => error,
            });
        } else {
            let known =
                SCALARS.iter().map(|f| f.name).chain(MathFn::ALL.iter().map(|m| m.name()).filter(|n| is_function(n)));
            let known = known.chain(REDUCERS.iter().map(|r| r.name)).chain(DERIVED.iter().map(|f| f.name));
            let known = known.chain(WHOLE.iter().copied());
            let near = nearest(name, known.chain(self.function_names()));
            let error = Diagnostic::new(codes::UNKNOWN_FUNCTION, callee.span, format!("there is no function `{name}`"));
            if let Some(library) = Library::with(name) {
                return self.unused_library(error, library);
            }
            self.report.error(match (other_languages::function(name), near) {
                (Some((help, Some(instead))), _) => error.help(help).suggest(callee.span, instead),
                // A suggested conversion takes the type that the context expects.
                (Some((help, None)), _) => match want.filter(|dtype| dtype.is_float()) {
                    Some(dtype) => error.help(help.replace("f32(", &format!("{dtype}("))),
                    None => error.help(help),
                },
                (None, Some(near)) => error.help(format!("did you mean `{near}`?")).suggest(callee.span, near),
                _ => error.help("a function is defined by `fn`, above or below"),
            });
        }
    }

    fn scalar_call(
        &mut self,
        function: ScalarFunction,
        args: &[ast::ExprId],
        want: Option<Dtype>,
        here: Here,
    ) -> Option<ExprId> {
        let ScalarFunction { name, definition, domain, .. } = function;
        if let Definition::Select = definition {
            let condition = self.expr(args[0], None, here.guard)?;
            self.expect_dtype(condition, Dtype::Bool, "`select`", here.span)?;
            let values = self.same_type(&args[1..], Use::Moved, want, here)?;
            let ty = Type::scalar(self.arena.dtype(values[0]));
            return self.lift(&[condition, values[0], values[1]], here, |arena, v| {
                arena.node(Kind::If { condition: v[0], then: v[1], otherwise: v[2] }, ty, here)
            });
        }
        if let Definition::Math(MathFn::Pow) = definition {
            return self.power(args[0], args[1], want, here);
        }
        // A function of floats gives arguments without a type that of its context, or `f32`.
        let untyped = args.iter().all(|a| self.nature(*a) != Nature::Typed);
        // A truth value says nothing about the type that it is of.
        let is_predicate = matches!(definition, Definition::IsNan | Definition::IsInf | Definition::IsFinite);
        let want = match (want.filter(|want| !is_predicate && domain.takes(*want)), domain) {
            (None, Domain::Floats) if untyped => Some(Dtype::F32),
            (want, _) => want,
        };
        let operands = self.same_type(args, Use::Computed, want, here)?;
        let dtype = self.arena.dtype(operands[0]).compute();
        if !domain.takes(dtype) {
            let (what, to) = match domain {
                Domain::Floats => ("floats", want.filter(|want| want.is_float()).unwrap_or(Dtype::F32)),
                Domain::Ints => ("integers", Dtype::I64),
                Domain::Numbers => ("numbers", Dtype::I64),
            };
            let message = format!("`{name}` takes {what}, this is `{dtype}`");
            let error = Diagnostic::new(codes::DTYPE_EXPECTED, here.span, message);
            let convert = |error: Diagnostic| error.help(format!("convert the argument: `{to}(...)`"));
            let error = self.with_origin(error, operands[0], Some(to), convert);
            self.report.error(error);
            return None;
        }
        match definition {
            Definition::Math(math) => self.math_function(math, &operands, here),
            Definition::Unary(op) => self.unary(op, operands[0], here),
            Definition::Binary(op) => self.binary(op, operands[0], operands[1], here),
            Definition::Fma => self.compute(&operands, here, |arena, v| {
                arena.node(Kind::Fma(v[0], v[1], v[2]), Type::scalar(dtype), here)
            }),
            Definition::IsNan => self.compare(CompareOp::Ne, operands[0], operands[0], here),
            Definition::IsInf | Definition::IsFinite | Definition::Select => {
                let infinity = match dtype {
                    Dtype::F64 => Scalar::F64(f64::INFINITY),
                    _ => Scalar::F32(f32::INFINITY),
                };
                let infinity = self.arena.constant(infinity, here);
                let magnitude = self.unary(UnaryOp::Abs, operands[0], here)?;
                let op = if matches!(definition, Definition::IsInf) { CompareOp::Eq } else { CompareOp::Lt };
                self.compare(op, magnitude, infinity, here)
            }
        }
    }

    /// A function that expands into primitives; on integers `relu` and `clamp` are comparisons.
    pub(super) fn math_function(&mut self, math: MathFn, operands: &[ExprId], here: Here) -> Option<ExprId> {
        let dtype = self.arena.dtype(operands[0]).compute();
        if dtype.is_int() && math == MathFn::Relu {
            let zero = self.arena.constant(Scalar::zero(dtype), here);
            return self.binary(BinaryOp::Max, operands[0], zero, here);
        }
        if dtype.is_int() && math == MathFn::Clamp {
            let raised = self.binary(BinaryOp::Max, operands[0], operands[1], here)?;
            return self.binary(BinaryOp::Min, raised, operands[2], here);
        }
        self.compute(operands, here, |arena, v| arena.node(Kind::Math(math, v.to_vec()), Type::scalar(dtype), here))
    }

    fn reshape(&mut self, x: ast::ExprId, dims: &[ast::ExprId], want: Option<Dtype>, here: Here) -> Option<ExprId> {
        let x = self.expr(x, want, here.guard)?;
        self.check_rank(dims.len(), here.span)?;
        let from = self.arena.ty(x).shape.clone();
        let total = from.iter().fold(Size::constant(1), |p, n| &p * n);
        let mut hole = None;
        let mut shape = vec![];
        for (k, dim) in dims.iter().enumerate() {
            if matches!(self.ast(*dim).kind, ExprKind::Hole) {
                if hole.replace(k).is_some() {
                    let message = "only one size of a `reshape` can be worked out";
                    self.report.error(Diagnostic::new(codes::BAD_RESHAPE, self.ast(*dim).span, message));
                    return None;
                }
                shape.push(Size::constant(1));
            } else if self.plain_size(*dim).is_some_and(|size| size.as_constant() == Some(-1)) {
                let span = self.ast(*dim).span;
                let message = "a size cannot be negative: this is -1";
                let help = "`_` is the size to be worked out";
                self.report.error(Diagnostic::new(codes::NEGATIVE_SIZE, span, message).help(help).suggest(span, "_"));
                return None;
            } else {
                shape.push(self.size_argument(*dim, here.guard)?);
            }
        }
        let product = |shape: &[Size]| shape.iter().fold(Size::constant(1), |p, n| &p * n);
        if let Some(k) = hole {
            let others = product(&shape);
            if others.as_constant() == Some(0) {
                let message = "a size next to a zero cannot be worked out";
                self.report.error(
                    Diagnostic::new(codes::BAD_RESHAPE, here.span, message).help("write the size in place of `_`"),
                );
                return None;
            }
            shape[k] = total.exact_div(&others).unwrap_or_else(|| total.floor_div(&others));
        }
        let what = self.arena.describe(x);
        let new = product(&shape);
        let (elements, asked) = (format!("the number of elements of {what}"), "the number asked for");
        self.unify(Side::new(&total, elements), Side::new(&new, asked), here.span)?;
        let ty = Type { dtype: self.arena.dtype(x), shape };
        if from.is_empty() {
            let body = x;
            let indices = self.arena.axis_indices(&ty.shape, here.span);
            return Some(self.arena.comprehension(indices, body, here));
        }
        Some(self.arena.node(Kind::Reshape(x), ty, here))
    }

    /// Written out as `if i < n then x[i] else y[i - n]`, so that it fuses with no rule of its own.
    fn concat(
        &mut self,
        args: &[ast::ExprId],
        axis: Option<ast::ExprId>,
        want: Option<Dtype>,
        here: Here,
    ) -> Option<ExprId> {
        let arrays = self.same_type(args, Use::Moved, want, here)?;
        let first = self.arena.ty(arrays[0]).clone();
        let axis = match axis {
            Some(axis) => self.literal_axis(axis, first.shape.len())?,
            None => 0,
        };
        let mut shape = first.shape.clone();
        let mut ends = vec![];
        let mut total = Size::default();
        for array in &arrays {
            let own = self.arena.ty(*array).shape.clone();
            if own.is_empty() || own.len() != shape.len() {
                let message =
                    format!("`concat` takes arrays of one rank: {} and {} axes", first.shape.len(), own.len());
                let help = "a scalar becomes an array as `[a]`";
                self.report.error(Diagnostic::new(codes::RANK_MISMATCH, here.span, message).help(help));
                return None;
            }
            for k in (0..own.len()).filter(|k| *k != axis) {
                let (a, b) = (self.arena.describe(arrays[0]), self.arena.describe(*array));
                let left = Side::new(&shape[k], format!("axis {k} of {a}"));
                shape[k] = self.unify(left, Side::new(&own[k], format!("axis {k} of {b}")), here.span)?;
            }
            total = &total + &own[axis];
            ends.push(total.clone());
        }
        self.requirements.require_value(&self.arena, &total, "the length of the result", here.span);
        shape[axis] = total;
        let indices = self.arena.axis_indices(&shape, here.span);
        let along = indices[axis];
        let scalar = Type::scalar(first.dtype);
        // From the last array to the first: each `else` holds what is built so far. The branches
        // nest the other way, so they are made first.
        let mut branches = vec![];
        let mut outside = here;
        for end in &ends[..ends.len() - 1] {
            let (index, end) = (self.arena.index_node(along, outside), self.arena.size_node(end.clone(), outside));
            let condition = Kind::Compare(CompareOp::Lt, index, end);
            let condition = self.arena.node(condition, Type::scalar(Dtype::Bool), outside);
            // The accesses in them are inside by construction: no proof asks for the condition.
            let mut side = || {
                let guard = self.arena.branch(outside.guard, Branch { needed: true, ..Branch::default() });
                Here { guard, ..here }
            };
            let (then, otherwise) = (side(), side());
            branches.push((condition, outside, then));
            outside = otherwise;
        }
        let element = |arena: &mut Arena, k: usize, here: Here| {
            let start = if k == 0 || sabotage::on(Bug::ConcatStart) { Size::default() } else { ends[k - 1].clone() };
            let at = indices.iter().map(|i| match *i == along {
                true => Affine::index(*i).sub(&Affine::size(start.clone())),
                false => Affine::index(*i),
            });
            arena.element(arrays[k], at.collect(), here)
        };
        let mut value = element(&mut self.arena, arrays.len() - 1, outside);
        for (k, (condition, outside, then)) in branches.into_iter().enumerate().rev() {
            let then = element(&mut self.arena, k, then);
            value = self.arena.node(Kind::If { condition, then, otherwise: value }, scalar.clone(), outside);
        }
        Some(self.arena.comprehension(indices, value, here))
    }

    /// A size given as an argument; it may be negative only by mistake, which the call checks.
    pub(super) fn size_argument(&mut self, id: ast::ExprId, guard: GuardId) -> Option<Size> {
        let size = self.size(id, guard)?;
        self.require_size(&size, "a size", self.ast(id).span)?;
        Some(size)
    }

    /// Requires a size not to be negative.
    pub(super) fn require_size(&mut self, size: &Size, what: &str, span: Span) -> Option<()> {
        match size.as_constant() {
            Some(n) if n < 0 => {
                let message = format!("{what} cannot be negative: this is {n}");
                self.report.error(Diagnostic::new(codes::NEGATIVE_SIZE, span, message));
                None
            }
            Some(_) => Some(()),
            None if self.facts().never_negative(size) => {
                self.requirements.require_value(&self.arena, size, what, span);
                Some(())
            }
            None => {
                self.requirements.require(Requirement {
                    left: Size::default(),
                    relation: Relation::AtMost,
                    right: size.clone(),
                    unless_empty: vec![],
                    left_is: "zero".into(),
                    right_is: what.to_string(),
                    purpose: Purpose::Length,
                    origin: origin(span),
                });
                Some(())
            }
        }
    }

    /// A literal axis below a rank.
    pub(super) fn literal_axis(&mut self, id: ast::ExprId, rank: usize) -> Option<usize> {
        let span = self.ast(id).span;
        let axis = match self.ast(id).kind {
            ExprKind::Int(k) => usize::try_from(k).ok().filter(|k| *k < rank),
            _ => None,
        };
        if axis.is_none() {
            let message = match rank {
                0 => "a scalar has no axis".to_string(),
                1 => "the axis must be 0: the array has one axis".to_string(),
                _ => format!("the axis must be a number from 0 to {}: the array has {rank} axes", rank - 1),
            };
            let error = Diagnostic::new(codes::BAD_AXIS, span, message);
            let from_the_end = match &self.ast(id).kind {
                ExprKind::Unary(ast::UnaryOp::Neg, k) => match self.ast(*k).kind {
                    ExprKind::Int(k) => usize::try_from(k).ok().filter(|k| *k > 0).and_then(|k| rank.checked_sub(k)),
                    _ => None,
                },
                _ => None,
            };
            self.report.error(match from_the_end {
                Some(k) => error.help(format!("axes are counted from 0: write {k}")).suggest(span, k.to_string()),
                None => error,
            });
        }
        axis
    }
}

/// The names that every program can use without defining them: functions, reducers and constants.
pub fn names() -> impl Iterator<Item = &'static str> {
    let math = MathFn::ALL.iter().map(|f| f.name()).filter(|name| is_function(name));
    let reducers = REDUCERS.iter().map(|reducer| reducer.name).chain(DERIVED.iter().map(|f| f.name));
    let listed = SCALARS.iter().map(|f| f.name).chain(math).chain(reducers).chain(WHOLE.iter().copied());
    listed.chain(["pi", "inf", "nan", "true", "false"])
}

/// The scalar functions that take numbers of a type and return that type: names, and how many
/// arguments.
pub fn scalar_functions(dtype: Dtype) -> impl Iterator<Item = (&'static str, usize)> {
    let takes = move |name: &str, arguments: usize| scalar(name, arguments).is_some_and(|f| f.domain.takes(dtype));
    let keeps =
        |f: &&ScalarFunction| matches!(f.definition, Definition::Unary(_) | Definition::Binary(_) | Definition::Fma);
    let listed = SCALARS.iter().filter(keeps).map(|f| (f.name, f.arguments));
    let compared = move |f: MathFn| dtype.is_int() && matches!(f, MathFn::Relu | MathFn::Clamp);
    let defined = MathFn::ALL.iter().filter(move |f| compared(**f) || crate::math::define(**f, dtype).is_some());
    let math = defined.map(|f| (f.name(), f.arity()));
    listed.chain(math).filter(move |(name, arguments)| takes(name, *arguments))
}
