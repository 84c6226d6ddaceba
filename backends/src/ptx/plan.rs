//! The plan of a call: how much memory it needs, where everything is in it, and its launches in
//! order. A plan depends on the sizes of the call alone, so later calls of the same sizes reuse it.

use std::collections::{BTreeMap, BTreeSet};

use cranelift_codegen::entity::EntityRef;
use ir::Size;
use ir::bind::{Binding, Given};
use ir::nest::{BufferId, Node, Program, Role};

use super::compile::{Kernel, Module, Rows, Variant};
use super::device::Facts;
use super::split::{COUNTERS, OfSplit};
use super::state::Argument;
use super::state::ScratchScope;
use super::steps::{Repeat, Step};
use super::tensor_map::TensorMap;
use crate::call;
use crate::error::RunError as CallError;
use crate::slots::{SlotLocation, Slots, words};

/// The size of the record of a failed check in bytes.
pub(super) const FAULT: usize = 24;
/// The number of blocks if it depends on data, and the maximum of large blocks if each has its own
/// scratch.
const SOME_BLOCKS: i64 = 1024;
/// The maximum number of threads in small blocks that have scratch: about as many as a device runs
/// at once.
const SOME_THREADS: i64 = 1 << 18;
/// Launches have scratch of their own, up to as many bytes in all. After that they share it.
const APART: usize = 32 << 20;
/// The alignment of everything in a call's memory.
const ALIGN: usize = 256;

/// The plan for calls of certain sizes.
pub struct Plan {
    pub(super) binding: Binding,
    /// The size of the call's own memory, in addition to inputs and results. It begins with the
    /// record of a failed check.
    pub own: usize,
    /// What its memory holds before the first launch, the program's constants among it: offsets and
    /// bytes.
    pub(super) constants: Vec<(usize, Vec<u8>)>,
    /// The launches, in the order of the program's tree. Those in loops over kernels are repeated.
    pub launches: Vec<Planned>,
    /// When each launch runs.
    pub(super) steps: Vec<Step>,
    /// The buffers of the program that loops over kernels carry, where they are before the call.
    pub(super) places: Vec<Word>,
    /// The size of each result in bytes.
    pub(super) results: Vec<usize>,
}

/// A launch. Its arguments do not contain the addresses of a particular call yet.
pub struct Planned {
    /// The index of the program's kernel that it belongs to.
    pub(super) of: usize,
    /// The name of the variant.
    pub kernel: String,
    /// The number of blocks.
    pub blocks: u32,
    /// The number of threads in a block.
    pub threads: u32,
    /// The size of the dynamic shared memory in bytes.
    pub shared: usize,
    /// The kernel's arguments.
    pub arguments: Vec<Word>,
    /// The arguments that are the address of a carried buffer, each with the number of its place.
    pub(super) carried: Vec<(usize, usize)>,
    /// The tensor maps behind the arguments.
    pub(super) maps: Vec<PlannedMap>,
    /// The memory that it accesses, but for the record of a failed check, which any number of
    /// launches may share.
    pub(super) accesses: Vec<PlannedAccess>,
}

/// Memory that a launch accesses.
pub(super) struct PlannedAccess {
    pub(super) at: Word,
    /// The number of the buffer's place, if it is carried.
    pub(super) place: Option<usize>,
    pub(super) bytes: usize,
    pub(super) writes: bool,
}

/// A tensor map, at an address that counts from the start of a buffer.
pub(super) struct PlannedMap {
    pub(super) buffer: Word,
    /// The number of the buffer's place, if it is carried.
    pub(super) place: Option<usize>,
    pub(super) map: TensorMap,
}

/// A kernel argument.
#[derive(Clone, Copy)]
pub enum Word {
    /// A number.
    Number(u64),
    /// An address in the call's own memory, as an offset.
    Own(usize),
    /// The address of an input.
    Input(usize),
    /// The address of a result.
    Output(usize),
}

/// The error for a size that overflows.
const TOO_MANY: CallError = CallError::OutOfMemory { bytes: usize::MAX };

/// A bump allocator.
struct Memory {
    end: usize,
}

impl Memory {
    fn take(&mut self, bytes: usize) -> Result<usize, CallError> {
        let at = self.end;
        let end = at.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(ALIGN));
        self.end = end.ok_or(TOO_MANY)?;
        Ok(at)
    }
}

