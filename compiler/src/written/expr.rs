//! One expression as text.

use std::collections::BTreeSet;

use ir::checked::{Expr, ExprId, IndexId, Kind, Sorted, Subscript};
use ir::{BinaryOp, Dtype, Scalar, Size, UnaryOp};

use crate::check::random;

use super::{INSIDE, OF_EARLIER, PROTECTED, Unwritten, Writer};

/// How tightly expressions bind, the loosest first.
pub const LOOSE: u8 = 0;
const OR: u8 = 1;
const AND: u8 = 2;
pub const NOT: u8 = 3;
pub const COMPARISON: u8 = 4;
pub const SUM: u8 = 5;
pub const PRODUCT: u8 = 6;
pub const NEGATED: u8 = 7;
pub const ATOM: u8 = 9;

/// The text of an expression.
#[derive(Clone, Debug)]
pub struct Text {
    pub text: String,
    /// How tightly it binds.
    pub level: u8,
    /// Whether it has its type without a context.
    pub typed: bool,
}

impl Text {
    /// A text that needs no parentheses anywhere.
    pub fn atom(text: String) -> Text {
        Text { text, level: ATOM, typed: true }
    }

    /// The text as an operand that binds at least as tightly as this.
    pub fn at_least(&self, level: u8) -> String {
        if self.level >= level { self.text.clone() } else { format!("({})", self.text) }
    }
}

