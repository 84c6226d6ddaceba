//! The vocabulary that every part of Fuseloop speaks: element types, scalar operations, symbolic
//! sizes, the checked program (what the language means), loop nests (what the engines run) and
//! host arrays. It knows nothing of source syntax, fusion or any engine.

#![forbid(unsafe_code)]

// The modules that look at statements match them without wildcards: a new statement, operation or
// kind of loop does not compile until each has said what it does about it. A recogniser, for which
// everything else is a no, asks by `if let`.

pub mod affine;
pub mod array;
pub mod bind;
pub mod build;
pub mod checked;
pub mod choice;
#[warn(clippy::wildcard_enum_match_arm)]
pub mod cost;
pub mod decision;
#[warn(clippy::wildcard_enum_match_arm)]
pub mod effects;
pub mod groups;
#[warn(clippy::wildcard_enum_match_arm)]
pub mod leaf;
pub mod linear;
#[warn(clippy::wildcard_enum_match_arm)]
pub mod live;
pub mod merging;
#[warn(clippy::wildcard_enum_match_arm)]
pub mod nest;
pub mod ops;
pub mod order;
pub mod parse;
pub mod print;
#[warn(clippy::wildcard_enum_match_arm)]
pub mod rewrite;
pub mod sabotage;
pub mod scalar;
pub mod sched;
pub mod size;
#[warn(clippy::wildcard_enum_match_arm)]
pub mod verify;
#[warn(clippy::wildcard_enum_match_arm)]
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
