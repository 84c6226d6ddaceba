//! Long scans at the top of a kernel, in one launch: each block takes a chunk of the order, leaves
//! its result for the blocks behind it, and looks back at the results that the blocks before have
//! left (Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", 2016).
//! The results of chunks are merged one after another, in ascending order, as the order says: so
//! each block merges those of a whole window by itself, and waits for the merged result of the
//! block before the window.
//!
//! A result is left in words of 64 bits, each of which is written at once: the low half has the
//! bits, and the high half the number of the launch, so that no launch has to clear what the one
//! before it has left. Blocks take chunks in the order in which they start. So a block only waits
//! for blocks that have started, and those do not wait for it.

use std::collections::BTreeMap;

use ir::merging::Merging;
use ir::nest::{Loop, ValueId};
use ir::order::{LANES, SCAN_CHUNK};
use ir::sabotage::{self, Bug};
use ir::sched::{LookBack, single_prefixes};

use super::build::Control;
use super::emit::{Argument, Emitter};
use super::fold::{MergingCode, assign};
use super::inst::{Address, Class, Comparison, Opcode, Reg, Rounding, Space, Special, Type};

/// The threads of a block.
pub(super) const THREADS: u32 = LANES as u32;
/// The elements of a chunk that a thread holds.
const EACH: i64 = SCAN_CHUNK as i64 / THREADS as i64;
/// The bytes of a word.
const WORD: i64 = 8;
const WARP: i64 = 32;
/// The number of results that are loaded from shared memory together.
const BATCH: i64 = 16;

/// The current chunk of a long scan.
#[derive(Clone)]
pub(super) struct Chunk {
    number: Reg,
    /// The number of chunks.
    count: Reg,
    /// The address of the first word of chunks.
    words: Reg,
    /// The number of the launch, in the high half.
    launch: Reg,
    window: i64,
    /// For each prefix, the number of its first plane. A plane has one word of each chunk.
    planes: BTreeMap<ValueId, i64>,
}

/// The results of a prefix that a chunk leaves.
#[derive(Clone, Copy)]
pub(super) enum Left {
    /// That of the chunk alone.
    Own,
    /// That of the chunk and all before it.
    Total,
}

/// A word that a thread waits for.
struct Awaited {
    at: Address,
    /// Whether there is such a word.
    exists: Reg,
}

