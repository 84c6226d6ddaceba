//! The rules that a scheduled program obeys, checked after each pass in tests and debug builds, and
//! before code is generated. The program with the parts as its kernels obeys those of
//! [`crate::verify`], and each part runs in a way that its statements and its target permit.

use super::{Columns, Machine, Part, Phase, Run, Scans, Scheduled, Tiles, Transpose, is_scalar, prefixes_in_chunks};
use crate::nest::{BufferId, Loop, LoopKind, Op, Program, Reduction, Role, Statement};
use crate::verify::VerifyError;
use crate::{Dtype, Size, visit};

type Result<T = ()> = std::result::Result<T, VerifyError>;

/// Checks every rule, up to the first that is violated.
pub fn verify(scheduled: &Scheduled) -> Result {
    crate::verify::verify(&scheduled.as_program())?;
    let mut last = None;
    for part in &scheduled.parts {
        let checker = Checker { program: &scheduled.program, part };
        if last > Some(part.of) {
            return checker.fail("stands behind a part of a later kernel");
        }
        last = Some(part.of);
        checker.fits(&scheduled.machine)?;
        checker.run()?;
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
            Run::Phase { .. } => machine.scans == Scans::Phases,
        };
        self.hold(fits, &format!("runs in a way that {} has not", machine.name))
    }

    fn run(&self) -> Result {
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
                let inner = self.parallel()?.body.iter().find_map(as_loop);
                self.results_of(inner.map_or_else(|| self.fail("has no reduction down the rows"), Ok)?, results)
            }
            Run::HandOff(hand_off) => {
                let prefixes = prefixes_in_chunks(self.scan()?);
                self.hold(prefixes == Some(hand_off.prefixes), "hands on another number of prefixes than it has")?;
                self.temporary(hand_off.buffer, Dtype::U64)
            }
            Run::Phase { phase: Phase::Totals | Phase::Befores | Phase::Prefixes, results } => {
                let prefix = |s: &&Statement| matches!(s, Statement::Let { op: Op::Prefix(_), .. });
                let count = self.scan()?.body.iter().filter(prefix).count();
                self.hold(count == results.len(), "has another number of results than of prefixes")?;
                results.iter().try_for_each(|buffer| self.temporary(*buffer, Dtype::U64))
            }
            Run::Tiles(tiles) => self.tiles(tiles),
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
