//! The online form of sweeps: fewer of them, with results that differ in their last bits.
//!
//! A sweep that needs the maximum of a row can run together with the one that finds it, if it only
//! adds up values `a * exp(c * (x - m))`. The sums so far are those for the maximum so far. When it
//! grows from `m` to `n`, they are multiplied by `exp(c * (m - n))`, which is the exponential's own
//! computation with `m - n` in the place of `x - m` (Milakov and Gimelshein, "Online normalizer
//! calculation for softmax", 2018; Dao et al., "FlashAttention", 2022).
//!
//! A factor of weights that a row has in common, as the inverse of their sum, is left to the
//! results of the second product, which then need not wait for it.

use std::collections::BTreeMap;

use super::{Finder, Sweep, Weighted, defines, is_scratch, uses};
use crate::nest::{BufferId, FunctionId, Input, Merge, Op, Program, Reduction, Statement, ValueId};
use crate::{BinaryOp, Dtype, MathFn, Monoid, Order, Scalar, UnaryOp};

/// The sums of a sweep that follow a maximum of the same sweep.
pub struct Rescaled<'l> {
    /// The reduction that finds the maximum.
    pub maximum: &'l Reduction,
    /// The statements of an element up to the value that it takes.
    pub before: Vec<&'l Statement>,
    /// An element less the maximum.
    pub difference: ValueId,
    /// The statements from there to the exponential.
    pub scale: Vec<&'l Statement>,
    /// The exponential.
    pub exponential: ValueId,
    /// The sums that are proportional to it.
    pub sums: Vec<&'l Reduction>,
    /// Whether the results of the second product are so too.
    pub results: bool,
}

impl Rescaled<'_> {
    /// Whether the exponential is that of the difference, with the base e.
    pub fn is_natural(&self, program: &Program) -> bool {
        match self.scale.as_slice() {
            [Statement::Let { op: Op::Call(function, _), .. }] => program.functions[*function].math == MathFn::Exp,
            _ => false,
        }
    }
}

/// A factor that the weights of a row have in common.
#[derive(Clone, Copy)]
pub struct CommonFactor {
    /// A weight with the factor.
    pub with: ValueId,
    /// The same without it.
    pub without: ValueId,
    /// How it is applied: by a product or a quotient.
    pub op: BinaryOp,
    /// The factor.
    pub factor: ValueId,
}

/// How a value of an element depends on the maximum.
#[derive(Clone, Copy, PartialEq)]
enum Dependence {
    /// It is proportional to the difference.
    Away,
    /// It is proportional to the exponential.
    Scaled,
}

/// The values of elements that depend on a maximum.
struct Dependent<'l> {
    maximum: ValueId,
    values: BTreeMap<ValueId, Dependence>,
    scratch: BTreeMap<BufferId, Dependence>,
    /// The value that the maximum is subtracted from, and the difference.
    of: Option<ValueId>,
    difference: Option<ValueId>,
    exponential: Option<ValueId>,
    scale: Vec<&'l Statement>,
}

