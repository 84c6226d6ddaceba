//! From a program to machine code: one function a kernel, in one Cranelift module.

use std::any::Any;
use std::cmp::Reverse;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::dominator_tree::DominatorTree;
use cranelift_codegen::entity::PrimaryMap;
use cranelift_codegen::flowgraph::ControlFlowGraph;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{AbiParam, Function, InstBuilder, Signature};
use cranelift_codegen::isa::{OwnedTargetIsa, TargetIsa};
use cranelift_codegen::loop_analysis::LoopAnalysis;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::{FuncId, Linkage, Module, ModuleReloc};
use ir::nest::{Block, BufferId, Kernel, KernelId, Op, Program, Role, Statement};
use ir::order::{LANES_CHUNK, SCAN_CHUNK};
use ir::{Size, visit};
use schedule::across::Across;
use schedule::checks;
use schedule::prepare::prepare;
use schedule::split::{Baton, Part, root, split};

use super::columns::Columns;
use super::cost::Cost;
use super::emit::{Emitter, Exits, Params, SizeTable, SlotTable, slot_table};
use super::formula::Formula;
use super::jit::{self, Called, Care, Code, Helpers, Host};
use super::lanes::Chunks;
use super::sync::cores;
use super::unfolded::unfold;
use super::wide::{Isa, Memory, Wide};
use super::{CompileError, Options};
use crate::abi::KernelFn;

/// Most operations of a kernel, functions inlined.
pub const MOST_OPERATIONS: usize = 20_000;
/// Operations from which on registers are allocated in one pass: slower code, but in linear time.
const BIG: usize = 4_000;
/// Threads that compiling takes at most.
const MOST_THREADS: usize = 8;

/// A program's code and what running it takes.
pub(super) struct Compiled {
    /// Keeps the functions alive.
    pub(super) _code: Code,
    /// The program as it is run, without its kernels' code.
    pub(super) program: Program,
    /// What runs, in order: the parts of the program's kernels.
    pub(super) kernels: Vec<CompiledKernel>,
    /// What the table of sizes holds.
    pub(super) sizes: Vec<Formula>,
    /// Whether a run may end at a check after something has been stored to a result.
    pub(super) late_faults: bool,
}

/// One kernel.
pub(super) struct CompiledKernel {
    pub(super) function: KernelFn,
    /// Which of the program's kernels it is a part of.
    pub(super) part_of: KernelId,
    /// The extents of the outer loop, whose product is the range; `None` if it runs in one piece.
    pub(super) range: Option<Vec<Size>>,
    /// See [`step`].
    pub(super) step: i64,
    /// What is handed on from piece to piece: they are begun in their order then, one iteration of the range each.
    pub(super) baton: Option<Baton>,
    /// Whether its pieces may be begun from the last one on: none of them ends the run.
    pub(super) turns: bool,
    /// How many pieces a thread gets of it, so that a slow one does not hold up the rest.
    pub(super) pieces: i64,
    /// Bytes that its code needs for each thread.
    pub(super) scratch: usize,
    /// Scratch buffers of the program that it uses.
    pub(super) buffers: Vec<BufferId>,
    /// Its passes over columns.
    pub(super) columns: Columns,
    /// How long it takes.
    pub(super) cost: Cost,
}

/// Compiles all kernels. A panic inside the code generator is an error like any other.
pub(super) fn compile(program: &Program, options: &Options) -> Result<Compiled, CompileError> {
    catch_unwind(AssertUnwindSafe(|| compile_kernels(program, options)))
        .unwrap_or_else(|panic| Err(CompileError::Internal(panic_message(&*panic))))
}

