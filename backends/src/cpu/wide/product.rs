//! The micro-kernel of matrix products in objects (see `object::gemm`) with wide vectors. The
//! accumulators stay in registers during the loop over the inner index.

use iced_x86::{Code, Encoder, IcedError, Instruction, MemoryOperand, Register};

use crate::cpu::machine::{Form, Isa};

/// The number of registers in a row of the tile.
const WIDTH: u32 = 2;
/// The number of remaining iterations, the positions in both panels, and the address for the
/// results.
const COUNT: Register = Register::RAX;
const LEFT: Register = Register::RCX;
const RIGHT: Register = Register::RDX;
const OUT: Register = Register::RSI;

/// The number of rows in a tile. The accumulators fill most of the registers.
pub(in crate::cpu) fn rows(isa: Isa) -> u32 {
    match isa {
        Isa::Avx512 => 14,
        Isa::Avx2 => 6,
    }
}

/// The size of a row in bytes.
pub(in crate::cpu) fn row_bytes(isa: Isa) -> u32 {
    WIDTH * isa.bytes()
}

/// A function that takes the address of four words: the number of inner iterations, the address of
/// the left panel with [`rows`] elements per iteration, that of the right panel with [`row_bytes`]
/// per iteration, and the address where the accumulators are stored row by row. Elements have eight
/// bytes if `wide` is set, else four.
pub(in crate::cpu) fn tile(isa: Isa, wide: bool) -> Option<Vec<u8>> {
    // Encode twice, because the first jump needs the address of the end of the loop.
    let (_, end) = code(isa, wide, 0).ok()?;
    Some(code(isa, wide, end).ok()?.0)
}

fn code(isa: Isa, wide: bool, end: u64) -> Result<(Vec<u8>, u64), IcedError> {
    let zero = match isa {
        Isa::Avx512 => Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32,
        Isa::Avx2 => Code::VEX_Vpxor_ymm_ymm_ymmm256,
    };
    let spread = match (isa, wide) {
        (Isa::Avx512, false) => Code::EVEX_Vbroadcastss_zmm_k1z_xmmm32,
        (Isa::Avx512, true) => Code::EVEX_Vbroadcastsd_zmm_k1z_xmmm64,
        (Isa::Avx2, false) => Code::VEX_Vbroadcastss_ymm_m32,
        (Isa::Avx2, true) => Code::VEX_Vbroadcastsd_ymm_m64,
    };
    let (moves, add) = (isa.moves(), Form::F231.code(isa, wide));
    let vector = |number: u32| isa.first() + number;
    let sums = rows(isa) * WIDTH;
    let (right, left) = ([vector(sums), vector(sums + 1)], vector(sums + WIDTH));
    let element = if wide { 8 } else { 4 };
    let at = |base, bytes: u32| MemoryOperand::with_base_displ(base, i64::from(bytes));

    let mut encoder = Encoder::new(64);
    let mut ip = 0u64;
    let mut put = |instruction: Instruction| -> Result<u64, IcedError> {
        let begin = ip;
        ip += encoder.encode(&instruction, ip)? as u64;
        Ok(begin)
    };
    for (register, slot) in [(COUNT, 0), (LEFT, 8), (RIGHT, 16), (OUT, 24)] {
        put(Instruction::with2(Code::Mov_r64_rm64, register, at(Register::RDI, slot))?)?;
    }
    for sum in 0..sums {
        put(Instruction::with3(zero, vector(sum), vector(sum), vector(sum))?)?;
    }
    put(Instruction::with2(Code::Test_rm64_r64, COUNT, COUNT)?)?;
    put(Instruction::with_branch(Code::Jle_rel32_64, end)?)?;
    let mut again = None;
    for (part, register) in right.into_iter().enumerate() {
        let begin = put(Instruction::with2(moves.load, register, at(RIGHT, part as u32 * isa.bytes()))?)?;
        again.get_or_insert(begin);
    }
    for row in 0..rows(isa) {
        put(Instruction::with2(spread, left, at(LEFT, row * element))?)?;
        for (part, register) in right.into_iter().enumerate() {
            put(Instruction::with3(add, vector(row * WIDTH + part as u32), left, register)?)?;
        }
    }
    put(Instruction::with2(Code::Add_rm64_imm32, LEFT, i32::try_from(rows(isa) * element).unwrap_or(0))?)?;
    put(Instruction::with2(Code::Add_rm64_imm32, RIGHT, i32::try_from(row_bytes(isa)).unwrap_or(0))?)?;
    put(Instruction::with2(Code::Sub_rm64_imm32, COUNT, 1)?)?;
    put(Instruction::with_branch(Code::Jne_rel32_64, again.unwrap_or(0))?)?;
    let mut end = None;
    for sum in 0..sums {
        let begin = put(Instruction::with2(moves.store, at(OUT, sum * isa.bytes()), vector(sum))?)?;
        end.get_or_insert(begin);
    }
    put(Instruction::with(Code::VEX_Vzeroupper))?;
    put(Instruction::with(Code::Retnq))?;
    Ok((encoder.take_buffer(), end.unwrap_or(0)))
}
