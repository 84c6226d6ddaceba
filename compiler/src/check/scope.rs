//! The names in scope, each with what it stands for. A later one hides an earlier one of the same name, which is back
//! when the later one goes.

use std::collections::BTreeMap;

use super::Binding;

/// The names in scope. Looking one up takes no longer in a long function than in a short one.
#[derive(Default)]
pub(super) struct Scope {
    /// In the order in which they came, each with the one that it hides.
    entries: Vec<(String, Binding, Option<usize>)>,
    /// The entry that each name stands for.
    visible: BTreeMap<String, usize>,
}

impl Scope {
    /// Brings a name into scope.
    pub fn push(&mut self, (name, binding): (String, Binding)) {
        let hidden = self.visible.insert(name.clone(), self.entries.len());
        self.entries.push((name, binding, hidden));
    }

    /// What a name stands for.
    pub fn get(&self, name: &str) -> Option<&Binding> {
        self.visible.get(name).map(|at| &self.entries[*at].1)
    }

    /// The names that stand for something, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.visible.keys().map(String::as_str)
    }

    /// A mark to come back to.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Takes out what came in since a mark.
    pub fn truncate(&mut self, mark: usize) {
        while self.entries.len() > mark {
            let Some((name, _, hidden)) = self.entries.pop() else { return };
            match hidden {
                Some(at) => self.visible.insert(name, at),
                None => self.visible.remove(&name),
            };
        }
    }
}
