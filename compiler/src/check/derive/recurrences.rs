//! Recurrences: copies at other indices, changes of their arrays, and the way back through their
//! elements.
//!
//! All that follows is computed when the arrays are complete. So the change of an element reads
//! elements of the given arrays at will, and only other changes have to be earlier ones:
//!
//! ```text
//! y[t] = f(y[t - 1], x[t])
//! change   dy[t] = f1(y[t - 1], x[t]) * dy[t - 1] + f2(y[t - 1], x[t]) * dx[t]
//! back     dy[t] = (derivative in y[t]) + f1(y[t], x[t + 1]) * dy[t + 1]
//!          dx[t] = f2(y[t - 1], x[t]) * dy[t]
//! ```
//!
//! On the way back, the elements that read an element are found as for any array: by turning the
//! access around. The order of the new recurrence is then proved as that of any other.

use std::collections::{BTreeMap, BTreeSet};

use cranelift_entity::packed_option::ReservedValue;
use grammar::ast::Name;
use ir::Affine;
use ir::checked::{Equation, ExprId, IndexId, Kind, Recurrence, RecurrenceId, Type};
use ir::sabotage::{self, Bug};

use super::super::Checker;
use super::super::arena::Here;
use super::super::earlier::Unordered;
use super::copy::Place;
use super::forward::Forward;
use super::reverse::{Part, Reverse, Share};

/// The element of an array of a recurrence, as an expression of indices of its own, that reads the
/// complete arrays.
struct Element {
    indices: Vec<IndexId>,
    body: ExprId,
}

