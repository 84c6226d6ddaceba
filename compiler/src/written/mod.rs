//! A checked program as a program of the language, for people to read, run and change.
//!
//! The text has one function with every call inlined. Checked again, it gives the same bits: sums
//! go over the same indices in the same order. Arrays become `let`s, and so do scalars that are
//! used more than once and are not short: an array of them, if they depend on indices. Elementwise
//! arrays are written without indices.
//!
//! | file | contents |
//! |---|---|
//! | `expr` | one expression |
//! | `lifted` | elementwise arrays without indices |
//! | `binder` | indices: their names, and whether their ends must be written |
//! | `number` | constants, sizes and affine integers |
//! | `recurrence` | recurrences |
//! | `reduction` | reductions, and sums of products |
//! | `steps` | loops |
//! | `block` | the names that a statement can use |
//! | `order` | the order of sums, which depends on the accesses in the text |

mod binder;
mod block;
mod expr;
mod lifted;
mod number;
mod order;
mod recurrence;
mod reduction;
mod steps;

use std::collections::{BTreeMap, BTreeSet};

use cranelift_entity::SecondaryMap;
use ir::Scalar;
use ir::checked::{Checked, Expr, ExprId, Extent, Factor, IndexId, Kind, Loop, LoopId, RecurrenceId, State, Subscript};
use ir::nest::{Symbol, SymbolSource};

use crate::check::{Signature, names};
use block::Block;
use expr::Text;
use steps::tuple;

/// Why a program is not written: it has something that the writer has no text for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unwritten(pub &'static str);

/// Words that no name may be, in addition to the functions of the language.
const WORDS: &[&str] = &["fn", "let", "rec", "if", "then", "else", "where", "loop", "while", "use", "grad", "jvp"];

/// Beyond this many operations, an expression that is used twice is a `let`.
const SHORT: usize = 6;

/// No expression has more operations than this, written out.
const LONGEST: usize = 20_000;

/// A `let` would read what a condition around its use protects.
const PROTECTED: Unwritten = Unwritten("an array under a condition that protects an access");

/// A `let` would read elements that are not computed before it.
const OF_EARLIER: Unwritten = Unwritten("an array of earlier elements of a recurrence");

/// A `let` would stand inside of an expression.
const INSIDE: Unwritten = Unwritten("an array inside an expression");

/// A `let` would stand in the condition of a loop.
const IN_CONDITION: Unwritten = Unwritten("a `while` that looks at an array which is not elementwise");

/// A sum would be added up in another order.
const OTHER_ORDER: Unwritten = Unwritten("a sum in an order that its text would not have");

/// A way to write a function. The accesses in a text decide the order of its sums, so that another
/// way may keep an order that one does not.
#[derive(Clone, Copy)]
struct Attempt {
    /// Whether scalars that depend on indices may become arrays, which have other subscripts than
    /// their operands.
    arrays: bool,
    /// Whether a sum may go over an array of its elements.
    elements: bool,
}

/// The ways to write a function, the most readable first.
const ATTEMPTS: [Attempt; 3] = [
    Attempt { arrays: true, elements: false },
    Attempt { arrays: false, elements: false },
    Attempt { arrays: true, elements: true },
];

/// The text of a function, in the one style.
pub fn write(checked: &Checked) -> Result<String, Unwritten> {
    let mut found = Err(OTHER_ORDER);
    for attempt in ATTEMPTS {
        if found == Err(OTHER_ORDER) {
            found = written(checked, attempt);
        }
    }
    found
}

