//! `Lanes128`: leaves in Cranelift's 128-bit vectors, on every target.
//!
//! A step is a group of [`GROUP`] elements, whatever their types: a value of four bytes fills one register, one of
//! eight bytes two. One-byte integers are kept widened in `i32` lanes. A `bool` is a mask, lanes all ones or all
//! zeros, as wide as the comparison that made it: one register of 32-bit lanes or two of 64-bit lanes. What Cranelift
//! has no vector form of is done lane by lane with the scalar operation.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F32, F32X4, F64, F64X2, I8, I8X16, I16X8, I32, I32X4, I64, I64X2};
use cranelift_codegen::ir::{Endianness, InstBuilder, MemFlagsData, Type, Value};
use ir::nest::{IndexId, ValueId};
use ir::{Affine, BinaryOp, CompareOp, Dtype, Scalar, Size, UnaryOp};

use super::emit::Emitter;
use super::leaf::{Inst, Leaf, LeafEmitter, LeafId, Step};
use super::scalar;

/// Elements of a step.
pub(super) const GROUP: i64 = 4;

/// The registers that hold a value for a group.
type Parts = Vec<Value>;

/// The vector type of a value's registers; `wide` is for masks.
pub(super) fn vector(dtype: Dtype, wide: bool) -> Type {
    match dtype {
        Dtype::F32 => F32X4,
        Dtype::F64 => F64X2,
        Dtype::I64 | Dtype::U64 => I64X2,
        Dtype::Bool if wide => I64X2,
        _ => I32X4,
    }
}

fn is_wide(dtype: Dtype) -> bool {
    dtype.bytes() == 8
}

/// Whether the operations of a leaf are mostly ones that vectors have.
pub(super) fn worthwhile(leaf: &Leaf) -> bool {
    let (mut native, mut other) = (0, 0);
    for step in &leaf.steps {
        let good = match step {
            Step::Value(id) if leaf.is_uniform(*id) => continue,
            Step::Value(id) => is_native(leaf, *id),
            Step::Store { access, .. } => leaf.accesses[*access].contiguous(),
        };
        *(if good { &mut native } else { &mut other }) += 1;
    }
    native > other
}

/// Whether the operation has a vector form that is better than lane by lane.
fn is_native(leaf: &Leaf, id: LeafId) -> bool {
    let (dtype, inst) = &leaf.values[id];
    match inst {
        Inst::Load(access) => leaf.accesses[*access].contiguous(),
        Inst::Binary(BinaryOp::Shl | BinaryOp::Shr, _, amount) => leaf.is_uniform(*amount),
        Inst::Binary(op, ..) => native_binary(*op, *dtype),
        Inst::Cast(a) => native_cast(leaf.values[*a].0, *dtype),
        _ => true,
    }
}

fn native_binary(op: BinaryOp, dtype: Dtype) -> bool {
    match op {
        BinaryOp::Div => dtype.is_float(),
        BinaryOp::Rem | BinaryOp::Shl | BinaryOp::Shr => false,
        _ => true,
    }
}

fn native_cast(from: Dtype, to: Dtype) -> bool {
    match (from, to) {
        (Dtype::F64, _) => matches!(to, Dtype::F32 | Dtype::F64 | Dtype::Bool),
        (Dtype::F32, _) => !matches!(to, Dtype::I64 | Dtype::U64),
        (Dtype::I64 | Dtype::U64, _) => to != Dtype::F32,
        _ => true,
    }
}

/// How many groups to have in flight: enough to hide latency, fewer for long bodies, which have parallelism of their own.
pub(super) fn unroll(weight: usize) -> i64 {
    match weight {
        0..=16 => 4,
        17..=64 => 2,
        _ => 1,
    }
}

