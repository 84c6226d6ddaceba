//! Constants, sizes and affine integers.

use ir::checked::{ExprId, IndexId, Kind};
use ir::size::Atom;
use ir::{Affine, BinaryOp, Dtype, Scalar, Size, UnaryOp};

use super::expr::{ATOM, NEGATED, PRODUCT, SUM, Text};
use super::{Unwritten, Writer};

impl Writer<'_> {
    /// A constant. One of the usual types takes its type from its context.
    pub fn constant(value: Scalar) -> Text {
        let literal = |text: String| {
            let level = if text.starts_with('-') { NEGATED } else { ATOM };
            Text { text, level, typed: false }
        };
        let float = |value: f64, text: String| match value {
            value if value.is_nan() => literal("nan".into()),
            value if value.is_infinite() => literal(if value > 0.0 { "inf".into() } else { "-inf".into() }),
            _ => literal(text.strip_suffix(".0").unwrap_or(&text).to_owned()),
        };
        let whole = |text: String| Text::atom(format!("{}({text})", value.dtype()));
        match value {
            Scalar::Bool(value) => Text::atom(value.to_string()),
            Scalar::F32(value) => float(value.into(), format!("{value:?}")),
            Scalar::F64(value) => float(value, format!("{value:?}")),
            // Arithmetic widens first, so there are none in programs of the language.
            Scalar::F16(_) | Scalar::Bf16(_) => whole("nan".into()),
            // The least one is no literal with a sign.
            Scalar::I64(i64::MIN) => Text { text: format!("-{} - 1", i64::MAX), level: SUM, typed: true },
            Scalar::I64(value) => Text { typed: true, ..literal(value.to_string()) },
            Scalar::I8(value) => whole(value.to_string()),
            Scalar::U8(value) => whole(value.to_string()),
            Scalar::I16(value) => whole(value.to_string()),
            Scalar::U16(value) => whole(value.to_string()),
            Scalar::I32(value) => whole(value.to_string()),
            Scalar::U32(value) => whole(value.to_string()),
            Scalar::U64(value) => whole(value.to_string()),
        }
    }

    /// A size as the source writes it.
    pub fn size(&self, size: &Size) -> Result<Text, Unwritten> {
        fn plain(size: &Size) -> bool {
            size.terms().iter().flat_map(|(product, _)| product).all(|atom| match atom {
                Atom::Symbol(_) => true,
                Atom::FloorDiv(a, b) => plain(a) && plain(b),
                Atom::KeyedChunk(_) | Atom::Overflow(_) => false,
            })
        }
        let mut hidden = false;
        size.for_each_symbol(&mut |symbol| hidden |= self.is_hidden(&self.checked.symbols[symbol]));
        if hidden || !plain(size) {
            return Err(Unwritten("a size that has no name"));
        }
        let text = size.display(&|symbol| self.checked.symbols[symbol].name.as_str()).to_string();
        let level = match (size.as_symbol().is_some(), size.as_constant()) {
            (true, _) | (_, Some(0..)) => ATOM,
            (_, Some(_)) => NEGATED,
            _ if size.terms().len() == 1 && !text.starts_with('-') => PRODUCT,
            _ => SUM,
        };
        Ok(Text { text, level, typed: true })
    }

    /// An affine expression of indices.
    pub fn affine(&self, affine: &Affine<IndexId>) -> Result<Text, Unwritten> {
        if let Some(size) = affine.as_size() {
            return self.size(size);
        }
        let mut parts: Vec<(bool, Text)> = vec![];
        for (index, factor) in affine.terms() {
            let name = self.index_name(*index)?;
            parts.push(match factor.as_constant() {
                Some(1) => (false, Text::atom(name)),
                Some(-1) => (true, Text::atom(name)),
                Some(factor) if factor < 0 => (true, product(&format!("{}", factor.unsigned_abs()), &name)),
                Some(factor) => (false, product(&factor.to_string(), &name)),
                None => (false, product(&self.size(factor)?.at_least(PRODUCT), &name)),
            });
        }
        let rest = affine.constant_part();
        if !rest.is_zero() {
            let negative = rest.as_constant().is_some_and(|value| value < 0);
            let rest = if negative { self.size(&-rest)? } else { self.size(rest)? };
            parts.push((negative, rest));
        }
        parts.sort_by_key(|(negative, _)| *negative);
        if let [(false, one)] = parts.as_slice() {
            return Ok(one.clone());
        }
        let mut text = String::new();
        for (negative, part) in parts {
            text += match (text.is_empty(), negative) {
                (true, false) => "",
                (true, true) => "-",
                (false, false) => " + ",
                (false, true) => " - ",
            };
            text += &part.at_least(if negative { PRODUCT } else { SUM });
        }
        Ok(Text { text, level: SUM, typed: true })
    }

    /// The value of an `i64` as an affine expression, if it is one.
    pub fn affine_of(&self, id: ExprId) -> Option<Affine<IndexId>> {
        let expr = &self.checked.exprs[id];
        if expr.ty.dtype != Dtype::I64 || self.block.lets.contains_key(&id) {
            return None;
        }
        match &expr.kind {
            Kind::Constant(Scalar::I64(value)) if *value > i64::MIN => Some(Affine::constant(*value)),
            Kind::Size(size) => Some(Affine::size(size.clone())),
            Kind::Index(index) => Some(Affine::index(*index)),
            Kind::Unary(UnaryOp::Neg, a) => Some(self.affine_of(*a)?.scale(&Size::constant(-1))),
            Kind::Binary(op @ (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul), a, b) => {
                let (a, b) = (self.affine_of(*a)?, self.affine_of(*b)?);
                match op {
                    BinaryOp::Add => Some(a.add(&b)),
                    BinaryOp::Sub => Some(a.sub(&b)),
                    _ => a.mul(&b),
                }
            }
            _ => None,
        }
    }
}

fn product(factor: &str, name: &str) -> Text {
    Text { text: format!("{factor} * {name}"), level: PRODUCT, typed: true }
}
