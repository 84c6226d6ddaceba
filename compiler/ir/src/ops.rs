//! The scalar operations: a few dozen primitives, and the named functions that expand into them.
//!
//! Every operation is total. Integers wrap; integer division and remainder by zero give 0; float to
//! integer saturates, NaN to 0; a shift by the width or more (or by a negative amount) gives 0, or
//! the sign for a signed right shift. Floating point is IEEE, rounded to nearest even, never
//! contracted, with denormals kept; `Min` and `Max` propagate NaN and order -0 below +0. The
//! definition of each, as a table of cases, is `interp::scalar`; code that evaluates operations
//! without importing it is given an [`Arithmetic`].

use crate::nest::Function;
use crate::{Dtype, Scalar};

macro_rules! named_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant),* }
        impl $name {
            /// Every member, in declaration order.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];
            /// The name in IR text.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text),* }
            }
            /// The member of that name.
            pub fn from_name(name: &str) -> Option<$name> {
                match name { $($text => Some($name::$variant),)* _ => None }
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

named_enum! {
    /// Operations of one operand; the result has the operand's type.
    UnaryOp {
        /// Negation; on floats it flips the sign bit.
        Neg = "neg",
        /// Logical not on `bool`, bitwise not on integers.
        Not = "not",
        /// Absolute value; `i32::MIN` stays.
        Abs = "abs",
        /// Square root (floats), correctly rounded.
        Sqrt = "sqrt",
        /// Round toward minus infinity (floats).
        Floor = "floor",
        /// Round toward plus infinity (floats).
        Ceil = "ceil",
        /// Round toward zero (floats).
        Trunc = "trunc",
        /// Round to nearest, ties to even (floats).
        Round = "round",
    }
}

named_enum! {
    /// Operations of two operands of one type; the result has that type too.
    BinaryOp {
        /// Sum.
        Add = "add",
        /// Difference.
        Sub = "sub",
        /// Product.
        Mul = "mul",
        /// Quotient; truncates on integers, 0 for a zero divisor.
        Div = "div",
        /// Remainder with the dividend's sign (C's `fmod` on floats); 0 for a zero integer divisor.
        Rem = "rem",
        /// The lesser; NaN if either is one, -0 below +0.
        Min = "min",
        /// The greater; NaN if either is one, -0 below +0.
        Max = "max",
        /// Logical (`bool`) or bitwise and.
        And = "and",
        /// Logical (`bool`) or bitwise or.
        Or = "or",
        /// Logical (`bool`) or bitwise exclusive or.
        Xor = "xor",
        /// Left shift (integers).
        Shl = "shl",
        /// Right shift (integers): arithmetic on signed types, logical on unsigned ones.
        Shr = "shr",
    }
}

named_enum! {
    /// Comparisons of two operands of one type, to `bool`. With a NaN all but `Ne` are false;
    /// `bool` orders false first.
    CompareOp {
        /// Equal.
        Eq = "eq",
        /// Not equal.
        Ne = "ne",
        /// Less.
        Lt = "lt",
        /// Less or equal.
        Le = "le",
        /// Greater.
        Gt = "gt",
        /// Greater or equal.
        Ge = "ge",
    }
}

impl CompareOp {
    /// The operator in the source language.
    pub fn symbol(self) -> &'static str {
        match self {
            CompareOp::Eq => "==",
            CompareOp::Ne => "!=",
            CompareOp::Lt => "<",
            CompareOp::Le => "<=",
            CompareOp::Gt => ">",
            CompareOp::Ge => ">=",
        }
    }

    /// The comparison with its operands swapped.
    #[must_use]
    pub fn swapped(self) -> CompareOp {
        match self {
            CompareOp::Lt => CompareOp::Gt,
            CompareOp::Le => CompareOp::Ge,
            CompareOp::Gt => CompareOp::Lt,
            CompareOp::Ge => CompareOp::Le,
            CompareOp::Eq | CompareOp::Ne => self,
        }
    }
}

named_enum! {
    /// The reductions with a state of one element that merge two of them by one primitive.
    Monoid {
        /// Sum; 0 of nothing.
        Sum = "sum",
        /// Product; 1 of nothing.
        Prod = "prod",
        /// Greatest; minus infinity or the type's least value for no elements; NaN if there is one.
        Max = "max",
        /// Least; plus infinity or the type's greatest value for no elements; NaN if there is one.
        Min = "min",
        /// Whether one is true (`bool`).
        Any = "any",
        /// Whether all are true (`bool`).
        All = "all",
    }
}

