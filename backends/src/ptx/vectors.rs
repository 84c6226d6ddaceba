//! Loops of straight-line code over elements that lie side by side: a thread takes several neighbours, with accesses of up to 16 bytes.
//!
//! A block takes as many neighbours as its threads do together. Where they are not all there, or do not begin where wide accesses
//! may, its threads take one element after another, neighbours to neighbours. So does a thread with its neighbours where dividing them
//! without branches ([`super::quick`]) has gone wrong.

use std::collections::{BTreeMap, BTreeSet};

use ir::nest::{Block, BufferId, Extent, IndexId, Loop, Op, Role, Statement, Subscript, ValueId};
use ir::{Dtype, Size, visit};

use super::build::{Builder, Control};
use super::emit::{Argument, Emitter, Team};
use super::inst::{Address, Comparison, Opcode, Reg, Space, Special, Type};
use super::{quick, scalar};
use crate::access::Linear;

/// Bytes of the widest access.
const WIDEST: usize = 16;
/// Most elements of a thread.
const MOST: usize = 8;

/// Operations for each byte that is loaded or stored, from which on memory waits for them.
const HEAVY: usize = 3;
/// So many elements of a thread at once are few.
const FEW: usize = 24;

/// How a loop's elements are taken together.
pub(super) struct Vectors {
    /// How many at once.
    pub(super) width: usize,
    /// How often a thread takes so many: what one turn loads is on its way while another one computes.
    turns: i64,
    /// Whether divisions go without branches.
    quick: bool,
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
        // A launch with scratch has only so many blocks: these would have to take several runs of elements each.
        if visit::stores(&l.body).iter().any(|buffer| e.program.buffers[*buffer].role == Role::Scratch) {
            return None;
        }
        let mut found: Vec<(BufferId, Linear)> = vec![];
        let mut vectors = Vectors {
            width: 0,
            turns: 1,
            quick: false,
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
        vectors.quick = vectors.all_stores(&l.body) && quick::pays(e, &l.body);
        let bytes: usize = found.iter().map(|(buffer, _)| e.program.buffers[*buffer].dtype.bytes()).sum();
        let heavy = vectors.quick && weight(e, &l.body) >= HEAVY * bytes;
        vectors.turns = if heavy { 2 } else { 1 };
        Some(vectors)
    }

    /// Blocks that a multiprocessor is to have at once: as many as there are, if the elements leave registers for them. The assembler
    /// would rather have more of these than of threads that wait for memory.
    pub(super) fn resident(&self) -> Option<u32> {
        let elements = (self.loads.len() + self.stores.len()) * self.each();
        self.quick.then_some(if elements <= FEW { 8 } else { 4 })
    }

    /// Elements of a thread.
    pub(super) fn each(&self) -> usize {
        self.width * usize::try_from(self.turns).unwrap_or(1)
    }

    /// Whether all that a body stores is of neighbours.
    fn all_stores(&self, body: &Block) -> bool {
        visit::stores(body).len() == self.stores.len()
    }
}

/// Operations of a body, with those of functions that it calls.
fn weight(e: &Emitter<'_>, body: &Block) -> usize {
    let mut sum = 0;
    visit::for_each_op(body, &mut |_, op| {
        sum += match op {
            Op::Call(function, _) => weight(e, &e.program.functions[*function].body),
            Op::Constant(_) | Op::Affine(_) | Op::Load { .. } => 0,
            _ => 1,
        };
    });
    sum
}

