//! Loops over carried scalars in leaves ([`ir::leaf::Steps`]), for 128-bit vectors.

use cranelift_codegen::ir::Value;
use ir::leaf::{Carried, Leaf, LeafId, LeafStep, Steps};
use ir::sabotage::{self, Bug};
use ir::{BinaryOp, Dtype, Scalar};

use super::lanes128::{Lanes128, Registers};
use super::leaf::{Done, Emit, LeafEmitter, is_wide};

/// How many groups take their steps together: as many as keep their state in registers, because the
/// steps of one depend on each other and leave most units idle.
pub(super) fn together(leaf: &Leaf) -> usize {
    let mut registers = None;
    leaf.for_each_step(&leaf.steps, &mut |step| {
        if let LeafStep::While(steps) = step {
            let wide = |s: &Carried| 1 + usize::from(is_wide(leaf.values[s.current].0));
            let own: usize = steps.state.iter().map(wide).sum();
            registers = registers.max(Some(own + usize::from(steps.masked())));
        }
    });
    match registers {
        None => 1,
        Some(0..=2) => 4,
        Some(3..=6) => 2,
        Some(_) => 1,
    }
}

impl Lanes128<'_, '_> {
    /// Emits the loop and defines its results.
    pub(super) fn run_steps(&mut self, steps: &Steps, done: &mut Done<Registers>) {
        let extent = match &steps.extent {
            Some(extent) => self.e.extent(extent),
            None => self.e.int(i64::MAX),
        };
        let mut values = vec![];
        if steps.masked() {
            let all = match steps.active {
                Some(active) => done.get(active),
                None => self.constant(Scalar::Bool(true)),
            };
            values.push((steps.live, self.one_form(steps.live, all)));
        }
        for s in &steps.state {
            values.push((s.current, self.one_form(s.current, done.get(s.first))));
        }
        let lengths: Vec<(LeafId, usize)> = values.iter().map(|(id, v)| (*id, v.len())).collect();
        let first: Registers = values.into_iter().flat_map(|(_, v)| v).collect();
        let at = self.at;
        let last = self.e.steps(extent, &first, |e, step, current, exit| {
            e.poll();
            e.bind(steps.counter, step);
            define(&lengths, current, done);
            let mut l = Lanes128 { e, at };
            at.leaf.emit_steps(&steps.condition, &mut l, done);
            if let Some(holds) = steps.holds {
                let live = l.binary(BinaryOp::And, Dtype::Bool, &done.get(steps.live), &done.get(holds));
                done.set(steps.live, live);
            }
            if steps.masked() {
                let any = l.any(&done.get(steps.live), true);
                l.e.leave_unless(any, exit, current);
            }
            at.leaf.emit_steps(&steps.body, &mut l, done);
            l.next_state(steps, done)
        });
        define(&lengths, &last, done);
        for s in &steps.state {
            done.set(s.result, done.get(s.current));
        }
    }

    /// The registers that the next step begins with.
    fn next_state(&mut self, steps: &Steps, done: &Done<Registers>) -> Registers {
        let live = steps.masked().then(|| done.get(steps.live));
        let mut all = live.clone().unwrap_or_default();
        for s in &steps.state {
            let dtype = self.at.leaf.values[s.current].0;
            let mut next = self.one_form(s.next, done.get(s.next));
            if let Some(live) = live.as_ref().filter(|_| !sabotage::on(Bug::EndedLane)) {
                next = self.select(dtype, live, &next, &done.get(s.current));
            }
            all.extend(next);
        }
        all
    }
}

/// Defines values as consecutive registers.
fn define(lengths: &[(LeafId, usize)], mut registers: &[Value], done: &mut Done<Registers>) {
    for (id, length) in lengths {
        let (own, rest) = registers.split_at(*length);
        done.set(*id, own.to_vec());
        registers = rest;
    }
}
