//! The functions of leaves: calls with their arguments, and the loops over groups of elements.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, Value};
use iced_x86::{Code, Instruction, Register};
use ir::leaf::{Access, Leaf, LeafStep};
use ir::order::LANES;
use ir::sabotage::{self, Bug};
use ir::{Dtype, Size};

use super::arguments::{Argument, Shared};
use super::assemble::{ACTIVE, ADDRESSES, Address, Assembler, Condition, END, FREE_ADDRESSES, INDEX, OTHER, SPARE};
use super::constants::PinnedConstants;
use super::inst::{Body, Slot};
use super::kernel::{BUSY, NON_TEMPORAL, Wide};
use super::lanes::allows_non_temporal;
use super::prefetch::{self, Prefetch};
use super::{allocate, divide};
use crate::cpu::emit::Emitter;
use crate::cpu::scalar;
use crate::cpu::state::own_memory;

/// The code of a leaf and its arguments.
pub(super) struct Encoded {
    code: Vec<u8>,
    arguments: Vec<Argument>,
    /// The size of the memory for arguments and spills in bytes.
    memory: usize,
}

/// A function with memory for its arguments and spills.
pub(in crate::cpu) struct Function {
    code: Vec<u8>,
    arguments: Vec<Argument>,
    memory: Value,
}

impl Encoded {
    /// Ends a function. Returns `None` if the machine lacks an instruction for it.
    pub(super) fn new(mut asm: Assembler, shared: Shared) -> Option<Encoded> {
        end(&mut asm);
        let (code, memory) = asm.finish().ok()?;
        Some(Encoded { code, arguments: shared.arguments, memory })
    }

    /// Allocates the memory.
    pub(super) fn placed(self, e: &mut Emitter<'_>) -> Function {
        if let Some(wide) = &mut e.wide {
            wide.non_temporal |= self.arguments.contains(&Argument::Peel);
        }
        Function { code: self.code, arguments: self.arguments, memory: e.scratch(self.memory) }
    }
}

impl Function {
    /// Calls the function for the elements `from..to` of the leaf, at least one.
    pub(in crate::cpu) fn run_leaf(&self, e: &mut Emitter<'_>, leaf: &Leaf, from: Value, to: Value) {
        for (value, op) in &leaf.uniform {
            e.let_(*value, op);
        }
        self.run(e, leaf, from, to);
    }

    /// The same where the leaf's uniform values are defined.
    pub(super) fn run(&self, e: &mut Emitter<'_>, leaf: &Leaf, from: Value, to: Value) {
        for (slot, argument) in self.arguments.iter().enumerate() {
            if let Some(value) = argument_value(e, leaf, argument, from, to) {
                let at = i32::try_from(slot * 8).expect("few slots");
                e.b.ins().store(own_memory(), value, self.memory, at);
            }
        }
        let Emitter { b, helpers, .. } = e;
        helpers.run_bytes(b, &self.code, self.memory);
    }

    /// The result that a call has stored in a slot.
    pub(super) fn result(&self, e: &mut Emitter<'_>, dtype: Dtype, slot: Slot) -> Value {
        let at = i32::try_from(slot.0 * 8).expect("few slots");
        e.b.ins().load(scalar::register(dtype), own_memory(), self.memory, at)
    }
}