/// Runs the leaf over `from..to` (not empty) as far as whole groups reach; returns where it stopped.
pub(super) fn run(e: &mut Emitter<'_>, leaf: &Leaf, from: Value, to: Value) -> Value {
    let operands = Operands::new(e, leaf);
    let unroll = unroll(leaf.weight());
    let mut done = from;
    let mut groups = unroll;
    while groups > 0 {
        let step = groups * GROUP;
        let count = e.b.ins().isub(to, done);
        let whole = e.b.ins().band_imm_s(count, -step);
        let stop = e.b.ins().iadd(done, whole);
        e.counted(done, stop, step, &[], |e, i, _| {
            for group in 0..groups {
                emit_group(e, leaf, &operands, i, group * GROUP);
            }
            vec![]
        });
        done = stop;
        groups = if groups > 1 { 1 } else { 0 };
    }
    done
}

/// Emits the group of elements that starts at `i + offset`.
pub(super) fn emit_group(e: &mut Emitter<'_>, leaf: &Leaf, operands: &Operands, i: Value, offset: i64) -> Vec<Parts> {
    leaf.emit(&mut Lanes128 { e, leaf, operands, i, offset })
}

/// What is computed once before the loop: the address of each access at index 0, with a constant to add.
pub(super) struct Operands {
    starts: Vec<(Value, i32)>,
}

impl Operands {
    pub(super) fn new(e: &mut Emitter<'_>, leaf: &Leaf) -> Operands {
        for (value, op) in &leaf.uniform {
            e.let_(*value, op);
        }
        Operands { starts: leaf.accesses.iter().map(|a| e.address(a.buffer, &a.start)).collect() }
    }
}

struct Lanes128<'l, 'a> {
    e: &'l mut Emitter<'a>,
    leaf: &'l Leaf,
    operands: &'l Operands,
    /// The element's number, but for `offset`.
    i: Value,
    offset: i64,
}

/// A vector whose lanes are all `value`.
fn splat_bits(e: &mut Emitter<'_>, ty: Type, bits: u64) -> Value {
    let mut bytes = vec![];
    for _ in 0..ty.lane_count() {
        bytes.extend_from_slice(&bits.to_le_bytes()[..ty.lane_type().bytes() as usize]);
    }
    let constant = e.b.func.dfg.constants.insert(bytes.into());
    e.b.ins().vconst(ty, constant)
}

/// The constant's bits as they stand in a lane.
pub(super) fn lane_bits(value: Scalar) -> u64 {
    match value {
        Scalar::Bool(v) => 0u64.wrapping_sub(v.into()),
        Scalar::I8(v) => i64::from(v).cast_unsigned(),
        other => other.bits(),
    }
}

/// A constant in all lanes of one register.
pub(super) fn splat_constant(e: &mut Emitter<'_>, value: Scalar) -> Value {
    splat_bits(e, vector(value.dtype(), false), lane_bits(value))
}

fn little() -> MemFlagsData {
    MemFlagsData::new().with_endianness(Endianness::Little)
}

impl Lanes128<'_, '_> {
    fn each(&mut self, a: &Parts, mut op: impl FnMut(&mut Self, Value) -> Value) -> Parts {
        a.iter().map(|a| op(self, *a)).collect()
    }

    fn each2(&mut self, a: &Parts, b: &Parts, mut op: impl FnMut(&mut Self, Value, Value) -> Value) -> Parts {
        a.iter().zip(b).map(|(a, b)| op(self, *a, *b)).collect()
    }

    /// A mask in one or in two registers.
    fn mask(&mut self, mask: &Parts, wide: bool) -> Parts {
        match (mask.as_slice(), wide) {
            ([narrow], true) => self.widen(*narrow, true),
            ([low, high], false) => vec![self.narrow(*low, *high)],
            _ => mask.clone(),
        }
    }

    fn widen(&mut self, v: Value, signed: bool) -> Parts {
        if signed {
            vec![self.e.b.ins().swiden_low(v), self.e.b.ins().swiden_high(v)]
        } else {
            vec![self.e.b.ins().uwiden_low(v), self.e.b.ins().uwiden_high(v)]
        }
    }

    /// The low halves of the 64-bit lanes of two registers, in one.
    fn narrow(&mut self, low: Value, high: Value) -> Value {
        self.shuffle(low, high, [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27], I32X4)
    }

