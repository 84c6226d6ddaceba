//! The Cranelift module: its settings, the table of functions that compiled code may call, and the
//! ownership of compiled code.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use cranelift_codegen::ir::types::{F32, F64, I32, I64};
use cranelift_codegen::ir::{AbiParam, FuncRef, InstBuilder, Signature, Type, Value};
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::FunctionBuilder;
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module, default_libcall_names};
use ir::Dtype;

use super::carry::Carry;
use super::gemm;
use super::transpose;
use crate::abi::GemmCall;
use crate::error::{CompileError, internal};

/// Where compiled code runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Host {
    /// In this process, which has threads and the helpers of the table.
    Here,
    /// In any process. It is only known to have a C library, so the helpers are part of the code.
    Anywhere,
}

/// A function that compiled code may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Helper {
    RemF32,
    RemF64,
    WidenF16,
    F16FromF64,
    F16FromI64,
    F16FromU64,
    Bf16FromF64,
    Bf16FromI64,
    Bf16FromU64,
    GemmF32,
    GemmF64,
    Transpose1,
    Transpose2,
    Transpose4,
    Transpose8,
    Await,
}

/// A row of the table of helpers. Symbols contain a dot, which no function name of a program can,
/// so the two never clash.
struct HelperEntry {
    helper: Helper,
    name: &'static str,
    address: *const u8,
    params: &'static [Type],
    result: Option<Type>,
}

fn entries() -> [HelperEntry; 16] {
    let entry = |helper, name, address, params, result| HelperEntry { helper, name, address, params, result };
    [
        entry(Helper::RemF32, "fl.rem_f32", rem_f32 as *const u8, &[F32, F32], Some(F32)),
        entry(Helper::RemF64, "fl.rem_f64", rem_f64 as *const u8, &[F64, F64], Some(F64)),
        entry(Helper::WidenF16, "fl.widen_f16", widen_f16 as *const u8, &[I32], Some(F32)),
        entry(Helper::F16FromF64, "fl.f16_from_f64", f16_from_f64 as *const u8, &[F64], Some(I32)),
        entry(Helper::F16FromI64, "fl.f16_from_i64", f16_from_i64 as *const u8, &[I64], Some(I32)),
        entry(Helper::F16FromU64, "fl.f16_from_u64", f16_from_u64 as *const u8, &[I64], Some(I32)),
        entry(Helper::Bf16FromF64, "fl.bf16_from_f64", bf16_from_f64 as *const u8, &[F64], Some(I32)),
        entry(Helper::Bf16FromI64, "fl.bf16_from_i64", bf16_from_i64 as *const u8, &[I64], Some(I32)),
        entry(Helper::Bf16FromU64, "fl.bf16_from_u64", bf16_from_u64 as *const u8, &[I64], Some(I32)),
        entry(Helper::GemmF32, "fl.gemm_f32", gemm_f32 as *const u8, &[I64], None),
        entry(Helper::GemmF64, "fl.gemm_f64", gemm_f64 as *const u8, &[I64], None),
        entry(Helper::Transpose1, "fl.turn_1", transpose::transpose_1 as *const u8, &[I64; 6], None),
        entry(Helper::Transpose2, "fl.turn_2", transpose::transpose_2 as *const u8, &[I64; 6], None),
        entry(Helper::Transpose4, "fl.turn_4", transpose::transpose_4 as *const u8, &[I64; 6], None),
        entry(Helper::Transpose8, "fl.turn_8", transpose::transpose_8 as *const u8, &[I64; 6], None),
        entry(Helper::Await, "fl.await", await_turn as *const u8, &[I64; 3], None),
    ]
}

