//! Fusion: merges kernels so that less data moves through memory. No merge changes a bit of any
//! result.
//!
//! A pass looks for candidates, asks `legality` whether a merge keeps the meaning and `profit`
//! whether it pays, lets a mechanism rewrite the kernels, and informs the [`Graph`], which records
//! which kernels load and store each buffer, which operations each kernel computes, and the
//! decision on each pair of operations.
//!
//! ```text
//! graph           the program between passes, its edges, and the record of decisions
//! memo            the merges that have been tried
//! kloop kinput siblings nest koutput     the passes, one file each
//! legality        the rules; those for kernels return the reason for a refusal
//! profit          the prices
//! inline          mechanism: substitutes the producer's body for the consumer's loads
//! fuse_kernels    mechanism: fuses the loops of two kernels
//! fuse_loops      fuses the loops of a block, at every depth
//! placed          fuses elementwise work on sorted elements into the sort
//! rows            fuses contractions with loops over their rows
//! keyed           fuses reductions by key, and puts elementwise work on their results behind them
//! outline         the accesses and operands of statements, for the rules of loops
//! split           splits a loop over merged axes into one over the axes
//! stretch         kernels with no beginning or end of a loop over kernels between them
//! substitution, pairs    the searches of passes: over producers, over pairs of kernels
//! search          the choice among plans: orders of passes, cuts of large programs
//! best            the partition of a small program that moves the fewest bytes
//! cut             cuts programs that are too large for one kernel
//! ```

mod best;
mod cut;
mod form;
mod fuse_kernels;
mod fuse_loops;
mod graph;
mod inline;
mod keyed;
pub mod kinput;
pub mod kloop;
pub mod koutput;
mod legality;
mod memo;
pub mod nest;
mod outline;
mod pairs;
mod placed;
mod profit;
mod rows;
mod search;
pub mod siblings;
mod split;
mod stretch;
mod substitution;

pub use best::{Best, MAX_OPERATIONS, best};
pub use graph::Graph;
pub use search::{Cost, cost, peak, search};
pub(crate) use stretch::Stretches;
