//! The CUDA C target: kernels that people can read, with the same bits as those of [`crate::ptx`].
//! Indices and arrays are named as in the source. A value that is used once is written where it is
//! used.
//!
//! | file | holds |
//! |---|---|
//! | `module` | kernels with their launches; the whole text |
//! | `kernel` | statements, values and arguments of a kernel |
//! | `subscript` | sizes, subscripts and elements as expressions |
//! | `layout` | loops that the schedule has laid out: in threads, in vectors, in tiles |
//! | `reduce` | reductions by the threads of a block, or by one thread |
//! | `relay` | long scans, in chunks with a block that relays what is before each |
//! | `scalar` | operations as expressions |
//! | `helpers` | functions that kernels call, where C leaves an operation undefined |
//! | `names` | identifiers |

mod argument;
mod helpers;
mod kernel;
mod layout;
mod module;
mod names;
mod reduce;
mod relay;
mod scalar;
mod subscript;

pub use module::{Error, Module};
