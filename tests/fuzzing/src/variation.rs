//! Changes of a program that must not change its results. The meaning of a program does not depend
//! on dead code, on the order of independent statements, on transposing an array back and forth, or
//! on splitting a sum of integers in two.

use grammar::ast::{BinaryOp, Binder, Bound, Definition, ExprKind, File, Function, Pattern, Span, Target};
use serde::{Deserialize, Serialize};

use crate::generate::data::Random;
use crate::judge::check;
use crate::syntax::{bound, expressions, mentions, replaced, text};

/// A change, and the number of the place where it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variation {
    /// The change.
    pub change: Change,
    /// Chooses the place.
    pub seed: u64,
}

/// The kinds of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// A statement is repeated under another name.
    DeadCode,
    /// Two neighbours that do not need each other.
    Order,
    /// A matrix, transposed twice.
    Transposed,
    /// A sum of integers is split in two: over the even and the odd indices, or each term.
    Split,
}

const CHANGES: [Change; 4] = [Change::DeadCode, Change::Order, Change::Transposed, Change::Split];

impl Change {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Change::DeadCode => "dead code added",
            Change::Order => "statements reordered",
            Change::Transposed => "transposed twice",
            Change::Split => "sum split",
        }
    }
}

impl Variation {
    /// A change at random.
    pub fn drawn(seed: u64) -> Variation {
        let mut random = Random::new(seed ^ 0x7157);
        let at = usize::try_from(random.below(4)).unwrap_or(0);
        Variation { change: CHANGES[at], seed: random.bits() }
    }

    /// The changed source, if there is a place for the change.
    pub fn apply(&self, source: &str, entry: &str) -> Option<String> {
        let file = grammar::parse(source).ok()?;
        let function = file.functions.iter().find(|f| f.name.text == entry)?;
        let candidates = match self.change {
            Change::DeadCode => dead_code(source, function),
            Change::Order => reordered(source, function),
            Change::Transposed => transposed(source, &file, function),
            Change::Split => split(source, &file, function),
        };
        // The first place from the drawn one on where the types allow the change.
        let count = u64::try_from(candidates.len()).ok()?;
        let first = usize::try_from(self.seed.checked_rem(count)?).ok()?;
        let (before, from) = candidates.split_at_checked(first)?;
        from.iter().chain(before).find(|(probe, _)| check(probe, entry).is_ok()).map(|(_, changed)| changed.clone())
    }
}

/// A text that must be a valid program for a change to be allowed, and the changed program.
type Candidate = (String, String);

fn alone(changed: String) -> Candidate {
    (changed.clone(), changed)
}

fn dead_code(source: &str, function: &Function) -> Vec<Candidate> {
    let lets = function.lets.iter().filter_map(|statement| {
        let Definition::Values { target: Target { pattern: Pattern::Name(name), .. }, .. } = &statement.definition
        else {
            return None;
        };
        let whole = text(source, statement.span);
        let at = (name.span.start.checked_sub(statement.span.start)?) as usize;
        let copy = [whole.get(..at)?, "unused_", whole.get(at..)?].concat();
        Some(alone(replaced(source, statement.span, &format!("{copy}\n    {whole}"))))
    });
    lets.collect()
}

fn reordered(source: &str, function: &Function) -> Vec<Candidate> {
    let pairs = function.lets.windows(2).filter_map(|pair| {
        let [first, second] = pair else { return None };
        let (a, b) = (text(source, first.span), text(source, second.span));
        let apart = |names: Vec<&str>, other: &str| names.iter().all(|name| !mentions(other, name));
        if !apart(bound(first), b) || !apart(bound(second), a) {
            return None;
        }
        let between = Span { start: first.span.end, end: second.span.start };
        let both = Span { start: first.span.start, end: second.span.end };
        Some(alone(replaced(source, both, &format!("{b}{}{a}", text(source, between)))))
    });
    pairs.collect()
}

fn transposed(source: &str, file: &File, function: &Function) -> Vec<Candidate> {
    let plain = function.lets.iter().filter_map(|statement| match &statement.definition {
        Definition::Values { target: Target { pattern: Pattern::Name(_), binders }, value } if binders.is_empty() => {
            Some(*value)
        }
        _ => None,
    });
    let changed = plain.map(|value| {
        let span = file.exprs[value].span;
        alone(replaced(source, span, &format!("transpose(transpose({}))", text(source, span))))
    });
    changed.collect()
}

fn split(source: &str, file: &File, function: &Function) -> Vec<Candidate> {
    let mut found = vec![];
    for id in expressions(file, function) {
        let expr = &file.exprs[id];
        let ExprKind::Reduce { callee, binders, filter: None, body } = &expr.kind else { continue };
        let Some(first) = binders.first() else { continue };
        // The operand may determine where an index without a bound ends, or one that bounds another
        // from below.
        let from_index = |bound: Bound| matches!(file.exprs[bound.limit].kind, ExprKind::Name(_));
        let ends = |binder: &Binder| binder.upper.is_none() || binder.lower.is_some_and(from_index);
        if callee.text != "sum" || binders.iter().any(ends) {
            continue;
        }
        let body = &file.exprs[*body];
        let head = text(source, Span { start: expr.span.start, end: body.span.start });
        let tail = text(source, Span { start: body.span.end, end: expr.span.end });
        let whole = text(source, expr.span);
        let term = text(source, body.span);
        // Only integers have bits. Their sums wrap, so that any order gives the same result.
        let probe = replaced(source, expr.span, &format!("bit_xor({whole}, 0)"));
        let has_type = |id| {
            let words = text(source, file.exprs[id].span).split(|c: char| !c.is_alphanumeric());
            words.into_iter().any(|word| word.starts_with(char::is_alphabetic))
        };
        let (even, odd) = match &body.kind {
            // Literals alone would be `i64`.
            ExprKind::Binary(BinaryOp::Add, a, b) if [a, b].iter().all(|part| has_type(**part)) => {
                (text(source, file.exprs[*a].span).to_owned(), text(source, file.exprs[*b].span).to_owned())
            }
            _ => {
                let index = &first.name.text;
                (format!("if {index} % 2 == 0 then {term} else 0"), format!("if {index} % 2 == 0 then 0 else {term}"))
            }
        };
        found.push((probe, replaced(source, expr.span, &format!("({head}{even}{tail} + {head}{odd}{tail})"))));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_keep_their_types_in_sums_that_are_split() {
        let source = "fn main(x: u64[n]) -> u64 = sum[r < n](x[r] + 0xffffffffffffffff)";
        let changed = Variation { change: Change::Split, seed: 0 }.apply(source, "main").expect("a sum");
        assert!(check(&changed, "main").is_ok(), "{changed}");
    }
}
