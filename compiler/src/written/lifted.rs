//! Elementwise arrays without indices: `x * 2 + b` for `let y[i] = x[i] * 2 + b[i]`.

use ir::checked::{ExprId, IndexId, Kind, Subscript};

use super::expr::{PRODUCT, Text};
use super::{Unwritten, Writer};

impl Writer<'_> {
    /// An array as operations on whole arrays, if it is one.
    pub fn lifted(&mut self, id: ExprId) -> Result<Option<Text>, Unwritten> {
        let Kind::Comprehension { indices, body } = self.checked.exprs[id].kind.clone() else { return Ok(None) };
        if !self.checked.exprs[body].ty.is_scalar() {
            return Ok(None);
        }
        if let Some(text) = self.product(&indices, body)? {
            return Ok(Some(text));
        }
        let mut whole = false;
        if !self.is_elementwise(body, &indices, &mut whole) || !whole {
            return Ok(None);
        }
        Ok(Some(self.expr(body)?))
    }

    /// `a @ b` for the sums of products of rows and columns.
    fn product(&mut self, indices: &[IndexId], body: ExprId) -> Result<Option<Text>, Unwritten> {
        let ([row, column], Kind::Contract { over, left, right }) = (indices, &self.checked.exprs[body].kind) else {
            return Ok(None);
        };
        let [along] = over.as_slice() else { return Ok(None) };
        for (first, second) in [(left, right), (right, left)] {
            if let (Some(first), Some(second)) =
                (self.matrix(*first, [*row, *along])?, self.matrix(*second, [*along, *column])?)
            {
                return Ok(Some(Text { text: format!("{first} @ {second}"), level: PRODUCT, typed: true }));
            }
        }
        Ok(None)
    }

    /// A matrix that is read at two indices, or at these the other way around.
    fn matrix(&self, id: ExprId, at: [IndexId; 2]) -> Result<Option<String>, Unwritten> {
        let Kind::Access { array, at: subscripts } = &self.checked.exprs[id].kind else { return Ok(None) };
        if self.inlined.contains(array) || self.block.lets.contains_key(&id) || !self.outside(*array).is_empty() {
            return Ok(None);
        }
        let index = |k: usize| match subscripts.get(k).map(|subscript| &self.checked.exprs[subscript.value].kind) {
            Some(Kind::Index(index)) => Some(*index),
            _ => None,
        };
        let shape = &self.checked.exprs[*array].ty.shape;
        let whole =
            (0..2).all(|k| index(k).is_some_and(|index| self.checked.indices[index].extent.as_size() == shape.get(k)));
        if subscripts.len() != 2 || !whole {
            return Ok(None);
        }
        let (name, _) = self.array(*array)?;
        let found = [index(0), index(1)];
        Ok(match found {
            _ if found == at.map(Some) => Some(name),
            _ if found == [Some(at[1]), Some(at[0])] => Some(format!("transpose({name})")),
            _ => None,
        })
    }

    /// Whether an array is written out where it is read: it is elementwise, and read at indices.
    pub fn is_inline(&self, id: ExprId) -> bool {
        let Kind::Comprehension { indices, body } = &self.checked.exprs[id].kind else { return false };
        let mut whole = false;
        if !self.checked.exprs[*body].ty.is_scalar() || !self.is_elementwise(*body, indices, &mut whole) || !whole {
            return false;
        }
        self.reads[id] == self.uses[id]
    }

    /// Whether an expression of an index is one on whole rows, if the index is left out.
    pub fn is_of_rows(&self, id: ExprId, along: IndexId) -> bool {
        let mut whole = false;
        self.is_elementwise(id, &[along], &mut whole) && whole
    }

    /// Whether all accesses of an expression with these indices have the last ones of them as their
    /// subscripts. `whole` is set if one has all of them.
    fn is_elementwise(&self, id: ExprId, indices: &[IndexId], whole: &mut bool) -> bool {
        if !self.free[id].iter().any(|index| indices.contains(index)) {
            return true;
        }
        if self.block.lets.contains_key(&id) {
            return false;
        }
        let mentions = |writer: &Writer<'_>, subscript: &Subscript| {
            writer.free[subscript.value].iter().any(|index| indices.contains(index))
        };
        match &self.checked.exprs[id].kind {
            Kind::Access { array, at } => {
                let own = at.iter().position(|subscript| mentions(self, subscript)).unwrap_or(at.len());
                let shape = &self.checked.exprs[*array].ty.shape;
                let Some(first) = (indices.len() + own).checked_sub(at.len()) else { return false };
                let mut pairs = at[own..].iter().zip(&indices[first..]).zip(&shape[own..]);
                let plain = pairs.all(|((subscript, index), length)| {
                    let is_index = matches!(self.checked.exprs[subscript.value].kind, Kind::Index(i) if i == *index);
                    let is_whole = self.checked.indices[*index].extent.as_size() == Some(length);
                    is_index && is_whole && length.as_constant() != Some(1)
                });
                if !plain || self.free[*array].iter().any(|index| indices.contains(index)) {
                    return false;
                }
                match &self.checked.exprs[*array].kind {
                    Kind::Comprehension { indices: inner, body } if self.inlined.contains(array) => {
                        let mut all = false;
                        let elementwise = own == 0 && self.is_elementwise(*body, inner, &mut all);
                        *whole |= all && first == 0;
                        elementwise
                    }
                    _ => {
                        *whole |= first == 0;
                        true
                    }
                }
            }
            Kind::Unary(..)
            | Kind::Binary(..)
            | Kind::Compare(..)
            | Kind::Fma(..)
            | Kind::Cast(_)
            | Kind::Math(..)
            | Kind::If { .. } => {
                let mut all = true;
                self.checked.for_each_operand(&self.checked.exprs[id].kind, |operand| {
                    all &= self.is_elementwise(operand, indices, whole);
                });
                all
            }
            _ => false,
        }
    }
}
