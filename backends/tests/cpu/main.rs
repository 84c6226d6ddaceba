//! The compiled engine against the interpreter: the same bits (any NaN equal to any NaN) for every construct of
//! loop nests, every type and the sizes at which the canonical orders turn.

mod across;
mod calls;
mod columns;
mod conversions;
mod harness;
mod leaves;
mod nests;
mod phases;
mod pieces;
mod random;
mod reducers;
mod reductions;
mod tiles;
mod wide;
