//! The code of a program as text, one function per kernel. Nothing parses it.

use std::fmt::Write;

use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{ExternalName, Function};
use cranelift_codegen::isa::TargetIsa;
use cranelift_module::{FuncId, Module};
use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter, Instruction};
use ir::sched::{Machine, Scheduled};

use super::compile::{CodeGens, Drafted, draft, effort};
use super::jit::{self, Called, Code, Host};
use super::machine::Isa;
use super::options::Simd;
use crate::error::check;
use crate::error::{CompileError, internal};

/// The form of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// Cranelift IR before optimization.
    Clif,
    /// Machine instructions in AT&T syntax.
    Asm,
}

/// The code of a program that is scheduled for [`Machine::CPU`], as this machine would run it.
pub fn listing(scheduled: &Scheduled, simd: Simd, listing: Listing) -> Result<String, CompileError> {
    check(scheduled, Machine::CPU)?;
    let codegens = CodeGens::here(effort(scheduled))?;
    let mut module = jit::module(codegens.best.clone());
    let mut helpers = Called::new(Host::Here);
    let mut drafted = vec![];
    let sizes = draft(&mut module, &mut helpers, scheduled, Isa::of(simd), &mut |function| drafted.push(function));
    drafted.sort_by_key(|drafted: &Drafted| drafted.part);
    let text = sizes.and_then(|_| {
        let mut text = String::new();
        for (part, Drafted { id, needs, function, .. }) in scheduled.parts.iter().zip(&mut drafted) {
            let name = &part.kernel.name;
            let called = called(&module, &function.func);
            let isa = codegens.of(&function.func);
            let code = match listing {
                Listing::Clif => function.func.display().to_string(),
                Listing::Asm => instructions(isa, function).map_err(|e| internal(&e))?,
            };
            // Writing to a string cannot fail.
            let _ = write!(text, "; kernel {name}, {}\n{called}{}\n\n", user_name(*id), code.trim_end());
            if listing == Listing::Asm {
                for (leaf, bytes) in &needs.leaves {
                    let _ = write!(text, "; leaf of kernel {name}, {}\n{}\n", user_name(*leaf), disassembled(bytes));
                }
            }
        }
        Ok(text)
    });
    drop(Code::new(module));
    text
}

/// The name of a function in Cranelift's text.
fn user_name(id: FuncId) -> String {
    format!("u0:{}", id.as_u32())
}

/// The names of the functions that a function calls, for those that have names.
fn called(module: &dyn Module, function: &Function) -> String {
    let mut text = String::new();
    for called in function.dfg.ext_funcs.values() {
        let ExternalName::User(name) = called.name else { continue };
        let id = FuncId::from_u32(function.params.user_named_funcs()[name].index);
        if let Some(name) = &module.declarations().get_function_decl(id).name {
            let _ = writeln!(text, "; {} is {name}", user_name(id));
        }
    }
    text
}

/// The instructions of a function.
fn instructions(isa: &dyn TargetIsa, function: &mut Context) -> Result<String, String> {
    function.set_disasm(true);
    let compiled = function.compile(isa, &mut ControlPlane::default()).map_err(|e| format!("{:?}", e.inner))?;
    Ok(compiled.vcode.clone().unwrap_or_default())
}

/// The instructions of a leaf, then the constant pool that they read.
fn disassembled(bytes: &[u8]) -> String {
    let mut text = String::new();
    let mut decoder = Decoder::new(64, bytes, DecoderOptions::NONE);
    let mut formatter = GasFormatter::new();
    let mut instruction = Instruction::default();
    // The code refers to its constant pool relative to the instruction pointer, and to nothing else
    // in this way. So the lowest such address is where the pool begins.
    let mut pool = bytes.len() as u64;
    while decoder.can_decode() && decoder.ip() < pool {
        decoder.decode_out(&mut instruction);
        if instruction.is_ip_rel_memory_operand() {
            pool = pool.min(instruction.ip_rel_memory_address());
        }
        let mut shown = String::new();
        formatter.format(&instruction, &mut shown);
        let _ = writeln!(text, "  {:5x}: {shown}", instruction.ip());
    }
    let start = usize::try_from(pool).unwrap_or(bytes.len()).min(bytes.len());
    for (k, line) in bytes[start..].chunks(16).enumerate() {
        let words: Vec<String> = line.chunks(4).map(word).collect();
        let _ = writeln!(text, "  {:5x}: .long {}", start + 16 * k, words.join(", "));
    }
    text
}

/// Four bytes as a hexadecimal number.
fn word(bytes: &[u8]) -> String {
    let mut four = [0; 4];
    four[..bytes.len()].copy_from_slice(bytes);
    format!("{:#010x}", u32::from_le_bytes(four))
}

#[cfg(test)]
mod tests {
    use schedule::schedule;

    use super::*;

    const PROGRAM: &str = "program @p { symbol n = dim 0 of input 0
        input 0 %x: f32[n] output 0 %y: f32[n]
        kernel @scaled { parallel i < n { v0 = load %x[i] v1 = const f32 0.3 v2 = mul v0, v1 store %y[i], v2 } } }";

    #[test]
    fn shows_kernels_and_their_leaves() {
        let program = PROGRAM.parse().unwrap();
        let scheduled = schedule(&program, Machine::CPU).unwrap();
        for simd in [Simd::W128, Simd::W256, Simd::W512].into_iter().filter(|simd| simd.is_here()) {
            let clif = listing(&scheduled, simd, Listing::Clif).unwrap();
            assert!(clif.starts_with("; kernel scaled.0, u0:") && clif.contains("function u0:"), "{clif}");
            let asm = listing(&scheduled, simd, Listing::Asm).unwrap();
            assert!(asm.contains("ret"), "{asm}");
            // Leaves use registers of the chosen width, and all bytes decode.
            let registers = match simd {
                Simd::W256 => "%ymm",
                Simd::W512 => "%zmm",
                _ => "%xmm",
            };
            assert!(asm.contains(registers) && !asm.contains("(bad)"), "{simd:?}\n{asm}");
            assert_eq!(asm.contains("; leaf of kernel scaled.0"), simd != Simd::W128, "{asm}");
            assert_eq!(asm.contains(".long 0x3e99999a"), simd != Simd::W128, "{asm}");
        }
    }
}
