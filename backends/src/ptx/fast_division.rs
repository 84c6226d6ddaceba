//! Branch-free division and square roots of `f32`.
//!
//! The assembler turns `div.rn` and `sqrt.rn` into a few instructions, a check of the operands, and
//! a branch around a call. At each branch the elements of a thread wait for one another. This
//! module emits just the fast path: the same instructions as NVIDIA's assembler, hence the same
//! results, which are exact for operands that are neither tiny nor huge. The ranges of operands and
//! results are accumulated over all elements of a thread and checked once. If any is out of range,
//! all of these elements are recomputed with `div.rn` and `sqrt.rn`.
//!
//! A quotient x / y starts from an approximation of 1 / y, which Newton steps refine. The quotient
//! is correctly rounded if no intermediate result leaves the normal range. That holds if |x| >=
//! 2^-40 and |y| <= 2^80, since the residual is then a multiple of 2^-87, unless the quotient is
//! infinite or NaN. A divisor that is zero, subnormal or too small for its dividend makes it
//! infinite or NaN, and so does any NaN operand; these cases are detected in the result. For a
//! square root the same holds for x.
//!
//! The quotients of some functions are known to lie in range, whatever the argument
//! ([`ir::nest::Function::quotients_in_range`]). Nothing is recorded for these.

use std::ops::Range;

use ir::nest::{Block, BufferId, Op, Role, Statement};
use ir::sched::{divides, may_repeat};
use ir::visit;

use super::build::{Builder, Control};
use super::emit::Emitter;
use super::inst::{Comparison, Opcode, Operand, Reg, Type};
use super::rows::ElementLoop;
use super::state::{ExecScope, FastDivision};

/// The smallest dividend, 2^-40, and the largest divisor, 2^80, as bits of an `f32`.
const LEAST: Operand = Operand::F32((127 - 40) << 23);
const GREATEST: Operand = Operand::F32((127 + 80) << 23);

const fn float(value: f32) -> Operand {
    Operand::F32(value.to_bits())
}

impl FastDivision {
    fn new(b: &mut Builder) -> FastDivision {
        let [least, greatest, finite] = [GREATEST, float(0.0), float(0.0)].map(|first| b.mov(Type::F32, first));
        FastDivision { least, greatest, finite, divisor: None }
    }

    /// Whether all results so far are correct.
    fn is_valid(self, b: &mut Builder) -> Reg {
        let least = b.set(Comparison::Ge, Type::F32, self.least, LEAST);
        let greatest = b.set(Comparison::Le, Type::F32, self.greatest, GREATEST);
        let finite = b.set(Comparison::Eq, Type::F32, self.finite, float(0.0));
        let both = b.op2(Opcode::And, Type::Pred, least, greatest);
        b.op2(Opcode::And, Type::Pred, both, finite)
    }

    pub(super) fn quotient(&mut self, b: &mut Builder, valid: Option<Reg>, x: Reg, y: Reg) -> Reg {
        let quotient = b.quotient(x, y);
        let operands = [(Opcode::Min, self.least, x), (Opcode::Max, self.greatest, y)];
        let known = self.divisor == Some(y);
        self.record(b, valid, &operands[..if known { 1 } else { 2 }], quotient);
        if valid.is_none() {
            self.divisor = Some(y);
        }
        quotient
    }

    pub(super) fn root(self, b: &mut Builder, valid: Option<Reg>, x: Reg) -> Reg {
        // Likewise, the exact residual `x - root * root` corrects the root.
        let near = b.op(Opcode::RsqrtNear, Type::F32, &[x.into()]);
        let root = b.op2(Opcode::MulRn, Type::F32, x, near);
        let half = b.op2(Opcode::MulRn, Type::F32, near, float(0.5));
        let minus = b.op(Opcode::Neg, Type::F32, &[root.into()]);
        let rest = fma(b, minus, root, x);
        let root = fma(b, rest, half, root);
        self.record(b, valid, &[(Opcode::Min, self.least, x)], root);
        root
    }

    /// Accumulates the operands and the result of an element, unless it is out of bounds.
    fn record(self, b: &mut Builder, valid: Option<Reg>, operands: &[(Opcode, Reg, Reg)], result: Reg) {
        let record = |b: &mut Builder| {
            for (extreme, of, operand) in operands {
                let size = b.op(Opcode::Abs, Type::F32, &[(*operand).into()]);
                b.op_to(*of, *extreme, Type::F32, &[(*of).into(), size.into()]);
            }
            b.op_to(self.finite, Opcode::FmaRn, Type::F32, &[result.into(), float(0.0), self.finite.into()]);
        };
        match valid {
            Some(valid) => b.guarded(valid, record),
            None => record(b),
        }
    }
}

