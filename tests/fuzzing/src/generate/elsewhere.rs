//! Arrays that are computed and then read at other positions than they were stored at: reversed, at
//! the first element of an axis, at neighbours, as prefixes, in another shape. Also expressions so
//! large that few kernels have room for them.

use crate::syntax::mentions;

use super::dim::Dim;
use super::expr::Writer;
use super::idiom::{FUNCTIONS, element};
use super::piece::{Level, Piece};
use super::scope::Value;

/// How far neighbours reach, by weight.
const REACHES: [(usize, i64); 5] = [(6, 1), (3, 2), (1, 4), (1, 6), (3, 8)];

/// The number of terms of a large expression, by weight.
const TERMS: [(usize, usize); 4] = [(10, 6), (3, 20), (1, 60), (2, 150)];

impl Writer<'_> {
    /// An array computed from a value, perhaps itself read elsewhere, and statements that read it
    /// elsewhere.
    pub fn elsewhere(&mut self, mut value: Value) -> Vec<String> {
        self.count("read elsewhere");
        let mut lets = vec![match self.choices.chance(50) {
            true => self.turned(&mut value),
            false => self.apply(&mut value),
        }];
        match self.choices.below(15) {
            12.. if value.shape.len() < 3 => lets.extend(self.repeated(&value)),
            10.. if !self.scope.extremes.is_empty() => lets.extend(self.scaled(&value)),
            0..3 => {
                lets.push(self.reshaped(value.clone()));
                lets.push(self.apply(&mut self.latest(&value)));
            }
            3..6 => lets.push(self.beside(&value)),
            6 | 7 => lets.push(self.prefixes(&value)),
            _ => {
                lets.push(self.neighbours(&value));
                if self.choices.chance(70) {
                    lets.push(self.apply(&mut value));
                }
            }
        }
        lets
    }

    /// `let y[i, j] = exp(x[n - 1 - i, j])`; the value is then `y`.
    fn turned(&mut self, value: &mut Value) -> String {
        let shape = value.shape.clone();
        let text = self.comprehension(&shape, |writer| {
            let at = writer.turned_subscripts(&shape);
            let read = writer.read(value, &at);
            writer.changed(&read)
        });
        *value = self.latest(value);
        text
    }

    /// `let y[i, j] = x[i, j] - x[i, 0]`
    fn beside(&mut self, value: &Value) -> String {
        self.comprehension(&value.shape, |writer| {
            let names = writer.index_names();
            let at = writer.turned_subscripts(&value.shape);
            let (here, there) = (writer.read(value, &names), writer.read(value, &at));
            let operator = *writer.choices.pick(&["-", "+", "*"]).unwrap_or(&"-");
            writer.combined(operator, &here, &there)
        })
    }

    /// `let y[i, j] = x[s * i, j]`, with an integer parameter, under a condition on it or not.
    fn scaled(&mut self, value: &Value) -> Option<String> {
        let (name, _) = self.choices.pick(&self.scope.extremes.clone())?.clone();
        self.count("scaled by a parameter");
        let axis = self.choices.below(value.shape.len());
        Some(self.comprehension(&value.shape, |writer| {
            let mut at = writer.index_names();
            let (length, last) =
                (writer.scope.number(&value.shape[axis]), writer.scope.number(&value.shape[axis].offset(-1)));
            let (index, by) = (at[axis].clone(), format!("i64({name})"));
            at[axis] = match writer.choices.below(7) {
                0 | 1 => format!("{by} * {index}"),
                2 => format!("{index} + {by}"),
                3 => format!("{last} - {by} * {index}"),
                4 => format!("{by} / 2"),
                5 => format!("min({by} * 4096, {last})"),
                _ => by.clone(),
            };
            let read = writer.read(value, &at);
            let condition = match writer.choices.below(6) {
                0 => format!("{by} >= 0"),
                1 => format!("{by} >= 0 && {by} * 4096 < {length}"),
                2 => format!("{by} * {index} < {length} && {by} >= 0"),
                3 => format!("4096 * ({by} / 2) < {length} && {by} > -2"),
                _ => return read,
            };
            Piece { text: format!("(if {condition} then {} else 0)", read.text), ..read }
        }))
    }

    /// `let y[i, j, l] = x[i, j]`, repeated along some axis, and `let z[i] = sum[r](y[i, 0, r])` or
    /// `let z[i, l] = y[i, 0, l]`: if there is no `r`, no element is needed.
    fn repeated(&mut self, value: &Value) -> [String; 2] {
        self.count("repeated");
        let rank = value.shape.len();
        let axis = if self.choices.chance(70) { rank - 1 } else { 0 };
        let long = value.shape[axis].clone();
        let mut shape = value.shape.clone();
        shape.push(long.clone());
        let first = self.comprehension(&shape, |writer| {
            let names = writer.index_names();
            let read = writer.read(value, &names[..rank]);
            if writer.choices.chance(50) { writer.changed(&read) } else { read }
        });
        let tall = self.latest(value);
        // The second element, where there may be one.
        let is_second = self.choices.chance(30) && long.as_constant().is_none_or(|length| length > 1);
        let place = if is_second { "1" } else { "0" };
        shape.remove(axis);
        if rank > 1 && self.choices.chance(60) {
            shape.pop();
        }
        let reduces = shape.len() < rank;
        let second = self.comprehension(&shape, |writer| {
            let mut at = writer.index_names();
            at.insert(axis, place.to_owned());
            if !reduces {
                return writer.read(&tall, &at);
            }
            at.push("r".to_owned());
            writer.loops(std::slice::from_ref(&long));
            let reducer = writer.reducer(tall.ty);
            let read = writer.read(&tall, &at);
            let end = writer.scope.number(&long);
            let text = format!(
                "{reducer}[r < {end}]({})",
                writer.summable(&Value { name: read.text, ..tall.clone() }, reducer)
            );
            Piece { uses: read.uses, ..Piece::atom(text, tall.ty.compute(), &[]) }
        });
        [first, second]
    }

    /// `let y[i] = sum[r <= i](x[r, 0])`
    fn prefixes(&mut self, value: &Value) -> String {
        self.count("prefix <=");
        let axis = self.choices.below(value.shape.len());
        let along = value.shape[axis].clone();
        self.comprehension(std::slice::from_ref(&along), |writer| {
            let reducer = writer.reducer(value.ty);
            let mut at = vec!["0".to_owned(); value.shape.len()];
            at[axis] = match writer.choices.chance(30) {
                true => format!("{} - r", writer.scope.number(&along.offset(-1))),
                false => "r".into(),
            };
            let read = writer.read(value, &at);
            let read = Value { name: read.text, ..value.clone() };
            let text = format!("{reducer}[r <= i]({})", writer.summable(&read, reducer));
            Piece { uses: value.uses.clone(), ..Piece::atom(text, value.ty.compute(), &[]) }
        })
    }

    /// `let y[i] = x[clamp(i - 1, 0, n - 1)] + x[i] + x[clamp(i + 1, 0, n - 1)]`
    fn neighbours(&mut self, value: &Value) -> String {
        self.count("neighbours");
        let axis = self.choices.below(value.shape.len());
        let reach = self.choices.weighted(&REACHES).unwrap_or(1);
        self.comprehension(&value.shape, |writer| {
            writer.loops(&[Dim::constant(2 * reach + 1)]);
            let names = writer.index_names();
            let last = writer.scope.number(&value.shape[axis].offset(-1));
            let name = &names[axis];
            let beside = |by: i64| match by {
                0 => name.clone(),
                1.. => format!("clamp({name} + {by}, 0, {last})"),
                _ => format!("clamp({name} - {}, 0, {last})", -by),
            };
            let one = |by: i64| {
                let mut at = names.clone();
                at[axis] = beside(by);
                element(value, &at)
            };
            let mut sum = one(-reach);
            for by in 1 - reach..=reach {
                sum = writer.combined("+", &sum, &one(by));
            }
            sum
        })
    }

    /// `let y[i] = exp(x[i] * 1) - (exp(x[i] * 2) - ..)`, with unusually many terms, and a use of
    /// it; or as many reductions.
    pub fn broad(&mut self, mut value: Value) -> Vec<String> {
        if !value.ty.is_float() {
            return self.elsewhere(value);
        }
        self.count("broad expression");
        let terms = self.choices.weighted(&TERMS).unwrap_or(6);
        if self.choices.chance(30) {
            return vec![self.many_reductions(&value, terms)];
        }
        let function = if self.choices.chance(50) { self.choices.pick(&FUNCTIONS).copied() } else { None };
        let ty = value.ty.compute();
        let shape = value.shape.clone();
        let first = self.comprehension(&shape, |writer| {
            writer.loops(&[Dim::constant(i64::try_from(terms).unwrap_or(1))]);
            let names = writer.index_names();
            let read = writer.read(&value, &names);
            let term = |writer: &mut Self, number: usize| {
                let number = Piece { literal: true, ..Piece::atom(number.to_string(), ty, &[]) };
                let product = writer.combined("*", &read, &number);
                function.map_or(product.clone(), |name| Piece::call(name, &[&product], ty, &[]))
            };
            let mut sum = term(writer, terms);
            for number in (1..terms).rev() {
                let left = term(writer, number);
                sum = writer.combined("-", &left, &sum);
            }
            sum
        });
        value = self.latest(&value);
        vec![first, self.apply(&mut value)]
    }

    /// `let y = sum(x * 1) + sum(x * 2) + ..`
    fn many_reductions(&mut self, value: &Value, terms: usize) -> String {
        self.loops(&value.shape);
        self.loops(&[value.shape.as_slice(), &[Dim::constant(i64::try_from(terms).unwrap_or(1))]].concat());
        let reducer = if value.may_contract { "max" } else { "sum" };
        self.count(reducer);
        let each: Vec<String> = (1..=terms).map(|number| format!("{reducer}({} * {number})", value.name)).collect();
        let piece = Piece { level: Level::Add, ..Piece::atom(each.join(" + "), value.ty.compute(), &[]) };
        self.bind("", Piece { uses: value.uses.clone(), ..piece }, None)
    }

    /// An element of a value. It depends on the indices in its subscripts.
    fn read(&self, value: &Value, at: &[String]) -> Piece {
        let mut piece = element(value, at);
        piece.uses.clone_from(&value.uses);
        piece.uses.extend(self.index_names().into_iter().filter(|name| at.iter().any(|text| mentions(text, name))));
        piece
    }

    /// The indices as subscripts, one of them reversed or replaced by 0, or two exchanged.
    fn turned_subscripts(&mut self, shape: &[Dim]) -> Vec<String> {
        let mut at = self.index_names();
        let axis = self.choices.below(shape.len());
        let next = (axis + 1) % shape.len();
        match self.choices.below(5) {
            0 => at[axis] = "0".into(),
            1 if shape[axis] == shape[next] => at.swap(axis, next),
            _ => at[axis] = format!("{} - {}", self.scope.number(&shape[axis].offset(-1)), at[axis]),
        }
        at
    }
}
