//! Objects: programs compiled ahead of time, to be linked into other programs. The kernels are the
//! same as those that `compile` makes for this process, except that scans are not split across
//! threads and that helpers are part of the object. `driver` generates the functions around the
//! kernels that do what `cpu::run` does. `interface` defines how they look from C, and `header`
//! declares them.

mod assembly;
mod driver;
pub(super) mod gemm;
mod header;
mod interface;
mod mode;
mod names;
mod runtime;
mod sizes;
mod target;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{AbiParam, InstBuilder, Signature};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::{DataDescription, DataId, FuncId, Linkage, Module, default_libcall_names};
use cranelift_object::{ObjectBuilder, ObjectModule};
use ir::nest::Role;
use ir::sabotage::{self, Bug};
use ir::sched::{Machine, Scheduled};

pub use self::interface::{Function, Settings, Status};
pub use self::target::{Target, TargetError};

use self::driver::{Callee, DriverInput};
use self::interface::Interface;
use self::mode::Mode;
use super::compile::{CodeGens, define, effort, late_faults, panic_message, range, scratch_buffers, step};
use super::jit::{Called, Effort, Host};
use crate::error::{CompileError, check, internal};
use crate::slots::{Slots, words};

/// Compiles the functions to a relocatable object file. The output is deterministic.
pub fn object(functions: &[Function<'_>], settings: &Settings<'_>) -> Result<Vec<u8>, CompileError> {
    catch_unwind(AssertUnwindSafe(|| build(functions, settings)))
        .unwrap_or_else(|panic: Box<dyn Any + Send>| Err(CompileError::Internal(panic_message(&*panic))))
}

/// The C header of such an object.
pub fn header(functions: &[Function<'_>], settings: &Settings<'_>) -> String {
    header::header(functions, settings)
}

/// Such an object as assembly. Assembling it gives the same sections, symbols and relocations.
pub fn assembly(object: &[u8]) -> Result<String, CompileError> {
    assembly::assembly(object)
}

fn build(functions: &[Function<'_>], settings: &Settings<'_>) -> Result<Vec<u8>, CompileError> {
    functions.iter().try_for_each(|f| check(f.scheduled, Machine::OBJECT))?;
    let fast = functions.iter().any(|f| effort(f.scheduled) == Effort::Fast);
    let machine = settings.target.machine(if fast { Effort::Fast } else { Effort::Best })?;
    let codegens = CodeGens { best: machine, leaf_callers: None };
    let builder = ObjectBuilder::new(codegens.best.clone(), settings.origin, default_libcall_names())
        .map_err(|e| internal(&e))?;
    let mut module = ObjectModule::new(builder);
    let mut called = Called::new(Host::Anywhere);
    let mode = Mode::define(&mut module, settings.target)?;
    let interfaces = Interface::all(functions, settings.prefix);
    for (function, interface) in functions.iter().zip(&interfaces) {
        define_function(&mut module, &mut called, &codegens, settings.target, mode, interface, function.scheduled)?;
        define_texts(&mut module, interface, function.text)?;
    }
    for (helper, id) in &called.found {
        runtime::define(&mut module, settings.target, *helper, *id)?;
    }
    module.finish().emit().map_err(|e| internal(&e))
}

/// Defines the kernels of a function, the function itself, and its query.
fn define_function(
    module: &mut ObjectModule,
    called: &mut Called,
    codegens: &CodeGens,
    target: Target,
    mode: Mode,
    interface: &Interface<'_>,
    scheduled: &Scheduled,
) -> Result<(), CompileError> {
    let Scheduled { program: run, parts, .. } = scheduled;
    let (defined, sizes) = define(module, called, scheduled, target.wide(), codegens)?;
    let callee = |(part, (function, needs)): (_, (FuncId, super::compile::Needs))| Callee {
        function,
        range: range(part),
        step: step(part),
        scratch: needs.scratch,
        buffers: scratch_buffers(run, &part.kernel),
        columns: needs.columns,
    };
    let kernels = parts.iter().zip(defined).map(callee).collect();
    let mut constants = vec![];
    for (id, buffer) in &run.buffers {
        if let Role::Constant(elements) = &buffer.role {
            let bytes: Vec<u8> = words(elements).into_iter().flat_map(u64::to_ne_bytes).collect();
            constants.push((id, data(module, &format!("{}.{id}", run.name), bytes)?));
        }
    }
    let parts = DriverInput {
        interface,
        run,
        kernels,
        sizes: sizes.formulas(target.memory()),
        slots: Slots::of_parts(scheduled),
        constants,
        late_faults: late_faults(run, parts) && !sabotage::on(Bug::ObjectHeld),
        mode,
    };
    let convention = module.isa().default_call_conv();
    let compute = driver::signature(interface, &interface.params(), convention);
    exported(module, &interface.name, compute, |b, module| driver::compute(b, module, &parts))?;
    let query = driver::signature(interface, &interface.query_params(), convention);
    exported(module, &interface.query, query, |b, module| driver::query(b, module, &parts))
}

/// Defines read-only data, aligned to cache lines.
fn data(module: &mut ObjectModule, name: &str, bytes: Vec<u8>) -> Result<DataId, CompileError> {
    let id = module.declare_data(name, Linkage::Local, false, false).map_err(|e| internal(&e))?;
    let mut data = DataDescription::new();
    data.define(bytes.into_boxed_slice());
    data.set_align(64);
    module.define_data(id, &data).map_err(|e| internal(&e))?;
    Ok(id)
}

/// Defines a function that C calls.
fn exported(
    module: &mut ObjectModule,
    name: &str,
    signature: Signature,
    body: impl FnOnce(FunctionBuilder<'_>, &mut dyn Module),
) -> Result<(), CompileError> {
    let id = module.declare_function(name, Linkage::Export, &signature).map_err(|e| internal(&e))?;
    let mut function = module.make_context();
    function.func.signature = signature;
    let mut context = FunctionBuilderContext::new();
    body(FunctionBuilder::new(&mut function.func, &mut context), module);
    module.define_function(id, &mut function).map_err(|e| CompileError::Internal(format!("{name}: {e}")))
}

/// Defines the function that returns the message of a status. Its data is a table of offsets,
/// followed by the messages, each terminated by a zero.
fn define_texts(
    module: &mut ObjectModule,
    interface: &Interface<'_>,
    text: &dyn Fn(Status) -> String,
) -> Result<(), CompileError> {
    let count = interface.statuses.len();
    let mut places = vec![];
    let mut texts = vec![];
    for text in interface.statuses.iter().map(|s| text(*s)).chain(["there is no such status".to_owned()]) {
        places.extend(u32::try_from(4 * (count + 1) + texts.len()).unwrap_or(0).to_le_bytes());
        texts.extend(text.bytes().filter(|byte| *byte != 0));
        texts.push(0);
    }
    places.extend(texts);
    let data = data(module, &format!("{}.texts", interface.program.name), places)?;
    let mut signature = Signature::new(module.isa().default_call_conv());
    signature.params.push(AbiParam::new(I32));
    signature.returns.push(AbiParam::new(I64));
    exported(module, &interface.error, signature, |mut b, module| {
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        let status = b.block_params(entry)[0];
        let most = b.ins().iconst(I32, i64::try_from(count).expect("few statuses"));
        let status = b.ins().umin(status, most);
        let status = b.ins().uextend(I64, status);
        let data = module.declare_data_in_func(data, b.func);
        let data = b.ins().symbol_value(I64, data);
        let at = b.ins().imul_imm_s(status, 4);
        let at = b.ins().iadd(data, at);
        let one = i32::from(sabotage::on(Bug::ObjectText));
        let place = b.ins().uload32(super::state::own_memory(), at, 4 * one);
        let text = b.ins().iadd(data, place);
        b.ins().return_(&[text]);
        b.seal_all_blocks();
        b.finalize(module.target_config());
    })
}
