//! Loops along memory: each thread takes several adjacent iterations, with accesses as wide as the
//! machine has them. A block takes as many iterations as its threads do together. At the end
//! of the range, or if the rows are not aligned to vectors, its threads take one at a time.

use ir::Size;
use ir::nest::{Op, Role, Statement};
use ir::order::Scope;
use ir::sched::{Axis, Level, Refusal, Strategy, Tail, Variant, divides, may_repeat};
use ir::visit;

use super::Site;

pub(super) fn lay(site: &Site<'_>) -> Result<Vec<Variant>, Refusal> {
    if !site.alone {
        return Err(Refusal::Long);
    }
    let Site { program, part, l, gpu, shared, .. } = site;
    let (index, extent) = l.dims.last().ok_or(Refusal::NotAlong)?;
    let flat = |s: &Statement| matches!(s, Statement::Let { .. } | Statement::If { .. } | Statement::Store { .. });
    if !l.body.iter().all(flat) {
        return Err(Refusal::Loops);
    }
    // With scratch, the number of blocks is limited, and each would have to take several ranges.
    if visit::stores(&l.body).iter().any(|buffer| program.buffers[*buffer].role == Role::Scratch) {
        return Err(Refusal::Scratch);
    }
    let accesses: Vec<_> = l.body.iter().flat_map(|s| s.effects().accesses()).collect();
    let along: Vec<_> = accesses.iter().filter_map(|a| Some((a.buffer, shared.along(program, *index, *a)?))).collect();
    let bytes = |buffer| program.buffers[buffer].dtype.bytes();
    // The widest element determines the length of vectors, for example 4 for `f32` and 8 for `f16`.
    let widest = along.iter().map(|(buffer, _)| bytes(*buffer)).max().ok_or(Refusal::NotAlong)?;
    let (access, most) = gpu.access;
    let width = (access / i64::try_from(widest).unwrap_or(access)).clamp(1, most);
    let mut unless: Vec<(Size, i64)> = vec![];
    let mut multiple = |size: &Size| {
        if size.as_constant().is_none_or(|n| n % width != 0) {
            unless.push((size.clone(), width));
        }
    };
    // Vectors are aligned if the offset and all other strides are multiples of their length.
    for (_, linear) in &along {
        multiple(linear.affine.constant_part());
        linear.affine.terms().iter().filter(|(i, _)| i != index).for_each(|(_, coefficient)| multiple(coefficient));
    }
    // A vector must not cross from one row to the next.
    if l.dims.len() > 1 {
        multiple(extent.as_size().ok_or(Refusal::Data)?);
    }
    unless.sort();
    unless.dedup();
    // Code that divides without branches, for all elements of a thread, profits from more of them:
    // the loads of some overlap with the computation of others.
    let stores =
        l.body.iter().filter_map(|s| s.effects().store).filter(|a| shared.along(program, *index, *a).is_some());
    let all_stores = stores.count() == visit::stores(&l.body).len();
    let fast = all_stores && may_repeat(&l.body) && divides(program, &l.body, &|v| part.kernel.values[v]);
    let total: usize = along.iter().map(|(buffer, _)| bytes(*buffer)).sum();
    let heavy = fast && program.operations_of(&l.body, Op::is_arithmetic) >= gpu.heavy * total;
    let mut levels = vec![Level::of(Scope::Vector, width), Level::of(Scope::Block, gpu.threads)];
    levels.extend(heavy.then_some(Level::of(Scope::Register, 2)));
    levels.push(Level::all(Scope::Grid));
    let axis = Axis::new(l.dims.iter().map(|(index, _)| *index), levels);
    // By default an assembler would use more registers, at the cost of the blocks that hide the
    // latency of memory.
    let (few, all, some) = gpu.registers;
    let elements = axis.count(|scope| matches!(scope, Scope::Vector | Scope::Register)) * along.len() as i64;
    let resident = fast.then_some(if elements <= few { all } else { some });
    Ok(vec![Variant { tail: Tail::Single(unless), resident, ..Variant::new(Strategy::Vectors, vec![axis]) }])
}
