//! The vocabulary that every part of Fuseloop speaks: element types, scalar operations, symbolic
//! sizes, the checked program (what the language means), loop nests (what the engines run) and
//! host arrays. It knows nothing of source syntax, fusion or any engine.

#![forbid(unsafe_code)]

pub mod affine;
pub mod array;
pub mod bind;
pub mod build;
pub mod checked;
pub mod choice;
pub mod cost;
pub mod decision;
pub mod effects;
pub mod groups;
pub mod linear;
pub mod live;
pub mod nest;
pub mod ops;
pub mod order;
pub mod parse;
pub mod print;
pub mod rewrite;
pub mod sabotage;
pub mod scalar;
pub mod size;
pub mod verify;
pub mod visit;

pub use affine::Affine;
pub use array::Array;
pub use bind::Binding;
pub use decision::{Decision, FusionPass, Passes};
pub use ops::{Arithmetic, BinaryOp, CompareOp, Extreme, MathFn, Monoid, ReduceOp, UnaryOp};
pub use order::Order;
pub use scalar::{Dtype, Scalar};
pub use size::{Size, SymbolId};

/// A byte range of the source text that something came from; `start == end == 0` where nothing did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}
