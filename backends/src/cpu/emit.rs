//! The code generator of a function, with operations that all forms of loops share: structured
//! control flow with loop-carried values, sizes, addresses and scratch memory.

use std::collections::{BTreeMap, BTreeSet};

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I64};
use cranelift_codegen::ir::{self as cl, AliasRegionData, BlockArg, InstBuilder, MemFlagsData, Type, Value};
use cranelift_frontend::FunctionBuilder;
use ir::leaf::Site;
use ir::linear::Linear;
use ir::nest::{Block, BufferId, IndexId, Loop, Subscript, ValueId};
use ir::sched::{Form, Forms, LoopForm};
use ir::{Affine, Dtype, Size};

use super::jit::{Helpers, Host};
use super::scalar;
use super::sizes::{Distance, SizeEntry, SizeTable, Width};
use super::state::{Columns, Exits, Indices, Local, Params, Scope, Scratch, Unit, offset, own_memory};
use super::wide::kernel::Wide;
use crate::abi::FaultRecord;

/// The code generator of one function.
pub(super) struct Emitter<'a> {
    pub(super) b: FunctionBuilder<'a>,
    pub(super) helpers: Helpers<'a>,
    pub(super) unit: Unit<'a>,
    pub(super) scope: Scope<'a>,
    sizes: &'a mut SizeTable,
    indices: Indices,
    scratch: Scratch,
    pub(super) columns: Columns,
    /// How the parallel loops run that are emitted next.
    forms: BTreeMap<IndexId, Form>,
    /// The state for leaves with wide vectors, if the machine has them.
    pub(super) wide: Option<Wide>,
    pub(super) params: Params,
    pub(super) exits: Exits,
}

/// Flags for tables that do not change while a kernel runs.
fn table_memory() -> MemFlagsData {
    MemFlagsData::trusted().with_readonly().with_can_move()
}

