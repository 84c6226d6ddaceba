//! Symmetric temporaries, such as the distances between bodies: where `d[i, j]` and `d[j, i]` have
//! the same bits, a reader takes the one along the rows. Then the sums over rows and over columns,
//! of which derivatives have many, are sums over rows, and the temporary can stay inside of the
//! kernel that reads it.
//!
//! Each value of a kernel gets a number, once as it stands and once with two of the axes exchanged.
//! Equal numbers are equal bits: operands of `+` and `*` are put in order, and `a - b` has the
//! number of `b - a` with the opposite sign, which a square or an absolute value loses again. The
//! sign of a zero is not known of opposites, so they count as equal nowhere else.

use std::collections::BTreeMap;

use ir::nest::{
    Block, BufferId, Extent, IndexId, Input, Kernel, Loop, LoopKind, Merge, Op, Program, Statement, Subscript, ValueId,
};
use ir::rewrite::{for_each_affine_mut, for_each_use_mut};
use ir::sabotage::{self, Bug};
use ir::{Affine, BinaryOp, Dtype, Order, UnaryOp};

/// How the elements of temporaries relate to others of theirs.
type Relations = BTreeMap<BufferId, Vec<Relation>>;

/// Two axes, and how an element relates to the one with the subscripts exchanged.
type Relation = ((usize, usize), Sign);

/// How a value relates to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    /// It has the same bits.
    Equal,
    /// It is the same but for the sign of a zero.
    Same,
    /// It is the opposite, but for the sign of a zero.
    Opposite,
}

impl Sign {
    /// The relation of a product, of which each factor has a relation.
    fn times(self, other: Sign) -> Sign {
        match (self, other) {
            (Sign::Equal, other) => other,
            (sign, Sign::Equal) => sign,
            (a, b) => {
                if a == b {
                    Sign::Same
                } else {
                    Sign::Opposite
                }
            }
        }
    }
}

/// A number, and the relation of the value to those of that number.
type Number = (ValueId, Sign);

/// The computations that have a number: equal ones have the same.
#[derive(PartialEq, Eq)]
enum Computation {
    /// An operation on numbers.
    Op(Op),
    /// A result of a reduction of numbers.
    Reduced { number: usize, merge: Merge, order: Order, dims: Vec<(IndexId, Extent)>, inputs: Vec<Input> },
    /// One that equals no other.
    Unknown(usize),
}

/// Lets readers of symmetric temporaries read along rows.
pub(super) fn read_along_rows(program: &mut Program) {
    let mut relations = Relations::new();
    for id in program.kernels.keys() {
        if let Some((buffer, found)) = symmetries(program, &program.kernels[id], &relations) {
            relations.insert(buffer, found);
        }
    }
    relations.values_mut().for_each(|found| found.retain(|(_, sign)| *sign == Sign::Equal));
    for kernel in program.kernels.values_mut() {
        turn(&mut kernel.body, &mut vec![], &relations);
    }
}

/// The temporary that a kernel stores, and its symmetries, if there are any.
fn symmetries(program: &Program, kernel: &Kernel, relations: &Relations) -> Option<(BufferId, Vec<Relation>)> {
    let (dims, body) = match kernel.body.as_slice() {
        [before @ .., Statement::Loop(Loop { dims, kind: LoopKind::Parallel, body })]
            if before.iter().all(|s| matches!(s, Statement::Let { .. })) =>
        {
            (dims, (before, body))
        }
        _ => return None,
    };
    let (Statement::Store { buffer, at, value }, inner) = body.1.split_last()? else { return None };
    let shape = &program.buffers[*buffer].shape;
    let plain = |(s, (index, _)): (&Subscript, &(IndexId, Extent))| *s == Subscript::Affine(Affine::index(*index));
    let whole = at.len() == dims.len() && at.iter().zip(dims).all(plain);
    if !whole {
        return None;
    }
    let pairs = (0..dims.len()).flat_map(|q| (0..q).map(move |p| (p, q)));
    let found = pairs.filter(|(p, q)| shape[*p] == shape[*q] && dims[*p].1 == dims[*q].1).filter_map(|(p, q)| {
        let mut numbers = Numbers { kernel, table: vec![], relations };
        let mut values = |exchanged| {
            let mut values = Values::new();
            numbers.block(body.0, exchanged, &mut values)?;
            numbers.block(inner, exchanged, &mut values)?;
            values.get(value).copied()
        };
        let (here, there) = (values(None)?, values(Some((dims[p].0, dims[q].0)))?);
        (here.0 == there.0).then(|| ((p, q), here.1.times(there.1)))
    });
    let found: Vec<_> = found.collect();
    (!found.is_empty()).then_some((*buffer, found))
}

