//! Loads that stay apart from comparisons.
//!
//! Without AVX, Cranelift's `cmpps` and `cmppd` take a load as their operand, which must then lie at a multiple of 16 bytes; that of
//! an array's elements need not, and the processor faults. (Its other vector instructions without AVX take such loads only if these are
//! marked as aligned.) A comparison of what is cast to integers and back has no load as its operand, and no instruction more.

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{Function, InstBuilder, Opcode, Value};
use cranelift_codegen::isa::TargetIsa;

use super::lanes128::little;

/// Casts what vector comparisons take from loads, where the target needs it.
pub(super) fn unfold(function: &mut Function, isa: &dyn TargetIsa) {
    let has_avx = isa.isa_flags().iter().any(|flag| flag.name == "has_avx" && flag.as_bool() == Some(true));
    if isa.name() != "x64" || has_avx {
        return;
    }
    let mut cursor = FuncCursor::new(function);
    while cursor.next_block().is_some() {
        while let Some(inst) = cursor.next_inst() {
            if cursor.func.dfg.insts[inst].opcode() != Opcode::Fcmp {
                continue;
            }
            for number in 0..2 {
                let operand = cursor.func.dfg.inst_args(inst)[number];
                if is_vector_load(cursor.func, operand) {
                    let cast = cast(&mut cursor, operand);
                    cursor.func.dfg.inst_args_mut(inst)[number] = cast;
                }
            }
        }
    }
}

fn is_vector_load(function: &Function, value: Value) -> bool {
    let dfg = &function.dfg;
    let definition = dfg.value_def(value).inst();
    dfg.value_type(value).is_vector() && definition.is_some_and(|inst| dfg.insts[inst].opcode() == Opcode::Load)
}

/// The same bits, no longer as what a load gave.
fn cast(cursor: &mut FuncCursor<'_>, value: Value) -> Value {
    let floats = cursor.func.dfg.value_type(value);
    let bits = cursor.ins().bitcast(floats.as_int(), little(), value);
    cursor.ins().bitcast(floats, little(), bits)
}
