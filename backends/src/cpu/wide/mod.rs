//! `WideX86`: leaves with AVX-512 or AVX2 vectors. Cranelift's vectors end at 128 bits, so a leaf
//! becomes a function of its own in machine code, which the kernel calls with its arguments in
//! memory slots.
//!
//! `lanes` (with `convert`, `gather`, `strided` and `table`) writes a leaf in operations (`op`)
//! over virtual registers (`inst`), for which `avx512` and `avx2` select instructions. `allocate`
//! assigns registers, and `assemble` encodes. In tests `check` follows the work of `allocate`. A
//! leaf with an operation that is not supported here uses Cranelift's vectors. The results are the
//! same bits.

mod allocate;
mod assemble;
mod avx2;
mod avx512;
mod check;
#[cfg(test)]
mod check_tests;
mod convert;
mod divide;
mod gather;
mod inst;
mod lanes;
mod machine;
mod neighbours;
mod op;
mod prefetch;
#[cfg(feature = "objects")]
pub(super) mod product;
mod reduce;
mod scan;
mod steps;
mod strided;
mod table;

use std::collections::BTreeSet;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, Value};
use iced_x86::{Code, Instruction, Register};
use ir::leaf::{Access, Inst, Leaf, LeafStep};
use ir::nest::{BufferId, IndexId, Kernel, Program, Role};
use ir::order::LANES;
use ir::sabotage::{self, Bug};
use ir::{Size, visit};

use self::allocate::PinnedConstants;
use self::assemble::{ACTIVE, ADDRESSES, Address, Assembler, Condition, END, FREE_ADDRESSES, INDEX, OTHER, SPARE};
use self::inst::{Body, Slot, interleave};
use self::lanes::{Argument, Shared, WideX86};
pub(super) use self::machine::{Isa, Memory};
use self::neighbours::Neighbours;
pub(super) use self::prefetch::Distance;
use self::prefetch::{Prefetch, Prefetches};
pub(super) use self::reduce::Reducer;
pub(super) use self::scan::Scanner;
pub(super) use self::steps::run_whole;
use super::emit::{Emitter, own_memory};
use crate::cpu::leaf::Emit;

/// The properties of a kernel that its leaves need.
pub(super) struct Wide {
    isa: Isa,
    /// The total size in bytes of the arrays that it accesses.
    bytes: Size,
    /// Results that it stores to but does not load.
    results: Vec<BufferId>,
    /// Whether a leaf has non-temporal stores.
    non_temporal: bool,
    /// Loops that do not prefetch an array, because another loop over the same rows does.
    waiting: BTreeSet<(BufferId, IndexId)>,
}

/// From this total size on, results are written with non-temporal stores, which avoid reading a
/// cache line before it is overwritten. If the data fits into a cache they are slower.
const NON_TEMPORAL: i64 = 24 << 20;
/// With more operations than this, a body is not limited by memory bandwidth.
const BUSY: usize = 64;

impl Wide {
    pub(super) fn of(isa: Isa, program: &Program, kernel: &Kernel) -> Wide {
        let loads = visit::loads(&kernel.body);
        let stores = visit::stores(&kernel.body);
        let all: BTreeSet<BufferId> = loads.iter().chain(&stores).copied().collect();
        let mut bytes = Size::constant(0);
        for buffer in all {
            if program.buffers[buffer].role != Role::Scratch {
                bytes = &bytes + &bytes_of(program, buffer);
            }
        }
        let is_result = |buffer: &BufferId| matches!(program.buffers[*buffer].role, Role::Output(_));
        let results = stores.into_iter().filter(|buffer| is_result(buffer) && !loads.contains(buffer)).collect();
        Wide { isa, bytes, results, non_temporal: false, waiting: prefetch::waiting(program, kernel) }
    }

    /// Whether a leaf has non-temporal stores.
    pub(super) fn has_non_temporal_stores(&self) -> bool {
        self.non_temporal
    }
}

/// The size of an array in bytes.
fn bytes_of(program: &Program, buffer: BufferId) -> Size {
    let buffer = &program.buffers[buffer];
    let width = Size::constant(i64::try_from(buffer.dtype.bytes()).expect("a small number"));
    buffer.shape.iter().fold(width, |product, length| &product * length)
}

/// Whether all operations of a leaf are supported here.
pub(super) fn takes(e: &Emitter<'_>, leaf: &Leaf) -> bool {
    has_steps(e, leaf, &leaf.steps) && !leaf.steps.iter().any(|step| matches!(step, LeafStep::Nest(_)))
}

