//! Recurrences: `let rec y[t < n] = e`, arrays that refer to earlier elements of themselves and of
//! each other. `earlier` finds the order of their elements.
//!
//! The type of an array has to be known before its body is checked, and follows from its body. So
//! types are tried: first the type of a branch of the body that reads no array of the recurrence,
//! then one element type after another, in the order of `DTYPES`, which begins with the type of
//! integer literals. A type is right if the body has it and no error. If none is, the errors of the
//! attempt with the fewest are shown.

use cranelift_entity::packed_option::ReservedValue;
use grammar::Diagnostic;
use grammar::ast::{self, Equation, ExprKind};
use ir::Dtype;
use ir::checked::{self, ExprId, GuardId, IndexId, Kind, Recurrence, RecurrenceId, Type};

use super::arena::{Ends, Here};
use super::bounds::Accesses;
use super::earlier::Unordered;
use super::finish::Unfinished;
use super::index::Binds;
use super::requirements::Requirements;
use super::scope::Binding;
use super::{Checker, Side, codes};

/// The element types that are tried, in this order.
const DTYPES: [Dtype; 13] = [
    Dtype::I64,
    Dtype::F32,
    Dtype::F64,
    Dtype::Bool,
    Dtype::I32,
    Dtype::U32,
    Dtype::U64,
    Dtype::F16,
    Dtype::Bf16,
    Dtype::I8,
    Dtype::U8,
    Dtype::I16,
    Dtype::U16,
];

/// The state before an attempt to check an expression, to return to.
struct Before {
    accesses: Accesses,
    unfinished: Unfinished,
    requirements: Requirements,
    ends: Ends,
    untyped: usize,
    errors: Vec<Diagnostic>,
}

/// The outcome of an attempt to check bodies at certain types.
enum Attempt {
    /// The bodies have these types.
    Right(Vec<ExprId>),
    /// They have others.
    Other(Vec<Type>),
    /// There are errors.
    Wrong(Vec<Diagnostic>),
}

/// The arrays of a recurrence while their bodies are being checked.
struct Arrays<'a> {
    recurrence: RecurrenceId,
    equations: &'a [Equation],
    /// The indices of each.
    indices: Vec<Vec<IndexId>>,
    guard: GuardId,
}

impl<'a> Checker<'a> {
    /// The arrays of a recurrence.
    pub(super) fn recurrence(&mut self, equations: &'a [Equation], guard: GuardId) -> Option<Vec<ExprId>> {
        self.expect_distinct(equations.iter().map(|equation| &equation.name), |name| {
            format!("the array `{name}` is defined twice")
        });
        let mut indices = vec![];
        for equation in equations {
            indices.push(self.own_indices(equation, guard));
        }
        let indices = indices.into_iter().collect::<Option<Vec<_>>>()?;
        let none = ExprId::reserved_value();
        let own = indices.iter().map(|own| checked::Equation { indices: own.clone(), body: none }).collect();
        let recurrence = self.arena.out.recurrences.push(Recurrence { equations: own, ..Recurrence::default() });
        let arrays = Arrays { recurrence, equations, indices, guard };
        let bodies = self.typed_bodies(&arrays)?;
        self.complete(&arrays, bodies)
    }

    /// The indices of an array. They have written bounds, because accesses to the array itself do
    /// not say where they end.
    fn own_indices(&mut self, equation: &Equation, guard: GuardId) -> Option<Vec<IndexId>> {
        if let Some(open) = equation.binders.iter().find(|binder| binder.upper.is_none()) {
            let name = &open.name.text;
            let message = format!("nothing says where the index `{name}` of a recurrence ends");
            let error = Diagnostic::new(codes::UNBOUNDED_INDEX, open.name.span, message);
            self.report.error(error.help(format!("give it a bound: `{name} < n`")));
            return None;
        }
        let depth = self.scope.len();
        let indices = self.open(&equation.binders, Binds::Array, guard)?;
        self.scope.truncate(depth);
        self.close(&indices, Binds::Array);
        if self.arena.ends.any_poisoned(&indices) {
            return None;
        }
        for (index, binder) in indices.iter().zip(&equation.binders) {
            let size = self.arena.length(*index);
            let what = format!("the number of values of the index `{}`", binder.name.text);
            self.require_size(&size, &what, binder.name.span)?;
        }
        Some(indices)
    }