impl Checker<'_> {
    /// A copy of an array of a recurrence.
    pub(super) fn copied_array(
        &mut self,
        (id, of, array): (ExprId, RecurrenceId, usize),
        place: &mut Place,
        here: Here,
    ) -> Option<ExprId> {
        let mentioned = self.arena.free(id).iter().filter_map(|index| place.values.get(index).copied());
        let key = (of, mentioned.collect::<Vec<_>>());
        if let Some(arrays) = place.recurrences.get(&key) {
            return Some(arrays[array]);
        }
        let equations = self.arena.out.recurrences[of].equations.clone();
        let mut indices = vec![];
        for equation in &equations {
            indices.push(self.copied_indices(&equation.indices, place)?);
        }
        let dtypes: Vec<_> = equations.iter().map(|equation| self.arena.dtype(equation.body)).collect();
        let copy = self.begin_recurrence(indices.clone());
        for within in 0..equations.len() {
            for (array, own) in indices.iter().enumerate() {
                let shape = own.iter().map(|index| self.arena.length(*index)).collect();
                let kind = Kind::Earlier { recurrence: copy, array, within };
                let node = self.arena.node(kind, Type { dtype: dtypes[array], shape }, here);
                place.earlier.insert((of, array, within), node);
            }
        }
        let mut bodies = vec![];
        for equation in &equations {
            bodies.push(self.copy(equation.body, place)?);
        }
        let names = (0..equations.len()).map(|array| self.array_name(of, array)).collect();
        let arrays = self.end_recurrence(copy, bodies, names, here);
        place.recurrences.insert(key, arrays.clone());
        Some(arrays[array])
    }

    /// A recurrence without bodies, of arrays with some indices.
    pub(super) fn begin_recurrence(&mut self, indices: Vec<Vec<IndexId>>) -> RecurrenceId {
        let body = ExprId::reserved_value();
        let equations = indices.into_iter().map(|indices| Equation { indices, body }).collect();
        self.arena.out.recurrences.push(Recurrence { equations, ..Recurrence::default() })
    }

    /// Gives a recurrence its bodies. Returns its arrays.
    pub(super) fn end_recurrence(
        &mut self,
        of: RecurrenceId,
        bodies: Vec<ExprId>,
        names: Vec<String>,
        here: Here,
    ) -> Vec<ExprId> {
        let mut equations = std::mem::take(&mut self.arena.out.recurrences[of].equations);
        let mut free = BTreeSet::new();
        let mut types = vec![];
        for (equation, body) in equations.iter_mut().zip(bodies) {
            equation.body = body;
            free.extend(self.arena.free(body).iter().copied().filter(|index| !equation.indices.contains(index)));
            let shape = equation.indices.iter().map(|index| self.arena.length(*index)).collect();
            types.push(Type { dtype: self.arena.dtype(body), shape });
        }
        let free = free.into_iter().collect();
        self.arena.out.recurrences[of] = Recurrence { equations, free, ..Recurrence::default() };
        let named = names.iter().map(|text| Name { text: text.clone(), span: here.span }).collect();
        self.accesses.recurrences.push(Unordered { recurrence: of, names: named, call: self.report.calls.current() });
        let mut arrays = vec![];
        for (array, (ty, name)) in types.into_iter().zip(names).enumerate() {
            let node = self.arena.node(Kind::Recurrence { recurrence: of, array }, ty, here);
            self.arena.out.exprs[node].name = Some(name);
            arrays.push(node);
        }
        arrays
    }

    /// The name of an array of a recurrence.
    fn array_name(&self, of: RecurrenceId, array: usize) -> String {
        let is_it = |kind: &Kind| {
            matches!(kind, Kind::Recurrence { recurrence, array: k } | Kind::Earlier { recurrence, array: k, .. }
                if (*recurrence, *k) == (of, array))
        };
        let mut named = self.arena.out.exprs.values().filter(|expr| is_it(&expr.kind));
        named.find_map(|expr| expr.name.clone()).unwrap_or_else(|| "y".to_owned())
    }

    /// New nodes for the complete arrays of a recurrence, so that a derivative in them is one in
    /// those that read these nodes.
    fn complete_arrays(&mut self, of: RecurrenceId, here: Here) -> Vec<ExprId> {
        let equations = self.arena.out.recurrences[of].equations.clone();
        let mut arrays = vec![];
        for (array, equation) in equations.into_iter().enumerate() {
            let shape = equation.indices.iter().map(|index| self.arena.length(*index)).collect();
            let ty = Type { dtype: self.arena.dtype(equation.body), shape };
            let name = self.array_name(of, array);
            let node = self.arena.node(Kind::Recurrence { recurrence: of, array }, ty, here);
            self.arena.out.exprs[node].name = Some(name);
            arrays.push(node);
        }
        arrays
    }

    /// An element of an array, at indices of its own.
    fn element_at(&mut self, (of, array): (RecurrenceId, usize), complete: &[ExprId], here: Here) -> Option<Element> {
        let Equation { indices, body } = self.arena.out.recurrences[of].equations[array].clone();
        let mut place = Place::new(BTreeMap::new(), here.guard, here);
        place.earlier.extend(complete.iter().enumerate().map(|(other, node)| ((of, other, array), *node)));
        let indices = self.copied_indices(&indices, &mut place)?;
        Some(Element { indices, body: self.copy(body, &mut place)? })
    }

    /// A recurrence without bodies for derivatives in some of the arrays of another one.
    fn begin_derivatives(&mut self, of: RecurrenceId, arrays: &[usize], here: Here) -> Option<RecurrenceId> {
        let mut indices = vec![];
        for array in arrays {
            let own = self.arena.out.recurrences[of].equations[*array].indices.clone();
            indices.push(self.copied_indices(&own, &mut Place::new(BTreeMap::new(), here.guard, here))?);
        }
        Some(self.begin_recurrence(indices))
    }

    /// The earlier derivatives in an array, within another one's body.
    fn earlier_derivative(
        &mut self,
        recurrence: RecurrenceId,
        (array, within): (usize, usize),
        like: ExprId,
        here: Here,
    ) -> ExprId {
        let ty = self.arena.ty(like).clone();
        let name = self.arena.out.exprs[like].name.as_ref().map(|name| format!("d{name}"));
        let ty = Type { dtype: ty.dtype.compute(), ..ty };
        let node = self.arena.node(Kind::Earlier { recurrence, array, within }, ty, here);
        self.arena.out.exprs[node].name = name;
        node
    }

    /// The arrays of a recurrence that each one reads earlier elements of.
    fn arrays_read(&self, of: RecurrenceId) -> Vec<BTreeSet<usize>> {
        let out = &self.arena.out;
        let reads = |equation: &Equation| {
            let (mut pending, mut seen, mut read) = (vec![equation.body], BTreeSet::new(), BTreeSet::new());
            while let Some(id) = pending.pop() {
                if !self.arena.reads_earlier(id) || !seen.insert(id) {
                    continue;
                }
                match out.exprs[id].kind {
                    Kind::Earlier { recurrence, array, .. } if recurrence == of => drop(read.insert(array)),
                    _ => out.for_each_operand(&out.exprs[id].kind, |operand| pending.push(operand)),
                }
            }
            read
        };
        out.recurrences[of].equations.iter().map(reads).collect()
    }

    /// The arrays of floats of a recurrence that depend on some values, if some do by themselves
    /// and the others through the arrays that they read.
    fn varying(&self, of: RecurrenceId, mut varies: Vec<bool>) -> BTreeSet<usize> {
        let reads = self.arrays_read(of);
        let is_float = |array: usize| self.arena.dtype(self.arena.out.recurrences[of].equations[array].body).is_float();
        loop {
            let more =
                |array: &usize| !varies[*array] && is_float(*array) && reads[*array].iter().any(|other| varies[*other]);
            let Some(array) = (0..varies.len()).find(more) else { break };
            varies[array] = true;
        }
        (0..varies.len()).filter(|array| varies[*array]).collect()
    }
}

