//! Tests of the interpreters of sources and of loop nests, and of trees of reductions by them.

mod nest;
mod order;
mod repeat;
mod rewrite;
mod source;
