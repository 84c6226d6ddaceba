//! Running a compiled program: the sizes of a call, memory for temporaries, kernels in order, each spread over
//! threads where that pays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex};

use cranelift_codegen::entity::EntityRef;
use ir::array::{ArrayMut, ArrayRef, byte_len};
use ir::bind::{BindError, Binding, Fault};
use ir::nest::{BufferId, KernelId, Op, Program, Role, SiteId};
use ir::size::Atom;
use ir::{Scalar, Size, visit};
use rayon::ThreadPool;

use super::compile::{Compiled, CompiledKernel};
use super::{Options, RunError};
use crate::abi::{FaultRecord, SCRATCH_ALIGN};

/// Pieces of a range for each thread, so that a slow one does not hold up the rest.
const PIECES: i64 = 4;

/// Memory without contents, aligned for every element type.
struct Block {
    words: Vec<u64>,
}

impl Block {
    fn new(bytes: usize) -> Result<Block, RunError> {
        let mut words: Vec<u64> = Vec::new();
        words.try_reserve_exact(bytes.div_ceil(8)).map_err(|_| RunError::OutOfMemory { bytes })?;
        Ok(Block { words })
    }

    fn pointer(&mut self) -> *mut u8 {
        self.words.as_mut_ptr().cast()
    }
}

/// A compiled program with what its runs need.
pub(super) struct Runner {
    /// The program without its kernels.
    program: Program,
    compiled: Compiled,
    options: Options,
    /// Whether a run may end at a check, so that outputs are written only at its end.
    may_fault: bool,
    /// Sizes that kernels mention: a call is refused if one has no value.
    kernel_sizes: Vec<(KernelId, Size)>,
    /// Of each kernel, the scratch buffers that it stores to: each thread has its own.
    own: Vec<BTreeSet<BufferId>>,
    /// The elements of constant buffers.
    constants: Vec<(BufferId, Vec<u64>)>,
    /// Scratch that no run is using, each enough for any kernel: a few MB at most.
    scratches: Mutex<Vec<Block>>,
    /// One pool for each number of threads that has been asked for.
    pools: Mutex<BTreeMap<usize, Arc<ThreadPool>>>,
}

impl Runner {
    pub(super) fn new(program: &Program, compiled: Compiled, options: &Options) -> Runner {
        let mut may_fault = false;
        let mut kernel_sizes = vec![];
        for (id, kernel) in program.kernels.iter() {
            let mut seen = BTreeSet::new();
            visit::for_each_size(&kernel.body, &mut |size| {
                if size.as_constant().is_none() && seen.insert(size) {
                    kernel_sizes.push((id, size.clone()));
                }
            });
            visit::for_each_op(&kernel.body, &mut |_, op| may_fault |= matches!(op, Op::Check { .. }));
        }
        let is_scratch = |id: &BufferId| program.buffers[*id].role == Role::Scratch;
        let own = program.kernels.values().map(|k| visit::stores(&k.body).into_iter().filter(is_scratch).collect());
        let own = own.collect();
        let constants = program
            .buffers
            .iter()
            .filter_map(|(id, buffer)| match &buffer.role {
                Role::Constant(elements) => Some((id, words(elements))),
                _ => None,
            })
            .collect();
        let program = Program {
            name: program.name.clone(),
            symbols: program.symbols.clone(),
            buffers: program.buffers.clone(),
            requires: program.requires.clone(),
            ..Program::default()
        };
        Runner {
            program,
            compiled,
            options: options.clone(),
            may_fault,
            kernel_sizes,
            own,
            constants,
            scratches: Mutex::new(vec![]),
            pools: Mutex::new(BTreeMap::new()),
        }
    }

