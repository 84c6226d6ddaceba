//! Compiles a program to machine code: one function per part of a kernel, in one Cranelift module.

use std::any::Any;
use std::cmp::Reverse;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::dominator_tree::DominatorTree;
use cranelift_codegen::entity::EntityRef;
use cranelift_codegen::flowgraph::ControlFlowGraph;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{AbiParam, Function, InstBuilder, Signature};
use cranelift_codegen::isa::{OwnedTargetIsa, TargetIsa};
use cranelift_codegen::loop_analysis::LoopAnalysis;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::{FuncId, Linkage, Module, ModuleReloc};
use ir::nest::{Block, BufferId, Kernel, KernelId, Program, Role, Statement, kernels_in};
use ir::order::{LANES_CHUNK, SCAN_CHUNK};
use ir::sched::{HandOff, Part, Run, Scheduled};
use ir::{Size, visit};

use super::cost::Cost;
use super::emit::Emitter;
use super::formula::Formula;
use super::jit::{self, Called, Code, Effort, Helpers, Host};
use super::lanes::Chunks;
use super::machine::{Isa, Memory};
use super::options::Options;
use super::sizes::SizeTable;
use super::state::Columns;
use super::state::{Exits, Params, Unit, slot_table};
use super::sync::cores;
use super::unfolded::unfold;
use super::wide::kernel::Wide;
use crate::abi::KernelFn;
use crate::error::CompileError;

/// From this number of operations on, registers are allocated in a single pass: slower code, but in
/// linear time.
const BIG: usize = 4_000;
/// The maximum number of threads for compilation.
const MOST_THREADS: usize = 8;

/// A compiled program.
pub(super) struct Compiled {
    /// Keeps the functions alive.
    pub(super) _code: Code,
    /// The program with the buffers that splitting has added, but without kernels.
    pub(super) program: Program,
    /// The parts of the program's kernels, in the order in which they run.
    pub(super) kernels: Vec<CompiledKernel>,
    /// The entries of the table of sizes, and those for kernels that run in time tiles.
    pub(super) sizes: Vec<Formula>,
    pub(super) near: Vec<Formula>,
    /// Whether a check can fail after a result has been stored to.
    pub(super) late_faults: bool,
}

/// A compiled part of a kernel.
pub(super) struct CompiledKernel {
    pub(super) function: KernelFn,
    /// The program's kernel that it belongs to.
    pub(super) part_of: KernelId,
    /// The extents of the outermost loop; their product is the range. `None` if it cannot be split.
    pub(super) range: Option<Vec<Size>>,
    /// See [`step`].
    pub(super) step: i64,
    /// The carry that is passed from piece to piece of a scan. Pieces then start in order, one
    /// iteration of the range each.
    pub(super) hand_off: Option<HandOff>,
    /// Whether its pieces can run in reverse order, because none of them can end the run.
    pub(super) turns: bool,
    /// The number of pieces per thread, so that a slow thread does not hold up the others.
    pub(super) pieces: i64,
    /// The scratch memory that its code needs per thread, in bytes.
    pub(super) scratch: usize,
    /// Scratch buffers of the program that it uses.
    pub(super) buffers: Vec<BufferId>,
    /// Its passes over columns.
    pub(super) columns: Columns,
    /// How long it takes.
    pub(super) cost: Cost,
}

/// Compiles all kernels. A panic in the code generator becomes an error.
pub(super) fn compile(scheduled: &Scheduled, options: &Options) -> Result<Compiled, CompileError> {
    catch_unwind(AssertUnwindSafe(|| compile_parts(scheduled, options)))
        .unwrap_or_else(|panic| Err(CompileError::Internal(panic_message(&*panic))))
}

