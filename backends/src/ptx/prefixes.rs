//! Prefixes of rows in registers, in the order of `ir::order`: neighbouring elements are on
//! neighbouring threads, which compute the prefixes of a group by shuffles. The carries of the
//! groups are a serial chain, which every thread of a warp computes, or one thread of a block for
//! each chunk.

use std::ops::Range;

use ir::Order;
use ir::nest::ValueId;
use ir::order::{Distribution, LANES, SCAN_GROUP, Scope};
use ir::sabotage::{self, Bug};

use super::build::Control;
use super::emit::Emitter;
use super::fold::{MergingCode, assign, shuffled};
use super::inst::{Address, Comparison, Opcode, Reg, Shuffle, Space, Special, Type};
use super::state::SyncScope;
use ir::merging::Merging;

/// The elements of a group.
const WIDTH: i64 = SCAN_GROUP as i64;
/// The groups that 128 threads hold, one element each.
const IN_ROUND: i64 = LANES as i64 / WIDTH;
/// The number of groups with sums that are loaded together.
pub(super) const BATCH: i64 = 16;

/// Sums in shared memory: the offset of the first, and the distance between them in bytes.
#[derive(Clone, Copy)]
pub(super) struct SharedSums {
    pub(super) at: i64,
    pub(super) pitch: i64,
}

