//! The rules of sorts.

use std::collections::BTreeSet;

use super::{Checker, Result};
use crate::nest::{BufferId, Loop, Statement, Subscript};
use crate::visit;

impl Checker<'_> {
    /// A sort has one index and one place, directly in its body, and stores at that place.
    pub(super) fn sort(&self, statement: &Statement, l: &Loop) -> Result {
        let s = Some(statement);
        let [(element, _)] = l.dims[..] else { return self.fail(s, "a sort has one index") };
        let mut places = visit::places(&l.body);
        let (Some((place, _)), None) = (places.next(), places.next()) else {
            return self.fail(s, "a sort has one place directly in its body");
        };
        let mut bound: BTreeSet<_> = visit::bound_indices(&l.body).into_iter().collect();
        bound.insert(element);
        let outside = |at: &Subscript| match at {
            Subscript::Affine(a) => a.terms().iter().all(|(index, _)| !bound.contains(index)),
            Subscript::Value(_) => false,
        };
        let mut stored: BTreeSet<BufferId> = BTreeSet::new();
        let mut right = true;
        let mut direct = 0;
        visit::for_each_statement(&l.body, &mut |inner| {
            if let Some(store) = inner.effects().store {
                stored.insert(store.buffer);
                direct += 1;
                right &= matches!(store.at.split_last(), Some((last, rest))
                    if *last == Subscript::Value(place) && rest.iter().all(outside));
            }
        });
        let stores = l.body.iter().filter(|s| matches!(s, Statement::Store { .. })).count();
        if !right || stores != direct {
            return self.fail(s, "a sort stores directly in its body, at its place");
        }
        if visit::loads(&l.body).iter().any(|buffer| stored.contains(buffer)) {
            return self.fail(s, "a sort loads what it stores");
        }
        Ok(())
    }
}
