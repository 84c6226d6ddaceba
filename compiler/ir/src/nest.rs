//! Loop nests: the one form of programs from lowering to code generation.
//!
//! A [`Program`] consists of buffers, the equations that a call's sizes must meet, and a tree of
//! [`Kernel`]s: sequences, and loops ([`Repeat`]) over them. A kernel is a tree too: a [`Block`] is
//! a list of statements, and some statements contain blocks. Scalars are in SSA form, with one
//! definition for each [`ValueId`], visible from there to the end of the enclosing block and in
//! nested blocks. Loops bind
//! [`IndexId`]s. All arrays are dense and row-major.
//!
//! The text form (`print`, `parse`) shows all of it; `verify` states the rules.

mod reduction;
mod rows;
mod tree;
mod whiles;

use cranelift_entity::{PrimaryMap, entity_impl};

use crate::size::{Atom, Product};
use crate::{
    Affine, BinaryOp, CompareOp, Dtype, MathFn, Monoid, Order, Origin, ReduceOp, Scalar, Size, SymbolId, UnaryOp,
};

pub use reduction::{Input, Law, Merge, Prefix, Reducer, ReducerId, Reduction, Single};
pub use rows::Rows;
pub use tree::{Carried, Node, Repeat, kernels_in, repeats_in, replace_kernels};
pub use whiles::{Condition, State, While};

/// An array of the program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId(u32);
entity_impl!(BufferId, "b");

/// A kernel of the program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelId(u32);
entity_impl!(KernelId, "k");

/// A scalar function of the program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(u32);
entity_impl!(FunctionId, "f");

/// A place in the source with a subscript that is checked at run time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteId(u32);
entity_impl!(SiteId, "site");

/// A piece of memory that buffers share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId(u32);
entity_impl!(SlotId, "slot");

/// A loop index of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexId(u32);
entity_impl!(IndexId, "i");

/// A scalar value of a kernel or function.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(u32);
entity_impl!(ValueId, "v");

/// Everything an engine needs to run one function of the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The source function's name.
    pub name: String,
    /// Size names, each bound by an input when the program is called.
    pub symbols: PrimaryMap<SymbolId, Symbol>,
    /// Arrays. Inputs, in parameter order, and outputs, in result order, are found by their
    /// [`Role`].
    pub buffers: PrimaryMap<BufferId, Buffer>,
    /// Scalar functions that the kernels call.
    pub functions: PrimaryMap<FunctionId, Function>,
    /// Reducers that are no [`crate::Monoid`].
    pub reducers: PrimaryMap<ReducerId, Reducer>,
    /// Places of run-time checks.
    pub sites: PrimaryMap<SiteId, Site>,
    /// Memory for temporaries. Each slot lists the buffers that use it one after another, in the
    /// order of their lifetimes (see [`crate::live`]). At a call it has as many bytes as the
    /// largest of them. One of them may be an output, if it is as large as each of the others; the
    /// slot is then the caller's memory. A temporary in no slot has memory of its own.
    pub slots: PrimaryMap<SlotId, Vec<BufferId>>,
    /// The requirements on the sizes of a call, checked in this order before anything runs.
    pub requires: Vec<Requirement>,
    /// The kernels, in the order of `body`.
    pub kernels: PrimaryMap<KernelId, Kernel>,
    /// In which order kernels run, and how often: the tree has each of them once.
    pub body: Vec<Node>,
}

/// A size name and what binds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// The name in the source.
    pub name: String,
    /// Where a call takes its value from.
    pub source: SymbolSource,
}

/// The source of the value of a size name at a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SymbolSource {
    /// The length of an axis of an input, counted among the inputs.
    Dimension {
        /// Which input.
        input: usize,
        /// Which of its axes.
        axis: usize,
    },
    /// The value of an integer scalar input.
    Scalar {
        /// Which input.
        input: usize,
    },
    /// The number that gives an axis of an input its declared length: `(length - 1) / 2` where that
    /// is `2 * n + 1`. It may only refer to earlier size names. A program requires that it is not
    /// negative and gives the axis just that length.
    Solved {
        /// Which input.
        input: usize,
        /// Which of its axes.
        axis: usize,
        /// The number.
        value: Size,
    },
}

impl SymbolSource {
    /// Whether the value is a length, which is never negative.
    pub fn is_length(&self) -> bool {
        match self {
            SymbolSource::Dimension { .. } | SymbolSource::Solved { .. } => true,
            SymbolSource::Scalar { .. } => false,
        }
    }
}

