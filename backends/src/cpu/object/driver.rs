//! The C-callable functions of an object, in Cranelift IR. They do for one call on one thread what
//! `cpu::run` does: compute the sizes, check the program's requirements, lay out temporaries in the
//! caller's scratch memory, and call the kernels in order.

mod memory;
mod steps;

use std::collections::BTreeMap;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{
    AbiParam, Block, BlockArg, InstBuilder, MemFlagsData, Signature, StackSlot, StackSlotData, StackSlotKind, Type,
    Value,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::FunctionBuilder;
use cranelift_module::{DataId, FuncId, Module};
use ir::bind::MAX_LENGTH;
use ir::nest::{BufferId, Program, Relation, Role, is_length};
use ir::sabotage::{self, Bug};
use ir::{Dtype, Size};

use memory::{Area, Layout, Location};
use steps::Steps;

use super::interface::{Interface, Origin, Param, Status};
use super::mode::Mode;
use super::sizes::{Number, Sizes, checked};
use crate::abi::{FaultRecord, SCRATCH_ALIGN};
use crate::cpu::formula::{Formula, Rule};
use crate::cpu::scalar;
use crate::cpu::state::{Columns, own_memory};
use crate::slots::Slots;

/// A kernel, as its caller needs to know it.
pub(super) struct Callee {
    pub(super) function: FuncId,
    pub(super) range: Option<Vec<Size>>,
    pub(super) step: i64,
    pub(super) scratch: usize,
    pub(super) buffers: Vec<BufferId>,
    pub(super) columns: Columns,
}

/// Everything that the functions are generated from.
pub(super) struct DriverInput<'p> {
    pub(super) interface: &'p Interface<'p>,
    /// The program with the buffers that splitting its kernels has added.
    pub(super) run: &'p Program,
    pub(super) kernels: Vec<Callee>,
    pub(super) sizes: Vec<Formula>,
    pub(super) slots: Slots,
    pub(super) constants: Vec<(BufferId, DataId)>,
    /// Whether a check can fail after a result has been stored to.
    pub(super) late_faults: bool,
    /// Sets the floating-point mode around the kernels.
    pub(super) mode: Mode,
}

/// The offsets of the two numbers that give details of a status.
const FOUND: i32 = 0;
const WANTED: i32 = 8;

/// Flags for memory shared with C: aligned to its elements, and no access traps.
fn shared() -> MemFlagsData {
    MemFlagsData::trusted()
}

/// The signature of a function with these parameters.
pub(super) fn signature(interface: &Interface<'_>, params: &[Param], convention: CallConv) -> Signature {
    let mut signature = Signature::new(convention);
    let ty = |param: &Param| match param {
        Param::Scalar(id) => scalar::register(interface.program.buffers[*id].dtype),
        _ => I64,
    };
    signature.params.extend(params.iter().map(|param| AbiParam::new(ty(param))));
    signature.returns.push(AbiParam::new(I32));
    signature
}

/// A function under construction.
struct Driver<'a, 'p> {
    b: FunctionBuilder<'a>,
    parts: &'a DriverInput<'p>,
    given: Vec<(Param, Value)>,
    sizes: Sizes,
    /// The sizes of arrays in bytes, as far as they have been computed.
    bytes: BTreeMap<BufferId, Value>,
    /// The block that ends the call with an error: a status and two numbers.
    fail: Block,
}

/// Emits the body of the function that computes the results.
pub(super) fn compute(b: FunctionBuilder<'_>, module: &mut dyn Module, parts: &DriverInput<'_>) {
    let params = parts.interface.params();
    let mut d = Driver::new(b, parts, &params);
    d.bind();
    let layout = d.layout();
    let scratch = d.scratch(&layout);
    d.run(module, &layout, scratch);
    d.end(module);
}

/// Emits the body of the query, which returns how much scratch memory a call needs and the shapes
/// of its results.
pub(super) fn query(b: FunctionBuilder<'_>, module: &mut dyn Module, parts: &DriverInput<'_>) {
    let params = parts.interface.query_params();
    let mut d = Driver::new(b, parts, &params);
    d.bind();
    let layout = d.layout();
    let needs = d.param(Param::Needs);
    let asked = d.asked(&layout);
    // A caller that only asks whether a call is possible passes a null `needs`.
    let (tell, done) = (d.b.create_block(), d.b.create_block());
    d.b.ins().brif(needs, tell, &[], done, &[]);
    d.b.switch_to_block(tell);
    d.b.ins().store(shared(), asked, needs, 0);
    let mut at = 8;
    for (_, id, rank) in parts.interface.lengths() {
        for axis in 0..rank {
            let axis = if sabotage::on(Bug::ObjectNeeds) { 0 } else { axis };
            let length = d.sizes.size(&mut d.b, &parts.run.buffers[id].shape[axis]).value;
            d.b.ins().store(shared(), length, needs, at);
            at += 8;
        }
    }
    d.b.ins().jump(done, &[]);
    d.b.switch_to_block(done);
    d.end(module);
}

