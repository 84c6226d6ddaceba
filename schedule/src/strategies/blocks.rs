//! An iteration for each block: its threads go through the loops together.

use ir::order::{LANES, Scope};
use ir::sched::ordered::{has_ordered, stores_too};
use ir::sched::{Axis, Inner, Level, Refusal, Strategy, Variant};

use super::Site;

pub(super) fn lay(site: &Site<'_>) -> Result<Vec<Variant>, Refusal> {
    Ok(vec![with_threads(site, LANES as i64)])
}

/// The same with this many threads, unless loops merge into tables.
pub(super) fn with_threads(site: &Site<'_>, threads: i64) -> Variant {
    let Site { l, gpu, .. } = site;
    // A table for each warp, unless the warps of a block store to neighbouring places.
    let threads = match has_ordered(&l.body) {
        true if stores_too(&l.body) => gpu.threads,
        true => gpu.warp,
        false => threads,
    };
    let axis = Axis::new(l.dims.iter().map(|(index, _)| *index), [Level::all(Scope::Grid)]);
    Variant { inner: Inner::Together(threads), ..Variant::new(Strategy::Blocks, vec![axis]) }
}