/// Whether a size is a length or a number that is not negative.
pub fn is_length(symbols: &PrimaryMap<SymbolId, Symbol>, size: &Size) -> bool {
    match size.as_symbol() {
        Some(symbol) => symbols[symbol].source.is_length(),
        None => size.as_constant().is_some_and(|n| n >= 0),
    }
}

/// An array of the program. Rank 0 is a scalar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// A name from the source, unique among the program's buffers.
    pub name: String,
    /// The type of its elements.
    pub dtype: Dtype,
    /// The length of each axis.
    pub shape: Vec<Size>,
    /// Who provides it.
    pub role: Role,
}

/// Who provides a buffer's memory and contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// The caller, as the n-th input. Never stored to.
    Input(usize),
    /// The program, as the n-th result. May be loaded from after it is stored.
    Output(usize),
    /// The program, for itself.
    Temp,
    /// One kernel, for each iteration of its outermost loop. This loop or contraction (where an
    /// iteration is a point of the free dims) must be the only one in the kernel's body, with
    /// nothing but `let`s next to it. Each iteration has the whole buffer to itself, initially
    /// without contents: it loads only elements that it has stored itself, and stores an element
    /// once. Engines keep one for each thread, so that it stays in a cache. (A table of a reduction
    /// by key that is [read once](Rows::read_once) is never stored.)
    Scratch,
    /// The program's text: the elements of an array literal, row-major. Never stored to.
    Constant(Vec<Scalar>),
}

/// A condition on the sizes of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The left side.
    pub left: Size,
    /// How the sides must compare.
    pub relation: Relation,
    /// The right side.
    pub right: Size,
    /// If one of these sizes is below 1, the requirement does not apply, because nothing is
    /// accessed: they are the extents of indices that the access itself mentions.
    pub unless_empty: Vec<Size>,
    /// A description of the left side, in the user's words: "axis 0 of y".
    pub left_is: String,
    /// A description of the right side, in the user's words.
    pub right_is: String,
    /// The origin of the requirement.
    pub purpose: Purpose,
    /// The source that asks for it.
    pub origin: Origin,
}

/// The origin of a [`Requirement`]. It tells which mistake a call that violates it has made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// Lengths that go together.
    #[default]
    Lengths,
    /// A parameter's type.
    Declared,
    /// A condition that the signature states.
    Stated,
    /// A length that the program computes and that cannot be negative.
    Length,
    /// The ends of a slice.
    Slice,
    /// The subscripts of an access.
    Access,
    /// A reduction that has no result for no elements.
    Elements,
    /// A condition on a scalar parameter that must not wrap.
    Scalar,
    /// A size that must have an exact value. It is on both sides of the requirement.
    Value,
}

impl Purpose {
    /// All of them.
    pub const ALL: [Purpose; 9] = [
        Purpose::Lengths,
        Purpose::Declared,
        Purpose::Stated,
        Purpose::Length,
        Purpose::Slice,
        Purpose::Access,
        Purpose::Elements,
        Purpose::Scalar,
        Purpose::Value,
    ];

    /// Its name in the text of a program.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::Lengths => "lengths",
            Purpose::Declared => "declared",
            Purpose::Stated => "stated",
            Purpose::Length => "length",
            Purpose::Slice => "slice",
            Purpose::Access => "access",
            Purpose::Elements => "elements",
            Purpose::Scalar => "scalar",
            Purpose::Value => "value",
        }
    }
}

/// How the sides of a [`Requirement`] compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// `left == right`
    Equal,
    /// `left <= right`
    AtMost,
}

/// A place in the source with a subscript that is checked at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The text there in the source.
    pub origin: Origin,
    /// The meaning of a failed check.
    pub what: CheckKind,
}

/// The kind of check at a [`Site`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckKind {
    /// A subscript of the source.
    Axis {
        /// The array's name, or a description of it, in the user's words.
        array: String,
        /// The axis that the subscript selects from.
        axis: usize,
    },
    /// `argmax` or `argmin` must have an element.
    Elements(ReduceOp),
    /// A loop must not take more steps than is allowed.
    Steps,
}

