//! `Lanes128`: leaves with Cranelift's 128-bit vectors, on every target.
//!
//! A step processes a group of [`GROUP`] elements, whatever their type: a value of four bytes fills
//! one register, one of eight bytes two. Integers of one and two bytes are extended to `i32` lanes,
//! and so are the bits of 16-bit floats. A `bool` is a mask: each lane is all ones or all zeros. It
//! is as wide as the comparison that produced it: one register of 32-bit lanes, or two of 64-bit
//! lanes.
//! Operations that Cranelift has no vector form of are done lane by lane with the scalar operation.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F32, F32X4, F64, F64X2, I8, I16, I32, I32X4, I64, I64X2};
use cranelift_codegen::ir::{Endianness, InstBuilder, MemFlagsData, Type, Value};
use ir::leaf::{Access, Branch, Inst, Leaf, Nest, Steps, native_binary, native_cast};
use ir::nest::{IndexId, Op, ValueId};
use ir::sabotage::{self, Bug};
use ir::{Affine, BinaryOp, CompareOp, Dtype, Scalar, Size, UnaryOp};

use super::emit::Emitter;
use super::leaf::{Done, LeafEmitter, is_wide};
use super::scalar;
use super::state::{Strip, offset};

/// The number of elements in a group.
pub(super) const GROUP: i64 = 4;

/// The registers that hold a value for a group.
pub(super) type Registers = Vec<Value>;

/// The vector type of a value's registers. `wide` selects the width of masks.
pub(super) fn vector(dtype: Dtype, wide: bool) -> Type {
    match dtype {
        Dtype::F32 => F32X4,
        Dtype::F64 => F64X2,
        Dtype::I64 | Dtype::U64 => I64X2,
        Dtype::Bool if wide => I64X2,
        _ => I32X4,
    }
}

/// Values computed once, before the loop.
pub(super) struct Operands {
    /// The leaf's uniform values.
    uniform: Vec<(ValueId, Value)>,
    /// The address of each access at index 0, and a constant offset.
    starts: Vec<Option<(Value, i32)>>,
}

impl Operands {
    pub(super) fn new(e: &mut Emitter<'_>, leaf: &Leaf) -> Operands {
        for (value, op) in &leaf.uniform {
            e.let_(*value, op);
        }
        let uniform = leaf.uniform.iter().map(|(value, _)| (*value, e.value(*value))).collect();
        let starts = leaf.accesses.iter().map(|a| (!a.inner).then(|| e.address(a.buffer, &a.start))).collect();
        Operands { uniform, starts }
    }

    /// Defines the uniform values again, after the body has been emitted as scalar code.
    pub(super) fn restore(&self, e: &mut Emitter<'_>) {
        for (id, value) in &self.uniform {
            e.define(*id, *value);
        }
    }
}

/// The elements of a leaf that a step processes.
#[derive(Clone, Copy)]
pub(super) struct Elements<'l> {
    pub(super) leaf: &'l Leaf,
    pub(super) operands: &'l Operands,
    /// The number of the first element, without `offset`.
    pub(super) i: Value,
    pub(super) offset: i64,
    /// The number of groups.
    pub(super) groups: usize,
    /// The current strip, if the leaf is processed in strips.
    pub(super) strip: Option<Strip>,
    /// The last element, if there may be fewer than lanes. Lanes past it repeat it.
    pub(super) last: Option<Value>,
}

/// The code generator for one step.
pub(super) struct Lanes128<'l, 'a> {
    pub(super) e: &'l mut Emitter<'a>,
    pub(super) at: Elements<'l>,
}

/// A vector of `bits` in all lanes.
pub(super) fn splat_bits(e: &mut Emitter<'_>, ty: Type, bits: u64) -> Value {
    let mut bytes = vec![];
    for _ in 0..ty.lane_count() {
        bytes.extend_from_slice(&bits.to_le_bytes()[..ty.lane_type().bytes() as usize]);
    }
    let constant = e.b.func.dfg.constants.insert(bytes.into());
    e.b.ins().vconst(ty, constant)
}

/// `count` offsets, `step` bytes apart.
fn offsets(first: i32, step: i32, count: usize) -> impl Iterator<Item = i32> {
    (first..).step_by(step.unsigned_abs() as usize).take(count)
}

