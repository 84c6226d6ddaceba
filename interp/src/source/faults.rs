//! Decides which faults a program can end in. It tries each checked access at every setting of the
//! indices that its subscript mentions, under the conditions of the enclosing `if`s. A subscript or
//! condition that itself ends in another fault counts as any value.

use std::collections::BTreeMap;

use ir::Scalar;
use ir::bind::Fault;
use ir::checked::{Checked, ExprId, Extent, GuardId, IndexId, Kind};
use ir::nest::CheckKind;

use super::facts::Facts;
use super::machine::{Machine, advance};

/// A condition and the value that it must have.
type Condition = (ExprId, bool);

/// Whether the program can end in this fault.
pub(super) fn may_fault(checked: &Checked, facts: &Facts, mut machine: Machine<'_>, fault: Fault) -> bool {
    let conditions = conditions(checked, facts);
    // An error does not say how many elements an empty range is short of one.
    let is_count = checked.sites.get(fault.site).is_some_and(|site| matches!(site.what, CheckKind::Elements(_)));
    for (_, expr) in checked.exprs.iter().filter(|(id, _)| facts.reached(*id)) {
        let Kind::Access { array, at } = &expr.kind else { continue };
        for (axis, subscript) in at.iter().enumerate().filter(|(_, s)| s.check == Some(fault.site)) {
            if machine.shape(*array)[axis] != fault.bound {
                continue;
            }
            let mut around = vec![];
            let mut guard = expr.guard;
            while guard != Checked::TOP {
                around.extend(conditions.get(&guard).into_iter().flatten().copied());
                guard = checked.guards[guard];
            }
            let mentioned = around.iter().map(|(condition, _)| *condition).chain([subscript.value]);
            let mut indices = vec![];
            mentioned.for_each(|id| facts.free(id).iter().for_each(|i| close(checked, facts, *i, &mut indices)));
            let mut found = false;
            each(&mut machine, &indices, &mut |machine| {
                // An engine may compute a value that would itself fault without noticing
                // (`clamp(v, 1, 1)` is 1), so it counts as any value.
                let holds = |(condition, wanted): &Condition, machine: &mut Machine<'_>| {
                    machine.value(*condition).map_or(true, |value| value == Scalar::Bool(*wanted))
                };
                let here = around.iter().rev().all(|condition| holds(condition, machine));
                let is_it = |index| index == fault.index || is_count && index < 0;
                found = here && machine.integer(subscript.value).map_or(true, is_it);
                !found
            });
            if found {
                return true;
            }
        }
    }
    false
}

/// The conditions under which each guard's branch is taken.
fn conditions(checked: &Checked, facts: &Facts) -> BTreeMap<GuardId, Vec<Condition>> {
    let mut found: BTreeMap<GuardId, Vec<Condition>> = BTreeMap::new();
    for (_, expr) in checked.exprs.iter().filter(|(id, _)| facts.reached(*id)) {
        let Kind::If { condition, then, otherwise } = expr.kind else { continue };
        for (branch, wanted) in [(then, true), (otherwise, false)] {
            let guard = checked.exprs[branch].guard;
            if guard != expr.guard && checked.within(guard, expr.guard) {
                found.entry(guard).or_default().push((condition, wanted));
            }
        }
    }
    found
}

/// Adds an index, after those that its extent mentions.
fn close(checked: &Checked, facts: &Facts, index: IndexId, all: &mut Vec<IndexId>) {
    if all.contains(&index) {
        return;
    }
    match &checked.indices[index].extent {
        Extent::Affine(extent) => extent.terms().iter().for_each(|(i, _)| close(checked, facts, *i, all)),
        Extent::Dynamic(extent) => facts.free(*extent).iter().for_each(|i| close(checked, facts, *i, all)),
    }
    all.push(index);
}

/// Calls `visit` at every setting of the indices until it asks to stop. Returns whether all were
/// visited.
fn each(machine: &mut Machine<'_>, indices: &[IndexId], visit: &mut dyn FnMut(&mut Machine<'_>) -> bool) -> bool {
    let Some((first, rest)) = indices.split_first() else { return visit(machine) };
    // If the extent itself cannot be computed, nothing runs.
    let extent = machine.extent(*first).unwrap_or(0);
    let mut at = [0];
    let mut left = extent > 0;
    while left {
        machine.set(*first, at[0]);
        if !each(machine, rest, visit) {
            return false;
        }
        left = advance(&mut at, &[extent]);
    }
    true
}
