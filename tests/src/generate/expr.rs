//! Expressions of a wanted type and shape.

use std::collections::{BTreeMap, BTreeSet};

use super::choice::Choices;
use super::dim::Dim;
use super::functions::Helper;
use super::piece::{Level, Names, Piece, Ty};
use super::scope::{Scope, Value};

/// Writes expressions and statements of one function.
#[derive(Debug)]
pub struct Writer<'a> {
    /// Where the decisions come from.
    pub choices: Choices<'a>,
    /// What can be seen.
    pub scope: Scope,
    /// The functions that may be called.
    pub helpers: &'a [Helper],
    /// How many elements each loop nest goes through.
    pub work: Vec<Dim>,
    /// Which constructs occur.
    pub constructs: BTreeSet<&'static str>,
    /// Numbers the indices of reducers.
    pub reducers: usize,
}

/// What an expression can be at its top.
#[derive(Clone, Copy, Debug)]
enum Form {
    Access,
    Arithmetic,
    Power,
    Negate,
    Not,
    Math,
    MinMax,
    Clamp,
    If,
    Guard,
    Cast,
    Compare,
    Logic,
    AnyAll,
    Reduce,
    ReduceAll,
    ReduceAxis,
    ArgExtreme,
    Size,
    Call,
    ArrayLiteral,
}

const FLOAT_LITERALS: [&str; 14] =
    ["1", "2", "0.5", "3", "0", "1.5", "0.1", "10", "1e-3", "100.0", "pi", "2.5e6", "inf", "nan"];
const INT_LITERALS: [&str; 8] = ["1", "2", "3", "0", "5", "7", "100", "1000003"];
const SMALL_LITERALS: [&str; 3] = ["1", "2", "3"];
const FLOAT_MATH: [&str; 28] = [
    "abs",
    "floor",
    "ceil",
    "trunc",
    "round",
    "sqrt",
    "rsqrt",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "sigmoid",
    "silu",
    "softplus",
    "erf",
    "gelu",
    "gelu_tanh",
    "relu",
    "sign",
];
const INT_PAIRS: [&str; 5] = ["bit_and", "bit_or", "bit_xor", "shift_left", "shift_right"];