/// The bits of a constant in a lane.
pub(super) fn lane_bits(value: Scalar) -> u64 {
    match value {
        Scalar::Bool(v) => 0u64.wrapping_sub(v.into()),
        Scalar::I8(v) => i64::from(v).cast_unsigned(),
        Scalar::I16(v) => i64::from(v).cast_unsigned(),
        other => other.bits(),
    }
}

/// A vector of a constant.
pub(super) fn splat_constant(e: &mut Emitter<'_>, value: Scalar) -> Value {
    splat_bits(e, vector(value.dtype(), false), lane_bits(value))
}

/// The lane order for bitcasts between vector types.
pub(super) fn little() -> MemFlagsData {
    MemFlagsData::new().with_endianness(Endianness::Little)
}

/// A scalar as it is held in a lane.
fn lane(e: &mut Emitter<'_>, dtype: Dtype, v: Value) -> Value {
    match dtype {
        Dtype::Bool => {
            let wide = e.b.ins().uextend(I32, v);
            e.b.ins().ineg(wide)
        }
        Dtype::I8 | Dtype::I16 => e.b.ins().sextend(I32, v),
        Dtype::U8 | Dtype::U16 | Dtype::F16 | Dtype::Bf16 => e.b.ins().uextend(I32, v),
        _ => v,
    }
}

/// A vector with a scalar in the first lane and `rest` in the others.
pub(super) fn one_lane(e: &mut Emitter<'_>, rest: Scalar, v: Value) -> Value {
    let v = lane(e, rest.dtype(), v);
    let rest = splat_constant(e, rest);
    e.b.ins().insertlane(rest, v, 0)
}

impl<'l, 'a> Lanes128<'l, 'a> {
    pub(super) fn each(&mut self, a: &Registers, mut op: impl FnMut(&mut Self, Value) -> Value) -> Registers {
        a.iter().map(|a| op(self, *a)).collect()
    }

    pub(super) fn each2(
        &mut self,
        a: &Registers,
        b: &Registers,
        mut op: impl FnMut(&mut Self, Value, Value) -> Value,
    ) -> Registers {
        a.iter().zip(b).map(|(a, b)| op(self, *a, *b)).collect()
    }

    /// The number of registers for a value of a type.
    pub(super) fn registers(&self, dtype: Dtype) -> usize {
        if is_wide(dtype) { 2 * self.at.groups } else { self.at.groups }
    }

    /// The number of elements in a step.
    fn elements(&self) -> usize {
        GROUP as usize * self.at.groups
    }

    /// Shifts all lanes by the same amount, which is less than their width.
    fn shift_lanes(&mut self, op: BinaryOp, signed: bool, v: Value, amount: Value) -> Value {
        let ins = &mut self.e.b;
        match (op, signed) {
            (BinaryOp::Shl, _) => ins.ins().ishl(v, amount),
            (_, true) => ins.ins().sshr(v, amount),
            (_, false) => ins.ins().ushr(v, amount),
        }
    }

    /// Extracts the lanes of a value as scalars.
    fn lanes(&mut self, dtype: Dtype, v: &Registers) -> Vec<Value> {
        let count = self.elements() / v.len();
        let mut lanes = vec![];
        for lane in 0..self.elements() {
            let b = &mut self.e.b;
            let value = b.ins().extractlane(v[lane / count], u8::try_from(lane % count).expect("few lanes"));
            lanes.push(match dtype {
                Dtype::Bool => {
                    let byte = b.ins().ireduce(I8, value);
                    b.ins().band_imm_u(byte, 1)
                }
                Dtype::I8 | Dtype::U8 => b.ins().ireduce(I8, value),
                Dtype::I16 | Dtype::U16 | Dtype::F16 | Dtype::Bf16 => b.ins().ireduce(I16, value),
                _ => value,
            });
        }
        lanes
    }

    /// Builds a value from scalars.
    fn gather_lanes(&mut self, dtype: Dtype, scalars: &[Value]) -> Registers {
        let ty = vector(dtype, false);
        let count = ty.lane_count() as usize;
        let mut parts = vec![];
        for chunk in scalars.chunks(count) {
            let first = lane(self.e, dtype, chunk[0]);
            let mut v = self.e.b.ins().scalar_to_vector(ty, first);
            for (number, scalar) in chunk.iter().enumerate().skip(1) {
                let scalar = lane(self.e, dtype, *scalar);
                v = self.e.b.ins().insertlane(v, scalar, u8::try_from(number).expect("few lanes"));
            }
            parts.push(v);
        }
        parts
    }