impl Builder {
    /// A quotient, correctly rounded if |x| >= 2^-40 or x = 0 or |y| >= 2^24, |y| is between 2^-80 and
    /// 2^80, and the quotient is no infinity.
    ///
    /// The rest is then a multiple of 2^-149, so it is exact, also where the quotient is subnormal.
    pub(super) fn quotient(&mut self, x: Reg, y: Reg) -> Reg {
        // A Newton step refines 1 / y, then the exact residual `y * quotient - x` corrects the
        // quotient. With this sign a quotient of -0 stays as it is.
        let [minus_x, minus_y] = [x, y].map(|value| self.op(Opcode::Neg, Type::F32, &[value.into()]));
        let near = self.op(Opcode::RcpNear, Type::F32, &[y.into()]);
        let error = fma(self, minus_y, near, float(1.0));
        let inverse = fma(self, near, error, near);
        let quotient = self.op2(Opcode::MulRn, Type::F32, x, inverse);
        let rest = fma(self, y, quotient, minus_x);
        let minus_inverse = self.op(Opcode::Neg, Type::F32, &[inverse.into()]);
        fma(self, rest, minus_inverse, quotient)
    }
}

fn fma(b: &mut Builder, x: Reg, y: Reg, z: impl Into<Operand>) -> Reg {
    b.op(Opcode::FmaRn, Type::F32, &[x.into(), y.into(), z.into()])
}

/// Whether a body divides or takes square roots of `f32`, and can be repeated if the fast path was
/// not valid. No load or check may depend on a result.
pub(super) fn is_worthwhile(e: &Emitter<'_>, body: &Block) -> bool {
    may_repeat(body) && divides(e.program, body, &|v| e.dtype(v))
}

impl Emitter<'_> {
    /// Whether a loop over a row can use the fast path: it divides, and none of its stores is
    /// loaded again.
    pub(super) fn can_divide_fast(&self, body: &Block) -> bool {
        let apart = |buffer: &BufferId| {
            !self.shared.buffers.contains(buffer) && self.program.buffers[*buffer].role != Role::Scratch
        };
        let straight =
            |s: &Statement| matches!(s, Statement::Let { op, .. } if !matches!(op, Op::Prefix(..) | Op::Place(_)));
        let plain = |s: &Statement| straight(s) || matches!(s, Statement::Store { .. });
        body.iter().all(plain) && visit::stores(body).iter().all(apart) && is_worthwhile(self, body)
    }

    /// Computes several elements of such a loop with the fast path. Their loads have been issued.
    pub(super) fn divide_batch(&mut self, element_loop: &ElementLoop<'_>, places: Range<usize>) {
        let ElementLoop { index, body, elements, uniform, loaded } = element_loop;
        let all = |e: &mut Self| {
            e.deferring(|e| {
                for place in places.clone() {
                    e.select_element(*index, elements, place);
                    for statement in *body {
                        match statement {
                            Statement::Let { value, .. } if place > places.start && uniform.contains(value) => {}
                            Statement::Let { value, .. } if let Some(values) = loaded.get(value) => {
                                e.define(*value, values[place]);
                            }
                            Statement::Let { .. }
                            | Statement::Store { .. }
                            | Statement::Scatter { .. }
                            | Statement::If { .. }
                            | Statement::Loop(_)
                            | Statement::While(_)
                            | Statement::Contract(_) => e.in_exec_scope(ExecScope::Thread, |e| e.statement(statement)),
                        }
                    }
                }
                e.deselect_element();
            })
        };
        let mut stores = vec![];
        let is_valid = self.with_fast_division(|e| {
            stores = all(e);
            // Copy the values to variables, so that the slow path can replace them before they are
            // stored.
            for store in &mut stores {
                store.value = e.b().copy(store.value);
            }
        });
        let wrong = self.b().op(Opcode::Not, Type::Pred, &[is_valid.into()]);
        self.when(wrong, |e| {
            for (store, exact) in stores.iter().zip(all(e)) {
                e.b().assign(store.value, exact.value);
            }
        });
        stores.into_iter().for_each(|store| self.make_store(store));
    }

    /// Emits code with branch-free divisions and square roots. Returns a predicate: all of them are
    /// correct.
    pub(super) fn with_fast_division(&mut self, make: impl FnOnce(&mut Self)) -> Reg {
        let fast_division = FastDivision::new(self.b());
        self.fast_division = Some(fast_division);
        make(self);
        self.fast_division = None;
        fast_division.is_valid(self.b())
    }
}
