//! Last steps over a whole function, when all ends and proofs are known.

use grammar::Diagnostic;
use grammar::ast::Span;
use ir::checked::{Checked, ExprId, Extent, Factor, GuardId, IndexId, Kind};
use ir::nest::SymbolSource;
use ir::{BinaryOp, CompareOp, Dtype, ReduceOp, Scalar, Size};

use super::arena::Arena;
use super::codes;
use super::position::require_element;
use super::report::Report;
use super::requirements::Requirements;

/// The nodes with a final form that depends on ends and proofs.
#[derive(Default)]
pub(super) struct Unfinished {
    /// `&&` and `||` as `if`s, each with the branch of its right side: see `expr::short_circuit`.
    pub short_circuits: Vec<(ExprId, GuardId)>,
    /// Reductions that are contractions if all their extents turn out rectangular.
    pub contractions: Vec<ExprId>,
    /// Reductions with a `where`, which are by key if a factor of it says so.
    pub keyed: Vec<ExprId>,
    /// Places of greatest and least elements, with their checks.
    pub positions: Vec<Position>,
    /// Indices that must have a value.
    pub wanted: Vec<Wanted>,
}

/// The place of a greatest or least element, as it was first written out.
pub(super) struct Position {
    /// The sum of the place and the checks.
    pub value: ExprId,
    /// The reduction that gives the place.
    pub reduce: ExprId,
    /// The checks, each an access to an array of zeros.
    pub checks: Vec<ExprId>,
}

/// An index that must have a value, but had no known end when its reducer was written out.
pub(super) struct Wanted {
    /// The reducer.
    pub op: ReduceOp,
    /// The index.
    pub index: IndexId,
    /// Where the reducer stands.
    pub span: Span,
}

impl Unfinished {
    /// Adds later ones.
    pub fn append(&mut self, later: Unfinished) {
        self.short_circuits.extend(later.short_circuits);
        self.contractions.extend(later.contractions);
        self.keyed.extend(later.keyed);
        self.positions.extend(later.positions);
        self.wanted.extend(later.wanted);
    }

    /// Gives every node its final form.
    pub fn finish(self, arena: &mut Arena, requirements: &mut Requirements, report: &mut Report<'_>) {
        self.short_circuits.into_iter().for_each(|(id, guard)| short_circuit(arena, id, guard));
        self.contractions.into_iter().for_each(|id| contraction(arena, id));
        self.positions.into_iter().for_each(|position| without_checks(arena, position));
        for Wanted { op, index, span } in self.wanted {
            let Extent::Affine(extent) = &arena.out.indices[index].extent else { continue };
            let Some(extent) = extent.as_size() else { continue };
            require_element(requirements, report, op, extent, vec![], span);
        }
        // Only branches that protect an access stay.
        let ids: Vec<ExprId> = arena.out.exprs.keys().collect();
        for id in ids {
            arena.out.exprs[id].guard = arena.innermost_needed(arena.out.exprs[id].guard);
        }
        self.keyed.into_iter().for_each(|id| _ = by_key(arena, id));
        alone(arena, report);
    }
}

/// Reports recurrences that cannot be computed on their own, apart from what uses them.
fn alone(arena: &Arena, report: &mut Report<'_>) {
    let rectangular = |i: &IndexId| match &arena.out.indices[*i].extent {
        Extent::Affine(extent) => extent.as_size().is_some(),
        Extent::Dynamic(_) => false,
    };
    for expr in arena.out.exprs.values() {
        let Kind::Recurrence { recurrence, .. } = expr.kind else { continue };
        let outside = &arena.out.recurrences[recurrence].free;
        let message = match outside.iter().find(|index| !rectangular(index)) {
            Some(index) => {
                let index = &arena.out.indices[*index].name;
                format!(
                    "a recurrence cannot depend on the index `{index}`, which ends where data or another index says"
                )
            }
            None if expr.guard != Checked::TOP => {
                "a recurrence cannot depend on the condition around it: its accesses are inside only there".to_owned()
            }
            None => continue,
        };
        let span = Span { start: expr.origin.start, end: expr.origin.end };
        let help = "compute it for all indices, and choose among its elements";
        report.error(Diagnostic::new(codes::NOT_EARLIER, span, message).help(help));
    }
}

