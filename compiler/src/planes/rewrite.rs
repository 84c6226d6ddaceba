//! Copies a checked program, with loops in place of recurrences.

use std::collections::BTreeMap;

use cranelift_entity::EntityRef;
use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{PrimaryMap, SecondaryMap};
use ir::checked::{
    Checked, Expr, ExprId, Extent, Factor, GuardId, Index, IndexId, Kind, Loop, Prefix, Recurrence, RecurrenceId,
    State, Subscript, Type,
};
use ir::nest::is_length;
use ir::sabotage::{self, Bug};
use ir::{Affine, CompareOp, Dtype, Origin, Scalar, Size};

use super::instance::{Instance, Point};
use super::{Plan, Varying, array_of};

/// The planes of an array by how many steps ago they were computed, as far as they are known.
pub(super) type Known = Vec<Option<ExprId>>;

/// A program in the making.
pub(super) struct Rewrite<'c> {
    pub old: &'c Checked,
    pub plans: &'c BTreeMap<RecurrenceId, Plan>,
    pub new: Checked,
    /// The expressions that are copied once.
    pub ids: SecondaryMap<ExprId, PackedOption<ExprId>>,
    /// The expressions of bodies that become steps, which are copied for each plane.
    pub varies: SecondaryMap<ExprId, bool>,
    /// The last states of the loops so far.
    last: BTreeMap<RecurrenceId, Vec<Known>>,
}

/// The program with a loop for each plan; `None` if a result cannot be copied.
pub(super) fn rewrite(old: &Checked, plans: &BTreeMap<RecurrenceId, Plan>) -> Option<Checked> {
    let Varying { dependent, copied: varies } = Varying::new(old, plans);
    let new = Checked { exprs: PrimaryMap::new(), ..old.clone() };
    let mut rewrite = Rewrite { old, plans, new, ids: SecondaryMap::new(), varies, last: BTreeMap::new() };
    let mut places: SecondaryMap<ExprId, ExprId> = SecondaryMap::with_default(ExprId::from_u32(0));
    for id in old.exprs.keys() {
        places[id] = rewrite.new.exprs.next_key();
        if !dependent[id] {
            rewrite.ids[id] = rewrite.expression(id).into();
        }
    }
    rewrite.finish(&places);
    (rewrite.new.results.len() == old.results.len()).then_some(rewrite.new)
}

