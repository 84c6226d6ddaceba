//! Fuseloop compiles programs of a tiny array language to machine code, and runs them on arrays of
//! any size.
//!
//! ```
//! use fuseloop::{Array, Dtype, Options, Program, Scalar};
//!
//! let program = Program::parse("fn relu_axpb(x: f32[n], b: f32[n]) = relu(x * 2 + b)")?;
//! let kernel = program.function("relu_axpb")?.compile(&Options::default())?;
//!
//! // One kernel serves every size.
//! for n in [1usize, 3, 1000] {
//!     let x = Array::from_scalars(Dtype::F32, &[n], &vec![Scalar::F32(1.5); n])?;
//!     let b = Array::from_scalars(Dtype::F32, &[n], &vec![Scalar::F32(-1.0); n])?;
//!     let out = kernel.call(&[x.as_ref(), b.as_ref()])?;
//!     assert_eq!(out[0].get(n - 1), Some(Scalar::F32(2.0)));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
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
//! | [`Gpu`], [`DeviceArray`], [`Replay`] | a GPU, arrays in its memory, and calls on them that are replayed |
//! | [`Session`] | named functions and values, and text that is entered piece by piece, as at a prompt |
//! | [`format()`] | source text in the one style |
//! | [`json`] | reports for programs |
//! | [`files`], [`values`], [`print`](mod@print) | array files, arguments as text, arrays as text |
//!
//! All features are on by default. A program that embeds the library for its CPU code alone leaves
//! them out with `default-features = false`.
//!
//! | feature | adds |
//! |---|---|
//! | `files` | [`files`], [`values`], and [`Session`], which loads files |
//! | `gpu` | [`Device::Gpu`], [`Gpu`] and PTX; [`Function::launches`] with `reports` |
//! | `interp` | [`Device::Interp`], and the reasons in the error of a broken `@kernels(n)` |
//! | `objects` | [`Object`]: functions compiled ahead of time |
//! | `reports` | errors drawn over the source instead of a line each, [`Explanation`], [`Benchmark`], [`json`]; includes `interp` |
//!
//! [`Function::compile`] for a device that is left out is error E0262, and [`Device::Auto`] stands
//! for the CPU without `gpu`.

#![forbid(unsafe_code)]

#[cfg(feature = "reports")]
mod bench;
mod boundary;
mod error;
pub mod errors;
#[cfg(feature = "reports")]
mod explain;
#[cfg(feature = "files")]
pub mod files;
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
pub mod print;
mod program;
#[cfg(any(feature = "files", feature = "reports"))]
mod random;
pub mod reference;
pub mod render;
#[cfg(feature = "reports")]
mod roof;
#[cfg(feature = "files")]
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
pub use error::{CompileError, RunError, RunErrorKind, SizeName, SizeSide};
#[cfg(feature = "reports")]
pub use explain::{ExplainError, Explanation};
pub use grammar::{Code, Diagnostic, Edit, Highlight, Label, MAX_SOURCE, highlight};
pub use ir::array::{ArrayError, ArrayMut, ArrayRef};
pub use ir::decision::{FusionPass, Passes};
pub use ir::nest::{Purpose, Relation};
pub use ir::{Array, Dtype, Scalar};
pub use kernel::{CallOptions, Cancel, Device, Kernel, Options, Times};
#[cfg(all(feature = "gpu", feature = "reports"))]
pub use launch::LaunchError;
pub use link::{Folder, Loader, Located, MAX_USES, NotRead};
#[cfg(feature = "objects")]
pub use object::Object;
pub use program::{Emit, Errors, Function, Program, UnknownFunction, format};
pub use render::{Part, Report, Severity, Source, Style};
#[cfg(feature = "reports")]
pub use reports::bench::{Benchmark, Measured, Measurement};
#[cfg(feature = "files")]
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