/// A straight-line scalar function: an expansion of a [`MathFn`] into primitives, written once for
/// all engines. Its body has only `Let` and `If` statements, without loads, indices, sizes, checks
/// or calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The name in IR text, such as `exp.f32`.
    pub name: String,
    /// The function that it computes.
    pub math: MathFn,
    /// The values that are its parameters, in order.
    pub params: Vec<ValueId>,
    /// The types of all its values.
    pub values: PrimaryMap<ValueId, Dtype>,
    /// The body.
    pub body: Block,
    /// The value it returns.
    pub result: ValueId,
    /// Whether its quotients of `f32` lie where no step of Newton's method for them leaves the
    /// normal range, for all arguments, or are not used: then a few instructions divide exactly.
    pub quotients_in_range: bool,
}

/// One launch: a tree of loops over scalar code. Top-level loops run one after another, and a later
/// one may load elements that an earlier one has stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// A name for reports, unique in the program.
    pub name: String,
    /// The indices that its loops bind.
    pub indices: PrimaryMap<IndexId, Index>,
    /// The types of all its values.
    pub values: PrimaryMap<ValueId, Dtype>,
    /// The statements.
    pub body: Block,
    /// The source operations that it computes.
    pub origins: Vec<Origin>,
}

/// A loop index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// A name for reports and text, unique in the kernel.
    pub name: String,
}

/// Statements that run one after another.
pub type Block = Vec<Statement>;

/// One statement of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// Defines a scalar.
    Let {
        /// The value defined.
        value: ValueId,
        /// The operation.
        op: Op,
    },
    /// Writes an element. Over a whole kernel, each element of an output or temporary is written at
    /// most once (for [`Role::Scratch`], once in each iteration of the outermost loop). A kernel
    /// may load from a buffer that it stores to only those elements that the same iteration of
    /// every enclosing parallel or reducing loop, or a statement before such a loop, has stored.
    Store {
        /// The array.
        buffer: BufferId,
        /// Which element.
        at: Vec<Subscript>,
        /// The value written, of the buffer's type.
        value: ValueId,
    },
    /// Merges a value into an element of a table: `element = element o value`. In a
    /// [`LoopKind::Keyed`] the elements that the loop computes begin as the identity, and their
    /// values are merged in its order. There, one statement alone scatters to a table, and the loop
    /// loads nothing from it. Elsewhere (after scheduling) values are merged one after another.
    Scatter {
        /// The table.
        buffer: BufferId,
        /// Which element.
        at: Vec<Subscript>,
        /// The value merged in, of the table's type.
        value: ValueId,
        /// How they are merged.
        monoid: Monoid,
    },
    /// Runs one of two blocks. Nothing in the other one is evaluated.
    If {
        /// A `bool`.
        condition: ValueId,
        /// Runs if it is true.
        then: Block,
        /// Runs if it is false.
        otherwise: Block,
        /// Values joined from both branches: (defined here, value from `then`, value from
        /// `otherwise`).
        results: Vec<(ValueId, ValueId, ValueId)>,
    },
    /// Repeats a block.
    Loop(Loop),
    /// Repeats a block on scalars that it carries from step to step.
    While(While),
    /// A matrix product or convolution, kept whole for a tuned library or a tensor core.
    Contract(Contraction),
}

/// A loop over one or several indices; the last one varies fastest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// The indices from the outermost in, each with its extent. An extent may depend on indices of
    /// outer loops, not on those of this one. An extent below 1 means no iteration. There are none
    /// around a reduction by key that runs once and the loops behind it: [`Rows`].
    pub dims: Vec<(IndexId, Extent)>,
    /// The dependences between iterations.
    pub kind: LoopKind,
    /// The body.
    pub body: Block,
}

/// How often a loop runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// An affine expression of sizes and outer indices.
    Affine(Affine<IndexId>),
    /// An `i64` value from outside the loop.
    Value(ValueId),
}

/// The dependences between the iterations of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopKind {
    /// None: they may run in any order, simultaneously, or on different threads.
    Parallel,
    /// They run in ascending order.
    Serial,
    /// Values of the body are reduced over all iterations, numbered row-major over the dims; the
    /// results are visible after the loop. Reductions of one loop are independent of each other.
    /// The body may store; no iteration loads what another has stored.
    Reduce(Vec<Reduction>),
    /// The iterations are elements, numbered row-major over the dims, that the body merges into
    /// tables ([`Statement::Scatter`]), in [the order by keys](crate::order). The body stores
    /// nothing else.
    Keyed {
        /// The number of keys, which determines the order.
        keys: Size,
        /// How many leading axes of the tables have subscripts from outside of the loop. The loop
        /// computes every element that has these subscripts.
        row: usize,
    },
    /// A loop over exactly one index that computes running reductions: in its body, [`Op::Prefix`]
    /// gives the reduction over the iterations so far. The body never loads from a buffer that it
    /// stores to.
    Scan,
    /// A loop over exactly one index that puts its iterations in order: in its body, directly and
    /// once, [`Op::Place`] gives the place of an iteration. Every store there has that place as its
    /// last subscript and others from outside of the loop, and the body loads nothing that it
    /// stores.
    Sort,
}

