//! An iteration for each thread.

use ir::order::Scope;
use ir::sched::{Axis, Level, Refusal, Strategy, Variant};

use super::Site;

pub(super) fn lay(site: &Site<'_>) -> Result<Vec<Variant>, Refusal> {
    if !site.alone {
        return Err(Refusal::Long);
    }
    let indices = site.l.dims.iter().map(|(index, _)| *index);
    let axis = Axis::new(indices, [Level::of(Scope::Block, site.gpu.threads), Level::all(Scope::Grid)]);
    Ok(vec![Variant::new(Strategy::Threads, vec![axis])])
}