impl<'a, 'p> Driver<'a, 'p> {
    fn new(mut b: FunctionBuilder<'a>, parts: &'a DriverInput<'p>, params: &[Param]) -> Driver<'a, 'p> {
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        let values = b.block_params(entry).to_vec();
        let given = params.iter().copied().zip(values).collect();
        let fail = b.create_block();
        b.set_cold_block(fail);
        for ty in [I32, I64, I64] {
            b.append_block_param(fail, ty);
        }
        Driver { b, parts, given, sizes: Sizes::default(), bytes: BTreeMap::new(), fail }
    }

    fn param(&self, param: Param) -> Value {
        let found = self.given.iter().find(|(p, _)| *p == param);
        found.expect("asked for a parameter of the function").1
    }

    fn int(&mut self, value: i64) -> Value {
        self.b.ins().iconst(I64, value)
    }

    /// Ends the call with a status, and the numbers that it is about, unless a condition holds.
    fn ensure(&mut self, holds: Value, status: Status, numbers: [Value; 2]) {
        let next = self.b.create_block();
        let code = self.b.ins().iconst(I32, self.parts.interface.code(status));
        let arguments = [code, numbers[0], numbers[1]].map(BlockArg::from);
        self.b.ins().brif(holds, next, &[], self.fail, &arguments);
        self.b.switch_to_block(next);
    }

    /// The value of a size. Ends the call if the size has no value.
    fn sound(&mut self, size: &Size, status: Status) -> Value {
        let Number { value, sound } = self.sizes.size(&mut self.b, size);
        if let Some(sound) = sound {
            let zero = self.int(0);
            self.ensure(sound, status, [zero, zero]);
            self.sizes.settle(size);
        }
        value
    }

