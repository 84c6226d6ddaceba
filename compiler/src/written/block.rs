//! The names that a statement can use: those of the function, or of the steps of a loop, with those
//! around it.

use std::collections::{BTreeMap, BTreeSet};

use ir::checked::{Checked, ExprId, GuardId, IndexId, LoopId, RecurrenceId};

use super::{Unwritten, Writer};

/// The statements of the function, or of the steps of a loop, with the names that they can use.
#[derive(Clone)]
pub struct Block {
    /// The statements.
    pub lines: Vec<String>,
    /// The names that are taken.
    pub taken: BTreeSet<String>,
    /// The indices in scope, with their names.
    pub scope: Vec<(IndexId, String)>,
    /// The number of indices that are in scope in all statements.
    pub depth: usize,
    /// The branch that the statements stand in.
    pub guard: GuardId,
    /// The `let`s: the name, and the indices of the array that stands for a scalar or an array that
    /// depends on indices.
    pub lets: BTreeMap<ExprId, (String, Vec<IndexId>)>,
    /// The names of `let`s by their text behind the names, so that equal ones are one.
    pub definitions: BTreeMap<String, Vec<String>>,
    /// The names of the last states of loops, with the indices that there is a loop for each of.
    pub loops: BTreeMap<LoopId, (BTreeMap<usize, String>, Vec<IndexId>)>,
    /// The recurrences that the statements can read elements of, inside of one or behind it.
    pub begun: BTreeSet<RecurrenceId>,
    /// The names of the arrays of recurrences, with the indices that are further axes of them.
    pub recurrences: BTreeMap<RecurrenceId, (Vec<String>, Vec<IndexId>)>,
}

impl Block {
    /// That of the function, with the names that no statement may define.
    pub fn new(taken: BTreeSet<String>) -> Block {
        Block {
            lines: vec![],
            taken,
            scope: vec![],
            depth: 0,
            guard: Checked::TOP,
            lets: BTreeMap::new(),
            definitions: BTreeMap::new(),
            loops: BTreeMap::new(),
            begun: BTreeSet::new(),
            recurrences: BTreeMap::new(),
        }
    }
}

impl Writer<'_> {
    /// The indices that an expression depends on and that are not in scope in all statements.
    pub fn outside(&self, id: ExprId) -> Vec<IndexId> {
        self.not_open(&self.free[id])
    }

    /// Those of some indices that are not in scope in all statements.
    pub fn not_open(&self, indices: &[IndexId]) -> Vec<IndexId> {
        let open = &self.block.scope[..self.block.depth];
        indices.iter().copied().filter(|index| !open.iter().any(|(other, _)| other == index)).collect()
    }

    /// Whether a branch is taken wherever the statements of the block are.
    pub fn is_always(&self, guard: GuardId) -> bool {
        self.checked.within(self.block.guard, guard)
    }

    /// Whether an expression reads elements of a recurrence that is still to be written.
    pub fn is_early(&self, id: ExprId) -> bool {
        self.under_way[id].is_some_and(|recurrence| !self.block.begun.contains(&recurrence))
    }

    /// Writes a part of the text in a block of its own.
    pub fn within<T>(
        &mut self,
        guard: GuardId,
        write: impl FnOnce(&mut Self) -> Result<T, Unwritten>,
    ) -> Result<T, Unwritten> {
        let outer = self.block.clone();
        self.block.lines.clear();
        self.block.guard = guard;
        self.block.begun.extend(outer.recurrences.keys());
        let written = write(self);
        self.block = outer;
        written
    }
}
