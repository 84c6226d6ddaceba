//! An iteration for each block: its threads go through the loops together.

use ir::Size;
use ir::nest::{Block, Extent, IndexId, LoopKind, Statement};
use ir::order::{LANES, Scope};
use ir::sched::ordered::{has_ordered, stores_too};
use ir::sched::{Axis, Inner, Level, Refusal, Strategy, Variant};

use super::Site;
use crate::split::has_rows;

/// The most iterations of a loop that the threads of a block take one after another.
const FEW: i64 = 8;

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

/// Lets the threads of a block take the iterations of short loops with rows in them one after
/// another, all threads together: shared out, the rows would occupy a few threads.
pub(super) fn step_by_step(block: &mut Block) {
    let length = |(_, extent): &(IndexId, Extent)| extent.as_size().and_then(Size::as_constant);
    for statement in block {
        if let Statement::Loop(l) = statement
            && l.kind == LoopKind::Parallel
            && has_rows(l)
            && l.dims.iter().map(length).product::<Option<i64>>().is_some_and(|n| n <= FEW)
        {
            l.kind = LoopKind::Serial;
            step_by_step(&mut l.body);
        }
    }
}