fn argument_value(e: &mut Emitter<'_>, leaf: &Leaf, argument: &Argument, from: Value, to: Value) -> Option<Value> {
    let bytes = |e: &Emitter<'_>, access: usize| {
        let a = &leaf.accesses[access];
        let width = i64::try_from(e.buffer_dtype(a.buffer).bytes()).expect("a small number");
        &a.stride * &Size::constant(width)
    };
    Some(match argument {
        Argument::Count => e.b.ins().isub(to, from),
        Argument::Address(access) => {
            let a = &leaf.accesses[*access];
            if let (true, Some(strip)) = (a.spread, e.columns.strip) {
                let width = e.buffer_dtype(a.buffer).bytes() as i64;
                let row = e.number(&a.start);
                let row = e.b.ins().imul(row, strip.width);
                let column = e.b.ins().isub(from, strip.from);
                let element = e.b.ins().iadd(row, column);
                let bytes = e.b.ins().imul_imm_s(element, width);
                let base = e.base(a.buffer);
                return Some(e.b.ins().iadd(base, bytes));
            }
            let (start, near) = e.address(a.buffer, &a.start);
            let stride = bytes(e, *access);
            let stride = e.size(&stride);
            let moved = e.b.ins().imul(from, stride);
            let first = e.b.ins().iadd(start, moved);
            e.b.ins().iadd_imm_s(first, i64::from(near))
        }
        Argument::Stride(access) => {
            let stride = bytes(e, *access);
            e.size(&stride)
        }
        Argument::Value(value) => e.value(*value),
        Argument::Mask(value) => {
            let value = e.value(*value);
            // A mask of all lanes: 0 for false, all ones for true.
            let wide = e.b.ins().uextend(I64, value);
            e.b.ins().ineg(wide)
        }
        Argument::Affine(base, coefficient) => {
            let base = e.affine(base);
            let coefficient = e.size(coefficient);
            let moved = e.b.ins().imul(from, coefficient);
            if sabotage::on(Bug::IndexBegins) { base } else { e.b.ins().iadd(base, moved) }
        }
        Argument::Size(size) => e.size(size),
        Argument::Divisor(value, part) => divide::argument(e, *value, *part),
        Argument::Peel => peel(e, leaf, from)?,
        Argument::Distance(access) => {
            let distance = prefetch::distance(e, leaf, *access);
            e.distance(distance)
        }
        Argument::Steps(extent) => e.extent(extent),
        Argument::Cancelled => e.cancelled()?,
        Argument::Result(_) | Argument::StepsLeft(_) | Argument::ActiveLanes => return None,
    })
}

/// The accesses with non-temporal stores, if the leaf is limited by memory bandwidth.
pub(super) fn non_temporal_accesses(e: &Emitter<'_>, leaf: &Leaf) -> Vec<usize> {
    let mut found = vec![];
    for step in &leaf.steps {
        if let LeafStep::Store { access, .. } = step
            && allows_non_temporal(e, leaf, *access)
        {
            found.push(*access);
        }
    }
    if leaf.weight() > BUSY { vec![] } else { found }
}

/// The value of [`Argument::Peel`].
fn peel(e: &mut Emitter<'_>, leaf: &Leaf, from: Value) -> Option<Value> {
    let none = e.int(-1);
    let Wide { isa, bytes, .. } = e.wide.as_ref()?;
    let (last, bytes) = (i64::from(isa.bytes()) - 1, bytes.clone());
    let mut yes = e.exceeds(&bytes, NON_TEMPORAL);
    let mut count = none;
    for (number, access) in non_temporal_accesses(e, leaf).into_iter().enumerate() {
        let width = i64::try_from(e.buffer_dtype(leaf.accesses[access].buffer).bytes()).ok()?;
        let address = argument_value(e, leaf, &Argument::Address(access), from, from)?;
        // The first access determines how many elements to peel; the others must be aligned after
        // as many.
        if number == 0 {
            // The number of bytes up to the next multiple of a vector: (-address) mod 64 with
            // AVX-512.
            let back = e.b.ins().ineg(address);
            let bytes = e.b.ins().band_imm_u(back, last);
            count = e.b.ins().ushr_imm_u(bytes, i64::from(width.ilog2()));
        }
        let moved = e.b.ins().imul_imm_s(count, width);
        let first = e.b.ins().iadd(address, moved);
        let off = e.b.ins().band_imm_u(first, last);
        let aligned = e.b.ins().icmp_imm_s(IntCC::Equal, off, 0);
        let aligned = e.b.ins().uextend(I64, aligned);
        yes = e.b.ins().band(yes, aligned);
    }
    let yes = e.b.ins().icmp_imm_s(IntCC::NotEqual, yes, 0);
    Some(e.b.ins().select(yes, count, none))
}

