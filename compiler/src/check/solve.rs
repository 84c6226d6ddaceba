//! Sizes in the types of parameters that are solved for: `x: f32[2 * n + 1]` binds `n`.
//!
//! An axis binds the one name in its length that nothing else binds, if the length is that name
//! times a positive number, plus something that is known. Names that are alone on an axis are bound
//! before, so the order of the parameters does not matter.

use grammar::Diagnostic;
use grammar::ast::{self, BinaryOp, ExprKind, Function, Span, UnaryOp};
use ir::nest::{Purpose, Relation, Requirement, Symbol, SymbolSource};
use ir::{Size, SymbolId};

use super::scope::Binding;
use super::{Checker, codes, origin};

/// A length that is a name times a positive number, plus something.
struct Solvable<'a> {
    name: &'a str,
    times: i64,
    plus: Size,
}

impl Solvable<'_> {
    /// The value of the name for such a length, rounded down.
    fn value(&self, length: &Size) -> Size {
        (length - &self.plus).floor_div(&Size::constant(self.times))
    }
}

impl<'a> Checker<'a> {
    /// Brings into scope the sizes that the parameters of the program are solved for.
    pub(super) fn solve_parameters(&mut self, function: &'a Function) {
        let axes = function.params.iter().enumerate().flat_map(|(input, param)| {
            param.ty.shape.iter().enumerate().map(move |(axis, dim)| (input, axis, *dim, param.name.text.as_str()))
        });
        let axes: Vec<_> = axes.collect();
        // A name that is solved for may leave only one in another length.
        while let Some(((input, axis, dim, param), solvable)) =
            axes.iter().find_map(|of| Some((*of, self.solvable(of.2)?)))
        {
            let length = Size::symbol(self.length(input, axis, param));
            let source = SymbolSource::Solved { input, axis, value: solvable.value(&length) };
            let symbol = self.arena.symbol(Symbol { name: solvable.name.to_string(), source });
            let (size, span) = (Size::symbol(symbol), self.ast(dim).span);
            self.scope.push(solvable.name, Binding::Size(size.clone()));
            // Without something negative to add, it is no longer than the axis.
            if !self.facts().never_negative(&solvable.plus) {
                self.requirements.bound_scalar(&self.arena, symbol, span);
            }
            self.requirements.require(Requirement {
                left: Size::default(),
                relation: Relation::AtMost,
                right: size,
                unless_empty: vec![],
                left_is: "zero".into(),
                right_is: format!("the size `{}`", solvable.name),
                purpose: Purpose::Length,
                origin: origin(span),
            });
        }
    }

    /// Brings into scope the sizes that the arguments of a call are solved for: each axis that
    /// declares more than a name, with the length of the argument and its place.
    pub(super) fn solve_arguments(&mut self, axes: &[(ast::ExprId, Size, Span)]) -> Option<()> {
        while let Some(((_, length, span), solvable)) = axes.iter().find_map(|of| Some((of, self.solvable(of.0)?))) {
            let value = solvable.value(length);
            self.require_size(&value, &format!("the size `{}`", solvable.name), *span)?;
            self.scope.push(solvable.name, Binding::Size(value));
        }
        Some(())
    }

    /// The size name that is the length of an axis of a parameter, which may have no name in the
    /// source.
    pub(super) fn length(&mut self, input: usize, axis: usize, param: &str) -> SymbolId {
        let source = SymbolSource::Dimension { input, axis };
        let known = self.arena.out.symbols.iter().find(|(_, symbol)| symbol.source == source);
        match known {
            Some((symbol, _)) => symbol,
            None => self.arena.symbol(Symbol { name: format!("{param}_{axis}"), source }),
        }
    }

    /// A length that can be solved for the one name in it that nothing binds.
    fn solvable(&self, id: ast::ExprId) -> Option<Solvable<'a>> {
        let (name, _) = self.unbound(id)?;
        let (times, plus) = self.linear_in(id, name)?;
        (times > 0).then_some(Solvable { name, times, plus })
    }

    /// An expression as a multiple of a name, plus a size.
    fn linear_in(&self, id: ast::ExprId, name: &str) -> Option<(i64, Size)> {
        if let Some(size) = self.plain_size(id) {
            return Some((0, size));
        }
        let linear = |id| self.linear_in(id, name);
        match &self.ast(id).kind {
            ExprKind::Name(other) => (other == name).then(|| (1, Size::default())),
            ExprKind::Unary(UnaryOp::Neg, a) => {
                let (times, plus) = linear(*a)?;
                Some((times.checked_neg()?, -&plus))
            }
            ExprKind::Binary(op, a, b) => {
                let ((a, plus_a), (b, plus_b)) = (linear(*a)?, linear(*b)?);
                match op {
                    BinaryOp::Add => Some((a.checked_add(b)?, &plus_a + &plus_b)),
                    BinaryOp::Sub => Some((a.checked_sub(b)?, &plus_a - &plus_b)),
                    BinaryOp::Mul => {
                        let (times, plus, factor) = if a == 0 { (b, plus_b, plus_a) } else { (a, plus_a, plus_b) };
                        let constant = factor.as_constant().filter(|_| a == 0 || b == 0)?;
                        Some((times.checked_mul(constant)?, &plus * &factor))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The error about a name in a size that nothing binds.
    pub(super) fn unbound_size(&self, id: ast::ExprId, name: &str, at: Span) -> Diagnostic {
        let error = Diagnostic::new(codes::UNBOUND_SIZE, at, format!("nothing binds the size `{name}`"));
        let alone = at == self.ast(id).span;
        let mut names = vec![];
        self.unbound_names(id, &mut names);
        match names.iter().find(|other| **other != name) {
            _ if alone => {
                error.help(format!("a parameter with `{name}` in its type binds it, as in `x: f32[{name}]`"))
            }
            Some(other) => error
                .note(format!("the length of an axis cannot tell both `{name}` and `{other}`"))
                .help(format!("give one of them by another axis, `y: f32[{other}]`, or as a number, `{other}: i64`")),
            None => error
                .note(format!(
                    "a length gives `{name}` its value if it is `{name}` times a positive number, plus something known, \
                     as `2 * {name} + 1` is"
                ))
                .help(format!("give it by another axis, `y: f32[{name}]`, or as a number, `{name}: i64`")),
        }
    }

    /// The names in a size that nothing binds.
    fn unbound_names(&self, id: ast::ExprId, names: &mut Vec<&'a str>) {
        match &self.ast(id).kind {
            ExprKind::Name(name) if self.scope.get(name).is_none() => names.push(name),
            kind => kind.for_each_operand(|operand| self.unbound_names(operand, names)),
        }
    }
}
