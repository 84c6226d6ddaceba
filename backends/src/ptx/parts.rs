//! The code for sums in parts (`split`): a block adds up one part, and the last one that ends adds
//! the sums of all.

use ir::{BinaryOp, Dtype, Scalar};

use super::build::{COUNTER, Control};
use super::emit::Emitter;
use super::inst::{Address, Comparison, Opcode, Reg, Space, Special, Type};
use super::scalar;
use super::split::{OfSplit, Split, WARPS};
use super::state::Argument;
use super::tile::{TilePart, bytes, held};

/// The most sums of a part that a thread loads together.
const LOADED: usize = 64;

/// The threads that learn together whether they are the last ones with sums of a tile.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Joining {
    Block,
    Warp,
}

impl Emitter<'_> {
    /// Emits a loop over the parts of this block's tiles, given the number of tiles. `make` gets
    /// the part, the first inner index of it and one past the last.
    pub(super) fn for_each_part<'s>(
        &mut self,
        split: &'s Split,
        tiles: Reg,
        depth: Reg,
        make: impl FnOnce(&mut Self, TilePart<'s>, [Reg; 2]),
    ) {
        let [parts, length] =
            [OfSplit::Parts, OfSplit::Length].map(|word| self.argument(Argument::OfSplit(split.clone(), word)));
        let [block, blocks] = [Special::Ctaid, Special::Nctaid].map(|s| self.special(s));
        let all = self.b().op2(Opcode::Mul, Type::S64, tiles, parts);
        self.counted(block, all, blocks, |e, number| {
            let tile = e.divide(None, number, parts);
            let first = e.b().op2(Opcode::Mul, Type::S64, tile, parts);
            let part = e.b().op2(Opcode::Sub, Type::S64, number, first);
            let from = e.b().op2(Opcode::Mul, Type::S64, part, length);
            let end = e.b().op2(Opcode::Add, Type::S64, from, length);
            let end = e.b().op2(Opcode::Min, Type::S64, end, depth);
            make(e, TilePart { split, tile, number, first, parts }, [from, end]);
        });
    }

    /// Adds this thread's sums of all parts of a tile, if it is one of the last that have sums of
    /// it, and continues with the whole sums. `threads` of a block have sums, of `dtype`, and load
    /// those of `at_once` parts together.
    pub(super) fn with_all_parts(
        &mut self,
        part: Option<&TilePart<'_>>,
        (joining, threads, at_once): (Joining, u32, i64),
        (dtype, sums): (Dtype, &[Reg]),
        make: impl FnOnce(&mut Self),
    ) {
        let Some(TilePart { split, tile, number, first, parts }) = part else { return make(self) };
        let (split, parts) = (*split, *parts);
        let complete = self.int(1);
        let complete = self.b().copy(complete);
        let several = self.b().set(Comparison::Gt, Type::S64, parts, 1);
        self.when(several, |e| {
            let [sums_at, ended] =
                [OfSplit::Sums, OfSplit::Ended].map(|word| e.argument(Argument::OfSplit(split.clone(), word)));
            // The sums of a block's threads are next to each other.
            let row = i64::from(threads) * bytes(dtype);
            let place = |e: &mut Self, number: Reg| {
                let thread = e.special(Special::Tid);
                let at = e.b().op(Opcode::Mad, Type::S64, &[number.into(), split.bytes.into(), sums_at.into()]);
                e.b().op(Opcode::Mad, Type::S64, &[thread.into(), bytes(dtype).into(), at.into()])
            };
            let (from, own) = (place(e, *first), place(e, *number));
            for (k, sum) in (0i64..).zip(sums) {
                e.b().store(Space::Global, held(dtype), *sum, Address { base: Some(own), offset: k * row });
            }
            let counter = |e: &mut Self| {
                let mut number = *tile;
                if joining == Joining::Warp {
                    let warp = e.warp();
                    number = e.b().op(Opcode::Mad, Type::S64, &[number.into(), WARPS.into(), warp.into()]);
                }
                e.b().op(Opcode::Mad, Type::S64, &[number.into(), COUNTER.into(), ended.into()])
            };
            let last = match joining {
                Joining::Block => e.ends_last(parts, counter),
                Joining::Warp => e.warp_ends_last(parts, counter),
            };
            let is_last = e.b().select(Type::B64, 1, 0, last);
            e.b().assign(complete, is_last);
            e.when(last, |e| {
                let zero = scalar::constant(e.b(), Scalar::zero(dtype));
                sums.iter().for_each(|sum| e.b().assign(*sum, zero));
                let from = e.b().copy(from);
                let none = e.int(0);
                e.counted(none, parts, at_once, |e, number| {
                    let there = (0..at_once).map(|k| {
                        let place = e.b().op2(Opcode::Add, Type::S64, number, k);
                        e.b().set(Comparison::Lt, Type::S64, place, parts)
                    });
                    let there: Vec<Reg> = there.collect();
                    let numbered: Vec<(i64, Reg)> = (0..).zip(sums.iter().copied()).collect();
                    for sums in numbered.chunks(LOADED) {
                        let loads = (0i64..).zip(&there).map(|(k, is_one)| {
                            let load = |(number, _): &(i64, Reg)| {
                                let at = Address { base: Some(from), offset: number * row + k * split.bytes };
                                let more = e.b().copy(zero);
                                e.b().guarded(*is_one, |b| b.load_to(more, Space::Global, held(dtype), at));
                                more
                            };
                            sums.iter().map(load).collect::<Vec<_>>()
                        });
                        let loaded: Vec<Vec<Reg>> = loads.collect();
                        for (is_one, part) in there.iter().zip(loaded) {
                            for ((_, sum), more) in sums.iter().zip(part) {
                                let more = scalar::binary(e.b(), BinaryOp::Add, dtype, *sum, more);
                                e.b().guarded(*is_one, |b| b.assign(*sum, more));
                            }
                        }
                    }
                    let next = at_once * split.bytes;
                    e.b().op_to(from, Opcode::Add, Type::S64, &[from.into(), next.into()]);
                });
            });
        });
        let complete = self.b().set(Comparison::Ne, Type::S64, complete, 0);
        self.when(complete, make);
    }
}
