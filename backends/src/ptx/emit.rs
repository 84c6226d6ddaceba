//! The state of code generation for a kernel, shared by all forms of loops: values and indices in
//! scope, kernel arguments, addresses, loads, stores and scalar statements.

use std::collections::{BTreeMap, BTreeSet};

use cranelift_codegen::entity::SecondaryMap;
use ir::build::Values;
use ir::linear::Linear;
use ir::nest::{
    Block, BufferId, Extent, FunctionId, IndexId, Op, Program, ReducerId, Role, Statement, Subscript, ValueId,
};
use ir::rewrite::Inside;
use ir::sched::{Part, Shared};
use ir::{Affine, BinaryOp, Dtype, MathFn, Monoid, Size, UnaryOp, visit};

use super::build::{Builder, Control};
use super::inst::{Address, Comparison, Opcode, Operand, Reg, Rounding, Space, Special, Type};
use super::scalar;
use super::state::{
    Addresses, Argument, DeferredStore, ExecScope, Failed, FastDivision, HeldRow, Mapping, Masks, RegisterRow, Scans,
    ScratchScope, StagingBuffer, Strip, StripShape, SyncScope,
};
use super::tensor_map::TensorView;

/// The values of a kernel, or of a function while it is being inlined.
struct Scope<'a> {
    dtypes: &'a Values,
    values: SecondaryMap<ValueId, Option<Reg>>,
    /// The values of loads that came before the other statements of an iteration.
    loaded: BTreeMap<ValueId, Reg>,
    /// Whether quotients of `f32` are known to lie in range.
    quotients_in_range: bool,
}

impl<'a> Scope<'a> {
    fn new(dtypes: &'a Values) -> Scope<'a> {
        Scope { dtypes, values: SecondaryMap::new(), loaded: BTreeMap::new(), quotients_in_range: false }
    }
}

/// The registers of values and of indices.
pub(super) struct Names {
    values: SecondaryMap<ValueId, Option<Reg>>,
    indices: SecondaryMap<IndexId, Option<Reg>>,
}

/// The code generator of one kernel.
pub(super) struct Emitter<'a> {
    builder: Builder,
    pub(super) program: &'a Program,
    scope: Scope<'a>,
    indices: SecondaryMap<IndexId, Option<Reg>>,
    arguments: Vec<Argument>,
    /// The tensor maps of the kernel, with their addresses.
    pub(super) maps: Vec<TensorView>,
    /// Arguments that the prologue has loaded.
    loaded: BTreeMap<Argument, Reg>,
    special: BTreeMap<Special, Reg>,
    scratch: BTreeMap<BufferId, Reg>,
    /// The scratch of a block that is in shared memory.
    in_shared_memory: BTreeSet<BufferId>,
    /// The memory that the kernel both loads and stores, so that accesses need synchronization.
    pub(super) shared: Shared,
    pub(super) mapping: Mapping<'a>,
    pub(super) masks: Masks,
    pub(super) addresses: Addresses,
    pub(super) scans: Scans,
    /// The row that the threads currently hold in registers.
    pub(super) row: Option<RegisterRow>,
    /// The short rows that the thread holds while it goes through another loop.
    pub(super) held: Vec<HeldRow>,
    /// The staging buffer in shared memory for the part of the row that does not fit into
    /// registers.
    pub(super) staging: Option<StagingBuffer>,
    /// Whether exponentials are approximations by the device.
    pub(super) fast_exp: bool,
    /// While code divides without branches: the ranges of operands seen so far.
    pub(super) fast_division: Option<FastDivision>,
    /// The stores of unrolled iterations that are deferred until the loads of later ones have been
    /// issued.
    pub(super) deferred: Option<Vec<DeferredStore>>,
    /// The checks of unrolled iterations, which report at their end.
    pub(super) failed: Option<Vec<Failed>>,
    /// The shape of strips, if columns are processed in strips.
    pub(super) strip_shape: Option<StripShape>,
    /// The current strip of columns.
    pub(super) strip: Option<Strip>,
}