impl Plan {
    /// The initial contents of its memory, with their offsets: a cleared word for failed checks,
    /// and the program's constants.
    pub fn contents(&self) -> impl Iterator<Item = (usize, &[u8])> {
        const NO_FAULT: &[u8] = &[0; FAULT];
        std::iter::once((0, NO_FAULT)).chain(self.constants.iter().map(|(at, bytes)| (*at, bytes.as_slice())))
    }
}

impl Module {
    /// The plan of a call with these inputs: its memory and launches on a device.
    pub fn plan_for(&self, inputs: &[impl Given], facts: Facts) -> Result<Plan, CallError> {
        self.plan(self.bind(inputs)?, facts)
    }

    /// Binds the sizes of a call. Fails if the inputs do not match.
    pub(super) fn bind(&self, inputs: &[impl Given]) -> Result<Binding, CallError> {
        let program = &self.program;
        let params = program.inputs().into_iter().map(|id| &program.buffers[id]);
        let params: Vec<_> = params.map(|buffer| (buffer.dtype, buffer.shape.len())).collect();
        let binding = Binding::of_call(&program.symbols, &params, &program.requires, inputs)?;
        binding.check_lengths(program)?;
        Ok(binding)
    }

    /// The variant of each kernel that runs at these sizes, if it runs.
    fn chosen(&self, value: &impl Fn(&Size) -> i64, facts: Facts) -> Vec<Option<&Variant>> {
        let mut replaced = BTreeSet::new();
        let mut chosen = vec![];
        for kernel in &self.kernels {
            let variant = kernel.variant(value, facts).filter(|_| !replaced.contains(&kernel.of));
            if kernel.replaces && variant.is_some() {
                replaced.insert(kernel.of);
            }
            chosen.push(variant);
        }
        chosen
    }

    /// The plan for these sizes on a device.
    pub(super) fn plan(&self, binding: Binding, facts: Facts) -> Result<Plan, CallError> {
        let program = &self.program;
        let mut memory = Memory { end: 0 };
        // The record of a failed check comes first, at offset 0.
        memory.take(FAULT)?;
        let in_tree: BTreeMap<BufferId, usize> = program.in_tree().zip(0..).collect();
        let mut layout =
            Layout { program, binding: &binding, memory, buffers: BTreeMap::new(), in_tree, counters: BTreeMap::new() };
        let mut constants = vec![];
        for (id, buffer) in &program.buffers {
            let word = match &buffer.role {
                Role::Input(n) => Word::Input(*n),
                Role::Output(n) => Word::Output(*n),
                Role::Constant(elements) => {
                    let bytes: Vec<u8> = words(elements).into_iter().flat_map(u64::to_ne_bytes).collect();
                    let at = layout.memory.take(bytes.len())?;
                    constants.push((at, bytes));
                    Word::Own(at)
                }
                Role::Temp | Role::Scratch => continue,
            };
            layout.buffers.insert(id, word);
        }
        let value = |size: &Size| binding.number(size);
        let chosen = self.chosen(&value, facts);
        layout.temporaries(chosen.iter().flatten().flat_map(|variant| variant.buffers()).chain(program.in_tree()))?;
        for id in &self.cleared {
            if let Some(Word::Own(at)) = layout.buffers.get(id).copied() {
                constants.push((at, vec![0; call::bytes(program, layout.binding, *id)?]));
            }
        }
        for variant in chosen.iter().flatten().filter(|v| v.split.is_some()) {
            let at = layout.memory.take(COUNTERS)?;
            layout.counters.insert(&variant.name, at);
            constants.push((at, vec![0; COUNTERS]));
        }
        // Launches that run at the same time need scratch of their own, and others may share it.
        let shared = layout.memory.end;
        let mut end = shared;
        let mut places = vec![Word::Number(0); layout.in_tree.values().max().map_or(0, |last| last + 1)];
        layout.in_tree.iter().for_each(|(id, place)| places[*place] = layout.buffers[id]);
        let (mut launches, mut numbers) = (vec![], vec![]);
        for (kernel, variant) in self.kernels.iter().zip(chosen) {
            if layout.memory.end - shared > APART {
                layout.memory.end = shared;
            }
            let planned = variant.map_or(Ok(None), |variant| layout.launch(kernel, variant, facts))?;
            numbers.push(planned.is_some().then_some(launches.len()));
            launches.extend(planned);
            end = end.max(layout.memory.end);
        }
        let steps = steps(&program.body, &binding, &layout.in_tree, &numbers);
        let results = program.outputs().into_iter().map(|id| call::bytes(program, &binding, id));
        let results = results.collect::<Result<_, _>>()?;
        Ok(Plan { binding, own: end, constants, launches, steps, places, results })
    }
}

