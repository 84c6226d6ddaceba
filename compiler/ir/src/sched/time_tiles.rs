//! Finds loops over kernels that may run in time tiles: several iterations on some rows, while
//! these are in the cache, before the next rows follow. An element of a stencil depends on elements
//! of the iteration before in neighbouring rows only, so iterations may overlap as long as each
//! lags behind the one before by that distance (Wonnacott, "Using time skewing to eliminate idle
//! time due to memory bandwidth and network limitations", 2000).
//!
//! The kernels of an iteration become stages. Each covers rows, which are the elements with one
//! subscript on the first axis of the arrays that it stores. Where two stages access the same
//! memory, their rows are at most [`TimeTiles::reach`] apart: so that distance is as large as
//! needed for every dependence, whether the later stage loads the memory or overwrites it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Part, Run, Scheduled};
use crate::effects::Access;
use crate::nest::{
    BufferId, Extent, IndexId, Kernel, KernelId, LoopKind, Node, Op, Repeat, Role, Statement, Subscript, ValueId,
};
use crate::sabotage::{self, Bug};
use crate::{Affine, BinaryOp, Size, visit};

/// A loop over kernels that may run in time tiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeTiles {
    /// The parts of an iteration. Those of one stage do not depend on each other.
    pub stages: Vec<Vec<Strip>>,
    /// The greatest distance in rows between accesses of different stages to the same memory.
    pub reach: i64,
    /// The arrays that the loop changes.
    pub arrays: Vec<BufferId>,
}

/// A part of a kernel, and the rows that it covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strip {
    /// The part.
    pub part: KernelId,
    /// Its rows.
    pub rows: Rows,
}

/// The rows of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rows {
    /// It may run row by row.
    Each {
        /// The first row.
        first: Size,
        /// How many rows there are.
        count: Size,
        /// The extents of the loops over a row.
        row: Vec<Size>,
    },
    /// It runs in one piece.
    Once {
        /// The first of its rows, which are a few. It may be below 0 if arrays are small.
        first: Size,
        /// No row is as far behind the first as this.
        width: i64,
    },
}

impl TimeTiles {
    /// How a loop may run in time tiles, if it may.
    pub fn of(scheduled: &Scheduled, repeat: &Repeat) -> Option<TimeTiles> {
        repeat.trips.as_ref()?;
        let parts = repeat.body.iter().map(|node| match node {
            Node::Kernel(id) => Some(*id),
            Node::Repeat(_) | Node::Exit { .. } => None,
        });
        let parts = parts.collect::<Option<Vec<KernelId>>>()?;
        let part = |id: &KernelId| &scheduled.parts[id.as_u32() as usize];
        let mut arrays: BTreeSet<BufferId> = parts.iter().flat_map(|id| visit::stores(&part(id).kernel.body)).collect();
        arrays.extend(repeat.carried.iter().map(|carried| carried.current));
        if arrays.iter().any(|id| scheduled.program.buffers[*id].role == Role::Scratch) {
            return None;
        }
        let (mut stages, mut reach, mut width): (Vec<Vec<Strip>>, i64, i64) = (vec![], 0, 1);
        let (mut loaded, mut stored) = (BTreeSet::new(), BTreeSet::new());
        for id in parts {
            let (rows, distance) = strip(part(&id), &arrays)?;
            if let Rows::Once { width: own, .. } = rows {
                width = width.max(own);
            }
            reach = reach.max(distance);
            let (loads, stores) = (visit::loads(&part(&id).kernel.body), visit::stores(&part(&id).kernel.body));
            // A part that depends on one of the stage begins another.
            if stages.is_empty()
                || loads.iter().any(|buffer| stored.contains(buffer))
                || stores.iter().any(|buffer| loaded.contains(buffer))
            {
                stages.push(vec![]);
                (loaded, stored) = (BTreeSet::new(), BTreeSet::new());
            }
            stages.last_mut()?.push(Strip { part: id, rows });
            loaded.extend(loads);
            stored.extend(stores);
        }
        let short = i64::from(sabotage::on(Bug::TileReach));
        let reach = (reach + width - 1 - short).max(0);
        Some(TimeTiles { stages, reach, arrays: arrays.into_iter().collect() })
    }
}

/// The rows of a part that never ends the run, and how far away from the row that it stores it
/// loads from arrays that the loop changes.
fn strip(part: &Part, arrays: &BTreeSet<BufferId>) -> Option<(Rows, i64)> {
    let Some((_, Statement::Loop(l))) = part.root().filter(|_| part.run == Run::Ranges) else { return None };
    let (index, extent) = l.dims.first().filter(|_| l.kind == LoopKind::Parallel)?;
    let mut extents: BTreeMap<IndexId, Option<i64>> = BTreeMap::new();
    let (mut stores, mut loads) = (vec![], vec![]);
    let mut plain = true;
    visit::for_each_statement(&part.kernel.body, &mut |statement| {
        plain &= !matches!(statement, Statement::Scatter { .. } | Statement::Contract(_)) && !statement.may_fault();
        extents.extend(statement.dims().map(|(i, e)| (*i, e.as_size().and_then(Size::as_constant))));
        let effects = statement.effects();
        stores.extend(effects.store);
        loads.extend(effects.load.filter(|load| arrays.contains(&load.buffer)));
    });
    let row = |access: &Access<'_>| {
        let Some(Subscript::Affine(at)) = access.at.first() else { return None };
        access.view.is_none().then(|| at.clone())
    };
    let own: Affine<IndexId> = row(stores.first()?)?;
    let [(i, step)] = own.terms() else { return None };
    let step = step.as_constant().filter(|step| i == index && matches!(step, -1 | 1))?;
    if !plain || stores.iter().any(|store| row(store).as_ref() != Some(&own)) {
        return None;
    }
    let mut reach = 0;
    for load in &loads {
        let distance = row(load)?.sub(&own);
        let [mut least, mut greatest] = [distance.constant_part().as_constant()?; 2];
        for (i, factor) in distance.terms() {
            let last = (*extents.get(i).filter(|_| i != index)?)?.checked_sub(1)?.max(0);
            let end = factor.as_constant()?.checked_mul(last)?;
            least = least.checked_add(end.min(0))?;
            greatest = greatest.checked_add(end.max(0))?;
        }
        reach = reach.max(greatest).max(least.checked_neg()?);
    }
    let first = own.constant_part().clone();
    let rows = if let Some(count) = extent.as_size().filter(|_| step == 1) {
        let row = l.dims[1..].iter().map(|(_, extent)| extent.as_size().cloned());
        Rows::Each { first, count: count.clone(), row: row.collect::<Option<_>>()? }
    } else {
        let width = at_most(&part.kernel, extent)?;
        let first = if step == 1 { first } else { &first - &Size::constant(width - 1) };
        Rows::Once { first, width }
    };
    // Arrays of more than 2^31 rows in the distance of a stencil are in no memory.
    (reach < 1 << 16).then_some((rows, reach))
}

/// A number that an extent does not exceed.
fn at_most(kernel: &Kernel, extent: &Extent) -> Option<i64> {
    let Extent::Value(value) = extent else { return extent.as_size()?.as_constant() };
    let mut ops: BTreeMap<ValueId, &Op> = BTreeMap::new();
    visit::for_each_op(&kernel.body, &mut |value, op| _ = ops.insert(value, op));
    let Op::Binary(BinaryOp::Min, a, b) = ops.get(value)? else { return None };
    let number = |value| {
        let Some(Op::Affine(affine)) = ops.get(value) else { return None };
        affine.as_size()?.as_constant()
    };
    number(a).or_else(|| number(b))
}
