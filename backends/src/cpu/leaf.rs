//! The trait for generating vector code from leaves ([`ir::leaf`]), with a method for each kind of
//! operation. Its implementations choose the number of elements per vector, and may fall back to
//! scalar code for single operations.

use ir::leaf::{Branch, Inst, Leaf, LeafId, LeafStep, Nest, Steps};
use ir::nest::{IndexId, Op, ValueId};
use ir::{Affine, BinaryOp, CompareOp, Dtype, Scalar, Size, UnaryOp};

/// A way to generate vector code for a leaf. The results have the same bits as the scalar
/// operations, element by element.
pub(super) trait LeafEmitter {
    /// The registers that hold a value for all elements of a step.
    type Vector: Clone;

    fn constant(&mut self, value: Scalar) -> Self::Vector;
    fn uniform(&mut self, dtype: Dtype, value: ValueId) -> Self::Vector;
    fn affine(&mut self, base: &Affine<IndexId>, coefficient: &Size) -> Self::Vector;
    fn load(&mut self, access: usize, gathered: &[Self::Vector]) -> Self::Vector;
    fn store(&mut self, access: usize, gathered: &[Self::Vector], value: &Self::Vector);
    fn unary(&mut self, op: UnaryOp, dtype: Dtype, a: &Self::Vector) -> Self::Vector;
    fn binary(&mut self, op: BinaryOp, dtype: Dtype, a: &Self::Vector, b: &Self::Vector) -> Self::Vector;
    /// A shift by a uniform amount.
    fn shift(&mut self, op: BinaryOp, dtype: Dtype, a: &Self::Vector, amount: &Inst) -> Self::Vector;
    fn compare(&mut self, op: CompareOp, dtype: Dtype, a: &Self::Vector, b: &Self::Vector) -> Self::Vector;
    fn fma(&mut self, dtype: Dtype, a: &Self::Vector, b: &Self::Vector, c: &Self::Vector) -> Self::Vector;
    fn select(&mut self, dtype: Dtype, c: &Self::Vector, a: &Self::Vector, b: &Self::Vector) -> Self::Vector;
    fn cast(&mut self, from: Dtype, to: Dtype, a: &Self::Vector) -> Self::Vector;
    fn bitcast(&mut self, from: Dtype, to: Dtype, a: &Self::Vector) -> Self::Vector;
    /// A minimum or maximum with a constant that is not NaN.
    fn bound(&mut self, op: BinaryOp, dtype: Dtype, a: &Self::Vector, constant: Scalar) -> Self::Vector;
    fn scalar(&mut self, value: ValueId, op: &Op);
    /// Emits an inner loop and defines the results of its reductions in `done`.
    fn nest(&mut self, nest: &Nest, done: &mut Done<Self::Vector>);
    /// Emits a conditional side of a branch and defines its results in `done`.
    fn branch(&mut self, branch: &Branch, done: &mut Done<Self::Vector>);
    /// Emits a loop over carried scalars and defines its results in `done`.
    fn steps(&mut self, steps: &Steps, done: &mut Done<Self::Vector>);
}

/// The values emitted so far.
pub(super) struct Done<V>(Vec<Option<V>>);

impl<V: Clone> Done<V> {
    pub(super) fn new(leaf: &Leaf) -> Done<V> {
        Done(vec![None; leaf.values.len()])
    }

    pub(super) fn get(&self, id: LeafId) -> V {
        self.0[id.as_u32() as usize].clone().expect("steps are in order of definition")
    }

    pub(super) fn set(&mut self, id: LeafId, value: V) {
        self.0[id.as_u32() as usize] = Some(value);
    }
}

