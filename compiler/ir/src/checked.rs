//! The checked program: the meaning of the source after names, types and shapes are resolved. The
//! checker makes it, lowering turns it into loop nests, and the interpreter can evaluate it
//! directly.
//!
//! It is one function of the source, with every call inlined and every whole-array operation
//! written out, so that few forms remain: **scalar** expressions, and seven kinds of **array**
//! expression ([`Kind::Param`] of rank 1 or more, [`Kind::Comprehension`], [`Kind::Reshape`],
//! [`Kind::ArrayLiteral`], [`Kind::Sort`], [`Kind::Recurrence`], [`Kind::Earlier`]). `x * 2 + b` is
//! two nested comprehensions, `transpose(x)` is one, `sum(x, axis = 1)` a comprehension over a
//! reduction.
//!
//! Expressions form a DAG: a name bound by `let` is not a node, but its uses share the node of its
//! value. The free indices of a node are those that it mentions and no node below it binds. An
//! array expression is evaluated as a whole, once for each setting of its free indices, if any of
//! its elements is needed.
//!
//! A loop ([`Loop`]) is made of three kinds of nodes: its states within a step ([`Kind::State`]),
//! which are scalars or arrays, whatever computes the next ones from them, and its last states
//! ([`Kind::Loop`]). Its steps are numbered by an index, which the states within a step mention and
//! the last ones bind.

use cranelift_entity::{PrimaryMap, SecondaryMap, entity_impl};

use crate::nest::{Requirement, Site, SiteId, Symbol};
use crate::{Affine, BinaryOp, CompareOp, Dtype, MathFn, Order, Origin, ReduceOp, Scalar, Size, SymbolId, UnaryOp};

/// An expression.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExprId(u32);
entity_impl!(ExprId, "e");

/// An index of a comprehension or a reduction; each binder has its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexId(u32);
entity_impl!(IndexId, "x");

/// A branch of an `if` with an access that is in bounds only there, or the function's top level
/// ([`Checked::TOP`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GuardId(u32);
entity_impl!(GuardId, "guard");

/// A loop.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoopId(u32);
entity_impl!(LoopId, "loop");

/// A recurrence: one or several arrays that refer to earlier elements of themselves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecurrenceId(u32);
entity_impl!(RecurrenceId, "rec");

/// One function of the source, checked.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// The function's name.
    pub name: String,
    /// The size names.
    pub symbols: PrimaryMap<SymbolId, Symbol>,
    /// The parameters, in order.
    pub params: Vec<Param>,
    /// All indices.
    pub indices: PrimaryMap<IndexId, Index>,
    /// The branches of `if`s, each with its enclosing branch (the top level encloses itself).
    pub guards: PrimaryMap<GuardId, GuardId>,
    /// All expressions; operands come before their users.
    pub exprs: PrimaryMap<ExprId, Expr>,
    /// The loops, each after those around it.
    pub loops: PrimaryMap<LoopId, Loop>,
    /// The indices that number the steps of loops.
    pub steps: SecondaryMap<IndexId, Option<LoopId>>,
    /// The recurrences.
    pub recurrences: PrimaryMap<RecurrenceId, Recurrence>,
    /// The loops whose states the way back keeps in blocks.
    pub blocks: Vec<Blocks>,
    /// The results, in order: a name, unique among them, and the value.
    pub results: Vec<(String, ExprId)>,
    /// The requirements on the sizes of a call.
    pub requires: Vec<Requirement>,
    /// The accesses that are checked at run time.
    pub sites: PrimaryMap<SiteId, Site>,
    /// The limit from `@kernels(n)`.
    pub max_kernels: Option<u64>,
    /// From `@fast`: speed before equal bits.
    pub fast: bool,
    /// The effort of the proofs, as the number of inequalities that they combined.
    pub combined: usize,
}

/// A parameter. A scalar has no axes.
#[derive(Clone, Debug)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Where it stands in the source.
    pub origin: Origin,
}

