//! Errors drawn over the source. (The crates `grammar` and `reports` have the parts.)

pub use grammar::source::{one_line, visible};
pub use grammar::{Part, Report, Source};
pub use reports::Style;
pub use reports::draw::{draw, draw_note};
