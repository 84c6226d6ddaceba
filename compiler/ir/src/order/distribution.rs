//! Where the values of a level of a tree are, and the merges that follow from it.
//!
//! An engine spreads the values `0..n` that a level merges over places: lanes of a vector,
//! registers, memory, threads. A [`Distribution`] says how, by the bits of a value's number: the
//! lowest bits say in which place of the first [`Span`] it is, the next ones in which of the
//! second, and so on.
//!
//! ```text
//! warp 32, register 4               value 70 is in register 2 of thread 6
//! vector 4, register 2, memory 16   value 70 is in vector 8 of memory, in its register 1, lane 2
//! ```
//!
//! A merge of values `d` apart is then a merge of places of one span: a [`Step`].

use std::fmt;
use std::str::FromStr;

use super::tree::{MOST, ParseError, Pattern, power_of_two};

/// A kind of places, which decides how a value gets from one to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The lanes of a vector: values are shuffled.
    Vector,
    /// Registers of one thread.
    Register,
    /// Memory of one thread.
    Memory,
    /// The threads of a warp: values are shuffled between threads.
    Warp,
    /// The threads of a block: values go through shared memory.
    Block,
    /// The blocks of a cluster: values go through each other's shared memory.
    Cluster,
    /// The blocks of a grid: values go through memory, from one kernel to the next.
    Grid,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Scope; 7] =
        [Scope::Vector, Scope::Register, Scope::Memory, Scope::Warp, Scope::Block, Scope::Cluster, Scope::Grid];

    /// The name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Vector => "vector",
            Scope::Register => "register",
            Scope::Memory => "memory",
            Scope::Warp => "warp",
            Scope::Block => "block",
            Scope::Cluster => "cluster",
            Scope::Grid => "grid",
        }
    }

    /// Whether its places are threads of a block.
    pub fn is_of_block(self) -> bool {
        matches!(self, Scope::Warp | Scope::Block)
    }

    /// A span of this number of places, a power of two.
    pub fn of(self, places: usize) -> Span {
        debug_assert!(places.is_power_of_two(), "{places} places of a {}", self.name());
        let bits = places.max(1).ilog2();
        Span { scope: self, whole: bits, skipped: 0, bits }
    }
}

/// Some places of a scope: a power of two. A level may take some bits of their numbers, and the
/// next level others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    scope: Scope,
    /// The bits of a place's number.
    whole: u32,
    /// The lowest of them, which levels below have taken: they are 0 where a value is left.
    skipped: u32,
    /// The bits above those that belong to the span. The bits above these belong to levels above.
    bits: u32,
}

impl Span {
    /// The kind of the places.
    pub fn scope(self) -> Scope {
        self.scope
    }

    /// The number of places.
    pub fn places(self) -> usize {
        1 << self.bits
    }
}

/// Where values are; see the module's page.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Distribution(Vec<Span>);

/// One round of a pattern's merges: each is of two places of a span, the same distance apart, for
/// all places of the other spans alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Step {
    /// The pattern.
    pub pattern: Pattern,
    /// Where the merged values are.
    pub scope: Scope,
    /// How far apart the places are. In [`Pattern::Doubling`], the places that are this far before
    /// the first ones of the span are its last ones, with the place before in the next span.
    pub distance: usize,
    /// The values of a group that are left to merge after it; in doubling, all.
    pub left: usize,
    span: Span,
}

impl Step {
    /// The pairs of places that are merged, that of the earlier elements first, in all groups. The
    /// result is in the first place of each pair, in doubling in the second. If the merges are done
    /// in this order, none reads a place that another has written.
    pub fn pairs(self) -> impl Iterator<Item = (usize, usize)> {
        let unit = 1 << self.span.skipped;
        let (end, stride) = match self.pattern {
            Pattern::Halves => (self.distance, unit),
            Pattern::Pairs => (unit << self.span.bits, 2 * self.distance),
            Pattern::Doubling => ((unit << self.span.bits) - self.distance, unit),
        };
        let count = end / stride;
        (0..1 << self.span.whole).step_by(unit << self.span.bits).flat_map(move |group| {
            (0..count).map(move |k| {
                let number = if self.pattern == Pattern::Doubling { count - 1 - k } else { k };
                let first = group + number * stride;
                (first, first + self.distance)
            })
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}, {} left", self.pattern.name(), self.scope.name(), self.distance, self.left)
    }
}

impl Distribution {
    /// Over these spans, the lowest bits of a value's number first.
    pub fn new(spans: impl IntoIterator<Item = Span>) -> Distribution {
        Distribution(spans.into_iter().collect())
    }

    /// The spans, the lowest bits of a value's number first.
    pub fn spans(&self) -> &[Span] {
        &self.0
    }

    /// The number of places in all.
    pub fn places(&self) -> usize {
        self.0.iter().map(|span| span.places()).product()
    }

    /// Takes the lowest bits away: those of `count` values, a power of two, or all if there are
    /// fewer places.
    pub(super) fn take(&mut self, count: usize) -> Distribution {
        let mut bits = count.ilog2();
        let mut taken = vec![];
        for span in &mut self.0 {
            let own = bits.min(span.bits);
            taken.push(Span { bits: own, ..*span });
            *span = Span { skipped: span.skipped + own, bits: span.bits - own, ..*span };
            bits -= own;
        }
        self.0.retain(|span| span.bits > 0);
        taken.retain(|span| span.bits > 0);
        Distribution(taken)
    }

    /// The rounds of a pattern over all values.
    pub fn steps(&self, pattern: Pattern) -> Vec<Step> {
        let all = self.places();
        let mut steps = vec![];
        let mut below = 1;
        for span in &self.0 {
            for bit in 0..span.bits {
                let left = match pattern {
                    Pattern::Halves => below << bit,
                    Pattern::Pairs => all / (below << bit << 1),
                    Pattern::Doubling => all,
                };
                let distance = 1 << (span.skipped + bit);
                steps.push(Step { pattern, scope: span.scope, distance, left, span: *span });
            }
            below *= span.places();
        }
        if pattern == Pattern::Halves {
            steps.reverse();
        }
        steps
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (k, span) in self.0.iter().enumerate() {
            let comma = if k > 0 { ", " } else { "" };
            write!(f, "{comma}{} {}", span.scope.name(), span.places())?;
        }
        Ok(())
    }
}

impl FromStr for Distribution {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Distribution, ParseError> {
        let span = |text: &str| {
            let (name, places) = text.trim().split_once(' ')?;
            let scope = Scope::ALL.into_iter().find(|scope| scope.name() == name)?;
            Some(power_of_two(places.trim()).map(|places| scope.of(places)))
        };
        let spans = text.split(',').filter(|text| !text.trim().is_empty());
        let no_span = |text| Err(ParseError(format!("`{text}` is no span of places")));
        let spans = spans.map(|text| span(text).unwrap_or_else(|| no_span(text)));
        let spans: Vec<Span> = spans.collect::<Result<_, _>>()?;
        if spans.iter().map(|span| span.bits).sum::<u32>() > MOST.ilog2() {
            return Err(ParseError(format!("more than {MOST} places")));
        }
        Ok(Distribution(spans))
    }
}
