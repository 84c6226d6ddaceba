//! Substitution: replaces the consumer's loads by the producer's body, at the consumer's
//! subscripts. So operations that rearrange elements (slices, strides, transposes, broadcasts,
//! reshapes, pads, concatenations, gathers) need no rules of their own, because they are in the
//! subscripts.

use ir::Dtype;
use ir::nest::{Block, IndexId, Kernel, Op, Program, Statement, Subscript, ValueId};
use ir::rewrite::{Copier, erase_unused, hoist, replace_loads, see_axes, share, simplify};
use ir::sabotage::{self, Bug};

use super::form::{Elementwise, position, shape};

/// The consumer, with every load of the producer's buffer replaced by the producer's body.
pub(super) fn inline(program: &Program, consumer: &Kernel, producer: &Kernel, p: &Elementwise<'_>) -> Kernel {
    let mut kernel = consumer.clone();
    let own = shape(program, p.buffer);
    replace_loads(&mut kernel, p.buffer, |kernel, view, seen, out| {
        let at = match view {
            None => seen.to_vec(),
            Some(view) => position((seen, view), own, &mut |op| push(kernel, Dtype::I64, op, out)),
        };
        let mut copier = Copier::new(program, producer, kernel);
        let at = if sabotage::on(Bug::InlinedAxes) { at.into_iter().rev().collect() } else { at };
        for (index, subscript) in p.axes.iter().zip(at) {
            if let Some(index) = index {
                copier.map_index(*index, subscript);
            }
        }
        copier.copy(p.scalars, out);
        for statement in p.body {
            match (view, statement) {
                // An array with the layout of the buffer can be viewed in the same way.
                (Some(view), Statement::Let { value, op: Op::Load { buffer, view: None, at } })
                    if shape(program, *buffer) == own
                        && (is_identity(at, &p.axes) || sabotage::on(Bug::InlinedView)) =>
                {
                    let op = Op::Load { buffer: *buffer, view: Some(view.to_vec()), at: seen.to_vec() };
                    let element = push(copier.to(), program.buffers[*buffer].dtype, op, out);
                    copier.map_value(*value, element);
                }
                _ => copier.copy(std::slice::from_ref(statement), out),
            }
        }
        copier.value(p.value)
    });
    kernel.origins.extend(producer.origins.iter().copied());
    kernel.origins.sort_unstable();
    kernel.origins.dedup();
    tidy(program, &mut kernel);
    kernel
}

/// Cleans up after a merge: hoists loop-invariant code, removes common subexpressions and dead
/// code.
pub(super) fn tidy(program: &Program, kernel: &mut Kernel) {
    simplify(kernel);
    see_axes(program, kernel);
    hoist(program, kernel);
    share(kernel);
    erase_unused(&mut kernel.body);
}

fn push(kernel: &mut Kernel, dtype: Dtype, op: Op, out: &mut Block) -> ValueId {
    let value = kernel.values.push(dtype);
    out.push(Statement::Let { value, op });
    value
}

fn is_identity(at: &[Subscript], axes: &[Option<IndexId>]) -> bool {
    at.len() == axes.len() && at.iter().zip(axes).all(|(s, axis)| axis.is_none() || s.as_index() == *axis)
}