/// The text of a function, in one of the ways to write it.
fn written(checked: &Checked, attempt: Attempt) -> Result<String, Unwritten> {
    let mut writer = Writer::new(checked, attempt);
    writer.define_all(None)?;
    let mut results = vec![];
    for (_, id) in &checked.results {
        results.push(writer.result(*id)?);
    }
    let result = tuple(results);
    let signature = Signature::new(checked);
    let params: Vec<String> = signature.params.iter().map(|slot| format!("{}: {}", slot.name, slot.ty())).collect();
    let types = tuple(signature.results.iter().map(|slot| slot.ty()).collect());
    // A size with the name of a parameter has no other one.
    let hidden = checked.symbols.values().any(|symbol| writer.is_hidden(symbol));
    let types = if hidden { String::new() } else { format!(" -> {types}") };
    // A condition that holds only of some sizes follows from the accesses.
    let stated: Vec<&str> =
        signature.requires.iter().map(String::as_str).filter(|text| !text.contains(" unless ")).collect();
    let conditions = if stated.is_empty() { String::new() } else { format!(" where {}", stated.join(" && ")) };
    let head = format!("fn {}({}){types}{conditions}", signature.name, params.join(", "));
    let text = match writer.block.lines.is_empty() {
        true => format!("{head} = {result}\n"),
        false => format!("{head} {{\n{}\n{result}\n}}\n", writer.block.lines.join("\n")),
    };
    grammar::format(&text).map_err(|_| Unwritten("an expression that does not parse"))
}

/// The text so far.
struct Writer<'c> {
    checked: &'c Checked,
    /// How it is written.
    attempt: Attempt,
    /// How often each expression is used.
    uses: SecondaryMap<ExprId, usize>,
    /// How often each array is read at indices, constants and sizes alone.
    reads: SecondaryMap<ExprId, usize>,
    /// The expressions that are the body of an array.
    bodies: BTreeSet<ExprId>,
    /// The number of operations of each expression, without those of `let`s.
    weights: SecondaryMap<ExprId, usize>,
    /// The indices that each expression mentions and does not bind, ascending.
    free: SecondaryMap<ExprId, Vec<IndexId>>,
    /// The recurrence that each expression reads earlier elements of, if it does: a `let` of it
    /// can only stand inside of that recurrence.
    under_way: SecondaryMap<ExprId, Option<RecurrenceId>>,
    /// Names for expressions that have none in the source.
    hints: SecondaryMap<ExprId, Option<String>>,
    /// The expressions that are used in the steps of each loop, and those outside of all.
    places: BTreeMap<Option<LoopId>, Vec<ExprId>>,
    /// Elementwise arrays that are written out where they are read.
    inlined: BTreeSet<ExprId>,
    /// The block that is being written.
    block: Block,
}

