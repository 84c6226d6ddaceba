//! The program generator: well-typed programs of the language, as a person might write them, with
//! inputs.
//!
//! It knows the rules of the language, and of the compiler only the table of scalar functions.
//! Decisions come from lists of numbers, one list for each helper function, each `let` and the
//! result ([`Recipe`]). So shrinking drops statements and simplifies the others.

mod attention;
mod choice;
mod condition;
pub mod data;
mod dim;
mod elsewhere;
mod expr;
mod functions;
mod idiom;
mod leaf;
pub mod looped;
mod nested;
mod piece;
mod recurrence;
mod reduce;
mod scope;
mod shipped;
mod sorted;
mod statement;
mod visible;

use std::collections::BTreeSet;
use std::fmt;

use ir::Dtype;

pub use choice::Choices;
use data::Random;
pub use dim::Dim;
use expr::Writer;
use functions::{Helper, function_text, generic, type_text};
use piece::Piece;
use scope::{Scope, Value};
use shipped::shipped_text;

/// The decisions that make a program and its inputs.
#[derive(Clone, PartialEq, Eq)]
pub struct Recipe {
    /// Parameters.
    pub header: Vec<u16>,
    /// Each function that the entry may call.
    pub helpers: Vec<Vec<u16>>,
    /// Each `let` of the entry.
    pub lets: Vec<Vec<u16>>,
    /// The entry's result.
    pub result: Vec<u16>,
    /// Sizes and elements of the inputs.
    pub data: u64,
}

/// A parameter of the entry.
#[derive(Clone, Debug)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub ty: Dtype,
    /// Its axes; none for a scalar.
    pub shape: Vec<Dim>,
    /// The role of its elements.
    pub role: ParamRole,
}

/// The role of a parameter's elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParamRole {
    /// Anything.
    Ordinary,
    /// Whole numbers of a few units, for contractions.
    Small,
    /// Subscripts below this.
    Below(Dim),
    /// A scalar that is the size of this name.
    Size,
    /// An integer scalar, small or extreme.
    Extreme,
}

/// A program with everything needed to call it.
#[derive(Clone, Debug)]
pub struct Program {
    /// The text.
    pub source: String,
    /// The name of the function to call.
    pub entry: &'static str,
    /// Its parameters.
    pub params: Vec<Param>,
    /// Its size names.
    pub sizes: Vec<String>,
    /// Lengths that must not be negative.
    pub lengths: Vec<Dim>,
    /// How many elements each loop nest goes through.
    pub work: Vec<Dim>,
    /// Which constructs occur in it.
    pub constructs: BTreeSet<&'static str>,
    /// Seeds its inputs.
    pub data: u64,
}

impl fmt::Debug for Recipe {
    /// The program first, for the reader of a failure; then the numbers that reproduce it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Recipe { header, helpers, lets, result, data } = self;
        writeln!(f, "\n{}", self.program().source)?;
        write!(
            f,
            "Recipe {{ header: vec!{header:?}, helpers: {helpers:?}.map(Vec::from).into(), \
             lets: {lets:?}.map(Vec::from).into(), result: vec!{result:?}, data: {data} }}"
        )
    }
}

impl Program {
    /// The entry's parameters as the source writes them.
    #[must_use]
    pub fn heads(&self) -> Vec<String> {
        self.params.iter().map(|param| format!("{}: {}", param.name, type_text(param.ty, &param.shape))).collect()
    }
}

impl Recipe {
    /// A recipe at random.
    pub fn drawn(seed: u64) -> Recipe {
        let mut random = Random::new(seed);
        let mut words = |most: i64| -> Vec<u16> {
            let count = most / 3 + random.below(most - most / 3);
            // The high bits of each draw.
            (0..count).map(|_| (random.bits() >> 48) as u16).collect()
        };
        let (header, result) = (words(60), words(90));
        let counts = words(6);
        let several = |n: usize| usize::from(counts.get(n).copied().unwrap_or(0));
        let helpers = (0..several(0) % 3).map(|_| words(60)).collect();
        let lets = (0..several(1) % 6).map(|_| words(120)).collect();
        Recipe { header, helpers, lets, result, data: random.bits() }
    }