impl Writer<'_> {
    /// An expression: the name of a `let`, or what it is.
    pub fn expr(&mut self, id: ExprId) -> Result<Text, Unwritten> {
        if let Some((name, around)) = self.block.lets.get(&id) {
            let (name, around) = (name.clone(), around.clone());
            let level = if name.chars().all(|c| c.is_alphanumeric() || c == '_') { ATOM } else { LOOSE };
            return Ok(Text { text: format!("{name}{}", self.subscripts(&around, &[])?), level, typed: true });
        }
        stacker::maybe_grow(128 << 10, 4 << 20, || self.kind(id))
    }

    /// An expression, even if there is a `let` of it.
    pub fn kind(&mut self, id: ExprId) -> Result<Text, Unwritten> {
        let checked = self.checked;
        let dtype = checked.exprs[id].ty.dtype;
        if let Some(affine) = self.affine_of(id) {
            return self.affine(&affine);
        }
        match &checked.exprs[id].kind {
            Kind::Constant(value) => Ok(Self::constant(*value)),
            Kind::Size(size) => self.size(size),
            Kind::Index(index) => Ok(Text::atom(self.index_name(*index)?)),
            Kind::Param(number) => Ok(Text::atom(checked.params[*number].name.clone())),
            Kind::Unary(op, a) => self.unary(*op, *a, dtype),
            Kind::Binary(op, a, b) => self.binary(*op, *a, *b, dtype),
            Kind::Compare(op, a, b) => {
                let [a, b] = self.operands([*a, *b])?;
                let text = format!("{} {} {}", a.at_least(SUM), op.symbol(), b.at_least(SUM));
                Ok(Text { text, level: COMPARISON, typed: true })
            }
            Kind::Fma(a, b, c) => self.call("fma", &[*a, *b, *c]),
            Kind::Cast(a) => {
                let text = self.expr(*a)?;
                Ok(Text::atom(format!("{dtype}({})", self.with_type(text, *a).text)))
            }
            Kind::Bitcast(a) => {
                let text = self.expr(*a)?;
                Ok(Text::atom(format!("bitcast({dtype}, {})", self.with_type(text, *a).text)))
            }
            Kind::Math(function, numbers) if function.is_random() => {
                let list = random::arguments(checked, numbers).ok_or(Unwritten("a part of a random number"))?;
                let Text { text, .. } = self.call(function.name(), &list)?;
                // As a literal, it is of the type that the context wants.
                Ok(Text { typed: false, ..Text::atom(text) })
            }
            Kind::Math(function, list) => self.call(function.name(), list),
            Kind::If { condition, then, otherwise } => self.if_(*condition, *then, *otherwise),
            Kind::Access { array, at } => self.access(*array, at),
            Kind::Reduce { .. } => self.reduction(id),
            Kind::Contract { over, left, right } => self.contraction(over, *left, *right),
            // It has been written as a `let`.
            Kind::Comprehension { .. } => Err(INSIDE),
            Kind::Reshape(of) => {
                let of = self.expr(*of)?;
                let dims = self.sizes(&checked.exprs[id].ty.shape)?;
                Ok(Text::atom(format!("reshape({}, {})", of.text, dims.join(", "))))
            }
            Kind::ArrayLiteral(parts) => {
                let mut texts = vec![];
                for part in parts {
                    let text = self.expr(*part)?;
                    texts.push(self.with_type(text, *part).text);
                }
                Ok(Text::atom(nested(&texts, &checked.exprs[id].ty.shape)))
            }
            Kind::Sort { index, body, result } => {
                let name = if *result == Sorted::Values { "sort" } else { "argsort" };
                let vector = self.vector(*body, index[0])?;
                Ok(Text::atom(format!("{name}({})", vector.text)))
            }
            Kind::Loop { of, number, .. } => self.loop_inside(*of, *number),
            // These are names.
            Kind::State { .. } | Kind::Recurrence { .. } | Kind::Earlier { .. } => {
                let (name, around) = self.array(id)?;
                Ok(Text::atom(format!("{name}{}", self.subscripts(&around, &[])?)))
            }
        }
    }

    fn sizes(&self, sizes: &[Size]) -> Result<Vec<String>, Unwritten> {
        sizes.iter().map(|size| Ok(self.size(size)?.text)).collect()
    }

    /// Operands of one type, so that one that has it gives it to the others.
    pub fn operands<const N: usize>(&mut self, ids: [ExprId; N]) -> Result<[Text; N], Unwritten> {
        let mut texts = vec![];
        for id in ids {
            texts.push(self.expr(id)?);
        }
        if !texts.iter().any(|text| text.typed) {
            texts[0] = self.with_type(texts[0].clone(), ids[0]);
        }
        texts.try_into().map_err(|_| Unwritten("an operation without operands"))
    }

    fn unary(&mut self, op: UnaryOp, a: ExprId, dtype: Dtype) -> Result<Text, Unwritten> {
        match op {
            UnaryOp::Neg => {
                let a = self.expr(a)?;
                Ok(Text { text: format!("-{}", a.at_least(NEGATED + 1)), level: NEGATED, typed: a.typed })
            }
            UnaryOp::Not if dtype == Dtype::Bool => {
                let a = self.expr(a)?;
                Ok(Text { text: format!("!{}", a.at_least(ATOM)), level: NOT, typed: true })
            }
            UnaryOp::Not => self.call("bit_not", &[a]),
            UnaryOp::Abs | UnaryOp::Sqrt | UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Trunc | UnaryOp::Round => {
                self.call(op.name(), &[a])
            }
        }
    }

    fn binary(&mut self, op: BinaryOp, a: ExprId, b: ExprId, dtype: Dtype) -> Result<Text, Unwritten> {
        let truth = dtype == Dtype::Bool;
        let (symbol, level) = match op {
            BinaryOp::Add => ("+", SUM),
            BinaryOp::Sub => ("-", SUM),
            BinaryOp::Mul => ("*", PRODUCT),
            BinaryOp::Div => ("/", PRODUCT),
            BinaryOp::Rem => ("%", PRODUCT),
            BinaryOp::And if truth => ("&&", AND),
            BinaryOp::Or if truth => ("||", OR),
            BinaryOp::Xor if truth => ("!=", COMPARISON),
            BinaryOp::Min => return self.call("min", &[a, b]),
            BinaryOp::Max => return self.call("max", &[a, b]),
            BinaryOp::And => return self.call("bit_and", &[a, b]),
            BinaryOp::Or => return self.call("bit_or", &[a, b]),
            BinaryOp::Xor => return self.call("bit_xor", &[a, b]),
            BinaryOp::Shl => return self.call("shift_left", &[a, b]),
            BinaryOp::Shr => return self.call("shift_right", &[a, b]),
        };
        let [a, b] = self.operands([a, b])?;
        // Comparisons are not chained.
        let left = if level == COMPARISON { SUM } else { level };
        let text = format!("{} {symbol} {}", a.at_least(left), b.at_least(level + 1));
        Ok(Text { text, level, typed: true })
    }

    /// A call of a function of the language.
    fn call(&mut self, name: &str, list: &[ExprId]) -> Result<Text, Unwritten> {
        let mut texts = vec![];
        for id in list {
            texts.push(self.expr(*id)?);
        }
        if let (Some(first), false) = (texts.first().cloned(), texts.iter().any(|text| text.typed)) {
            texts[0] = self.with_type(first, list[0]);
        }
        let mut texts: Vec<String> = texts.into_iter().map(|text| text.text).collect();
        // A power with a whole number for an exponent would be a product.
        if let ("pow", [_, exponent]) = (name, texts.as_mut_slice())
            && exponent.trim_start_matches('-').chars().all(|c| c.is_ascii_digit())
        {
            *exponent += ".0";
        }
        Ok(Text::atom(format!("{name}({})", texts.join(", "))))
    }

    fn if_(&mut self, condition: ExprId, then: ExprId, otherwise: ExprId) -> Result<Text, Unwritten> {
        let known = |id: ExprId| match self.checked.exprs[id].kind {
            Kind::Constant(Scalar::Bool(value)) => Some(value),
            _ => None,
        };
        let (first, second) = (known(then), known(otherwise));
        match (first, second) {
            (None, Some(false)) => {
                let [a, b] = self.operands([condition, then])?;
                let text = format!("{} && {}", a.at_least(AND), b.at_least(NOT));
                return Ok(Text { text, level: AND, typed: true });
            }
            (Some(true), None) => {
                let [a, b] = self.operands([condition, otherwise])?;
                let text = format!("{} || {}", a.at_least(OR), b.at_least(AND));
                return Ok(Text { text, level: OR, typed: true });
            }
            _ => {}
        }
        let condition = self.expr(condition)?;
        let [a, b] = self.operands([then, otherwise])?;
        let text = format!("if {} then {} else {}", condition.text, a.text, b.text);
        Ok(Text { text, level: LOOSE, typed: true })
    }

    /// `[i, j + 1]`, or nothing.
    pub fn subscripts(&mut self, around: &[IndexId], at: &[ExprId]) -> Result<String, Unwritten> {
        let mut texts = vec![];
        for index in around {
            texts.push(self.index_name(*index)?);
        }
        for id in at {
            texts.push(self.expr(*id)?.text);
        }
        Ok(if texts.is_empty() { String::new() } else { format!("[{}]", texts.join(", ")) })
    }

    fn access(&mut self, array: ExprId, at: &[Subscript]) -> Result<Text, Unwritten> {
        if let Kind::Comprehension { indices, body } = &self.checked.exprs[array].kind
            && self.inlined.contains(&array)
        {
            let mut names = vec![];
            for (index, subscript) in indices.iter().zip(at) {
                // Without a name, the whole array is meant.
                if self.free[subscript.value].iter().all(|index| self.is_open(*index)) {
                    names.push((*index, self.expr(subscript.value)?.text));
                }
            }
            let depth = self.block.scope.len();
            self.block.scope.extend(names);
            let text = self.expr(*body);
            self.block.scope.truncate(depth);
            return text;
        }
        let (name, around) = self.array(array)?;
        // An elementwise array is written without indices, which are not in scope then.
        let is_open = |subscript: &&Subscript| self.free[subscript.value].iter().all(|index| self.is_open(*index));
        let at: Vec<ExprId> = at.iter().take_while(is_open).map(|subscript| subscript.value).collect();
        Ok(Text::atom(format!("{name}{}", self.subscripts(&around, &at)?)))
    }

    fn is_open(&self, index: IndexId) -> bool {
        self.block.scope.iter().any(|(other, _)| *other == index)
    }

    /// The name of an array, with the indices that it depends on.
    pub fn array(&self, array: ExprId) -> Result<(String, Vec<IndexId>), Unwritten> {
        match (&self.checked.exprs[array].kind, self.block.lets.get(&array)) {
            (_, Some((name, around))) => Ok((name.clone(), around.clone())),
            (Kind::Param(number), None) => Ok((self.checked.params[*number].name.clone(), vec![])),
            (Kind::Earlier { recurrence, array, .. }, None) => {
                let known = self.block.recurrences.get(recurrence);
                let (names, around) = known.ok_or(INSIDE)?;
                Ok((names[*array].clone(), around.clone()))
            }
            _ => Err(INSIDE),
        }
    }

    /// An expression of an index as a vector: the row of an array, an operation on whole rows, or a
    /// `let`.
    pub fn vector(&mut self, id: ExprId, along: IndexId) -> Result<Text, Unwritten> {
        if let Kind::Access { array, at } = &self.checked.exprs[id].kind
            && !self.block.lets.contains_key(&id)
            && !self.inlined.contains(array)
            && let Some((last, first)) = at.split_last()
            && matches!(self.checked.exprs[last.value].kind, Kind::Index(index) if index == along)
            && !first.iter().any(|subscript| self.free[subscript.value].contains(&along))
            && self.checked.exprs[*array].ty.shape.last() == self.checked.indices[along].extent.as_size()
        {
            let (name, around) = self.array(*array)?;
            let first: Vec<ExprId> = first.iter().map(|subscript| subscript.value).collect();
            return Ok(Text::atom(format!("{name}{}", self.subscripts(&around, &first)?)));
        }
        // A `let` would stand outside of the recurrence or the branch.
        if (self.is_early(id) || self.is_protected(id)) && self.is_of_rows(id, along) {
            return self.expr(id);
        }
        let mut indices = self.outside(id);
        indices.retain(|index| *index != along);
        let around = indices.clone();
        indices.push(along);
        let name = self.array_of(id, &indices)?;
        Ok(Text::atom(format!("{name}{}", self.subscripts(&around, &[])?)))
    }

    /// The name of an array of an expression for all values of some indices.
    pub fn array_of(&mut self, id: ExprId, indices: &[IndexId]) -> Result<String, Unwritten> {
        if self.is_protected(id) {
            return Err(PROTECTED);
        }
        if self.is_early(id) {
            return Err(OF_EARLIER);
        }
        let inner = self.block.scope.split_off(self.block.depth);
        self.open(indices);
        let text = self.expr(id)?;
        let text = self.with_type(text, id);
        let binders: Vec<String> = indices.iter().map(|index| self.binder(*index, id)).collect::<Result<_, _>>()?;
        self.block.scope.truncate(self.block.depth);
        self.block.scope.extend(inner);
        Ok(self.let_text(None, format!("[{}] = {}", binders.join(", "), text.text)))
    }
}