impl Emitter<'_> {
    /// The prefixes of the elements of a row that a thread holds.
    pub(super) fn prefixes(&mut self, value: ValueId, fold: Merging, ones: &[Vec<Reg>]) -> Vec<Vec<Reg>> {
        let thread = self.special(Special::Tid);
        let place = self.b().op2(Opcode::And, Type::B64, thread, WIDTH - 1);
        let mut sums: Vec<Vec<Reg>> = vec![];
        for one in ones {
            sums.push(one.iter().map(|reg| self.b().copy(*reg)).collect());
        }
        for step in Order::Scan.tree().steps(&Distribution::new([Scope::Warp.of(SCAN_GROUP)])) {
            let distance = u32::try_from(step.distance).expect("a few threads");
            let reaches = if sabotage::on(Bug::PtxPrefix) { Comparison::Gt } else { Comparison::Ge };
            let joins = self.b().set(reaches, Type::S64, place, i64::from(distance));
            for sum in &sums {
                let other = shuffled(self.b(), sum, Shuffle::Up, distance);
                let joined = fold.merge(self, &other, sum);
                self.b().guarded(joins, |b| assign(b, sum, &joined));
            }
        }
        match self.mapping.sync_scope {
            SyncScope::Warp => self.carried_in_warp(fold, &sums),
            SyncScope::Block | SyncScope::Cluster => self.carried_in_block(value, fold, &sums, place),
        }
    }

    /// Merges the carries into the prefixes of a warp's row, which holds two groups at a time. Each
    /// thread computes all carries.
    fn carried_in_warp(&mut self, fold: Merging, sums: &[Vec<Reg>]) -> Vec<Vec<Reg>> {
        let rank = self.rank();
        let in_first = self.b().set(Comparison::Lt, Type::S64, rank, WIDTH);
        let nothing = fold.nothing(self);
        let mut carry = nothing.clone();
        let mut prefixes = vec![];
        for sum in sums {
            let [low, high] = [15, 31].map(|last| shuffled(self.b(), sum, Shuffle::Of, last));
            let second = fold.merge(self, &carry, &low);
            let own: Vec<Reg> = second.iter().map(|reg| self.b().copy(*reg)).collect();
            self.b().guarded(in_first, |b| assign(b, &own, &carry));
            carry = fold.merge(self, &second, &high);
            let in_chunk = fold.merge(self, &own, sum);
            prefixes.push(fold.merge(self, &nothing, &in_chunk));
        }
        prefixes
    }

    /// Replaces each sum of a range by the result of those before it, starting from `carry`, which
    /// becomes the result of all. They are processed in whole batches.
    pub(super) fn hand_on(&mut self, fold: Merging, carry: &[Reg], sums: SharedSums, range: Range<Reg>) {
        let SharedSums { at, pitch } = sums;
        self.counted(range.start, range.end, BATCH, |e, number| {
            let from = e.b().element(Space::Shared, at, number, pitch);
            let one = |k: i64| Address { offset: from.offset + k * pitch, ..from };
            let sums: Vec<Vec<Reg>> = (0..BATCH).map(|k| fold.load(e, Space::Shared, one(k))).collect();
            for (k, sum) in (0..).zip(&sums) {
                fold.store(e, Space::Shared, carry, one(k));
                fold.add(e, carry, sum);
            }
        });
    }

    /// Merges the carries into the prefixes of a block's row: the results of groups go through
    /// shared memory, where one thread for each chunk computes the carries.
    fn carried_in_block(&mut self, value: ValueId, fold: Merging, sums: &[Vec<Reg>], place: Reg) -> Vec<Vec<Reg>> {
        let of_scan = self.scans.chunks.clone();
        let chunks = i64::from(self.mapping.threads) / LANES as i64;
        let size = fold.bytes(self.program);
        // The groups of a chunk, or of a shorter row.
        let in_chunk = sums.len() as i64 * IN_ROUND;
        let whole = fold.place(self.program);
        // Of the chunks of the block, and of those before it.
        let results = chunks + i64::from(of_scan.is_some());
        let bytes = [chunks * in_chunk * size, results * whole].map(|bytes| bytes as usize);
        let [at, totals] = bytes.map(|bytes| self.b().take(Space::Shared, bytes));
        let (chunk, lane) = self.group_and_lane();
        let begin = self.b().op2(Opcode::Mul, Type::S64, chunk, in_chunk);
        let first = self.b().op2(Opcode::Shr, Type::U64, lane, i64::from(WIDTH.ilog2()));
        let first = self.b().op2(Opcode::Add, Type::S64, begin, first);
        let first = self.b().element(Space::Shared, at, first, size);
        let own = |k: i64| Address { offset: first.offset + k * IN_ROUND * size, ..first };
        let last = self.b().set(Comparison::Eq, Type::S64, place, WIDTH - 1);
        self.when(last, |e| {
            for (k, sum) in (0..).zip(sums) {
                fold.store(e, Space::Shared, sum, own(k));
            }
        });
        self.sync();
        let leads = self.b().set(Comparison::Eq, Type::S64, lane, 0);
        self.when(leads, |e| {
            let carry = fold.variable(e);
            let end = e.b().op2(Opcode::Add, Type::S64, begin, in_chunk);
            e.hand_on(fold, &carry, SharedSums { at, pitch: size }, begin..end);
            let total = e.b().element(Space::Shared, totals, chunk, whole);
            fold.store(e, Space::Shared, &carry, total);
            if let Some(chunks) = &of_scan {
                e.leave(chunks, value, &carry);
                let before = e.before(chunks, value);
                fold.store(e, Space::Shared, &before, Address { base: None, offset: totals + whole });
            }
        });
        self.sync();
        let before = fold.variable(self);
        if of_scan.is_some() {
            let state = fold.load(self, Space::Shared, Address { base: None, offset: totals + whole });
            assign(self.b(), &before, &state);
        }
        for k in 0..chunks - 1 {
            let later = self.b().set(Comparison::Gt, Type::S64, chunk, k);
            self.when(later, |e| {
                let total = fold.load(e, Space::Shared, Address { base: None, offset: totals + k * whole });
                fold.add(e, &before, &total);
            });
        }
        let mut prefixes = vec![];
        for (k, sum) in (0..).zip(sums) {
            let carry = fold.load(self, Space::Shared, own(k));
            let in_chunk = fold.merge(self, &carry, sum);
            prefixes.push(fold.merge(self, &before, &in_chunk));
        }
        if of_scan.is_some() {
            // Of a row there is one prefix, of a chunk any number, which have the same memory.
            self.b().barrier();
            bytes.iter().rev().for_each(|bytes| self.b().give_back(Space::Shared, *bytes));
        }
        prefixes
    }
}
