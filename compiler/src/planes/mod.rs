//! Recurrences as loops over kernels: a pass on checked programs.
//!
//! ```text
//! let rec u[t <= n, i < m] =             loop u = a, s < n {
//!     if t == 0 then a[i]                    f(u[i])
//!     else f(u[t - 1, i])                }
//! ... u[n] ...
//! ```
//!
//! The elements of an array with the same deciding index are a *plane*. If a recurrence reads only
//! a few planes back, and the program reads only its last planes, the planes become the states of a
//! loop: the kernels of a step run on all threads and fuse like any others, and the arrays take the
//! memory of a few planes.
//!
//! Step `s` computes plane `s + offset` of an array. Plane 0 of an array with the offset 1 is
//! computed before the loop. So a condition like `t == 0` is decided when the program is compiled:
//! it holds before the loop and nowhere in it.

mod instance;
mod rewrite;

pub(crate) use rewrite::{copied, relink};

use std::collections::{BTreeMap, BTreeSet};

use cranelift_entity::SecondaryMap;
use ir::checked::{
    Checked, Equation, ExprId, Extent, Factor, IndexId, Kind, Prefix, Recurrence, RecurrenceId, Subscript,
};
use ir::nest::is_length;
use ir::{Affine, Size};

/// The pass leaves planes with fewer elements where they are: a kernel for each would cost more
/// than it saves.
const FEW: i64 = 1 << 10;
/// The most planes that are kept of an array.
const DEPTH: i64 = 4;

/// The program with loops in place of recurrences, where that is possible; `None` if it is possible
/// nowhere.
pub fn planes(checked: &Checked) -> Option<Checked> {
    if checked.recurrences.is_empty() {
        return None;
    }
    let reads = Reads::new(checked);
    let plan = |id| Some((id, Plan::new(checked, &reads, id)?));
    let plans: BTreeMap<RecurrenceId, Plan> = checked.recurrences.keys().filter_map(plan).collect();
    if plans.is_empty() { None } else { rewrite::rewrite(checked, &plans) }
}

/// A read of an element of an array of a recurrence.
#[derive(Clone, Copy)]
struct Read {
    recurrence: RecurrenceId,
    array: usize,
    /// The array with the access in its body; `None` outside of the recurrence.
    within: Option<usize>,
}

/// The array of a recurrence that an expression is, if it is one.
fn array_of(checked: &Checked, id: ExprId) -> Option<Read> {
    match checked.exprs[id].kind {
        Kind::Recurrence { recurrence, array } => Some(Read { recurrence, array, within: None }),
        Kind::Earlier { recurrence, array, within } => Some(Read { recurrence, array, within: Some(within) }),
        _ => None,
    }
}

/// The reads that a result depends on.
struct Reads {
    /// Those of elements, with the access.
    elements: Vec<(Read, ExprId)>,
    /// The recurrences with an array that something reads as a whole.
    whole: BTreeSet<RecurrenceId>,
    reached: SecondaryMap<ExprId, bool>,
}

impl Reads {
    fn new(checked: &Checked) -> Reads {
        let mut reads = Reads { elements: vec![], whole: BTreeSet::new(), reached: SecondaryMap::new() };
        for (_, result) in &checked.results {
            reads.reached[*result] = true;
            reads.whole.extend(array_of(checked, *result).map(|read| read.recurrence));
        }
        for (id, expr) in checked.exprs.iter().rev() {
            if !reads.reached[id] {
                continue;
            }
            let accessed = if let Kind::Access { array, .. } = expr.kind { Some(array) } else { None };
            checked.for_each_operand(&expr.kind, |operand| {
                reads.reached[operand] = true;
                match array_of(checked, operand) {
                    None => {}
                    Some(read) if accessed == Some(operand) => reads.elements.push((read, id)),
                    Some(read) => _ = reads.whole.insert(read.recurrence),
                }
            });
        }
        reads
    }
}

/// How a recurrence becomes a loop.
struct Plan {
    /// The number of steps.
    trips: Size,
    /// Whether plane 0 is the last one along the deciding index.
    descending: bool,
    arrays: Vec<Planes>,
    /// The order in which a step computes the arrays.
    sequence: Vec<usize>,
    /// The arrays whose plane 0 is computed before the loop, in the order in which that happens.
    peeled: Vec<usize>,
}

/// The planes of an array.
struct Planes {
    /// The place of the deciding index among the indices.
    axis: usize,
    /// The number of planes.
    length: Size,
    /// The plane that step 0 computes.
    offset: i64,
    /// How many planes a step reads or leaves behind.
    depth: i64,
}

