//! Functions: their text, and the facts that a caller needs.

use std::collections::BTreeMap;

use ir::Dtype;

use super::dim::Dim;
use super::expr::Writer;
use super::piece::{Names, Piece, TYPES};
use super::scope::{Scope, Value};

/// A function that others may call.
#[derive(Clone, Debug, Default)]
pub struct Helper {
    /// Its name.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Its size names.
    pub sizes: Vec<String>,
    /// Name, type and axes of each parameter.
    pub params: Vec<(String, Dtype, Vec<Dim>)>,
    /// Name (if it has one), type and axes of each result.
    pub results: Vec<(Option<String>, Dtype, Vec<Dim>)>,
    /// The number of elements that each of its loop nests visits.
    pub work: Vec<Dim>,
    /// Whether its result is a product that a sum over it might turn into a contraction.
    pub may_contract: bool,
    /// The names that its results depend on, its parameters among them.
    pub mentions: Names,
    /// Whether its floats are of the type `float`, so that calls choose among [`FLOATS`].
    pub is_generic: bool,
}

/// The types that `float` may be.
pub const FLOATS: [Dtype; 2] = [Dtype::F32, Dtype::F64];

impl Helper {
    /// Whether its parameters and results are scalars, so that it lifts over arrays.
    pub fn is_scalar(&self) -> bool {
        self.params.iter().all(|(_, _, axes)| axes.is_empty())
            && self.results.iter().all(|(_, _, axes)| axes.is_empty())
    }

    /// The function as calls in some type see it: for `f64`, with all its floats of that type.
    pub fn at(&self, ty: Dtype) -> Helper {
        let mut helper = self.clone();
        if self.is_generic && ty == Dtype::F64 {
            let types = helper.params.iter_mut().map(|(_, ty, _)| ty);
            let types = types.chain(helper.results.iter_mut().map(|(_, ty, _)| ty));
            types.filter(|ty| **ty == Dtype::F32).for_each(|one| *one = ty);
        }
        helper
    }

    /// The function in each of the types that its calls may choose.
    pub fn instances(&self) -> Vec<Helper> {
        let types = if self.is_generic { &FLOATS[..] } else { &FLOATS[..1] };
        types.iter().map(|ty| self.at(*ty)).collect()
    }

    /// The sizes under which a result with these axes has the given shape.
    pub fn sizes_for(&self, axes: &[Dim], shape: &[Dim]) -> Option<BTreeMap<String, Dim>> {
        if self.is_scalar() {
            return Some(BTreeMap::new());
        }
        let mut sizes = BTreeMap::new();
        if axes.len() != shape.len() {
            return None;
        }
        for (axis, wanted) in axes.iter().zip(shape) {
            let known = sizes.entry(axis.as_name()?.to_owned()).or_insert_with(|| wanted.clone());
            if known != wanted {
                return None;
            }
        }
        Some(sizes)
    }
}

/// A type as text.
pub fn type_text(ty: Dtype, shape: &[Dim]) -> String {
    let sizes: Vec<String> = shape.iter().map(Dim::to_string).collect();
    if sizes.is_empty() { ty.name().into() } else { format!("{}[{}]", ty.name(), sizes.join(", ")) }
}

/// A whole function as text: on one line if it has no statements.
pub fn function_text(name: &str, params: &[String], results: Option<&str>, lets: &[String], result: &str) -> String {
    let arrow = results.map(|r| format!(" -> {r}")).unwrap_or_default();
    let head = format!("fn {name}({}){arrow}", params.join(", "));
    match lets {
        [] => format!("{head} = {result}\n"),
        _ => format!("{head} {{\n    {}\n    {result}\n}}\n", lets.join("\n    ")),
    }
}

