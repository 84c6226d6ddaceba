//! `WideX86`: leaves with AVX-512 or AVX2 vectors. Cranelift's vectors end at 128 bits, so a leaf
//! becomes a function of its own in machine code, which the kernel calls with its arguments in
//! memory slots.
//!
//! From the top down, with imports only of files below:
//!
//! | files | hold |
//! |---|---|
//! | `elementwise`, `reduce`, `scan`, `steps` | leaves that store, reduce, scan and repeat steps |
//! | `function`, `prefetch` | loops over groups of elements, prefetches, and calls with arguments |
//! | `emitter`, `convert`, `divide`, `loads` | operations over virtual registers for a leaf |
//! | `lanes`, `avx2`, `avx512`, `neighbours` | instructions for operations |
//! | `allocate`, `check` | register allocation, and in tests a check of it |
//! | `constants`, `liveness`, `assemble` | pinned numbers, live ranges, and encoding |
//! | `op`, `inst`, `arguments`, `table` | operations, instructions, and the slots of a function |
//! | `support`, `kernel` | whether a leaf is supported, and what leaves need of their kernel |
//!
//! A leaf with an operation that is not supported here uses Cranelift's vectors. The results are
//! the same bits.

mod allocate;
mod arguments;
mod assemble;
mod avx2;
mod avx512;
mod check;
#[cfg(test)]
mod check_tests;
mod constants;
mod convert;
mod divide;
pub(super) mod elementwise;
mod emitter;
pub(super) mod function;
mod inst;
pub(super) mod kernel;
mod lanes;
mod liveness;
mod loads;
mod neighbours;
mod op;
mod prefetch;
#[cfg(feature = "objects")]
pub(super) mod product;
pub(super) mod reduce;
pub(super) mod scan;
pub(super) mod steps;
pub(super) mod support;
mod table;