fn compile_parts(scheduled: &Scheduled, options: &Options) -> Result<Compiled, CompileError> {
    let Scheduled { program, parts, .. } = scheduled;
    let late_faults = late_faults(program, parts);
    let codegens = CodeGens::here(effort(scheduled))?;
    let mut module = jit::module(codegens.best.clone());
    let mut called = Called::new(Host::Here);
    let (functions, sizes) = define(&mut module, &mut called, scheduled, Isa::of(options.simd), &codegens)?;
    module.finalize_definitions().map_err(|e| CompileError::Internal(e.to_string()))?;
    let kernels = parts
        .iter()
        .zip(functions)
        .map(|(part, (id, needs))| CompiledKernel {
            // SAFETY: `define` gave the function the signature of `KernelFn` in the platform's
            // calling convention, and `finalize_definitions` made it executable. Its code lives as
            // long as the table that this entry goes into.
            function: unsafe { std::mem::transmute::<*const u8, KernelFn>(module.get_finalized_function(id)) },
            part_of: part.of,
            range: range(part),
            // A product packs its factors again for each piece, so few large pieces are best.
            pieces: if matches!(part.root(), Some((_, Statement::Contract(_)))) { 1 } else { 8 },
            step: step(part),
            hand_off: hand_off(part),
            turns: hand_off(part).is_none() && !part.kernel.body.iter().any(Statement::may_fault),
            scratch: needs.scratch,
            buffers: scratch_buffers(program, &part.kernel),
            columns: needs.columns,
            cost: Cost::new(program, &part.kernel),
        })
        .collect();
    let memory = Memory::here(options.memory_regime);
    Ok(Compiled {
        _code: Code::new(module),
        program: program.clone(),
        kernels,
        sizes: sizes.formulas(memory),
        near: sizes.formulas(memory.near()),
        late_faults,
    })
}

/// The effort for code that does more than call leaves.
pub(super) fn effort(scheduled: &Scheduled) -> Effort {
    if scheduled.operations > BIG { Effort::Fast } else { Effort::Best }
}

/// See [`Compiled::late_faults`].
pub(super) fn late_faults(program: &Program, parts: &[Part]) -> bool {
    let is_result = |id: &BufferId| matches!(program.buffers[*id].role, Role::Output(_));
    // A temporary can share the memory of a result.
    let shares = |id: &BufferId| program.slots.values().any(|s| s.contains(id) && s.iter().any(is_result));
    let stores =
        |id: &KernelId| visit::stores(&parts[id.index()].kernel.body).iter().any(|id| is_result(id) || shares(id));
    let may_fault = |id: KernelId| parts[id.index()].kernel.body.iter().any(Statement::may_fault);
    let mut stored = false;
    // A loop stores before it ends the run, if only in another iteration.
    program.body.iter().any(|node| {
        let kernels = kernels_in(std::slice::from_ref(node));
        stored |= kernels.iter().any(stores);
        stored && kernels.into_iter().any(may_fault)
    })
}

/// The functions of a module, each with what its code needs.
pub(super) type Defined = Vec<(FuncId, Needs)>;

/// The code generators to choose from.
pub(super) struct CodeGens {
    /// The one with the module's settings.
    pub(super) best: OwnedTargetIsa,
    /// For functions that spend their time in leaves, which Cranelift does not compile: one for
    /// functions with loops, and one for functions without.
    pub(super) leaf_callers: Option<[OwnedTargetIsa; 2]>,
}

impl CodeGens {
    /// The code generators for this machine.
    pub(super) fn here(effort: Effort) -> Result<CodeGens, CompileError> {
        let leaf_callers = [jit::machine(Effort::Fast)?, jit::machine(Effort::Minimal)?];
        Ok(CodeGens { best: jit::machine(effort)?, leaf_callers: Some(leaf_callers) })
    }

    /// Chooses the code generator for a function.
    pub(super) fn of(&self, function: &Function) -> &dyn TargetIsa {
        let Some([fast, minimal]) = &self.leaf_callers else { return &*self.best };
        match loops(function) {
            Loops::None => &**minimal,
            Loops::Call => &**fast,
            Loops::Work => &*self.best,
        }
    }
}

