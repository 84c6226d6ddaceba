//! Fuseloop compiles programs of a tiny array language to machine code, and runs them on arrays of
//! any size.
//!
//! A program is a text of functions over whole arrays, as in NumPy. Compiling one takes some
//! milliseconds and fuses its operations into as few loops as possible. The [`Kernel`] that comes
//! out is called with slices, vectors or [`Array`]s of any shape that the function takes:
//!
//! ```
//! use fuseloop::{Array, Options, Program};
//!
//! let program = Program::parse("
//!     fn softmax(x: f32[m]) -> f32[m] {
//!         let e = exp(x - max(x))
//!         e / sum(e)
//!     }
//!     fn scores(x: f32[n, k], w: f32[k, m], temperature: f32) -> f32[n, m] {
//!         let h = x @ w / temperature
//!         let y[i] = softmax(h[i])
//!         y
//!     }
//! ")?;
//! let scores = program.function("scores")?.compile(&Options::default())?;
//!
//! // One kernel serves every size. Arguments are borrowed, not copied.
//! let x = Array::from_slice(&[2, 3], &[1.0f32, 0.0, 0.0, 0.0, 1.0, 1.0])?;
//! let w = Array::from_slice(&[3, 2], &[2.0f32, 2.0, 1.0, 1.0, 3.0, 3.0])?;
//! let results = scores.call((&x, &w, 0.5f32))?;
//! assert_eq!(results[0].shape(), [2, 2]);
//! assert_eq!(results[0].as_slice::<f32>()?, [0.5; 4]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The language has a tutorial and a reference in the repository's `docs/`. Programs to start from
//! are in its `examples/rust/`, and run by `cargo run --example slices` (or `shapes`, `threads`,
//! `named`, `errors`, `gpu`, `ndarray`). The [`guide`] says which [threads](guide::threads) work on a
//! call, what is copied and allocated ([memory](guide::memory)), and which kinds of
//! [errors](guide::errors) there are.
//!
//! | module | purpose |
//! |---|---|
//! | [`Program`], [`Function`], [`Kernel`] | source text, one of its functions, that function compiled |
//! | [`Loader`], [`Folder`] | how a program finds the files that it uses |
//! | [`Errors`], [`Warnings`], [`CompileError`], [`RunError`], [`render`] | errors and warnings as data, and drawn |
//! | [`errors`] | every kind of error, with the page that explains it |
//! | [`Explanation`], [`Benchmark`] | what fusion made of a function, and why; what it gains |
//! | [`Object`], [`Target`] | functions compiled ahead of time, for callers in C |
//! | [`Array`], [`ArrayRef`], [`ArrayMut`] | arrays that own their elements, that borrow them, and that may overwrite borrowed ones |
//! | [`Inputs`], [`Outputs`], [`Element`] | the forms of arguments and of memory for results, and the Rust types of elements |
//! | [`guide`] | pages on threads, memory, errors, GPUs and measuring |
//! | [`Gpu`], [`DeviceArray`], [`Replay`] | a GPU, arrays in its memory, and calls on them that are replayed |
//! | [`DeviceInputs`], [`DeviceOutputs`] | the forms of arguments and results in a GPU's memory |
//! | [`Session`] | named functions and values, and text that is entered piece by piece, as at a prompt |
//! | [`format()`] | source text in the one style |
//! | [`json`] | reports for programs |
//! | [`files`], [`values`], [`print`](mod@print) | array files, arguments as text, arrays as text |
//!
//! All features but `ndarray` are on by default. A program that embeds the library for its CPU code
//! alone leaves them out with `default-features = false`. It then consists of 60 crates in place of
//! 104, and takes 28 % less processor time to build: 91 seconds against 126, without optimization.
//! Most of the rest goes to Cranelift and the compiler, which no program does without.
//!
//! | feature | adds |
//! |---|---|
//! | `files` | [`files`] and [`values`]: array files, arguments as text |
//! | `gpu` | [`Device::Gpu`], [`Gpu`] and PTX; [`Function::launches`] with `reports` |
//! | `interp` | [`Device::Interp`], and the reasons in the error of a broken `@kernels(n)` |
//! | `ndarray` | arrays and views of that crate as arguments and results |
//! | `objects` | [`Object`]: functions compiled ahead of time |
//! | `repl` | [`Session`], which loads files; includes `files` |
//! | `reports` | errors drawn over the source instead of a line each, [`Explanation`], [`Benchmark`], [`json`]; includes `interp` |
//!
//! [`Function::compile`] for a device that is left out is error E0262, and [`Device::Auto`] stands
//! for the CPU without `gpu`.

