//! Reductions, and sums of products.

use std::collections::{BTreeMap, BTreeSet};

use ir::checked::{ExprId, Extent, Factor, IndexId, Kind, Subscript};
use ir::nest::Requirement;
use ir::{BinaryOp, Monoid, Order, ReduceOp, Size};

use super::expr::{LOOSE, NOT, PRODUCT, SUM, Text};
use super::{OTHER_ORDER, PROTECTED, Unwritten, Writer};

impl Writer<'_> {
    /// A reduction over indices.
    pub fn reduction(&mut self, id: ExprId) -> Result<Text, Unwritten> {
        let checked = self.checked;
        let Kind::Reduce { op, over, body, prefix, by, order } = &checked.exprs[id].kind else {
            return Err(Unwritten("a reduction without operands"));
        };
        let is_rectangular = |index: &IndexId| checked.indices[*index].extent.as_size().is_some();
        let may_contract = *op == ReduceOp::Monoid(Monoid::Sum) && prefix.is_none() && over.iter().all(is_rectangular);
        let would_contract = may_contract && self.is_contraction(*body);
        if would_contract
            && by.is_empty()
            && let Some(text) = self.whole(*body, over, *order)?
        {
            return Ok(text);
        }
        let depth = self.block.scope.len();
        self.open(over);
        // That of a reduction by key is the order of the keys.
        if by.is_empty() && !self.keeps_order(*body, over, *order) {
            let element = self.of_elements(*body, over, *order)?;
            let names: Vec<String> = over.iter().map(|index| self.index_name(*index)).collect::<Result<_, _>>()?;
            self.block.scope.truncate(depth);
            return Ok(Text::atom(format!("{}[{}]({element})", op.name(), names.join(", "))));
        }
        let parts: Vec<ExprId> = by.iter().map(Factor::expr).chain([*body]).collect();
        let mut text = vec![];
        for index in over {
            // A condition may hold nowhere.
            text.push(self.reduced(*index, if by.is_empty() { &parts } else { &[] }, *prefix)?);
        }
        let mut factors = vec![];
        for factor in by {
            factors.push(match factor {
                Factor::Holds(condition) => self.expr(*condition)?.at_least(NOT),
                Factor::Key { of, key } => {
                    format!("{} == {}", self.expr(*key)?.at_least(SUM), self.index_name(*of)?)
                }
            });
        }
        let condition = if by.is_empty() { String::new() } else { format!(" where {}", factors.join(" && ")) };
        let inner = self.expr(*body)?;
        let inner = self.with_type(inner, *body);
        self.block.scope.truncate(depth);
        // The product with 1 has the same bits, and its sum is no contraction.
        let inner = if would_contract { format!("1 * {}", inner.at_least(PRODUCT + 1)) } else { inner.text };
        let text = format!("{}[{}{condition}]({inner})", op.name(), text.join(", "));
        match (op, prefix) {
            (ReduceOp::Position(_), None) => self.position(text, over),
            _ => Ok(Text::atom(text)),
        }
    }

    /// A place among elements. There may be none here, which the language would not accept.
    fn position(&self, text: String, over: &[IndexId]) -> Result<Text, Unwritten> {
        let mut conditions = vec![];
        for index in over {
            let Extent::Affine(end) = &self.checked.indices[*index].extent else { return Err(PROTECTED) };
            if !end.as_size().is_some_and(|size| self.is_positive(size)) {
                conditions.push(format!("{} > 0", self.affine(end)?.at_least(SUM)));
            }
        }
        if conditions.is_empty() {
            return Ok(Text::atom(text));
        }
        let text = format!("if {} then {text} else 0", conditions.join(" && "));
        Ok(Text { text, level: LOOSE, typed: true })
    }

    /// Whether a size is at least 1, by itself or by the program's requirements.
    fn is_positive(&self, size: &Size) -> bool {
        let above = |requirement: &Requirement| {
            let positive = requirement.left.as_constant().is_some_and(|n| n > 0);
            requirement.right == *size && positive && requirement.unless_empty.is_empty()
        };
        size.as_constant().is_some_and(|n| n > 0) || self.checked.requires.iter().any(above)
    }

    /// A sum of products: as such, if it is one again when it is read, or as a product of vectors.
    pub fn contraction(&mut self, over: &[IndexId], left: ExprId, right: ExprId) -> Result<Text, Unwritten> {
        if !self.each_has_own(left, right) {
            let [along] = over else { return Err(OTHER_ORDER) };
            let (left, right) = (self.vector(left, *along)?, self.vector(right, *along)?);
            let text = format!("{} @ {}", left.at_least(PRODUCT), right.at_least(PRODUCT + 1));
            return Ok(Text { text, level: PRODUCT, typed: true });
        }
        let depth = self.block.scope.len();
        self.open(over);
        let mut binders = vec![];
        for index in over {
            binders.push(self.reduced(*index, &[left, right], None)?);
        }
        let [left, right] = self.operands([left, right])?;
        self.block.scope.truncate(depth);
        let text = format!("sum[{}]({} * {})", binders.join(", "), left.at_least(PRODUCT), right.at_least(PRODUCT + 1));
        Ok(Text::atom(text))
    }

    /// Whether the text of an expression is a product with a sum that is a contraction.
    fn is_contraction(&self, mut body: ExprId) -> bool {
        // The indices that stand for those of the arrays that are written out.
        let mut meant: BTreeMap<IndexId, Vec<IndexId>> = BTreeMap::new();
        loop {
            match &self.checked.exprs[body].kind {
                _ if self.block.lets.contains_key(&body) => return false,
                Kind::Binary(BinaryOp::Mul, left, right) => {
                    let mentioned = |id: &ExprId| in_other_indices(&self.mentioned(*id), &meant);
                    return lack_each_other(&mentioned(left), &mentioned(right));
                }
                Kind::Access { array, at } if self.inlined.contains(array) => {
                    let Kind::Comprehension { indices, body: inner } = &self.checked.exprs[*array].kind else {
                        return false;
                    };
                    for (index, subscript) in indices.iter().zip(at) {
                        let free = self.free[subscript.value].iter().copied().collect();
                        meant.insert(*index, in_other_indices(&free, &meant).into_iter().collect());
                    }
                    body = *inner;
                }
                _ => return false,
            }
        }
    }

    /// The sum of a whole array that is written out: no contraction, even if its elements are
    /// products.
    fn whole(&mut self, body: ExprId, over: &[IndexId], order: Order) -> Result<Option<Text>, Unwritten> {
        let Kind::Access { array, at } = &self.checked.exprs[body].kind else { return Ok(None) };
        let is_whole = |((index, subscript), length): ((&IndexId, &Subscript), &Size)| {
            matches!(self.checked.exprs[subscript.value].kind, Kind::Index(own) if own == *index)
                && self.checked.indices[*index].extent.as_size() == Some(length)
        };
        let mut axes = over.iter().zip(at).zip(&self.checked.exprs[*array].ty.shape);
        if over.len() != at.len() || order != Order::Lanes || !axes.all(is_whole) {
            return Ok(None);
        }
        Ok(Some(Text::atom(format!("sum({})", self.expr(body)?.text))))
    }

    /// Whether each of two factors mentions an index that the other lacks, so that the sum of their
    /// product is a contraction.
    fn each_has_own(&self, left: ExprId, right: ExprId) -> bool {
        lack_each_other(&self.mentioned(left), &self.mentioned(right))
    }

    /// The indices that the text of an expression mentions, without the steps of loops.
    fn mentioned(&self, id: ExprId) -> BTreeSet<IndexId> {
        // An earlier element has further subscripts in the text.
        let axes = self.under_way[id].and_then(|recurrence| self.block.recurrences.get(&recurrence));
        let axes = axes.into_iter().flat_map(|(_, around)| around);
        let is_step = |index: &IndexId| self.checked.steps[*index].is_some();
        self.free[id].iter().chain(axes).copied().filter(|index| !is_step(index)).collect()
    }
}

/// Indices with others in the place of some.
fn in_other_indices(indices: &BTreeSet<IndexId>, others: &BTreeMap<IndexId, Vec<IndexId>>) -> BTreeSet<IndexId> {
    indices.iter().flat_map(|index| others.get(index).cloned().unwrap_or(vec![*index])).collect()
}

/// Whether each of two sets has an element that the other one lacks.
fn lack_each_other(left: &BTreeSet<IndexId>, right: &BTreeSet<IndexId>) -> bool {
    !left.is_subset(right) && !right.is_subset(left)
}
