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
//! | `order` | the order of sums, which depends on the accesses in the text |

mod binder;
mod expr;
mod lifted;
mod number;
mod order;
mod recurrence;

use std::collections::{BTreeMap, BTreeSet};

use cranelift_entity::SecondaryMap;
use ir::checked::{Checked, ExprId, Extent, Factor, IndexId, Kind, RecurrenceId, Subscript};
use ir::nest::{Symbol, SymbolSource};

use crate::check::{Signature, names};
use expr::Text;

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

/// A sum would be added up in another order.
const OTHER_ORDER: Unwritten = Unwritten("a sum in an order that its text would not have");

/// The text of a function, in the one style.
pub fn write(checked: &Checked) -> Result<String, Unwritten> {
    match written(checked, true) {
        // An array for a scalar has other subscripts than what it is computed from.
        Err(OTHER_ORDER) => written(checked, false),
        result => result,
    }
}

/// The text of a function. With `arrays`, scalars that depend on indices may become arrays.
fn written(checked: &Checked, arrays: bool) -> Result<String, Unwritten> {
    let mut writer = Writer::new(checked, arrays);
    let ids: Vec<ExprId> = checked.exprs.keys().filter(|id| writer.uses[*id] > 0).collect();
    for id in ids {
        writer.define(id)?;
    }
    let mut results = vec![];
    for (_, id) in &checked.results {
        results.push(writer.result(*id)?);
    }
    let result = if let [one] = results.as_slice() { one.clone() } else { format!("({})", results.join(", ")) };
    let signature = Signature::new(checked);
    let params: Vec<String> = signature.params.iter().map(|slot| format!("{}: {}", slot.name, slot.ty())).collect();
    let types: Vec<String> = signature.results.iter().map(|slot| slot.ty()).collect();
    let types = if let [one] = types.as_slice() { one.clone() } else { format!("({})", types.join(", ")) };
    // A size with the name of a parameter has no other one.
    let hidden = checked.symbols.values().any(|symbol| writer.is_hidden(symbol));
    let types = if hidden { String::new() } else { format!(" -> {types}") };
    // A condition that holds only of some sizes follows from the accesses.
    let stated: Vec<&str> =
        signature.requires.iter().map(String::as_str).filter(|text| !text.contains(" unless ")).collect();
    let conditions = if stated.is_empty() { String::new() } else { format!(" where {}", stated.join(" && ")) };
    let head = format!("fn {}({}){types}{conditions}", signature.name, params.join(", "));
    let text = match writer.lines.is_empty() {
        true => format!("{head} = {result}\n"),
        false => format!("{head} {{\n{}\n{result}\n}}\n", writer.lines.join("\n")),
    };
    grammar::format(&text).map_err(|_| Unwritten("an expression that does not parse"))
}

/// The text so far.
struct Writer<'c> {
    checked: &'c Checked,
    /// Whether scalars that depend on indices may become arrays.
    arrays: bool,
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
    /// The `let`s: the name, and the indices of the array that stands for a scalar or an array that
    /// depends on indices.
    lets: BTreeMap<ExprId, (String, Vec<IndexId>)>,
    /// The names of the arrays of recurrences.
    recurrences: BTreeMap<RecurrenceId, Vec<String>>,
    /// The expressions that read a recurrence under way, so that no `let` before it can be theirs.
    under_way: SecondaryMap<ExprId, bool>,
    /// The indices in scope, with their names.
    scope: Vec<(IndexId, String)>,
    /// The names of `let`s by their text behind the name, so that equal ones are one.
    definitions: BTreeMap<String, String>,
    /// Elementwise arrays that are written out where they are read.
    inlined: BTreeSet<ExprId>,
    /// The names that are taken.
    taken: BTreeSet<String>,
    /// The statements.
    lines: Vec<String>,
}

