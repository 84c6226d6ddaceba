//! The facts about functions, by their texts: an edit of one function leaves those of the others as
//! they are, wherever they move.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use fuseloop::editor::{Declared, Hint, Names, Role};
use fuseloop::{Options, Placed, Wait};

/// The most functions that are remembered.
const MAX_KNOWN: usize = 1000;

/// The facts about a function. Places are counted from its beginning.
#[derive(Debug, Default)]
pub struct Facts {
    /// Types and the ends of indices.
    pub hints: Vec<Hint>,
    /// The figures of its kernels; `None` if it has errors.
    pub figures: Option<String>,
    /// Its kernels.
    pub kernels: Vec<Placed>,
    /// The operations that wait for another kernel.
    pub waits: Vec<Wait>,
}

/// The facts that are remembered, by the texts that they follow from.
#[derive(Debug, Default)]
pub struct Known(RefCell<BTreeMap<String, Rc<Facts>>>);

impl Known {
    /// The facts about a function of a text.
    pub fn of(&self, names: &Names, function: &Declared) -> Rc<Facts> {
        let key = reason(names, function);
        if let Some(known) = self.0.borrow().get(&key) {
            return Rc::clone(known);
        }
        let facts = Rc::new(find(names, function));
        let mut known = self.0.borrow_mut();
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(key, Rc::clone(&facts));
        facts
    }
}

/// The text that the facts about a function follow from: its own, or all of the program if it calls
/// another function, since what is where in that counts.
fn reason(names: &Names, function: &Declared) -> String {
    let source = names.source().text.as_str();
    let own = source.get(function.bytes.clone()).unwrap_or_default();
    let called = names.within(function).into_iter().filter(|one| one.role == Role::Function);
    let called: BTreeSet<String> = called.map(|one| one.text).filter(|name| *name != function.name).collect();
    match called.iter().any(|name| names.function(name).is_some()) {
        true => format!("{}\n{source}", function.name),
        false => own.to_owned(),
    }
}

fn find(names: &Names, function: &Declared) -> Facts {
    let start = function.bytes.start;
    let moved = |place: &Range<usize>| place.start.checked_sub(start).zip(place.end.checked_sub(start));
    let moved = |place: &Range<usize>| moved(place).map(|(start, end)| start..end);
    let hints = names.hints(&function.name).into_iter();
    let hints = hints.map(|hint| Hint { at: hint.at.saturating_sub(start), ..hint }).collect();
    let explained = names.explain(&function.name, &Options::default(), &[]);
    let Some(Ok(explanation)) = explained else { return Facts { hints, ..Facts::default() } };
    let within = |place: &Range<usize>| place.end <= function.bytes.end;
    let mut kernels = explanation.kernels();
    for kernel in &mut kernels {
        // Operations of functions that are called stand elsewhere.
        let operations = std::mem::take(&mut kernel.operations).into_iter().filter(|(_, place)| within(place));
        kernel.operations = operations.filter_map(|(name, place)| Some((name, moved(&place)?))).collect();
    }
    let waits = explanation.waits().into_iter().filter(|wait| within(&wait.at));
    let waits = waits.filter_map(|wait| Some(Wait { at: moved(&wait.at)?, ..wait })).collect();
    let counted = |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    let (operations, after) = (explanation.kernels_before(), explanation.kernels_after());
    let (operations, after) = (counted(operations, "operation"), counted(after, "kernel"));
    let (moves, executes) = (explanation.moves(), explanation.executes());
    let figures = Some(format!("{operations} in {after}: moves {moves}, executes {executes}"));
    Facts { hints, figures, kernels, waits }
}
