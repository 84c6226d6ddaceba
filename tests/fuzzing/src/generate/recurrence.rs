//! Recurrences: `let rec` of one array, in the forms that people write.

use ir::Dtype;

use super::expr::Writer;
use super::piece::{Level, Piece};
use super::scope::Index;

/// The element types of recurrences.
const TYPES: [Dtype; 4] = [Dtype::F32, Dtype::F64, Dtype::I64, Dtype::I32];

/// Stands for the name of the array until it has one.
const OWN: &str = "@own";

impl Writer<'_> {
    /// `let rec y[i < n] = ...`
    pub fn recurrence(&mut self) -> String {
        self.count("recurrence");
        let ty = self.choices.pick(&TYPES).copied().unwrap_or(Dtype::F32);
        let (along, across) = (self.some_dim(), self.some_dim());
        let form = self.choices.below(10);
        // Only the last plane is read; it exists however few others there are.
        let last = matches!(form, 5 | 9) && self.choices.chance(60);
        let count = along.offset(i64::from(last));
        let dims = if form < 5 { vec![count.clone()] } else { vec![count.clone(), across.clone()] };
        self.scope.indices = dims.iter().zip(["i", "j"]).map(|(dim, name)| Index::new(name, dim.clone())).collect();
        let first = self.maybe_in_if(true, |writer| writer.expr(ty, &[], 1));
        // It is computed in the branch that looks back.
        let names = self.scope.indices.iter().map(|index| index.name.clone()).collect();
        let guarded = self.guard(&names);
        let other = self.maybe_in_if(true, |writer| writer.expr(ty, &[], 2));
        self.unguard(guarded);
        let indices = std::mem::take(&mut self.scope.indices);
        let [end, width] = [&along, &across].map(|dim| self.scope.number(dim));
        let (condition, earlier) = match form {
            0 => ("i == 0".to_owned(), format!("{OWN}[i - 1]")),
            1 => (format!("i == {end} - 1"), format!("{OWN}[i + 1]")),
            2 => ("i < 2".to_owned(), format!("max({OWN}[i - 1], {OWN}[i - 2])")),
            3 => ("i == 0".to_owned(), format!("{OWN}[i / 2]")),
            4 => ("i == 0".to_owned(), format!("max[k < i]({OWN}[k])")),
            // The other index is behind the deciding one, before it, or decides too.
            5 => ("i == 0".to_owned(), format!("max[k < {width}]({OWN}[i - 1, k])")),
            6 => ("j == 0".to_owned(), format!("{OWN}[i, j - 1]")),
            7 => ("i == 0 || j == 0".to_owned(), format!("min({OWN}[i - 1, j], {OWN}[i, j - 1])")),
            8 => (format!("i == {end} - 1 || j == 0"), format!("{OWN}[i + 1, j - 1]")),
            _ => ("i == 0".to_owned(), format!("{OWN}[i - 1, {width} - 1 - j]")),
        };
        if last {
            self.loops(&dims);
        }
        if matches!(form, 4 | 5) {
            let inner = if form == 4 { &count } else { &across };
            self.loops(&[&dims[..], std::slice::from_ref(inner)].concat());
        }
        let earlier = Piece::atom(earlier, ty, &[]);
        let operator = if self.choices.chance(50) { "+" } else { "-" };
        let step = Piece::binary(&other, operator, &earlier, Level::Add, ty, &[]);
        let text = format!("if {condition} then {} else {}", first.text, step.text);
        let mut piece = Piece::atom(text, ty, &[]).using(&[&first, &step]);
        for index in &indices {
            piece.uses.remove(&index.name);
        }
        piece.shape = dims[usize::from(last)..].to_vec();
        let binders: Vec<String> = indices.iter().map(|index| index.binder(true, Clone::clone)).collect();
        // A recurrence that had the name of an array that it reads would read itself.
        let shadows = std::mem::replace(&mut self.shadows, false);
        let text = self.bind(&format!("[{}]", binders.join(", ")), piece, None);
        self.shadows = shadows;
        let Some((name, _)) = text.strip_prefix("let ").and_then(|rest| rest.split_once('[')) else { return text };
        // No other name has an underscore.
        let all = if last { format!("{name}_all") } else { name.to_owned() };
        let recurrence = text.replacen(&format!("let {name}"), &format!("let rec {all}"), 1).replace(OWN, &all);
        if last { format!("{recurrence}\nlet {name} = {all}[{end}]") } else { recurrence }
    }
}
