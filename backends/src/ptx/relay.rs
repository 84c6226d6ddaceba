//! Long scans at the top of a kernel, in one launch. A block takes a chunk of the order and leaves
//! its result, and one block of its own relays to each of the others the result of all chunks
//! before: it merges them one after another, in ascending order, as the order says. (With the
//! canonical order, blocks that look back at others by themselves, as in Merrill and Garland,
//! "Single-pass Parallel Prefix Scan with Decoupled Look-back", 2016, would each have to merge as
//! many results as there are blocks at a time.)
//!
//! A result is left in words of 64 bits, each of which is written at once: the low half has the
//! bits, and the high half the number of the launch, so that no launch has to clear what the one
//! before it has left. Blocks are numbered in the order in which they start, and the first one
//! relays. So a block only waits for blocks that have started, and a device that runs two blocks at
//! a time gets to the end.

use std::collections::BTreeMap;

use ir::merging::Merging;
use ir::nest::{Loop, ValueId};
use ir::order::{LANES, SCAN_CHUNK};
use ir::sabotage::{self, Bug};
use ir::sched::{Relay, single_prefixes};

use super::build::Control;
use super::emit::Emitter;
use super::fold::{MergingCode, assign};
use super::inst::{Address, Class, Comparison, Opcode, Reg, Rounding, Space, Special, Type};
use super::prefixes::{BATCH, SharedSums};
use super::state::{Argument, Chunks};

/// The threads of a block.
pub(super) const THREADS: u32 = LANES as u32;
/// The blocks that have to fit on a multiprocessor at once. While some wait, others load.
pub(super) const RESIDENT: u32 = 4;
/// The elements of a chunk that a thread holds.
const EACH: i64 = SCAN_CHUNK as i64 / THREADS as i64;
/// The bytes of a word.
const WORD: i64 = 8;
const WARP: i64 = 32;

/// A result for a chunk.
#[derive(Clone, Copy)]
enum Passed {
    /// That of the chunk alone.
    Own,
    /// That of all chunks before it.
    Before,
}

/// The state of a prefix in the block that relays.
struct Relayed {
    value: ValueId,
    merging: Merging,
    /// The result of the chunks so far, and their number.
    carry: Vec<Reg>,
    number: Reg,
}