    pub(super) fn run(
        &self,
        inputs: &[ArrayRef<'_>],
        outputs: &mut [ArrayMut<'_>],
        threads: usize,
    ) -> Result<(), RunError> {
        let program = &self.program;
        let binding = Binding::new(program, inputs)?;
        for (kernel, size) in &self.kernel_sizes {
            binding.size(size).map_err(|error| BindError::KernelSize { kernel: *kernel, error })?;
        }
        self.check_outputs(&binding, outputs)?;
        let value = |size: &Size| binding.size(size).unwrap_or_else(|_| wrapping(size, &binding));
        let sizes: Vec<i64> = self.compiled.sizes.iter().map(value).collect();

        // Blocks live until the run ends; copies stand in for arrays that are not aligned to their elements.
        let mut blocks: Vec<Block> = vec![];
        let mut pointers: Vec<*mut u8> = vec![std::ptr::null_mut(); program.buffers.len()];
        let mut copies: Vec<(usize, *mut u8)> = vec![];
        for (id, buffer) in program.buffers.iter() {
            let width = buffer.dtype.bytes();
            let aligned = |p: *const u8| p.addr().is_multiple_of(width);
            pointers[id.index()] = match buffer.role {
                Role::Input(n) => {
                    let bytes = inputs[n].bytes();
                    if aligned(bytes.as_ptr()) {
                        // Kernels never store to inputs.
                        bytes.as_ptr().cast_mut()
                    } else {
                        let mut block = Block::new(bytes.len())?;
                        let pointer = block.pointer();
                        // SAFETY: the block has as many bytes as the input, and is not part of it.
                        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), pointer, bytes.len()) };
                        blocks.push(block);
                        pointer
                    }
                }
                Role::Output(n) => {
                    let bytes = outputs[n].bytes_mut();
                    if aligned(bytes.as_ptr()) && !self.may_fault {
                        bytes.as_mut_ptr()
                    } else {
                        let mut block = Block::new(bytes.len())?;
                        let pointer = block.pointer();
                        blocks.push(block);
                        copies.push((n, pointer));
                        pointer
                    }
                }
                Role::Temp => {
                    let mut block = self.memory(&binding, id)?;
                    let pointer = block.pointer();
                    blocks.push(block);
                    pointer
                }
                // Set below, scratch for each thread.
                Role::Constant(_) | Role::Scratch => std::ptr::null_mut(),
            };
        }
        for (id, words) in &self.constants {
            // Kernels never store to constants.
            pointers[id.index()] = words.as_ptr().cast::<u8>().cast_mut();
        }
        for (kernel, own) in self.compiled.kernels.iter().zip(&self.own) {
            let own = || own.iter().map(|id| Ok((*id, self.memory(&binding, *id)?))).collect();
            self.kernel(kernel, &pointers, &sizes, threads, &value, &own)?;
        }
        for (n, pointer) in copies {
            let bytes = outputs[n].bytes_mut();
            // SAFETY: the block has as many bytes as the output, and the program's kernels have written all of them:
            // the verifier's rule that each element of an output is stored.
            unsafe { std::ptr::copy_nonoverlapping(pointer, bytes.as_mut_ptr(), bytes.len()) };
        }
        Ok(())
    }

    /// Memory for a temporary or scratch.
    fn memory(&self, binding: &Binding, id: BufferId) -> Result<Block, RunError> {
        let shape = binding.shape(&self.program, id)?;
        let bytes = byte_len(self.program.buffers[id].dtype, &shape);
        Block::new(bytes.map_err(|_| RunError::OutOfMemory { bytes: usize::MAX })?)
    }

    fn check_outputs(&self, binding: &Binding, outputs: &[ArrayMut<'_>]) -> Result<(), RunError> {
        let results = self.program.outputs();
        if results.len() != outputs.len() {
            return Err(RunError::OutputCount { expected: results.len(), found: outputs.len() });
        }
        for (output, (id, given)) in results.iter().zip(outputs).enumerate() {
            let expected = self.program.buffers[*id].dtype;
            if expected != given.dtype() {
                return Err(RunError::OutputDtype { output, expected, found: given.dtype() });
            }
            let expected = binding.shape(&self.program, *id)?;
            if expected != given.shape() {
                return Err(RunError::OutputShape { output, expected, found: given.shape().to_vec() });
            }
        }
        Ok(())
    }

    /// Runs a kernel; `own` allocates the scratch buffers of one thread.
    fn kernel(
        &self,
        kernel: &CompiledKernel,
        pointers: &[*mut u8],
        sizes: &[i64],
        threads: usize,
        value: &impl Fn(&Size) -> i64,
        own: &impl Fn() -> Result<Vec<(BufferId, Block)>, RunError>,
    ) -> Result<(), RunError> {
        let total = kernel
            .range
            .as_ref()
            .map(|extents| extents.iter().fold(1i64, |total, extent| total.saturating_mul(value(extent).max(0))));
        let mut threads = threads.clamp(1, self.options.threads.max(1));
        if threads > 1 && kernel.cost.at(value) < self.options.serial_below {
            threads = 1;
        }
        let pieces = match total {
            Some(total) if threads > 1 => total.min(i64::try_from(threads).unwrap_or(1).saturating_mul(PIECES)).max(1),
            _ => 1,
        };
        let total = total.unwrap_or(i64::MAX);
        let threads = threads.min(usize::try_from(pieces).unwrap_or(1));
        if threads == 1 {
            let mut scratch = self.scratch()?;
            let mut own = own()?;
            let pointers = with_own(pointers, &mut own);
            let result = self.piece(kernel, &pointers, sizes, (0, total), &mut scratch);
            self.keep(scratch);
            return result.map_err(RunError::Fault);
        }
        let mut scratches = vec![];
        for _ in 0..threads {
            scratches.push(Mutex::new((self.scratch()?, own()?)));
        }
        // Pieces of equal length but for the last, in ascending order, so that the first fault is the lowest piece's.
        let length = total / pieces + i64::from(total % pieces != 0);
        let next = AtomicI64::new(0);
        let first_fault: Mutex<Option<(i64, Fault)>> = Mutex::new(None);
        let shared: Vec<AtomicPtr<u8>> = pointers.iter().map(|p| AtomicPtr::new(*p)).collect();
        let work = |memory: &Mutex<(Block, Vec<(BufferId, Block)>)>| {
            let mut memory = memory.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let (scratch, own) = &mut *memory;
            let pointers: Vec<*mut u8> = shared.iter().map(|p| p.load(Ordering::Relaxed)).collect();
            let pointers = with_own(&pointers, own);
            loop {
                let piece = next.fetch_add(1, Ordering::Relaxed);
                let faulted = |f: &Option<(i64, Fault)>| f.is_some();
                if piece >= pieces || first_fault.lock().is_ok_and(|f| faulted(&f)) {
                    return;
                }
                let range = (piece.saturating_mul(length), (piece + 1).saturating_mul(length).min(total));
                if let Err(fault) = self.piece(kernel, &pointers, sizes, range, scratch) {
                    let mut first = first_fault.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                    if first.is_none_or(|(p, _)| piece < p) {
                        *first = Some((piece, fault));
                    }
                }
            }
        };
        let work = &work;
        match self.pool(threads - 1) {
            Some(pool) => pool.in_place_scope(|scope| {
                for scratch in &scratches[1..] {
                    scope.spawn(move |_| work(scratch));
                }
                work(&scratches[0]);
            }),
            // No threads to be had: the caller's does it all.
            None => work(&scratches[0]),
        }
        for scratch in scratches {
            self.keep(scratch.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).0);
        }
        let fault = *first_fault.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        fault.map_or(Ok(()), |(_, fault)| Err(RunError::Fault(fault)))
    }

    /// Runs a range of a kernel.
    fn piece(
        &self,
        kernel: &CompiledKernel,
        pointers: &[*mut u8],
        sizes: &[i64],
        (begin, end): (i64, i64),
        scratch: &mut Block,
    ) -> Result<(), Fault> {
        let mut fault = FaultRecord::default();
        let memory = scratch.pointer();
        let memory = memory.wrapping_add(memory.align_offset(SCRATCH_ALIGN));
        // SAFETY: the program is verified, so every access is inside its buffer: each pointer is that of memory of the
        // buffer's size under this call's binding, inputs and constants are only read, and the sizes are this
        // call's. Ranges of one kernel write different elements; the scratch is this thread's alone, aligned
        // and long enough.
        let status = unsafe {
            (kernel.function)(pointers.as_ptr(), sizes.as_ptr(), begin, end, memory, std::ptr::from_mut(&mut fault))
        };
        if status == 0 {
            return Ok(());
        }
        let site = SiteId::from_u32(u32::try_from(fault.site).unwrap_or(0));
        Err(Fault { site, index: fault.index, bound: fault.bound })
    }

    /// Scratch for one thread.
    fn scratch(&self) -> Result<Block, RunError> {
        let kept = self.scratches.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).pop();
        let most = || self.compiled.kernels.iter().map(|k| k.scratch).max().unwrap_or(0);
        kept.map_or_else(|| Block::new(most() + SCRATCH_ALIGN), Ok)
    }

    /// Keeps scratch for the next run.
    fn keep(&self, scratch: Block) {
        self.scratches.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(scratch);
    }

    fn pool(&self, threads: usize) -> Option<Arc<ThreadPool>> {
        let mut pools = self.pools.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(pool) = pools.get(&threads) {
            return Some(pool.clone());
        }
        let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(threads).build().ok()?);
        pools.insert(threads, pool.clone());
        Some(pool)
    }
}

