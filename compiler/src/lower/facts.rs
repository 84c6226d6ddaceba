//! Facts about a checked program that lowering needs again and again, found in two sweeps over its
//! expressions.
//!
//! Operands come before their users. So a sweep from the last expression to the first visits every
//! binder before the expressions inside, which ranks the indices from the outermost in; and a sweep
//! from the first to the last finds free indices. Neither is recursive, so a chain of ten thousand
//! operations does not need a deep stack.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use cranelift_entity::{PrimaryMap, SecondaryMap};
use ir::checked::{Checked, ExprId, Extent, Factor, GuardId, IndexId, Kind, Loop, LoopId, Prefix};
use ir::{Affine, Scalar, Size};

use super::LowerError;

/// An index as lowering sees it: one of the checked program's, or the axis of an array without an
/// index of its own.
pub(super) struct Axis {
    /// A name for loops.
    pub name: String,
    /// Its extent, if that depends on no other index and no data.
    pub size: Option<Size>,
    /// At most the rank of any index bound within its binder.
    rank: usize,
}

/// The number of steps of a loop over kernels, unless a condition ends it earlier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trips {
    /// Sizes alone tell it.
    Size(Size),
    /// Data tells it.
    Data,
    /// As many as it takes: there is no counter.
    Boundless,
}

/// The facts about an expression.
struct Fact {
    /// Its free indices other than steps of loops, the outermost first.
    free: Rc<[IndexId]>,
    /// The steps of loops among its free indices, the outermost first.
    steps: Rc<[IndexId]>,
    /// See [`Facts::apart`].
    apart: bool,
    /// See [`Facts::reached`].
    reached: bool,
    /// Whether it reads elements of a recurrence that is not complete.
    earlier: bool,
}

/// The facts about a checked program.
pub(super) struct Facts {
    axes: PrimaryMap<IndexId, Axis>,
    exprs: PrimaryMap<ExprId, Fact>,
    /// Expressions that are the value of a named one.
    named: SecondaryMap<ExprId, Option<ExprId>>,
    /// The loops whose steps become iterations of a loop over kernels, each with their number.
    repeats: SecondaryMap<LoopId, Option<Trips>>,
    /// The guards that kernels need not know: that of the top level, and those of the bodies of
    /// loops over kernels.
    open: SecondaryMap<GuardId, bool>,
    /// The steps of loops with a number that something needs.
    counted: SecondaryMap<IndexId, bool>,
    /// The factors of contractions that are 0 unless a condition holds, the same way for both.
    masked: SecondaryMap<ExprId, bool>,
}

impl Facts {
    /// Looks at every expression of a program.
    pub fn new(checked: &Checked) -> Facts {
        let mut axes: PrimaryMap<IndexId, Axis> = PrimaryMap::new();
        for index in checked.indices.values() {
            let size = index.extent.as_size().cloned();
            axes.push(Axis { name: index.name.clone(), size, rank: usize::MAX });
        }
        let mut named: SecondaryMap<ExprId, Option<ExprId>> = SecondaryMap::new();
        let mut reached: SecondaryMap<ExprId, bool> = SecondaryMap::new();
        for (_, result) in &checked.results {
            reached[*result] = true;
        }
        let mut rank = 0;
        for (id, expr) in checked.exprs.iter().rev() {
            for index in checked.bound(&expr.kind) {
                axes[index].rank = rank;
                rank += 1;
            }
            match &expr.kind {
                // The index of a scan runs as far as the longest prefix, and where the bounding
                // index runs.
                Kind::Reduce { over, prefix: Some(Prefix { of, inclusive }), .. } => {
                    let Axis { size: longest, rank, .. } = &axes[*of];
                    let (longest, rank) = (longest.clone(), *rank);
                    if let ([k], Some(longest)) = (over.as_slice(), longest) {
                        axes[*k].rank = rank;
                        axes[*k].size = Some(if *inclusive { longest } else { &longest - &Size::constant(1) });
                    }
                }
                Kind::Comprehension { body, .. } => {
                    let name = if expr.name.is_some() { Some(id) } else { named[id] };
                    named[*body] = named[*body].or(name);
                }
                _ => {}
            }
            if reached[id] {
                for_each_operand(checked, &expr.kind, |operand| reached[operand] = true);
            }
        }
        let masked = masked(checked, &reached);
        let (repeats, counted, mut open) = (SecondaryMap::new(), SecondaryMap::new(), SecondaryMap::new());
        open[Checked::TOP] = true;
        let mut facts = Facts { axes, exprs: PrimaryMap::new(), named, repeats, open, counted, masked };
        for (id, one) in &checked.loops {
            facts.repeats[id] = facts.repeat(checked, one);
            facts.open[one.guard] |= facts.repeats[id].is_some();
        }
        for id in checked.exprs.keys() {
            let fact = facts.look(checked, id, reached[id]);
            facts.exprs.push(fact);
        }
        facts
    }

