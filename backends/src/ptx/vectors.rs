//! Loops of straight-line code over elements that lie side by side: a thread takes several neighbours, with accesses of up to 16 bytes.
//!
//! A block takes as many neighbours as its threads do together. Where they are not all there, or do not begin where wide accesses
//! may, its threads take one element after another, neighbours to neighbours.

use std::collections::{BTreeMap, BTreeSet};

use ir::nest::{Block, BufferId, Extent, IndexId, Loop, Op, Statement, Subscript, ValueId};
use ir::{Dtype, Size, visit};

use super::build::Control;
use super::emit::{Argument, Emitter, Team};
use super::inst::{Address, Comparison, Opcode, Reg, Space, Special, Type};
use super::scalar;
use crate::access::Linear;

/// Bytes of the widest access.
const WIDEST: usize = 16;
/// Most elements of a thread.
const MOST: usize = 8;

/// How a loop's elements are taken together.
pub(super) struct Vectors {
    /// How many at once.
    pub(super) width: usize,
    /// Its last index, along which they lie.
    index: IndexId,
    /// Accesses of neighbours: of values that are loaded, and stores, by their place in the body.
    loads: BTreeSet<ValueId>,
    stores: BTreeSet<usize>,
    /// What must be a multiple of what for wide accesses.
    multiples: Vec<(Size, i64)>,
    /// Values that are the same for all elements.
    uniform: BTreeSet<ValueId>,
}

impl Vectors {
    /// How the elements of a parallel loop are taken together, if they can be.
    pub(super) fn of(e: &Emitter<'_>, l: &Loop) -> Option<Vectors> {
        let (index, extent) = l.dims.last()?;
        let index = *index;
        if l.body.iter().any(|s| !matches!(s, Statement::Let { .. } | Statement::If { .. } | Statement::Store { .. })) {
            return None;
        }
        let mut found: Vec<(BufferId, Linear)> = vec![];
        let mut vectors = Vectors {
            width: 0,
            index,
            loads: BTreeSet::new(),
            stores: BTreeSet::new(),
            multiples: vec![],
            uniform: BTreeSet::new(),
        };
        let mut along = |buffer: BufferId, view: Option<&[Size]>, at: &[Subscript]| {
            let linear = Linear::of(e.program, buffer, view, at);
            let is = linear.values.is_empty() && linear.affine.coefficient(index).as_constant() == Some(1);
            let is = is && !e.shared.contains(&buffer);
            if is {
                found.push((buffer, linear));
            }
            is
        };
        for (place, statement) in l.body.iter().enumerate() {
            match statement {
                Statement::Let { value, op: Op::Load { buffer, view, at } } if along(*buffer, view.as_deref(), at) => {
                    vectors.loads.insert(*value);
                }
                Statement::Store { buffer, at, .. } if along(*buffer, None, at) => _ = vectors.stores.insert(place),
                _ => {}
            }
        }
        let widest = found.iter().map(|(buffer, _)| e.program.buffers[*buffer].dtype.bytes()).max()?;
        vectors.width = (WIDEST / widest).min(MOST);
        let width = i64::try_from(vectors.width).ok()?;
        let mut multiple = |size: &Size| {
            if size.as_constant().is_none_or(|n| n % width != 0) {
                vectors.multiples.push((size.clone(), width));
            }
        };
        for (_, linear) in &found {
            multiple(linear.affine.constant_part());
            linear
                .affine
                .terms()
                .iter()
                .filter(|(i, _)| *i != index)
                .for_each(|(_, coefficient)| multiple(coefficient));
        }
        if l.dims.len() > 1 {
            // A row ends where a vector does.
            match extent {
                Extent::Affine(extent) => multiple(extent.as_size()?),
                Extent::Value(_) => return None,
            }
        }
        vectors.multiples.sort();
        vectors.multiples.dedup();
        vectors.uniform = uniform(&l.body, index);
        Some(vectors)
    }
}

/// The values of a body that are the same for all of a loop's last index.
pub(super) fn uniform(body: &Block, index: IndexId) -> BTreeSet<ValueId> {
    let mut varying: BTreeSet<ValueId> = BTreeSet::new();
    let mut uniform = BTreeSet::new();
    for statement in body {
        let Statement::Let { value, op } = statement else {
            visit::for_each_definition(statement, &mut |v| _ = varying.insert(v));
            continue;
        };
        let mut varies = match op {
            Op::Affine(affine) => !affine.coefficient(index).is_zero(),
            Op::Load { at, .. } => {
                at.iter().any(|s| matches!(s, Subscript::Affine(affine) if !affine.coefficient(index).is_zero()))
            }
            _ => false,
        };
        op.for_each_operand(|v| varies |= varying.contains(&v));
        if varies {
            varying.insert(*value)
        } else {
            uniform.insert(*value)
        };
    }
    uniform
}

