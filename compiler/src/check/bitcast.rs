//! `bitcast(i32, x)`: the bits of a float as an integer, and back. As an integer every NaN has the
//! bits of the one NaN that files contain, because the engines may give NaNs other signs and
//! payloads.

use grammar::Diagnostic;
use grammar::ast;
use ir::checked::{ExprId, Kind, Type};
use ir::{CompareOp, Dtype, Scalar};

use super::arena::Here;
use super::literal::Nature;
use super::{Checker, codes};

/// The pairs of types. A literal has the type of the first that fits.
const PAIRS: [(Dtype, Dtype); 8] = [
    (Dtype::F32, Dtype::U32),
    (Dtype::F32, Dtype::I32),
    (Dtype::F64, Dtype::U64),
    (Dtype::F64, Dtype::I64),
    (Dtype::F16, Dtype::U16),
    (Dtype::F16, Dtype::I16),
    (Dtype::Bf16, Dtype::U16),
    (Dtype::Bf16, Dtype::I16),
];

impl Checker<'_> {
    pub(super) fn bitcast(
        &mut self,
        callee: &ast::Name,
        to: Dtype,
        operand: ast::ExprId,
        here: Here,
    ) -> Option<ExprId> {
        let name = callee.text.as_str();
        if name != "bitcast" || self.has_function(name) || self.is_hidden(name) {
            let message = format!("there is no function `{name}` that takes a type");
            let help = format!("a type converts: `{to}(x)`; only `bitcast({to}, x)` takes one");
            self.report.error(Diagnostic::new(codes::UNKNOWN_FUNCTION, callee.span, message).help(help));
            return None;
        }
        let pairs = || PAIRS.iter().flat_map(|(float, integer)| [(*float, *integer), (*integer, *float)]);
        let want = match self.nature(operand) {
            Nature::Literal => pairs().find(|pair| pair.1 == to).map(|pair| pair.0),
            Nature::Sizes | Nature::Typed => None,
        };
        let value = self.expr(operand, want, here.guard)?;
        let from = self.arena.dtype(value);
        if !pairs().any(|pair| pair == (from, to)) {
            let message = format!("there is no `bitcast` from `{from}` to `{to}`");
            let error = Diagnostic::new(codes::DTYPE_EXPECTED, here.span, message);
            self.report.error(match from.is_float() == to.is_float() {
                true => error.help(format!("convert the value: `{to}(...)`")),
                false => error
                    .help("the pairs are `f32` with `i32 u32`, `f64` with `i64 u64`, and `f16 bf16` with `i16 u16`"),
            });
            return None;
        }
        self.lift(&[value], here, |arena, v| {
            let otherwise = arena.node(Kind::Bitcast(v[0]), Type::scalar(to), here);
            let Some(nan) = Scalar::nan(from) else { return otherwise };
            let wide = arena.widened(v[0], here);
            let condition = arena.node(Kind::Compare(CompareOp::Ne, wide, wide), Type::scalar(Dtype::Bool), here);
            let then = arena.constant(Scalar::from_bits(to, nan.bits()), here);
            arena.node(Kind::If { condition, then, otherwise }, Type::scalar(to), here)
        })
    }
}