fn compile_kernels(program: &Program, options: &Options) -> Result<Compiled, CompileError> {
    let Kernels { program, parts, part_of, care } = Kernels::of(program, Host::Here)?;
    let late_faults = late_faults(&program, &parts);
    let makers = Makers::here(care)?;
    let mut module = jit::module(makers.well.clone());
    let mut called = Called::new(Host::Here);
    let (functions, sizes) = define(&mut module, &mut called, (&program, &parts), Isa::of(options.simd), &makers)?;
    module.finalize_definitions().map_err(|e| CompileError::Internal(e.to_string()))?;
    let kernels = parts
        .iter()
        .zip(functions)
        .zip(part_of)
        .map(|((part, (id, needs)), part_of)| CompiledKernel {
            // SAFETY: `define` gave the function the signature of `KernelFn` in the platform's
            // calling convention, and `finalize_definitions` made it executable. Its code lives as
            // long as the table that this entry goes into.
            function: unsafe { std::mem::transmute::<*const u8, KernelFn>(module.get_finalized_function(id)) },
            part_of,
            range: range(&program, part),
            // A product lays out its factors anew for each piece.
            pieces: if matches!(root(part), Some((_, Statement::Contract(_)))) { 1 } else { 8 },
            step: step(part),
            baton: part.baton,
            turns: part.baton.is_none() && !part.kernel.body.iter().any(Statement::may_fault),
            scratch: needs.scratch,
            buffers: scratch_buffers(&program, &part.kernel),
            columns: needs.columns,
            cost: Cost::new(&program, &part.kernel),
        })
        .collect();
    Ok(Compiled {
        _code: Code::new(module),
        program,
        kernels,
        sizes: sizes.into_formulas(Memory::here(options.far)),
        late_faults,
    })
}

/// See [`Compiled::late_faults`].
pub(super) fn late_faults(program: &Program, parts: &[Part]) -> bool {
    let is_result = |id: &BufferId| matches!(program.buffers[*id].role, Role::Output(_));
    // Temporaries may have the memory of results.
    let shares = |id: &BufferId| program.slots.values().any(|s| s.contains(id) && s.iter().any(is_result));
    let mut stored = false;
    parts.iter().any(|part| {
        let body = &part.kernel.body;
        stored |= visit::stores(body).iter().any(|id| is_result(id) || shares(id));
        stored && body.iter().any(Statement::may_fault)
    })
}

/// What becomes a function each.
pub(super) struct Kernels {
    /// The program as it is run, without its kernels.
    pub(super) program: Program,
    pub(super) parts: Vec<Part>,
    /// Which of the program's kernels each is a part of.
    part_of: Vec<KernelId>,
    /// With how much care their code is made where it is not left to leaves.
    pub(super) care: Care,
}

impl Kernels {
    /// The functions of a verified program.
    pub(super) fn of(program: &Program, host: Host) -> Result<Kernels, CompileError> {
        let verified = ir::verify::verify(program);
        verified.map_err(|e| CompileError::Internal(format!("the program is not verified: {e}")))?;
        let mut most = 0;
        let mut run = Program { kernels: PrimaryMap::new(), ..program.clone() };
        let mut parts = vec![];
        let mut part_of = vec![];
        for (id, kernel) in program.kernels.iter() {
            let mut kernel = prepare(program, kernel, super::contract::whole(host));
            checks::ahead(program, &mut kernel);
            let operations = operations(program, &kernel.body);
            if operations > MOST_OPERATIONS {
                return Err(CompileError::TooLarge { kernel: kernel.name.clone(), operations, limit: MOST_OPERATIONS });
            }
            most = most.max(operations);
            parts.extend(split(&mut run, kernel, host == Host::Here));
            part_of.resize(parts.len(), id);
        }
        debug_assert_eq!(broken(&run, &parts), None);
        let care = if most > BIG { Care::Soon } else { Care::Well };
        Ok(Kernels { program: run, parts, part_of, care })
    }
}

/// Functions of a module, each with what its code needs.
pub(super) type Defined = Vec<(FuncId, Needs)>;

/// Who makes machine code of functions.
pub(super) struct Makers {
    /// As the module's.
    pub(super) well: OwnedTargetIsa,
    /// Where time is spent in leaves alone, if those are others: of functions with loops, and of those without.
    pub(super) leaving: Option<[OwnedTargetIsa; 2]>,
}

