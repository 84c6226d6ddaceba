//! The arguments of a kernel as one writes it.

use cranelift_codegen::entity::EntityRef;
use ir::Size;
use ir::nest::{BufferId, Program};

use crate::ptx;

/// A kernel argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Argument {
    /// The first element of a buffer. Of scratch, there is a copy for each block or thread.
    Buffer(BufferId),
    /// The distance in bytes between the copies of a scratch buffer.
    Stride(BufferId),
    /// A size.
    Size(Size),
    /// The record of a failed check.
    Fault,
}

impl Argument {
    /// The name that one would give it.
    pub(super) fn name(&self, program: &Program) -> String {
        match self {
            Argument::Buffer(id) => program.buffers[*id].name.clone(),
            Argument::Stride(id) => format!("{}_bytes", program.buffers[*id].name),
            Argument::Size(size) => {
                size.as_symbol().map_or_else(|| "size".to_owned(), |s| program.symbols[s].name.clone())
            }
            Argument::Fault => "failed".to_owned(),
        }
    }

    /// Where it stands among the parameters: arrays in their order in the program, then sizes.
    pub(super) fn order(&self) -> (usize, usize) {
        match self {
            Argument::Buffer(id) => (0, id.index()),
            Argument::Stride(id) => (1, id.index()),
            Argument::Size(size) => (2, size.as_symbol().map_or(usize::MAX, EntityRef::index)),
            Argument::Fault => (3, 0),
        }
    }
}

impl From<Argument> for ptx::Argument {
    fn from(argument: Argument) -> ptx::Argument {
        match argument {
            Argument::Buffer(id) => ptx::Argument::Buffer(id),
            Argument::Stride(id) => ptx::Argument::Stride(id),
            Argument::Size(size) => ptx::Argument::Size(size),
            Argument::Fault => ptx::Argument::Fault,
        }
    }
}
