//! Substitution: the producer's body in place of the consumer's loads, at the consumer's subscripts. So whatever moves
//! elements about (slices, strides, transposes, broadcasts, reshapes, pads, concatenations, gathers) needs no rule of
//! its own: it is in the subscripts.

use ir::Dtype;
use ir::nest::{Kernel, Program, Statement, Subscript};
use ir::rewrite::{Copier, replace_loads};

use super::form::{Elementwise, position, shape};

/// The consumer with the producer's body in place of every load of the producer's buffer.
pub(super) fn inline(program: &Program, consumer: &Kernel, producer: &Kernel, p: &Elementwise<'_>) -> Kernel {
    let mut kernel = consumer.clone();
    replace_loads(&mut kernel, p.buffer, |kernel, view, at, out| {
        let own = shape(program, p.buffer);
        let at: Vec<Subscript> = match view {
            None => at.to_vec(),
            Some(view) => position((at, view), own, &mut |op| {
                let value = kernel.values.push(Dtype::I64);
                out.push(Statement::Let { value, op });
                value
            }),
        };
        let mut copier = Copier::new(program, producer, kernel);
        for (index, subscript) in p.axes.iter().zip(at) {
            copier.map_index(*index, subscript);
        }
        copier.copy(p.scalars, out);
        copier.copy(p.body, out);
        copier.value(p.value)
    });
    kernel.origins.extend(producer.origins.iter().copied());
    kernel.origins.sort_unstable();
    kernel.origins.dedup();
    kernel
}
