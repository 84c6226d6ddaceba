//! The tree of kernels: kernels that run one after another, and loops over them with carried
//! buffers and exits.

use cranelift_entity::SecondaryMap;

use super::{BufferId, Kernel, KernelId, Program};
use crate::Size;

/// A node of the tree. Nodes of a sequence run one after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// Runs a kernel.
    Kernel(KernelId),
    /// Runs a sequence several times.
    Repeat(Repeat),
    /// Ends the loop around it, without handing anything on, unless a condition holds.
    Exit {
        /// The condition: a `bool` without axes.
        unless: BufferId,
    },
}

/// A loop over kernels. Only carried buffers pass data from one iteration to the next: everything
/// else that the body stores is a temporary that is mentioned nowhere outside and begins each
/// iteration without contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// The number of iterations, unless an exit ends the loop earlier; a number below 1 means none.
    /// Without it, only an exit ends the loop.
    pub trips: Option<Size>,
    /// The buffers that iterations hand on, all at once at the end of an iteration.
    pub carried: Vec<Carried>,
    /// The sequence to repeat.
    pub body: Vec<Node>,
}

/// A buffer that iterations of a [`Repeat`] hand on: three buffers of one type and shape. No engine
/// copies elements from one to another: they are names for memory that changes hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// Its contents as the loop begins.
    pub initial: BufferId,
    /// A temporary that no kernel stores to. In the first iteration it is `initial`, in each other
    /// one it is what the iteration before has stored to `next`. After the loop it is what the last
    /// iteration has stored there, or `initial` if there was none.
    pub current: BufferId,
    /// A temporary that a kernel of the body (of no loop inside it) stores, all of it in each
    /// iteration.
    pub next: BufferId,
}

impl Carried {
    /// The three buffers.
    pub fn buffers(&self) -> [BufferId; 3] {
        [self.initial, self.current, self.next]
    }
}

impl Program {
    /// Adds a kernel that runs after all others.
    pub fn push_kernel(&mut self, kernel: Kernel) -> KernelId {
        let id = self.kernels.push(kernel);
        self.body.push(Node::Kernel(id));
        id
    }

    /// The loops over kernels in text order, each before those inside it.
    pub fn repeats(&self) -> Vec<&Repeat> {
        repeats_in(&self.body)
    }

    /// The loops over kernels around each kernel, the outermost first.
    pub fn around(&self) -> SecondaryMap<KernelId, Vec<&Repeat>> {
        fn collect<'p>(nodes: &'p [Node], around: &[&'p Repeat], found: &mut SecondaryMap<KernelId, Vec<&'p Repeat>>) {
            for node in nodes {
                match node {
                    Node::Kernel(id) => found[*id] = around.to_vec(),
                    Node::Repeat(repeat) => collect(&repeat.body, &[around, &[repeat]].concat(), found),
                    Node::Exit { .. } => {}
                }
            }
        }
        let mut found = SecondaryMap::new();
        collect(&self.body, &[], &mut found);
        found
    }

    /// The numbers of iterations of the loops over kernels around each kernel, the outermost first.
    /// A kernel runs as often as their product says, and less often if an exit ends one of the
    /// loops. A loop without a number counts as one iteration.
    pub fn trips(&self) -> SecondaryMap<KernelId, Vec<&Size>> {
        let mut found = SecondaryMap::new();
        for (id, around) in self.around().iter() {
            found[id] = around.iter().filter_map(|repeat| repeat.trips.as_ref()).collect();
        }
        found
    }

    /// The carried buffers of all loops over kernels, in text order.
    pub fn carried(&self) -> impl Iterator<Item = &Carried> {
        self.repeats().into_iter().flat_map(|repeat| &repeat.carried)
    }

    /// The buffers that the tree mentions: those that loops carry, and the conditions of exits.
    pub fn in_tree(&self) -> impl Iterator<Item = BufferId> {
        let each = |repeat: &Repeat| {
            let carried = repeat.carried.iter().flat_map(Carried::buffers);
            carried.chain(repeat.conditions()).collect::<Vec<_>>()
        };
        self.repeats().into_iter().flat_map(each)
    }
}

impl Repeat {
    /// The conditions of the exits of this loop, and of no loop inside it.
    pub fn conditions(&self) -> impl Iterator<Item = BufferId> {
        self.body.iter().filter_map(|node| if let Node::Exit { unless } = node { Some(*unless) } else { None })
    }
}

/// The kernels of a sequence and of the loops inside it, in text order.
pub fn kernels_in(nodes: &[Node]) -> Vec<KernelId> {
    let mut found = vec![];
    for node in nodes {
        match node {
            Node::Kernel(id) => found.push(*id),
            Node::Repeat(repeat) => found.extend(kernels_in(&repeat.body)),
            Node::Exit { .. } => {}
        }
    }
    found
}

/// The loops over kernels in a sequence, outer ones first.
pub fn repeats_in(nodes: &[Node]) -> Vec<&Repeat> {
    let mut found = vec![];
    for node in nodes {
        if let Node::Repeat(repeat) = node {
            found.push(repeat);
            found.extend(repeats_in(&repeat.body));
        }
    }
    found
}

/// The same tree with other kernels in place of each one.
#[must_use]
pub fn replace_kernels(nodes: &[Node], by: &mut impl FnMut(KernelId) -> Vec<KernelId>) -> Vec<Node> {
    let mut replaced = vec![];
    for node in nodes {
        match node {
            Node::Kernel(id) => replaced.extend(by(*id).into_iter().map(Node::Kernel)),
            Node::Repeat(repeat) => {
                let body = replace_kernels(&repeat.body, by);
                replaced.push(Node::Repeat(Repeat { body, ..repeat.clone() }));
            }
            Node::Exit { .. } => replaced.push(node.clone()),
        }
    }
    replaced
}
