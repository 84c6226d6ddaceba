//! Runs the text of PTX kernels on the processor, so that what is emitted for a GPU is tested without one, and finds
//! what a GPU hides: accesses outside of arrays, reads of memory that nobody wrote, races.
//!
//! It is an independent reading of NVIDIA's PTX ISA and shares nothing with the emitter. What a kernel computes here
//! are the bits that a GPU computes, but for the `.approx` functions, which are only near. Whatever the ISA leaves
//! undefined is a `Fault` that names the line and the thread; whatever is not in the subset is a `ParseError`.
//!
//! `parse` reads the text, with `decode` for instructions; `op` is what they become. `lanes` computes on rows of 32
//! lanes without state. `launch` lets blocks take turns, `warp` groups threads by where they are, `exec` executes one
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
