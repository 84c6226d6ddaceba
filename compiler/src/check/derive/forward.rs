//! From operands to users: the change of a node for changes of the values that it is computed from.

use std::collections::BTreeMap;

use grammar::ast::Span;
use ir::checked::{Expr, ExprId, IndexId, Kind, LoopId, Prefix, RecurrenceId, Sorted, Subscript, Type};
use ir::{Affine, Dtype, Monoid, Order, ReduceOp};

use super::super::Checker;
use super::super::access::Pending;
use super::super::arena::Here;
use super::copy::Place;
use super::leaders::Running;
use super::loops::Changed;
use super::table::Slope;

/// The changes of nodes.
#[derive(Clone)]
pub(super) struct Forward {
    /// Those that are known. `None` stands for no change.
    pub changes: BTreeMap<ExprId, Option<ExprId>>,
    /// The loops with the changes of the states of others.
    pub loops: BTreeMap<LoopId, Changed>,
    /// The changes of the arrays of recurrences.
    pub recurrences: BTreeMap<RecurrenceId, BTreeMap<usize, ExprId>>,
}

impl Forward {
    /// Changes of some values.
    pub fn new(changes: BTreeMap<ExprId, Option<ExprId>>) -> Forward {
        Forward { changes, loops: BTreeMap::new(), recurrences: BTreeMap::new() }
    }

    /// The change of a value.
    pub fn change_of(&mut self, checker: &mut Checker<'_>, value: ExprId, here: Here) -> Option<ExprId> {
        let change = self.change(checker, value)?;
        Some(self.or_zeros(checker, change, value, here))
    }

    /// A change, as a node.
    pub fn or_zeros(&self, checker: &mut Checker<'_>, change: Option<ExprId>, of: ExprId, here: Here) -> ExprId {
        change.unwrap_or_else(|| checker.zeros_like(of, here))
    }

    /// The change of a node, an expression of its own indices.
    pub fn change(&mut self, checker: &mut Checker<'_>, id: ExprId) -> Option<Option<ExprId>> {
        if !checker.arena.dtype(id).is_float() {
            return Some(None);
        }
        if let Some(change) = self.changes.get(&id) {
            return Some(*change);
        }
        let Expr { origin, guard, .. } = checker.arena.out.exprs[id];
        let here = Here { span: Span { start: origin.start, end: origin.end }, guard };
        if checker.is_full(here.span) {
            return None;
        }
        let change = stacker::maybe_grow(128 << 10, 4 << 20, || self.made(checker, id, here))?;
        let change = change.filter(|change| !checker.is_zero(*change));
        self.changes.insert(id, change);
        Some(change)
    }

    fn made(&mut self, checker: &mut Checker<'_>, id: ExprId, here: Here) -> Option<Option<ExprId>> {
        Some(match checker.arena.out.exprs[id].kind.clone() {
            Kind::Constant(_) | Kind::Size(_) | Kind::Index(_) | Kind::Param(_) | Kind::Compare(..) => None,
            Kind::Bitcast(_) | Kind::Sort { result: Sorted::Numbers, .. } => None,
            Kind::Unary(..) | Kind::Binary(..) | Kind::Fma(..) | Kind::Cast(_) | Kind::Math(..) => {
                self.computed(checker, id, here)?
            }
            Kind::If { condition, then, otherwise } => {
                let both = [self.change(checker, then)?, self.change(checker, otherwise)?];
                if both == [None, None] {
                    return Some(None);
                }
                let [then, otherwise] = both.map(|change| self.or_zeros(checker, change, id, here));
                let ty = Type::scalar(checker.arena.dtype(then));
                Some(checker.arena.node(Kind::If { condition, then, otherwise }, ty, here))
            }
            Kind::Access { array, at } => self.change(checker, array)?.map(|change| {
                let at = at.iter().map(|subscript| Pending::unproved(subscript.value, here.span)).collect();
                checker.checked_element(change, at, &[], here)
            }),
            Kind::Reduce { op: ReduceOp::Monoid(monoid), over, body, prefix, .. } => {
                let Some(change) = self.change(checker, body)? else { return Some(None) };
                match prefix {
                    None => {
                        let slope = checker.reduced_slope(id, monoid, &over, body, here)?;
                        let change = checker.follow(slope, change, here);
                        Some(checker.sum_over(change, &over, here)?)
                    }
                    Some(prefix) => {
                        let running = Running { id, monoid, prefix, along: over[0], body };
                        match monoid {
                            Monoid::Sum => Some(scanned(checker, prefix, (over[0], change), here)?),
                            Monoid::Prod => Some(checker.multiplied_up(&running, change, here)?),
                            Monoid::Max | Monoid::Min => Some(checker.led(&running, change, here)?),
                            Monoid::Any | Monoid::All => None,
                        }
                    }
                }
            }
            Kind::Reduce { .. } => None,
            Kind::Contract { over, left, right } => {
                let mut total = None;
                for (factor, other) in [(left, right), (right, left)] {
                    let Some(change) = self.change(checker, factor)? else { continue };
                    let product = checker.times(change, other, here);
                    let sum = checker.sum_over(product, &over, here)?;
                    total = Some(total.map_or(sum, |total| checker.plus(total, sum, here)));
                }
                total
            }
            Kind::Comprehension { indices, body } => match self.change(checker, body)? {
                Some(change) => Some(array(checker, &indices, change, here)?),
                None => None,
            },
            Kind::Reshape(of) => self.change(checker, of)?.map(|change| {
                let ty = Type { dtype: checker.arena.dtype(change), ..checker.arena.ty(id).clone() };
                checker.arena.node(Kind::Reshape(change), ty, here)
            }),
            Kind::ArrayLiteral(parts) => {
                let mut changes = vec![];
                for part in &parts {
                    changes.push(self.change(checker, *part)?);
                }
                if changes.iter().all(Option::is_none) {
                    return Some(None);
                }
                let changes: Vec<ExprId> = parts
                    .iter()
                    .zip(changes)
                    .map(|(part, change)| self.or_zeros(checker, change, *part, here))
                    .collect();
                let ty = Type { dtype: checker.arena.dtype(changes[0]), ..checker.arena.ty(id).clone() };
                Some(checker.arena.node(Kind::ArrayLiteral(changes), ty, here))
            }
            Kind::Sort { index, body, result: Sorted::Values } => match self.change(checker, body)? {
                Some(change) => Some(sorted(checker, index[0], body, change, here)?),
                None => None,
            },
            // Dependences by way of earlier steps or elements around the value do not count.
            Kind::State { .. } | Kind::Earlier { .. } => None,
            Kind::Loop { of, number, .. } => self.looped(checker, (of, number), here)?,
            Kind::Recurrence { recurrence, array } => self.recurred(checker, (recurrence, array), here)?,
        })
    }