impl Forward {
    /// The change of an array of a recurrence.
    pub(super) fn recurred(
        &mut self,
        checker: &mut Checker<'_>,
        (of, array): (RecurrenceId, usize),
        here: Here,
    ) -> Option<Option<ExprId>> {
        if !self.recurrences.contains_key(&of) {
            let changes = self.changed_arrays(checker, of, here)?;
            self.recurrences.insert(of, changes);
        }
        Some(self.recurrences[&of].get(&array).copied())
    }

    /// The changes of the arrays of a recurrence that change.
    fn changed_arrays(
        &mut self,
        checker: &mut Checker<'_>,
        of: RecurrenceId,
        here: Here,
    ) -> Option<BTreeMap<usize, ExprId>> {
        let bodies: Vec<ExprId> =
            checker.arena.out.recurrences[of].equations.iter().map(|equation| equation.body).collect();
        let varies = bodies.into_iter().map(|body| self.may_change(checker, body)).collect();
        let arrays: Vec<usize> = checker.varying(of, varies).into_iter().collect();
        if arrays.is_empty() {
            return Some(BTreeMap::new());
        }
        let changed = checker.begin_derivatives(of, &arrays, here)?;
        let (mut changes, mut names) = (vec![], vec![]);
        for (within, array) in arrays.iter().enumerate() {
            let complete = checker.complete_arrays(of, here);
            for (other, node) in complete.iter().enumerate() {
                let number = arrays.iter().position(|array| *array == other);
                let change = number.map(|number| checker.earlier_derivative(changed, (number, within), *node, here));
                self.changes.insert(*node, change);
            }
            let Element { indices, body } = checker.element_at((of, *array), &complete, here)?;
            let change = self.change(checker, body)?;
            let change = self.or_zeros(checker, change, body, here);
            let own = checker.arena.out.recurrences[changed].equations[within].indices.clone();
            changes.push(checker.at_indices(change, &indices, &own, here)?);
            names.push(format!("d{}", checker.array_name(of, *array)));
        }
        let found = checker.end_recurrence(changed, changes, names, here);
        Some(arrays.into_iter().zip(found).collect())
    }

    /// Whether a node depends on one that changes.
    fn may_change(&self, checker: &Checker<'_>, id: ExprId) -> bool {
        let (mut pending, mut seen) = (vec![id], BTreeSet::new());
        while let Some(id) = pending.pop() {
            if !checker.arena.dtype(id).is_float() || !seen.insert(id) {
                continue;
            }
            match self.changes.get(&id) {
                Some(Some(_)) => return true,
                Some(None) => {}
                None => {
                    let out = &checker.arena.out;
                    out.for_each_operand(&out.exprs[id].kind, |operand| pending.push(operand));
                }
            }
        }
        false
    }
}

impl Checker<'_> {
    /// An expression of some indices at others.
    fn at_indices(&mut self, value: ExprId, from: &[IndexId], to: &[IndexId], here: Here) -> Option<ExprId> {
        let nodes: Vec<ExprId> = to.iter().map(|index| self.arena.index_node(*index, here)).collect();
        let values = from.iter().copied().zip(nodes).collect();
        self.copy(value, &mut Place::new(values, here.guard, here))
    }
}

