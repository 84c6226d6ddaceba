//! The vector form of loops. A *leaf* is a loop with a straight-line body whose iterations run in
//! vectors: adjacent ones together, operation by operation.
//!
//! A [`Leaf`] is independent of the number of elements in a vector and of the instructions of any
//! target: it is a list of operations on values that vary with the leaf's index, over operands that
//! are computed before the loop (uniform values, addresses). Calls are inlined, and branches
//! without effects become selects. Where a loop is no leaf, an [`Obstacle`] says why.

mod branch;
mod build;
mod steps;
mod unused;

use cranelift_entity::{PrimaryMap, entity_impl};

use crate::linear::Linear;
use crate::merging::Fold;
use crate::nest::{BufferId, Extent, IndexId, Op, ValueId};
use crate::{Affine, BinaryOp, CompareOp, Dtype, Scalar, Size, UnaryOp};

pub use branch::Branch;
pub use build::Site;
pub use steps::{Carried, Steps};

/// A value that varies with the leaf's index, or is treated as if it did.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeafId(u32);
entity_impl!(LeafId, "l");

/// An innermost loop with a straight-line body.
pub struct Leaf {
    /// The index of the loop.
    pub index: IndexId,
    /// All values of the body with their definitions.
    pub values: PrimaryMap<LeafId, (Dtype, Inst)>,
    /// The body in order.
    pub steps: Vec<LeafStep>,
    /// Scalars to compute once, before the loop.
    pub uniform: Vec<(ValueId, Op)>,
    /// The accesses of loads and stores.
    pub accesses: Vec<Access>,
    /// Values that the caller needs, such as the inputs of reductions.
    pub wanted: Vec<LeafId>,
}

/// One step of the body.
pub enum LeafStep {
    /// Computes a value.
    Value(LeafId),
    /// Writes an element.
    Store {
        /// The access, by its number.
        access: usize,
        /// The element.
        value: LeafId,
    },
    /// Computes a scalar that depends on the index of an inner loop.
    Scalar(ValueId, Op),
    /// A loop inside the body, run for all elements at once: column sums, or a pass over columns.
    Nest(Nest),
    /// Computes values, unless no lane needs them.
    Branch(Branch),
    /// A loop over carried scalars.
    While(Steps),
}

/// A loop inside a leaf. Its extents are the same for all elements.
pub struct Nest {
    /// Its indices with their extents, the outermost first.
    pub dims: Vec<(IndexId, Extent)>,
    /// The steps of an iteration.
    pub body: Vec<LeafStep>,
    /// The states of its reductions.
    pub accumulators: Vec<Accumulator>,
    /// Whether it combines partial results of blocks.
    pub joins: bool,
}

/// A value that a [`Nest`] carries: the state of one of its reductions, or a part of it.
#[derive(Clone)]
pub struct Accumulator {
    /// Its type.
    pub dtype: Dtype,
    /// Its value before the first element.
    pub identity: Scalar,
    /// Its value before an element, which the body sees, and after it.
    pub current: LeafId,
    /// See `current`.
    pub next: LeafId,
    /// Its value after the last element.
    pub result: LeafId,
    /// If the reduction is in the order by blocks, how it combines their results.
    pub blocks: Option<Blocks>,
}

/// A reduction in the order by blocks.
#[derive(Clone, Copy)]
pub struct Blocks {
    /// How two elements, or two results of blocks, combine.
    pub fold: Fold,
    /// The element, which is the result of a block already if the loop joins these.
    pub input: LeafId,
}

