//! Numbers computed from the sizes of a call, as data. A run evaluates them, and an object computes
//! them in generated code (see `object`), so both have the same definition.

use ir::Size;

/// A number, modulo 2^64.
#[derive(Clone, Debug)]
pub(super) enum Formula {
    Constant(i64),
    Size(Size),
    Two(Rule, Box<[Formula; 2]>),
}

/// An operation on two numbers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    Plus,
    Times,
    /// The quotient of a non-negative number and a positive one.
    Over,
    Lesser,
    Greater,
    /// 1 if the first is greater than the second, else 0.
    Exceeds,
}

impl Rule {
    fn apply(self, a: i64, b: i64) -> i64 {
        match self {
            Rule::Plus => a.wrapping_add(b),
            Rule::Times => a.wrapping_mul(b),
            Rule::Over => a.checked_div(b).unwrap_or(0),
            Rule::Lesser => a.min(b),
            Rule::Greater => a.max(b),
            Rule::Exceeds => i64::from(a > b),
        }
    }
}

impl Formula {
    /// Evaluates the number for sizes given by `value`.
    pub(super) fn at(&self, value: &impl Fn(&Size) -> i64) -> i64 {
        match self {
            Formula::Constant(number) => *number,
            Formula::Size(size) => value(size),
            Formula::Two(rule, two) => rule.apply(two[0].at(value), two[1].at(value)),
        }
    }

    /// Applies an operation to this number and another.
    #[must_use]
    pub(super) fn then(self, rule: Rule, other: impl Into<Formula>) -> Formula {
        Formula::Two(rule, Box::new([self, other.into()]))
    }

    /// Rounds this non-negative number up to a multiple of a positive one.
    #[must_use]
    pub(super) fn up_to_multiple(self, of: i64) -> Formula {
        self.then(Rule::Plus, of - 1).then(Rule::Over, of).then(Rule::Times, of)
    }
}

impl From<i64> for Formula {
    fn from(number: i64) -> Formula {
        Formula::Constant(number)
    }
}

impl From<&Size> for Formula {
    fn from(size: &Size) -> Formula {
        Formula::Size(size.clone())
    }
}
