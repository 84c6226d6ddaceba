//! The floating-point mode of a call (see [`crate::float_mode`]) for code in an object. Cranelift
//! has no instruction that reads or writes the mode, so two short functions of machine code do.

use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{AbiParam, InstBuilder, Signature, Value};
use cranelift_frontend::FunctionBuilder;
use cranelift_module::{FuncId, Linkage, Module};

use super::target::Target;
use crate::error::{CompileError, internal};

/// The functions that set and restore the mode.
#[derive(Clone, Copy)]
pub(super) struct Mode {
    /// Sets the standard mode, and returns the previous one.
    set: FuncId,
    /// Sets the mode that it is passed.
    put_back: FuncId,
}

/// MXCSR can be accessed only through memory. This uses the red zone: the 128 bytes below the stack
/// pointer that the ABI leaves to leaf functions.
const SET_X86: &[u8] = &[
    0x0f, 0xae, 0x5c, 0x24, 0xf8, // stmxcsr [rsp - 8]
    0xc7, 0x44, 0x24, 0xfc, 0x80, 0x1f, 0x00, 0x00, // mov dword [rsp - 4], 0x1f80
    0x0f, 0xae, 0x54, 0x24, 0xfc, // ldmxcsr [rsp - 4]
    0x8b, 0x44, 0x24, 0xf8, // mov eax, [rsp - 8]
    0xc3, // ret
];
const PUT_BACK_X86: &[u8] = &[
    0x89, 0x7c, 0x24, 0xf8, // mov [rsp - 8], edi
    0x0f, 0xae, 0x54, 0x24, 0xf8, // ldmxcsr [rsp - 8]
    0xc3, // ret
];

/// Instructions of aarch64, little-endian.
const SET_AARCH64: [u32; 3] = [
    0xd53b_4400, // mrs x0, fpcr
    0xd51b_441f, // msr fpcr, xzr
    0xd65f_03c0, // ret
];
const PUT_BACK_AARCH64: [u32; 2] = [
    0xd51b_4400, // msr fpcr, x0
    0xd65f_03c0, // ret
];

impl Mode {
    pub(super) fn define(module: &mut dyn Module, target: Target) -> Result<Mode, CompileError> {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let (set, put_back) = match target.is_x86() {
            true => (SET_X86.to_vec(), PUT_BACK_X86.to_vec()),
            false => (words(&SET_AARCH64), words(&PUT_BACK_AARCH64)),
        };
        let mut define = |name: &str, code: &[u8], gives: bool| {
            let mut signature = Signature::new(module.isa().default_call_conv());
            let registers = if gives { &mut signature.returns } else { &mut signature.params };
            registers.push(AbiParam::new(I64));
            let id = module.declare_function(name, Linkage::Local, &signature).map_err(|e| internal(&e))?;
            module.define_function_bytes(id, 16, code, &[]).map_err(|e| internal(&e))?;
            Ok(id)
        };
        Ok(Mode {
            set: define("float_mode.set", &set, true)?,
            put_back: define("float_mode.put_back", &put_back, false)?,
        })
    }

    /// Sets the standard mode, and returns the caller's.
    pub(super) fn set(self, b: &mut FunctionBuilder<'_>, module: &mut dyn Module) -> Value {
        let function = module.declare_func_in_func(self.set, b.func);
        let call = b.ins().call(function, &[]);
        b.inst_results(call)[0]
    }

    /// Restores the caller's mode.
    pub(super) fn put_back(self, b: &mut FunctionBuilder<'_>, module: &mut dyn Module, mode: Value) {
        let function = module.declare_func_in_func(self.put_back, b.func);
        b.ins().call(function, &[mode]);
    }
}