    /// How many steps a loop has, if it is a loop over kernels: outside of `if`s that guard an
    /// access, if either sizes alone end it, the same for all settings of the indices around it; or
    /// no index is around it, and a step is too much for a kernel.
    fn repeat(&self, checked: &Checked, one: &Loop) -> Option<Trips> {
        let first = checked.exprs[one.states.first()?.current].guard;
        let of_repeat = |index: &IndexId| checked.steps[*index].is_some_and(|outer| self.repeats[outer].is_some());
        if !self.open[first] {
            return None;
        }
        let trips = match checked.indices[one.step].extent.as_size() {
            Some(size) if size.as_constant() == Some(i64::MAX) => Trips::Boundless,
            Some(size) => Trips::Size(size.clone()),
            None => Trips::Data,
        };
        let alike = |index: &IndexId| match checked.steps[*index] {
            Some(_) => of_repeat(index),
            None => self.axes[*index].size.is_some(),
        };
        let plain = matches!(trips, Trips::Size(_)) && one.condition.is_none() && one.around.iter().all(alike);
        (plain || one.around.iter().all(of_repeat) && is_large(checked, one)).then_some(trips)
    }

    /// The fact of the next expression, from those of its operands.
    fn look(&mut self, checked: &Checked, id: ExprId, reached: bool) -> Fact {
        let expr = &checked.exprs[id];
        let (mut free, mut mentioned): (Rc<[IndexId]>, Rc<[IndexId]>) = Default::default();
        for_each_operand(checked, &expr.kind, |operand| {
            self.union(&mut free, &self.exprs[operand].free);
            self.union(&mut free, &self.exprs[operand].steps);
        });
        match &expr.kind {
            Kind::State { of, .. } => {
                self.union(&mut free, &checked.loops[*of].around);
                self.union(&mut free, &[checked.loops[*of].step]);
            }
            Kind::Loop { of, .. } => self.union(&mut free, &checked.loops[*of].around),
            _ => {}
        }
        match &expr.kind {
            Kind::Index(index) => self.union(&mut mentioned, &[*index]),
            Kind::Access { at, .. } => {
                at.iter().filter_map(|s| s.affine.as_ref()).for_each(|a| self.union_affine(&mut mentioned, a));
            }
            Kind::Reduce { prefix: Some(Prefix { of, .. }), .. } => self.union(&mut free, &[*of]),
            Kind::Reduce { by, .. } => by.iter().filter_map(Factor::key_of).for_each(|of| self.union(&mut free, &[of])),
            Kind::Earlier { recurrence, within, .. } => {
                let recurrence = &checked.recurrences[*recurrence];
                self.union(&mut free, &recurrence.free);
                self.union(&mut free, &recurrence.deciding(*within).collect::<Vec<_>>());
            }
            _ => {}
        }
        let bound = checked.bound(&expr.kind);
        for index in bound.clone() {
            if let Extent::Affine(extent) = &checked.indices[index].extent {
                self.union_affine(&mut mentioned, extent);
            }
        }
        self.union(&mut free, &mentioned);
        let is_step = |index: &&IndexId| checked.steps[**index].is_some();
        mentioned.iter().filter(is_step).for_each(|step| self.counted[*step] |= reached);
        let binds = |i: &IndexId| bound.clone().any(|b| b == *i);
        if free.iter().any(binds) {
            free = free.iter().copied().filter(|i| !binds(i)).collect();
        }
        let mut earlier = matches!(expr.kind, Kind::Earlier { .. });
        if !matches!(expr.kind, Kind::Recurrence { .. }) {
            for_each_operand(checked, &expr.kind, |operand| earlier |= self.exprs[operand].earlier);
        }
        let (mut steps, all): (Rc<[IndexId]>, _) = (Rc::default(), free.clone());
        if all.iter().any(|index| checked.steps[*index].is_some()) {
            steps = all.iter().copied().filter(|index| checked.steps[*index].is_some()).collect();
            free = all.iter().copied().filter(|index| checked.steps[*index].is_none()).collect();
        }
        let rectangular = |i: &IndexId| self.axes[*i].size.is_some();
        let over_kernels = |step: &IndexId| checked.steps[*step].is_some_and(|of| self.repeats[of].is_some());
        let plain = self.open[expr.guard] && !earlier && free.iter().all(rectangular) && steps.iter().all(over_kernels);
        let is_apart = |e: &ExprId| self.exprs[*e].apart;
        let is_constant = |e: &ExprId| matches!(checked.exprs[*e].kind, Kind::Constant(_));
        let apart = match &expr.kind {
            Kind::Constant(_) | Kind::Size(_) | Kind::Param(_) => true,
            Kind::Comprehension { indices, body } => plain && indices.iter().all(rectangular) && is_apart(body),
            Kind::Reshape(inner) => plain && is_apart(inner),
            Kind::ArrayLiteral(elements) => elements.iter().all(is_constant) || plain && elements.iter().all(is_apart),
            // The terms of a contraction that count are its own business.
            _ => plain && !self.masked[id],
        };
        Fact { free, steps, apart, reached, earlier }
    }

