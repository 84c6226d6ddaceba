//! The syntax tree. Expressions live in an arena and refer to each other by id, so that deeply
//! nested source does not become deeply nested boxes, which would overflow the stack when they are
//! dropped.

use cranelift_entity::{PrimaryMap, entity_impl};

/// A byte range of the source text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

/// An expression of the file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExprId(u32);
entity_impl!(ExprId, "expr");

/// A file of a program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModuleId(u32);
entity_impl!(ModuleId, "module");

impl ModuleId {
    /// The file that is the program; the others are used by it.
    pub const PROGRAM: ModuleId = ModuleId(0);
}

/// A program: a source file and those that it uses, directly and indirectly.
#[derive(Clone, Debug, Default)]
pub struct File {
    /// The functions of all files, in order.
    pub functions: Vec<Function>,
    /// The files. There may be none: then the functions are of one file that uses no others.
    pub modules: PrimaryMap<ModuleId, Module>,
    /// Every expression; operands come before their users.
    pub exprs: PrimaryMap<ExprId, Expr>,
}

impl File {
    /// The functions of the program's own file, in order.
    pub fn own(&self) -> impl Iterator<Item = &Function> {
        self.functions.iter().filter(|function| function.module == ModuleId::PROGRAM)
    }
}

/// A source file of a program, without its functions.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// Where it begins in the source.
    pub start: u32,
    /// The files that it uses, in order.
    pub uses: Vec<Use>,
}

/// `use "path.fl"` or `use library`, and `(name, ...)` if only those functions are used.
#[derive(Clone, Debug)]
pub struct Use {
    /// The file or library.
    pub what: Used,
    /// The names that are picked; none stands for all functions of the file.
    pub names: Vec<Name>,
    /// All of it.
    pub span: Span,
    /// The file that it stands for, once that has been read.
    pub module: Option<ModuleId>,
}

/// A file or library that is used.
#[derive(Clone, Debug)]
pub enum Used {
    /// The path of a file, which stands in quotes.
    Path(Name),
    /// A library by its name.
    Library(Name),
}

impl Used {
    /// The path without its quotes, or the name of the library, where it stands.
    pub fn name(&self) -> &Name {
        match self {
            Used::Path(name) | Used::Library(name) => name,
        }
    }
}

/// Text typed at a prompt.
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// One after the other.
    pub entries: Vec<Entry>,
    /// Every expression; operands come before their users.
    pub exprs: PrimaryMap<ExprId, Expr>,
}

/// Something that may be typed at a prompt.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A `use`.
    Use(Use),
    /// A function.
    Function(Function),
    /// A `let`.
    Let(Let),
    /// An expression, or a tuple of them.
    Value(ExprId),
}

/// A name where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name.
    pub text: String,
    /// Where it stands.
    pub span: Span,
}

/// `fn name(params) -> results = result` or `... { lets; result }`.
#[derive(Clone, Debug)]
pub struct Function {
    /// `@kernels(1)` and its like, in order.
    pub decorators: Vec<Decorator>,
    /// The file that it is in.
    pub module: ModuleId,
    /// The function's name.
    pub name: Name,
    /// Its parameters.
    pub params: Vec<Param>,
    /// The result types after `->`, if they are given.
    pub results: Option<Results>,
    /// The condition on its sizes and parameters after `where`, if there is one.
    pub condition: Option<ExprId>,
    /// The statements before the result.
    pub lets: Vec<Let>,
    /// The result: any expression, or a tuple.
    pub result: ExprId,
    /// From `fn` to the end of the result types, or of the parameters if none are given.
    pub signature: Span,
    /// From `fn` to the end of the body.
    pub span: Span,
}

/// `@name` or `@name(args)`.
#[derive(Clone, Debug)]
pub struct Decorator {
    /// Its name.
    pub name: Name,
    /// Its arguments.
    pub args: Vec<ExprId>,
    /// All of it.
    pub span: Span,
}

/// `name: type`.
#[derive(Clone, Debug)]
pub struct Param {
    /// The parameter's name.
    pub name: Name,
    /// Its type.
    pub ty: Type,
}

/// `f32` or `f32[n, m + 1]`.
#[derive(Clone, Debug)]
pub struct Type {
    /// The type of the elements.
    pub dtype: Dtype,
    /// The length of each axis.
    pub shape: Vec<ExprId>,
    /// All of it.
    pub span: Span,
}