    /// The program of this recipe.
    pub fn program(&self) -> Program {
        let mut helpers: Vec<Helper> = vec![];
        for (words, name) in self.helpers.iter().zip(["f", "g", "h"]) {
            let helper = functions::helper(words, name, &helpers);
            helpers.push(helper);
        }
        let mut choices = Choices::new(&self.header);
        let attends = self.data % 32 == 14;
        let (params, sizes) = if attends { attention::params(&mut choices) } else { params(&mut choices) };
        let narrow = params.iter().filter(|p| p.role == ParamRole::Size && p.ty != Dtype::I64).map(|p| p.name.clone());
        let mut scope = Scope { sizes: sizes.clone(), narrow: narrow.collect(), ..Scope::default() };
        for param in &params {
            scope.define(Value {
                name: param.name.clone(),
                ty: param.ty,
                shape: param.shape.clone(),
                small: param.role == ParamRole::Small,
                below: if let ParamRole::Below(dim) = &param.role { Some(dim.clone()) } else { None },
                uses: BTreeSet::new(),
                may_contract: false,
            });
            if param.role == ParamRole::Extreme {
                scope.extremes.push((param.name.clone(), param.ty));
            }
        }
        let mut lets = vec![];
        let mut work = vec![];
        let mut constructs = BTreeSet::new();
        let mut shipped = BTreeSet::new();
        let alone: Vec<&str> = params.iter().flat_map(|p| &p.shape).filter_map(Dim::as_name).collect();
        if sizes.iter().any(|size| size != "count" && !alone.contains(&size.as_str())) {
            constructs.insert("solved length");
        }
        if attends {
            let mut writer = Writer::new(&self.header, scope, &helpers);
            writer.choices = choices;
            lets.extend(writer.attention());
            work.append(&mut writer.work);
            constructs.append(&mut writer.constructs);
            scope = writer.scope;
        }
        // Each further array of the size of the scores would take as long as another program.
        for words in self.lets.iter().take(if attends { 1 } else { usize::MAX }) {
            let mut writer = Writer::new(words, scope, &helpers);
            writer.loops_apart = true;
            lets.extend(writer.statement());
            work.append(&mut writer.work);
            constructs.append(&mut writer.constructs);
            shipped.append(&mut writer.shipped);
            scope = writer.scope;
        }
        let mut writer = Writer::new(&self.result, scope, &helpers);
        let (types, result) = writer.result();
        work.append(&mut writer.work);
        constructs.append(&mut writer.constructs);
        let lengths = writer.scope.values.iter().flat_map(|v| v.shape.clone()).collect();
        let heads: Vec<String> = params.iter().map(|p| format!("{}: {}", p.name, type_text(p.ty, &p.shape))).collect();
        let mut source = shipped_text(&shipped);
        source.extend(helpers.iter().filter(|h| is_used(h, &helpers, &lets, &result)).map(|h| h.text.as_str()));
        if self.data.is_multiple_of(16) {
            source.push_str("@kernels(100000)\n");
        }
        if self.data % 16 == 5 {
            source.push_str("@fast\n");
        }
        let is_single = !result.starts_with('(')
            && !result.contains("then (")
            && types.as_deref().is_none_or(|types| !types.starts_with('('));
        match self.data % 32 {
            // Called through many functions, each of which calls the next.
            3 if is_single => {
                constructs.insert("chain of calls");
                source.push_str(&function_text("inner0", &heads, types.as_deref(), &lets, &result));
                let names: Vec<&str> = params.iter().map(|param| param.name.as_str()).collect();
                let depth = CHAINS[usize::try_from(self.data >> 5).unwrap_or(0) % CHAINS.len()];
                let call = |n: usize| format!("inner{n}({})", names.join(", "));
                (1..depth)
                    .for_each(|n| source += &function_text(&format!("inner{n}"), &heads, None, &[], &call(n - 1)));
                source.push_str(&function_text("main", &heads, None, &[], &call(depth - 1)));
            }
            // A wide call graph: `main` calls many functions that all call one.
            4 if is_single => {
                constructs.insert("many calls");
                source.push_str(&function_text("inner", &heads, types.as_deref(), &lets, &result));
                let names: Vec<&str> = params.iter().map(|param| param.name.as_str()).collect();
                let given = names.join(", ");
                let count = FANS[usize::try_from(self.data >> 5).unwrap_or(0) % FANS.len()];
                for n in 0..count {
                    source += &function_text(&format!("inner{n}"), &heads, None, &[], &format!("inner({given})"));
                }
                let unused: Vec<String> = (1..count).map(|n| format!("let _ = inner{n}({given})")).collect();
                source.push_str(&function_text("main", &heads, None, &unused, &format!("inner0({given})")));
            }
            kind => {
                // A condition that holds of every call.
                let size = sizes.iter().find(|size| kind == 9 && *size != "count");
                let after = match (types, size) {
                    (Some(types), Some(size)) => {
                        constructs.insert("stated condition");
                        Some(format!("{types} where {size} >= 0 && {size} < {size} + 1"))
                    }
                    (types, _) => types,
                };
                let main = function_text("main", &heads, after.as_deref(), &lets, &result);
                let takes_floats = (10..14).contains(&kind) && params.iter().any(|param| param.ty == Dtype::F32);
                let general = if takes_floats { generic(&main, &helpers) } else { None };
                constructs.extend(general.is_some().then_some("entry over float"));
                source.push_str(general.as_ref().unwrap_or(&main));
            }
        }
        // Functions of the file shadow those of the language.
        if self.data % 8 == 1 && !source.contains("acosh(") {
            source = renamed(&source, "f(", "acosh(");
        }
        Program { source, entry: "main", params, sizes, lengths, work, constructs, data: self.data }
    }
}

