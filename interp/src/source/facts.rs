//! Facts about a checked program that evaluation needs: the expressions that a result depends on,
//! the indices that each mentions, and the values worth remembering. Operands come before their
//! users, so two sweeps find everything without recursion.

use std::rc::Rc;

use cranelift_entity::{PrimaryMap, SecondaryMap};
use ir::checked::{Checked, ExprId, Extent, Factor, IndexId, Kind, LoopId};

/// How the values of an expression are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// Not at all: recomputing one is as quick, or nothing asks twice.
    No,
    /// Only the latest: it may be asked for again by another user, or by a loop with an index that
    /// it does not mention.
    Latest,
    /// As many as there is room for: reductions and elements of arrays.
    Many,
}

/// The facts about an expression.
struct Fact {
    /// Its free indices, ascending.
    free: Rc<[IndexId]>,
    keep: Keep,
    reached: bool,
}

/// The facts about a checked program.
pub(super) struct Facts {
    exprs: PrimaryMap<ExprId, Fact>,
    /// The parts of the state of each loop that a result may depend on.
    needed: PrimaryMap<LoopId, Vec<usize>>,
}

impl Facts {
    /// Looks at every expression of a program.
    pub fn new(checked: &Checked) -> Facts {
        let mut free: PrimaryMap<ExprId, Rc<[IndexId]>> = PrimaryMap::new();
        for expr in checked.exprs.values() {
            let mut set: Rc<[IndexId]> = Rc::default();
            checked.for_each_operand(&expr.kind, |operand| union(&mut set, &free[operand]));
            match &expr.kind {
                Kind::Index(index) => mention(&mut set, *index),
                Kind::State { of, .. } => {
                    let one = &checked.loops[*of];
                    one.around.iter().chain([&one.step]).for_each(|i| mention(&mut set, *i));
                }
                Kind::Loop { of, .. } => checked.loops[*of].around.iter().for_each(|i| mention(&mut set, *i)),
                Kind::Reduce { by, .. } => by.iter().filter_map(Factor::key_of).for_each(|of| mention(&mut set, of)),
                Kind::Earlier { recurrence, within, .. } => {
                    let recurrence = &checked.recurrences[*recurrence];
                    let mentioned = recurrence.free.iter().copied().chain(recurrence.deciding(*within));
                    mentioned.for_each(|index| mention(&mut set, index));
                }
                _ => {}
            }
            let bound = checked.bound(&expr.kind);
            for index in bound.clone() {
                if let Extent::Affine(extent) = &checked.indices[index].extent {
                    extent.terms().iter().for_each(|(i, _)| mention(&mut set, *i));
                }
            }
            let binds = |i: &IndexId| bound.clone().any(|b| b == *i);
            if set.iter().any(binds) {
                set = set.iter().copied().filter(|i| !binds(i)).collect();
            }
            free.push(set);
        }
        // For each expression: the number of its users, and whether it is asked for again while
        // only other indices change.
        let mut users: SecondaryMap<ExprId, u32> = SecondaryMap::new();
        let mut repeated: SecondaryMap<ExprId, bool> = SecondaryMap::new();
        for (_, result) in &checked.results {
            users[*result] += 1;
        }
        for (id, expr) in checked.exprs.iter().rev() {
            if users[id] == 0 {
                continue;
            }
            let again = users[id] > 1 || repeated[id];
            let bound = checked.bound(&expr.kind);
            checked.for_each_operand(&expr.kind, |operand| {
                users[operand] = users[operand].saturating_add(1);
                repeated[operand] |= match &expr.kind {
                    // These remember nothing themselves.
                    Kind::Reshape(_) | Kind::ArrayLiteral(_) => again,
                    _ if bound.clone().next().is_some() => bound.clone().any(|i| !free[operand].contains(&i)),
                    _ => !checked.exprs[operand].ty.is_scalar() || free[operand] != free[id],
                };
            });
        }
        let mut exprs = PrimaryMap::new();
        for (id, free) in free {
            let again = users[id] > 1 || repeated[id];
            let keep = match &checked.exprs[id].kind {
                Kind::Constant(_) | Kind::Size(_) | Kind::Index(_) | Kind::Param(_) | Kind::Earlier { .. } => Keep::No,
                // The loop remembers them.
                Kind::State { .. } | Kind::Loop { .. } => Keep::No,
                // Their elements are expressions of their own.
                Kind::Reshape(_) | Kind::ArrayLiteral(_) => Keep::No,
                Kind::Reduce { .. } | Kind::Contract { .. } | Kind::Sort { .. } | Kind::Recurrence { .. } => Keep::Many,
                Kind::Comprehension { .. } if again => Keep::Many,
                _ if again => Keep::Latest,
                _ => Keep::No,
            };
            exprs.push(Fact { free, keep, reached: users[id] > 0 });
        }
        let mut needed = PrimaryMap::new();
        for of in checked.loops.keys() {
            needed.push(checked.needed_states(of, |id| users[id] > 0));
        }
        Facts { exprs, needed }
    }

    /// The free indices of an expression (those that it mentions but does not bind), ascending.
    pub fn free(&self, expr: ExprId) -> &Rc<[IndexId]> {
        &self.exprs[expr].free
    }

    /// How its values are remembered.
    pub fn keep(&self, expr: ExprId) -> Keep {
        self.exprs[expr].keep
    }

    /// The parts of the state of a loop that a result may depend on.
    pub fn needed(&self, of: LoopId) -> &[usize] {
        &self.needed[of]
    }

    /// Whether a result may depend on it.
    pub fn reached(&self, expr: ExprId) -> bool {
        self.exprs[expr].reached
    }
}

fn union(set: &mut Rc<[IndexId]>, more: &Rc<[IndexId]>) {
    if set.iter().all(|i| more.contains(i)) {
        set.clone_from(more);
    } else {
        more.iter().for_each(|i| mention(set, *i));
    }
}

fn mention(set: &mut Rc<[IndexId]>, index: IndexId) {
    if let Err(at) = set.binary_search(&index) {
        let (before, after) = set.split_at(at);
        *set = [before, &[index], after].concat().into();
    }
}
