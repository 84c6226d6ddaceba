//! The CUDA C target: kernels that people can read, with the same launches and the same bits as
//! those of [`crate::ptx`]. Indices and arrays are named as in the source. A value that is used
//! once is written where it is used.
//!
//! | file | holds |
//! |---|---|
//! | `module` | kernels with their launches; the whole text |
//! | `kernel` | statements, values, subscripts and arguments of a kernel |
//! | `layout` | loops that the schedule has laid out: in threads, in vectors, in tiles |
//! | `scalar` | operations as expressions |
//! | `helpers` | functions that kernels call, for operations that C does not define for all operands |
//! | `names` | identifiers |

mod helpers;
mod kernel;
mod layout;
mod module;
mod names;
mod scalar;

pub use module::{Error, Module};
