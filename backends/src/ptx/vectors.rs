//! Loops that are laid out in vectors: each thread processes several adjacent elements with wide
//! accesses.
//!
//! At the end of the range, or if the rows are not aligned to vectors, the threads of a block
//! process one element at a time instead, still coalesced. A thread also repeats its own elements
//! one at a time if their branch-free divisions ([`super::fast_division`]) were not valid.

use std::collections::{BTreeMap, BTreeSet};

use ir::linear::Linear;
use ir::nest::{Block, BufferId, IndexId, Loop, Op, Statement, ValueId};
use ir::order::Scope;
use ir::sched::{Axis, Tail, Variant};
use ir::{Dtype, Size, visit};

use super::build::{Builder, Control};
use super::emit::Emitter;
use super::inst::{Address, Comparison, Opcode, Reg, Space, Special, Type};
use super::state::Argument;
use super::state::ExecScope;
use super::{fast_division, scalar};

/// How the elements of a thread are processed.
struct Vectors<'v> {
    /// The number of elements in a vector.
    width: usize,
    /// The number of vectors per thread.
    vectors_per_thread: i64,
    /// Whether divisions are branch-free.
    fast_division: bool,
    /// The innermost index, along which elements are adjacent.
    index: IndexId,
    /// The accesses that can be wide: loads by value, stores by position in the body.
    loads: BTreeSet<ValueId>,
    stores: BTreeSet<usize>,
    /// The sizes that must be multiples of the numbers for vectors to be aligned.
    multiples: &'v [(Size, i64)],
    /// Values that are the same for all elements of a vector.
    uniform: BTreeSet<ValueId>,
}

impl<'v> Vectors<'v> {
    /// The accesses of a loop with one axis.
    fn of(e: &Emitter<'_>, l: &Loop, axis: &Axis, tail: &'v Tail) -> Option<Vectors<'v>> {
        let index = *axis.indices.last()?;
        let (mut loads, mut stores) = (BTreeSet::new(), BTreeSet::new());
        for (place, statement) in l.body.iter().enumerate() {
            let effects = statement.effects();
            let along = |access| e.shared.along(e.program, index, access).is_some();
            if let (Statement::Let { value, .. }, true) = (statement, effects.load.is_some_and(along)) {
                loads.insert(*value);
            }
            if effects.store.is_some_and(along) {
                stores.insert(place);
            }
        }
        // Branch-free division may have to compute elements twice, so all stores must be
        // deferrable.
        let all_stores = visit::stores(&l.body).len() == stores.len();
        Some(Vectors {
            width: usize::try_from(axis.count(|scope| scope == Scope::Vector)).ok()?,
            vectors_per_thread: axis.count(|scope| scope == Scope::Register),
            fast_division: all_stores && fast_division::is_worthwhile(e, &l.body),
            index,
            loads,
            stores,
            multiples: if let Tail::Single(unless) = tail { unless } else { &[] },
            uniform: uniform(&l.body, index),
        })
    }
}

/// The values of a body that do not depend on a loop's innermost index.
pub(super) fn uniform(body: &Block, index: IndexId) -> BTreeSet<ValueId> {
    let mut varying: BTreeSet<ValueId> = BTreeSet::new();
    let mut uniform = BTreeSet::new();
    let stored = visit::stores(body);
    for statement in body {
        let Statement::Let { value, op } = statement else {
            visit::for_each_definition(statement, &mut |v| _ = varying.insert(v));
            continue;
        };
        let mut varies = matches!(op, Op::Prefix(..) | Op::Place(_));
        varies |= op.effects().load.is_some_and(|load| stored.contains(&load.buffer));
        op.for_each_affine(&mut |affine| varies |= !affine.coefficient(index).is_zero());
        op.for_each_operand(|v| varies |= varying.contains(&v));
        if varies {
            varying.insert(*value)
        } else {
            uniform.insert(*value)
        };
    }
    uniform
}

/// A wide store.
struct VectorStore {
    ty: Type,
    elements: Vec<Reg>,
    at: Address,
}

impl VectorStore {
    fn make(self, b: &mut Builder) {
        b.store_several(Space::Global, self.ty, self.elements, self.at);
    }
}

