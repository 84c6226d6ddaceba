//! Expressions of a given type and shape.

use std::collections::{BTreeMap, BTreeSet};

use ir::Dtype;

use super::choice::Choices;
use super::condition::if_piece;
use super::dim::Dim;
use super::functions::Helper;
use super::piece::{Level, Piece, TYPES};
use super::scope::Scope;

/// In a function with one of these, arrays are computed apart from those who use them.
const ALONE: [&str; 5] = ["let rec", "sort(", "top(", "median(", "quantile("];

/// Whether a function, or one before it that it calls, computes arrays apart from those who use
/// them.
fn is_alone(helper: &Helper, helpers: &[Helper]) -> bool {
    let before = helpers.iter().position(|other| other.name == helper.name).unwrap_or(0);
    let calls = |other: &Helper| helper.text.contains(&format!("{}(", other.name));
    ALONE.iter().any(|word| helper.text.contains(word))
        || (0..before).any(|n| calls(&helpers[n]) && is_alone(&helpers[n], &helpers[..n]))
}

/// Writes expressions and statements of one function.
#[derive(Debug)]
pub struct Writer<'a> {
    /// Where the decisions come from.
    pub choices: Choices<'a>,
    /// Everything that is visible here.
    pub scope: Scope,
    /// The functions that may be called.
    pub helpers: &'a [Helper],
    /// How many elements each loop nest goes through.
    pub work: Vec<Dim>,
    /// Which constructs occur.
    pub constructs: BTreeSet<&'static str>,
    /// Numbers the indices of reducers.
    pub reducers: usize,
    /// Whether a new value may take the name of another.
    pub shadows: bool,
    /// Whether loops may be drawn: in the entry, where no index is around them.
    pub loops_apart: bool,
    /// Whether it is in the step of a loop.
    pub in_step: bool,
    /// Whether it is in a branch that chooses a tuple.
    pub in_choice: bool,
    /// Whether a branch may be around it that guards accesses.
    pub in_if: bool,
    /// How many loops of expressions are around it.
    pub loops_around: usize,
    /// Whether the innermost of these is the loop that it is a step of.
    pub in_inner: bool,
    /// The functions of the shipped libraries that it calls.
    pub shipped: BTreeSet<&'static str>,
}

/// The form of an expression at its top.
#[derive(Clone, Copy, Debug)]
enum Form {
    Access,
    Arithmetic,
    Power,
    Negate,
    Not,
    Function,
    MinMax,
    If,
    Guard,
    Cast,
    Compare,
    Logic,
    Reduce,
    ReduceAll,
    ReduceAxis,
    ArgExtreme,
    Size,
    Call,
    ArrayLiteral,
    Picked,
    Loop,
}

/// The comparisons.
pub const COMPARISONS: [&str; 6] = ["<", "<=", ">", ">=", "==", "!="];

/// Exponents of a power, the most common first; the last two only for floats.
const EXPONENTS: [&str; 9] = ["2", "3", "1", "0", "4", "63", "70", "-1", "-2"];

