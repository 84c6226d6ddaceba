//! Orders as trees: which partial results a reduction merges with which, level by level.
//!
//! A [`Tree`] is a list of levels from the elements up. Each [`Level`] takes the values of the one
//! below in groups of a fixed size and leaves fewer of them; all levels together take a chunk of
//! [`Tree::chunk`] elements and leave one partial result. How the results of all chunks become one
//! is the tree's [`Join`]. [`Order::tree`] has the tree of each order, and trees have a text form:
//!
//! ```text
//! free     tree(any)
//! lanes    tree(lanes 128 x 32, halves 128, pairs)
//! blocks   tree(serial 256, pairs)
//! scan     tree(doubling 16, serial 256, serial)
//! ```
//!
//! A tree says nothing about where its values are. [`Tree::steps`] combines it with a
//! [`Distribution`] of the values over the registers, vectors and threads of an engine, and has the
//! merges to emit, one after another.
//!
//! The last group of a level may have fewer values than the others. It is merged as if the missing
//! ones were the identity, or were left out: for any partial result `x`, `e o x == x`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use super::{BLOCK, Distribution, LANES, LANES_CHUNK, Order, SCAN_CHUNK, SCAN_GROUP, Step};

/// How the values of a group, in their places `0..n`, are merged across these places. `n` is a
/// power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pattern {
    /// For `d = n/2, ..., 2, 1`: `x[i] = x[i] o x[i + d]` for `i < d`. The result is `x[0]`.
    Halves,
    /// For `d = 1, 2, ..., n/2`: `x[i] = x[i] o x[i + d]` for each multiple `i` of `2 * d`. The
    /// result is `x[0]`.
    Pairs,
    /// For `d = 1, 2, ..., n/2`, all at once: `x[i] = x[i - d] o x[i]` for `i >= d`. Each `x[i]`
    /// becomes the inclusive prefix at `i`; the result is the prefix of the last value.
    Doubling,
}

impl Pattern {
    /// Every pattern.
    pub const ALL: [Pattern; 3] = [Pattern::Halves, Pattern::Pairs, Pattern::Doubling];

    /// The name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Halves => "halves",
            Pattern::Pairs => "pairs",
            Pattern::Doubling => "doubling",
        }
    }
}

/// One level of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// An accumulator starts at the identity and takes this number of values in ascending order.
    Serial(usize),
    /// `lanes` accumulators start at the identity; each takes `each` values in ascending order,
    /// value `i` going to accumulator `i % lanes`. All accumulators are left.
    Lanes {
        /// The accumulators.
        lanes: usize,
        /// The values that each takes.
        each: usize,
    },
    /// This number of values, a power of two, are merged across their places.
    Across(Pattern, usize),
}

impl Level {
    /// The values that a group has, and the number that are left of it.
    const fn group(self) -> (usize, usize) {
        match self {
            Level::Serial(count) | Level::Across(_, count) => (count, 1),
            Level::Lanes { lanes, each } => (lanes * each, lanes),
        }
    }
}

/// How the results of all chunks become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Join {
    /// In any order: all of them give the same bits.
    Any,
    /// By pairwise levels: while more than one is left, `c[2i] o c[2i+1]` for each pair; an odd
    /// last one goes up as it is. No results at all give the identity.
    ///
    /// Engines that have one result after another merge the same pairs with a binary counter, which
    /// holds one pending result for each level: result number `n` is merged with the pending result
    /// of each level whose bit is set in `n`, as a carry runs through the counter. At the end the
    /// pending results are merged, the newest first.
    Pairs,
    /// In ascending order, from the identity on.
    Serial,
}

impl Join {
    /// Every way to join.
    pub const ALL: [Join; 3] = [Join::Any, Join::Pairs, Join::Serial];

    /// The name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            Join::Any => "any",
            Join::Pairs => "pairs",
            Join::Serial => "serial",
        }
    }
}

/// The merges of a reduction; see the module's page.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tree {
    levels: Cow<'static, [Level]>,
    join: Join,
}

const FREE: &Tree = &Tree { levels: Cow::Borrowed(&[]), join: Join::Any };
const BY_LANES: &Tree = &Tree {
    levels: Cow::Borrowed(&[
        Level::Lanes { lanes: LANES, each: LANES_CHUNK / LANES },
        Level::Across(Pattern::Halves, LANES),
    ]),
    join: Join::Pairs,
};
const BY_BLOCKS: &Tree = &Tree { levels: Cow::Borrowed(&[Level::Serial(BLOCK)]), join: Join::Pairs };
const BY_SCAN: &Tree = &Tree {
    levels: Cow::Borrowed(&[Level::Across(Pattern::Doubling, SCAN_GROUP), Level::Serial(SCAN_CHUNK / SCAN_GROUP)]),
    join: Join::Serial,
};

impl Order {
    /// The order as a tree.
    pub const fn tree(self) -> &'static Tree {
        match self {
            Order::Free => FREE,
            Order::Lanes => BY_LANES,
            Order::Blocks => BY_BLOCKS,
            Order::Scan => BY_SCAN,
        }
    }
}