    /// Emits an operation lane by lane.
    fn lane_by_lane(
        &mut self,
        result: Dtype,
        operands: &[(Dtype, &Registers)],
        mut op: impl FnMut(&mut Emitter<'_>, &[Value]) -> Value,
    ) -> Registers {
        let lanes: Vec<Vec<Value>> = operands.iter().map(|(dtype, v)| self.lanes(*dtype, v)).collect();
        let scalars: Vec<Value> = (0..self.elements())
            .map(|lane| {
                let arguments: Vec<Value> = lanes.iter().map(|l| l[lane]).collect();
                op(self.e, &arguments)
            })
            .collect();
        self.gather_lanes(result, &scalars)
    }

    /// The address of the step's first element for a regular access, and a constant offset.
    fn even_address(&mut self, access: usize) -> (Value, i32) {
        let leaf = self.at.leaf;
        let a = &leaf.accesses[access];
        let (start, near) = self.at.operands.starts[access].unwrap_or_else(|| self.e.address(a.buffer, &a.start));
        let width = i64::try_from(self.e.buffer_dtype(a.buffer).bytes()).expect("a small number");
        // Copies of scratch are interleaved: row `r` of column `i` is element `r * width + i -
        // from`.
        if let (true, Some(strip)) = (a.spread, self.at.strip) {
            let row = self.e.number(&a.start);
            let row = self.e.b.ins().imul(row, strip.width);
            let column = self.e.b.ins().isub(self.at.i, strip.from);
            let element = self.e.b.ins().iadd(row, column);
            let bytes = self.e.b.ins().imul_imm_s(element, width);
            let base = self.e.base(a.buffer);
            return (self.e.b.ins().iadd(base, bytes), offset((self.at.offset * width).unsigned_abs() as usize));
        }
        let bytes = &a.stride * &Size::constant(width);
        match bytes.as_constant().and_then(|c| Some((c, i32::try_from(c.checked_mul(self.at.offset)?).ok()?))) {
            Some((stride, offset)) if near.checked_add(offset).is_some() => {
                let moved = self.e.b.ins().imul_imm_s(self.at.i, stride);
                (self.e.b.ins().iadd(start, moved), near + if sabotage::on(Bug::StridedGroups) { 0 } else { offset })
            }
            _ => {
                let i = self.e.b.ins().iadd_imm_s(self.at.i, self.at.offset);
                let stride = self.e.size(&bytes);
                let moved = self.e.b.ins().imul(i, stride);
                (self.e.b.ins().iadd(start, moved), near)
            }
        }
    }

    /// Whether an access can be a whole vector: contiguous, and with all lanes in bounds.
    fn in_one_piece(&self, access: &Access) -> bool {
        access.contiguous() && (self.at.last.is_none() || access.spread)
    }

    /// `own` if the lane exists, else `before`, the value of the previous lane.
    fn unless_past(&mut self, lane: usize, own: Value, before: Value) -> Value {
        let Some(last) = self.at.last else { return own };
        let there = self.e.b.ins().icmp_imm_s(IntCC::SignedGreaterThanOrEqual, last, lane as i64);
        self.e.b.ins().select(there, own, before)
    }

    /// The address of each element of a step, for accesses that are not contiguous.
    fn element_addresses(&mut self, access: usize, gathered: &[Registers]) -> Vec<(Value, i32)> {
        let leaf = self.at.leaf;
        let a = &leaf.accesses[access];
        let (first, near) = self.even_address(access);
        let width = Size::constant(i64::try_from(self.e.buffer_dtype(a.buffer).bytes()).expect("a small number"));
        let subscripts: Vec<Vec<Value>> = gathered.iter().map(|g| self.lanes(Dtype::I64, g)).collect();
        let mut address = first;
        let mut addresses = vec![];
        for lane in 0..self.elements() {
            if lane > 0 {
                let stride = self.e.size(&(&a.stride * &width));
                let next = self.e.b.ins().iadd(address, stride);
                address = self.unless_past(lane, next, address);
            }
            let mut at = address;
            for (subscript, (_, stride)) in subscripts.iter().zip(&a.gathered) {
                let stride = self.e.size(&(stride * &width));
                let moved =
                    self.e.b.ins().imul(subscript[if sabotage::on(Bug::GatheredLane) { 0 } else { lane }], stride);
                at = self.e.b.ins().iadd(at, moved);
            }
            addresses.push((at, near));
        }
        addresses
    }
}

impl LeafEmitter for Lanes128<'_, '_> {
    type Vector = Registers;

