//! Last steps over a whole function, when all ends and proofs are known.

use grammar::Diagnostic;
use grammar::ast::Span;
use ir::checked::{Checked, Expr, ExprId, GuardId, IndexId, Kind, LoopId};
use ir::{BinaryOp, ReduceOp, Scalar};

use super::arena::Arena;
use super::codes;
use super::keys::by_key;
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

    /// Notes that a node is a copy of another one.
    pub fn copied(&mut self, original: ExprId, copy: ExprId) {
        for list in [&mut self.contractions, &mut self.keyed] {
            if list.contains(&original) {
                list.push(copy);
            }
        }
    }

    /// Gives every node its final form.
    pub fn finish(self, arena: &mut Arena, requirements: &mut Requirements, report: &mut Report<'_>) {
        self.short_circuits.into_iter().for_each(|(id, guard)| short_circuit(arena, id, guard));
        self.contractions.into_iter().for_each(|id| contraction(arena, id));
        self.positions.into_iter().for_each(|position| without_checks(arena, position));
        for Wanted { op, index, span } in self.wanted {
            let Some(extent) = arena.out.indices[index].extent.as_size() else { continue };
            require_element(requirements, report, op, extent, vec![], span);
        }
        arena.narrow_loops();
        let is_alone = |(id, expr): (ExprId, &Expr)| {
            matches!(expr.kind, Kind::Sort { .. } | Kind::Recurrence { .. }).then_some(id)
        };
        let parts: Vec<ExprId> = arena.out.exprs.iter().filter_map(is_alone).collect();
        parts.into_iter().for_each(|id| arena.move_out(id));
        // Only branches that protect an access stay.
        let ids: Vec<ExprId> = arena.out.exprs.keys().collect();
        for id in ids {
            arena.out.exprs[id].guard = arena.innermost_needed(arena.out.exprs[id].guard);
        }
        let loops: Vec<LoopId> = arena.out.loops.keys().collect();
        for id in loops {
            arena.out.loops[id].guard = arena.innermost_needed(arena.out.loops[id].guard);
        }
        self.keyed.into_iter().for_each(|id| _ = by_key(arena, id));
        alone(arena, report);
    }
}

/// Reports recurrences and sorts that cannot be computed on their own, apart from their users.
fn alone(arena: &Arena, report: &mut Report<'_>) {
    // A step of a loop runs kernels however the loop ends.
    let rectangular = |i: &IndexId| arena.out.steps[*i].is_some() || arena.out.indices[*i].extent.as_size().is_some();
    for (id, expr) in &arena.out.exprs {
        let (what, code, outside) = match expr.kind {
            Kind::Recurrence { recurrence, .. } => {
                ("recurrence", codes::NOT_EARLIER, &arena.out.recurrences[recurrence].free[..])
            }
            Kind::Sort { .. } => ("sort", codes::NOT_ALONE, arena.free(id)),
            _ => continue,
        };
        let message = match outside.iter().find(|index| !rectangular(index)) {
            Some(index) => {
                let index = &arena.out.indices[*index].name;
                format!("a {what} cannot depend on the index `{index}`, which ends where data or another index says")
            }
            None if matches!(expr.kind, Kind::Sort { .. }) && arena.reads_earlier(id) => {
                "a sort cannot depend on elements of a recurrence that is not complete".to_owned()
            }
            None if !is_open(arena, expr.guard) => {
                format!("a {what} cannot depend on the condition around it: its accesses are inside only there")
            }
            None => continue,
        };
        let span = Span { start: expr.origin.start, end: expr.origin.end };
        let help = "compute it for all indices, and choose among its elements";
        report.error(Diagnostic::new(code, span, message).help(help));
    }
}

/// Whether no branch is around a place but steps of loops: those run kernels as the top level does.
fn is_open(arena: &Arena, guard: GuardId) -> bool {
    let is_step = || arena.out.loops.values().any(|one| one.guard == guard);
    guard == Checked::TOP || is_step() && is_open(arena, arena.out.guards[guard])
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
    let rectangular = |i: &IndexId| arena.out.indices[*i].extent.as_size().is_some();
    if let (true, Kind::Binary(_, left, right)) = (over.iter().all(rectangular), &arena.out.exprs[*body].kind) {
        let (over, left, right) = (over.clone(), *left, *right);
        arena.out.exprs[id].kind = Kind::Contract { over, left, right };
    }
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
