//! Loops that load across memory ([`crate::transpose`]): a block takes a square tile. It copies the
//! elements that lie across memory to shared memory, in the order in which they lie in memory, then
//! runs the body along the rows of the tile. So all threads access adjacent elements, in either
//! order.

use ir::nest::IndexId;
use ir::order::Scope;
use ir::sched::{Axis, Level, Refusal, Run, Stage, Strategy, Variant};

use super::Site;

pub(super) fn lay(site: &Site<'_>) -> Result<Vec<Variant>, Refusal> {
    if !site.alone {
        return Err(Refusal::Long);
    }
    let Site { program, part, l, gpu, shared, .. } = site;
    let Run::Transpose(across) = &part.run else { return Err(Refusal::NotAcross) };
    let (last, others) = l.dims.split_last().ok_or(Refusal::NotAcross)?;
    let (outer, _) = others.get(across.outer).ok_or(Refusal::NotAcross)?;
    if !shared.buffers.is_empty() || shared.in_place {
        return Err(Refusal::InPlace);
    }
    let width = |at: &usize| {
        let load = l.body[*at].effects().load;
        load.and_then(|load| i64::try_from(program.buffers[load.buffer].dtype.bytes()).ok()).unwrap_or(0)
    };
    let bytes =
        |side: i64| across.loads.iter().map(|at| side * (side * width(at) + gpu.bank.max(width(at)))).sum::<i64>();
    let side = gpu.tiles.iter().copied().find(|side| bytes(*side) <= gpu.shared).ok_or(Refusal::TooLarge)?;
    let down = gpu.threads / side;
    let along = |index: IndexId| Axis::new([index], [Level::of(Scope::Block, side), Level::all(Scope::Grid)]);
    let cross = |index: IndexId| {
        Axis::new(
            [index],
            [Level::of(Scope::Block, down), Level::of(Scope::Memory, side / down), Level::all(Scope::Grid)],
        )
    };
    let rest = || {
        let indices = others.iter().map(|(index, _)| *index).filter(|index| index != outer);
        indices.map(|index| Axis::new([index], [Level::all(Scope::Grid)]))
    };
    let axes = rest().chain([cross(*outer), along(last.0)]).collect();
    let staged = rest().chain([cross(last.0), along(*outer)]).collect();
    let stage = Stage { loads: across.loads.clone(), axes: staged, padding: gpu.bank };
    Ok(vec![Variant { stages: vec![stage], ..Variant::new(Strategy::Tiles, axes) }])
}