/// The kind of loops in a function.
enum Loops {
    /// There are none.
    None,
    /// Each loop calls functions, mostly leaves, so the rest of its work takes little time.
    Call,
    /// Some loop does all of its work itself.
    Work,
}

fn loops(function: &Function) -> Loops {
    let graph = ControlFlowGraph::with_function(function);
    let tree = DominatorTree::with_function(function, &graph);
    let mut loops = LoopAnalysis::new();
    loops.compute(function, &graph, &tree);
    let calls = |block| function.layout.block_insts(block).any(|inst| function.dfg.insts[inst].opcode().is_call());
    let calling: Vec<_> = function.layout.blocks().filter(|block| calls(*block)).collect();
    let call = |l| calling.iter().any(|block| loops.is_in_loop(*block, l));
    match loops.loops().count() {
        0 => Loops::None,
        _ if loops.loops().all(call) => Loops::Call,
        _ => Loops::Work,
    }
}

/// Defines the functions of kernels in a module, and returns them with the table of sizes. Most of
/// the time goes into Cranelift's compilation, so several threads compile functions as soon as they
/// have been emitted. The code does not depend on the number of threads.
pub(super) fn define(
    module: &mut dyn Module,
    called: &mut Called,
    scheduled: &Scheduled,
    isa: Option<Isa>,
    codegens: &CodeGens,
) -> Result<(Defined, SizeTable), CompileError> {
    let parts = &scheduled.parts;
    let threads = cores().min(parts.len()).min(MOST_THREADS);
    let queue = Queue::default();
    let work = || {
        let mut done = vec![];
        while let Some(Drafted { part, id, needs, mut function }) = queue.take() {
            // A panic in the code generator must not unwind past the end of a thread.
            let code = catch_unwind(AssertUnwindSafe(|| machine_code(codegens, id, &mut function)));
            done.push((part, id, needs, code.unwrap_or_else(|panic| Err(panic_message(&*panic)))));
        }
        done
    };
    let (sizes, mut done) = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let drafting = Drafting(&queue);
        let sizes = draft(module, called, scheduled, isa, &mut |drafted| queue.put(drafted));
        drop(drafting);
        let mut done = work();
        done.extend(others.into_iter().flat_map(|other| other.join().unwrap_or_default()));
        (sizes, done)
    });
    let sizes = sizes?;
    done.sort_by_key(|(part, ..)| *part);
    let mut functions = vec![];
    for (part, (_, id, needs, code)) in parts.iter().zip(done) {
        let MachineCode { bytes, alignment, relocations } = code.map_err(|e| internal(part, &e))?;
        module.define_function_bytes(id, alignment, &bytes, &relocations).map_err(|e| internal(part, &e))?;
        functions.push((id, needs));
    }
    Ok((functions, sizes))
}

/// A queue of functions that wait to be compiled.
#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    functions: Vec<Drafted>,
    complete: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, drafted: Drafted) {
        self.lock().functions.push(drafted);
        self.changed.notify_one();
    }

    /// Takes the longest function, so that it is not the last one to finish. Waits if the queue is
    /// empty but not complete.
    fn take(&self) -> Option<Drafted> {
        let more = |waiting: &mut Waiting| waiting.functions.is_empty() && !waiting.complete;
        let mut waiting = self.changed.wait_while(self.lock(), more).unwrap_or_else(PoisonError::into_inner);
        let lengths = waiting.functions.iter().map(|drafted| drafted.function.func.dfg.num_insts());
        let (longest, _) = lengths.enumerate().max_by_key(|(_, length)| *length)?;
        Some(waiting.functions.swap_remove(longest))
    }
}

/// Marks the queue as complete when dropped.
struct Drafting<'q>(&'q Queue);

