//! Loops that become several kernels, and the statements around them.

use std::collections::{BTreeMap, BTreeSet};

use super::{BufferId, Extent, IndexId, Kernel, Loop, LoopKind, Program, Statement, Subscript};
use crate::effects::Access;
use crate::{Size, visit};

/// A loop that becomes several kernels. It stands at the top of its kernel, or in a parallel loop
/// there, which has no indices if the loop is a reduction by key that runs once.
pub struct Rows<'s> {
    /// The indices of the parallel loop around it.
    pub outer: &'s [(IndexId, Extent)],
    /// The statements before it there. They store nothing, because each of the kernels may compute
    /// them again.
    pub before: &'s [Statement],
    /// The loop.
    pub inner: &'s Loop,
    /// The statements behind it there: parallel loops that work on the tables of a reduction by
    /// key, and scalars that they need.
    pub behind: &'s [Statement],
}

impl<'s> Rows<'s> {
    /// A statement at the top of a kernel as rows of such a loop; `None` if it is none.
    pub fn of(statement: &'s Statement) -> Option<Rows<'s>> {
        if let Statement::Loop(l) = statement { Rows::of_loop(l) } else { None }
    }

    /// The same of a loop.
    pub fn of_loop(l: &'s Loop) -> Option<Rows<'s>> {
        if l.kind.becomes_several() {
            return Some(Rows { outer: &[], before: &[], inner: l, behind: &[] });
        }
        let mut rows = l.body.iter().enumerate().filter(|_| l.kind == LoopKind::Parallel);
        rows.find_map(|(at, statement)| {
            let Statement::Loop(inner) = statement else { return None };
            let rows = Rows { outer: &l.dims, before: &l.body[..at], inner, behind: &l.body[at + 1..] };
            inner.kind.becomes_several().then_some(rows)
        })
    }

    /// The tables of a reduction by key that need not be complete before the statements behind it:
    /// a single load there reads each element once, in an iteration of its own.
    pub fn read_once(&self, program: &Program) -> BTreeSet<BufferId> {
        let LoopKind::Keyed { row, .. } = self.inner.kind else { return BTreeSet::new() };
        let mut tables: BTreeMap<BufferId, &[Subscript]> = BTreeMap::new();
        visit::for_each_statement(&self.inner.body, &mut |s| {
            if let Statement::Scatter { buffer, at, .. } = s {
                tables.insert(*buffer, &at[..row]);
            }
        });
        let mut loads: BTreeMap<BufferId, Vec<bool>> = BTreeMap::new();
        each_load(self.behind, Some(vec![]), &mut |Access { buffer, view, at }, around| {
            let Some(lead) = tables.get(&buffer) else { return };
            let (rows, keys) = at.split_at(row.min(at.len()));
            let lengths = program.buffers[buffer].shape.iter().skip(row);
            let own: Option<BTreeSet<_>> = keys.iter().zip(lengths).map(|(s, n)| Some((s.as_index()?, n))).collect();
            let all = around.as_ref().is_some_and(|dims| {
                dims.len() == keys.len() && own.is_some_and(|own| own == dims.iter().copied().collect())
            });
            loads.entry(buffer).or_default().push(view.is_none() && rows == *lead && all);
        });
        loads.into_iter().filter(|(_, own)| own[..] == [true]).map(|(table, _)| table).collect()
    }
}

impl Kernel {
    /// The tables of all reductions by key that are [read once](Rows::read_once) and nowhere else
    /// in the kernel. As scratch they are never stored.
    pub fn tables_read_once(&self, program: &Program) -> BTreeSet<BufferId> {
        let mut tables: BTreeSet<_> =
            self.body.iter().filter_map(Rows::of).flat_map(|r| r.read_once(program)).collect();
        if !tables.is_empty() {
            let loads = visit::loads(&self.body);
            tables.retain(|table| loads.iter().filter(|buffer| *buffer == table).count() == 1);
        }
        tables
    }
}

/// The indices of parallel loops, with their lengths.
type Dims<'s> = Vec<(IndexId, &'s Size)>;

/// Calls `each` on every load of a block, with the indices around it. There are none if there is
/// anything but parallel loops of certain lengths around it.
fn each_load<'s>(
    block: &'s [Statement],
    around: Option<Dims<'s>>,
    each: &mut impl FnMut(Access<'s>, &Option<Dims<'s>>),
) {
    for statement in block {
        statement.effects().load.into_iter().for_each(|load| each(load, &around));
        let own =
            |l: &'s Loop| l.dims.iter().map(|(i, extent)| Some((*i, extent.as_size()?))).collect::<Option<Dims<'s>>>();
        let inside = match (statement, &around) {
            (Statement::Loop(l), Some(around)) if l.kind == LoopKind::Parallel => {
                own(l).map(|own| [around.clone(), own].concat())
            }
            _ => None,
        };
        statement.blocks().for_each(|inner| each_load(inner, inside.clone(), each));
    }
}
