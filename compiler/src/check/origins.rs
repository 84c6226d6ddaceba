//! Where a value got a type that does not fit: from a literal without a context, or from a division
//! of integers. Errors point there, because a conversion at the place of the error would keep the
//! lost digits lost.

use std::collections::BTreeSet;

use grammar::Diagnostic;
use grammar::ast::Span;
use ir::checked::{ExprId, Kind};
use ir::{BinaryOp, Dtype};

use super::Checker;

/// The origin of the type of a value.
#[derive(Default)]
struct TypeOrigin {
    /// A literal, if the value is made of literals alone.
    literal: Option<Span>,
    /// A literal that a state of a loop begins with.
    first: Option<Span>,
    /// A division of integers, and its operands.
    division: Option<(Span, [Span; 2])>,
    /// Whether something in it has a type of its own, such as a parameter.
    typed: bool,
}

impl Checker<'_> {
    /// The error that a value is not of the type that is expected, or of a float if none is: with
    /// the place that gave it its type, and the edit that changes it there, if there is such a
    /// place. Otherwise the error as `or_else` completes it.
    pub(super) fn with_origin(
        &self,
        error: Diagnostic,
        value: ExprId,
        expected: Option<Dtype>,
        or_else: impl FnOnce(Diagnostic) -> Diagnostic,
    ) -> Diagnostic {
        let (found, expected) = (self.arena.dtype(value), expected.unwrap_or(Dtype::F32));
        let origin = match expected.is_float() && found != Dtype::Bool && found != expected {
            true => self.type_origin(value),
            false => TypeOrigin::default(),
        };
        match origin {
            TypeOrigin { division: Some((whole, [a, b])), typed, .. } if found.is_int() => {
                let error = error.label(whole, "this `/` divides integers");
                let error = error.help(format!("divide floats: `{expected}(...) / {expected}(...)`"));
                // An index alone has the place where it is bound.
                let in_place = whole.start == a.start && a.end < b.start && b.end == whole.end;
                match in_place && !typed {
                    true => [a, b].into_iter().fold(error, |e, side| e.wrap(side, format!("{expected}("), ")")),
                    false => error,
                }
            }
            TypeOrigin { literal, first, typed: false, .. } if found.is_float() => match first.or(literal) {
                Some(literal) => error
                    .label(literal, format!("without a context this is `{found}`"))
                    .help(format!("give it its type: `{expected}(...)`"))
                    .wrap(literal, format!("{expected}("), ")"),
                None => or_else(error),
            },
            _ => or_else(error),
        }
    }

    fn type_origin(&self, value: ExprId) -> TypeOrigin {
        let dtype = self.arena.dtype(value);
        let (mut pending, mut seen, mut found) = (vec![value], BTreeSet::new(), TypeOrigin::default());
        while let Some(id) = pending.pop() {
            if self.arena.dtype(id) != dtype || !seen.insert(id) {
                continue;
            }
            if self.conversions.contains(&id) {
                found.typed = true;
                continue;
            }
            let span = |id: ExprId| {
                let origin = &self.arena.out.exprs[id].origin;
                Span { start: origin.start, end: origin.end }
            };
            match &self.arena.out.exprs[id].kind {
                // The zero of a sum has the place of the sum.
                Kind::Constant(_) => {
                    let shorter = |known: &Span| known.end - known.start <= span(id).end - span(id).start;
                    found.literal = found.literal.filter(shorter).or(Some(span(id)));
                }
                Kind::Size(_) | Kind::Index(_) => {}
                Kind::Binary(op, a, b) => {
                    if *op == BinaryOp::Div && dtype.is_int() {
                        found.division = Some((span(id), [span(*a), span(*b)]));
                    }
                    pending.extend([*b, *a]);
                }
                Kind::Unary(_, a) | Kind::Reshape(a) | Kind::Access { array: a, .. } => pending.push(*a),
                Kind::Fma(a, b, c) => pending.extend([*a, *b, *c]),
                Kind::If { then, otherwise, .. } => pending.extend([*otherwise, *then]),
                Kind::Math(_, list) | Kind::ArrayLiteral(list) => pending.extend(list),
                // A number of elements.
                Kind::Cast(a) if matches!(self.arena.out.exprs[*a].kind, Kind::Size(_) | Kind::Index(_)) => {}
                Kind::Comprehension { body, .. } | Kind::Reduce { body, .. } => pending.push(*body),
                Kind::State { .. } => match self.first_states.get(&id) {
                    Some(first) => {
                        found.first = Some(span(*first));
                        pending.push(*first);
                    }
                    None => found.typed = true,
                },
                Kind::Loop { of, number, .. } => pending.push(self.arena.out.loops[*of].states[*number].first),
                _ => found.typed = true,
            }
        }
        found
    }
}