/// `acc = sum over reduce of left * right`, for every point of the free dims; then the epilogue,
/// once for each point.
///
/// The order of the sum is free. This is the one place where engines may differ in bits, within
/// `|error| <= k * eps * sum |left * right|`. Integers wrap and are exact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contraction {
    /// The indices of the result, visible everywhere in the contraction.
    pub free: Vec<(IndexId, Extent)>,
    /// The indices summed over, visible in both prologues.
    pub reduce: Vec<(IndexId, Extent)>,
    /// The order of the sum, if a target makes loops of it: by lanes, or by blocks.
    pub order: Order,
    /// Computes the left factor; it stores nothing.
    pub left: Prologue,
    /// Computes the right factor; it stores nothing.
    pub right: Prologue,
    /// The sum, visible in the epilogue; it has the type of the factors.
    pub result: ValueId,
    /// Runs for each point of the free dims. At the least, it stores the result somewhere.
    pub epilogue: Block,
}

/// The computation of a factor of a [`Contraction`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prologue {
    /// Statements: in the plain case a single load.
    pub body: Block,
    /// The factor, visible at the end of the body.
    pub value: ValueId,
}

/// One subscript of an access.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subscript {
    /// An affine expression of sizes and indices.
    Affine(Affine<IndexId>),
    /// An `i64` value: data, or arithmetic that is not affine. It comes from [`Op::Check`] unless
    /// it is proved to be in bounds.
    Value(ValueId),
}

/// The operation that defines a scalar value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A constant.
    Constant(Scalar),
    /// An affine expression of sizes and indices, as `i64`.
    Affine(Affine<IndexId>),
    /// A primitive of one operand.
    Unary(UnaryOp, ValueId),
    /// A primitive of two operands.
    Binary(BinaryOp, ValueId, ValueId),
    /// A comparison, to `bool`.
    Compare(CompareOp, ValueId, ValueId),
    /// `a * b + c`, rounded once (floats).
    Fma(ValueId, ValueId, ValueId),
    /// The second operand if the first (a `bool`) is true, else the third; both are evaluated.
    Select(ValueId, ValueId, ValueId),
    /// Conversion to a type: integers wrap, float to integer saturates with NaN to 0, narrowing
    /// floats round to nearest even, to `bool` is `!= 0`.
    Cast(Dtype, ValueId),
    /// The same bits as another type of the same width.
    Bitcast(Dtype, ValueId),
    /// A call of a scalar function of the program.
    Call(FunctionId, Vec<ValueId>),
    /// An element of a buffer. Every subscript is in bounds, by proof or by a check.
    Load {
        /// The array.
        buffer: BufferId,
        /// The shape that the subscripts refer to, with as many elements as the buffer; `None` is
        /// its own shape.
        view: Option<Vec<Size>>,
        /// Which element.
        at: Vec<Subscript>,
    },
    /// The operand (`i64`) if `0 <= operand < bound`; otherwise the run ends with an error that
    /// names the site.
    Check {
        /// The subscript.
        value: ValueId,
        /// One past the greatest legal one.
        bound: Size,
        /// The site that the error names.
        site: SiteId,
    },
    /// In a loop of kind [`LoopKind::Scan`], directly in its body: the inclusive prefix of a state
    /// over the iterations so far, in [`crate::Order::Scan`] if order matters.
    Prefix(Prefix),
    /// In a loop of kind [`LoopKind::Sort`], directly in its body: the place (`i64`) of the
    /// iteration, counted from 0, when all are sorted by the operand, a number, in ascending
    /// order. NaN comes last and -0.0 before 0.0; equal operands stay in order.
    Place(ValueId),
}

impl Program {
    /// The inputs, in parameter order.
    pub fn inputs(&self) -> Vec<BufferId> {
        self.by_role(|role| if let Role::Input(n) = role { Some(*n) } else { None })
    }

