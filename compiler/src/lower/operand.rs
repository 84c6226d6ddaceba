//! Turns expressions into operands, and emits the kernels that compute them.

use cranelift_entity::EntityRef;
use ir::checked::{Checked, Expr, ExprId, IndexId, Kind, Sorted, Subscript};
use ir::nest::{Block, Buffer, BufferId, Kernel, Role};
use ir::rewrite::{drop_units, erase_unused, see_axes, simplify};
use ir::{Affine, ReduceOp, Size};

use super::emit::Emitter;
use super::turned::turned;
use super::{Known, LowerError, Lowering};

/// An expression that loads no data is recomputed by each kernel that uses it, up to this number of
/// operations. Without a limit, a chain of scalar operations that kernels all use would make the
/// total quadratic.
const MAX_INLINE: usize = 64;

/// From this weight on, an operand also widens an element of a storage type on loading it. Its user
/// still gets a kernel.
const IN_PASSING: usize = MAX_INLINE + 1;

/// A scalar that can be computed on its own, at any setting of its free indices.
#[derive(Clone, Debug)]
pub(super) enum Operand {
    /// Loads no data: arithmetic on indices, sizes, constants and scalar parameters. Or widens an
    /// element.
    Inline {
        /// The expression.
        expr: ExprId,
        /// Its number of operations, or more if it shares some.
        weight: usize,
    },
    /// An element of a buffer.
    Element(Element),
}

/// An element of a buffer.
#[derive(Clone, Debug)]
pub(super) struct Element {
    /// The buffer.
    pub buffer: BufferId,
    /// The shape that the subscripts refer to, if it is not the buffer's own.
    pub view: Option<Vec<Size>>,
    /// The subscripts.
    pub at: Vec<Affine<IndexId>>,
}

/// An array that can be computed on its own: an operand with an index for each axis, in addition to
/// the array's free indices.
#[derive(Clone, Debug)]
pub(super) struct Lambda {
    /// The axes' indices, all different.
    pub axes: Vec<IndexId>,
    /// The element there.
    pub operand: Operand,
}

/// Whether an `if` guards an access in one of its branches, so that the branch must not be
/// evaluated unless it is taken. (A branch that guards nothing has the guard of its surroundings.)
pub(super) fn is_guarding(checked: &Checked, id: ExprId, then: ExprId, otherwise: ExprId) -> bool {
    let outer = checked.exprs[id].guard;
    [then, otherwise].iter().any(|branch| !checked.within(outer, checked.exprs[*branch].guard))
}

/// The affine form of a subscript that needs no check.
pub(super) fn unchecked(subscript: &Subscript) -> Option<&Affine<IndexId>> {
    if subscript.check.is_some() { None } else { subscript.affine.as_ref() }
}

/// Indices as subscripts.
pub(super) fn plain(indices: &[IndexId]) -> Vec<Affine<IndexId>> {
    indices.iter().map(|i| Affine::index(*i)).collect()
}

