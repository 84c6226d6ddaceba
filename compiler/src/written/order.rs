//! The order in which a sum will add its elements when its text is read again. It follows from the
//! accesses in the text: see `Arena::order_of` of the checker. A sum with another order goes over
//! an array of its elements, with axes for that order.

use std::collections::BTreeSet;

use ir::Order;
use ir::checked::{ExprId, IndexId, Kind};

use super::{OTHER_ORDER, Unwritten, Writer};

impl Writer<'_> {
    /// Whether a reduction has the order that its text will have.
    pub fn keeps_order(&self, body: ExprId, over: &[IndexId], order: Order) -> bool {
        match (order, over.last()) {
            (Order::Lanes | Order::Blocks, Some(last)) => self.order_of(body, *last) == order,
            _ => true,
        }
    }

    /// The elements of a reduction, as those of an array that gives it its order.
    pub fn of_elements(&mut self, body: ExprId, over: &[IndexId], order: Order) -> Result<String, Unwritten> {
        let around: Vec<IndexId> = self.outside(body).into_iter().filter(|index| !over.contains(index)).collect();
        let is_size = |index: &IndexId| self.checked.indices[*index].extent.as_size().is_some();
        if !self.attempt.elements || !around.iter().chain(over).all(is_size) {
            return Err(OTHER_ORDER);
        }
        let indices = match order {
            Order::Lanes => [&around, over].concat(),
            Order::Blocks if !around.is_empty() => [over, &around].concat(),
            _ => return Err(OTHER_ORDER),
        };
        let name = self.array_of(body, &indices)?;
        Ok(format!("{name}{}", self.subscripts(&indices, &[])?))
    }

    fn order_of(&self, body: ExprId, last: IndexId) -> Order {
        let (mut most, mut order) = (0, Order::Blocks);
        let mut access = |mentioned: BTreeSet<IndexId>, along: bool, is_earlier: bool| {
            // An earlier element counts as one without the index that decides.
            let count = mentioned.len() - usize::from(is_earlier && mentioned.len() > 1);
            if mentioned.contains(&last) && count >= most {
                let others = if count > most { Order::Blocks } else { order };
                (most, order) = (count, if along { Order::Lanes } else { others });
            }
        };
        let (mut pending, mut seen) = (vec![body], BTreeSet::new());
        while let Some(id) = pending.pop() {
            if !self.free[id].contains(&last) || !seen.insert(id) {
                continue;
            }
            if let Some((_, around)) = self.block.lets.get(&id) {
                access(around.iter().copied().collect(), around.last() == Some(&last), false);
                continue;
            }
            let kind = &self.checked.exprs[id].kind;
            if let Kind::Access { array, at } = kind {
                let around = self.array(*array).map_or(vec![], |(_, around)| around);
                let subscripts = at.iter().flat_map(|subscript| self.free[subscript.value].iter().copied());
                let along = at.last().is_some_and(|subscript| self.free[subscript.value].contains(&last));
                let is_earlier = matches!(self.checked.exprs[*array].kind, Kind::Earlier { .. });
                access(subscripts.chain(around).collect(), along, is_earlier);
            }
            self.checked.for_each_operand(kind, |operand| pending.push(operand));
        }
        order
    }
}
