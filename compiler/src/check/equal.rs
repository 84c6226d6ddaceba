//! Equations of sizes: decided here, or required of the call.
//!
//! Two declared names are two sizes. An equation between them alone is an error, unless conditions
//! that a signature states imply it; so is one that holds only if a size is 0.

use grammar::Diagnostic;
use grammar::ast::Span;
use ir::nest::{Purpose, Relation, Requirement, SymbolSource};
use ir::sabotage::{self, Bug};
use ir::size::Atom;
use ir::{Size, SymbolId};

use super::{Checker, codes, origin};

/// One side of an equation of sizes.
pub(super) struct Side {
    /// The size.
    pub size: Size,
    /// The name of the size in messages, such as "axis 0 of `x`".
    pub is: String,
}

impl Side {
    /// A size, and what it is.
    pub fn new(size: &Size, is: impl Into<String>) -> Side {
        Side { size: size.clone(), is: is.into() }
    }
}

/// An edit that may make two sizes equal.
pub(super) struct Edit {
    /// Where.
    pub at: Span,
    /// The text to write there.
    pub text: String,
}

impl Checker<'_> {
    /// The one size that both sides must be: decided here, or required of the call.
    pub(super) fn unify(&mut self, left: Side, right: Side, span: Span) -> Option<Size> {
        self.unify_by(left, right, span, None)
    }

    /// The same, with an edit that makes the sides equal where they are not.
    pub(super) fn unify_by(&mut self, left: Side, right: Side, span: Span, edit: Option<Edit>) -> Option<Size> {
        let difference = &left.size - &right.size;
        match difference.as_constant() {
            Some(0) => return Some(left.size),
            Some(_) => {
                let (l, r) = (self.arena.show(&left.size), self.arena.show(&right.size));
                let message = format!("sizes differ: {} is {l}, {} is {r}", left.is, right.is);
                self.report.error(Diagnostic::new(codes::SIZE_MISMATCH, span, message));
                return None;
            }
            None if sabotage::on(Bug::LengthsUnasked) => return Some(left.size),
            None => {}
        }
        let stated = || self.facts().never_negative(&difference) && self.facts().never_negative(&-&difference);
        match self.apart(&difference) {
            Some(apart) if !stated() => {
                self.report_apart(apart, &left, &right, span, edit);
                return None;
            }
            _ => {}
        }
        self.requirements.require(Requirement {
            left: left.size.clone(),
            relation: Relation::Equal,
            right: right.size.clone(),
            unless_empty: vec![],
            left_is: left.is,
            right_is: right.is,
            purpose: Purpose::Lengths,
            origin: origin(span),
        });
        let simple = |s: &Size| s.as_constant().is_some() || s.as_symbol().is_some();
        Some(if simple(&right.size) && !simple(&left.size) { right.size } else { left.size })
    }

    /// Why a difference of sizes is not known to be 0, if that is an error.
    fn apart(&self, difference: &Size) -> Option<Apart> {
        let symbol = |product: &[Atom]| match product {
            [Atom::Symbol(symbol)] => Some(*symbol),
            _ => None,
        };
        let is_length = |symbol: SymbolId| self.arena.out.symbols[symbol].source.is_length();
        match difference.terms() {
            [(only, _)] => symbol(only).map(Apart::Zero),
            [(a, c), (b, d)] if c.checked_neg() == Some(*d) => {
                let (a, b) = (symbol(a)?, symbol(b)?);
                (is_length(a) && is_length(b)).then_some(Apart::Names(a, b))
            }
            _ => None,
        }
    }

    fn report_apart(&mut self, apart: Apart, left: &Side, right: &Side, span: Span, edit: Option<Edit>) {
        let name = |symbol: SymbolId| self.arena.out.symbols[symbol].name.clone();
        let (l, r) = (self.arena.show(&left.size), self.arena.show(&right.size));
        let sides = format!("{} is {l}, {} is {r}", left.is, right.is);
        let error = match apart {
            Apart::Zero(zero) => {
                let message = format!("these sizes are equal only if `{}` is 0: {sides}", name(zero));
                let error = Diagnostic::new(codes::SIZES_APART, span, message);
                match edit {
                    Some(Edit { at, text }) => error.help("give the index a bound").suggest(at, text),
                    None => error.help("cut the longer one, as in `x[:n]`, or give an index a bound"),
                }
            }
            Apart::Names(a, b) => {
                let message = format!("`{}` and `{}` are two sizes: {sides}", name(a), name(b));
                let error = Diagnostic::new(codes::SIZES_APART, span, message);
                let source = |symbol| match self.arena.out.symbols[symbol].source {
                    SymbolSource::Dimension { input, .. }
                    | SymbolSource::Scalar { input }
                    | SymbolSource::Solved { input, .. } => input,
                };
                let error = match source(a) == source(b) && edit.is_none() {
                    true => error.note("axes are matched from the last; `let y[i, j] = ...` says which go together"),
                    false => error,
                };
                let condition = format!("{} == {}", name(a), name(b));
                // The names are those of the function that is called from outside.
                let function = self.report.calls.outermost().map(|number| &self.source.file.functions[number]);
                let error =
                    error.help(format!("if they are equal, use one name for both, or state `where {condition}`"));
                match function {
                    Some(function) => {
                        let (end, text) = match function.condition {
                            Some(stated) => (self.ast(stated).span.end, format!(" && {condition}")),
                            None => (function.signature.end, format!(" where {condition}")),
                        };
                        error.suggest(Span { start: end, end }, text)
                    }
                    None => error,
                }
            }
        };
        self.report.error(error);
    }
}

/// Why two sizes are not known to be equal.
enum Apart {
    /// They have different names.
    Names(SymbolId, SymbolId),
    /// They are equal only if this one is 0.
    Zero(SymbolId),
}
