//! Running a compiled program: the sizes of a call, memory for temporaries, kernels in order, each spread over
//! threads where that pays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cranelift_codegen::entity::EntityRef;
use ir::array::{ArrayMut, ArrayRef, byte_len};
use ir::bind::{BindError, Binding, Fault};
use ir::nest::{BufferId, KernelId, Op, Program, Role, SiteId};
use ir::size::Atom;
use ir::{Size, visit};
use rayon::ThreadPool;

use super::columns;
use super::compile::{Compiled, CompiledKernel};
use super::memory::{Block, Place, Pool, Slots, words};
use super::{Options, RunError};
use crate::abi::{FaultRecord, SCRATCH_ALIGN};

/// A compiled program with what its runs need.
pub(super) struct Runner {
    compiled: Compiled,
    options: Options,
    /// Whether a run may end at a check, so that outputs are written only at its end.
    may_fault: bool,
    /// Sizes that kernels mention: a call is refused if one has no value.
    kernel_sizes: Vec<(KernelId, Size)>,
    /// Where temporaries lie.
    slots: Slots,
    /// The elements of constant buffers.
    constants: Vec<(BufferId, Vec<u64>)>,
    /// Memory for temporaries that no run is using.
    temporaries: Pool,
    /// Threads' memory that no run is using.
    memory: Pool,
    /// One pool for each number of threads that has been asked for.
    pools: Mutex<BTreeMap<usize, Arc<ThreadPool>>>,
}

impl Runner {
    pub(super) fn new(program: &Program, compiled: Compiled, options: &Options) -> Runner {
        let mut may_fault = false;
        let mut kernel_sizes = vec![];
        let mut stored = BTreeSet::new();
        for (id, kernel) in program.kernels.iter() {
            let mut seen = BTreeSet::new();
            visit::for_each_size(&kernel.body, &mut |size| {
                if size.as_constant().is_none() && seen.insert(size) {
                    kernel_sizes.push((id, size.clone()));
                }
            });
            visit::for_each_op(&kernel.body, &mut |_, op| may_fault |= matches!(op, Op::Check { .. }));
            stored.extend(visit::stores(&kernel.body));
        }
        // Values that go from one part of a kernel to another.
        stored.extend(compiled.program.buffers.keys().skip(program.buffers.len()));
        let constants = program
            .buffers
            .iter()
            .filter_map(|(id, buffer)| match &buffer.role {
                Role::Constant(elements) => Some((id, words(elements))),
                _ => None,
            })
            .collect();
        Runner {
            slots: Slots::new(&compiled.program, stored),
            compiled,
            options: options.clone(),
            may_fault,
            kernel_sizes,
            constants,
            temporaries: Pool::default(),
            memory: Pool::default(),
            pools: Mutex::new(BTreeMap::new()),
        }
    }

    pub(super) fn run(
        &self,
        inputs: &[ArrayRef<'_>],
        outputs: &mut [ArrayMut<'_>],
        threads: usize,
        mut times: Option<&mut [Duration]>,
    ) -> Result<(), RunError> {
        let program = &self.compiled.program;
        let binding = Binding::new(program, inputs)?;
        for (kernel, size) in &self.kernel_sizes {
            binding.size(size).map_err(|error| BindError::KernelSize { kernel: *kernel, error })?;
        }
        self.check_outputs(&binding, outputs)?;
        let value = |size: &Size| binding.size(size).unwrap_or_else(|_| wrapping(size, &binding));
        let sizes: Vec<i64> = self.compiled.sizes.iter().map(|entry| entry.at(&value)).collect();

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
                // Temporaries and constants are set below, scratch for each thread. What no kernel stores needs no memory.
                Role::Temp | Role::Constant(_) | Role::Scratch => std::ptr::null_mut(),
            };
        }
        let (bytes, places) = self.slots.places(|id| self.bytes(&binding, id))?;
        let mut temporaries = self.temporaries.take(bytes)?;
        for (id, place) in places {
            pointers[id.index()] = match place {
                Place::At(offset) => temporaries.pointer().wrapping_add(offset),
                Place::Of(output) => pointers[output.index()],
            };
        }
        for (id, words) in &self.constants {
            // Kernels never store to constants.
            pointers[id.index()] = words.as_ptr().cast::<u8>().cast_mut();
        }
        for kernel in &self.compiled.kernels {
            let own = self.own(&binding, kernel, &value)?;
            let start = times.is_some().then(Instant::now);
            self.kernel(kernel, &pointers, &own, &sizes, threads, &value)?;
            if let (Some(times), Some(start)) = (&mut times, start)
                && let Some(time) = times.get_mut(kernel.part_of.index())
            {
                *time += start.elapsed();
            }
        }
        self.temporaries.keep(temporaries);
        for (n, pointer) in copies {
            let bytes = outputs[n].bytes_mut();
            // SAFETY: the block has as many bytes as the output, and the program's kernels have written all of them:
            // the verifier's rule that each element of an output is stored.
            unsafe { std::ptr::copy_nonoverlapping(pointer, bytes.as_mut_ptr(), bytes.len()) };
        }
        Ok(())
    }

    /// Bytes of a temporary or scratch.
    fn bytes(&self, binding: &Binding, id: BufferId) -> Result<usize, RunError> {
        let program = &self.compiled.program;
        let shape = binding.shape(program, id)?;
        byte_len(program.buffers[id].dtype, &shape).map_err(|_| RunError::OutOfMemory { bytes: usize::MAX })
    }