impl Plan {
    fn new(checked: &Checked, reads: &Reads, id: RecurrenceId) -> Option<Plan> {
        let recurrence = &checked.recurrences[id];
        let [step] = &recurrence.steps[..] else { return None };
        if !recurrence.independent.is_empty() || !recurrence.free.is_empty() || reads.whole.contains(&id) {
            return None;
        }
        let one = Size::constant(1);
        let trips = checked.longest(id, &step.axes)? - &one;
        let mut arrays = vec![];
        for (equation, axis) in recurrence.equations.iter().zip(&step.axes) {
            let length = checked.indices[equation.indices[*axis]].extent.as_size()?.clone();
            let offset = (&length - &trips).as_constant().filter(|offset| *offset >= 0)?;
            arrays.push(Planes { axis: *axis, length, offset, depth: 1 });
        }
        let descending = step.descending;
        if descending && arrays.iter().any(|array| array.offset == 0) {
            return None;
        }
        let mut plan = Plan { trips, descending, arrays, sequence: vec![], peeled: vec![] };
        if !plan.pays(checked, recurrence) || !is_plain(checked, reads, recurrence, &plan.trips) {
            return None;
        }
        // Which array needs which others of the same step.
        let mut needs: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); plan.arrays.len()];
        for (read, access) in reads.elements.iter().filter(|(read, _)| read.recurrence == id) {
            let back = plan.back(checked, recurrence, *read, *access)?;
            let depth = if read.within.is_some() { back } else { back + 1 };
            plan.arrays[read.array].depth = depth.max(plan.arrays[read.array].depth);
            if let (Some(within), 0) = (read.within, back) {
                needs[within].insert(read.array);
            }
        }
        if plan.arrays.iter().any(|array| array.depth > DEPTH) {
            return None;
        }
        while plan.sequence.len() < needs.len() {
            let is_next = |k: &usize| !plan.sequence.contains(k) && needs[*k].iter().all(|o| plan.sequence.contains(o));
            let next = (0..needs.len()).find(is_next)?;
            plan.sequence.push(next);
        }
        let is_peeled = |array: &&usize| plan.arrays[**array].offset == 1;
        plan.peeled = recurrence.sequence.iter().filter(is_peeled).copied().collect();
        Some(plan)
    }

    /// Whether a plane may have enough elements.
    fn pays(&self, checked: &Checked, recurrence: &Recurrence) -> bool {
        self.arrays.iter().zip(&recurrence.equations).any(|(array, equation)| {
            let lengths =
                array.others(&equation.indices).map(|index| checked.indices[*index].extent.as_size().cloned());
            let elements = lengths.fold(Size::constant(1), |product, n| &product * &n.unwrap_or_default());
            elements.as_constant().is_none_or(|n| n >= FEW)
        })
    }

    /// How many planes before its current one an array is read by an access: within a step, or
    /// after the last one.
    fn back(&self, checked: &Checked, recurrence: &Recurrence, read: Read, access: ExprId) -> Option<i64> {
        let Kind::Access { at, .. } = &checked.exprs[access].kind else { return None };
        let array = &self.arrays[read.array];
        let at = &at[array.axis];
        let affine = at.affine.as_ref().filter(|_| at.check.is_none())?;
        let back = match read.within {
            None => {
                let last = &array.length - &Size::constant(1);
                let back = if self.descending { affine.as_size()?.clone() } else { &last - affine.as_size()? };
                back.as_constant()?
            }
            Some(within) => {
                let index = recurrence.equations[within].indices[self.arrays[within].axis];
                let after = affine.sub(&Affine::index(index)).as_size()?.as_constant()?;
                let back = if self.descending { after } else { -after };
                back + array.offset - self.arrays[within].offset
            }
        };
        (back >= 0).then_some(back)
    }
}

impl Planes {
    /// The items that belong to the axes other than that of the deciding index.
    fn others<'i, T>(&self, of_axes: &'i [T]) -> impl Iterator<Item = &'i T> + use<'i, T> {
        let axis = self.axis;
        of_axes.iter().enumerate().filter(move |(at, _)| *at != axis).map(|(_, of_axis)| of_axis)
    }
}