    fn constant(&mut self, value: Scalar) -> Registers {
        let splat = splat_constant(self.e, value);
        vec![splat; self.registers(value.dtype())]
    }

    fn uniform(&mut self, dtype: Dtype, value: ValueId) -> Registers {
        let scalar = self.e.value(value);
        let lane = lane(self.e, dtype, scalar);
        let splat = self.e.b.ins().splat(vector(dtype, false), lane);
        vec![splat; self.registers(dtype)]
    }

    fn affine(&mut self, base: &Affine<IndexId>, coefficient: &Size) -> Registers {
        let base = self.e.affine(base);
        let coefficient_value = self.e.size(coefficient);
        let i = self.e.b.ins().iadd_imm_s(self.at.i, self.at.offset);
        let moved = self.e.b.ins().imul(i, coefficient_value);
        let first = self.e.b.ins().iadd(base, moved);
        // With a constant coefficient, each register is the first value plus constant steps.
        if let (Some(c), None) = (coefficient.as_constant(), self.at.last) {
            let first = self.e.b.ins().splat(I64X2, first);
            let mut parts = vec![];
            for lane in (0..self.elements() as i64).step_by(2) {
                let steps = [lane, lane + 1 - i64::from(sabotage::on(Bug::IndexLanes))]
                    .into_iter()
                    .flat_map(|lane| lane.wrapping_mul(c).to_le_bytes());
                let steps: Vec<u8> = steps.collect();
                let steps = self.e.b.func.dfg.constants.insert(steps.into());
                let steps = self.e.b.ins().vconst(I64X2, steps);
                parts.push(self.e.b.ins().iadd(first, steps));
            }
            return parts;
        }
        let mut scalars = vec![first];
        for lane in 0..self.elements() - 1 {
            let next = self.e.b.ins().iadd(scalars[lane], coefficient_value);
            scalars.push(self.unless_past(lane + 1, next, scalars[lane]));
        }
        self.gather_lanes(Dtype::I64, &scalars)
    }

    fn load(&mut self, access: usize, gathered: &[Registers]) -> Registers {
        let leaf = self.at.leaf;
        let a = &leaf.accesses[access];
        let dtype = self.e.buffer_dtype(a.buffer);
        let flags = self.e.buffer_memory(a.buffer);
        if !self.in_one_piece(a) {
            let scalars: Vec<Value> = self
                .element_addresses(access, gathered)
                .into_iter()
                .map(|(address, near)| self.e.b.ins().load(scalar::register(dtype), flags, address, near))
                .collect();
            return self.gather_lanes(dtype, &scalars);
        }
        let (address, near) = self.even_address(access);
        match dtype {
            Dtype::Bool | Dtype::I8 | Dtype::U8 => {
                let mut parts = vec![];
                for near in offsets(near, 4, self.at.groups) {
                    let bytes = self.load_bytes(flags, dtype == Dtype::I8, address, near);
                    parts.push(if dtype == Dtype::Bool { self.e.b.ins().ineg(bytes) } else { bytes });
                }
                parts
            }
            Dtype::I16 | Dtype::U16 | Dtype::F16 | Dtype::Bf16 => {
                let signed = dtype == Dtype::I16;
                offsets(near, 8, self.at.groups).map(|near| self.load_halves(flags, signed, address, near)).collect()
            }
            _ => {
                let ty = vector(dtype, false);
                let registers = self.registers(dtype);
                offsets(near, 16, registers).map(|near| self.e.b.ins().load(ty, flags, address, near)).collect()
            }
        }
    }

