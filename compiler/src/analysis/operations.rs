//! The number of scalar operations that a kernel executes, as a polynomial in the size names; see
//! [`traffic`](super::traffic).
//!
//! The more expensive branch of an `if` counts, or the sum of both if neither is known to be more
//! expensive. The body of a contraction's factor counts once for each element of that factor,
//! because tiles are packed and then used many times.

use cranelift_entity::SecondaryMap;
use ir::Size;
use ir::nest::{
    Block, Contraction, Extent, FunctionId, IndexId, Kernel, Loop, LoopKind, Op, Program, Prologue, Statement, While,
};

use super::accesses::{Accesses, ScopeId};
use super::traffic::{Count, trips};
use super::work;

/// The scalar operations of a kernel.
pub(super) fn of(program: &Program, kernel: &Kernel, accesses: &Accesses<'_>) -> Count<Size> {
    let mut inside: SecondaryMap<ScopeId, Vec<ScopeId>> = SecondaryMap::new();
    // In reverse, so that popping yields them in text order.
    for (id, scope) in accesses.scopes.iter().rev() {
        if let Some(parent) = scope.parent {
            inside[parent].push(id);
        }
    }
    let mut walk = Walk { accesses, inside, calls: Calls::new(program), uneven: 0 };
    walk.block(&kernel.body, ScopeId::from_u32(0), &[])
}

/// The operations of single statements, including calls of functions.
pub(super) struct Calls<'p> {
    program: &'p Program,
    known: SecondaryMap<FunctionId, Option<u64>>,
}

impl<'p> Calls<'p> {
    pub fn new(program: &'p Program) -> Calls<'p> {
        Calls { program, known: SecondaryMap::new() }
    }

    /// The number of operations of `op`.
    pub fn of(&mut self, op: &Op) -> u64 {
        let Op::Call(id, _) = op else { return work::operations(op) };
        *self.known[*id].get_or_insert_with(|| work::function(&self.program.functions[*id]).executed as u64)
    }
}

/// The free indices of a contraction that a factor does not depend on.
pub(super) fn independent_indices(c: &Contraction, side: &Prologue) -> Vec<IndexId> {
    let own = ir::visit::free_indices(&side.body);
    c.free.iter().map(|(index, _)| *index).filter(|index| !own.contains(index)).collect()
}

struct Walk<'k, 'p> {
    accesses: &'k Accesses<'k>,
    /// For each block, the inner blocks still to visit, the next one last.
    inside: SecondaryMap<ScopeId, Vec<ScopeId>>,
    calls: Calls<'p>,
    /// The statements so far with a number of operations that depends on data or conditions.
    uneven: usize,
}

impl Walk<'_, '_> {
    fn enter(&mut self, scope: ScopeId) -> ScopeId {
        self.inside[scope].pop().unwrap_or(scope)
    }

    /// The operations of a block. It does not iterate over the indices `apart`, even inside of
    /// loops that bind them.
    fn block(&mut self, block: &Block, scope: ScopeId, apart: &[IndexId]) -> Count<Size> {
        let mut own = 0u64;
        let mut inner = Count::exactly(Size::default());
        for statement in block {
            let more = match statement {
                Statement::Let { op, .. } => {
                    own = own.saturating_add(self.calls.of(op));
                    continue;
                }
                Statement::Store { .. } => continue,
                Statement::Scatter { .. } => {
                    own = own.saturating_add(1);
                    continue;
                }
                Statement::If { then, otherwise, .. } => {
                    let uneven = self.uneven;
                    let [first, second] = [then, otherwise].map(|block| {
                        let branch = self.enter(scope);
                        self.block(block, branch, apart)
                    });
                    let same = first.elements == second.elements && self.uneven == uneven;
                    self.uneven += usize::from(!same);
                    let exact = same && trips(self.accesses, scope, apart).exact;
                    if exact { Count { exact, ..first } } else { costlier(first, second) }
                }
                Statement::Loop(l) => self.loop_(l, scope, apart),
                Statement::While(w) => self.while_(w, scope, apart),
                Statement::Contract(c) => self.contract(c, scope, apart),
            };
            inner = inner.plus(&more);
        }
        if own > 0 { inner.plus(&trips(self.accesses, scope, apart).times(own)) } else { inner }
    }

    fn loop_(&mut self, l: &Loop, scope: ScopeId, apart: &[IndexId]) -> Count<Size> {
        let scope = self.enter(scope);
        self.uneven += usize::from(l.dims.iter().any(|(_, extent)| matches!(extent, Extent::Value(_))));
        let body = self.block(&l.body, scope, apart);
        match &l.kind {
            LoopKind::Reduce(reductions) => {
                body.plus(&trips(self.accesses, scope, apart).times(reductions.len() as u64))
            }
            LoopKind::Parallel | LoopKind::Serial | LoopKind::Scan | LoopKind::Keyed { .. } | LoopKind::Sort => body,
        }
    }

    fn while_(&mut self, w: &While, scope: ScopeId, apart: &[IndexId]) -> Count<Size> {
        let around = if w.condition.is_some() { self.enter(scope) } else { scope };
        let steps = self.enter(around);
        self.uneven += 1;
        let condition = w.condition.as_ref().map(|condition| self.block(&condition.body, steps, apart));
        let body = self.block(&w.body, steps, apart);
        condition.iter().fold(body, |all, condition| all.plus(condition))
    }

    fn contract(&mut self, c: &Contraction, scope: ScopeId, apart: &[IndexId]) -> Count<Size> {
        let free = self.enter(scope);
        let sum = self.enter(free);
        let mut all = trips(self.accesses, sum, apart).times(work::PRODUCT);
        for side in [&c.left, &c.right] {
            all = all.plus(&self.block(&side.body, sum, &independent_indices(c, side)));
        }
        all.plus(&self.block(&c.epilogue, free, apart))
    }
}

/// The greater of two polynomials, or their sum if neither is known to be greater.
fn costlier(a: Count<Size>, b: Count<Size>) -> Count<Size> {
    let never_less = |a: &Count<Size>, b: &Count<Size>| {
        let difference = a.elements.as_ref().zip(b.elements.as_ref()).map(|(a, b)| a - b);
        difference.is_some_and(|difference| difference.terms().iter().all(|(_, coefficient)| *coefficient >= 0))
    };
    let most = if never_less(&a, &b) {
        a
    } else if never_less(&b, &a) {
        b
    } else {
        a.plus(&b)
    };
    Count { exact: false, ..most }
}
