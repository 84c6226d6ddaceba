//! Rewriting kernels. A pass decides what may be done; these modules do it, with a file for each
//! kind of rewrite. All of them take time proportional to the code that they visit.

mod branches;
mod copy;
mod equal;
mod erase;
mod extremes;
mod forward;
mod hoist;
mod inside;
mod replace;
mod share;
mod simplify;
mod units;
mod views;

pub use branches::join_branches;
pub use copy::{Copier, fresh_name, renumber};
pub use erase::{erase_stores, erase_unused};
pub use extremes::{Domain, extremes, never_falls};
pub use forward::forward;
pub use hoist::hoist;
pub use inside::Inside;
pub use replace::{for_each_affine_mut, for_each_use_mut, replace, replace_loads, replace_values};
pub use share::share;
pub use simplify::simplify;
pub use units::drop_units;
pub use views::{digits, see_axes, see_plainly};
