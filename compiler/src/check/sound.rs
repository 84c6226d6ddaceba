//! Functions that are known to be without errors, for a text that is edited: an edit of one
//! function leaves those alone that do not call it, wherever they move.

use std::collections::BTreeMap;

use grammar::ast::{File, Function};

use super::calls::CallGraph;

/// Texts beyond which all are forgotten, so that memory does not grow with every key.
const MAX_KNOWN: usize = 10_000;

/// The functions that have been found to be without errors. A function is known by all that this
/// follows from: its text and the functions that it calls, each known likewise.
#[derive(Debug, Default)]
pub struct Sound {
    /// The number of each text of a function that calls certain others.
    numbers: BTreeMap<(String, Vec<u32>), u32>,
    /// For each number, the expressions of the function with every call inlined; `None` as long as
    /// it is not known to be without errors.
    exprs: Vec<Option<usize>>,
}

impl Sound {
    /// The number of each function of a program with this text. Functions that call themselves have
    /// none.
    pub(super) fn numbers(&mut self, file: &File, text: &str, graph: &CallGraph) -> Vec<Option<u32>> {
        if self.numbers.len() > MAX_KNOWN {
            *self = Sound::default();
        }
        let mut numbers = vec![None; file.functions.len()];
        for function in graph.callees_first() {
            let called = graph.callees(*function).iter().map(|callee| numbers[*callee]).collect::<Option<Vec<u32>>>();
            numbers[*function] = called.zip(text_of(&file.functions[*function], text)).map(|(called, text)| {
                let next = self.exprs.len() as u32;
                let number = *self.numbers.entry((text.to_owned(), called)).or_insert(next);
                if number == next {
                    self.exprs.push(None);
                }
                number
            });
        }
        numbers
    }

    /// The expressions of a function that is known to be without errors.
    pub(super) fn exprs(&self, number: Option<u32>) -> Option<usize> {
        self.exprs[number? as usize]
    }

    /// Notes that a function with this many expressions is without errors.
    pub(super) fn note(&mut self, number: Option<u32>, exprs: usize) {
        if let Some(number) = number {
            self.exprs[number as usize] = Some(exprs);
        }
    }
}

/// The text of a function, with its decorators.
fn text_of<'t>(function: &Function, text: &'t str) -> Option<&'t str> {
    let start = function.decorators.first().map_or(function.span.start, |first| first.span.start);
    text.get(start as usize..function.span.end as usize)
}