/// An element type by name; `float` is `f32` or `f64`, as a call decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is named as in the source")]
pub enum Dtype {
    Bool,
    I8,
    U8,
    I16,
    U16,
    I32,
    I64,
    U32,
    U64,
    F16,
    Bf16,
    F32,
    F64,
    Float,
}

/// The result types after `->`.
#[derive(Clone, Debug)]
pub enum Results {
    /// `f32[n]`
    One(Type),
    /// `(s: f32[n], c: f32[n])`, names optional.
    Tuple(Vec<(Option<Name>, Type)>),
}

/// `let target = value`, or a recurrence.
#[derive(Clone, Debug)]
pub struct Let {
    /// The arrays or values that it defines.
    pub definition: Definition,
    /// From `let` to the end of the last value.
    pub span: Span,
}

/// The arrays or values that a `let` defines.
#[derive(Clone, Debug)]
pub enum Definition {
    /// `let target = value`
    Values {
        /// The names that the value is bound to.
        target: Target,
        /// To what.
        value: ExprId,
    },
    /// `let rec y[t < n] = value, ...`: arrays that refer to earlier elements of themselves and of
    /// each other. There is at least one.
    Recurrence(Vec<Equation>),
}

/// `y[t < n] = value`, in a recurrence.
#[derive(Clone, Debug)]
pub struct Equation {
    /// The array.
    pub name: Name,
    /// Its indices, at least one.
    pub binders: Vec<Binder>,
    /// Its element at these indices.
    pub value: ExprId,
}

impl Let {
    /// The names that it binds, in order.
    pub fn names(&self) -> Vec<&Name> {
        match &self.definition {
            Definition::Values { target, .. } => target.pattern.names().iter().collect(),
            Definition::Recurrence(equations) => equations.iter().map(|equation| &equation.name).collect(),
        }
    }

    /// The indices of the arrays that it makes by index notation.
    pub fn binders(&self) -> Vec<&Binder> {
        match &self.definition {
            Definition::Values { target, .. } => target.binders.iter().collect(),
            Definition::Recurrence(equations) => equations.iter().flat_map(|equation| &equation.binders).collect(),
        }
    }

    /// The expressions after `=`.
    pub fn values(&self) -> Vec<ExprId> {
        match &self.definition {
            Definition::Values { value, .. } => vec![*value],
            Definition::Recurrence(equations) => equations.iter().map(|equation| equation.value).collect(),
        }
    }
}

/// The left side of a `let`: `y`, `(s, c)`, `y[i, j < n]` or `(s, c)[i]`.
#[derive(Clone, Debug)]
pub struct Target {
    /// The names.
    pub pattern: Pattern,
    /// The indices of the arrays that are made by index notation, else none.
    pub binders: Vec<Binder>,
}

/// The names that a value is bound to.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// `y`
    Name(Name),
    /// `(s, c)`
    Tuple(Vec<Name>),
}

impl Pattern {
    /// The names, in order.
    pub fn names(&self) -> &[Name] {
        match self {
            Pattern::Name(name) => std::slice::from_ref(name),
            Pattern::Tuple(names) => names,
        }
    }
}

/// `grad[a, b](value)`, or `jvp[a, b](value, da, db)`.
#[derive(Clone, Debug)]
pub struct Derivative {
    /// The names of the values that it is in; at least one.
    pub of: Vec<Name>,
    /// The value that is derived.
    pub value: ExprId,
    /// The changes of the values, one for each, where the change of the result is asked for; `None`
    /// where the gradient is.
    pub changes: Option<Vec<ExprId>>,
}

/// `loop states, counter while condition { lets; next }`.
#[derive(Clone, Debug)]
pub struct Loop {
    /// The names of the state with their first values, in order; at least one.
    pub states: Vec<State>,
    /// The counter, `t < n` or `a <= t < b`, if there is one.
    pub counter: Option<Binder>,
    /// The condition after `while`, if there is one.
    pub condition: Option<ExprId>,
    /// One step: its result is the next state.
    pub body: Block,
}

/// `name = first`, a part of the state of a loop.
#[derive(Clone, Debug)]
pub struct State {
    /// The name.
    pub name: Name,
    /// Its value before the first step.
    pub first: ExprId,
}