/// The numbers of a kernel's values.
type Values = BTreeMap<ValueId, Number>;

/// The computations of a kernel, by their numbers.
struct Numbers<'a> {
    kernel: &'a Kernel,
    table: Vec<Computation>,
    relations: &'a Relations,
}

impl Numbers<'_> {
    /// Numbers the values of a block with two indices exchanged; `None` if it does more than
    /// compute.
    fn block(&mut self, block: &[Statement], exchanged: Option<(IndexId, IndexId)>, values: &mut Values) -> Option<()> {
        for statement in block {
            let mut here = statement.clone();
            for_each_affine_mut(&mut here, &mut |affine| {
                *affine = affine.substitute(&mut |index| {
                    Affine::index(match exchanged {
                        Some((a, b)) if index == a => b,
                        Some((a, b)) if index == b => a,
                        _ => index,
                    })
                });
            });
            match here {
                Statement::Let { value, op } => {
                    let number = self.op(op, values);
                    values.insert(value, number);
                }
                Statement::Loop(Loop { dims, kind: LoopKind::Reduce(reductions), .. }) => {
                    let Statement::Loop(Loop { body, .. }) = statement else { return None };
                    self.block(body, exchanged, values)?;
                    for reduction in reductions {
                        let exact = |input: &Input| match input.value() {
                            Some(value) => {
                                let (number, sign) = values.get(&value)?;
                                (*sign == Sign::Equal).then_some(Input::Value(*number))
                            }
                            None => Some(Input::Number),
                        };
                        let inputs: Option<Vec<Input>> = reduction.inputs.iter().map(exact).collect();
                        for (number, result) in reduction.results.iter().enumerate() {
                            let (merge, order, dims) = (reduction.merge, reduction.order, dims.clone());
                            let of = match inputs.clone() {
                                Some(inputs) => {
                                    self.number(Computation::Reduced { number, merge, order, dims, inputs })
                                }
                                None => self.unknown(),
                            };
                            values.insert(*result, (of, Sign::Equal));
                        }
                    }
                }
                Statement::Store { .. }
                | Statement::Scatter { .. }
                | Statement::If { .. }
                | Statement::Loop(_)
                | Statement::While(_)
                | Statement::Contract(_) => return None,
            }
        }
        Some(())
    }

    fn op(&mut self, op: Op, values: &Values) -> Number {
        let of = |value: &ValueId| values.get(value).copied();
        match &op {
            Op::Load { buffer, view: None, at } if self.relations.contains_key(buffer) => {
                let (mut at, mut sign) = (at.clone(), Sign::Equal);
                for ((p, q), relation) in &self.relations[buffer] {
                    if at[*q] < at[*p] {
                        at.swap(*p, *q);
                        sign = sign.times(*relation);
                    }
                }
                let affine = at.iter().all(|s| matches!(s, Subscript::Affine(_)));
                let load = Op::Load { buffer: *buffer, view: None, at };
                (if affine { self.number(Computation::Op(load)) } else { self.unknown() }, sign)
            }
            Op::Binary(BinaryOp::Sub, a, b) => match (of(a), of(b)) {
                (Some((a, Sign::Equal)), Some((b, Sign::Equal))) => {
                    let equal = a <= b || sabotage::on(Bug::OppositeEqual);
                    let sign = if equal { Sign::Equal } else { Sign::Opposite };
                    (self.number(Computation::Op(Op::Binary(BinaryOp::Sub, a.min(b), a.max(b)))), sign)
                }
                _ => (self.unknown(), Sign::Equal),
            },
            Op::Binary(BinaryOp::Mul, a, b) => match (of(a), of(b)) {
                (Some((one, sign)), Some((other, its))) => {
                    let factors = Op::Binary(BinaryOp::Mul, one.min(other), one.max(other));
                    (self.number(Computation::Op(factors)), if a == b { Sign::Equal } else { sign.times(its) })
                }
                _ => (self.unknown(), Sign::Equal),
            },
            Op::Unary(UnaryOp::Abs, a) => match of(a) {
                // The opposite of an unsigned number is another one, and each is its own `abs`.
                Some((_, Sign::Opposite)) if !has_opposite(self.kernel.values[*a]) => (self.unknown(), Sign::Equal),
                Some((a, _)) => (self.number(Computation::Op(Op::Unary(UnaryOp::Abs, a))), Sign::Equal),
                None => (self.unknown(), Sign::Equal),
            },
            Op::Unary(UnaryOp::Neg, a) => match of(a) {
                Some((a, sign)) => (self.number(Computation::Op(Op::Unary(UnaryOp::Neg, a))), sign),
                None => (self.unknown(), Sign::Equal),
            },
            _ => {
                let mut statement = Statement::Let { value: ValueId::from_u32(0), op };
                let mut exact = true;
                for_each_use_mut(&mut statement, &mut |value| match values.get(value) {
                    Some((number, Sign::Equal)) => *value = *number,
                    _ => exact = false,
                });
                let Statement::Let { mut op, .. } = statement else { return (self.unknown(), Sign::Equal) };
                if let Op::Binary(BinaryOp::Add, a, b) = &mut op
                    && *b < *a
                {
                    std::mem::swap(a, b);
                }
                (if exact { self.number(Computation::Op(op)) } else { self.unknown() }, Sign::Equal)
            }
        }
    }

    fn number(&mut self, of: Computation) -> ValueId {
        let number = self.table.iter().position(|other| *other == of).unwrap_or_else(|| {
            self.table.push(of);
            self.table.len() - 1
        });
        ValueId::from_u32(u32::try_from(number).unwrap_or(u32::MAX))
    }

    fn unknown(&mut self) -> ValueId {
        self.number(Computation::Unknown(self.table.len()))
    }
}

