//! The programs as trees, with the two texts of each: Fuseloop's and NumPy's. The texts share only
//! the tree.

use std::fmt::Write;

use ir::Dtype;

/// An expression at one setting of the enclosing indices.
#[derive(Clone, Debug)]
pub struct Expr {
    /// Its type.
    pub ty: Dtype,
    /// Its kind.
    pub kind: Kind,
}

/// The kinds of expressions.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A number, as both languages write it.
    Literal(String),
    /// An index, or a scalar parameter.
    Name(String),
    /// The length of an axis.
    Length(Axis),
    /// An element.
    Access(String, Vec<Expr>),
    /// `-a` or `!a`.
    Unary(&'static str, Box<Expr>),
    /// An operator between two operands.
    Binary(&'static str, Box<Expr>, Box<Expr>),
    /// `a ^ k`
    Power(Box<Expr>, u8),
    /// A named function.
    Call(&'static str, Vec<Expr>),
    /// A conversion to the expression's type.
    Cast(Box<Expr>),
    /// `if c then a else b`
    If(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `sum[k < bound](body)`, with the names of the enclosing indices.
    Reduce {
        /// The reducer.
        op: &'static str,
        /// Its index.
        index: String,
        /// Where that ends.
        bound: Box<Expr>,
        /// The operand.
        body: Box<Expr>,
        /// The indices around it.
        around: Vec<String>,
        /// Whether it is computed wherever its statement is, and over the elements of a whole axis.
        is_sure: bool,
    },
}

/// An axis of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The array.
    pub array: String,
    /// Which of its axes.
    pub axis: usize,
}

/// A statement: both texts of it.
#[derive(Clone, Debug)]
pub struct Statement {
    /// Fuseloop's.
    pub fuseloop: String,
    /// NumPy's.
    pub numpy: String,
}

impl Expr {
    /// A name.
    pub fn name(name: &str, ty: Dtype) -> Expr {
        Expr { ty, kind: Kind::Name(name.to_owned()) }
    }

    /// A number.
    pub fn number(ty: Dtype, text: impl Into<String>) -> Expr {
        Expr { ty, kind: Kind::Literal(text.into()) }
    }

    /// Notes that it may not be computed.
    pub fn doubt(&mut self) {
        match &mut self.kind {
            Kind::Literal(_) | Kind::Name(_) | Kind::Length(_) => {}
            Kind::Access(_, parts) | Kind::Call(_, parts) => parts.iter_mut().for_each(Expr::doubt),
            Kind::Unary(_, a) | Kind::Power(a, _) | Kind::Cast(a) => a.doubt(),
            Kind::Binary(_, a, b) => [a, b].into_iter().for_each(|e| e.doubt()),
            Kind::If(a, b, c) => [a, b, c].into_iter().for_each(|e| e.doubt()),
            Kind::Reduce { bound, body, is_sure, .. } => {
                *is_sure = false;
                [bound, body].into_iter().for_each(|e| e.doubt());
            }
        }
    }

    /// Fuseloop's text.
    pub fn fuseloop(&self) -> String {
        let list = |all: &[Expr]| all.iter().map(Expr::fuseloop).collect::<Vec<_>>().join(", ");
        match &self.kind {
            Kind::Literal(text) if self.ty == Dtype::Bool => text.to_lowercase(),
            // A number alone has no type.
            Kind::Literal(text) => format!("{}({text})", self.ty),
            Kind::Name(name) => name.clone(),
            Kind::Length(Axis { array, axis }) => format!("size({array}, {axis})"),
            Kind::Access(array, at) => format!("{array}[{}]", list(at)),
            Kind::Unary(op, a) => format!("({op}{})", a.fuseloop()),
            Kind::Binary(op, a, b) => format!("({} {op} {})", a.fuseloop(), b.fuseloop()),
            Kind::Power(a, k) => format!("({} ^ {k})", a.fuseloop()),
            Kind::Call(name, args) => format!("{name}({})", list(args)),
            Kind::Cast(a) => format!("{}({})", self.ty, a.fuseloop()),
            Kind::If(c, a, b) => format!("(if {} then {} else {})", c.fuseloop(), a.fuseloop(), b.fuseloop()),
            Kind::Reduce { op, index, bound, body, .. } => {
                format!("{op}[{index} < {}]({})", bound.fuseloop(), body.fuseloop())
            }
        }
    }

    /// NumPy's text.
    pub fn numpy(&self) -> String {
        // Operations widen a storage type.
        let wide = |e: &Expr| match e.ty == e.ty.compute() {
            true => e.numpy(),
            false => format!("cast('{}', {})", e.ty.compute(), e.numpy()),
        };
        let list = |all: &[Expr]| all.iter().map(wide).collect::<Vec<_>>().join(", ");
        match &self.kind {
            Kind::Literal(text) => format!("literal('{}', {})", self.ty, python(text)),
            Kind::Name(name) => name.clone(),
            Kind::Length(Axis { array, axis }) => format!("literal('i64', {array}.shape[{axis}])"),
            Kind::Access(array, at) => {
                format!("at({array}, {})", at.iter().map(Expr::numpy).collect::<Vec<_>>().join(", "))
            }
            Kind::Unary("!", a) => format!("~({})", a.numpy()),
            Kind::Unary(op, a) => format!("({op}{})", wide(a)),
            Kind::Binary(op, a, b) => {
                let (a, b) = (wide(a), wide(b));
                match *op {
                    "/" => format!("divide({a}, {b})"),
                    "%" => format!("remainder({a}, {b})"),
                    "&&" => format!("({a} & {b})"),
                    "||" => format!("({a} | {b})"),
                    _ => format!("({a} {op} {b})"),
                }
            }
            Kind::Power(a, k) => format!("power({}, {k})", wide(a)),
            Kind::Call("select", args) => {
                format!("choose({})", args.iter().map(Expr::numpy).collect::<Vec<_>>().join(", "))
            }
            Kind::Call(name, args) => match *name {
                "shift_left" => format!("shift({}, True)", list(args)),
                "shift_right" => format!("shift({}, False)", list(args)),
                name => format!("{}({})", function(name), list(args)),
            },
            Kind::Cast(a) => format!("cast('{}', {})", self.ty, a.numpy()),
            Kind::If(c, a, b) => format!("choose({}, {}, {})", c.numpy(), a.numpy(), b.numpy()),
            Kind::Reduce { op, index, bound, body, around, is_sure } => {
                let params: Vec<&str> = around.iter().map(String::as_str).chain([index.as_str()]).collect();
                let mut text = format!("reduce('{op}', '{}', lambda {}: ", body.ty.compute(), params.join(", "));
                let _ = write!(text, "{}, {}", wide(body), bound.numpy());
                around.iter().for_each(|name| text += &format!(", {name}"));
                text + if *is_sure { ", is_sure=True)" } else { ")" }
            }
        }
    }
}

/// NumPy's name of a function, or its name in the prelude.
fn function(name: &str) -> String {
    match name {
        "max" => "larger".to_owned(),
        "min" => "smaller".to_owned(),
        "clamp" | "relu" | "sign" | "mod" | "floor_div" => name.to_owned(),
        "round" => "np.rint".to_owned(),
        "bit_and" => "np.bitwise_and".to_owned(),
        "bit_or" => "np.bitwise_or".to_owned(),
        "bit_xor" => "np.bitwise_xor".to_owned(),
        "bit_not" => "np.invert".to_owned(),
        // These have the same name: abs, floor, ceil, trunc, sqrt, isnan, isinf, isfinite.
        same => format!("np.{same}"),
    }
}

/// A number as Python writes it.
fn python(text: &str) -> String {
    match text.trim_start_matches('-') {
        "inf" | "nan" => format!("float('{text}')"),
        _ => text.to_owned(),
    }
}
