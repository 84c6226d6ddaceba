//! Sizes, subscripts and elements as expressions.

use ir::linear::Linear;
use ir::nest::{BufferId, Extent, IndexId, Subscript};
use ir::size::Atom;
use ir::{Affine, Scalar, Size};

use super::argument::Argument;
use super::helpers::Helper;
use super::kernel::Writer;
use super::scalar::{self, Level, Text};

impl Writer<'_> {
    /// A size: a polynomial of size names, or else an argument of its own.
    pub(super) fn size(&mut self, size: &Size) -> Text {
        let plain = |product: &[Atom]| product.iter().all(|atom| matches!(atom, Atom::Symbol(_)));
        if size.as_constant().is_none() && !size.terms().iter().all(|(product, _)| plain(product)) {
            return Text::atom(self.argument(&Argument::Size(size.clone())));
        }
        let mut terms = vec![];
        // Names first, so that a number is added to them.
        let (numbers, names): (Vec<_>, Vec<_>) = size.terms().iter().partition(|(product, _)| product.is_empty());
        for (product, factor) in names.into_iter().chain(numbers) {
            let mut factors: Vec<Text> = vec![];
            if product.is_empty() || factor.unsigned_abs() != 1 {
                factors.push(Text::atom(factor.unsigned_abs().to_string()));
            }
            for atom in product {
                let Atom::Symbol(symbol) = atom else { continue };
                factors.push(Text::atom(self.argument(&Argument::Size(Size::symbol(*symbol)))));
            }
            let term = factors.into_iter().reduce(|a, b| Text::infix(Level::Product, &a, "*", &b));
            terms.push((*factor < 0, term.unwrap_or_else(|| Text::atom("1"))));
        }
        added(terms)
    }

    /// An affine expression of sizes and indices.
    pub(super) fn affine(&mut self, affine: &Affine<IndexId>) -> Text {
        let mut terms = vec![];
        for (index, coefficient) in affine.terms() {
            let Some(Some(index)) = self.indices.get(index).cloned() else { continue };
            let index = Text::atom(index);
            terms.push(match coefficient.as_constant() {
                Some(1) => (false, index),
                Some(-1) => (true, index),
                _ => {
                    let coefficient = self.size(coefficient);
                    (false, Text::infix(Level::Product, &index, "*", &Text::atom(coefficient.at(Level::Sign))))
                }
            });
        }
        let constant = affine.constant_part();
        if !constant.is_zero() {
            let negative = constant.as_constant().is_some_and(|n| n < 0 && n > i64::MIN);
            let text = if negative { self.size(&-constant) } else { self.size(constant) };
            terms.push((negative, text));
        }
        // Terms that are subtracted come last.
        terms.sort_by_key(|(minus, _)| *minus);
        added(terms)
    }

    /// An affine expression as a value. Unlike a subscript, it may wrap.
    pub(super) fn affine_value(&mut self, affine: &Affine<IndexId>) -> (Text, Option<Helper>) {
        if let Some(constant) = affine.as_size().and_then(Size::as_constant) {
            return (scalar::constant(Scalar::I64(constant)), None);
        }
        let small = |size: &Size| self.program.is_small(size);
        if small(affine.constant_part()) && affine.terms().iter().all(|(_, coefficient)| small(coefficient)) {
            return (self.affine(affine), None);
        }
        let mut sum = self.exact(affine.constant_part());
        for (index, coefficient) in affine.terms() {
            let Some(Some(index)) = self.indices.get(index).cloned() else { continue };
            let coefficient = self.exact(coefficient);
            let term = Text::call("mul", &[&Text::atom(index), &coefficient]);
            sum = Text::call("add", &[&sum, &term]);
        }
        (sum, Some(Helper::Wrapping))
    }

    /// A size that the host computes, unless it is a constant.
    fn exact(&mut self, size: &Size) -> Text {
        match size.as_constant() {
            Some(constant) => scalar::constant(Scalar::I64(constant)),
            None => Text::atom(self.argument(&Argument::Size(size.clone()))),
        }
    }

    pub(super) fn extent(&mut self, extent: &Extent) -> Text {
        match extent {
            Extent::Affine(affine) => self.affine(affine),
            Extent::Value(value) => self.value(*value),
        }
    }

    /// The name of an array.
    pub(super) fn array(&mut self, buffer: BufferId) -> String {
        match self.scratch.get(&buffer) {
            Some(name) => name.clone(),
            None => {
                self.stored.extend(self.part.run.results().contains(&buffer).then_some(buffer));
                self.argument(&Argument::Buffer(buffer))
            }
        }
    }

    /// An element of an array.
    pub(super) fn element(&mut self, buffer: BufferId, view: Option<&[Size]>, at: &[Subscript]) -> Text {
        let linear = Linear::of(self.program, buffer, view, at);
        self.element_at(buffer, &linear)
    }

    pub(super) fn element_at(&mut self, buffer: BufferId, linear: &Linear) -> Text {
        let name = self.array(buffer);
        let mut sum = self.affine(&linear.affine);
        for (value, stride) in &linear.values {
            let value = self.value(*value);
            let term = match stride.as_constant() {
                Some(1) => value,
                _ => {
                    let stride = Text::atom(self.size(stride).at(Level::Sign));
                    Text::infix(Level::Product, &value, "*", &stride)
                }
            };
            sum = if sum.text == "0" { term } else { added(vec![(false, sum), (false, term)]) };
        }
        Text::atom(format!("{name}[{}]", sum.text))
    }
}

/// A sum of terms, each of them added, or subtracted if it comes with `true`. (Such sums of indices
/// do not depend on their order.)
fn added(terms: Vec<(bool, Text)>) -> Text {
    let mut sum: Option<Text> = None;
    for (minus, term) in terms {
        sum = Some(match (sum, minus) {
            (None, false) => term,
            (None, true) => Text::new(Level::Sign, format!("-{}", term.at(Level::Atom))),
            (Some(sum), false) => match term.text.strip_prefix('-').filter(|_| term.level == Level::Sign) {
                Some(positive) => Text::new(Level::Sum, format!("{} - {positive}", sum.at(Level::Sum))),
                None => Text::new(Level::Sum, format!("{} + {}", sum.at(Level::Sum), term.at(Level::Sum))),
            },
            (Some(sum), true) => Text::infix(Level::Sum, &sum, "-", &term),
        });
    }
    sum.unwrap_or_else(|| Text::atom("0"))
}