    fn shuffle(&mut self, a: Value, b: Value, bytes: [u8; 16], ty: Type) -> Value {
        let ins = &mut self.e.b;
        let a = ins.ins().bitcast(I8X16, little(), a);
        let b = ins.ins().bitcast(I8X16, little(), b);
        let mask = ins.func.dfg.immediates.push(bytes.to_vec().into());
        let shuffled = ins.ins().shuffle(a, b, mask);
        ins.ins().bitcast(ty, little(), shuffled)
    }

    fn splat(&mut self, ty: Type, bits: u64) -> Value {
        splat_bits(self.e, ty, bits)
    }

    /// A shift of all lanes by one amount below their width.
    fn shift_lanes(&mut self, op: BinaryOp, signed: bool, v: Value, amount: Value) -> Value {
        let ins = &mut self.e.b;
        match (op, signed) {
            (BinaryOp::Shl, _) => ins.ins().ishl(v, amount),
            (_, true) => ins.ins().sshr(v, amount),
            (_, false) => ins.ins().ushr(v, amount),
        }
    }

    /// A scalar in register form as it stands in a lane.
    fn lane(&mut self, dtype: Dtype, v: Value) -> Value {
        let b = &mut self.e.b;
        match dtype {
            Dtype::Bool => {
                let wide = b.ins().uextend(I32, v);
                b.ins().ineg(wide)
            }
            Dtype::I8 => b.ins().sextend(I32, v),
            Dtype::U8 => b.ins().uextend(I32, v),
            _ => v,
        }
    }

    /// The scalars of a group, in register form.
    fn lanes(&mut self, dtype: Dtype, v: &Parts) -> Vec<Value> {
        let count = 4 / v.len();
        let mut lanes = vec![];
        for lane in 0..4 {
            let b = &mut self.e.b;
            let value = b.ins().extractlane(v[lane / count], u8::try_from(lane % count).expect("few lanes"));
            lanes.push(match dtype {
                Dtype::Bool => {
                    let byte = b.ins().ireduce(I8, value);
                    b.ins().band_imm_u(byte, 1)
                }
                Dtype::I8 | Dtype::U8 => b.ins().ireduce(I8, value),
                _ => value,
            });
        }
        lanes
    }

    /// The group of four scalars in register form.
    fn gather_lanes(&mut self, dtype: Dtype, scalars: &[Value]) -> Parts {
        let ty = vector(dtype, false);
        let count = ty.lane_count() as usize;
        let mut parts = vec![];
        for chunk in scalars.chunks(count) {
            let first = self.lane(dtype, chunk[0]);
            let mut v = self.e.b.ins().scalar_to_vector(ty, first);
            for (lane, scalar) in chunk.iter().enumerate().skip(1) {
                let scalar = self.lane(dtype, *scalar);
                v = self.e.b.ins().insertlane(v, scalar, u8::try_from(lane).expect("few lanes"));
            }
            parts.push(v);
        }
        parts
    }