impl<'a> Emitter<'a> {
    pub(super) fn new(
        b: FunctionBuilder<'a>,
        helpers: Helpers<'a>,
        unit: Unit<'a>,
        sizes: &'a mut SizeTable,
        params: Params,
        exits: Exits,
    ) -> Emitter<'a> {
        let mut emitter = Emitter {
            b,
            helpers,
            unit,
            scope: Scope::new(&unit.part.kernel.values),
            sizes,
            indices: Indices::new(unit.part.kernel.indices.len()),
            scratch: Scratch::default(),
            columns: Columns::default(),
            forms: BTreeMap::new(),
            wide: None,
            params,
            exits,
        };
        emitter.enter(&unit.part.forms);
        emitter
    }

    // The forms of loops.

    /// Enters a block with loops of these forms.
    pub(super) fn enter(&mut self, forms: &[LoopForm]) {
        self.forms.extend(forms.iter().map(|LoopForm { index, form }| (*index, form.clone())));
    }

    /// The form of a loop with this last index, and with this body: the one that the schedule says,
    /// unless code generation has made the loop.
    pub(super) fn form(&self, index: IndexId, body: &Block) -> Form {
        self.form_or(index, |forms| forms.of(index, body))
    }

    /// The form of a reducing loop.
    pub(super) fn form_of_reduction(&self, l: &Loop) -> Form {
        self.form_or(l.dims[l.dims.len() - 1].0, |forms| forms.of_loop(l))
    }

    fn form_or(&self, index: IndexId, choose: impl FnOnce(&mut Forms<'_>) -> Form) -> Form {
        let choose = || choose(&mut Forms { site: self.site(&|value| self.dtype(value)), grants: &mut || true });
        self.forms.get(&index).cloned().unwrap_or_else(choose)
    }

    /// Where a loop stands.
    pub(super) fn site<'s>(&'s self, dtype: &'s dyn Fn(ValueId) -> Dtype) -> Site<'s> {
        Site { program: self.unit.program, dtype, joins: &self.unit.part.joins }
    }

    // Values, indices and sizes.

    pub(super) fn value(&self, v: ValueId) -> Value {
        self.scope.get(v).expect("a verified program defines values before it uses them")
    }

    /// The value, if it is already defined.
    pub(super) fn defined(&self, v: ValueId) -> Option<Value> {
        self.scope.get(v)
    }

    pub(super) fn define(&mut self, v: ValueId, value: Value) {
        self.scope.define(v, value);
    }

    pub(super) fn dtype(&self, v: ValueId) -> Dtype {
        self.scope.dtype(v)
    }

    /// Adds a value that the program does not have.
    pub(super) fn new_value(&mut self, dtype: Dtype) -> ValueId {
        self.scope.add(dtype)
    }

    /// Adds an index that the program does not have.
    pub(super) fn new_index(&mut self) -> IndexId {
        self.indices.add()
    }

    pub(super) fn bind(&mut self, index: IndexId, value: Value) {
        self.indices.bind(index, value);
    }

    /// The value of an index in scope.
    pub(super) fn index_value(&self, index: IndexId) -> Value {
        self.indices.get(index).0
    }

    /// The extent of an index's loop, if sizes determine it.
    pub(super) fn length(&self, index: IndexId) -> Option<&Size> {
        self.indices.length(index)
    }

    pub(super) fn set_length(&mut self, index: IndexId, length: Size) {
        self.indices.set_length(index, length);
    }

    pub(super) fn int(&mut self, value: i64) -> Value {
        self.b.ins().iconst(I64, value)
    }

    /// 1 if a size in bytes exceeds a limit, else 0.
    pub(super) fn exceeds(&mut self, size: &Size, limit: i64) -> Value {
        self.entry(SizeEntry::Exceeds(size.clone(), limit))
    }

    /// The prefetch distance of an array in bytes.
    pub(super) fn distance(&mut self, distance: Distance) -> Value {
        self.entry(SizeEntry::Distance(distance))
    }

    pub(super) fn size(&mut self, size: &Size) -> Value {
        match size.as_constant() {
            Some(value) => self.int(value),
            None => self.entry(SizeEntry::Size(size.clone())),
        }
    }

    fn entry(&mut self, entry: SizeEntry) -> Value {
        let offset = i32::try_from(self.sizes.slot(entry) * 8).expect("the table of sizes is small");
        self.b.ins().load(I64, table_memory(), self.params.sizes, offset)
    }

    /// The number of columns in a strip. Each column has its own copy of the `spread` scratch
    /// buffers.
    pub(super) fn width(&mut self, width: Width, spread: BTreeSet<BufferId>) -> Value {
        self.columns.spread.extend(spread.into_iter().map(|buffer| (buffer, width.clone())));
        self.entry(SizeEntry::Width(width))
    }

    /// An affine expression. Terms are added from the outermost index inwards, so that
    /// loop-invariant code motion can hoist partial sums.
    pub(super) fn affine(&mut self, affine: &Affine<IndexId>) -> Value {
        let base = (!affine.constant_part().is_zero()).then(|| self.size(affine.constant_part()));
        self.add_terms(base, affine, 1)
    }

    fn add_terms(&mut self, base: Option<Value>, affine: &Affine<IndexId>, factor: i64) -> Value {
        let mut terms: Vec<_> = affine.terms().iter().map(|(i, c)| (self.indices.get(*i), c)).collect();
        // n * i + j with i outside of j: n * i is added to the base first, and hoisted with it.
        terms.sort_by_key(|((_, depth), _)| *depth);
        let mut sum = base;
        for ((index, _), coefficient) in terms {
            let coefficient = coefficient * &Size::constant(factor);
            let term = match coefficient.as_constant() {
                Some(1) => index,
                Some(c) => self.b.ins().imul_imm_s(index, c),
                None => {
                    let c = self.size(&coefficient);
                    self.b.ins().imul(index, c)
                }
            };
            sum = Some(sum.map_or(term, |s| self.b.ins().iadd(s, term)));
        }
        sum.unwrap_or_else(|| self.int(0))
    }

    // Memory.

    /// The size of the scratch memory that the function needs in bytes.
    pub(super) fn scratch_used(&self) -> usize {
        self.scratch.used()
    }

    /// Allocates scratch memory.
    pub(super) fn scratch(&mut self, bytes: usize) -> Value {
        let offset = self.scratch.allocate(bytes);
        self.b.ins().iadd_imm_s(self.params.scratch, i64::from(offset))
    }

    /// Allocates scratch memory like [`Emitter::scratch`], and sets its first word to zero when the
    /// function begins.
    pub(super) fn cleared_scratch(&mut self, bytes: usize) -> Value {
        let at = offset(self.scratch.used());
        let entry = self.b.func.layout.entry_block().expect("a function with an entry");
        let mut cursor = FuncCursor::new(self.b.func).at_first_insertion_point(entry);
        let zero = cursor.ins().iconst(I64, 0);
        cursor.ins().store(own_memory(), zero, self.params.scratch, at);
        self.scratch(bytes)
    }

    /// Allocates a buffer of rank 1 in scratch memory.
    pub(super) fn local(&mut self, dtype: Dtype, elements: usize) -> BufferId {
        let base = self.scratch(elements * dtype.bytes());
        self.scratch.add(self.unit.program, Local { dtype, base })
    }

    fn as_local(&self, buffer: BufferId) -> Option<Local> {
        self.scratch.local(self.unit.program, buffer)
    }

    pub(super) fn buffer_dtype(&self, buffer: BufferId) -> Dtype {
        self.as_local(buffer).map_or_else(|| self.unit.program.buffers[buffer].dtype, |local| local.dtype)
    }

    /// The address of a buffer's first element.
    pub(super) fn base(&mut self, buffer: BufferId) -> Value {
        match self.as_local(buffer) {
            Some(local) => local.base,
            None => {
                let offset = i32::try_from(u64::from(buffer.as_u32()) * 8).expect("few buffers");
                self.b.ins().load(I64, table_memory(), self.params.buffers, offset)
            }
        }
    }

    /// Flags for accesses to a buffer: unaligned, without traps, and in an alias region of its own,
    /// or of its slot if it shares memory.
    pub(super) fn buffer_memory(&mut self, buffer: BufferId) -> MemFlagsData {
        // Buffers count up from 0, slots down from the largest number, so that they do not meet.
        let user_id = self.unit.slots[buffer].map_or(buffer.as_u32(), |slot| u32::MAX - slot.as_u32());
        let region = AliasRegionData { user_id, description: "buffer".into() };
        let region = self.b.func.dfg.alias_regions.insert(region);
        MemFlagsData::new().with_notrap().with_alias_region(Some(region))
    }

    /// The element number of an access.
    pub(super) fn linear(&self, buffer: BufferId, view: Option<&[Size]>, at: &[Subscript]) -> Linear {
        Linear::of(self.unit.program, buffer, view, at)
    }

    /// The value of an element number.
    pub(super) fn number(&mut self, linear: &Linear) -> Value {
        let mut sum = self.affine(&linear.affine);
        for (value, stride) in &linear.values {
            let (value, stride) = (self.value(*value), self.size(stride));
            let term = self.b.ins().imul(value, stride);
            sum = self.b.ins().iadd(sum, term);
        }
        sum
    }

    /// The address of an element: a register and a constant offset in bytes.
    pub(super) fn address(&mut self, buffer: BufferId, linear: &Linear) -> (Value, i32) {
        let width = i64::try_from(self.buffer_dtype(buffer).bytes()).expect("a small number");
        let mut constant = linear.affine.constant_part().clone();
        // A small constant goes into the offset of the instruction.
        let mut near = 0;
        if let Some(bytes) = constant.constant_part().checked_mul(width).filter(|b| b.abs() < 1 << 20) {
            near = i32::try_from(bytes).expect("a small number");
            constant = &constant - &Size::constant(constant.constant_part());
        }
        let mut sum = self.base(buffer);
        if !constant.is_zero() {
            let bytes = self.size(&(&constant * &Size::constant(width)));
            sum = self.b.ins().iadd(sum, bytes);
        }
        sum = self.add_terms(Some(sum), &linear.affine, width);
        for (value, stride) in &linear.values {
            let value = self.value(*value);
            let bytes = self.size(&(stride * &Size::constant(width)));
            let term = self.b.ins().imul(value, bytes);
            sum = self.b.ins().iadd(sum, term);
        }
        (sum, near)
    }

    pub(super) fn load(&mut self, buffer: BufferId, linear: &Linear) -> Value {
        let (address, near) = self.address(buffer, linear);
        let ty = scalar::register(self.buffer_dtype(buffer));
        let flags = self.buffer_memory(buffer);
        self.b.ins().load(ty, flags, address, near)
    }

    pub(super) fn store(&mut self, buffer: BufferId, linear: &Linear, value: Value) {
        let (address, near) = self.address(buffer, linear);
        let flags = self.buffer_memory(buffer);
        self.b.ins().store(flags, value, address, near);
    }

    /// The address of element `number` of an array in scratch memory.
    pub(super) fn element(&mut self, base: Value, ty: Type, number: Value) -> Value {
        let offset = self.b.ins().imul_imm_s(number, i64::from(ty.bytes()));
        self.b.ins().iadd(base, offset)
    }

    // Control.

    /// Whether the run can be cancelled.
    pub(super) fn polls(&self) -> bool {
        self.helpers.host() == Host::Here
    }

    /// The address of the cancellation flag, if the run can be cancelled.
    pub(super) fn cancelled(&mut self) -> Option<Value> {
        let offset = i32::try_from(std::mem::offset_of!(FaultRecord, cancelled)).expect("a small record");
        self.polls().then(|| self.b.ins().load(I64, table_memory(), self.params.fault, offset))
    }

    /// Leaves the function if the run has been cancelled. Loops that can be long poll in each
    /// iteration, or once per step of many elements.
    pub(super) fn poll(&mut self) {
        let Some(address) = self.cancelled() else { return };
        // An atomic load, because the optimizer could merge ordinary loads of different iterations.
        let cancelled = self.b.ins().atomic_load(I8, own_memory(), address);
        let go_on = self.b.create_block();
        self.b.ins().brif(cancelled, self.exits.cancelled, &[], go_on, &[]);
        self.b.switch_to_block(go_on);
    }

    fn arguments(values: &[Value]) -> Vec<BlockArg> {
        values.iter().map(|v| BlockArg::from(*v)).collect()
    }

    fn new_block(&mut self, like: &[Value]) -> cl::Block {
        let block = self.b.create_block();
        for v in like {
            let ty = self.b.func.dfg.value_type(*v);
            self.b.append_block_param(block, ty);
        }
        block
    }

    /// Emits `then` under a condition. The results are its values, or `otherwise`.
    pub(super) fn when(
        &mut self,
        condition: Value,
        otherwise: &[Value],
        then: impl FnOnce(&mut Self) -> Vec<Value>,
    ) -> Vec<Value> {
        let inside = self.b.create_block();
        let join = self.new_block(otherwise);
        self.b.ins().brif(condition, inside, &[], join, &Self::arguments(otherwise));
        self.b.switch_to_block(inside);
        let values = then(self);
        self.b.ins().jump(join, &Self::arguments(&values));
        self.b.switch_to_block(join);
        self.b.block_params(join).to_vec()
    }

    /// Emits an if-else. Both sides return values of the given types, which are the results.
    pub(super) fn either(
        &mut self,
        condition: Value,
        types: &[Type],
        then: impl FnOnce(&mut Self) -> Vec<Value>,
        otherwise: impl FnOnce(&mut Self) -> Vec<Value>,
    ) -> Vec<Value> {
        let (yes, no, join) = (self.b.create_block(), self.b.create_block(), self.b.create_block());
        for ty in types {
            self.b.append_block_param(join, *ty);
        }
        self.b.ins().brif(condition, yes, &[], no, &[]);
        self.b.switch_to_block(yes);
        let values = then(self);
        self.b.ins().jump(join, &Self::arguments(&values));
        self.b.switch_to_block(no);
        let values = otherwise(self);
        self.b.ins().jump(join, &Self::arguments(&values));
        self.b.switch_to_block(join);
        self.b.block_params(join).to_vec()
    }

    /// Emits a do-while loop with carried values. `body` returns the condition and the next values.
    pub(super) fn repeat(
        &mut self,
        initial: &[Value],
        body: impl FnOnce(&mut Self, &[Value]) -> (Value, Vec<Value>),
    ) -> Vec<Value> {
        let head = self.new_block(initial);
        let exit = self.new_block(initial);
        self.b.ins().jump(head, &Self::arguments(initial));
        self.b.switch_to_block(head);
        self.indices.enter();
        let carried = self.b.block_params(head).to_vec();
        let (again, next) = body(self, &carried);
        self.indices.leave();
        let next = Self::arguments(&next);
        // Both targets take the carried values: after the last iteration they are the results.
        self.b.ins().brif(again, head, &next, exit, &next);
        self.b.switch_to_block(exit);
        self.b.block_params(exit).to_vec()
    }

    /// Emits a loop over `from, from + step, ...` below `to` with carried values. Returns their
    /// last values.
    pub(super) fn counted(
        &mut self,
        from: Value,
        to: Value,
        step: i64,
        carried: &[Value],
        body: impl FnOnce(&mut Self, Value, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        // The loop tests at its end, so it needs a guard for an empty range.
        let some = self.b.ins().icmp(IntCC::SignedLessThan, from, to);
        self.when(some, carried, |e| {
            let mut initial = vec![from];
            initial.extend(carried);
            let last = e.repeat(&initial, |e, state| {
                let mut next = body(e, state[0], &state[1..]);
                let i = e.b.ins().iadd_imm_s(state[0], step);
                next.insert(0, i);
                (e.b.ins().icmp(IntCC::SignedLessThan, i, to), next)
            });
            last[1..].to_vec()
        })
    }

    /// Emits a loop of at most `extent` steps with carried values, and returns their last ones.
    /// `body` gets the number of the step, the current values, and the block to leave to; it
    /// returns the next values.
    pub(super) fn steps(
        &mut self,
        extent: Value,
        first: &[Value],
        body: impl FnOnce(&mut Self, Value, &[Value], cl::Block) -> Vec<Value>,
    ) -> Vec<Value> {
        let zero = self.int(0);
        let mut initial = vec![zero];
        initial.extend(first);
        let (head, exit) = (self.new_block(&initial), self.new_block(first));
        let some = self.b.ins().icmp(IntCC::SignedLessThan, zero, extent);
        self.b.ins().brif(some, head, &Self::arguments(&initial), exit, &Self::arguments(first));
        self.b.switch_to_block(head);
        self.indices.enter();
        let carried = self.b.block_params(head).to_vec();
        let mut next = body(self, carried[0], &carried[1..], exit);
        self.indices.leave();
        let done = self.b.ins().iadd_imm_s(carried[0], 1);
        let more = self.b.ins().icmp(IntCC::SignedLessThan, done, extent);
        let last = Self::arguments(&next);
        next.insert(0, done);
        self.b.ins().brif(more, head, &Self::arguments(&next), exit, &last);
        self.b.switch_to_block(exit);
        self.b.block_params(exit).to_vec()
    }

    /// Leaves a loop with its current values, unless it goes on.
    pub(super) fn leave_unless(&mut self, goes_on: Value, exit: cl::Block, current: &[Value]) {
        let inside = self.b.create_block();
        self.b.ins().brif(goes_on, inside, &[], exit, &Self::arguments(current));
        self.b.switch_to_block(inside);
    }

    /// The smaller of two signed integers.
    pub(super) fn least(&mut self, a: Value, b: Value) -> Value {
        self.b.ins().smin(a, b)
    }
}
