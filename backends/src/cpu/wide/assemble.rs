//! The assembler: encodes instructions with assigned registers, resolves jumps between labels, and
//! appends a pool of constants to the code.
//!
//! The resulting function takes one argument, the address of its slots, and preserves all
//! callee-saved registers. For the use of address registers see [`Address`].

use std::collections::BTreeMap;

use iced_x86::{Code, Encoder, Instruction, MemoryOperand, OpKind, Register};

use super::arguments::{Argument, Shared};
use super::inst::{MemoryRef, Slot, Splat};
use super::table;
use crate::cpu::machine::Isa;

/// A position in the code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Label(usize);

/// The condition of a jump.
#[derive(Clone, Copy)]
pub(super) enum Condition {
    Equal,
    Less,
    LessOrEqual,
    GreaterOrEqual,
    NotEqual,
    /// After `kortest` or `vptest`: no lane is set.
    None,
    /// After `kortest` or `vptest`: all lanes are set.
    All,
}

impl Condition {
    /// The opcode of the jump, before its displacement.
    fn code(self) -> &'static [u8] {
        match self {
            Condition::None => &[0x0f, 0x84],
            Condition::All => &[0x0f, 0x82],
            Condition::Equal => &[0x0f, 0x84],
            Condition::NotEqual => &[0x0f, 0x85],
            Condition::Less => &[0x0f, 0x8c],
            Condition::LessOrEqual => &[0x0f, 0x8e],
            Condition::GreaterOrEqual => &[0x0f, 0x8d],
        }
    }
}

/// The address of the slots.
pub(super) const SLOTS: Register = Register::RDI;
/// The number of the current element.
pub(super) const INDEX: Register = Register::RCX;
/// The end of the current loop.
pub(super) const END: Register = Register::RDX;
/// A scratch register, also for addresses that have no register of their own.
pub(super) const SPARE: Register = Register::RAX;
/// A scratch register.
pub(super) const OTHER: Register = Register::R11;
/// Registers for the addresses of accesses. The last ones are callee-saved.
pub(super) const ADDRESSES: [Register; 10] = [
    Register::RSI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::RBX,
    Register::RBP,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];
/// How many of them are caller-saved.
pub(super) const FREE_ADDRESSES: usize = 4;
/// The masks of the active lanes, for each half of a group.
pub(super) const ACTIVE: [Register; 2] = [Register::K1, Register::K2];

/// The addressing of an access.
#[derive(Clone, Copy)]
pub(super) struct Address {
    /// The slot of its address at element 0.
    pub(super) slot: Slot,
    /// The size of an element in bytes.
    pub(super) width: u32,
    /// The slot of its stride in bytes, unless it is contiguous.
    pub(super) stride: Option<Slot>,
}

/// An operand with its register assigned.
#[derive(Clone, Copy)]
pub(super) enum Chosen {
    /// A vector register.
    Vector(u32),
    /// A mask register.
    Mask(u32),
    /// Memory, with the vector register of element numbers for gathers and scatters.
    Memory(MemoryRef, u32),
    /// A number broadcast from memory.
    Broadcast(Splat),
    /// A spill slot.
    Spill(usize),
    Immediate(u8),
    /// [`INDEX`].
    Index,
}

/// The state of the assembler.
pub(super) struct Assembler {
    encoder: Encoder,
    code: Vec<u8>,
    labels: Vec<Option<usize>>,
    /// The positions of jump displacements, with their targets.
    jumps: Vec<(usize, Label)>,
    pool: Vec<u8>,
    scalars: BTreeMap<Splat, usize>,
    vectors: Vec<usize>,
    /// The pool references of instructions: the position of the displacement, the number of bytes
    /// of the instruction after it, and the offset in the pool.
    reads: Vec<(usize, usize, usize)>,
    pub(super) addresses: Vec<Address>,
    pub(super) isa: Isa,
    /// The slot in which the function keeps the number of active lanes, if masks are not in mask
    /// registers.
    pub(super) active: Option<Slot>,
    /// The number of argument slots. Spill slots follow.
    slots: u32,
    pub(super) spills: usize,
    failed: Option<String>,
}