    /// The bodies at the first types that fit.
    fn typed_bodies(&mut self, arrays: &Arrays<'a>) -> Option<Vec<ExprId>> {
        let mut first = vec![];
        for array in 0..arrays.equations.len() {
            let (before, equation) = (self.begin(), &arrays.equations[array]);
            let depth = self.enter(arrays, array);
            let ty = self.independent_type(equation.value, arrays);
            self.leave(arrays, array, depth, ty.is_some());
            self.take_back(before);
            first.push(ty);
        }
        let shape = |k: usize| first[k].as_ref().map_or(vec![], |ty: &Type| ty.shape.clone());
        let at = |dtype: Dtype| (0..first.len()).map(|k| Type { dtype, shape: shape(k) }).collect::<Vec<_>>();
        let mut candidates: Vec<Vec<Type>> = DTYPES.iter().rev().map(|dtype| at(*dtype)).collect();
        candidates.extend(first.iter().cloned().collect::<Option<Vec<_>>>());
        let (mut tried, mut fewest): (Vec<Vec<Type>>, Option<Vec<Diagnostic>>) = (vec![], None);
        while let Some(types) = candidates.pop() {
            if tried.contains(&types) || tried.len() > 2 * DTYPES.len() {
                continue;
            }
            match self.attempt(arrays, &types) {
                Attempt::Right(bodies) => return Some(bodies),
                Attempt::Other(types) => candidates.push(types),
                Attempt::Wrong(errors) if fewest.as_ref().is_none_or(|few| errors.len() < few.len()) => {
                    fewest = Some(errors);
                }
                Attempt::Wrong(_) => {}
            }
            tried.push(types);
        }
        let name = &arrays.equations[0].name;
        let errors = fewest.unwrap_or_else(|| {
            let message = format!("`{}` has another type than the elements that it is computed from", name.text);
            vec![Diagnostic::new(codes::DTYPE_MISMATCH, name.span, message)]
        });
        errors.into_iter().for_each(|error| self.report.error(error));
        None
    }

    /// The type of the first branch of a body that reads no array of the recurrence, unless it is a
    /// literal, which would take another.
    fn independent_type(&mut self, body: ast::ExprId, arrays: &Arrays<'a>) -> Option<Type> {
        let mut branches = vec![body];
        while let Some(id) = branches.pop() {
            if let ExprKind::If { then, otherwise, .. } = self.ast(id).kind {
                branches.extend([otherwise, then]);
                continue;
            }
            let reads = |equation: &Equation| self.mentions(vec![id], &equation.name.text, None);
            if self.is_literal(id) || arrays.equations.iter().any(reads) {
                continue;
            }
            if let Some(value) = self.expr(id, None, arrays.guard)
                && self.arena.size_value(value).is_none()
            {
                return Some(self.arena.ty(value).clone());
            }
        }
        None
    }

    /// Checks the bodies, with arrays of these types. Keeps nothing unless they fit.
    fn attempt(&mut self, arrays: &Arrays<'a>, types: &[Type]) -> Attempt {
        let before = self.begin();
        let mut bodies = vec![];
        for (within, equation) in arrays.equations.iter().enumerate() {
            let depth = self.enter(arrays, within);
            for (array, (equation, ty)) in arrays.equations.iter().zip(types).enumerate() {
                let lengths = arrays.indices[array].iter().map(|index| self.arena.length(*index));
                let ty = Type { dtype: ty.dtype, shape: lengths.chain(ty.shape.iter().cloned()).collect() };
                let here = Here { span: equation.name.span, guard: arrays.guard };
                let kind = Kind::Earlier { recurrence: arrays.recurrence, array, within };
                let node = self.arena.node(kind, ty, here);
                self.arena.out.exprs[node].name = Some(equation.name.text.clone());
                // The indices of the array hide it.
                if !equations_bind(&arrays.equations[within], &equation.name.text) {
                    self.scope.push(&equation.name.text, Binding::Value(node));
                }
            }
            let body = self.expr(equation.value, Some(types[within].dtype), arrays.guard);
            self.leave(arrays, within, depth, body.is_some());
            bodies.extend(body);
        }
        if bodies.len() < types.len() || !self.report.is_empty() {
            return Attempt::Wrong(self.take_back(before));
        }
        let found: Vec<Type> = bodies.iter().map(|body| self.arena.ty(*body).clone()).collect();
        let fits = |(a, b): (&Type, &Type)| a.dtype == b.dtype && a.shape.len() == b.shape.len();
        if !found.iter().zip(types).all(fits) {
            self.take_back(before);
            return Attempt::Other(found);
        }
        for ((found, ty), equation) in found.iter().zip(types).zip(arrays.equations) {
            for (axis, (left, right)) in found.shape.iter().zip(&ty.shape).enumerate() {
                let left = Side::new(left, format!("axis {axis} of the elements of `{}`", equation.name.text));
                let right = Side::new(right, "the same axis of an earlier element");
                if self.unify(left, right, equation.name.span).is_none() {
                    return Attempt::Wrong(self.take_back(before));
                }
            }
        }
        self.keep(before);
        Attempt::Right(bodies)
    }

