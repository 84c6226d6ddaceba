//! Runs compiled programs: binds the sizes of a call, provides memory for temporaries, and runs the
//! kernels in order.
//!
//! A call on small arrays must not allocate, because that would dominate its time. So everything
//! that a call needs is kept in a [`Frame`], which later calls reuse.

use std::sync::{Mutex, PoisonError};

use cranelift_codegen::entity::EntityRef;
use ir::array::{ArrayMut, ArrayRef};
use ir::bind::Binding;
use ir::nest::{BufferId, Role};
use ir::sched::Scheduled;
use ir::sched::time_tiles::TimeTiles;
use ir::{Dtype, Size};

use super::compile::{Compiled, CompiledKernel};
use super::distribute::{Address, Extents, Next, ThreadScratch};
use super::memory::{Block, Pool};
use super::options::Options;
use super::steps::{Steps, Watch};
use crate::abi::SCRATCH_ALIGN;
use crate::error::RunError;
use crate::slots::{SlotLocation, Slots, words};
use crate::{call, float_mode};

/// A compiled program with the state that its runs share.
pub(super) struct Runner {
    compiled: Compiled,
    options: Options,
    /// Each parameter's element type and rank.
    params: Vec<(Dtype, usize)>,
    /// The results' buffers.
    results: Vec<BufferId>,
    /// The number of buffers in the program before compilation added some.
    given: usize,
    /// Whether it has loops over kernels.
    loops: bool,
    /// Those of them that may run in time tiles.
    time_tiles: Vec<TimeTiles>,
    /// The layout of temporaries.
    slots: Slots,
    /// The elements of constant buffers.
    constants: Vec<(BufferId, Vec<u64>)>,
    /// Frames that no run is using.
    #[expect(clippy::vec_box, reason = "moving a frame takes a tenth of a call on a few elements")]
    frames: Mutex<Vec<Box<Frame>>>,
    /// Scratch memory of helper threads that no run is using.
    memory: Pool,
}

/// The state of a run. Everything before `addresses` depends only on the sizes of the call, and
/// stays valid for the next call of the same sizes.
#[derive(Default)]
struct Frame {
    /// The sizes that the state was computed for, or none.
    binding: Option<Binding>,
    /// The table of sizes.
    sizes: Vec<i64>,
    /// The one for kernels that run in time tiles, if any do.
    near: Vec<i64>,
    /// The size of the memory for temporaries, and the location of each.
    bytes: usize,
    places: Vec<(BufferId, SlotLocation)>,
    /// The properties of each kernel at these sizes.
    extents: Vec<Extents>,
    /// The most bytes that a kernel keeps for itself on a thread.
    own: usize,
    /// The memory of each buffer.
    addresses: Vec<Address>,
    /// Where each buffer lies before any kernel runs, if loops over kernels move some.
    initial_addresses: Vec<Address>,
    /// Memory for temporaries.
    temporaries: Block,
    /// Scratch memory of the caller's thread.
    scratch: Block,
    /// Memory for the stretches of threads in a kernel.
    next: Vec<Next>,
}

impl Runner {
    pub(super) fn new(scheduled: &Scheduled, compiled: Compiled, options: &Options) -> Runner {
        let program = &scheduled.program;
        let constants =
            program
                .buffers
                .iter()
                .filter_map(|(id, buffer)| {
                    if let Role::Constant(elements) = &buffer.role { Some((id, words(elements))) } else { None }
                })
                .collect();
        let params = program.inputs().into_iter().map(|id| &program.buffers[id]);
        Runner {
            params: params.map(|buffer| (buffer.dtype, buffer.shape.len())).collect(),
            results: program.outputs(),
            slots: Slots::of_parts(scheduled),
            compiled,
            options: options.clone(),
            given: scheduled.planned,
            loops: !program.repeats().is_empty(),
            time_tiles: program.repeats().iter().filter_map(|repeat| TimeTiles::of(scheduled, repeat)).collect(),
            constants,
            frames: Mutex::default(),
            memory: Pool::default(),
        }
    }