/// Whether all steps are supported here. The steps of an inner loop form a leaf of their own.
pub(super) fn has_steps(e: &Emitter<'_>, leaf: &Leaf, steps: &[LeafStep]) -> bool {
    let Some(Wide { isa, .. }) = e.wide else { return false };
    let has = |inst: &Inst, dtype| lanes::has(leaf, inst, dtype) && (isa != Isa::Avx2 || avx2::has(leaf, inst, dtype));
    let mut all = true;
    leaf.for_each_step(steps, &mut |step| {
        all &= match step {
            LeafStep::Value(id) => {
                let (dtype, inst) = &leaf.values[*id];
                has(inst, *dtype)
            }
            LeafStep::Store { access, value } => {
                leaf.accesses[*access].contiguous() || isa != Isa::Avx2 && leaf.values[*value].0.bytes() >= 4
            }
            LeafStep::Nest(_) | LeafStep::Branch(_) | LeafStep::Scalar(..) => true,
            LeafStep::While(_) => false,
        };
    });
    all
}

/// The unroll factor in groups. Short bodies are unrolled by four, because the loop overhead would
/// cost as much as they do, and all but the longest by two, so that two independent dependency
/// chains overlap.
fn unroll(weight: usize) -> i32 {
    match weight {
        0..=12 => 4,
        13..=320 => 2,
        _ => 1,
    }
}

/// How many groups to interleave, given the register pressure of one and the number of reserved
/// registers.
fn ways(isa: Isa, pressure: usize, fixed: u32) -> usize {
    let ways = ((isa.vectors() - fixed) as usize).saturating_sub(2) / pressure.max(1);
    if ways >= 4 { 4 } else { ways.clamp(1, 2) }
}

/// The code of a leaf and its arguments.
struct Function {
    code: Vec<u8>,
    arguments: Vec<Argument>,
    /// The size of the memory for arguments and spills in bytes.
    memory: usize,
}

/// Runs a leaf over `from..to`, which must not be empty, if it is supported here.
pub(super) fn run(e: &mut Emitter<'_>, leaf: &Leaf, from: Value, to: Value) -> Option<()> {
    let prefetches = Prefetches::of(e, leaf);
    let function = ready(e, leaf, &prefetches)?;
    let memory = e.scratch(function.memory);
    function.run_leaf(e, leaf, memory, from, to);
    Some(())
}

fn ready(e: &mut Emitter<'_>, leaf: &Leaf, prefetches: &Prefetches) -> Option<Function> {
    if !takes(e, leaf) {
        return None;
    }
    let function = function(e, leaf, prefetches)?;
    if let Some(wide) = &mut e.wide {
        wide.non_temporal |= function.arguments.contains(&Argument::Peel);
    }
    Some(function)
}

/// A compiled leaf that can run in several places.
pub(super) struct Ready {
    leaf: Leaf,
    function: Function,
    memory: Value,
}

impl Ready {
    /// Compiles the leaf, if it is supported here.
    pub(super) fn new(e: &mut Emitter<'_>, leaf: Leaf) -> Option<Ready> {
        let function = ready(e, &leaf, &Prefetches::default())?;
        let memory = e.scratch(function.memory);
        Some(Ready { leaf, function, memory })
    }

    /// Runs it over `from..to`, which must not be empty.
    pub(super) fn run(&self, e: &mut Emitter<'_>, from: Value, to: Value) {
        self.function.run_leaf(e, &self.leaf, self.memory, from, to);
    }
}

impl Function {
    /// Calls the function for the elements `from..to` of the leaf.
    fn run_leaf(&self, e: &mut Emitter<'_>, leaf: &Leaf, memory: Value, from: Value, to: Value) {
        for (value, op) in &leaf.uniform {
            e.let_(*value, op);
        }
        self.run(e, leaf, memory, from, to);
    }

