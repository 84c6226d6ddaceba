//! Stretches of the tree of kernels: kernels between which no loop over kernels begins or ends, nor
//! may end.
//! Fusion stays within them, because a kernel runs as often as its stretch.

use cranelift_entity::{EntitySet, PrimaryMap, SecondaryMap};
use ir::nest::{BufferId, Kernel, KernelId, Node, Program, replace_kernels};

use crate::analysis::cost::{iterations, nominal};

/// The stretches of a program.
#[derive(Default)]
pub(crate) struct Stretches {
    /// The number of each operation's stretch, in text order.
    of: SecondaryMap<KernelId, usize>,
    /// How often the kernels of each stretch run, with each size at its nominal value.
    runs: Vec<f64>,
    /// The buffers that loops over kernels carry or end by, which must be stored in any case.
    in_tree: EntitySet<BufferId>,
}

impl Stretches {
    /// The stretches of an unfused program.
    pub(crate) fn new(unfused: &Program) -> Stretches {
        let mut stretches = Stretches::default();
        stretches.add(&unfused.body, 1.0);
        stretches.in_tree.extend(unfused.in_tree());
        stretches
    }

    fn add(&mut self, nodes: &[Node], runs: f64) {
        let of_kernel = |node: &Node| if let Node::Kernel(id) = node { Some(*id) } else { None };
        for nodes in nodes.chunk_by(|a, b| of_kernel(a).is_some() && of_kernel(b).is_some()) {
            match nodes {
                [Node::Repeat(repeat)] => self.add(&repeat.body, runs * iterations(repeat, &nominal)),
                _ => {
                    nodes.iter().filter_map(of_kernel).for_each(|id| self.of[id] = self.runs.len());
                    self.runs.push(runs);
                }
            }
        }
    }

    /// How often an operation runs, with each size at its nominal value.
    pub(super) fn runs(&self, operation: KernelId) -> f64 {
        self.runs[self.of[operation]]
    }

    /// Whether two operations are in one stretch.
    pub(crate) fn have_both(&self, first: KernelId, second: KernelId) -> bool {
        self.of[first] == self.of[second]
    }

    /// Whether a loop over kernels carries a buffer or ends by it.
    pub(super) fn mention(&self, buffer: BufferId) -> bool {
        self.in_tree.contains(buffer)
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