    /// Brings the indices of an array into scope. Returns the scope before.
    fn enter(&mut self, arrays: &Arrays<'a>, array: usize) -> usize {
        let depth = self.scope.len();
        for (index, binder) in arrays.indices[array].iter().zip(&arrays.equations[array].binders) {
            let here = Here { span: binder.name.span, guard: arrays.guard };
            let node = self.arena.index_node(*index, here);
            self.scope.push(&binder.name.text, Binding::Index(node));
        }
        self.arena.ends.open.extend(&arrays.indices[array]);
        depth
    }

    /// Takes them out of scope.
    fn leave(&mut self, arrays: &Arrays<'a>, array: usize, depth: usize, sound: bool) {
        self.scope.truncate(depth);
        self.excuse(&arrays.indices[array], sound);
        self.close(&arrays.indices[array], Binds::Array);
    }

    /// Begins an attempt.
    fn begin(&mut self) -> Before {
        Before {
            accesses: std::mem::take(&mut self.accesses),
            unfinished: std::mem::take(&mut self.unfinished),
            requirements: self.requirements.clone(),
            ends: self.arena.ends.clone(),
            untyped: self.untyped.mark(),
            errors: self.report.take(),
        }
    }

    /// Takes an attempt back. Returns its errors.
    fn take_back(&mut self, before: Before) -> Vec<Diagnostic> {
        let errors = self.report.take();
        self.accesses = before.accesses;
        self.unfinished = before.unfinished;
        self.requirements = before.requirements;
        self.arena.ends = before.ends;
        self.untyped.back_to(before.untyped);
        self.report.put_back(before.errors);
        errors
    }

    /// Keeps the nodes and records that an attempt has made.
    fn keep(&mut self, mut before: Before) {
        before.accesses.append(std::mem::take(&mut self.accesses));
        before.unfinished.append(std::mem::take(&mut self.unfinished));
        self.accesses = before.accesses;
        self.unfinished = before.unfinished;
        self.report.put_back(before.errors);
    }

    /// The arrays, from bodies of the right types.
    fn complete(&mut self, arrays: &Arrays<'a>, bodies: Vec<ExprId>) -> Option<Vec<ExprId>> {
        let recurrence = arrays.recurrence;
        let (mut free, mut equations): (Vec<IndexId>, Vec<checked::Equation>) = (vec![], vec![]);
        for ((equation, own), body) in arrays.equations.iter().zip(&arrays.indices).zip(bodies) {
            let here = Here { span: self.ast(equation.value).span, guard: arrays.guard };
            free.extend(self.arena.free(body).iter().filter(|i| !own.contains(i)));
            let axes = self.arena.axis_indices(&self.arena.ty(body).shape.clone(), here.span);
            let at = axes.iter().map(|index| ir::Affine::index(*index)).collect();
            let body = self.arena.element(body, at, here);
            let indices: Vec<IndexId> = own.iter().chain(&axes).copied().collect();
            self.check_rank(indices.len(), here.span)?;
            equations.push(checked::Equation { indices, body });
        }
        free.sort_unstable();
        free.dedup();
        let types: Vec<Type> = equations
            .iter()
            .map(|equation| {
                let shape = equation.indices.iter().map(|index| self.arena.length(*index)).collect();
                Type { dtype: self.arena.dtype(equation.body), shape }
            })
            .collect();
        self.arena.out.recurrences[recurrence] = Recurrence { equations, free, ..Recurrence::default() };
        let names = arrays.equations.iter().map(|equation| equation.name.clone()).collect();
        self.accesses.recurrences.push(Unordered { recurrence, names, call: self.report.calls.current() });
        let mut values = vec![];
        for (array, (equation, ty)) in arrays.equations.iter().zip(types).enumerate() {
            let here = Here { span: equation.name.span, guard: arrays.guard };
            values.push(self.arena.node(Kind::Recurrence { recurrence, array }, ty, here));
        }
        Some(values)
    }
}

/// Whether an array has an index of this name.
fn equations_bind(equation: &Equation, name: &str) -> bool {
    equation.binders.iter().any(|binder| binder.name.text == name)
}