/// The type of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// The type of the elements.
    pub dtype: Dtype,
    /// The length of each axis; none for a scalar.
    pub shape: Vec<Size>,
}

/// An index: its name and extent, counted from 0.
#[derive(Clone, Debug)]
pub struct Index {
    /// The name in the source, or one made up for an unnamed axis.
    pub name: String,
    /// Its extent. An index of a comprehension always has one that depends on no other index.
    pub extent: Extent,
    /// Where it is bound.
    pub origin: Origin,
}

/// A loop: a state, part by part, that each step replaces. It ends after as many steps as the
/// extent of `step` says, or before the first one at which `condition` does not hold.
#[derive(Clone, Debug)]
pub struct Loop {
    /// The index that numbers the steps.
    pub step: IndexId,
    /// No expression before this one mentions the step.
    pub begin: ExprId,
    /// The indices around it that it depends on: there is a loop for each setting of them.
    pub around: Vec<IndexId>,
    /// The parts of the state, in order.
    pub states: Vec<State>,
    /// A `bool`.
    pub condition: Option<ExprId>,
    /// The branch that the body stands in, because it is computed only while the condition holds.
    pub guard: GuardId,
    /// Whether it is a `loop` of the source, so that a limit on steps holds for it.
    pub written: bool,
}

/// A part of the state of a loop. Its three expressions have one type.
#[derive(Clone, Debug)]
pub struct State {
    /// Its value before the first step.
    pub first: ExprId,
    /// Its value within a step: a [`Kind::State`].
    pub current: ExprId,
    /// Its value after that step.
    pub next: ExprId,
    /// The parts that this one and the condition depend on, by their numbers; itself among them.
    pub needs: Vec<usize>,
}

/// A long loop that the way back takes block by block. It keeps the states that blocks begin with,
/// and those of one block at a time, which it computes again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// The loop.
    pub origin: Origin,
    /// The steps of the loop.
    pub steps: Size,
    /// The bytes of the state of a step, over all indices around; `None` if one of these ends at
    /// another one.
    pub bytes: Option<Size>,
    /// The steps in a block.
    pub length: i64,
    /// How deep blocks of blocks go: 1 if there are only blocks.
    pub depth: u32,
}

impl Blocks {
    /// The most steps that it keeps the states of at once.
    pub fn kept(&self) -> Size {
        let outermost = self.steps.floor_div(&Size::constant(self.length.saturating_pow(self.depth)));
        &outermost + &Size::constant(self.length.saturating_mul(i64::from(self.depth)))
    }
}

/// How far an index runs.
#[derive(Clone, Debug)]
pub enum Extent {
    /// An affine expression of sizes and outer indices; there is no element if it is below 1.
    Affine(Affine<IndexId>),
    /// An `i64` expression that depends on data; there is no element if it is below 1.
    Dynamic(ExprId),
}

impl Extent {
    /// The size, if no index and no data occurs in it.
    pub fn as_size(&self) -> Option<&Size> {
        match self {
            Extent::Affine(extent) => extent.as_size(),
            Extent::Dynamic(_) => None,
        }
    }
}

/// Arrays that refer to earlier elements of themselves and of each other, and the order in which
/// their elements are computed: one setting of the deciding indices after another, at each of them
/// one array after another. Elements that differ in other indices alone do not depend on each
/// other.
#[derive(Clone, Debug, Default)]
pub struct Recurrence {
    /// The arrays.
    pub equations: Vec<Equation>,
    /// The indices that decide which elements are earlier, the outermost first.
    pub steps: Vec<Step>,
    /// The axes along which the arrays are independent: each access to an earlier element has the
    /// same index there. For each, its place among the indices of each array.
    pub independent: Vec<Vec<usize>>,
    /// The order in which the arrays are computed at each setting of the deciding indices.
    pub sequence: Vec<usize>,
    /// The indices from outside that the arrays depend on.
    pub free: Vec<IndexId>,
}

