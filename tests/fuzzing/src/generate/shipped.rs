//! Calls of functions of the shipped libraries. Their text stands in the program, so that every
//! engine computes them; where a program goes through the public library, that reads them from its
//! own files instead (see [`crate::library`]).

use std::collections::BTreeSet;

use super::dim::Dim;
use super::expr::Writer;
use super::functions::FLOATS;
use super::piece::Piece;
use super::scope::Value;
use crate::syntax::{mentions, text};

/// An argument or a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// A vector, all of one length.
    Vector,
    /// A number.
    Number,
}

use Part::{Number, Vector};

/// Functions with their parameters and their result.
const FUNCTIONS: [(&str, &[Part], Part); 20] = [
    ("softmax", &[Vector], Vector),
    ("zscore", &[Vector], Vector),
    ("rescale", &[Vector], Vector),
    ("log_softmax", &[Vector], Vector),
    ("log_sum_exp", &[Vector], Number),
    ("sample_variance", &[Vector], Number),
    ("standard_error", &[Vector], Number),
    ("geometric_mean", &[Vector], Number),
    ("harmonic_mean", &[Vector], Number),
    ("skewness", &[Vector], Number),
    ("kurtosis", &[Vector], Number),
    ("layer_norm", &[Vector, Vector, Vector, Number], Vector),
    ("rms_norm", &[Vector, Vector, Number], Vector),
    ("exponential_average", &[Vector, Number], Vector),
    ("weighted_mean", &[Vector, Vector], Number),
    ("covariance", &[Vector, Vector], Number),
    ("mse", &[Vector, Vector], Number),
    ("mae", &[Vector, Vector], Number),
    ("huber", &[Vector, Vector, Number], Number),
    ("kl_divergence", &[Vector, Vector], Number),
];

/// Numbers that these functions take.
const NUMBERS: [&str; 3] = ["0.5", "1e-3", "2"];

impl Writer<'_> {
    /// `let y = softmax(x)`, or `let y[i] = softmax(x[i])`
    pub fn shipped(&mut self) -> Option<String> {
        let fits = |value: &&Value| FLOATS.contains(&value.ty) && matches!(value.shape.len(), 1 | 2);
        let found: Vec<Value> = self.scope.values.iter().rev().filter(fits).cloned().collect();
        let of = self.choices.pick(&found)?.clone();
        let (name, params, result) = *self.choices.pick(&FUNCTIONS)?;
        self.count("library function");
        self.shipped.insert(name);
        let length = of.shape[of.shape.len() - 1].clone();
        let of_length = std::slice::from_ref(&length);
        let shape = if result == Vector { of_length } else { &[] };
        let mut others = vec![];
        for part in &params[1..] {
            others.push(match part {
                Vector => self.expr(of.ty, of_length, 0),
                Number => Piece::atom(*self.choices.pick(&NUMBERS).unwrap_or(&"0.5"), of.ty, &[]),
            });
        }
        let call = |first: Piece| {
            // Its sums are no contractions.
            let plain = |piece: &Piece| match piece.may_contract() {
                true => Piece::call("abs", &[piece], piece.ty, &piece.shape),
                false => piece.clone(),
            };
            let arguments: Vec<Piece> = std::iter::once(&first).chain(&others).map(plain).collect();
            Piece::call(name, &arguments.iter().collect::<Vec<_>>(), of.ty, shape)
        };
        let first = |name: String| {
            let mut piece = Piece { uses: of.uses.clone(), ..Piece::atom(name, of.ty, of_length) };
            if of.may_contract {
                piece.factors = ["left of", "right of"].map(|side| [format!("{side} {}", of.name)].into()).into();
            }
            piece
        };
        self.work.push(of.shape.iter().fold(Dim::constant(4), |product, dim| product.times(dim)));
        Some(match of.shape.as_slice() {
            [rows, _] => self.comprehension(std::slice::from_ref(rows), |writer| {
                let row = writer.index_names().pop().unwrap_or_default();
                call(first(format!("{}[{row}]", of.name)))
            }),
            _ => {
                let piece = call(first(of.name.clone()));
                self.bind("", piece, None)
            }
        })
    }
}

/// The text of functions of the libraries, and of those that they call.
pub fn shipped_text(names: &BTreeSet<&'static str>) -> String {
    let mut all = vec![];
    for library in compiler::library::ALL {
        let Ok(file) = grammar::parse(library.text) else { continue };
        all.extend(file.functions.iter().map(|one| (one.name.text.clone(), text(library.text, one.span))));
    }
    let mut wanted: BTreeSet<&str> = names.clone();
    loop {
        let called =
            |name: &str| all.iter().any(|(other, text)| wanted.contains(other.as_str()) && mentions(text, name));
        let more: Vec<&str> =
            all.iter().map(|(name, _)| name.as_str()).filter(|name| !wanted.contains(name) && called(name)).collect();
        if more.is_empty() {
            break;
        }
        wanted.extend(more);
    }
    all.iter().filter(|(name, _)| wanted.contains(name.as_str())).map(|(_, text)| format!("{text}\n")).collect()
}
