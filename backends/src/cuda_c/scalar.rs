//! Operations as expressions of CUDA C.

use ir::{BinaryOp, CompareOp, Dtype, Scalar, UnaryOp};

use super::helpers::Helper;

/// How tightly an expression binds; an operand is put in brackets if it binds less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Choice,
    Or,
    And,
    Bits,
    Equality,
    Order,
    Sum,
    Product,
    Sign,
    Atom,
}

/// An expression.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) text: String,
    pub(super) level: Level,
}

impl Text {
    pub(super) fn new(level: Level, text: impl Into<String>) -> Text {
        Text { text: text.into(), level }
    }

    pub(super) fn atom(text: impl Into<String>) -> Text {
        Text::new(Level::Atom, text)
    }

    /// The text as an operand of something that binds this tightly.
    pub(super) fn at(&self, least: Level) -> String {
        if self.level < least { format!("({})", self.text) } else { self.text.clone() }
    }

    /// `left operator right`, from the left.
    pub(super) fn infix(level: Level, left: &Text, operator: &str, right: &Text) -> Text {
        // Bits of different operators, and comparisons of comparisons, are clearer with brackets.
        let (inner, next) = match level {
            Level::Bits | Level::Equality | Level::Order => (Level::Sum, Level::Sum),
            Level::Sum => (Level::Sum, Level::Product),
            Level::Product => (Level::Product, Level::Sign),
            Level::Or => (Level::Or, Level::And),
            Level::And => (Level::And, Level::Bits),
            Level::Choice | Level::Sign | Level::Atom => (Level::Atom, Level::Atom),
        };
        Text::new(level, format!("{} {operator} {}", left.at(inner), right.at(next)))
    }

    /// A call of a function.
    pub(super) fn call(function: &str, operands: &[&Text]) -> Text {
        let operands: Vec<&str> = operands.iter().map(|operand| operand.text.as_str()).collect();
        Text::atom(format!("{function}({})", operands.join(", ")))
    }
}

/// The name of a type.
pub(super) fn name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Bool => "bool",
        Dtype::I8 => "signed char",
        Dtype::U8 => "unsigned char",
        Dtype::I16 => "short",
        Dtype::U16 => "unsigned short",
        Dtype::I32 => "int",
        Dtype::U32 => "unsigned",
        Dtype::I64 => "long long",
        Dtype::U64 => "unsigned long long",
        Dtype::F16 => "f16",
        Dtype::Bf16 => "bf16",
        Dtype::F32 => "float",
        Dtype::F64 => "double",
    }
}

/// The name of a type as a cast needs it.
fn cast_to(dtype: Dtype, operand: &Text) -> Text {
    let name = name(dtype);
    if name.contains(' ') {
        return Text::new(Level::Sign, format!("({name}){}", operand.at(Level::Sign)));
    }
    Text::call(name, &[operand])
}

/// Helpers that types need.
pub(super) fn needs(dtype: Dtype) -> Option<Helper> {
    matches!(dtype, Dtype::F16 | Dtype::Bf16).then_some(Helper::Half)
}

/// A constant.
pub(super) fn constant(value: Scalar) -> Text {
    let signed = |text: String| {
        let level = if text.starts_with('-') { Level::Sign } else { Level::Atom };
        Text::new(level, text)
    };
    match value {
        Scalar::Bool(v) => Text::atom(v.to_string()),
        Scalar::F32(v) if v.is_finite() => signed(format!("{v:?}f")),
        Scalar::F32(v) => Text::atom(format!("__int_as_float({:#x})", v.to_bits())),
        Scalar::F64(v) if v.is_finite() => signed(format!("{v:?}")),
        Scalar::F64(v) => Text::atom(format!("__longlong_as_double({:#x})", v.to_bits())),
        Scalar::I32(i32::MIN) => Text::atom("(-2147483647 - 1)"),
        Scalar::I32(v) => signed(v.to_string()),
        Scalar::I64(i64::MIN) => Text::atom("(-9223372036854775807LL - 1)"),
        Scalar::I64(v) => signed(format!("{v}LL")),
        Scalar::U32(v) => Text::atom(format!("{v}u")),
        Scalar::U64(v) => Text::atom(format!("{v}ULL")),
        Scalar::I8(v) => cast_to(Dtype::I8, &signed(v.to_string())),
        Scalar::I16(v) => cast_to(Dtype::I16, &signed(v.to_string())),
        other @ (Scalar::U8(_) | Scalar::U16(_)) => cast_to(other.dtype(), &Text::atom(other.bits().to_string())),
        other @ (Scalar::F16(_) | Scalar::Bf16(_)) => {
            Text::atom(format!("{}{{{:#x}}}", name(other.dtype()), other.bits()))
        }
    }
}

/// An expression and the helper that it calls.
type Needing = (Text, Option<Helper>);

/// A primitive of one operand.
pub(super) fn unary(op: UnaryOp, dtype: Dtype, a: &Text) -> Needing {
    let float = |single: &str| {
        let name = if dtype == Dtype::F32 { format!("{single}f") } else { single.to_owned() };
        (Text::call(&name, &[a]), None)
    };
    match op {
        UnaryOp::Neg if dtype.is_signed_int() => {
            (Text::call("sub", &[&constant(Scalar::zero(dtype)), a]), Some(Helper::Wrapping))
        }
        UnaryOp::Neg => (Text::new(Level::Sign, format!("-{}", a.at(Level::Atom))), None),
        UnaryOp::Not if dtype == Dtype::Bool => (Text::new(Level::Sign, format!("!{}", a.at(Level::Sign))), None),
        UnaryOp::Not => (Text::new(Level::Sign, format!("~{}", a.at(Level::Sign))), None),
        UnaryOp::Abs if dtype.is_float() => float("fabs"),
        UnaryOp::Abs if dtype.is_signed_int() => (Text::call("absolute", &[a]), Some(Helper::Absolute)),
        UnaryOp::Abs => (a.clone(), None),
        UnaryOp::Sqrt => float("sqrt"),
        UnaryOp::Floor => float("floor"),
        UnaryOp::Ceil => float("ceil"),
        UnaryOp::Trunc => float("trunc"),
        UnaryOp::Round => float("rint"),
    }
}