impl Drop for Drafting<'_> {
    fn drop(&mut self) {
        self.0.lock().complete = true;
        self.0.changed.notify_all();
    }
}

/// The function of a kernel in Cranelift IR, declared in the module.
pub(super) struct Drafted {
    /// The index of the part.
    pub(super) part: usize,
    pub(super) id: FuncId,
    pub(super) needs: Needs,
    pub(super) function: Context,
}

/// Emits the functions of kernels and passes each to `give`. The leaves that they call are defined
/// in the module. Returns the table of sizes. The longest kernel comes first, because it takes
/// longest to compile.
pub(super) fn draft(
    module: &mut dyn Module,
    called: &mut Called,
    Scheduled { program, parts, .. }: &Scheduled,
    isa: Option<Isa>,
    give: &mut dyn FnMut(Drafted),
) -> Result<SizeTable, CompileError> {
    let mut signature = Signature::new(module.isa().default_call_conv());
    signature.params.extend([AbiParam::new(I64); 6]);
    signature.returns.push(AbiParam::new(I32));
    let mut sizes = SizeTable::default();
    let slots = slot_table(program);
    let mut context = FunctionBuilderContext::new();
    let mut longest_first: Vec<(usize, &Part)> = parts.iter().enumerate().collect();
    longest_first.sort_by_key(|(_, part)| Reverse(length(&part.kernel.body)));
    for (number, part) in longest_first {
        let name = format!("{}.kernel{number}", program.name);
        let id = module.declare_function(&name, Linkage::Local, &signature).map_err(|e| internal(part, &e))?;
        let mut function = module.make_context();
        function.func.signature = signature.clone();
        let builder = FunctionBuilder::new(&mut function.func, &mut context);
        let needs = emit(builder, module, called, Unit { program, slots: &slots, part }, &mut sizes, isa);
        unfold(&mut function.func, module.isa());
        give(Drafted { part: number, id, needs, function });
    }
    Ok(sizes)
}

/// The number of statements in a block, including nested ones.
fn length(block: &Block) -> usize {
    let mut statements = 0;
    visit::for_each_statement(block, &mut |_| statements += 1);
    statements
}

/// An error of the code generator, with the kernel's name.
fn internal(part: &Part, error: &dyn Display) -> CompileError {
    CompileError::Internal(format!("kernel {}: {error}", part.kernel.name))
}

/// The machine code of a function.
struct MachineCode {
    bytes: Vec<u8>,
    alignment: u64,
    relocations: Vec<ModuleReloc>,
}

/// Compiles a function.
fn machine_code(codegens: &CodeGens, id: FuncId, function: &mut Context) -> Result<MachineCode, String> {
    let isa = codegens.of(&function.func);
    let compiled = function.compile(isa, &mut ControlPlane::default()).map_err(|e| format!("{:?}", e.inner))?;
    let buffer = &compiled.buffer;
    let (bytes, alignment, relocs) = (buffer.data().to_vec(), buffer.alignment.into(), buffer.relocs().to_vec());
    let relocations = relocs.iter().map(|r| ModuleReloc::from_mach_reloc(r, &function.func, id)).collect();
    Ok(MachineCode { bytes, alignment, relocations })
}

pub(super) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let message = panic.downcast_ref::<String>().cloned();
    let message = message.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
    message.unwrap_or_else(|| "a panic".to_string())
}

/// The requirements of a kernel's code.
pub(super) struct Needs {
    /// The scratch memory per thread in bytes.
    pub(super) scratch: usize,
    pub(super) columns: Columns,
    /// The leaves that it calls, each with its code.
    pub(super) leaves: Vec<(FuncId, Vec<u8>)>,
}

