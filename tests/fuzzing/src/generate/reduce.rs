//! Reducers over indices, prefixes and contractions.

use ir::Dtype;

use super::dim::Dim;
use super::expr::Writer;
use super::piece::{Level, Names, Piece};
use super::scope::{Index, Scope};

/// Names of reducers' indices.
const NAMES: [&str; 8] = ["r", "s", "t", "u", "v", "w", "r2", "s2"];

impl Writer<'_> {
    /// `sum[r, s < 3](e)`: over one or two fresh indices, or a triangle below an outer one. The
    /// body may be an array.
    pub fn reduce(&mut self, reducer: &'static str, ty: Dtype, shape: &[Dim], fuel: usize) -> Piece {
        let extreme = reducer.starts_with("arg");
        if self.choices.chance(25)
            && let Some(index) = self.ragged()
        {
            self.scope.indices.push(index);
            return self.reduce_over(reducer, ty, shape, fuel, 1);
        }
        if self.choices.chance(8) {
            let index = self.computed_end();
            self.scope.indices.push(index);
            return self.reduce_over(reducer, ty, shape, fuel, 1);
        }
        let outer: Vec<Index> = self.scope.indices.iter().filter(|i| i.is_plain()).cloned().collect();
        if self.choices.chance(30)
            && let Some(outer) = self.choices.pick(&outer)
        {
            // The extreme element of nothing has no number.
            let inclusive = extreme || !self.choices.chance(40);
            if self.choices.chance(30) {
                return self.suffix(reducer, ty, shape, fuel, outer, inclusive);
            }
            return self.triangle(reducer, ty, shape, fuel, outer, inclusive);
        }
        self.count("reducer over indices");
        // Mostly the last axes of an array, rarely a window.
        let mut bounds = self.some_shape_of(ty);
        let count = if self.choices.chance(25) { 2 } else { 1 };
        bounds.drain(..bounds.len().saturating_sub(count));
        if self.choices.chance(20) {
            bounds = vec![Dim::constant(if self.choices.chance(40) { 2 } else { 3 })];
        }
        if bounds.len() == 1 && !extreme && self.choices.chance(10) {
            self.count("dependent reducer");
            let first = self.fresh_index(bounds.remove(0));
            self.scope.indices.push(first.clone());
            let mut second = self.fresh_index(first.bound.clone());
            second.prefix = Some((true, first.name));
            self.scope.indices.push(second);
            return self.reduce_over(reducer, ty, shape, fuel, 2);
        }
        let count = bounds.len();
        for bound in bounds {
            let mut index = self.fresh_index(bound);
            if !extreme && self.choices.chance(12) {
                self.count("bound from below");
                (index.lower, index.first) = match self.choices.below(3) {
                    0 => (1, Some("1 <=".into())),
                    1 => (1, Some("0 <".into())),
                    _ => (0, Some("0 <=".into())),
                };
            }
            self.scope.indices.push(index);
        }
        self.reduce_over(reducer, ty, shape, fuel, count)
    }

    /// An index with a bound from data: an element that is less than some size.
    fn ragged(&mut self) -> Option<Index> {
        let values = self.scope.values.iter().enumerate();
        let ends: Vec<usize> =
            values.filter(|(_, v)| v.below.is_some() && self.scope.reaches(&v.shape)).map(|(n, _)| n).collect();
        let value = *self.choices.pick(&ends)?;
        let (rank, bound) = (self.scope.values[value].shape.len(), self.scope.values[value].below.clone()?);
        let end = self.scope.access(&mut self.choices, value, rank)?;
        self.count("end from data");
        let mut index = self.fresh_index(bound);
        index.upper = index.bound.offset(-1);
        index.data = Some((end.text, end.uses));
        Some(index)
    }

    /// An index with a computed bound: a quotient of sizes, or a scalar brought into range.
    fn computed_end(&mut self) -> Index {
        self.count("computed end");
        let (mut dim, mut other) = (self.some_dim(), self.some_dim());
        if let (Some(a), Some(b)) = (dim.as_constant(), other.as_constant())
            && a < b
        {
            // A quotient that is always 0 leaves no element, and `argmax` of none is an error.
            std::mem::swap(&mut dim, &mut other);
        }
        let [number, by] = [&dim, &other].map(|dim| self.scope.number(dim));
        let scalar = self.choices.pick(&self.scope.extremes.clone()).cloned();
        let three = Dim::constant(3);
        let (text, bound) = match (scalar, self.choices.below(5)) {
            (Some((name, _)), 0) => (format!("min(i64({name}), 3)"), three),
            (Some((name, _)), 1) => (format!("i64({name}) % 3"), three),
            (Some((name, _)), 2) => (format!("max(({number}) / i64({name}), 0)"), dim),
            (Some((name, Dtype::I64)), 3) => (format!("clamp({name} * {name}, 0, 3)"), three),
            (Some((name, ty)), _) if ty.is_signed_int() => (format!("clamp({name}, -1, 3)"), three),
            _ if self.choices.chance(50) => (format!("({number}) / ({by})"), dim),
            _ => (format!("max(({number}) / ({by}), 0)"), dim),
        };
        let mut index = self.fresh_index(bound);
        index.data = Some((text, Names::new()));
        index
    }

    /// A reducer that gives this type.
    pub fn reducer(&mut self, ty: Dtype) -> &'static str {
        let mean = if ty.is_float() { 2 } else { 0 };
        let reducers: &[(usize, &'static str)] = match ty {
            Dtype::Bool => &[(1, "any"), (1, "all")],
            _ => &[(4, "sum"), (2, "max"), (mean, "mean"), (2, "prod"), (2, "min")],
        };
        let name = self.choices.weighted(reducers).unwrap_or(reducers[0].1);
        self.count(name);
        name
    }

    /// A reducer that gives this type, or a function that takes arrays and axes like one.
    pub fn whole_reducer(&mut self, ty: Dtype) -> &'static str {
        if !(ty.is_float() && self.choices.chance(20)) {
            return self.reducer(ty);
        }
        let functions: &[&str] = match self.may_stand_alone() {
            true => &["var", "std", "norm", "median"],
            false => &["var", "std", "norm"],
        };
        let name = *self.choices.pick(functions).unwrap_or(&"var");
        self.count(name);
        name
    }

    /// A reducer that gives a place.
    pub fn extreme(&mut self) -> &'static str {
        let name = *self.choices.pick(&["argmax", "argmin"]).unwrap_or(&"argmax");
        self.count(name);
        name
    }

    /// `sum(x)`
    pub fn reduce_all(&mut self, name: &str, ty: Dtype, fuel: usize) -> Piece {
        self.count("reducer over all");
        let over = self.some_shape_of(ty);
        let body = self.summand(name, ty, &over, fuel);
        self.loops(&over);
        Piece::call(name, &[&body], ty.compute(), &[])
    }

    /// `sum(x, axis = 1)`
    pub fn reduce_axis(&mut self, name: &str, ty: Dtype, axis: usize, over: &[Dim], fuel: usize) -> Piece {
        self.count("reducer with axis");
        let body = self.summand(name, ty, over, fuel);
        self.loops(over);
        let mut shape = over.to_vec();
        shape.remove(axis);
        let text = format!("{name}({}, axis = {axis})", body.text);
        Piece::atom(text, ty.compute(), &shape).using(&[&body])
    }

    /// A `let` that reduces a visible value along some axis, by name or by index.
    pub fn reduction(&mut self) -> Option<String> {
        let arrays = self.scope.values.iter().rev().filter(|v| !v.shape.is_empty());
        let arrays: Vec<(Dtype, Vec<Dim>)> = arrays.map(|v| (v.ty, v.shape.clone())).collect();
        let floats: Vec<(Dtype, Vec<Dim>)> = arrays.iter().filter(|(ty, _)| ty.is_float()).cloned().collect();
        let found = if floats.is_empty() || self.choices.chance(20) { &arrays } else { &floats };
        let (ty, over) = self.choices.pick(found)?.clone();
        let axis = self.choices.below(over.len());
        let mut rest = over.clone();
        let reduced = rest.remove(axis);
        match self.choices.below(4) {
            0 => {
                let places = ty != Dtype::Bool && self.choices.chance(25);
                let name = if places { self.extreme() } else { self.whole_reducer(ty) };
                let piece = self.reduce_axis(name, ty, axis, &over, 2);
                let ty = if places { Dtype::I64 } else { piece.ty };
                Some(self.bind("", Piece { ty, ..piece }, None))
            }
            1 => {
                self.count("prefix <=");
                Some(self.comprehension(&over, |writer| {
                    let outer = writer.scope.indices[axis].clone();
                    let reducer = writer.reducer(ty);
                    writer.scan(reducer, ty, &outer, true)
                }))
            }
            _ => {
                self.count("reducer over indices");
                Some(self.comprehension(&rest, |writer| {
                    let reducer = writer.reducer(ty);
                    let index = writer.fresh_index(reduced);
                    writer.scope.indices.push(index);
                    writer.reduce_over(reducer, ty, &[], 2, 1)
                }))
            }
        }
    }

    /// `sum[r < i](e)` in a scope where `i` is one more than the accessed index.
    pub fn prefix(&mut self, ty: Dtype) -> Piece {
        let reducer = self.reducer(ty);
        match self.scope.indices.first().cloned() {
            Some(outer) => self.scan(reducer, ty, &outer, false),
            None => self.atom(ty, &[]),
        }
    }

    /// `sum[r <= i](x[r])` as a whole element: a scan, which visits its elements once.
    fn scan(&mut self, reducer: &str, ty: Dtype, outer: &Index, inclusive: bool) -> Piece {
        let before = self.work.len();
        let piece = self.triangle(reducer, ty, &[], 0, outer, inclusive);
        // Behind the bound come the condition and the body.
        let tail = [" where ", "]("].into_iter().filter_map(|text| piece.text.find(text)).min();
        let tail = tail.map(|at| &piece.text[at..]);
        let mentions = |tail: &str| tail.split(|c: char| !c.is_alphanumeric()).any(|word| word == outer.name);
        if tail.is_some_and(|tail| !mentions(tail)) {
            // Only the elements of the scan itself: a reduction in its condition or its body may
            // visit many for each.
            self.work[before] = self.scope.runs();
        }
        piece
    }

    /// `sum[r <= i](e)` or `sum[r < i](e)`
    fn triangle(
        &mut self,
        reducer: &str,
        ty: Dtype,
        shape: &[Dim],
        fuel: usize,
        outer: &Index,
        inclusive: bool,
    ) -> Piece {
        self.count(if inclusive { "prefix <=" } else { "prefix <" });
        let mut inner = self.fresh_index(outer.bound.clone());
        inner.upper = if inclusive { outer.upper.clone() } else { outer.upper.offset(-1) };
        inner.prefix = Some((inclusive, outer.name.clone()));
        self.scope.indices.push(inner);
        self.reduce_over(reducer, ty, shape, fuel, 1)
    }

    /// `sum[i <= r < n](e)` or `sum[i < r < n](e)`
    fn suffix(
        &mut self,
        reducer: &str,
        ty: Dtype,
        shape: &[Dim],
        fuel: usize,
        outer: &Index,
        inclusive: bool,
    ) -> Piece {
        self.count("suffix");
        let mut inner = self.fresh_index(outer.bound.clone());
        inner.lower = outer.lower + i64::from(!inclusive);
        inner.first = Some(format!("{} {}", outer.name, if inclusive { "<=" } else { "<" }));
        inner.after = Some((inclusive, outer.name.clone()));
        self.scope.indices.push(inner);
        let mut piece = self.reduce_over(reducer, ty, shape, fuel, 1);
        piece.uses.insert(outer.name.clone());
        piece
    }

    /// Reduces over the last indices in scope, which then leave it.
    fn reduce_over(&mut self, reducer: &str, ty: Dtype, shape: &[Dim], fuel: usize, count: usize) -> Piece {
        self.loops(shape);
        // A position among elements that a condition selects may be one of none.
        let chance = if reducer.starts_with("arg") { 2 } else { 15 };
        // A key that mentions an index keeps accesses from ending those that bound it from below.
        let plain = self.scope.indices.iter().rev().take(count).all(|index| index.first.is_none());
        let key = if plain && self.choices.chance(chance) { self.key(count) } else { None };
        let filter = self.choices.chance(chance).then(|| {
            self.count("where");
            self.expr(Dtype::Bool, &[], 1)
        });
        let filter = match (key, filter) {
            (Some(key), Some(filter)) => {
                let (first, second) = if self.choices.chance(50) { (&key, &filter) } else { (&filter, &key) };
                Some(Piece::binary(first, "&&", second, Level::And, Dtype::Bool, &[]))
            }
            (key, filter) => key.or(filter),
        };
        let guarded = filter.as_ref().map(|filter| self.guard_by(filter)).unwrap_or_default();
        let body = self.maybe_in_if(filter.is_some(), |writer| writer.summand(reducer, ty, shape, fuel));
        self.unguard(guarded);
        let explicit = self.choices.chance(40);
        let first = self.scope.indices.len() - count;
        let indices = self.scope.indices.split_off(first);
        // An access by the index of a prefix ends the outer one, whatever a filter says of it.
        let explicit = explicit || filter.is_some() && indices.iter().any(|index| index.prefix.is_some());
        let binders: Vec<String> = indices.iter().map(|i| i.binder(explicit, |end| self.scope.number(end))).collect();
        let condition = filter.as_ref().map_or_else(String::new, |filter| format!(" where {}", filter.text));
        let head = format!("{reducer}[{}{condition}]", binders.join(", "));
        let mut piece = Piece::call(&head, &[&body], ty.compute(), shape);
        piece.uses.extend(filter.into_iter().flat_map(|filter| filter.uses));
        for index in indices.into_iter().rev() {
            piece.uses.remove(&index.name);
            piece.uses.extend(index.prefix.map(|(_, outer)| outer));
            piece.uses.extend(index.data.into_iter().flat_map(|(_, uses)| uses));
        }
        piece
    }

    /// `x[r] % 3 == i`: an integer that equals an index from outside of the last `count` ones.
    fn key(&mut self, count: usize) -> Option<Piece> {
        let outside = self.scope.indices.len() - count;
        let outer: Vec<String> = self.scope.indices[..outside].iter().map(|i| i.name.clone()).collect();
        let of = self.choices.pick(&outer)?.clone();
        self.count("key");
        let ty = *self.choices.pick(&[Dtype::I64, Dtype::I32, Dtype::U32, Dtype::U64]).unwrap_or(&Dtype::I64);
        let inner = self.scope.indices[outside + self.choices.below(count)].name.clone();
        let key = match self.choices.below(3) {
            0 => Piece::atom(inner.clone(), Dtype::I64, &[]),
            1 => Piece { level: Level::Mul, ..Piece::atom(format!("{inner} % 3"), Dtype::I64, &[]) },
            _ => self.small(ty, &[]),
        };
        let index = Piece::atom(of.clone(), Dtype::I64, &[]);
        let (left, right) = if self.choices.chance(70) { (&key, &index) } else { (&index, &key) };
        let mut piece = Piece::binary(left, "==", right, Level::Compare, Dtype::Bool, &[]);
        piece.uses.extend([of, inner]);
        Some(piece)
    }

    fn fresh_index(&mut self, bound: Dim) -> Index {
        let Scope { indices, values, .. } = &self.scope;
        let taken = |name: &str| indices.iter().any(|i| i.name == name) || values.iter().any(|v| v.name == name);
        let free = NAMES.iter().find(|name| !taken(name));
        self.reducers += 1;
        let name = free.map_or_else(|| format!("r{}", self.reducers + 2), |name| (*name).to_owned());
        Index::new(name, bound)
    }

    /// The operand of a reducer. If a float sum over it could be taken for a contraction, which has
    /// a free order, it is changed.
    pub fn summand(&mut self, reducer: &str, ty: Dtype, shape: &[Dim], fuel: usize) -> Piece {
        let body = self.widened(ty, shape, fuel);
        let adds = matches!(reducer, "sum" | "mean" | "var" | "std" | "norm") && ty.is_float();
        if adds && body.may_contract() { Piece::call("abs", &[&body], ty.compute(), shape) } else { body }
    }

    /// An expression with small integers as elements.
    pub fn small(&mut self, ty: Dtype, shape: &[Dim]) -> Piece {
        let piece = self.small_atom(ty, shape);
        let wide = ty.compute();
        let piece = match (piece.small, self.choices.below(4)) {
            (true, 0 | 1) => piece,
            (true, 2) => {
                let negated = format!("-{}", piece.within(Level::Pow));
                Piece { text: negated, level: Level::Unary, ty: wide, ..piece }
            }
            (true, _) => {
                let one = Piece::atom("1", ty, &[]);
                Piece { small: true, ..Piece::binary(&piece, "+", &one, Level::Add, wide, shape) }
            }
            (false, _) => {
                let rounded = if ty.is_float() { Piece::call("round", &[&piece], wide, shape) } else { piece };
                let least = if wide.is_float() || wide.is_signed_int() { -3 } else { 0 };
                let text = format!("clamp({}, {least}, 3)", rounded.text);
                Piece { small: true, ..Piece::atom(text, wide, shape).using(&[&rounded]) }
            }
        };
        // Tensor cores take factors of 16-bit floats.
        let narrow = ty.is_float() && piece.ty != ty;
        if narrow && self.choices.chance(70) {
            return Piece { small: piece.small, ..Piece::call(ty.name(), &[&piece], ty, shape) };
        }
        piece
    }

    /// The type and sizes of a matrix product of visible values, transposed if necessary.
    pub fn factors(&mut self) -> Option<(Dtype, Dim, Dim, Dim)> {
        let matrices = self.scope.values.iter().rev().filter(|v| v.ty != Dtype::Bool && v.shape.len() == 2);
        let matrices: Vec<(Dtype, [Dim; 2])> =
            matrices.map(|v| (v.ty, [v.shape[0].clone(), v.shape[1].clone()])).collect();
        let mut found = vec![];
        for (ty, [rows, inner]) in &matrices {
            for (_, [a, b]) in matrices.iter().filter(|(other, _)| other == ty) {
                for (first, columns) in [(a, b), (b, a)] {
                    if first == inner {
                        found.push((*ty, rows.clone(), inner.clone(), columns.clone()));
                    }
                }
            }
        }
        self.choices.pick(&found).cloned()
    }

    /// `sum[r](a[i, r] * b[r, j])` in a scope with two indices, both factors small.
    pub fn contraction(&mut self, ty: Dtype, bound: Dim) -> Option<Piece> {
        let [left_index, right_index] = self.scope.indices.as_slice() else { return None };
        let (left_index, right_index) = (left_index.name.clone(), right_index.name.clone());
        let inner = self.fresh_index(bound);
        let name = inner.name.clone();
        self.scope.indices.push(inner);
        self.loops(&[]);
        let left = self.small_without(ty, &right_index);
        let right = self.small_without(ty, &left_index);
        let product = Piece::binary(&left, "*", &right, Level::Mul, ty.compute(), &[]);
        let explicit = self.choices.chance(40);
        let index = self.scope.indices.pop()?;
        let binder = index.binder(explicit, |end| self.scope.number(end));
        let mut piece = Piece::call(&format!("sum[{binder}]"), &[&product], ty.compute(), &[]);
        piece.uses.remove(&name);
        if product.may_contract() {
            self.count("contraction in indices");
        }
        Some(piece)
    }

    /// A small factor that cannot mention one index.
    fn small_without(&mut self, ty: Dtype, hidden: &str) -> Piece {
        let at = self.scope.indices.iter().position(|i| i.name == hidden);
        let index = at.map(|at| self.scope.indices.remove(at));
        let piece = self.small(ty, &[]);
        if let (Some(at), Some(index)) = (at, index) {
            self.scope.indices.insert(at, index);
        }
        piece
    }
}