/// The definition of a value.
#[derive(Clone, Debug)]
pub enum Inst {
    /// A constant.
    Constant(Scalar),
    /// A scalar from outside of the leaf, or one that is computed before the loop.
    Uniform(ValueId),
    /// `base + coefficient * index`.
    Affine {
        /// The value at index 0.
        base: Affine<IndexId>,
        /// How much it grows from one element to the next.
        coefficient: Size,
    },
    /// The element of an access, by its number.
    Load(usize),
    /// As [`Op::Unary`].
    Unary(UnaryOp, LeafId),
    /// As [`Op::Binary`].
    Binary(BinaryOp, LeafId, LeafId),
    /// As [`Op::Compare`].
    Compare(CompareOp, LeafId, LeafId),
    /// As [`Op::Fma`].
    Fma(LeafId, LeafId, LeafId),
    /// As [`Op::Select`].
    Select(LeafId, LeafId, LeafId),
    /// As [`Op::Cast`], to the type of the value.
    Cast(LeafId),
    /// As [`Op::Bitcast`], to the type of the value.
    Bitcast(LeafId),
    /// A value that an inner loop defines: the result of a reduction, or a carried value.
    Result,
}

/// Why a loop is no leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Obstacle {
    /// A branch accesses memory, checks an index or has a loop.
    Branch,
    /// All iterations store to the same element.
    SameElement,
    /// Iterations merge values into elements that they may share.
    Shared,
    /// A loop inside has another number of iterations for each.
    Lengths,
    /// A loop inside, or the loop itself, goes from one element to the next.
    InOrder,
    /// It has a product of matrices.
    Product,
    /// Iterations check different indices, or after they have done something.
    Checks,
    /// It loads an element that it may have stored to.
    Overwritten,
    /// An iteration has scratch in which data decide on the element.
    Scratch,
    /// An iteration has several loops, and one of them carries scalars.
    Carries,
    /// A loop carries half floats.
    Half,
    /// The loops inside go along memory, and this one goes across.
    Across,
    /// It has loops inside, and most of its operations have no vector instructions.
    Slow,
    /// It reduces states of several values.
    State,
    /// It combines the results of chunks or blocks, which are few.
    Results,
    /// A choice in a test.
    Chosen,
}

/// The names of obstacles in text.
const OBSTACLES: [(Obstacle, &str); 16] = [
    (Obstacle::Branch, "branch"),
    (Obstacle::SameElement, "same_element"),
    (Obstacle::Shared, "shared"),
    (Obstacle::Lengths, "lengths"),
    (Obstacle::InOrder, "in_order"),
    (Obstacle::Product, "product"),
    (Obstacle::Checks, "checks"),
    (Obstacle::Overwritten, "overwritten"),
    (Obstacle::Scratch, "scratch"),
    (Obstacle::Carries, "carries"),
    (Obstacle::Half, "half"),
    (Obstacle::Across, "across"),
    (Obstacle::Slow, "slow"),
    (Obstacle::State, "state"),
    (Obstacle::Results, "results"),
    (Obstacle::Chosen, "chosen"),
];

impl Obstacle {
    /// Its name in text.
    pub fn name(self) -> &'static str {
        OBSTACLES.iter().find(|(obstacle, _)| *obstacle == self).map_or("", |(_, name)| name)
    }

    /// The obstacle of a name.
    pub fn from_name(name: &str) -> Option<Obstacle> {
        OBSTACLES.iter().find(|(_, other)| *other == name).map(|(obstacle, _)| *obstacle)
    }
}

impl Inst {
    /// Calls `visit` on each value that it uses.
    pub fn for_each_operand(&self, visit: &mut impl FnMut(LeafId)) {
        match self {
            Inst::Constant(_) | Inst::Uniform(_) | Inst::Affine { .. } | Inst::Load(_) | Inst::Result => {}
            Inst::Unary(_, a) | Inst::Cast(a) | Inst::Bitcast(a) => visit(*a),
            Inst::Binary(_, a, b) | Inst::Compare(_, a, b) => [*a, *b].into_iter().for_each(visit),
            Inst::Fma(a, b, c) | Inst::Select(a, b, c) => [*a, *b, *c].into_iter().for_each(visit),
        }
    }
}