/// The length of the chain of calls, if there is one.
const CHAINS: [usize; 4] = [1, 3, 20, 150];

/// The numbers of callers in a wide call graph.
const FANS: [usize; 4] = [1, 2, 12, 60];

/// The text with a word exchanged for another.
fn renamed(text: &str, word: &str, by: &str) -> String {
    let mut pieces = text.split(word);
    let mut renamed = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let inner = renamed.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        renamed.push_str(if inner { word } else { by });
        renamed.push_str(piece);
    }
    renamed
}

fn is_used(helper: &Helper, helpers: &[Helper], lets: &[String], result: &str) -> bool {
    let call = format!("{}(", helper.name);
    let calls =
        |text: &str| text.match_indices(&call).any(|(at, _)| !text[..at].ends_with(|c: char| c.is_alphanumeric()));
    let others = helpers.iter().filter(|h| h.name != helper.name).map(|h| h.text.as_str());
    lets.iter().map(String::as_str).chain([result]).chain(others).any(calls)
}

/// The entry's parameters and size names.
fn params(choices: &mut Choices<'_>) -> (Vec<Param>, Vec<String>) {
    let mut params: Vec<Param> = vec![];
    let mut sizes: Vec<String> = vec![];
    let count = 1 + choices.below(4);
    let types = [
        (10, Dtype::F32),
        (4, Dtype::I64),
        (4, Dtype::F64),
        (4, Dtype::I32),
        (1, Dtype::Bool),
        (3, Dtype::U32),
        (3, Dtype::F16),
        (2, Dtype::I8),
        (2, Dtype::U64),
        (2, Dtype::Bf16),
        (2, Dtype::U8),
        (2, Dtype::I16),
        (2, Dtype::U16),
    ];
    let integers = [
        (6, Dtype::I64),
        (5, Dtype::I32),
        (2, Dtype::U32),
        (2, Dtype::I8),
        (4, Dtype::U64),
        (2, Dtype::U8),
        (1, Dtype::I16),
        (1, Dtype::U16),
    ];
    let common = choices.weighted(&types).unwrap_or(Dtype::F32);
    let names = ["n", "m", "k"];
    let names = &names[..choices.weighted(&[(8, 2), (7, 3), (2, 1)]).unwrap_or(2)];
    for n in 0..count {
        let mut ty = if choices.chance(30) { choices.weighted(&types).unwrap_or(common) } else { common };
        let name = ["x", "y", "z", "w"][n].to_owned();
        let dims: Vec<Dim> = params.iter().flat_map(|p| p.shape.clone()).collect();
        let kind = if n == 0 { 0 } else { choices.below(15) };
        let mut role = ParamRole::Ordinary;
        let mut shape = vec![];
        match kind {
            8 | 12 | 13 => {
                role = ParamRole::Below(choices.pick(&dims).cloned().unwrap_or_default());
                ty = choices.weighted(&integers).unwrap_or(Dtype::I64);
                shape.push(axis(choices, names, &sizes));
            }
            9 if choices.chance(50) && !sizes.contains(&"count".to_owned()) => {
                role = ParamRole::Size;
                ty = choices.weighted(&integers).unwrap_or(Dtype::I64);
            }
            9 | 14 => {
                role = ParamRole::Extreme;
                ty = choices.weighted(&integers).unwrap_or(Dtype::I64);
            }
            10 => {}
            _ => {
                if ty != Dtype::Bool && choices.chance(25) {
                    role = ParamRole::Small;
                }
                let rank = choices.weighted(&[(5, 1), (6, 2), (1, 3)]).unwrap_or(1);
                for _ in 0..rank {
                    let mut dim = axis(choices, names, &sizes);
                    // Mostly another name than the axis before.
                    if shape.last() == Some(&dim) && choices.chance(75) {
                        dim = axis(choices, names, &sizes);
                    }
                    shape.push(dim);
                }
            }
        }
        for dim in &shape {
            for name in dim.names() {
                if !sizes.contains(&name) {
                    sizes.push(name);
                }
            }
        }
        let name = if role == ParamRole::Size { "count".to_owned() } else { name };
        if role == ParamRole::Size {
            sizes.push(name.clone());
        }
        params.push(Param { name, ty, shape, role });
    }
    (params, sizes)
}