    /// An operation lane by lane.
    fn lane_by_lane(
        &mut self,
        result: Dtype,
        operands: &[(Dtype, &Parts)],
        mut op: impl FnMut(&mut Emitter<'_>, &[Value]) -> Value,
    ) -> Parts {
        let lanes: Vec<Vec<Value>> = operands.iter().map(|(dtype, v)| self.lanes(*dtype, v)).collect();
        let scalars: Vec<Value> = (0..4)
            .map(|lane| {
                let arguments: Vec<Value> = lanes.iter().map(|l| l[lane]).collect();
                op(self.e, &arguments)
            })
            .collect();
        self.gather_lanes(result, &scalars)
    }

    /// The address of the group's first element of an access that steps evenly, and a constant to add.
    fn even_address(&mut self, access: usize) -> (Value, i32) {
        let leaf = self.leaf;
        let a = &leaf.accesses[access];
        let (start, near) = self.operands.starts[access];
        let width = i64::try_from(self.e.buffer_dtype(a.buffer).bytes()).expect("a small number");
        let bytes = &a.stride * &Size::constant(width);
        match bytes.as_constant().and_then(|c| Some((c, i32::try_from(c.checked_mul(self.offset)?).ok()?))) {
            Some((stride, offset)) if near.checked_add(offset).is_some() => {
                let moved = self.e.b.ins().imul_imm_s(self.i, stride);
                (self.e.b.ins().iadd(start, moved), near + offset)
            }
            _ => {
                let i = self.e.b.ins().iadd_imm_s(self.i, self.offset);
                let stride = self.e.size(&bytes);
                let moved = self.e.b.ins().imul(i, stride);
                (self.e.b.ins().iadd(start, moved), near)
            }
        }
    }

    /// The address of each element of the group, for accesses that are not contiguous.
    fn element_addresses(&mut self, access: usize, gathered: &[Parts]) -> Vec<(Value, i32)> {
        let leaf = self.leaf;
        let a = &leaf.accesses[access];
        let (first, near) = self.even_address(access);
        let width = Size::constant(i64::try_from(self.e.buffer_dtype(a.buffer).bytes()).expect("a small number"));
        let subscripts: Vec<Vec<Value>> = gathered.iter().map(|g| self.lanes(Dtype::I64, g)).collect();
        let mut address = first;
        let mut addresses = vec![];
        for lane in 0..4 {
            if lane > 0 {
                let stride = self.e.size(&(&a.stride * &width));
                address = self.e.b.ins().iadd(address, stride);
            }
            let mut at = address;
            for (subscript, (_, stride)) in subscripts.iter().zip(&a.gathered) {
                let stride = self.e.size(&(stride * &width));
                let moved = self.e.b.ins().imul(subscript[lane], stride);
                at = self.e.b.ins().iadd(at, moved);
            }
            addresses.push((at, near));
        }
        addresses
    }

    /// Four bytes in memory, as `i32` lanes.
    fn load_bytes(&mut self, flags: MemFlagsData, signed: bool, address: Value, near: i32) -> Value {
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

    /// Lanes of `i32`, each a byte's value by its sign or without, to four bytes in memory.
    fn store_bytes(&mut self, flags: MemFlagsData, signed: bool, v: Value, address: Value, near: i32) {
        let b = &mut self.e.b;
        let halves = b.ins().snarrow(v, v);
        debug_assert_eq!(b.func.dfg.value_type(halves), I16X8);
        let bytes = if signed { b.ins().snarrow(halves, halves) } else { b.ins().unarrow(halves, halves) };
        let words = b.ins().bitcast(I32X4, little(), bytes);
        let word = b.ins().extractlane(words, 0);
        b.ins().store(flags, word, address, near);
    }
}

impl LeafEmitter for Lanes128<'_, '_> {
    type Vector = Parts;

    fn constant(&mut self, value: Scalar) -> Parts {
        let splat = splat_constant(self.e, value);
        vec![splat; if is_wide(value.dtype()) { 2 } else { 1 }]
    }

    fn uniform(&mut self, dtype: Dtype, value: ValueId) -> Parts {
        let scalar = self.e.value(value);
        let lane = self.lane(dtype, scalar);
        let splat = self.e.b.ins().splat(vector(dtype, false), lane);
        vec![splat; if is_wide(dtype) { 2 } else { 1 }]
    }

    fn affine(&mut self, base: &Affine<IndexId>, coefficient: &Size) -> Parts {
        let base = self.e.affine(base);
        let coefficient_value = self.e.size(coefficient);
        let i = self.e.b.ins().iadd_imm_s(self.i, self.offset);
        let moved = self.e.b.ins().imul(i, coefficient_value);
        let first = self.e.b.ins().iadd(base, moved);
        if let Some(c) = coefficient.as_constant() {
            let first = self.e.b.ins().splat(I64X2, first);
            return [[0, 1], [2, 3]]
                .map(|lanes: [i64; 2]| {
                    let bytes: Vec<u8> = lanes.iter().flat_map(|l| l.wrapping_mul(c).to_le_bytes()).collect();
                    let constant = self.e.b.func.dfg.constants.insert(bytes.into());
                    let steps = self.e.b.ins().vconst(I64X2, constant);
                    self.e.b.ins().iadd(first, steps)
                })
                .to_vec();
        }
        let mut scalars = vec![first];
        for lane in 0..3 {
            scalars.push(self.e.b.ins().iadd(scalars[lane], coefficient_value));
        }
        self.gather_lanes(Dtype::I64, &scalars)
    }

    fn load(&mut self, access: usize, gathered: &[Parts]) -> Parts {
        let leaf = self.leaf;
        let a = &leaf.accesses[access];
        let dtype = self.e.buffer_dtype(a.buffer);
        let flags = self.e.buffer_memory(a.buffer);
        if !a.contiguous() {
            let scalars: Vec<Value> = self
                .element_addresses(access, gathered)
                .into_iter()
                .map(|(address, near)| self.e.b.ins().load(scalar::register(dtype), flags, address, near))
                .collect();
            return self.gather_lanes(dtype, &scalars);
        }
        let (address, near) = self.even_address(access);
        match dtype {
            Dtype::Bool => {
                let ones = self.load_bytes(flags, false, address, near);
                vec![self.e.b.ins().ineg(ones)]
            }
            Dtype::I8 | Dtype::U8 => vec![self.load_bytes(flags, dtype == Dtype::I8, address, near)],
            _ => {
                let ty = vector(dtype, false);
                let parts = if is_wide(dtype) { vec![0, 16] } else { vec![0] };
                parts.into_iter().map(|offset| self.e.b.ins().load(ty, flags, address, near + offset)).collect()
            }
        }
    }

    fn store(&mut self, access: usize, gathered: &[Parts], value: &Parts) {
        let leaf = self.leaf;
        let a = &leaf.accesses[access];
        let dtype = self.e.buffer_dtype(a.buffer);
        let flags = self.e.buffer_memory(a.buffer);
        if !a.contiguous() {
            let scalars = self.lanes(dtype, value);
            for ((address, near), scalar) in self.element_addresses(access, gathered).into_iter().zip(scalars) {
                self.e.b.ins().store(flags, scalar, address, near);
            }
            return;
        }
        let (address, near) = self.even_address(access);
        match dtype {
            Dtype::Bool => {
                let mask = self.mask(value, false)[0];
                let ones = self.e.b.ins().ineg(mask);
                self.store_bytes(flags, true, ones, address, near);
            }
            Dtype::I8 | Dtype::U8 => self.store_bytes(flags, dtype == Dtype::I8, value[0], address, near),
            _ => {
                for (part, offset) in value.iter().zip([0, 16]) {
                    self.e.b.ins().store(flags, *part, address, near + offset);
                }
            }
        }
    }

    fn unary(&mut self, op: UnaryOp, dtype: Dtype, a: &Parts) -> Parts {
        self.each(a, |l, a| match op {
            // A mask's complement is its bits'.
            UnaryOp::Not => l.e.b.ins().bnot(a),
            _ => scalar::unary(&mut l.e.b, op, dtype, a),
        })
    }

    fn binary(&mut self, op: BinaryOp, dtype: Dtype, a: &Parts, b: &Parts) -> Parts {
        if !native_binary(op, dtype) {
            return self.lane_by_lane(dtype, &[(dtype, a), (dtype, b)], |e, v| {
                scalar::binary(&mut e.b, &mut e.helpers, op, dtype, v[0], v[1])
            });
        }
        let b = if dtype == Dtype::Bool { self.mask(b, a.len() == 2) } else { b.clone() };
        self.each2(a, &b, |l, a, b| binary(l.e, op, dtype, a, b))
    }

    fn shift(&mut self, op: BinaryOp, dtype: Dtype, a: &Parts, amount: &Inst) -> Parts {
        let ty = scalar::register(dtype);
        let signed = op == BinaryOp::Shr && dtype.is_signed_int();
        let width = u64::from(ty.bits());
        if let Inst::Constant(amount) = amount {
            let amount = amount.bits();
            if amount >= width && !signed {
                return self.constant(Scalar::zero(dtype));
            }
            let amount = self.e.b.ins().iconst(I32, amount.min(width - 1).cast_signed());
            return self.each(a, |l, a| l.shift_lanes(op, signed, a, amount));
        }
        let Inst::Uniform(amount) = amount else { unreachable!("only uniform amounts come here") };
        let amount = self.e.value(*amount);
        let ins = &mut self.e.b;
        let most = ins.ins().iconst(ty, width.cast_signed() - 1);
        let bounded = ins.ins().umin(amount, most);
        let inside = ins.ins().icmp(IntCC::Equal, bounded, amount);
        let bounded = if ty == I64 { ins.ins().ireduce(I32, bounded) } else { bounded };
        let keep = ins.ins().bmask(ty, inside);
        let keep = ins.ins().splat(vector(dtype, false), keep);
        self.each(a, |l, a| {
            let shifted = l.shift_lanes(op, signed, a, bounded);
            if signed { shifted } else { l.e.b.ins().band(shifted, keep) }
        })
    }

    fn compare(&mut self, op: CompareOp, dtype: Dtype, a: &Parts, b: &Parts) -> Parts {
        if dtype == Dtype::Bool {
            let b = self.mask(b, a.len() == 2);
            return self.each2(a, &b, |l, a, b| {
                let ins = &mut l.e.b;
                match op {
                    CompareOp::Eq => {
                        let differ = ins.ins().bxor(a, b);
                        ins.ins().bnot(differ)
                    }
                    CompareOp::Ne => ins.ins().bxor(a, b),
                    CompareOp::Lt => ins.ins().band_not(b, a),
                    CompareOp::Gt => ins.ins().band_not(a, b),
                    CompareOp::Le => {
                        let not = ins.ins().bnot(a);
                        ins.ins().bor(not, b)
                    }
                    CompareOp::Ge => {
                        let not = ins.ins().bnot(b);
                        ins.ins().bor(a, not)
                    }
                }
            });
        }
        // Lanes hold one-byte numbers widened, so they compare as signed.
        let signed = dtype.is_signed_int() || dtype == Dtype::U8;
        self.each2(a, b, |l, a, b| {
            let ins = &mut l.e.b;
            if !dtype.is_float() {
                return ins.ins().icmp(scalar::int_condition(op, signed), a, b);
            }
            match op {
                CompareOp::Gt => ins.ins().fcmp(scalar::float_condition(CompareOp::Lt), b, a),
                CompareOp::Ge => ins.ins().fcmp(scalar::float_condition(CompareOp::Le), b, a),
                _ => ins.ins().fcmp(scalar::float_condition(op), a, b),
            }
        })
    }

    fn fma(&mut self, _: Dtype, a: &Parts, b: &Parts, c: &Parts) -> Parts {
        let triples: Vec<_> = a.iter().zip(b).zip(c).map(|((a, b), c)| (*a, *b, *c)).collect();
        triples.into_iter().map(|(a, b, c)| self.e.b.ins().fma(a, b, c)).collect()
    }

    fn select(&mut self, dtype: Dtype, c: &Parts, a: &Parts, b: &Parts) -> Parts {
        let mask = self.mask(c, a.len() == 2);
        let b = if dtype == Dtype::Bool { self.mask(b, a.len() == 2) } else { b.clone() };
        let mut parts = vec![];
        for ((mask, a), b) in mask.iter().zip(a).zip(&b) {
            let ty = self.e.b.func.dfg.value_type(*a);
            let mask = self.e.b.ins().bitcast(ty, little(), *mask);
            parts.push(self.e.b.ins().bitselect(mask, *a, *b));
        }
        parts
    }

    fn cast(&mut self, from: Dtype, to: Dtype, a: &Parts) -> Parts {
        if from == to {
            return a.clone();
        }
        if !native_cast(from, to) {
            return self.lane_by_lane(to, &[(from, a)], |e, v| scalar::cast(&mut e.b, &mut e.helpers, from, to, v[0]));
        }
        match (from, to) {
            (Dtype::Bool, _) => {
                let mask = self.mask(a, is_wide(to));
                let ty = vector(to, false);
                let one = self.splat(ty, Scalar::one(to).bits());
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
                let high =
                    self.shuffle(a[0], a[0], [8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15], F32X4);
                [a[0], high].map(|v| self.e.b.ins().fvpromote_low(v)).to_vec()
            }
            (Dtype::F64, Dtype::F32) => {
                let [low, high] = [a[0], a[1]].map(|v| self.e.b.ins().fvdemote(v));
                let bytes = [0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23];
                vec![self.shuffle(low, high, bytes, F32X4)]
            }
            (Dtype::F32, Dtype::U32) => self.each(a, |l, a| l.e.b.ins().fcvt_to_uint_sat(I32X4, a)),
            (Dtype::F32, _) => {
                let whole = self.each(a, |l, a| l.e.b.ins().fcvt_to_sint_sat(I32X4, a));
                let (least, most) = match to {
                    Dtype::I8 => (-128i32, 127i32),
                    Dtype::U8 => (0, 255),
                    _ => return whole,
                };
                let [least, most] = [least, most].map(|k| self.splat(I32X4, k.cast_unsigned().into()));
                self.each(&whole, |l, v| {
                    let v = l.e.b.ins().smax(v, least);
                    l.e.b.ins().smin(v, most)
                })
            }
            (_, Dtype::F32 | Dtype::F64) => self.int_to_float(from, to, a),
            _ => self.int_to_int(from, to, a),
        }
    }

    fn bitcast(&mut self, _: Dtype, to: Dtype, a: &Parts) -> Parts {
        let ty = vector(to, false);
        self.each(a, |l, a| l.e.b.ins().bitcast(ty, little(), a))
    }
}

impl Lanes128<'_, '_> {
    fn int_to_float(&mut self, from: Dtype, to: Dtype, a: &Parts) -> Parts {
        let ty = vector(to, false);
        // To `f64` by way of `i64`, whatever the sign; one-byte numbers are signed in their lanes.
        let wide_source = is_wide(from);
        let signed = from != Dtype::U64 && (wide_source || from != Dtype::U32 || is_wide(to));
        let source = if is_wide(to) && !wide_source { self.widen(a[0], from != Dtype::U32) } else { a.clone() };
        self.each(
            &source,
            |l, v| {
                if signed { l.e.b.ins().fcvt_from_sint(ty, v) } else { l.e.b.ins().fcvt_from_uint(ty, v) }
            },
        )
    }

    fn int_to_int(&mut self, from: Dtype, to: Dtype, a: &Parts) -> Parts {
        let narrow = match (is_wide(from), is_wide(to)) {
            (false, true) => return self.widen(a[0], from != Dtype::U32),
            (true, true) => return a.clone(),
            (true, false) => self.narrow(a[0], a[1]),
            (false, false) => a[0],
        };
        let ins = &mut self.e.b;
        vec![match to {
            Dtype::I8 => {
                let amount = ins.ins().iconst(I32, 24);
                let high = ins.ins().ishl(narrow, amount);
                ins.ins().sshr(high, amount)
            }
            Dtype::U8 => {
                let low = splat_bits(self.e, I32X4, 255);
                self.e.b.ins().band(narrow, low)
            }
            _ => narrow,
        }]
    }
}

/// An operation that vectors of a type have; masks are combined as bits.
pub(super) fn binary(e: &mut Emitter<'_>, op: BinaryOp, dtype: Dtype, a: Value, b: Value) -> Value {
    scalar::binary(&mut e.b, &mut e.helpers, op, dtype, a, b)
}

/// The lane type in which a reduction keeps its lanes in memory.
pub(super) fn memory_lane(dtype: Dtype) -> Type {
    match vector(dtype, false) {
        F32X4 => F32,
        F64X2 => F64,
        I64X2 => I64,
        _ => I32,
    }
}

/// A `bool` of one register per group; everything else as it is.
pub(super) fn narrow_masks(e: &mut Emitter<'_>, leaf: &Leaf, operands: &Operands, dtype: Dtype, v: Parts) -> Parts {
    if dtype != Dtype::Bool {
        return v;
    }
    let i = e.int(0);
    Lanes128 { e, leaf, operands, i, offset: 0 }.mask(&v, false)
}
