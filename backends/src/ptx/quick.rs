//! Division and square roots of `f32` without a branch each. `div.rn` and `sqrt.rn` become a few instructions, a check of their operands and a
//! branch around a call, at each of which the elements of a thread wait for one another. Here only the few instructions are left: the ones
//! that NVIDIA's assembler makes, so with the same results, for operands neither tiny nor huge. What the operands were is gathered over all of
//! a thread's elements, and asked once: where some were others, all of it is computed anew by `div.rn` and `sqrt.rn`.
//!
//! The quotient of x and y begins with an approximation of 1/y. It is exact if no intermediate result leaves the normal numbers, which
//! |x| >= 2^-40 and |y| <= 2^80 ensure (the rest of a division is a multiple of 2^-87) unless the quotient is infinite or NaN: a divisor of
//! zero, below the normal numbers or too small for its dividend makes it so, as does any NaN. The root of x asks the same of x.

use std::ops::Range;

use ir::nest::{Block, BufferId, Op, Program, Role, Statement, Subscript, ValueId};
use ir::{BinaryOp, Dtype, UnaryOp, visit};

use super::build::{Builder, Control};
use super::emit::{Emitter, Team};
use super::inst::{Comparison, Opcode, Operand, Reg, Type};
use super::rows::Sweep;

/// The least dividend, 2^-40, and the greatest divisor, 2^80, as bits.
const LEAST: Operand = Operand::F32((127 - 40) << 23);
const GREATEST: Operand = Operand::F32((127 + 80) << 23);

const fn float(value: f32) -> Operand {
    Operand::F32(value.to_bits())
}

/// What the operands and results so far were.
#[derive(Clone, Copy)]
pub(super) struct Quick {
    /// The least dividend and the greatest divisor.
    least: Reg,
    greatest: Reg,
    /// 0, or NaN if a result was infinite or NaN.
    finite: Reg,
}

impl Quick {
    fn new(b: &mut Builder) -> Quick {
        let [least, greatest, finite] = [GREATEST, float(0.0), float(0.0)].map(|first| b.mov(Type::F32, first));
        Quick { least, greatest, finite }
    }

    /// Whether all results are right.
    fn held(self, b: &mut Builder) -> Reg {
        let least = b.set(Comparison::Ge, Type::F32, self.least, LEAST);
        let greatest = b.set(Comparison::Le, Type::F32, self.greatest, GREATEST);
        let finite = b.set(Comparison::Eq, Type::F32, self.finite, float(0.0));
        let both = b.op2(Opcode::And, Type::Pred, least, greatest);
        b.op2(Opcode::And, Type::Pred, both, finite)
    }

    pub(super) fn quotient(self, b: &mut Builder, valid: Option<Reg>, x: Reg, y: Reg) -> Reg {
        let minus = b.op(Opcode::Neg, Type::F32, &[y.into()]);
        let near = b.op(Opcode::RcpNear, Type::F32, &[y.into()]);
        let error = fma(b, minus, near, float(1.0));
        let inverse = fma(b, near, error, near);
        let quotient = b.op2(Opcode::MulRn, Type::F32, x, inverse);
        let rest = fma(b, minus, quotient, x);
        let quotient = fma(b, rest, inverse, quotient);
        self.heed(b, valid, &[(Opcode::Min, self.least, x), (Opcode::Max, self.greatest, y)], quotient);
        quotient
    }

    pub(super) fn root(self, b: &mut Builder, valid: Option<Reg>, x: Reg) -> Reg {
        let near = b.op(Opcode::RsqrtNear, Type::F32, &[x.into()]);
        let root = b.op2(Opcode::MulRn, Type::F32, x, near);
        let half = b.op2(Opcode::MulRn, Type::F32, near, float(0.5));
        let minus = b.op(Opcode::Neg, Type::F32, &[root.into()]);
        let rest = fma(b, minus, root, x);
        let root = fma(b, rest, half, root);
        self.heed(b, valid, &[(Opcode::Min, self.least, x)], root);
        root
    }