    fn store(&mut self, access: usize, gathered: &[Registers], value: &Registers) {
        let leaf = self.at.leaf;
        let a = &leaf.accesses[access];
        let dtype = self.e.buffer_dtype(a.buffer);
        let flags = self.e.buffer_memory(a.buffer);
        if !self.in_one_piece(a) {
            let scalars = self.lanes(dtype, value);
            for ((address, near), scalar) in self.element_addresses(access, gathered).into_iter().zip(scalars) {
                self.e.b.ins().store(flags, scalar, address, near);
            }
            return;
        }
        let (address, near) = self.even_address(access);
        match dtype {
            Dtype::Bool => {
                let mask = self.mask(value, false);
                for (mask, near) in mask.into_iter().zip(offsets(near, 4, self.at.groups)) {
                    let ones = self.e.b.ins().ineg(mask);
                    self.store_bytes(flags, true, ones, address, near);
                }
            }
            Dtype::I8 | Dtype::U8 => {
                for (part, near) in value.iter().zip(offsets(near, 4, self.at.groups)) {
                    self.store_bytes(flags, dtype == Dtype::I8, *part, address, near);
                }
            }
            Dtype::I16 | Dtype::U16 | Dtype::F16 | Dtype::Bf16 => {
                for (part, near) in value.iter().zip(offsets(near, 8, self.at.groups)) {
                    self.store_halves(flags, *part, address, near);
                }
            }
            _ => {
                for (part, near) in value.iter().zip(offsets(near, 16, value.len())) {
                    self.e.b.ins().store(flags, *part, address, near);
                }
            }
        }
    }

    fn unary(&mut self, op: UnaryOp, dtype: Dtype, a: &Registers) -> Registers {
        self.each(a, |l, a| match op {
            // The complement of a mask is that of its bits.
            UnaryOp::Not => l.e.b.ins().bnot(a),
            UnaryOp::Neg
            | UnaryOp::Abs
            | UnaryOp::Sqrt
            | UnaryOp::Floor
            | UnaryOp::Ceil
            | UnaryOp::Trunc
            | UnaryOp::Round => scalar::unary(&mut l.e.b, op, dtype, a),
        })
    }

    fn binary(&mut self, op: BinaryOp, dtype: Dtype, a: &Registers, b: &Registers) -> Registers {
        if !native_binary(op, dtype) {
            return self.lane_by_lane(dtype, &[(dtype, a), (dtype, b)], |e, v| {
                scalar::binary(&mut e.b, &mut e.helpers, op, dtype, v[0], v[1])
            });
        }
        let b = if dtype == Dtype::Bool { self.mask(b, self.fills_two(a)) } else { b.clone() };
        self.each2(a, &b, |l, a, b| binary(l.e, op, dtype, a, b))
    }

    fn shift(&mut self, op: BinaryOp, dtype: Dtype, a: &Registers, amount: &Inst) -> Registers {
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
        // The instruction takes the amount modulo the width. Clamp it, and clear the result if it
        // was larger.
        let most = ins.ins().iconst(ty, width.cast_signed() - 1);
        let bounded = ins.ins().umin(amount, most);
        let inside = ins.ins().icmp(IntCC::Equal, bounded, amount);
        let bounded = if ty == I64 { ins.ins().ireduce(I32, bounded) } else { bounded };
        let keep = ins.ins().bmask(ty, inside);
        let keep = ins.ins().splat(vector(dtype, false), keep);
        self.each(a, |l, a| {
            let shifted = l.shift_lanes(op, signed, a, bounded);
            if signed || sabotage::on(Bug::ShiftedLanes) { shifted } else { l.e.b.ins().band(shifted, keep) }
        })
    }

