//! Reductions that find the position of an extreme ([`Law::First`]), such as `argmax`, over
//! contiguous elements. First finds the extreme of a chunk with the widest vectors. Only if it
//! beats that of all earlier chunks, searches for its position.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{I32, I32X4, I64};
use cranelift_codegen::ir::{InstBuilder, Type, Value};
use ir::leaf::Leaf;
use ir::nest::{Block, IndexId, ValueId};
use ir::{CompareOp, Dtype, Monoid, Scalar};

use super::emit::Emitter;
use super::fold::{Fold, FoldCode};
use super::lanes128::{self, little};
use super::materialize::ScratchArray;
use super::scalar;
use super::state::offset;
use super::wide::reduce::Reducer;

/// The number of elements per iteration.
const STEP: usize = 16;
/// The number of elements that a chunk's buffer needs past its end.
pub(super) const ROOM: usize = STEP;

/// The state of the search: the extreme so far, and its position.
pub(super) struct Pick {
    fold: Fold,
    ty: Type,
    /// The extreme of a chunk as a function with wide vectors, and the leaf that loads the
    /// elements.
    wide: Option<(Leaf, Reducer)>,
}

impl Pick {
    /// For a fold that [`ir::sched::extreme`] returns.
    pub(super) fn new(fold: Fold) -> Pick {
        Pick { fold, ty: lanes128::vector(fold.dtype, false), wide: None }
    }

    /// Uses wide vectors, if possible. `loads` are statements that load `input`.
    pub(super) fn widen(&mut self, e: &mut Emitter<'_>, index: IndexId, loads: &Block, input: ValueId) {
        let Some(leaf) = e.leaf(index, loads, &[input]) else { return };
        self.wide = Reducer::new(e, &leaf, &[self.fold]).map(|reducer| (leaf, reducer));
    }

    /// The initial state: a value that no other is worse than, and position 0.
    pub(super) fn initial(&self, e: &mut Emitter<'_>) -> Vec<Value> {
        vec![self.fold.empty(e), e.int(0)]
    }

    fn is_float(&self) -> bool {
        self.fold.dtype.is_float()
    }

    fn beats(&self) -> CompareOp {
        if self.fold.op == Monoid::Max { CompareOp::Gt } else { CompareOp::Lt }
    }

    /// The better of two vectors, and `old` if either is NaN.
    fn better(&self, e: &mut Emitter<'_>, new: Value, old: Value) -> Value {
        if !self.is_float() {
            return lanes128::binary(e, self.fold.primitive(), self.fold.dtype, new, old);
        }
        // A comparison with NaN is false, so that the old vector stays.
        let (low, high) = if self.fold.op == Monoid::Max { (old, new) } else { (new, old) };
        let takes = e.b.ins().fcmp(FloatCC::LessThan, low, high);
        let takes = e.b.ins().bitcast(self.ty, little(), takes);
        e.b.ins().bitselect(takes, new, old)
    }

    fn load(&self, e: &mut Emitter<'_>, elements: ScratchArray, number: Value, k: usize) -> Value {
        let address = e.element(elements.base, self.ty.lane_type(), number);
        e.b.ins().load(self.ty, elements.flags, address, offset(16 * k))
    }

    /// Processes `count` elements, from position `first` on. May overwrite memory past them.
    pub(super) fn take(
        &self,
        e: &mut Emitter<'_>,
        state: &[Value],
        elements: ScratchArray,
        first: Value,
        count: Value,
    ) -> Vec<Value> {
        let (best, at) = (state[0], state[1]);
        let found = match &self.wide {
            Some((leaf, reducer)) => {
                let zero = e.int(0);
                reducer.run(e, leaf, zero, count)[0]
            }
            None => self.best(e, elements, count),
        };
        let mut takes = scalar::compare(&mut e.b, self.beats(), self.fold.dtype, found, best);
        if self.is_float() {
            // The first NaN beats any number, and nothing beats a NaN.
            let nan = e.b.ins().fcmp(FloatCC::Unordered, found, found);
            let number = e.b.ins().fcmp(FloatCC::Ordered, best, best);
            let first_nan = e.b.ins().band(nan, number);
            takes = e.b.ins().bor(takes, first_nan);
        }
        // Search the position only if the chunk has a better value. In random data that is rare:
        // the n-th chunk has one with probability 1/n.
        e.when(takes, &[best, at], |e| {
            let place = self.place(e, elements, found);
            vec![found, e.b.ins().iadd(first, place)]
        })
    }

