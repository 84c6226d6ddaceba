//! Sorts, and values at places of sorted elements.

use ir::Dtype;

use super::dim::Dim;
use super::expr::Writer;
use super::piece::Piece;
use super::scope::Value;

/// The index of rows.
const ROW: &str = "i";

/// A sort goes over its elements about as often as this.
pub const PASSES: i64 = 8;

impl Writer<'_> {
    /// A `let` of elements of a value in order: of all of a vector, or of each row of a matrix.
    pub fn sorted(&mut self) -> Option<String> {
        let is_it = |value: &&Value| {
            let length = value.shape.last().and_then(Dim::as_constant);
            matches!(value.shape.len(), 1 | 2) && value.ty != Dtype::Bool && length != Some(0)
        };
        let found: Vec<Value> = self.scope.values.iter().filter(is_it).cloned().collect();
        let of = self.choices.pick(&found)?.clone();
        let (rows, length) = (of.shape[..of.shape.len() - 1].to_vec(), of.shape[of.shape.len() - 1].clone());
        let (name, binders) = match rows.is_empty() {
            true => (of.name.clone(), String::new()),
            false => (format!("{}[{ROW}]", of.name), format!("[{ROW}]")),
        };
        // The piece of a row, as one of the whole array.
        let whole = |text: String, ty: Dtype, shape: &[Dim]| {
            let shape = [rows.as_slice(), shape].concat();
            Piece { uses: of.uses.clone(), ..Piece::atom(text, ty, &shape) }
        };
        let all = std::slice::from_ref(&length);
        self.work.push(of.shape.iter().fold(Dim::constant(PASSES), |product, dim| product.times(dim)));
        Some(match self.choices.below(7) {
            0 => {
                self.count("sort");
                self.bind(&binders, whole(format!("sort({name})"), of.ty, all), None)
            }
            1 => {
                self.count("argsort");
                self.bind(&binders, whole(format!("argsort({name})"), Dtype::I64, all), Some(length))
            }
            2 => {
                self.count("top");
                let numbers: Vec<Dim> = [length.clone(), length.offset(-1), Dim::constant(1), Dim::constant(2)]
                    .into_iter()
                    .filter(|number| length.minus(number).as_constant().is_none_or(|left| left >= 0))
                    .filter(|number| number.as_constant().is_none_or(|number| number >= 0))
                    .collect();
                let number = self.choices.pick(&numbers).unwrap_or(&length).clone();
                let ends = std::slice::from_ref(&number);
                let text = format!("top({number}, {name})");
                let values = self.bind("", whole(text.clone(), of.ty, ends), None);
                let places = self.bind("", whole(text.clone(), Dtype::I64, ends), Some(length));
                let bound = |text: &str| text[4..].split(' ').next().unwrap_or_default().to_owned();
                format!("let ({}, {}){binders} = {text}", bound(&values), bound(&places))
            }
            3 if of.ty.is_float() => {
                self.count("median");
                self.bind(&binders, whole(format!("median({name})"), of.ty.compute(), &[]), None)
            }
            4 if of.ty.is_float() => {
                self.count("quantile");
                let places = ["0.5", "0.0", "1.0", "0.3", "0.99"];
                let place = self.choices.pick(&places).unwrap_or(&"0.5");
                self.bind(&binders, whole(format!("quantile({name}, {place})"), of.ty.compute(), &[]), None)
            }
            5 => {
                self.count("place in order");
                let places = match length.as_constant() {
                    Some(constant) => [constant / 2, 0, constant - 1].map(|place| place.to_string()),
                    None => [format!("({length}) / 2"), "0".into(), format!("{length} - 1")],
                };
                let place = self.choices.pick(&places).cloned().unwrap_or_default();
                self.bind(&binders, whole(format!("sort({name})[{place}]"), of.ty, &[]), None)
            }
            _ => {
                self.count("searchsorted");
                let text = format!("searchsorted(sort({name}), {name})");
                self.bind(&binders, whole(text, Dtype::I64, all), Some(length.offset(1)))
            }
        })
    }
}