impl Rewrite<'_> {
    /// Copies an expression, if its operands are there: of a failed attempt to check a body, they
    /// may not be.
    fn expression(&mut self, id: ExprId) -> Option<ExprId> {
        let expr = &self.old.exprs[id];
        match &expr.kind {
            Kind::Recurrence { recurrence, .. } if self.plans.contains_key(recurrence) => {
                if !self.last.contains_key(recurrence) {
                    let last = self.loop_of(*recurrence)?;
                    self.last.insert(*recurrence, last);
                }
                return None;
            }
            Kind::Access { array, at } => {
                if let Some(read) = array_of(self.old, *array).filter(|read| self.plans.contains_key(&read.recurrence))
                {
                    let plan = &self.plans[&read.recurrence];
                    let back = plan.back(self.old, &self.old.recurrences[read.recurrence], read, id)?;
                    let plane = (*self.last.get(&read.recurrence)?[read.array].get(usize::try_from(back).ok()?)?)?;
                    let at: Vec<&Subscript> = plan.arrays[read.array].others(at).collect();
                    let at = at.into_iter().map(|s| subscript(s, &|id| self.ids[id].expand(), &Affine::index));
                    let at = at.collect::<Option<Vec<_>>>()?;
                    return Some(self.element(plane, at, expr, expr.guard));
                }
            }
            Kind::Loop { of, number, .. } => {
                let Loop { states, condition, .. } = &self.old.loops[*of];
                let parts = states.get(*number)?.needs.iter().map(|part| &states[*part]);
                let mut needed = parts.flat_map(|part| [part.first, part.current, part.next]).chain(*condition);
                needed.all(|id| self.ids[id].is_some()).then_some(())?;
            }
            _ => {}
        }
        let kind = copied(&expr.kind, &|id| self.ids[id].expand(), &Affine::index)?;
        Some(self.new.exprs.push(Expr { kind, ..expr.clone() }))
    }

    /// An element of a plane, or the plane itself if it is a scalar.
    pub fn element(&mut self, plane: ExprId, at: Vec<Subscript>, like: &Expr, guard: GuardId) -> ExprId {
        if at.is_empty() {
            return plane;
        }
        self.new.exprs.push(Expr { kind: Kind::Access { array: plane, at }, guard, ..like.clone() })
    }

    /// Adds the loop of a recurrence. Returns its last states.
    fn loop_of(&mut self, id: RecurrenceId) -> Option<Vec<Known>> {
        let plan = &self.plans[&id];
        let recurrence = &self.old.recurrences[id];
        let mut current: Vec<Known> = plan.arrays.iter().map(|array| vec![None; array.depth as usize + 1]).collect();
        for array in &plan.peeled {
            current[*array][0] = Some(Instance::new(self, id, *array, Point::First, &current).plane()?);
        }
        let mut firsts = vec![];
        for (number, array) in plan.arrays.iter().enumerate() {
            for back in 1..=array.depth {
                let first = if back == 1 { current[number][0] } else { None };
                let first = match first {
                    Some(first) => first,
                    None => self.zeros(recurrence, plan, number),
                };
                firsts.push((number, back, first));
            }
        }
        let begin = self.new.exprs.next_key();
        let of = self.new.loops.next_key();
        let origin = self.old.exprs[recurrence.equations[0].body].origin;
        let name = self.old.indices[recurrence.equations[0].indices[plan.arrays[0].axis]].name.clone();
        let less = Size::constant(i64::from(sabotage::on(Bug::PlaneLess)));
        let extent = Extent::Affine(Affine::size(&plan.trips - &less));
        let step = self.new.indices.push(Index { name, extent, origin });
        self.new.steps[step] = Some(of);
        let mut states = vec![];
        for (number, (array, back, first)) in firsts.into_iter().enumerate() {
            let like = &self.new.exprs[first];
            let name = self.array_name(id, array);
            let expr = Expr { kind: Kind::State { of, number }, name, guard: Checked::TOP, ..like.clone() };
            let state = self.new.exprs.push(expr);
            current[array][back as usize] = Some(state);
            states.push((array, back, first, state));
        }
        for array in &plan.sequence {
            current[*array][0] = None;
            current[*array][0] = Some(Instance::new(self, id, *array, Point::Step(step), &current).plane()?);
        }
        let needs: Vec<usize> = (0..states.len()).collect();
        let next = |array: usize, back: i64| current[array][back as usize - 1];
        let mut parts = vec![];
        for (array, back, first, state) in &states {
            parts.push(State { first: *first, current: *state, next: next(*array, *back)?, needs: needs.clone() });
        }
        let guard = Checked::TOP;
        self.new.loops.push(Loop {
            step,
            begin,
            around: vec![],
            states: parts,
            condition: None,
            guard,
            written: false,
        });
        let mut last: Vec<Known> = vec![vec![]; plan.arrays.len()];
        for (number, (array, _, _, state)) in states.into_iter().enumerate() {
            let kind = Kind::Loop { of, number, step: [step] };
            let expr = Expr { kind, ..self.new.exprs[state].clone() };
            last[array].push(Some(self.new.exprs.push(expr)));
        }
        Some(last)
    }

    /// The name that the source gives to an array.
    fn array_name(&self, id: RecurrenceId, array: usize) -> Option<String> {
        let is_it = |expr: &&Expr| matches!(expr.kind, Kind::Recurrence { recurrence, array: k } if (recurrence, k) == (id, array));
        self.old.exprs.values().find(is_it).and_then(|expr| expr.name.clone())
    }

    /// A plane of zeros, in place of one that does not exist: nothing needs its elements.
    fn zeros(&mut self, recurrence: &Recurrence, plan: &Plan, array: usize) -> ExprId {
        let equation = &recurrence.equations[array];
        let Expr { ty, origin, .. } = &self.old.exprs[equation.body];
        let zero = self.scalar(Kind::Constant(Scalar::zero(ty.dtype)), ty.dtype, *origin, Checked::TOP);
        let others: Vec<IndexId> = plan.arrays[array].others(&equation.indices).copied().collect();
        let indices = others.iter().map(|index| self.new.indices.push(self.old.indices[*index].clone())).collect();
        self.array(indices, zero)
    }

    /// An array of a scalar, or the scalar if there are no indices.
    pub fn array(&mut self, indices: Vec<IndexId>, body: ExprId) -> ExprId {
        if indices.is_empty() {
            return body;
        }
        let length = |index: &IndexId| self.new.indices[*index].extent.as_size().cloned().unwrap_or_default();
        let Expr { ty, origin, .. } = &self.new.exprs[body];
        let ty = Type { dtype: ty.dtype, shape: indices.iter().map(length).collect() };
        let (kind, origin) = (Kind::Comprehension { indices, body }, *origin);
        self.new.exprs.push(Expr { kind, ty, origin, guard: Checked::TOP, name: None })
    }

    /// A new scalar.
    pub fn scalar(&mut self, kind: Kind, dtype: Dtype, origin: Origin, guard: GuardId) -> ExprId {
        self.new.exprs.push(Expr { kind, ty: Type::scalar(dtype), origin, guard, name: None })
    }

    /// Whether a loop has a number of steps that is not negative, as an expression; `None` if that
    /// is certain.
    pub fn runs(&mut self, trips: &Size, origin: Origin) -> Option<ExprId> {
        if is_length(&self.new.symbols, trips) {
            return None;
        }
        let trips = self.scalar(Kind::Size(trips.clone()), Dtype::I64, origin, Checked::TOP);
        let zero = self.scalar(Kind::Constant(Scalar::I64(0)), Dtype::I64, origin, Checked::TOP);
        Some(self.scalar(Kind::Compare(CompareOp::Ge, trips, zero), Dtype::Bool, origin, Checked::TOP))
    }

    /// Lets everything but the expressions refer to the new ones. `places` are where the old ones
    /// went or would have gone.
    fn finish(&mut self, places: &SecondaryMap<ExprId, ExprId>) {
        let id = |id: ExprId| self.ids[id].expand();
        relink(&mut self.new, self.old, &id, places);
        self.new.results =
            self.old.results.iter().filter_map(|(name, result)| Some((name.clone(), id(*result)?))).collect();
    }
}

