//! How parallel loops run on a core: which of them in vectors, and why not the others.
//!
//! A part has a form for each of its innermost parallel loops, and for those around them that run in
//! vectors as a whole. In text:
//!
//! ```text
//! loop j: vectors
//! loop i: single (across) { loop k: vectors }        one iteration after another; those of k in vectors
//! loop i: split v7 { vectors } else { single (branch) }
//! ```

use super::partition::{Split, given};
use crate::leaf::{Leaf, Obstacle, Site};
use crate::nest::{Block, IndexId, LoopKind, Statement, ValueId};
use crate::visit;

/// The nesting limit of splits, and the limit of statements in all copies of a body: each split
/// makes code for the body twice.
const MOST_SPLITS: u32 = 5;
/// See [`MOST_SPLITS`].
const MOST_STATEMENTS: usize = 2048;

/// How the iterations of a parallel loop run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// In vectors, as a [leaf](crate::leaf). (One after another if the target has no instructions
    /// for most of its operations.)
    Vectors,
    /// One after another.
    Single {
        /// Why not in vectors.
        obstacle: Obstacle,
        /// The loops inside.
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

/// A parallel loop, by its last index, and how it runs.
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
    /// The forms of the parallel loops of a block.
    pub fn of_block(&mut self, block: &[Statement]) -> Vec<LoopForm> {
        self.block(block, 0)
    }

    /// The form of a parallel loop with this last index and body.
    pub fn of(&mut self, index: IndexId, body: &Block) -> Form {
        self.form(index, body, 0)
    }

    fn block(&mut self, block: &[Statement], splits: u32) -> Vec<LoopForm> {
        let form = |(index, body)| LoopForm { index, form: self.form(index, body, splits) };
        outermost(block).into_iter().map(form).collect()
    }

    fn form(&mut self, index: IndexId, body: &Block, splits: u32) -> Form {
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
                let mut side = |side| Box::new(self.form(index, &given(self.site, body, at, side), splits + 1));
                Form::Split { at, holds: side(true), fails: side(false) }
            }
            None => Form::Single { obstacle, inside: self.block(body, splits) },
        }
    }
}

impl Form {
    /// Whether a loop with this last index and body may run in this form.
    pub fn is_legal(&self, site: Site<'_>, index: IndexId, body: &Block) -> bool {
        match self {
            Form::Vectors => Leaf::build(site, index, body, &[]).is_ok(),
            Form::Single { inside, .. } => are_legal(inside, site, body),
            Form::Split { at, holds, fails } => {
                let side = |form: &Form, side| form.is_legal(site, index, &given(site, body, *at, side));
                Split::of(site, index, body, *at).is_some() && side(holds, true) && side(fails, false)
            }
        }
    }
}

/// Whether these are the parallel loops of a block, in forms that they may have.
pub fn are_legal(forms: &[LoopForm], site: Site<'_>, block: &[Statement]) -> bool {
    let loops = outermost(block);
    let fits = |(form, (index, body)): (&LoopForm, &(IndexId, &Block))| {
        form.index == *index && form.form.is_legal(site, *index, body)
    };
    forms.len() == loops.len() && forms.iter().zip(&loops).all(fits)
}

/// The parallel loops of a block that stand in no other one, in order: the last index of each, and
/// its body.
fn outermost(block: &[Statement]) -> Vec<(IndexId, &Block)> {
    let mut found = vec![];
    for statement in block {
        match statement {
            Statement::Loop(l) if l.kind == LoopKind::Parallel && !l.dims.is_empty() => {
                found.push((l.dims[l.dims.len() - 1].0, &l.body));
            }
            Statement::Loop(_) | Statement::If { .. } | Statement::While(_) => {
                statement.blocks().for_each(|inner| found.extend(outermost(inner)));
            }
            Statement::Let { .. } | Statement::Store { .. } | Statement::Scatter { .. } | Statement::Contract(_) => {}
        }
    }
    found
}