/// The buffers' memory, with one thread's own for scratch.
fn with_own(pointers: &[*mut u8], own: &mut [(BufferId, Block)]) -> Vec<*mut u8> {
    let mut pointers = pointers.to_vec();
    for (id, block) in own {
        pointers[id.index()] = block.pointer();
    }
    pointers
}

/// Elements in native byte order, in aligned memory.
fn words(elements: &[Scalar]) -> Vec<u64> {
    let mut bytes = vec![];
    for element in elements {
        let width = element.dtype().bytes();
        let all = element.bits().to_ne_bytes();
        bytes.extend_from_slice(if cfg!(target_endian = "little") { &all[..width] } else { &all[8 - width..] });
    }
    bytes
        .chunks(8)
        .map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        })
        .collect()
}

/// The value of a size modulo 2^64: where a coefficient or stride alone leaves the range of `i64`, the element number
/// that it is part of, which is inside the array, still comes out right.
fn wrapping(size: &Size, binding: &Binding) -> i64 {
    let value = |size: &Size| binding.size(size).unwrap_or_else(|_| wrapping(size, binding));
    let mut sum = 0i64;
    for (product, coefficient) in size.terms() {
        let mut term = *coefficient;
        for atom in product {
            term = term.wrapping_mul(match atom {
                Atom::Symbol(s) => binding.symbol(*s),
                Atom::FloorDiv(a, b) => value(a).checked_div_euclid(value(b)).unwrap_or(0),
                Atom::Overflow => 0,
            });
        }
        sum = sum.wrapping_add(term);
    }
    sum
}
