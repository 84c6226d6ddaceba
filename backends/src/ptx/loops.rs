//! Loops: sequential in one thread, distributed over the threads of a block, or run by one thread
//! on behalf of all.

use ir::linear::mergeable;
use ir::nest::{Block, Extent, IndexId, Loop, LoopKind, Statement, ValueId, While};
use ir::sabotage::{self, Bug};
use ir::sched::is_flat;
use ir::sched::ordered::is_ordered;
use ir::{Monoid, Size, visit};

use super::build::Control;
use super::emit::Emitter;
use super::fold::{MergingCode, number};
use super::inst::{Address, Class, Comparison, Opcode, Reg, Rounding, Space, Special, Type};
use super::state::Argument;
use super::state::{ExecScope, SyncScope};
use ir::merging::{Fold, Merging};

/// The number of elements that a thread processes together, so that their loads overlap.
pub(super) const AT_ONCE: i64 = 8;

/// An index, or several adjacent ones merged into one.
struct Axis {
    index: IndexId,
    /// The number of iterations in a register, and as a size if it does not depend on data.
    count: Reg,
    length: Option<Size>,
}

/// The indices of a loop nest, after merging, with their extents.
pub(super) struct Axes {
    axes: Vec<Axis>,
    /// A predicate: all iteration numbers are below 2^31. Only present if there are several indices
    /// and sizes determine the extents.
    small: Option<Reg>,
    /// The total number of iterations.
    pub(super) total: Reg,
}

impl Axes {
    /// The index, if there is only one after merging.
    pub(super) fn only(&self) -> Option<IndexId> {
        if let [axis] = self.axes.as_slice() { Some(axis.index) } else { None }
    }
}

