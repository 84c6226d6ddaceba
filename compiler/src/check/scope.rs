//! The names in scope, each with what it stands for. A later one hides an earlier one of the same
//! name, which is back when the later one goes. A function that is inlined sees its own names
//! alone.

use std::collections::BTreeMap;

use grammar::ast;
use ir::Size;
use ir::checked::ExprId;

use super::untyped::UntypedId;

/// The meaning of a name.
#[derive(Clone)]
pub(super) enum Binding {
    /// A parameter or a `let`.
    Value(ExprId),
    /// An index.
    Index(ExprId),
    /// A size name.
    Size(Size),
    /// A `let` of a literal expression, or a state of a loop that begins with one, while the types
    /// of its states are found.
    Literal(UntypedId),
    /// An index of a statement that is looked at before its indices are bound.
    Unbound,
    /// Something with an error that is reported already.
    Broken,
}

impl Binding {
    /// The node that the name stands for, if it is one and the same at all places.
    pub fn value(&self) -> Option<ExprId> {
        match self {
            Binding::Value(value) | Binding::Index(value) => Some(*value),
            Binding::Size(_) | Binding::Literal(_) | Binding::Unbound | Binding::Broken => None,
        }
    }
}

/// The names in scope in the innermost function. Looking one up takes no longer in a long function
/// than in a short one.
#[derive(Default)]
pub(super) struct Scope<'a> {
    names: Names<'a>,
    /// The names of the functions that led to it by calls, the innermost last.
    callers: Vec<Names<'a>>,
}

/// The names of one function.
#[derive(Default)]
struct Names<'a> {
    /// In the order in which they came, each with the one that it hides.
    entries: Vec<(String, Binding, Option<usize>)>,
    /// The entry that each name stands for.
    visible: BTreeMap<String, usize>,
    /// The arrays that the current statement makes by index notation.
    making: &'a [ast::Name],
    /// The place that the names are seen from in addition to these.
    view: Option<Place>,
}

/// A place in a function, with the names that are in scope there.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// The function: the number of its callers.
    function: usize,
    /// How many names it had.
    mark: usize,
}

impl Names<'_> {
    /// The meaning that a name had before a mark.
    fn before(&self, name: &str, mark: usize) -> Option<&Binding> {
        let mut at = *self.visible.get(name)?;
        while at >= mark {
            at = self.entries[at].2?;
        }
        Some(&self.entries[at].1)
    }
}

impl<'a> Scope<'a> {
    /// Begins a function, which sees none of its caller's names.
    pub fn enter(&mut self) {
        self.callers.push(std::mem::take(&mut self.names));
    }

    /// The place where the next name comes in.
    pub fn place(&self) -> Place {
        Place { function: self.callers.len(), mark: self.len() }
    }

    /// Begins an expression that stands at another place of the functions that are open, and sees
    /// the names there.
    pub fn view(&mut self, place: Place) {
        self.enter();
        self.names.view = Some(place);
    }

    /// Ends a function or a view.
    pub fn leave(&mut self) {
        self.names = self.callers.pop().unwrap_or_default();
    }

    /// Begins a statement, which may make arrays by index notation.
    pub fn begin(&mut self, making: &'a [ast::Name]) {
        self.names.making = making;
    }

    /// The array of that name that the current statement makes.
    pub fn making(&self, name: &str) -> Option<&'a ast::Name> {
        self.names.making.iter().find(|made| made.text == name)
    }

    /// Brings a name into scope.
    pub fn push(&mut self, name: &str, binding: Binding) {
        let hidden = self.names.visible.insert(name.to_string(), self.names.entries.len());
        self.names.entries.push((name.to_string(), binding, hidden));
    }

    /// The meaning of a name.
    pub fn get(&self, name: &str) -> Option<&Binding> {
        let own = self.names.before(name, usize::MAX);
        own.or_else(|| self.names.view.and_then(|at| self.callers[at.function].before(name, at.mark)))
    }

    /// The names that stand for something.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let seen = self.names.view.iter().flat_map(|at| self.callers[at.function].visible.keys());
        self.names.visible.keys().chain(seen).map(String::as_str)
    }

    /// A mark to come back to.
    pub fn len(&self) -> usize {
        self.names.entries.len()
    }

    /// Takes out the names that came in since a mark.
    pub fn truncate(&mut self, mark: usize) {
        while self.names.entries.len() > mark {
            let Some((name, _, hidden)) = self.names.entries.pop() else { return };
            match hidden {
                Some(at) => self.names.visible.insert(name, at),
                None => self.names.visible.remove(&name),
            };
        }
    }
}