/// The addressing of the leaf's accesses.
pub(super) fn addresses(e: &Emitter<'_>, leaf: &Leaf, shared: &mut Shared) -> Vec<Address> {
    let address = |access| {
        let a: &Access = &leaf.accesses[access];
        let even = a.contiguous() || a.stride.is_zero();
        Address {
            slot: shared.slot(Argument::Address(access)),
            width: u32::try_from(e.buffer_dtype(a.buffer).bytes()).expect("a small number"),
            stride: (!even).then(|| shared.slot(Argument::Stride(access))),
        }
    };
    (0..leaf.accesses.len()).map(address).collect()
}

/// The callee-saved registers that the function uses.
fn saved(asm: &Assembler) -> &'static [Register] {
    let used = asm.addresses.len().min(ADDRESSES.len());
    ADDRESSES.get(FREE_ADDRESSES..used).unwrap_or(&[])
}

pub(super) fn begin(asm: &mut Assembler) {
    for register in saved(asm) {
        asm.general(Instruction::with1(Code::Push_r64, *register));
    }
    for (access, register) in (0..asm.addresses.len()).zip(ADDRESSES) {
        let slot = asm.addresses[access].slot;
        asm.load_slot(register, slot);
    }
    asm.general(Instruction::with2(Code::Xor_r32_rm32, Register::ECX, Register::ECX));
    all_there(asm);
}

/// Marks all lanes as active.
pub(super) fn all_there(asm: &mut Assembler) {
    if let Some(slot) = asm.active {
        let all = asm.isa.group();
        return asm.general(Instruction::with2(Code::Mov_rm64_imm32, Assembler::slot(slot), all));
    }
    for mask in ACTIVE {
        asm.general(Instruction::with3(Code::VEX_Kxnorw_kr_kr_kr, mask, mask, mask));
    }
}

fn end(asm: &mut Assembler) {
    // Without this, SSE instructions of the caller would be slow: they would depend on the upper
    // halves of the registers.
    asm.general(Ok(Instruction::with(Code::VEX_Vzeroupper)));
    for register in saved(asm).iter().rev() {
        asm.general(Instruction::with1(Code::Pop_r64, *register));
    }
    asm.general(Ok(Instruction::with(Code::Retnq)));
}

/// A loop over steps of several whole groups, as long as there are enough elements, including some
/// beyond the step that it may load.
pub(super) fn whole_groups(
    asm: &mut Assembler,
    constants: &PinnedConstants,
    body: &Body,
    prefetched: &[Prefetch],
    groups: i32,
    beyond: i32,
    count: Slot,
) {
    let (again, done) = (asm.label(), asm.label());
    let step = groups * asm.isa.group();
    // Compare the last element that a step may load with the number of elements.
    let compare = |asm: &mut Assembler| {
        let last = iced_x86::MemoryOperand::with_base_displ(INDEX, i64::from(step + beyond - 1));
        asm.general(Instruction::with2(Code::Lea_r64_m, SPARE, last));
        asm.general(Instruction::with2(Code::Cmp_r64_rm64, SPARE, Assembler::slot(count)));
    };
    // The test is at the end of the loop, with one jump per step, and once before it.
    compare(asm);
    asm.jump(Condition::GreaterOrEqual, done);
    asm.align();
    asm.place(again);
    prefetch::emit(asm, prefetched, step);
    if body.has_lanes() {
        lane_at_hand(asm);
    }
    allocate::assemble(asm, constants, body);
    asm.general(Instruction::with2(Code::Add_rm64_imm32, INDEX, step));
    compare(asm);
    asm.jump(Condition::Less, again);
    asm.place(done);
}