impl<'l> Finder<'_, 'l> {
    /// The factor that weights have in common, if there is one that their sweep would wait for.
    pub(super) fn common_factor(&self, mut weight: ValueId) -> Option<CommonFactor> {
        loop {
            weight = match self.element_op(weight)? {
                Op::Cast(to, from) if to.is_float() && self.values[*from].is_float() => *from,
                Op::Load { buffer, .. } if is_scratch(self.program, *buffer) => self.stored(*buffer)?,
                Op::Binary(op @ (BinaryOp::Mul | BinaryOp::Div), a, b) => {
                    let factors = [(*a, *b), (*b, *a)];
                    let either = factors.into_iter().take(if *op == BinaryOp::Mul { 2 } else { 1 });
                    let mut common = either.filter(|(element, row)| {
                        let [of_element, of_row] = [*element, *row].map(|value| self.before(vec![value]));
                        self.element_op(*element).is_some() && self.element_op(*row).is_none() && of_row > of_element
                    });
                    let (without, factor) = common.next()?;
                    return Some(CommonFactor { with: weight, without, op: *op, factor });
                }
                _ => return None,
            };
        }
    }

    /// The sweeps. One runs together with the sweep before it, where it can.
    pub(super) fn together(&mut self, exact: Vec<Sweep<'l>>) -> Vec<Sweep<'l>> {
        let found = (1..exact.len()).find_map(|number| {
            let [first, second] = [&exact[number - 1], &exact[number]];
            let mut maxima = first.reductions.iter().filter(|r| self.is_maximum(r));
            let found = maxima.find_map(|r| Some((*r, self.dependent(r, number, second)?)));
            found.map(|found| (number, found))
        });
        let Some((number, (maximum, found))) = found else { return exact };
        let Some((difference, exponential)) = found.difference.zip(found.exponential) else { return exact };
        let sums = exact[number].reductions.clone();
        let results = self.weighted.as_ref().is_some_and(|weighted| weighted.sweep == number + 1);
        // Those after the first of the two are one sweep earlier now.
        let earlier = |sweep: &mut usize| *sweep -= usize::from(*sweep > number);
        self.ready.iter_mut().for_each(|(_, sweep)| earlier(sweep));
        self.scratch.iter_mut().for_each(|(_, sweep)| earlier(sweep));
        self.row_statements.iter_mut().for_each(|(sweep, _)| earlier(sweep));
        self.elements.iter_mut().for_each(|(sweep, _)| earlier(sweep));
        self.reductions.iter_mut().for_each(|(sweep, _)| earlier(sweep));
        self.weighted.iter_mut().for_each(|weighted| earlier(&mut weighted.sweep));
        let Some(mut sweeps) = self.sweeps() else { return exact };
        let before = self.needed_values(maximum.values().collect(), None, |_| false);
        let sweep = &mut sweeps[number - 1];
        if let Some(mask) = &mut sweep.mask {
            // The difference from any maximum is infinite, and the exponential 0.
            let is_masked = |value: ValueId| self.source(value) == mask.masked;
            let all = maximum.values().all(is_masked) && found.of.is_some_and(is_masked);
            let stores = sweep.elements.iter().any(|statement| self.leaves(statement));
            mask.is_nothing = all && !stores && self.is_least(mask.fill) && found.scale.len() == 1;
        }
        let scale = found.scale;
        sweep.rescaled = Some(Rescaled { maximum, before, difference, scale, exponential, sums, results });
        sweeps
    }

    pub(super) fn is_maximum(&self, r: &Reduction) -> bool {
        let [Input::Value(value)] = r.inputs.as_slice() else { return false };
        matches!(r.merge, Merge::Monoid(Monoid::Max)) && r.order == Order::Free && self.values[*value] == Dtype::F32
    }

    /// How the values of a sweep depend on the maximum that the one before it finds. `None` if they
    /// need something else of it, or in another way.
    fn dependent(&self, maximum: &Reduction, number: usize, sweep: &Sweep<'l>) -> Option<Dependent<'l>> {
        let mut found = Dependent {
            maximum: *maximum.results.first()?,
            values: BTreeMap::new(),
            scratch: BTreeMap::new(),
            of: None,
            difference: None,
            exponential: None,
            scale: vec![],
        };
        let of_row = |value: ValueId| self.element_op(value).is_none() && value != self.score;
        for statement in &sweep.elements {
            // Nothing else that the sweep before finds.
            let waits = |value: &ValueId| of_row(*value) && self.before(vec![*value]) >= number;
            let common = self.weighted.as_ref().and_then(|weighted| weighted.common);
            let common = common.filter(|common| defines(statement, common.with));
            if let Some(common) = common {
                let of = found.values.get(&common.without).copied();
                found.values.extend(of.map(|of| (common.with, of)));
                continue;
            }
            if uses(statement).into_iter().any(|value| waits(&value) && value != found.maximum) {
                return None;
            }
            found.statement(self, statement, &of_row)?;
        }
        let scaled = |value: ValueId| found.values.get(&value) == Some(&Dependence::Scaled);
        let sums = sweep.reductions.iter().all(|r| {
            let is_sum = matches!(r.merge, Merge::Monoid(Monoid::Sum));
            is_sum && r.values().all(|value| scaled(value) && self.values[value] == Dtype::F32)
        });
        let weighted = self.weighted.as_ref().filter(|weighted| weighted.sweep == number + 1);
        (sums && weighted.is_none_or(|Weighted { weight, .. }| scaled(*weight))).then_some(found)
    }
}

impl<'l> Dependent<'l> {
    /// Records how a statement's value depends on the maximum.
    fn statement(
        &mut self,
        finder: &Finder<'_, 'l>,
        statement: &'l Statement,
        of_row: &dyn Fn(ValueId) -> bool,
    ) -> Option<()> {
        use Dependence::{Away, Scaled};
        let dependence = |value: &ValueId| self.values.get(value).copied();
        let free = |value: &ValueId| dependence(value).is_none() && *value != self.maximum;
        let (value, op) = match statement {
            Statement::Let { value, op } => (*value, op),
            Statement::Store { buffer, value, .. } if is_scratch(finder.program, *buffer) => {
                let of = dependence(value);
                self.scratch.extend(of.map(|of| (*buffer, of)));
                return (*value != self.maximum).then_some(());
            }
            _ => return None,
        };
        if uses(statement).iter().all(free) {
            if let Op::Load { buffer, .. } = op {
                let of = self.scratch.get(buffer).copied();
                // The difference stays in registers.
                self.values.extend(of.map(|of| (value, of)));
                return (of != Some(Away)).then_some(());
            }
            return Some(());
        }
        let found = match op {
            Op::Binary(BinaryOp::Sub, a, b) if free(a) && *b == self.maximum && self.difference.is_none() => {
                (self.of, self.difference) = (Some(*a), Some(value));
                Away
            }
            Op::Binary(BinaryOp::Mul, a, b) if dependence(a) == Some(Away) && of_row(*b) && free(b) => Away,
            Op::Binary(BinaryOp::Mul, a, b) if dependence(b) == Some(Away) && of_row(*a) && free(a) => Away,
            Op::Binary(BinaryOp::Div, a, b) if dependence(a) == Some(Away) && of_row(*b) && free(b) => Away,
            Op::Call(function, arguments) if dependence(arguments.first()?) == Some(Away) => {
                if !is_exponential(finder, *function) || self.exponential.is_some() {
                    return None;
                }
                self.exponential = Some(value);
                Scaled
            }
            Op::Binary(BinaryOp::Mul, a, b) if dependence(a) == Some(Scaled) && free(b) => Scaled,
            Op::Binary(BinaryOp::Mul, a, b) if dependence(b) == Some(Scaled) && free(a) => Scaled,
            Op::Binary(BinaryOp::Div, a, b) if dependence(a) == Some(Scaled) && free(b) => Scaled,
            Op::Binary(BinaryOp::Add | BinaryOp::Sub, a, b)
                if [a, b].iter().all(|value| dependence(value) == Some(Scaled)) =>
            {
                Scaled
            }
            Op::Unary(UnaryOp::Neg, a) if dependence(a) == Some(Scaled) => Scaled,
            Op::Cast(to, a) if dependence(a) == Some(Scaled) && to.is_float() => Scaled,
            Op::Select(condition, a, b) if free(condition) => {
                let fits = |value: &ValueId| {
                    dependence(value) == Some(Scaled) || finder.constant(*value) == Some(Scalar::F32(0.0))
                };
                if !fits(a) || !fits(b) {
                    return None;
                }
                Scaled
            }
            _ => return None,
        };
        let of_scale = found == Away || self.exponential == Some(value);
        if of_scale && self.difference != Some(value) {
            self.scale.push(statement);
        }
        self.values.insert(value, found);
        Some(())
    }
}

fn is_exponential(finder: &Finder<'_, '_>, function: FunctionId) -> bool {
    let function = &finder.program.functions[function];
    matches!(function.math, MathFn::Exp | MathFn::Exp2) && function.values[function.result] == Dtype::F32
}