    /// Calls the function for the elements `from..to`. The leaf's uniform values must be defined.
    fn run(&self, e: &mut Emitter<'_>, leaf: &Leaf, memory: Value, from: Value, to: Value) {
        for (slot, argument) in self.arguments.iter().enumerate() {
            if let Some(value) = argument_value(e, leaf, argument, from, to) {
                let at = i32::try_from(slot * 8).expect("few slots");
                e.b.ins().store(own_memory(), value, memory, at);
            }
        }
        let Emitter { b, helpers, .. } = e;
        helpers.run_bytes(b, &self.code, memory);
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

/// Whether an access may use non-temporal stores.
fn allows_non_temporal(e: &Emitter<'_>, leaf: &Leaf, access: usize) -> bool {
    let a = &leaf.accesses[access];
    let result = e.wide.as_ref().is_some_and(|wide| wide.results.contains(&a.buffer));
    result && a.contiguous() && e.buffer_dtype(a.buffer).bytes() >= 4
}

/// The accesses with non-temporal stores, if the leaf is limited by memory bandwidth.
fn non_temporal_accesses(e: &Emitter<'_>, leaf: &Leaf) -> Vec<usize> {
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
fn addresses(e: &Emitter<'_>, leaf: &Leaf, shared: &mut Shared) -> Vec<Address> {
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

/// Compiles the leaf to a function. There are up to three versions of the body: unrolled, masked
/// for the remainder, and unrolled with non-temporal stores.
fn function(e: &Emitter<'_>, leaf: &Leaf, prefetches: &Prefetches) -> Option<Function> {
    let isa = e.wide.as_ref()?.isa;
    let mut shared = Shared::new(isa);
    let count = shared.slot(Argument::Count);
    let addresses = addresses(e, leaf, &mut shared);
    let prefetched = prefetches.slots(&mut shared);
    let groups = unroll(leaf.weight());
    let neighbours = Neighbours::of(e, leaf, isa, groups);
    let beyond = neighbours.beyond(isa);
    let body = |groups: i32, partial: bool, non_temporal: bool, shared: &mut Shared| {
        let mut l = WideX86 { partial, non_temporal, ..WideX86::new(e, leaf, shared) };
        let loaded = (!partial).then(|| l.load_neighbours(&neighbours));
        l.loaded = loaded.as_ref();
        // Shared loads come before all groups, which are then interleaved.
        let mut first = std::mem::take(&mut l.body.items);
        let mut all = vec![];
        let mut most = 0;
        for group in 0..groups {
            l.offset = group * isa.group();
            leaf.emit(&mut l);
            if group == 0 {
                most = allocate::pressure(&l.body);
            }
            all.push(std::mem::take(&mut l.body.items));
        }
        let fixed = u32::try_from(first.len()).unwrap_or(0);
        first.extend(interleave(all, ways(isa, most, fixed)));
        l.body.items = first;
        l.body
    };
    // The masked version also handles whole groups, so a body that is not unrolled needs no other.
    let whole = (groups > 1).then(|| body(groups, false, false, &mut shared));
    let rest = body(1, true, false, &mut shared);
    let peel = (!non_temporal_accesses(e, leaf).is_empty()).then(|| shared.slot(Argument::Peel));
    let non_temporal = peel.map(|slot| (slot, body(groups, false, true, &mut shared)));
    let bodies: Vec<&Body> = whole.iter().chain([&rest]).chain(non_temporal.iter().map(|(_, body)| body)).collect();
    let constants = PinnedConstants::of(isa, &bodies, 0);
    let mut asm = Assembler::new(addresses, &mut shared);
    begin(&mut asm);
    constants.load(&mut asm);
    if let Some((peel, body)) = &non_temporal {
        // Peel a masked group until the stores are aligned, then run the non-temporal version.
        let (aligned, plain) = (asm.label(), asm.label());
        asm.load_slot(END, *peel);
        asm.general(Instruction::with2(Code::Cmp_r64_rm64, END, INDEX));
        // A negative count means that non-temporal stores are not to be used.
        asm.jump(Condition::Less, plain);
        asm.jump(Condition::Equal, aligned);
        // Peel no more than there are elements.
        asm.load_slot(SPARE, count);
        asm.general(Instruction::with2(Code::Cmp_r64_rm64, SPARE, END));
        asm.general(Instruction::with2(Code::Cmovl_r64_rm64, END, SPARE));
        one_partial_group(&mut asm, &constants, &rest);
        asm.general(Instruction::with2(Code::Mov_r64_rm64, INDEX, END));
        all_there(&mut asm);
        asm.place(aligned);
        whole_groups(&mut asm, &constants, body, &prefetched, groups, beyond, count);
        asm.place(plain);
    }
    if let Some(whole) = &whole {
        whole_groups(&mut asm, &constants, whole, &prefetched, groups, beyond, count);
    }
    asm.load_slot(END, count);
    partial_groups(&mut asm, &constants, &rest);
    end(&mut asm);
    let (code, memory) = asm.finish().ok()?;
    Some(Function { code, arguments: shared.arguments, memory })
}

/// The callee-saved registers that the function uses.
fn saved(asm: &Assembler) -> &'static [Register] {
    let used = asm.addresses.len().min(ADDRESSES.len());
    ADDRESSES.get(FREE_ADDRESSES..used).unwrap_or(&[])
}

fn begin(asm: &mut Assembler) {
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
fn all_there(asm: &mut Assembler) {
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
fn whole_groups(
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
fn one_by_one(asm: &mut Assembler, constants: &PinnedConstants, body: &Body, distance: Slot, groups: i32, count: Slot) {
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
fn partial_groups(asm: &mut Assembler, constants: &PinnedConstants, body: &Body) {
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
fn one_partial_group(asm: &mut Assembler, constants: &PinnedConstants, body: &Body) {
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