/// `{ lets; result }`, the body of a loop.
#[derive(Clone, Debug)]
pub struct Block {
    /// The statements before the result.
    pub lets: Vec<Let>,
    /// The result: any expression, or a tuple.
    pub result: ExprId,
}

/// An index and its range: `i`, `i < n`, `k <= i` or, in a reducer or as the counter of a loop,
/// `a <= k < b`.
#[derive(Clone, Debug)]
pub struct Binder {
    /// The index.
    pub name: Name,
    /// Its bound from below, if one is written.
    pub lower: Option<Bound>,
    /// Its bound from above, if one is written.
    pub upper: Option<Bound>,
}

impl Binder {
    /// The bounds that are written.
    pub fn bounds(&self) -> impl Iterator<Item = Bound> {
        [self.lower, self.upper].into_iter().flatten()
    }
}

/// `< limit` or `<= limit`; from below, `limit <` or `limit <=`.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// Whether the index reaches the limit itself (`<=`).
    pub inclusive: bool,
    /// The limit.
    pub limit: ExprId,
}

/// An expression where it stands. Parentheses leave no node but widen the span.
#[derive(Clone, Debug)]
pub struct Expr {
    /// The form of the expression.
    pub kind: ExprKind,
    /// Its place in the source.
    pub span: Span,
    /// Its place without the parentheses around it.
    pub own: Span,
}

impl Expr {
    /// An expression without parentheses around it.
    pub fn new(kind: ExprKind, span: Span) -> Expr {
        Expr { kind, span, own: span }
    }
}

/// The forms of expressions.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// `42`
    Int(u64),
    /// `1e-5`, as written but without underscores, so that it is rounded only once, to the type
    /// that it takes on.
    Float(String),
    /// `x`; also `inf nan pi true false`, which can be shadowed.
    Name(String),
    /// `_`, the length that `reshape` works out.
    Hole,
    /// `-a`, `!a`
    Unary(UnaryOp, ExprId),
    /// `a + b`
    Binary(BinaryOp, ExprId, ExprId),
    /// `if c then a else b`
    If {
        /// Between `if` and `then`.
        condition: ExprId,
        /// Between `then` and `else`.
        then: ExprId,
        /// After `else`.
        otherwise: ExprId,
    },
    /// `f(a, axis = 1)`
    Call {
        /// The function's name.
        callee: Name,
        /// Its arguments.
        args: Vec<Arg>,
    },
    /// `f32(a)`
    Cast(Dtype, ExprId),
    /// `bitcast(i32, a)`: a call whose first argument is a type.
    Bitcast {
        /// The function's name, which only the checker looks at.
        callee: Name,
        /// The type.
        to: Dtype,
        /// The other argument.
        of: ExprId,
    },
    /// `sum[k < n where c](e)`: any name followed by binders and one argument.
    Reduce {
        /// The reducer's name.
        callee: Name,
        /// Its indices.
        binders: Vec<Binder>,
        /// The condition on the elements, after `where`.
        filter: Option<ExprId>,
        /// The expression that is reduced.
        body: ExprId,
    },
    /// `grad[w](e)`, `jvp[x](e, dx)`: a derivative, which may have several results.
    Derivative(Derivative),
    /// `x[i, 1:n, ::2]`
    Index {
        /// The array that is indexed.
        base: ExprId,
        /// One for each leading axis.
        items: Vec<Item>,
    },
    /// `[a, b]`
    Array(Vec<ExprId>),
    /// `(a, b)`: the result of a function or of a block only.
    Tuple(Vec<ExprId>),
    /// `loop x = x0, t < n while c { next }`
    Loop(Box<Loop>),
}

