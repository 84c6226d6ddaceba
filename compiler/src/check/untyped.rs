//! `let`s of literal expressions: they have no type until they are used, and may be used at several
//! types.
//!
//! Such a `let` is checked at once at the type that it has without a context, and again at each
//! other type that a use wants. Its names mean what they meant where it stands ([`Scope::view`]),
//! and it is in the branch in which it stands. A value that is out of the range of the first type
//! is no error unless the `let` is used at that type.

use cranelift_entity::{PrimaryMap, entity_impl};
use std::collections::BTreeMap;

use grammar::Diagnostic;
use grammar::ast::{self, Definition, ExprKind, Pattern, Span, Target};
use ir::Dtype;
use ir::checked::{ExprId, GuardId};

use super::arena::Here;
use super::literal::Nature;
use super::scope::{Binding, Place};
use super::{Checker, codes, random};

/// A definition without a type.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct UntypedId(u32);
entity_impl!(UntypedId, "untyped");

/// A name that stands for a literal expression.
#[derive(Clone)]
pub(super) struct Untyped<'a> {
    /// The expression.
    value: ast::ExprId,
    /// The left side of the `let`, if it makes an array by index notation.
    target: Option<&'a Target>,
    /// Where its value comes from.
    pub nature: Nature,
    /// Whether it is a float without a context.
    pub point: bool,
    place: Place,
    guard: GuardId,
    span: Span,
    /// Its values at the types at which it has been used, or the errors there.
    values: BTreeMap<Dtype, Result<ExprId, Vec<Diagnostic>>>,
}

impl Untyped<'_> {
    /// The type without a context.
    fn default_dtype(&self) -> Dtype {
        if self.point { Dtype::F32 } else { Dtype::I64 }
    }

    /// The type in a context: one that does not suit is none, so that the use has the error.
    fn dtype(&self, want: Option<Dtype>) -> Dtype {
        let suits = |dtype: &Dtype| match (self.nature, self.point) {
            (Nature::Sizes, _) => matches!(dtype, Dtype::F32 | Dtype::F64),
            (_, true) => dtype.is_float(),
            (_, false) => *dtype != Dtype::Bool,
        };
        want.filter(suits).unwrap_or_else(|| self.default_dtype())
    }
}

/// The definitions without types.
#[derive(Default)]
pub(super) struct AllUntyped<'a> {
    all: PrimaryMap<UntypedId, Untyped<'a>>,
    /// The values in the order in which they were made.
    made: Vec<(UntypedId, Dtype)>,
}

impl<'a> AllUntyped<'a> {
    /// The definition of a name.
    pub fn of(&self, id: UntypedId) -> &Untyped<'a> {
        &self.all[id]
    }

    /// The value without a context, if there is one.
    pub fn default_value(&self, id: UntypedId) -> Option<ExprId> {
        let untyped = &self.all[id];
        untyped.values.get(&untyped.default_dtype())?.as_ref().ok().copied()
    }

    /// A mark to come back to.
    pub fn mark(&self) -> usize {
        self.made.len()
    }

    /// Forgets the values made since a mark.
    pub fn back_to(&mut self, mark: usize) {
        for (id, dtype) in self.made.drain(mark..) {
            self.all[id].values.remove(&dtype);
        }
    }

    fn set(&mut self, id: UntypedId, dtype: Dtype, value: Result<ExprId, Vec<Diagnostic>>) {
        self.made.push((id, dtype));
        self.all[id].values.insert(dtype, value);
    }
}

