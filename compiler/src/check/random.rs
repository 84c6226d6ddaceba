//! `uniform(seed, i, ...)` and `normal(seed, i, ...)`: pure functions of a seed and one index or
//! more.
//!
//! A draw of `compiler::math` takes a seed and two numbers. One index is split into its halves; the
//! last two of several are a number each, and those before them make a seed of the seed, one after
//! the other, so that what depends on outer indices alone is known before the inner loop. Constants
//! keep apart how many indices there are, and indices from seeds: a number with a different
//! constant in it is a counter that the others do not reach.

use grammar::Diagnostic;
use grammar::ast;
use ir::checked::{Checked, ExprId, Kind, Type};
use ir::{BinaryOp, Dtype, MathFn, Scalar};

use super::arena::{Arena, Here};
use super::{Checker, codes};

/// The constants that tell a draw of two indices or more, and the making of a seed, from a draw of
/// one index.
const PAIR: u64 = 0x5BD1_E995;
const SUBSEED: u64 = 0xB549_7A2D;

/// The random function of that name.
pub(super) fn function(name: &str) -> Option<MathFn> {
    [MathFn::Uniform, MathFn::Normal].into_iter().find(|m| m.name() == name)
}

impl Checker<'_> {
    /// A call of a random function. Its result is of the type that the context wants, as a
    /// literal's.
    pub(super) fn draw(
        &mut self,
        function: MathFn,
        args: &[ast::ExprId],
        want: Option<Dtype>,
        here: Here,
    ) -> Option<ExprId> {
        let mut operands = vec![];
        for (k, arg) in args.iter().enumerate() {
            let Some(operand) = self.expr(*arg, None, here.guard) else { continue };
            let found = self.arena.dtype(operand);
            if found.is_int() {
                operands.push(operand);
                continue;
            }
            let what = if k == 0 { "the seed" } else { "an index" };
            let message = format!("{what} of `{function}` is an integer, this is `{found}`");
            let error = Diagnostic::new(codes::DTYPE_EXPECTED, self.ast(*arg).span, message);
            self.report.error(error.help("convert it: `i64(...)`"));
        }
        if operands.len() < args.len() {
            return None;
        }
        let dtype = if want == Some(Dtype::F64) { Dtype::F64 } else { Dtype::F32 };
        self.lift(&operands, here, |arena, operands| {
            let words: Vec<ExprId> =
                operands.iter().map(|v| arena.node(Kind::Cast(*v), Type::scalar(Dtype::U64), here)).collect();
            let (mut seed, indices) = (words[0], &words[1..]);
            for index in &indices[..indices.len().saturating_sub(2)] {
                let (low, high) = halves(arena, *index, here);
                let high = word(arena, BinaryOp::Xor, high, SUBSEED, here);
                seed = arena.node(Kind::Math(MathFn::Subseed, vec![seed, low, high]), Type::scalar(Dtype::U64), here);
            }
            let (a, b) = match indices {
                [.., outer, inner] => (*inner, word(arena, BinaryOp::Xor, *outer, PAIR, here)),
                _ => halves(arena, indices[0], here),
            };
            arena.node(Kind::Math(function, vec![seed, a, b]), Type::scalar(dtype), here)
        })
    }
}

/// The seed and the indices of a draw, from the numbers that `draw` makes of them.
pub(crate) fn arguments(checked: &Checked, numbers: &[ExprId]) -> Option<Vec<ExprId>> {
    let kind = |id: ExprId| &checked.exprs[id].kind;
    let word = |id: ExprId, op: BinaryOp, constant: u64| match *kind(id) {
        Kind::Binary(found, v, by) if found == op => {
            matches!(kind(by), Kind::Constant(Scalar::U64(n)) if *n == constant).then_some(v)
        }
        _ => None,
    };
    let whole = |low: ExprId, high: ExprId| {
        let v = word(low, BinaryOp::And, u32::MAX.into())?;
        (word(high, BinaryOp::Shr, 32)? == v).then_some(v)
    };
    let [mut seed, a, b] = *numbers else { return None };
    let mut found = match word(b, BinaryOp::Xor, PAIR) {
        Some(outer) => vec![a, outer],
        None => vec![whole(a, b)?],
    };
    while let Kind::Math(MathFn::Subseed, parts) = kind(seed) {
        let [from, low, high] = *parts.as_slice() else { return None };
        found.push(whole(low, word(high, BinaryOp::Xor, SUBSEED)?)?);
        seed = from;
    }
    found.push(seed);
    let given = |id: ExprId| if let Kind::Cast(v) = *kind(id) { v } else { id };
    Some(found.into_iter().rev().map(given).collect())
}

/// The low and the high half of an `u64`.
fn halves(arena: &mut Arena, v: ExprId, here: Here) -> (ExprId, ExprId) {
    (word(arena, BinaryOp::And, v, u32::MAX.into(), here), word(arena, BinaryOp::Shr, v, 32, here))
}

/// An operation of an `u64` and a constant.
fn word(arena: &mut Arena, op: BinaryOp, v: ExprId, constant: u64, here: Here) -> ExprId {
    let constant = arena.constant(Scalar::U64(constant), here);
    arena.node(Kind::Binary(op, v, constant), Type::scalar(Dtype::U64), here)
}