/// Writes a helper: a scalar function, or one over arrays of sizes of its own.
pub fn helper(words: &[u16], name: &str, helpers: &[Helper]) -> Helper {
    let mut writer = Writer::new(words, Scope::default(), helpers);
    let scalar = !writer.choices.chance(60);
    let count = 1 + writer.choices.below(2);
    let rare = writer.choices.chance(35);
    let ty = *writer.choices.pick(if rare { &TYPES } else { &TYPES[..4] }).unwrap_or(&Dtype::F32);
    let is_general = writer.choices.chance(50);
    let ty = if is_general { Dtype::F32 } else { ty };
    let mut helper = Helper { name: name.into(), ..Helper::default() };
    if !scalar {
        helper.sizes = vec!["p".into(), "q".into()];
    }
    for n in 0..count {
        let axes: &[&str] = match (scalar, n) {
            (true, _) => &[],
            // The first parameter binds both size names.
            (false, 0) => &["p", "q"],
            (false, _) => writer.choices.pick(&[&["p"][..], &["q"], &["p", "q"], &[]]).copied().unwrap_or(&["p"]),
        };
        let mut axes: Vec<Dim> = axes.iter().map(|axis| Dim::name(axis)).collect();
        if !scalar && n == 0 && !writer.choices.chance(40) {
            helper.sizes = vec!["p".into()];
            axes.truncate(1);
        }
        axes.retain(|axis| axis.as_name().is_none_or(|name| helper.sizes.iter().any(|s| s == name)));
        let is_number = writer.choices.chance(15) && !(is_general && n == 0);
        let ty = if is_number { Dtype::I64 } else { ty };
        helper.params.push((["x", "y"][n].into(), ty, axes));
    }
    writer.scope.sizes.clone_from(&helper.sizes);
    for (name, ty, shape) in &helper.params {
        writer.scope.define(Value {
            name: name.clone(),
            ty: *ty,
            shape: shape.clone(),
            small: false,
            below: None,
            uses: [parameter(name)].into(),
            may_contract: false,
        });
    }
    let mut lets = vec![];
    if writer.choices.chance(if scalar { 8 } else { 50 }) {
        lets.extend(writer.statement());
    }
    let shape = match (scalar, writer.choices.below(4)) {
        (true, _) | (false, 3) => vec![],
        (false, 0 | 1) => helper.params[0].2.clone(),
        (false, _) => vec![Dim::name("p")],
    };
    let tuple = !scalar && writer.choices.chance(25);
    let result = writer.expr(ty, &shape, 3);
    let mut text = result.text.clone();
    let mut types = type_text(ty, &shape);
    helper.may_contract = result.may_contract();
    helper.mentions = result.uses;
    helper.results = vec![(None, ty, shape)];
    if tuple {
        let other_shape = writer.some_shape_of(ty);
        let other = writer.expr(ty, &other_shape, 2);
        text = format!("({}, {})", result.text, other.text);
        types = format!("({types}, {})", type_text(ty, &other_shape));
        helper.results.push((None, ty, other_shape));
        helper.may_contract |= other.may_contract();
        helper.mentions.extend(other.uses);
    }
    let types = (tuple || writer.choices.chance(50)).then_some(types);
    let params: Vec<String> =
        helper.params.iter().map(|(n, ty, axes)| format!("{n}: {}", type_text(*ty, axes))).collect();
    helper.text = function_text(name, &params, types.as_deref(), &lets, &text);
    if is_general && let Some(text) = generic(&helper.text, helpers) {
        helper.text = text;
        helper.is_generic = true;
    }
    helper.work = writer.work;
    helper
}

/// A text with `float` in place of `f32`, if it may stand there: where calls in `f64` are valid,
/// too.
pub fn generic(text: &str, helpers: &[Helper]) -> Option<String> {
    // Bits have a type of one width. Half precision is widened to `f32` alone. A named array of
    // literals has the type of each use, but `f32` where a reducer takes it.
    let is_bound = ["bitcast", "f16", "= ["].iter().any(|word| text.contains(word));
    // A function that is called with a `float` must take both.
    let calls_other = helpers.iter().any(|other| !other.is_generic && text.contains(&format!("{}(", other.name)));
    (!is_bound && !calls_other).then(|| text.replace("f32", "float"))
}

/// A helper's parameter, as a name that a value may depend on.
fn parameter(name: &str) -> String {
    format!("parameter {name}")
}

