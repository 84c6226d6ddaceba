//! Leaves: innermost loops whose body is straight-line code, described as data, and the trait through which
//! they become vector code.
//!
//! A [`Leaf`] knows nothing of any code generator: it is a list of operations on values that vary with the
//! leaf's index, over operands computed before the loop (uniform values, pointers). Calls are inlined and branches
//! without effects have become selects. [`LeafEmitter`] has one method for each kind of operation; an
//! implementation decides how many elements a vector has, and what it does lane by lane.

use std::collections::{BTreeMap, BTreeSet};

use cranelift_codegen::entity::{PrimaryMap, entity_impl};
use ir::nest::{Block, BufferId, FunctionId, IndexId, Op, Statement, Subscript, ValueId};
use ir::{Affine, BinaryOp, CompareOp, Dtype, Scalar, Size, UnaryOp};

use super::emit::{Emitter, Linear};
use super::nest::mentions;

/// A value that varies with the leaf's index (or is made to look so).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LeafId(u32);
entity_impl!(LeafId, "l");

/// An innermost loop with a straight-line body.
pub(super) struct Leaf {
    /// Every value of the body and what defines it.
    pub(super) values: PrimaryMap<LeafId, (Dtype, Inst)>,
    /// The body in order.
    pub(super) steps: Vec<Step>,
    /// Scalars to compute once before the loop.
    pub(super) uniform: Vec<(ValueId, Op)>,
    /// What loads and stores access.
    pub(super) accesses: Vec<Access>,
    /// Values that the caller asked for: the inputs of reductions.
    pub(super) wanted: Vec<LeafId>,
}

/// One step of the body.
pub(super) enum Step {
    /// Computes a value.
    Value(LeafId),
    /// Writes an element.
    Store { access: usize, value: LeafId },
}

/// What defines a value of a leaf.
#[derive(Clone, Debug)]
pub(super) enum Inst {
    Constant(Scalar),
    /// A scalar from outside, or computed before the loop.
    Uniform(ValueId),
    /// `base + coefficient * index`.
    Affine {
        base: Affine<IndexId>,
        coefficient: Size,
    },
    Load(usize),
    Unary(UnaryOp, LeafId),
    Binary(BinaryOp, LeafId, LeafId),
    Compare(CompareOp, LeafId, LeafId),
    Fma(LeafId, LeafId, LeafId),
    Select(LeafId, LeafId, LeafId),
    Cast(LeafId),
    Bitcast(LeafId),
}

/// An access of a leaf.
pub(super) struct Access {
    pub(super) buffer: BufferId,
    /// The element at index 0.
    pub(super) start: Linear,
    /// Elements from one iteration to the next.
    pub(super) stride: Size,
    /// Subscripts that vary otherwise, with their strides: a gather or scatter.
    pub(super) gathered: Vec<(LeafId, Size)>,
}

impl Access {
    /// Whether neighbouring iterations access neighbouring elements.
    pub(super) fn contiguous(&self) -> bool {
        self.gathered.is_empty() && self.stride.as_constant() == Some(1)
    }
}

/// One way to make a leaf's operations happen on several elements at once. Results have the same bits as the
/// scalar operations, element by element.
pub(super) trait LeafEmitter {
    /// The values of one operation for all elements of a step.
    type Vector: Clone;

