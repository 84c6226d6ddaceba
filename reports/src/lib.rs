//! Reports for people and for programs.
//!
//! ```text
//! draw      errors drawn over the source
//! explain   what fusion made of a function, and why: as text, as JSON, as a graph
//! bench     what fusion gains, measured: as text, as JSON
//! page      both as a page of HTML
//! roof      how long a kernel takes at least on a device
//! launches  how a host launches the kernels of a function, as JSON
//! json      what the command reports, a line of JSON each
//! ```
//!
//! Everything here is a function of data: nothing compiles, runs or measures.

#![forbid(unsafe_code)]

pub mod bench;
pub mod draw;
pub mod explain;
pub mod json;
pub mod launches;
pub mod page;
pub mod roof;
