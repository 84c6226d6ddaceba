//! Indices: their names, and whether their ends must be written.

use std::collections::BTreeSet;

use ir::checked::{ExprId, Extent, IndexId, Kind, Prefix};

use super::expr::COMPARISON;
use super::{Unwritten, Writer};

/// Names for indices that have none in the source.
const LETTERS: &[&str] = &["i", "j", "k", "l", "p", "q", "r", "s", "u", "v"];

impl Writer<'_> {
    /// Brings indices into scope.
    pub fn open(&mut self, indices: &[IndexId]) {
        for index in indices {
            let own = self.checked.indices[*index].name.as_str();
            // Unnamed axes are called `a`, and `a0`, `a1` and so on.
            let made = own.strip_prefix('a').is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit()));
            let candidates = (!made).then_some(own).into_iter().chain(LETTERS.iter().copied()).map(str::to_owned);
            let more = (1..).map(|number| format!("i{number}"));
            let name = candidates.chain(more).find(|name| !self.is_taken(name)).unwrap_or_default();
            self.block.scope.push((*index, name));
        }
    }

    /// The name of an index in scope.
    pub fn index_name(&self, index: IndexId) -> Result<String, Unwritten> {
        let found = self.block.scope.iter().rev().find(|(other, _)| *other == index);
        found.map(|(_, name)| name.clone()).ok_or(Unwritten("an index outside its scope"))
    }

    /// An index of an array, with its end unless accesses in the body say where that is.
    pub fn binder(&self, index: IndexId, body: ExprId) -> Result<String, Unwritten> {
        if self.is_inferred(index, body) { self.index_name(index) } else { self.ended(index) }
    }

    /// An index of an array, with its end.
    pub fn ended(&self, index: IndexId) -> Result<String, Unwritten> {
        let name = self.index_name(index)?;
        let Some(size) = self.checked.indices[index].extent.as_size() else {
            return Err(Unwritten("an array with an index that another one ends"));
        };
        Ok(format!("{name} < {}", self.size(size)?.at_least(COMPARISON + 1)))
    }

    /// An index of a reducer.
    pub fn reduced(&mut self, index: IndexId, body: &[ExprId], prefix: Option<Prefix>) -> Result<String, Unwritten> {
        let name = self.index_name(index)?;
        if let Some(prefix) = prefix {
            let relation = if prefix.inclusive { "<=" } else { "<" };
            return Ok(format!("{name} {relation} {}", self.index_name(prefix.of)?));
        }
        match self.checked.indices[index].extent.clone() {
            Extent::Affine(extent) if extent.as_size().is_some() => {
                let mentions = |part: &&ExprId| self.free[**part].contains(&index);
                let mut parts = body.iter().filter(mentions).peekable();
                match parts.peek().is_some() && parts.all(|part| self.is_inferred(index, *part)) {
                    true => Ok(name),
                    false => Ok(format!("{name} < {}", self.affine(&extent)?.at_least(COMPARISON + 1))),
                }
            }
            Extent::Affine(extent) => {
                // With a name alone as its end, it would be a running sum.
                let from = if extent.as_index().is_some() { "0 <= " } else { "" };
                Ok(format!("{from}{name} < {}", self.affine(&extent)?.at_least(COMPARISON + 1)))
            }
            Extent::Dynamic(end) => Ok(format!("{name} < {}", self.expr(end)?.at_least(COMPARISON + 1))),
        }
    }

    /// Whether all subscripts with an index are that index alone, along axes of its length, and one
    /// of them is under no `if`.
    fn is_inferred(&self, index: IndexId, body: ExprId) -> bool {
        let Some(size) = self.checked.indices[index].extent.as_size() else { return false };
        let mut found = false;
        let (mut pending, mut seen) = (vec![(body, true)], BTreeSet::new());
        while let Some((id, open)) = pending.pop() {
            if !self.free[id].contains(&index) || !seen.insert((id, open)) {
                continue;
            }
            if let Some((_, around)) = self.block.lets.get(&id) {
                found |= open && around.contains(&index);
                continue;
            }
            let kind = &self.checked.exprs[id].kind;
            let mut inside = open;
            match kind {
                Kind::Access { array, at } => {
                    for (subscript, length) in at.iter().zip(&self.checked.exprs[*array].ty.shape) {
                        let mentions = self.free[subscript.value].contains(&index);
                        let plain = matches!(self.checked.exprs[subscript.value].kind, Kind::Index(_));
                        if mentions && (!plain || length != size) {
                            return false;
                        }
                        found |= mentions && open;
                    }
                    // The reads of an elementwise array stand there with the same subscripts.
                    if let (Kind::Comprehension { body, .. }, true) =
                        (&self.checked.exprs[*array].kind, self.inlined.contains(array))
                    {
                        pending.push((*body, open));
                        continue;
                    }
                    if let Some((_, around)) = self.block.lets.get(array) {
                        found |= open && around.contains(&index);
                    }
                }
                // It is written with an end.
                Kind::Loop { .. } => return false,
                Kind::If { .. } => inside = false,
                Kind::Reduce { by, .. } if !by.is_empty() => inside = false,
                Kind::Reduce { prefix: Some(prefix), .. } if prefix.of == index => return false,
                _ => {}
            }
            if self.checked.bound(kind).any(|bound| match &self.checked.indices[bound].extent {
                Extent::Affine(extent) => extent.terms().iter().any(|(other, _)| *other == index),
                Extent::Dynamic(_) => true,
            }) {
                return false;
            }
            self.checked.for_each_operand(kind, |operand| pending.push((operand, inside)));
        }
        found
    }
}
