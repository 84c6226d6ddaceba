//! Elements that are rows, column by column: each column of a chunk goes into its own elements of
//! the table, so columns run at the same time, and each is a loop over elements that are single
//! values. Single values that an element merges are in a loop without columns.
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
//!
//! An iteration may also take the elements of a bin in place of those of a chunk.

use ir::nest::{Block, BufferId, Extent, IndexId, Loop, LoopKind, Op, Statement, Subscript, ValueId};
use ir::{Affine, Size, visit};

use super::bins::{Bins, scatters};
use super::{Expansion, Place, Table, holds_loop};
use crate::maker::needed;

/// The elements that an iteration takes.
#[derive(Clone, Copy)]
pub(super) enum Share<'b> {
    /// The elements of a chunk, of this many.
    Chunk(&'b Size),
    /// Those of a bin.
    Bin(&'b Bins),
}

/// The tables that a block merges into, with the subscripts.
type Merged = Vec<(BufferId, Vec<Subscript>)>;

/// A column of elements.
pub(super) struct Column {
    /// Its indices.
    dims: Vec<(IndexId, Extent)>,
    /// The statements for an element.
    each: Block,
    merged: Merged,
}

impl Expansion<'_> {
    /// The columns of each row that elements have, and of the single values. `None` if elements are
    /// no rows, or if their columns are not apart.
    pub(super) fn columns_apart(&self) -> Option<Vec<Column>> {
        let body = &self.inner.body;
        let mut rows = vec![];
        rows_in(body, &mut rows);
        let mut faults = false;
        visit::for_each_statement(body, &mut |s| faults |= s.may_fault());
        if rows.is_empty() || faults || !rows.iter().all(|row| self.is_apart(row)) {
            return None;
        }
        let mut columns = vec![];
        for row in rows.into_iter().map(Some).chain([None]) {
            let merged = scattered(row.map_or(body, |row| &row.body), row.is_none());
            if !merged.is_empty() {
                let each = needed(&only(body, row), scatters, &[], &[]);
                columns.push(Column { dims: row.map_or(&[][..], |row| &row.dims).to_vec(), each, merged });
            }
        }
        Some(columns)
    }

    /// Elements as they are, in a single column.
    pub(super) fn one_column(&self) -> Column {
        let each = self.inner.body.clone();
        let merged = scattered(&each, false);
        Column { dims: vec![], each, merged }
    }

    /// Whether each iteration of a row merges into a column of its own in each of its tables.
    fn is_apart(&self, row: &Loop) -> bool {
        let flat = !row.body.iter().any(holds_loop);
        let mut apart = row.kind == LoopKind::Parallel;
        visit::for_each_statement(&row.body, &mut |s| {
            if let Statement::Scatter { buffer, at, .. } = s
                && let Some(table) = self.table_of(*buffer)
            {
                apart &= self.axes(table, at, &row.dims).is_some();
            }
        });
        flat && apart
    }

    fn table_of(&self, buffer: BufferId) -> Option<&Table> {
        self.tables.iter().find(|table| table.whole == buffer)
    }

    /// The axis of the part of a table that each index of a row stands for, if it is a whole one.
    fn axes(&self, table: &Table, at: &[Subscript], row: &[(IndexId, Extent)]) -> Option<Vec<usize>> {
        let inside = &at[table.row.len()..];
        let axis = |(index, extent): &(IndexId, Extent)| {
            let axis = inside.iter().position(|subscript| *subscript == Subscript::index(*index))?;
            (extent.as_size() == table.shape.get(axis)).then_some(axis)
        };
        row.iter().map(axis).collect()
    }

    /// A loop over the columns of each share.
    pub(super) fn by_column(&mut self, column: &Column, share: Share<'_>) -> Loop {
        let mut columns = vec![];
        for (index, extent) in &column.dims {
            columns.push((*index, (self.maker.index("column"), extent.clone())));
        }
        let (bin, mut dims) = match share {
            Share::Chunk(count) => (None, vec![(self.maker.index("chunk"), Extent::size(count.clone()))]),
            Share::Bin(bins) => {
                let (bin, dims) = bins.dims(&mut self.maker, &self.count);
                (Some(bin), dims.to_vec())
            }
        };
        let chunk = dims[0].0;
        let places: Vec<Place> = self.tables.iter().map(|table| table.place(chunk)).collect();
        let mut out = self.before.to_vec();
        for (table, place) in self.tables.iter().zip(&places) {
            let Some((_, at)) = column.merged.iter().find(|(buffer, _)| *buffer == table.whole) else { continue };
            let axes = self.axes(table, at, &column.dims).unwrap_or_default();
            let fixed: Vec<(usize, IndexId)> =
                axes.into_iter().zip(&columns).map(|(axis, (_, (index, _)))| (axis, *index)).collect();
            let keys = bin.as_ref().map(|bin| bin.keys(&mut self.maker, &table.shape[0], &mut out));
            let mut cleared = self.clear_column(table, place, &fixed, keys);
            // A thread that takes a few elements alone clears a few as well.
            if bin.is_some() && !column.each.iter().any(holds_loop) {
                cleared.kind = LoopKind::Serial;
            }
            out.push(Statement::Loop(cleared));
        }
        let others: Vec<(IndexId, IndexId)> = columns.iter().map(|(index, (other, _))| (*index, *other)).collect();
        match &bin {
            None => self.elements_of(&column.each, &self.first_of(chunk), &others, &places, &mut out),
            Some(bin) => self.elements_of_bin(&column.each, bin, &others, &places, &mut out),
        }
        dims.extend_from_slice(self.outer);
        dims.extend(columns.into_iter().map(|(_, column)| column));
        Loop { dims, kind: LoopKind::Parallel, body: out }
    }

    /// A loop that stores the identity in each element of a table where some axes have given
    /// indices, for some of the keys if they are given by the first one and their number.
    fn clear_column(
        &mut self,
        table: &Table,
        place: &Place,
        fixed: &[(usize, IndexId)],
        keys: Option<(Affine<IndexId>, ValueId)>,
    ) -> Loop {
        let mut dims = vec![];
        let mut at = vec![];
        for (axis, length) in table.shape.iter().enumerate() {
            if let Some((_, index)) = fixed.iter().find(|(other, _)| *other == axis) {
                at.push(Subscript::index(*index));
                continue;
            }
            let index = self.maker.index("key");
            let (first, extent) = match &keys {
                Some((first, length)) if axis == 0 => (first.clone(), Extent::Value(*length)),
                _ => (Affine::constant(0), Extent::size(length.clone())),
            };
            dims.push((index, extent));
            at.push(Subscript::Affine(first.add(&Affine::index(index))));
        }
        let mut body = vec![];
        let identity = table.monoid.identity(self.maker.program.buffers[place.buffer].dtype);
        let value = self.maker.define(&mut body, Op::Constant(identity));
        body.push(Statement::Store { buffer: place.buffer, at: place.at(&at), value });
        Loop { dims, kind: LoopKind::Parallel, body }
    }
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
fn scattered(block: &Block, single: bool) -> Merged {
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
