//! Draws programs of integers and elementwise floats that NumPy reproduces bit for bit, so without
//! functions like `exp` and without float sums.

use ir::{Array, Dtype, Scalar};

use super::tree::{Axis, Expr, Kind, Statement};
use crate::generate::data::Random;

/// The types of parameters, the commonest first.
const TYPES: [Dtype; 14] = [
    Dtype::I64,
    Dtype::I32,
    Dtype::F32,
    Dtype::I64,
    Dtype::I32,
    Dtype::U32,
    Dtype::U64,
    Dtype::I8,
    Dtype::U8,
    Dtype::I16,
    Dtype::U16,
    Dtype::F64,
    Dtype::F32,
    Dtype::Bool,
];
/// Types to calculate with.
pub(super) const WIDE: [Dtype; 6] = [Dtype::I64, Dtype::I32, Dtype::U32, Dtype::U64, Dtype::F32, Dtype::F64];
const COMPARISONS: [&str; 6] = ["<", "<=", ">", ">=", "==", "!="];
/// Values of integer scalars: small ones, and those at which sizes and products overflow some type.
const SCALARS: [i64; 12] = [2, 3, 0, 1, -1, 5, 7, 1 << 31, 1 << 48, 1 << 62, i64::MAX, i64::MIN];
/// Sizes, the most common first: near the widths of vectors and the lanes of reductions, and 0.
const SIZES: [i64; 12] = [3, 4, 5, 1, 8, 2, 7, 17, 33, 0, 127, 129];
/// The length of an axis that is repeated if the other operand's is longer.
pub(super) const ONE: &str = "1";
/// The limits on the index settings at which an expression is computed, and on those of a whole
/// program.
const MOST: i64 = 40_000;

/// The facts about an array.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) name: String,
    pub(super) ty: Dtype,
    /// The length of each axis in the call, and its text if it is a size of the language.
    pub(super) shape: Vec<(i64, Option<String>)>,
}

/// An index that is in scope.
#[derive(Clone, Debug)]
struct Index {
    name: String,
    /// Its bound in this call, and the axis with that length, if there is one.
    length: i64,
    of: Option<Axis>,
    /// How far beyond itself it is used in a subscript of that axis.
    reach: i64,
    /// Whether it ends at another index. In a subscript it stands for its greatest value, guarded
    /// or not.
    follows: bool,
}

/// A program with one call.
pub struct Drawn {
    /// Fuseloop's text.
    pub source: String,
    /// NumPy's, as a function of the given name.
    pub numpy: String,
    /// The arguments.
    pub arguments: Vec<Array>,
}

pub(super) struct Writer {
    random: Random,
    pub(super) arrays: Vec<Known>,
    /// Integer scalar parameters, with their types.
    scalars: Vec<(String, Dtype)>,
    indices: Vec<Index>,
    /// Settings that the loops around run through.
    runs: i64,
    reducers: usize,
    /// The number of enclosing branches of `if`s and reducers with ends from data: an access there
    /// bounds no index.
    branches: usize,
}

/// The program of a number; its NumPy function has this name.
pub fn drawn(seed: u64, function: &str) -> Drawn {
    let random = Random::new(seed ^ 0x006e_756d_7079);
    let mut writer =
        Writer { random, arrays: vec![], scalars: vec![], indices: vec![], runs: 1, reducers: 0, branches: 0 };
    let (params, arguments, equal) = writer.params();
    let mut statements = vec![];
    for n in 0..1 + writer.below(4) {
        statements.extend(writer.statement(&format!("v{n}")));
    }
    // Results are what was computed last.
    let count = 1 + writer.below(3);
    let results: Vec<String> = writer.arrays.iter().rev().take(count).map(|array| array.name.clone()).collect();
    let result = if let [one] = results.as_slice() { one.clone() } else { format!("({})", results.join(", ")) };
    let heads: Vec<String> = params.iter().map(|(name, ty)| format!("{name}: {ty}")).collect();
    let lets: Vec<&str> = statements.iter().map(|s| s.fuseloop.as_str()).collect();
    let heads = heads.join(", ");
    // Sizes that are equal by chance may go together, as they do in NumPy, if both names are there.
    let both = ["n", "m"].iter().all(|name| heads.contains(&format!("[{name}")) || heads.contains(&format!("{name}]")));
    let stated = if equal && both { " where n == m" } else { "" };
    let source = format!("fn main({heads}){stated} {{\n    {}\n    {result}\n}}\n", lets.join("\n    "));
    let names: Vec<&str> = params.iter().map(|(name, _)| name.as_str()).collect();
    let lines: String = statements.iter().map(|s| format!("    {}\n", s.numpy)).collect();
    let numpy = format!("def {function}({}):\n{lines}    return [{}]\n", names.join(", "), results.join(", "));
    Drawn { source, numpy, arguments }
}

