//! Extremes before monotone functions: the greatest of `f(x[i])` is `f` of the greatest `x[i]` if
//! `f` never falls, and of the least if it never rises. So `f` runs once for all elements.
//!
//! This changes no bit where `f` keeps the order of all floats, -0 below +0 included, gives a NaN
//! for a NaN, and gives none for any other operand. It holds for rounded arithmetic with a finite
//! constant, and for the functions in [`never_falls`].

use std::collections::{BTreeMap, BTreeSet};

use crate::build::Values;
use crate::nest::{Block, Kernel, Loop, LoopKind, Op, Program, Reduction, Statement, ValueId};
use crate::sabotage::{self, Bug};
use crate::visit::{for_each_statement, for_each_use};
use crate::{Affine, BinaryOp, CompareOp, Dtype, MathFn, Monoid, Scalar, Size, UnaryOp};

/// Takes monotone functions of one element out of the loops that find the greatest or the least.
/// Returns the number of operations that left a loop.
pub fn extremes(program: &Program, kernel: &mut Kernel) -> usize {
    let mut rewriter = Rewriter { program, values: &mut kernel.values, constants: BTreeMap::new(), count: 0 };
    rewriter.block(&mut kernel.body);
    rewriter.count
}

struct Rewriter<'a> {
    program: &'a Program,
    values: &'a mut Values,
    /// The constants so far.
    constants: BTreeMap<ValueId, Scalar>,
    count: usize,
}

/// How a function changes as its operand rises.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    NeverFalls,
    NeverRises,
}

/// An operation that leaves a loop.
struct Taken {
    /// The value that it defines.
    value: ValueId,
    op: Op,
    /// The operand that is no constant, and how the value changes with it.
    operand: ValueId,
    change: Change,
}

/// The operands for which a function never falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// All of them.
    All,
    /// From +0 on.
    Positive,
}

/// Where a function never falls, if a visit of all `f32` has shown it. In others, roundings do not
/// keep the order.
pub fn never_falls(math: MathFn, dtype: Dtype) -> Option<Domain> {
    match (math, dtype) {
        (MathFn::Relu, Dtype::F32 | Dtype::F64) | (MathFn::Atan, Dtype::F32) => Some(Domain::All),
        (MathFn::Exp | MathFn::Exp2 | MathFn::Log | MathFn::Log1p, Dtype::F32) => Some(Domain::Positive),
        _ => None,
    }
}

/// The monoid of an extreme, with the only input and result of the reduction.
fn extreme(r: &Reduction) -> Option<(Monoid, ValueId, ValueId)> {
    let single = r.single().filter(|single| matches!(single.monoid, Monoid::Max | Monoid::Min))?;
    Some((single.monoid, single.input, single.result))
}

/// The inputs of the extremes among reductions.
fn extremes_of(reductions: &[Reduction]) -> BTreeSet<ValueId> {
    reductions.iter().filter_map(extreme).map(|(_, input, _)| input).collect()
}

fn turned(monoid: Monoid, turns: bool) -> Monoid {
    match (monoid, turns) {
        (Monoid::Max, true) => Monoid::Min,
        (Monoid::Min, true) => Monoid::Max,
        (other, _) => other,
    }
}

/// How often the values of a loop's body are used in it, and by its reductions.
fn uses(body: &Block, reductions: &[Reduction]) -> BTreeMap<ValueId, usize> {
    let mut uses = BTreeMap::new();
    let mut count = |value| *uses.entry(value).or_insert(0) += 1;
    for_each_statement(body, &mut |statement| for_each_use(statement, &mut count));
    reductions.iter().flat_map(Reduction::values).for_each(count);
    uses
}

fn definition(body: &Block, value: ValueId) -> Option<&Op> {
    body.iter().find_map(|statement| {
        let Statement::Let { value: own, op } = statement else { return None };
        (*own == value).then_some(op)
    })
}