/// An axis of a parameter: mostly a name, now and then a number or an expression of a name that is
/// bound before.
fn axis(choices: &mut Choices<'_>, names: &[&str], bound: &[String]) -> Dim {
    let name = Dim::name(choices.pick(names).unwrap_or(&"n"));
    let known: Vec<Dim> = bound.iter().map(|name| Dim::name(name)).collect();
    match (choices.below(26), known.as_slice()) {
        (18, _) => Dim::constant(3),
        (19, [first, ..]) => first.offset(1),
        (20, [first, ..]) => first.times(&Dim::constant(2)),
        (21, [first, second, ..]) => first.times(second),
        (22, [first, ..]) => first.every(2),
        (23, [first, second, ..]) => first.over(second),
        // A name that no axis has alone is solved for.
        (24 | 25, _) => {
            let by = Dim::constant(choices.weighted(&[(3, 2), (2, 1), (2, 3)]).unwrap_or(2));
            let more = match choices.below(6) {
                0 | 1 => Dim::constant(1),
                2 => Dim::constant(-1),
                3 => Dim::constant(2),
                4 => choices.pick(&known).cloned().unwrap_or_default(),
                _ => Dim::default(),
            };
            name.times(&by).plus(&more)
        }
        _ => name,
    }
}

impl Writer<'_> {
    /// The entry's result with its type, if that is written.
    fn result(&mut self) -> (Option<String>, String) {
        let latest = self.scope.values.last().cloned();
        let values: Vec<Value> = self.scope.values.iter().rev().filter(|v| !v.shape.is_empty()).cloned().collect();
        match (latest, self.choices.below(8)) {
            (Some(value), 0) => (None, value.name),
            (_, 1..5) if values.len() > 1 => {
                self.count("tuple result");
                let parts: Vec<&Value> = values.iter().take(2 + self.choices.below(3)).collect();
                let named = self.choices.chance(60);
                let names = ["s", "t", "u", "v"];
                let chosen: Vec<(Dtype, Vec<Dim>)> = parts.iter().map(|v| (v.ty, v.shape.clone())).collect();
                let types: Vec<String> =
                    parts.iter().zip(names).map(|(v, name)| format!("{name}: {}", type_text(v.ty, &v.shape))).collect();
                let result: Vec<String> = parts.iter().map(|v| v.name.clone()).collect();
                let types = named.then(|| format!("({})", types.join(", ")));
                if self.choices.chance(8) {
                    return (types, self.branches(&chosen).0);
                }
                (types, format!("({})", result.join(", ")))
            }
            (latest, choice) => {
                let (ty, shape) = match latest {
                    Some(value) if choice < 7 => (value.ty, value.shape),
                    _ => {
                        let ty = self.some_type();
                        (ty, self.some_shape_of(ty))
                    }
                };
                let Piece { text, .. } = self.expr(ty, &shape, 3);
                (self.choices.chance(40).then(|| type_text(ty, &shape)), text)
            }
        }
    }
}