impl<'c> Writer<'c> {
    fn new(checked: &'c Checked, arrays: bool) -> Writer<'c> {
        let mut uses: SecondaryMap<ExprId, usize> = SecondaryMap::new();
        let mut free: SecondaryMap<ExprId, Vec<IndexId>> = SecondaryMap::new();
        let mut reads: SecondaryMap<ExprId, usize> = SecondaryMap::new();
        let mut bodies = BTreeSet::new();
        let plain = |subscript: &Subscript| {
            matches!(checked.exprs[subscript.value].kind, Kind::Index(_) | Kind::Constant(_) | Kind::Size(_))
        };
        checked.results.iter().for_each(|(_, id)| uses[*id] += 1);
        for (id, expr) in checked.exprs.iter().rev() {
            if uses[id] > 0 {
                checked.for_each_operand(&expr.kind, |operand| uses[operand] += 1);
                match &expr.kind {
                    Kind::Access { array, at } if at.iter().all(plain) => reads[*array] += 1,
                    Kind::Comprehension { body, .. } => _ = bodies.insert(*body),
                    _ => {}
                }
            }
        }
        for (id, expr) in &checked.exprs {
            let mut mentioned: Vec<IndexId> = match &expr.kind {
                Kind::Index(index) => vec![*index],
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
        let mut under_way: SecondaryMap<ExprId, bool> = SecondaryMap::new();
        for (id, expr) in &checked.exprs {
            let mut reads = matches!(expr.kind, Kind::Earlier { .. });
            if !matches!(expr.kind, Kind::Recurrence { .. }) {
                checked.for_each_operand(&expr.kind, |operand| reads |= under_way[operand]);
            }
            under_way[id] = reads;
        }
        let mut taken: BTreeSet<String> = names().map(str::to_owned).collect();
        taken.extend(WORDS.iter().map(|word| (*word).to_owned()));
        taken.extend(checked.params.iter().map(|param| param.name.clone()));
        taken.extend(checked.symbols.values().map(|symbol| symbol.name.clone()));
        Writer {
            checked,
            arrays,
            uses,
            reads,
            bodies,
            weights: SecondaryMap::new(),
            free,
            lets: BTreeMap::new(),
            recurrences: BTreeMap::new(),
            under_way,
            scope: vec![],
            definitions: BTreeMap::new(),
            inlined: BTreeSet::new(),
            taken,
            lines: vec![],
        }
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
        let is_array = !expr.ty.is_scalar() && !matches!(expr.kind, Kind::Param(_) | Kind::Earlier { .. });
        let alone = expr.guard == Checked::TOP
            && !self.under_way[id]
            && self.free[id].iter().all(|index| self.checked.indices[*index].extent.as_size().is_some())
            && (is_array || self.arrays || self.free[id].is_empty());
        let heavy = matches!(expr.kind, Kind::Reduce { .. } | Kind::Contract { .. })
            || weight > SHORT && expr.ty.dtype.is_float();
        let named = expr.name.is_some() && self.free[id].is_empty() && weight > 1;
        let (earlier, inline) = (self.under_way[id], is_array && self.is_inline(id));
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
                self.lets.insert(id, (text.text, vec![]));
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
        let lifted = match self.free[id].is_empty() {
            true => self.lifted(id)?,
            false => None,
        };
        let mut around = self.free[id].clone();
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
                let depth = self.scope.len();
                self.open(&indices);
                let text = if body == id { self.kind(id)? } else { self.expr(body)? };
                let names: Vec<String> =
                    indices.iter().map(|index| self.binder(*index, body)).collect::<Result<_, _>>()?;
                self.scope.truncate(depth);
                let left = if names.is_empty() { String::new() } else { format!("[{}]", names.join(", ")) };
                (left, text)
            }
        };
        let text = self.with_type(text, id);
        let definition = format!("{left} = {}", text.text);
        let name = match self.definitions.get(&definition) {
            Some(name) => name.clone(),
            None => {
                let name = self.unique(self.checked.exprs[id].name.as_deref());
                self.lines.push(format!("let {name}{definition}"));
                self.definitions.insert(definition, name.clone());
                name
            }
        };
        self.lets.insert(id, (name, around));
        self.weights[id] = 1;
        Ok(())
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

    /// A name that is not taken, like one if there is one.
    fn unique(&mut self, like: Option<&str>) -> String {
        let like = like.unwrap_or("t");
        let mut name = like.to_owned();
        let mut number = 1;
        while self.taken.contains(&name) || name == "_" {
            number += 1;
            name = format!("{}{number}", if like == "_" { "t" } else { like });
        }
        self.taken.insert(name.clone());
        name
    }

    /// A text that has the type of its expression without a context.
    fn with_type(&self, text: Text, id: ExprId) -> Text {
        if text.typed { text } else { Text::atom(format!("{}({})", self.checked.exprs[id].ty.dtype, text.text)) }
    }
}