    /// What each thread keeps for a kernel: what its code asks for, then its scratch buffers.
    fn own(&self, binding: &Binding, kernel: &CompiledKernel, value: &impl Fn(&Size) -> i64) -> Result<Own, RunError> {
        let mut own = Own { bytes: kernel.scratch, buffers: vec![] };
        for id in &kernel.buffers {
            own.buffers.push((*id, own.bytes));
            let times = usize::try_from(kernel.columns.times(*id, value)).unwrap_or(usize::MAX);
            let bytes = self.bytes(binding, *id)?.checked_mul(times);
            let bytes = bytes.and_then(|bytes| bytes.checked_next_multiple_of(SCRATCH_ALIGN));
            let sum = bytes.and_then(|bytes| own.bytes.checked_add(bytes));
            own.bytes = sum.ok_or(RunError::OutOfMemory { bytes: usize::MAX })?;
        }
        Ok(own)
    }

    fn check_outputs(&self, binding: &Binding, outputs: &[ArrayMut<'_>]) -> Result<(), RunError> {
        let program = &self.compiled.program;
        let results = program.outputs();
        if results.len() != outputs.len() {
            return Err(RunError::OutputCount { expected: results.len(), found: outputs.len() });
        }
        for (output, (id, given)) in results.iter().zip(outputs).enumerate() {
            let expected = program.buffers[*id].dtype;
            if expected != given.dtype() {
                return Err(RunError::OutputDtype { output, expected, found: given.dtype() });
            }
            let expected = binding.shape(program, *id)?;
            if expected != given.shape() {
                return Err(RunError::OutputShape { output, expected, found: given.shape().to_vec() });
            }
        }
        Ok(())
    }

    fn kernel(
        &self,
        kernel: &CompiledKernel,
        pointers: &[*mut u8],
        own: &Own,
        sizes: &[i64],
        threads: usize,
        value: &impl Fn(&Size) -> i64,
    ) -> Result<(), RunError> {
        let total = kernel
            .range
            .as_ref()
            .map(|extents| extents.iter().fold(1i64, |total, extent| total.saturating_mul(value(extent).max(0))))
            .map(|total| total / kernel.step + i64::from(total % kernel.step != 0));
        let mut threads = threads.clamp(1, self.options.threads.max(1));
        if threads > 1 && kernel.cost.at(value) < self.options.serial_below {
            threads = 1;
        }
        let pieces = match total {
            Some(total) if threads > 1 => {
                total.min(i64::try_from(threads).unwrap_or(1).saturating_mul(kernel.pieces)).max(1)
            }
            _ => 1,
        };
        let total = total.unwrap_or(i64::MAX);
        // Pieces of equal length but for the last, in ascending order, so that the first fault is the lowest piece's.
        let (length, pieces) = if kernel.columns.strips && pieces > 1 {
            let length = columns::piece(total, i64::try_from(threads).unwrap_or(1), pieces);
            (length, total / length + i64::from(total % length != 0))
        } else {
            (total / pieces + i64::from(total % pieces != 0), pieces)
        };
        let threads = threads.min(usize::try_from(pieces).unwrap_or(1));
        if threads == 1 {
            let mut memory = self.memory.take(own.bytes)?;
            let pointers = own.pointers(pointers, &mut memory);
            let result = self.piece(kernel, &pointers, sizes, (0, total), &mut memory);
            self.memory.keep(memory);
            return result.map_err(RunError::Fault);
        }
        let mut memories = vec![];
        for _ in 0..threads {
            memories.push(Mutex::new(self.memory.take(own.bytes)?));
        }
        let next = AtomicI64::new(0);
        let first_fault: Mutex<Option<(i64, Fault)>> = Mutex::new(None);
        let shared: Vec<AtomicPtr<u8>> = pointers.iter().map(|p| AtomicPtr::new(*p)).collect();
        let work = |memory: &Mutex<Block>| {
            let mut memory = memory.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let pointers: Vec<*mut u8> = shared.iter().map(|p| p.load(Ordering::Relaxed)).collect();
            let pointers = own.pointers(&pointers, &mut memory);
            loop {
                let piece = next.fetch_add(1, Ordering::Relaxed);
                let faulted = |f: &Option<(i64, Fault)>| f.is_some();
                if piece >= pieces || first_fault.lock().is_ok_and(|f| faulted(&f)) {
                    return;
                }
                let range = (piece.saturating_mul(length), (piece + 1).saturating_mul(length).min(total));
                if let Err(fault) = self.piece(kernel, &pointers, sizes, range, &mut memory) {
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
                for memory in &memories[1..] {
                    scope.spawn(move |_| work(memory));
                }
                work(&memories[0]);
            }),
            // No threads to be had: the caller's does it all.
            None => work(&memories[0]),
        }
        for memory in memories {
            self.memory.keep(memory.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()));
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
        memory: &mut Block,
    ) -> Result<(), Fault> {
        let mut fault = FaultRecord::default();
        let memory = memory.pointer();
        // SAFETY: the program is verified, so every access is inside its buffer: each pointer is that of memory of the
        // buffer's size under this call's binding (shared only with buffers that are not needed at once), inputs and constants are only read, and the sizes are this
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

/// What a thread keeps for itself while it runs a kernel.
struct Own {
    bytes: usize,
    /// Its scratch buffers: where in its memory they begin.
    buffers: Vec<(BufferId, usize)>,
}

impl Own {
    /// The memory of all buffers as one thread sees it.
    fn pointers(&self, shared: &[*mut u8], memory: &mut Block) -> Vec<*mut u8> {
        let mut pointers = shared.to_vec();
        for (id, offset) in &self.buffers {
            pointers[id.index()] = memory.pointer().wrapping_add(*offset);
        }
        pointers
    }
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