impl Known<'_> {
    /// The lambda of an array that stands apart.
    pub fn array(&self, id: ExprId) -> Result<&Lambda, LowerError> {
        self.lambdas[id].as_ref().ok_or(LowerError::Malformed("an array that depends on what it must not"))
    }

    /// The operand that an expression, or an element of it, became.
    fn became(&self, id: ExprId) -> Option<&Operand> {
        self.operands[id].as_ref().or_else(|| self.lambdas[id].as_ref().map(|lambda| &lambda.operand))
    }

    /// The element that an access refers to, if its subscripts are affine.
    fn looks_at(&self, array: ExprId, at: &[Subscript]) -> Option<Element> {
        let Some(Lambda { axes, operand: Operand::Element(element) }) = &self.lambdas[array] else { return None };
        let at = at.iter().map(unchecked).collect::<Option<Vec<_>>>()?;
        let mut substitute = |i| match axes.iter().position(|axis| *axis == i) {
            Some(axis) => at[axis].clone(),
            None => Affine::index(i),
        };
        let at = element.at.iter().map(|s| s.substitute(&mut substitute)).collect();
        Some(Element { buffer: element.buffer, view: element.view.clone(), at })
    }

    /// The weight of a widened element of a storage type, since widening it is part of the
    /// operation. Moves of such elements are followed wherever they are read, so the length of
    /// chains of moves is limited.
    fn widening(&self, expr: &Expr) -> Option<usize> {
        match &expr.kind {
            Kind::Cast(a) => {
                let from = self.checked.exprs[*a].ty.dtype;
                let wider = from.is_storage() && from.compute() == expr.ty.dtype;
                (wider && matches!(self.operands[*a], Some(Operand::Element(_)))).then_some(IN_PASSING)
            }
            Kind::Access { array, at } if at.iter().all(|s| unchecked(s).is_some()) => {
                let Operand::Inline { weight, .. } = self.lambdas[*array].as_ref()?.operand else { return None };
                (IN_PASSING..IN_PASSING + MAX_INLINE).contains(&weight).then_some(weight + 1)
            }
            _ => None,
        }
    }

    /// The number of operations of an expression that loads no data; `None` if it loads some.
    fn weight(&self, id: ExprId) -> Option<usize> {
        let kind = &self.checked.exprs[id].kind;
        let loads = match kind {
            Kind::Reduce { .. } | Kind::Contract { .. } => true,
            Kind::If { then, otherwise, .. } => is_guarding(self.checked, id, *then, *otherwise),
            Kind::Access { at, .. } => at.iter().any(|s| s.check.is_some()),
            _ => false,
        };
        let mut weight = if loads { None } else { Some(1usize) };
        super::facts::for_each_operand(self.checked, kind, |operand| {
            let Some(Operand::Inline { weight: more, .. }) = self.became(operand) else {
                weight = None;
                return;
            };
            weight = weight.map(|w| w.saturating_add(*more));
        });
        weight.filter(|w| *w <= MAX_INLINE)
    }
}

