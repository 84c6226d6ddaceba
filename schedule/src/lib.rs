//! The passes between planning and code generation. They rewrite kernels for the engines and know nothing of instructions.
//!
//! | pass | does |
//! |---|---|
//! | `prepare` | expands products that no library takes, unrolls small loops |
//! | `forward` | hands values past scratch that straight-line code no longer needs |
//! | `checks` | hoists bounds checks of gathered indices out of loops |
//! | `tile` | sums columns block by block, in one pass with loops over the same rows |
//! | `split` | cuts a kernel into parts that threads, or a grid, run in ranges |
//! | `across` | finds loops that load across memory, such as a transposition |
//!
//! `nests` has small queries about statements and sizes that the engines use too.

#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]

pub mod across;
pub mod checks;
mod forward;
pub mod nests;
pub mod prepare;
pub mod split;
pub mod tile;
