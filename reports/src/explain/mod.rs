//! The report on fusion of a function: as text, as JSON, and as a graph. (`page` makes the page.)

mod dot;
pub(crate) mod fold;
mod json;
pub(crate) mod text;

pub use dot::write as dot;
pub use json::write as json;
pub use text::{amount, operations, render as text};
