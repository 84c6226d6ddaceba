//! A builder for one kernel: registers, labels, instructions, and the branches and loops that all
//! other code is composed of.

use cranelift_codegen::entity::{PrimaryMap, SecondaryMap};
use ir::sabotage::{self, Bug};

use super::inst::{
    Address, Class, Comparison, Factors, Function, Inst, Label, Op, Opcode, Operand, Reg, Rounding, Shuffle, Space,
    Special, TileFactors, TileType, Type,
};

/// The bytes of a counter of blocks.
pub(super) const COUNTER: i64 = 8;

/// A kernel under construction.
pub(super) struct Builder {
    registers: PrimaryMap<Reg, Class>,
    /// For 64-bit registers that are extensions of 32-bit values: the type and the value before the
    /// extension.
    narrow: SecondaryMap<Reg, Option<(Type, Operand)>>,
    /// The prologue: instructions that run once, before the body.
    first: Vec<Inst>,
    body: Vec<Inst>,
    labels: u32,
    guard: Option<(Reg, bool)>,
    /// The allocated shared memory of the block and local memory of the thread.
    shared: Stack,
    local: Stack,
}

/// Memory that is allocated and freed in stack order: the bytes in use and the maximum so far.
#[derive(Default)]
struct Stack {
    used: usize,
    most: usize,
}

impl Stack {
    fn take(&mut self, bytes: usize) -> i64 {
        let at = self.used;
        self.used += bytes.next_multiple_of(16);
        self.most = self.most.max(self.used);
        i64::try_from(at).expect("a small number")
    }
}

impl Builder {
    pub(super) fn new() -> Builder {
        Builder {
            registers: PrimaryMap::new(),
            narrow: SecondaryMap::new(),
            first: vec![],
            body: vec![],
            labels: 0,
            guard: None,
            shared: Stack::default(),
            local: Stack::default(),
        }
    }

    pub(super) fn finish(mut self, name: String, arguments: usize, threads: u32) -> Function {
        self.push(Op::Return);
        // The prologue was emitted into a list of its own, while the body already grew.
        let mut body = self.first;
        body.append(&mut self.body);
        let (shared, local) = (self.shared.most, self.local.most);
        let registers = self.registers;
        Function { name, arguments, maps: 0, threads, cluster: None, resident: None, shared, local, registers, body }
    }

    pub(super) fn reg(&mut self, class: Class) -> Reg {
        self.registers.push(class)
    }

    pub(super) fn class(&self, reg: Reg) -> Class {
        self.registers[reg]
    }

    /// Adds an instruction of another function, with its own guard.
    pub(super) fn insert(&mut self, inst: Inst) {
        self.body.push(inst);
    }

    fn push(&mut self, op: Op) {
        self.body.push(Inst { guard: self.guard, op });
    }

    /// Guards the instructions that `make` emits with a predicate. They must not branch.
    pub(super) fn guarded<T>(&mut self, predicate: Reg, make: impl FnOnce(&mut Self) -> T) -> T {
        let outer = self.guard.replace((predicate, true));
        let made = make(self);
        self.guard = outer;
        made
    }

    /// Emits instructions into the prologue instead of the body. The current guard does not apply
    /// to them.
    pub(super) fn first<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> T {
        std::mem::swap(&mut self.first, &mut self.body);
        let guard = self.guard.take();
        let made = make(self);
        self.guard = guard;
        std::mem::swap(&mut self.first, &mut self.body);
        made
    }

    /// Records that a register is the extension of a 32-bit value. It must never be written again.
    pub(super) fn set_narrow(&mut self, wide: Reg, ty: Type, number: impl Into<Operand>) {
        self.narrow[wide] = Some((ty, number.into()));
    }

    // Instructions.

    pub(super) fn op(&mut self, opcode: Opcode, ty: Type, from: &[Operand]) -> Reg {
        let to = self.reg(ty.class());
        self.op_to(to, opcode, ty, from);
        to
    }

    pub(super) fn op_to(&mut self, to: Reg, opcode: Opcode, ty: Type, from: &[Operand]) {
        self.push(Op::Plain { opcode, ty, to, from: from.to_vec() });
    }