/// A finite constant.
fn finite(scalar: &Scalar) -> Option<f64> {
    let value = match scalar {
        Scalar::F32(x) => f64::from(*x),
        Scalar::F64(x) => *x,
        Scalar::Bool(_) | Scalar::I8(_) | Scalar::I16(_) | Scalar::I32(_) | Scalar::I64(_) => return None,
        Scalar::U8(_) | Scalar::U16(_) | Scalar::U32(_) | Scalar::U64(_) => return None,
        Scalar::F16(_) | Scalar::Bf16(_) => return None,
    };
    Some(value).filter(|x| x.is_finite())
}

/// How the result changes with the other operand of a finite constant.
fn by_constant(op: BinaryOp, constant: f64, is_left: bool) -> Option<Change> {
    let by_sign = || match constant {
        c if c > 0.0 => Some(Change::NeverFalls),
        c if c < 0.0 => Some(Change::NeverRises),
        _ => None,
    };
    match op {
        BinaryOp::Add | BinaryOp::Max | BinaryOp::Min => Some(Change::NeverFalls),
        BinaryOp::Sub => Some(if is_left { Change::NeverRises } else { Change::NeverFalls }),
        BinaryOp::Mul => by_sign(),
        BinaryOp::Div if !is_left => by_sign(),
        BinaryOp::Div
        | BinaryOp::Rem
        | BinaryOp::And
        | BinaryOp::Or
        | BinaryOp::Xor
        | BinaryOp::Shl
        | BinaryOp::Shr => None,
    }
}

