//! The leaves of expressions: literals, and visible values, whole, subscripted or moved into a
//! given shape.

use ir::{Dtype, Scalar};

use super::dim::Dim;
use super::expr::{COMPARISONS, Writer};
use super::piece::{Level, Piece};
use super::scope::Value;
use super::sorted::PASSES;

const FLOAT_LITERALS: [&str; 14] =
    ["1", "2", "0.5", "3", "0", "1.5", "0.1", "10", "1e-3", "100.0", "pi", "2.5e6", "inf", "nan"];
const INT_LITERALS: [&str; 13] = [
    "1",
    "2",
    "3",
    "0",
    "5",
    "7",
    "100",
    "255",
    "1000003",
    "2147483647",
    "4294967295",
    "9223372036854775807",
    "18446744073709551615",
];
const SMALL_LITERALS: [&str; 3] = ["1", "2", "3"];

/// Whether a number is one of the type.
fn in_range(ty: Dtype, text: &str) -> bool {
    // The largest `f16` is 65504.
    if ty.is_float() { !(ty == Dtype::F16 && text == "2.5e6") } else { Scalar::parse(ty, text).is_some() }
}

impl Writer<'_> {
    /// A number of this type.
    pub fn literal(&mut self, ty: Dtype) -> Piece {
        self.count("literal");
        if ty == Dtype::Bool {
            let text = *self.choices.pick(&["true", "false"]).unwrap_or(&"true");
            return Piece { literal: true, ..Piece::atom(text, ty, &[]) };
        }
        let all: &[&str] = if ty.is_float() { &FLOAT_LITERALS } else { &INT_LITERALS };
        let texts: Vec<&str> = all.iter().copied().filter(|text| in_range(ty, text)).collect();
        // Infinities and NaN mask everything around them, so they are rare.
        let last = if ty.is_float() && !self.choices.chance(10) { texts.len() - 2 } else { texts.len() };
        let text = *self.choices.pick(&texts[..last]).unwrap_or(&texts[0]);
        let piece = Piece { literal: true, small: SMALL_LITERALS.contains(&text), ..Piece::atom(text, ty, &[]) };
        let piece = match text.parse::<u64>() {
            Ok(value) if ty.is_int() && self.choices.chance(10) => {
                self.count("hexadecimal literal");
                Piece { text: format!("{value:#x}"), ..piece }
            }
            _ => piece,
        };
        match (ty.is_float() || ty.is_signed_int()) && self.choices.chance(15) {
            true => Piece { text: format!("-{}", piece.text), level: Level::Unary, ..piece },
            false => piece,
        }
    }

    /// The values that can have this shape here, the latest first; where there are indices, those
    /// that they select from come before those that ignore them.
    fn suited(&self, shape: &[Dim], wanted: impl Fn(&Value) -> bool) -> Vec<usize> {
        let suits = |value: &Value| {
            let leading = value.shape.len().checked_sub(shape.len());
            wanted(value)
                && value.shape.ends_with(shape)
                && leading.is_some_and(|leading| self.scope.reaches(&value.shape[..leading]))
        };
        let values = self.scope.values.iter().enumerate().rev();
        let mut found: Vec<usize> = values.filter(|(_, v)| suits(v)).map(|(n, _)| n).collect();
        if !self.scope.indices.is_empty() {
            found.sort_by_key(|n| self.scope.values[*n].shape.len() == shape.len());
        }
        found
    }

    /// The first of these values half the time, else any.
    fn take(&mut self, found: &[usize], shape: &[Dim]) -> Option<Piece> {
        let value = if self.choices.chance(50) { self.choices.pick(found) } else { found.first() }.copied()?;
        let leading = self.scope.values[value].shape.len() - shape.len();
        let piece = self.scope.access(&mut self.choices, value, leading)?;
        if piece.text.contains('[') {
            self.count("access");
        }
        Some(piece)
    }

    /// A value of exactly this type and shape without operators of its own.
    pub fn atom(&mut self, ty: Dtype, shape: &[Dim]) -> Piece {
        let moved = if self.choices.chance(25) { self.moved(ty, shape) } else { None };
        if let Some(piece) = moved {
            return piece;
        }
        let found = self.suited(shape, |value| value.ty == ty);
        if let Some(piece) = self.take(&found, shape) {
            return piece;
        }
        self.moved(ty, shape).unwrap_or_else(|| self.fallback(ty, shape))
    }

    /// A small value, if there is one of this type and shape.
    pub fn small_atom(&mut self, ty: Dtype, shape: &[Dim]) -> Piece {
        let found = self.suited(shape, |value| value.ty == ty && value.small);
        self.take(&found, shape).unwrap_or_else(|| self.atom(ty, shape))
    }

    /// A whole value, moved so that it gets this shape.
    fn moved(&mut self, ty: Dtype, shape: &[Dim]) -> Option<Piece> {
        let first = shape.first()?;
        let mut found = vec![];
        for value in self.scope.values.iter().rev().filter(|v| v.ty == ty && v.shape.len() == shape.len()) {
            let whole =
                |text: String| Piece { small: value.small, uses: value.uses.clone(), ..Piece::atom(text, ty, shape) };
            let name = &value.name;
            for axis in 0..shape.len() {
                let longer = |(k, (n, m)): (usize, (&Dim, &Dim))| *n == m.offset(i64::from(k == axis));
                if ty != Dtype::Bool && ty == ty.compute() && value.shape.iter().zip(shape).enumerate().all(longer) {
                    let text = match axis + 1 == shape.len() {
                        true => format!("diff({name})"),
                        false => format!("diff({name}, axis = {axis})"),
                    };
                    found.push(("diff", Piece { small: false, ..whole(text) }));
                }
            }
            if value.shape == shape && ty != Dtype::Bool && !self.in_branch() {
                let axis = self.choices.below(shape.len());
                found.push(("sort", whole(format!("sort({name}, axis = {axis})"))));
            }
            if shape.len() == 2 && value.shape[0] == shape[1] && value.shape[1] == shape[0] {
                found.push(("transpose", whole(format!("transpose({name})"))));
            }
            if value.shape[1..] != shape[1..] {
                continue;
            }
            let whole_axis = &value.shape[0];
            // Lengths are formulas: a slice is in bounds for all sizes only if the difference is a
            // constant.
            if let Some(more @ 1..=3) = whole_axis.minus(first).as_constant() {
                let start = i64::try_from(self.choices.below(usize::try_from(more).unwrap_or(0) + 1)).unwrap_or(0);
                let text = match (start, more - start) {
                    (0, _) => format!("{name}[:{first}]"),
                    (_, 0) => format!("{name}[{start}:]"),
                    _ => format!("{name}[{start}:{}]", whole_axis.offset(start - more)),
                };
                found.push(("slice", whole(text)));
            }
            for step in [2, 3] {
                for start in 0..step {
                    if *first == whole_axis.offset(-start).every(step) && first != whole_axis {
                        let start = if start == 0 { String::new() } else { start.to_string() };
                        found.push(("strided slice", whole(format!("{name}[{start}::{step}]"))));
                    }
                }
            }
            for subscripts in &self.scope.values {
                if subscripts.below.as_ref() == Some(whole_axis) && subscripts.shape == shape[..1] {
                    let mut piece = whole(format!("{name}[{}]", subscripts.name));
                    piece.uses.extend(subscripts.uses.iter().cloned());
                    found.push(("gather", piece));
                }
            }
        }
        if ty == Dtype::I64 && !self.in_branch() {
            for value in self.scope.values.iter().filter(|v| v.shape == shape && v.ty != Dtype::Bool) {
                let text = format!("argsort({})", value.name);
                let piece = Piece { uses: value.uses.clone(), ..Piece::atom(text, ty, shape) };
                found.push(("argsort", piece));
            }
        }
        let (construct, piece) = self.choices.pick(&found)?.clone();
        self.count(construct);
        if construct.ends_with("sort") {
            self.loops(&[shape, &[Dim::constant(PASSES)]].concat());
        }
        Some(piece)
    }

    /// An expression of this type and shape where no value has it, from a value of another type if
    /// there is one.
    fn fallback(&mut self, ty: Dtype, shape: &[Dim]) -> Piece {
        let found = self.suited(shape, |value| value.ty != ty);
        let other = if self.choices.chance(80) { self.take(&found, shape) } else { None };
        if let Some(other) = other {
            return self.convert(other, ty);
        }
        if let Some(index) = self.scope.indices.last().map(|i| i.name.clone())
            && shape.is_empty()
            && self.choices.chance(50)
        {
            self.count("index as value");
            let index = Piece { uses: [index.clone()].into(), ..Piece::atom(index, Dtype::I64, &[]) };
            // Next to a float, an index is one.
            if matches!(ty, Dtype::F32 | Dtype::F64) && self.choices.chance(50) {
                self.count("index beside a float");
                let (one, divisor) = (Piece::call(ty.name(), &[&self.literal(ty)], ty, &[]), self.literal(Dtype::I32));
                let text = format!("{} * ({} / {})", one.text, index.text, divisor.text);
                return Piece { level: Level::Mul, uses: index.uses, ..Piece::atom(text, ty, &[]) };
            }
            return self.convert(index, ty);
        }
        if shape.is_empty() {
            let number = self.literal(if ty == Dtype::Bool { Dtype::F32 } else { ty });
            let number = Piece { small: number.small, ..Piece::call(number.ty.name(), &[&number], number.ty, &[]) };
            return self.convert(number, ty);
        }
        self.count("iota");
        let count = shape.iter().fold(Dim::constant(1), |product, dim| product.times(dim));
        let sizes: Vec<String> = shape.iter().map(Dim::to_string).collect();
        let text = match shape {
            [_] => format!("iota({count})"),
            _ => format!("reshape(iota({count}), {})", sizes.join(", ")),
        };
        self.convert(Piece::atom(text, Dtype::I64, shape), ty)
    }

    /// The same elements as another type.
    fn convert(&mut self, piece: Piece, ty: Dtype) -> Piece {
        let shape = piece.shape.clone();
        if piece.ty == ty {
            return piece;
        }
        if ty == Dtype::Bool && piece.ty.is_float() && self.choices.chance(20) {
            return self.classified(&piece);
        }
        if ty == Dtype::Bool {
            let operator = *self.choices.pick(&COMPARISONS).unwrap_or(&"<");
            self.count(operator);
            let number = self.literal(piece.ty);
            return Piece::binary(&piece, operator, &number, Level::Compare, ty, &shape);
        }
        self.count("cast");
        Piece::call(ty.name(), &[&piece], ty, &shape)
    }

    /// A size, or the length of an axis.
    pub fn size(&mut self) -> Piece {
        self.count("size");
        let arrays: Vec<_> = self.scope.values.iter().rev().filter(|v| !v.shape.is_empty()).cloned().collect();
        if let Some(array) = self.choices.pick(&arrays).cloned()
            && self.choices.chance(50)
        {
            let axis = self.choices.below(array.shape.len());
            return Piece::atom(format!("size({}, {axis})", array.name), Dtype::I64, &[]);
        }
        let dim = self.some_dim();
        let dim = self.scope.number(&dim);
        let level = if dim.as_name().is_some() || dim.as_constant().is_some() { Level::Atom } else { Level::Add };
        let literal = dim.as_constant().is_some();
        let piece = Piece { level, ..Piece::atom(dim.to_string(), Dtype::I64, &[]) };
        if literal { Piece::call("i64", &[&piece], Dtype::I64, &[]) } else { piece }
    }
}