impl Emitter<'_> {
    /// The elements that fall to this block.
    pub(super) fn in_vectors(&mut self, l: &Loop, vectors: &Vectors) {
        let axes = self.axes(&l.dims, &l.body);
        let threads = i64::from(self.threads);
        let width = i64::try_from(vectors.width).expect("a small number");
        let [thread, block, blocks] = [Special::Tid, Special::Ctaid, Special::Nctaid].map(|s| self.special(s));
        let first = self.b().op2(Opcode::Mul, Type::S64, block, threads * width);
        let all = self.b().op2(Opcode::Mul, Type::S64, blocks, threads * width);
        let aligned = (!vectors.multiples.is_empty()).then(|| {
            let aligned = self.argument(Argument::Multiples(vectors.multiples.clone()));
            self.b().set(Comparison::Ne, Type::S64, aligned, 0)
        });
        self.counted(first, axes.total, all, |e, base| {
            let end = e.b().op2(Opcode::Add, Type::S64, base, threads * width);
            let mut whole = e.b().set(Comparison::Le, Type::S64, end, axes.total);
            if let Some(aligned) = aligned {
                whole = e.b().op2(Opcode::And, Type::Pred, whole, aligned);
            }
            e.either(
                whole,
                |e| {
                    let number = e.b().op(Opcode::Mad, Type::S64, &[thread.into(), width.into(), base.into()]);
                    e.unravel(&axes, number);
                    e.as_team(Team::Thread, |e| e.neighbours(&l.body, vectors));
                },
                |e| {
                    let first = e.b().op2(Opcode::Add, Type::S64, base, thread);
                    let end = e.b().op2(Opcode::Min, Type::S64, end, axes.total);
                    e.counted(first, end, threads, |e, number| e.iteration(&axes, number, &l.body));
                },
            );
        });
    }

    /// Several neighbours, from the index on.
    fn neighbours(&mut self, body: &Block, vectors: &Vectors) {
        let first = self.index(vectors.index);
        let mut loaded: BTreeMap<ValueId, Vec<Reg>> = BTreeMap::new();
        let mut stored: BTreeMap<usize, Vec<Reg>> = BTreeMap::new();
        for lane in 0..vectors.width {
            if lane > 0 {
                let at = self.b().op2(Opcode::Add, Type::S64, first, i64::try_from(lane).unwrap_or(0));
                self.bind(vectors.index, at);
            }
            for (place, statement) in body.iter().enumerate() {
                match statement {
                    Statement::Let { value, .. } if lane > 0 && vectors.uniform.contains(value) => {}
                    Statement::Let { value, op: Op::Load { buffer, view, at } } if vectors.loads.contains(value) => {
                        if lane == 0 {
                            let linear = Linear::of(self.program, *buffer, view.as_deref(), at);
                            let all = self.load_neighbours(*buffer, &linear, vectors.width);
                            loaded.insert(*value, all);
                        }
                        let element = loaded[value][lane];
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
                        if all.len() == vectors.width {
                            let last = self.index(vectors.index);
                            self.bind(vectors.index, first);
                            let linear = Linear::of(self.program, *buffer, None, at);
                            self.store_neighbours(*buffer, &linear, &stored[&place]);
                            self.bind(vectors.index, last);
                        }
                    }
                    other => self.statement(other),
                }
            }
        }
    }

    fn load_neighbours(&mut self, buffer: BufferId, linear: &Linear, width: usize) -> Vec<Reg> {
        let (ty, pieces) = self.pieces(buffer, linear, width);
        let mut all = vec![];
        for (address, count) in pieces {
            all.extend(self.b().load_several(Space::Global, ty, count, address));
        }
        all
    }

    fn store_neighbours(&mut self, buffer: BufferId, linear: &Linear, elements: &[Reg]) {
        let (ty, pieces) = self.pieces(buffer, linear, elements.len());
        let mut rest = elements;
        for (address, count) in pieces {
            let (own, others) = rest.split_at(count);
            self.b().store_several(Space::Global, ty, own.to_vec(), address);
            rest = others;
        }
    }

    /// The accesses that neighbours take: of four at most.
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