/// The functions that Cranelift calls if the target lacks an instruction (fused multiply-add,
/// rounding).
fn library_calls() -> [(&'static str, *const u8); 10] {
    [
        ("fmaf", fma_f32 as *const u8),
        ("fma", fma_f64 as *const u8),
        ("ceilf", ceil_f32 as *const u8),
        ("ceil", ceil_f64 as *const u8),
        ("floorf", floor_f32 as *const u8),
        ("floor", floor_f64 as *const u8),
        ("truncf", trunc_f32 as *const u8),
        ("trunc", trunc_f64 as *const u8),
        ("nearbyintf", nearest_f32 as *const u8),
        ("nearbyint", nearest_f64 as *const u8),
    ]
}

macro_rules! library_call {
    ($($name:ident($($argument:ident),+: $type:ty) = $value:expr;)+) => {
        $(extern "C" fn $name($($argument: $type),+) -> $type { $value })+
    };
}

library_call! {
    rem_f32(a, b: f32) = a % b;
    rem_f64(a, b: f64) = a % b;
    fma_f32(a, b, c: f32) = a.mul_add(b, c);
    fma_f64(a, b, c: f64) = a.mul_add(b, c);
    ceil_f32(a: f32) = a.ceil();
    ceil_f64(a: f64) = a.ceil();
    floor_f32(a: f32) = a.floor();
    floor_f64(a: f64) = a.floor();
    trunc_f32(a: f32) = a.trunc();
    trunc_f64(a: f64) = a.trunc();
    nearest_f32(a: f32) = a.round_ties_even();
    nearest_f64(a: f64) = a.round_ties_even();
}

extern "C" fn widen_f16(bits: u32) -> f32 {
    half::f16::from_bits(bits as u16).to_f32()
}

extern "C" fn f16_from_f64(v: f64) -> u32 {
    half::f16::from_f32(float_to_odd(v)).to_bits().into()
}

extern "C" fn bf16_from_f64(v: f64) -> u32 {
    half::bf16::from_f32(float_to_odd(v)).to_bits().into()
}

extern "C" fn f16_from_i64(v: i64) -> u32 {
    f16_from_f64(int_to_odd(v.into()))
}

extern "C" fn f16_from_u64(v: u64) -> u32 {
    f16_from_f64(int_to_odd(v.into()))
}

extern "C" fn bf16_from_i64(v: i64) -> u32 {
    bf16_from_f64(int_to_odd(v.into()))
}

extern "C" fn bf16_from_u64(v: u64) -> u32 {
    bf16_from_f64(int_to_odd(v.into()))
}

/// `v` rounded to odd. A second rounding to a much narrower format then gives the same result as
/// rounding once (Boldo and Melquiond, "When Double Rounding is Odd").
fn float_to_odd(v: f64) -> f32 {
    let near = v as f32;
    if v.is_nan() || f64::from(near) == v || near.to_bits() & 1 == 1 {
        return near;
    }
    let bits = near.to_bits();
    f32::from_bits(if f64::from(near).abs() > v.abs() { bits - 1 } else { bits + 1 })
}

/// An integer of at most 65 bits, rounded to odd.
fn int_to_odd(v: i128) -> f64 {
    let near = v as f64;
    if near as i128 == v || near.to_bits() & 1 == 1 {
        return near;
    }
    let bits = near.to_bits();
    f64::from_bits(if (near as i128).abs() > v.abs() { bits - 1 } else { bits + 1 })
}

macro_rules! gemm {
    ($name:ident, $type:ty) => {
        extern "C" fn $name(call: *const GemmCall) {
            // SAFETY: compiled code passes a call that it has just written. Its operands are
            // aligned (the runtime copies unaligned arrays) and lie either inside the program's
            // buffers, like the accesses of the loops that the call replaces (see `Task::piece`),
            // or in the kernel's scratch. `c` overlaps neither factor: it is separate scratch or
            // the memory of a result, and a buffer that a kernel stores to shares memory with none
            // that the kernel loads (`slots`). A call of a symmetric product also stores elements
            // of other rows of the result, which no other call stores. The kernel has `gemm::WORK`
            // bytes of scratch for each contraction, and says that a factor is packed only after
            // the call that packed it, and that it stays only if the kernel does not store to it.
            unsafe { gemm::multiply::<$type>(&*call) }
        }
    };
}

gemm!(gemm_f32, f32);
gemm!(gemm_f64, f64);

/// The block sizes of matrix products in objects (see `object::gemm`) along the rows and the
/// columns. They are multiples of every tile size.
pub(super) const BLOCK_ROWS: i64 = 168;
pub(super) const BLOCK_COLUMNS: i64 = 512;

/// The implementation of matrix products of a type.
pub(super) struct Gemm {
    pub(super) helper: Helper,
    /// The size of the packing buffer that it needs in bytes.
    pub(super) work: usize,
    /// The block sizes along rows and the inner index that suit it best, if it is called with parts
    /// of a product.
    pub(super) rows: usize,
    pub(super) inner: usize,
}

impl Gemm {
    /// The implementation for a type. It does not depend on the vector width of leaves, because
    /// then the width would change results.
    pub(super) fn new(dtype: Dtype, host: Host) -> Gemm {
        let helper = if dtype == Dtype::F32 { Helper::GemmF32 } else { Helper::GemmF64 };
        let inner = gemm::inner(dtype);
        match host {
            Host::Here => Gemm { helper, work: gemm::WORK, rows: gemm::BLOCK_ROWS, inner },
            Host::Anywhere => {
                let elements = (BLOCK_ROWS + BLOCK_COLUMNS) as usize * inner;
                Gemm { helper, work: elements * dtype.bytes(), rows: BLOCK_ROWS as usize, inner }
            }
        }
    }
}

/// See [`Carry::wait`].
extern "C" fn await_turn(carry: *const Carry, number: i64, cancelled: *const AtomicBool) {
    // SAFETY: compiled code passes the address of a carry, which the run initialized before the
    // kernel began, and the cancellation flag of the run; both outlive the kernel. `wait` reads
    // only the atomic fields of the entry.
    let (carry, cancelled) = unsafe { (&*carry, &*cancelled) };
    carry.wait(number, cancelled);
}

/// The helpers that the functions of a module have called so far.
pub(super) struct Called {
    host: Host,
    pub(super) found: Vec<(Helper, FuncId)>,
}

impl Called {
    pub(super) fn new(host: Host) -> Called {
        Called { host, found: vec![] }
    }

    fn id(&mut self, module: &mut dyn Module, helper: Helper) -> FuncId {
        if let Some((_, found)) = self.found.iter().find(|(h, _)| *h == helper) {
            return *found;
        }
        let entry = entries().into_iter().find(|entry| entry.helper == helper).expect("the table has every helper");
        let (name, linkage) = match (self.host, helper) {
            (Host::Here, _) => (entry.name, Linkage::Import),
            // The C library has these as well.
            (Host::Anywhere, Helper::RemF32) => ("fmodf", Linkage::Import),
            (Host::Anywhere, Helper::RemF64) => ("fmod", Linkage::Import),
            (Host::Anywhere, _) => (entry.name, Linkage::Local),
        };
        let signature = entry.signature(module.isa().default_call_conv());
        let id = module.declare_function(name, linkage, &signature).expect("names are declared once");
        self.found.push((helper, id));
        id
    }
}

impl HelperEntry {
    fn signature(&self, convention: CallConv) -> Signature {
        let mut signature = Signature::new(convention);
        signature.params.extend(self.params.iter().map(|t| AbiParam::new(*t)));
        signature.returns.extend(self.result.map(AbiParam::new));
        signature
    }
}

/// The helpers as seen by one function under construction.
pub(super) struct Helpers<'a> {
    module: &'a mut dyn Module,
    called: &'a mut Called,
    declared: Vec<(Helper, FuncRef)>,
    /// The machine code of the leaves that it calls.
    pub(super) leaves: Vec<(FuncId, Vec<u8>)>,
}