    fn union_affine(&self, set: &mut Rc<[IndexId]>, affine: &Affine<IndexId>) {
        affine.terms().iter().for_each(|(index, _)| self.union(set, &[*index]));
    }

    fn union(&self, set: &mut Rc<[IndexId]>, more: &[IndexId]) {
        if more.iter().all(|i| set.contains(i)) {
            return;
        }
        let mut merged: Vec<IndexId> = set.iter().copied().chain(more.iter().copied()).collect();
        merged.sort_unstable_by_key(|i| (self.axes[*i].rank, *i));
        merged.dedup();
        *set = merged.into();
    }

    /// The steps of loops that an expression mentions and does not bind, the outermost first.
    pub fn steps(&self, expr: ExprId) -> &[IndexId] {
        &self.exprs[expr].steps
    }

    /// The free indices of an expression that its kernel binds: all but the steps of loops over
    /// kernels that are `open`.
    pub fn bound_in_kernel<'f, T>(
        &'f self,
        expr: ExprId,
        open: &'f BTreeMap<IndexId, T>,
    ) -> impl Iterator<Item = IndexId> + 'f {
        let steps = self.steps(expr).iter().filter(|step| !open.contains_key(step));
        self.free(expr).iter().chain(steps).copied()
    }

    /// Whether kernels need not know a guard, because they run only where it holds.
    pub fn is_open(&self, guard: GuardId) -> bool {
        self.open[guard]
    }

    /// The number of steps of a loop, if it is a loop over kernels.
    pub fn repeats(&self, of: LoopId) -> Option<&Trips> {
        self.repeats[of].as_ref()
    }

    /// Whether anything needs the number of a step.
    pub fn is_counted(&self, step: IndexId) -> bool {
        self.counted[step]
    }

    /// The free indices of an expression (mentioned but not bound in it) other than steps of loops,
    /// the outermost first.
    pub fn free(&self, expr: ExprId) -> &Rc<[IndexId]> {
        &self.exprs[expr].free
    }

    /// Whether an expression can be computed on its own, in a kernel separate from its users: it is
    /// under no guard, and its indices run over a box that does not depend on data.
    pub fn apart(&self, expr: ExprId) -> bool {
        self.exprs[expr].apart
    }

    /// Whether a result depends on the expression other than through an affine subscript.
    pub fn reached(&self, expr: ExprId) -> bool {
        self.exprs[expr].reached
    }

    /// The named expression with this value, perhaps under indices.
    pub fn named(&self, expr: ExprId) -> Option<ExprId> {
        self.named[expr]
    }

    /// An index.
    pub fn axis(&self, index: IndexId) -> &Axis {
        &self.axes[index]
    }

    /// The extent of an index that runs over a box.
    pub fn size(&self, index: IndexId) -> Result<Size, LowerError> {
        self.axes[index].size.clone().ok_or(LowerError::Malformed("an index without an extent of its own"))
    }

    /// Indices for the axes of an array that has none.
    pub fn fresh(&mut self, shape: &[Size]) -> Vec<IndexId> {
        let axis =
            |(k, size): (usize, &Size)| Axis { name: format!("i{k}"), size: Some(size.clone()), rank: usize::MAX };
        shape.iter().enumerate().map(axis).map(|axis| self.axes.push(axis)).collect()
    }
}

