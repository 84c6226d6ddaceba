//! What can be told of a kernel by looking at it. Everything here is a function of a program and a kernel, computed when
//! it is wanted and kept nowhere: nothing goes stale while kernels are rewritten. What computes with scalars
//! is given the [`ir::Arithmetic`] to do it with.
//!
//! ```text
//! accesses    each load and store with the loops around it
//! traffic     the numbers of loads, stores and operations, as polynomials
//! operations  the number of operations
//! predict     the same in numbers, for the sizes of a call
//! known       values as far as they are known without data: numbers, ranges
//! footprint   how much of each buffer must cross from memory, and what caches spare
//! work        what the scalar code costs: operations, code size, values alive at once
//! cost        the cost model: a machine's constants, and prices in time
//! idle        what kernels lose that have too few iterations for all cores
//! ```

pub mod accesses;
pub mod cost;
pub mod footprint;
mod idle;
mod known;
mod operations;
pub mod predict;
pub mod traffic;
pub mod work;
