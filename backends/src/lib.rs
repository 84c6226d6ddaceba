//! Fuseloop's code generators and their run time: verified loop nests in, running machine code out.
//!
//! `cpu` and `ptx` generate code for the parts that the passes of `schedule` split kernels into;
//! `cuda` runs the code that `ptx` generates, and `cuda_c` writes the same for people. The engines
//! share the other modules: `slots` assigns memory to temporaries,
//! `pages` allocates zeroed memory, and `call` checks the arrays of a call.
//!
//! | feature | adds |
//! |---|---|
//! | `gpu` | `ptx`, `cuda_c` and `cuda`: code for CUDA devices, and their driver |
//! | `objects` | `cpu::object`: object files for C |

pub mod abi;
#[cfg(any(feature = "gpu", feature = "objects"))]
mod c_words;
#[cfg(any(feature = "gpu", not(target_family = "wasm")))]
mod call;
#[cfg(not(target_family = "wasm"))]
pub mod cpu;
#[cfg(target_family = "wasm")]
#[path = "cpu/left_out.rs"]
pub mod cpu;
#[cfg(feature = "gpu")]
pub mod cuda;
#[cfg(feature = "gpu")]
pub mod cuda_c;
mod error;
pub mod float_mode;
mod pages;
#[cfg(feature = "gpu")]
pub mod ptx;
mod settings;
#[cfg(any(feature = "gpu", not(target_family = "wasm")))]
mod slots;

pub use pages::zeroed_words;
pub use settings::{Math, Phases};