impl Emitter<'_> {
    /// Processes the elements of this block.
    pub(super) fn in_vectors(&mut self, l: &Loop, layout: &Variant) {
        let Some(vectors) = layout.axes.first().and_then(|axis| Vectors::of(self, l, axis, &layout.tail)) else {
            return;
        };
        let axes = self.axes(&l.dims, &l.body);
        let threads = i64::from(self.mapping.threads);
        let width = i64::try_from(vectors.width).expect("a small number");
        let (turn, run) = (threads * width, threads * width * vectors.vectors_per_thread);
        let mut block = self.special(Special::Ctaid);
        if layout.descending {
            let blocks = self.special(Special::Nctaid);
            let last = self.b().op2(Opcode::Sub, Type::S64, blocks, 1);
            block = self.b().op2(Opcode::Sub, Type::S64, last, block);
        }
        let base = self.b().op2(Opcode::Mul, Type::S64, block, run);
        let aligned = (!vectors.multiples.is_empty()).then(|| {
            let aligned = self.argument(Argument::Multiples(vectors.multiples.to_vec()));
            self.b().set(Comparison::Ne, Type::S64, aligned, 0)
        });
        let end = self.b().op2(Opcode::Add, Type::S64, base, run);
        let mut whole = self.b().set(Comparison::Le, Type::S64, end, axes.total);
        if let Some(aligned) = aligned {
            whole = self.b().op2(Opcode::And, Type::Pred, whole, aligned);
        }
        let single = self.b().op(Opcode::Not, Type::Pred, &[whole.into()]);
        let thread = self.special(Special::Tid);
        let own = self.b().op(Opcode::Mad, Type::S64, &[thread.into(), width.into(), base.into()]);
        self.when(whole, |e| {
            let mut stores = vec![];
            let mut make = |e: &mut Self| {
                // Compute all indices first. That may branch, and afterwards all loads can be
                // issued back to back.
                let mut places = vec![];
                for k in 0..vectors.vectors_per_thread {
                    let number = if k == 0 { own } else { e.b().op2(Opcode::Add, Type::S64, own, k * turn) };
                    e.unravel(&axes, number);
                    places.push(l.dims.iter().map(|(index, _)| (*index, e.index(*index))).collect::<Vec<_>>());
                }
                let at = |e: &mut Self, place: &[(IndexId, Reg)]| place.iter().for_each(|(i, reg)| e.bind(*i, *reg));
                let mut loaded = vec![];
                for place in &places {
                    at(e, place);
                    loaded.push(e.load_all(&l.body, &vectors));
                }
                for (place, loaded) in places.iter().zip(&loaded) {
                    at(e, place);
                    stores.extend(e.in_exec_scope(ExecScope::Thread, |e| e.neighbours(&l.body, &vectors, loaded)));
                }
            };
            if vectors.fast_division {
                let valid = e.with_fast_division(make);
                e.b().guarded(valid, |b| stores.into_iter().for_each(|s| s.make(b)));
                e.b().op_to(single, Opcode::Not, Type::Pred, &[valid.into()]);
            } else {
                make(e);
                stores.into_iter().for_each(|s| s.make(e.b()));
            }
        });
        self.when(single, |e| {
            let first = e.b().op2(Opcode::Add, Type::S64, base, thread);
            let end = e.b().op2(Opcode::Min, Type::S64, end, axes.total);
            if !vectors.fast_division {
                return e.counted(first, end, threads, |e, number| e.iteration(&axes, number, &l.body));
            }
            // If the block has all its vectors, then only this thread's divisions were not valid.
            // It repeats its own elements, vector by vector.
            let vectors_per_thread = e.b().select(Type::B64, vectors.vectors_per_thread, 1, whole);
            let step = e.b().select(Type::B64, 1, threads, whole);
            let zero = e.int(0);
            e.counted(zero, vectors_per_thread, 1, |e, k| {
                let own = e.b().op(Opcode::Mad, Type::S64, &[k.into(), turn.into(), own.into()]);
                let behind = e.b().op2(Opcode::Add, Type::S64, own, width);
                let first = e.b().select(Type::B64, own, first, whole);
                let end = e.b().select(Type::B64, behind, end, whole);
                e.counted(first, end, step, |e, number| e.iteration(&axes, number, &l.body));
            });
        });
    }

    /// Loads a vector for each contiguous load, starting at the current index.
    fn load_all(&mut self, body: &Block, vectors: &Vectors<'_>) -> BTreeMap<ValueId, Vec<Reg>> {
        let mut loaded = BTreeMap::new();
        for statement in body {
            if let Statement::Let { value, op: Op::Load { buffer, view, at } } = statement
                && vectors.loads.contains(value)
            {
                let linear = Linear::of(self.program, *buffer, view.as_deref(), at);
                loaded.insert(*value, self.load_neighbours(*buffer, &linear, vectors.width));
            }
        }
        loaded
    }

    /// Computes the elements of a vector from the loaded values. Returns the wide stores.
    fn neighbours(
        &mut self,
        body: &Block,
        vectors: &Vectors<'_>,
        loaded: &BTreeMap<ValueId, Vec<Reg>>,
    ) -> Vec<VectorStore> {
        let first = self.index(vectors.index);
        let mut stored: BTreeMap<usize, Vec<Reg>> = BTreeMap::new();
        let mut stores = vec![];
        for lane in 0..vectors.width {
            if lane > 0 {
                let at = self.b().op2(Opcode::Add, Type::S64, first, i64::try_from(lane).unwrap_or(0));
                self.bind(vectors.index, at);
            }
            for (place, statement) in body.iter().enumerate() {
                match statement {
                    Statement::Let { value, .. } if lane > 0 && vectors.uniform.contains(value) => {}
                    Statement::Let { value, op: Op::Load { buffer, .. } } if vectors.loads.contains(value) => {
                        let all = &loaded[value];
                        let element = all[lane];
                        let is_bool = self.program.buffers[*buffer].dtype == Dtype::Bool;
                        let element = if is_bool { scalar::is_set(self.b(), element) } else { element };
                        self.define(*value, element);
                    }
                    Statement::Store { buffer, at, value } if vectors.stores.contains(&place) => {
                        let mut element = self.value(*value);
                        if self.program.buffers[*buffer].dtype == Dtype::Bool {
                            element = scalar::number_of(self.b(), element);
                        }
                        let all = stored.entry(place).or_default();
                        all.push(element);
                        // The element of the last lane completes the vector.
                        if all.len() == vectors.width {
                            let last = self.index(vectors.index);
                            self.bind(vectors.index, first);
                            let linear = Linear::of(self.program, *buffer, None, at);
                            let (ty, pieces) = self.pieces(*buffer, &linear, vectors.width);
                            let mut rest = stored[&place].as_slice();
                            for (at, count) in pieces {
                                let (elements, others) = rest.split_at(count);
                                stores.push(VectorStore { ty, elements: elements.to_vec(), at });
                                rest = others;
                            }
                            self.bind(vectors.index, last);
                        }
                    }
                    Statement::Let { .. }
                    | Statement::Store { .. }
                    | Statement::Scatter { .. }
                    | Statement::If { .. }
                    | Statement::Loop(_)
                    | Statement::While(_)
                    | Statement::Contract(_) => self.statement(statement),
                }
            }
        }
        stores
    }

    fn load_neighbours(&mut self, buffer: BufferId, linear: &Linear, width: usize) -> Vec<Reg> {
        let (ty, pieces) = self.pieces(buffer, linear, width);
        let mut all = vec![];
        for (address, count) in pieces {
            all.extend(self.b().load_several(Space::Global, ty, count, address));
        }
        all
    }

    /// The accesses that a vector takes, of at most four elements each.
    fn pieces(&mut self, buffer: BufferId, linear: &Linear, width: usize) -> (Type, Vec<(Address, usize)>) {
        let dtype = self.program.buffers[buffer].dtype;
        let address = self.address(buffer, linear);
        let count = width.min(4);
        let piece = |k: usize| {
            let bytes = i64::try_from(k * count * dtype.bytes()).expect("a small number");
            (Address { offset: address.offset + bytes, ..address }, count)
        };
        (scalar::memory(dtype), (0..width / count).map(piece).collect())
    }
}
