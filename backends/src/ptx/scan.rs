//! Running reductions by one thread, in the order of `ir::order`.

use ir::Order;
use ir::nest::{Loop, Op, Program, Statement, ValueId};
use ir::order::{Distribution, SCAN_CHUNK, SCAN_GROUP, Scope};
use ir::sabotage::{self, Bug};

use super::build::Control;
use super::emit::Emitter;
use super::fold::MergingCode;
use super::inst::{Comparison, Opcode, Reg, Space, Type};
use super::state::Running;
use ir::merging::Merging;

const STEPS: u32 = SCAN_GROUP.ilog2();

/// The bytes of memory for the steps of a group.
fn bytes(fold: Merging, program: &Program) -> usize {
    SCAN_GROUP * STEPS as usize * fold.place(program) as usize
}

impl Running {
    pub(super) fn new(e: &mut Emitter<'_>, fold: Merging) -> Running {
        let (state, before) = (fold.variable(e), fold.variable(e));
        let bytes = bytes(fold, e.program);
        let steps = fold.depends_on_order(e.program).then(|| e.b().take(Space::Local, bytes));
        Running { fold, state, before, steps }
    }

    pub(super) fn give_back(&self, e: &mut Emitter<'_>) {
        if self.steps.is_some() {
            let bytes = bytes(self.fold, e.program);
            e.b().give_back(Space::Local, bytes);
        }
    }

    /// Takes element `number`, with state `one`. Returns the inclusive prefix.
    pub(super) fn take(&self, e: &mut Emitter<'_>, one: &[Reg], number: Reg) -> Vec<Reg> {
        let fold = self.fold;
        let Some(steps) = self.steps else {
            fold.add(e, &self.state, one);
            return self.state.iter().map(|reg| e.b().copy(*reg)).collect();
        };
        let size = fold.place(e.program);
        let place = e.b().op2(Opcode::And, Type::B64, number, SCAN_GROUP as i64 - 1);
        let sum: Vec<Reg> = one.iter().map(|reg| e.b().copy(*reg)).collect();
        let over = Distribution::new([Scope::Memory.of(SCAN_GROUP)]);
        let numbered = (0..).zip(Order::Scan.tree().steps(&over));
        for (number, step) in numbered.skip(usize::from(sabotage::on(Bug::PtxScanStep))) {
            let at = steps + number * SCAN_GROUP as i64 * size;
            let own = e.b().element(Space::Local, at, place, size);
            fold.store(e, Space::Local, &sum, own);
            let distance = step.distance as i64;
            let joins = e.b().set(Comparison::Ge, Type::S64, place, distance);
            e.when(joins, |e| {
                let other = super::inst::Address { offset: own.offset - distance * size, ..own };
                let other = fold.load(e, Space::Local, other);
                let joined = fold.merge(e, &other, &sum);
                super::fold::assign(e.b(), &sum, &joined);
            });
        }
        let in_chunk = fold.merge(e, &self.state, &sum);
        let prefix = fold.merge(e, &self.before, &in_chunk);
        let last = e.b().set(Comparison::Eq, Type::S64, place, SCAN_GROUP as i64 - 1);
        e.when(last, |e| {
            fold.add(e, &self.state, &sum);
            let place = e.b().op2(Opcode::And, Type::B64, number, SCAN_CHUNK as i64 - 1);
            let last = e.b().set(Comparison::Eq, Type::S64, place, SCAN_CHUNK as i64 - 1);
            e.when(last, |e| {
                fold.add(e, &self.before, &self.state);
                fold.clear(e, &self.state);
            });
        });
        prefix
    }
}

impl Emitter<'_> {
    /// Scans one element after another.
    pub(super) fn scan_alone(&mut self, l: &Loop) {
        let mut running = vec![];
        for statement in &l.body {
            if let Statement::Let { value, op: Op::Prefix(prefix) } = statement {
                let fold = Merging::of_prefix(self.dtypes(), prefix);
                let made = Running::new(self, fold);
                running.push(made.clone());
                self.scans.running.insert(*value, (made, prefix.clone()));
            }
        }
        let axes = self.axes(&l.dims, &l.body);
        let zero = self.int(0);
        self.counted(zero, axes.total, 1, |e, number| {
            let outer = e.scans.number.replace(number);
            e.iteration(&axes, number, &l.body);
            e.scans.number = outer;
        });
        running.iter().rev().for_each(|r| r.give_back(self));
    }

    /// Defines the value of a prefix in a scan's body.
    pub(super) fn prefix(&mut self, value: ValueId) {
        let (Some((running, prefix)), Some(number)) = (self.scans.running.get(&value).cloned(), self.scans.number)
        else {
            unreachable!("a prefix stands in a scan")
        };
        let one = self.one(&prefix.inputs, number);
        let state = running.take(self, &one, number);
        let values = running.fold.values(self, &state);
        self.define(value, values[prefix.field]);
    }
}
