//! Kernels as the passes see them, and the results of earlier merges. The plans of a search differ
//! in few merges, so each pair of kernels is rewritten and priced only once, whichever plans merge
//! it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use ir::Origin;
use ir::decision::Reason;
use ir::nest::{BufferId, Kernel};
use ir::visit;

use super::fuse_loops::Also;
use crate::analysis::cost::Price;

/// A kernel and what passes ask of it.
#[derive(Debug, Default)]
pub(super) struct Code {
    /// Its number; kernels with the same number are equivalent.
    pub number: u32,
    pub kernel: Kernel,
    pub loads: BTreeSet<BufferId>,
    pub stores: BTreeSet<BufferId>,
    pub price: Price,
}

/// How two kernels are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mechanism {
    /// Substitutes the first kernel, which computes a buffer element by element, for the second's
    /// loads.
    Inline,
    /// Fuses their loops.
    FuseLoops(Also),
}

/// All that a merge depends on.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Merge {
    first: u32,
    second: u32,
    mechanism: Mechanism,
    /// The temporaries of the two that no other kernel mentions.
    own: Vec<BufferId>,
}

/// The features that equivalent kernels share: they compute the same operations, move the same
/// buffers and cost the same. Two ways of merging often differ only in the order of statements.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Alike {
    origins: Vec<Origin>,
    loads: BTreeSet<BufferId>,
    stores: BTreeSet<BufferId>,
    price: [u64; 8],
}

/// The merges that have been tried.
#[derive(Default)]
pub(super) struct Memo {
    merges: RefCell<BTreeMap<Merge, Result<Rc<Code>, Reason>>>,
    kernels: RefCell<BTreeMap<Alike, Rc<Code>>>,
    /// Of the kernels that were rewritten.
    lines: Cell<u64>,
}

impl Memo {
    /// A kernel, or a known one that is equivalent.
    pub fn enter(&self, kernel: Kernel, price: Price) -> Rc<Code> {
        let loads: BTreeSet<BufferId> = visit::loads(&kernel.body).into_iter().collect();
        let stores: BTreeSet<BufferId> = visit::stores(&kernel.body).into_iter().collect();
        let origins = kernel.origins.clone();
        let alike = Alike { origins, loads: loads.clone(), stores: stores.clone(), price: price.bits() };
        let mut kernels = self.kernels.borrow_mut();
        let number = u32::try_from(kernels.len()).unwrap_or(u32::MAX);
        kernels.entry(alike).or_insert_with(|| Rc::new(Code { number, kernel, loads, stores, price })).clone()
    }

    /// The lines of all kernels that were rewritten.
    pub fn lines(&self) -> u64 {
        self.lines.get()
    }

    /// The kernel that two are merged to, or the reason why they are not; `merge` determines it if
    /// it is not known.
    pub fn merge(
        &self,
        (first, second): (&Code, &Code),
        mechanism: Mechanism,
        own: Vec<BufferId>,
        merge: impl FnOnce() -> Result<(Kernel, Price), Reason>,
    ) -> Result<Rc<Code>, Reason> {
        let key = Merge { first: first.number, second: second.number, mechanism, own };
        if let Some(known) = self.merges.borrow().get(&key) {
            return known.clone();
        }
        self.lines.set(self.lines.get() + first.price.lines + second.price.lines);
        let merged = merge().map(|(kernel, price)| self.enter(kernel, price));
        self.merges.borrow_mut().insert(key, merged.clone());
        merged
    }
}