impl ExprKind {
    /// Calls `visit` on each direct subexpression, the limits of indices first. Those of a loop are
    /// the values of its statements too.
    pub fn for_each_operand(&self, mut visit: impl FnMut(ExprId)) {
        match self {
            ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Name(_) | ExprKind::Hole => {}
            ExprKind::Unary(_, a) | ExprKind::Cast(_, a) | ExprKind::Bitcast { of: a, .. } => visit(*a),
            ExprKind::Binary(_, a, b) => [*a, *b].into_iter().for_each(visit),
            ExprKind::If { condition, then, otherwise } => [*condition, *then, *otherwise].into_iter().for_each(visit),
            ExprKind::Call { args, .. } => args.iter().for_each(|arg| visit(arg.value)),
            ExprKind::Reduce { binders, filter, body, .. } => {
                binders.iter().flat_map(Binder::bounds).for_each(|bound| visit(bound.limit));
                filter.iter().copied().for_each(&mut visit);
                visit(*body);
            }
            ExprKind::Derivative(Derivative { value, changes, .. }) => {
                visit(*value);
                changes.iter().flatten().copied().for_each(visit);
            }
            ExprKind::Index { base, items } => {
                visit(*base);
                for item in items {
                    match item {
                        Item::At(at) => visit(*at),
                        Item::Slice { start, stop, step, .. } => {
                            [start, stop, step].into_iter().copied().flatten().for_each(&mut visit);
                        }
                    }
                }
            }
            ExprKind::Array(parts) | ExprKind::Tuple(parts) => parts.iter().copied().for_each(visit),
            ExprKind::Loop(one) => {
                one.states.iter().for_each(|state| visit(state.first));
                one.counter.iter().flat_map(Binder::bounds).for_each(|bound| visit(bound.limit));
                one.condition.iter().copied().for_each(&mut visit);
                for statement in &one.body.lets {
                    statement.binders().into_iter().flat_map(Binder::bounds).for_each(|bound| visit(bound.limit));
                    statement.values().into_iter().for_each(&mut visit);
                }
                visit(one.body.result);
            }
        }
    }
}

/// An argument of a call.
#[derive(Clone, Debug)]
pub struct Arg {
    /// Set in `axis = 1`.
    pub name: Option<Name>,
    /// Its value.
    pub value: ExprId,
}

/// A subscript.
#[derive(Clone, Debug)]
pub enum Item {
    /// `i + 1`
    At(ExprId),
    /// `start:stop:step`, each optional.
    Slice {
        /// First.
        start: Option<ExprId>,
        /// One past the last.
        stop: Option<ExprId>,
        /// How far from one to the next.
        step: Option<ExprId>,
        /// All of it.
        span: Span,
    },
}

/// An operator with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    /// `-`
    Neg,
    /// `!`
    Not,
}

/// An operator with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOp {
    /// `||`
    Or,
    /// `&&`
    And,
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `%`
    Rem,
    /// `@`
    MatMul,
    /// `^`
    Pow,
}

impl Dtype {
    /// Every type, in the order of the language reference.
    pub const ALL: [Dtype; 14] = [
        Dtype::Bool,
        Dtype::I8,
        Dtype::U8,
        Dtype::I16,
        Dtype::U16,
        Dtype::I32,
        Dtype::I64,
        Dtype::U32,
        Dtype::U64,
        Dtype::F16,
        Dtype::Bf16,
        Dtype::F32,
        Dtype::F64,
        Dtype::Float,
    ];

    /// Whether it is a type of floats.
    pub fn is_float(self) -> bool {
        matches!(self, Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64 | Dtype::Float)
    }

    /// The type as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Dtype::Bool => "bool",
            Dtype::I8 => "i8",
            Dtype::U8 => "u8",
            Dtype::I16 => "i16",
            Dtype::U16 => "u16",
            Dtype::I32 => "i32",
            Dtype::I64 => "i64",
            Dtype::U32 => "u32",
            Dtype::U64 => "u64",
            Dtype::F16 => "f16",
            Dtype::Bf16 => "bf16",
            Dtype::F32 => "f32",
            Dtype::F64 => "f64",
            Dtype::Float => "float",
        }
    }
}

impl UnaryOp {
    /// The operator as it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            UnaryOp::Neg => "-",
            UnaryOp::Not => "!",
        }
    }
}

impl BinaryOp {
    /// The operator as it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            BinaryOp::Or => "||",
            BinaryOp::And => "&&",
            BinaryOp::Eq => "==",
            BinaryOp::Ne => "!=",
            BinaryOp::Lt => "<",
            BinaryOp::Le => "<=",
            BinaryOp::Gt => ">",
            BinaryOp::Ge => ">=",
            BinaryOp::Add => "+",
            BinaryOp::Sub => "-",
            BinaryOp::Mul => "*",
            BinaryOp::Div => "/",
            BinaryOp::Rem => "%",
            BinaryOp::MatMul => "@",
            BinaryOp::Pow => "^",
        }
    }
}
