//! The differential tester as a library: random programs of the language with sizes and data, run
//! by every engine and fused in every way, are compared on bits with the meaning of the source.
//! Failures are reduced.
//!
//! It imports every stage, so it stands above the public library; the command `fuseloop fuzz` and
//! the tests use it.
//!
//! | room | for |
//! |---|---|
//! | [`generate`] | the programs and their data |
//! | [`engines`], [`emulated`], [`ways`] | what runs them, and how they are fused |
//! | [`library`] | calls through the public library |
//! | [`objects`] | calls of what is compiled ahead of time |
//! | [`numpy`] | programs that are held to NumPy instead |
//! | [`case`] | one program, its data, an engine and a way: what is judged, saved and run again |
//! | [`judge`] | what a case must meet |
//! | [`twist`] | changes of a program that must not change its results |
//! | [`worker`], [`crew`] | judging in processes of their own: generated code that is wrong may end one |
//! | [`campaign`], [`tally`] | many cases, and what they exercised |
//! | [`reduce`] | smaller cases that fail alike |

#![forbid(unsafe_code)]

pub mod campaign;
pub mod case;
pub mod crew;
pub mod emulated;
pub mod engines;
pub mod generate;
pub mod judge;
pub mod library;
pub mod numpy;
pub mod objects;
pub mod plans;
pub mod reduce;
mod syntax;
pub mod tally;
pub mod twist;
pub mod ways;
pub mod worker;