    pub(super) fn op2(&mut self, opcode: Opcode, ty: Type, a: impl Into<Operand>, b: impl Into<Operand>) -> Reg {
        self.op(opcode, ty, &[a.into(), b.into()])
    }

    /// A product of 64-bit integers. If both are extended 32-bit values, it is a single widening
    /// multiplication instead of three instructions.
    pub(super) fn product(&mut self, ty: Type, a: Reg, b: Reg) -> Reg {
        match (self.narrow[a], self.narrow[b]) {
            // The factors were extended in the same way, so that the low halves have all of their
            // value.
            (Some((of, a)), Some((also, b))) if of == also => {
                let to = self.reg(Class::B64);
                self.op_to(to, Opcode::MulWide, of, &[a, b]);
                to
            }
            _ => self.op2(Opcode::Mul, ty, a, b),
        }
    }

    pub(super) fn mov(&mut self, ty: Type, from: impl Into<Operand>) -> Reg {
        self.op(Opcode::Mov, ty, &[from.into()])
    }

    /// A new variable, initialized with a copy.
    pub(super) fn copy(&mut self, from: Reg) -> Reg {
        let to = self.reg(self.class(from));
        self.assign(to, from);
        to
    }

    pub(super) fn assign(&mut self, to: Reg, from: Reg) {
        let ty = match self.class(to) {
            Class::Pred => Type::Pred,
            Class::B16 => Type::B16,
            Class::B32 => Type::B32,
            Class::B64 => Type::B64,
        };
        self.op_to(to, Opcode::Mov, ty, &[from.into()]);
    }

    pub(super) fn set(&mut self, compare: Comparison, ty: Type, a: impl Into<Operand>, b: impl Into<Operand>) -> Reg {
        let to = self.reg(Class::Pred);
        self.push(Op::Set { compare, ty, to, a: a.into(), b: b.into() });
        to
    }

    pub(super) fn select(&mut self, ty: Type, yes: impl Into<Operand>, no: impl Into<Operand>, condition: Reg) -> Reg {
        self.op(Opcode::Selp, ty, &[yes.into(), no.into(), condition.into()])
    }

    pub(super) fn convert(&mut self, rounding: Rounding, to_type: Type, from_type: Type, from: Reg) -> Reg {
        let to = self.reg(to_type.class());
        self.push(Op::Convert { rounding, to_type, from_type, to, from: from.into() });
        to
    }

    pub(super) fn load(&mut self, space: Space, ty: Type, at: Address) -> Reg {
        let to = self.reg(ty.class());
        self.load_to(to, space, ty, at);
        to
    }

    pub(super) fn load_to(&mut self, to: Reg, space: Space, ty: Type, at: Address) {
        self.push(Op::Load { space, ty, to: vec![to], at });
    }

    pub(super) fn store(&mut self, space: Space, ty: Type, from: Reg, at: Address) {
        self.push(Op::Store { space, ty, from: vec![from], at });
    }

    /// Loads one, two or four neighbours in memory.
    pub(super) fn load_several(&mut self, space: Space, ty: Type, count: usize, at: Address) -> Vec<Reg> {
        let to: Vec<Reg> = (0..count).map(|_| self.reg(ty.class())).collect();
        self.push(Op::Load { space, ty, to: to.clone(), at });
        to
    }

    /// Stores one, two or four neighbours in memory.
    pub(super) fn store_several(&mut self, space: Space, ty: Type, from: Vec<Reg>, at: Address) {
        self.push(Op::Store { space, ty, from, at });
    }

    /// Starts an asynchronous copy of 4, 8 or 16 bytes from global to shared memory, or of `read`
    /// bytes, filled up with zeros.
    pub(super) fn copy_async(&mut self, to: Address, from: Address, bytes: i64, read: Option<Reg>) {
        self.push(Op::Copy { to, from, bytes, read });
    }

    /// Waits for all asynchronous copies of this thread.
    pub(super) fn await_copies(&mut self) {
        self.push(Op::AwaitCopies);
    }

    pub(super) fn group_copies(&mut self) {
        self.push(Op::GroupCopies);
    }

    /// Waits for the asynchronous copies of this thread except for the `but` most recent groups.
    pub(super) fn await_groups(&mut self, but: u32) {
        self.push(Op::AwaitGroups { but });
    }

