//! Lets the last block of a GPU that ends a chunk join the results of all, in place of a launch of
//! its own that waits for them.

use ir::choice::Choice;
use ir::nest::{Buffer, Role};
use ir::sched::{Scheduled, ends_in_last_block};
use ir::{Dtype, Size};

/// Chooses the parts that run in the last block of the part before them.
pub fn join(scheduled: &mut Scheduled, choice: &mut Choice) {
    let Scheduled { machine, program, parts, .. } = scheduled;
    if machine.gpu.is_none() {
        return;
    }
    for number in 1..parts.len() {
        let [before, part] = &mut parts[number - 1..=number] else { continue };
        if ends_in_last_block(program, before, part) && choice.grants(true) {
            let name = format!("{}.{}.ended", part.kernel.name, program.buffers.len());
            let shape = vec![Size::constant(1)];
            part.last = Some(program.buffers.push(Buffer { name, dtype: Dtype::U64, shape, role: Role::Temp }));
        }
    }
}