impl Monoid {
    /// The primitive that combines two elements.
    pub fn primitive(self) -> BinaryOp {
        match self {
            Monoid::Sum => BinaryOp::Add,
            Monoid::Prod => BinaryOp::Mul,
            Monoid::Max => BinaryOp::Max,
            Monoid::Min => BinaryOp::Min,
            Monoid::Any => BinaryOp::Or,
            Monoid::All => BinaryOp::And,
        }
    }

    /// The element of this type that changes nothing when it is combined with another.
    pub fn identity(self, element: Dtype) -> Scalar {
        match self {
            Monoid::Sum | Monoid::Any => Scalar::zero(element),
            Monoid::Prod | Monoid::All => Scalar::one(element),
            Monoid::Max => Scalar::least(element),
            Monoid::Min => Scalar::greatest(element),
        }
    }

    /// Whether the order of elements of this type can change the result's bits.
    pub fn depends_on_order(self, element: Dtype) -> bool {
        match self {
            Monoid::Sum | Monoid::Prod => element.is_float(),
            Monoid::Max | Monoid::Min | Monoid::Any | Monoid::All => false,
        }
    }
}

/// The greatest or the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Extreme {
    /// As [`Monoid::Max`] has it.
    Greatest,
    /// As [`Monoid::Min`] has it.
    Least,
}

impl Extreme {
    /// The reduction that finds it.
    pub fn monoid(self) -> Monoid {
        match self {
            Extreme::Greatest => Monoid::Max,
            Extreme::Least => Monoid::Min,
        }
    }
}

/// The operations of reducers: `mean` shares the sum, and divides it by the number of elements.
/// Lowering makes each a [`Monoid`] or a [`crate::nest::Reducer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReduceOp {
    /// The elements combined.
    Monoid(Monoid),
    /// `argmax` and `argmin`: the row-major number (`i64`) of the first greatest or least element,
    /// or of the first NaN; 0 for no elements.
    Position(Extreme),
}

impl ReduceOp {
    /// Every reducer.
    pub const ALL: [ReduceOp; 8] = [
        ReduceOp::Monoid(Monoid::Sum),
        ReduceOp::Monoid(Monoid::Prod),
        ReduceOp::Monoid(Monoid::Max),
        ReduceOp::Monoid(Monoid::Min),
        ReduceOp::Monoid(Monoid::Any),
        ReduceOp::Monoid(Monoid::All),
        ReduceOp::Position(Extreme::Greatest),
        ReduceOp::Position(Extreme::Least),
    ];

    /// The name in the source and in IR text.
    pub fn name(self) -> &'static str {
        match self {
            ReduceOp::Monoid(monoid) => monoid.name(),
            ReduceOp::Position(Extreme::Greatest) => "argmax",
            ReduceOp::Position(Extreme::Least) => "argmin",
        }
    }

    /// The reducer of that name.
    pub fn from_name(name: &str) -> Option<ReduceOp> {
        ReduceOp::ALL.into_iter().find(|op| op.name() == name)
    }

    /// The type of the result over elements of type `element`.
    pub fn result(self, element: Dtype) -> Dtype {
        match self {
            ReduceOp::Monoid(_) => element,
            ReduceOp::Position(_) => Dtype::I64,
        }
    }

    /// Whether the order of the elements can change the result's bits for elements of this type.
    pub fn depends_on_order(self, element: Dtype) -> bool {
        match self {
            ReduceOp::Monoid(monoid) => monoid.depends_on_order(element),
            ReduceOp::Position(_) => false,
        }
    }
}

impl std::fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