impl Reverse<'_, '_> {
    /// Goes back through a recurrence: gives the values that its elements are computed from their
    /// shares.
    pub fn recurred(
        &mut self,
        (id, of): (ExprId, RecurrenceId),
        derivative: ExprId,
        context: &[IndexId],
        here: Here,
    ) -> Option<()> {
        let mut context = context.to_vec();
        let number_of = |kind: &Kind| match kind {
            Kind::Recurrence { recurrence, array } if *recurrence == of => Some(*array),
            _ => None,
        };
        let seeds = self.of_one(number_of, (id, derivative), &mut context)?;
        let arrays = self.reached(of, &seeds);
        let complete = self.checker.complete_arrays(of, here);
        self.active_not(&complete);
        let back = self.checker.begin_derivatives(of, &arrays, here)?;
        let mut elements = vec![];
        for array in &arrays {
            let element = self.checker.element_at((of, *array), &complete, here)?;
            self.kept.add(self.checker, (&element.indices, element.body), complete[*array], &context, here);
            elements.push(element);
        }
        let kept = self.kept.clone();
        let own: Vec<Vec<IndexId>> =
            self.checker.arena.out.recurrences[back].equations.iter().map(|e| e.indices.clone()).collect();
        let open = self.checker.arena.ends.open.clone();
        self.checker.arena.ends.open.extend(context.iter().copied().chain(own.iter().flatten().copied()));
        let (mut bodies, mut names) = (vec![], vec![]);
        for (within, array) in arrays.iter().enumerate() {
            let at = own[within].iter().map(|index| Affine::index(*index)).collect();
            let mut total = match seeds.get(array) {
                Some(seed) => self.checker.arena.element(*seed, at, here),
                None => self.checker.zero_like(complete[*array], here),
            };
            let seeds: Vec<(&Element, ExprId)> = elements
                .iter()
                .enumerate()
                .map(|(number, element)| {
                    let like = complete[arrays[number]];
                    (element, self.checker.earlier_derivative(back, (number, within), like, here))
                })
                .collect();
            let mut later = Reverse::new(self.checker, vec![complete[*array]]);
            later.kept = kept.clone();
            if let Some((axes, value)) = later.by_readers(complete[*array], &seeds, here)? {
                let value = self.checker.at_indices(value, &axes, &own[within], here)?;
                total = self.checker.plus(total, value, here);
            }
            bodies.push(total);
            names.push(format!("d{}", self.checker.array_name(of, *array)));
        }
        self.checker.arena.ends.open = open;
        let found = self.checker.end_recurrence(back, bodies, names, here);
        for (Element { indices, body }, derivative) in elements.into_iter().zip(found) {
            let at = indices.iter().map(|index| Affine::index(*index)).collect();
            let value = self.checker.arena.element(derivative, at, here);
            let inner: Vec<IndexId> = context.iter().chain(&indices).copied().collect();
            self.share(body, Part::Whole, value, &inner, here.guard);
        }
        Some(())
    }

    /// The arrays of a recurrence that have a derivative: those with one from outside, and those
    /// that these read.
    fn reached(&mut self, of: RecurrenceId, seeds: &BTreeMap<usize, ExprId>) -> Vec<usize> {
        let bodies: Vec<ExprId> =
            self.checker.arena.out.recurrences[of].equations.iter().map(|equation| equation.body).collect();
        let varies = bodies.into_iter().map(|body| self.is_active(body)).collect();
        let varying = self.checker.varying(of, varies);
        let reads = self.checker.arrays_read(of);
        let (mut pending, mut found): (Vec<usize>, BTreeSet<usize>) =
            (seeds.keys().copied().collect(), BTreeSet::new());
        while let Some(array) = pending.pop() {
            if varying.contains(&array) && found.insert(array) {
                pending.extend(&reads[array]);
            }
        }
        found.into_iter().collect()
    }

    /// The derivative in the elements of an array by way of those that read them: an expression of
    /// indices of its own. The derivatives in the readers are given.
    fn by_readers(
        &mut self,
        array: ExprId,
        readers: &[(&Element, ExprId)],
        here: Here,
    ) -> Option<Option<(Vec<IndexId>, ExprId)>> {
        for (Element { indices, body }, derivative) in readers {
            let at = indices.iter().map(|index| Affine::index(*index)).collect();
            let value = self.checker.arena.element(*derivative, at, here);
            self.share(*body, Part::Whole, value, indices, here.guard);
        }
        self.pass_all_on(here)?;
        let mut shares = self.take_shares(array);
        if shares.is_empty() || sabotage::on(Bug::ReadersUnseen) {
            return Some(None);
        }
        for share in &mut shares {
            share.value = self.in_branch(share, here)?;
        }
        let derivative = self.array(array, &shares, here)?;
        if let Kind::Comprehension { indices, body } = self.checker.arena.out.exprs[derivative].kind.clone() {
            return Some(Some((indices, body)));
        }
        let shape = self.checker.arena.ty(array).shape.clone();
        let axes = self.checker.arena.axis_indices(&shape, here.span);
        let at = axes.iter().map(|index| Affine::index(*index)).collect();
        Some(Some((axes, self.checker.arena.element(derivative, at, here))))
    }

    /// The value of a share, as a whole in the branch of that: its condition may say which
    /// derivatives are earlier.
    fn in_branch(&mut self, share: &Share, here: Here) -> Option<ExprId> {
        if share.guard == here.guard {
            return Some(share.value);
        }
        let place = Here { guard: share.guard, ..here };
        self.checker.same_indices(share.value, &share.context, BTreeMap::new(), place)
    }
}