    pub(super) fn run(
        &self,
        inputs: &[ArrayRef<'_>],
        outputs: &mut [ArrayMut<'_>],
        threads: usize,
        watch: Watch<'_>,
    ) -> Result<(), RunError> {
        float_mode::standard(|| self.run_in_frame(inputs, outputs, threads, watch))
    }

    fn run_in_frame(
        &self,
        inputs: &[ArrayRef<'_>],
        outputs: &mut [ArrayMut<'_>],
        threads: usize,
        watch: Watch<'_>,
    ) -> Result<(), RunError> {
        let program = &self.compiled.program;
        let binding = Binding::of_call(&program.symbols, &self.params, &program.requires, inputs)?;
        let frames = || self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        let mut frame = frames().pop().unwrap_or_default();
        let done = self.run_in(&mut frame, binding, inputs, outputs, threads, watch);
        frame.temporaries.trim();
        frame.scratch.trim();
        frames().push(frame);
        done
    }

    fn run_in(
        &self,
        frame: &mut Frame,
        binding: Binding,
        inputs: &[ArrayRef<'_>],
        outputs: &mut [ArrayMut<'_>],
        threads: usize,
        watch: Watch<'_>,
    ) -> Result<(), RunError> {
        let program = &self.compiled.program;
        if frame.binding.as_ref() != Some(&binding) {
            frame.binding = None;
            self.plan(frame, &binding)?;
        }
        let binding = frame.binding.insert(binding);
        call::check_outputs(program, &self.results, binding, outputs)?;
        // Blocks live until the run ends; arrays that are not aligned to their elements are
        // replaced by copies.
        let mut blocks: Vec<Block> = vec![];
        let addresses = &mut frame.addresses;
        addresses.clear();
        let mut copies: Vec<(usize, *mut u8)> = vec![];
        for buffer in program.buffers.values() {
            let width = buffer.dtype.bytes();
            let aligned = |p: *const u8| p.addr().is_multiple_of(width);
            addresses.push(Address(match buffer.role {
                Role::Input(n) => {
                    let bytes = inputs[n].bytes();
                    if aligned(bytes.as_ptr()) {
                        // Kernels never store to inputs.
                        bytes.as_ptr().cast_mut()
                    } else {
                        let mut block = Block::new(bytes.len())?;
                        let pointer = block.pointer();
                        // SAFETY: the block is as long as the input, and separate from it.
                        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), pointer, bytes.len()) };
                        blocks.push(block);
                        pointer
                    }
                }
                Role::Output(n) => {
                    let bytes = outputs[n].bytes_mut();
                    if aligned(bytes.as_ptr()) && !self.compiled.late_faults {
                        bytes.as_mut_ptr()
                    } else {
                        // The caller will read all of it, so it must be initialized whatever the
                        // kernels store.
                        let mut block = Block::zeroed(bytes.len())?;
                        let pointer = block.pointer();
                        blocks.push(block);
                        copies.push((n, pointer));
                        pointer
                    }
                }
                // Temporaries and constants are set below, scratch for each thread. A buffer that
                // no kernel stores to is never accessed.
                Role::Temp | Role::Constant(_) | Role::Scratch => std::ptr::null_mut(),
            }));
        }
        frame.temporaries.hold(frame.bytes)?;
        for (id, place) in &frame.places {
            addresses[id.index()] = match place {
                SlotLocation::At(offset) => Address(frame.temporaries.pointer().wrapping_add(*offset)),
                SlotLocation::Of(output) => addresses[output.index()],
            };
        }
        for (id, words) in &self.constants {
            // Kernels never store to constants.
            addresses[id.index()] = Address(words.as_ptr().cast::<u8>().cast_mut());
        }
        if self.loops {
            frame.initial_addresses.clone_from(addresses);
        }
        frame.scratch.hold(frame.own)?;
        let mut steps = Steps {
            program,
            time_tiles: &self.time_tiles,
            near: &frame.near,
            kernels: &self.compiled.kernels,
            extents: &frame.extents,
            binding,
            sizes: &frame.sizes,
            addresses,
            initial_addresses: &frame.initial_addresses,
            scratch: Address(frame.scratch.pointer()),
            next: &mut frame.next,
            memory: &self.memory,
            options: &self.options,
            threads,
            watch,
        };
        steps.sequence(&program.body)?;
        for (n, pointer) in copies {
            let bytes = outputs[n].bytes_mut();
            // SAFETY: the block is as long as the output and fully initialized: it was zeroed
            // before the kernels stored to it. It is in `blocks`, separate from the output.
            unsafe { std::ptr::copy_nonoverlapping(pointer, bytes.as_mut_ptr(), bytes.len()) };
        }
        Ok(())
    }

    /// Bytes that depend on the sizes of a call, in addition to the program's buffers: buffers that
    /// splitting added, results that are held back until no fault can occur any more, and each
    /// thread's additional copies of scratch buffers.
    pub(super) fn beside(&self, binding: &Binding, threads: usize) -> Result<u128, RunError> {
        let program = &self.compiled.program;
        let bytes = |id: BufferId| call::bytes(program, binding, id).map(|bytes| bytes as u128);
        let held: &[BufferId] = if self.compiled.late_faults { &self.results } else { &[] };
        let mut sum = 0u128;
        let added = program.buffers.keys().skip(self.given);
        let added = added.filter(|id| program.buffers[*id].role != Role::Scratch);
        for id in added.chain(held.iter().copied()) {
            sum = sum.saturating_add(bytes(id)?);
        }
        let mut each = 0u128;
        for kernel in &self.compiled.kernels {
            let mut own = 0u128;
            for id in &kernel.buffers {
                let times = kernel.columns.times(*id).at(&|size| binding.number(size));
                let planned = id.index() < self.given;
                let more = u128::try_from(times).unwrap_or(0).saturating_sub(u128::from(planned));
                own = own.saturating_add(bytes(*id)?.saturating_mul(more));
            }
            each = each.max(own);
        }
        Ok(sum.saturating_add(each.saturating_mul(threads as u128)))
    }

    /// Computes everything that depends on the sizes of a call, or reports a length that has no
    /// value.
    fn plan(&self, frame: &mut Frame, binding: &Binding) -> Result<(), RunError> {
        binding.check_lengths(&self.compiled.program)?;
        let value = |size: &Size| binding.number(size);
        frame.sizes.clear();
        frame.sizes.extend(self.compiled.sizes.iter().map(|formula| formula.at(&value)));
        frame.near.clear();
        if !self.time_tiles.is_empty() {
            frame.near.extend(self.compiled.near.iter().map(|formula| formula.at(&value)));
        }
        frame.places.clear();
        frame.bytes = self.slots.places(
            |id| call::bytes(&self.compiled.program, binding, id),
            |id, place| frame.places.push((id, place)),
        )?;
        frame.extents.clear();
        let mut back = false;
        for kernel in &self.compiled.kernels {
            frame.extents.push(Extents::new(kernel, self.own(binding, kernel, &value)?, back, &value));
            back ^= kernel.range.is_some();
        }
        frame.own = frame.extents.iter().map(|extents| extents.own.bytes).max().unwrap_or(0);
        Ok(())
    }

    /// A thread's scratch memory for a kernel: the part that its code uses, then its scratch
    /// buffers, then a table of addresses.
    fn own(
        &self,
        binding: &Binding,
        kernel: &CompiledKernel,
        value: &impl Fn(&Size) -> i64,
    ) -> Result<ThreadScratch, RunError> {
        let mut own = ThreadScratch { bytes: kernel.scratch, buffers: vec![], table: 0 };
        for id in &kernel.buffers {
            own.buffers.push((*id, own.bytes));
            let times = usize::try_from(kernel.columns.times(*id).at(value)).unwrap_or(usize::MAX);
            let bytes = call::bytes(&self.compiled.program, binding, *id)?.checked_mul(times);
            let bytes = bytes.and_then(|bytes| bytes.checked_next_multiple_of(SCRATCH_ALIGN));
            let sum = bytes.and_then(|bytes| own.bytes.checked_add(bytes));
            own.bytes = sum.ok_or(RunError::OutOfMemory { bytes: usize::MAX })?;
        }
        if !own.buffers.is_empty() {
            let table = own.bytes.checked_next_multiple_of(SCRATCH_ALIGN);
            let end = table.and_then(|at| at.checked_add(self.compiled.program.buffers.len() * size_of::<Address>()));
            (own.table, own.bytes) = table.zip(end).ok_or(RunError::OutOfMemory { bytes: usize::MAX })?;
        }
        Ok(own)
    }
}
