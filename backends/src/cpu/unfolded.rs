//! Keeps loads from being folded into vector comparisons.
//!
//! Without AVX, Cranelift folds a load into the memory operand of `cmpps` and `cmppd`, which must
//! then be aligned to 16 bytes. Elements of an array need not be, and the processor faults.
//! (Cranelift folds loads into other vector instructions only if they are marked as aligned.) A
//! value that is cast to integers and back is no longer a load, and the casts cost no instruction.

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{Function, InstBuilder, Opcode, Value};
use cranelift_codegen::isa::TargetIsa;

use super::lanes128::little;

/// Casts the operands of vector comparisons that are loads, if the target needs it.
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

/// The same bits, but not directly the result of a load.
fn cast(cursor: &mut FuncCursor<'_>, value: Value) -> Value {
    let floats = cursor.func.dfg.value_type(value);
    let bits = cursor.ins().bitcast(floats.as_int(), little(), value);
    cursor.ins().bitcast(floats, little(), bits)
}
