//! Static analyses of kernels. Everything here is a function of a program and a kernel, computed on
//! demand and never stored, so that nothing becomes stale while kernels are rewritten. Analyses
//! that compute with scalars are given the [`ir::Arithmetic`] to do so.
//!
//! ```text
//! accesses    each load and store with the loops around it
//! traffic     the numbers of loads, stores and operations, as polynomials
//! operations  the number of operations
//! predict     the same in numbers, for the sizes of a call
//! known       knowledge about values without data: numbers, ranges
//! footprint   how much of each buffer must cross from memory, and what caches spare
//! work        the cost of scalar code: operations, code size, live values
//! cost        the cost model: a machine's constants, and prices in time
//! idle        the loss of kernels with too few iterations for all cores
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
