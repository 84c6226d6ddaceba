//! Running reductions on a thread, in the order of `ir::order`.

use ir::nest::{Loop, Op, Statement, ValueId};
use ir::order::{SCAN_CHUNK, SCAN_GROUP};
use ir::sabotage::{self, Bug};

use super::build::Control;
use super::emit::Emitter;
use super::fold::STATE;
use super::inst::{Comparison, Opcode, Reg, Space, Type};
use crate::fold::Fold;

/// One running reduction.
#[derive(Clone)]
pub(super) struct Running {
    fold: Fold,
    /// The reduction so far; in a scan's order, that of the chunk's groups before this one.
    state: Vec<Reg>,
    /// The reduction of the chunks before this one.
    before: Vec<Reg>,
    /// What the elements of a group are after each step, if order matters.
    steps: Option<i64>,
}

const STEPS: u32 = SCAN_GROUP.ilog2();
const BYTES: usize = SCAN_GROUP * STEPS as usize * STATE as usize;

impl Running {
    pub(super) fn new(e: &mut Emitter<'_>, fold: Fold) -> Running {
        let (state, before) = (fold.variable(e.b()), fold.variable(e.b()));
        let steps = fold.op.depends_on_order(fold.dtype).then(|| e.b().take(Space::Local, BYTES));
        Running { fold, state, before, steps }
    }

    pub(super) fn give_back(&self, e: &mut Emitter<'_>) {
        if self.steps.is_some() {
            e.b().give_back(Space::Local, BYTES);
        }
    }

    /// The prefix at element `number`.
    pub(super) fn take(&self, e: &mut Emitter<'_>, value: Reg, number: Reg) -> Reg {
        let fold = self.fold;
        let one = fold.one(e.b(), value, number);
        let Some(steps) = self.steps else {
            fold.add(e.b(), &self.state, &one);
            let state = self.state.iter().map(|reg| e.b().copy(*reg)).collect::<Vec<_>>();
            return fold.result(e.b(), &state);
        };
        let place = e.b().op2(Opcode::And, Type::B64, number, SCAN_GROUP as i64 - 1);
        let sum: Vec<Reg> = one.iter().map(|reg| e.b().copy(*reg)).collect();
        for step in u32::from(sabotage::on(Bug::PtxScanStep))..STEPS {
            let at = steps + i64::from(step) * SCAN_GROUP as i64 * STATE;
            let own = e.b().element(Space::Local, at, place, STATE);
            fold.store(e.b(), Space::Local, &sum, own);
            let distance = 1i64 << step;
            let joins = e.b().set(Comparison::Ge, Type::S64, place, distance);
            e.when(joins, |e| {
                let other = super::inst::Address { offset: own.offset - distance * STATE, ..own };
                let other = fold.load(e.b(), Space::Local, other);
                let joined = fold.merge(e.b(), &other, &sum);
                super::fold::assign(e.b(), &sum, &joined);
            });
        }
        let in_chunk = fold.merge(e.b(), &self.state, &sum);
        let prefix = fold.merge(e.b(), &self.before, &in_chunk);
        let last = e.b().set(Comparison::Eq, Type::S64, place, SCAN_GROUP as i64 - 1);
        e.when(last, |e| {
            fold.add(e.b(), &self.state, &sum);
            let place = e.b().op2(Opcode::And, Type::B64, number, SCAN_CHUNK as i64 - 1);
            let last = e.b().set(Comparison::Eq, Type::S64, place, SCAN_CHUNK as i64 - 1);
            e.when(last, |e| {
                fold.add(e.b(), &self.before, &self.state);
                fold.clear(e.b(), &self.state);
            });
        });
        fold.result(e.b(), &prefix)
    }
}

impl Emitter<'_> {
    /// Element after element.
    pub(super) fn scan_alone(&mut self, l: &Loop) {
        let mut running = vec![];
        for statement in &l.body {
            if let Statement::Let { value, op: Op::Prefix(op, input) } = statement {
                let fold = Fold { op: *op, dtype: self.dtype(*input) };
                let made = Running::new(self, fold);
                running.push(made.clone());
                self.running.insert(*value, (made, *input));
            }
        }
        let axes = self.axes(&l.dims, &l.body);
        let zero = self.int(0);
        self.counted(zero, axes.total, 1, |e, number| {
            let outer = e.number.replace(number);
            e.iteration(&axes, number, &l.body);
            e.number = outer;
        });
        running.iter().rev().for_each(|r| r.give_back(self));
    }

    /// The prefix that a value of a scan's body is.
    pub(super) fn prefix(&mut self, value: ValueId) {
        let (Some((running, input)), Some(number)) = (self.running.get(&value).cloned(), self.number) else {
            unreachable!("a prefix stands in a scan")
        };
        let element = self.value(input);
        let prefix = running.take(self, element, number);
        self.define(value, prefix);
    }
}