/// An access of a leaf.
pub struct Access {
    /// The array.
    pub buffer: BufferId,
    /// The address at index 0.
    pub start: Linear,
    /// The distance between iterations in elements.
    pub stride: Size,
    /// Subscripts that vary in other ways, with their strides: a gather or scatter.
    pub gathered: Vec<(LeafId, Size)>,
    /// Whether it is inside an inner loop, so that its start depends on the indices there.
    pub inner: bool,
    /// Whether the buffer is scratch that each element of the leaf has a copy of. Copies of
    /// adjacent elements are interleaved.
    pub spread: bool,
}

impl Access {
    /// Whether neighbouring iterations access neighbouring elements.
    pub fn contiguous(&self) -> bool {
        self.gathered.is_empty() && self.stride.as_constant() == Some(1)
    }

    /// The distance in elements from another access, if both are to the same array and the distance
    /// is constant.
    pub fn behind(&self, other: &Access) -> Option<i64> {
        let apart = self.start.affine.sub(&other.start.affine);
        // Their difference is constant only if all indices cancel: a[i + 1] is 1 further than a[i],
        // but a[i, j] is n * i further than a[0, j].
        let alike = self.buffer == other.buffer && self.start.values == other.start.values;
        if alike { apart.as_size().and_then(Size::as_constant) } else { None }
    }
}

impl Leaf {
    /// The value as a constant, if it is a float and not NaN.
    pub fn number(&self, id: LeafId) -> Option<Scalar> {
        let Inst::Constant(c) = self.values[id].1 else { return None };
        (c.dtype().is_float() && !c.is_nan()).then_some(c)
    }

    /// Whether a value is the same for all elements.
    pub fn is_uniform(&self, id: LeafId) -> bool {
        matches!(self.values[id].1, Inst::Constant(_) | Inst::Uniform(_))
    }

    /// The number of operations in the body, without uniform values.
    pub fn weight(&self) -> usize {
        self.weight_of(&self.steps)
    }

    /// The number of operations in some steps.
    pub fn weight_of(&self, steps: &[LeafStep]) -> usize {
        let mut weight = 0;
        self.for_each_step(steps, &mut |step| {
            weight += usize::from(!matches!(step, LeafStep::Value(id) if self.is_uniform(*id)));
        });
        weight
    }