impl Writer<'_> {
    /// A `let` of a helper's result, whole or for each row of a larger array.
    pub fn helper_call(&mut self) -> Option<String> {
        let found: Vec<(Helper, Value)> = self
            .helpers
            .iter()
            .flat_map(Helper::instances)
            .flat_map(|helper| {
                let (_, ty, axes) = helper.params[0].clone();
                let fits = move |v: &&Value| {
                    v.ty == ty
                        && v.shape.len() >= axes.len().max(1)
                        && v.shape.iter().all(|d| d.as_constant().is_none())
                };
                self.scope.values.iter().rev().filter(fits).map(move |v| (helper.clone(), v.clone()))
            })
            .collect();
        let (helper, value) = self.choices.pick(&found)?.clone();
        let axes = &helper.params[0].2;
        let rows = value.shape.len() - axes.len();
        let mut sizes: BTreeMap<String, Dim> = BTreeMap::new();
        for (axis, dim) in axes.iter().zip(&value.shape[rows..]) {
            sizes.insert(axis.as_name()?.to_owned(), dim.clone());
        }
        if helper.results.len() > 1 {
            return if rows == 0 { self.tuple_call(&helper, &sizes) } else { None };
        }
        // Functions of scalars apply elementwise to arrays; functions of arrays apply to each row.
        if helper.is_scalar() {
            self.count("lifted call");
            let piece = self.call_with(&helper, &sizes, &value.shape, 2);
            return Some(self.bind("", piece, None));
        }
        let (_, _, result) = &helper.results[0];
        let shape: Vec<Dim> = result.iter().map(|axis| axis.substitute(&sizes)).collect();
        self.count(if rows == 0 { "array call" } else { "vmapped call" });
        Some(match rows {
            0 => {
                let piece = self.call_with(&helper, &sizes, &shape, 2);
                self.bind("", piece, None)
            }
            _ => self.comprehension(&value.shape[..rows], |writer| writer.call_with(&helper, &sizes, &shape, 2)),
        })
    }

    /// A call of a helper under the given sizes, which has the given shape.
    pub fn call_with(&mut self, helper: &Helper, sizes: &BTreeMap<String, Dim>, shape: &[Dim], fuel: usize) -> Piece {
        if helper.is_generic {
            self.count(if helper.params[0].1 == Dtype::F64 { "float as f64" } else { "float as f32" });
        }
        let mut arguments = vec![];
        let adds = helper.text.contains("sum[") || helper.text.contains("mean[");
        for (n, (_, ty, axes)) in helper.params.iter().enumerate() {
            let axes: Vec<Dim> = axes.iter().map(|axis| axis.substitute(sizes)).collect();
            let argument = match (helper.is_scalar(), n) {
                (true, 0) => self.expr(*ty, shape, fuel),
                (true, _) => self.operand(*ty, shape, fuel.min(1)),
                (false, _) => self.expr(*ty, &axes, fuel.min(1)),
            };
            // A product that the function sums is a contraction in its caller.
            let contracts = adds && matches!(ty, Dtype::F32 | Dtype::F64) && argument.may_contract();
            arguments.push(if contracts { Piece::call("abs", &[&argument], *ty, shape) } else { argument });
        }
        for work in &helper.work {
            let here = self.scope.runs().times(&work.substitute(sizes));
            self.work.push(here);
        }
        let mut piece = Piece::call(&helper.name, &arguments.iter().collect::<Vec<_>>(), helper.results[0].1, shape);
        // A parameter that the function ignores is not part of its value.
        let mentioned =
            arguments.iter().zip(&helper.params).filter(|(_, (name, ..))| helper.mentions.contains(&parameter(name)));
        piece.uses = mentioned.flat_map(|(argument, _)| argument.uses.clone()).collect();
        if helper.may_contract {
            piece.factors = ["left of", "right of"].map(|side| [format!("{side} {}", helper.name)].into()).into();
        }
        piece
    }

    /// A `let` of both results of a helper that gives a tuple.
    fn tuple_call(&mut self, helper: &Helper, sizes: &BTreeMap<String, Dim>) -> Option<String> {
        let call = self.call_with(helper, sizes, &[], 1);
        self.count("tuple call");
        let mut names = vec![];
        for (_, ty, axes) in &helper.results {
            let name = self.fresh_name();
            names.push(name.clone());
            self.scope.define(Value {
                name,
                ty: *ty,
                shape: axes.iter().map(|axis| axis.substitute(sizes)).collect(),
                small: false,
                below: None,
                uses: call.uses.clone(),
                may_contract: helper.may_contract,
            });
        }
        Some(format!("let ({}) = {}", names.join(", "), call.text))
    }
}