    /// The extreme of `count` elements, or NaN if there is one. Overwrites memory past them.
    fn best(&self, e: &mut Emitter<'_>, elements: ScratchArray, count: Value) -> Value {
        let vectors = STEP / self.ty.lane_count() as usize;
        let empty = lanes128::splat_constant(e, self.fold.identity());
        // Pad the last step with the identity.
        let behind = e.element(elements.base, self.ty.lane_type(), count);
        for k in 0..vectors {
            e.b.ins().store(elements.flags, empty, behind, offset(16 * k));
        }
        let zero = e.int(0);
        let no_nan = lanes128::splat_bits(e, I32X4, 0);
        let mut initial = vec![empty; vectors];
        initial.push(no_nan);
        let last = e.counted(zero, count, STEP as i64, &initial, |e, number, state| {
            let mut next = vec![];
            let mut nans = state[vectors];
            for (k, best) in state[..vectors].iter().enumerate() {
                let x = self.load(e, elements, number, k);
                next.push(self.better(e, x, *best));
                if self.is_float() {
                    let nan = e.b.ins().fcmp(FloatCC::Unordered, x, x);
                    let nan = e.b.ins().bitcast(I32X4, little(), nan);
                    nans = e.b.ins().bor(nans, nan);
                }
            }
            next.push(nans);
            next
        });
        let mut lanes = last[..vectors].to_vec();
        while lanes.len() > 1 {
            let upper = lanes.split_off(lanes.len() / 2);
            lanes = lanes.into_iter().zip(upper).map(|(a, b)| self.better(e, b, a)).collect();
        }
        let found = self.best_lane(e, lanes[0]);
        if !self.is_float() {
            return found;
        }
        let nan = e.b.ins().vany_true(last[vectors]);
        // All NaN are alike to callers, so any one will do.
        let quiet = if self.fold.dtype == Dtype::F64 { Scalar::F64(f64::NAN) } else { Scalar::F32(f32::NAN) };
        let quiet = scalar::constant(&mut e.b, quiet);
        e.b.ins().select(nan, quiet, found)
    }

    /// The extreme lane of a vector without NaN.
    fn best_lane(&self, e: &mut Emitter<'_>, v: Value) -> Value {
        let op = self.beats();
        let mut best = e.b.ins().extractlane(v, 0);
        for lane in 1..self.ty.lane_count() {
            let x = e.b.ins().extractlane(v, u8::try_from(lane).expect("few lanes"));
            let better = scalar::compare(&mut e.b, op, self.fold.dtype, x, best);
            best = e.b.ins().select(better, x, best);
        }
        best
    }

    /// The position of the first element that equals `found`. There must be one.
    fn place(&self, e: &mut Emitter<'_>, elements: ScratchArray, found: Value) -> Value {
        let splat = e.b.ins().splat(self.ty, found);
        if !self.is_float() {
            return self.first(e, elements, &|e, x| e.b.ins().icmp(IntCC::Equal, x, splat));
        }
        let is_nan = e.b.ins().fcmp(FloatCC::Unordered, found, found);
        let nan = |e: &mut Emitter<'_>, x| e.b.ins().fcmp(FloatCC::Unordered, x, x);
        let equal = |e: &mut Emitter<'_>, x| e.b.ins().fcmp(FloatCC::Equal, x, splat);
        e.either(is_nan, &[I64], |e| vec![self.first(e, elements, &nan)], |e| vec![self.first(e, elements, &equal)])[0]
    }

    /// The position of the first element with its lane set in `hits`. There must be one.
    fn first(
        &self,
        e: &mut Emitter<'_>,
        elements: ScratchArray,
        hits: &dyn Fn(&mut Emitter<'_>, Value) -> Value,
    ) -> Value {
        let lanes = self.ty.lane_count() as usize;
        let step = |e: &mut Emitter<'_>, number: Value| -> Vec<Value> {
            let all = 0..STEP / lanes;
            all.map(|k| {
                let x = self.load(e, elements, number, k);
                hits(e, x)
            })
            .collect()
        };
        // The loop advances before it looks, so it starts one step early.
        let before = e.int(-(STEP as i64));
        let number = e.repeat(&[before], |e, state| {
            let number = e.b.ins().iadd_imm_s(state[0], STEP as i64);
            let all = step(e, number).into_iter().reduce(|a, b| e.b.ins().bor(a, b)).expect("a step has elements");
            let bits = e.b.ins().vhigh_bits(I32, all);
            (e.b.ins().icmp_imm_s(IntCC::Equal, bits, 0), vec![number])
        })[0];
        let mut bits = e.b.ins().iconst(I32, 0);
        for hits in step(e, number).into_iter().rev() {
            let hits = e.b.ins().vhigh_bits(I32, hits);
            // From the last vector to the first, so that the bits of the first end up lowest.
            let behind = e.b.ins().ishl_imm_u(bits, lanes as i64);
            bits = e.b.ins().bor(behind, hits);
        }
        let lane = e.b.ins().ctz(bits);
        let lane = e.b.ins().uextend(I64, lane);
        e.b.ins().iadd(number, lane)
    }
}