impl<'a> Writer<'a> {
    /// A writer of one function.
    pub fn new(words: &'a [u16], scope: Scope, helpers: &'a [Helper]) -> Writer<'a> {
        Writer { choices: Choices::new(words), scope, helpers, work: vec![], constructs: BTreeSet::new(), reducers: 0 }
    }

    /// Notes that a construct occurs.
    pub fn count(&mut self, construct: &'static str) {
        self.constructs.insert(construct);
    }

    /// Notes a loop nest over a shape, here.
    pub fn loops(&mut self, shape: &[Dim]) {
        self.work.push(shape.iter().fold(self.scope.runs(), |product, dim| product.times(dim)));
    }

    /// An expression that is not a literal alone, with exactly this type and shape.
    pub fn expr(&mut self, ty: Ty, shape: &[Dim], fuel: usize) -> Piece {
        if fuel == 0 || self.choices.is_exhausted() {
            return self.atom(ty, shape);
        }
        let scalar = shape.is_empty();
        let number = ty != Ty::Bool;
        let indexed = !self.scope.indices.is_empty();
        let when = |condition: bool, weight: usize| if condition { weight } else { 0 };
        let forms = [
            (4, Form::Access),
            (when(number, 8), Form::Arithmetic),
            (when(number, 1), Form::Power),
            (when(number, 1), Form::Negate),
            (when(ty.is_float(), 4), Form::Math),
            (when(number, 2), Form::MinMax),
            (when(number, 1), Form::Clamp),
            (3, Form::If),
            (when(indexed && scalar, 3), Form::Guard),
            (when(number, 2), Form::Cast),
            (when(!number, 6), Form::Compare),
            (when(!number, 3), Form::Logic),
            (when(!number, 1), Form::Not),
            (when(!number && scalar, 2), Form::AnyAll),
            (when(number && scalar, 5), Form::Reduce),
            (when(number && scalar, 3), Form::ReduceAll),
            (when(number && !scalar && shape.len() < 3, 3), Form::ReduceAxis),
            (when(ty == Ty::I64 && scalar, 3), Form::ArgExtreme),
            (when(ty == Ty::I64 && scalar, 2), Form::Size),
            (when(!self.helpers.is_empty(), 7), Form::Call),
            (
                when(shape.len() == 1 && shape[0].as_constant().is_some_and(|c| (1..5).contains(&c)), 3),
                Form::ArrayLiteral,
            ),
        ];
        let form = self.choices.weighted(&forms).unwrap_or(Form::Access);
        let piece = self.form(form, ty, shape, fuel - 1);
        if !scalar {
            self.loops(shape);
        }
        piece
    }

    fn form(&mut self, form: Form, ty: Ty, shape: &[Dim], fuel: usize) -> Piece {
        match form {
            Form::Access => self.atom(ty, shape),
            Form::Arithmetic => {
                let operators = ["+", "*", "-", "/", "%"];
                let operator = *self.choices.pick(&operators).unwrap_or(&"+");
                self.count(operator);
                let level = if matches!(operator, "+" | "-") { Level::Add } else { Level::Mul };
                let (left, right) = self.two(ty, shape, fuel);
                Piece::binary(&left, operator, &right, level, ty, shape)
            }
            Form::Power => {
                self.count("^");
                let base = self.expr(ty, shape, fuel);
                let exponent = *self.choices.pick(&["2", "3", "1", "0", "4"]).unwrap_or(&"2");
                let text = format!("{} ^ {exponent}", base.within(Level::Atom));
                Piece { level: Level::Pow, ..Piece::atom(text, ty, shape) }.using(&[&base])
            }
            Form::Negate => {
                self.count("unary -");
                let operand = self.expr(ty, shape, fuel);
                let text = format!("-{}", operand.within(Level::Pow));
                let factors = operand.factors.clone();
                Piece { level: Level::Unary, factors, ..Piece::atom(text, ty, shape) }.using(&[&operand])
            }
            Form::Not => {
                self.count("!");
                let operand = self.expr(ty, shape, fuel);
                let text = format!("!{}", operand.within(Level::Compare));
                Piece { level: Level::Not, ..Piece::atom(text, ty, shape) }.using(&[&operand])
            }
            Form::Math => {
                let name = *self.choices.pick(&FLOAT_MATH).unwrap_or(&"abs");
                self.count(name);
                let operand = self.expr(ty, shape, fuel);
                Piece::call(name, &[&operand], ty, shape)
            }
            Form::MinMax => {
                if ty.is_float() && self.choices.chance(25) {
                    self.count("fma");
                    let (left, right) = self.two(ty, shape, fuel);
                    let addend = self.operand(ty, shape, fuel.saturating_sub(1));
                    return Piece::call("fma", &[&left, &right, &addend], ty, shape);
                }
                if !ty.is_float() && self.choices.chance(35) {
                    let name = *self.choices.pick(&INT_PAIRS).unwrap_or(&"bit_and");
                    self.count(name);
                    let (left, right) = self.two(ty, shape, fuel);
                    return Piece::call(name, &[&left, &right], ty, shape);
                }
                let name = *self.choices.pick(&["max(,)", "min(,)", "abs int", "relu int"]).unwrap_or(&"max(,)");
                self.count(name);
                if let Some(unary) = name.strip_suffix(" int") {
                    let operand = self.expr(ty, shape, fuel);
                    return Piece::call(unary, &[&operand], ty, shape);
                }
                let (left, right) = self.two(ty, shape, fuel);
                Piece::call(&name[..3], &[&left, &right], ty, shape)
            }
            Form::Clamp => {
                self.count("clamp");
                let operand = self.expr(ty, shape, fuel);
                let bounds = [self.operand(ty, shape, 0), self.operand(ty, shape, 0)];
                Piece::call("clamp", &[&operand, &bounds[0], &bounds[1]], ty, shape)
            }
            Form::If if self.choices.chance(12) => {
                self.count("select");
                let condition = self.expr(Ty::Bool, shape, fuel);
                let (then, otherwise) = self.two(ty, shape, fuel);
                Piece::call("select", &[&condition, &then, &otherwise], ty, shape)
            }
            Form::If => {
                self.count("if");
                let whole = if self.choices.chance(20) { shape.len() } else { 0 };
                let condition = self.expr(Ty::Bool, &shape[whole..], fuel);
                let guarded = self.guard(&condition.uses);
                let (then, otherwise) = self.two(ty, shape, fuel);
                self.unguard(guarded);
                if_piece(&condition, &then, &otherwise, ty, shape)
            }
            Form::Guard => self.guarded_access(ty, fuel),
            Form::Cast => {
                let from = self.some_type();
                self.count("cast");
                let operand = self.expr(from, shape, fuel);
                let piece = Piece::call(ty.name(), &[&operand], ty, shape);
                Piece { factors: operand.factors, ..piece }
            }
            Form::Compare => {
                let of = self.some_number_type();
                if of.is_float() && self.choices.chance(15) {
                    let name = *self.choices.pick(&["isnan", "isinf", "isfinite"]).unwrap_or(&"isnan");
                    self.count(name);
                    let operand = self.expr(of, shape, fuel);
                    return Piece::call(name, &[&operand], ty, shape);
                }
                let operator = *self.choices.pick(&["<", "<=", ">", ">=", "==", "!="]).unwrap_or(&"<");
                self.count(operator);
                let (left, right) = self.two(of, shape, fuel);
                Piece::binary(&left, operator, &right, Level::Compare, ty, shape)
            }
            Form::Logic => {
                let (operator, level) = if self.choices.chance(50) { ("||", Level::Or) } else { ("&&", Level::And) };
                self.count(operator);
                let left = self.expr(ty, shape, fuel);
                // The right operand is evaluated only if the left one leaves it open: it stands under a condition.
                let guarded = self.guard(&left.uses);
                let right = self.expr(ty, shape, fuel.saturating_sub(1));
                self.unguard(guarded);
                Piece::binary(&left, operator, &right, level, ty, shape)
            }
            Form::AnyAll => {
                let name = *self.choices.pick(&["any", "all"]).unwrap_or(&"any");
                self.count(name);
                self.reduce(name, ty, fuel)
            }
            Form::Reduce => {
                let name = self.reducer(ty);
                self.reduce(name, ty, fuel)
            }
            Form::ReduceAll => {
                let name = self.reducer(ty);
                self.count("reducer over all");
                let over = self.some_shape_of(ty);
                let body = self.summand(name, ty, &over, fuel);
                self.loops(&over);
                Piece::call(name, &[&body], ty, shape)
            }
            Form::ReduceAxis => match self.with_axis(ty, shape) {
                Some((axis, over)) => self.reduce_axis(ty, axis, &over, fuel),
                None => self.atom(ty, shape),
            },
            Form::ArgExtreme => {
                let name = *self.choices.pick(&["argmax", "argmin"]).unwrap_or(&"argmax");
                self.count(name);
                let of = self.some_number_type();
                let piece = self.reduce(name, of, fuel);
                Piece { ty, ..piece }
            }
            Form::Size => self.size(),
            Form::Call => self.call(ty, shape, fuel).unwrap_or_else(|| self.atom(ty, shape)),
            Form::ArrayLiteral => {
                self.count("array literal");
                let length = shape[0].as_constant().unwrap_or(1);
                let elements: Vec<Piece> = (0..length)
                    .map(|n| if n == 0 { self.expr(ty, &[], fuel.min(1)) } else { self.operand(ty, &[], fuel.min(1)) })
                    .collect();
                let text: Vec<&str> = elements.iter().map(|e| e.text.as_str()).collect();
                let elements: Vec<&Piece> = elements.iter().collect();
                Piece::atom(format!("[{}]", text.join(", ")), ty, shape).using(&elements)
            }
        }
    }

    /// Two operands, one of them with exactly the shape and type.
    fn two(&mut self, ty: Ty, shape: &[Dim], fuel: usize) -> (Piece, Piece) {
        let exact = self.expr(ty, shape, fuel);
        let other = self.operand(ty, shape, fuel.saturating_sub(1));
        if self.choices.chance(30) { (other, exact) } else { (exact, other) }
    }

    /// Something that goes with an operand of this type and shape: a literal, a trailing part, or the same.
    pub fn operand(&mut self, ty: Ty, shape: &[Dim], fuel: usize) -> Piece {
        if self.choices.chance(60) {
            let from = if self.choices.chance(40) { self.choices.below(shape.len() + 1) } else { 0 };
            if from > 0 {
                self.count("broadcast");
            }
            return self.expr(ty, &shape[from..], fuel);
        }
        self.literal(ty)
    }

    fn literal(&mut self, ty: Ty) -> Piece {
        self.count("literal");
        let texts: &[&str] = match ty {
            Ty::Bool => &["true", "false"],
            Ty::I32 | Ty::I64 => &INT_LITERALS,
            Ty::F32 | Ty::F64 => &FLOAT_LITERALS,
        };
        // Infinities and NaN drown what is around them: seldom.
        let count = if ty.is_float() && !self.choices.chance(10) { texts.len() - 2 } else { texts.len() };
        let text = *self.choices.pick(&texts[..count]).unwrap_or(&texts[0]);
        let piece = Piece { literal: true, small: SMALL_LITERALS.contains(&text), ..Piece::atom(text, ty, &[]) };
        match ty != Ty::Bool && self.choices.chance(15) {
            true => Piece { text: format!("-{}", piece.text), level: Level::Unary, ..piece },
            false => piece,
        }
    }

    /// The values that can have this shape here, the latest first; where there are indices, those that they
    /// select from come before those that ignore them.
    fn suited(&self, shape: &[Dim], wanted: impl Fn(&Value) -> bool) -> Vec<usize> {
        let suits = |value: &Value| {
            let leading = value.shape.len().checked_sub(shape.len());
            wanted(value)
                && value.shape.ends_with(shape)
                && leading.is_some_and(|leading| self.scope.reaches(&value.shape[..leading]))
        };
        let values = self.scope.values.iter().enumerate().rev();
        let mut found: Vec<usize> = values.filter(|(_, v)| suits(v)).map(|(n, _)| n).collect();
        if !self.scope.indices.is_empty() {
            found.sort_by_key(|n| self.scope.values[*n].shape.len() == shape.len());
        }
        found
    }

    /// The first of these values half the time, else any.
    fn take(&mut self, found: &[usize], shape: &[Dim]) -> Option<Piece> {
        let value = if self.choices.chance(50) { self.choices.pick(found) } else { found.first() }.copied()?;
        let leading = self.scope.values[value].shape.len() - shape.len();
        let piece = self.scope.access(&mut self.choices, value, leading)?;
        if piece.text.contains('[') {
            self.count("access");
        }
        Some(piece)
    }

    /// A value of exactly this type and shape without operators of its own.
    pub fn atom(&mut self, ty: Ty, shape: &[Dim]) -> Piece {
        let moved = if self.choices.chance(25) { self.moved(ty, shape) } else { None };
        if let Some(piece) = moved {
            return piece;
        }
        let found = self.suited(shape, |value| value.ty == ty);
        if let Some(piece) = self.take(&found, shape) {
            return piece;
        }
        self.moved(ty, shape).unwrap_or_else(|| self.fallback(ty, shape))
    }

    /// A small value, if there is one of this type and shape.
    pub fn small_atom(&mut self, ty: Ty, shape: &[Dim]) -> Piece {
        let found = self.suited(shape, |value| value.ty == ty && value.small);
        self.take(&found, shape).unwrap_or_else(|| self.atom(ty, shape))
    }

    /// A whole value, moved so that it gets this shape.
    fn moved(&mut self, ty: Ty, shape: &[Dim]) -> Option<Piece> {
        let first = shape.first()?;
        let mut found = vec![];
        for value in self.scope.values.iter().rev().filter(|v| v.ty == ty && v.shape.len() == shape.len()) {
            let whole =
                |text: String| Piece { small: value.small, uses: value.uses.clone(), ..Piece::atom(text, ty, shape) };
            let name = &value.name;
            if shape.len() == 2 && value.shape[0] == shape[1] && value.shape[1] == shape[0] {
                found.push(("transpose", whole(format!("transpose({name})"))));
            }
            if value.shape[1..] != shape[1..] {
                continue;
            }
            let whole_axis = &value.shape[0];
            if let Some(more @ 1..=3) = whole_axis.minus(first).as_constant() {
                let start = i64::try_from(self.choices.below(usize::try_from(more).unwrap_or(0) + 1)).unwrap_or(0);
                let text = match (start, more - start) {
                    (0, _) => format!("{name}[:{first}]"),
                    (_, 0) => format!("{name}[{start}:]"),
                    _ => format!("{name}[{start}:{}]", whole_axis.offset(start - more)),
                };
                found.push(("slice", whole(text)));
            }
            if *first == whole_axis.half() && first != whole_axis {
                found.push(("strided slice", whole(format!("{name}[::2]"))));
            }
            for subscripts in &self.scope.values {
                if subscripts.below.as_ref() == Some(whole_axis) && subscripts.shape == shape[..1] {
                    let mut piece = whole(format!("{name}[{}]", subscripts.name));
                    piece.uses.extend(subscripts.uses.iter().cloned());
                    found.push(("gather", piece));
                }
            }
        }
        let (construct, piece) = self.choices.pick(&found)?.clone();
        self.count(construct);
        Some(piece)
    }

    /// Something of this type and shape where no value has it: another type's value if there is one.
    fn fallback(&mut self, ty: Ty, shape: &[Dim]) -> Piece {
        let found = self.suited(shape, |value| value.ty != ty);
        let other = if self.choices.chance(80) { self.take(&found, shape) } else { None };
        if let Some(other) = other {
            return self.convert(other, ty);
        }
        if let Some(index) = self.scope.indices.last().map(|i| i.name.clone())
            && shape.is_empty()
            && self.choices.chance(50)
        {
            self.count("index as value");
            let index = Piece { uses: [index.clone()].into(), ..Piece::atom(index, Ty::I64, &[]) };
            return self.convert(index, ty);
        }
        if shape.is_empty() {
            let number = self.literal(if ty == Ty::Bool { Ty::F32 } else { ty });
            let number = Piece { small: number.small, ..Piece::call(number.ty.name(), &[&number], number.ty, &[]) };
            return self.convert(number, ty);
        }
        self.count("iota");
        let count = shape.iter().fold(Dim::constant(1), |product, dim| product.times(dim));
        let sizes: Vec<String> = shape.iter().map(Dim::to_string).collect();
        let text = match shape {
            [_] => format!("iota({count})"),
            _ => format!("reshape(iota({count}), {})", sizes.join(", ")),
        };
        self.convert(Piece::atom(text, Ty::I64, shape), ty)
    }

    /// The same elements as another type.
    fn convert(&mut self, piece: Piece, ty: Ty) -> Piece {
        let shape = piece.shape.clone();
        if piece.ty == ty {
            return piece;
        }
        if ty == Ty::Bool {
            let operator = *self.choices.pick(&[">", "<=", "!="]).unwrap_or(&">");
            let number = self.literal(piece.ty);
            return Piece::binary(&piece, operator, &number, Level::Compare, ty, &shape);
        }
        self.count("cast");
        Piece::call(ty.name(), &[&piece], ty, &shape)
    }

    /// A size, or the length of an axis.
    fn size(&mut self) -> Piece {
        self.count("size");
        let arrays: Vec<_> = self.scope.values.iter().rev().filter(|v| !v.shape.is_empty()).cloned().collect();
        if let Some(array) = self.choices.pick(&arrays).cloned()
            && self.choices.chance(50)
        {
            let axis = self.choices.below(array.shape.len());
            return Piece::atom(format!("size({}, {axis})", array.name), Ty::I64, &[]);
        }
        let dim = self.some_dim();
        let level = if dim.as_name().is_some() || dim.as_constant().is_some() { Level::Atom } else { Level::Add };
        let literal = dim.as_constant().is_some();
        let piece = Piece { level, ..Piece::atom(dim.to_string(), Ty::I64, &[]) };
        if literal { Piece::call("i64", &[&piece], Ty::I64, &[]) } else { piece }
    }

    /// `if i > 0 then x[i - 1] else e`
    fn guarded_access(&mut self, ty: Ty, fuel: usize) -> Piece {
        let n = self.choices.below(self.scope.indices.len());
        let index = self.scope.indices[n].clone();
        if index.guarded || index.prefix.is_some() {
            return self.atom(ty, &[]);
        }
        self.count("guarded access");
        let by = 1 + i64::try_from(self.choices.below(2)).unwrap_or(0);
        let name = &index.name;
        let below = index.bound.offset(-by);
        let (text, lower, upper) = match self.choices.below(4) {
            0 => (format!("{name} > {}", by - 1), by, index.upper.clone()),
            1 => (format!("{name} >= {by}"), by, index.upper.clone()),
            2 => (format!("{name} < {below}"), index.lower, below),
            _ => (format!("{name} + {by} < {}", index.bound), index.lower, below),
        };
        let condition =
            Piece { uses: [name.clone()].into(), level: Level::Compare, ..Piece::atom(text, Ty::Bool, &[]) };
        let guarded = self.guard(&condition.uses);
        self.scope.indices[n].lower = lower;
        self.scope.indices[n].upper = upper;
        let then = self.expr(ty, &[], fuel);
        self.scope.indices[n].lower = index.lower;
        self.scope.indices[n].upper = index.upper;
        let otherwise = self.operand(ty, &[], fuel.saturating_sub(1));
        self.unguard(guarded);
        if_piece(&condition, &then, &otherwise, ty, &[])
    }

    /// Marks the indices of a condition; gives back which were not marked before.
    fn guard(&mut self, names: &Names) -> Vec<usize> {
        let open = |(_, i): &(usize, &mut super::scope::Index)| !i.guarded && names.contains(&i.name);
        let indices = self.scope.indices.iter_mut().enumerate();
        let mark = |(n, index): (usize, &mut super::scope::Index)| {
            index.guarded = true;
            n
        };
        indices.filter(open).map(mark).collect()
    }

    fn unguard(&mut self, indices: Vec<usize>) {
        for n in indices {
            self.scope.indices[n].guarded = false;
        }
    }

    /// A call of a helper with this result.
    fn call(&mut self, ty: Ty, shape: &[Dim], fuel: usize) -> Option<Piece> {
        let mut found: Vec<(&Helper, BTreeMap<String, Dim>)> = vec![];
        for helper in self.helpers {
            if let [(_, result, axes)] = helper.results.as_slice()
                && *result == ty
                && let Some(sizes) = helper.sizes_for(axes, shape)
            {
                found.push((helper, sizes));
            }
        }
        let (helper, mut sizes) = self.choices.pick(&found)?.clone();
        if helper.is_scalar() {
            self.count(if shape.is_empty() { "scalar call" } else { "lifted call" });
        } else {
            self.count(if self.scope.indices.is_empty() { "array call" } else { "vmapped call" });
        }
        for name in &helper.sizes {
            if !sizes.contains_key(name) {
                let dim = self.some_dim();
                sizes.insert(name.clone(), dim);
            }
        }
        Some(self.call_with(helper, &sizes, shape, fuel))
    }

    /// The length of some axis in sight.
    pub fn some_dim(&mut self) -> Dim {
        let mut dims: Vec<Dim> = self.scope.sizes.iter().map(|name| Dim::name(name)).collect();
        for dim in self.scope.values.iter().flat_map(|v| &v.shape) {
            if !dims.contains(dim) {
                dims.push(dim.clone());
            }
        }
        self.choices.pick(&dims).cloned().unwrap_or_else(|| Dim::constant(3))
    }

    /// The shape of some array in sight, or its last axes.
    pub fn some_shape(&mut self) -> Vec<Dim> {
        let shapes: Vec<Vec<Dim>> = self.scope.values.iter().rev().map(|v| v.shape.clone()).collect();
        self.one_shape(shapes)
    }

    /// The shape of some array of this type in sight, or its last axes.
    pub fn some_shape_of(&mut self, ty: Ty) -> Vec<Dim> {
        let values = self.scope.values.iter().rev().filter(|v| v.ty == ty && !v.shape.is_empty());
        let shapes: Vec<Vec<Dim>> = values.map(|v| v.shape.clone()).collect();
        if shapes.is_empty() { self.some_shape() } else { self.one_shape(shapes) }
    }

    fn one_shape(&mut self, mut shapes: Vec<Vec<Dim>>) -> Vec<Dim> {
        shapes.retain(|shape| !shape.is_empty());
        match self.choices.pick(&shapes) {
            Some(shape) => {
                let from = if self.choices.chance(30) { self.choices.below(shape.len()) } else { 0 };
                shape[from..].to_vec()
            }
            None => vec![self.some_dim()],
        }
    }

    /// This shape with one axis more, as some value has it; seldom as none has.
    fn with_axis(&mut self, ty: Ty, shape: &[Dim]) -> Option<(usize, Vec<Dim>)> {
        let mut found = vec![];
        for value in self.scope.values.iter().rev().filter(|v| v.shape.len() == shape.len() + 1) {
            for axis in 0..value.shape.len() {
                let mut rest = value.shape.clone();
                rest.remove(axis);
                if rest == shape {
                    found.push((value.ty != ty, axis, value.shape.clone()));
                }
            }
        }
        found.sort_by_key(|(other, ..)| *other);
        if let Some((_, axis, over)) = self.choices.pick(&found) {
            return Some((*axis, over.clone()));
        }
        if !self.choices.chance(10) {
            return None;
        }
        let axis = self.choices.below(shape.len() + 1);
        let mut over = shape.to_vec();
        over.insert(axis, self.some_dim());
        Some((axis, over))
    }

    /// A type, mostly that of something in sight.
    pub fn some_type(&mut self) -> Ty {
        let types: Vec<Ty> = self.scope.values.iter().rev().map(|v| v.ty).collect();
        let from = if self.choices.chance(20) { &Ty::ALL[..] } else { &types[..] };
        self.choices.pick(from).copied().unwrap_or(Ty::F32)
    }

    /// A type to calculate with.
    pub fn some_number_type(&mut self) -> Ty {
        let ty = self.some_type();
        if ty == Ty::Bool { Ty::F32 } else { ty }
    }
}

/// `if c then a else b`
fn if_piece(condition: &Piece, then: &Piece, otherwise: &Piece, ty: Ty, shape: &[Dim]) -> Piece {
    let condition_text = condition.within(Level::Or);
    let text = format!("if {condition_text} then {} else {}", then.within(Level::Or), otherwise.text);
    Piece { level: Level::If, ..Piece::atom(text, ty, shape) }.using(&[condition, then, otherwise])
}