impl Rewriter<'_> {
    fn block(&mut self, block: &mut Block) {
        let mut out = Vec::with_capacity(block.len());
        for mut statement in std::mem::take(block) {
            if let Statement::Let { value, op: Op::Constant(constant) } = &statement {
                self.constants.insert(*value, *constant);
            }
            statement.blocks_mut().for_each(|inner| self.block(inner));
            let after = if let Statement::Loop(l) = &mut statement { self.reduce(l) } else { vec![] };
            out.push(statement);
            out.extend(after);
        }
        *block = out;
    }

    /// Takes functions out of a loop. Returns the statements that apply them after it.
    fn reduce(&mut self, l: &mut Loop) -> Block {
        let Loop { dims, kind: LoopKind::Reduce(reductions), body } = l else { return vec![] };
        let sizes: Option<Vec<&Size>> = dims.iter().map(|(_, extent)| extent.as_size()).collect();
        let Some(count) = sizes.map(|sizes| sizes.into_iter().fold(Size::constant(1), |count, n| &count * n)) else {
            return vec![];
        };
        let mut after = vec![];
        for input in extremes_of(reductions) {
            let extremes = |r: &Reduction| extreme(r).filter(|(_, own, _)| *own == input);
            let uses = uses(body, reductions);
            let mut expected = reductions.iter().filter_map(extremes).count();
            let (mut value, mut taken) = (input, vec![]);
            // Whatever else uses a value would have to compute it anyway.
            while let Some(step) = self.step(body, value)
                && uses.get(&value) == Some(&expected)
            {
                (value, expected) = (step.operand, 1);
                taken.push(step);
            }
            // Types that are only stored have no extremes.
            while taken.pop_if(|last| self.values[last.operand].is_storage()).is_some() {}
            let Some(Taken { operand: value, .. }) = taken.last() else { continue };
            let value = *value;
            let falls = !sabotage::on(Bug::UnturnedExtreme)
                && taken.iter().filter(|taken| taken.change == Change::NeverRises).count() % 2 == 1;
            self.count += taken.len();
            body.retain(|s| !matches!(s, Statement::Let { value, .. } if taken.iter().any(|own| own.value == *value)));
            for r in reductions.iter_mut() {
                let Some((monoid, _, result)) = extremes(r) else { continue };
                let first = self.values.push(self.values[value]);
                *r = Reduction::monoid(first, turned(monoid, falls), r.order, value);
                self.apply(&mut after, (first, &taken), (monoid, result), &count);
            }
        }
        after
    }

    /// The operation that a value of the loop's body is, as a monotone function of another one.
    fn step(&self, body: &Block, value: ValueId) -> Option<Taken> {
        let op = definition(body, value)?;
        let (operand, change) = self.monotone(body, op)?;
        definition(body, operand).filter(|op| !matches!(op, Op::Constant(_)))?;
        Some(Taken { value, op: op.clone(), operand, change })
    }

    fn monotone(&self, body: &Block, op: &Op) -> Option<(ValueId, Change)> {
        let constant = |value: ValueId| self.constants.get(&value).and_then(finite);
        let (operand, change) = if let Op::Unary(op, x) = op {
            let falls = if *op == UnaryOp::Neg { Change::NeverRises } else { Change::NeverFalls };
            let fits = match op {
                UnaryOp::Neg | UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Trunc | UnaryOp::Round => true,
                UnaryOp::Sqrt => self.is_positive(body, *x),
                UnaryOp::Not | UnaryOp::Abs => false,
            };
            (*x, fits.then_some(falls)?)
        } else if let Op::Cast(to, x) = op {
            (*x, to.is_float().then_some(Change::NeverFalls)?)
        } else if let Op::Binary(op, a, b) = op {
            match constant(*b) {
                Some(c) => (*a, by_constant(*op, c, false)?),
                None => (*b, by_constant(*op, constant(*a)?, true)?),
            }
        } else if let Op::Call(function, arguments) = op
            && let [x] = arguments.as_slice()
        {
            let domain = never_falls(self.program.functions[*function].math, self.values[*x])?;
            let fits = domain == Domain::All || self.is_positive(body, *x);
            (*x, fits.then_some(Change::NeverFalls)?)
        } else {
            return None;
        };
        self.values[operand].is_float().then_some((operand, change))
    }

    /// Whether a value of a body is +0, positive or NaN.
    fn is_positive(&self, body: &Block, value: ValueId) -> bool {
        let Some(op) = definition(body, value) else { return false };
        if let Op::Unary(UnaryOp::Abs, x) = op {
            self.values[*x].is_float()
        } else if let Op::Binary(BinaryOp::Max, a, b) = op {
            let mut constants = [a, b].into_iter().filter_map(|side| self.constants.get(side).and_then(finite));
            constants.any(f64::is_sign_positive)
        } else if let Op::Call(function, _) = op {
            matches!(self.program.functions[*function].math, MathFn::Relu | MathFn::Exp | MathFn::Exp2)
        } else {
            false
        }
    }

    /// Applies the functions that left a loop to its result.
    fn apply(
        &mut self,
        after: &mut Block,
        (first, taken): (ValueId, &[Taken]),
        (monoid, result): (Monoid, ValueId),
        count: &Size,
    ) {
        let mut value = first;
        for Taken { value: own, op, operand, .. } in taken.iter().rev() {
            let mut op = op.clone();
            let mut constants = vec![];
            op.for_each_operand_mut(|used| {
                if *used == *operand {
                    *used = value;
                } else {
                    constants.push(*used);
                }
            });
            // The constant may be one of the body, so it is written again.
            for constant in constants {
                let copy = self.define(after, self.values[constant], Op::Constant(self.constants[&constant]));
                op.for_each_operand_mut(|used| *used = if *used == constant { copy } else { *used });
            }
            value = self.define(after, self.values[*own], op);
        }
        let dtype = self.values[result];
        let [count, zero] = [count, &Size::constant(0)]
            .map(|size| self.define(after, Dtype::I64, Op::Affine(Affine::size(size.clone()))));
        let some = self.define(after, Dtype::Bool, Op::Compare(CompareOp::Gt, count, zero));
        let none = self.define(after, dtype, Op::Constant(monoid.identity(dtype)));
        after.push(Statement::Let { value: result, op: Op::Select(some, value, none) });
    }

    fn define(&mut self, out: &mut Block, dtype: Dtype, op: Op) -> ValueId {
        let value = self.values.push(dtype);
        out.push(Statement::Let { value, op });
        value
    }
}
