//! Runs the text of PTX kernels on the CPU, so that the code for GPUs can be tested without one,
//! and detects errors that a GPU hides: out-of-bounds accesses, reads of uninitialized memory,
//! races.
//!
//! It is an independent reading of NVIDIA's PTX ISA and shares nothing with the emitter. Its
//! results have the same bits as those of a GPU, except for the `.approx` functions, which only
//! come close. Behaviour that the ISA leaves undefined is a `Fault` that names the line and the
//! thread; text outside of the subset is a `ParseError`.
//!
//! ```
//! use emulator::{Launch, Memory, Module};
//!
//! let module = Module::parse(
//!     ".version 8.0
//!     .target sm_80
//!     .address_size 64
//!     .visible .entry number(.param .u64 out)
//!     {
//!         .reg .b32 %r;
//!         .reg .b64 %d<2>;
//!         ld.param.u64 %d0, [out];
//!         mov.u32 %r, %tid.x;
//!         mul.wide.u32 %d1, %r, 4;
//!         add.u64 %d0, %d0, %d1;
//!         st.global.u32 [%d0], %r;
//!         ret;
//!     }",
//! )?;
//! let mut memory = Memory::new();
//! let out = memory.allocate(8);
//! let launch = Launch { grid: [1; 3], block: [2, 1, 1], shared: 0, seed: 0 };
//! let stats = module.launch(&mut memory, "number", launch, &out.to_le_bytes())?;
//! assert_eq!(memory.read(out, 8), Ok(vec![0, 0, 0, 0, 1, 0, 0, 0]));
//! assert_eq!(stats.stored, 8);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `parse` reads the text, with `decode` for instructions, into the operations of `op`. `lanes`
//! computes on rows of 32 lanes without state. `launch` lets clusters of blocks take turns, `warp`
//! groups threads by their position, `exec` executes one instruction for one group. `region` is
//! memory, `tensor_map` describes it for copies of boxes, `shadow` records its last accesses, and `order` is the happens-before relation.

#![forbid(unsafe_code)]

mod decode;
mod exec;
mod fault;
mod lanes;
mod launch;
mod memory;
mod op;
mod order;
mod parse;
mod region;
mod shadow;
mod shape;
mod tensor_map;
mod types;
mod warp;
mod window;

pub use fault::{Fault, Problem, Thread};
pub use launch::{Launch, Stats};
pub use memory::Memory;
pub use parse::{Module, ParseError};
pub use tensor_map::TensorMap;
pub use types::Space;