    /// The outputs, in result order.
    pub fn outputs(&self) -> Vec<BufferId> {
        self.by_role(|role| if let Role::Output(n) = role { Some(*n) } else { None })
    }

    /// Whether the size is so far from the limits of `i64`, whatever the sizes of a call are, that
    /// its sum with an index does not wrap. A size name is at most
    /// [`MAX_LENGTH`](crate::bind::MAX_LENGTH); a product of names is small if it is part of the
    /// length of an axis.
    pub fn is_small(&self, size: &Size) -> bool {
        let is_name = |(product, factor): &(Product, i64)| match product.as_slice() {
            [] => factor.unsigned_abs() <= 1 << 56,
            [Atom::Symbol(_) | Atom::KeyedChunk(_)] => factor.unsigned_abs() <= 1 << 8,
            [Atom::FloorDiv(number, _)] => factor.unsigned_abs() <= 1 << 4 && self.is_small(number),
            _ => false,
        };
        let is_part = |product: &Product| {
            let lengths = self.buffers.values().flat_map(|b| &b.shape);
            lengths.into_iter().any(|length| {
                let (own, others): (Vec<_>, Vec<_>) = length.terms().iter().partition(|(other, _)| other == product);
                own.iter().any(|(_, factor)| *factor > 0) && others.into_iter().all(is_name)
            })
        };
        let is_small = |term: &(Product, i64)| is_name(term) || matches!(term, (product, -1 | 1) if is_part(product));
        size.terms().len() <= 8 && size.terms().iter().all(is_small)
    }

    /// The name of a reduction for reports; for a reducer, without the type.
    pub fn merge_name(&self, merge: Merge) -> &str {
        match merge {
            Merge::Monoid(monoid) => monoid.name(),
            Merge::Reducer(id) => {
                let name = &self.reducers[id].name;
                name.split_once('.').map_or(name.as_str(), |(name, _)| name)
            }
        }
    }

    fn by_role(&self, number: impl Fn(&Role) -> Option<usize>) -> Vec<BufferId> {
        let mut found: Vec<_> = self.buffers.iter().filter_map(|(id, b)| Some((number(&b.role)?, id))).collect();
        found.sort_unstable();
        found.into_iter().map(|(_, id)| id).collect()
    }
}

impl Op {
    /// Calls `visit` on each value that the operation uses.
    pub fn for_each_operand(&self, mut visit: impl FnMut(ValueId)) {
        match self {
            Op::Constant(_) | Op::Affine(_) => {}
            Op::Unary(_, a) | Op::Cast(_, a) | Op::Bitcast(_, a) | Op::Place(a) => visit(*a),
            Op::Prefix(prefix) => prefix.inputs.iter().filter_map(|input| input.value()).for_each(visit),
            Op::Binary(_, a, b) | Op::Compare(_, a, b) => [*a, *b].into_iter().for_each(visit),
            Op::Fma(a, b, c) | Op::Select(a, b, c) => [*a, *b, *c].into_iter().for_each(visit),
            Op::Call(_, arguments) => arguments.iter().for_each(|v| visit(*v)),
            Op::Load { at, .. } => at.iter().for_each(|s| {
                if let Subscript::Value(v) = s {
                    visit(*v);
                }
            }),
            Op::Check { value, .. } => visit(*value),
        }
    }

    /// Calls `visit` on each value that the operation uses, which may replace it.
    pub fn for_each_operand_mut(&mut self, mut visit: impl FnMut(&mut ValueId)) {
        match self {
            Op::Constant(_) | Op::Affine(_) => {}
            Op::Unary(_, a) | Op::Cast(_, a) | Op::Bitcast(_, a) | Op::Place(a) => visit(a),
            Op::Prefix(prefix) => prefix.inputs.iter_mut().for_each(|input| {
                if let Input::Value(value) = input {
                    visit(value);
                }
            }),
            Op::Binary(_, a, b) | Op::Compare(_, a, b) => [a, b].into_iter().for_each(visit),
            Op::Fma(a, b, c) | Op::Select(a, b, c) => [a, b, c].into_iter().for_each(visit),
            Op::Call(_, arguments) => arguments.iter_mut().for_each(visit),
            Op::Load { at, .. } => at.iter_mut().for_each(|s| {
                if let Subscript::Value(v) = s {
                    visit(v);
                }
            }),
            Op::Check { value, .. } => visit(value),
        }
    }
}