    /// Binds the sizes to the parameters and checks the program's requirements, in the order of
    /// `ir::bind`.
    fn bind(&mut self) {
        let interface = self.parts.interface;
        let zero = self.int(0);
        for (symbol, origin) in &interface.origins {
            let value = match origin {
                Origin::Given => {
                    let value = self.param(Param::Size(*symbol));
                    let holds =
                        self.b.ins().icmp_imm_u(IntCC::UnsignedLessThanOrEqual, value, MAX_LENGTH.cast_signed());
                    self.ensure(holds, Status::Size, [value, zero]);
                    value
                }
                Origin::Scalar(input) => self.scalar_size(interface.inputs[*input]),
                Origin::Declared(_) => continue,
            };
            self.sizes.bind(*symbol, value);
        }
        // All sizes that declarations depend on are bound now.
        for (symbol, origin) in &interface.origins {
            if let Origin::Declared(number) = origin {
                let value = self.sound(&interface.program.requires[*number].right, Status::NoValue(*number));
                let holds = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThanOrEqual, value, MAX_LENGTH.cast_signed());
                self.ensure(holds, Status::Requirement(*number), [zero, value]);
                self.sizes.bind(*symbol, value);
            }
        }
        for (number, r) in interface.program.requires.iter().enumerate() {
            let status = Status::NoValue(number);
            let mut void = None;
            for size in &r.unless_empty {
                let value = self.sound(size, status);
                let empty = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, value, 1);
                void = Some(void.map_or(empty, |void| self.b.ins().bor(void, empty)));
            }
            let (left, right) = (self.sound(&r.left, status), self.sound(&r.right, status));
            let relation = match r.relation {
                Relation::Equal => IntCC::Equal,
                Relation::AtMost => IntCC::SignedLessThanOrEqual,
            };
            let met = self.b.ins().icmp(relation, left, right);
            let void = void.filter(|_| !sabotage::on(Bug::ObjectVoid));
            let met = void.map_or(met, |void| self.b.ins().bor(met, void));
            self.ensure(met, Status::Requirement(number), [left, right]);
        }
        self.check_lengths();
    }

    /// A scalar parameter as a size, converted as in `ir::bind::integer`.
    fn scalar_size(&mut self, id: BufferId) -> Value {
        let value = self.param(Param::Scalar(id));
        let b = &mut self.b;
        match self.parts.run.buffers[id].dtype {
            Dtype::I8 | Dtype::I16 | Dtype::I32 => b.ins().sextend(I64, value),
            Dtype::U8 | Dtype::U16 | Dtype::U32 => b.ins().uextend(I64, value),
            Dtype::I64 => value,
            Dtype::U64 if sabotage::on(Bug::ObjectUnsigned) => value,
            Dtype::U64 => {
                let most = b.ins().iconst(I64, i64::MAX);
                b.ins().umin(value, most)
            }
            Dtype::Bool | Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64 => b.ins().iconst(I64, 0),
        }
    }

    /// Checks that the lengths of results are valid.
    fn check_lengths(&mut self) {
        let run = self.parts.run;
        for id in &self.parts.interface.outputs {
            // A size that is the length of some array is known to be valid.
            for (axis, size) in
                run.buffers[*id].shape.iter().enumerate().filter(|(_, size)| !is_length(&run.symbols, size))
            {
                let status = Status::Length(*id, axis);
                let value = self.sound(size, status);
                let zero = self.int(0);
                let holds = self.b.ins().icmp_imm_s(IntCC::SignedGreaterThanOrEqual, value, 0);
                self.ensure(holds, status, [value, zero]);
            }
        }
    }

    fn slot(&mut self, bytes: usize) -> StackSlot {
        let bytes = u32::try_from(bytes).expect("tables of a program are small");
        self.b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, bytes.max(8), 3))
    }

    fn address_of(&mut self, slot: StackSlot) -> Value {
        self.b.ins().stack_addr(I64, slot, 0)
    }

    /// Calls the kernels.
    fn run(&mut self, module: &mut dyn Module, layout: &Layout, scratch: Value) {
        let parts = self.parts;
        let target = module.target_config();
        let table = self.slot(parts.run.buffers.len() * 8);
        let table = self.address_of(table);
        let entry = |d: &mut Self, id: BufferId, address: Value| {
            let at = i32::try_from(u64::from(id.as_u32()) * 8).expect("few buffers");
            d.b.ins().store(own_memory(), address, table, at);
        };
        let mut outputs = vec![];
        for (id, buffer) in &parts.run.buffers {
            let address = match &buffer.role {
                Role::Input(_) if buffer.shape.is_empty() => self.scalar(id),
                Role::Input(_) => self.array(id, Param::Input(id)),
                Role::Output(_) => {
                    let address = self.array(id, Param::Output(id));
                    // A result that is held back is computed in scratch and copied at the end.
                    let held = layout.held.iter().find(|(held, ..)| *held == id);
                    let seen = held.map_or(address, |(_, at, _)| self.b.ins().iadd(scratch, *at));
                    outputs.push((id, address, seen));
                    seen
                }
                Role::Constant(_) => {
                    let Some((_, data)) = parts.constants.iter().find(|(c, _)| *c == id) else { continue };
                    let data = module.declare_data_in_func(*data, self.b.func);
                    self.b.ins().symbol_value(I64, data)
                }
                Role::Temp | Role::Scratch => continue,
            };
            entry(self, id, address);
        }
        self.hold_apart(Area { address: scratch, bytes: layout.bytes });
        let mut initial_addresses = BTreeMap::new();
        for (id, place) in &layout.temporaries {
            let address = match place {
                Location::At(at) => self.b.ins().iadd(scratch, *at),
                Location::Of(output) => outputs.iter().find(|(id, ..)| id == output).expect("an output is lent").2,
            };
            entry(self, *id, address);
            initial_addresses.insert(*id, address);
        }
        let sizes = self.slot(parts.sizes.len() * 8);
        let sizes = self.address_of(sizes);
        for (number, formula) in parts.sizes.iter().enumerate() {
            let value = self.sizes.formula(&mut self.b, formula);
            let at = i32::try_from(number * 8).expect("the table of sizes is small");
            self.b.ins().store(own_memory(), value, sizes, at);
        }
        let fault = self.slot(size_of::<FaultRecord>());
        let fault = self.address_of(fault);
        let own = if self.on_stack() {
            let most = parts.kernels.iter().map(|kernel| kernel.scratch).max().unwrap_or(0);
            let slot = self.slot(most + SCRATCH_ALIGN);
            let address = self.address_of(slot);
            self.aligned(address)
        } else {
            self.b.ins().iadd(scratch, layout.own)
        };
        // Only kernels compute with floats, so the mode is set around them alone.
        let mode = parts.mode.set(&mut self.b, module);
        let totals = BTreeMap::new();
        let mut steps = Steps { table, sizes, own, scratch, fault, mode, layout, initial_addresses, totals };
        steps.prepare(self);
        steps.program(self, module);
        parts.mode.put_back(&mut self.b, module, mode);
        for (id, address, seen) in outputs {
            if let Some((_, _, bytes)) = layout.held.iter().find(|(held, ..)| *held == id) {
                self.b.call_memcpy(target, address, seen, *bytes);
            }
        }
    }

    /// Spills a scalar parameter, because kernels take all buffers by address.
    fn scalar(&mut self, id: BufferId) -> Value {
        let slot = self.slot(8);
        let address = self.address_of(slot);
        let value = self.param(Param::Scalar(id));
        self.b.ins().store(own_memory(), value, address, 0);
        address
    }

    /// The end of a kernel's range.
    fn total(&mut self, kernel: &Callee) -> Value {
        let most = self.int(i64::MAX);
        let Some(range) = &kernel.range else { return most };
        let zero = self.int(0);
        let mut total = self.int(1);
        let mut sound = None;
        for extent in range {
            let extent = self.sizes.size(&mut self.b, extent).value;
            let extent = self.b.ins().smax(extent, zero);
            total = checked(&mut self.b, &mut sound, Rule::Times, total, extent);
        }
        if let Some(sound) = sound {
            total = self.b.ins().select(sound, total, most);
        }
        if kernel.step == 1 {
            return total;
        }
        let step = self.int(kernel.step);
        // Round up: the last step may be incomplete.
        let whole = self.b.ins().udiv(total, step);
        let rest = self.b.ins().urem(total, step);
        let some = self.b.ins().icmp_imm_s(IntCC::NotEqual, rest, 0);
        let some = self.b.ins().uextend(I64, some);
        self.b.ins().iadd(whole, some)
    }

    /// Ends the call if a kernel reports a failed check.
    fn faulted(&mut self, module: &mut dyn Module, failed: Value, fault: Value, mode: Value) {
        let (stop, next) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(stop);
        self.b.ins().brif(failed, stop, &[], next, &[]);
        self.b.switch_to_block(stop);
        self.parts.mode.put_back(&mut self.b, module, mode);
        let mut field = |offset: usize, ty: Type| {
            let offset = i32::try_from(offset).expect("a small record");
            self.b.ins().load(ty, own_memory(), fault, offset)
        };
        // Load the low half: all supported targets are little-endian, and there are fewer sites
        // than 2^32.
        let site = field(std::mem::offset_of!(FaultRecord, site), I32);
        let index = field(std::mem::offset_of!(FaultRecord, index), I64);
        let bound = field(std::mem::offset_of!(FaultRecord, bound), I64);
        let first = self.parts.interface.statuses.iter().position(|status| matches!(status, Status::Site(_)));
        let first = first.and_then(|first| i64::try_from(first).ok()).unwrap_or(0);
        let code = self.b.ins().iadd_imm_s(site, first);
        self.b.ins().jump(self.fail, &[code, index, bound].map(BlockArg::from));
        self.b.switch_to_block(next);
    }

    /// Ends the function, with the error exit at its end.
    fn end(mut self, module: &dyn Module) {
        let done = self.b.ins().iconst(I32, self.parts.interface.code(Status::Done));
        self.b.ins().return_(&[done]);
        self.b.switch_to_block(self.fail);
        let &[code, found, wanted] = self.b.block_params(self.fail) else { unreachable!("three parameters") };
        let numbers = self.param(Param::Numbers);
        let (tell, out) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(numbers, tell, &[], out, &[]);
        self.b.switch_to_block(tell);
        self.b.ins().store(shared(), found, numbers, FOUND);
        self.b.ins().store(shared(), wanted, numbers, WANTED);
        self.b.ins().jump(out, &[]);
        self.b.switch_to_block(out);
        self.b.ins().return_(&[code]);
        self.b.seal_all_blocks();
        self.b.finalize(module.target_config());
    }
}
