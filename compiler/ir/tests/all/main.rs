//! Tests of the loop-nest IR: its values, its text, its rules and its passes.

mod bind;
mod build;
mod order;
mod random;
mod rewrite;
mod simplify;
mod sizes;
mod text;
mod tree;
mod values;
mod verify;
mod whiles;