/// An array of a recurrence.
#[derive(Clone, Debug)]
pub struct Equation {
    /// An index for each axis.
    pub indices: Vec<IndexId>,
    /// The element, a scalar. It reads earlier elements by [`Kind::Earlier`].
    pub body: ExprId,
}

/// An index that decides which elements of a recurrence are earlier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its place among the indices of each array.
    pub axes: Vec<usize>,
    /// Whether elements with a greater index are the earlier ones.
    pub descending: bool,
}

impl Recurrence {
    /// The deciding indices of an array, the outermost first.
    pub fn deciding(&self, array: usize) -> impl Iterator<Item = IndexId> {
        self.steps.iter().map(move |step| self.equations[array].indices[step.axes[array]])
    }
}

/// An expression.
#[derive(Clone, Debug)]
pub struct Expr {
    /// Its kind.
    pub kind: Kind,
    /// Its type.
    pub ty: Type,
    /// The source it came from.
    pub origin: Origin,
    /// The innermost branch of an `if` in which it was written.
    pub guard: GuardId,
    /// The name it was first bound to by `let`, for buffers and reports.
    pub name: Option<String>,
}

/// The kinds of expressions. All but the seven array kinds have a scalar type and scalar operands.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A constant.
    Constant(Scalar),
    /// A size, as `i64`.
    Size(Size),
    /// The value of an index, as `i64`.
    Index(IndexId),
    /// A parameter: an array, or a scalar.
    Param(usize),
    /// A primitive of one operand.
    Unary(UnaryOp, ExprId),
    /// A primitive of two operands.
    Binary(BinaryOp, ExprId, ExprId),
    /// A comparison, to `bool`.
    Compare(CompareOp, ExprId, ExprId),
    /// `a * b + c`, rounded once.
    Fma(ExprId, ExprId, ExprId),
    /// Conversion to the expression's type.
    Cast(ExprId),
    /// The bits as a value of the expression's type, which has the same width. A NaN as an integer
    /// has bits that the engines may choose.
    Bitcast(ExprId),
    /// A named scalar function at the expression's type.
    Math(MathFn, Vec<ExprId>),
    /// One of two values; the branch that is not taken is not evaluated.
    If {
        /// A `bool`.
        condition: ExprId,
        /// The value if it is true.
        then: ExprId,
        /// The value if it is false.
        otherwise: ExprId,
    },
    /// An element of an array: as many subscripts as axes.
    Access {
        /// An array expression.
        array: ExprId,
        /// One for each axis.
        at: Vec<Subscript>,
    },
    /// A reduction over indices, numbered row-major, of a scalar body.
    Reduce {
        /// The operation; a `mean` is a `Sum` divided by a count.
        op: ReduceOp,
        /// Its indices.
        over: Vec<IndexId>,
        /// The operand.
        body: ExprId,
        /// The order, from the source alone.
        order: Order,
        /// Set for `sum[k <= i](e)` and `sum[k < i](e)` where `e` does not mention `i`: a scan.
        prefix: Option<Prefix>,
        /// The conditions on its elements, if it is a reduction by key: then one of them is a key,
        /// its indices run over a box, and so do its free ones, and it stands under no guard. If
        /// order matters, it is that of the keys, whatever `order` says. In any other reduction a
        /// condition is an `if` in the body.
        by: Vec<Factor>,
    },
    /// The sum over indices of a product of two scalar factors: a contraction.
    Contract {
        /// The indices summed over.
        over: Vec<IndexId>,
        /// One factor.
        left: ExprId,
        /// The other.
        right: ExprId,
    },
    /// An array: the body at each setting of the indices. The shape is the extents of the indices,
    /// followed by the axes of the body, which may itself be an array.
    Comprehension {
        /// The indices, the outermost first.
        indices: Vec<IndexId>,
        /// A scalar or an array.
        body: ExprId,
    },
    /// The elements of an array, in order, under the expression's shape.
    Reshape(ExprId),
    /// Scalars, row-major, under the expression's shape.
    ArrayLiteral(Vec<ExprId>),
    /// Elements in ascending order, NaN last and -0.0 before 0.0; equal ones stay in order.
    Sort {
        /// The index that counts the elements.
        index: [IndexId; 1],
        /// An element, a number.
        body: ExprId,
        /// Whether the array has elements or their numbers.
        result: Sorted,
    },
    /// A part of the state of a loop, within a step.
    State {
        /// The loop.
        of: LoopId,
        /// The number of the part.
        number: usize,
    },
    /// A part of the state of a loop after its last step.
    Loop {
        /// The loop.
        of: LoopId,
        /// The number of the part.
        number: usize,
        /// The index that numbers the steps.
        step: [IndexId; 1],
    },
    /// An array of a recurrence, complete.
    Recurrence {
        /// Which recurrence.
        recurrence: RecurrenceId,
        /// Which of its arrays.
        array: usize,
    },
    /// The same array as far as it is computed, in the body of an array of the recurrence.
    Earlier {
        /// Which recurrence.
        recurrence: RecurrenceId,
        /// Which of its arrays.
        array: usize,
        /// The array that has this in its body.
        within: usize,
    },
}