    fn constant(&mut self, value: Scalar) -> Self::Vector;
    fn uniform(&mut self, dtype: Dtype, value: ValueId) -> Self::Vector;
    fn affine(&mut self, base: &Affine<IndexId>, coefficient: &Size) -> Self::Vector;
    fn load(&mut self, access: usize, gathered: &[Self::Vector]) -> Self::Vector;
    fn store(&mut self, access: usize, gathered: &[Self::Vector], value: &Self::Vector);
    fn unary(&mut self, op: UnaryOp, dtype: Dtype, a: &Self::Vector) -> Self::Vector;
    fn binary(&mut self, op: BinaryOp, dtype: Dtype, a: &Self::Vector, b: &Self::Vector) -> Self::Vector;
    /// A shift by an amount that is the same for all elements.
    fn shift(&mut self, op: BinaryOp, dtype: Dtype, a: &Self::Vector, amount: &Inst) -> Self::Vector;
    fn compare(&mut self, op: CompareOp, dtype: Dtype, a: &Self::Vector, b: &Self::Vector) -> Self::Vector;
    fn fma(&mut self, dtype: Dtype, a: &Self::Vector, b: &Self::Vector, c: &Self::Vector) -> Self::Vector;
    fn select(&mut self, dtype: Dtype, c: &Self::Vector, a: &Self::Vector, b: &Self::Vector) -> Self::Vector;
    fn cast(&mut self, from: Dtype, to: Dtype, a: &Self::Vector) -> Self::Vector;
    fn bitcast(&mut self, from: Dtype, to: Dtype, a: &Self::Vector) -> Self::Vector;
}

impl Leaf {
    /// One step of the leaf through an emitter; returns the wanted values.
    pub(super) fn emit<L: LeafEmitter>(&self, l: &mut L) -> Vec<L::Vector> {
        let mut done: Vec<Option<L::Vector>> = vec![None; self.values.len()];
        let get = |done: &[Option<L::Vector>], id: LeafId| {
            done[id.as_u32() as usize].clone().expect("steps are in order of definition")
        };
        for step in &self.steps {
            match step {
                Step::Store { access, value } => {
                    let gathered: Vec<_> =
                        self.accesses[*access].gathered.iter().map(|(v, _)| get(&done, *v)).collect();
                    l.store(*access, &gathered, &get(&done, *value));
                }
                Step::Value(id) => {
                    let (dtype, inst) = &self.values[*id];
                    let dtype = *dtype;
                    let of = |id: &LeafId| self.values[*id].0;
                    let v = |id: &LeafId| get(&done, *id);
                    let result = match inst {
                        Inst::Constant(c) => l.constant(*c),
                        Inst::Uniform(value) => l.uniform(dtype, *value),
                        Inst::Affine { base, coefficient } => l.affine(base, coefficient),
                        Inst::Load(access) => {
                            let gathered: Vec<_> = self.accesses[*access].gathered.iter().map(|(g, _)| v(g)).collect();
                            l.load(*access, &gathered)
                        }
                        Inst::Unary(op, a) => l.unary(*op, dtype, &v(a)),
                        Inst::Binary(op @ (BinaryOp::Shl | BinaryOp::Shr), a, b) if self.is_uniform(*b) => {
                            l.shift(*op, dtype, &v(a), &self.values[*b].1)
                        }
                        Inst::Binary(op, a, b) => l.binary(*op, dtype, &v(a), &v(b)),
                        Inst::Compare(op, a, b) => l.compare(*op, of(a), &v(a), &v(b)),
                        Inst::Fma(a, b, c) => l.fma(dtype, &v(a), &v(b), &v(c)),
                        Inst::Select(c, a, b) => l.select(dtype, &v(c), &v(a), &v(b)),
                        Inst::Cast(a) => l.cast(of(a), dtype, &v(a)),
                        Inst::Bitcast(a) => l.bitcast(of(a), dtype, &v(a)),
                    };
                    done[id.as_u32() as usize] = Some(result);
                }
            }
        }
        self.wanted.iter().map(|id| get(&done, *id)).collect()
    }

    /// Whether a value is the same for all elements.
    pub(super) fn is_uniform(&self, id: LeafId) -> bool {
        matches!(self.values[id].1, Inst::Constant(_) | Inst::Uniform(_))
    }

    /// Operations of the body, uniform values not counted.
    pub(super) fn weight(&self) -> usize {
        self.steps.iter().filter(|s| !matches!(s, Step::Value(id) if self.is_uniform(*id))).count()
    }

