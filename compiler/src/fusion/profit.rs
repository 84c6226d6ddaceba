//! What merging gains: the price of kernels as they are against the price of kernels as they would be, by the one cost
//! model, and the limits of one kernel.

use ir::nest::{BufferId, Kernel, Program};
use ir::{Size, SymbolId};

/// The largest kernel, in statements with functions written out: beyond it, compiling takes longer than it saves.
pub(super) const MAX_SIZE: u64 = 2_000;

/// The most places in which one kernel may compute a producer: XLA's bound on the uses that indexing makes.
pub(super) const MAX_COPIES: u64 = 15;

/// What a size name counts as: decisions never depend on a call's sizes.
const NOMINAL: i64 = 1024;

/// A size at nominal extents.
pub(super) fn nominal(size: &Size) -> f64 {
    size.eval(&|_: SymbolId| NOMINAL).map_or(f64::MAX, |value| value.max(0) as f64)
}

/// The bytes of a buffer at nominal sizes.
pub(super) fn bytes(program: &Program, buffer: BufferId) -> f64 {
    let buffer = &program.buffers[buffer];
    buffer.shape.iter().map(nominal).product::<f64>() * buffer.dtype.bytes() as f64
}

/// How long a kernel takes, in nanoseconds.
pub(super) fn time(program: &Program, kernel: &Kernel) -> f64 {
    let mut operations = 0.0;
    count(program, &kernel.body, 1.0, &mut operations);
    let touched: std::collections::BTreeSet<BufferId> =
        ir::visit::loads(&kernel.body).into_iter().chain(ir::visit::stores(&kernel.body)).collect();
    let memory: f64 = touched.into_iter().map(|b| bytes(program, b)).sum();
    3000.0 + (memory / 10.0).max(operations / 8.0)
}

fn count(program: &Program, block: &ir::nest::Block, times: f64, sum: &mut f64) {
    for s in block {
        *sum += times;
        if let ir::nest::Statement::Let { op: ir::nest::Op::Call(f, _), .. } = s {
            *sum += times * program.functions[*f].body.len() as f64;
        }
        let inner = match s {
            ir::nest::Statement::Loop(l) => {
                times * l.dims.iter().map(|(_, e)| e.as_size().map_or(1024.0, nominal)).product::<f64>()
            }
            ir::nest::Statement::Contract(c) => {
                times
                    * c.free.iter().chain(&c.reduce).map(|(_, e)| e.as_size().map_or(1024.0, nominal)).product::<f64>()
            }
            _ => times,
        };
        for b in s.blocks() {
            count(program, b, inner, sum);
        }
    }
}

/// Why a merge that loses time is refused.
pub(super) fn refusal(
    program: &Program,
    p: &super::form::Elementwise<'_>,
    copies: Size,
    loss: f64,
) -> ir::decision::Reason {
    let mut operations = 0.0;
    count(program, &p.body.to_vec(), 1.0, &mut operations);
    if copies == Size::constant(1) {
        return ir::decision::Reason::NotProfitable { loss: loss as u64 };
    }
    ir::decision::Reason::WouldDuplicate { copies, operations: operations as u64 }
}