impl Emitter<'_> {
    /// A scan in chunks.
    pub(super) fn look_back(&mut self, l: &Loop, look_back: &LookBack) {
        let axes = self.axes(&l.dims, &l.body);
        let count = self.ceil_div(axes.total, SCAN_CHUNK as i64);
        let base = self.argument(Argument::Buffer(look_back.buffer));
        let ticket = self.ticket_of_block(base);
        // Each launch takes as many tickets as it has blocks.
        let blocks = self.special(Special::Nctaid);
        let launch = self.b().op2(Opcode::Div, Type::U64, ticket, blocks);
        let launch = self.b().op2(Opcode::Add, Type::U64, launch, 1);
        let launch = self.b().op2(Opcode::Shl, Type::B64, launch, 32);
        let number = self.b().op2(Opcode::Rem, Type::U64, ticket, blocks);
        let words = self.b().op2(Opcode::Add, Type::U64, base, WORD);
        let (mut planes, mut taken) = (BTreeMap::new(), 0);
        for (value, prefix) in single_prefixes(l).unwrap_or_default() {
            planes.insert(value, taken);
            taken += prefix.single().map_or(0, |(_, input)| LookBack::words(self.dtypes()[input]));
        }
        let exists = self.b().set(Comparison::Lt, Type::S64, number, count);
        // A grid has a block even if there is only a check to make.
        self.when(exists, |e| {
            let thread = e.special(Special::Tid);
            // Adjacent threads have adjacent elements, so that loads coalesce, and a thread's own
            // are LANES apart.
            let first = e.b().op(Opcode::Mad, Type::S64, &[number.into(), (SCAN_CHUNK as i64).into(), thread.into()]);
            let elements = e.thread_elements(first, axes.total, LANES as i64, EACH);
            e.scans.chunk = Some(Chunk { number, count, words, launch, window: look_back.window, planes });
            e.elements(l.dims[0].0, &l.body, &elements, &[]);
            e.scans.chunk = None;
        });
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

    /// Leaves a result of the current chunk for the blocks behind it.
    pub(super) fn leave(&mut self, chunk: &Chunk, value: ValueId, (left, fold): (Left, Merging), state: &[Reg]) {
        let halves = halves(self, state[0]);
        let number = chunk.number;
        for (at, half) in self.words(chunk, value, (left, fold), number).into_iter().zip(halves) {
            let word = self.b().op2(Opcode::Or, Type::B64, half, chunk.launch);
            self.b().store_at_once(word, at);
        }
    }

    /// The words of a result of a chunk.
    fn words(&mut self, chunk: &Chunk, value: ValueId, (left, fold): (Left, Merging), number: Reg) -> Vec<Address> {
        let halves = LookBack::halves(fold.dtypes(self.program)[0]);
        let first = chunk.planes[&value]
            + match left {
                Left::Own => 0,
                Left::Total => halves,
            };
        let place = |half: i64| {
            let in_plane =
                self.b().op(Opcode::Mad, Type::S64, &[chunk.count.into(), (first + half).into(), number.into()]);
            let at = self.b().op(Opcode::Mad, Type::S64, &[in_plane.into(), WORD.into(), chunk.words.into()]);
            Address { base: Some(at), offset: 0 }
        };
        (0..halves).map(place).collect()
    }

    /// The result of the chunks before the current one, stored in shared memory at `to`, by a warp.
    pub(super) fn before(&mut self, chunk: &Chunk, value: ValueId, fold: Merging, to: Address) {
        let (number, window) = (chunk.number, chunk.window);
        let thread = self.special(Special::Tid);
        let lane = self.b().op2(Opcode::And, Type::B64, thread, WARP - 1);
        // The number of the first chunk of the window, which may be below 0, and that of the
        // thread's first.
        let first = self.b().op2(Opcode::Sub, Type::S64, number, window);
        let own = self.b().op2(Opcode::Add, Type::S64, first, lane);
        let mut awaited = vec![];
        let rounds = window / WARP;
        for at in self.words(chunk, value, (Left::Own, fold), own) {
            for round in 0..rounds {
                let exists = self.b().set(Comparison::Ge, Type::S64, own, -WARP * round);
                awaited.push(Awaited { at: Address { offset: at.offset + WORD * WARP * round, ..at }, exists });
            }
        }
        let beyond = self.b().op2(Opcode::Sub, Type::S64, first, 1);
        let more = self.b().set(Comparison::Gt, Type::S64, first, 0);
        let total = self.words(chunk, value, (Left::Total, fold), beyond);
        awaited.extend(total.into_iter().map(|at| Awaited { at, exists: more }));
        let halves = self.await_words(chunk, &awaited);
        let (own, total) = halves.split_at(halves.len() - halves.len() / (rounds as usize + 1));

        let size = fold.bytes(self.program);
        let bytes = (window * size) as usize;
        let at = self.b().take(Space::Shared, bytes);
        let place = self.b().element(Space::Shared, at, lane, size);
        let nothing = fold.nothing(self)[0];
        let class = self.b().class(nothing);
        for round in 0..rounds as usize {
            let halves: Vec<Reg> = own.iter().skip(round).step_by(rounds as usize).copied().collect();
            let state = joined(self, class, &halves);
            let offset = place.offset + round as i64 * WARP * size;
            fold.store(self, Space::Shared, &[state], Address { offset, ..place });
        }
        self.b().warp_barrier();
        let leads = self.b().set(Comparison::Eq, Type::S64, lane, 0);
        self.when(leads, |e| {
            let before = fold.variable(e);
            e.when(more, |e| {
                let state = joined(e, class, total);
                assign(e.b(), &before, &[state]);
            });
            // Places of the window that are before the first chunk have no result.
            let none = e.b().op(Opcode::Neg, Type::S64, &[first.into()]);
            let begin = e.b().op2(Opcode::Max, Type::S64, none, 0);
            let whole = e.b().op2(Opcode::And, Type::B64, begin, -BATCH);
            let end = e.int(window);
            e.counted(whole, end, BATCH, |e, number| {
                let from = e.b().element(Space::Shared, at, number, size);
                let one = |k: i64| Address { offset: from.offset + k * size, ..from };
                let states: Vec<Vec<Reg>> = (0..BATCH).map(|k| fold.load(e, Space::Shared, one(k))).collect();
                let left = e.b().op2(Opcode::Sub, Type::S64, begin, number);
                let within = if sabotage::on(Bug::PtxLookBack) { Comparison::Lt } else { Comparison::Le };
                for (k, state) in (0..).zip(&states) {
                    let is_one = e.b().set(within, Type::S64, left, k);
                    let merged = fold.merge(e, &before, state);
                    e.b().guarded(is_one, |b| assign(b, &before, &merged));
                }
            });
            fold.store(e, Space::Shared, &before, to);
        });
        self.b().give_back(Space::Shared, bytes);
    }

    /// Waits until words of this launch are there. Returns their low halves, as 64 bits.
    fn await_words(&mut self, chunk: &Chunk, awaited: &[Awaited]) -> Vec<Reg> {
        // A word that does not exist is taken to be there.
        let words: Vec<Reg> = awaited.iter().map(|_| self.b().copy(chunk.launch)).collect();
        self.while_(
            |e| {
                for (word, Awaited { at, exists }) in words.iter().zip(awaited) {
                    e.b().guarded(*exists, |b| b.load_at_once(*word, *at));
                }
                let mut differs = e.int(0);
                for word in &words {
                    let other = e.b().op2(Opcode::Xor, Type::B64, *word, chunk.launch);
                    differs = e.b().op2(Opcode::Or, Type::B64, differs, other);
                }
                let missing = e.b().set(Comparison::Ge, Type::U64, differs, 1i64 << 32);
                e.b().any(missing)
            },
            |_| {},
        );
        words.iter().map(|word| self.b().op2(Opcode::And, Type::B64, *word, 0xffff_ffff)).collect()
    }
}

/// The halves of a state, each as 64 bits with a high half of zeros.
fn halves(e: &mut Emitter<'_>, state: Reg) -> Vec<Reg> {
    let b = e.b();
    match b.class(state) {
        Class::B64 => {
            let low = b.op2(Opcode::And, Type::B64, state, 0xffff_ffff);
            vec![low, b.op2(Opcode::Shr, Type::U64, state, 32)]
        }
        Class::B16 => vec![b.convert(Rounding::Exact, Type::U64, Type::U16, state)],
        Class::B32 | Class::Pred => vec![b.convert(Rounding::Exact, Type::U64, Type::U32, state)],
    }
}

/// The state that has these halves.
fn joined(e: &mut Emitter<'_>, class: Class, halves: &[Reg]) -> Reg {
    let b = e.b();
    match (class, halves) {
        (Class::B64, [low, high]) => {
            let high = b.op2(Opcode::Shl, Type::B64, *high, 32);
            b.op2(Opcode::Or, Type::B64, *low, high)
        }
        (Class::B16, _) => b.convert(Rounding::Exact, Type::U16, Type::U64, halves[0]),
        _ => b.convert(Rounding::Exact, Type::U32, Type::U64, halves[0]),
    }
}
