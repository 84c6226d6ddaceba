//! Long scans, at the top of a kernel: a block takes a chunk of the order. One launch computes what
//! each chunk gives alone, one makes of that what the chunks before each give, one thread in
//! ascending order, and one computes the prefixes.

use std::collections::BTreeMap;

use ir::nest::{BufferId, Loop, Op, Prefix, Statement, ValueId};
use ir::order::{LANES, SCAN_CHUNK};
use ir::sched::{Phase, is_scalar};

use super::build::Control;
use super::emit::{Argument, Emitter};
use super::fold::{MergingCode, assign};
use super::inst::{Address, Comparison, Opcode, Reg, Space, Special, Type};
use super::prefixes::SharedSums;
use ir::merging::Merging;

/// The threads of a block.
pub(super) const THREADS: u32 = LANES as u32;
/// The elements of a chunk that a thread holds.
const EACH: i64 = SCAN_CHUNK as i64 / THREADS as i64;
/// The bytes of memory for a chunk's result.
const PLACE: i64 = 8;

/// The current chunk of a long scan.
#[derive(Clone)]
pub(super) struct Chunk {
    phase: Phase,
    number: Reg,
    /// The buffers of the chunks' results, by prefix.
    buffers: BTreeMap<ValueId, BufferId>,
}

/// The prefixes of a scan.
fn prefixes<'l>(l: &'l Loop) -> Vec<(ValueId, &'l Prefix)> {
    let prefix = |s: &'l Statement| {
        if let Statement::Let { value, op: Op::Prefix(prefix) } = s { Some((*value, prefix)) } else { None }
    };
    l.body.iter().filter_map(prefix).collect()
}

impl Emitter<'_> {
    /// One phase of a long scan.
    pub(super) fn scan_chunks(&mut self, l: &Loop, phase: Phase, buffers: &[BufferId]) {
        let axes = self.axes(&l.dims, &l.body);
        let count = self.ceil_div(axes.total, SCAN_CHUNK as i64);
        let all = prefixes(l);
        if phase == Phase::Befores {
            for ((_, prefix), buffer) in all.iter().zip(buffers) {
                let fold = Merging::of_prefix(self.dtypes(), prefix);
                self.befores(fold, *buffer, count);
            }
            return;
        }
        let mut body = l.body.clone();
        if phase == Phase::Totals {
            // Totals need no stores: the second pass over the elements makes them.
            body.retain(is_scalar);
        }
        let index = l.dims[0].0;
        let buffers: BTreeMap<ValueId, BufferId> =
            all.iter().map(|(value, ..)| *value).zip(buffers.iter().copied()).collect();
        let [thread, block, blocks] = [Special::Tid, Special::Ctaid, Special::Nctaid].map(|s| self.special(s));
        self.counted(block, count, blocks, |e, number| {
            // Adjacent threads have adjacent elements, so that loads coalesce, and a thread's own
            // are LANES apart.
            let first = e.b().op(Opcode::Mad, Type::S64, &[number.into(), (SCAN_CHUNK as i64).into(), thread.into()]);
            let elements = e.thread_elements(first, axes.total, LANES as i64, EACH);
            e.scans.chunk = Some(Chunk { phase, number, buffers: buffers.clone() });
            e.elements(index, &body, &elements, &[]);
            e.scans.chunk = None;
            // The next chunk overwrites the values that this one reads.
            e.b().barrier();
        });
    }

    /// Prefixes of a chunk's elements as prefixes of all: or, where that is what is asked for, the
    /// last of them handed on.
    pub(super) fn past_chunk(&mut self, value: ValueId, fold: Merging, prefixes: Vec<Vec<Reg>>) -> Vec<Vec<Reg>> {
        let Some(Chunk { phase, number, buffers }) = self.scans.chunk.clone() else { return prefixes };
        let Some(buffer) = buffers.get(&value) else { return prefixes };
        let place = self.place_of_chunk(*buffer, number);
        if phase == Phase::Totals {
            let thread = self.special(Special::Tid);
            // The last thread's last prefix covers the whole chunk.
            let last = self.b().set(Comparison::Eq, Type::S64, thread, i64::from(THREADS) - 1);
            if let Some(total) = prefixes.last() {
                self.when(last, |e| fold.store(e, Space::Global, total, place));
            }
            return prefixes;
        }
        let before = fold.load(self, Space::Global, place);
        prefixes.iter().map(|own| fold.merge(self, &before, own)).collect()
    }

    fn place_of_chunk(&mut self, buffer: BufferId, number: Reg) -> Address {
        let base = self.argument(Argument::Buffer(buffer));
        let place = self.b().op(Opcode::Mad, Type::S64, &[number.into(), PLACE.into(), base.into()]);
        Address { base: Some(place), offset: 0 }
    }

    /// Turns the results of single chunks into those of the chunks before each.
    fn befores(&mut self, fold: Merging, buffer: BufferId, count: Reg) {
        let threads = i64::from(self.mapping.threads);
        let bytes = usize::try_from(threads * PLACE).unwrap_or(0);
        let at = self.b().take(Space::Shared, bytes);
        let thread = self.special(Special::Tid);
        let own = self.b().element(Space::Shared, at, thread, PLACE);
        let first = self.b().set(Comparison::Eq, Type::S64, thread, 0);
        let carry = fold.variable(self);
        let zero = self.int(0);
        let all = self.int(threads);
        self.counted(zero, count, threads, |e, base| {
            let number = e.b().op2(Opcode::Add, Type::S64, base, thread);
            let place = e.place_of_chunk(buffer, number);
            let exists = e.b().set(Comparison::Lt, Type::S64, number, count);
            let state = fold.variable(e);
            e.when(exists, |e| {
                let total = fold.load(e, Space::Global, place);
                assign(e.b(), &state, &total);
            });
            fold.store(e, Space::Shared, &state, own);
            e.b().barrier();
            e.when(first, |e| {
                // A serial chain: each total is replaced by the state of all before it.
                e.hand_on(fold, &carry, SharedSums { at, pitch: PLACE }, zero..all);
            });
            e.b().barrier();
            e.when(exists, |e| {
                let before = fold.load(e, Space::Shared, own);
                fold.store(e, Space::Global, &before, place);
            });
        });
        self.b().give_back(Space::Shared, bytes);
    }
}
