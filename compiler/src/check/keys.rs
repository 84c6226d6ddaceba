//! Reductions by key: `sum[i where label[i] == c](x[i])` for each value of an index `c` from
//! outside.
//! They are found when all ends and guards are known.

use ir::checked::{Checked, ExprId, Factor, GuardId, IndexId, Kind, Loop};
use ir::nest::is_length;
use ir::{BinaryOp, CompareOp, Dtype, ReduceOp, Scalar, Size};

use super::arena::Arena;

/// Makes a reduction one by key: an element takes part where the condition holds, and a factor of
/// that compares an integer with an index bound outside.
pub(super) fn by_key(arena: &mut Arena, id: ExprId) -> Option<()> {
    let out = &arena.out;
    let Kind::Reduce { op: ReduceOp::Monoid(_), over, body, prefix: None, .. } = &out.exprs[id].kind else {
        return None;
    };
    let Kind::If { condition, then, .. } = out.exprs[*body].kind else { return None };
    // The results of all keys are computed at once, before the array is complete.
    if arena.reads_earlier(id) {
        return None;
    }
    let length = |i: &IndexId| out.indices[*i].extent.as_size();
    // The product of two negative extents would be a positive number of elements.
    let counts = |size: &Size| over.len() == 1 || is_length(&out.symbols, size);
    let in_box = over.iter().all(|i| length(i).is_some_and(counts));
    let is_open = |of: ExprId| runs_kernels(arena, out.exprs[of].guard, arena.free(id));
    if !in_box || !is_open(id) || !arena.free(id).iter().all(|i| length(i).is_some()) {
        return None;
    }
    let mut factors = vec![];
    conjuncts(arena, condition, &mut factors);
    let mut keys: Vec<IndexId> = vec![];
    let mut by: Vec<Factor> = vec![];
    for factor in factors {
        let is_new = |of: &IndexId| !keys.contains(of) && out.steps[*of].is_none();
        by.push(match key(arena, factor, over).filter(|(of, _)| is_new(of)) {
            Some((of, key)) => {
                keys.push(of);
                Factor::Key { of, key }
            }
            None => Factor::Holds(factor),
        });
    }
    // A condition that mentions the index of a key comes after that key. No key mentions another.
    let mentions = |factor: &Factor| arena.free(factor.expr()).iter().any(|i| keys.contains(i));
    let (late, early): (Vec<Factor>, Vec<Factor>) = by.into_iter().partition(mentions);
    let moved = late.iter().any(|factor| factor.key_of().is_some());
    let guarded = early.iter().any(|factor| !is_open(factor.expr()));
    if keys.is_empty() || moved || (guarded && !late.is_empty()) {
        return None;
    }
    let factors = [early, late].concat();
    if let Kind::Reduce { body, by, .. } = &mut arena.out.exprs[id].kind {
        *body = then;
        *by = factors;
    }
    Some(())
}

/// Whether no branch is around a place but steps of loops that run kernels, however they end: such
/// a loop has the same steps for all indices. Code that does not mention its steps is no kernel of
/// one.
fn runs_kernels(arena: &Arena, guard: GuardId, free: &[IndexId]) -> bool {
    let is_step = |index: &IndexId| arena.out.steps[*index].is_some();
    let by_kernels = |one: &Loop| one.guard == guard && free.contains(&one.step) && one.around.iter().all(is_step);
    guard == Checked::TOP
        || arena.out.loops.values().any(by_kernels) && runs_kernels(arena, arena.out.guards[guard], free)
}

/// The factors of a conjunction, in order.
fn conjuncts(arena: &Arena, id: ExprId, factors: &mut Vec<ExprId>) {
    match &arena.out.exprs[id].kind {
        Kind::Binary(BinaryOp::And, a, b) => [*a, *b].into_iter().for_each(|part| conjuncts(arena, part, factors)),
        Kind::If { condition, then, otherwise }
            if matches!(arena.out.exprs[*otherwise].kind, Kind::Constant(Scalar::Bool(false))) =>
        {
            [*condition, *then].into_iter().for_each(|part| conjuncts(arena, part, factors));
        }
        _ => factors.push(id),
    }
}

/// The index and the key of a factor that says that an expression of the reduced indices equals an
/// index bound outside.
fn key(arena: &Arena, factor: ExprId, over: &[IndexId]) -> Option<(IndexId, ExprId)> {
    let exprs = &arena.out.exprs;
    // The numbers are compared in a type that has both.
    let plain = |id: ExprId| match exprs[id].kind {
        Kind::Cast(a) if matches!(exprs[id].ty.dtype, Dtype::I64 | Dtype::U64) && exprs[a].ty.dtype.is_int() => a,
        _ => id,
    };
    let Kind::Compare(CompareOp::Eq, a, b) = exprs[factor].kind else { return None };
    let [a, b] = [a, b].map(plain);
    [(a, b), (b, a)].into_iter().find_map(|(index, key)| {
        let Kind::Index(of) = exprs[index].kind else { return None };
        let free = arena.free(key);
        let is_key = !over.contains(&of) && !free.contains(&of) && free.iter().any(|i| over.contains(i));
        (is_key && exprs[key].ty.dtype.is_int()).then_some((of, key))
    })
}