impl Writer {
    pub(super) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.random.below(i64::try_from(n).unwrap_or(1))).unwrap_or(0)
    }

    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        let at = self.below(from.len());
        from.get(at).cloned()
    }

    /// Arrays that share sizes, integer scalars, and whether the sizes are equal.
    fn params(&mut self) -> (Vec<(String, String)>, Vec<Array>, bool) {
        let n = self.pick(&SIZES).unwrap_or(3);
        // Equal and adjacent lengths make the most mistakes visible: an axis taken for another, or
        // an end that is off by one.
        let m = match self.below(8) {
            0 | 1 => n,
            2 => n + 1,
            3 => (n - 1).max(0),
            _ => self.pick(&SIZES).unwrap_or(3),
        };
        let sizes = [(n, "n"), (m, "m")];
        let (mut params, mut arguments) = (vec![], vec![]);
        for name in &["x", "y", "z"][..1 + self.below(3)] {
            let ty = self.pick(&TYPES).unwrap_or(Dtype::I64);
            let [n, m] = sizes;
            let one = (1, ONE);
            let shape = match self.below(12) {
                0..4 => vec![n],
                4 | 5 => vec![m],
                6 | 7 => vec![n, m],
                8 | 9 => vec![m, n],
                10 => vec![one, n],
                _ => vec![n, one],
            };
            let lengths: Vec<usize> = shape.iter().map(|(n, _)| usize::try_from(*n).unwrap_or(0)).collect();
            let elements: Vec<Scalar> = (0..lengths.iter().product()).map(|_| self.element(ty)).collect();
            arguments.extend(Array::from_scalars(ty, &lengths, &elements));
            let names: Vec<&str> = shape.iter().map(|(_, name)| *name).collect();
            params.push(((*name).to_owned(), format!("{ty}[{}]", names.join(", "))));
            let shape = shape.iter().map(|(n, name)| (*n, Some((*name).to_owned()))).collect();
            self.arrays.push(Known { name: (*name).to_owned(), ty, shape });
        }
        for name in &["s", "t"][..self.below(3)] {
            let ty = self.pick(&[
                Dtype::I64,
                Dtype::I64,
                Dtype::I32,
                Dtype::U32,
                Dtype::U64,
                Dtype::I8,
                Dtype::U8,
                Dtype::U16,
            ]);
            let ty = ty.unwrap_or(Dtype::I64);
            let value = interp::scalar::cast(ty, Scalar::I64(self.pick(&SCALARS).unwrap_or(2)));
            arguments.push(Array::scalar(value));
            params.push(((*name).to_owned(), ty.to_string()));
            self.scalars.push(((*name).to_owned(), ty));
        }
        (params, arguments, n == m)
    }

    /// An element: mostly small, occasionally an extreme or arbitrary bits.
    fn element(&mut self, ty: Dtype) -> Scalar {
        let strange = self.below(12);
        match (ty, strange) {
            (Dtype::Bool, _) => Scalar::Bool(self.below(2) == 1),
            (_, 0) if !ty.is_float() => Scalar::from_bits(ty, self.random.bits()),
            (_, 0) => {
                let all = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1e30, -1e-40, 2147483648.0, 1e300];
                interp::scalar::cast(ty, Scalar::F64(self.pick(&all).unwrap_or(0.0)))
            }
            (_, 1) if ty.is_float() => Scalar::from_bits(ty, self.random.bits()),
            _ if ty.is_float() => interp::scalar::cast(ty, Scalar::F64(self.random.below(33) as f64 / 4.0 - 4.0)),
            _ => interp::scalar::cast(ty, Scalar::I64(self.random.below(19) - if ty.is_signed_int() { 9 } else { 0 })),
        }
    }

    /// A `let`.
    fn statement(&mut self, name: &str) -> Option<Statement> {
        match self.below(12) {
            0..3 => self.moved(name),
            3 | 4 => Some(self.lifted(name)),
            _ => Some(self.indexed(name)),
        }
    }

    /// `let v[i, j] = e`: over all of some array, or as far as its subscripts allow.
    fn indexed(&mut self, name: &str) -> Statement {
        let home = self.some_array();
        let rank = home.shape.len();
        self.indices = ["i", "j"][..rank]
            .iter()
            .enumerate()
            .map(|(axis, index)| {
                let of = Some(Axis { array: home.name.clone(), axis });
                Index { name: (*index).to_owned(), length: home.shape[axis].0, of, reach: 0, follows: false }
            })
            .collect();
        self.runs = home.shape.iter().map(|(n, _)| n.max(&1)).product();
        // The plain access determines where the indices end, by itself or with those that reach
        // further.
        let ty = home.ty.compute();
        let here = self.indices.iter().map(|index| Expr::name(&index.name, Dtype::I64)).collect();
        let here = Expr { ty: home.ty, kind: Kind::Access(home.name.clone(), here) };
        let there = self.expr(ty, 4);
        let body = self.combined(ty, here, there);
        let indices = std::mem::take(&mut self.indices);
        let explicit = self.chance(40);
        let (mut binders, mut lengths, mut shape) = (vec![], vec![], vec![]);
        for (axis, index) in indices.iter().enumerate() {
            let (length, text) = &home.shape[axis];
            let text = text.as_ref().map(|text| less(text, index.reach));
            binders.push(match (&text, explicit) {
                (Some(text), true) => format!("{} < {text}", index.name),
                _ => index.name.clone(),
            });
            lengths.push(format!("{}.shape[{axis}] - {}", home.name, index.reach));
            shape.push((length - index.reach, text));
        }
        let names: Vec<&str> = indices.iter().map(|index| index.name.as_str()).collect();
        let lengths = lengths.join(", ");
        let comma = if rank == 1 { "," } else { "" };
        let statement = Statement {
            fuseloop: format!("let {name}[{}] = {}", binders.join(", "), body.fuseloop()),
            numpy: format!(
                "{}{comma} = grid({lengths})\n    {name} = filled({}, {lengths})",
                names.join(", "),
                body.numpy()
            ),
        };
        self.arrays.push(Known { name: name.to_owned(), ty: body.ty, shape });
        statement
    }

    pub(super) fn some_array(&mut self) -> Known {
        // The latest in half of the cases.
        let at = if self.chance(50) { self.arrays.len() - 1 } else { self.below(self.arrays.len()) };
        self.arrays[at].clone()
    }

    /// An expression of this type.
    fn expr(&mut self, ty: Dtype, fuel: usize) -> Expr {
        if fuel == 0 {
            return self.leaf(ty);
        }
        if ty == Dtype::Bool {
            return self.truth(fuel - 1);
        }
        // Storage types have no arithmetic: only conversions give them.
        if ty.is_storage() {
            let from = self.pick(&WIDE).unwrap_or(ty);
            return cast(ty, self.expr(from, fuel - 1));
        }
        match self.below(20) {
            0..5 => self.leaf(ty),
            5..10 => {
                let (a, b) = (self.expr(ty, fuel - 1), self.expr(ty, fuel - 1));
                self.combined(ty, a, b)
            }
            10 | 11 => {
                let condition = self.truth(fuel - 1);
                let is_select = self.chance(30);
                // Inside a branch, accesses out of bounds may be guarded by the condition; `select`
                // computes both sides, so it guards nothing.
                self.branches += usize::from(!is_select);
                let (a, b) = (self.expr(ty, fuel - 1), self.expr(ty, fuel - 1));
                self.branches -= usize::from(!is_select);
                match is_select {
                    true => call(ty, "select", vec![condition, a, b]),
                    false => Expr { ty, kind: Kind::If(Box::new(condition), Box::new(a), Box::new(b)) },
                }
            }
            12 if self.chance(40) => self.narrowed(ty, fuel - 1),
            12 => self.guarded(ty, fuel - 1),
            13..15 => {
                let from = self.pick(&TYPES).unwrap_or(Dtype::I64);
                cast(ty, self.expr(from, fuel - 1))
            }
            15..17 => self.function(ty, fuel - 1),
            _ => self.reduction(ty, fuel - 1),
        }
    }

    /// Two operands and an operation.
    pub(super) fn combined(&mut self, ty: Dtype, a: Expr, b: Expr) -> Expr {
        if ty == Dtype::Bool {
            let op = self.pick(&["&&", "||", "==", "!="]).unwrap_or("&&");
            let mut b = b;
            if matches!(op, "&&" | "||") {
                b.doubt();
            }
            return Expr { ty, kind: Kind::Binary(op, Box::new(a), Box::new(b)) };
        }
        if self.chance(25) {
            let bits = ["max", "min", "bit_and", "bit_or", "bit_xor", "shift_left", "shift_right", "mod", "floor_div"];
            let count = if ty.is_float() { 2 } else { bits.len() };
            let name = self.pick(&bits[..count]).unwrap_or("max");
            return call(ty, name, vec![a, b]);
        }
        let op = self.pick(&["+", "-", "*", "/", "%"]).unwrap_or("+");
        Expr { ty, kind: Kind::Binary(op, Box::new(a), Box::new(b)) }
    }

    /// A condition.
    fn truth(&mut self, fuel: usize) -> Expr {
        let ty = Dtype::Bool;
        match self.below(8) {
            0 if fuel > 0 => Expr { ty, kind: Kind::Unary("!", Box::new(self.truth(fuel - 1))) },
            1 if fuel > 0 => {
                let (a, b) = (self.truth(fuel - 1), self.truth(fuel - 1));
                self.combined(ty, a, b)
            }
            2 => {
                let of = self.pick(&[Dtype::F32, Dtype::F64]).unwrap_or(Dtype::F32);
                let name = self.pick(&["isnan", "isinf", "isfinite"]).unwrap_or("isnan");
                let operand = self.expr(of, fuel);
                call(ty, name, vec![operand])
            }
            _ => {
                let of = self.pick(&WIDE).unwrap_or(Dtype::I64);
                let op = self.pick(&COMPARISONS).unwrap_or("<");
                let (a, b) = (self.expr(of, fuel), self.expr(of, fuel));
                Expr { ty, kind: Kind::Binary(op, Box::new(a), Box::new(b)) }
            }
        }
    }

    fn function(&mut self, ty: Dtype, fuel: usize) -> Expr {
        let a = self.expr(ty, fuel);
        let names: &[&'static str] = match ty.is_float() {
            true => &["abs", "sign", "relu", "floor", "ceil", "trunc", "round", "sqrt", "^", "clamp", "-"],
            false => &["abs", "sign", "relu", "bit_not", "^", "clamp", "-"],
        };
        match self.pick(names).unwrap_or("abs") {
            "^" => {
                let exponent = u8::try_from(self.below(5)).unwrap_or(2);
                Expr { ty, kind: Kind::Power(Box::new(a), exponent) }
            }
            "clamp" => {
                let (low, high) = (self.leaf(ty), self.leaf(ty));
                call(ty, "clamp", vec![a, low, high])
            }
            "-" => Expr { ty, kind: Kind::Unary("-", Box::new(a)) },
            name => call(ty, name, vec![a]),
        }
    }

    /// `if i > 0 then x[i - 1] else e`
    fn guarded(&mut self, ty: Dtype, fuel: usize) -> Expr {
        let indices: Vec<Index> = self.indices.iter().filter(|index| !index.follows).cloned().collect();
        let Some(index) = self.pick(&indices) else { return self.leaf(ty) };
        let suited = |known: &&Known| known.ty == ty && known.shape.len() == 1;
        let arrays: Vec<Known> = self.arrays.iter().filter(suited).cloned().collect();
        let Some(array) = self.pick(&arrays) else { return self.leaf(ty) };
        let by = Expr::number(Dtype::I64, (1 + self.below(2)).to_string());
        let sign = if self.chance(50) { "-" } else { "+" };
        let i = Expr::name(&index.name, Dtype::I64);
        let there = Expr { ty: Dtype::I64, kind: Kind::Binary(sign, Box::new(i), Box::new(by)) };
        let length = Kind::Length(Axis { array: array.name.clone(), axis: 0 });
        let compared =
            |op, a: Expr, b: Expr| Box::new(Expr { ty: Dtype::Bool, kind: Kind::Binary(op, Box::new(a), Box::new(b)) });
        let above = compared(">=", there.clone(), Expr::number(Dtype::I64, "0"));
        let below = compared("<", there.clone(), Expr { ty: Dtype::I64, kind: length });
        let condition = Expr { ty: Dtype::Bool, kind: Kind::Binary("&&", above, below) };
        let then = Expr { ty, kind: Kind::Access(array.name, vec![there]) };
        self.branches += 1;
        let otherwise = self.expr(ty, fuel);
        self.branches -= 1;
        Expr { ty, kind: Kind::If(Box::new(condition), Box::new(then), Box::new(otherwise)) }
    }

    /// `if i64(u32(i - 2)) < n then x[i64(u32(i - 2))] else e`: one comparison for both ends, since
    /// the conversion turns negative numbers into large ones.
    fn narrowed(&mut self, ty: Dtype, fuel: usize) -> Expr {
        let suited = |known: &&Known| known.ty == ty && known.shape.len() == 1;
        let arrays: Vec<Known> = self.arrays.iter().filter(suited).cloned().collect();
        let Some(array) = self.pick(&arrays) else { return self.leaf(ty) };
        let indices: Vec<String> = self.indices.iter().map(|index| index.name.clone()).collect();
        let scalars: Vec<String> =
            self.scalars.iter().filter(|(_, ty)| *ty == Dtype::I64).map(|(name, _)| name.clone()).collect();
        let Some(index) = self.pick(&indices) else { return self.leaf(ty) };
        let binary = |op, a: Expr, b: Expr| Expr { ty: Dtype::I64, kind: Kind::Binary(op, Box::new(a), Box::new(b)) };
        let i = Expr::name(&index, Dtype::I64);
        let number = |n: i64| Expr::number(Dtype::I64, n.to_string());
        let far = match self.below(5) {
            0 if let Some(name) = self.pick(&scalars) => binary("+", i, Expr::name(&name, Dtype::I64)),
            0 | 1 => binary("-", i, number(2)),
            2 => binary("+", i, number(254)),
            3 => binary("*", i, number(100)),
            _ => binary("-", number(2), i),
        };
        let through = self.pick(&[Dtype::U8, Dtype::U32, Dtype::U16, Dtype::I8]).unwrap_or(Dtype::U8);
        let there = cast(Dtype::I64, cast(through, far));
        let length = Expr { ty: Dtype::I64, kind: Kind::Length(Axis { array: array.name.clone(), axis: 0 }) };
        let truth = |op, a, b| Expr { ty: Dtype::Bool, ..binary(op, a, b) };
        let below = truth("<", there.clone(), length);
        let condition = match through {
            Dtype::I8 => truth("&&", truth(">=", there.clone(), number(0)), below),
            _ => below,
        };
        let then = Expr { ty, kind: Kind::Access(array.name, vec![there]) };
        self.branches += 1;
        let otherwise = self.expr(ty, fuel);
        self.branches -= 1;
        Expr { ty, kind: Kind::If(Box::new(condition), Box::new(then), Box::new(otherwise)) }
    }

    /// A reduction over its own index: up to an axis's length, an outer index, a scalar or a
    /// quotient of sizes.
    fn reduction(&mut self, ty: Dtype, fuel: usize) -> Expr {
        let array = self.some_array();
        let axis = self.below(array.shape.len());
        let length = array.shape[axis].0;
        if self.runs.saturating_mul(length.max(8)) > MOST || self.reducers > 5 {
            return self.leaf(ty);
        }
        self.reducers += 1;
        let axis = Axis { array: array.name.clone(), axis };
        let (bound, most, of, follows) = match self.below(6) {
            0..3 => (Expr { ty: Dtype::I64, kind: Kind::Length(axis.clone()) }, length, Some(axis), false),
            3 if !self.indices.is_empty() => {
                let outer = self.pick(&self.indices.clone()).unwrap_or_else(|| self.indices[0].clone());
                let i = Expr::name(&outer.name, Dtype::I64);
                (i, outer.length, outer.of.filter(|_| outer.reach == 0), true)
            }
            _ => (self.small_bound(), 7, None, false),
        };
        let name = format!("k{}", self.reducers);
        let around = self.indices.iter().map(|index| index.name.clone()).collect();
        let runs = self.runs;
        self.runs = runs.saturating_mul(most.max(1));
        self.indices.push(Index { name: name.clone(), length: most, of, reach: 0, follows });
        let arg = ty == Dtype::I64 && !follows && self.chance(10);
        let op = match () {
            () if arg => self.pick(&["argmax", "argmin"]),
            () if ty.is_float() => self.pick(&["max", "min"]),
            () => self.pick(&["sum", "sum", "prod", "max", "min"]),
        };
        let of = if arg { self.pick(&[Dtype::I32, Dtype::U64, Dtype::I64]).unwrap_or(ty) } else { ty };
        // If an end comes from data, the body may not be computed at all.
        let counts = matches!(bound.kind, Kind::Length(_));
        self.branches += usize::from(!counts);
        let is_sure = self.branches == 0;
        let body = self.expr(of, fuel);
        self.branches -= usize::from(!counts);
        self.indices.pop();
        self.runs = runs;
        let (op, index, bound) = (op.unwrap_or("max"), name, Box::new(bound));
        let kind = Kind::Reduce { op, index, bound, body: Box::new(body), around, is_sure };
        Expr { ty, kind }
    }

    /// An end of a reducer that is small whatever the sizes and scalars are.
    fn small_bound(&mut self) -> Expr {
        let number = |n: i64| Expr::number(Dtype::I64, n.to_string());
        let array = self.some_array();
        let axis = self.below(array.shape.len());
        let length = Expr { ty: Dtype::I64, kind: Kind::Length(Axis { array: array.name, axis }) };
        let wide = |(name, ty): &(String, Dtype)| cast(Dtype::I64, Expr::name(name, *ty));
        let scalar = self.pick(&self.scalars.clone()).map_or_else(|| number(3), |scalar| wide(&scalar));
        let quotient = Expr { ty: Dtype::I64, kind: Kind::Binary("/", Box::new(length), Box::new(scalar.clone())) };
        let rest = |e: Expr| Expr { ty: Dtype::I64, kind: Kind::Binary("%", Box::new(e), Box::new(number(7))) };
        match self.below(4) {
            0 => number(3),
            1 => call(Dtype::I64, "min", vec![scalar, number(5)]),
            2 => rest(scalar),
            _ => call(Dtype::I64, "min", vec![quotient, number(6)]),
        }
    }

    /// Something without operators.
    fn leaf(&mut self, ty: Dtype) -> Expr {
        let found: Vec<Known> = self.arrays.iter().rev().filter(|known| known.ty.compute() == ty).cloned().collect();
        if self.chance(65)
            && let Some(array) = self.pick(&found)
            && let Some(at) = self.subscripts(&array)
        {
            let element = Expr { ty: array.ty, kind: Kind::Access(array.name, at) };
            return if element.ty == ty { element } else { cast(ty, element) };
        }
        let indices: Vec<String> = self.indices.iter().map(|index| index.name.clone()).collect();
        match self.below(4) {
            0 if let Some(index) = self.pick(&indices) => cast(ty, Expr::name(&index, Dtype::I64)),
            1 if let Some((name, of)) = self.pick(&self.scalars.clone()) => cast(ty, Expr::name(&name, of)),
            _ => self.number(ty),
        }
    }

    /// Subscripts that are inside.
    fn subscripts(&mut self, array: &Known) -> Option<Vec<Expr>> {
        if array.shape.iter().any(|(length, _)| *length < 1) {
            return None;
        }
        let mut at = vec![];
        for axis in 0..array.shape.len() {
            let (length, text) = array.shape[axis].clone();
            let here = Axis { array: array.name.clone(), axis };
            // An index runs along the axis if it has the same size by name, or is the very axis.
            let along = |index: &Index, arrays: &[Known]| {
                index.of.as_ref().is_some_and(|of| {
                    let known = arrays.iter().find(|known| known.name == of.array);
                    *of == here || text.is_some() && known.is_some_and(|known| known.shape[of.axis].1 == text)
                })
            };
            let indices = 0..self.indices.len();
            let found: Vec<usize> = indices.filter(|n| along(&self.indices[*n], &self.arrays)).collect();
            let zero = || Expr::number(Dtype::I64, "0");
            at.push(match self.pick(&found) {
                Some(n) if self.chance(85) => {
                    let index = self.indices[n].clone();
                    let i = Expr::name(&index.name, Dtype::I64);
                    // The axes of the computed array may end sooner, for a subscript that reaches
                    // further.
                    let may_reach = self.branches == 0
                        && index.reach == 0
                        && matches!(index.name.as_str(), "i" | "j")
                        && length > 2;
                    if may_reach && self.chance(12) && self.indices.iter().all(|other| !other.name.starts_with('k')) {
                        self.indices[n].reach = 1;
                        let one = Expr::number(Dtype::I64, "1");
                        Expr { ty: Dtype::I64, kind: Kind::Binary("+", Box::new(i), Box::new(one)) }
                    } else {
                        i
                    }
                }
                // Any number, brought inside.
                _ if self.chance(60) => {
                    let indices: Vec<String> = self.indices.iter().map(|index| index.name.clone()).collect();
                    let any = match self.pick(&indices) {
                        Some(index) => Expr::name(&index, Dtype::I64),
                        None => self.number(Dtype::I64),
                    };
                    let length = Expr { ty: Dtype::I64, kind: Kind::Length(here) };
                    let one = Expr::number(Dtype::I64, "1");
                    let last = Expr { ty: Dtype::I64, kind: Kind::Binary("-", Box::new(length), Box::new(one)) };
                    call(Dtype::I64, "clamp", vec![any, zero(), last])
                }
                _ => zero(),
            });
        }
        Some(at)
    }

    fn number(&mut self, ty: Dtype) -> Expr {
        let text = match ty {
            Dtype::Bool => self.pick(&["True", "False"]),
            ty if ty.is_float() => self.pick(&["2", "0.5", "-1.5", "0", "3", "inf", "nan", "1e-3"]),
            Dtype::I32 => self.pick(&["1", "2", "3", "-1", "0", "100", "2147483647"]),
            Dtype::I64 => self.pick(&["1", "2", "3", "-1", "0", "4294967296", "9223372036854775807"]),
            Dtype::U64 => self.pick(&["1", "2", "3", "0", "18446744073709551615"]),
            Dtype::U32 => self.pick(&["1", "2", "3", "0", "4294967295"]),
            _ => self.pick(&["1", "2", "3", "0"]),
        };
        Expr::number(ty, text.unwrap_or("1"))
    }
}

pub(super) fn call(ty: Dtype, name: &'static str, args: Vec<Expr>) -> Expr {
    Expr { ty, kind: Kind::Call(name, args) }
}

pub(super) fn cast(ty: Dtype, of: Expr) -> Expr {
    if of.ty == ty { of } else { Expr { ty, kind: Kind::Cast(Box::new(of)) } }
}

/// A size less a number.
pub(super) fn less(size: &str, by: i64) -> String {
    if by == 0 { size.to_owned() } else { format!("{size} - {by}") }
}