impl Assembler {
    pub(super) fn new(addresses: Vec<Address>, shared: &mut Shared) -> Assembler {
        let active = (shared.isa == Isa::Avx2).then(|| shared.slot(Argument::ActiveLanes));
        let mut pool = vec![];
        let mut at = vec![];
        for vector in &shared.vectors {
            at.push(pool.len());
            pool.extend_from_slice(vector);
        }
        Assembler {
            encoder: Encoder::new(64),
            code: vec![],
            labels: vec![],
            jumps: vec![],
            pool,
            scalars: BTreeMap::new(),
            vectors: at,
            reads: vec![],
            addresses,
            isa: shared.isa,
            active,
            slots: shared.arguments.len() as u32,
            spills: 0,
            failed: shared.failed.then(|| "the machine does not have it".to_string()),
        }
    }

    /// Records why there will be no code. The leaf then uses Cranelift's vectors.
    pub(super) fn give_up(&mut self, why: &str) {
        self.failed = Some(why.to_string());
    }

    /// Whether the code cannot be used.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    // Control.

    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    pub(super) fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    /// Pads to a multiple of 32 bytes, for the beginning of a loop.
    pub(super) fn align(&mut self) {
        const NOPS: [&[u8]; 4] = [&[0x90], &[0x66, 0x90], &[0x0f, 0x1f, 0x00], &[0x0f, 0x1f, 0x40, 0x00]];
        while !self.code.len().is_multiple_of(32) {
            let rest = 32 - self.code.len() % 32;
            self.code.extend_from_slice(NOPS[rest.min(NOPS.len()) - 1]);
        }
    }

    pub(super) fn jump(&mut self, condition: Condition, to: Label) {
        self.code.extend_from_slice(condition.code());
        self.distance(to);
    }

    fn distance(&mut self, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.code.extend_from_slice(&[0; 4]);
    }

    // Instructions.

    fn push(&mut self, instruction: &Instruction) {
        match self.encoder.encode(instruction, self.code.len() as u64) {
            Ok(_) => {
                let mut bytes = self.encoder.take_buffer();
                self.code.append(&mut bytes);
                self.encoder.set_buffer(bytes);
            }
            Err(e) => {
                debug_assert!(false, "{e}");
                self.give_up(&e.to_string());
            }
        }
    }

    /// Emits an instruction on general-purpose registers.
    pub(super) fn general(&mut self, instruction: Result<Instruction, iced_x86::IcedError>) {
        match instruction {
            Ok(instruction) => self.push(&instruction),
            Err(e) => self.give_up(&e.to_string()),
        }
    }

    /// The memory operand of a slot.
    pub(super) fn slot(slot: Slot) -> MemoryOperand {
        MemoryOperand::with_base_displ(SLOTS, i64::from(slot.0) * 8)
    }

    pub(super) fn load_slot(&mut self, to: Register, slot: Slot) {
        self.general(Instruction::with2(Code::Mov_r64_rm64, to, Self::slot(slot)));
    }

    /// Emits an instruction on vectors and masks. The result is the first operand.
    pub(super) fn vector(&mut self, code: Code, operands: &[Chosen], mask: Option<(Register, bool)>) {
        let mut instruction = Instruction::default();
        instruction.set_code(code);
        let mut pooled = None;
        for (k, operand) in operands.iter().enumerate() {
            let number = k as u32;
            match operand {
                Chosen::Vector(r) => {
                    instruction.set_op_kind(number, OpKind::Register);
                    instruction.set_op_register(number, table::narrower(code, k).unwrap_or(self.isa.first()) + *r);
                }
                Chosen::Mask(r) => {
                    instruction.set_op_kind(number, OpKind::Register);
                    instruction.set_op_register(number, Register::K0 + *r);
                }
                Chosen::Index => {
                    instruction.set_op_kind(number, OpKind::Register);
                    instruction.set_op_register(number, INDEX);
                }
                Chosen::Immediate(value) => {
                    instruction.set_op_kind(number, OpKind::Immediate8);
                    instruction.set_immediate8(*value);
                }
                Chosen::Memory(place, numbers) => {
                    instruction.set_op_kind(number, OpKind::Memory);
                    pooled = self.memory(&mut instruction, *place, *numbers);
                }
                Chosen::Broadcast(splat) => {
                    instruction.set_op_kind(number, OpKind::Memory);
                    instruction.set_is_broadcast(self.isa == Isa::Avx512 && table::folds(code));
                    pooled = self.splat(&mut instruction, *splat);
                }
                Chosen::Spill(spill) => {
                    instruction.set_op_kind(number, OpKind::Memory);
                    let at = self.own(*spill);
                    based(&mut instruction, SLOTS, at);
                }
            }
        }
        if let Some((mask, zero)) = mask {
            instruction.set_op_mask(mask);
            instruction.set_zeroing_masking(zero);
        }
        self.push(&instruction);
        if let Some(at) = pooled {
            let immediate = operands.iter().filter(|operand| matches!(operand, Chosen::Immediate(_))).count();
            let behind = immediate + usize::from(table::blends(code));
            self.reads.push((self.code.len() - behind - 4, behind, at));
        }
    }