impl<'c> Writer<'c> {
    fn new(checked: &'c Checked, attempt: Attempt) -> Writer<'c> {
        let mut uses: SecondaryMap<ExprId, usize> = SecondaryMap::new();
        let mut free: SecondaryMap<ExprId, Vec<IndexId>> = SecondaryMap::new();
        let mut reads: SecondaryMap<ExprId, usize> = SecondaryMap::new();
        let mut bodies = BTreeSet::new();
        let mut hints: SecondaryMap<ExprId, Option<String>> = SecondaryMap::new();
        let plain = |subscript: &Subscript| {
            matches!(checked.exprs[subscript.value].kind, Kind::Index(_) | Kind::Constant(_) | Kind::Size(_))
        };
        checked.results.iter().for_each(|(_, id)| uses[*id] += 1);
        for (id, expr) in checked.exprs.iter().rev() {
            if uses[id] > 0 {
                checked.for_each_operand(&expr.kind, |operand| uses[operand] += 1);
                match &expr.kind {
                    Kind::Access { array, at } if at.iter().all(plain) => reads[*array] += 1,
                    Kind::Comprehension { body, .. } => {
                        bodies.insert(*body);
                        // A scalar is written as the array of its values: this one, perhaps.
                        hints[*body].clone_from(&expr.name);
                        if let Kind::Constant(value) = checked.exprs[*body].kind
                            && value == Scalar::zero(value.dtype())
                        {
                            hints[id] = Some("zeros".to_owned());
                        }
                    }
                    Kind::Loop { of, number, .. } => {
                        let states = &checked.loops[*of].states;
                        for State { current, next, .. } in states[*number].needs.iter().map(|part| &states[*part]) {
                            hints[*next].clone_from(&checked.exprs[*current].name);
                        }
                    }
                    _ => {}
                }
            }
        }
        for (id, expr) in &checked.exprs {
            let mut mentioned: Vec<IndexId> = match &expr.kind {
                Kind::Index(index) => vec![*index],
                Kind::State { of, .. } => {
                    let Loop { step, around, .. } = &checked.loops[*of];
                    around.iter().chain([step]).copied().collect()
                }
                Kind::Loop { of, .. } => checked.loops[*of].around.clone(),
                // How far the array is complete is another thing at each of its points.
                Kind::Earlier { recurrence, within, .. } => {
                    checked.recurrences[*recurrence].equations[*within].indices.clone()
                }
                Kind::Reduce { prefix, by, .. } => {
                    prefix.iter().map(|prefix| prefix.of).chain(by.iter().filter_map(Factor::key_of)).collect()
                }
                _ => vec![],
            };
            for index in checked.bound(&expr.kind) {
                if let Extent::Affine(extent) = &checked.indices[index].extent {
                    mentioned.extend(extent.terms().iter().map(|(index, _)| *index));
                }
            }
            checked.for_each_operand(&expr.kind, |operand| mentioned.extend(&free[operand]));
            mentioned.sort_unstable();
            mentioned.dedup();
            let bound: Vec<IndexId> = checked.bound(&expr.kind).collect();
            mentioned.retain(|index| !bound.contains(index));
            free[id] = mentioned;
        }
        let mut under_way: SecondaryMap<ExprId, Option<RecurrenceId>> = SecondaryMap::new();
        for (id, expr) in &checked.exprs {
            let mut read = None;
            match expr.kind {
                Kind::Earlier { recurrence, .. } => read = Some(recurrence),
                Kind::Recurrence { .. } => {}
                ref kind => checked.for_each_operand(kind, |operand| read = read.max(under_way[operand])),
            }
            under_way[id] = read;
        }
        let mut places: BTreeMap<Option<LoopId>, Vec<ExprId>> = BTreeMap::new();
        for (id, expr) in checked.exprs.iter().filter(|(id, _)| uses[*id] > 0) {
            places.entry(place(checked, expr, &free[id])).or_default().push(id);
        }
        let mut taken: BTreeSet<String> = names().map(str::to_owned).collect();
        taken.extend(WORDS.iter().map(|word| (*word).to_owned()));
        taken.extend(checked.params.iter().map(|param| param.name.clone()));
        taken.extend(checked.symbols.values().map(|symbol| symbol.name.clone()));
        Writer {
            checked,
            attempt,
            uses,
            reads,
            bodies,
            weights: SecondaryMap::new(),
            free,
            under_way,
            hints,
            places,
            inlined: BTreeSet::new(),
            block: Block::new(taken),
        }
    }

    /// Makes `let`s of the expressions in the steps of a loop, or of those outside of all.
    fn define_all(&mut self, place: Option<LoopId>) -> Result<(), Unwritten> {
        for id in self.places.get(&place).cloned().unwrap_or_default() {
            self.define(id)?;
        }
        Ok(())
    }

    /// Makes an expression a `let` if it is to be one.
    fn define(&mut self, id: ExprId) -> Result<(), Unwritten> {
        let expr = &self.checked.exprs[id];
        let mut weight = 1usize;
        self.checked.for_each_operand(&expr.kind, |operand| weight = weight.saturating_add(self.weights[operand]));
        self.weights[id] = weight;
        if weight > LONGEST {
            return Err(Unwritten("an expression that is too long, under a condition or an end that needs it there"));
        }
        if let Kind::Recurrence { recurrence, array } = expr.kind {
            return self.recurrence(id, recurrence, array);
        }
        let has_name = matches!(expr.kind, Kind::Param(_) | Kind::Earlier { .. } | Kind::State { .. });
        let is_array = !expr.ty.is_scalar() && !has_name;
        let around = self.outside(id);
        let alone = self.is_always(expr.guard)
            && !self.is_early(id)
            && around.iter().all(|index| self.checked.indices[*index].extent.as_size().is_some())
            && (is_array || self.attempt.arrays || around.is_empty());
        if let Kind::Loop { of, number, .. } = expr.kind {
            return if alone && !self.is_element(id, of) { self.let_loop(id, (of, number)) } else { Ok(()) };
        }
        let heavy = matches!(expr.kind, Kind::Reduce { .. } | Kind::Contract { .. })
            || weight > SHORT && expr.ty.dtype.is_float();
        let named = expr.name.is_some() && around.is_empty() && weight > 1;
        let (earlier, inline) = (self.is_early(id), is_array && self.is_inline(id));
        if is_array && !alone && !(earlier && inline) {
            return Err(if earlier { OF_EARLIER } else { PROTECTED });
        }
        if is_array && self.is_part(id) {
            return Ok(());
        }
        if inline && (self.uses[id] == 1 || weight <= SHORT || earlier) {
            self.inlined.insert(id);
            return Ok(());
        }
        if is_array || alone && (named || self.uses[id] > 1 && heavy) {
            // The last array is the result itself.
            let is_result = self.checked.results.len() == 1 && self.checked.results[0].1 == id && self.uses[id] == 1;
            if is_result && let Some(text) = self.lifted(id)? {
                self.block.lets.insert(id, (text.text, vec![]));
                return Ok(());
            }
            self.let_(id)?;
        }
        Ok(())
    }

    /// Whether an array is only the body of another one, which is written with the indices of both.
    fn is_part(&self, id: ExprId) -> bool {
        matches!(self.checked.exprs[id].kind, Kind::Comprehension { .. })
            && self.uses[id] == 1
            && self.bodies.contains(&id)
    }

    fn let_(&mut self, id: ExprId) -> Result<(), Unwritten> {
        let mut around = self.outside(id);
        let lifted = if around.is_empty() { self.lifted(id)? } else { None };
        self.order(id, &mut around);
        let (left, text) = match lifted {
            Some(text) => (String::new(), text),
            None => {
                let (mut indices, mut body) = (around.clone(), id);
                while let Kind::Comprehension { indices: own, body: inner } = &self.checked.exprs[body].kind
                    && (body == id || self.is_part(body))
                {
                    indices.extend(own);
                    body = *inner;
                }
                if let Some(name) = self.is_all_of(body, &indices) {
                    self.block.lets.insert(id, (name, around));
                    return Ok(());
                }
                let depth = self.block.scope.len();
                self.open(&indices);
                let text = if body == id { self.kind(id)? } else { self.expr(body)? };
                let names: Vec<String> =
                    indices.iter().map(|index| self.binder(*index, body)).collect::<Result<_, _>>()?;
                self.block.scope.truncate(depth);
                let left = if names.is_empty() { String::new() } else { format!("[{}]", names.join(", ")) };
                (left, text)
            }
        };
        let text = self.with_type(text, id);
        let name = self.let_text(self.name(id).as_deref(), format!("{left} = {}", text.text));
        self.block.lets.insert(id, (name, around));
        self.weights[id] = 1;
        Ok(())
    }

    /// The name of a `let` with this text behind its name.
    fn let_text(&mut self, like: Option<&str>, text: String) -> String {
        if let Some([name]) = self.block.definitions.get(&text).map(Vec::as_slice) {
            return name.clone();
        }
        let name = self.unique(like);
        self.block.lines.push(format!("let {name}{text}"));
        self.block.definitions.insert(text, vec![name.clone()]);
        name
    }

    /// The name of the array that a body at some indices has all elements of, in order.
    fn is_all_of(&self, body: ExprId, indices: &[IndexId]) -> Option<String> {
        if let Some((name, all)) = self.block.lets.get(&body) {
            return (*all == indices).then(|| name.clone());
        }
        let Kind::Access { array, at } = &self.checked.exprs[body].kind else { return None };
        let (name, mut all) = self.array(*array).ok()?;
        for (subscript, length) in at.iter().zip(&self.checked.exprs[*array].ty.shape) {
            let Kind::Index(index) = self.checked.exprs[subscript.value].kind else { return None };
            if self.checked.indices[index].extent.as_size() != Some(length) {
                return None;
            }
            all.push(index);
        }
        (all == indices).then_some(name)
    }

    /// Puts the index last that stands in the last subscript of the access that mentions the most:
    /// the order of a sum depends on it.
    fn order(&self, id: ExprId, indices: &mut Vec<IndexId>) {
        let (mut most, mut last) = (0, None);
        let (mut pending, mut seen) = (vec![id], BTreeSet::new());
        while let Some(id) = pending.pop() {
            if !seen.insert(id) {
                continue;
            }
            let kind = &self.checked.exprs[id].kind;
            if let Kind::Access { at, .. } = kind
                && let Some(end) = at.last()
            {
                let count = indices.iter().filter(|index| self.free[id].contains(index)).count();
                let along = indices.iter().find(|index| self.free[end.value].contains(index));
                if count > most && along.is_some() {
                    (most, last) = (count, along.copied());
                }
            }
            self.checked.for_each_operand(kind, |operand| pending.push(operand));
        }
        if let Some(last) = last {
            indices.retain(|index| *index != last);
            indices.push(last);
        }
    }

    /// Whether a parameter that is not the size itself has the name of a size.
    fn is_hidden(&self, symbol: &Symbol) -> bool {
        let is_size = |number: usize| matches!(symbol.source, SymbolSource::Scalar { input } if input == number);
        self.checked.params.iter().enumerate().any(|(number, param)| param.name == symbol.name && !is_size(number))
    }

    fn result(&mut self, id: ExprId) -> Result<String, Unwritten> {
        let text = self.expr(id)?;
        Ok(self.with_type(text, id).text)
    }

    /// A name for an expression: that in the source, if it has one.
    fn name(&self, id: ExprId) -> Option<String> {
        self.checked.exprs[id].name.clone().or_else(|| self.hints[id].clone())
    }

    /// A name that is not taken, like one if there is one.
    fn unique(&mut self, like: Option<&str>) -> String {
        let like = like.unwrap_or("t");
        let mut name = like.to_owned();
        let mut number = 1;
        while self.is_taken(&name) || name == "_" {
            number += 1;
            name = format!("{}{number}", if like == "_" { "t" } else { like });
        }
        self.block.taken.insert(name.clone());
        name
    }

    /// Whether a name has a meaning here.
    fn is_taken(&self, name: &str) -> bool {
        self.block.taken.contains(name) || self.block.scope.iter().any(|(_, other)| other == name)
    }

    /// A text that has the type of its expression without a context.
    fn with_type(&self, text: Text, id: ExprId) -> Text {
        if text.typed { text } else { Text::atom(format!("{}({})", self.checked.exprs[id].ty.dtype, text.text)) }
    }
}

/// The loop with steps that an expression belongs to: the innermost one that it depends on, or that
/// has it only where its condition holds.
fn place(checked: &Checked, expr: &Expr, free: &[IndexId]) -> Option<LoopId> {
    let is_under = |one: &Loop| one.condition.is_some() && one.guard != Checked::TOP;
    let guarded = checked.loops.iter().filter(|(_, one)| is_under(one) && checked.within(expr.guard, one.guard));
    // Loops come after those around them.
    free.iter().filter_map(|index| checked.steps[*index]).chain(guarded.map(|(of, _)| of)).max()
}