impl<'a> Helpers<'a> {
    pub(super) fn new(module: &'a mut dyn Module, called: &'a mut Called) -> Helpers<'a> {
        Helpers { module, called, declared: vec![], leaves: vec![] }
    }

    /// Where the code runs.
    pub(super) fn host(&self) -> Host {
        self.called.host
    }

    fn reference(&mut self, b: &mut FunctionBuilder<'_>, helper: Helper) -> FuncRef {
        if let Some((_, found)) = self.declared.iter().find(|(h, _)| *h == helper) {
            return *found;
        }
        let id = self.called.id(self.module, helper);
        let reference = self.module.declare_func_in_func(id, b.func);
        self.declared.push((helper, reference));
        reference
    }

    /// Calls a helper that returns a value.
    pub(super) fn call(&mut self, b: &mut FunctionBuilder<'_>, helper: Helper, arguments: &[Value]) -> Value {
        let function = self.reference(b, helper);
        let call = b.ins().call(function, arguments);
        b.inst_results(call)[0]
    }

    /// Calls machine code that takes the address of its arguments.
    pub(super) fn run_bytes(&mut self, b: &mut FunctionBuilder<'_>, code: &[u8], argument: Value) {
        let mut signature = Signature::new(CallConv::SystemV);
        signature.params.push(AbiParam::new(I64));
        let id = self.module.declare_anonymous_function(&signature).expect("a new function");
        self.module.define_function_bytes(id, 64, code, &[]).expect("a function that is not defined");
        self.leaves.push((id, code.to_vec()));
        let function = self.module.declare_func_in_func(id, b.func);
        // The JIT may place functions further apart than a relative call reaches. (An object is
        // contiguous.)
        b.func.dfg.ext_funcs[function].colocated = self.host() == Host::Anywhere;
        b.ins().call(function, &[argument]);
    }

    /// Calls a helper that returns nothing.
    pub(super) fn run(&mut self, b: &mut FunctionBuilder<'_>, helper: Helper, arguments: &[Value]) {
        let function = self.reference(b, helper);
        b.ins().call(function, arguments);
    }
}

