//! Unrolls sequential loops of a thread. Addresses that advance by a constant step are
//! strength-reduced to additions. Stores of the unrolled iterations are deferred until all of them
//! have issued their loads, so that the loads overlap.

use std::collections::BTreeMap;
use std::ops::Range;

use ir::effects::Access;
use ir::linear::Linear;
use ir::nest::{Block, BufferId, IndexId, Op, Statement, ValueId};
use ir::sabotage::{self, Bug};
use ir::{Size, visit};

use super::build::Control;
use super::emit::Emitter;
use super::inst::{Address, Comparison, Opcode, Reg, Type};
use super::state::{DeferredStore, ExecScope, Pointer};

/// How a loop is unrolled.
pub(super) struct Unrolling {
    /// The most statements of a body, and the factor up to there.
    factors: &'static [(usize, i64)],
    /// If the loads of all iterations come before their other statements: the most bytes that they
    /// give, which are in registers at the same time.
    loads_first: Option<i64>,
}

/// The usual factors.
const FACTORS: &[(usize, i64)] = &[(2, 16), (8, 8), (64, 4)];
/// For the rows of a tile, and for blocks of rows.
pub(super) const TILE: Unrolling = Unrolling { factors: FACTORS, loads_first: None };
/// For columns in strips, which are long and have few threads, if registers are left for many loads
/// in flight.
pub(super) const STRIP: Unrolling = Unrolling { factors: &[(12, 16), (64, 4)], loads_first: Some(128) };
/// The same where many threads share the registers.
pub(super) const WIDE_STRIP: Unrolling = Unrolling { factors: FACTORS, loads_first: Some(64) };
/// The iterations left by a larger factor are unrolled by this one, before the rest run one by one.
const REST: i64 = 4;

