//! Stencils: loops over two indices that load one array at several offsets. Each thread takes
//! several rows of a column, so that loads of one row are reused in registers by the next ones.
//! Horizontal neighbours come from a cache.

use ir::linear::Linear;
use ir::nest::BufferId;
use ir::order::Scope;
use ir::sched::{Axis, Level, Refusal, Strategy, Variant, is_flat};

use super::Site;

pub(super) fn lay(site: &Site<'_>) -> Result<Vec<Variant>, Refusal> {
    if !site.alone {
        return Err(Refusal::Long);
    }
    let Site { program, l, gpu, shared, .. } = site;
    let [(row, rows), (column, columns)] = l.dims.as_slice() else { return Err(Refusal::NotTwoIndices) };
    rows.as_size().and(columns.as_size()).ok_or(Refusal::NotTwoIndices)?;
    if !is_flat(&l.body) {
        return Err(Refusal::Loops);
    }
    let mut found: Vec<(BufferId, Linear)> = vec![];
    for statement in &l.body {
        let Some(load) = statement.effects().load else { continue };
        let down = |linear: &Linear| !linear.affine.coefficient(*row).is_zero();
        found.extend(shared.along(program, *column, load).filter(down).map(|linear| (load.buffer, linear)));
    }
    // Two loads of the same array that only differ by a constant.
    let overlaps = |(k, (buffer, linear)): (usize, &(BufferId, Linear))| {
        found[..k].iter().any(|(b, l)| b == buffer && l.affine.terms() == linear.affine.terms())
    };
    if !found.iter().enumerate().any(overlaps) {
        return Err(Refusal::NoOverlap);
    }
    let down = [Level::of(Scope::Register, gpu.rows), Level::all(Scope::Grid)];
    let along = [Level::of(Scope::Block, gpu.threads), Level::all(Scope::Grid)];
    let axes = vec![Axis::new([*row], down), Axis::new([*column], along)];
    // Without a number of blocks the assembler hoists all loads of a column. Their registers cost
    // more in occupancy than they gain in latency.
    Ok(vec![Variant { resident: Some(5), ..Variant::new(Strategy::Stencil, axes) }])
}