/// Emits one kernel.
fn emit(
    mut b: FunctionBuilder<'_>,
    module: &mut dyn Module,
    called: &mut Called,
    unit: Unit<'_>,
    sizes: &mut SizeTable,
    isa: Option<Isa>,
) -> Needs {
    let Unit { program, part, .. } = unit;
    let target = module.target_config();
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    let &[buffers, table, begin, end, scratch, fault] = b.block_params(entry) else { unreachable!("six parameters") };
    let params = Params { buffers, sizes: table, scratch, fault };
    let exits = Exits { fault: b.create_block(), cancelled: b.create_block() };
    b.set_cold_block(exits.fault);
    let helpers = Helpers::new(module, called);
    let mut e = Emitter::new(b, helpers, unit, sizes, params, exits);
    e.wide = isa.map(|isa| Wide::of(isa, program, &part.kernel));
    let range = begin..end;
    if let Some((before, _)) = part.root() {
        before.iter().for_each(|s| e.statement(s));
    }
    match (&part.run, part.root()) {
        (Run::Tiles(tiles), _) => e.tiled(tiles, &part.kernel.body, range),
        (Run::Transpose(transpose), Some((_, Statement::Loop(l)))) => e.across(transpose, l, range),
        (Run::HandOff(hand_off), Some((_, Statement::Loop(l)))) => e.scan_part(l, range, *hand_off),
        (Run::Chunks { results }, Some((_, Statement::Loop(l)))) => {
            e.reduce_chunks(l, &Chunks { range, buffers: results });
        }
        (_, Some((_, Statement::Loop(l)))) => e.parallel(l, Some(range)),
        (_, Some((_, Statement::Contract(c)))) => e.contract(c, Some(range)),
        _ => e.block(&part.kernel.body),
    }
    e.b.ins().jump(exits.cancelled, &[]);
    e.b.switch_to_block(exits.cancelled);
    if e.wide.as_ref().is_some_and(Wide::has_non_temporal_stores) {
        // Non-temporal stores are weakly ordered: fence them before anyone learns that the kernel
        // is done.
        e.b.ins().fence();
    }
    let done = e.b.ins().iconst(I32, 0);
    e.b.ins().return_(&[done]);
    e.b.switch_to_block(exits.fault);
    let failed = e.b.ins().iconst(I32, 1);
    e.b.ins().return_(&[failed]);
    let scratch = e.scratch_used();
    let Emitter { mut b, columns, helpers: Helpers { leaves, .. }, .. } = e;
    b.seal_all_blocks();
    b.finalize(target);
    Needs { scratch, columns, leaves }
}

/// The scratch buffers that a kernel uses.
pub(super) fn scratch_buffers(program: &Program, kernel: &Kernel) -> Vec<BufferId> {
    let mut found = visit::stores(&kernel.body);
    found.retain(|id| program.buffers[*id].role == Role::Scratch);
    found.sort_unstable();
    found.dedup();
    found
}

/// The number of iterations of a part that count as one iteration of its range.
pub(super) fn step(part: &Part) -> i64 {
    match part.run {
        Run::HandOff(_) => SCAN_CHUNK as i64,
        Run::Chunks { .. } => LANES_CHUNK as i64,
        _ => 1,
    }
}

/// The carry that is passed from piece to piece of a part.
fn hand_off(part: &Part) -> Option<HandOff> {
    if let Run::HandOff(hand_off) = part.run { Some(hand_off) } else { None }
}

/// The extents of the loop along which a part can be split.
pub(super) fn range(part: &Part) -> Option<Vec<Size>> {
    match &part.run {
        Run::Tiles(tiles) => return Some(tiles.range()),
        Run::Transpose(transpose) => return Some(transpose.range()),
        _ => {}
    }
    let dims = match part.root()?.1 {
        Statement::Loop(l) => &l.dims,
        Statement::Contract(c) => return super::contract::range(c),
        Statement::Let { .. }
        | Statement::Store { .. }
        | Statement::Scatter { .. }
        | Statement::If { .. }
        | Statement::While(_) => return None,
    };
    dims.iter().map(|(_, extent)| extent.as_size().cloned()).collect()
}