#![forbid(unsafe_code)]
#![warn(clippy::missing_errors_doc)]

#[cfg(feature = "reports")]
mod bench;
mod boundary;
pub mod editor;
mod error;
pub mod errors;
#[cfg(feature = "reports")]
mod explain;
#[cfg(feature = "files")]
pub mod files;
pub mod guide;
#[cfg(feature = "reports")]
pub mod json;
mod kernel;
#[cfg(all(feature = "gpu", feature = "reports"))]
mod launch;
mod limit;
mod link;
#[cfg(any(feature = "objects", all(feature = "gpu", feature = "reports")))]
mod lowered;
#[cfg(feature = "objects")]
mod object;
mod partition;
pub mod print;
mod program;
#[cfg(any(feature = "files", feature = "reports"))]
mod random;
pub mod reference;
pub mod render;
#[cfg(feature = "reports")]
mod roof;
#[cfg(feature = "repl")]
pub mod session;
#[cfg(feature = "files")]
pub mod values;
mod warnings;

pub use backends::cpu::Simd;
#[cfg(feature = "objects")]
pub use backends::cpu::object::{Target, TargetError};
#[cfg(feature = "gpu")]
pub use backends::cuda::{Ceilings, DeviceArray, Error as GpuError, Facts, Gpu, Replay};
pub use backends::{Math, Phases};
#[cfg(feature = "reports")]
pub use bench::BenchError;
pub use compiler::check::{Signature, Slot, names as builtins};
pub use error::{CompileError, NameFault, RunError, RunErrorKind, SizeName, SizeSide};
#[cfg(feature = "reports")]
pub use explain::{ExplainError, Explanation, Placed, Wait};
pub use grammar::{Code, Diagnostic, Edit, Highlight, Label, MAX_SOURCE, highlight};
pub use half::{bf16, f16};
pub use ir::array::{ArrayError, ArrayMut, ArrayRef, Element, Input, Inputs, Number, Output, Outputs, Room};
pub use ir::decision::{FusionPass, Passes};
pub use ir::nest::{Purpose, Relation};
pub use ir::{Array, Dtype, Scalar};
pub use kernel::{CallOptions, Cancel, Device, Kernel, Options, Times};
#[cfg(feature = "gpu")]
pub use kernel::{DeviceInput, DeviceInputs, DeviceOutputs};
#[cfg(all(feature = "gpu", feature = "reports"))]
pub use launch::LaunchError;
pub use link::{Folder, Loader, Located, MAX_USES, NotRead};
#[cfg(feature = "objects")]
pub use object::Object;
pub use partition::{
    AxisSummary, Block, Blocks, CutSummary, Derived, JoinSummary, Needed, NotCut, Outline, OutputOutline, Partition,
    Reduced, Stage, StageOutline, UnitOutline,
};
pub use program::{Emit, Errors, Function, Program, UnknownFunction, format};
pub use render::{Part, Report, Severity, Source, Style};
#[cfg(feature = "reports")]
pub use reports::bench::{Benchmark, Measured, Measurement};
#[cfg(feature = "reports")]
pub use reports::page::Shade;
#[cfg(feature = "reports")]
pub use reports::roof::Roof;
#[cfg(feature = "repl")]
pub use session::{Outcome, Session, SessionError};
pub use warnings::Warnings;

/// An array of zeros. Its memory is mapped only as it is written to, in large pages if it is large.
fn zeros(dtype: Dtype, shape: &[usize]) -> Result<Array, ArrayError> {
    Array::zeros_in(dtype, shape, backends::zeroed_words)
}

/// Runs the README's code as a test.
#[cfg(all(doctest, feature = "reports"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// Runs the code of the page on GPUs as a test.
#[cfg(all(doctest, feature = "gpu"))]
#[doc = include_str!("../docs/gpu.md")]
struct Gpus;