/// Whether the bodies are made of what can be copied into a loop of `trips` steps: no loop or other
/// recurrence that depends on an element's indices, and nothing that ends where the deciding index
/// says. A reduction by key is a kernel of its own, which no condition is around; but one is around
/// the first plane if there may be none.
fn is_plain(checked: &Checked, reads: &Reads, recurrence: &Recurrence, trips: &Size) -> bool {
    let own = varying(checked, std::iter::once(recurrence), true);
    let deciding: Vec<IndexId> = (0..recurrence.equations.len()).flat_map(|k| recurrence.deciding(k)).collect();
    let ends_at = |index: IndexId| match &checked.indices[index].extent {
        Extent::Affine(extent) => extent.terms().iter().any(|(index, _)| deciding.contains(index)),
        Extent::Dynamic(extent) => own[*extent],
    };
    let mut in_step: SecondaryMap<ExprId, bool> = SecondaryMap::new();
    for (id, expr) in &checked.exprs {
        let mut one = match &expr.kind {
            Kind::Index(index) => deciding.contains(index),
            Kind::Access { at, .. } => at
                .iter()
                .filter_map(|s| s.affine.as_ref())
                .any(|affine| affine.terms().iter().any(|(index, _)| deciding.contains(index))),
            Kind::Earlier { .. } => true,
            _ => false,
        };
        checked.for_each_operand(&expr.kind, |operand| one |= in_step[operand]);
        in_step[id] = one;
    }
    // An access that does not depend on the step is computed even if there is no step, and without
    // the condition that the step decides.
    let is_inside = |array: ExprId, at: &[Subscript]| {
        let along = |s: &Subscript| checked.indices[s.affine.as_ref()?.as_index()?].extent.as_size().cloned();
        at.iter().zip(&checked.exprs[array].ty.shape).all(|(s, length)| along(s).as_ref() == Some(length))
    };
    checked.exprs.iter().filter(|(id, _)| own[*id] && reads.reached[*id]).all(|(id, expr)| match &expr.kind {
        Kind::Loop { .. } | Kind::State { .. } | Kind::Recurrence { .. } => false,
        Kind::Access { array, at } if expr.guard != Checked::TOP && !in_step[id] => is_inside(*array, at),
        Kind::Reduce { by, .. } if !by.is_empty() && !is_length(&checked.symbols, trips) => false,
        Kind::Reduce { prefix: Some(Prefix { of, .. }), .. } if deciding.contains(of) => false,
        kind => !checked.bound(kind).any(ends_at),
    })
}

/// The expressions that belong to one element or plane of an array of these recurrences.
struct Varying {
    /// Those that depend on its indices or on earlier elements, and those within such a one that
    /// depend on the indices that it binds.
    dependent: SecondaryMap<ExprId, bool>,
    /// Those too, and those under a condition that a body needs. The condition may stand in the
    /// body, where a step decides it, or in an array that the body reads, which others may read
    /// too.
    copied: SecondaryMap<ExprId, bool>,
}

impl Varying {
    fn new(checked: &Checked, plans: &BTreeMap<RecurrenceId, Plan>) -> Varying {
        let of =
            |under_conditions| varying(checked, plans.keys().map(|id| &checked.recurrences[*id]), under_conditions);
        Varying { dependent: of(false), copied: of(true) }
    }
}

fn varying<'c>(
    checked: &'c Checked,
    recurrences: impl Iterator<Item = &'c Recurrence>,
    under_conditions: bool,
) -> SecondaryMap<ExprId, bool> {
    let equations: Vec<&Equation> = recurrences.flat_map(|recurrence| &recurrence.equations).collect();
    let own: BTreeSet<IndexId> = equations.iter().flat_map(|equation| equation.indices.iter().copied()).collect();
    let mut inside: SecondaryMap<ExprId, bool> = SecondaryMap::new();
    equations.iter().for_each(|equation| inside[equation.body] = true);
    for (id, expr) in checked.exprs.iter().rev() {
        if inside[id] {
            checked.for_each_operand(&expr.kind, |operand| inside[operand] = true);
        }
    }
    let is_own = |recurrence: RecurrenceId| {
        let mut equations = checked.recurrences[recurrence].equations.iter();
        equations.any(|equation| equation.indices.iter().any(|index| own.contains(index)))
    };
    let mut indices = own.clone();
    loop {
        let mentions = |affine: &Affine<IndexId>| affine.terms().iter().any(|(index, _)| indices.contains(index));
        let mut varies: SecondaryMap<ExprId, bool> = SecondaryMap::new();
        let mut bound = vec![];
        for (id, expr) in &checked.exprs {
            let mut one = match &expr.kind {
                Kind::Recurrence { recurrence, .. } if is_own(*recurrence) => continue,
                Kind::Earlier { recurrence, .. } => is_own(*recurrence),
                Kind::Index(index) => indices.contains(index),
                Kind::Access { at, .. } => at.iter().filter_map(|s| s.affine.as_ref()).any(mentions),
                Kind::Reduce { prefix: Some(Prefix { of, .. }), .. } => indices.contains(of),
                Kind::Reduce { by, .. } => by.iter().filter_map(Factor::key_of).any(|of| indices.contains(&of)),
                Kind::State { of, .. } => checked.loops[*of].around.iter().any(|index| indices.contains(index)),
                _ => false,
            };
            for index in checked.bound(&expr.kind) {
                one |= matches!(&checked.indices[index].extent, Extent::Affine(extent) if mentions(extent));
            }
            checked.for_each_operand(&expr.kind, |operand| one |= varies[operand]);
            if one || under_conditions && inside[id] && expr.guard != Checked::TOP {
                varies[id] = true;
                bound.extend(checked.bound(&expr.kind).filter(|index| !indices.contains(index)));
            }
        }
        if bound.is_empty() {
            return varies;
        }
        indices.extend(bound);
    }
}
