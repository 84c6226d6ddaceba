//! The passes between planning and code generation. They turn a planned program into a scheduled
//! one (`ir::sched`), for a target that they know only by its table, without knowledge of
//! instructions.
//!
//! | pass | does |
//! |---|---|
//! | `masks` | takes the condition on terms of a contraction out of a factor |
//! | `rows` | runs loops around contractions in tiles of iterations, or apart |
//! | `prepare` | expands contractions that the target does not keep whole, unrolls small loops |
//! | `forward` | hands values past scratch that straight-line code no longer needs |
//! | `borders` | splits loops with branches at their borders into the interior and the borders |
//! | `across` | runs inner loops across the rows of the loop around them |
//! | `hoist` | hoists bounds checks of gathered indices out of loops |
//! | `carry` | keeps elements that serial loops store in values, for their next iterations |
//! | `jam` | runs several rows of a parallel loop together if each is a serial loop |
//! | `orders` | splits loops with reductions of several orders, where threads share them |
//! | `tile` | sums columns block by block, in one pass with loops over the same rows |
//! | `split` | splits kernels into parts that threads, or a grid, run in ranges |
//! | `keyed` | expands reductions by key into loops over chunks, as a part of `split` |
//! | `sort` | expands sorts into passes over the digits of keys, as a part of `split` |
//! | `scans` | cuts scans into chunks that pass their results on, as a part of `split` |
//! | `columns` | splits reductions down columns, and finds loops that run in strips of columns |
//! | `transpose` | finds loops that load across memory, such as a transposition |
//! | `strategies` | lays loops out on the units of a GPU |
//! | `descend` | lets parts begin at the end of arrays, which is still in the cache |
//! | `join` | lets the last block of a GPU join the results of chunks or blocks |
//! | `forms` | chooses which loops of a core run in vectors |
//! | `sweeps` | lets loops over rows of products run without memory for these |
//!
//! `pipeline` runs them in this order and verifies after each in debug builds. Each asks a
//! [`Choice`](ir::choice::Choice) before it rewrites something, so that tests can let a coin
//! decide, and find a wrong rewrite by bisection.

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]

pub mod across;
pub mod borders;
pub mod carry;
pub mod checks;
pub mod columns;
pub mod descend;
pub mod forms;
pub mod forward;
pub mod jam;
pub mod join;
pub mod keyed;
mod maker;
pub mod masks;
pub mod orders;
pub mod pipeline;
pub mod prepare;
pub mod rows;
mod scans;
pub mod sort;
pub mod split;
pub mod strategies;
pub mod sweeps;
pub mod tile;
pub mod transpose;

pub use ir::sched::Machine;
pub use pipeline::{ScheduleError, schedule, schedule_with};
