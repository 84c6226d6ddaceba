//! Sorts: the body runs up to the place for every iteration, and then as a whole, in order of the
//! index.

use ir::nest::{IndexId, Loop, Op, Statement};

use super::{Machine, Step, slot};
use crate::scalar::sorted;

/// A sort in progress.
pub(super) struct Sort {
    index: IndexId,
    /// The place of each iteration.
    places: Vec<usize>,
}

impl<'p> Machine<'p, '_> {
    /// A loop that puts its iterations in order.
    pub(super) fn sort(&mut self, l: &'p Loop) -> Step<'p> {
        let place = |s: &Statement| if let Statement::Let { op: Op::Place(by), .. } = s { Some(*by) } else { None };
        let found = l.body.iter().enumerate().find_map(|(at, s)| Some((at, place(s)?)));
        let (Some((at, by)), [(index, _)]) = (found, &l.dims[..]) else { return Ok(()) };
        let before = &l.body[..at];
        let mut keys = vec![];
        // Loads are counted when the body runs as a whole.
        let traffic = self.traffic.clone();
        self.apart(&l.dims, |machine| {
            machine.block(before)?;
            keys.push(machine.get(by));
            Ok(())
        })?;
        self.traffic = traffic;
        let mut places = vec![0; keys.len()];
        sorted(&keys).into_iter().enumerate().for_each(|(place, number)| places[number] = place);
        self.sort = Some(Sort { index: *index, places });
        self.apart(&l.dims, |machine| machine.block(&l.body))
    }

    /// The place of the current iteration.
    pub(super) fn place(&self) -> i64 {
        let place = self.sort.as_ref().and_then(|sort| {
            let number = usize::try_from(self.indices[slot(sort.index)]).ok()?;
            sort.places.get(number).copied()
        });
        place.map_or(0, |place| place as i64)
    }
}