/// Makes `&&` or `||` the plain operation where its right side has no access to protect.
fn short_circuit(arena: &mut Arena, id: ExprId, guard: GuardId) {
    let Kind::If { condition, then, otherwise } = arena.out.exprs[id].kind else { return };
    if !arena.is_needed(guard) {
        let and = matches!(arena.out.exprs[otherwise].kind, Kind::Constant(Scalar::Bool(false)));
        let (op, right) = if and { (BinaryOp::And, then) } else { (BinaryOp::Or, otherwise) };
        arena.out.exprs[id].kind = Kind::Binary(op, condition, right);
    }
}

/// Makes the sum of a product over a box of indices a contraction.
fn contraction(arena: &mut Arena, id: ExprId) {
    let Kind::Reduce { over, body, .. } = &arena.out.exprs[id].kind else { return };
    let rectangular = |i: &IndexId| match &arena.out.indices[*i].extent {
        Extent::Affine(extent) => extent.as_size().is_some(),
        Extent::Dynamic(_) => false,
    };
    if let (true, Kind::Binary(_, left, right)) = (over.iter().all(rectangular), &arena.out.exprs[*body].kind) {
        let (over, left, right) = (over.clone(), *left, *right);
        arena.out.exprs[id].kind = Kind::Contract { over, left, right };
    }
}

/// Makes a reduction one by key: an element takes part where the condition holds, and a factor of
/// that compares an integer with an index bound outside.
fn by_key(arena: &mut Arena, id: ExprId) -> Option<()> {
    let out = &arena.out;
    let Kind::Reduce { op: ReduceOp::Monoid(_), over, body, prefix: None, .. } = &out.exprs[id].kind else {
        return None;
    };
    let Kind::If { condition, then, .. } = out.exprs[*body].kind else { return None };
    // The results of all keys are computed at once, before the array is complete.
    if arena.reads_earlier(id) {
        return None;
    }
    let length = |i: &IndexId| match &out.indices[*i].extent {
        Extent::Affine(extent) => extent.as_size(),
        Extent::Dynamic(_) => None,
    };
    // The product of two negative extents would be a positive number of elements.
    let is_length = |size: &Size| match size.as_symbol() {
        Some(s) => matches!(out.symbols[s].source, SymbolSource::Dimension { .. }),
        None => size.as_constant().is_some_and(|n| n >= 0),
    };
    let in_box = over.iter().all(|i| length(i).is_some_and(|size| over.len() == 1 || is_length(size)));
    if !in_box || out.exprs[id].guard != Checked::TOP || !arena.free(id).iter().all(|i| length(i).is_some()) {
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
    // What mentions a key comes after it, and a key mentions no other.
    let mentions = |factor: &Factor| arena.free(factor.expr()).iter().any(|i| keys.contains(i));
    let (late, early): (Vec<Factor>, Vec<Factor>) = by.into_iter().partition(mentions);
    let moved = late.iter().any(|factor| factor.key_of().is_some());
    let guarded = early.iter().any(|factor| out.exprs[factor.expr()].guard != Checked::TOP);
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

/// Leaves the checks of a place out where all of them are proved.
fn without_checks(arena: &mut Arena, position: Position) {
    let Position { value, reduce, checks } = position;
    let checked = |id: &ExprId| match &arena.out.exprs[*id].kind {
        Kind::Access { at, .. } => at.iter().any(|s| s.check.is_some()),
        _ => false,
    };
    if !checks.iter().any(checked) {
        let kind = std::mem::replace(&mut arena.out.exprs[reduce].kind, Kind::Constant(Scalar::I64(0)));
        arena.out.exprs[value].kind = kind;
    }
}
