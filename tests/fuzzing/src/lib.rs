//! The differential tester as a library: random programs of the language with sizes and data, run
//! by every engine and fused in every way, are compared on bits with the meaning of the source.
//! Failures are reduced.
//!
//! It imports every stage, so it stands above the public library; the command `fuseloop fuzz` and
//! the tests use it.
//!
//! | module | purpose |
//! |---|---|
//! | [`generate`] | programs and their data |
//! | [`engines`], [`emulated`], [`ways`] | the engines, and the ways to fuse |
//! | [`library`], [`linked`] | calls through the public library, of programs in one file and in several |
//! | [`objects`] | calls of functions compiled ahead of time |
//! | [`numpy`] | programs that are compared with NumPy instead |
//! | [`case`] | one program, its data, an engine and a way to fuse: judged, saved and run again |
//! | [`judge`] | the properties that a case must have |
//! | [`derived`] | derivatives of generated programs |
//! | [`quotients`] | derivatives against difference quotients |
//! | [`variation`] | changes of a program that must not change its results (metamorphic tests) |
//! | [`worker`], [`supervisor`] | judging in processes of their own, since wrong code may crash them |
//! | [`campaign`], [`tally`] | many cases, and their coverage |
//! | [`reduce`] | smaller cases that fail in the same way |

#![forbid(unsafe_code)]

pub mod campaign;
pub mod case;
pub mod derived;
pub mod emulated;
pub mod engines;
pub mod generate;
pub mod judge;
pub mod library;
pub mod linked;
pub mod numpy;
mod nvrtc;
pub mod objects;
pub mod plans;
pub mod quotients;
pub mod reduce;
pub mod supervisor;
mod syntax;
pub mod tally;
pub mod variation;
pub mod ways;
pub mod worker;
