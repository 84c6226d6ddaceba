//! Recurrences: all elements of their arrays, in the order that the checker has found. Whoever asks
//! for the first element has all of them computed.

use ir::Scalar;
use ir::checked::{self, ExprId, IndexId, Recurrence, RecurrenceId};

use super::machine::{Machine, Step, Stop, Table, advance, grow, number};

/// The arrays of a recurrence at one setting of the indices from outside.
#[derive(Default)]
pub(super) struct Arrays {
    /// The elements of each array that are computed.
    elements: Vec<Vec<Option<Scalar>>>,
    state: State,
}

/// How far the arrays are computed.
#[derive(Clone, Default)]
enum State {
    /// Not at all.
    #[default]
    Empty,
    /// Their computation has begun, or is over.
    Begun,
    /// Their computation has ended in an error.
    Stopped(Stop),
}

impl Machine<'_> {
    /// An element of an array of a recurrence at a position that is in bounds.
    pub(super) fn recurrent(&mut self, id: ExprId, recurrence: RecurrenceId, array: usize, at: &[i64]) -> Step<Scalar> {
        let elements = self.shape(id).iter().product::<i64>().max(1);
        let room = self.room / usize::try_from(elements).unwrap_or(usize::MAX);
        if matches!(self.arrays(recurrence, room).state, State::Empty) {
            // Elements may be asked for in the middle of loops over the same indices.
            let indices = self.indices.clone();
            let filled = grow(|| self.fill(recurrence, room));
            self.indices = indices;
            if let Err(stop) = filled {
                self.arrays(recurrence, room).state = State::Stopped(stop);
            }
        }
        let element = number(at, self.shape(id));
        let arrays = self.arrays(recurrence, room);
        match (arrays.elements[array].get(element), &arrays.state) {
            (Some(Some(value)), _) => Ok(*value),
            (_, State::Stopped(stop)) => Err(stop.clone()),
            _ => Err(Stop::NotEarlier { array: id }),
        }
    }

    /// The arrays at this setting; those of about `room` settings are remembered.
    fn arrays(&mut self, id: RecurrenceId, room: usize) -> &mut Arrays {
        let recurrence = &self.checked.recurrences[id];
        let Machine { indices, recurrences, .. } = self;
        let setting = recurrence.free.iter().map(|i| indices[*i]);
        recurrences.entry(id).or_insert(Table::EMPTY).at(setting, room, Arrays::default)
    }

    /// Computes all elements.
    fn fill(&mut self, id: RecurrenceId, room: usize) -> Step<()> {
        let checked = self.checked;
        let recurrence = &checked.recurrences[id];
        let mut extents: Vec<Vec<i64>> = vec![];
        for equation in &recurrence.equations {
            extents.push(equation.indices.iter().map(|i| Ok(self.extent(*i)?.max(0))).collect::<Step<_>>()?);
        }
        let count = |extents: &Vec<i64>| usize::try_from(extents.iter().product::<i64>()).unwrap_or(0);
        let elements = extents.iter().map(|extents| vec![None; count(extents)]).collect();
        *self.arrays(id, room) = Arrays { elements, state: State::Begun };
        // The arrays need not be equally long.
        let longest =
            |step: &checked::Step| extents.iter().zip(&step.axes).map(|(n, axis)| n[*axis]).max().unwrap_or(0);
        let lengths: Vec<i64> = recurrence.steps.iter().map(longest).collect();
        let mut at = vec![0; lengths.len()];
        let mut left = lengths.iter().all(|n| *n > 0);
        while left {
            let deciding: Vec<i64> = recurrence
                .steps
                .iter()
                .zip(at.iter().zip(&lengths))
                .map(|(step, (i, n))| if step.descending { n - 1 - i } else { *i })
                .collect();
            for array in &recurrence.sequence {
                for (number, value) in self.plane(recurrence, *array, &deciding, &extents[*array])? {
                    self.arrays(id, room).elements[*array][number] = Some(value);
                }
            }
            left = advance(&mut at, &lengths);
        }
        Ok(())
    }

    /// Computes the elements of an array at one setting of the deciding indices: their numbers and
    /// values. They do not depend on each other.
    fn plane(
        &mut self,
        recurrence: &Recurrence,
        array: usize,
        deciding: &[i64],
        extents: &[i64],
    ) -> Step<Vec<(usize, Scalar)>> {
        let equation = &recurrence.equations[array];
        let mut position = vec![0; extents.len()];
        for (step, value) in recurrence.steps.iter().zip(deciding) {
            position[step.axes[array]] = *value;
        }
        let decides = |axis: &usize| recurrence.steps.iter().any(|step| step.axes[array] == *axis);
        let others: Vec<usize> = (0..extents.len()).filter(|axis| !decides(axis)).collect();
        let lengths: Vec<i64> = others.iter().map(|axis| extents[*axis]).collect();
        let mut plane = vec![];
        let mut at = vec![0; others.len()];
        let mut left = position.iter().zip(extents).all(|(i, n)| i < n) && lengths.iter().all(|n| *n > 0);
        while left {
            others.iter().zip(&at).for_each(|(axis, value)| position[*axis] = *value);
            let set = |(index, value): (&IndexId, &i64)| self.set(*index, *value);
            equation.indices.iter().zip(&position).for_each(set);
            plane.push((number(&position, extents), self.value(equation.body)?));
            left = advance(&mut at, &lengths);
        }
        Ok(plane)
    }
}
