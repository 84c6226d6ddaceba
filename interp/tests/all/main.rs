//! Tests of the interpreters of sources and of loop nests.

mod nest;
mod rewrite;
mod source;