/// The memory of a call, as far as it is laid out.
struct Layout<'p> {
    program: &'p Program,
    binding: &'p Binding,
    memory: Memory,
    /// The argument that kernels get for each buffer.
    buffers: BTreeMap<BufferId, Word>,
    /// The number of the place of each buffer that loops over kernels carry or end by.
    in_tree: BTreeMap<BufferId, usize>,
    /// Where the counters of contractions in parts are, by the names of variants.
    counters: BTreeMap<&'p str, usize>,
}

impl<'p> Layout<'p> {
    /// Assigns memory to temporaries: those that are planned, and these.
    fn temporaries(&mut self, stored: impl Iterator<Item = BufferId>) -> Result<(), CallError> {
        let Layout { program, binding, memory, buffers, .. } = self;
        let stored: BTreeSet<BufferId> = stored.collect();
        let mut places = vec![];
        let bytes = Slots::new(program, stored)
            .places(|id| call::bytes(program, binding, id), |id, place| places.push((id, place)))?;
        let base = memory.take(bytes)?;
        for (id, place) in places {
            let word = match place {
                SlotLocation::At(offset) => Word::Own(base + offset),
                SlotLocation::Of(output) => buffers[&output],
            };
            buffers.insert(id, word);
        }
        Ok(())
    }

    /// The launch of a kernel, with memory for its scratch; `None` if it has no iterations.
    fn launch(&mut self, kernel: &'p Kernel, variant: &'p Variant, facts: Facts) -> Result<Option<Planned>, CallError> {
        let Layout { program, binding, memory, buffers, in_tree: places, counters } = self;
        let value = |size: &Size| binding.number(size);
        let blocks = variant.blocks(&value, kernel.runs_anyway, facts);
        if blocks == 0 {
            return Ok(None);
        }
        let threads = variant.threads(&value);
        // The number of copies of scratch in the grid.
        let owners = blocks as usize
            * match (variant.scratch_scope, variant.columns) {
                // The threads of a column share its scratch, so that a block has one copy per
                // column.
                (_, Some(columns)) => usize::try_from(columns).unwrap_or(1),
                (ScratchScope::Thread, None) => threads as usize,
                (ScratchScope::Warp, None) => threads as usize / 32,
                (ScratchScope::Block, None) => 1,
            };
        let mut accesses = vec![];
        for id in variant.scratch() {
            let own = stride(binding, program, id)?;
            let bytes = own.checked_mul(owners).ok_or(TOO_MANY)?;
            let at = Word::Own(memory.take(bytes)?);
            buffers.insert(id, at);
            accesses.push(PlannedAccess { at, place: None, bytes, writes: true });
        }
        for id in variant.buffers().filter(|id| program.buffers[*id].role != Role::Scratch) {
            let bytes = call::bytes(program, binding, id)?;
            let (at, place, writes) = (buffers[&id], places.get(&id).copied(), kernel.stores.contains(&id));
            accesses.push(PlannedAccess { at, place, bytes, writes });
        }
        let (mut arguments, mut carried) = (vec![], vec![]);
        for argument in &variant.arguments {
            if let Argument::Buffer(id) = argument
                && let Some(place) = places.get(id)
            {
                carried.push((arguments.len(), *place));
            }
            let mut own = |at: usize, bytes: usize| {
                let at = Word::Own(at);
                accesses.push(PlannedAccess { at, place: None, bytes, writes: true });
                at
            };
            arguments.push(match argument {
                Argument::Fault => Word::Own(0),
                Argument::Buffer(id) => buffers[id],
                Argument::Stride(id) => Word::Number(stride(binding, program, *id)? as u64),
                Argument::Size(size) => Word::Number(value(size).cast_unsigned()),
                Argument::Multiples(sizes) => Word::Number(sizes.iter().all(|(size, of)| value(size) % of == 0).into()),
                Argument::Small(sizes) => {
                    // 32-bit divisions suffice below 2^31.
                    let product = sizes.iter().try_fold(1i64, |product, size| product.checked_mul(value(size).max(0)));
                    Word::Number(product.is_some_and(|product| product <= 1 << 31).into())
                }
                Argument::Reciprocal(size) => Word::Number(reciprocal(value(size))),
                Argument::OfSplit(split, OfSplit::Parts) => Word::Number(split.parts(&value).cast_unsigned()),
                Argument::OfSplit(split, OfSplit::Length) => Word::Number(split.length(&value).cast_unsigned()),
                Argument::OfSplit(split, OfSplit::Sums) => {
                    let bytes = split.memory(&value).ok_or(TOO_MANY)?;
                    own(memory.take(bytes)?, bytes)
                }
                Argument::OfSplit(_, OfSplit::Ended) => own(counters[variant.name.as_str()], COUNTERS),
            });
        }
        // A kernel has at least one parameter.
        if arguments.is_empty() {
            arguments.push(Word::Number(0));
        }
        let maps = variant.maps.iter().filter_map(|view| {
            let place = places.get(&view.buffer).copied();
            Some(PlannedMap { buffer: buffers[&view.buffer], place, map: view.map(&value)? })
        });
        let maps = maps.collect();
        let shared = variant.dynamic_shared(&value);
        let name = variant.name.clone();
        Ok(Some(Planned { of: kernel.of, kernel: name, blocks, threads, shared, arguments, carried, maps, accesses }))
    }
}