/// The factors of contractions over terms under a condition: both are 0 where it does not hold.
/// Nothing else uses them.
fn masked(checked: &Checked, reached: &SecondaryMap<ExprId, bool>) -> SecondaryMap<ExprId, bool> {
    let mut users: SecondaryMap<ExprId, u32> = SecondaryMap::new();
    for (_, expr) in checked.exprs.iter().filter(|(id, _)| reached[*id]) {
        for_each_operand(checked, &expr.kind, |operand| users[operand] += 1);
    }
    checked.results.iter().for_each(|(_, result)| users[*result] += 1);
    let is_zero =
        |id: ExprId| matches!(checked.exprs[id].kind, Kind::Constant(zero) if zero == Scalar::zero(zero.dtype()));
    let is_masked = |id: &ExprId| match checked.exprs[*id].kind {
        Kind::If { otherwise, .. } => users[*id] == 1 && checked.exprs[*id].name.is_none() && is_zero(otherwise),
        _ => false,
    };
    let mut masked = SecondaryMap::new();
    for (_, expr) in checked.exprs.iter().filter(|(id, _)| reached[*id]) {
        if let Kind::Contract { left, right, .. } = expr.kind
            && [left, right].iter().all(is_masked)
        {
            [left, right].into_iter().for_each(|factor| masked[factor] = true);
        }
    }
    masked
}

/// Whether a step of a loop is too much for a kernel: it has an array for a state, reduces over
/// something else than a few elements, or does more that needs kernels of its own.
fn is_large(checked: &Checked, one: &Loop) -> bool {
    let mut pending: Vec<ExprId> = one.states.iter().map(|state| state.next).chain(one.condition).collect();
    let mut inside = BTreeSet::new();
    while let Some(id) = pending.pop() {
        if id >= one.begin && inside.insert(id) {
            checked.for_each_operand(&checked.exprs[id].kind, |operand| pending.push(operand));
        }
    }
    let mut depends: BTreeSet<ExprId> = BTreeSet::new();
    inside.into_iter().any(|id| {
        let expr = &checked.exprs[id];
        let own = match &expr.kind {
            Kind::State { of, .. } => checked.loops[*of].step == one.step,
            Kind::Index(index) => *index == one.step,
            _ => false,
        };
        let mut in_step = own;
        checked.for_each_operand(&expr.kind, |operand| in_step |= depends.contains(&operand));
        if in_step {
            depends.insert(id);
        }
        let is_few =
            |index: &IndexId| checked.indices[*index].extent.as_size().is_some_and(|n| n.as_constant().is_some());
        in_step
            && match &expr.kind {
                Kind::State { .. } | Kind::Loop { .. } => !expr.ty.is_scalar(),
                Kind::Reduce { over, by, .. } => !by.is_empty() || !over.iter().all(is_few),
                Kind::Contract { over, .. } => !over.iter().all(is_few),
                Kind::Sort { .. } | Kind::Recurrence { .. } => true,
                _ => false,
            }
    })
}

/// Calls `visit` on each operand of an expression, except subscripts that are used in their affine
/// form.
pub(super) fn for_each_operand(checked: &Checked, kind: &Kind, mut visit: impl FnMut(ExprId)) {
    match kind {
        Kind::Access { array, at } => {
            visit(*array);
            at.iter().filter(|s| s.affine.is_none()).for_each(|s| visit(s.value));
        }
        _ => checked.for_each_operand(kind, visit),
    }
}
