//! The order in which a sum will add its elements when its text is read again. It follows from the
//! accesses in the text: see `Arena::order_of` of the checker.

use std::collections::BTreeSet;

use ir::Order;
use ir::checked::{ExprId, IndexId, Kind};

use super::Writer;

impl Writer<'_> {
    /// Whether a reduction has the order that its text will have.
    pub fn keeps_order(&self, body: ExprId, over: &[IndexId], order: Order) -> bool {
        match (order, over.last()) {
            (Order::Lanes | Order::Blocks, Some(last)) => self.order_of(body, *last) == order,
            _ => true,
        }
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
            if let Some((_, around)) = self.lets.get(&id) {
                access(around.iter().copied().collect(), around.last() == Some(&last), false);
                continue;
            }
            let kind = &self.checked.exprs[id].kind;
            if let Kind::Access { array, at } = kind {
                let around = self.lets.get(array).map_or(&[][..], |(_, around)| around);
                let subscripts = at.iter().flat_map(|subscript| self.free[subscript.value].iter());
                let along = at.last().is_some_and(|subscript| self.free[subscript.value].contains(&last));
                let is_earlier = matches!(self.checked.exprs[*array].kind, Kind::Earlier { .. });
                access(subscripts.chain(around).copied().collect(), along, is_earlier);
            }
            self.checked.for_each_operand(kind, |operand| pending.push(operand));
        }
        order
    }
}
