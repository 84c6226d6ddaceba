//! Reductions by key, as `ir::order` defines them.

use std::collections::BTreeMap;

use ir::nest::{BufferId, Loop, Statement, Subscript};
use ir::order::keyed_chunk;
use ir::{Monoid, Scalar, Size, visit};

use super::{Contents, Machine, Problem, Step, Stop, slot};
use crate::reduce::ByKey;
use crate::scalar::binary;

/// A reduction by key in progress.
pub(super) struct Keyed {
    /// The elements of a chunk.
    chunk: i64,
    /// The number of the next element.
    number: i64,
    /// For each element of a table that has a value.
    found: BTreeMap<(BufferId, usize), ByKey>,
}

impl<'p> Machine<'p, '_> {
    /// A loop over the elements of a reduction by key.
    pub(super) fn keyed(&mut self, l: &'p Loop, keys: &Size, row: usize) -> Step<'p> {
        let keyed = Keyed { chunk: keyed_chunk(self.size(keys)), number: 0, found: BTreeMap::new() };
        self.keyed = Some(keyed);
        self.apart(&l.dims, |machine| {
            machine.block(&l.body)?;
            if let Some(keyed) = &mut machine.keyed {
                keyed.number += 1;
            }
            Ok(())
        })?;
        let Some(mut keyed) = self.keyed.take() else { return Ok(()) };
        let mut tables = vec![];
        visit::for_each_statement(&l.body, &mut |s| {
            if let Statement::Scatter { buffer, at, monoid, .. } = s {
                tables.push((s, *buffer, &at[..row], *monoid));
            }
        });
        for (statement, buffer, row, monoid) in tables {
            let shape = self.memory[slot(buffer)].shape.clone();
            let (outer, inner) = shape.split_at(row.len());
            let first = self.element(statement, outer, row)?;
            let Ok(count) = usize::try_from(inner.iter().product::<i64>()) else { continue };
            let identity = monoid.identity(self.program.buffers[buffer].dtype);
            for element in first * count..(first + 1) * count {
                let value = keyed.found.remove(&(buffer, element)).map_or(identity, |found| found.finish(monoid));
                self.put(statement, buffer, element, value)?;
            }
        }
        Ok(())
    }

    /// Merges a value into an element of a table.
    pub(super) fn scatter(
        &mut self,
        statement: &'p Statement,
        buffer: BufferId,
        at: &[Subscript],
        value: Scalar,
        monoid: Monoid,
    ) -> Step<'p> {
        let element = self.element(statement, &self.memory[slot(buffer)].shape, at)?;
        self.traffic(buffer).stores += 1;
        if let Some(keyed) = &mut self.keyed {
            let chunk = keyed.number / keyed.chunk;
            let found = keyed.found.entry((buffer, element)).or_insert_with(|| ByKey::new(monoid, value.dtype()));
            found.push(monoid, chunk, value);
            return Ok(());
        }
        let before = self.get_stored(statement, buffer, element)?;
        let (clock, memory) = (self.clock, &mut self.memory[slot(buffer)]);
        let Contents::Own(array) = &mut memory.contents else {
            return Err(Stop::Access(statement, Problem::NotWritable));
        };
        memory.stored[element] = clock;
        let set = array.set(element, binary(monoid.primitive(), before, value));
        if set { Ok(()) } else { Err(Stop::Access(statement, Problem::NotWritable)) }
    }
}