named_enum! {
    /// The named scalar functions. Each is one sequence of primitives for each float type (some for
    /// integers too), written once in `compiler::math`; a program carries the ones it uses as
    /// [`crate::nest::Function`]s.
    MathFn {
        /// e^x
        Exp = "exp",
        /// 2^x
        Exp2 = "exp2",
        /// e^x - 1
        Expm1 = "expm1",
        /// Natural logarithm.
        Log = "log",
        /// Logarithm to base 2.
        Log2 = "log2",
        /// Logarithm to base 10.
        Log10 = "log10",
        /// log(1 + x)
        Log1p = "log1p",
        /// Sine of radians.
        Sin = "sin",
        /// Cosine of radians.
        Cos = "cos",
        /// Tangent of radians.
        Tan = "tan",
        /// Arc sine.
        Asin = "asin",
        /// Arc cosine.
        Acos = "acos",
        /// Arc tangent.
        Atan = "atan",
        /// Angle of the point (second, first).
        Atan2 = "atan2",
        /// Hyperbolic sine.
        Sinh = "sinh",
        /// Hyperbolic cosine.
        Cosh = "cosh",
        /// Hyperbolic tangent.
        Tanh = "tanh",
        /// Inverse hyperbolic sine.
        Asinh = "asinh",
        /// Inverse hyperbolic cosine.
        Acosh = "acosh",
        /// Inverse hyperbolic tangent.
        Atanh = "atanh",
        /// 1 / (1 + e^-x)
        Sigmoid = "sigmoid",
        /// Error function.
        Erf = "erf",
        /// Inverse of the error function.
        ErfInv = "erf_inv",
        /// Logarithm of the absolute value of the gamma function.
        Lgamma = "lgamma",
        /// Derivative of the logarithm of the gamma function.
        Digamma = "digamma",
        /// 1 / sqrt(x)
        Rsqrt = "rsqrt",
        /// Cube root.
        Cbrt = "cbrt",
        /// First to the power of second.
        Pow = "pow",
        /// The remainder with the divisor's sign.
        Mod = "mod",
        /// The quotient rounded down.
        FloorDiv = "floor_div",
        /// -1, 0 or 1 with the argument's sign; zeros and NaN stay.
        Sign = "sign",
        /// The number of bits of an integer that are set.
        Popcount = "popcount",
        /// min(max(x, lo), hi)
        Clamp = "clamp",
        /// max(x, 0)
        Relu = "relu",
        /// x (1 + erf(x / sqrt 2)) / 2
        Gelu = "gelu",
        /// The tanh approximation of gelu.
        GeluTanh = "gelu_tanh",
        /// x sigmoid(x)
        Silu = "silu",
        /// log(1 + e^x)
        Softplus = "softplus",
        /// A random number in [0, 1), uniformly distributed: of a seed and two numbers, all `u64`.
        Uniform = "uniform",
        /// A random number of the standard normal distribution, likewise.
        Normal = "normal",
        /// A random number of 64 bits, the seed of other draws, likewise.
        Subseed = "subseed",
    }
}

impl MathFn {
    /// How many arguments the function takes.
    pub fn arity(self) -> usize {
        match self {
            MathFn::Atan2 | MathFn::Pow | MathFn::Mod | MathFn::FloorDiv => 2,
            MathFn::Clamp | MathFn::Uniform | MathFn::Normal | MathFn::Subseed => 3,
            _ => 1,
        }
    }

    /// Whether the function draws random numbers. Its arguments are then `u64`, whatever its result
    /// is.
    pub fn is_random(self) -> bool {
        matches!(self, MathFn::Uniform | MathFn::Normal | MathFn::Subseed)
    }
}

/// Functions that evaluate the scalar operations. The only instance is the interpreter's, which
/// defines them (`interp::scalar::ARITHMETIC`). Callers of an analysis that evaluates operations
/// pass it in, so that there is no second definition.
#[derive(Clone, Copy, Debug)]
pub struct Arithmetic {
    /// A primitive of one operand.
    pub unary: fn(UnaryOp, Scalar) -> Scalar,
    /// A primitive of two operands.
    pub binary: fn(BinaryOp, Scalar, Scalar) -> Scalar,
    /// A comparison.
    pub compare: fn(CompareOp, Scalar, Scalar) -> bool,
    /// `a * b + c`, rounded once.
    pub fma: fn(Scalar, Scalar, Scalar) -> Scalar,
    /// Conversion to a type.
    pub cast: fn(Dtype, Scalar) -> Scalar,
    /// The same bits as another type.
    pub bitcast: fn(Dtype, Scalar) -> Scalar,
    /// The value of a function at its arguments.
    pub call: fn(&Function, &[Scalar]) -> Scalar,
}
