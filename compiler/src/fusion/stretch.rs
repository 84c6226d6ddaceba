//! Stretches of the tree of kernels: kernels between which no loop over kernels begins or ends.
//! Fusion stays within them, because a kernel runs as often as its stretch.

use cranelift_entity::{EntitySet, PrimaryMap, SecondaryMap};
use ir::nest::{BufferId, Kernel, KernelId, Node, Program, replace_kernels};

/// The stretches of a program.
#[derive(Default)]
pub(super) struct Stretches {
    /// The number of each operation's stretch, in text order.
    of: SecondaryMap<KernelId, u32>,
    /// The buffers that loops over kernels carry, which must be stored in any case.
    carried: EntitySet<BufferId>,
}

impl Stretches {
    /// The stretches of an unfused program.
    pub(super) fn new(unfused: &Program) -> Stretches {
        let mut stretches = Stretches::default();
        stretches.add(&unfused.body, &mut 0);
        stretches.carried.extend(unfused.carried().flat_map(|carried| carried.buffers()));
        stretches
    }

    fn add(&mut self, nodes: &[Node], number: &mut u32) {
        for node in nodes {
            match node {
                Node::Kernel(id) => self.of[*id] = *number,
                Node::Repeat(repeat) => {
                    *number += 1;
                    self.add(&repeat.body, number);
                    *number += 1;
                }
            }
        }
    }

    /// Whether two operations are in one stretch.
    pub(super) fn have_both(&self, first: KernelId, second: KernelId) -> bool {
        self.of[first] == self.of[second]
    }

    /// Whether a loop over kernels carries a buffer.
    pub(super) fn carry(&self, buffer: BufferId) -> bool {
        self.carried.contains(buffer)
    }

    /// Puts kernels, each with an operation that it computes, in place of the operations of an
    /// unfused program.
    pub(super) fn fill(&self, program: &mut Program, kernels: impl Iterator<Item = (KernelId, Kernel)>) {
        let (mut kernels, mut placed) = (kernels.peekable(), PrimaryMap::new());
        program.body = replace_kernels(&program.body, &mut |operation| {
            let here = |(member, _): &(KernelId, Kernel)| self.have_both(*member, operation);
            let kernels = std::iter::from_fn(|| kernels.next_if(here));
            kernels.map(|(_, kernel)| placed.push(kernel)).collect()
        });
        program.kernels = placed;
    }
}