    /// Loads four 8 x 8 matrices of 16-bit elements. Each lane passes the address of one row.
    pub(super) fn load_matrices(&mut self, at: Address, transposed: bool) -> [Reg; 4] {
        let to = [(); 4].map(|()| self.reg(Class::B32));
        self.push(Op::LoadMatrices { to, at, transposed });
        to
    }

    /// Multiplies two fragments and accumulates into `sum`.
    pub(super) fn multiply(&mut self, factors: Factors, sum: [Reg; 4], a: [Reg; 4], b: [Reg; 2]) {
        self.push(Op::Multiply { factors, sum, a, b });
    }

    /// Lets the warps of a group use more registers, or give some back.
    pub(super) fn set_registers(&mut self, more: bool, count: u32) {
        self.push(Op::SetRegisters { more, count });
    }

    /// Makes an arrival barrier for this many threads.
    pub(super) fn init_arrivals(&mut self, at: Address, count: u32) {
        self.push(Op::InitArrivals { at, count });
    }

    /// Lets bulk copies arrive at the barriers that this thread has made.
    pub(super) fn fence_arrivals(&mut self) {
        self.push(Op::FenceArrivals);
    }

    /// Arrives at a barrier.
    pub(super) fn arrive(&mut self, at: Address) {
        self.push(Op::Arrive { at });
    }

    /// Arrives at a barrier that this many bytes of bulk copies come to as well.
    pub(super) fn arrive_expecting(&mut self, at: Address, bytes: u32) {
        self.push(Op::ArriveExpecting { at, bytes });
    }

    /// Whether the phase of a barrier with this parity has ended.
    pub(super) fn try_wait(&mut self, at: Address, parity: Reg) -> Reg {
        let to = self.reg(Class::Pred);
        self.push(Op::TryWait { to, at, parity });
        to
    }

    /// Suspends the thread for about as many nanoseconds.
    pub(super) fn sleep(&mut self, time: u32) {
        self.push(Op::Sleep { time });
    }

    /// Starts to copy a box of a tensor to shared memory.
    pub(super) fn copy_box(&mut self, to: Address, map: Reg, from: Vec<Reg>, arrivals: Address) {
        self.push(Op::CopyBox { to, map, from, arrivals });
    }

    /// Lets tensor cores see, after the next barrier, the tiles that this thread has written.
    pub(super) fn fence_tiles(&mut self) {
        self.push(Op::FenceTiles);
    }

    /// Begins a group of products, which take the accumulators as they are now.
    pub(super) fn fence_products(&mut self) {
        self.push(Op::FenceProducts);
    }

    /// Starts to multiply two tiles and to accumulate into `sum`, if the predicate `accumulate`
    /// holds, or else to overwrite it.
    pub(super) fn multiply_tiles(
        &mut self,
        (factors, wide): (TileFactors, [bool; 2]),
        sum: Vec<Reg>,
        tiles: [Reg; 2],
        accumulate: Reg,
    ) {
        self.push(Op::MultiplyTiles { factors, sum, tiles, accumulate, wide });
    }

    /// The same with the left factor in registers.
    pub(super) fn multiply_rows(
        &mut self,
        (factors, wide): (TileFactors, bool),
        sum: Vec<Reg>,
        left: [Reg; 4],
        right: Reg,
        accumulate: Reg,
    ) {
        self.push(Op::MultiplyRows { factors, sum, left, right, accumulate, wide });
    }

    /// Ends a group of products.
    pub(super) fn group_products(&mut self) {
        self.push(Op::GroupProducts);
    }

    /// Waits for the products of this warp group except for the `but` most recent groups.
    pub(super) fn await_products(&mut self, but: u32) {
        self.push(Op::AwaitProducts { but });
    }

    /// Rounds two values to 16-bit floats of a type, both in a register.
    pub(super) fn convert_pair_to(&mut self, to: Reg, ty: TileType, [low, high]: [Reg; 2]) {
        self.push(Op::ConvertPair { ty, to, high, low });
    }

    /// An `f32` rounded to TF32, which has 11 significant bits.
    pub(super) fn rounded(&mut self, from: Reg) -> Reg {
        let to = self.reg(Class::B32);
        self.push(Op::ToTf32 { to, from });
        to
    }