impl<'a> Writer<'a> {
    /// A writer of one function.
    pub fn new(words: &'a [u16], scope: Scope, helpers: &'a [Helper]) -> Writer<'a> {
        let (work, constructs) = (vec![], BTreeSet::new());
        let choices = Choices::new(words);
        let (shadows, loops_apart, in_step, in_choice) = (true, false, false, false);
        let (loops_around, in_inner) = (0, false);
        let reducers = 0;
        Writer {
            choices,
            scope,
            helpers,
            work,
            constructs,
            reducers,
            shadows,
            loops_apart,
            in_step,
            in_choice,
            in_if: false,
            loops_around,
            in_inner,
            shipped: BTreeSet::new(),
        }
    }

    /// Notes that a construct occurs.
    pub fn count(&mut self, construct: &'static str) {
        self.constructs.insert(construct);
    }

    /// Notes a loop nest over a shape, here.
    pub fn loops(&mut self, shape: &[Dim]) {
        self.work.push(shape.iter().fold(self.scope.runs(), |product, dim| product.times(dim)));
    }

    /// Draws something that may be in a branch.
    pub fn maybe_in_if<T>(&mut self, inside: bool, draw: impl FnOnce(&mut Self) -> T) -> T {
        let outside = self.in_if;
        self.in_if |= inside;
        let drawn = draw(self);
        self.in_if = outside;
        drawn
    }

    /// An expression that is not a literal alone, with exactly this type and shape.
    pub fn expr(&mut self, ty: Dtype, shape: &[Dim], fuel: usize) -> Piece {
        if fuel == 0 || self.choices.is_exhausted() {
            return self.atom(ty, shape);
        }
        let scalar = shape.is_empty();
        let bool = ty == Dtype::Bool;
        // Operations on a storage type give a wider type.
        let number = !bool && !ty.is_storage();
        let indexed = !self.scope.indices.is_empty();
        let when = |condition: bool, weight: usize| if condition { weight } else { 0 };
        let forms = [
            (4, Form::Access),
            (when(number, 8), Form::Arithmetic),
            (when(number, 1), Form::Power),
            (when(number, 1), Form::Negate),
            (when(number, 8), Form::Function),
            (when(number, 1), Form::MinMax),
            (3, Form::If),
            (when(indexed && scalar, 3), Form::Guard),
            (if bool { 1 } else { when(number, 2) + when(!number, 6) }, Form::Cast),
            (when(bool, 6), Form::Compare),
            (when(bool, 3), Form::Logic),
            (when(bool, 1), Form::Not),
            (when(bool || number, 2) + when(number && scalar, 4), Form::Reduce),
            (when(scalar, when(bool, 1) + when(number, 3)), Form::ReduceAll),
            (when((bool || number) && !scalar && shape.len() < 3, 3), Form::ReduceAxis),
            (when(ty == Dtype::I64 && scalar, 3), Form::ArgExtreme),
            (when(ty == Dtype::I64 && scalar, 2), Form::Size),
            (when(!self.helpers.is_empty(), 7), Form::Call),
            (when(indexed && scalar, 2), Form::Picked),
            (when(scalar && self.may_loop(ty), 3), Form::Loop),
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

    fn form(&mut self, form: Form, ty: Dtype, shape: &[Dim], fuel: usize) -> Piece {
        match form {
            Form::Access => self.atom(ty, shape),
            Form::Arithmetic => {
                let operators = ["+", "*", "-", "/", "%"];
                let operator = *self.choices.pick(&operators).unwrap_or(&"+");
                self.count(operator);
                let level = if matches!(operator, "+" | "-") { Level::Add } else { Level::Mul };
                let (left, right) = self.operands(ty, shape, fuel);
                Piece::binary(&left, operator, &right, level, ty, shape)
            }
            Form::Power => self.power(ty, shape, fuel),
            Form::Negate => {
                self.count("unary -");
                let operand = self.widened(ty, shape, fuel);
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
            Form::Function => self.function(ty, shape, fuel),
            Form::MinMax => {
                let name = *self.choices.pick(&["max", "min"]).unwrap_or(&"max");
                self.count(if name == "max" { "max(,)" } else { "min(,)" });
                let (left, right) = self.operands(ty, shape, fuel);
                Piece::call(name, &[&left, &right], ty, shape)
            }
            Form::If if ty != Dtype::Bool && self.choices.chance(12) => {
                self.count("select");
                let condition = self.expr(Dtype::Bool, shape, fuel.max(1));
                let (then, otherwise) = self.two(ty, shape, fuel);
                Piece::call("select", &[&condition, &then, &otherwise], ty, shape)
            }
            Form::If => {
                self.count("if");
                let whole = if self.choices.chance(20) { shape.len() } else { 0 };
                let condition = self.expr(Dtype::Bool, &shape[whole..], fuel.max(1));
                // A condition that is an array guards nothing.
                let guarded = if condition.shape.is_empty() { self.guard_by(&condition) } else { vec![] };
                let before = self.work.len();
                let (then, otherwise) = self.maybe_in_if(true, |writer| writer.two(ty, shape, fuel));
                // A reduction in a branch may be computed for each element.
                for work in &mut self.work[before..] {
                    *work = shape.iter().fold(work.clone(), |product, dim| product.times(dim));
                }
                self.unguard(guarded);
                if_piece(&condition, &then, &otherwise, ty, shape)
            }
            Form::Guard => self.guarded_access(ty, fuel),
            Form::Cast => {
                let same_width = |from: &Dtype| from.bytes() == ty.bytes() && from.is_float() != ty.is_float();
                let kin: Vec<Dtype> = TYPES.into_iter().filter(|from| ty.bytes() > 1 && same_width(from)).collect();
                if !kin.is_empty() && self.choices.chance(25) {
                    let from = *self.choices.pick(&kin).unwrap_or(&ty);
                    self.count("bitcast");
                    // A literal has no type of its own.
                    let operand = self.expr(from, shape, fuel);
                    let operand =
                        if operand.literal { Piece::call(from.name(), &[&operand], from, shape) } else { operand };
                    let text = format!("bitcast({ty}, {})", operand.text);
                    return Piece::atom(text, ty, shape).using(&[&operand]);
                }
                let from = self.some_type();
                self.count("cast");
                let operand = self.expr(from, shape, fuel);
                let piece = Piece::call(ty.name(), &[&operand], ty, shape);
                Piece { factors: operand.factors, ..piece }
            }
            Form::Compare => {
                let of = self.some_number_type();
                if of.is_float() && self.choices.chance(25) {
                    let operand = self.expr(of, shape, fuel);
                    return self.classified(&operand);
                }
                let operator = *self.choices.pick(&COMPARISONS).unwrap_or(&"<");
                self.count(operator);
                let (left, right) = self.operands(of.compute(), shape, fuel);
                Piece::binary(&left, operator, &right, Level::Compare, ty, shape)
            }
            Form::Logic => {
                let (operator, level) = if self.choices.chance(50) { ("||", Level::Or) } else { ("&&", Level::And) };
                self.count(operator);
                let left = self.expr(ty, shape, fuel);
                let right = self.maybe_in_if(true, |writer| writer.expr(ty, shape, fuel.saturating_sub(1)));
                Piece::binary(&left, operator, &right, level, ty, shape)
            }
            Form::Reduce => {
                let name = self.reducer(ty);
                self.reduce(name, ty, shape, fuel)
            }
            Form::ReduceAll => {
                let name = self.whole_reducer(ty);
                self.reduce_all(name, ty, fuel)
            }
            Form::ReduceAxis => {
                if ty == Dtype::I64 && self.choices.chance(25) {
                    let of = self.some_number_type();
                    if let Some((axis, over)) = self.with_axis(of, shape) {
                        let name = self.extreme();
                        return Piece { ty, ..self.reduce_axis(name, of, axis, &over, fuel) };
                    }
                }
                match self.with_axis(ty, shape) {
                    Some((axis, over)) => {
                        let name = self.whole_reducer(ty);
                        self.reduce_axis(name, ty, axis, &over, fuel)
                    }
                    None => self.atom(ty, shape),
                }
            }
            Form::ArgExtreme => {
                let name = self.extreme();
                let of = self.some_number_type();
                let piece = if self.choices.chance(30) {
                    self.reduce_all(name, of, fuel)
                } else {
                    self.reduce(name, of, &[], fuel)
                };
                Piece { ty, ..piece }
            }
            Form::Loop => self.loop_in_expression(ty, fuel),
            Form::Size => self.size(),
            Form::Call => self.call(ty, shape, fuel).unwrap_or_else(|| self.atom(ty, shape)),
            Form::ArrayLiteral => self.array_literal(ty, shape[0].as_constant().unwrap_or(1), fuel),
            Form::Picked => {
                let length = self.choices.below(3) + 2;
                let array = self.array_literal(ty, i64::try_from(length).unwrap_or(2), fuel);
                let index = self.choices.below(self.scope.indices.len());
                let name = self.scope.indices[index].name.clone();
                let mut piece = Piece::atom(format!("{}[{name} % {length}]", array.text), ty, &[]).using(&[&array]);
                piece.uses.insert(name);
                piece
            }
        }
    }

    /// `[a, b, c]`
    fn array_literal(&mut self, ty: Dtype, length: i64, fuel: usize) -> Piece {
        self.count("array literal");
        let elements: Vec<Piece> = (0..length)
            .map(|n| if n == 0 { self.expr(ty, &[], fuel.min(1)) } else { self.operand(ty, &[], fuel.min(1)) })
            .collect();
        let text: Vec<&str> = elements.iter().map(|e| e.text.as_str()).collect();
        let elements: Vec<&Piece> = elements.iter().collect();
        Piece::atom(format!("[{}]", text.join(", ")), ty, &[Dim::constant(length)]).using(&elements)
    }

    /// A property of a float, such as whether it is NaN.
    pub fn classified(&mut self, operand: &Piece) -> Piece {
        let name = *self.choices.pick(&["isnan", "isinf", "isfinite"]).unwrap_or(&"isnan");
        self.count(name);
        Piece::call(name, &[operand], Dtype::Bool, &operand.shape)
    }

    /// `x ^ 2`, or a power with an exponent that is not a literal.
    fn power(&mut self, ty: Dtype, shape: &[Dim], fuel: usize) -> Piece {
        self.count("^");
        let base = self.widened(ty, shape, fuel);
        let exponent = match self.choices.chance(25) {
            true => self.loose(ty, shape, 0),
            false => {
                let exponents = if ty.is_float() { &EXPONENTS[..] } else { &EXPONENTS[..7] };
                Piece::atom(*self.choices.pick(exponents).unwrap_or(&"2"), ty, &[])
            }
        };
        let exponent = if exponent.literal { Piece::atom("2", ty, &[]) } else { exponent };
        let text = format!("{} ^ {}", base.within(Level::Atom), exponent.within(Level::Atom));
        Piece { level: Level::Pow, ..Piece::atom(text, ty, shape) }.using(&[&base, &exponent])
    }

    /// Some scalar function that gives this type.
    fn function(&mut self, ty: Dtype, shape: &[Dim], fuel: usize) -> Piece {
        if ty.is_float() && self.choices.chance(6) {
            return self.draw(ty, shape, fuel);
        }
        let functions: Vec<(&'static str, usize)> = compiler::check::scalar_functions(ty).collect();
        let (name, arity) = *self.choices.pick(&functions).unwrap_or(&("abs", 1));
        self.count(name);
        let mut operands = vec![self.widened(ty, shape, fuel)];
        while operands.len() < arity {
            let operand = self.loose(ty, shape, fuel.saturating_sub(operands.len()));
            // A whole number has no negative power.
            let power = name == "pow" && operand.literal && !ty.is_float();
            operands.push(if power { Piece::atom("3", ty, &[]) } else { operand });
        }
        let operands: Vec<&Piece> = operands.iter().collect();
        Piece::call(name, &operands, ty, shape)
    }

    /// A random number, from a seed and one or more indices of any integer types.
    fn draw(&mut self, ty: Dtype, shape: &[Dim], fuel: usize) -> Piece {
        let name = *self.choices.pick(&["uniform", "normal"]).unwrap_or(&"uniform");
        self.count(name);
        let mut operands = vec![];
        for _ in 0..2 + self.choices.below(3) {
            let int = *self
                .choices
                .pick(&[Dtype::I64, Dtype::U32, Dtype::I32, Dtype::U64, Dtype::U8, Dtype::U16])
                .unwrap_or(&ty);
            operands.push(self.expr(int, if operands.is_empty() { shape } else { &[] }, fuel.min(1)));
        }
        let operands: Vec<&Piece> = operands.iter().collect();
        // It takes the type of its context, which a cast pins down.
        let draw = Piece::call(name, &operands, ty, shape);
        Piece::call(ty.name(), &[&draw], ty, shape)
    }

    /// A type that operations widen to this one: mostly itself.
    pub fn narrower(&mut self, ty: Dtype) -> Dtype {
        let kin: Vec<Dtype> = TYPES.into_iter().filter(|t| t.is_storage() && t.compute() == ty).collect();
        let seen = self.scope.values.iter().rev().map(|v| v.ty).find(|t| kin.contains(t));
        match (seen, kin.is_empty()) {
            (Some(seen), _) if self.choices.chance(40) => seen,
            (_, false) if self.choices.chance(3) => self.choices.pick(&kin).copied().unwrap_or(ty),
            _ => ty,
        }
    }

    /// An operand of an operation in this type, with exactly this shape.
    pub fn widened(&mut self, ty: Dtype, shape: &[Dim], fuel: usize) -> Piece {
        let ty = self.narrower(ty);
        self.expr(ty, shape, fuel)
    }

    /// Two operands of an operation in this type, one of them with exactly the shape.
    fn operands(&mut self, ty: Dtype, shape: &[Dim], fuel: usize) -> (Piece, Piece) {
        let exact = self.widened(ty, shape, fuel);
        let other = self.loose(ty, shape, fuel.saturating_sub(1));
        if self.choices.chance(30) { (other, exact) } else { (exact, other) }
    }

    /// Two expressions of one type, one of them with exactly the shape.
    pub fn two(&mut self, ty: Dtype, shape: &[Dim], fuel: usize) -> (Piece, Piece) {
        let exact = self.expr(ty, shape, fuel);
        let other = self.operand(ty, shape, fuel.saturating_sub(1));
        if self.choices.chance(30) { (other, exact) } else { (exact, other) }
    }

    /// An operand that fits one of this shape in an operation in this type.
    pub fn loose(&mut self, ty: Dtype, shape: &[Dim], fuel: usize) -> Piece {
        match self.trailing(shape) {
            Some(from) => self.widened(ty, &shape[from..], fuel),
            None => self.literal(ty),
        }
    }

    /// An operand that fits an expression of this type and shape: a literal, one with only trailing
    /// axes, or one of the same shape.
    pub fn operand(&mut self, ty: Dtype, shape: &[Dim], fuel: usize) -> Piece {
        match self.trailing(shape) {
            Some(from) => self.expr(ty, &shape[from..], fuel),
            None => self.literal(ty),
        }
    }

    /// The axis from which on an operand has the axes of another; `None` for a literal.
    fn trailing(&mut self, shape: &[Dim]) -> Option<usize> {
        if !self.choices.chance(60) {
            return None;
        }
        let from = if self.choices.chance(40) { self.choices.below(shape.len() + 1) } else { 0 };
        if from > 0 {
            self.count("broadcast");
        }
        Some(from)
    }

    /// A call of a helper with this result.
    fn call(&mut self, ty: Dtype, shape: &[Dim], fuel: usize) -> Option<Piece> {
        let mut found: Vec<(Helper, BTreeMap<String, Dim>)> = vec![];
        for helper in self.helpers.iter().flat_map(Helper::instances) {
            // No recurrence or sort may depend on a step for each index, nor on an access that is
            // inside in a branch only.
            let with_others = !self.may_stand_alone() || self.in_step;
            let alone = with_others && is_alone(&helper, self.helpers);
            if let [(_, result, axes)] = helper.results.as_slice()
                && *result == ty
                && !alone
                && let Some(sizes) = helper.sizes_for(axes, shape)
            {
                found.push((helper.clone(), sizes));
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
        // A length in the helper may be its size less 2.
        if sizes.values().any(|dim| dim.as_constant().is_some_and(|c| c < 2)) {
            return None;
        }
        Some(self.call_with(&helper, &sizes, shape, fuel))
    }
}
