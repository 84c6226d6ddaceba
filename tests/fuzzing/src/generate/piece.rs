//! A piece of source text with the facts that the generator needs: its precedence, type and shape,
//! and whether a sum over it may be a contraction, where the order of addition is free.

use std::collections::BTreeSet;

use ir::Dtype;

use super::dim::Dim;

/// Every element type, the commonest first.
pub const TYPES: [Dtype; 13] = [
    Dtype::F32,
    Dtype::I64,
    Dtype::F64,
    Dtype::I32,
    Dtype::Bool,
    Dtype::U32,
    Dtype::F16,
    Dtype::I8,
    Dtype::U64,
    Dtype::Bf16,
    Dtype::U8,
    Dtype::U16,
    Dtype::I16,
];

/// How tightly text binds, loosest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    If,
    Or,
    And,
    Not,
    Compare,
    Add,
    Mul,
    Unary,
    Pow,
    Atom,
}

/// Names of indices and of helpers' parameters, by which the factors of a product can be told
/// apart.
pub type Names = BTreeSet<String>;

/// An expression as text.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The text.
    pub text: String,
    /// How tightly it binds.
    pub level: Level,
    /// The type of its elements.
    pub ty: Dtype,
    /// Its axes.
    pub shape: Vec<Dim>,
    /// Whether it is made of literals alone, so that it has no type of its own.
    pub literal: bool,
    /// Whether its elements are whole numbers of a few units (or NaN), so that sums of products are
    /// exact.
    pub small: bool,
    /// The indices and helpers' parameters it mentions.
    pub uses: Names,
    /// If it is a product, the names of each factor.
    pub factors: Vec<Names>,
}

impl Piece {
    /// A name, call or literal.
    pub fn atom(text: impl Into<String>, ty: Dtype, shape: &[Dim]) -> Piece {
        Piece {
            text: text.into(),
            level: Level::Atom,
            ty,
            shape: shape.to_vec(),
            literal: false,
            small: false,
            uses: Names::new(),
            factors: vec![],
        }
    }

    /// A call of a named function, or other syntax with brackets, over some operands.
    pub fn call(head: &str, operands: &[&Piece], ty: Dtype, shape: &[Dim]) -> Piece {
        let arguments: Vec<&str> = operands.iter().map(|p| p.text.as_str()).collect();
        Piece::atom(format!("{head}({})", arguments.join(", ")), ty, shape).using(operands)
    }

    /// Two operands around an operator of the given level.
    pub fn binary(left: &Piece, operator: &str, right: &Piece, level: Level, ty: Dtype, shape: &[Dim]) -> Piece {
        // Chains are left-associative; comparisons do not chain.
        let (low, high) = if level == Level::Compare { (Level::Add, Level::Add) } else { (level, next(level)) };
        let text = format!("{} {operator} {}", left.within(low), right.within(high));
        let mut piece = Piece { level, ..Piece::atom(text, ty, shape) }.using(&[left, right]);
        piece.literal = left.literal && right.literal;
        if operator == "*" {
            piece.factors = [left, right].iter().flat_map(|p| p.as_factors()).collect();
        }
        piece
    }

    /// The same, mentioning what the operands mention.
    pub fn using(mut self, operands: &[&Piece]) -> Piece {
        for operand in operands {
            self.uses.extend(operand.uses.iter().cloned());
        }
        self
    }

    /// The text, in parentheses if it binds looser than its context requires.
    pub fn within(&self, level: Level) -> String {
        if self.level < level { format!("({})", self.text) } else { self.text.clone() }
    }

    /// Whether a sum over it may be a contraction: two of its factors each have a name that the
    /// other lacks.
    pub fn may_contract(&self) -> bool {
        let apart = |a: &Names, b: &Names| a.difference(b).next().is_some();
        self.factors.iter().any(|a| self.factors.iter().any(|b| apart(a, b) && apart(b, a)))
    }

    /// Each factor's names, the unnamed axes (counted from the last) among them.
    fn as_factors(&self) -> Vec<Names> {
        if !self.factors.is_empty() {
            return self.factors.clone();
        }
        let axes = (0..self.shape.len()).map(|axis| format!("axis {axis}"));
        vec![self.uses.iter().cloned().chain(axes).collect()]
    }
}

/// The next tighter level.
fn next(level: Level) -> Level {
    match level {
        Level::If => Level::Or,
        Level::Or => Level::And,
        Level::And => Level::Not,
        Level::Not => Level::Compare,
        Level::Compare => Level::Add,
        Level::Add => Level::Mul,
        Level::Mul => Level::Unary,
        Level::Unary => Level::Pow,
        Level::Pow | Level::Atom => Level::Atom,
    }
}
