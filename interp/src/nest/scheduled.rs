//! Runs scheduled programs: the parts one after another, each as its text and its `Run` say. A loop
//! that is laid out runs unit by unit, the last block, thread and lane first: so an iteration that
//! depends on another one, or that no unit runs, is found. Pieces run in ascending order. Ranges,
//! strips, the tiles of a transposition, the carries of a scan and the forms of loops only tell
//! engines how to divide the work, so they mean the same as the text. In this way, schedules are
//! held to the bits of the programs that they were made from, without any engine.

use std::sync::atomic::AtomicBool;

use ir::Affine;
use ir::array::{Array, ArrayRef};
use ir::nest::{BufferId, IndexId, Loop, LoopKind, Statement, Subscript};
use ir::order::{BLOCK, LANES_CHUNK, Scope};
use ir::sched::{InBlocks, Level, Part, Run, Scheduled, Variant};

use super::{Machine, RunError, Step, execute, slot};
use crate::reduce::State;

/// Runs a verified scheduled program; gives the results, in order.
pub fn run_scheduled(scheduled: &Scheduled, inputs: &[ArrayRef<'_>]) -> Result<Vec<Array>, RunError> {
    let program = scheduled.as_program();
    let outcome = execute(&program, inputs, &AtomicBool::new(false), |machine, id| {
        let part = &scheduled.parts[slot(id)];
        if scheduled.is_replaced(part) { Ok(()) } else { machine.part(part, &program.kernels[id].body) }
    })?;
    Ok(outcome.outputs)
}

impl<'p> Machine<'p, '_> {
    fn part(&mut self, part: &Part, body: &'p [Statement]) -> Step<'p> {
        self.joins.clone_from(&part.joins);
        self.row = None;
        // Which of several failed checks ends the run depends on the order of iterations.
        if let Some(variant) = part.variants.iter().find(|variant| self.fits(variant))
            && !body.iter().any(Statement::may_fault)
        {
            let Some((Statement::Loop(l), before)) = body.split_last() else { return Ok(()) };
            self.block(before)?;
            self.row = variant.row().cloned();
            return self.laid_out(l, variant);
        }
        match &part.run {
            Run::Whole
            | Run::Ranges
            | Run::Transpose(_)
            | Run::Strips { .. }
            | Run::HandOff(_)
            | Run::Relay(_)
            | Run::Sweeps => self.block(body),
            Run::Chunks { results } => {
                let Some((Statement::Loop(l), before)) = body.split_last() else { return Ok(()) };
                self.block(before)?;
                let found = self.in_pieces(l, LANES_CHUNK)?;
                self.keep(&body[before.len()], results, &[], found)
            }
            Run::Blocks { results } => {
                let Some((columns, before)) = body.split_last() else { return Ok(()) };
                self.block(before)?;
                self.columns(columns, results)
            }
            Run::Tiles(tiles) => {
                let mut loops = 0usize;
                for statement in body {
                    let sums = loops.checked_sub(tiles.rows).and_then(|column| tiles.sums.get(column));
                    let is_loop = matches!(statement, Statement::Loop(_));
                    match sums.filter(|_| is_loop) {
                        Some(sums) => self.columns(statement, sums)?,
                        None => self.statement(statement)?,
                    }
                    loops += usize::from(is_loop);
                }
                Ok(())
            }
        }
    }

    /// Whether a variant is for these sizes.
    fn fits(&self, variant: &Variant) -> bool {
        variant.at_most.iter().all(|(size, most)| self.size(size) <= *most)
            && variant.row().is_none_or(|row| row.fits(self.size(&row.length)))
    }

    /// The elements of a parallel loop over a row, unit by unit.
    pub(super) fn row_elements(&self, l: &Loop) -> Option<Vec<i64>> {
        let (row, [(_, extent)]) = (self.row.as_ref()?, l.dims.as_slice()) else { return None };
        let (length, held) = (self.extent(extent).max(0), row.capacity());
        let mut elements = numbers(&row.levels, length.min(held));
        if let Some(beyond) = row.beyond() {
            elements.extend(numbers(&beyond.levels, length - length.min(held)).iter().map(|number| held + number));
        }
        Some(elements)
    }

    /// Runs a parallel loop unit by unit.
    fn laid_out(&mut self, l: &'p Loop, variant: &Variant) -> Step<'p> {
        let mut axes = vec![];
        for axis in &variant.axes {
            let dims = l.dims.iter().filter(|(index, _)| axis.indices.contains(index));
            axes.push(dims.map(|(index, extent)| (*index, self.extent(extent).max(0))).collect::<Vec<_>>());
        }
        let numbers: Vec<Vec<i64>> = axes
            .iter()
            .zip(&variant.axes)
            .map(|(dims, axis)| numbers(&axis.levels, dims.iter().map(|(_, extent)| *extent).product()))
            .collect();
        let places = numbers.iter().map(Vec::len).product();
        self.apart_at(places, |machine, place| {
            let mut rest = place;
            for (dims, numbers) in axes.iter().zip(&numbers).rev() {
                let mut number = numbers[rest % numbers.len()];
                rest /= numbers.len();
                for (index, extent) in dims.iter().rev() {
                    machine.indices[slot(*index)] = number % extent;
                    number /= extent;
                }
            }
            machine.block(&l.body)
        })
    }

    /// A loop over columns with a reduction that runs in blocks of rows.
    fn columns(&mut self, columns: &'p Statement, results: &[BufferId]) -> Step<'p> {
        let Statement::Loop(l) = columns else { return Ok(()) };
        let Some(InBlocks { columns: dims, before, rows }) = InBlocks::of(l) else { return Ok(()) };
        let column: Vec<IndexId> = dims.iter().map(|(index, _)| *index).collect();
        self.apart(dims, |machine| {
            machine.block(before)?;
            let found = machine.in_pieces(rows, BLOCK)?;
            machine.keep(columns, results, &column, found)
        })
    }

    /// The results of a loop's reductions for each piece of `length` iterations.
    fn in_pieces(&mut self, l: &'p Loop, length: usize) -> Step<'p, Vec<Vec<State>>> {
        let LoopKind::Reduce(reductions) = &l.kind else { return Ok(vec![]) };
        let mut found = vec![];
        let mut under_way = self.reductions(reductions);
        let mut number = 0;
        self.apart(&l.dims, |machine| {
            machine.block(&l.body)?;
            for (r, reduction) in &mut under_way {
                reduction.push(machine.state(&r.inputs, number));
            }
            number += 1;
            if usize::try_from(number).is_ok_and(|number| number.is_multiple_of(length)) {
                let whole = std::mem::replace(&mut under_way, machine.reductions(reductions));
                found.push(whole.into_iter().map(|(_, reduction)| reduction.finish()).collect());
            }
            Ok(())
        })?;
        if !usize::try_from(number).is_ok_and(|number| number.is_multiple_of(length)) {
            found.push(under_way.into_iter().map(|(_, reduction)| reduction.finish()).collect());
        }
        Ok(found)
    }

    /// Stores the results of pieces, a buffer for each reduction: the piece first, then the column.
    fn keep(
        &mut self,
        statement: &'p Statement,
        results: &[BufferId],
        column: &[IndexId],
        found: Vec<Vec<State>>,
    ) -> Step<'p> {
        for (piece, states) in (0..).zip(found) {
            let mut at = vec![Subscript::Affine(Affine::constant(piece))];
            at.extend(column.iter().map(|index| Subscript::Affine(Affine::index(*index))));
            for (buffer, state) in results.iter().zip(states) {
                self.store(statement, *buffer, &at, state[0])?;
            }
        }
        Ok(())
    }
}

/// The numbers of iterations below a total, unit by unit: the highest digit first, and units that
/// run at once in descending order.
fn numbers(levels: &[Level], total: i64) -> Vec<i64> {
    let mut numbers = vec![0];
    let mut stride: i64 = levels.iter().filter_map(Level::most).product();
    for level in levels.iter().rev() {
        let count = level.most().unwrap_or(total / stride + i64::from(total % stride > 0));
        stride /= level.most().unwrap_or(1);
        let mut digits: Vec<i64> = (0..count).map(|digit| digit * stride).collect();
        if level.scope != Scope::Memory {
            digits.reverse();
        }
        numbers = numbers.iter().flat_map(|number| digits.iter().map(move |digit| number + digit)).collect();
    }
    numbers.retain(|number| *number < total);
    numbers
}
