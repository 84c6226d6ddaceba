//! The rules that a scheduled program obeys, checked after each pass in tests and debug builds, and
//! before code is generated. The program with the parts as its kernels obeys those of
//! [`crate::verify`], and each part runs in a way that its statements and its target permit.

use super::form::are_legal;
use super::{
    Axis, Columns, Count, InBlocks, Level, Machine, Part, Relay, Row, Run, Scans, Scheduled, Strategy, SweepForm,
    Sweeps, Tail, Tiles, Transpose, Variant, ends_in_last_block, is_scalar, prefixes_in_chunks, single_prefixes,
};
use crate::leaf::Site;
use crate::nest::{BufferId, IndexId, Loop, LoopKind, Op, Program, Reduction, Role, Statement};
use crate::order::Scope;
use crate::verify::VerifyError;
use crate::{Dtype, Size, visit};

type Result<T = ()> = std::result::Result<T, VerifyError>;

/// Checks every rule, up to the first that is violated.
pub fn verify(scheduled: &Scheduled) -> Result {
    crate::verify::verify(&scheduled.as_program())?;
    let mut last = None;
    let mut before = None;
    for part in &scheduled.parts {
        let checker = Checker { program: &scheduled.program, part };
        checker.ends(&scheduled.machine, before.replace(part))?;
        if last > Some(part.of) {
            return checker.fail("stands behind a part of a later kernel");
        }
        last = Some(part.of);
        checker.fits(&scheduled.machine)?;
        checker.run(&scheduled.machine)?;
        part.variants.iter().try_for_each(|variant| checker.variant(&scheduled.machine, variant))?;
        checker.forms(&scheduled.machine)?;
    }
    Ok(())
}

/// A part that is being checked.
struct Checker<'s> {
    program: &'s Program,
    part: &'s Part,
}