impl<'a> Checker<'a> {
    /// The names of a `let` that have no type until they are used, each as a definition.
    pub(super) fn untyped_names(&mut self, statement: &'a ast::Let, guard: GuardId) -> Vec<Option<Untyped<'a>>> {
        let names = statement.names();
        let Definition::Values { target, value } = &statement.definition else { return vec![None; names.len()] };
        let parts = match (&target.pattern, &self.ast(*value).kind) {
            (Pattern::Name(_), _) => vec![*value],
            (Pattern::Tuple(_), ExprKind::Tuple(parts)) if target.binders.is_empty() => parts.clone(),
            _ => vec![],
        };
        if parts.len() != names.len() {
            return vec![None; names.len()];
        }
        let depth = self.scope.len();
        let place = self.scope.place();
        for binder in &target.binders {
            self.scope.push(&binder.name.text, Binding::Unbound);
        }
        let untyped = parts.into_iter().map(|value| {
            let (nature, point) = (self.nature(value), self.has_point(value));
            let is_untyped = nature == Nature::Literal || nature == Nature::Sizes && point;
            let target = Some(target).filter(|target| !target.binders.is_empty());
            let made = || Untyped {
                value,
                target,
                nature,
                point,
                place,
                guard,
                span: statement.span,
                values: BTreeMap::new(),
            };
            (is_untyped && self.may_be_repeated(value)).then(made)
        });
        let untyped = untyped.collect();
        self.scope.truncate(depth);
        untyped
    }

    /// Whether an expression may be checked again elsewhere: no random draw, no loop and no call of
    /// a function of the file is in it.
    fn may_be_repeated(&self, value: ast::ExprId) -> bool {
        let mut pending = vec![value];
        while let Some(id) = pending.pop() {
            let kind = &self.ast(id).kind;
            let repeats = match kind {
                ExprKind::Loop(_) => false,
                ExprKind::Call { callee, .. } => {
                    let name = callee.text.as_str();
                    !self.has_function(name) && random::function(name).is_none()
                }
                _ => true,
            };
            if !repeats {
                return false;
            }
            kind.for_each_operand(|operand| pending.push(operand));
        }
        true
    }

    /// The first value of a state of a loop as a definition without a type.
    pub(super) fn untyped_state(&mut self, first: ast::ExprId, place: Place, guard: GuardId) -> Binding {
        let (nature, point, span) = (self.nature(first), self.has_point(first), self.ast(first).span);
        let values = BTreeMap::new();
        let untyped = Untyped { value: first, target: None, nature, point, place, guard, span, values };
        Binding::Literal(self.untyped.all.push(untyped))
    }

    /// Brings a name without a type into scope. `value` is its value without a context.
    pub(super) fn bind_untyped(
        &mut self,
        name: &ast::Name,
        untyped: Untyped<'a>,
        value: Result<ExprId, Vec<Diagnostic>>,
    ) {
        if let Ok(value) = value {
            self.name_value(name, value);
        }
        let dtype = untyped.default_dtype();
        let id = self.untyped.all.push(untyped);
        self.untyped.set(id, dtype, value);
        self.scope.push(&name.text, Binding::Literal(id));
    }

    /// The errors since a mark, taken back, if a literal is out of range in each of them.
    pub(super) fn only_out_of_range(&mut self, mark: usize) -> Option<Vec<Diagnostic>> {
        let errors = self.report.since(mark);
        if !errors.iter().all(|error| error.code == codes::LITERAL_RANGE) {
            return None;
        }
        let errors = errors.to_vec();
        self.report.back_to(mark);
        Some(errors)
    }

    /// The value of a name without a type in a context.
    pub(super) fn untyped_value(
        &mut self,
        id: UntypedId,
        name: &str,
        want: Option<Dtype>,
        span: Span,
    ) -> Option<ExprId> {
        let dtype = self.untyped.of(id).dtype(want);
        if let Some(known) = self.untyped.of(id).values.get(&dtype).cloned() {
            return match known {
                Ok(value) => Some(value),
                Err(errors) => {
                    errors
                        .into_iter()
                        .for_each(|error| self.report.again(error.label(span, format!("used as `{dtype}` here"))));
                    None
                }
            };
        }
        let Untyped { value, target, place, guard, span: at, .. } = *self.untyped.of(id);
        let mark = self.report.mark();
        self.scope.view(place);
        let found = match target {
            None => self.expr(value, Some(dtype), guard),
            Some(target) => self
                .indexed(target, value, Some(dtype), at, Here { span: at, guard })
                .and_then(|arrays| arrays.first().copied()),
        };
        self.scope.leave();
        match found {
            Some(value) => {
                self.arena.out.exprs[value].name.get_or_insert_with(|| name.to_string());
                self.untyped.set(id, dtype, Ok(value));
            }
            None => {
                let errors = self.report.since(mark).to_vec();
                self.report.back_to(mark);
                for error in &errors {
                    self.report.again(error.clone().label(span, format!("used as `{dtype}` here")));
                }
                self.untyped.set(id, dtype, Err(errors));
            }
        }
        found
    }
}