impl Tree {
    /// The levels of a chunk, from the elements up.
    pub const fn levels(&self) -> &[Level] {
        match &self.levels {
            Cow::Borrowed(levels) => levels,
            Cow::Owned(levels) => levels.as_slice(),
        }
    }

    /// How the results of chunks become one.
    pub const fn join(&self) -> Join {
        self.join
    }

    /// The elements of a full chunk.
    pub const fn chunk(&self) -> usize {
        let levels = self.levels();
        let (mut elements, mut left, mut at) = (1, 1, 0);
        while at < levels.len() {
            let (taken, leaves) = levels[at].group();
            // A level that takes more values than one group of the level below leaves takes
            // several.
            elements *= taken / left;
            (left, at) = (leaves, at + 1);
        }
        elements
    }

    /// The merges that make one value of several, which are distributed over an engine's places:
    /// the values that the accumulators of a chunk have at its end, then those of the next chunk,
    /// and so on. Only the levels that merge across places have steps. The list ends at a serial
    /// level that takes results of merges.
    ///
    /// If there are fewer places than a level has values, these are its first values, and the
    /// others have no elements.
    pub fn steps(&self, over: &Distribution) -> Vec<Step> {
        let mut rest = over.clone();
        let mut steps = vec![];
        for level in self.levels() {
            match *level {
                Level::Lanes { .. } => {}
                Level::Serial(_) if steps.is_empty() => {}
                Level::Serial(_) => return steps,
                Level::Across(pattern, count) => steps.extend(rest.take(count).steps(pattern)),
            }
        }
        steps.extend(self.join_steps(&rest));
        steps
    }

    /// The merges that make one value of the results of several chunks, which are distributed over
    /// an engine's places; none if they are joined in ascending order.
    pub fn join_steps(&self, over: &Distribution) -> Vec<Step> {
        match self.join {
            Join::Any => over.steps(Pattern::Halves),
            Join::Pairs => over.steps(Pattern::Pairs),
            Join::Serial => vec![],
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Level::Serial(count) => write!(f, "serial {count}"),
            Level::Lanes { lanes, each } => write!(f, "lanes {lanes} x {each}"),
            Level::Across(pattern, count) => write!(f, "{} {count}", pattern.name()),
        }
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tree(")?;
        self.levels().iter().try_for_each(|level| write!(f, "{level}, "))?;
        write!(f, "{})", self.join.name())
    }
}

/// Text that is no tree or no distribution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError(pub String);

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseError {}

/// The most values of a group, and the most places of a distribution, in text.
pub(super) const MOST: usize = 1 << 20;

/// A count of values or places.
pub(super) fn count(text: &str) -> Result<usize, ParseError> {
    let number = text.parse().ok().filter(|number| (1..=MOST).contains(number));
    number.ok_or_else(|| ParseError(format!("`{text}` is no number from 1 to {MOST}")))
}

/// A count that is a power of two.
pub(super) fn power_of_two(text: &str) -> Result<usize, ParseError> {
    let number = count(text)?;
    if number.is_power_of_two() { Ok(number) } else { Err(ParseError(format!("`{text}` is no power of two"))) }
}

impl FromStr for Level {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Level, ParseError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let pattern = |name: &str| Pattern::ALL.into_iter().find(|pattern| pattern.name() == name);
        match words.as_slice() {
            ["serial", number] => Ok(Level::Serial(count(number)?)),
            ["lanes", lanes, "x", each] => Ok(Level::Lanes { lanes: power_of_two(lanes)?, each: count(each)? }),
            [name, number] if let Some(pattern) = pattern(name) => Ok(Level::Across(pattern, power_of_two(number)?)),
            _ => Err(ParseError(format!("`{text}` is no level of a tree"))),
        }
    }
}

impl FromStr for Tree {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Tree, ParseError> {
        let inside = text.trim().strip_prefix("tree(").and_then(|text| text.strip_suffix(')'));
        let inside = inside.ok_or_else(|| ParseError("a tree is written `tree(..)`".to_owned()))?;
        let (levels, join) = match inside.rsplit_once(',') {
            Some((levels, join)) => (levels.split(',').map(|level| level.trim().parse()).collect(), join.trim()),
            None => (Ok(vec![]), inside.trim()),
        };
        let levels: Vec<Level> = levels?;
        let join = Join::ALL.into_iter().find(|known| known.name() == join);
        let join = join.ok_or_else(|| ParseError("a tree ends in `any`, `pairs` or `serial`".to_owned()))?;
        let mut left = 1;
        for level in &levels {
            let (taken, leaves) = level.group();
            if taken % left != 0 {
                return Err(ParseError(format!("`{level}` takes groups of {left} values apart")));
            }
            left = leaves;
        }
        if left != 1 {
            return Err(ParseError(format!("a chunk has {left} results")));
        }
        let elements = levels.iter().try_fold(1usize, |product, level| product.checked_mul(level.group().0));
        if elements.is_none() {
            return Err(ParseError("a chunk has too many elements".to_owned()));
        }
        Ok(Tree { levels: Cow::Owned(levels), join })
    }
}
