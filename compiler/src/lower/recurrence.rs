//! Recurrences: one kernel that stores all their arrays, and loads elements that it has stored.
//!
//! ```text
//! parallel   the indices from outside, and those along which the arrays are independent
//! serial     the deciding indices
//! parallel   the other indices of each array, one array after another
//! ```

use ir::Affine;
use ir::checked::{Checked, IndexId, Kind, Recurrence, RecurrenceId};
use ir::nest::{self, BufferId, Extent, Loop, LoopKind, Op, Role, Statement};
use ir::{CompareOp, Size};

use super::emit::Emitter;
use super::operand::{Element, Lambda, Operand, plain};
use super::{Known, LowerError, Lowering};

impl Lowering<'_> {
    /// An array of a recurrence.
    pub fn recurrence(&mut self, id: RecurrenceId, array: usize) -> Result<Lambda, LowerError> {
        let checked = self.known.checked;
        let buffers = match self.recurrences.get(&id) {
            Some(buffers) => buffers.clone(),
            None => self.complete(id)?,
        };
        let recurrence = &checked.recurrences[id];
        let indices = &recurrence.equations[array].indices;
        let shape = indices.iter().map(|i| self.known.facts.size(*i)).collect::<Result<Vec<_>, _>>()?;
        let axes = self.known.facts.fresh(&shape);
        let outside = self.known.outside(id);
        let at = plain(&outside).into_iter().chain(plain(&axes)).collect();
        Ok(Lambda { axes, operand: Operand::Element(Element { buffer: buffers[array], view: None, at }) })
    }

    /// Adds the buffers of a recurrence and the kernel that stores them.
    fn complete(&mut self, id: RecurrenceId) -> Result<Vec<BufferId>, LowerError> {
        let checked = self.known.checked;
        let recurrence = &checked.recurrences[id];
        let outside = self.known.outside(id);
        let mut buffers = vec![];
        for (array, equation) in recurrence.equations.iter().enumerate() {
            let indices = outside.iter().chain(&equation.indices);
            let shape = indices.map(|i| self.known.facts.size(*i)).collect::<Result<_, _>>()?;
            let name = self.array_name(id, array);
            buffers.push(self.buffer(&name, checked.exprs[equation.body].ty.dtype, shape, Role::Temp));
        }
        let name = self.target.program.buffers[buffers[0]].name.clone();
        let origin = checked.exprs[recurrence.equations[0].body].origin;
        let mut emitter = Emitter::new(&self.known, &mut self.target);
        for (array, buffer) in buffers.iter().enumerate() {
            emitter.completes(id, array, *buffer);
        }
        let longest = recurrence.steps.iter().map(|step| checked.longest(id, &step.axes).cloned());
        let longest = longest.collect::<Option<_>>().ok_or(LowerError::Malformed("arrays without a longest one"))?;
        emitter.recurrence(&Nest { recurrence, longest, outside, buffers: buffers.clone() })?;
        let mut kernel = emitter.finish(name, origin);
        self.tidy(&mut kernel);
        let kernel = self.target.program.push_kernel(kernel);
        for buffer in &buffers {
            self.producers[*buffer] = Some(kernel);
        }
        self.recurrences.insert(id, buffers.clone());
        Ok(buffers)
    }

    /// The name of an array.
    fn array_name(&self, id: RecurrenceId, array: usize) -> String {
        let is_it =
            |kind: &Kind| matches!(kind, Kind::Recurrence { recurrence, array: k } if (*recurrence, *k) == (id, array));
        let mut exprs = self.known.checked.exprs.values();
        let named = exprs.find(|expr| is_it(&expr.kind)).and_then(|expr| expr.name.clone());
        named.unwrap_or_else(|| "recurrence".to_owned())
    }
}

/// A recurrence that a kernel completes.
struct Nest<'a> {
    recurrence: &'a Recurrence,
    /// For each deciding index, the greatest length of the arrays along it.
    longest: Vec<Size>,
    /// The indices from outside that it depends on. Steps of loops over kernels are not among them.
    outside: Vec<IndexId>,
    /// The buffer of each array.
    buffers: Vec<BufferId>,
}

impl Known<'_> {
    /// The indices from outside that are axes of the arrays of a recurrence.
    pub fn outside(&self, id: RecurrenceId) -> Vec<IndexId> {
        let free = self.checked.recurrences[id].free.iter().copied();
        free.filter(|index| self.checked.steps[*index].is_none()).collect()
    }
}

