//! A checked function's types as text.

use ir::checked::{Checked, Type};
use ir::nest::{Relation, SymbolSource};
use ir::{Size, SymbolId};

use super::Checker;

impl Checker<'_> {
    /// A type as the user would write it.
    pub(super) fn show_type(&self, ty: &Type) -> String {
        format!("`{}`", type_text(&self.out, ty))
    }
}

/// A function's parameters and results, and what its sizes must meet: `fn f(x: f32[n]) -> (out: f32[n - 2])`, then a
/// line `where ...` for each condition.
pub fn signature(checked: &Checked) -> String {
    let params: Vec<_> = checked.params.iter().map(|p| format!("{}: {}", p.name, type_text(checked, &p.ty))).collect();
    let result =
        |(name, id): &(String, ir::checked::ExprId)| (name.clone(), type_text(checked, &checked.exprs[*id].ty));
    let results: Vec<_> = checked.results.iter().map(result).collect();
    let results = match results.as_slice() {
        [(name, ty)] if name == "out" => ty.clone(),
        several => {
            let several: Vec<_> = several.iter().map(|(name, ty)| format!("{name}: {ty}")).collect();
            format!("({})", several.join(", "))
        }
    };
    let mut text = format!("fn {}({}) -> {results}", checked.name, params.join(", "));
    let shapes = checked.params.iter().flat_map(|p| &p.ty.shape);
    let named: Vec<_> = shapes.filter_map(Size::as_symbol).collect();
    for r in &checked.requires {
        // That a parameter has the shape it is declared with is said already.
        let axis = |s: SymbolId| matches!(checked.symbols[s].source, SymbolSource::Dimension { .. });
        if r.left.as_symbol().is_some_and(|s| axis(s) && !named.contains(&s)) {
            continue;
        }
        let relation = match r.relation {
            Relation::Equal => "==",
            Relation::AtMost => "<=",
        };
        let (left, right) = (size_text(checked, &r.left), size_text(checked, &r.right));
        text.push_str(&format!("\n    where {left} {relation} {right}"));
    }
    text
}

fn size_text(checked: &Checked, size: &Size) -> String {
    size.display(&|s| checked.symbols[s].name.as_str()).to_string()
}

fn type_text(checked: &Checked, ty: &Type) -> String {
    if ty.is_scalar() {
        return ty.dtype.to_string();
    }
    let shape: Vec<_> = ty.shape.iter().map(|n| size_text(checked, n)).collect();
    format!("{}[{}]", ty.dtype, shape.join(", "))
}
