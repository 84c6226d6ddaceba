//! CUDA devices: verified programs as PTX, one kernel a launch, for any sizes.
//!
//! `compile` gives each part of a kernel a function: `emit` holds what its code stands on, `scalar` the operations, `loops`, `reduce` (with
//! `fold`) and `scan` the loops, spread over the threads of a block or run by one. `rows` keeps rows in registers, as `shares` says (what is too long for these on a `shelf`), with `crews` and
//! `prefixes` for what its threads do together; `stencil` keeps what rows side by side share, `vectors` gives a thread several neighbours,
//! which `quick` divides without branches.
//! `columns` reduces along columns, `turn` transposes in tiles, `contract` multiplies matrices in tiles of its factors (`factor`),
//! with tensor units where there are some for these (`mma`), and ends in `finish`;
//! `walk` takes what one thread runs several iterations at a time; `chunks` scans what is too long for a block. `build` makes instructions (`inst`), `print` their text. `plan` says what a call does and `run` has a [`Device`] do it: this module knows no driver.

mod build;
mod chunks;
mod columns;
mod compile;
mod contract;
mod crews;
mod emit;
mod factor;
mod finish;
mod fold;
mod inst;
mod loops;
mod mma;
mod plan;
mod prefixes;
mod print;
mod quick;
mod reduce;
mod rows;
mod run;
mod scalar;
mod scan;
mod shares;
mod shelf;
mod stencil;
mod turn;
mod vectors;
mod walk;

/// A device and all later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// All that kernels are made for.
    Sm80,
    /// Those with clusters of blocks.
    Sm90,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Target::Sm80 => "sm_80",
            Target::Sm90 => "sm_90",
        })
    }
}

/// What a function may give up for speed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Math {
    /// Nothing.
    #[default]
    Exact,
    /// Factors of contractions in `f32` are rounded to eleven bits, as tensor units take them.
    Fast,
}

pub use compile::Module;
pub use plan::{Plan, Planned, Word};
pub use run::{Device, Facts, Launch, Phases, RunError, Runner};
pub(crate) use run::{Resident, ResidentCall};