/// Lets the loops, recurrences and extents of a copy refer to its own expressions. `places` are
/// where the old ones went or would have gone.
pub(crate) fn relink(
    new: &mut Checked,
    old: &Checked,
    id: &impl Fn(ExprId) -> Option<ExprId>,
    places: &SecondaryMap<ExprId, ExprId>,
) {
    for (number, one) in &old.loops {
        // A part that nothing needs may have been lost. The first expression stands for it.
        let state = |state: &State| {
            let [first, current, next] =
                [state.first, state.current, state.next].map(|e| id(e).unwrap_or(ExprId::new(0)));
            State { first, current, next, needs: state.needs.clone() }
        };
        let states = one.states.iter().map(state).collect();
        let condition = one.condition.and_then(id);
        new.loops[number] = Loop { begin: places[one.begin], states, condition, ..one.clone() };
    }
    for (number, recurrence) in &old.recurrences {
        let bodies: Option<Vec<ExprId>> = recurrence.equations.iter().map(|equation| id(equation.body)).collect();
        let equations = &mut new.recurrences[number].equations;
        match bodies {
            Some(bodies) => equations.iter_mut().zip(bodies).for_each(|(equation, body)| equation.body = body),
            None => new.recurrences[number] = Recurrence::default(),
        }
    }
    for (number, index) in &old.indices {
        if let Extent::Dynamic(extent) = index.extent {
            let extent = id(extent).map_or(Extent::Affine(Affine::constant(0)), Extent::Dynamic);
            new.indices[number].extent = extent;
        }
    }
}