    /// The body as a leaf over `index`, if it is one and vectors are worth it; `wanted` are values of the body.
    pub(super) fn build(e: &Emitter<'_>, index: IndexId, body: &Block, wanted: &[ValueId]) -> Option<Leaf> {
        let mut stored = BTreeSet::new();
        for statement in body {
            if let Statement::Store { buffer, .. } = statement {
                stored.insert(*buffer);
            }
        }
        let leaf = Leaf { values: PrimaryMap::new(), steps: vec![], uniform: vec![], accesses: vec![], wanted: vec![] };
        let mut build = Build { e, index, stored, leaf, names: BTreeMap::new(), splats: BTreeMap::new() };
        build.block(body, true)?;
        for value in wanted {
            let id = build.varying(*value);
            build.leaf.wanted.push(id);
        }
        super::lanes128::worthwhile(&build.leaf).then_some(build.leaf)
    }
}

/// What a value of the body is to the leaf. Values from outside are uniform.
#[derive(Clone, Copy)]
enum Name {
    Constant(Scalar),
    Uniform,
    Varying(LeafId),
}

struct Build<'b, 'a> {
    e: &'b Emitter<'a>,
    index: IndexId,
    /// Buffers that the body stores to: what is loaded from them does not leave the loop.
    stored: BTreeSet<BufferId>,
    leaf: Leaf,
    names: BTreeMap<ValueId, Name>,
    /// Uniform values that have been given a vector.
    splats: BTreeMap<ValueId, LeafId>,
}

impl Build<'_, '_> {
    /// `None` where the block is no straight line. Only at the `top` may it access memory.
    fn block(&mut self, block: &Block, top: bool) -> Option<()> {
        for statement in block {
            match statement {
                Statement::Let { value, op } => {
                    let name = self.op(*value, op, top)?;
                    self.names.insert(*value, name);
                }
                Statement::Store { buffer, at, value } if top => {
                    let access = self.access(*buffer, None, at);
                    let value = self.varying(*value);
                    // An element that every iteration writes, or none: nothing for vectors.
                    if self.leaf.accesses[access].gathered.is_empty() && self.leaf.accesses[access].stride.is_zero() {
                        return None;
                    }
                    self.leaf.steps.push(Step::Store { access, value });
                }
                Statement::If { condition, then, otherwise, results } => {
                    self.block(then, false)?;
                    self.block(otherwise, false)?;
                    for (result, a, b) in results {
                        let name = self.op(*result, &Op::Select(*condition, *a, *b), false)?;
                        self.names.insert(*result, name);
                    }
                }
                Statement::Store { .. } | Statement::Loop(_) | Statement::Contract(_) => return None,
            }
        }
        Some(())
    }

    fn name(&self, v: ValueId) -> Name {
        self.names.get(&v).copied().unwrap_or(Name::Uniform)
    }

    fn push(&mut self, dtype: Dtype, inst: Inst) -> LeafId {
        let id = self.leaf.values.push((dtype, inst));
        self.leaf.steps.push(Step::Value(id));
        id
    }

    /// The value as one that may vary.
    fn varying(&mut self, v: ValueId) -> LeafId {
        let inst = match self.name(v) {
            Name::Varying(id) => return id,
            Name::Constant(c) => Inst::Constant(c),
            Name::Uniform => Inst::Uniform(v),
        };
        if let Some(id) = self.splats.get(&v) {
            return *id;
        }
        let id = self.push(self.e.dtype(v), inst);
        self.splats.insert(v, id);
        id
    }

    fn op(&mut self, value: ValueId, op: &Op, top: bool) -> Option<Name> {
        let dtype = self.e.dtype(value);
        if matches!(dtype, Dtype::F16 | Dtype::Bf16) || matches!(op, Op::Check { .. } | Op::Prefix(..)) {
            return None;
        }
        let mut uniform = true;
        op.for_each_operand(|v| uniform &= !matches!(self.name(v), Name::Varying(_)));
        match op {
            Op::Affine(affine) => uniform = affine.coefficient(self.index).is_zero(),
            Op::Load { .. } if !top => return None,
            Op::Load { buffer, at, .. } => {
                uniform &= !mentions(at, self.index);
                if uniform && self.stored.contains(buffer) {
                    return None;
                }
            }
            _ => {}
        }
        if uniform {
            self.leaf.uniform.push((value, op.clone()));
            return Some(if let Op::Constant(c) = op { Name::Constant(*c) } else { Name::Uniform });
        }
        let inst = match op {
            Op::Affine(affine) => {
                let coefficient = affine.coefficient(self.index);
                let term = Affine::index(self.index).scale(&coefficient);
                Inst::Affine { base: affine.sub(&term), coefficient }
            }
            Op::Load { buffer, view, at } => Inst::Load(self.access(*buffer, view.as_deref(), at)),
            Op::Call(function, arguments) => {
                let arguments: Vec<LeafId> = arguments.iter().map(|a| self.varying(*a)).collect();
                return self.call(*function, &arguments).map(Name::Varying);
            }
            other => self.primitive(other, &mut |build, v| Some(build.varying(v)))?,
        };
        Some(Name::Varying(self.push(dtype, inst)))
    }

