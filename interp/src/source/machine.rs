//! The evaluator: computes the value of a scalar, or an element of an array, at the current setting
//! of the indices.

use std::collections::BTreeMap;

use cranelift_entity::{PrimaryMap, SecondaryMap};
use ir::array::ArrayRef;
use ir::bind::{Binding, Fault};
use ir::checked::{Checked, ExprId, Extent, IndexId, Kind, LoopId, Prefix, RecurrenceId, Subscript};
use ir::{Affine, BinaryOp, Dtype, MathFn, Monoid, Order, ReduceOp, Scalar, Size};

use super::Functions;
use super::facts::{Facts, Keep};
use super::loops::State;
use super::recurrence::Arrays;
use super::reduce::{Prefixes, Reducing, of_none};
use crate::scalar::{self, Evaluator};

/// The number of settings that all expressions together may remember, beyond one for each.
const ROOM: usize = 1 << 22;

/// The reason why a value could not be computed.
#[derive(Clone)]
pub(super) enum Stop {
    /// A checked subscript is out of bounds.
    Fault(Fault),
    /// A subscript that was proved to be in bounds is not.
    Unproved { access: ExprId, axis: usize, index: i64, length: i64 },
    /// A state within a step is asked for while the loop is not running.
    NoStep,
    /// An element of a recurrence that was proved to be earlier is not.
    NotEarlier { array: ExprId },
}

pub(super) type Step<T> = Result<T, Stop>;

/// A value and the setting of the free indices at which it was computed.
type Latest = (Box<[i64]>, Scalar);

/// The remembered values of an expression, by the setting of its free indices.
pub(super) struct Table<T> {
    /// The one used last.
    latest: Option<(Vec<i64>, T)>,
    others: BTreeMap<Vec<i64>, T>,
}

impl<T> Table<T> {
    pub(super) const EMPTY: Table<T> = Table { latest: None, others: BTreeMap::new() };

    /// The value remembered at a setting, made first if there is none. At most `room` are kept.
    pub(super) fn at(
        &mut self,
        setting: impl Iterator<Item = i64> + Clone,
        room: usize,
        make: impl FnOnce() -> T,
    ) -> &mut T {
        let is_latest = self.latest.as_ref().is_some_and(|(key, _)| key.iter().copied().eq(setting.clone()));
        if !is_latest {
            let key: Vec<i64> = setting.collect();
            if self.others.len() >= room {
                self.others.clear();
            }
            let entry = self.others.remove_entry(&key).unwrap_or_else(|| (key, make()));
            if let Some((key, value)) = self.latest.replace(entry)
                && room > 1
            {
                self.others.insert(key, value);
            }
        }
        match &mut self.latest {
            Some((_, value)) => value,
            None => unreachable!("set above"),
        }
    }
}

/// The reducer of a reduction, its order, and the type of the elements.
#[derive(Clone, Copy)]
struct Reducer {
    op: ReduceOp,
    order: Order,
    dtype: Dtype,
}

/// A scan in progress: the prefixes so far, beginning with the empty one.
struct Scan {
    running: Prefixes,
    prefixes: Vec<Scalar>,
}

/// A call in progress.
pub(super) struct Machine<'a> {
    pub(super) checked: &'a Checked,
    inputs: &'a [ArrayRef<'a>],
    pub(super) facts: &'a Facts,
    binding: Binding,
    functions: BTreeMap<(MathFn, Dtype), Evaluator<'a>>,
    /// The length of each axis of each array expression.
    shapes: PrimaryMap<ExprId, Box<[i64]>>,
    /// The current setting of the indices. An index keeps its value after its binder ends, where
    /// nothing mentions it.
    pub(super) indices: SecondaryMap<IndexId, i64>,
    latest: SecondaryMap<ExprId, Option<Latest>>,
    cells: BTreeMap<ExprId, Table<Vec<Option<Scalar>>>>,
    scans: BTreeMap<ExprId, Table<Option<Scan>>>,
    /// The last states of loops.
    outcomes: BTreeMap<LoopId, Table<Option<State>>>,
    /// The states of the loops that are running.
    pub(super) running: BTreeMap<LoopId, State>,
    /// The arrays of recurrences, as far as they are computed.
    pub(super) recurrences: BTreeMap<RecurrenceId, Table<Arrays>>,
    /// How many settings an expression may remember if each holds one value.
    pub(super) room: usize,
}

