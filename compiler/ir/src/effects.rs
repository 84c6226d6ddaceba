//! The effects of statements: loads, stores, faults. The matches have no wildcard, so a new
//! statement does not compile until its effects are stated here. Whoever asks whether code may
//! move, go or run at once asks here.

use crate::Size;
use crate::nest::{BufferId, Op, Statement, Subscript};

/// An element that a statement loads or stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access<'s> {
    /// The array.
    pub buffer: BufferId,
    /// The shape that the subscripts refer to, if it is not the array's own.
    pub view: Option<&'s [Size]>,
    /// Which element.
    pub at: &'s [Subscript],
}

/// The effects of a statement itself, without those of the statements in its blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects<'s> {
    /// The element that it loads.
    pub load: Option<Access<'s>>,
    /// The element that it stores, or merges a value into. (Loading that is no effect of its own:
    /// only other stores to the table are ordered with respect to it.)
    pub store: Option<Access<'s>>,
    /// Whether it may end the run.
    pub may_fault: bool,
}

impl<'s> Effects<'s> {
    /// The elements that it loads and stores.
    pub fn accesses(&self) -> impl Iterator<Item = Access<'s>> + use<'s> {
        self.load.into_iter().chain(self.store)
    }
}

impl Op {
    /// The effects of the operation.
    pub fn effects(&self) -> Effects<'_> {
        match self {
            Op::Load { buffer, view, at } => {
                Effects { load: Some(Access { buffer: *buffer, view: view.as_deref(), at }), ..Effects::default() }
            }
            Op::Check { .. } => Effects { may_fault: true, ..Effects::default() },
            Op::Constant(_)
            | Op::Affine(_)
            | Op::Unary(..)
            | Op::Binary(..)
            | Op::Compare(..)
            | Op::Fma(..)
            | Op::Select(..)
            | Op::Cast(..)
            | Op::Bitcast(..)
            | Op::Call(..)
            | Op::Prefix(..)
            | Op::Place(_) => Effects::default(),
        }
    }
}

impl Statement {
    /// The effects of the statement itself, without those of the statements in its blocks.
    pub fn effects(&self) -> Effects<'_> {
        match self {
            Statement::Let { value: _, op } => op.effects(),
            Statement::Store { buffer, at, value: _ } | Statement::Scatter { buffer, at, value: _, monoid: _ } => {
                Effects { store: Some(Access { buffer: *buffer, view: None, at }), ..Effects::default() }
            }
            Statement::If { .. } | Statement::Loop(_) | Statement::While(_) | Statement::Contract(_) => {
                Effects::default()
            }
        }
    }

    /// The buffers that the statement itself loads from and stores to, to change.
    pub fn for_each_buffer_mut(&mut self, mut visit: impl FnMut(&mut BufferId)) {
        match self {
            Statement::Let { op: Op::Load { buffer, .. }, .. }
            | Statement::Store { buffer, .. }
            | Statement::Scatter { buffer, .. } => visit(buffer),
            Statement::Let { .. }
            | Statement::If { .. }
            | Statement::Loop(_)
            | Statement::While(_)
            | Statement::Contract(_) => {}
        }
    }

    /// Whether the statement, or one inside it, may end the run.
    pub fn may_fault(&self) -> bool {
        self.effects().may_fault || self.blocks().flatten().any(Statement::may_fault)
    }
}