impl Writer<'_> {
    /// Whether an expression reads arrays where a condition may protect the access.
    fn is_protected(&self, id: ExprId) -> bool {
        let (mut pending, mut seen) = (vec![id], BTreeSet::new());
        while let Some(id) = pending.pop() {
            let Expr { kind, guard, .. } = &self.checked.exprs[id];
            if self.is_always(*guard) || !seen.insert(id) || self.block.lets.contains_key(&id) {
                continue;
            }
            if let Kind::Access { array, at } = kind {
                let whole = |(subscript, length): (&Subscript, &Size)| {
                    matches!(self.checked.exprs[subscript.value].kind, Kind::Index(index)
                        if self.checked.indices[index].extent.as_size() == Some(length))
                };
                if !at.iter().zip(&self.checked.exprs[*array].ty.shape).all(whole) {
                    return true;
                }
            }
            self.checked.for_each_operand(kind, |operand| pending.push(operand));
        }
        false
    }
}

/// An array literal: its parts, in brackets for each axis.
fn nested(parts: &[String], shape: &[Size]) -> String {
    let Some((first, inner)) = shape.split_first() else { return parts.join(", ") };
    let count = first.as_constant().and_then(|count| usize::try_from(count).ok()).unwrap_or(1).max(1);
    let rows: Vec<String> = parts.chunks((parts.len() / count).max(1)).map(|row| nested(row, inner)).collect();
    format!("[{}]", rows.join(", "))
}
