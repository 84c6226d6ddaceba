//! The requirements of the call, each noted once, also as rows for proofs.

use std::cell::Cell;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use grammar::ast::Span;
use ir::nest::{Purpose, Relation, Requirement};
use ir::{Size, SymbolId};

use super::arena::Arena;
use super::facts::Facts;
use super::origin;
use super::prove::{Linear, Terms, Variable};
use super::ranges::MAX_SCALAR;

/// The requirements of the call so far, also as rows that are not negative. Of rows that differ by
/// a constant only the strongest is kept.
#[derive(Clone, Default)]
pub(super) struct Requirements {
    /// The requirements, in the order in which they came.
    list: Vec<Requirement>,
    /// How many rows proofs have combined.
    pub combined: Cell<usize>,
    /// Those that are noted: both sides, and the sizes that make them void.
    seen: BTreeSet<(bool, Size, Size, Vec<Size>)>,
    rows: Vec<Row>,
    /// The row of some terms and some sizes that make it void.
    strongest: BTreeMap<(Terms, Vec<Size>), usize>,
    /// Rows by each variable in them.
    mentions: BTreeMap<Variable, Vec<usize>>,
}

/// A form that is not negative unless a size is below 1.
#[derive(Clone)]
pub(super) struct Row {
    /// The form.
    pub form: Linear,
    /// The sizes.
    pub unless_empty: Vec<Size>,
}

impl Requirements {
    /// Notes a condition on sizes, unless it is there already.
    pub fn require(&mut self, r: Requirement) {
        let equal = r.relation == Relation::Equal;
        let (first, second) = match equal && r.right < r.left {
            true => (&r.right, &r.left),
            false => (&r.left, &r.right),
        };
        if !self.seen.insert((equal, first.clone(), second.clone(), r.unless_empty.clone())) {
            return;
        }
        let form = Linear::size(&r.right).minus(&Linear::size(&r.left));
        if equal {
            self.row(Linear::constant(0).minus(&form), &r.unless_empty);
        }
        self.row(form, &r.unless_empty);
        self.list.push(r);
    }

    /// Requires a size to have an exact value, unless it always does.
    pub fn require_value(&mut self, arena: &Arena, size: &Size, what: &str, span: Span) {
        let small = Facts { arena, requirements: self }.is_small(size);
        if !(small || size.as_symbol().is_some()) {
            self.require(Requirement {
                left: size.clone(),
                relation: Relation::AtMost,
                right: size.clone(),
                unless_empty: vec![],
                left_is: what.to_string(),
                right_is: what.to_string(),
                purpose: Purpose::Value,
                origin: origin(span),
            });
        }
    }

    /// Requires a scalar parameter to be small enough for conditions and bounds on it not to wrap.
    pub fn bound_scalar(&mut self, arena: &Arena, symbol: SymbolId, span: Span) {
        let name = format!("`{}`", arena.out.symbols[symbol].name);
        let name = name.as_str();
        let value = Size::symbol(symbol);
        let limit = Size::constant(MAX_SCALAR);
        let sides =
            [(-&limit, value.clone(), "the least it may be", name), (value, limit, name, "the greatest it may be")];
        for (left, right, left_is, right_is) in sides {
            self.require(Requirement {
                left,
                relation: Relation::AtMost,
                right,
                unless_empty: vec![],
                left_is: left_is.to_string(),
                right_is: right_is.to_string(),
                purpose: Purpose::Scalar,
                origin: origin(span),
            });
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// The requirements, in the order in which they came.
    pub fn into_list(self) -> Vec<Requirement> {
        self.list
    }

    fn row(&mut self, form: Linear, unless_empty: &[Size]) {
        match self.strongest.entry((form.terms.clone(), unless_empty.to_vec())) {
            Entry::Occupied(at) => {
                let known = &mut self.rows[*at.get()].form.constant;
                *known = form.constant.min(*known);
            }
            Entry::Vacant(at) => {
                for (variable, _) in &form.terms {
                    self.mentions.entry(variable.clone()).or_default().push(self.rows.len());
                }
                at.insert(self.rows.len());
                self.rows.push(Row { form, unless_empty: unless_empty.to_vec() });
            }
        }
    }

    /// The rows that mention a variable, each with its number.
    pub fn of(&self, variable: &Variable) -> impl Iterator<Item = (usize, &Row)> {
        self.mentions.get(variable).into_iter().flatten().map(|k| (*k, &self.rows[*k]))
    }
}
