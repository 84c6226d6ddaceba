//! Copying a block into another kernel, with other indices and values.

use std::borrow::{Borrow, Cow};
use std::collections::{BTreeMap, BTreeSet};

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;

use crate::nest::{
    Block, Condition, Contraction, Extent, Index, IndexId, Kernel, Loop, LoopKind, Op, Program, Prologue, Reduction,
    State, Statement, Subscript, ValueId, While,
};
use crate::{Affine, BinaryOp, Dtype};

/// Copies blocks of one kernel into another. Indices and values that the block binds become fresh
/// ones; those from outside it become whatever they were mapped to, and stay the same otherwise.
pub struct Copier<'a> {
    program: &'a Program,
    from: &'a Kernel,
    to: &'a mut Kernel,
    /// Index and size names that fresh indices must not take, once an index has been copied.
    names: Option<BTreeSet<Cow<'a, str>>>,
    indices: BTreeMap<IndexId, Subscript>,
    values: SecondaryMap<ValueId, PackedOption<ValueId>>,
}

impl<'a> Copier<'a> {
    /// A copier between two kernels of a program; either may currently be taken out of it.
    pub fn new(program: &'a Program, from: &'a Kernel, to: &'a mut Kernel) -> Copier<'a> {
        let mut values = SecondaryMap::new();
        values.resize(from.values.len());
        Copier { program, from, to, names: None, indices: BTreeMap::new(), values }
    }

    /// Maps an index to an affine expression of the other kernel's indices, or to a value there.
    pub fn map_index(&mut self, from: IndexId, to: Subscript) {
        self.indices.insert(from, to);
    }

    /// Says what a value becomes.
    pub fn map_value(&mut self, from: ValueId, to: ValueId) {
        self.values[from] = to.into();
    }

    /// The kernel that is copied to.
    pub fn to(&mut self) -> &mut Kernel {
        self.to
    }

    /// The value that a value was mapped to.
    pub fn value(&self, from: ValueId) -> ValueId {
        self.values[from].expand().unwrap_or(from)
    }

    /// Appends a copy of a block to `out`.
    pub fn copy(&mut self, block: &[Statement], out: &mut Block) {
        for statement in block {
            self.statement(statement, out);
        }
    }

    fn inner(&mut self, block: &Block) -> Block {
        let mut out = vec![];
        self.copy(block, &mut out);
        out
    }

    fn statement(&mut self, statement: &Statement, out: &mut Block) {
        let copy = match statement {
            // If one of its indices was mapped to a value, the expression has to be computed.
            Statement::Let { value, op: Op::Affine(a) } => match self.affine(a, out) {
                Subscript::Affine(a) => Statement::Let { value: self.define(*value), op: Op::Affine(a) },
                Subscript::Value(v) => return self.map_value(*value, v),
            },
            Statement::Let { value, op: Op::Load { buffer, view, at } } => {
                let op = Op::Load { buffer: *buffer, view: view.clone(), at: self.subscripts(at, out) };
                Statement::Let { value: self.define(*value), op }
            }
            Statement::Let { value, op } => {
                let mut op = op.clone();
                op.for_each_operand_mut(|v| *v = self.value(*v));
                Statement::Let { value: self.define(*value), op }
            }
            Statement::Store { buffer, at, value } => {
                Statement::Store { buffer: *buffer, at: self.subscripts(at, out), value: self.value(*value) }
            }
            Statement::Scatter { buffer, at, value, monoid } => {
                let (at, value) = (self.subscripts(at, out), self.value(*value));
                Statement::Scatter { buffer: *buffer, at, value, monoid: *monoid }
            }
            Statement::If { condition, then, otherwise, results } => {
                let condition = self.value(*condition);
                let (then, otherwise) = (self.inner(then), self.inner(otherwise));
                let mut joined = vec![];
                for (value, yes, no) in results {
                    joined.push((self.define(*value), self.value(*yes), self.value(*no)));
                }
                Statement::If { condition, then, otherwise, results: joined }
            }
            Statement::Loop(l) => {
                let dims = self.dims(&l.dims, out);
                let body = self.inner(&l.body);
                let kind = match &l.kind {
                    LoopKind::Reduce(reductions) => {
                        LoopKind::Reduce(reductions.iter().map(|r| self.reduction(r)).collect())
                    }
                    kind @ (LoopKind::Parallel
                    | LoopKind::Serial
                    | LoopKind::Scan
                    | LoopKind::Keyed { .. }
                    | LoopKind::Sort) => kind.clone(),
                };
                Statement::Loop(Loop { dims, kind, body })
            }
            Statement::While(w) => {
                let counter = self.dims(std::slice::from_ref(&w.counter), out).remove(0);
                let mut state: Vec<State> = w.state.clone();
                for s in &mut state {
                    s.first = self.value(s.first);
                    s.current = self.define(s.current);
                }
                let condition =
                    w.condition.as_ref().map(|c| Condition { body: self.inner(&c.body), value: self.value(c.value) });
                let body = self.inner(&w.body);
                for s in &mut state {
                    s.next = self.value(s.next);
                    s.result = self.define(s.result);
                }
                Statement::While(While { counter, state, condition, body })
            }
            Statement::Contract(c) => {
                let (free, reduce) = (self.dims(&c.free, out), self.dims(&c.reduce, out));
                let mut side = |p: &Prologue| Prologue { body: self.inner(&p.body), value: self.value(p.value) };
                let (left, right) = (side(&c.left), side(&c.right));
                let result = self.define(c.result);
                let epilogue = self.inner(&c.epilogue);
                Statement::Contract(Contraction { free, reduce, order: c.order, left, right, result, epilogue })
            }
        };
        out.push(copy);
    }

    fn reduction(&mut self, r: &Reduction) -> Reduction {
        let inputs = r.inputs.iter().map(|input| input.map(|value| self.value(value))).collect();
        Reduction { results: r.results.iter().map(|v| self.define(*v)).collect(), inputs, ..r.clone() }
    }

    fn define(&mut self, value: ValueId) -> ValueId {
        let fresh = self.to.values.push(self.from.values[value]);
        self.values[value] = fresh.into();
        fresh
    }

    fn dims(&mut self, dims: &[(IndexId, Extent)], out: &mut Block) -> Vec<(IndexId, Extent)> {
        // Extents are evaluated outside of the loop, so map them before its indices.
        let extent = |(_, extent): &(IndexId, Extent)| match extent {
            Extent::Value(v) => Extent::Value(self.value(*v)),
            Extent::Affine(a) => match self.affine(a, out) {
                Subscript::Affine(a) => Extent::Affine(a),
                Subscript::Value(v) => Extent::Value(v),
            },
        };
        let extents: Vec<Extent> = dims.iter().map(extent).collect();
        let names = self.names.get_or_insert_with(|| {
            let sizes = self.program.symbols.values().map(|s| Cow::from(&s.name));
            sizes.chain(self.to.indices.values().map(|i| i.name.clone().into())).collect()
        });
        let fresh = |(index, _): &(IndexId, Extent)| {
            let name = fresh_name(names, &self.from.indices[*index].name);
            let fresh = self.to.indices.push(Index { name });
            self.indices.insert(*index, Subscript::index(fresh));
            fresh
        };
        dims.iter().map(fresh).zip(extents).collect()
    }

    fn subscripts(&mut self, at: &[Subscript], out: &mut Block) -> Vec<Subscript> {
        let subscript = |s: &Subscript| match s {
            Subscript::Affine(a) => self.affine(a, out),
            Subscript::Value(v) => Subscript::Value(self.value(*v)),
        };
        at.iter().map(subscript).collect()
    }

    /// An affine expression with its indices mapped: affine if all of them are, else computed in
    /// `out`.
    fn affine(&mut self, a: &Affine<IndexId>, out: &mut Block) -> Subscript {
        let mut affine = Affine::size(a.constant_part().clone());
        let mut sum = None;
        for (index, coefficient) in a.terms() {
            match self.indices.get(index) {
                None => affine = affine.add(&Affine::index(*index).scale(coefficient)),
                Some(Subscript::Affine(to)) => affine = affine.add(&to.scale(coefficient)),
                Some(Subscript::Value(to)) => {
                    let mut term = *to;
                    if coefficient.as_constant() != Some(1) {
                        let factor = self.integer(Op::Affine(Affine::size(coefficient.clone())), out);
                        term = self.integer(Op::Binary(BinaryOp::Mul, factor, term), out);
                    }
                    sum = Some(match sum {
                        None => term,
                        Some(sum) => self.integer(Op::Binary(BinaryOp::Add, sum, term), out),
                    });
                }
            }
        }
        let Some(mut sum) = sum else { return Subscript::Affine(affine) };
        if affine != Affine::constant(0) {
            let rest = self.integer(Op::Affine(affine), out);
            sum = self.integer(Op::Binary(BinaryOp::Add, sum, rest), out);
        }
        Subscript::Value(sum)
    }

    fn integer(&mut self, op: Op, out: &mut Block) -> ValueId {
        let value = self.to.values.push(Dtype::I64);
        out.push(Statement::Let { value, op });
        value
    }
}

/// A name like `name` that is not in `names`, to which it is added. If the name is taken, its
/// number is replaced by another.
pub fn fresh_name<S: Borrow<str> + From<String> + Ord>(names: &mut BTreeSet<S>, name: &str) -> String {
    let mut unique = name.to_string();
    let mut k = 0;
    let name = match name.rsplit_once('_') {
        Some((stem, digits)) if !stem.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => stem,
        _ => name,
    };
    while names.contains(unique.as_str()) {
        k += 1;
        unique = format!("{name}_{k}");
    }
    names.insert(unique.clone().into());
    unique
}

/// The kernel with its indices and values numbered as its text numbers them, without those that
/// nothing mentions.
pub fn renumber(program: &Program, kernel: &Kernel) -> Kernel {
    let mut to = Kernel { name: kernel.name.clone(), origins: kernel.origins.clone(), ..Kernel::default() };
    let mut body = vec![];
    Copier::new(program, kernel, &mut to).copy(&kernel.body, &mut body);
    to.body = body;
    to
}