impl<'a> Machine<'a> {
    /// A machine for one call. All sizes have values.
    pub fn new(
        checked: &'a Checked,
        inputs: &'a [ArrayRef<'a>],
        facts: &'a Facts,
        functions: &'a Functions,
        binding: Binding,
    ) -> Machine<'a> {
        let mut shapes = PrimaryMap::new();
        let mut tables = 1;
        for (id, expr) in &checked.exprs {
            let length = |size| binding.size(size).unwrap_or(0).max(0);
            shapes.push(if facts.reached(id) { expr.ty.shape.iter().map(length).collect() } else { Box::default() });
            tables += usize::from(facts.reached(id) && facts.keep(id) == Keep::Many);
        }
        let functions = functions.iter().map(|(key, function)| (*key, Evaluator::new(function))).collect();
        Machine {
            checked,
            inputs,
            facts,
            binding,
            functions,
            shapes,
            indices: SecondaryMap::new(),
            latest: SecondaryMap::new(),
            cells: BTreeMap::new(),
            scans: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            running: BTreeMap::new(),
            recurrences: BTreeMap::new(),
            room: ROOM / tables,
        }
    }

    /// An upper bound on the bytes of all arrays' elements for one setting of the free indices.
    /// `None` on overflow.
    pub fn bytes(&self) -> Option<usize> {
        let is_loop = |id: ExprId| matches!(self.checked.exprs[id].kind, Kind::Loop { .. });
        let keeps = |id: &ExprId| self.facts.reached(*id) && (self.facts.keep(*id) == Keep::Many || is_loop(*id));
        let kept = self.checked.exprs.keys().filter(keeps);
        kept.map(|id| self.count(id)?.checked_mul(size_of::<Option<Scalar>>()))
            .try_fold(0, |sum, bytes| bytes?.checked_add(sum))
    }

    /// The length of each axis of an array.
    pub fn shape(&self, id: ExprId) -> &[i64] {
        &self.shapes[id]
    }

    /// How many elements an array has.
    fn count(&self, id: ExprId) -> Option<usize> {
        self.shapes[id].iter().try_fold(1usize, |product, n| product.checked_mul(usize::try_from(*n).ok()?))
    }

    /// Sets an index.
    pub fn set(&mut self, index: IndexId, value: i64) {
        self.indices[index] = value;
    }

    /// The element of an array with a row-major number, or a scalar.
    pub fn numbered(&mut self, id: ExprId, number: usize) -> Step<Scalar> {
        if self.checked.exprs[id].ty.is_scalar() {
            return self.value(id);
        }
        let at = position(number, &self.shapes[id]);
        self.element(id, &at)
    }

    /// All elements of an array, row-major, or a scalar.
    pub fn elements(&mut self, id: ExprId) -> Step<Vec<Scalar>> {
        let count = self.shapes[id].iter().map(|n| usize::try_from(*n).unwrap_or(0)).product::<usize>();
        (0..count).map(|number| self.numbered(id, number)).collect()
    }

    /// The last state of a loop at this setting of the indices around it, once it has run.
    pub fn outcome(&mut self, of: LoopId) -> &mut Option<State> {
        let Machine { checked, indices, outcomes, room, .. } = self;
        let around = checked.loops[of].around.iter().map(|i| indices[*i]);
        outcomes.entry(of).or_insert(Table::EMPTY).at(around, *room, || None)
    }

    /// The value of a scalar.
    pub fn value(&mut self, id: ExprId) -> Step<Scalar> {
        match self.facts.keep(id) {
            Keep::No => grow(|| self.compute(id)),
            Keep::Latest => {
                let free = self.facts.free(id);
                if let Some((setting, value)) = &self.latest[id]
                    && free.iter().map(|i| self.indices[*i]).eq(setting.iter().copied())
                {
                    return Ok(*value);
                }
                let value = grow(|| self.compute(id))?;
                self.latest[id] = Some((self.facts.free(id).iter().map(|i| self.indices[*i]).collect(), value));
                Ok(value)
            }
            Keep::Many => self.remembered(id, 0, |machine| machine.compute(id)),
        }
    }

    /// The element of an array at a position that is in bounds.
    fn element(&mut self, id: ExprId, at: &[i64]) -> Step<Scalar> {
        let checked = self.checked;
        match &checked.exprs[id].kind {
            Kind::Param(input) => {
                let number = number(at, &self.shapes[id]);
                Ok(self.inputs[*input].get(number).unwrap_or(Scalar::zero(checked.exprs[id].ty.dtype)))
            }
            Kind::ArrayLiteral(elements) => self.value(elements[number(at, &self.shapes[id])]),
            Kind::Reshape(inner) => {
                let at = position(number(at, &self.shapes[id]), &self.shapes[*inner]);
                grow(|| self.element(*inner, &at))
            }
            Kind::Comprehension { indices, body } => {
                let compute = |machine: &mut Machine<'a>| {
                    let (own, rest) = at.split_at(indices.len());
                    indices.iter().zip(own).for_each(|(index, value)| machine.set(*index, *value));
                    if rest.is_empty() { machine.value(*body) } else { machine.element(*body, rest) }
                };
                match self.facts.keep(id) {
                    Keep::Many => self.remembered(id, number(at, &self.shapes[id]), compute),
                    _ => grow(|| compute(self)),
                }
            }
            Kind::State { of, number: part } => self.state(*of, *part, number(at, &self.shapes[id])),
            Kind::Loop { of, number: part, .. } => {
                let number = number(at, &self.shapes[id]);
                grow(|| self.last_state(*of, *part, number))
            }
            Kind::Sort { index: [index], body, result } => {
                let place = usize::try_from(at[0]).unwrap_or(0);
                self.sorted(id, *index, *body, *result, place)
            }
            Kind::Recurrence { recurrence, array } | Kind::Earlier { recurrence, array, .. } => {
                self.recurrent(id, *recurrence, *array, at)
            }
            // No other expression is an array.
            _ => self.value(id),
        }
    }

    /// A remembered value, by its number among those of the expression at this setting.
    fn remembered(
        &mut self,
        id: ExprId,
        number: usize,
        compute: impl FnOnce(&mut Machine<'a>) -> Step<Scalar>,
    ) -> Step<Scalar> {
        if let Some(value) = self.cells(id)[number] {
            return Ok(value);
        }
        let value = grow(|| compute(self))?;
        self.cells(id)[number] = Some(value);
        Ok(value)
    }

    pub fn cells(&mut self, id: ExprId) -> &mut [Option<Scalar>] {
        let Machine { facts, indices, cells, shapes, room, .. } = self;
        let free = facts.free(id);
        let count = shapes[id].iter().map(|n| usize::try_from(*n).unwrap_or(0)).product::<usize>();
        let table = cells.entry(id).or_insert(Table::EMPTY);
        table.at(free.iter().map(|i| indices[*i]), *room / count.max(1), || vec![None; count])
    }

    fn compute(&mut self, id: ExprId) -> Step<Scalar> {
        let checked = self.checked;
        let expr = &checked.exprs[id];
        Ok(match &expr.kind {
            Kind::Constant(value) => *value,
            Kind::Size(size) => Scalar::I64(self.size(size)),
            Kind::Index(index) => Scalar::I64(self.indices[*index]),
            Kind::Unary(op, a) => scalar::unary(*op, self.value(*a)?),
            Kind::Binary(op, a, b) => scalar::binary(*op, self.value(*a)?, self.value(*b)?),
            Kind::Compare(op, a, b) => Scalar::Bool(scalar::compare(*op, self.value(*a)?, self.value(*b)?)),
            Kind::Fma(a, b, c) => scalar::fma(self.value(*a)?, self.value(*b)?, self.value(*c)?),
            Kind::Cast(a) => scalar::cast(expr.ty.dtype, self.value(*a)?),
            Kind::Bitcast(a) => scalar::bitcast(expr.ty.dtype, self.value(*a)?),
            Kind::If { condition, then, otherwise } => {
                let taken = self.value(*condition)? == Scalar::Bool(true);
                return self.value(if taken { *then } else { *otherwise });
            }
            Kind::Math(function, arguments) => return self.call(*function, expr.ty.dtype, arguments),
            Kind::Access { array, at } => return self.access(id, *array, at),
            Kind::Reduce { op, over, body, prefix: Some(prefix), .. } => {
                return self.prefix(id, *op, over, *body, *prefix);
            }
            Kind::Reduce { op: ReduceOp::Monoid(monoid), over, body, by, .. } if !by.is_empty() => {
                return self.keyed(id, *monoid, over, by, *body);
            }
            Kind::Reduce { op, over, body, order, prefix: None, .. } => {
                let dtype = checked.exprs[*body].ty.dtype;
                let reducer = Reducer { op: *op, order: *order, dtype };
                return self.reduce(over, reducer, &mut |machine| machine.value(*body));
            }
            Kind::Contract { over, left, right } => {
                let op = ReduceOp::Monoid(Monoid::Sum);
                let reducer = Reducer { op, order: Order::Blocks, dtype: expr.ty.dtype };
                return self.reduce(over, reducer, &mut |machine| {
                    Ok(scalar::binary(BinaryOp::Mul, machine.value(*left)?, machine.value(*right)?))
                });
            }
            // A scalar parameter or state is an array without axes. The other kinds are arrays.
            Kind::Param(_)
            | Kind::State { .. }
            | Kind::Loop { .. }
            | Kind::Comprehension { .. }
            | Kind::Reshape(_)
            | Kind::ArrayLiteral(_)
            | Kind::Sort { .. }
            | Kind::Recurrence { .. }
            | Kind::Earlier { .. } => return self.element(id, &[]),
        })
    }

    fn call(&mut self, function: MathFn, dtype: Dtype, arguments: &[ExprId]) -> Step<Scalar> {
        let arguments = arguments.iter().map(|a| self.value(*a)).collect::<Step<Vec<_>>>()?;
        let evaluator = self.functions.get_mut(&(function, dtype));
        // Every called function was looked up before the run.
        Ok(evaluator.map_or(Scalar::zero(dtype), |evaluator| evaluator.call(&arguments)))
    }

    fn access(&mut self, id: ExprId, array: ExprId, at: &[Subscript]) -> Step<Scalar> {
        let mut position = Vec::with_capacity(at.len());
        for (axis, subscript) in at.iter().enumerate() {
            let index = self.integer(subscript.value)?;
            let bound = self.shapes[array][axis];
            if !(0..bound).contains(&index) {
                return Err(match subscript.check {
                    Some(site) => Stop::Fault(Fault { site, index, bound }),
                    None => Stop::Unproved { access: id, axis, index, length: bound },
                });
            }
            position.push(index);
        }
        self.element(array, &position)
    }

    /// A prefix: the result of the scan after the number of elements that this setting asks for.
    fn prefix(&mut self, id: ExprId, op: ReduceOp, over: &[IndexId], body: ExprId, prefix: Prefix) -> Step<Scalar> {
        let dtype = self.checked.exprs[body].ty.dtype;
        let Some(running) = over.first() else { return Ok(of_none(op, dtype)) };
        let count = usize::try_from(self.extent(*running)?).unwrap_or(0);
        let mut scan = self
            .scan(id, prefix.of, count)
            .take()
            .unwrap_or_else(|| Scan { running: Prefixes::new(op, dtype), prefixes: vec![of_none(op, dtype)] });
        while scan.prefixes.len() <= count {
            self.set(*running, i64::try_from(scan.prefixes.len() - 1).unwrap_or(i64::MAX));
            let element = grow(|| self.value(body));
            // A fault ends the run, so nothing asks for the scan again.
            let value = scan.running.push(element?);
            scan.prefixes.push(value);
        }
        let value = scan.prefixes[count];
        *self.scan(id, prefix.of, count) = Some(scan);
        Ok(value)
    }

    fn scan(&mut self, id: ExprId, of: IndexId, count: usize) -> &mut Option<Scan> {
        let Machine { facts, indices, scans, room, .. } = self;
        let others = facts.free(id).iter().filter(|i| **i != of).map(|i| indices[*i]);
        scans.entry(id).or_insert(Table::EMPTY).at(others, *room / (count + 1), || None)
    }

    /// A reduction. If the extent of one of its indices depends on another one, it reduces the
    /// results of reductions over the inner indices.
    fn reduce(
        &mut self,
        over: &[IndexId],
        reducer: Reducer,
        body: &mut dyn FnMut(&mut Machine<'a>) -> Step<Scalar>,
    ) -> Step<Scalar> {
        let (outer, inner) = over.split_at(self.box_len(over));
        let extents = outer.iter().map(|index| self.extent(*index)).collect::<Step<Vec<_>>>()?;
        let Reducer { op, order, dtype } = reducer;
        let order = if op.depends_on_order(dtype) { order } else { Order::Free };
        let mut reduction = Reducing::new(op, order, dtype);
        let mut at = vec![0; outer.len()];
        let mut left = extents.iter().all(|n| *n > 0);
        while left {
            outer.iter().zip(&at).for_each(|(index, value)| self.set(*index, *value));
            reduction.push(if inner.is_empty() {
                body(self)?
            } else {
                self.reduce(inner, Reducer { order, ..reducer }, body)?
            });
            left = advance(&mut at, &extents);
        }
        Ok(reduction.finish())
    }

    /// The number of leading indices with extents that do not depend on the ones before them.
    fn box_len(&self, over: &[IndexId]) -> usize {
        let depends = |k: usize| match &self.checked.indices[over[k]].extent {
            Extent::Affine(extent) => extent.terms().iter().any(|(i, _)| over[..k].contains(i)),
            Extent::Dynamic(extent) => self.facts.free(*extent).iter().any(|i| over[..k].contains(i)),
        };
        (0..over.len()).find(|k| depends(*k)).unwrap_or(over.len())
    }

    /// The extent of an index.
    pub fn extent(&mut self, index: IndexId) -> Step<i64> {
        match &self.checked.indices[index].extent {
            Extent::Affine(extent) => Ok(self.affine(extent)),
            Extent::Dynamic(extent) => self.integer(*extent),
        }
    }

    /// The value of an integer scalar as `i64`. A larger `u64` becomes the greatest `i64`.
    pub fn integer(&mut self, id: ExprId) -> Step<i64> {
        self.value(id).map(|value| ir::bind::integer(Some(value)))
    }

    fn affine(&self, affine: &Affine<IndexId>) -> i64 {
        let term = |(index, c): &(IndexId, Size)| self.size(c).wrapping_mul(self.indices[*index]);
        affine.terms().iter().map(term).fold(self.size(affine.constant_part()), i64::wrapping_add)
    }

    fn size(&self, size: &Size) -> i64 {
        self.binding.number(size)
    }
}

/// Moves to the next position in a box, the last axis fastest; `false` after the last.
pub(super) fn advance(at: &mut [i64], extents: &[i64]) -> bool {
    for (place, extent) in at.iter_mut().zip(extents).rev() {
        *place += 1;
        if *place < *extent {
            return true;
        }
        *place = 0;
    }
    false
}

/// The row-major number of a position.
pub(super) fn number(at: &[i64], shape: &[i64]) -> usize {
    let number = at.iter().zip(shape).fold(0i64, |number, (i, n)| number.wrapping_mul(*n).wrapping_add(*i));
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The position of a row-major number.
fn position(number: usize, shape: &[i64]) -> Vec<i64> {
    let mut rest = i64::try_from(number).unwrap_or(i64::MAX);
    let mut at = vec![0; shape.len()];
    for (place, n) in at.iter_mut().zip(shape).rev() {
        *place = rest % (*n).max(1);
        rest /= (*n).max(1);
    }
    at
}

/// Runs one more level of a nest of any depth, on more stack if needed.
pub(super) fn grow<T>(level: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(128 << 10, 4 << 20, level)
}
