//! Conversions of values in `Lanes128`: masks of both widths, numbers of all types, and bytes in
//! memory.

use cranelift_codegen::ir::types::{F32X4, I8X16, I16X8, I32, I32X4};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value};
use ir::{CompareOp, Dtype, Scalar};

use super::lanes128::{Lanes128, Registers, little, splat_bits, vector};
use super::leaf::LeafEmitter;
use super::leaf::is_wide;

impl Lanes128<'_, '_> {
    /// Converts a mask to one register per group, or to two.
    pub(super) fn mask(&mut self, mask: &Registers, wide: bool) -> Registers {
        match (self.fills_two(mask), wide) {
            (false, true) => self.widen(mask, true),
            (true, false) => self.narrow(mask),
            _ => mask.clone(),
        }
    }

    /// Whether a value has two registers per group.
    pub(super) fn fills_two(&self, v: &Registers) -> bool {
        v.len() == 2 * self.at.groups
    }

    fn widen(&mut self, v: &Registers, signed: bool) -> Registers {
        let mut wide = vec![];
        for v in v {
            let ins = &mut self.e.b;
            wide.extend(if signed {
                [ins.ins().swiden_low(*v), ins.ins().swiden_high(*v)]
            } else {
                [ins.ins().uwiden_low(*v), ins.ins().uwiden_high(*v)]
            });
        }
        wide
    }

    /// Takes the low halves of the 64-bit lanes.
    fn narrow(&mut self, v: &Registers) -> Registers {
        let bytes = [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27];
        v.chunks(2).map(|pair| self.shuffle(pair[0], pair[1], bytes, I32X4)).collect()
    }

    fn shuffle(&mut self, a: Value, b: Value, bytes: [u8; 16], ty: Type) -> Value {
        let ins = &mut self.e.b;
        let a = ins.ins().bitcast(I8X16, little(), a);
        let b = ins.ins().bitcast(I8X16, little(), b);
        let mask = ins.func.dfg.immediates.push(bytes.to_vec().into());
        let shuffled = ins.ins().shuffle(a, b, mask);
        ins.ins().bitcast(ty, little(), shuffled)
    }

    /// Converts between types for which [`native_cast`] holds.
    pub(super) fn convert(&mut self, from: Dtype, to: Dtype, a: &Registers) -> Registers {
        match (from, to) {
            _ if from == to => a.clone(),
            (Dtype::F16 | Dtype::Bf16, _) => {
                let wide = self.widen_half(from, a);
                self.convert(Dtype::F32, to, &wide)
            }
            (_, Dtype::F16 | Dtype::Bf16) => {
                let wide = self.convert(from, Dtype::F32, a);
                self.narrow_half(to, &wide)
            }
            (Dtype::Bool, _) => {
                let mask = self.mask(a, is_wide(to));
                let ty = vector(to, false);
                let one = splat_bits(self.e, ty, Scalar::one(to).bits());
                self.each(&mask, |l, mask| {
                    let mask = l.e.b.ins().bitcast(ty, little(), mask);
                    l.e.b.ins().band(mask, one)
                })
            }
            (_, Dtype::Bool) => {
                let zero = self.constant(Scalar::zero(from));
                self.compare(CompareOp::Ne, from, a, &zero)
            }
            (Dtype::F32, Dtype::F64) => {
                let high = [8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15];
                let halves: Registers = a.iter().flat_map(|v| [*v, self.shuffle(*v, *v, high, F32X4)]).collect();
                self.each(&halves, |l, v| l.e.b.ins().fvpromote_low(v))
            }
            (Dtype::F64, Dtype::F32) => {
                let halves = self.each(a, |l, v| l.e.b.ins().fvdemote(v));
                let bytes = [0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23];
                halves.chunks(2).map(|pair| self.shuffle(pair[0], pair[1], bytes, F32X4)).collect()
            }
            (Dtype::F32, Dtype::U32) => self.each(a, |l, a| l.e.b.ins().fcvt_to_uint_sat(I32X4, a)),
            (Dtype::F32, _) => {
                let whole = self.each(a, |l, a| l.e.b.ins().fcvt_to_sint_sat(I32X4, a));
                let Some((least, most)) = to.narrow_range() else { return whole };
                let [least, most] = [least, most].map(|k| splat_bits(self.e, I32X4, k.cast_unsigned().into()));
                self.each(&whole, |l, v| {
                    let v = l.e.b.ins().smax(v, least);
                    l.e.b.ins().smin(v, most)
                })
            }
            (_, Dtype::F32 | Dtype::F64) => self.int_to_float(from, to, a),
            _ => self.int_to_int(from, to, a),
        }
    }

    fn int_to_float(&mut self, from: Dtype, to: Dtype, a: &Registers) -> Registers {
        let ty = vector(to, false);
        // Convert to `f64` via `i64`, which holds the others exactly. Narrow integers are signed in
        // their lanes.
        let signed = from != Dtype::U64 && (from != Dtype::U32 || is_wide(to));
        let source = if is_wide(to) && !is_wide(from) { self.widen(a, from != Dtype::U32) } else { a.clone() };
        self.each(&source, |l, v| {
            let ins = l.e.b.ins();
            if signed { ins.fcvt_from_sint(ty, v) } else { ins.fcvt_from_uint(ty, v) }
        })
    }

    fn int_to_int(&mut self, from: Dtype, to: Dtype, a: &Registers) -> Registers {
        let narrow = match (is_wide(from), is_wide(to)) {
            (false, true) => return self.widen(a, from != Dtype::U32),
            (true, true) => return a.clone(),
            (true, false) => self.narrow(a),
            (false, false) => a.clone(),
        };
        match to.narrow_range() {
            Some((0, most)) => {
                let low = splat_bits(self.e, I32X4, most.cast_unsigned().into());
                self.each(&narrow, |l, v| l.e.b.ins().band(v, low))
            }
            Some(_) => self.each(&narrow, |l, v| {
                let ins = &mut l.e.b;
                let amount = ins.ins().iconst(I32, 32 - 8 * to.bytes() as i64);
                let high = ins.ins().ishl(v, amount);
                ins.ins().sshr(high, amount)
            }),
            None => narrow,
        }
    }

    /// Loads four bytes into `i32` lanes.
    pub(super) fn load_bytes(&mut self, flags: MemFlagsData, signed: bool, address: Value, near: i32) -> Value {
        let b = &mut self.e.b;
        let word = b.ins().load(I32, flags, address, near);
        let word = b.ins().scalar_to_vector(I32X4, word);
        let bytes = b.ins().bitcast(I8X16, little(), word);
        if signed {
            let halves = b.ins().swiden_low(bytes);
            b.ins().swiden_low(halves)
        } else {
            let halves = b.ins().uwiden_low(bytes);
            b.ins().uwiden_low(halves)
        }
    }

    /// Stores four bytes from `i32` lanes, which hold them sign- or zero-extended.
    pub(super) fn store_bytes(&mut self, flags: MemFlagsData, signed: bool, v: Value, address: Value, near: i32) {
        let b = &mut self.e.b;
        let halves = b.ins().snarrow(v, v);
        debug_assert_eq!(b.func.dfg.value_type(halves), I16X8);
        let bytes = if signed { b.ins().snarrow(halves, halves) } else { b.ins().unarrow(halves, halves) };
        let words = b.ins().bitcast(I32X4, little(), bytes);
        let word = b.ins().extractlane(words, 0);
        b.ins().store(flags, word, address, near);
    }
}