/// A kind with other operands, and with affine expressions in place of indices.
pub(crate) fn copied(
    kind: &Kind,
    expr: &impl Fn(ExprId) -> Option<ExprId>,
    to: &impl Fn(IndexId) -> Affine<IndexId>,
) -> Option<Kind> {
    let index = |index: IndexId| to(index).as_index();
    let all = |indices: &[IndexId]| indices.iter().map(|i| index(*i)).collect::<Option<Vec<_>>>();
    let list = |list: &[ExprId]| list.iter().map(|e| expr(*e)).collect::<Option<Vec<_>>>();
    Some(match kind {
        Kind::Constant(_)
        | Kind::Size(_)
        | Kind::Param(_)
        | Kind::State { .. }
        | Kind::Loop { .. }
        | Kind::Recurrence { .. }
        | Kind::Earlier { .. } => kind.clone(),
        Kind::Index(i) => Kind::Index(index(*i)?),
        Kind::Unary(op, a) => Kind::Unary(*op, expr(*a)?),
        Kind::Binary(op, a, b) => Kind::Binary(*op, expr(*a)?, expr(*b)?),
        Kind::Compare(op, a, b) => Kind::Compare(*op, expr(*a)?, expr(*b)?),
        Kind::Fma(a, b, c) => Kind::Fma(expr(*a)?, expr(*b)?, expr(*c)?),
        Kind::Cast(a) => Kind::Cast(expr(*a)?),
        Kind::Bitcast(a) => Kind::Bitcast(expr(*a)?),
        Kind::Math(function, operands) => Kind::Math(*function, list(operands)?),
        Kind::If { condition, then, otherwise } => {
            Kind::If { condition: expr(*condition)?, then: expr(*then)?, otherwise: expr(*otherwise)? }
        }
        Kind::Access { array, at } => {
            let at = at.iter().map(|s| subscript(s, expr, to)).collect::<Option<Vec<_>>>()?;
            Kind::Access { array: expr(*array)?, at }
        }
        Kind::Reduce { op, over, body, order, prefix, by } => {
            let prefix = match prefix {
                Some(Prefix { of, inclusive }) => Some(Prefix { of: index(*of)?, inclusive: *inclusive }),
                None => None,
            };
            let factor = |factor: &Factor| {
                Some(match factor {
                    Factor::Holds(condition) => Factor::Holds(expr(*condition)?),
                    Factor::Key { of, key } => Factor::Key { of: index(*of)?, key: expr(*key)? },
                })
            };
            let by = by.iter().map(factor).collect::<Option<Vec<_>>>()?;
            Kind::Reduce { op: *op, over: all(over)?, body: expr(*body)?, order: *order, prefix, by }
        }
        Kind::Contract { over, left, right } => {
            Kind::Contract { over: all(over)?, left: expr(*left)?, right: expr(*right)? }
        }
        Kind::Comprehension { indices, body } => Kind::Comprehension { indices: all(indices)?, body: expr(*body)? },
        Kind::Reshape(a) => Kind::Reshape(expr(*a)?),
        Kind::ArrayLiteral(elements) => Kind::ArrayLiteral(list(elements)?),
        Kind::Sort { index: [own], body, result } => {
            Kind::Sort { index: [index(*own)?], body: expr(*body)?, result: *result }
        }
    })
}

/// A subscript with another value, and with affine expressions in place of indices.
pub(super) fn subscript(
    s: &Subscript,
    expr: &impl Fn(ExprId) -> Option<ExprId>,
    to: &impl Fn(IndexId) -> Affine<IndexId>,
) -> Option<Subscript> {
    let affine = s.affine.as_ref().map(|affine| affine.substitute(&mut |index| to(index)));
    Some(Subscript { value: expr(s.value)?, affine, check: s.check })
}
