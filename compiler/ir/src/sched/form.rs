//! How parallel and reducing loops run on a core: which of them in vectors, and why not the others.
//! Each outermost one of a part has a form, which says how the loops inside run. In text:
//!
//! ```text
//! loop j: vectors
//! loop i: single (in_order) { loop k: vectors }
//! loop j: split v7 { vectors } else { single (branch) }
//! ```

use super::partition::{Split, given};
use super::{Part, Run, extreme, in_lanes};
use crate::leaf::{Leaf, Obstacle, Site};
use crate::nest::{Block, IndexId, Loop, LoopKind, Statement, ValueId};
use crate::visit;

/// The nesting limit of splits, and the limit of statements in all copies of a body: each split
/// makes code for the body twice.
const MOST_SPLITS: u32 = 5;
/// See [`MOST_SPLITS`].
const MOST_STATEMENTS: usize = 2048;

/// How the iterations of a loop run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// In vectors, as a [leaf](crate::leaf). (One after another if the target has no instructions
    /// for most of its operations.)
    Vectors,
    /// One after another.
    Single {
        /// Why not in vectors.
        obstacle: Obstacle,
        /// The parallel and reducing loops inside.
        inside: Vec<LoopForm>,
    },
    /// In two ranges: the iterations for which a `bool` holds, and the others. If it is the same
    /// for all, they run in one of the two ways.
    Split {
        /// The `bool`.
        at: ValueId,
        /// How the iterations run for which it holds.
        holds: Box<Form>,
        /// How the others run.
        fails: Box<Form>,
    },
}

/// A loop, by its last index, and how it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopForm {
    /// The last index of the loop.
    pub index: IndexId,
    /// How its iterations run.
    pub form: Form,
}

/// Chooses the forms of loops.
pub struct Forms<'a> {
    /// Where the loops stand.
    pub site: Site<'a>,
    /// Whether loops may run in vectors or be split, asked for each.
    pub grants: &'a mut dyn FnMut() -> bool,
}

impl Forms<'_> {
    /// The forms of the loops of a part.
    pub fn of_part(&mut self, part: &Part) -> Vec<LoopForm> {
        let loops = outermost(&part.kernel.body);
        loops.into_iter().map(|l| self.with_index(l, |forms| forms.of_root(l, &part.run))).collect()
    }

    /// The form of a parallel loop with this last index and body.
    pub fn of(&mut self, index: IndexId, body: &Block) -> Form {
        self.parallel(index, body, 0)
    }

    /// The form of a parallel or reducing loop.
    pub fn of_loop(&mut self, l: &Loop) -> Form {
        self.form(l, 0)
    }

    /// The form of a loop that stands in no other one.
    fn of_root(&mut self, l: &Loop, run: &Run) -> Form {
        match run {
            // The elements of a chunk are independent of each other until they are reduced.
            Run::Chunks { .. } => self.parallel(last_index(l), &l.body, 0),
            Run::Whole
            | Run::Ranges
            | Run::Transpose(_)
            | Run::Strips { .. }
            | Run::Blocks { .. }
            | Run::HandOff(_)
            | Run::Relay(_)
            | Run::Tiles(_)
            | Run::Sweeps => self.form(l, 0),
        }
    }

    fn with_index(&mut self, l: &Loop, form: impl FnOnce(&mut Self) -> Form) -> LoopForm {
        LoopForm { index: last_index(l), form: form(self) }
    }

    fn block(&mut self, block: &[Statement], splits: u32) -> Vec<LoopForm> {
        outermost(block).into_iter().map(|l| self.with_index(l, |forms| forms.form(l, splits))).collect()
    }

    fn form(&mut self, l: &Loop, splits: u32) -> Form {
        if l.kind == LoopKind::Parallel {
            return self.parallel(last_index(l), &l.body, splits);
        }
        match reduces(self.site, l) {
            Ok(()) if (self.grants)() => Form::Vectors,
            Ok(()) => self.single(Obstacle::Chosen, &l.body, splits),
            Err(obstacle) => self.single(obstacle, &l.body, splits),
        }
    }

    fn single(&mut self, obstacle: Obstacle, body: &Block, splits: u32) -> Form {
        Form::Single { obstacle, inside: self.block(body, splits) }
    }

    fn parallel(&mut self, index: IndexId, body: &Block, splits: u32) -> Form {
        let obstacle = match Leaf::build(self.site, index, body, &[]) {
            Ok(_) if (self.grants)() => return Form::Vectors,
            Ok(_) => Obstacle::Chosen,
            Err(obstacle) => obstacle,
        };
        let mut statements = 0;
        visit::for_each_statement(body, &mut |_| statements += 1);
        let small = splits < MOST_SPLITS && statements << splits <= MOST_STATEMENTS;
        match Split::first(self.site, index, body).filter(|_| small && (self.grants)()) {
            Some(at) => {
                let mut side = |side| Box::new(self.parallel(index, &given(self.site, body, at, side), splits + 1));
                Form::Split { at, holds: side(true), fails: side(false) }
            }
            None => self.single(obstacle, body, splits),
        }
    }
}