    pub(super) fn shuffle(&mut self, whose: Shuffle, from: Reg, by: u32) -> Reg {
        let to = self.reg(Class::B32);
        self.push(Op::Shuffle { whose, to, from, by });
        to
    }

    /// The lanes of the warp whose value is this lane's own, as bits.
    pub(super) fn alike(&mut self, from: Reg) -> Reg {
        let to = self.reg(Class::B32);
        self.push(Op::Match { to, from });
        to
    }

    /// The lanes of the warp in which a predicate holds, as bits.
    pub(super) fn ballot(&mut self, from: Reg) -> Reg {
        let to = self.reg(Class::B32);
        self.push(Op::Ballot { to, from });
        to
    }

    /// Whether a predicate holds in any lane of the warp.
    pub(super) fn any(&mut self, from: Reg) -> Reg {
        let to = self.reg(Class::Pred);
        self.push(Op::Any { to, from });
        to
    }

    pub(super) fn compare_and_swap(&mut self, at: Address, expected: i64, new: i64) -> Reg {
        let to = self.reg(Class::B32);
        self.push(Op::CompareAndSwap { to, at, expected: expected.into(), new: new.into() });
        to
    }

    /// Counts a block, and returns how many have been counted before.
    pub(super) fn take_ticket(&mut self, at: Address) -> Reg {
        let to = self.reg(Class::B64);
        self.push(Op::TakeTicket { to, at });
        to
    }

    /// Loads a word that another block may be writing.
    pub(super) fn load_at_once(&mut self, to: Reg, at: Address) {
        self.push(Op::LoadAtOnce { to, at });
    }

    /// Stores a word that other blocks may be reading.
    pub(super) fn store_at_once(&mut self, from: Reg, at: Address) {
        self.push(Op::StoreAtOnce { from, at });
    }

    /// Counts a block that has written its results, and returns how many have been counted before.
    pub(super) fn count_in_order(&mut self, at: Address) -> Reg {
        let to = self.reg(Class::B64);
        self.push(Op::CountInOrder { to, at });
        to
    }

    pub(super) fn barrier(&mut self) {
        self.push(Op::Barrier);
    }

    /// A barrier for the block, and whether a predicate holds in all its threads.
    pub(super) fn barrier_all(&mut self, from: Reg) -> Reg {
        let to = self.reg(Class::Pred);
        self.push(Op::BarrierAll { to, from });
        to
    }

    pub(super) fn warp_barrier(&mut self) {
        self.push(Op::WarpBarrier);
    }

    pub(super) fn cluster_barrier(&mut self) {
        self.push(Op::ClusterBarrier);
    }

    // Shared and local memory.

    /// Allocates shared or local memory, aligned to 16 bytes.
    pub(super) fn take(&mut self, space: Space, bytes: usize) -> i64 {
        self.stack(space).take(bytes)
    }

    /// Frees the most recent allocation.
    pub(super) fn give_back(&mut self, space: Space, bytes: usize) {
        self.stack(space).used -= bytes.next_multiple_of(16);
    }

    fn stack(&mut self, space: Space) -> &mut Stack {
        if space == Space::Shared { &mut self.shared } else { &mut self.local }
    }

    /// The address of element `number` of an array in shared or local memory.
    pub(super) fn element(&mut self, space: Space, at: i64, number: Reg, bytes: i64) -> Address {
        // The constant offset stays in the address, where it costs no instruction.
        let base = self.mov(Type::U64, Operand::Own(space));
        let address = self.op(Opcode::Mad, Type::S64, &[number.into(), bytes.into(), base.into()]);
        Address { base: Some(address), offset: at }
    }

    // Control flow.

    pub(super) fn label(&mut self) -> Label {
        self.labels += 1;
        Label::from_u32(self.labels - 1)
    }

    fn place(&mut self, label: Label) {
        self.body.push(Inst { guard: None, op: Op::Label(label) });
    }

    fn branch(&mut self, condition: Option<(Reg, bool)>, to: Label) {
        self.body.push(Inst { guard: condition, op: Op::Branch(to) });
    }
}

/// Structured control flow for everything that has a builder.
pub(super) trait Control: Sized {
    fn b(&mut self) -> &mut Builder;