/// The values of a body that are the same for all of a loop's last index.
pub(super) fn uniform(body: &Block, index: IndexId) -> BTreeSet<ValueId> {
    let mut varying: BTreeSet<ValueId> = BTreeSet::new();
    let mut uniform = BTreeSet::new();
    let stored = visit::stores(body);
    for statement in body {
        let Statement::Let { value, op } = statement else {
            visit::for_each_definition(statement, &mut |v| _ = varying.insert(v));
            continue;
        };
        let mut varies = match op {
            Op::Affine(affine) => !affine.coefficient(index).is_zero(),
            Op::Load { buffer, at, .. } => {
                let moves =
                    |s: &Subscript| matches!(s, Subscript::Affine(affine) if !affine.coefficient(index).is_zero());
                stored.contains(buffer) || at.iter().any(moves)
            }
            Op::Prefix(..) => true,
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

/// A store of neighbours.
struct Together {
    ty: Type,
    elements: Vec<Reg>,
    at: Address,
}

impl Together {
    fn make(self, b: &mut Builder) {
        b.store_several(Space::Global, self.ty, self.elements, self.at);
    }
}

impl Emitter<'_> {
    /// The elements that fall to this block.
    pub(super) fn in_vectors(&mut self, l: &Loop, vectors: &Vectors) {
        let axes = self.axes(&l.dims, &l.body);
        let threads = i64::from(self.threads);
        let width = i64::try_from(vectors.width).expect("a small number");
        let (turn, run) = (threads * width, threads * width * vectors.turns);
        let block = self.special(Special::Ctaid);
        let base = self.b().op2(Opcode::Mul, Type::S64, block, run);
        let aligned = (!vectors.multiples.is_empty()).then(|| {
            let aligned = self.argument(Argument::Multiples(vectors.multiples.clone()));
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
                // Where all of them are is found first, which may branch: then all loads are on their way together.
                let mut places = vec![];
                for k in 0..vectors.turns {
                    let number = if k == 0 { own } else { e.b().op2(Opcode::Add, Type::S64, own, k * turn) };
                    e.unravel(&axes, number);
                    places.push(l.dims.iter().map(|(index, _)| (*index, e.index(*index))).collect::<Vec<_>>());
                }
                let at = |e: &mut Self, place: &[(IndexId, Reg)]| place.iter().for_each(|(i, reg)| e.bind(*i, *reg));
                let mut loaded = vec![];
                for place in &places {
                    at(e, place);
                    loaded.push(e.load_all(&l.body, vectors));
                }
                for (place, loaded) in places.iter().zip(&loaded) {
                    at(e, place);
                    stores.extend(e.as_team(Team::Thread, |e| e.neighbours(&l.body, vectors, loaded)));
                }
            };
            if vectors.quick {
                let held = e.quickly(make);
                e.b().guarded((held, true), |b| stores.into_iter().for_each(|s| s.make(b)));
                e.b().op_to(single, Opcode::Not, Type::Pred, &[held.into()]);
            } else {
                make(e);
                stores.into_iter().for_each(|s| s.make(e.b()));
            }
        });
        self.when(single, |e| {
            let first = e.b().op2(Opcode::Add, Type::S64, base, thread);
            let end = e.b().op2(Opcode::Min, Type::S64, end, axes.total);
            if !vectors.quick {
                return e.counted(first, end, threads, |e, number| e.iteration(&axes, number, &l.body));
            }
            // Of a whole block a thread takes its own neighbours, turn by turn.
            let turns = e.b().select(Type::B64, vectors.turns, 1, whole);
            let step = e.b().select(Type::B64, 1, threads, whole);
            let zero = e.int(0);
            e.counted(zero, turns, 1, |e, k| {
                let own = e.b().op(Opcode::Mad, Type::S64, &[k.into(), turn.into(), own.into()]);
                let behind = e.b().op2(Opcode::Add, Type::S64, own, width);
                let first = e.b().select(Type::B64, own, first, whole);
                let end = e.b().select(Type::B64, behind, end, whole);
                e.counted(first, end, step, |e, number| e.iteration(&axes, number, &l.body));
            });
        });
    }

    /// What several neighbours, from the index on, load.
    fn load_all(&mut self, body: &Block, vectors: &Vectors) -> BTreeMap<ValueId, Vec<Reg>> {
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

    /// Several neighbours, from the index on, of which this is loaded: the stores that they come to.
    fn neighbours(&mut self, body: &Block, vectors: &Vectors, loaded: &BTreeMap<ValueId, Vec<Reg>>) -> Vec<Together> {
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
                        if all.len() == vectors.width {
                            let last = self.index(vectors.index);
                            self.bind(vectors.index, first);
                            let linear = Linear::of(self.program, *buffer, None, at);
                            let (ty, pieces) = self.pieces(*buffer, &linear, vectors.width);
                            let mut rest = stored[&place].as_slice();
                            for (at, count) in pieces {
                                let (elements, others) = rest.split_at(count);
                                stores.push(Together { ty, elements: elements.to_vec(), at });
                                rest = others;
                            }
                            self.bind(vectors.index, last);
                        }
                    }
                    other => self.statement(other),
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
