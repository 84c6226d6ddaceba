//! `if`: conditions, and what they guard.

use ir::Dtype;

use super::dim::Dim;
use super::expr::Writer;
use super::piece::{Level, Names, Piece};
use super::scope::{Index, Value};
use super::statement::INDICES;

impl Writer<'_> {
    /// `if i > 0 then x[i - 1] else e`, or `if i <= 0 then e else x[i - 1]`
    pub fn guarded_access(&mut self, ty: Dtype, fuel: usize) -> Piece {
        if self.choices.chance(25)
            && let Some(piece) = self.guarded_gather(ty)
        {
            return piece;
        }
        let n = self.choices.below(self.scope.indices.len());
        let index = self.scope.indices[n].clone();
        if index.guarded || !index.is_plain() {
            return self.atom(ty, &[]);
        }
        self.count("guarded access");
        let by = 1 + i64::try_from(self.choices.below(2)).unwrap_or(0);
        let name = &index.name;
        let below = index.bound.offset(-by);
        let (least, bound) = (self.scope.number(&below), self.scope.number(&index.bound));
        let (text, opposite, lower, upper) = match self.choices.below(4) {
            0 => (format!("{name} > {}", by - 1), format!("{name} <= {}", by - 1), by, index.upper.clone()),
            1 => (format!("{name} >= {by}"), format!("{name} < {by}"), by, index.upper.clone()),
            2 => (format!("{name} < {least}"), format!("{name} >= {least}"), index.lower, below),
            _ => (format!("{name} + {by} < {bound}"), format!("{name} + {by} >= {bound}"), index.lower, below),
        };
        let holds = self.choices.chance(65);
        let text = if holds { text } else { opposite };
        let condition =
            Piece { uses: [name.clone()].into(), level: Level::Compare, ..Piece::atom(text, Dtype::Bool, &[]) };
        let guarded = self.guard_by(&condition);
        self.scope.indices[n].lower = lower;
        self.scope.indices[n].upper = upper;
        let inside = self.expr(ty, &[], fuel);
        self.scope.indices[n].lower = index.lower;
        self.scope.indices[n].upper = index.upper;
        let other = self.operand(ty, &[], fuel.saturating_sub(1));
        self.unguard(guarded);
        let (then, otherwise) = if holds { (inside, other) } else { (other, inside) };
        if_piece(&condition, &then, &otherwise, ty, &[])
    }

    /// `if v[i] >= 0 && v[i] < n then x[v[i]] else e`
    fn guarded_gather(&mut self, ty: Dtype) -> Option<Piece> {
        let values = self.scope.values.iter().enumerate();
        let whole = values.clone().filter(|(_, v)| v.ty == Dtype::I64 && v.below.is_none());
        let whole: Vec<usize> = whole.filter(|(_, v)| self.scope.reaches(&v.shape)).map(|(n, _)| n).collect();
        let arrays = values.filter(|(_, v)| v.ty == ty && v.shape.len() == 1);
        let arrays: Vec<Value> = arrays.map(|(_, v)| v.clone()).collect();
        let (value, array) = (*self.choices.pick(&whole)?, self.choices.pick(&arrays)?.clone());
        let subscript = self.scope.access(&mut self.choices, value, self.scope.values[value].shape.len())?;
        self.count("guarded gather");
        let at = &subscript.text;
        let condition = format!("{at} >= 0 && {at} < {}", self.scope.number(&array.shape[0]));
        let condition = Piece { level: Level::And, ..Piece::atom(condition, Dtype::Bool, &[]) }.using(&[&subscript]);
        let mut then = Piece::atom(format!("{}[{at}]", array.name), ty, &[]).using(&[&subscript]);
        then.uses.extend(array.uses);
        let otherwise = self.literal(ty);
        Some(if_piece(&condition, &then, &otherwise, ty, &[]))
    }

    /// `let (a, b)[i] = if c then (e, f) else (g, h)`
    pub fn chosen(&mut self) -> String {
        let ty = self.some_type();
        let mut shape = self.some_shape_of(ty);
        shape.truncate(2);
        let other = self.some_type();
        if self.choices.chance(40) {
            let second = if self.choices.chance(50) { shape.clone() } else { self.some_shape_of(other) };
            let (text, parts) = self.branches(&[(ty, shape), (other, second)]);
            let names = self.bind_all(&[], &[], parts);
            return format!("let ({}) = {text}", names.join(", "));
        }
        let indices = shape.iter().zip(INDICES).map(|(dim, name)| Index::new(name, dim.clone()));
        self.scope.indices = indices.collect();
        let (text, parts) = self.branches(&[(ty, vec![]), (other, vec![])]);
        let indices = std::mem::take(&mut self.scope.indices);
        let explicit = self.choices.chance(30);
        let binders: Vec<String> = indices.iter().map(|index| index.binder(explicit, Dim::clone)).collect();
        let names = self.bind_all(&indices, &shape, parts);
        format!("let ({})[{}] = {text}", names.join(", "), binders.join(", "))
    }

    /// `if c then (e, f) else (g, h)`, or with more branches, and the facts about each part.
    pub fn branches(&mut self, types: &[(Dtype, Vec<Dim>)]) -> (String, Vec<Piece>) {
        self.count("tuple in branches");
        let shape = &types[0].1;
        let is_one = types.iter().all(|(_, other)| other == shape);
        let whole = if is_one && self.choices.chance(20) { 0 } else { shape.len() };
        let condition = self.expr(Dtype::Bool, &shape[whole..], 2);
        let guarded = if condition.shape.is_empty() { self.guard_by(&condition) } else { vec![] };
        let outside = std::mem::replace(&mut self.in_choice, true);
        // A reduction in a branch may be computed for each element.
        let before = self.work.len();
        let more = self.choices.chance(15);
        let mut thens = vec![];
        let mut others = vec![];
        for (ty, shape) in types {
            if more {
                thens.push(self.expr(*ty, shape, 2));
            } else {
                let (then, otherwise) = self.two(*ty, shape, 2);
                thens.push(then);
                others.push(otherwise);
            }
        }
        let tuple = |parts: &[Piece]| {
            let texts: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
            format!("({})", texts.join(", "))
        };
        let mut otherwise = tuple(&others);
        if more {
            (otherwise, others) = self.branches(types);
        }
        let product = |shape: &Vec<Dim>| shape.iter().fold(Dim::constant(1), |product, dim| product.times(dim));
        let elements = types.iter().fold(Dim::default(), |sum, (_, shape)| sum.plus(&product(shape)));
        for work in &mut self.work[before..] {
            *work = work.times(&elements);
        }
        self.in_choice = outside;
        self.unguard(guarded);
        let text = format!("if {} then {} else {otherwise}", condition.within(Level::Or), tuple(&thens));
        let parts = thens.iter().zip(&others).zip(types);
        let parts = parts.map(|((then, other), (ty, shape))| if_piece(&condition, then, other, *ty, shape));
        (text, parts.collect())
    }

    /// Marks the indices of a condition as guarded. Those that it mentions in a random draw alone
    /// are not, so they need bounds of their own.
    pub fn guard_by(&mut self, condition: &Piece) -> Vec<usize> {
        // Calls of draws, and of helpers that draw.
        let mut drawing = vec!["uniform(".to_owned(), "normal(".to_owned()];
        for helper in self.helpers {
            if drawing.iter().any(|call| helper.text.contains(call)) {
                drawing.push(format!("{}(", helper.name));
            }
        }
        if drawing.iter().any(|call| condition.text.contains(call)) {
            self.scope.bound_explicitly(&condition.uses);
        }
        self.guard(&condition.uses)
    }

    /// Marks the indices of a condition as guarded and returns those that were not guarded before.
    /// An index that begins at another one mentions it.
    pub fn guard(&mut self, names: &Names) -> Vec<usize> {
        let mut names = names.clone();
        for index in self.scope.indices.iter().rev() {
            if let Some((_, outer)) = index.after.as_ref().filter(|_| names.contains(&index.name)) {
                names.insert(outer.clone());
            }
        }
        let open = |(_, i): &(usize, &mut Index)| !i.guarded && names.contains(&i.name);
        let indices = self.scope.indices.iter_mut().enumerate();
        let mark = |(n, index): (usize, &mut Index)| {
            index.guarded = true;
            n
        };
        indices.filter(open).map(mark).collect()
    }

    /// Whether a condition guards accesses here.
    pub fn in_branch(&self) -> bool {
        self.in_choice || self.scope.indices.iter().any(|index| index.guarded)
    }

    /// Whether an array that is computed apart from its users may depend on this place: on no
    /// condition that an access may need, and on no index that ends where data or another says.
    pub fn may_stand_alone(&self) -> bool {
        !self.in_branch() && !self.in_if && self.scope.indices.iter().all(Index::is_plain)
    }

    pub fn unguard(&mut self, indices: Vec<usize>) {
        for n in indices {
            self.scope.indices[n].guarded = false;
        }
    }
}

/// `if c then a else b`
pub fn if_piece(condition: &Piece, then: &Piece, otherwise: &Piece, ty: Dtype, shape: &[Dim]) -> Piece {
    let condition_text = condition.within(Level::Or);
    let text = format!("if {condition_text} then {} else {}", then.within(Level::Or), otherwise.text);
    Piece { level: Level::If, ..Piece::atom(text, ty, shape) }.using(&[condition, then, otherwise])
}