    /// Moves the active elements of an access to or from a 16-byte vector through the stack, byte
    /// by byte, because AVX2 has no masked moves of bytes. Preserves [`OTHER`].
    pub(super) fn in_part(&mut self, code: Code, access: usize, offset: i32, register: u32) {
        let (destination, address) = (Register::RBX, self.addresses[access]);
        let Some(count) = self.active else { return self.give_up("masks are in registers of their own") };
        let from = self.address(access);
        let first = MemoryOperand::with_base_index_scale_displ_size(
            destination,
            INDEX,
            address.width,
            i64::from(offset) * i64::from(address.width),
            1,
        );
        let bytes = [(destination, -1), (Register::RSP, -1)]
            .map(|(base, before)| MemoryOperand::with_base_index_scale_displ_size(base, OTHER, 1, before, 1));
        let whole = MemoryOperand::with_base(Register::RSP);
        let [from_byte, to_byte] = if code == Code::VEX_Vmovdqu_xmm_xmmm128 { bytes } else { [bytes[1], bytes[0]] };
        let vector = Register::XMM0 + register;
        for saved in [destination, OTHER] {
            self.general(Instruction::with1(Code::Push_r64, saved));
        }
        // The address of the first element, and the number of bytes.
        self.general(Instruction::with2(Code::Mov_r64_rm64, destination, from));
        self.general(Instruction::with2(Code::Lea_r64_m, destination, first));
        self.general(Instruction::with2(Code::Mov_r64_rm64, OTHER, Self::slot(count)));
        self.general(Instruction::with2(Code::Shl_rm64_imm8, OTHER, address.width.trailing_zeros()));
        // A cleared buffer of 16 bytes on the stack.
        for _ in 0..2 {
            self.general(Instruction::with1(Code::Pushq_imm8, 0));
        }
        if code != Code::VEX_Vmovdqu_xmm_xmmm128 {
            self.general(Instruction::with2(Code::VEX_Vmovdqu_xmmm128_xmm, whole, vector));
        }
        // Copy byte by byte.
        let again = self.label();
        self.place(again);
        self.general(Instruction::with2(Code::Mov_r8_rm8, Register::AL, from_byte));
        self.general(Instruction::with2(Code::Mov_rm8_r8, to_byte, Register::AL));
        self.general(Instruction::with1(Code::Dec_rm64, OTHER));
        self.jump(Condition::NotEqual, again);
        if code == Code::VEX_Vmovdqu_xmm_xmmm128 {
            self.general(Instruction::with2(Code::VEX_Vmovdqu_xmm_xmmm128, vector, whole));
        }
        self.general(Instruction::with2(Code::Add_rm64_imm8, Register::RSP, 16));
        for saved in [OTHER, destination] {
            self.general(Instruction::with1(Code::Pop_r64, saved));
        }
    }

    /// The offset of a vector in the function's own memory.
    fn own(&self, number: usize) -> u64 {
        (u64::from(self.slots) * 8).next_multiple_of(64) + number as u64 * u64::from(self.isa.bytes())
    }

