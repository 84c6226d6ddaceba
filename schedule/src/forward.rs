//! Forwards values past scratch: loads of elements that the kernel has stored in scratch become the
//! stored values, and scratch that nothing loads any more is no longer computed. After small loops
//! have been unrolled, they need no memory between them.

use std::collections::BTreeSet;

use ir::build::Values;
use ir::choice::Choice;
use ir::nest::{Block, BufferId, Op, Program, Role, Statement, Subscript, ValueId};
use ir::rewrite::erase_stores;
use ir::sched::Scheduled;
use ir::visit;

/// The contents of an element of scratch, which is stored only once in an iteration of the
/// outermost loop and so does not change.
#[derive(Clone)]
struct Stored {
    buffer: BufferId,
    at: Vec<Subscript>,
    value: ValueId,
}

/// Hands values on past scratch.
pub fn forward(scheduled: &mut Scheduled, choice: &mut Choice) {
    let Scheduled { program, parts, .. } = scheduled;
    for kernel in parts.iter_mut().map(|part| &mut part.kernel) {
        Forwarding { program, values: &kernel.values, choice }.block(&mut kernel.body, &mut vec![]);
        let loads = visit::loads(&kernel.body);
        let unread = |buffer: &BufferId| is_scratch(program, *buffer) && !loads.contains(buffer);
        let unread: BTreeSet<BufferId> = visit::stores(&kernel.body).into_iter().filter(unread).collect();
        if !unread.is_empty() {
            erase_stores(kernel, &unread);
        }
    }
}

pub(crate) fn is_scratch(program: &Program, buffer: BufferId) -> bool {
    program.buffers[buffer].role == Role::Scratch
}

/// The kernel at work.
struct Forwarding<'p> {
    program: &'p Program,
    values: &'p Values,
    choice: &'p mut Choice,
}

impl Forwarding<'_> {
    /// Replaces loads from scratch with `known` contents.
    fn block(&mut self, body: &mut Block, known: &mut Vec<Stored>) {
        for statement in body {
            match statement {
                Statement::Let { value, op } => {
                    if let Op::Load { buffer, view: None, at } = &*op
                        && let Some(stored) = known.iter().find(|s| s.buffer == *buffer && s.at == *at)
                        && self.choice.grants(true)
                    {
                        *op = Op::Cast(self.values[*value], stored.value);
                    }
                }
                Statement::Store { buffer, at, value } => {
                    if is_scratch(self.program, *buffer) {
                        known.push(Stored { buffer: *buffer, at: at.clone(), value: *value });
                    }
                }
                Statement::Scatter { .. }
                | Statement::If { .. }
                | Statement::Loop(_)
                | Statement::While(_)
                | Statement::Contract(_) => {
                    for inner in statement.blocks_mut() {
                        self.block(inner, &mut known.clone());
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ir::choice::Choice;
    use ir::nest::Program;
    use ir::sched::{Machine, Scheduled};

    use super::forward;
    use crate::prepare::prepare;

    /// The first kernel, made ready.
    fn prepared(body: &str) -> String {
        let program: Program = format!(
            "program @p {{ symbol n = dim 0 of input 0 input 0 %x: f32[n, 2] output 0 %y: f32[n] scratch %s: f32[2]
             kernel @k {{ parallel i < n {{ {body} }} }} }}"
        )
        .parse()
        .expect("a program");
        let (mut scheduled, mut choice) = (Scheduled::new(&program, Machine::CPU), Choice::default());
        prepare(&mut scheduled, &mut choice);
        forward(&mut scheduled, &mut choice);
        ir::sched::verify(&scheduled).expect("a schedule that keeps the rules");
        let text = scheduled.as_program().to_string();
        let lines = text.lines().skip_while(|line| !line.contains("parallel")).map(str::trim);
        lines.filter(|line| *line != "}").collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_pair_becomes_two_values() {
        let text = "parallel k < 2 { v0 = load %x[i, k] v1 = mul v0, v0 store %s[k], v1 }
             v2 = load %s[1] v3 = load %s[0] v4 = sub v2, v3 store %y[i], v4";
        let expected = "parallel i < n {
v5 = load %x[i, 0]
v6 = mul v5, v5
v7 = load %x[i, 1]
v8 = mul v7, v7
v2 = cast f32 v8
v3 = cast f32 v6
v4 = sub v2, v3
store %y[i], v4";
        assert_eq!(prepared(text), expected);
    }

    #[test]
    fn what_is_loaded_by_data_stays_in_scratch() {
        let text = "v0 = load %x[i, 0] v1 = cast i64 v0 v2 = const i64 1 v3 = and v1, v2 store %s[v3], v0
             v4 = load %s[v3] v5 = sub v2, v3 v6 = load %s[v5] v7 = add v4, v6 store %y[i], v7";
        let expected = "parallel i < n {
v0 = load %x[i, 0]
v1 = cast i64 v0
v2 = const i64 1
v3 = and v1, v2
store %s[v3], v0
v4 = cast f32 v0
v5 = sub v2, v3
v6 = load %s[v5]
v7 = add v4, v6
store %y[i], v7";
        assert_eq!(prepared(text), expected);
    }
}