/// Whether a reducing loop runs in vectors: each reduction is by a primitive or finds an extreme,
/// in an order that several elements share.
fn reduces(site: Site<'_>, l: &Loop) -> Result<(), Obstacle> {
    if l.dims.iter().any(|(index, _)| site.joins.contains(index)) {
        return Err(Obstacle::Results);
    }
    let mut inputs = vec![];
    for reduction in l.kind.reductions() {
        if let Some((_, input)) = extreme(site.program, site.dtype, reduction) {
            inputs.push(input);
            continue;
        }
        let single = reduction.single().ok_or(Obstacle::State)?;
        if !in_lanes((site.dtype)(single.input), reduction.order) {
            return Err(Obstacle::InOrder);
        }
        inputs.push(single.input);
    }
    Leaf::build(site, last_index(l), &l.body, &inputs).map(|_| ())
}

/// Whether the forms of a part are those of its loops, and such that they may have them.
pub(super) fn are_legal(part: &Part, site: Site<'_>) -> bool {
    let chunks = matches!(part.run, Run::Chunks { .. });
    legal(&part.forms, site, &part.kernel.body, chunks)
}

/// Whether these are legal forms of the loops of a block. In `chunks`, elements are computed before
/// they are reduced, so the loops count as parallel.
fn legal(forms: &[LoopForm], site: Site<'_>, block: &[Statement], chunks: bool) -> bool {
    let loops = outermost(block);
    let fits = |(LoopForm { index, form }, l): (&LoopForm, &&Loop)| {
        let parallel = chunks || l.kind == LoopKind::Parallel;
        *index == last_index(l) && form.is_legal(site, l, &l.body, parallel)
    };
    forms.len() == loops.len() && forms.iter().zip(&loops).all(fits)
}

impl Form {
    /// Whether a loop may run in this form, with this body.
    fn is_legal(&self, site: Site<'_>, l: &Loop, body: &Block, parallel: bool) -> bool {
        let index = last_index(l);
        match self {
            Form::Vectors if parallel => Leaf::build(site, index, body, &[]).is_ok(),
            Form::Vectors => reduces(site, l).is_ok(),
            Form::Single { inside, .. } => legal(inside, site, body, false),
            Form::Split { at, holds, fails } => {
                let side = |form: &Form, side| form.is_legal(site, l, &given(site, body, *at, side), parallel);
                parallel && Split::of(site, index, body, *at).is_some() && side(holds, true) && side(fails, false)
            }
        }
    }
}

/// The parallel and reducing loops of a block that stand in no other one of these, in order.
fn outermost(block: &[Statement]) -> Vec<&Loop> {
    let mut found = vec![];
    for statement in block {
        match statement {
            Statement::Loop(l) if matches!(l.kind, LoopKind::Parallel | LoopKind::Reduce(_)) && !l.dims.is_empty() => {
                found.push(l);
            }
            Statement::Loop(_) | Statement::If { .. } | Statement::While(_) => {
                statement.blocks().for_each(|inner| found.extend(outermost(inner)));
            }
            Statement::Let { .. } | Statement::Store { .. } | Statement::Scatter { .. } | Statement::Contract(_) => {}
        }
    }
    found
}

fn last_index(l: &Loop) -> IndexId {
    l.dims[l.dims.len() - 1].0
}