/// Whether numbers of a type have the absolute value of their opposites.
fn has_opposite(dtype: Dtype) -> bool {
    dtype.is_float() || dtype.is_signed_int()
}

/// Exchanges subscripts of symmetric temporaries: the index of the innermost loop comes last.
fn turn(block: &mut Block, around: &mut Vec<IndexId>, relations: &Relations) {
    for statement in block {
        if let Statement::Let { op: Op::Load { buffer, view: None, at }, .. } = statement {
            for ((p, q), _) in relations.get(buffer).into_iter().flatten() {
                if depth(&at[*p], around) > depth(&at[*q], around) {
                    at.swap(*p, *q);
                }
            }
        }
        let outside = around.len();
        if let Statement::Loop(l) = statement {
            around.extend(l.dims.iter().map(|(index, _)| *index));
        }
        statement.blocks_mut().for_each(|inner| turn(inner, around, relations));
        around.truncate(outside);
    }
}

/// The number of loops around the innermost one that a subscript depends on.
fn depth(subscript: &Subscript, around: &[IndexId]) -> Option<usize> {
    match subscript {
        Subscript::Affine(affine) => {
            affine.terms().iter().filter_map(|(index, _)| around.iter().position(|one| one == index)).max()
        }
        Subscript::Value(_) => Some(around.len()),
    }
}
