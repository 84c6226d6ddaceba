//! Iterations that one thread runs one after another, taken several at a time: addresses that move in even steps are added to,
//! not computed anew, and what several iterations store waits until all of them have loaded, so that their loads are on the
//! way together.

use ir::nest::{Block, BufferId, IndexId, Op, Statement};
use ir::sabotage::{self, Bug};
use ir::{Affine, Size, visit};

use super::build::Control;
use super::emit::Emitter;
use super::inst::{Address, Comparison, Opcode, Reg, Space, Type};
use crate::access::Linear;

/// Weights of bodies of which 16, eight, or four iterations go together.
const FEATHER: usize = 2;
const LIGHT: usize = 8;
const MEDIUM: usize = 64;

/// An address that moves with an index.
pub(super) struct Pointer {
    buffer: BufferId,
    affine: Affine<IndexId>,
    /// Where it is for the iteration at hand, and where it is kept from one round of the loop to the next.
    at: Reg,
    kept: Reg,
    /// Bytes from there to the element.
    offset: i64,
    /// Bytes from an iteration to the next.
    step: Reg,
}

/// A store that waits.
pub(super) struct Pending {
    ty: Type,
    pub(super) value: Reg,
    at: Address,
    /// It happens only where this holds.
    only: Option<Reg>,
}

impl Emitter<'_> {
    /// Runs `each` for the numbers `from, from + step, ...` below `to`, with the index bound to them: several at a time if the body,
    /// whose iterations they are, is short.
    pub(super) fn along(
        &mut self,
        index: IndexId,
        (from, to): (Reg, Reg),
        step: i64,
        body: &Block,
        mut each: impl FnMut(&mut Self, Reg),
    ) {
        let together = self.together(body);
        let i = self.b().copy(from);
        self.bind(index, i);
        let outer = self.set_out(index, body, step);
        if together > 1 {
            let last = self.b().op2(
                Opcode::Sub,
                Type::S64,
                to,
                step * (together - 1 - i64::from(sabotage::on(Bug::PtxTogether))),
            );
            self.while_(
                |e| e.b().set(Comparison::Lt, Type::S64, i, last),
                |e| e.several(index, i, step, together, &mut each),
            );
        }
        self.while_(|e| e.b().set(Comparison::Lt, Type::S64, i, to), |e| e.several(index, i, step, 1, &mut each));
        self.pointers = outer;
    }

    /// So many iterations from the one at hand on.
    fn several(&mut self, index: IndexId, i: Reg, step: i64, count: i64, each: &mut impl FnMut(&mut Self, Reg)) {
        // A single one may load what it has stored.
        let waiting = std::mem::replace(&mut self.waiting, (count > 1).then(Vec::new));
        for k in 0..count {
            let number = if k == 0 { i } else { self.b().op2(Opcode::Add, Type::S64, i, k * step) };
            self.bind(index, number);
            each(self, number);
            for k in 0..self.pointers.len() {
                let (at, step) = (self.pointers[k].at, self.pointers[k].step);
                self.pointers[k].at = self.b().op2(Opcode::Add, Type::S64, at, step);
            }
        }
        for pending in std::mem::replace(&mut self.waiting, waiting).unwrap_or_default() {
            self.store_pending(pending);
        }
        for k in 0..self.pointers.len() {
            let (at, kept) = (self.pointers[k].at, self.pointers[k].kept);
            self.b().assign(kept, at);
            self.pointers[k].at = kept;
        }
        self.b().op_to(i, Opcode::Add, Type::S64, &[i.into(), (count * step).into()]);
        self.bind(index, i);
    }

    /// How many iterations of a body go together.
    pub(super) fn together(&self, body: &Block) -> i64 {
        let mut weight = 0;
        let mut straight = true;
        visit::for_each_statement(body, &mut |statement| match statement {
            Statement::Let { op: Op::Call(function, _), .. } => weight += self.program.functions[*function].body.len(),
            Statement::Let { .. } | Statement::Store { .. } => weight += 1,
            _ => straight = false,
        });
        match weight {
            _ if !straight || !self.stores_may_wait(body) => 1,
            _ if weight <= FEATHER => 16,
            _ if weight <= LIGHT => 8,
            _ if weight <= MEDIUM => 4,
            _ => 1,
        }
    }

    /// Whether no iteration loads what another one stores, or what lay there.
    fn stores_may_wait(&self, body: &Block) -> bool {
        let stored = visit::stores(body);
        !self.in_place && visit::loads(body).iter().all(|buffer| !stored.contains(buffer))
    }

    /// Makes pointers of a body's accesses that move with the index, which is bound to its first number. Gives back those there were.
    fn set_out(&mut self, index: IndexId, body: &Block, step: i64) -> Vec<Pointer> {
        let outer = std::mem::take(&mut self.pointers);
        let mut made: Vec<Pointer> = vec![];
        for statement in body {
            let (buffer, view, at) = match statement {
                Statement::Let { op: Op::Load { buffer, view, at }, .. } => (*buffer, view.as_deref(), at),
                Statement::Store { buffer, at, .. } => (*buffer, None, at),
                _ => continue,
            };
            let linear = Linear::of(self.program, buffer, view, at);
            let coefficient = linear.affine.coefficient(index);
            let known = made.iter().any(|p| p.buffer == buffer && p.affine == linear.affine);
            if known || !linear.values.is_empty() || coefficient.is_zero() {
                continue;
            }
            let bytes = step * self.element_bytes(buffer);
            let step = self.size(&(&coefficient * &Size::constant(bytes)));
            let first = self.address(buffer, &linear);
            if let Address { base: Some(base), offset } = first {
                let kept = self.b().copy(base);
                made.push(Pointer { buffer, affine: linear.affine, at: kept, kept, offset, step });
            }
        }
        self.pointers = made;
        outer
    }

    /// The pointer of an access, if it has one.
    pub(super) fn pointer(&self, buffer: BufferId, linear: &Linear) -> Option<Address> {
        let of = |p: &&Pointer| linear.values.is_empty() && p.buffer == buffer && p.affine == linear.affine;
        self.pointers.iter().find(of).map(|p| Address { base: Some(p.at), offset: p.offset })
    }

    /// Stores, now or when the iterations at hand have loaded.
    pub(super) fn put(&mut self, ty: Type, value: Reg, at: Address, only: Option<Reg>) {
        let pending = Pending { ty, value, at, only };
        match &mut self.waiting {
            Some(waiting) => waiting.push(pending),
            None => self.store_pending(pending),
        }
    }

    pub(super) fn store_pending(&mut self, Pending { ty, value, at, only }: Pending) {
        match only {
            Some(only) => self.b().guarded((only, true), |b| b.store(Space::Global, ty, value, at)),
            None => self.b().store(Space::Global, ty, value, at),
        }
    }

    /// What `make` emits stores at once: it happens under a condition or several times.
    pub(super) fn at_once<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> T {
        let waiting = self.waiting.take();
        let made = make(self);
        self.waiting = waiting;
        made
    }
}