    /// An operation on values alone, its operands found by `get`.
    fn primitive(&mut self, op: &Op, get: &mut dyn FnMut(&mut Self, ValueId) -> Option<LeafId>) -> Option<Inst> {
        Some(match op {
            Op::Constant(c) => Inst::Constant(*c),
            Op::Unary(op, a) => Inst::Unary(*op, get(self, *a)?),
            Op::Binary(op, a, b) => Inst::Binary(*op, get(self, *a)?, get(self, *b)?),
            Op::Compare(op, a, b) => Inst::Compare(*op, get(self, *a)?, get(self, *b)?),
            Op::Fma(a, b, c) => Inst::Fma(get(self, *a)?, get(self, *b)?, get(self, *c)?),
            Op::Select(c, a, b) => Inst::Select(get(self, *c)?, get(self, *a)?, get(self, *b)?),
            Op::Cast(_, a) => Inst::Cast(get(self, *a)?),
            Op::Bitcast(_, a) => Inst::Bitcast(get(self, *a)?),
            Op::Affine(_) | Op::Call(..) | Op::Load { .. } | Op::Check { .. } | Op::Prefix(..) => return None,
        })
    }

    /// A function of the program, inlined.
    fn call(&mut self, function: FunctionId, arguments: &[LeafId]) -> Option<LeafId> {
        let function = &self.e.program.functions[function];
        let mut names: BTreeMap<ValueId, LeafId> = BTreeMap::new();
        names.extend(function.params.iter().copied().zip(arguments.iter().copied()));
        self.inline(&function.body, &function.values, &mut names)?;
        names.get(&function.result).copied()
    }

    fn inline(
        &mut self,
        block: &Block,
        dtypes: &ir::build::Values,
        names: &mut BTreeMap<ValueId, LeafId>,
    ) -> Option<()> {
        for statement in block {
            match statement {
                Statement::Let { value, op } => {
                    let inst = self.primitive(op, &mut |_, v| names.get(&v).copied())?;
                    names.insert(*value, self.push(dtypes[*value], inst));
                }
                Statement::If { condition, then, otherwise, results } => {
                    self.inline(then, dtypes, names)?;
                    self.inline(otherwise, dtypes, names)?;
                    for (result, a, b) in results {
                        let [c, a, b] = [condition, a, b].map(|v| names.get(v).copied());
                        let id = self.push(dtypes[*result], Inst::Select(c?, a?, b?));
                        names.insert(*result, id);
                    }
                }
                Statement::Store { .. } | Statement::Loop(_) | Statement::Contract(_) => return None,
            }
        }
        Some(())
    }

    fn access(&mut self, buffer: BufferId, view: Option<&[Size]>, at: &[Subscript]) -> usize {
        let mut start = self.e.linear(buffer, view, at);
        let stride = start.affine.coefficient(self.index);
        start.affine = start.affine.sub(&Affine::index(self.index).scale(&stride));
        let mut gathered = vec![];
        start.values.retain(|(v, stride)| match self.names.get(v) {
            Some(Name::Varying(id)) => {
                gathered.push((*id, stride.clone()));
                false
            }
            _ => true,
        });
        self.leaf.accesses.push(Access { buffer, start, stride, gathered });
        self.leaf.accesses.len() - 1
    }
}