/// The steps of a sequence. `numbers` has the launch of each kernel that is launched, and `places`
/// the number of the place of each buffer in the tree.
fn steps(
    nodes: &[Node],
    binding: &Binding,
    places: &BTreeMap<BufferId, usize>,
    numbers: &[Option<usize>],
) -> Vec<Step> {
    let step = |node: &Node| match node {
        Node::Kernel(id) => numbers[id.index()].map(Step::Launch),
        Node::Repeat(repeat) => {
            let body = steps(&repeat.body, binding, places, numbers);
            let trips = repeat.trips.as_ref().map(|trips| u64::try_from(binding.number(trips)).unwrap_or(0));
            let trips = trips.unwrap_or(u64::MAX);
            let carried = repeat.carried.iter().map(|three| three.buffers().map(|id| places[&id])).collect();
            // All that a loop without launches carries is empty.
            (!body.is_empty()).then_some(Step::Repeat(Repeat { trips, carried, body }))
        }
        Node::Exit { unless } => Some(Step::Exit(places[unless])),
    };
    nodes.iter().filter_map(step).collect()
}

/// The constants of [`Argument::Reciprocal`] for a divisor from 1 to 2^31, and 0 for any other,
/// which is never used. With `2^s` the smallest power of two that is at least the divisor, the
/// factor is `2^(31 + s) / divisor`, rounded up, and the shift is `31 + s`. The rounding error is
/// too small to change a quotient of a dividend below 2^31 (Granlund and Montgomery, "Division by
/// Invariant Integers using Multiplication", theorem 4.2).
fn reciprocal(divisor: i64) -> u64 {
    let Ok(divisor @ 1..=0x8000_0000) = u64::try_from(divisor) else { return 0 };
    let places = 31 + divisor.next_power_of_two().ilog2();
    (1u64 << places).div_ceil(divisor) | u64::from(places) << 32
}

impl Kernel {
    /// The first variant that fits the sizes and the device, or, where tiles have several sizes,
    /// the fastest of them. The last variant fits all, unless other parts run where none fits.
    fn variant(&self, value: &impl Fn(&Size) -> i64, facts: Facts) -> Option<&Variant> {
        let fits = |v: &&Variant| {
            let memory = || v.dynamic_shared(value).saturating_add(v.shared) <= facts.shared.max(v.shared);
            let rows = |rows: &Rows| rows.layout.fits(value(&rows.layout.length)) && memory();
            v.at_most.iter().all(|(size, most)| value(size) <= *most)
                && v.rows.as_ref().is_none_or(rows)
                && v.maps.iter().all(|view| view.map(value).is_some())
                && v.split.as_ref().is_none_or(|split| split.fits(value))
        };
        let mut fitting = self.variants.iter().filter(|v| v.target <= facts.target).filter(fits);
        let last = self.variants.last().filter(|_| !self.replaces);
        let first = fitting.next().or(last)?;
        let time = |v: &Variant| {
            let turns = u64::try_from(v.tiles(value)?).ok()?.div_ceil(facts.multiprocessors.max(1).into());
            Some(turns.saturating_mul(v.turn?.unsigned_abs()))
        };
        let Some(of_first) = time(first) else { return Some(first) };
        let all = std::iter::once((of_first, first)).chain(fitting.filter_map(|v| Some((time(v)?, v))));
        all.min_by_key(|(time, _)| *time).map(|(_, variant)| variant)
    }
}