/// A primitive of two operands of one type.
pub(super) fn binary(op: BinaryOp, dtype: Dtype, a: &Text, b: &Text) -> Needing {
    let infix = |level, operator| (Text::infix(level, a, operator, b), None);
    let call = |function, helper| (Text::call(function, &[a, b]), Some(helper));
    let (float, signed, bool) = (dtype.is_float(), dtype.is_signed_int(), dtype == Dtype::Bool);
    match op {
        BinaryOp::Add if signed => call("add", Helper::Wrapping),
        BinaryOp::Sub if signed => call("sub", Helper::Wrapping),
        BinaryOp::Mul if signed => call("mul", Helper::Wrapping),
        BinaryOp::Add => infix(Level::Sum, "+"),
        BinaryOp::Sub => infix(Level::Sum, "-"),
        BinaryOp::Mul => infix(Level::Product, "*"),
        BinaryOp::Div if float => infix(Level::Product, "/"),
        BinaryOp::Div => call("quotient", Helper::Division),
        BinaryOp::Rem if float => (Text::call(if dtype == Dtype::F32 { "fmodf" } else { "fmod" }, &[a, b]), None),
        BinaryOp::Rem => call("remainder", Helper::Division),
        BinaryOp::And | BinaryOp::Min if bool => infix(Level::And, "&&"),
        BinaryOp::Or | BinaryOp::Max if bool => infix(Level::Or, "||"),
        BinaryOp::Xor if bool => infix(Level::Equality, "!="),
        BinaryOp::Min => call("least", Helper::Extremes),
        BinaryOp::Max => call("greatest", Helper::Extremes),
        BinaryOp::And => infix(Level::Bits, "&"),
        BinaryOp::Or => infix(Level::Bits, "|"),
        BinaryOp::Xor => infix(Level::Bits, "^"),
        BinaryOp::Shl => call("left", Helper::Shifts),
        BinaryOp::Shr => call("right", Helper::Shifts),
    }
}

/// A comparison.
pub(super) fn compare(op: CompareOp, dtype: Dtype, a: &Text, b: &Text) -> Text {
    let wide = |x: &Text| if needs(dtype).is_some() { Text::call("to_float", &[x]) } else { x.clone() };
    let (level, operator) = match op {
        CompareOp::Eq => (Level::Equality, "=="),
        CompareOp::Ne => (Level::Equality, "!="),
        CompareOp::Lt => (Level::Order, "<"),
        CompareOp::Le => (Level::Order, "<="),
        CompareOp::Gt => (Level::Order, ">"),
        CompareOp::Ge => (Level::Order, ">="),
    };
    Text::infix(level, &wide(a), operator, &wide(b))
}

/// A conversion to a type.
pub(super) fn cast(to: Dtype, from: Dtype, a: &Text) -> Needing {
    let function = match to {
        Dtype::I64 => "to_long",
        Dtype::U64 => "to_unsigned_long",
        Dtype::U32 => "to_unsigned",
        Dtype::U8 | Dtype::U16 | Dtype::I8 | Dtype::I16 | Dtype::I32 => "to_int",
        Dtype::Bool | Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64 => "",
    };
    match (from, to) {
        _ if from == to => (a.clone(), None),
        (Dtype::F16 | Dtype::Bf16, Dtype::F32) => (Text::call("to_float", &[a]), Some(Helper::Half)),
        (Dtype::F16 | Dtype::Bf16, _) => cast(to, Dtype::F32, &Text::call("to_float", &[a])),
        (Dtype::Bool, Dtype::F16 | Dtype::Bf16) => cast(to, Dtype::I32, &Text::call("int", &[a])),
        (Dtype::I8 | Dtype::U8 | Dtype::I16 | Dtype::U16, Dtype::F16 | Dtype::Bf16) => {
            cast(to, Dtype::I32, &Text::call("int", &[a]))
        }
        (_, Dtype::F16 | Dtype::Bf16) => (Text::call(&format!("to_half<{}>", name(to)), &[a]), Some(Helper::Half)),
        (_, Dtype::Bool) => {
            let zero = constant(Scalar::zero(from));
            (Text::infix(Level::Equality, a, "!=", &zero), None)
        }
        (Dtype::F32 | Dtype::F64, _) if to.is_int() => {
            let whole = Text::call(function, &[a]);
            match to.narrow_range() {
                Some((least, most)) => {
                    let (least, most) = (constant(Scalar::I32(least)), constant(Scalar::I32(most)));
                    (cast_to(to, &Text::call("within", &[&whole, &least, &most])), Some(Helper::Saturation))
                }
                None => (whole, Some(Helper::Saturation)),
            }
        }
        _ => (cast_to(to, a), None),
    }
}

/// The same bits as another type of the same width.
pub(super) fn bitcast(to: Dtype, from: Dtype, a: &Text) -> Needing {
    if to == from {
        return (a.clone(), None);
    }
    (Text::call(&format!("bits<{}>", name(to)), &[a]), Some(Helper::Bits))
}