impl Emitter<'_> {
    /// A scan in chunks.
    pub(super) fn relay(&mut self, l: &Loop, relay: &Relay) {
        let axes = self.axes(&l.dims, &l.body);
        let count = self.ceil_div(axes.total, SCAN_CHUNK as i64);
        let base = self.argument(Argument::Buffer(relay.buffer));
        // Each launch takes as many tickets as it has blocks.
        let ticket = self.ticket_of_block(base);
        let blocks = self.b().op2(Opcode::Add, Type::S64, count, 1);
        let launch = self.b().op2(Opcode::Div, Type::U64, ticket, blocks);
        let launch = self.b().op2(Opcode::Add, Type::U64, launch, 1);
        let launch = self.b().op2(Opcode::Shl, Type::B64, launch, 32);
        let block = self.b().op2(Opcode::Rem, Type::U64, ticket, blocks);
        let number = self.b().op2(Opcode::Sub, Type::S64, block, 1);
        let words = self.b().op2(Opcode::Add, Type::U64, base, WORD);
        let (mut planes, mut taken) = (BTreeMap::new(), 0);
        for (value, prefix) in single_prefixes(l).unwrap_or_default() {
            let merging = Merging::of_prefix(self.dtypes(), prefix);
            planes.insert(value, (merging, taken));
            taken += Relay::words(merging.dtypes(self.program)[0]);
        }
        let chunks = Chunks { count, words, launch, number, planes };
        let thread = self.special(Special::Tid);
        let relays = self.b().set(Comparison::Eq, Type::S64, block, 0);
        self.either(
            relays,
            |e| {
                let first = e.b().set(Comparison::Lt, Type::S64, thread, WARP);
                e.when(first, |e| e.relay_all(&chunks, relay.window));
            },
            |e| {
                // Adjacent threads have adjacent elements, so that loads coalesce, and a thread's
                // own are LANES apart.
                let chunk = (SCAN_CHUNK as i64).into();
                let first = e.b().op(Opcode::Mad, Type::S64, &[number.into(), chunk, thread.into()]);
                let elements = e.thread_elements(first, axes.total, LANES as i64, EACH);
                e.scans.chunks = Some(chunks.clone());
                e.elements(l.dims[0].0, &l.body, &elements, &[]);
                e.scans.chunks = None;
            },
        );
    }

    /// A number for the block: how many blocks have started before it, in all launches.
    fn ticket_of_block(&mut self, counter: Reg) -> Reg {
        let at = self.b().take(Space::Shared, WORD as usize);
        let place = Address { base: None, offset: at };
        let first = self.is_first();
        self.when(first, |e| {
            let ticket = e.b().take_ticket(Address { base: Some(counter), offset: 0 });
            e.b().store(Space::Shared, Type::B64, ticket, place);
        });
        self.b().barrier();
        let ticket = self.b().load(Space::Shared, Type::B64, place);
        self.b().barrier();
        self.b().give_back(Space::Shared, WORD as usize);
        ticket
    }

    /// Leaves the result of the block's chunk.
    pub(super) fn leave(&mut self, chunks: &Chunks, value: ValueId, state: &[Reg]) {
        let words = self.words(chunks, (value, Passed::Own), chunks.number);
        self.pass(chunks, &words, state);
    }

    /// Waits for the result of the chunks before the block's chunk.
    pub(super) fn before(&mut self, chunks: &Chunks, value: ValueId) -> Vec<Reg> {
        let at = self.words(chunks, (value, Passed::Before), chunks.number);
        let words: Vec<Reg> = at.iter().map(|_| self.b().reg(Class::B64)).collect();
        self.while_(
            |e| {
                words.iter().zip(&at).for_each(|(word, at)| e.b().load_at_once(*word, *at));
                e.missing(chunks, &words)
            },
            |_| {},
        );
        let class = self.class_of(chunks.planes[&value].0);
        vec![self.unpacked(class, &words)]
    }

    /// Relays the results before each chunk, as those of the chunks come in. This is for one warp.
    /// The prefixes take turns, since a chunk may wait for one before it computes the next.
    fn relay_all(&mut self, chunks: &Chunks, window: i64) {
        let mut all = vec![];
        for (value, (merging, _)) in &chunks.planes {
            let number = self.b().mov(Type::S64, 0);
            all.push(Relayed { value: *value, merging: *merging, carry: merging.variable(self), number });
        }
        self.while_(
            |e| {
                let least = e.b().copy(chunks.count);
                all.iter()
                    .for_each(|one| e.b().op_to(least, Opcode::Min, Type::S64, &[least.into(), one.number.into()]));
                e.b().set(Comparison::Lt, Type::S64, least, chunks.count)
            },
            |e| all.iter().for_each(|one| e.relay_some(chunks, one, window)),
        );
    }

    /// Relays what has come in of a window of chunks.
    fn relay_some(&mut self, chunks: &Chunks, relayed: &Relayed, window: i64) {
        let Relayed { value, merging, carry, number } = relayed;
        let (size, rounds) = (merging.bytes(self.program), window / WARP);
        let thread = self.special(Special::Tid);
        let first = self.b().op2(Opcode::Add, Type::S64, *number, thread);
        // Each lane has chunks that are a warp apart.
        let at = self.words(chunks, (*value, Passed::Own), first);
        let of_round = |words: &[Address], round: i64| -> Vec<Address> {
            words.iter().map(|at| Address { offset: at.offset + round * WARP * WORD, ..*at }).collect()
        };
        let left = self.b().op2(Opcode::Sub, Type::S64, chunks.count, first);
        let mut states = vec![];
        for round in 0..rounds {
            let exists = self.b().set(Comparison::Gt, Type::S64, left, round * WARP);
            let words: Vec<Reg> = at.iter().map(|_| self.b().mov(Type::B64, 0)).collect();
            for (word, at) in words.iter().zip(of_round(&at, round)) {
                self.b().guarded(exists, |b| b.load_at_once(*word, at));
            }
            states.push(words);
        }
        // The chunks that have come in without a gap.
        let count = self.b().mov(Type::S64, 0);
        for (round, words) in (0..).zip(&states) {
            let missing = self.missing(chunks, words);
            let missing = self.b().ballot(missing);
            let below = self.b().op2(Opcode::Sub, Type::U32, missing, 1);
            let there = self.b().op(Opcode::Not, Type::B32, &[missing.into()]);
            let there = self.b().op2(Opcode::And, Type::B32, there, below);
            let there = self.b().op(Opcode::Popc, Type::B32, &[there.into()]);
            let there = self.b().convert(Rounding::Exact, Type::U64, Type::U32, there);
            let follows = self.b().set(Comparison::Eq, Type::S64, count, round * WARP);
            self.b().guarded(follows, |b| b.op_to(count, Opcode::Add, Type::S64, &[count.into(), there.into()]));
        }
        let some = self.b().set(Comparison::Gt, Type::S64, count, 0);
        self.when(some, |e| {
            // One place more: for the result of all.
            let bytes = ((window + 1) * size) as usize;
            let sums = SharedSums { at: e.b().take(Space::Shared, bytes), pitch: size };
            let place = e.b().element(Space::Shared, sums.at, thread, size);
            let own = |round: i64| Address { offset: place.offset + round * WARP * size, ..place };
            let class = e.class_of(*merging);
            for (round, words) in (0..).zip(&states) {
                let state = e.unpacked(class, words);
                merging.store(e, Space::Shared, &[state], own(round));
            }
            e.b().warp_barrier();
            let leads = e.b().set(Comparison::Eq, Type::S64, thread, 0);
            e.when(leads, |e| {
                let running: Vec<Reg> = carry.iter().map(|reg| e.b().copy(*reg)).collect();
                let zero = e.int(0);
                // In whole batches: what is behind the count is merged too, and forgotten.
                e.hand_on(*merging, &running, sums, zero..count);
                let end = e.b().op2(Opcode::Add, Type::S64, count, BATCH - 1);
                let end = e.b().op2(Opcode::And, Type::B64, end, -BATCH);
                let behind = e.b().element(Space::Shared, sums.at, end, size);
                merging.store(e, Space::Shared, &running, behind);
            });
            e.b().warp_barrier();
            let to = e.words(chunks, (*value, Passed::Before), first);
            let mine = e.b().op2(Opcode::Sub, Type::S64, count, thread);
            for round in 0..rounds {
                let is_in = e.b().set(Comparison::Gt, Type::S64, mine, round * WARP);
                e.when(is_in, |e| {
                    let before = merging.load(e, Space::Shared, own(round));
                    e.pass(chunks, &of_round(&to, round), &before);
                });
            }
            let last = if sabotage::on(Bug::PtxRelay) { e.int(0) } else { count };
            let last = e.b().element(Space::Shared, sums.at, last, size);
            let last = merging.load(e, Space::Shared, last);
            assign(e.b(), carry, &last);
            e.b().op_to(*number, Opcode::Add, Type::S64, &[(*number).into(), count.into()]);
            e.b().warp_barrier();
            e.b().give_back(Space::Shared, bytes);
        });
    }

    /// The words of a result for a chunk.
    fn words(&mut self, chunks: &Chunks, (value, passed): (ValueId, Passed), number: Reg) -> Vec<Address> {
        let (merging, first) = chunks.planes[&value];
        let halves = Relay::halves(merging.dtypes(self.program)[0]);
        let first = match passed {
            Passed::Own => first,
            Passed::Before => first + halves,
        };
        let mut words = vec![];
        for plane in first..first + halves {
            let in_plane = self.b().op(Opcode::Mad, Type::S64, &[chunks.count.into(), plane.into(), number.into()]);
            let at = self.b().op(Opcode::Mad, Type::S64, &[in_plane.into(), WORD.into(), chunks.words.into()]);
            words.push(Address { base: Some(at), offset: 0 });
        }
        words
    }

    /// Writes the words of a result.
    fn pass(&mut self, chunks: &Chunks, words: &[Address], state: &[Reg]) {
        let b = self.b();
        let halves = match b.class(state[0]) {
            Class::B64 => {
                let low = b.op2(Opcode::And, Type::B64, state[0], 0xffff_ffff);
                vec![low, b.op2(Opcode::Shr, Type::U64, state[0], 32)]
            }
            Class::B16 => vec![b.convert(Rounding::Exact, Type::U64, Type::U16, state[0])],
            Class::B32 | Class::Pred => vec![b.convert(Rounding::Exact, Type::U64, Type::U32, state[0])],
        };
        for (at, half) in words.iter().zip(halves) {
            let word = b.op2(Opcode::Or, Type::B64, half, chunks.launch);
            b.store_at_once(word, *at);
        }
    }

    /// Whether one of these words has not been written by this launch.
    fn missing(&mut self, chunks: &Chunks, words: &[Reg]) -> Reg {
        let b = self.b();
        let mut differs = b.op2(Opcode::Xor, Type::B64, words[0], chunks.launch);
        for word in &words[1..] {
            let other = b.op2(Opcode::Xor, Type::B64, *word, chunks.launch);
            differs = b.op2(Opcode::Or, Type::B64, differs, other);
        }
        b.set(Comparison::Ge, Type::U64, differs, 1 << 32)
    }

    /// The state in the low halves of words.
    fn unpacked(&mut self, class: Class, words: &[Reg]) -> Reg {
        let b = self.b();
        match (class, words) {
            (Class::B64, [low, high]) => {
                let low = b.op2(Opcode::And, Type::B64, *low, 0xffff_ffff);
                let high = b.op2(Opcode::Shl, Type::B64, *high, 32);
                b.op2(Opcode::Or, Type::B64, low, high)
            }
            (Class::B16, _) => b.convert(Rounding::Exact, Type::U16, Type::U64, words[0]),
            _ => b.convert(Rounding::Exact, Type::U32, Type::U64, words[0]),
        }
    }

    /// The class of the register with a state.
    fn class_of(&mut self, merging: Merging) -> Class {
        let nothing = merging.nothing(self)[0];
        self.b().class(nothing)
    }
}