impl Emitter<'_> {
    /// The loops of a recurrence.
    fn recurrence(&mut self, nest: &Nest<'_>) -> Result<(), LowerError> {
        let recurrence = nest.recurrence;
        let first = &recurrence.equations[0];
        let independent = recurrence.independent.iter().map(|axes| first.indices[axes[0]]);
        let outside: Vec<IndexId> = nest.outside.iter().copied().chain(independent).collect();
        self.parallel(&outside, |k| {
            // The arrays are equally long there.
            for axes in &recurrence.independent {
                for (equation, axis) in recurrence.equations.iter().zip(axes) {
                    k.bind_like(equation.indices[*axis], first.indices[axes[0]])?;
                }
            }
            k.steps(nest, 0)
        })
    }

    /// The loops over the deciding indices from number `step` on.
    fn steps(&mut self, nest: &Nest<'_>, step: usize) -> Result<(), LowerError> {
        let recurrence = nest.recurrence;
        let Some(this) = recurrence.steps.get(step) else {
            return recurrence.sequence.iter().try_for_each(|array| self.plane(nest, *array));
        };
        let indices: Vec<IndexId> =
            recurrence.equations.iter().zip(&this.axes).map(|(equation, axis)| equation.indices[*axis]).collect();
        let longest = &nest.longest[step];
        let here = self.loop_index(&self.name_of(indices[0]));
        let last = Affine::size(longest - &Size::constant(1));
        let to = if this.descending { last.sub(&Affine::index(here)) } else { Affine::index(here) };
        for index in &indices {
            self.bind_affine(*index, to.clone());
        }
        self.open(Checked::TOP)?;
        self.steps(nest, step + 1)?;
        let body = self.close();
        let dims = vec![(here, Extent::size(longest.clone()))];
        self.push(Statement::Loop(Loop { dims, kind: LoopKind::Serial, body }));
        Ok(())
    }

    /// The elements of an array at one setting of the deciding indices, if it is that long.
    fn plane(&mut self, nest: &Nest<'_>, array: usize) -> Result<(), LowerError> {
        let recurrence = nest.recurrence;
        let equation = &recurrence.equations[array];
        let mut conditions = vec![];
        for step in &recurrence.steps {
            let index = equation.indices[step.axes[array]];
            let own = self.size_of(index)?;
            let mut others = recurrence.equations.iter().zip(&step.axes);
            if !others.try_fold(true, |equal, (e, axis)| Ok(equal && self.size_of(e.indices[*axis])? == own))? {
                let (index, end) = (self.index_value(index)?, self.op(Op::Affine(Affine::size(own)))?);
                conditions.push(self.op(Op::Compare(CompareOp::Lt, index, end))?);
            }
        }
        for _ in &conditions {
            self.open(Checked::TOP)?;
        }
        self.elements(nest, array)?;
        for condition in conditions.into_iter().rev() {
            let then = self.close();
            self.push(Statement::If { condition, then, otherwise: vec![], results: vec![] });
        }
        Ok(())
    }

    /// The elements of an array at one setting of the deciding indices.
    fn elements(&mut self, nest: &Nest<'_>, array: usize) -> Result<(), LowerError> {
        let (recurrence, buffer) = (nest.recurrence, nest.buffers[array]);
        let equation = &recurrence.equations[array];
        let is_bound = |axis: usize| {
            recurrence
                .steps
                .iter()
                .map(|step| &step.axes)
                .chain(&recurrence.independent)
                .any(|axes| axes[array] == axis)
        };
        let others: Vec<IndexId> =
            (0..equation.indices.len()).filter(|axis| !is_bound(*axis)).map(|axis| equation.indices[axis]).collect();
        let at: Vec<_> = plain(&nest.outside).into_iter().chain(plain(&equation.indices)).collect();
        if others.is_empty() {
            let value = self.value(equation.body)?;
            return self.store(buffer, &at, value);
        }
        let dims: Vec<(nest::IndexId, Extent)> = self.bind_box(&others)?;
        self.open(Checked::TOP)?;
        let value = self.value(equation.body)?;
        self.store(buffer, &at, value)?;
        let body = self.close();
        self.push(Statement::Loop(Loop { dims, kind: LoopKind::Parallel, body }));
        Ok(())
    }
}