/// Generating code for a leaf.
pub(super) trait Emit {
    /// Emits one step of the leaf. Returns the values that the caller needs.
    fn emit<L: LeafEmitter>(&self, l: &mut L) -> Vec<L::Vector>;
    /// Emits some steps.
    fn emit_steps<L: LeafEmitter>(&self, steps: &[LeafStep], l: &mut L, done: &mut Done<L::Vector>);
    /// Emits a value. Its operands must have been emitted.
    fn emit_value<L: LeafEmitter>(&self, id: LeafId, l: &mut L, done: &Done<L::Vector>) -> L::Vector;
}

impl Emit for Leaf {
    fn emit<L: LeafEmitter>(&self, l: &mut L) -> Vec<L::Vector> {
        let mut done = Done::new(self);
        self.emit_steps(&self.steps, l, &mut done);
        self.wanted.iter().map(|id| done.get(*id)).collect()
    }

    fn emit_steps<L: LeafEmitter>(&self, steps: &[LeafStep], l: &mut L, done: &mut Done<L::Vector>) {
        for step in steps {
            match step {
                LeafStep::Scalar(value, op) => l.scalar(*value, op),
                LeafStep::Nest(nest) => l.nest(nest, done),
                LeafStep::Branch(branch) => l.branch(branch, done),
                LeafStep::While(steps) => l.steps(steps, done),
                LeafStep::Store { access, value } => {
                    let gathered = gathered::<L>(self, *access, done);
                    l.store(*access, &gathered, &done.get(*value));
                }
                LeafStep::Value(id) => {
                    let value = self.emit_value(*id, l, done);
                    done.set(*id, value);
                }
            }
        }
    }

    fn emit_value<L: LeafEmitter>(&self, id: LeafId, l: &mut L, done: &Done<L::Vector>) -> L::Vector {
        let (dtype, inst) = &self.values[id];
        let dtype = *dtype;
        let of = |id: &LeafId| self.values[*id].0;
        let v = |id: &LeafId| done.get(*id);
        match inst {
            Inst::Constant(c) => l.constant(*c),
            Inst::Uniform(value) => l.uniform(dtype, *value),
            Inst::Affine { base, coefficient } => l.affine(base, coefficient),
            Inst::Load(access) => l.load(*access, &gathered::<L>(self, *access, done)),
            Inst::Unary(op, a) => l.unary(*op, dtype, &v(a)),
            Inst::Binary(op @ (BinaryOp::Shl | BinaryOp::Shr), a, b) if self.is_uniform(*b) => {
                l.shift(*op, dtype, &v(a), &self.values[*b].1)
            }
            // Such as max(x, 0): if one operand is known not to be NaN, fewer instructions suffice.
            Inst::Binary(op @ (BinaryOp::Min | BinaryOp::Max), a, b) => match (self.number(*a), self.number(*b)) {
                (_, Some(constant)) => l.bound(*op, dtype, &v(a), constant),
                (Some(constant), None) => l.bound(*op, dtype, &v(b), constant),
                (None, None) => l.binary(*op, dtype, &v(a), &v(b)),
            },
            Inst::Binary(op, a, b) => l.binary(*op, dtype, &v(a), &v(b)),
            Inst::Compare(op, a, b) => l.compare(*op, of(a), &v(a), &v(b)),
            Inst::Fma(a, b, c) => l.fma(dtype, &v(a), &v(b), &v(c)),
            Inst::Select(c, a, b) => l.select(dtype, &v(c), &v(a), &v(b)),
            Inst::Cast(a) => l.cast(of(a), dtype, &v(a)),
            Inst::Bitcast(a) => l.bitcast(of(a), dtype, &v(a)),
            Inst::Result => v(&id),
        }
    }
}

fn gathered<L: LeafEmitter>(leaf: &Leaf, access: usize, done: &Done<L::Vector>) -> Vec<L::Vector> {
    leaf.accesses[access].gathered.iter().map(|(v, _)| done.get(*v)).collect()
}

/// Whether elements of a type fill lanes of eight bytes.
pub(super) fn is_wide(dtype: Dtype) -> bool {
    dtype.bytes() == 8
}
