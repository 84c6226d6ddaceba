//! Derivatives: `grad[w](e)`, the derivative of a scalar in values that it is computed from, and
//! `jvp[x](e, dx)`, the change of a value for a change of those that it is computed from.
//!
//! A derivative is written out in the nodes of the checked program itself, as any other expression
//! is. So whatever comes later knows nothing of it: forward and backward are one program, and fuse
//! as one.
//!
//! `reverse` goes from the scalar to its operands. Each node gets *shares* from its users: the
//! change of the scalar for a change of the node, by way of that user. A node is done when all its
//! users are, in descending order of their numbers. A share of a scalar is an expression of the
//! indices that its user stands under (its *context*): those that the node does not depend on are
//! summed over. A share of an array is one of its elements: of the element `x[i + 1]`, at each `i`.
//! `inverse` turns it around: the element at `a` has the share of `i = a - 1`.
//!
//! `forward` goes the other way: each node that depends on the values has a change, an expression
//! of its own indices.
//!
//! | file | contents |
//! |---|---|
//! | `arithmetic` | sums and products that leave out zeros and ones |
//! | `table` | the slopes of scalar operations |
//! | `copy` | expressions at other indices |
//! | `reverse` | `grad`: shares, from users to operands |
//! | `forward` | `jvp`: changes, from operands to users |
//! | `reducers` | shares of what is reduced or scanned |
//! | `loops` | both for loops |
//! | `blocks` | long loops as loops over blocks of steps |
//! | `recurrences` | both for recurrences |
//! | `kept` | slopes of recurrences that are kept in arrays |
//! | `leaders` | both for running maxima and minima |
//! | `products` | both for running products |
//! | `idle` | maxima that a value does not depend on |
//! | `inverse` | the derivative of an array from shares of its elements |

mod arithmetic;
mod blocks;
mod copy;
mod forward;
mod idle;
mod inverse;
mod kept;
mod leaders;
mod loops;
mod products;
mod recurrences;
mod reducers;
mod reverse;
mod table;

use std::collections::BTreeMap;

use grammar::Diagnostic;
use grammar::ast::{self, Span};
use ir::checked::{ExprId, Kind, Type};
use ir::{Affine, Dtype, Scalar};

use super::arena::{Arena, Here};
use super::scope::Binding;
use super::{Checker, MAX_EXPRS, codes};
use forward::Forward;
use reverse::Reverse;

impl<'a> Checker<'a> {
    /// `grad[a, b](e)`: the derivative of `e` in each of the values; or `jvp[a, b](e, da, db)`: the
    /// change of `e` for a change of the values.
    pub(super) fn derivative(
        &mut self,
        derivative: &ast::Derivative,
        want: Option<Dtype>,
        here: Here,
    ) -> Option<Vec<ExprId>> {
        let mut of = vec![];
        for name in &derivative.of {
            of.push(self.varied(name)?);
        }
        let Some(changes) = &derivative.changes else {
            let value = self.derived(derivative.value, want, here)?;
            self.expect_one(value, derivative.value)?;
            return Reverse::new(self, of).gradients(value, here);
        };
        let value = self.derived(derivative.value, want, here)?;
        let mut known = BTreeMap::new();
        for (of, id) in of.into_iter().zip(changes) {
            let dtype = self.arena.dtype(of).compute();
            let change = self.expr(*id, Some(dtype), here.guard)?;
            self.expect_change(of, change, self.ast(*id).span)?;
            known.insert(of, Some(change));
        }
        for id in self.idle_extremes(value) {
            known.entry(id).or_insert(None);
        }
        Some(vec![Forward::new(known).change_of(self, value, here)?])
    }

