//! `if`: conditions, and what they guard.

use ir::Dtype;

use super::dim::Dim;
use super::expr::Writer;
use super::piece::{Level, Names, Piece};
use super::scope::{Index, Value};

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
        let guarded = self.guard(&condition.uses);
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

    /// Whether a condition guards accesses here, on which no sort may depend.
    pub fn in_branch(&self) -> bool {
        self.scope.indices.iter().any(|index| index.guarded)
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