/// A loop over single groups up to the last multiple of a whole step, if arrays are read as
/// streams: see `prefetch`.
pub(super) fn one_by_one(
    asm: &mut Assembler,
    constants: &PinnedConstants,
    body: &Body,
    distance: Slot,
    groups: i32,
    count: Slot,
) {
    let (again, done) = (asm.label(), asm.label());
    let group = asm.isa.group();
    // A negative distance says that the arrays are read as streams.
    asm.general(Instruction::with2(Code::Cmp_rm64_imm8, Assembler::slot(distance), 0));
    asm.jump(Condition::GreaterOrEqual, done);
    asm.load_slot(END, count);
    asm.general(Instruction::with2(Code::And_rm64_imm32, END, -(groups * group)));
    asm.general(Instruction::with2(Code::Cmp_r64_rm64, INDEX, END));
    asm.jump(Condition::GreaterOrEqual, done);
    asm.align();
    asm.place(again);
    if body.has_lanes() {
        lane_at_hand(asm);
    }
    allocate::assemble(asm, constants, body);
    asm.general(Instruction::with2(Code::Add_rm64_imm32, INDEX, group));
    asm.general(Instruction::with2(Code::Cmp_r64_rm64, INDEX, END));
    asm.jump(Condition::Less, again);
    asm.place(done);
}

/// A loop over single groups up to the end, the last one masked.
pub(super) fn partial_groups(asm: &mut Assembler, constants: &PinnedConstants, body: &Body) {
    let (again, done) = (asm.label(), asm.label());
    asm.general(Instruction::with2(Code::Cmp_r64_rm64, INDEX, END));
    asm.jump(Condition::GreaterOrEqual, done);
    asm.align();
    asm.place(again);
    one_partial_group(asm, constants, body);
    asm.general(Instruction::with2(Code::Cmp_r64_rm64, INDEX, END));
    asm.jump(Condition::Less, again);
    asm.place(done);
}

/// Computes the next group, masked to the remaining elements.
pub(super) fn one_partial_group(asm: &mut Assembler, constants: &PinnedConstants, body: &Body) {
    // The number of remaining elements, for masks in vectors; converted to a bit mask for mask
    // registers.
    let group = asm.isa.group();
    asm.general(Instruction::with2(Code::Mov_r64_rm64, SPARE, END));
    asm.general(Instruction::with2(Code::Sub_r64_rm64, SPARE, INDEX));
    if sabotage::on(Bug::LastLane) {
        asm.general(Instruction::with2(Code::Add_rm64_imm32, SPARE, -1));
    }
    asm.general(Instruction::with2(Code::Mov_r32_imm32, Register::R11D, group));
    asm.general(Instruction::with2(Code::Cmp_r64_rm64, SPARE, OTHER));
    asm.general(Instruction::with2(Code::Cmovg_r64_rm64, SPARE, OTHER));
    if let Some(slot) = asm.active {
        asm.general(Instruction::with2(Code::Mov_rm64_r64, Assembler::slot(slot), SPARE));
    } else {
        // `bzhi` clears the bits from the number of elements on: 5 gives 11111. The second mask is
        // the upper half of 16 lanes, for types of 8 bytes.
        asm.general(Instruction::with2(Code::Mov_r32_imm32, Register::R11D, -1));
        asm.general(Instruction::with3(Code::VEX_Bzhi_r32_rm32_r32, Register::EAX, Register::R11D, Register::EAX));
        asm.general(Instruction::with2(Code::VEX_Kmovw_kr_r32, ACTIVE[0], Register::EAX));
        asm.general(Instruction::with3(Code::VEX_Kshiftrw_kr_kr_imm8, ACTIVE[1], ACTIVE[0], 8));
    }
    lane_at_hand(asm);
    allocate::assemble(asm, constants, body);
    asm.general(Instruction::with2(Code::Add_rm64_imm32, INDEX, group));
}

/// The canonical lane of the current element.
fn lane_at_hand(asm: &mut Assembler) {
    asm.general(Instruction::with2(Code::Mov_r64_rm64, OTHER, INDEX));
    let lanes = LANES as i32 / if sabotage::on(Bug::LaneAtHand) { 2 } else { 1 };
    asm.general(Instruction::with2(Code::And_rm64_imm32, OTHER, lanes - 1));
}
