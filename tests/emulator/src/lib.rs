//! Runs the text of PTX kernels on the processor, so that what is emitted for a GPU is tested without one, and finds
//! what a GPU hides: accesses outside of arrays, reads of memory that nobody wrote, races.
//!
//! It is an independent reading of NVIDIA's PTX ISA and shares nothing with the emitter. What a kernel computes here
//! are the bits that a GPU computes, but for the `.approx` functions, which are only near. Whatever the ISA leaves
//! undefined is a `Fault` that names the line and the thread; whatever is not in the subset is a `ParseError`.
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
//! `parse` reads the text, with `decode` for instructions; `op` is what they become. `lanes` computes on rows of 32
//! lanes without state. `launch` lets clusters of blocks take turns, `warp` groups threads by where they are, `exec` executes one
//! instruction for one group. `region` is memory, `shadow` who accessed it, `order` what happened before what.

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
mod types;
mod warp;
mod window;

pub use fault::{Fault, Problem, Thread};
pub use launch::{Launch, Stats};
pub use memory::Memory;
pub use parse::{Module, ParseError};
pub use types::Space;
