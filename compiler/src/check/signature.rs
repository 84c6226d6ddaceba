//! The signature of a function, as text that a user can read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ir::checked::{Checked, Type};
use ir::nest::{Purpose, Relation, Requirement, SymbolSource};
use ir::{Dtype, Origin, Size, SymbolId};

/// The parameters and results of a function. Its `Display` is how the source would declare it, with
/// the conditions on the sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The function's name.
    pub name: String,
    /// Its parameters, in order.
    pub params: Vec<Slot>,
    /// Its results, in order.
    pub results: Vec<Slot>,
    /// The conditions that the sizes of a call must meet, such as `(m + 1) / 2 == n`.
    pub requires: Vec<String>,
}

/// A parameter or a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Its name; an unnamed result is `out`, or `out0`, `out1` and so on.
    pub name: String,
    /// The type of its elements.
    pub dtype: Dtype,
    /// The length of each axis as the source writes it; none for a scalar.
    pub shape: Vec<String>,
}

impl Signature {
    /// The signature of a checked function.
    pub fn new(checked: &Checked) -> Signature {
        let slot = |name: &str, ty: &Type| Slot::new(checked, name, ty);
        Signature {
            name: checked.name.clone(),
            params: checked.params.iter().map(|p| slot(&p.name, &p.ty)).collect(),
            results: checked.results.iter().map(|(name, value)| slot(name, &checked.exprs[*value].ty)).collect(),
            requires: requirements(checked).into_iter().map(|(text, _)| text).collect(),
        }
    }
}

/// The conditions that the sizes of a call must meet, as a user reads them, each with the source
/// that asks for it.
pub fn requirements(checked: &Checked) -> Vec<(String, Origin)> {
    let text = |size: &Size| size_text(checked, size);
    let named = named(checked);
    let says =
        |r: &&Requirement| r.purpose != Purpose::Value && !is_declared(checked, &named, r) && !is_of_solved(checked, r);
    let shown: Vec<&Requirement> = checked.requires.iter().filter(says).collect();
    let strongest = strongest(&shown);
    let mut said = BTreeSet::new();
    let mut found = vec![];
    for requirement in shown.into_iter().filter(|r| at_least(r).is_none_or(|(key, room)| strongest[&key] == room)) {
        let text = condition(requirement, &text);
        if said.insert(text.clone()) {
            found.push((text, requirement.origin));
        }
    }
    found
}

/// The size names in the declarations of parameters.
fn named(checked: &Checked) -> BTreeSet<SymbolId> {
    let mut named = BTreeSet::new();
    for size in checked.params.iter().flat_map(|p| &p.ty.shape) {
        size.for_each_symbol(&mut |s| _ = named.insert(s));
    }
    named
}

/// Whether a requirement only says that a parameter has its declared shape: it then mentions a
/// length that has no name in the source.
fn is_declared(checked: &Checked, named: &BTreeSet<SymbolId>, requirement: &Requirement) -> bool {
    let mut unnamed = false;
    for size in [&requirement.left, &requirement.right] {
        size.for_each_symbol(&mut |s| {
            let scalar = checked.symbols.get(s).is_some_and(|s| matches!(s.source, SymbolSource::Scalar { .. }));
            unnamed |= !scalar && !named.contains(&s);
        });
    }
    unnamed
}

/// Whether a requirement only says that a size that is solved for is a length.
fn is_of_solved(checked: &Checked, requirement: &Requirement) -> bool {
    let solved = |size: &Size| {
        size.as_symbol().is_some_and(|s| matches!(checked.symbols[s].source, SymbolSource::Solved { .. }))
    };
    let Requirement { left, right, purpose, .. } = requirement;
    left.is_zero() && solved(right) || *purpose == Purpose::Scalar && (solved(left) || solved(right))
}

/// A requirement as "a size is at least 0": that size without its constant and the sizes that lift
/// the requirement if they are empty, then the constant.
fn at_least(requirement: &Requirement) -> Option<((Size, &[Size]), i64)> {
    let room = &requirement.right - &requirement.left;
    let constant = room.constant_part();
    let key = (&room - &Size::constant(constant), requirement.unless_empty.as_slice());
    (requirement.relation == Relation::AtMost).then_some((key, constant))
}

/// Of requirements that differ by a constant, the strongest: at least 1 implies at least 0.
fn strongest<'r>(requires: &[&'r Requirement]) -> BTreeMap<(Size, &'r [Size]), i64> {
    let mut strongest = BTreeMap::new();
    for (key, constant) in requires.iter().filter_map(|requirement| at_least(requirement)) {
        let least = strongest.entry(key).or_insert(constant);
        *least = constant.min(*least);
    }
    strongest
}

/// A requirement as one would say it: no term is subtracted from another where it can be added to
/// the other side.
fn condition(requirement: &Requirement, text: &impl Fn(&Size) -> String) -> String {
    let mut condition = match requirement.relation {
        Relation::Equal => format!("{} == {}", text(&requirement.left), text(&requirement.right)),
        Relation::AtMost => {
            let (mut more, mut less) = (Size::constant(0), Size::constant(0));
            for (product, coefficient) in (&requirement.right - &requirement.left).terms() {
                let (side, coefficient) = match coefficient.checked_neg() {
                    Some(positive @ 1..) => (&mut less, positive),
                    _ => (&mut more, *coefficient),
                };
                let term = product.iter().fold(Size::constant(coefficient), |term, atom| &term * &atom.into());
                *side = &*side + &term;
            }
            format!("{} >= {}", text(&more), text(&less))
        }
    };
    for (k, size) in requirement.unless_empty.iter().enumerate() {
        let word = if k == 0 { "unless" } else { "or" };
        let relation = if size.as_symbol().is_some() { "==" } else { "<=" };
        condition += &format!(" {word} {} {relation} 0", text(size));
    }
    condition
}

impl Slot {
    /// A parameter or result of a type.
    pub fn new(checked: &Checked, name: &str, ty: &Type) -> Slot {
        let shape = ty.shape.iter().map(|n| size_text(checked, n)).collect();
        Slot { name: name.to_owned(), dtype: ty.dtype, shape }
    }

    /// The type as the source writes it: `f32[n, 64]`.
    pub fn ty(&self) -> String {
        match self.shape.as_slice() {
            [] => self.dtype.to_string(),
            shape => format!("{}[{}]", self.dtype, shape.join(", ")),
        }
    }

    /// How many axes it has.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |slots: &[Slot]| {
            slots.iter().map(|slot| format!("{}: {}", slot.name, slot.ty())).collect::<Vec<_>>().join(", ")
        };
        write!(f, "fn {}({}) -> ", self.name, list(&self.params))?;
        match self.results.as_slice() {
            [only] if only.name == "out" => f.write_str(&only.ty())?,
            results => write!(f, "({})", list(results))?,
        }
        for (k, requirement) in self.requires.iter().enumerate() {
            write!(f, "\n    {} {requirement}", if k == 0 { "where" } else { "  and" })?;
        }
        Ok(())
    }
}

/// A size as the source writes it.
pub fn size_text(checked: &Checked, size: &Size) -> String {
    size.display(&|s: SymbolId| checked.symbols[s].name.as_str()).to_string()
}