impl Makers {
    /// On this machine, with so much care where there is more to do than to call leaves.
    pub(super) fn here(care: Care) -> Result<Makers, CompileError> {
        let leaving = [jit::machine(Care::Soon)?, jit::machine(Care::Once)?];
        Ok(Makers { well: jit::machine(care)?, leaving: Some(leaving) })
    }

    /// Who makes the code of a function.
    pub(super) fn of(&self, function: &Function) -> &dyn TargetIsa {
        let Some([soon, once]) = &self.leaving else { return &*self.well };
        match loops(function) {
            Loops::None => &**once,
            Loops::Call => &**soon,
            Loops::Work => &*self.well,
        }
    }
}

/// What the loops of a function do.
enum Loops {
    /// There are none.
    None,
    /// Each calls others, leaves for the most part: what it does beside them takes little time.
    Call,
    /// More.
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

/// Defines the functions of kernels in a module, with leaves as wide as is said; with them goes what its table of sizes holds. Compiling is
/// most of the time: a few threads begin with it as soon as there is a function. The code is the same however many there are.
pub(super) fn define(
    module: &mut dyn Module,
    called: &mut Called,
    (program, parts): (&Program, &[Part]),
    isa: Option<Isa>,
    makers: &Makers,
) -> Result<(Defined, SizeTable), CompileError> {
    let threads = cores().min(parts.len()).min(MOST_THREADS);
    let queue = Queue::default();
    let work = || {
        let mut done = vec![];
        while let Some(Drafted { part, id, needs, mut function }) = queue.take() {
            // A panic inside the code generator must not pass a thread's end.
            let code = catch_unwind(AssertUnwindSafe(|| machine_code(makers, id, &mut function)));
            done.push((part, id, needs, code.unwrap_or_else(|panic| Err(panic_message(&*panic)))));
        }
        done
    };
    let (sizes, mut done) = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let drafting = Drafting(&queue);
        let sizes = draft(module, called, (program, parts), isa, &mut |drafted| queue.put(drafted));
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

/// Functions that wait to be compiled, and whether there are no more to come.
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

    /// The longest function, so that no thread is left with it at the end; waits for one if there may be more.
    fn take(&self) -> Option<Drafted> {
        let more = |waiting: &mut Waiting| waiting.functions.is_empty() && !waiting.complete;
        let mut waiting = self.changed.wait_while(self.lock(), more).unwrap_or_else(PoisonError::into_inner);
        let lengths = waiting.functions.iter().map(|drafted| drafted.function.func.dfg.num_insts());
        let (longest, _) = lengths.enumerate().max_by_key(|(_, length)| *length)?;
        Some(waiting.functions.swap_remove(longest))
    }
}

/// While it lives there are functions to come.
struct Drafting<'q>(&'q Queue);

impl Drop for Drafting<'_> {
    fn drop(&mut self) {
        self.0.lock().complete = true;
        self.0.changed.notify_all();
    }
}

/// A kernel's function in Cranelift's form, declared in a module.
pub(super) struct Drafted {
    /// Which kernel of the program it is.
    pub(super) part: usize,
    pub(super) id: FuncId,
    pub(super) needs: Needs,
    pub(super) function: Context,
}

/// Hands over the functions of kernels, declared in a module in which the leaves that they call are defined; returns the table of their
/// sizes. The longest kernel comes first, because its machine code takes longest.
pub(super) fn draft(
    module: &mut dyn Module,
    called: &mut Called,
    (program, parts): (&Program, &[Part]),
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
        let needs = emit(builder, module, called, (program, &slots), part, &mut sizes, isa);
        unfold(&mut function.func, module.isa());
        give(Drafted { part: number, id, needs, function });
    }
    Ok(sizes)
}

/// How many statements a block has, with those inside others.
fn length(block: &Block) -> usize {
    let mut statements = 0;
    visit::for_each_statement(block, &mut |_| statements += 1);
    statements
}

/// A failure inside the code generator, with the kernel that it concerns.
fn internal(part: &Part, error: &dyn Display) -> CompileError {
    CompileError::Internal(format!("kernel {}: {error}", part.kernel.name))
}

