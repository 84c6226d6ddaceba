//! The tests of the whole. What needs a process of its own stands beside this folder.

mod cancelled;
mod differential;
mod docs;
mod ends;
mod files;
mod format;
mod house;
mod kernels;
mod limits;
mod mutants;
mod nan;
mod objects;
mod pairs;
mod products;
mod ptx;
mod random;
mod samples;
mod sweep;
mod traffic;