    /// The change of a scalar operation.
    fn computed(&mut self, checker: &mut Checker<'_>, id: ExprId, here: Here) -> Option<Option<ExprId>> {
        let mut changes = vec![];
        checker.arena.out.for_each_operand(&checker.arena.out.exprs[id].kind, |operand| changes.push((operand, None)));
        for (operand, change) in &mut changes {
            *change = self.change(checker, *operand)?;
        }
        if changes.iter().all(|(_, change)| change.is_none()) {
            return Some(None);
        }
        let dtype = checker.arena.dtype(id).compute();
        let mut total = checker.zero_like(id, here);
        for ((operand, slope), (_, change)) in checker.slopes(id, here)?.into_iter().zip(changes) {
            let Some(change) = change else { continue };
            if let Slope::Unknown = slope {
                checker.not_derived(operand, "this function");
                return None;
            }
            // The operand may be of another type, if it is converted.
            let change = match checker.arena.out.exprs[id].kind {
                Kind::Cast(_) => checker.converted(change, dtype, here),
                _ => change,
            };
            let change = checker.follow(slope, change, here);
            total = checker.plus(total, change, here);
        }
        Some(Some(total))
    }
}

/// An array of changes over indices of its own.
fn array(checker: &mut Checker<'_>, indices: &[IndexId], change: ExprId, here: Here) -> Option<ExprId> {
    let mut place = Place::new(BTreeMap::new(), here.guard, here);
    let own = checker.copied_indices(indices, &mut place)?;
    let body = checker.copy(change, &mut place)?;
    Some(checker.arena.comprehension(own, body, here))
}

/// The running sum of changes.
fn scanned(
    checker: &mut Checker<'_>,
    prefix: Prefix,
    (along, change): (IndexId, ExprId),
    here: Here,
) -> Option<ExprId> {
    let mut place = Place::new(BTreeMap::new(), here.guard, here);
    let over = checker.copied_indices(&[along], &mut place)?;
    let body = checker.copy(change, &mut place)?;
    let ty = Type::scalar(checker.arena.dtype(body));
    let op = ReduceOp::Monoid(Monoid::Sum);
    let kind = Kind::Reduce { op, over, body, order: Order::Scan, prefix: Some(prefix), by: vec![] };
    Some(checker.arena.node(kind, ty, here))
}

/// The changes of the elements of a sorted array, where these have come to.
fn sorted(checker: &mut Checker<'_>, index: IndexId, body: ExprId, change: ExprId, here: Here) -> Option<ExprId> {
    let changes = array(checker, &[index], change, here)?;
    let mut place = Place::new(BTreeMap::new(), here.guard, here);
    let own = checker.copied_indices(&[index], &mut place)?;
    let element = checker.copy(body, &mut place)?;
    let length = checker.arena.length(index);
    let ty = Type { dtype: Dtype::I64, shape: vec![length.clone()] };
    let kind = Kind::Sort { index: [own[0]], body: element, result: Sorted::Numbers };
    let numbers = checker.arena.node(kind, ty, here);
    let at = checker.arena.index("p", Affine::size(length), here.span);
    let value = checker.arena.element(numbers, vec![Affine::index(at)], here);
    let ty = Type::scalar(checker.arena.dtype(changes));
    // The number of an element is inside.
    let at_number = vec![Subscript { value, affine: None, check: None }];
    let moved = checker.arena.node(Kind::Access { array: changes, at: at_number }, ty, here);
    Some(checker.arena.comprehension(vec![at], moved, here))
}