impl Variant {
    /// The buffers that it accesses.
    fn buffers(&self) -> impl Iterator<Item = BufferId> {
        let arguments = self.arguments.iter();
        let arguments = arguments.filter_map(|a| if let Argument::Buffer(id) = a { Some(*id) } else { None });
        arguments.chain(self.maps.iter().map(|view| view.buffer))
    }

    /// The scratch buffers that it uses.
    fn scratch(&self) -> impl Iterator<Item = BufferId> {
        self.arguments.iter().filter_map(|a| if let Argument::Stride(id) = a { Some(*id) } else { None })
    }

    /// The size of the dynamic shared memory in bytes: a staging buffer or tiles.
    fn dynamic_shared(&self, value: &impl Fn(&Size) -> i64) -> usize {
        let Some(Rows { layout, staged, .. }) = &self.rows else { return self.more };
        let beyond = value(&layout.length).saturating_sub(layout.capacity()).max(0);
        usize::try_from(beyond.saturating_mul(*staged)).unwrap_or(usize::MAX)
    }

    /// The number of threads in a block.
    fn threads(&self, value: &impl Fn(&Size) -> i64) -> u32 {
        let Some(Rows { layout, of_block, .. }) = &self.rows else { return self.threads };
        u32::try_from(layout.threads(value(&layout.length)) * of_block).unwrap_or(self.threads)
    }

    /// The number of blocks with the iterations of one, if no data tell.
    fn tiles(&self, value: &impl Fn(&Size) -> i64) -> Option<i64> {
        let iterations = |extents: &Option<Vec<Size>>| {
            extents.as_ref().map(|extents| extents.iter().fold(1i64, |n, e| n.saturating_mul(value(e).max(0))))
        };
        let of = |n: i64, each: i64| n / each + i64::from(n % each > 0);
        self.grid
            .axes
            .iter()
            .try_fold(1i64, |blocks, (extents, each)| iterations(extents).map(|n| blocks.saturating_mul(of(n, *each))))
    }

    /// The number of blocks.
    fn blocks(&self, value: &impl Fn(&Size) -> i64, runs_anyway: bool, facts: Facts) -> u32 {
        let parts = self.split.as_ref().map_or(1, |split| split.parts(value));
        let blocks = self.tiles(value).map(|tiles| tiles.saturating_mul(parts));
        // The size of scratch limits the number of blocks, which then process several iterations
        // each.
        let most = match self.scratch().next() {
            None => match self.grid.at_once {
                Some(of_each) => i64::from(facts.multiprocessors * of_each).max(1),
                None => i64::from(i32::MAX),
            },
            Some(_) => SOME_BLOCKS.max(SOME_THREADS / i64::from(self.threads(value))),
        };
        // A grid of clusters is limited and counted in whole clusters.
        let together = i64::from(self.grid.cluster);
        let blocks = blocks.unwrap_or(SOME_BLOCKS).clamp(runs_anyway.into(), most / together) * together;
        let others = if blocks > 0 { self.grid.others } else { 0 };
        u32::try_from(blocks + others).unwrap_or(0)
    }
}

/// The size of one copy of a scratch buffer in bytes, padded for alignment.
fn stride(binding: &Binding, program: &Program, id: BufferId) -> Result<usize, CallError> {
    call::bytes(program, binding, id)?.checked_next_multiple_of(16).ok_or(TOO_MANY)
}

#[cfg(test)]
mod tests {
    use super::reciprocal;

    #[test]
    fn reciprocals_divide() {
        let near = |n: u64| [n - 1, n, n + 1];
        let powers = (1..31).flat_map(|k| near(1 << k));
        for divisor in (1..2000).chain(powers).chain([641, 1_000_003, 1_431_655_765, 0x7fff_ffff, 0x8000_0000]) {
            let word = reciprocal(i64::try_from(divisor).unwrap());
            let (factor, places) = (word & 0xffff_ffff, word >> 32);
            let multiples = [1, 2, 3, 1000, 0x7fff_ffff / divisor].map(|k| k * divisor).into_iter().filter(|n| *n > 0);
            for n in multiples.flat_map(near).chain([0, 1, 0x7fff_fffe, 0x7fff_ffff]).filter(|n| *n < 1 << 31) {
                assert_eq!((n * factor) >> places, n / divisor, "{n} / {divisor}");
            }
        }
    }
}