    /// Calls `visit` on every step, including those of inner loops.
    pub fn for_each_step<'l>(&'l self, steps: &'l [LeafStep], visit: &mut impl FnMut(&'l LeafStep)) {
        for step in steps {
            visit(step);
            match step {
                LeafStep::Nest(nest) => self.for_each_step(&nest.body, visit),
                LeafStep::Branch(branch) => self.for_each_step(&branch.steps, visit),
                LeafStep::While(steps) => {
                    self.for_each_step(&steps.condition, visit);
                    self.for_each_step(&steps.body, visit);
                }
                LeafStep::Value(_) | LeafStep::Store { .. } | LeafStep::Scalar(..) => {}
            }
        }
    }

    /// Calls `visit` on every value that the steps use.
    pub fn for_each_use(&self, steps: &[LeafStep], visit: &mut impl FnMut(LeafId)) {
        self.for_each_step(steps, &mut |step| self.for_each_own_use(step, visit));
    }

    /// Calls `visit` on every value that a step uses, without those that its inner steps use.
    pub fn for_each_own_use(&self, step: &LeafStep, visit: &mut impl FnMut(LeafId)) {
        let access = match step {
            LeafStep::Value(id) => {
                let inst = &self.values[*id].1;
                inst.for_each_operand(visit);
                if let Inst::Load(access) = inst { Some(*access) } else { None }
            }
            LeafStep::Store { access, value } => {
                visit(*value);
                Some(*access)
            }
            LeafStep::Nest(nest) => {
                for accumulator in &nest.accumulators {
                    visit(accumulator.next);
                    accumulator.blocks.iter().for_each(|blocks| visit(blocks.input));
                }
                None
            }
            LeafStep::Branch(branch) => {
                branch.for_each_operand(&mut *visit);
                None
            }
            LeafStep::While(steps) => {
                steps.for_each_operand(&mut *visit);
                None
            }
            LeafStep::Scalar(..) => None,
        };
        for (v, _) in access.map_or(&[][..], |access| &self.accesses[access].gathered) {
            visit(*v);
        }
    }

    /// Whether it has a loop over carried scalars.
    pub fn carries(&self) -> bool {
        let mut found = false;
        self.for_each_step(&self.steps, &mut |step| found |= matches!(step, LeafStep::While(_)));
        found
    }

    /// Whether the leaf is processed in strips of elements, because it has inner loops or
    /// per-element scratch.
    pub fn in_strips(&self) -> bool {
        self.steps.iter().any(|s| matches!(s, LeafStep::Nest(_))) || self.accesses.iter().any(|a| a.spread)
    }

    /// Whether most of its operations have instructions for vectors of 128 bits.
    pub fn is_native(&self) -> bool {
        let (mut native, mut other) = (0, 0);
        self.for_each_step(&self.steps, &mut |step| {
            let good = match step {
                LeafStep::Value(id) if self.is_uniform(*id) => return,
                LeafStep::Scalar(..) | LeafStep::Nest(_) | LeafStep::Branch(_) | LeafStep::While(_) => return,
                LeafStep::Value(id) => self.has_instruction(*id),
                LeafStep::Store { access, .. } => self.accesses[*access].contiguous(),
            };
            *(if good { &mut native } else { &mut other }) += 1;
        });
        native > other
    }

    /// Whether an operation has a vector form that is better than one scalar operation per element.
    fn has_instruction(&self, id: LeafId) -> bool {
        let (dtype, inst) = &self.values[id];
        match inst {
            Inst::Load(access) => self.accesses[*access].contiguous(),
            Inst::Binary(BinaryOp::Shl | BinaryOp::Shr, _, amount) => self.is_uniform(*amount),
            Inst::Binary(op, ..) => native_binary(*op, *dtype),
            Inst::Cast(a) => native_cast(self.values[*a].0, *dtype),
            Inst::Constant(_)
            | Inst::Uniform(_)
            | Inst::Affine { .. }
            | Inst::Unary(..)
            | Inst::Compare(..)
            | Inst::Fma(..)
            | Inst::Select(..)
            | Inst::Bitcast(_)
            | Inst::Result => true,
        }
    }

    /// Whether its loops inside go along memory, rather than the leaf. They may be leaves
    /// themselves.
    pub(crate) fn is_across(&self) -> bool {
        let inside = || self.accesses.iter().filter(|a| a.inner && a.gathered.is_empty());
        let across = inside().filter(|a| !a.contiguous()).count();
        across > 0 && across >= inside().filter(|a| a.contiguous()).count()
    }
}

/// Whether vectors of 128 bits have an operation.
pub fn native_binary(op: BinaryOp, dtype: Dtype) -> bool {
    match op {
        BinaryOp::Div => dtype.is_float(),
        BinaryOp::Rem | BinaryOp::Shl | BinaryOp::Shr => false,
        BinaryOp::Add
        | BinaryOp::Sub
        | BinaryOp::Mul
        | BinaryOp::Min
        | BinaryOp::Max
        | BinaryOp::And
        | BinaryOp::Or
        | BinaryOp::Xor => true,
    }
}

/// Whether vectors of 128 bits have a conversion.
pub fn native_cast(from: Dtype, to: Dtype) -> bool {
    match (from, to) {
        _ if from == to => true,
        (Dtype::F16 | Dtype::Bf16, _) => native_cast(Dtype::F32, to),
        // These convert to `f32` exactly, so there is only one rounding.
        (_, Dtype::F16 | Dtype::Bf16) => matches!(from, Dtype::F32 | Dtype::Bool) || from.narrow_range().is_some(),
        (Dtype::F64, _) => matches!(to, Dtype::F32 | Dtype::F64 | Dtype::Bool),
        (Dtype::F32, _) => !matches!(to, Dtype::I64 | Dtype::U64),
        (Dtype::I64 | Dtype::U64, _) => to != Dtype::F32,
        _ => true,
    }
}