/// The contents of a sorted array at each place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sorted {
    /// The element there.
    Values,
    /// The number of the element there (`i64`).
    Numbers,
}

/// A condition on the elements of a reduction by key. Each may rely on those before it, and the
/// body on all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factor {
    /// A `bool` that holds for the elements that take part.
    Holds(ExprId),
    /// An element takes part only where the index has this value, an integer of any type.
    Key {
        /// An index that is bound outside of the reduction.
        of: IndexId,
        /// An expression of the reduced indices.
        key: ExprId,
    },
}

impl Factor {
    /// The expression.
    pub fn expr(&self) -> ExprId {
        match self {
            Factor::Holds(expr) | Factor::Key { key: expr, .. } => *expr,
        }
    }

    /// The index that has the value of a key.
    pub fn key_of(&self) -> Option<IndexId> {
        match self {
            Factor::Holds(_) => None,
            Factor::Key { of, .. } => Some(*of),
        }
    }
}

/// Marks a reduction as a prefix: over one index `k` with extent `of + 1` (inclusive) or `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The index that bounds it.
    pub of: IndexId,
    /// Whether the element at `of` belongs to it.
    pub inclusive: bool,
}

/// One subscript of an access.
///
/// An expression may be computed for every setting of the indices that it mentions, whether or not
/// other enclosing loops run at all, and under no `if` but its guard. So a proof that an access is
/// in bounds relies on the extents of the indices that the access mentions, on its guard, and on
/// requirements of the call: `x[0]` in the body of `sum[k < n]` needs `1 <= n` even though there is
/// no `k` if `n` is 0.
#[derive(Clone, Debug)]
pub struct Subscript {
    /// Its value, an integer scalar of any integer type, taken as an `i64`; a `u64` beyond that as
    /// the greatest one, which is outside of every array.
    pub value: ExprId,
    /// The same as an affine expression, where it is one.
    pub affine: Option<Affine<IndexId>>,
    /// Set if it is not proved inside: then it is checked where it is evaluated.
    pub check: Option<SiteId>,
}

impl Checked {
    /// The guard of what stands under no `if`.
    pub const TOP: GuardId = GuardId(0);

    /// Whether guard `inner` is `outer` or stands inside it.
    pub fn within(&self, mut inner: GuardId, outer: GuardId) -> bool {
        loop {
            if inner == outer {
                return true;
            }
            let parent = self.guards[inner];
            if parent == inner {
                return false;
            }
            inner = parent;
        }
    }

    /// The parts of the state of a loop that any of some expressions depend on.
    pub fn needed_states(&self, of: LoopId, users: impl Fn(ExprId) -> bool) -> Vec<usize> {
        let mut needed = vec![];
        for (_, expr) in self.exprs.iter().filter(|(id, _)| users(*id)) {
            if let Kind::Loop { of: other, number, .. } = expr.kind
                && other == of
            {
                needed.extend(&self.loops[of].states[number].needs);
            }
        }
        needed.sort_unstable();
        needed.dedup();
        needed
    }