/// The most bytes of a scratch buffer that goes into shared memory.
const MOST_SCRATCH: usize = 8 << 10;

impl Control for Emitter<'_> {
    fn b(&mut self) -> &mut Builder {
        &mut self.builder
    }
}

impl<'a> Emitter<'a> {
    pub(super) fn new(program: &'a Program, part: &'a Part, threads: u32, scratch_scope: ScratchScope) -> Emitter<'a> {
        let kernel = &part.kernel;
        let mut builder = Builder::new();
        let checks = kernel.body.iter().any(Statement::may_fault);
        let mut leaning = vec![];
        if checks {
            let inside = Inside::new(program);
            kernel
                .body
                .iter()
                .for_each(|s| inside.each_leaning(s, &mut |buffer, at| leaning.push((buffer, at.to_vec()))));
        }
        let masks =
            Masks { valid: None, passed: checks.then(|| builder.set(Comparison::Eq, Type::U32, 0, 0)), leaning };
        Emitter {
            builder,
            program,
            scope: Scope::new(&kernel.values),
            indices: SecondaryMap::new(),
            arguments: vec![],
            maps: vec![],
            loaded: BTreeMap::new(),
            special: BTreeMap::new(),
            scratch: BTreeMap::new(),
            in_shared_memory: BTreeSet::new(),
            shared: Shared::of(program, kernel),
            mapping: Mapping {
                threads,
                exec_scope: ExecScope::Block,
                sync_scope: if scratch_scope == ScratchScope::Warp { SyncScope::Warp } else { SyncScope::Block },
                scratch_scope,
                cluster: 1,
                resident: None,
                joins: &part.joins,
                runs: false,
            },
            masks,
            addresses: Addresses::default(),
            scans: Scans::default(),
            row: None,
            held: vec![],
            staging: None,
            fast_exp: false,
            fast_division: None,
            deferred: None,
            failed: None,
            strip_shape: None,
            strip: None,
        }
    }

    pub(super) fn finish(self, name: String) -> (super::inst::Function, Vec<Argument>) {
        let bytes = self.arguments.len().max(1) * 8;
        let function = self.builder.finish(name, bytes, self.mapping.threads);
        let maps = u32::try_from(self.maps.len()).expect("few maps");
        let cluster = (self.mapping.sync_scope == SyncScope::Cluster).then_some(self.mapping.cluster);
        (super::inst::Function { cluster, maps, resident: self.mapping.resident, ..function }, self.arguments)
    }

    // Values, indices and sizes.

    pub(super) fn value(&self, v: ValueId) -> Reg {
        self.scope.values[v].expect("a verified program defines values before it uses them")
    }

    pub(super) fn define(&mut self, v: ValueId, reg: Reg) {
        self.scope.values[v] = Some(reg);
    }

    pub(super) fn dtype(&self, v: ValueId) -> Dtype {
        self.scope.dtypes[v]
    }

    pub(super) fn bind(&mut self, index: IndexId, reg: Reg) {
        self.indices[index] = Some(reg);
    }

    pub(super) fn index(&self, index: IndexId) -> Reg {
        self.indices[index].expect("a verified program uses indices inside their loops")
    }

    /// Lets code that follows use the values of these loads, in place of the loads.
    pub(super) fn have_loaded(&mut self, values: BTreeMap<ValueId, Reg>) {
        self.scope.loaded = values;
    }

    /// The current registers of all of them.
    pub(super) fn names(&self) -> Names {
        Names { values: self.scope.values.clone(), indices: self.indices.clone() }
    }

    /// Exchanges the current registers for others.
    pub(super) fn exchange_names(&mut self, names: &mut Names) {
        std::mem::swap(&mut self.scope.values, &mut names.values);
        std::mem::swap(&mut self.indices, &mut names.indices);
    }

    pub(super) fn int(&mut self, value: i64) -> Reg {
        self.builder.mov(Type::S64, value)
    }

    /// The value of a kernel argument, loaded in the prologue.
    pub(super) fn argument(&mut self, argument: Argument) -> Reg {
        if let Some(reg) = self.loaded.get(&argument) {
            return *reg;
        }
        let offset = i64::try_from(self.arguments.len() * 8).expect("few arguments");
        let at = Address { base: None, offset };
        let reg = self.builder.first(|b| b.load(Space::Param, Type::B64, at));
        self.arguments.push(argument.clone());
        self.loaded.insert(argument, reg);
        reg
    }

    /// The address of a tensor map, which becomes a kernel argument.
    pub(super) fn tensor_map(&mut self, view: TensorView) -> Reg {
        let number = u32::try_from(self.maps.len()).expect("few maps");
        self.maps.push(view);
        self.builder.first(|b| {
            let at = b.mov(Type::U64, Operand::Map(number));
            b.op(Opcode::Cvta, Type::U64, &[at.into()])
        })
    }

    /// A special register, extended to 64 bits.
    pub(super) fn special(&mut self, special: Special) -> Reg {
        if let Some(reg) = self.special.get(&special) {
            return *reg;
        }
        let reg = self.builder.first(|b| {
            let narrow = b.mov(Type::U32, Operand::Special(special));
            b.convert(Rounding::Exact, Type::U64, Type::U32, narrow)
        });
        self.special.insert(special, reg);
        reg
    }

    pub(super) fn size(&mut self, size: &Size) -> Reg {
        match size.as_constant() {
            Some(value) => self.int(value),
            None => self.argument(Argument::Size(size.clone())),
        }
    }

    pub(super) fn extent(&mut self, extent: &Extent) -> Reg {
        match extent {
            Extent::Affine(affine) => self.affine(affine),
            Extent::Value(value) => self.value(*value),
        }
    }

    pub(super) fn affine(&mut self, affine: &Affine<IndexId>) -> Reg {
        let base = self.size(affine.constant_part());
        let sum = self.add_terms(base, affine, 1);
        let displacement = self.displacement(affine);
        if displacement.is_zero() {
            return sum;
        }
        let displacement = self.size(&displacement);
        self.builder.op2(Opcode::Add, Type::S64, sum, displacement)
    }

    /// The constant by which an affine expression exceeds what its index registers give.
    pub(super) fn displacement(&self, affine: &Affine<IndexId>) -> Size {
        let Some((index, by)) = self.addresses.displaced else { return Size::constant(0) };
        &affine.coefficient(index) * &Size::constant(by)
    }

    fn add_terms(&mut self, base: Reg, affine: &Affine<IndexId>, factor: i64) -> Reg {
        let mut sum = base;
        for (index, coefficient) in affine.terms() {
            let index = self.index(*index);
            let coefficient = self.size(&(coefficient * &Size::constant(factor)));
            sum = self.builder.op(Opcode::Mad, Type::S64, &[index.into(), coefficient.into(), sum.into()]);
        }
        sum
    }

    // Memory.

    /// The address of a buffer's first element. For scratch, it is that of this block's, warp's or
    /// thread's copy.
    fn base(&mut self, buffer: BufferId) -> Reg {
        if self.program.buffers[buffer].role != Role::Scratch {
            return self.argument(Argument::Buffer(buffer));
        }
        if let Some(base) = self.scratch.get(&buffer) {
            return *base;
        }
        let first = self.argument(Argument::Buffer(buffer));
        let stride = self.argument(Argument::Stride(buffer));
        let block = self.special(Special::Ctaid);
        if let Some(shape) = self.strip_shape {
            let thread = self.special(Special::Tid);
            let bytes = self.element_bytes(buffer) / shape.width;
            let base = self.builder.first(|b| shape.scratch(b, first, block, stride, thread, bytes));
            self.scratch.insert(buffer, base);
            return base;
        }
        let (threads, thread) = (self.special(Special::Ntid), self.special(Special::Tid));
        let mad = [block.into(), threads.into(), thread.into()];
        let owner_number = match self.mapping.scratch_scope {
            ScratchScope::Block => block,
            ScratchScope::Thread => self.builder.first(|b| b.op(Opcode::Mad, Type::S64, &mad)),
            ScratchScope::Warp => self.builder.first(|b| {
                let thread = b.op(Opcode::Mad, Type::S64, &mad);
                b.op2(Opcode::Shr, Type::U64, thread, 5)
            }),
        };
        let mad = [owner_number.into(), stride.into(), first.into()];
        let base = self.builder.first(|b| b.op(Opcode::Mad, Type::S64, &mad));
        self.scratch.insert(buffer, base);
        base
    }

    /// Puts the scratch of the block into shared memory, as far as its size is constant and small.
    pub(super) fn scratch_to_shared_memory(&mut self, block: &Block) {
        let buffers = visit::stores(block).into_iter().filter(|b| self.program.buffers[*b].role == Role::Scratch);
        for buffer in buffers.collect::<BTreeSet<_>>() {
            let ir::nest::Buffer { shape, dtype, .. } = &self.program.buffers[buffer];
            let elements = shape.iter().map(Size::as_constant).product::<Option<i64>>();
            let bytes = elements.and_then(|n| usize::try_from(n).ok()?.checked_mul(dtype.bytes()));
            let Some(bytes) = bytes.filter(|bytes| *bytes <= MOST_SCRATCH) else { continue };
            let at = self.builder.take(Space::Shared, bytes);
            let base = self.builder.first(|b| {
                let base = b.mov(Type::U64, Operand::Own(Space::Shared));
                b.op2(Opcode::Add, Type::S64, base, at)
            });
            self.in_shared_memory.insert(buffer);
            self.scratch.insert(buffer, base);
        }
    }

    /// The memory that a buffer is in.
    pub(super) fn space(&self, buffer: BufferId) -> Space {
        if self.in_shared_memory.contains(&buffer) { Space::Shared } else { Space::Global }
    }

    pub(super) fn element_bytes(&self, buffer: BufferId) -> i64 {
        let buffer = &self.program.buffers[buffer];
        let shape = self.strip_shape.filter(|_| buffer.role == Role::Scratch);
        let together = shape.map_or(1, |shape| shape.width);
        together * i64::try_from(buffer.dtype.bytes()).expect("a small number")
    }

    /// The address of an access with the index at its register's value. Constant parts go into the
    /// offset, so that accesses a constant distance apart share one register.
    pub(super) fn first_address(&mut self, buffer: BufferId, linear: &Linear) -> Address {
        if let Some((.., base)) =
            self.addresses.bases.iter().find(|(b, affine, _)| *b == buffer && *affine == linear.affine)
            && linear.values.is_empty()
        {
            return *base;
        }
        let width = self.element_bytes(buffer);
        let mut sum = self.base(buffer);
        let constant = linear.affine.constant_part();
        let near = constant.constant_part();
        // Offsets of PTX addresses have 32 bits.
        let offset = near.checked_mul(width).filter(|offset| i32::try_from(*offset).is_ok());
        let rest = if offset.is_some() { constant - &Size::constant(near) } else { constant.clone() };
        if !rest.is_zero() {
            let bytes = self.size(&(&rest * &Size::constant(width)));
            sum = self.builder.op2(Opcode::Add, Type::S64, sum, bytes);
        }
        sum = self.add_terms(sum, &linear.affine, width);
        for (value, stride) in &linear.values {
            let value = self.value(*value);
            let bytes = self.size(&(stride * &Size::constant(width)));
            sum = self.builder.op(Opcode::Mad, Type::S64, &[value.into(), bytes.into(), sum.into()]);
        }
        Address { base: Some(sum), offset: offset.unwrap_or(0) }
    }

    pub(super) fn address(&mut self, buffer: BufferId, linear: &Linear) -> Address {
        if let Some(pointer) = self.pointer(buffer, linear) {
            return pointer;
        }
        let first = self.first_address(buffer, linear);
        let width = self.element_bytes(buffer);
        let displacement = &self.displacement(&linear.affine) * &Size::constant(width);
        let offset = displacement.as_constant().and_then(|displacement| first.offset.checked_add(displacement));
        if let Some(offset) = offset.filter(|offset| i32::try_from(*offset).is_ok()) {
            return Address { offset, ..first };
        }
        let displacement = self.size(&displacement);
        let base = first.base.map(|base| self.builder.op2(Opcode::Add, Type::S64, base, displacement));
        Address { base, ..first }
    }

    /// Loads an element. A checked subscript is replaced by 0 if the check fails, which is still
    /// out of bounds if the buffer is empty, so such loads are guarded. So are loads that are only
    /// in bounds if an earlier check passed.
    pub(super) fn load(&mut self, buffer: BufferId, view: Option<&[Size]>, at: &[Subscript]) -> Reg {
        let linear = Linear::of(self.program, buffer, view, at);
        // Prefer a register, then the staging buffer in shared memory.
        if let Some(kept) = self.in_register(buffer, &linear) {
            return kept;
        }
        if let Some(held) = self.held_element(buffer, &linear) {
            return held;
        }
        if let Some(kept) = self.load_staged(buffer, &linear) {
            return kept;
        }
        let address = self.address(buffer, &linear);
        let dtype = self.program.buffers[buffer].dtype;
        let ty = scalar::memory(dtype);
        let mut condition = self.masks.valid;
        if !linear.values.is_empty() {
            let shape = &self.program.buffers[buffer].shape;
            let elements = shape.iter().fold(Size::constant(1), |product, length| &product * length);
            let elements = self.size(&elements);
            let some = self.builder.set(Comparison::Gt, Type::S64, elements, 0);
            let others = [self.masks.valid, self.masks.passed].into_iter().flatten();
            condition = Some(others.fold(some, |all, one| self.builder.op2(Opcode::And, Type::Pred, all, one)));
        } else if let Some(passed) = self.masks.passed
            && self.masks.leaning.iter().any(|(b, other)| *b == buffer && other == at)
        {
            let both = |e: &mut Self, valid| e.builder.op2(Opcode::And, Type::Pred, valid, passed);
            condition = Some(self.masks.valid.map_or(passed, |valid| both(self, valid)));
        }
        let space = self.space(buffer);
        // A guarded load that does not happen must still define its register.
        let loaded = if let Some(some) = condition {
            let class = match ty.class() {
                super::inst::Class::B16 => Type::B16,
                super::inst::Class::B64 => Type::B64,
                _ => Type::B32,
            };
            let to = self.builder.mov(class, 0);
            self.builder.guarded(some, |b| b.load_to(to, space, ty, address));
            to
        } else {
            self.builder.load(space, ty, address)
        };
        self.store_staged(buffer, &linear, loaded);
        if dtype == Dtype::Bool { scalar::is_set(&mut self.builder, loaded) } else { loaded }
    }

    pub(super) fn store(&mut self, buffer: BufferId, at: &[Subscript], value: ValueId) {
        let reg = self.value(value);
        self.store_register(buffer, at, reg);
    }

    /// Merges a value into an element.
    fn scatter(&mut self, buffer: BufferId, at: &[Subscript], value: ValueId, monoid: Monoid) {
        let before = self.load(buffer, None, at);
        self.store_merged(buffer, at, before, value, monoid);
    }

    /// Stores an element merged with a value.
    pub(super) fn store_merged(
        &mut self,
        buffer: BufferId,
        at: &[Subscript],
        before: Reg,
        value: ValueId,
        monoid: Monoid,
    ) {
        let value = self.value(value);
        let dtype = self.program.buffers[buffer].dtype;
        let merged = scalar::binary(&mut self.builder, monoid.primitive(), dtype, before, value);
        self.store_register(buffer, at, merged);
    }

    pub(super) fn store_register(&mut self, buffer: BufferId, at: &[Subscript], reg: Reg) {
        let linear = Linear::of(self.program, buffer, None, at);
        let address = self.address(buffer, &linear);
        let dtype = self.program.buffers[buffer].dtype;
        let reg = if dtype == Dtype::Bool { scalar::number_of(&mut self.builder, reg) } else { reg };
        // Threads past the last column of a strip repeat its work, but only store to their own
        // scratch.
        let shares = self.program.buffers[buffer].role != Role::Scratch;
        let only = self.masks.valid.or(self.strip.filter(|_| shares).map(|strip| strip.in_bounds));
        let space = self.space(buffer);
        self.store_or_defer(DeferredStore { space, ty: scalar::memory(dtype), value: reg, at: address, only });
    }

    /// Writes element `number` of a buffer of rank 1.
    pub(super) fn store_at(&mut self, buffer: BufferId, number: Reg, value: Reg) {
        let dtype = self.program.buffers[buffer].dtype;
        let width = i64::try_from(dtype.bytes()).expect("a small number");
        let base = self.base(buffer);
        let address = self.builder.op(Opcode::Mad, Type::S64, &[number.into(), width.into(), base.into()]);
        let value = if dtype == Dtype::Bool { scalar::number_of(&mut self.builder, value) } else { value };
        self.builder.store(Space::Global, scalar::memory(dtype), value, Address { base: Some(address), offset: 0 });
    }

    // Statements.

    pub(super) fn block(&mut self, block: &[Statement]) {
        block.iter().for_each(|statement| self.statement(statement));
    }

    pub(super) fn statement(&mut self, statement: &Statement) {
        match statement {
            Statement::Let { value, .. } if let Some(reg) = self.scope.loaded.get(value) => self.define(*value, *reg),
            Statement::Let { value, op } => self.let_(*value, op),
            Statement::Store { buffer, at, value } if self.mapping.exec_scope == ExecScope::Thread => {
                self.store(*buffer, at, *value)
            }
            Statement::Scatter { buffer, at, value, monoid } if self.mapping.exec_scope == ExecScope::Thread => {
                self.without_deferral(|e| e.scatter(*buffer, at, *value, *monoid));
            }
            Statement::Store { buffer, at, value } => {
                self.by_leader(*buffer, |e| e.store(*buffer, at, *value));
            }
            Statement::Scatter { buffer, at, value, monoid } => {
                self.by_leader(*buffer, |e| e.scatter(*buffer, at, *value, *monoid));
            }
            Statement::If { condition, then, otherwise, results } => {
                let condition = self.value(*condition);
                self.without_deferral(|e| e.if_(condition, then, otherwise, results));
            }
            Statement::Loop(l) => self.without_deferral(|e| e.loop_(l)),
            Statement::While(w) => self.without_deferral(|e| e.carried(w)),
            Statement::Contract(_) => unreachable!("contractions have become loops"),
        }
    }

    /// Lets the leader alone store an element of a buffer.
    fn by_leader(&mut self, buffer: BufferId, store: impl FnOnce(&mut Self)) {
        let shared = self.shared.buffers.contains(&buffer);
        if self.shared.in_place || shared {
            // Wait until all threads have loaded the elements that this overwrites.
            self.sync();
        }
        let first = self.is_leader();
        self.when(first, |e| e.without_deferral(store));
        if shared {
            self.sync();
        }
    }

    /// The index of the thread in its synchronization scope.
    pub(super) fn rank(&mut self) -> Reg {
        let thread = self.special(Special::Tid);
        match self.mapping.sync_scope {
            SyncScope::Warp => self.builder.op2(Opcode::And, Type::B64, thread, 31),
            SyncScope::Block => thread,
            SyncScope::Cluster => {
                let [block, threads] = [Special::ClusterCtarank, Special::Ntid].map(|s| self.special(s));
                self.builder.op(Opcode::Mad, Type::S64, &[block.into(), threads.into(), thread.into()])
            }
        }
    }

    /// Whether this is the first thread of its synchronization scope.
    pub(super) fn is_first(&mut self) -> Reg {
        let rank = self.rank();
        self.builder.set(Comparison::Eq, Type::S64, rank, 0)
    }

    /// Synchronizes the threads of the current scope.
    pub(super) fn sync(&mut self) {
        match self.mapping.sync_scope {
            SyncScope::Warp => self.builder.warp_barrier(),
            SyncScope::Block => self.builder.barrier(),
            SyncScope::Cluster => self.builder.cluster_barrier(),
        }
    }

    /// Whether this thread performs the stores of its execution scope.
    fn is_leader(&mut self) -> Reg {
        match (self.mapping.exec_scope, self.strip) {
            (ExecScope::Column, Some(strip)) => strip.leader,
            _ => self.is_first(),
        }
    }

    /// Ends statements that threads of the scope have executed each for itself. Afterwards all have
    /// passed the same checks, and other threads may load elements that the statements store, or
    /// overwrite elements that they load.
    pub(super) fn settle(&mut self, block: &Block) {
        self.agree(block);
        if self.shared.in_place || visit::stores(block).iter().any(|buffer| self.shared.buffers.contains(buffer)) {
            self.sync();
        }
    }

    /// Lets a check of these statements that failed in one thread count for all threads of the
    /// scope. Otherwise their guarded loads would give different extents, and they would not reach
    /// the same barriers.
    pub(super) fn agree(&mut self, block: &[Statement]) {
        let Some(passed) = self.masks.passed.filter(|_| block.iter().any(Statement::may_fault)) else { return };
        let all = match self.mapping.sync_scope {
            SyncScope::Warp => {
                let failed = self.builder.op(Opcode::Not, Type::Pred, &[passed.into()]);
                let failed = self.builder.any(failed);
                self.builder.op(Opcode::Not, Type::Pred, &[failed.into()])
            }
            // Blocks of a cluster share rows, and the loops over them are as long as the rows.
            SyncScope::Block | SyncScope::Cluster => self.builder.barrier_all(passed),
        };
        self.builder.assign(passed, all);
    }

    fn if_(&mut self, condition: Reg, then: &Block, otherwise: &Block, results: &[(ValueId, ValueId, ValueId)]) {
        let short = then.iter().chain(otherwise).all(|s| matches!(s, Statement::Let { .. }));
        if let Some(valid) = self.masks.valid.filter(|_| short) {
            return self.if_masked((condition, valid), [then, otherwise], results);
        }
        // A result of a branch is a register that both sides assign.
        let mut joined = vec![];
        for (result, ..) in results {
            let class = scalar::memory(self.dtype(*result)).class();
            let class = if self.dtype(*result) == Dtype::Bool { super::inst::Class::Pred } else { class };
            joined.push(self.builder.reg(class));
        }
        let assign = |e: &mut Self, side: fn(&(ValueId, ValueId, ValueId)) -> ValueId| {
            for (to, result) in joined.iter().zip(results) {
                let from = e.value(side(result));
                e.builder.assign(*to, from);
            }
        };
        self.either(
            condition,
            |e| {
                e.block(then);
                assign(e, |r| r.1);
            },
            |e| {
                e.block(otherwise);
                assign(e, |r| r.2);
            },
        );
        for (reg, (result, ..)) in joined.iter().zip(results) {
            self.define(*result, *reg);
        }
    }

    /// An `if` where loads and checks are masked: both sides run, but their loads and checks only
    /// where a side is taken.
    fn if_masked(
        &mut self,
        (condition, valid): (Reg, Reg),
        [then, otherwise]: [&Block; 2],
        results: &[(ValueId, ValueId, ValueId)],
    ) {
        let other = self.builder.op(Opcode::Not, Type::Pred, &[condition.into()]);
        for (side, block) in [(condition, then), (other, otherwise)] {
            let taken = self.builder.op2(Opcode::And, Type::Pred, valid, side);
            self.masked(taken, |e| e.block(block));
        }
        for (result, x, y) in results {
            let (dtype, [x, y]) = (self.dtype(*result), [*x, *y].map(|v| self.value(v)));
            let value = scalar::select(&mut self.builder, dtype, condition, x, y);
            self.define(*result, value);
        }
    }

    pub(super) fn let_(&mut self, value: ValueId, op: &Op) {
        let reg = match op {
            Op::Constant(c) => scalar::constant(&mut self.builder, *c),
            Op::Affine(affine) => self.affine(affine),
            Op::Unary(op, a) => {
                let x = self.value(*a);
                match (op, self.scope.dtypes[*a], self.fast_division) {
                    (UnaryOp::Sqrt, Dtype::F32, Some(fast_division)) => {
                        fast_division.root(&mut self.builder, self.masks.valid, x)
                    }
                    (_, dtype, _) => scalar::unary(&mut self.builder, *op, dtype, x),
                }
            }
            Op::Binary(op, a, b) => {
                let (x, y) = (self.value(*a), self.value(*b));
                match (op, self.scope.dtypes[*a], &mut self.fast_division) {
                    (BinaryOp::Div, Dtype::F32, _) if self.scope.quotients_in_range => self.builder.quotient(x, y),
                    (BinaryOp::Div, Dtype::F32, Some(fast_division)) => {
                        fast_division.quotient(&mut self.builder, self.masks.valid, x, y)
                    }
                    (_, dtype, _) => scalar::binary(&mut self.builder, *op, dtype, x, y),
                }
            }
            Op::Compare(op, a, b) => {
                let (x, y) = (self.value(*a), self.value(*b));
                scalar::compare(&mut self.builder, *op, self.scope.dtypes[*a], x, y)
            }
            Op::Fma(a, b, c) => {
                let operands = [*a, *b, *c].map(|v| self.value(v));
                scalar::fma(&mut self.builder, self.scope.dtypes[*a], operands)
            }
            Op::Select(c, a, b) => {
                let [c, x, y] = [*c, *a, *b].map(|v| self.value(v));
                scalar::select(&mut self.builder, self.scope.dtypes[*a], c, x, y)
            }
            Op::Cast(to, a) => {
                let x = self.value(*a);
                scalar::cast(&mut self.builder, *to, self.scope.dtypes[*a], x)
            }
            Op::Bitcast(to, a) => {
                let x = self.value(*a);
                scalar::bitcast(&mut self.builder, *to, self.scope.dtypes[*a], x)
            }
            Op::Call(function, arguments) => self.call(*function, arguments),
            Op::Load { buffer, view, at } => self.load(*buffer, view.as_deref(), at),
            Op::Check { value, bound, site } => self.check(*value, bound, *site),
            Op::Prefix(..) | Op::Place(_) => return self.prefix(value),
        };
        self.define(value, reg);
    }

    /// Inlines a function.
    fn call(&mut self, function: FunctionId, arguments: &[ValueId]) -> Reg {
        let program = self.program;
        let function = &program.functions[function];
        let arguments: Vec<Reg> = arguments.iter().map(|v| self.value(*v)).collect();
        if self.fast_exp && function.math == MathFn::Exp && function.values[function.result] == Dtype::F32 {
            let log2_e = Operand::F32(std::f32::consts::LOG2_E.to_bits());
            let power = self.builder.op(Opcode::MulRn, Type::F32, &[arguments[0].into(), log2_e]);
            return self.builder.op(Opcode::Exp2Near, Type::F32, &[power.into()]);
        }
        let inner = Scope { quotients_in_range: function.quotients_in_range, ..Scope::new(&function.values) };
        let outer = std::mem::replace(&mut self.scope, inner);
        for (parameter, argument) in function.params.iter().zip(arguments) {
            self.define(*parameter, argument);
        }
        self.block(&function.body);
        let result = self.value(function.result);
        self.scope = outer;
        result
    }

    /// Inlines the merge of a reducer. The first state precedes the second in the order.
    pub(super) fn merge(&mut self, id: ReducerId, arguments: &[Reg]) -> Vec<Reg> {
        let program = self.program;
        let reducer = &program.reducers[id];
        let outer = std::mem::replace(&mut self.scope, Scope::new(&reducer.values));
        for (parameter, argument) in reducer.params.iter().zip(arguments) {
            self.define(*parameter, *argument);
        }
        self.block(&reducer.body);
        let results = reducer.results.iter().map(|v| self.value(*v)).collect();
        self.scope = outer;
        results
    }

    /// The types of the values in scope.
    pub(super) fn dtypes(&self) -> &Values {
        self.scope.dtypes
    }
}
