//! Kernels as the passes see them, and what became of those that were merged before. The plans of a search differ in few merges: each pair
//! of kernels is rewritten and priced once, whichever plans merge it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use ir::decision::Reason;
use ir::nest::{BufferId, Kernel};
use ir::visit;

use super::join::Also;
use crate::analysis::cost::Price;

/// A kernel and what passes ask of it.
#[derive(Debug, Default)]
pub(super) struct Code {
    /// Its number: kernels of one number are the same.
    pub number: u32,
    pub kernel: Kernel,
    pub loads: BTreeSet<BufferId>,
    pub stores: BTreeSet<BufferId>,
    pub price: Price,
}

/// How two kernels become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mechanic {
    /// The first, which gives a buffer element by element, in place of the second's loads.
    Inline,
    /// Their loops made one.
    Weave(Also),
}

/// All that a merge depends on.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Merge {
    first: u32,
    second: u32,
    mechanic: Mechanic,
    /// The temporaries of the two that no other kernel mentions.
    own: Vec<BufferId>,
}

/// The merges that have been tried.
#[derive(Default)]
pub(super) struct Memo {
    merges: RefCell<BTreeMap<Merge, Result<Rc<Code>, Reason>>>,
    kernels: Cell<u32>,
    /// Of the kernels that were rewritten.
    lines: Cell<u64>,
}

impl Memo {
    /// A kernel that is not known yet.
    pub fn enter(&self, kernel: Kernel, price: Price) -> Rc<Code> {
        let number = self.kernels.get();
        self.kernels.set(number + 1);
        let loads = visit::loads(&kernel.body).into_iter().collect();
        let stores = visit::stores(&kernel.body).into_iter().collect();
        Rc::new(Code { number, kernel, loads, stores, price })
    }

    /// The lines of all kernels that were rewritten.
    pub fn lines(&self) -> u64 {
        self.lines.get()
    }

    /// The kernel that two become, or why they do not; `merge` says so if it is not known.
    pub fn merge(
        &self,
        (first, second): (&Code, &Code),
        mechanic: Mechanic,
        own: Vec<BufferId>,
        merge: impl FnOnce() -> Result<(Kernel, Price), Reason>,
    ) -> Result<Rc<Code>, Reason> {
        let key = Merge { first: first.number, second: second.number, mechanic, own };
        if let Some(known) = self.merges.borrow().get(&key) {
            return known.clone();
        }
        self.lines.set(self.lines.get() + first.price.lines + second.price.lines);
        let merged = merge().map(|(kernel, price)| self.enter(kernel, price));
        self.merges.borrow_mut().insert(key, merged.clone());
        merged
    }
}
