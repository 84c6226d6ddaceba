//! Sorts: a kernel that stores each element, or its number, at its place.

use ir::checked::{Checked, ExprId, IndexId, Sorted};
use ir::nest::{Buffer, Loop, LoopKind, Op, Role, Statement, Subscript};

use super::operand::{Element, Lambda, Operand, plain};
use super::{LowerError, Lowering};

impl Lowering<'_> {
    /// The elements in order, or their numbers: an axis for each free index, and one for the
    /// places.
    pub fn sorted(&mut self, id: ExprId, index: IndexId, body: ExprId, result: Sorted) -> Result<Lambda, LowerError> {
        let outer = self.known.facts.free(id).clone();
        let sizes = outer.iter().chain([&index]).map(|i| self.known.facts.size(*i));
        let shape = sizes.collect::<Result<Vec<_>, _>>()?;
        let dtype = self.known.checked.exprs[id].ty.dtype;
        let whole = Buffer { name: self.name(id), dtype, shape, role: Role::Temp };
        let buffer = self.kernel(id, whole, |k, buffer| {
            k.parallel(&outer, |k| {
                k.stay_inside();
                let dims = k.bind_box(&[index])?;
                k.open(Checked::TOP)?;
                let element = k.value(body)?;
                let stored = k.builder().dtype(element);
                let by = if stored.is_storage() { k.op(Op::Cast(stored.compute(), element))? } else { element };
                let place = k.op(Op::Place(by))?;
                let value = match result {
                    Sorted::Values => element,
                    Sorted::Numbers => k.index(index)?,
                };
                k.count()?;
                let row = plain(&outer).iter().map(|s| k.subscript(s)).collect::<Result<Vec<_>, _>>()?;
                let at = row.into_iter().chain([Subscript::Value(place)]).collect();
                k.push(Statement::Store { buffer, at, value });
                let body = k.close();
                k.push(Statement::Loop(Loop { dims, kind: LoopKind::Sort, body }));
                Ok(())
            })
        })?;
        let length = self.known.facts.size(index)?;
        let axes = self.known.facts.fresh(&[length]);
        let at = plain(&outer).into_iter().chain(plain(&axes)).collect();
        Ok(Lambda { axes, operand: Operand::Element(Element { buffer, view: None, at }) })
    }
}
