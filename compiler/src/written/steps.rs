//! Loops. The block of one has the `let`s of its steps.

use std::collections::BTreeMap;

use ir::Affine;
use ir::checked::{ExprId, Extent, Kind, Loop, LoopId};

use super::expr::{COMPARISON, LOOSE, Text};
use super::{IN_CONDITION, INSIDE, Unwritten, Writer};

impl Writer<'_> {
    /// The states of a loop that are written, by their numbers.
    fn states(&self, of: LoopId) -> Vec<usize> {
        self.checked.needed_states(of, |id| self.uses[id] > 0)
    }

    /// Whether a last state is written as the body of the array that it is an element of.
    pub fn is_element(&self, id: ExprId, of: LoopId) -> bool {
        self.uses[id] == 1 && self.bodies.contains(&id) && self.states(of).len() == 1
    }

    /// Makes a last state a `let`, with the others of the loop.
    pub fn let_loop(&mut self, id: ExprId, (of, number): (LoopId, usize)) -> Result<(), Unwritten> {
        if !self.block.loops.contains_key(&of) {
            let around = self.outside(id);
            let depth = self.block.scope.len();
            self.open(&around);
            let (text, numbers) = self.steps(of)?;
            let mut binders = vec![];
            for index in &around {
                binders.push(self.ended(*index)?);
            }
            self.block.scope.truncate(depth);
            let binders = if binders.is_empty() { String::new() } else { format!("[{}]", binders.join(", ")) };
            let text = format!("{binders} = {text}");
            let names = match self.known(of, &text) {
                Some(names) => names,
                None => {
                    let names = self.last_names(of, numbers);
                    let written: Vec<String> = names.values().cloned().collect();
                    self.block.lines.push(format!("let {}{text}", tuple(written.clone())));
                    self.block.definitions.insert(text, written);
                    names
                }
            };
            self.block.loops.insert(of, (names, around));
        }
        let (names, around) = &self.block.loops[&of];
        self.block.lets.insert(id, (names[&number].clone(), around.clone()));
        self.weights[id] = 1;
        Ok(())
    }

    /// The names of the last states of a loop with the same text, if all that are used have some.
    fn known(&self, of: LoopId, text: &str) -> Option<BTreeMap<usize, String>> {
        let names = self.block.definitions.get(text)?.iter().cloned();
        let names: BTreeMap<usize, String> = self.states(of).into_iter().zip(names).collect();
        names.iter().all(|(number, name)| name != "_" || self.last(of, *number).is_empty()).then_some(names)
    }

    /// The uses of a last state of a loop.
    fn last(&self, of: LoopId, number: usize) -> Vec<ExprId> {
        let is_it = |id: &ExprId| {
            matches!(self.checked.exprs[*id].kind, Kind::Loop { of: other, number: k, .. }
                if (other, k) == (of, number) && self.uses[*id] > 0)
        };
        self.checked.exprs.keys().filter(is_it).collect()
    }

    /// A name for each last state of a loop, `_` if it is not used.
    fn last_names(&mut self, of: LoopId, numbers: Vec<usize>) -> BTreeMap<usize, String> {
        let mut names = BTreeMap::new();
        for number in numbers {
            let used = self.last(of, number);
            let current = self.checked.loops[of].states[number].current;
            let like = used.iter().chain([&current]).find_map(|id| self.name(*id));
            names.insert(number, if used.is_empty() { "_".to_owned() } else { self.unique(like.as_deref()) });
        }
        names
    }

    /// A loop inside an expression. One of several last states is named in a loop of one step.
    pub fn loop_inside(&mut self, of: LoopId, number: usize) -> Result<Text, Unwritten> {
        let loose = |text: String| Text { text, level: LOOSE, typed: true };
        let (text, numbers) = self.steps(of)?;
        if numbers.len() == 1 {
            return Ok(loose(text));
        }
        let first = self.checked.loops[of].states[number].first;
        let value = self.expr(first)?;
        let value = self.with_type(value, first).text;
        let [once, step, last] = ["once", "step", "last"].map(|name| self.unique(Some(name)));
        let parts = numbers.into_iter().map(|other| if other == number { last.clone() } else { "_".to_owned() });
        let pattern = tuple(parts.collect());
        Ok(loose(format!("loop {once} = {value}, {step} < 1 {{ let {pattern} = {text}\n{last} }}")))
    }

    /// A loop over the states that are written, and their numbers.
    fn steps(&mut self, of: LoopId) -> Result<(String, Vec<usize>), Unwritten> {
        let Loop { step, states, condition, guard, .. } = &self.checked.loops[of];
        let numbers = self.states(of);
        let mut firsts = vec![];
        for number in &numbers {
            let first = states[*number].first;
            let text = self.expr(first)?;
            firsts.push(self.with_type(text, first).text);
        }
        let end = match &self.checked.indices[*step].extent {
            Extent::Affine(end) if *end == Affine::constant(i64::MAX) => None,
            Extent::Affine(end) => Some(self.affine(end)?),
            Extent::Dynamic(end) => Some(self.expr(*end)?),
        };
        self.within(*guard, |writer| {
            let mut heads = vec![];
            for (number, first) in numbers.iter().zip(firsts) {
                let current = states[*number].current;
                let name = writer.unique(writer.name(current).as_deref());
                heads.push(format!("{name} = {first}"));
                writer.block.lets.insert(current, (name, vec![]));
            }
            writer.open(&[*step]);
            writer.block.depth = writer.block.scope.len();
            if let Some(end) = end {
                heads.push(format!("{} < {}", writer.index_name(*step)?, end.at_least(COMPARISON + 1)));
            }
            let mut head = format!("loop {}", heads.join(", "));
            if let Some(condition) = condition {
                head += &format!(" while {}", writer.condition(*condition, of)?);
            }
            writer.define_all(Some(of))?;
            let mut next = vec![];
            for number in &numbers {
                next.push(writer.expr(states[*number].next)?.text);
            }
            Ok(block(&head, std::mem::take(&mut writer.block.lines), tuple(next)))
        })
        .map(|text| (text, numbers))
    }

    /// The condition of a loop. It stands before the `let`s of a step.
    fn condition(&mut self, condition: ExprId, of: LoopId) -> Result<String, Unwritten> {
        let mut pending = vec![condition];
        while let Some(id) = pending.pop() {
            if self.places.get(&Some(of)).is_some_and(|own| own.binary_search(&id).is_ok()) {
                if self.is_inline(id) {
                    self.inlined.insert(id);
                }
                self.checked.for_each_operand(&self.checked.exprs[id].kind, |operand| pending.push(operand));
            }
        }
        let text = self.expr(condition).map_err(|why| if why == INSIDE { IN_CONDITION } else { why })?.text;
        if self.block.lines.is_empty() { Ok(text) } else { Err(IN_CONDITION) }
    }
}

/// A loop with its block. If that would end with a `let` of its result, it ends with the value,
/// unless this takes several lines.
fn block(head: &str, mut lines: Vec<String>, mut next: String) -> String {
    let value = lines.last().and_then(|last| last.strip_prefix(&format!("let {next} = ")).map(str::to_owned));
    if let Some(value) = value.filter(|value| !value.contains('\n')) {
        lines.pop();
        next = value;
    }
    lines.push(next);
    format!("{head} {{ {} }}", lines.join("\n"))
}

/// Parts as a tuple, or one by itself.
pub fn tuple(parts: Vec<String>) -> String {
    if let [one] = parts.as_slice() { one.clone() } else { format!("({})", parts.join(", ")) }
}