/// How much effort goes into optimization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effort {
    /// For the fastest code.
    Best,
    /// With single-pass register allocation: slower code, compiled in two thirds of the time, and
    /// in linear time for very large kernels.
    Fast,
    /// With single-pass register allocation and without optimizations, for code that runs once per
    /// call and spends its time in leaves.
    Minimal,
}

/// The settings of the code generator, for code at a fixed address or position-independent code.
pub(super) fn flags(effort: Effort, host: Host) -> Result<settings::Flags, CompileError> {
    let mut flags = settings::builder();
    for (name, value) in [
        ("opt_level", if effort == Effort::Minimal { "none" } else { "speed" }),
        ("is_pic", if host == Host::Anywhere { "true" } else { "false" }),
        ("use_colocated_libcalls", "false"),
        ("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }),
        ("regalloc_algorithm", if effort == Effort::Best { "backtracking" } else { "single_pass" }),
    ] {
        flags.set(name, value).map_err(|e| internal(&e))?;
    }
    Ok(settings::Flags::new(flags))
}

/// The Cranelift target of this machine, for code at a fixed address.
pub(super) fn machine(effort: Effort) -> Result<OwnedTargetIsa, CompileError> {
    let target = cranelift_native::builder().map_err(|e| internal(&e))?;
    target.finish(flags(effort, Host::Here)?).map_err(|e| internal(&e))
}

/// A module for this machine.
pub(super) fn module(machine: OwnedTargetIsa) -> JITModule {
    let mut builder = JITBuilder::with_isa(machine, default_libcall_names());
    for entry in entries() {
        builder.symbol(entry.name, entry.address);
    }
    builder.symbols(library_calls());
    JITModule::new(builder)
}

/// Compiled code, readable and executable, never writable; unmapped when dropped.
pub(super) struct Code {
    /// A `JITModule` is not `Sync`, so it is behind a lock, which only `drop` takes.
    module: Mutex<Option<JITModule>>,
}

impl Code {
    pub(super) fn new(module: JITModule) -> Code {
        Code { module: Mutex::new(Some(module)) }
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        let module = self.module.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(module) = module.take() {
            // SAFETY: the functions can be called only through the `cpu::Module` that owns this
            // code, and calls borrow that module, so none is running when it is dropped. Only the
            // module holds their addresses, so none can be called afterwards.
            unsafe { module.free_memory() }
        }
    }
}