/// The rule of kernels that the parts break, if they break one.
fn broken(program: &Program, parts: &[Part]) -> Option<String> {
    let kernels = parts.iter().map(|part| part.kernel.clone()).collect();
    let program = Program { kernels, ..program.clone() };
    ir::verify::verify(&program).err().map(|error| error.to_string())
}

/// A function as machine code.
struct MachineCode {
    bytes: Vec<u8>,
    alignment: u64,
    relocations: Vec<ModuleReloc>,
}

/// Compiles a function.
fn machine_code(makers: &Makers, id: FuncId, function: &mut Context) -> Result<MachineCode, String> {
    let isa = makers.of(&function.func);
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

/// What a kernel's code needs of the run time.
pub(super) struct Needs {
    /// Bytes for each thread.
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
    (program, slots): (&Program, &SlotTable),
    part: &Part,
    sizes: &mut SizeTable,
    isa: Option<Isa>,
) -> Needs {
    let target = module.target_config();
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    let &[buffers, table, begin, end, scratch, fault] = b.block_params(entry) else { unreachable!("six parameters") };
    let params = Params { buffers, sizes: table, scratch, fault };
    let exits = Exits { fault: b.create_block(), cancelled: b.create_block() };
    b.set_cold_block(exits.fault);
    let helpers = Helpers::new(module, called);
    let mut e = Emitter::new(b, helpers, (program, slots), part, sizes, params, exits);
    e.wide = isa.map(|isa| Wide::of(isa, program, &part.kernel));
    match (&part.tiled, root(part)) {
        (Some(tiled), _) => e.tiled(tiled, &part.kernel.body, (begin, end)),
        (None, Some((before, Statement::Loop(l)))) => {
            before.iter().for_each(|s| e.statement(s));
            match part.baton {
                Some(baton) => e.scan_part(l, (begin, end), baton),
                None if !part.chunks.is_empty() => {
                    e.reduce_chunks(l, &Chunks { range: (begin, end), buffers: &part.chunks });
                }
                None => match Across::of(program, l) {
                    Some(across) => e.across(&across, l, (begin, end)),
                    None => e.parallel(l, Some((begin, end))),
                },
            }
        }
        (None, Some((before, Statement::Contract(c)))) => {
            before.iter().for_each(|s| e.statement(s));
            e.contract(c, Some((begin, end)));
        }
        _ => e.block(&part.kernel.body),
    }
    e.b.ins().jump(exits.cancelled, &[]);
    e.b.switch_to_block(exits.cancelled);
    if e.streams {
        // What went past the caches is there before anybody hears of it.
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

/// So many iterations of a part count as one of its range.
pub(super) fn step(part: &Part) -> i64 {
    match part.baton {
        Some(_) => SCAN_CHUNK as i64,
        None if part.chunks.is_empty() => 1,
        None => LANES_CHUNK as i64,
    }
}

/// The extents of the loop that a kernel can be split along.
pub(super) fn range(program: &Program, part: &Part) -> Option<Vec<Size>> {
    if let Some(tiled) = &part.tiled {
        return Some(tiled.range());
    }
    let dims = match root(part)?.1 {
        Statement::Loop(l) => match Across::of(program, l) {
            Some(across) => return Some(across.range()),
            None => &l.dims,
        },
        Statement::Contract(c) => return super::contract::range(c),
        _ => return None,
    };
    dims.iter().map(|(_, extent)| extent.as_size().cloned()).collect()
}

/// Operations of a block with functions inlined.
fn operations(program: &Program, block: &Block) -> usize {
    block
        .iter()
        .map(|statement| match statement {
            Statement::Let { op: Op::Call(function, _), .. } => operations(program, &program.functions[*function].body),
            Statement::Let { .. } | Statement::Store { .. } => 1,
            Statement::If { then, otherwise, .. } => 1 + operations(program, then) + operations(program, otherwise),
            Statement::Loop(l) => 1 + operations(program, &l.body),
            Statement::Contract(c) => {
                [&c.left.body, &c.right.body, &c.epilogue].map(|b| operations(program, b)).into_iter().sum::<usize>()
                    + 1
            }
        })
        .sum()
}