    /// Sets the memory operand of an instruction. Returns the offset in the pool if it refers to
    /// it.
    fn memory(&mut self, instruction: &mut Instruction, place: MemoryRef, numbers: u32) -> Option<usize> {
        match place {
            MemoryRef::Lane { offset, width } => {
                let first = self.own(0).wrapping_add(i64::from(offset).cast_unsigned());
                based(instruction, SLOTS, first);
                instruction.set_memory_index(OTHER);
                instruction.set_memory_index_scale(width);
            }
            MemoryRef::Own(number) => based(instruction, SLOTS, self.own(number)),
            MemoryRef::Slot(slot) => based(instruction, SLOTS, u64::from(slot.0) * 8),
            MemoryRef::Pool(vector) => {
                let at = self.vectors[vector];
                relative(instruction);
                return Some(at);
            }
            MemoryRef::Along { access, offset } => {
                let base = self.address(access);
                let width = self.addresses[access].width;
                based(instruction, base, (i64::from(offset) * i64::from(width)).cast_unsigned());
                instruction.set_memory_index(INDEX);
                instruction.set_memory_index_scale(width);
            }
            MemoryRef::Stepped { access, step, offset } => {
                let Address { slot, width, .. } = self.addresses[access];
                let bytes = width.cast_signed() * step;
                self.general(Instruction::with3(Code::Imul_r64_rm64_imm32, SPARE, INDEX, bytes));
                let base = ADDRESSES.get(access).copied();
                if base.is_none() {
                    self.general(Instruction::with2(Code::Add_r64_rm64, SPARE, Self::slot(slot)));
                }
                based(instruction, base.unwrap_or(SPARE), (i64::from(offset) * i64::from(width)).cast_unsigned());
                if base.is_some() {
                    instruction.set_memory_index(SPARE);
                }
            }
            MemoryRef::Scattered { access, offset, .. } => {
                let address = self.addresses[access];
                if let Some(stride) = address.stride {
                    self.general(Instruction::with2(Code::Mov_r64_rm64, SPARE, INDEX));
                    self.general(Instruction::with2(Code::Add_rm64_imm32, SPARE, offset));
                    self.general(Instruction::with2(Code::Imul_r64_rm64, SPARE, Self::slot(stride)));
                    match ADDRESSES.get(access) {
                        Some(base) => self.general(Instruction::with2(Code::Add_r64_rm64, SPARE, *base)),
                        None => self.general(Instruction::with2(Code::Add_r64_rm64, SPARE, Self::slot(address.slot))),
                    }
                    based(instruction, SPARE, 0);
                } else {
                    let base = self.address(access);
                    based(instruction, base, 0);
                }
                instruction.set_memory_index(self.isa.first() + numbers);
                instruction.set_memory_index_scale(address.width);
            }
        }
        None
    }

    /// The register with the address of an access.
    pub(super) fn address(&mut self, access: usize) -> Register {
        match ADDRESSES.get(access) {
            Some(register) => *register,
            None => {
                self.load_slot(SPARE, self.addresses[access].slot);
                SPARE
            }
        }
    }

    fn splat(&mut self, instruction: &mut Instruction, splat: Splat) -> Option<usize> {
        let bytes = match splat {
            Splat::Slot32(slot) | Splat::Slot64(slot) => {
                based(instruction, SLOTS, u64::from(slot.0) * 8);
                return None;
            }
            Splat::Bits32(bits) => bits.to_le_bytes().to_vec(),
            Splat::Bits64(bits) => bits.to_le_bytes().to_vec(),
        };
        let bytes = match self.isa {
            Isa::Avx512 => bytes,
            // AVX2 instructions cannot broadcast, so the pool holds all lanes.
            Isa::Avx2 => bytes.repeat(self.isa.bytes() as usize / bytes.len()),
        };
        relative(instruction);
        if let Some(at) = self.scalars.get(&splat) {
            return Some(*at);
        }
        self.pool.resize(self.pool.len().next_multiple_of(bytes.len()), 0);
        let at = self.pool.len();
        self.pool.extend(bytes);
        self.scalars.insert(splat, at);
        Some(at)
    }

    /// Returns the code and the size of the memory at the address of the slots.
    pub(super) fn finish(mut self) -> Result<(Vec<u8>, usize), String> {
        if let Some(message) = self.failed {
            return Err(message);
        }
        let pool = self.code.len().next_multiple_of(64);
        // Displacements are relative to the end of their instruction.
        let jumps = self.jumps.iter().map(|(at, to)| (*at, at + 4, self.labels[to.0].unwrap_or(0)));
        let reads = self.reads.iter().map(|(at, behind, byte)| (*at, at + 4 + behind, pool + byte));
        for (at, from, to) in jumps.chain(reads).collect::<Vec<_>>() {
            let distance = i32::try_from(to as i64 - from as i64).unwrap_or(0);
            self.code[at..at + 4].copy_from_slice(&distance.to_le_bytes());
        }
        self.code.resize(pool, 0xcc);
        self.code.extend(self.pool);
        let slots = (self.slots as usize * 8).next_multiple_of(64);
        Ok((self.code, slots + self.spills * self.isa.bytes() as usize))
    }
}

fn based(instruction: &mut Instruction, base: Register, displacement: u64) {
    instruction.set_memory_base(base);
    instruction.set_memory_displacement64(displacement);
    instruction.set_memory_displ_size(if displacement == 0 { 0 } else { 1 });
}

/// Marks the operand as relative to the instruction pointer. `finish` fills in the displacement.
fn relative(instruction: &mut Instruction) {
    instruction.set_memory_base(Register::RIP);
    instruction.set_memory_displ_size(8);
}
