//! Reductions by key, as `ir::order` defines them.

use std::collections::BTreeMap;

use ir::checked::{ExprId, Factor, IndexId};
use ir::order::keyed_chunk;
use ir::{Monoid, Scalar};

use super::machine::{Machine, Step, advance};
use crate::reduce::ByKey;

impl Machine<'_> {
    /// A reduction by key, which gives the results of all keys at once.
    pub(super) fn keyed(
        &mut self,
        id: ExprId,
        monoid: Monoid,
        over: &[IndexId],
        by: &[Factor],
        body: ExprId,
    ) -> Step<Scalar> {
        let keys: Vec<IndexId> = by.iter().filter_map(Factor::key_of).collect();
        let lengths = keys.iter().map(|index| self.extent(*index)).collect::<Step<Vec<_>>>()?;
        let own: Vec<i64> = keys.iter().map(|index| self.indices[*index]).collect();
        let count = lengths.iter().fold(1i64, |product, length| product.wrapping_mul(*length));
        let chunk = keyed_chunk(count);
        let extents = over.iter().map(|index| self.extent(*index)).collect::<Step<Vec<_>>>()?;
        let dtype = self.checked.exprs[id].ty.dtype;
        let mut found: BTreeMap<Vec<i64>, ByKey> = BTreeMap::new();
        let mut at = vec![0; over.len()];
        let mut left = extents.iter().all(|n| *n > 0);
        let mut number = 0;
        while left {
            over.iter().zip(&at).for_each(|(index, value)| self.set(*index, *value));
            if self.takes_part(by)? {
                let value = self.value(body)?;
                let setting = keys.iter().map(|index| self.indices[*index]).collect();
                found.entry(setting).or_insert_with(|| ByKey::new(monoid, dtype)).push(monoid, number / chunk, value);
            }
            number += 1;
            left = advance(&mut at, &extents);
        }
        let values: BTreeMap<Vec<i64>, Scalar> =
            found.into_iter().map(|(setting, by_key)| (setting, by_key.finish(monoid))).collect();
        let value_at = |setting: &[i64]| values.get(setting).copied().unwrap_or(monoid.identity(dtype));
        let room = usize::try_from(count).is_ok_and(|count| count <= self.room);
        let mut at = vec![0; keys.len()];
        let mut left = room && lengths.iter().all(|n| *n > 0);
        while left {
            keys.iter().zip(&at).for_each(|(index, value)| self.set(*index, *value));
            self.cells(id)[0] = Some(value_at(&at));
            left = advance(&mut at, &lengths);
        }
        keys.iter().zip(&own).for_each(|(index, value)| self.set(*index, *value));
        Ok(value_at(&own))
    }

    /// Whether the current element takes part in a reduction by key; sets the indices of its keys.
    fn takes_part(&mut self, by: &[Factor]) -> Step<bool> {
        for factor in by {
            let holds = match factor {
                Factor::Holds(condition) => self.value(*condition)? == Scalar::Bool(true),
                Factor::Key { of, key } => {
                    let (key, length) = (self.integer(*key)?, self.extent(*of)?);
                    self.set(*of, key);
                    (0..length).contains(&key)
                }
            };
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
