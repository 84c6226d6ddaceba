//! Which loops of a part run in vectors on a core, in words, and why not the others.

use std::collections::BTreeMap;

use ir::leaf::Obstacle;
use ir::nest::IndexId;
use ir::sched::{Form, LoopForm, Part};

/// The loops of a part that run in vectors, and those that do not, with the reason. Loops are named
/// by their last index.
pub(super) fn forms(part: &Part, names: &BTreeMap<IndexId, String>) -> (Vec<String>, Vec<String>) {
    let mut found = Found { names, vectors: vec![], split: vec![], single: vec![] };
    part.forms.iter().for_each(|l| found.add(l));
    let mut ways = vec![];
    if !found.vectors.is_empty() {
        ways.push(format!("vectors along {}", list(&found.vectors)));
    }
    if !found.split.is_empty() {
        ways.push(format!("vectors along {}, apart on either side of a condition", list(&found.split)));
    }
    (ways, found.single)
}

/// The loops seen so far, by name.
struct Found<'a> {
    names: &'a BTreeMap<IndexId, String>,
    vectors: Vec<String>,
    split: Vec<String>,
    single: Vec<String>,
}

impl Found<'_> {
    fn add(&mut self, LoopForm { index, form }: &LoopForm) {
        if let Some(name) = self.names.get(index) {
            self.form(name, form, false);
        }
    }

    fn form(&mut self, name: &str, form: &Form, split: bool) {
        match form {
            Form::Vectors if split => push(&mut self.split, name.to_owned()),
            Form::Vectors => push(&mut self.vectors, name.to_owned()),
            Form::Split { holds, fails, .. } => [holds, fails].into_iter().for_each(|side| self.form(name, side, true)),
            Form::Single { obstacle, inside } => {
                inside.iter().for_each(|l| self.add(l));
                // A loop around others is as fast as they are.
                if let Some(why) = why(*obstacle).filter(|_| inside.is_empty()) {
                    push(&mut self.single, format!("{name} one by one: {why}"));
                }
            }
        }
    }
}

fn push(lines: &mut Vec<String>, line: String) {
    if !lines.contains(&line) {
        lines.push(line);
    }
}

fn list(names: &[String]) -> String {
    match names {
        [before @ .., last] if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => names.concat(),
    }
}

/// The reason why the iterations of a loop do not run in vectors, unless there are few of them.
fn why(obstacle: Obstacle) -> Option<&'static str> {
    match obstacle {
        Obstacle::Branch => Some("a branch accesses memory, and its condition does not change once along the loop"),
        Obstacle::SameElement => Some("all iterations store to one element"),
        Obstacle::Shared => Some("iterations merge values into elements that they may share"),
        Obstacle::Lengths => Some("a loop inside has another length in each iteration"),
        Obstacle::InOrder => Some("elements follow each other in an order"),
        Obstacle::Product => Some("it has a product of matrices"),
        Obstacle::Checks => Some("iterations check indices of their own"),
        Obstacle::Overwritten => Some("it reads an element that it may have stored to"),
        Obstacle::Scratch => Some("data decide which element of its scratch an iteration accesses"),
        Obstacle::Carries => Some("a loop inside carries values, next to other loops"),
        Obstacle::Half => Some("a loop inside carries half floats"),
        Obstacle::Across => Some("it goes across memory"),
        Obstacle::Slow => Some("most of its operations have no vector instructions"),
        Obstacle::State => Some("it reduces states of several values"),
        Obstacle::Results | Obstacle::Chosen => None,
    }
}