impl Emitter<'_> {
    /// Evaluates the extents of a loop and merges adjacent indices where its body allows it.
    pub(super) fn axes(&mut self, dims: &[(IndexId, Extent)], body: &Block) -> Axes {
        let mut axes: Vec<Axis> = vec![];
        let mut total = None;
        for (k, (index, extent)) in dims.iter().enumerate() {
            let length = extent.as_size().cloned();
            let count = self.extent(extent);
            let count = self.b().op2(Opcode::Max, Type::S64, count, 0);
            total = Some(total.map_or(count, |total| self.b().op2(Opcode::Mul, Type::S64, total, count)));
            match axes.last_mut() {
                Some(last) if mergeable(self.program, dims[k - 1].0, *index, extent, &[body]) => {
                    // The outer index stays 0, because the inner one counts for both.
                    let merged = std::mem::replace(&mut last.index, *index);
                    last.count = self.b().op2(Opcode::Mul, Type::S64, last.count, count);
                    last.length = last.length.take().zip(length).map(|(outer, length)| &outer * &length);
                    let zero = self.int(0);
                    self.bind(merged, zero);
                }
                _ => axes.push(Axis { index: *index, count, length }),
            }
        }
        let total = total.unwrap_or_else(|| self.int(1));
        let small = (axes.len() > 1).then(|| Emitter::extents(dims)).flatten().map(|extents| {
            let small = self.argument(Argument::Small(extents));
            self.b().set(Comparison::Ne, Type::S64, small, 0)
        });
        Axes { axes, small, total }
    }

    /// A quotient of non-negative numbers. A 32-bit division is used if the operands fit at run
    /// time, which takes a fifth of the time.
    pub(super) fn divide(&mut self, small: Option<Reg>, x: Reg, y: Reg) -> Reg {
        let Some(small) = small else { return self.b().op2(Opcode::Div, Type::S64, x, y) };
        let quotient = self.b().reg(Class::B64);
        self.either(
            small,
            |e| {
                let [x, y] = [x, y].map(|v| e.b().convert(Rounding::Exact, Type::U32, Type::U64, v));
                let narrow = e.b().op2(Opcode::Div, Type::U32, x, y);
                let wide = e.b().convert(Rounding::Exact, Type::U64, Type::U32, narrow);
                e.b().assign(quotient, wide);
            },
            |e| e.b().op_to(quotient, Opcode::Div, Type::S64, &[x.into(), y.into()]),
        );
        quotient
    }

    /// A quotient by the extent of an axis. For dividends below 2^31, it is a multiplication and a
    /// shift by constants that the launch provides.
    fn quotient(&mut self, small: Option<Reg>, x: Reg, axis: &Axis) -> Reg {
        let (Some(small), Some(length)) = (small, axis.length.as_ref().filter(|n| n.as_constant().is_none())) else {
            return self.divide(small, x, axis.count);
        };
        let reciprocal = self.argument(Argument::Reciprocal(length.clone()));
        let quotient = self.b().reg(Class::B64);
        self.either(
            small,
            |e| {
                let upper = e.b().op2(Opcode::Shr, Type::U64, reciprocal, 32);
                let [x, factor, places] =
                    [x, reciprocal, upper].map(|v| e.b().convert(Rounding::Exact, Type::U32, Type::U64, v));
                let product = e.b().reg(Class::B64);
                e.b().op_to(product, Opcode::MulWide, Type::U32, &[x.into(), factor.into()]);
                e.b().op_to(quotient, Opcode::Shr, Type::U64, &[product.into(), places.into()]);
            },
            |e| e.b().op_to(quotient, Opcode::Div, Type::S64, &[x.into(), axis.count.into()]),
        );
        quotient
    }

    /// Binds the indices of iteration `number` (delinearization).
    pub(super) fn unravel(&mut self, axes: &Axes, number: Reg) {
        let Some((first, rest)) = axes.axes.split_first() else { return };
        let mut number = number;
        for axis in rest.iter().rev() {
            let whole = self.quotient(axes.small, number, axis);
            let index_value = self.b().op2(Opcode::Mul, Type::S64, whole, axis.count);
            let index_value = self.b().op2(Opcode::Sub, Type::S64, number, index_value);
            self.bind(axis.index, index_value);
            number = if sabotage::on(Bug::Unravelled) { number } else { whole };
        }
        self.bind(first.index, number);
    }

    pub(super) fn loop_(&mut self, l: &Loop) {
        if self.row.is_some() && self.mapping.exec_scope == ExecScope::Block {
            return self.row_loop(l);
        }
        match (&l.kind, self.mapping.exec_scope) {
            (LoopKind::Parallel, ExecScope::Block) => {
                let axes = self.axes(&l.dims, &l.body);
                let (thread, threads) = (self.special(Special::Tid), i64::from(self.mapping.threads));
                // For a flat body with a single index, process several elements at a time, so that
                // their loads overlap.
                match axes.only().filter(|_| is_flat(&l.body)) {
                    Some(index) => self.counted(thread, axes.total, threads * AT_ONCE, |e, first| {
                        let mine = e.thread_elements(first, axes.total, threads, AT_ONCE);
                        e.elements(index, &l.body, &mine, &[]);
                    }),
                    None => self.counted(thread, axes.total, threads, |e, n| e.iteration(&axes, n, &l.body)),
                }
                self.settle(&l.body);
            }
            (_, ExecScope::Column) => self.column_loop(l),
            (LoopKind::Serial, _) if self.runs_alone(&l.body) && is_ordered(&l.body) => self.in_lanes(l),
            (LoopKind::Serial, _) if self.runs_alone(&l.body) => {
                self.sync();
                self.one_for_all(&Statement::Loop(l.clone()), &[]);
            }
            (LoopKind::Parallel, ExecScope::Thread) => self.holding_rows(l, |e| e.nest(&l.dims, &l.body)),
            (LoopKind::Serial | LoopKind::Keyed { .. } | LoopKind::Sort, _) => self.nest(&l.dims, &l.body),
            (LoopKind::Reduce(reductions), ExecScope::Thread) => self.reduce_alone(l, reductions),
            (LoopKind::Reduce(reductions), ExecScope::Block) => self.reduce_together(l, reductions),
            (LoopKind::Scan, ExecScope::Thread) => self.scan_alone(l),
            (LoopKind::Scan, ExecScope::Block) => self.one_for_all(&Statement::Loop(l.clone()), &[]),
        }
    }

    /// One iteration of a loop that is distributed over threads.
    pub(super) fn iteration(&mut self, axes: &Axes, number: Reg, body: &Block) {
        self.unravel(axes, number);
        self.in_exec_scope(ExecScope::Thread, |e| e.block(body));
    }

    /// Runs the iterations sequentially.
    fn nest(&mut self, dims: &[(IndexId, Extent)], body: &Block) {
        let Some(((index, extent), inner)) = dims.split_first() else { return self.block(body) };
        let (zero, extent) = (self.int(0), self.extent(extent));
        self.counted(zero, extent, 1, |e, i| {
            e.bind(*index, i);
            e.nest(inner, body);
        });
    }

    /// A loop that carries values from step to step in registers. In a block, all threads have the
    /// same state and take the same steps, so its reductions may synchronize.
    pub(super) fn carried(&mut self, w: &While) {
        let stores = !visit::stores(&w.body).is_empty();
        if stores && self.runs_alone(&w.body) {
            let results: Vec<ValueId> = w.state.iter().map(|state| state.result).collect();
            self.sync();
            return self.one_for_all(&Statement::While(w.clone()), &results);
        }
        let (index, extent) = &w.counter;
        let extent = self.extent(extent);
        let zero = self.int(0);
        let counter = self.b().copy(zero);
        let current: Vec<Reg> = w.state.iter().map(|state| self.copy_of(state.first)).collect();
        let goes_on = self.b().reg(Class::Pred);
        let more = self.b().set(Comparison::Lt, Type::S64, counter, extent);
        self.b().assign(goes_on, more);
        let step = |e: &mut Self| {
            e.block(&w.body);
            // Copies, because the next value of one may be the current value of another.
            let next: Vec<Reg> = w.state.iter().map(|state| e.copy_of(state.next)).collect();
            current.iter().zip(next).for_each(|(to, from)| e.b().assign(*to, from));
            e.b().op_to(counter, Opcode::Add, Type::S64, &[counter.into(), 1.into()]);
            let more = e.b().set(Comparison::Lt, Type::S64, counter, extent);
            e.b().assign(goes_on, more);
        };
        let passed = self.masks.passed.filter(|_| !stores && self.mapping.exec_scope == ExecScope::Thread);
        self.while_(
            // A thread with a failed check may end at once, because the run has no result. But the
            // kernels after it still run, so one that stores does so to its end.
            |e| passed.map_or(goes_on, |passed| e.b().op2(Opcode::And, Type::Pred, goes_on, passed)),
            |e| {
                e.bind(*index, counter);
                for (state, reg) in w.state.iter().zip(&current) {
                    e.define(state.current, *reg);
                }
                let Some(condition) = &w.condition else { return step(e) };
                e.block(&condition.body);
                let holds = e.value(condition.value);
                e.either(holds, step, |e| e.b().assign(goes_on, holds));
            },
        );
        for (state, reg) in w.state.iter().zip(&current) {
            self.define(state.result, *reg);
        }
    }

    fn copy_of(&mut self, value: ValueId) -> Reg {
        let value = self.value(value);
        self.b().copy(value)
    }

    /// Whether one thread runs a serial loop for its block: it needs no barriers between the
    /// iterations.
    fn runs_alone(&self, body: &Block) -> bool {
        let mapping = &self.mapping;
        mapping.exec_scope == ExecScope::Block && mapping.sync_scope == SyncScope::Block && is_flat(body)
    }

    /// One thread runs the loop and the others wait. The results are broadcast through shared
    /// memory.
    pub(super) fn one_for_all(&mut self, statement: &Statement, results: &[ValueId]) {
        // How a value is stored does not depend on the reduction, so any fold of its type will do.
        let fold_of = |e: &Self, v: ValueId| Merging::Fold(Fold { op: Monoid::Max, dtype: e.dtype(v) });
        let size = results.iter().map(|v| fold_of(self, *v).place(self.program)).max().unwrap_or(1);
        let bytes = results.len().max(1) * size as usize;
        let at = self.b().take(Space::Shared, bytes);
        let place = |k: usize| Address { base: None, offset: at + size * k as i64 };
        let first = self.is_first();
        self.when(first, |e| {
            e.in_exec_scope(ExecScope::Thread, |e| e.statement(statement));
            for (k, v) in results.iter().enumerate() {
                let (fold, value) = (fold_of(e, *v), e.value(*v));
                let state = number(e.b(), value);
                fold.store(e, Space::Shared, &[state], place(k));
            }
        });
        self.b().barrier();
        for (k, v) in results.iter().enumerate() {
            let fold = fold_of(self, *v);
            let state = fold.load(self, Space::Shared, place(k));
            self.define_state(&[*v], fold, &state);
        }
        // The shared memory is about to be reused.
        if !results.is_empty() {
            self.b().barrier();
        }
        self.b().give_back(Space::Shared, bytes);
        self.agree(std::slice::from_ref(statement));
    }

    /// The extents of a loop, if sizes determine all of them.
    pub(super) fn extents(dims: &[(IndexId, Extent)]) -> Option<Vec<Size>> {
        dims.iter().map(|(_, extent)| extent.as_size().cloned()).collect()
    }
}