    fn compare(&mut self, op: CompareOp, dtype: Dtype, a: &Registers, b: &Registers) -> Registers {
        if dtype == Dtype::Bool {
            let b = self.mask(b, self.fills_two(a));
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
        // Lanes hold extended narrow integers, so those compare as signed.
        let signed = dtype.is_signed_int() || dtype.narrow_range().is_some() || sabotage::on(Bug::SignedLanes);
        self.each2(a, b, |l, a, b| {
            let ins = &mut l.e.b;
            if !dtype.is_float() {
                return ins.ins().icmp(scalar::int_condition(op, signed), a, b);
            }
            match op {
                CompareOp::Gt => ins.ins().fcmp(scalar::float_condition(CompareOp::Lt), b, a),
                CompareOp::Ge => ins.ins().fcmp(scalar::float_condition(CompareOp::Le), b, a),
                CompareOp::Eq | CompareOp::Ne | CompareOp::Lt | CompareOp::Le => {
                    ins.ins().fcmp(scalar::float_condition(op), a, b)
                }
            }
        })
    }

    fn fma(&mut self, _: Dtype, a: &Registers, b: &Registers, c: &Registers) -> Registers {
        let triples: Vec<_> = a.iter().zip(b).zip(c).map(|((a, b), c)| (*a, *b, *c)).collect();
        triples.into_iter().map(|(a, b, c)| self.e.b.ins().fma(a, b, c)).collect()
    }

    fn select(&mut self, dtype: Dtype, c: &Registers, a: &Registers, b: &Registers) -> Registers {
        let mask = self.mask(c, self.fills_two(a));
        let b = if dtype == Dtype::Bool { self.mask(b, self.fills_two(a)) } else { b.clone() };
        let mut parts = vec![];
        for ((mask, a), b) in mask.iter().zip(a).zip(&b) {
            let ty = self.e.b.func.dfg.value_type(*a);
            let mask = self.e.b.ins().bitcast(ty, little(), *mask);
            let (a, b) = if sabotage::on(Bug::SelectedLanes) { (b, a) } else { (a, b) };
            parts.push(self.e.b.ins().bitselect(mask, *a, *b));
        }
        parts
    }

    fn cast(&mut self, from: Dtype, to: Dtype, a: &Registers) -> Registers {
        if native_cast(from, to) {
            return self.convert(from, to, a);
        }
        self.lane_by_lane(to, &[(from, a)], |e, v| scalar::cast(&mut e.b, &mut e.helpers, from, to, v[0]))
    }

    fn bitcast(&mut self, from: Dtype, to: Dtype, a: &Registers) -> Registers {
        // The bits of a 16-bit float are extended by zeros.
        if from.bytes() == 2 {
            let [from, to] = [from, to].map(|dtype| if dtype.is_float() { Dtype::U16 } else { dtype });
            return self.convert(from, to, a);
        }
        let ty = vector(to, false);
        self.each(a, |l, a| l.e.b.ins().bitcast(ty, little(), a))
    }

    fn bound(&mut self, op: BinaryOp, dtype: Dtype, a: &Registers, constant: Scalar) -> Registers {
        let splat = self.constant(constant);
        let sign = 1u64 << (8 * dtype.bytes() - 1);
        if op == BinaryOp::Min && constant.bits() == sign {
            return self.binary(op, dtype, a, &splat);
        }
        // `c < a ? c : a` is a single instruction on x86, and returns `a` if it is NaN. For equal
        // operands it returns `a`, which is only wrong for `max(-0, +0)`, and adding +0 corrects
        // it. (`min(+0, -0)` takes the general path above.)
        let chosen = self.each2(&splat, a, |l, c, a| {
            let ins = &mut l.e.b;
            let (less, greater) = if op == BinaryOp::Min { (c, a) } else { (a, c) };
            let takes = ins.ins().fcmp(scalar::float_condition(CompareOp::Lt), less, greater);
            let ty = ins.func.dfg.value_type(a);
            let takes = ins.ins().bitcast(ty, little(), takes);
            ins.ins().bitselect(takes, c, a)
        });
        if op == BinaryOp::Max && constant.bits() == 0 {
            return self.each2(&chosen, &splat, |l, v, zero| l.e.b.ins().fadd(v, zero));
        }
        chosen
    }

    fn scalar(&mut self, value: ValueId, op: &Op) {
        self.e.let_(value, op);
    }

    fn nest(&mut self, nest: &Nest, done: &mut Done<Registers>) {
        self.nest_in_registers(nest, done);
    }

    fn branch(&mut self, branch: &Branch, done: &mut Done<Registers>) {
        self.run_branch(branch, done);
    }

    fn steps(&mut self, steps: &Steps, done: &mut Done<Registers>) {
        self.run_steps(steps, done);
    }
}

/// An operation that has a vector form. Masks are combined bitwise.
pub(super) fn binary(e: &mut Emitter<'_>, op: BinaryOp, dtype: Dtype, a: Value, b: Value) -> Value {
    scalar::binary(&mut e.b, &mut e.helpers, op, dtype, a, b)
}

/// The lane type in which a reduction stores its lanes in memory.
pub(super) fn memory_lane(dtype: Dtype) -> Type {
    match vector(dtype, false) {
        F32X4 => F32,
        F64X2 => F64,
        I64X2 => I64,
        _ => I32,
    }
}

/// Converts a `bool` to one register per group. Other values are unchanged.
pub(super) fn narrow_masks(
    e: &mut Emitter<'_>,
    leaf: &Leaf,
    operands: &Operands,
    dtype: Dtype,
    v: Registers,
) -> Registers {
    if dtype != Dtype::Bool {
        return v;
    }
    let i = e.int(0);
    let at = Elements { leaf, operands, i, offset: 0, groups: 1, strip: None, last: None };
    Lanes128 { e, at }.mask(&v, false)
}
