//! Sorts: whoever asks for the first element has all of them computed.

use ir::Scalar;
use ir::checked::{ExprId, IndexId, Sorted};

use super::machine::{Machine, Step, grow};
use crate::scalar::sorted;

impl Machine<'_> {
    /// The element at a place that is in bounds.
    pub(super) fn sorted(
        &mut self,
        id: ExprId,
        index: IndexId,
        body: ExprId,
        result: Sorted,
        place: usize,
    ) -> Step<Scalar> {
        if let Some(value) = self.cells(id)[place] {
            return Ok(value);
        }
        // Elements may be asked for in the middle of loops over the same indices.
        let indices = self.indices.clone();
        let count = self.shape(id)[0];
        let elements = grow(|| {
            (0..count)
                .map(|number| {
                    self.set(index, number);
                    self.value(body)
                })
                .collect::<Step<Vec<_>>>()
        });
        self.indices = indices;
        let elements = elements?;
        let values = sorted(&elements).into_iter().map(|number| match result {
            Sorted::Values => elements[number],
            Sorted::Numbers => Scalar::I64(number as i64),
        });
        let values: Vec<Scalar> = values.collect();
        let value = values[place];
        self.cells(id).iter_mut().zip(values).for_each(|(cell, value)| *cell = Some(value));
        Ok(value)
    }
}
