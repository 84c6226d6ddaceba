//! The emulator's tests, in one binary.

mod boxes;
mod clusters;
mod common;
mod conversions;
mod faults;
mod floats;
mod integers;
mod matrices;
mod meetings;
mod order;
mod predicates;
mod programs;
mod rows;
mod text;
mod tiles;