    /// Emits `then` under a branch that is taken if the condition holds.
    fn when(&mut self, condition: Reg, then: impl FnOnce(&mut Self)) {
        let end = self.b().label();
        self.b().branch(Some((condition, false)), end);
        then(self);
        self.b().place(end);
    }

    /// Emits an if-else.
    fn either(&mut self, condition: Reg, then: impl FnOnce(&mut Self), otherwise: impl FnOnce(&mut Self)) {
        let (no, end) = (self.b().label(), self.b().label());
        self.b().branch(Some((condition, false)), no);
        then(self);
        self.b().branch(None, end);
        self.b().place(no);
        otherwise(self);
        self.b().place(end);
    }

    /// Whether this block is the last of some that get here. Then it sees what the others have
    /// written before. `counter` gives the address of their counter, which goes on from launch to
    /// launch, so it has to be 0 only once.
    fn ends_last(&mut self, blocks: Reg, counter: impl FnOnce(&mut Self) -> Reg) -> Reg {
        let slot = Address { base: None, offset: self.b().take(Space::Shared, COUNTER as usize) };
        self.b().barrier();
        let thread = self.b().mov(Type::U32, Operand::Special(Special::Tid));
        let leads = self.b().set(Comparison::Eq, Type::U32, thread, 0);
        self.when(leads, |e| {
            let counter = counter(e);
            let before = e.b().count_in_order(Address { base: Some(counter), offset: 0 });
            e.b().store(Space::Shared, Type::B64, before, slot);
        });
        self.b().barrier();
        let before = self.b().load(Space::Shared, Type::B64, slot);
        self.is_last(before, blocks)
    }

    /// The same for the warps of the same number in some blocks.
    fn warp_ends_last(&mut self, blocks: Reg, counter: impl FnOnce(&mut Self) -> Reg) -> Reg {
        let thread = self.b().mov(Type::U32, Operand::Special(Special::Tid));
        let lane = self.b().op2(Opcode::And, Type::B32, thread, 31);
        let leads = self.b().set(Comparison::Eq, Type::U32, lane, 0);
        let leader = self.b().mov(Type::B64, 0);
        let leader = self.b().copy(leader);
        self.b().warp_barrier();
        self.when(leads, |e| {
            let counter = counter(e);
            let before = e.b().count_in_order(Address { base: Some(counter), offset: 0 });
            let last = e.is_last(before, blocks);
            let last = e.b().select(Type::B64, 1, 0, last);
            e.b().assign(leader, last);
        });
        let last = self.b().set(Comparison::Ne, Type::S64, leader, 0);
        let last = self.b().any(last);
        self.b().warp_barrier();
        last
    }

    /// Whether a count of the blocks that came before is that of the last one.
    fn is_last(&mut self, before: Reg, blocks: Reg) -> Reg {
        let number = self.b().op2(Opcode::Rem, Type::U64, before, blocks);
        let last = if sabotage::on(Bug::PtxLastBlock) {
            self.b().mov(Type::U64, 0)
        } else {
            self.b().op2(Opcode::Sub, Type::U64, blocks, 1)
        };
        self.b().set(Comparison::Eq, Type::U64, number, last)
    }

    /// Emits a loop that runs while the predicate from `condition` holds.
    fn while_(&mut self, condition: impl FnOnce(&mut Self) -> Reg, body: impl FnOnce(&mut Self)) {
        let (again, end) = (self.b().label(), self.b().label());
        self.b().place(again);
        let on = condition(self);
        self.b().branch(Some((on, false)), end);
        body(self);
        self.b().branch(None, again);
        self.b().place(end);
    }

    /// Emits a loop over `from, from + step, ...` below `to`, in 64-bit integers.
    fn counted(&mut self, from: Reg, to: Reg, step: impl Into<Operand>, body: impl FnOnce(&mut Self, Reg)) {
        let step = step.into();
        let i = self.b().copy(from);
        self.while_(
            |e| e.b().set(if sabotage::on(Bug::LoopBound) { Comparison::Le } else { Comparison::Lt }, Type::S64, i, to),
            |e| {
                body(e, i);
                e.b().op_to(i, Opcode::Add, Type::S64, &[i.into(), step]);
            },
        );
    }
}