impl Lowering<'_> {
    /// Lowers a scalar that can stand apart.
    pub fn operand(&mut self, id: ExprId) -> Result<Operand, LowerError> {
        let kind = &self.known.checked.exprs[id].kind;
        if let Kind::Access { array, at } = kind
            && let Some(element) = self.known.looks_at(*array, at)
        {
            return Ok(Operand::Element(element));
        }
        if let Kind::Index(index) = kind
            && let Some(buffer) = self.known.steps.get(index)
        {
            let buffer = buffer.ok_or(LowerError::Malformed("a step without a number"))?;
            return Ok(Operand::Element(Element { buffer, view: None, at: vec![] }));
        }
        let widening = self.known.widening(&self.known.checked.exprs[id]);
        if let Some(weight) = widening.or_else(|| self.known.weight(id)) {
            return Ok(Operand::Inline { expr: id, weight });
        }
        let free = self.known.facts.free(id).clone();
        let temporary = self.temporary(id, &free)?;
        let element = match kind {
            Kind::Reduce { op, over, body, prefix: Some(prefix), .. } => {
                let buffer = self.scan(id, temporary, *op, over, *body, *prefix)?;
                Element { buffer, view: None, at: plain(&free) }
            }
            Kind::Reduce { op: ReduceOp::Monoid(monoid), over, body, by, .. } if !by.is_empty() => {
                return self.keyed(id, *monoid, over, by, *body);
            }
            Kind::Contract { over, left, right } if over.iter().all(|k| self.known.facts.axis(*k).size.is_some()) => {
                self.contraction(id, temporary, over, [*left, *right])?
            }
            _ => self.element(id, temporary, &free, |k, buffer| {
                k.parallel(&free, |k| {
                    let value = k.operation(id)?;
                    k.store(buffer, &plain(&free), value)
                })
            })?,
        };
        Ok(Operand::Element(element))
    }

    /// Lowers an array that can stand apart.
    pub fn lambda(&mut self, id: ExprId) -> Result<Lambda, LowerError> {
        let expr = &self.known.checked.exprs[id];
        match &expr.kind {
            Kind::Param(number) => {
                let axes = self.known.facts.fresh(&expr.ty.shape);
                let element = Element { buffer: BufferId::new(*number), view: None, at: plain(&axes) };
                Ok(Lambda { axes, operand: Operand::Element(element) })
            }
            Kind::Comprehension { indices, body } => {
                if let Some(operand) = &self.known.operands[*body] {
                    return Ok(Lambda { axes: indices.clone(), operand: operand.clone() });
                }
                let inner = self.known.array(*body)?;
                let axes = indices.iter().chain(&inner.axes).copied().collect();
                Ok(Lambda { axes, operand: inner.operand.clone() })
            }
            Kind::Reshape(inner) => self.reshape(id, *inner),
            Kind::ArrayLiteral(elements) => self.literal(id, expr, elements),
            Kind::Sort { index: [index], body, result } => self.sorted(id, *index, *body, *result),
            Kind::Recurrence { recurrence, array } => self.recurrence(*recurrence, *array),
            _ => Err(LowerError::Malformed("an array where a scalar should be")),
        }
    }

    /// A reshaped array: its elements in place if they are dense and in order, else a copy of them.
    fn reshape(&mut self, id: ExprId, inner: ExprId) -> Result<Lambda, LowerError> {
        let old = &self.known.checked.exprs[inner].ty.shape;
        let lambda = self.known.array(inner)?.clone();
        let (element, mut shape) = match self.whole(&lambda, old) {
            Some(whole) => whole,
            None => {
                let context = self.known.facts.free(inner).clone();
                let indices: Vec<IndexId> = context.iter().chain(&lambda.axes).copied().collect();
                let mut shape = context.iter().map(|i| self.known.facts.size(*i)).collect::<Result<Vec<_>, _>>()?;
                let leading = shape.clone();
                shape.extend_from_slice(old);
                let dtype = self.known.checked.exprs[id].ty.dtype;
                let copy = Buffer { name: self.name(id), dtype, shape, role: Role::Temp };
                let buffer = self.copy(id, copy, &indices, &lambda.operand)?;
                (Element { buffer, view: None, at: plain(&context) }, leading)
            }
        };
        let new = &self.known.checked.exprs[id].ty.shape;
        let axes = self.known.facts.fresh(new);
        shape.extend_from_slice(new);
        let at = element.at.into_iter().chain(plain(&axes)).collect();
        Ok(Lambda { axes, operand: Operand::Element(Element { buffer: element.buffer, view: Some(shape), at }) })
    }

    /// The buffer with an array of the given shape as its last axes, complete and in order, and the
    /// subscripts and lengths of the axes before those.
    fn whole(&self, lambda: &Lambda, shape: &[Size]) -> Option<(Element, Vec<Size>)> {
        let Operand::Element(element) = &lambda.operand else { return None };
        let seen = element.view.as_ref().unwrap_or(&self.target.program.buffers[element.buffer].shape);
        let leading = seen.len().checked_sub(shape.len())?;
        let (before, last) = element.at.split_at(leading);
        let in_order = last.iter().zip(&lambda.axes).all(|(s, axis)| s.as_index() == Some(*axis));
        let apart = before.iter().all(|s| s.terms().iter().all(|(i, _)| !lambda.axes.contains(i)));
        let whole = in_order && apart && seen[leading..] == *shape;
        let element = Element { buffer: element.buffer, view: None, at: before.to_vec() };
        whole.then(|| (element, seen[..leading].to_vec()))
    }

    /// An array literal: part of the program if it is constant, else computed by a kernel that
    /// stores each element.
    fn literal(&mut self, id: ExprId, expr: &Expr, elements: &[ExprId]) -> Result<Lambda, LowerError> {
        let (dtype, shape) = (expr.ty.dtype, expr.ty.shape.clone());
        let axes = self.known.facts.fresh(&shape);
        let constant = |e: &ExprId| match &self.known.checked.exprs[*e].kind {
            Kind::Constant(value) => Some(*value),
            _ => None,
        };
        if let Some(values) = elements.iter().map(constant).collect::<Option<Vec<_>>>() {
            let key = (dtype, shape.clone(), values.iter().map(|v| v.bits()).collect());
            let buffer = match self.constants.get(&key) {
                Some(buffer) => *buffer,
                None => {
                    let name = self.name(id);
                    let buffer = self.buffer(&name, dtype, shape, Role::Constant(values));
                    self.constants.insert(key, buffer);
                    buffer
                }
            };
            let element = Element { buffer, view: None, at: plain(&axes) };
            return Ok(Lambda { axes, operand: Operand::Element(element) });
        }
        let context = self.known.facts.free(id).clone();
        let mut lengths = context.iter().map(|i| self.known.facts.size(*i)).collect::<Result<Vec<_>, _>>()?;
        lengths.extend(shape.iter().cloned());
        let whole = Buffer { name: self.name(id), dtype, shape: lengths, role: Role::Temp };
        let buffer = self.kernel(id, whole, |k, buffer| {
            k.parallel(&context, |k| {
                for (number, element) in elements.iter().enumerate() {
                    let value = k.value(*element)?;
                    let mut at = plain(&context);
                    at.extend(position(number, &shape)?);
                    k.store(buffer, &at, value)?;
                }
                Ok(())
            })
        })?;
        let at = context.iter().chain(&axes).map(|i| Affine::index(*i)).collect();
        Ok(Lambda { axes, operand: Operand::Element(Element { buffer, view: None, at }) })
    }

    /// A kernel that stores an operand at each setting of the indices.
    pub fn copy(
        &mut self,
        id: ExprId,
        buffer: Buffer,
        indices: &[IndexId],
        operand: &Operand,
    ) -> Result<BufferId, LowerError> {
        self.kernel(id, buffer, |k, buffer| {
            k.parallel(indices, |k| {
                let value = k.load(operand)?;
                k.store(buffer, &plain(indices), value)
            })
        })
    }

    /// Adds a buffer and the kernel that stores it. If an equal kernel already computes a
    /// temporary, returns that one instead.
    pub fn kernel(
        &mut self,
        id: ExprId,
        buffer: Buffer,
        fill: impl FnOnce(&mut Emitter<'_>, BufferId) -> Result<(), LowerError>,
    ) -> Result<BufferId, LowerError> {
        Ok(self.merged(id, buffer, false, fill)?.0)
    }

    /// The same for a buffer with an axis for each of some indices: the element at these indices,
    /// of a temporary that may have its axes in another order.
    pub fn element(
        &mut self,
        id: ExprId,
        buffer: Buffer,
        indices: &[IndexId],
        fill: impl FnOnce(&mut Emitter<'_>, BufferId) -> Result<(), LowerError>,
    ) -> Result<Element, LowerError> {
        let (buffer, order) = self.merged(id, buffer, true, fill)?;
        let at = match order {
            Some(order) => order.into_iter().map(|axis| Affine::index(indices[axis])).collect(),
            None => plain(indices),
        };
        Ok(Element { buffer, view: None, at })
    }

    /// The buffer that a kernel stores, or one that an equal kernel does. If the other one has its
    /// axes in another order, which must be allowed: for each of these the axis here.
    fn merged(
        &mut self,
        id: ExprId,
        buffer: Buffer,
        turns: bool,
        fill: impl FnOnce(&mut Emitter<'_>, BufferId) -> Result<(), LowerError>,
    ) -> Result<(BufferId, Option<Vec<usize>>), LowerError> {
        let here = self.target.program.buffers.next_key();
        let origin = self.known.checked.exprs[id].origin;
        let mut emitter = Emitter::new(&self.known, &mut self.target);
        fill(&mut emitter, here)?;
        let mut kernel = emitter.finish(String::new(), origin);
        self.tidy(&mut kernel);
        let program = &mut self.target.program;
        let worth = self.worth[id];
        let alike = self.temporaries.entry((ir::visit::loads(&kernel.body), kernel.values.len())).or_default();
        if buffer.role == Role::Temp {
            for (other, stored_by, _) in alike.iter() {
                let (there, by) = (&program.buffers[*other], &program.kernels[*stored_by]);
                if there.dtype == buffer.dtype && there.shape == buffer.shape && by.values == kernel.values {
                    store_to(&mut kernel.body, *other);
                    if by.body == kernel.body {
                        return Ok((*other, None));
                    }
                }
            }

            for (other, stored_by, _) in alike.iter().filter(|(_, _, other)| turns && (worth || *other)) {
                let (there, by) = (&program.buffers[*other], &program.kernels[*stored_by]);
                if there.dtype == buffer.dtype && by.values == kernel.values {
                    store_to(&mut kernel.body, *other);
                    let here = (&kernel.body, buffer.shape.as_slice());
                    if let Some(order) = turned(here, (&by.body, &there.shape), *other) {
                        return Ok((*other, Some(order)));
                    }
                }
            }
            store_to(&mut kernel.body, here);
            alike.push((here, program.kernels.next_key(), worth));
        }
        // Results already have their final names.
        let name = if buffer.role == Role::Temp { self.unique(&buffer.name) } else { buffer.name };
        kernel.name = name.clone();
        self.target.program.buffers.push(Buffer { name, ..buffer });
        self.producers[here] = Some(self.target.program.push_kernel(kernel));
        Ok((here, None))
    }

    /// Simplifies a kernel that has just been emitted.
    pub fn tidy(&self, kernel: &mut Kernel) {
        drop_units(&self.target.program, kernel);
        let simplified = simplify(kernel);
        if see_axes(&self.target.program, kernel) || simplified {
            erase_unused(&mut kernel.body);
        }
    }

    /// A buffer for the value of a scalar at each setting of the indices.
    pub(super) fn temporary(&self, id: ExprId, indices: &[IndexId]) -> Result<Buffer, LowerError> {
        let shape = indices.iter().map(|i| self.known.facts.size(*i)).collect::<Result<Vec<_>, _>>()?;
        let dtype = self.known.checked.exprs[id].ty.dtype;
        Ok(Buffer { name: self.name(id), dtype, shape, role: Role::Temp })
    }

    /// A name for the value of an expression: its name in the source, or one that describes the
    /// operation.
    pub fn name(&self, id: ExprId) -> String {
        let checked = self.known.checked;
        let named = self.known.facts.named(id).and_then(|named| checked.exprs[named].name.as_ref());
        if let Some(name) = checked.exprs[id].name.as_ref().or(named) {
            return name.clone();
        }
        let name = match &checked.exprs[id].kind {
            Kind::Constant(_) => "constant",
            Kind::Size(_) => "size",
            Kind::Index(_) => "index",
            Kind::Param(_) => "param",
            Kind::Unary(op, _) => op.name(),
            Kind::Binary(op, _, _) => op.name(),
            Kind::Compare(op, _, _) => op.name(),
            Kind::Fma(..) => "fma",
            Kind::Cast(_) => "cast",
            Kind::Bitcast(_) => "bitcast",
            Kind::Math(function, _) => function.name(),
            Kind::If { .. } => "select",
            Kind::Access { .. } => "gather",
            Kind::Reduce { prefix: Some(_), .. } => "scan",
            Kind::Reduce { op, .. } => op.name(),
            Kind::Contract { .. } => "contract",
            Kind::Comprehension { .. } => "array",
            Kind::Reshape(_) => "reshape",
            Kind::ArrayLiteral(_) => "literal",
            Kind::Sort { result: Sorted::Values, .. } => "sort",
            Kind::Sort { result: Sorted::Numbers, .. } => "argsort",
            Kind::State { .. } => "state",
            Kind::Loop { .. } => "loop",
            Kind::Recurrence { .. } | Kind::Earlier { .. } => "recurrence",
        };
        name.to_string()
    }
}

/// Redirects all stores of a lowered kernel to one buffer.
fn store_to(block: &mut Block, to: BufferId) {
    for statement in block {
        if statement.effects().store.is_some() {
            statement.for_each_buffer_mut(|buffer| *buffer = to);
        }
        statement.blocks_mut().for_each(|inner| store_to(inner, to));
    }
}

/// The subscripts of the element with a row-major number in an array of constant shape.
fn position(mut number: usize, shape: &[Size]) -> Result<Vec<Affine<IndexId>>, LowerError> {
    let mut at = vec![];
    for size in shape.iter().rev() {
        let length = size.as_constant().and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
        let length = length.ok_or(LowerError::Malformed("an array literal of unknown shape"))?;
        at.push(Affine::constant(i64::try_from(number % length).unwrap_or(i64::MAX)));
        number /= length;
    }
    at.reverse();
    Ok(at)
}