impl Emitter<'_> {
    /// Runs `each` for the numbers `from, from + step, ...` below `to` with the index bound to
    /// them. The loop is unrolled if `body`, the statements of an iteration, is short enough.
    pub(super) fn unrolled_loop(
        &mut self,
        index: IndexId,
        Range { start: from, end: to }: Range<Reg>,
        step: i64,
        (body, unrolling): (&Block, &Unrolling),
        mut each: impl FnMut(&mut Self, Reg),
    ) {
        let most = self.unroll_factor(body, unrolling);
        let early = if unrolling.loads_first.is_some() { self.early_loads(index, body) } else { vec![] };
        let i = self.b().copy(from);
        self.bind(index, i);
        let outer = self.strength_reduce(index, body, step);
        // With factor 4, whole sets of four iterations as long as i + 3 * step is below `to`; then
        // the rest one by one.
        for factor in
            [Some(most).filter(|most| *most > 1), Some(REST).filter(|rest| *rest < most)].into_iter().flatten()
        {
            let others = factor - 1 - i64::from(sabotage::on(Bug::PtxTogether));
            let last = self.b().op2(Opcode::Sub, Type::S64, to, step * others);
            self.while_(
                |e| e.b().set(Comparison::Lt, Type::S64, i, last),
                |e| e.unrolled_iterations(index, i, (step, factor), &early, &mut each),
            );
        }
        self.while_(
            |e| e.b().set(Comparison::Lt, Type::S64, i, to),
            |e| e.unrolled_iterations(index, i, (step, 1), &[], &mut each),
        );
        self.addresses.pointers = outer;
    }

    /// Emits `count` consecutive iterations.
    fn unrolled_iterations(
        &mut self,
        index: IndexId,
        i: Reg,
        (step, count): (i64, i64),
        early: &[&Statement],
        each: &mut impl FnMut(&mut Self, Reg),
    ) {
        // A single iteration may load what it has stored, so its stores are not deferred.
        let iterations = |e: &mut Self| {
            let mut loaded = vec![];
            let first: Vec<Reg> = e.addresses.pointers.iter().map(|pointer| pointer.at).collect();
            for k in (0..count).filter(|_| !early.is_empty()) {
                let number = e.b().op2(Opcode::Add, Type::S64, i, k * step);
                e.bind(index, number);
                loaded.push(e.load_now(early));
                e.advance_pointers();
            }
            e.addresses.pointers.iter_mut().zip(first).for_each(|(pointer, at)| pointer.at = at);
            for k in 0..count {
                let number = if k == 0 { i } else { e.b().op2(Opcode::Add, Type::S64, i, k * step) };
                e.bind(index, number);
                e.have_loaded(usize::try_from(k).ok().and_then(|k| loaded.get(k).cloned()).unwrap_or_default());
                each(e, number);
                e.advance_pointers();
            }
            e.have_loaded(BTreeMap::new());
        };
        match count {
            0 | 1 => self.without_deferral(iterations),
            _ => self.deferring(iterations).into_iter().for_each(|store| self.make_store(store)),
        }
        for k in 0..self.addresses.pointers.len() {
            // The loop-carried registers get the last sums at the end, since the next round begins
            // from them.
            let (at, carried) = (self.addresses.pointers[k].at, self.addresses.pointers[k].carried);
            self.b().assign(carried, at);
            self.addresses.pointers[k].at = carried;
        }
        self.b().op_to(i, Opcode::Add, Type::S64, &[i.into(), (count * step).into()]);
        self.bind(index, i);
    }

    /// Advances the pointers by one iteration. The sums are new registers, so that the loads of all
    /// iterations are independent.
    fn advance_pointers(&mut self) {
        for k in 0..self.addresses.pointers.len() {
            let (at, step) = (self.addresses.pointers[k].at, self.addresses.pointers[k].step);
            self.addresses.pointers[k].at = self.b().op2(Opcode::Add, Type::S64, at, step);
        }
    }

    /// The loads of a body that differ from iteration to iteration, and depend on no other
    /// statement of it.
    fn early_loads<'l>(&self, index: IndexId, body: &'l Block) -> Vec<&'l Statement> {
        let is_early = |s: &&Statement| {
            let Statement::Let { op: Op::Load { buffer, view, at }, .. } = s else { return false };
            let linear = Linear::of(self.program, *buffer, view.as_deref(), at);
            linear.values.is_empty() && !linear.affine.coefficient(index).is_zero()
        };
        body.iter().filter(is_early).collect()
    }

    /// Makes loads of the current iteration.
    fn load_now(&mut self, loads: &[&Statement]) -> BTreeMap<ValueId, Reg> {
        let mut loaded = BTreeMap::new();
        for statement in loads {
            if let Statement::Let { value, op: Op::Load { buffer, view, at } } = statement {
                let reg = self.in_exec_scope(ExecScope::Thread, |e| e.load(*buffer, view.as_deref(), at));
                loaded.insert(*value, reg);
            }
        }
        loaded
    }

    /// The unroll factor for a body.
    fn unroll_factor(&self, body: &Block, unrolling: &Unrolling) -> i64 {
        // A call counts as the top-level statements of its function.
        let mut statements = 0;
        let mut straight = true;
        visit::for_each_statement(body, &mut |statement| match statement {
            Statement::Let { op: Op::Call(function, _), .. } => {
                statements += self.program.functions[*function].body.len()
            }
            Statement::Let { .. } | Statement::Store { .. } => statements += 1,
            Statement::Scatter { .. }
            | Statement::If { .. }
            | Statement::Loop(_)
            | Statement::While(_)
            | Statement::Contract(_) => {
                straight = false;
            }
        });
        if !straight || !self.may_defer_stores(body) {
            return 1;
        }
        let factor = unrolling.factors.iter().find(|(most, _)| statements <= *most).map_or(1, |(_, factor)| *factor);
        let Some(most) = unrolling.loads_first else { return factor };
        let bytes: usize = visit::loads(body).iter().map(|buffer| self.program.buffers[*buffer].dtype.bytes()).sum();
        factor.min((most / i64::try_from(bytes.max(1)).unwrap_or(most)).max(REST))
    }

    /// Whether no iteration loads an element that another one stores, or overwrites one that
    /// another one loads.
    fn may_defer_stores(&self, body: &Block) -> bool {
        let stored = visit::stores(body);
        !self.shared.in_place && visit::loads(body).iter().all(|buffer| !stored.contains(buffer))
    }

    /// Creates pointers for the accesses that advance with the index, which is bound to its first
    /// value. Returns the pointers of the enclosing loop.
    fn strength_reduce(&mut self, index: IndexId, body: &Block, step: i64) -> Vec<Pointer> {
        let outer = std::mem::take(&mut self.addresses.pointers);
        let mut made: Vec<Pointer> = vec![];
        for Access { buffer, view, at } in body.iter().flat_map(|statement| statement.effects().accesses()) {
            let linear = Linear::of(self.program, buffer, view, at);
            let coefficient = linear.affine.coefficient(index);
            // One pointer serves all accesses to the same element. Accesses that depend on loaded
            // values do not advance evenly, and those that do not move need no pointer.
            let known = made.iter().any(|p| p.buffer == buffer && p.affine == linear.affine);
            if known || !linear.values.is_empty() || coefficient.is_zero() {
                continue;
            }
            let bytes = step * self.element_bytes(buffer);
            let step = self.size(&(&coefficient * &Size::constant(bytes)));
            let first = self.address(buffer, &linear);
            if let Address { base: Some(base), offset } = first {
                let carried = self.b().copy(base);
                made.push(Pointer { buffer, affine: linear.affine, at: carried, carried, offset, step });
            }
        }
        self.addresses.pointers = made;
        outer
    }

    /// The current address of an access that has a pointer.
    pub(super) fn pointer(&self, buffer: BufferId, linear: &Linear) -> Option<Address> {
        let of = |p: &&Pointer| linear.values.is_empty() && p.buffer == buffer && p.affine == linear.affine;
        self.addresses.pointers.iter().find(of).map(|p| Address { base: Some(p.at), offset: p.offset })
    }

    /// Stores a value, or defers the store until the unrolled iterations have issued their loads.
    pub(super) fn store_or_defer(&mut self, store: DeferredStore) {
        match &mut self.deferred {
            Some(deferred) => deferred.push(store),
            None => self.make_store(store),
        }
    }

    pub(super) fn make_store(&mut self, DeferredStore { space, ty, value, at, only }: DeferredStore) {
        match only {
            Some(only) => self.b().guarded(only, |b| b.store(space, ty, value, at)),
            None => self.b().store(space, ty, value, at),
        }
    }
}
