//! Runs the tree of kernels: kernels in order, and loops over them. Each buffer that a loop carries
//! has the memory of two temporaries, which are exchanged after every iteration: only addresses
//! move.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cranelift_codegen::entity::EntityRef;
use ir::bind::Binding;
use ir::nest::{Carried, Node, Program, Repeat};
use ir::sched::time_tiles::TimeTiles;

use super::compile::CompiledKernel;
use super::distribute::{Address, Extents, Next, Task};
use super::memory::Pool;
use super::options::Options;
use crate::error::RunError;

/// An observer of a run.
#[derive(Default)]
pub(super) struct Watch<'w> {
    /// Accumulates the duration of each kernel.
    pub(super) times: Option<&'w mut [Duration]>,
    /// Set if the results are no longer wanted.
    pub(super) cancelled: Option<&'w AtomicBool>,
}

impl Watch<'_> {
    /// Whether the results are no longer wanted.
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.is_some_and(|cancelled| cancelled.load(Ordering::Relaxed))
    }
}

/// The kernels of a run, and what they work on.
pub(super) struct Steps<'r, 'w> {
    pub(super) program: &'r Program,
    /// Its loops that may run in time tiles.
    pub(super) time_tiles: &'r [TimeTiles],
    /// The table of sizes for kernels in time tiles.
    pub(super) near: &'r [i64],
    pub(super) kernels: &'r [CompiledKernel],
    /// The properties of each kernel at the sizes of the call.
    pub(super) extents: &'r [Extents],
    pub(super) binding: &'r Binding,
    pub(super) sizes: &'r [i64],
    /// The memory of each buffer, as kernels find it.
    pub(super) addresses: &'r mut [Address],
    /// The memory of each temporary that a loop over kernels carries, by its number.
    pub(super) initial_addresses: &'r [Address],
    pub(super) scratch: Address,
    /// Memory for the stretches of threads.
    pub(super) next: &'r mut Vec<Next>,
    pub(super) memory: &'r Pool,
    pub(super) options: &'r Options,
    pub(super) threads: usize,
    pub(super) watch: Watch<'w>,
}

impl Steps<'_, '_> {
    /// Runs a sequence, or its beginning, to an exit with a condition that does not hold. Returns
    /// whether it ran to the end. It is inlined, as a kernel is, for the sake of calls on a few
    /// elements.
    #[inline]
    pub(super) fn sequence(&mut self, nodes: &[Node]) -> Result<bool, RunError> {
        for node in nodes {
            match node {
                Node::Kernel(id) => self.kernel(id.index())?,
                Node::Repeat(repeat) => self.repeat(repeat)?,
                Node::Exit { unless } => {
                    // SAFETY: an exit's condition is a `bool` without axes (`ir::verify`), so the
                    // buffer has a byte; it has contents, because it is an input, a constant, or
                    // stored by a kernel that has run. No kernel runs now.
                    if unsafe { *self.addresses[unless.index()].0 } == 0 {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    #[inline]
    fn kernel(&mut self, number: usize) -> Result<(), RunError> {
        let kernel = &self.kernels[number];
        let start = self.watch.times.is_some().then(Instant::now);
        let task = Task {
            kernel,
            extents: &self.extents[number],
            addresses: self.addresses,
            sizes: self.sizes,
            scratch: self.scratch,
            memory: self.memory,
            cancelled: self.watch.cancelled,
        };
        task.run(self.options, self.threads, self.next).map_err(RunError::Fault)?;
        if self.watch.is_cancelled() {
            return Err(RunError::Cancelled);
        }
        let times: Option<&mut [Duration]> = self.watch.times.as_deref_mut();
        if let (Some(times), Some(start)) = (times, start)
            && let Some(time) = times.get_mut(kernel.part_of.index())
        {
            *time += start.elapsed();
        }
        Ok(())
    }

    #[inline(never)]
    fn repeat(&mut self, repeat: &Repeat) -> Result<(), RunError> {
        if self.in_time_tiles(repeat)? {
            return Ok(());
        }
        let trips = repeat.trips.as_ref().map_or(i64::MAX, |trips| self.binding.number(trips));
        self.exchange(repeat, 0);
        for trip in 0..trips {
            if !self.sequence(&repeat.body)? {
                break;
            }
            self.exchange(repeat, trip.saturating_add(1));
        }
        Ok(())
    }

    /// Gives the buffers that a loop carries the memory that they have in an iteration.
    pub(super) fn exchange(&mut self, repeat: &Repeat, trip: i64) {
        for carried in &repeat.carried {
            let [current, next] = self.carried_in(carried, trip);
            self.addresses[carried.current.index()] = current;
            self.addresses[carried.next.index()] = next;
        }
    }

    /// The memory of `current` and of `next` in an iteration: each reads what the one before it has
    /// stored, and stores in the other memory of the two.
    pub(super) fn carried_in(&self, carried: &Carried, trip: i64) -> [Address; 2] {
        let own = [carried.current, carried.next].map(|id| self.initial_addresses[id.index()]);
        match trip {
            0 => [self.addresses[carried.initial.index()], own[1]],
            _ if trip % 2 == 1 => [own[1], own[0]],
            _ => own,
        }
    }
}
