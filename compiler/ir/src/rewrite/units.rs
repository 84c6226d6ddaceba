//! Loops of one iteration, and axes of length 1.

use crate::nest::{Block, Contraction, Extent, IndexId, Kernel, Loop, LoopKind, Op, Program, Statement, Subscript};
use crate::{Affine, Size};

use super::{for_each_affine_mut, renumber};

/// Removes indices that have only one value, replacing them by 0. So an axis of length 1 needs no
/// loop, in any style of writing. A reduction or scan keeps one of them if it has no other, and so
/// do the indices that a contraction sums over. A view that differs from its buffer only in axes of
/// length 1 becomes the buffer. Returns the number of indices and views removed.
pub fn drop_units(program: &Program, kernel: &mut Kernel) -> usize {
    let mut views = 0;
    see_through(program, &mut kernel.body, &mut views);
    let mut units = vec![];
    drop_in(&mut kernel.body, &mut units);
    if units.is_empty() {
        return views;
    }
    for statement in &mut kernel.body {
        for_each_affine_mut(statement, &mut |affine| {
            if units.iter().any(|unit| !affine.coefficient(*unit).is_zero()) {
                let of = |index| if units.contains(&index) { Affine::constant(0) } else { Affine::index(index) };
                *affine = affine.substitute(&mut |index| of(index));
            }
        });
    }
    *kernel = renumber(program, kernel);
    views + units.len()
}

/// Replaces views that differ from their buffers in axes of length 1 alone.
fn see_through(program: &Program, block: &mut Block, views: &mut usize) {
    let is_unit = |size: &Size| size.as_constant() == Some(1);
    for statement in block {
        if let Statement::Let { op: Op::Load { buffer, view: seen @ Some(_), at }, .. } = statement
            && let Some(view) = seen
        {
            let own = &program.buffers[*buffer].shape;
            let long = |shape: &[Size]| shape.iter().filter(|size| !is_unit(size)).cloned().collect::<Vec<_>>();
            if long(view) == long(own) {
                let mut left = at.iter().zip(view.iter()).filter(|(_, size)| !is_unit(size)).map(|(s, _)| s.clone());
                let zero = || Subscript::Affine(Affine::constant(0));
                *at = own
                    .iter()
                    .map(|size| if is_unit(size) { None } else { left.next() }.unwrap_or_else(zero))
                    .collect();
                *seen = None;
                *views += 1;
            }
        }
        statement.blocks_mut().for_each(|inner| see_through(program, inner, views));
    }
}

/// Removes them from the loops of a block. A loop without any index left becomes its body.
fn drop_in(block: &mut Block, units: &mut Vec<IndexId>) {
    for mut statement in std::mem::take(block) {
        statement.blocks_mut().for_each(|inner| drop_in(inner, units));
        match &mut statement {
            Statement::Loop(Loop { dims, kind: LoopKind::Parallel | LoopKind::Serial, body }) => {
                take(dims, 0, units);
                if dims.is_empty() {
                    block.append(body);
                    continue;
                }
            }
            Statement::Loop(Loop { dims, .. }) => take(dims, 1, units),
            Statement::Contract(Contraction { free, reduce, .. }) => {
                take(free, 0, units);
                take(reduce, 1, units);
            }
            Statement::Let { .. }
            | Statement::Store { .. }
            | Statement::Scatter { .. }
            | Statement::If { .. }
            | Statement::While(_) => {}
        }
        block.push(statement);
    }
}

/// Moves indices with one value from some dims to `units`, except for the last ones if fewer than
/// `least` would be left.
fn take(dims: &mut Vec<(IndexId, Extent)>, least: usize, units: &mut Vec<IndexId>) {
    let is_unit = |extent: &Extent| extent.as_size().and_then(|size| size.as_constant()) == Some(1);
    let mut left = dims.len();
    dims.retain(|(index, extent)| {
        let goes = left > least && is_unit(extent);
        if goes {
            left -= 1;
            units.push(*index);
        }
        !goes
    });
}
