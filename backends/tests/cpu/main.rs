//! The compiled engine against the interpreter: the same bits (with all NaN equal) for every
//! construct of loop nests, every type, and sizes around the boundaries of the canonical orders.

mod calls;
mod columns;
mod conversions;
mod harness;
mod index_split;
mod leaves;
mod nests;
mod phases;
mod random;
mod reducers;
mod reductions;
mod repeat;
mod tiles;
mod transpose_tiles;
mod wide;
