//! What a statement does besides computing values. Every question of legality is asked here, and the matches have no wildcard: who adds a
//! statement or an operation says what it does before anything compiles.

use crate::Size;
use crate::nest::{BufferId, Op, Statement, Subscript};

/// An element that a statement loads or stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access<'s> {
    /// The array.
    pub buffer: BufferId,
    /// The shape that the subscripts see, if it is not the array's own.
    pub view: Option<&'s [Size]>,
    /// Which element.
    pub at: &'s [Subscript],
}

/// What a statement does itself; the statements of the blocks inside do the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects<'s> {
    /// What it loads.
    pub load: Option<Access<'s>>,
    /// What it stores.
    pub store: Option<Access<'s>>,
    /// Whether it may end the run.
    pub may_fault: bool,
}

impl Op {
    /// What the operation does.
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
            | Op::Prefix(..) => Effects::default(),
        }
    }
}

impl Statement {
    /// What the statement does itself.
    pub fn effects(&self) -> Effects<'_> {
        match self {
            Statement::Let { value: _, op } => op.effects(),
            Statement::Store { buffer, at, value: _ } => {
                Effects { store: Some(Access { buffer: *buffer, view: None, at }), ..Effects::default() }
            }
            Statement::If { .. } | Statement::Loop(_) | Statement::Contract(_) => Effects::default(),
        }
    }

    /// Whether the statement, or one inside it, may end the run.
    pub fn may_fault(&self) -> bool {
        self.effects().may_fault || self.blocks().flatten().any(Statement::may_fault)
    }
}