    /// The names in a function that it has derivatives in.
    pub(super) fn derived_names(&self, function: &'a ast::Function) -> Vec<&'a str> {
        let mut pending: Vec<ast::ExprId> = function.lets.iter().flat_map(ast::Let::values).collect();
        pending.push(function.result);
        let mut found = vec![];
        while let Some(id) = pending.pop() {
            let kind = &self.ast(id).kind;
            if let ast::ExprKind::Derivative(derivative) = kind {
                found.extend(derivative.of.iter().map(|name| name.text.as_str()));
            }
            kind.for_each_operand(|operand| pending.push(operand));
        }
        found
    }

    /// The value that is derived: of floats.
    fn derived(&mut self, id: ast::ExprId, want: Option<Dtype>, here: Here) -> Option<ExprId> {
        let value = self.expr(id, want, here.guard)?;
        let ty = self.arena.ty(value).clone();
        if !ty.dtype.is_float() {
            let message = format!("a derivative is of floats, this is {}", self.arena.show_type(&ty));
            let error = Diagnostic::new(codes::GRAD_OF, self.ast(id).span, message);
            self.report.error(error.help("convert it: `f32(...)`").wrap(self.ast(id).span, "f32(", ")"));
            return None;
        }
        Some(value)
    }

    fn expect_one(&mut self, value: ExprId, id: ast::ExprId) -> Option<()> {
        let ty = self.arena.ty(value).clone();
        if ty.is_scalar() {
            return Some(());
        }
        let message = format!("`grad` takes a scalar, this is {}", self.arena.show_type(&ty));
        let error = Diagnostic::new(codes::GRAD_OF, self.ast(id).span, message);
        let error = error.help("add its elements up, each with a weight if it has one: `sum(...)`");
        self.report.error(error.wrap(self.ast(id).span, "sum(", ")"));
        None
    }

    /// Reports a change of another type or shape than the value that changes.
    fn expect_change(&mut self, of: ExprId, change: ExprId, span: Span) -> Option<()> {
        let (wanted, found) = (self.arena.ty(of).clone(), self.arena.ty(change).clone());
        let wanted = Type { dtype: wanted.dtype.compute(), ..wanted };
        if wanted != found {
            let [wanted, found] = [wanted, found].map(|ty| self.arena.show_type(&ty));
            let message = format!("a change has the type of the value, {wanted}: this is {found}");
            self.report.error(Diagnostic::new(codes::GRAD_OF, span, message));
            return None;
        }
        Some(())
    }

    /// A value that a derivative is in.
    fn varied(&mut self, name: &ast::Name) -> Option<ExprId> {
        let error = |message: String| {
            Diagnostic::new(codes::GRAD_OF, name.span, message)
                .help("a derivative is in a parameter or a `let` of floats")
        };
        let value = match self.scope.get(&name.text).cloned() {
            Some(Binding::Value(value)) => value,
            Some(Binding::Literal(of)) => self.untyped_value(of, &name.text, None, name.span)?,
            Some(Binding::Unbound | Binding::Broken) => return None,
            Some(Binding::Index(_) | Binding::Size(_)) => {
                self.report.error(error(format!("`{}` is an integer and has no derivative", name.text)));
                return None;
            }
            None => {
                self.report.error(error(format!("there is no `{}` here", name.text)));
                return None;
            }
        };
        let dtype = self.arena.dtype(value);
        if !dtype.is_float() {
            self.report.error(error(format!("`{}` is of type `{dtype}` and has no derivative", name.text)));
            return None;
        }
        Some(value)
    }

    /// Zeros of the type that derivatives of a node have.
    fn zeros_like(&mut self, id: ExprId, here: Here) -> ExprId {
        let zero = self.zero_like(id, here);
        let shape = self.arena.ty(id).shape.clone();
        let axes = self.arena.axis_indices(&shape, here.span);
        self.arena.comprehension(axes, zero, here)
    }

    /// Reports something that has no derivative yet.
    pub(super) fn not_derived(&mut self, id: ExprId, what: &str) {
        let origin = self.arena.out.exprs[id].origin;
        let span = Span { start: origin.start, end: origin.end };
        let error = Diagnostic::new(codes::NOT_DERIVED, span, format!("there is no derivative of {what}"));
        self.report.error(error.note("a derivative goes through all that lies between a value and what it is in"));
    }

    /// Whether the program has grown beyond the stated limit, which is reported.
    fn is_full(&mut self, span: Span) -> bool {
        let full = self.arena.out.exprs.len() > MAX_EXPRS;
        if full {
            self.report.too_large(span);
        }
        full
    }
}

impl Arena {
    /// A value as a node that is no other one's, so that a derivative in it is one in it alone.
    pub(super) fn of_its_own(&mut self, value: ExprId, here: Here) -> ExprId {
        let ty = self.ty(value).clone();
        if ty.is_scalar() {
            let condition = self.constant(Scalar::Bool(true), here);
            return self.node(Kind::If { condition, then: value, otherwise: value }, ty, here);
        }
        let axes = self.axis_indices(&ty.shape, here.span);
        let element = self.element(value, axes.iter().map(|index| Affine::index(*index)).collect(), here);
        self.comprehension(axes, element, here)
    }
}
