//! The tree of kernels: kernels in order, and loops over them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use ir::bind::Binding;
use ir::nest::{BufferId, Carried, KernelId, Node, Program, Repeat, kernels_in};
use ir::{Scalar, visit};

use super::{Contents, KernelTraffic, Machine, Memory, RunError, Sharing, Step, slot};

/// A program at work.
pub(super) struct Run<'p, 'a, F> {
    pub(super) program: &'p Program,
    pub(super) binding: &'a Binding,
    pub(super) memory: Vec<Memory<'a>>,
    pub(super) sharing: Sharing,
    /// The time: see [`Machine::clock`].
    pub(super) clock: u64,
    pub(super) traffic: Vec<KernelTraffic>,
    pub(super) cancelled: &'a AtomicBool,
    /// Runs the body of a kernel.
    pub(super) run_kernel: F,
}

impl<'p, F: FnMut(&mut Machine<'p, '_>, KernelId) -> Step<'p>> Run<'p, '_, F> {
    /// Runs a sequence, or its beginning, to an exit with a condition that does not hold. Returns
    /// whether it ran to the end.
    pub(super) fn nodes(&mut self, nodes: &'p [Node]) -> Result<bool, RunError> {
        for node in nodes {
            match node {
                Node::Kernel(id) => self.kernel(*id)?,
                Node::Repeat(repeat) => self.repeat(repeat)?,
                Node::Exit { unless } => {
                    let memory = &self.memory[slot(*unless)];
                    memory.is_whole(&self.program.buffers[*unless].name)?;
                    if memory.get(0) != Some(Scalar::Bool(true)) {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    fn kernel(&mut self, id: KernelId) -> Result<(), RunError> {
        let Run { program, binding, clock, cancelled, .. } = self;
        // The kernel has the memory while it runs.
        let (memory, sharing) = (std::mem::take(&mut self.memory), std::mem::take(&mut self.sharing));
        let mut machine = Machine::new(program, binding, id, memory, sharing, *clock, cancelled);
        // A kernel in a loop runs many times; its traffic adds up.
        machine.traffic = std::mem::take(&mut self.traffic[slot(id)]);
        let result = (self.run_kernel)(&mut machine, id);
        result.map_err(|stop| machine.explain(stop))?;
        // Time goes on across kernels, so that stores of earlier kernels are in the past.
        self.clock = machine.clock + 1;
        self.traffic[slot(id)] = machine.traffic;
        (self.memory, self.sharing) = (machine.memory, machine.sharing);
        Ok(())
    }

    fn repeat(&mut self, repeat: &'p Repeat) -> Result<(), RunError> {
        let bodies = kernels_in(&repeat.body).into_iter().map(|id| &self.program.kernels[id].body);
        let own: BTreeSet<BufferId> = bodies.flat_map(|body| visit::stores(body)).collect();
        for carried in &repeat.carried {
            self.begin(carried);
            self.sharing.enter(carried);
        }
        for _ in 0..repeat.trips.as_ref().map_or(i64::MAX, |trips| self.binding.number(trips)) {
            if self.cancelled.load(Ordering::Relaxed) {
                return Err(RunError::Cancelled);
            }
            own.iter().for_each(|id| self.memory[slot(*id)].stored.fill(0));
            if !self.nodes(&repeat.body)? {
                break;
            }
            for carried in &repeat.carried {
                self.hand_on(carried)?;
            }
        }
        Ok(())
    }

    /// Ends an iteration.
    fn hand_on(&mut self, carried: &Carried) -> Result<(), RunError> {
        self.memory[slot(carried.next)].is_whole(&self.program.buffers[carried.next].name)?;
        self.memory.swap(slot(carried.current), slot(carried.next));
        self.sharing.exchange(carried);
        Ok(())
    }

    /// Copies what a loop begins with.
    fn begin(&mut self, carried: &Carried) {
        for element in 0..self.memory[slot(carried.current)].stored.len() {
            let from = &self.memory[slot(carried.initial)];
            // The caller's arrays and the program's constants were there from the beginning.
            let (value, time) = (from.get(element), from.stored.get(element).copied().unwrap_or(1));
            let to = &mut self.memory[slot(carried.current)];
            if let (Some(value), Contents::Own(array)) = (value, &mut to.contents) {
                array.set(element, value);
                to.stored[element] = time;
            }
        }
    }
}
