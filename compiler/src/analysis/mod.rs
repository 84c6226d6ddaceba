//! What can be told of a kernel by looking at it. Everything here is a function of a program and a kernel, computed when
//! it is wanted and kept nowhere: nothing goes stale while kernels are rewritten.
//!
//! ```text
//! accesses    each load and store with the loops around it
//! footprint   how much of each buffer must cross from memory, and what caches spare
//! work        what the scalar code costs: operations, code size, values alive at once
//! cost        the cost model: a machine's constants, and prices in time
//! ```

pub mod accesses;
pub mod cost;
pub mod footprint;
pub mod work;

#[cfg(test)]
mod tests;
