//! Reducers over indices, prefixes and contractions.

use super::dim::Dim;
use super::expr::Writer;
use super::piece::{Level, Piece, Ty};
use super::scope::{Index, Scope};

/// Names of reducers' indices.
const NAMES: [&str; 8] = ["r", "s", "t", "u", "v", "w", "r2", "s2"];

impl Writer<'_> {
    /// `sum[r, s < 3](e)`: over one or two fresh indices, or a triangle below an outer one.
    pub fn reduce(&mut self, reducer: &'static str, ty: Ty, fuel: usize) -> Piece {
        let outer: Vec<Index> = self.scope.indices.iter().filter(|i| i.prefix.is_none()).cloned().collect();
        if self.choices.chance(30)
            && let Some(outer) = self.choices.pick(&outer)
        {
            // The extreme element of nothing has no number.
            let inclusive = reducer.starts_with("arg") || !self.choices.chance(40);
            return self.triangle(reducer, ty, fuel, outer, inclusive);
        }
        self.count("reducer over indices");
        // Mostly the last axes of something, seldom a window.
        let mut bounds = self.some_shape_of(ty);
        let count = if self.choices.chance(25) { 2 } else { 1 };
        bounds.drain(..bounds.len().saturating_sub(count));
        if self.choices.chance(20) {
            bounds = vec![Dim::constant(if self.choices.chance(40) { 2 } else { 3 })];
        }
        let count = bounds.len();
        for bound in bounds {
            let index = self.fresh_index(bound);
            self.scope.indices.push(index);
        }
        self.reduce_over(reducer, ty, fuel, count)
    }

    /// `sum[r < i](e)` in a scope where `i` is one more than what is accessed.
    pub fn prefix(&mut self, ty: Ty) -> Piece {
        let reducer = *self.choices.pick(&["sum", "max", "prod", "min"]).unwrap_or(&"sum");
        match self.scope.indices.first().cloned() {
            Some(outer) => self.triangle(reducer, ty, 1, &outer, false),
            None => self.atom(ty, &[]),
        }
    }

    /// `sum[r <= i](e)` or `sum[r < i](e)`
    fn triangle(&mut self, reducer: &str, ty: Ty, fuel: usize, outer: &Index, inclusive: bool) -> Piece {
        self.count(if inclusive { "prefix <=" } else { "prefix <" });
        let mut inner = self.fresh_index(outer.bound.clone());
        inner.upper = if inclusive { outer.upper.clone() } else { outer.upper.offset(-1) };
        inner.prefix = Some((inclusive, outer.name.clone()));
        self.scope.indices.push(inner);
        self.reduce_over(reducer, ty, fuel, 1)
    }

    /// Reduces over the last indices in scope, which go out of it.
    fn reduce_over(&mut self, reducer: &str, ty: Ty, fuel: usize, count: usize) -> Piece {
        self.loops(&[]);
        let body = self.summand(reducer, ty, &[], fuel);
        let explicit = self.choices.chance(40);
        let first = self.scope.indices.len() - count;
        let indices = self.scope.indices.split_off(first);
        let binders: Vec<String> = indices.iter().map(|index| index.binder(explicit)).collect();
        let mut piece = Piece::call(&format!("{reducer}[{}]", binders.join(", ")), &[&body], ty, &[]);
        for index in indices {
            piece.uses.remove(&index.name);
            if let Some((_, outer)) = index.prefix {
                piece.uses.insert(outer);
            }
        }
        piece
    }

    fn fresh_index(&mut self, bound: Dim) -> Index {
        let taken = |name: &str, scope: &Scope| scope.indices.iter().any(|i| i.name == name);
        let free = NAMES.iter().find(|name| !taken(name, &self.scope));
        self.reducers += 1;
        let name = free.map_or_else(|| format!("r{}", self.reducers + 2), |name| (*name).to_owned());
        Index::new(name, bound)
    }

    /// What a reducer reduces. Where a float sum may be taken for a contraction, whose order is free, it is
    /// made something else.
    pub fn summand(&mut self, reducer: &str, ty: Ty, shape: &[Dim], fuel: usize) -> Piece {
        let body = self.expr(ty, shape, fuel);
        let adds = matches!(reducer, "sum" | "mean") && ty.is_float();
        if adds && body.may_contract() { Piece::call("abs", &[&body], ty, shape) } else { body }
    }

    /// An expression whose elements are whole numbers of a few units.
    pub fn small(&mut self, ty: Ty, shape: &[Dim]) -> Piece {
        let piece = self.small_atom(ty, shape);
        match (piece.small, self.choices.below(4)) {
            (true, 0 | 1) => piece,
            (true, 2) => {
                let negated = format!("-{}", piece.within(Level::Pow));
                Piece { text: negated, level: Level::Unary, ..piece }
            }
            (true, _) => {
                let one = Piece::atom("1", ty, &[]);
                Piece { small: true, ..Piece::binary(&piece, "+", &one, Level::Add, ty, shape) }
            }
            (false, _) => {
                let rounded = if ty.is_float() { Piece::call("round", &[&piece], ty, shape) } else { piece };
                let text = format!("clamp({}, -3, 3)", rounded.text);
                Piece { small: true, ..Piece::atom(text, ty, shape).using(&[&rounded]) }
            }
        }
    }

    /// `sum[r](a[i, r] * b[r, j])` in a scope with two indices, both factors small.
    pub fn contraction(&mut self, ty: Ty) -> Option<Piece> {
        let [left_index, right_index] = self.scope.indices.as_slice() else { return None };
        let (left_index, right_index) = (left_index.name.clone(), right_index.name.clone());
        let bound = self.some_shape_of(ty).pop().unwrap_or_default();
        let inner = self.fresh_index(bound);
        let name = inner.name.clone();
        self.scope.indices.push(inner);
        self.loops(&[]);
        let left = self.small_without(ty, &right_index);
        let right = self.small_without(ty, &left_index);
        let product = Piece::binary(&left, "*", &right, Level::Mul, ty, &[]);
        let explicit = self.choices.chance(40);
        let index = self.scope.indices.pop()?;
        let mut piece = Piece::call(&format!("sum[{}]", index.binder(explicit)), &[&product], ty, &[]);
        piece.uses.remove(&name);
        if product.may_contract() {
            self.count("contraction in indices");
        }
        Some(piece)
    }

    /// A small factor that cannot mention one index.
    fn small_without(&mut self, ty: Ty, hidden: &str) -> Piece {
        let at = self.scope.indices.iter().position(|i| i.name == hidden);
        let index = at.map(|at| self.scope.indices.remove(at));
        let piece = self.small(ty, &[]);
        if let (Some(at), Some(index)) = (at, index) {
            self.scope.indices.insert(at, index);
        }
        piece
    }
}
