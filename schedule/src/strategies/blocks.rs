//! An iteration for each block: its threads go through the loops together. If these are short, and
//! there are many iterations, a thread goes through the loops of an iteration alone.

use ir::nest::{Block, BufferId, Extent, IndexId, Loop, LoopKind, Role, Statement};
use ir::order::{LANES, Scope};
use ir::sched::ordered::{has_ordered, stores_too};
use ir::sched::{Axis, Inner, Level, Refusal, Strategy, Variant};
use ir::{Size, visit};

use super::Site;
use crate::split::has_rows;

/// The most iterations of a loop that the threads of a block take one after another.
const FEW: i64 = 8;

/// Loops of up to this many iterations occupy few threads of a block.
const SHORT: i64 = 32;
/// The most iterations of the loops inside of an iteration, all together, that one thread goes
/// through, and the least iterations that give all threads of a device one.
const ALONE: i64 = 1024;
/// See [`ALONE`].
const MANY: i64 = 1 << 14;

pub(super) fn lay(site: &Site<'_>) -> Result<Vec<Variant>, Refusal> {
    let together = with_threads(site, LANES as i64);
    Ok(alone(site).into_iter().chain([together]).collect())
}

/// An iteration for each thread, if the sizes of a call leave most threads of a block without one
/// of the loops inside, and there are enough of them.
fn alone(site: &Site<'_>) -> Option<Variant> {
    let size = |dims: &[(IndexId, Extent)]| {
        dims.iter().try_fold(Size::constant(1), |all, (_, extent)| Some(&all * extent.as_size()?))
    };
    let is_scratch = |id: &BufferId| site.program.buffers[*id].role == Role::Scratch;
    let accessed = visit::loads(&site.l.body).into_iter().chain(visit::stores(&site.l.body));
    if has_ordered(&site.l.body) || accessed.into_iter().any(|id| is_scratch(&id)) {
        return None;
    }
    let mut at_most = vec![(&Size::constant(MANY) - &size(&site.l.dims)?, 0)];
    for statement in &site.l.body {
        let Statement::Loop(l) = statement else { continue };
        let (own, all) = (size(&l.dims)?, longest(l, &size)?);
        at_most.extend((own != all).then_some((all, ALONE)));
        at_most.push((own, SHORT));
    }
    let always = |(size, most): &(Size, i64)| size.as_constant().is_some_and(|n| n <= *most);
    let never = |(size, most): &(Size, i64)| size.as_constant().is_some_and(|n| n > *most);
    if at_most.iter().any(never) {
        return None;
    }
    at_most.retain(|limit| !always(limit));
    let axis = Axis::new(
        site.l.dims.iter().map(|(index, _)| *index),
        [Level::of(Scope::Block, site.gpu.threads), Level::all(Scope::Grid)],
    );
    Some(Variant { at_most, ..Variant::new(Strategy::Threads, vec![axis]) })
}

/// The iterations of the innermost loops of a loop, all together, if they are sizes.
fn longest(l: &Loop, size: &impl Fn(&[(IndexId, Extent)]) -> Option<Size>) -> Option<Size> {
    if !matches!(l.kind, LoopKind::Parallel | LoopKind::Reduce(_)) {
        return None;
    }
    let mut inner = None;
    for statement in &l.body {
        match statement {
            Statement::Loop(l) => {
                let iterations = longest(l, size)?;
                inner = Some(inner.map_or(iterations.clone(), |all: Size| &all + &iterations));
            }
            Statement::Let { .. } | Statement::Store { .. } => {}
            Statement::If { .. } | Statement::Scatter { .. } | Statement::While(_) | Statement::Contract(_) => {
                return None;
            }
        }
    }
    Some(&size(&l.dims)? * &inner.unwrap_or(Size::constant(1)))
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