    /// The greatest length of the arrays of a recurrence along an axis of each, if it is known.
    pub fn longest(&self, recurrence: RecurrenceId, axes: &[usize]) -> Option<&Size> {
        let arrays = self.recurrences[recurrence].equations.iter().zip(axes);
        let length = |(equation, axis): (&Equation, &usize)| self.indices[equation.indices[*axis]].extent.as_size();
        let lengths = arrays.map(length).collect::<Option<Vec<_>>>()?;
        let is_longest =
            |one: &&Size| lengths.iter().all(|other| (*one - *other).as_constant().is_some_and(|d| d >= 0));
        lengths.iter().copied().find(is_longest)
    }

    /// Calls `visit` on each operand of an expression of this kind, beginning with those that end
    /// its indices.
    pub fn for_each_operand(&self, kind: &Kind, mut visit: impl FnMut(ExprId)) {
        for index in self.bound(kind) {
            if let Extent::Dynamic(extent) = &self.indices[index].extent {
                visit(*extent);
            }
        }
        match kind {
            Kind::Constant(_)
            | Kind::Size(_)
            | Kind::Index(_)
            | Kind::Param(_)
            | Kind::State { .. }
            | Kind::Earlier { .. } => {}
            Kind::Unary(_, a) | Kind::Cast(a) | Kind::Bitcast(a) | Kind::Reshape(a) => visit(*a),
            Kind::Binary(_, a, b) | Kind::Compare(_, a, b) | Kind::Contract { left: a, right: b, .. } => {
                [*a, *b].into_iter().for_each(visit);
            }
            Kind::Fma(a, b, c) | Kind::If { condition: a, then: b, otherwise: c } => {
                [*a, *b, *c].into_iter().for_each(visit);
            }
            Kind::Math(_, operands) | Kind::ArrayLiteral(operands) => operands.iter().copied().for_each(visit),
            Kind::Access { array, at } => {
                visit(*array);
                at.iter().for_each(|s| visit(s.value));
            }
            Kind::Reduce { body, by, .. } => {
                by.iter().for_each(|factor| visit(factor.expr()));
                visit(*body);
            }
            Kind::Comprehension { body, .. } | Kind::Sort { body, .. } => visit(*body),
            Kind::Loop { of, number, .. } => {
                let Loop { states, condition, .. } = &self.loops[*of];
                condition.iter().copied().for_each(&mut visit);
                for part in &states[*number].needs {
                    visit(states[*part].first);
                    visit(states[*part].next);
                }
            }
            Kind::Recurrence { recurrence, .. } => {
                self.recurrences[*recurrence].equations.iter().for_each(|equation| visit(equation.body));
            }
        }
    }

    /// The indices that an expression of this kind binds.
    pub fn bound<'c>(&'c self, kind: &'c Kind) -> impl Iterator<Item = IndexId> + Clone + 'c {
        let (own, equations): (&[IndexId], &[Equation]) = match kind {
            Kind::Reduce { over, .. } | Kind::Contract { over, .. } => (over, &[]),
            Kind::Comprehension { indices, .. } => (indices, &[]),
            Kind::Loop { step, .. } => (step, &[]),
            Kind::Sort { index, .. } => (index, &[]),
            Kind::Recurrence { recurrence, .. } => (&[], &self.recurrences[*recurrence].equations),
            _ => (&[], &[]),
        };
        own.iter().chain(equations.iter().flat_map(|equation| &equation.indices)).copied()
    }
}

impl Type {
    /// A scalar type.
    pub fn scalar(dtype: Dtype) -> Type {
        Type { dtype, shape: vec![] }
    }

    /// Whether there are no axes.
    pub fn is_scalar(&self) -> bool {
        self.shape.is_empty()
    }
}
