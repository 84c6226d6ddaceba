//! Loops over kernels. Each part of the state that is needed is a carried buffer, with an axis for
//! each index around the loop.
//!
//! The kernels of a step are those of the expressions that mention it; whatever does not is
//! computed before the loop. A step's number is a carried scalar that a kernel of the step
//! increases, where anything needs it.
//!
//! If data ends the loop, a step begins with an exit: at a comparison of its number with the end,
//! and at the condition.

use cranelift_entity::EntityRef;
use ir::checked::{ExprId, IndexId, LoopId};
use ir::nest::{Buffer, BufferId, Carried, KernelId, Node, Op, Repeat, Role};
use ir::sabotage::{self, Bug};
use ir::{BinaryOp, CompareOp, Dtype, Scalar, Size};

use super::facts::Trips;
use super::operand::{Element, Lambda, Operand, plain};
use super::{LowerError, Lowering};

/// A part of the state as its loop is lowered.
struct Part {
    number: usize,
    initial: BufferId,
    current: BufferId,
    /// A buffer like these.
    like: Buffer,
}

impl Lowering<'_> {
    /// Lowers a loop, which ends in the expression `last`, with all of its results.
    pub fn repeat(&mut self, of: LoopId, last: ExprId) -> Result<(), LowerError> {
        let checked = self.known.checked;
        let one = &checked.loops[of];
        let step = one.step;
        let trips = self.known.facts.repeats(of).cloned().ok_or(LowerError::Malformed("a loop without steps"))?;
        let needed = checked.needed_states(of, |id| self.known.facts.reached(id));
        let mut parts = vec![];
        for number in needed {
            parts.push(self.begin(of, number)?);
        }
        let is_limited = self.known.limits[of].is_some();
        let is_counted = trips == Trips::Data || self.known.facts.is_counted(step) || is_limited;
        let counter = is_counted.then(|| self.counter(step));
        self.known.steps.insert(step, counter.as_ref().map(|counter| counter.current));
        let around = std::mem::take(&mut self.target.program.body);
        let first_kernel = self.target.program.kernels.next_key();
        if let (Trips::Data, Some(counter)) = (&trips, &counter) {
            let more = self.is_below_end(last, step, counter.current)?;
            self.target.program.body.push(Node::Exit { unless: more });
        }
        let mut own = (one.begin.index()..last.index()).map(ExprId::new).peekable();
        if let Some(condition) = one.condition {
            while let Some(id) = own.next_if(|id| *id <= condition) {
                self.expression(id)?;
            }
            let unless = self.flag(condition)?;
            self.target.program.body.push(Node::Exit { unless });
        }
        for id in own {
            self.expression(id)?;
        }
        let mut carried: Vec<Carried> = vec![];
        for Part { number, initial, current, like } in parts {
            let context = self.known.facts.free(one.states[number].current).clone();
            let next = self.next(one.states[number].next, like, &context, first_kernel, &carried)?;
            carried.push(Carried { initial, current, next });
        }
        if let Some(Part { initial, current, like, .. }) = counter {
            let next = self.kernel(last, like, |k, buffer| {
                let number = k.op(Op::Load { buffer: current, view: None, at: vec![] })?;
                let number = k.limited(of, number)?;
                let one = k.op(Op::Constant(Scalar::I64(1)))?;
                let next = k.op(Op::Binary(BinaryOp::Add, number, one))?;
                k.store(buffer, &[], next)
            })?;
            carried.push(Carried { initial, current, next });
        }
        self.known.steps.remove(&step);
        let body = std::mem::replace(&mut self.target.program.body, around);
        let more = Size::constant(i64::from(sabotage::on(Bug::StepMore)));
        let trips = if let Trips::Size(size) = trips { Some(&size + &more) } else { None };
        self.target.program.body.push(Node::Repeat(Repeat { trips, carried, body }));
        // Kernels after the loop cannot use temporaries that its iterations store.
        for alike in self.temporaries.values_mut() {
            alike.retain(|(_, kernel, _)| *kernel < first_kernel);
        }
        Ok(())
    }

    /// Gives a part of the state its buffers, and makes both of its expressions elements of one.
    fn begin(&mut self, of: LoopId, number: usize) -> Result<Part, LowerError> {
        let checked = self.known.checked;
        let state = &checked.loops[of].states[number];
        let context = self.known.facts.free(state.current).clone();
        let mut shape = context.iter().map(|i| self.known.facts.size(*i)).collect::<Result<Vec<Size>, _>>()?;
        let ty = checked.exprs[state.current].ty.clone();
        shape.extend(ty.shape.iter().cloned());
        let name = checked.exprs[state.current].name.clone().unwrap_or_else(|| self.name(state.current));
        let like = Buffer { name, dtype: ty.dtype, shape, role: Role::Temp };
        let first = self.array_of(state.first)?;
        let initial = match self.buffer_of(&first, &context, &like) {
            Some(buffer) => buffer,
            None => self.stored(state.first, &like, &context, &first)?,
        };
        let current = self.buffer(&like.name, like.dtype, like.shape.clone(), Role::Temp);
        let ends = checked.exprs.iter().filter(|(_, expr)| match expr.kind {
            ir::checked::Kind::Loop { of: other, number: part, .. } => other == of && part == number,
            _ => false,
        });
        for id in ends.map(|(id, _)| id).chain([state.current]) {
            let axes = self.known.facts.fresh(&ty.shape);
            let at = plain(&[&context, axes.as_slice()].concat());
            let operand = Operand::Element(Element { buffer: current, view: None, at });
            match ty.is_scalar() {
                true => self.known.operands[id] = Some(operand),
                false => self.known.lambdas[id] = Some(Lambda { axes, operand }),
            }
        }
        Ok(Part { number, initial, current, like })
    }

    /// The number of a step, from 0.
    fn counter(&mut self, step: IndexId) -> Part {
        let name = self.known.facts.axis(step).name.clone();
        let zero = Role::Constant(vec![Scalar::I64(0)]);
        let initial = self.buffer(&name, Dtype::I64, vec![], zero);
        let current = self.buffer(&name, Dtype::I64, vec![], Role::Temp);
        Part { number: 0, initial, current, like: Buffer { name, dtype: Dtype::I64, shape: vec![], role: Role::Temp } }
    }

    /// The buffer that tells whether the number of a step is below its end, where that is data.
    fn is_below_end(&mut self, last: ExprId, step: IndexId, current: BufferId) -> Result<BufferId, LowerError> {
        self.kernel(last, flag("more".to_string()), |k, buffer| {
            let number = k.op(Op::Load { buffer: current, view: None, at: vec![] })?;
            let end = k.end_of(step)?;
            let more = k.op(Op::Compare(CompareOp::Lt, number, end))?;
            k.store(buffer, &[], more)
        })
    }

    /// The buffer of a condition.
    fn flag(&mut self, condition: ExprId) -> Result<BufferId, LowerError> {
        let like = flag(self.name(condition));
        let known = self.known.operands[condition].clone();
        let known = known.and_then(|operand| self.buffer_of(&Lambda { axes: vec![], operand }, &[], &like));
        match known {
            Some(buffer) => Ok(buffer),
            None => self.kernel(condition, like, |k, buffer| {
                let holds = k.compute(condition)?;
                k.store(buffer, &[], holds)
            }),
        }
    }

    /// The buffer that the body stores the next value of a part in.
    fn next(
        &mut self,
        id: ExprId,
        like: Buffer,
        context: &[IndexId],
        first_kernel: KernelId,
        carried: &[Carried],
    ) -> Result<BufferId, LowerError> {
        let value = self.array_of(id)?;
        let own = |buffer: &BufferId| {
            let inside = self.producers[*buffer].is_some_and(|kernel| kernel >= first_kernel);
            inside && carried.iter().all(|other| other.next != *buffer)
        };
        match self.buffer_of(&value, context, &like).filter(own) {
            Some(buffer) => Ok(buffer),
            None => self.stored(id, &like, context, &value),
        }
    }

    /// An expression as an array; a scalar has no axes.
    fn array_of(&self, id: ExprId) -> Result<Lambda, LowerError> {
        match &self.known.operands[id] {
            Some(operand) => Ok(Lambda { axes: vec![], operand: operand.clone() }),
            None => self.known.array(id).cloned(),
        }
    }

    /// The buffer that has an array's elements, at each setting of indices around it, and nothing
    /// else.
    fn buffer_of(&self, array: &Lambda, around: &[IndexId], like: &Buffer) -> Option<BufferId> {
        let Operand::Element(Element { buffer, view: None, at }) = &array.operand else { return None };
        let all = around.iter().chain(&array.axes);
        let in_order = at.len() == like.shape.len() && at.iter().zip(all).all(|(s, i)| s.as_index() == Some(*i));
        (in_order && self.target.program.buffers[*buffer].shape == like.shape).then_some(*buffer)
    }

    /// A buffer of its own for an array at each setting of indices around it.
    fn stored(
        &mut self,
        id: ExprId,
        like: &Buffer,
        around: &[IndexId],
        array: &Lambda,
    ) -> Result<BufferId, LowerError> {
        let indices = [around, &array.axes].concat();
        // Two parts of a state never share a buffer, however equal they are.
        let alike = std::mem::take(&mut self.temporaries);
        let buffer = self.copy(id, like.clone(), &indices, &array.operand);
        self.temporaries = alike;
        buffer
    }
}

/// A buffer for a `bool`.
fn flag(name: String) -> Buffer {
    Buffer { name, dtype: Dtype::Bool, shape: vec![], role: Role::Temp }
}
