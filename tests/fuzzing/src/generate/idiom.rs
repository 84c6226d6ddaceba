//! Patterns that fusion is made for, as several related `let`s: rows that are reduced and then
//! combined with the result (softmax, layer norm and similar, along any axis), results that share
//! inputs, diamonds, windows of computed arrays.

use ir::Dtype;

use super::dim::Dim;
use super::expr::Writer;
use super::piece::{Level, Piece};
use super::scope::Value;

/// The functions of floats that these apply, cheap ones first.
pub const FUNCTIONS: [&str; 8] = ["relu", "abs", "sqrt", "exp", "tanh", "sigmoid", "sin", "log1p"];

/// Keys of a table that a GPU merges range by range.
const MANY_KEYS: i64 = 16_400;

impl Writer<'_> {
    /// Some `let`s.
    pub fn idiom(&mut self) -> Vec<String> {
        let values: Vec<Value> = self.scope.values.iter().rev().filter(|v| is_array(v)).cloned().collect();
        let floats: Vec<Value> = values.iter().filter(|v| v.ty.is_float()).cloned().collect();
        let found = if floats.is_empty() || self.choices.chance(20) { &values } else { &floats };
        let Some(value) = self.choices.pick(found).cloned() else { return vec![] };
        self.shadows = false;
        let lets = match self.choices.below(24) {
            0..6 => self.rows(value),
            6..9 => self.siblings(&value),
            9..11 => self.diamond(&value),
            11..13 => self.window(value),
            13..17 => self.elsewhere(value),
            17 => self.broad(value),
            18 | 19 => self.apart(&value),
            _ => self.table(&value),
        };
        self.shadows = true;
        lets
    }

    /// Reduces along an axis and combines every element with the result; up to three times.
    fn rows(&mut self, mut value: Value) -> Vec<String> {
        self.count("rows");
        let axis = self.choices.below(value.shape.len());
        let mut lets = vec![];
        for _ in 0..1 + self.choices.below(3) {
            if self.choices.chance(40) {
                lets.push(self.apply(&mut value));
            }
            let (text, reduced) = self.along(&value, axis);
            lets.push(text);
            lets.push(self.spread(&mut value, &reduced, axis));
        }
        lets
    }

    /// `let s[i < n, j < n] = sum[r < m](abs(x[i, r] - x[j, r]))` and what is along an axis: how
    /// far rows are apart, and the nearest or farthest of all.
    fn apart(&mut self, value: &Value) -> Vec<String> {
        let [rows, columns] = value.shape.as_slice() else { return vec![] };
        self.count("distances");
        let side = |row: &str| element(value, &[row.to_owned(), "r".to_owned()]);
        let difference = self.combined("-", &side("i"), &side("j"));
        let body = match self.choices.below(5) {
            0 => self.combined("*", &difference, &difference),
            1 | 2 => self.changed(&difference),
            _ => Piece::call("abs", &[&difference], difference.ty, &[]),
        };
        let reducer = if self.choices.chance(70) { "sum" } else { self.reducer(value.ty) };
        let ty = body.ty.compute();
        let text = format!("{reducer}[r < {}]({})", self.scope.number(columns), body.text);
        let binders = format!("[i < {rows}, j < {rows}]");
        let mut uses = value.uses.clone();
        uses.extend(body.uses.iter().filter(|name| !["i", "j", "r"].contains(&name.as_str())).cloned());
        let shape = [rows.clone(), rows.clone()];
        self.work.push(rows.times(rows).times(columns));
        let distances = self.bind(&binders, Piece { uses, ..Piece::atom(text, ty, &shape) }, None);
        let Some(value) = self.scope.values.last().cloned() else { return vec![distances] };
        let axis = if self.choices.chance(40) { 0 } else { 1 };
        vec![distances, self.along(&value, axis).0]
    }

    /// `let y[i < 3] = sum[r < n where r % 3 == i](x[r])`: elements added up by a key.
    fn table(&mut self, value: &Value) -> Vec<String> {
        self.count("table by key");
        let length = &value.shape[0];
        // Enough keys for a GPU to order elements by ranges of keys.
        let many = value.shape.len() == 1 && self.choices.chance(30);
        let keys = match self.choices.below(6) {
            _ if many => Dim::constant(MANY_KEYS),
            0 | 1 => Dim::constant(3),
            2 => Dim::constant(17),
            3 => length.clone(),
            _ => self.some_dim(),
        };
        let most = self.scope.number(&keys);
        // Each element has a key, or each row of an array.
        let names = ["r", "s", "t"];
        let each = self.choices.chance(60);
        let (columns, reduced) =
            if each { (&[][..], &value.shape[..]) } else { (&value.shape[1..], &value.shape[..1]) };
        let others = &["j", "l"][..columns.len()];
        let own = &names[..reduced.len()];
        let subscripts: Vec<String> = own.iter().chain(others).map(|name| (*name).to_owned()).collect();
        let term = element(value, &subscripts);
        let number = own.join(" + ");
        let by_value = columns.is_empty() && self.choices.chance(17);
        let key = match self.choices.below(5) {
            _ if by_value => format!("i64({})", term.text),
            0 | 1 => format!("({number}) % ({most})"),
            2 => format!("({number}) / 2"),
            3 => format!("({number}) * 7919 % ({most})"),
            _ => format!("({number}) % 3"),
        };
        let reducer = if self.choices.chance(60) { "sum" } else { self.reducer(value.ty) };
        let ty = value.ty.compute();
        let body = if self.choices.chance(25) { self.changed(&term) } else { term };
        let contracts = value.may_contract || body.may_contract();
        let body = if contracts { Piece::call("abs", &[&body], ty, &[]) } else { body };
        let bounds = |names: &[&str], dims: Vec<Dim>| -> Vec<String> {
            names.iter().zip(dims).map(|(name, dim)| format!("{name} < {dim}")).collect()
        };
        let over = bounds(own, reduced.iter().map(|dim| self.scope.number(dim)).collect()).join(", ");
        let text = format!("{reducer}[{over} where {key} == i]({})", body.text);
        let binders = [vec![format!("i < {keys}")], bounds(others, columns.to_vec())].concat();
        let binders = format!("[{}]", binders.join(", "));
        let from = self.work.len();
        // The interpreter of the source goes through all elements for each key.
        let times = keys.as_constant().map_or_else(|| keys.clone(), |_| Dim::constant(2));
        let shape: Vec<Dim> = std::iter::once(keys).chain(columns.iter().cloned()).collect();
        self.work.push(value.shape.iter().fold(times, |product, dim| product.times(dim)));
        let mut piece = Piece { uses: value.uses.clone(), ..Piece::atom(text, ty, &shape) };
        piece.uses.retain(|name| !subscripts.contains(name));
        let table = self.bind(&binders, piece, None);
        if !many {
            return vec![table];
        }
        // The table is too large for other statements. The next one alone reads it, where the keys
        // of elements are or as a whole, and the cost of both depends on the elements.
        self.count("table of many keys");
        let Some(of_keys) = self.scope.values.pop() else { return vec![table] };
        let reader = if by_value {
            self.along(&of_keys, 0).0
        } else {
            let text = format!("{}[{key}]", of_keys.name);
            let binders = bounds(own, value.shape.clone()).join(", ");
            self.bind(
                &format!("[{binders}]"),
                Piece { uses: of_keys.uses, ..Piece::atom(text, ty, &value.shape) },
                None,
            )
        };
        self.work.truncate(from);
        self.work.push(value.shape[0].times(&Dim::constant(1000)));
        vec![table, reader]
    }

    /// Several results of one value.
    fn siblings(&mut self, value: &Value) -> Vec<String> {
        if let ([length], true, true) = (value.shape.as_slice(), value.ty.is_float(), self.choices.chance(40)) {
            return self.of_two_orders(value, length);
        }
        self.count("siblings");
        let one = |writer: &mut Self| match writer.choices.below(4) {
            0 => writer.apply(&mut value.clone()),
            1 => {
                let reducer = writer.reducer(value.ty);
                let text = format!("{reducer}({})", writer.summable(value, reducer));
                writer.loops(&value.shape);
                let piece = Piece { uses: value.uses.clone(), ..Piece::atom(text, value.ty.compute(), &[]) };
                writer.bind("", piece, None)
            }
            _ => {
                let axis = writer.choices.below(value.shape.len());
                writer.along(value, axis).0
            }
        };
        (0..2 + self.choices.below(2)).map(|_| one(self)).collect()
    }

    /// Two sums of the same elements, one of them across memory, which has an order of its own; and
    /// how far they are apart.
    fn of_two_orders(&mut self, value: &Value, length: &Dim) -> Vec<String> {
        self.count("sums in two orders");
        let ty = value.ty.compute();
        let of = |text: String, shape: &[Dim]| Piece { uses: value.uses.clone(), ..Piece::atom(text, ty, shape) };
        let size = abs_of(&element(value, &["i".to_owned()]));
        let sides = of(format!("if j == 0 then {size} else -{size}"), &[length.clone(), Dim::constant(2)]);
        let mut lets = vec![self.bind(&format!("[i < {length}, j < 2]"), sides, None)];
        let column = element(&self.latest(value), &["r".to_owned(), "0".to_owned()]);
        let mut sums = vec![];
        for summand in [column.text, abs_of(&element(value, &["r".to_owned()]))] {
            let text = format!("sum[r < {}]({summand})", self.scope.number(length));
            self.loops(std::slice::from_ref(length));
            lets.push(self.bind("", of(text, &[]), None));
            sums.push(whole(&self.latest(value)));
        }
        if let [first, second] = sums.as_slice() {
            let apart = self.combined("-", first, second);
            lets.push(self.bind("", apart, None));
        }
        lets
    }

    /// A value, another one computed from it, and a third computed from both.
    fn diamond(&mut self, value: &Value) -> Vec<String> {
        self.count("diamond");
        let mut first = value.clone();
        let mut lets = vec![self.apply(&mut first)];
        let mut second = first.clone();
        lets.push(self.apply(&mut second));
        let operator = *self.choices.pick(&["+", "-", "*"]).unwrap_or(&"+");
        let piece = self.combined(operator, &whole(&first), &whole(&second));
        lets.push(self.bind("", piece, None));
        lets
    }

    /// Windows of three over something computed.
    fn window(&mut self, mut value: Value) -> Vec<String> {
        let axis = self.choices.below(value.shape.len());
        if value.shape[axis].as_constant().is_some_and(|c| c < 3) {
            return vec![];
        }
        self.count("window of three");
        let mut lets = vec![];
        if self.choices.chance(75) {
            lets.push(self.apply(&mut value));
        }
        let mut dims = value.shape.clone();
        dims[axis] = dims[axis].offset(-2);
        lets.push(self.comprehension(&dims, |writer| {
            let names = writer.index_names();
            let shifted = |by: &str| {
                let mut subscripts = names.clone();
                subscripts[axis] += by;
                Piece { uses: names.iter().chain(&value.uses).cloned().collect(), ..element(&value, &subscripts) }
            };
            if writer.choices.chance(50) {
                writer.loops(&[Dim::constant(3)]);
                let one = shifted(" + r");
                let text = format!("sum[r < 3]({})", one.text);
                return Piece { text, ty: one.ty.compute(), small: false, factors: vec![], ..one };
            }
            let sum = writer.combined("+", &shifted(""), &shifted(" + 1"));
            writer.combined("-", &sum, &shifted(" + 2"))
        }));
        lets
    }

    /// `let e = exp(x)`; the value is then `e`.
    pub fn apply(&mut self, value: &mut Value) -> String {
        let piece = self.changed(&whole(value));
        let text = self.bind("", piece, None);
        *value = self.latest(value);
        text
    }

    /// `exp(x)`, or another operation on an operand.
    pub fn changed(&mut self, operand: &Piece) -> Piece {
        let ty = operand.ty.compute();
        let number = |text: &str| Piece { literal: true, ..Piece::atom(text, ty, &[]) };
        match self.choices.below(if ty.is_float() { 9 } else { 4 }) {
            0 => self.combined("+", operand, &number("1")),
            1 => self.combined("*", operand, &number("3")),
            2 => {
                let other = self.loose(ty, &operand.shape, 0);
                self.combined("-", operand, &other)
            }
            3 => self.combined("*", operand, operand),
            4 => self.cleaned(operand),
            _ => {
                let name = *self.choices.pick(&FUNCTIONS).unwrap_or(&"relu");
                Piece::call(name, &[operand], ty, &operand.shape)
            }
        }
    }

    /// `select(x != x, 0, x)`
    fn cleaned(&mut self, operand: &Piece) -> Piece {
        let condition = match self.choices.below(3) {
            0 => self.classified(operand),
            choice => {
                let operator = if choice == 1 { "!=" } else { "==" };
                self.count(operator);
                Piece::binary(operand, operator, operand, Level::Compare, Dtype::Bool, &operand.shape)
            }
        };
        self.count("select");
        let zero = Piece::atom("0", operand.ty, &[]);
        Piece::call("select", &[&condition, &zero, operand], operand.ty, &operand.shape)
    }

    /// `let s = sum(x, axis = 1)`, and the value that it defines.
    fn along(&mut self, value: &Value, axis: usize) -> (String, Value) {
        let reducer = self.reducer(value.ty);
        let text = format!("{reducer}({}, axis = {axis})", self.summable(value, reducer));
        let mut shape = value.shape.clone();
        shape.remove(axis);
        self.loops(&value.shape);
        let piece = Piece { uses: value.uses.clone(), ..Piece::atom(text, value.ty.compute(), &shape) };
        let text = self.bind("", piece, None);
        (text, self.latest(value))
    }

    /// `let y[i, j] = x[i, j] - s[i]`; the value is then `y`.
    fn spread(&mut self, value: &mut Value, reduced: &Value, axis: usize) -> String {
        let operator = *self.choices.pick(&["-", "/", "*", "+"]).unwrap_or(&"-");
        let function =
            if value.ty.is_float() && self.choices.chance(40) { self.choices.pick(&FUNCTIONS) } else { None };
        let around = |piece: Piece| match function {
            Some(name) => Piece::call(name, &[&piece], piece.ty, &piece.shape),
            None => piece,
        };
        let text = if axis == 0 && self.choices.chance(50) {
            let piece = around(self.combined(operator, &whole(value), &whole(reduced)));
            self.bind("", piece, None)
        } else {
            let shape = value.shape.clone();
            self.comprehension(&shape, |writer| {
                let mut names = writer.index_names();
                let left = element(value, &names);
                names.remove(axis);
                let right = element(reduced, &names);
                around(writer.combined(operator, &left, &right))
            })
        };
        *value = self.latest(value);
        text
    }

    /// A value as the operand of a reducer; its magnitude, if the sum could otherwise be taken for
    /// a contraction.
    pub fn summable(&self, value: &Value, reducer: &str) -> String {
        let adds = matches!(reducer, "sum" | "mean") && value.ty.is_float();
        if adds && value.may_contract { format!("abs({})", value.name) } else { value.name.clone() }
    }

    /// The value that was defined last.
    pub fn latest(&self, otherwise: &Value) -> Value {
        self.scope.values.last().unwrap_or(otherwise).clone()
    }

    pub fn index_names(&self) -> Vec<String> {
        self.scope.indices.iter().map(|index| index.name.clone()).collect()
    }

    pub fn combined(&mut self, operator: &'static str, left: &Piece, right: &Piece) -> Piece {
        self.count(operator);
        let level = if matches!(operator, "+" | "-") { Level::Add } else { Level::Mul };
        Piece::binary(left, operator, right, level, left.ty.compute(), &left.shape)
    }
}

fn is_array(value: &Value) -> bool {
    !value.shape.is_empty() && value.shape.len() <= 3 && value.ty != Dtype::Bool
}

fn abs_of(piece: &Piece) -> String {
    format!("abs({})", piece.text)
}

/// A value as an operand.
fn whole(value: &Value) -> Piece {
    let mut piece = Piece::atom(value.name.clone(), value.ty, &value.shape);
    piece.uses.clone_from(&value.uses);
    if value.may_contract {
        piece.factors = ["left of", "right of"].map(|side| [format!("{side} {}", value.name)].into()).into();
    }
    piece
}

/// An element of a value as an operand.
pub fn element(value: &Value, subscripts: &[String]) -> Piece {
    let text = match subscripts {
        [] => value.name.clone(),
        _ => format!("{}[{}]", value.name, subscripts.join(", ")),
    };
    let mut piece = Piece { text, shape: vec![], ..whole(value) };
    piece.uses.extend(subscripts.iter().cloned());
    piece
}