impl<'s> Checker<'s> {
    fn fail<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(VerifyError { place: format!("part @{}", self.part.kernel.name), message: message.into() })
    }

    fn hold(&self, rule: bool, message: &str) -> Result {
        if rule { Ok(()) } else { self.fail(message) }
    }

    /// Whether the target runs parts in this way.
    fn fits(&self, machine: &Machine) -> Result {
        let fits = match self.part.run {
            Run::Whole | Run::Ranges | Run::Transpose(_) | Run::Chunks { .. } => true,
            Run::Strips { .. } | Run::Blocks { .. } => machine.columns == Columns::Strips,
            Run::Tiles(_) => machine.columns == Columns::Tiles,
            Run::HandOff(_) => machine.scans == Scans::HandOff,
            Run::Relay(_) => machine.scans == Scans::Relay,
            Run::Sweeps => machine.sweeps.is_some(),
        };
        self.hold(fits, &format!("runs in a way that {} has not", machine.name))
    }

    /// If the last block of the part before it runs it: that block can.
    fn ends(&self, machine: &Machine, before: Option<&Part>) -> Result {
        let Some(ended) = self.part.last else { return Ok(()) };
        let can = before.is_some_and(|before| ends_in_last_block(self.program, before, self.part));
        self.hold(can && machine.gpu.is_some(), "cannot run in the last block of the part before")?;
        self.temporary(ended, Dtype::U64)
    }

    fn run(&self, machine: &Machine) -> Result {
        let indices = &self.part.kernel.indices;
        self.hold(self.part.joins.iter().all(|index| indices.is_valid(*index)), "joins over an index that it has not")?;
        if let Some((before, _)) = self.part.root() {
            self.hold(before.iter().all(is_scalar), "has more than scalars before the statement that runs in pieces")?;
        }
        if self.part.run != Run::Whole {
            let mut several = false;
            visit::for_each_statement(&self.part.kernel.body, &mut |s| {
                several |= matches!(s, Statement::Loop(l) if l.kind.becomes_several());
            });
            self.hold(!several, "runs a keyed loop or a sort, which are parts of their own")?;
        }
        match &self.part.run {
            Run::Whole => Ok(()),
            Run::Ranges => match self.part.root() {
                Some((_, Statement::Contract(_))) => Ok(()),
                _ => self.parallel().map(|_| ()),
            },
            Run::Transpose(transpose) => self.transpose(transpose),
            Run::Strips { .. } => self.parallel().map(|_| ()),
            Run::Chunks { results } => self.results_of(self.last_loop()?, results),
            Run::Blocks { results } => {
                let found = self.part.kernel.body.last().and_then(as_loop).and_then(InBlocks::of);
                let rows = found.map_or_else(|| self.fail("has no reduction down the rows"), |found| Ok(found.rows))?;
                self.results_of(rows, results)
            }
            Run::HandOff(hand_off) => {
                let prefixes = prefixes_in_chunks(self.scan()?);
                self.hold(prefixes == Some(hand_off.prefixes), "hands on another number of prefixes than it has")?;
                self.temporary(hand_off.buffer, Dtype::U64)
            }
            Run::Relay(Relay { buffer, prefixes, window }) => {
                let found = single_prefixes(self.scan()?).map(|prefixes| prefixes.len());
                self.hold(found == Some(*prefixes), "relays another number of prefixes than it has")?;
                let warp = machine.gpu.map_or(1, |gpu| gpu.warp);
                self.hold(*window > 0 && window % warp == 0, "has a window that is no multiple of a warp")?;
                self.temporary(*buffer, Dtype::U64)
            }
            Run::Tiles(tiles) => self.tiles(tiles),
            Run::Sweeps => {
                self.parallel()?;
                let found = Sweeps::of(self.program, &self.part.kernel, SweepForm::Exact);
                self.hold(found.is_some(), "does not run in sweeps")
            }
        }
    }

    /// The last statement, which is a loop with extents that are sizes.
    fn last_loop(&self) -> Result<&'s Loop> {
        let last = self.part.kernel.body.last().and_then(as_loop);
        let sized = |l: &&Loop| l.dims.iter().all(|(_, extent)| extent.as_size().is_some());
        last.filter(sized).map_or_else(|| self.fail("does not end in a loop whose extents are sizes"), Ok)
    }

    /// The last statement, which is a parallel loop.
    fn parallel(&self) -> Result<&'s Loop> {
        let last = self.part.kernel.body.last().and_then(as_loop);
        let parallel = |l: &&Loop| l.kind == LoopKind::Parallel && !l.dims.is_empty();
        last.filter(parallel).map_or_else(|| self.fail("does not end in a parallel loop"), Ok)
    }

    /// The last statement, which is a scan.
    fn scan(&self) -> Result<&'s Loop> {
        let l = self.last_loop()?;
        self.hold(l.kind == LoopKind::Scan, "does not end in a scan")?;
        Ok(l)
    }

    fn temporary(&self, buffer: BufferId, dtype: Dtype) -> Result {
        let found = self.program.buffers.get(buffer);
        let fits = found.is_some_and(|b| b.dtype == dtype && b.role == Role::Temp);
        self.hold(fits, &format!("needs a temporary of {dtype} for each result"))
    }

    /// Each reduction of a loop has a buffer for its results.
    fn results_of(&self, l: &Loop, results: &[BufferId]) -> Result {
        let LoopKind::Reduce(reductions) = &l.kind else { return self.fail("has no reduction") };
        self.hold(reductions.len() == results.len(), "has another number of results than of reductions")?;
        for (reduction, buffer) in reductions.iter().zip(results) {
            let Some(single) = Reduction::single(reduction) else { return self.fail("reduces states in pieces") };
            self.temporary(*buffer, self.part.kernel.values[single.result])?;
        }
        Ok(())
    }

    fn transpose(&self, t: &Transpose) -> Result {
        let l = self.parallel()?;
        let extents: Option<Vec<Size>> = l.dims.iter().map(|(_, extent)| extent.as_size().cloned()).collect();
        self.hold(extents.as_ref() == Some(&t.extents), "has tiles of other extents than its loop")?;
        self.hold(t.outer + 1 < l.dims.len() && t.height > 0, "has no tiles along an index outside of the innermost")?;
        let load = |at: &usize| matches!(l.body.get(*at), Some(Statement::Let { op: Op::Load { .. }, .. }));
        self.hold(t.loads.iter().all(load), "transposes a statement that is no load")
    }

    /// Its loops run in forms that they may have.
    fn forms(&self, machine: &Machine) -> Result {
        let Part { kernel, joins, forms, .. } = self.part;
        let site = Site { program: self.program, dtype: &|value| kernel.values[value], joins };
        let legal = machine.gpu.is_none() && are_legal(self.part, site);
        self.hold(forms.is_empty() || legal, "has loops in a form that they cannot have")
    }

    /// Each iteration of the last statement runs once, on units that the target has.
    fn variant(&self, machine: &Machine, variant: &Variant) -> Result {
        let l = self.parallel()?;
        let Some(gpu) = machine.gpu else {
            return self.fail(format!("is laid out on units that {} has not", machine.name));
        };
        self.layout(l, &variant.axes)?;
        self.hold(variant.threads() <= gpu.most_threads, "has more threads than fit into a block")?;
        if let Tail::Single(unless) = &variant.tail {
            self.hold(unless.iter().all(|(_, of)| *of > 0), "needs a size to be a multiple of less than 1")?;
        }
        let follows = !variant.descending || variant.strategy == Strategy::Vectors;
        self.hold(follows, "descends, which only vectors do")?;
        if let Some(row) = variant.row() {
            self.row(l, row)?;
        }
        for stage in &variant.stages {
            let load = |at: &usize| matches!(l.body.get(*at), Some(Statement::Let { op: Op::Load { .. }, .. }));
            self.hold(stage.loads.iter().all(load), "stages a statement that is no load")?;
            self.layout(l, &stage.axes)?;
            // The threads of a block copy what the same block reads.
            let same = |axis: &Axis| {
                let of_block = |other: &&Axis| other.indices == axis.indices && other.of_block() == axis.of_block();
                stage.axes.iter().any(|other| of_block(&other))
            };
            self.hold(variant.axes.iter().all(same), "stages other elements than its block reads")?;
            self.hold(stage.threads() == variant.threads(), "stages with another number of threads than it has")?;
        }
        Ok(())
    }

    /// The loops of an iteration are rows of one length, with a layout that covers it.
    fn row(&self, l: &Loop, row: &Row) -> Result {
        let mut loops = l.body.iter().filter_map(as_loop);
        let same =
            loops.all(|inner| matches!(inner.dims.as_slice(), [(_, extent)] if extent.as_size() == Some(&row.length)));
        self.hold(same, "has rows of another length than their layout")?;
        let threads =
            row.levels.iter().all(|level| !matches!(level.scope, Scope::Vector | Scope::Memory | Scope::Grid));
        let most = |level: &Level| level.most().is_some_and(|n| n > 0 && n.count_ones() == 1);
        let one = row.levels.iter().filter(|level| matches!(level.count, Count::UpTo(_))).count() <= 1;
        self.hold(threads && one && row.levels.iter().all(most), "has rows on units that hold no rows")?;
        let scratch = |id: &BufferId| self.program.buffers.get(*id).is_some_and(|b| b.role == Role::Scratch);
        self.hold(row.registers.iter().all(scratch), "keeps arrays in registers that outlive the rows")?;
        let Some(beyond) = row.beyond() else { return Ok(()) };
        let exactly = |level: &Level| matches!(level.count, Count::Exactly(n) if n > 0);
        let all = matches!(beyond.levels.split_last(), Some((last, before))
            if last.count == Count::Any && last.scope == Scope::Memory && before.iter().all(exactly));
        self.hold(all, "has elements beyond the registers that no unit takes")
    }

    /// Axes cover every index of a loop once, and their digits are in order.
    fn layout(&self, l: &Loop, axes: &[Axis]) -> Result {
        let mut covered: Vec<IndexId> = vec![];
        for Axis { indices, levels } in axes {
            let dims: Vec<_> = l.dims.iter().map(|(index, _)| *index).collect();
            let adjacent = !indices.is_empty() && dims.windows(indices.len()).any(|w| w == indices);
            self.hold(adjacent, "has an axis of indices that are apart")?;
            covered.extend(indices);
            let Some((last, before)) = levels.split_last() else { return self.fail("has an axis without levels") };
            let exactly = |level: &Level| matches!(level.count, Count::Exactly(n) if n > 0);
            let counted = before.iter().all(|level| exactly(level) && level.scope != Scope::Grid);
            self.hold(counted && last.count == Count::Any, "has a level without a number below another")?;
            let lanes = levels.iter().skip(1).all(|level| level.scope != Scope::Vector);
            let all = matches!(last.scope, Scope::Grid | Scope::Memory);
            self.hold(lanes && all, "has levels in an order that no unit has")?;
        }
        covered.sort();
        let mut all: Vec<_> = l.dims.iter().map(|(index, _)| *index).collect();
        all.sort();
        self.hold(covered == all, "has iterations that run twice or never")
    }

    fn tiles(&self, tiles: &Tiles) -> Result {
        let mut loops = vec![];
        for statement in &self.part.kernel.body {
            match statement {
                Statement::Loop(l) if l.kind == LoopKind::Parallel && l.dims.len() == 1 => loops.push(l),
                other => self.hold(is_scalar(other), "has other statements than scalars and parallel loops")?,
            }
        }
        self.hold(loops.len() == tiles.rows + tiles.sums.len(), "has another number of loops than its tiles")?;
        for (l, sums) in loops.into_iter().skip(tiles.rows).zip(&tiles.sums) {
            let [Statement::Loop(reduce)] = l.body.as_slice() else {
                return self.fail("has more than sums of columns");
            };
            self.hold(reduce.dims.len() == 1, "has rows of several indices")?;
            self.results_of(reduce, sums)?;
        }
        Ok(())
    }
}

fn as_loop(statement: &Statement) -> Option<&Loop> {
    if let Statement::Loop(l) = statement { Some(l) } else { None }
}
