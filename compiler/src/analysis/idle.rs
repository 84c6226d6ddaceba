//! The time that a kernel loses because it has too few iterations for all cores.
//!
//! Cores share the iterations of a kernel's outermost loops, and reductions, scans, sums by key and
//! sorts by chunks. Only constant lengths can be too few, since a size name counts as long. If all
//! lengths of a loop are constant and it takes no longer than a launch, several cores would not be
//! faster, so nothing is lost.

use ir::nest::{Extent, IndexId, Kernel, LoopKind, Rows, Statement};
use ir::order::{KEYED_CHUNK, LANES_CHUNK};
use ir::{Size, visit};

/// The cores of the nominal machine.
const CORES: f64 = 16.0;

/// The nanoseconds that a kernel loses. `time` is its time with all cores busy, `launch` that of a
/// launch, and `alone` gives the time of a kernel with a single statement.
pub(super) fn idle(kernel: &Kernel, time: f64, launch: f64, alone: impl Fn(&Kernel) -> f64) -> f64 {
    let loops = kernel.body.iter().filter(|s| !matches!(s, Statement::Let { .. } | Statement::Store { .. }));
    let is_one = loops.clone().count() == 1;
    let lost = |statement: &Statement| {
        let shares = iterations(statement).map_or(CORES, |n| n.clamp(1.0, CORES));
        if shares == CORES {
            return 0.0;
        }
        let time = if is_one { time } else { alone(&Kernel { body: vec![statement.clone()], ..kernel.clone() }) };
        let worth = if is_stated(statement) { time - launch } else { time };
        (CORES / shares - 1.0) * worth.max(0.0)
    };
    loops.map(lost).sum()
}

/// The maximum number of cores that could share a statement; `None` if its lengths are not
/// constant.
fn iterations(statement: &Statement) -> Option<f64> {
    let points = |dims: &[_]| dims.iter().map(stated).try_fold(1.0, |product, length| Some(product * length?));
    if let Some(Rows { outer, inner, .. }) = Rows::of(statement) {
        return Some(points(outer)? * (points(&inner.dims)? / KEYED_CHUNK as f64).ceil());
    }
    let (dims, chunk): (&[_], f64) = match statement {
        Statement::Loop(l) => match l.kind {
            LoopKind::Parallel => (&l.dims, 1.0),
            LoopKind::Reduce(_) | LoopKind::Scan => (&l.dims, LANES_CHUNK as f64),
            LoopKind::Serial | LoopKind::Keyed { .. } | LoopKind::Sort => return Some(1.0),
        },
        Statement::Contract(c) => (&c.free, 1.0),
        Statement::If { .. }
        | Statement::Let { .. }
        | Statement::Store { .. }
        | Statement::Scatter { .. }
        | Statement::While(_) => {
            return Some(1.0);
        }
    };
    Some((points(dims)? / chunk).ceil())
}

/// Whether all lengths of the loops of a statement are constants.
fn is_stated(statement: &Statement) -> bool {
    let mut is_stated = true;
    visit::for_each_statement(std::slice::from_ref(statement), &mut |s| {
        is_stated &= match s {
            Statement::While(w) if w.condition.is_some() => false,
            Statement::Loop(_) | Statement::While(_) | Statement::Contract(_) => {
                s.dims().all(|dim| stated(dim).is_some())
            }
            Statement::If { .. } | Statement::Let { .. } | Statement::Store { .. } | Statement::Scatter { .. } => true,
        };
    });
    is_stated
}

fn stated((_, extent): &(IndexId, Extent)) -> Option<f64> {
    extent.as_size().and_then(Size::as_constant).map(|length| length.max(0) as f64)
}