    /// Takes operands into their extremes, and a result, of an element that is there.
    fn heed(self, b: &mut Builder, valid: Option<Reg>, operands: &[(Opcode, Reg, Reg)], result: Reg) {
        let heed = |b: &mut Builder| {
            for (extreme, of, operand) in operands {
                let size = b.op(Opcode::Abs, Type::F32, &[(*operand).into()]);
                b.op_to(*of, *extreme, Type::F32, &[(*of).into(), size.into()]);
            }
            b.op_to(self.finite, Opcode::FmaRn, Type::F32, &[result.into(), float(0.0), self.finite.into()]);
        };
        match valid {
            Some(valid) => b.guarded((valid, true), heed),
            None => heed(b),
        }
    }
}

fn fma(b: &mut Builder, x: Reg, y: Reg, z: impl Into<Operand>) -> Reg {
    b.op(Opcode::FmaRn, Type::F32, &[x.into(), y.into(), z.into()])
}

/// Whether a body divides or takes roots, and may be run again where that has gone wrong: what it loads and checks does not hang on it.
pub(super) fn pays(e: &Emitter<'_>, body: &Block) -> bool {
    let mut again = true;
    visit::for_each_statement(body, &mut |statement| {
        again &= match statement {
            Statement::Let { op: Op::Load { at, .. }, .. } => at.iter().all(|s| matches!(s, Subscript::Affine(_))),
            Statement::Let { op: Op::Check { .. }, .. } | Statement::Loop(_) | Statement::Contract(_) => false,
            _ => true,
        }
    });
    again && divides(e.program, body, &|v| e.dtype(v))
}

/// Whether a body, or a function that it calls, divides or takes roots of `f32`.
fn divides(program: &Program, body: &Block, dtype: &dyn Fn(ValueId) -> Dtype) -> bool {
    let mut found = false;
    visit::for_each_statement(body, &mut |statement| {
        let Statement::Let { op, .. } = statement else { return };
        found |= match op {
            Op::Binary(BinaryOp::Div, x, _) | Op::Unary(UnaryOp::Sqrt, x) => dtype(*x) == Dtype::F32,
            Op::Call(function, _) => {
                let function = &program.functions[*function];
                divides(program, &function.body, &|v| function.values[v])
            }
            _ => false,
        }
    });
    found
}

impl Emitter<'_> {
    /// Whether a row's loop divides, and nothing that it stores is loaded again.
    pub(super) fn divides_apart(&self, body: &Block) -> bool {
        let apart =
            |buffer: &BufferId| !self.shared.contains(buffer) && self.program.buffers[*buffer].role != Role::Scratch;
        let straight = |s: &Statement| matches!(s, Statement::Let { op, .. } if !matches!(op, Op::Prefix(..)));
        let plain = |s: &Statement| straight(s) || matches!(s, Statement::Store { .. });
        body.iter().all(plain) && visit::stores(body).iter().all(apart) && pays(self, body)
    }

    /// Some of a thread's elements of such a loop, whose loads are made: divided together.
    pub(super) fn batch(&mut self, sweep: &Sweep<'_>, places: Range<usize>) {
        let Sweep { index, body, mine, uniform, loaded } = sweep;
        let all = |e: &mut Self| {
            let outer = e.waiting.replace(vec![]);
            for place in places.clone() {
                e.turn_to(*index, mine, place);
                for statement in *body {
                    match statement {
                        Statement::Let { value, .. } if place > places.start && uniform.contains(value) => {}
                        Statement::Let { value, .. } if let Some(values) = loaded.get(value) => {
                            e.define(*value, values[place]);
                        }
                        other => e.as_team(Team::Thread, |e| e.statement(other)),
                    }
                }
            }
            e.turn_from();
            std::mem::replace(&mut e.waiting, outer).unwrap_or_default()
        };
        let mut stores = vec![];
        let held = self.quickly(|e| {
            stores = all(e);
            for store in &mut stores {
                store.value = e.b().copy(store.value);
            }
        });
        let wrong = self.b().op(Opcode::Not, Type::Pred, &[held.into()]);
        self.when(wrong, |e| {
            for (store, exact) in stores.iter().zip(all(e)) {
                e.b().assign(store.value, exact.value);
            }
        });
        stores.into_iter().for_each(|store| self.store_pending(store));
    }

    /// Runs `make` with divisions and roots without branches; whether all of them are right.
    pub(super) fn quickly(&mut self, make: impl FnOnce(&mut Self)) -> Reg {
        let quick = Quick::new(self.b());
        self.quick = Some(quick);
        make(self);
        self.quick = None;
        quick.held(self.b())
    }
}
