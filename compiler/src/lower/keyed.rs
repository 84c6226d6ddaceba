//! Reductions by key: one pass over the elements, which are merged into a table.

use ir::checked::{Checked, ExprId, Factor, IndexId};
use ir::nest::{BufferId, Loop, LoopKind, Op, Statement, ValueId};
use ir::sabotage::{self, Bug};
use ir::{BinaryOp, CompareOp, Dtype, Monoid, Scalar, Size};

use super::emit::Emitter;
use super::operand::{Element, Operand, plain};
use super::{LowerError, Lowering};

/// The merging of the elements that take part.
struct Merging<'a> {
    body: ExprId,
    /// The indices that only the body mentions.
    inner: Vec<IndexId>,
    buffer: BufferId,
    /// The indices that are the axes of the table.
    axes: &'a [IndexId],
    monoid: Monoid,
}

impl Lowering<'_> {
    /// A reduction by key. The table has an axis for each free index. Those that decide which
    /// elements take part come first, then those of the keys and of the body.
    pub fn keyed(
        &mut self,
        id: ExprId,
        monoid: Monoid,
        over: &[IndexId],
        by: &[Factor],
        body: ExprId,
    ) -> Result<Operand, LowerError> {
        let facts = &self.known.facts;
        let keys: Vec<IndexId> = by.iter().filter_map(Factor::key_of).collect();
        let decides = |i: &IndexId| !keys.contains(i) && by.iter().any(|f| facts.free(f.expr()).contains(i));
        let (outer, others): (Vec<IndexId>, Vec<IndexId>) = facts.free(id).iter().partition(|i| decides(i));
        let inner: Vec<IndexId> = others.iter().copied().filter(|i| !keys.contains(i)).collect();
        let sizes = keys.iter().map(|i| facts.size(*i)).collect::<Result<Vec<_>, _>>()?;
        let count = sizes.iter().fold(Size::constant(1), |product, size| &product * size);
        let axes = [outer.clone(), others].concat();
        let table = self.temporary(id, &axes)?;
        let buffer = self.kernel(id, table, |k, buffer| {
            k.parallel(&outer, |k| {
                k.stay_inside();
                let dims = k.bind_box(over)?;
                k.open(Checked::TOP)?;
                k.scatter(by, &Merging { body, inner, buffer, axes: &axes, monoid })?;
                let elements = k.close();
                let kind = LoopKind::Keyed { keys: count, row: outer.len() };
                k.push(Statement::Loop(Loop { dims, kind, body: elements }));
                Ok(())
            })
        })?;
        Ok(Operand::Element(Element { buffer, view: None, at: plain(&axes) }))
    }
}

impl Emitter<'_> {
    /// Merges an element into the table where the conditions `by` hold.
    fn scatter(&mut self, by: &[Factor], merging: &Merging<'_>) -> Result<(), LowerError> {
        let Some((factor, rest)) = by.split_first() else {
            let dims = self.bind_box(&merging.inner)?;
            self.open_for(merging.body)?;
            let value = self.compute(merging.body)?;
            self.count()?;
            let at = plain(merging.axes).iter().map(|s| self.subscript(s)).collect::<Result<_, _>>()?;
            self.push(Statement::Scatter { buffer: merging.buffer, at, value, monoid: merging.monoid });
            let block = self.close();
            self.builder().loop_(LoopKind::Parallel, dims, block);
            return Ok(());
        };
        let condition = match factor {
            Factor::Holds(condition) => self.value(*condition)?,
            Factor::Key { of, key } => self.key(*of, *key)?,
        };
        self.open_for(rest.first().map_or(merging.body, Factor::expr))?;
        self.scatter(rest, merging)?;
        let then = self.close();
        self.count()?;
        self.push(Statement::If { condition, then, otherwise: vec![], results: vec![] });
        Ok(())
    }

    /// Binds an index to a key in the next block, and says whether the key is a value of the index.
    fn key(&mut self, of: IndexId, key: ExprId) -> Result<ValueId, LowerError> {
        let mut value = self.value(key)?;
        if self.builder().dtype(value) != Dtype::I64 {
            // A `u64` beyond the range is below 0, and no value of the index.
            value = self.op(Op::Cast(Dtype::I64, value))?;
        }
        let (zero, extent) = (self.op(Op::Constant(Scalar::I64(0)))?, self.size_of(of)?);
        let extent = self.size(&extent)?;
        let low = self.op(Op::Compare(CompareOp::Ge, value, zero))?;
        let below = if sabotage::on(Bug::KeyBeyond) { CompareOp::Le } else { CompareOp::Lt };
        let high = self.op(Op::Compare(below, value, extent))?;
        self.bind_value(of, value);
        self.op(Op::Binary(BinaryOp::And, low, high))
    }
}
