//! Substitution: the producer's body in place of the consumer's loads, at the consumer's subscripts. So whatever moves
//! elements about (slices, strides, transposes, broadcasts, reshapes, pads, concatenations, gathers) needs no rule of
//! its own: it is in the subscripts.

use ir::Dtype;
use ir::nest::{Block, IndexId, Kernel, Op, Program, Statement, Subscript, ValueId};
use ir::rewrite::{Copier, erase_unused, hoist, replace_loads, see_axes, share, simplify};
use ir::sabotage::{self, Bug};

use super::form::{Elementwise, position, shape};

/// The consumer with the producer's body in place of every load of the producer's buffer.
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
                // What lies like the buffer can be seen like it.
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

/// Undoes what merging leaves behind: what is computed in every iteration and need not be, what is computed twice, and what
/// nobody uses.
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
