//! Chunks of elements that are rows, column by column: each column of a chunk goes into its own
//! elements of the table, so columns run at the same time, and each is a loop over elements that
//! are single values. Single values that an element merges are in a loop without columns.
//!
//! ```text
//! keyed K row 0 over i < n {           parallel chunk < n / C {
//!   scatter %y[key], add 1               ... scatter %y.chunks[chunk, key], add 1
//!   parallel p < d {                   }
//!     scatter %z[key, p], add v        parallel chunk < n / C, p < d {
//!   }                                    parallel k < K { store %z.chunks[chunk, k, p], 0 }
//! }                                      serial e < min(C, n - chunk * C) {
//!                                          scatter %z.chunks[chunk, key, p], add v
//!                                        }
//!                                      }
//! ```

use ir::nest::{Block, BufferId, Extent, IndexId, Loop, LoopKind, Op, Statement, Subscript};
use ir::{Size, visit};

use super::{Expansion, Place, Table};
use crate::maker::needed;

impl Expansion<'_> {
    /// Loops over columns for this many chunks. `None` if elements are no rows, or if their columns
    /// are not apart.
    pub(super) fn by_column(&mut self, count: &Size) -> Option<Vec<Loop>> {
        let body = self.inner.body.clone();
        let mut rows = vec![];
        rows_in(&body, &mut rows);
        let mut faults = false;
        visit::for_each_statement(&body, &mut |s| faults |= s.may_fault());
        if rows.is_empty() || faults || !rows.iter().all(|row| self.is_apart(row)) {
            return None;
        }
        let mut loops = vec![];
        for row in rows.iter().copied().map(Some).chain([None]) {
            let tables = scattered(row.map_or(&body, |row| &row.body), row.is_none());
            if !tables.is_empty() {
                loops.push(self.column(&body, row, &tables, count));
            }
        }
        Some(loops)
    }

    /// Whether each iteration of a row merges into a column of its own in each of its tables.
    fn is_apart(&self, row: &Loop) -> bool {
        let flat = !row.body.iter().any(super::holds_loop);
        let mut apart = row.kind == LoopKind::Parallel;
        visit::for_each_statement(&row.body, &mut |s| {
            if let Statement::Scatter { buffer, at, .. } = s
                && let Some(table) = self.table_of(*buffer)
            {
                apart &= self.columns(table, at, row).is_some();
            }
        });
        flat && apart
    }

    fn table_of(&self, buffer: BufferId) -> Option<&Table> {
        self.tables.iter().find(|table| table.whole == buffer)
    }

    /// The axis of the part of a table that each index of a row stands for, if it is a whole one.
    fn columns(&self, table: &Table, at: &[Subscript], row: &Loop) -> Option<Vec<usize>> {
        let inside = &at[table.row.len()..];
        let axis = |(index, extent): &(IndexId, Extent)| {
            let axis = inside.iter().position(|subscript| *subscript == Subscript::index(*index))?;
            (extent.as_size() == table.shape.get(axis)).then_some(axis)
        };
        row.dims.iter().map(axis).collect()
    }

    /// A loop over the columns of a row in each chunk, or over the chunks for what is in no row.
    fn column(
        &mut self,
        body: &Block,
        row: Option<&Loop>,
        merged: &[(BufferId, Vec<Subscript>)],
        count: &Size,
    ) -> Loop {
        let chunk = self.maker.index("chunk");
        let columns: Vec<(IndexId, Extent)> = row.map_or(&[][..], |row| &row.dims).to_vec();
        let columns: Vec<(IndexId, (IndexId, Extent))> =
            columns.into_iter().map(|(index, extent)| (index, (self.maker.index("column"), extent))).collect();
        let places: Vec<Place> = self.tables.iter().map(|table| table.place(chunk)).collect();
        let mut out = self.before.to_vec();
        for (table, place) in self.tables.iter().zip(&places) {
            let Some((_, at)) = merged.iter().find(|(buffer, _)| *buffer == table.whole) else { continue };
            let axes = row.and_then(|row| self.columns(table, at, row)).unwrap_or_default();
            let fixed: Vec<(usize, IndexId)> =
                axes.into_iter().zip(&columns).map(|(axis, (_, (index, _)))| (axis, *index)).collect();
            let cleared = self.clear_column(table, place, &fixed);
            out.push(cleared);
        }
        let each = needed(&only(body, row), scatters, &[], &[]);
        let others: Vec<(IndexId, IndexId)> = columns.iter().map(|(index, (other, _))| (*index, *other)).collect();
        self.elements_of(&each, &self.first_of(chunk), &others, &places, &mut out);
        let dims = [(chunk, Extent::size(count.clone()))].into_iter().chain(self.outer.iter().cloned());
        let dims = dims.chain(columns.into_iter().map(|(_, column)| column)).collect();
        Loop { dims, kind: LoopKind::Parallel, body: out }
    }

    /// A loop that stores the identity in each element of a table where some axes have given
    /// indices.
    fn clear_column(&mut self, table: &Table, place: &Place, fixed: &[(usize, IndexId)]) -> Statement {
        let mut dims = vec![];
        let mut at = vec![];
        for (axis, length) in table.shape.iter().enumerate() {
            let index = fixed.iter().find(|(other, _)| *other == axis).map(|(_, index)| *index);
            at.push(Subscript::index(index.unwrap_or_else(|| {
                let index = self.maker.index("key");
                dims.push((index, Extent::size(length.clone())));
                index
            })));
        }
        let mut body = vec![];
        let identity = table.monoid.identity(self.maker.program.buffers[place.buffer].dtype);
        let value = self.maker.define(&mut body, Op::Constant(identity));
        body.push(Statement::Store { buffer: place.buffer, at: place.at(&at), value });
        Statement::Loop(Loop { dims, kind: LoopKind::Parallel, body })
    }
}

/// Whether a statement merges into a table.
fn scatters(statement: &Statement) -> bool {
    matches!(statement, Statement::Scatter { .. }) || statement.blocks().flatten().any(scatters)
}

/// The loops in a block that merge into tables, in branches as well.
fn rows_in<'b>(block: &'b Block, rows: &mut Vec<&'b Loop>) {
    for statement in block.iter().filter(|s| scatters(s)) {
        if let Statement::Loop(l) = statement {
            rows.push(l);
        } else {
            statement.blocks().for_each(|inner| rows_in(inner, rows));
        }
    }
}

/// The tables that a block merges into, with the subscripts; without those in loops if `single`.
fn scattered(block: &Block, single: bool) -> Vec<(BufferId, Vec<Subscript>)> {
    let mut found = vec![];
    for statement in block {
        if let Statement::Scatter { buffer, at, .. } = statement {
            found.push((*buffer, at.clone()));
        }
        if !(single && matches!(statement, Statement::Loop(_))) {
            statement.blocks().for_each(|inner| found.extend(scattered(inner, single)));
        }
    }
    found
}

/// A block that merges only what one of the rows in it does, for one of its iterations, or only
/// what is in no row.
fn only(block: &Block, row: Option<&Loop>) -> Block {
    let mut out = vec![];
    for statement in block {
        if let Statement::Loop(l) = statement
            && scatters(statement)
        {
            if row == Some(l) {
                out.extend_from_slice(&l.body);
            }
            continue;
        }
        if row.is_some() && matches!(statement, Statement::Scatter { .. }) {
            continue;
        }
        let mut statement = statement.clone();
        for inner in statement.blocks_mut().filter(|inner| inner.iter().any(scatters)) {
            *inner = only(inner, row);
        }
        out.push(statement);
    }
    out
}
