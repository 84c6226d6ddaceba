//! The order of a reduction. It is part of the operation and determined by the source alone, so
//! that no engine, vector width, thread count or fusion decision changes a bit.
//!
//! The elements are numbered `0..n` along the reduced indices, row-major. Let `o` be the operation
//! (`+` or `*`) and `e` its identity (`+0.0` or `1.0`).
//!
//! - **Lanes.** Elements fall into chunks of [`LANES_CHUNK`]. In a chunk, element `i` (counted
//!   within the chunk) belongs to lane `i mod LANES`. Each lane starts at `e` and takes its
//!   elements in ascending order: `lane = lane o x`. Then the lanes are folded in halves: for
//!   `h = LANES/2, ..., 2, 1`, `lane[l] = lane[l] o lane[l + h]` for `l < h`. Lane 0 is the chunk's
//!   result.
//! - **Blocks.** Elements fall into blocks of [`BLOCK`]; in a block they are taken in ascending
//!   order from `e`.
//! - The results of chunks (or blocks) `c[0..k]` are joined by **pairwise levels**: while more than
//!   one is left, `c[2i] o c[2i+1]` for each pair; an odd last one goes to the next level
//!   unchanged. If there are none, the result is `e`.
//! - **Scan.** Elements fall into chunks of [`SCAN_CHUNK`] and those into groups of [`SCAN_GROUP`].
//!   In a group: for `d = 1, 2, 4, ... < SCAN_GROUP`, simultaneously `p[i] = p[i - d] o p[i]` for
//!   `i >= d`. A group's carry starts at `e` at the head of each chunk and grows by
//!   `carry = carry o p[last]` after each group; the chunk's carry starts at `e` and grows by
//!   `chunk = chunk o carry` after each chunk. The inclusive prefix at `i` is
//!   `chunk o (carry o p[i])`.
//!
//! - **Keys.** In a reduction by keys the elements of all `K` keys are numbered together, and fall
//!   into chunks of [`keyed_chunk`]`(K)`. In a chunk each key takes the elements that have it in
//!   ascending order from `e`, and its results are joined by pairwise levels over all chunks. The
//!   chunk grows with `K`, so that the tables of all chunks have at most a quarter as many values
//!   as there are elements, and one table more. Joining them is then a small part of the work,
//!   however the elements are distributed over the keys.
//!
//! Because a sum starts at `+0.0`, it is never `-0.0`, and folding in lanes without elements
//! changes nothing, so an engine may leave them out. (`e o x == x` for every partial result `x`
//! that can occur.)
//!
//! Operations with a result that does not depend on order have [`Order::Free`].
//!
//! A [`Tree`] has these definitions as data, from which engines generate code. It is here and not
//! among the passes of `schedule`, because engines import the vocabulary alone. The interpreter has
//! its own reading of the text above, and tests hold the two to each other.

mod distribution;
mod tree;

pub use distribution::{Distribution, Scope, Span, Step};
pub use tree::{Join, Level, ParseError, Pattern, Tree};

/// Lanes of a chunk: wide enough for AVX-512 and for a warp with 16-byte loads.
pub const LANES: usize = 128;
/// Elements of a chunk in the order by lanes.
pub const LANES_CHUNK: usize = 4096;
/// Elements of a block in the order by blocks.
pub const BLOCK: usize = 256;
/// Elements of a group in a scan.
pub const SCAN_GROUP: usize = 16;
/// Elements of a chunk in a scan.
pub const SCAN_CHUNK: usize = 4096;
/// The least number of elements of a chunk in the order by keys.
pub const KEYED_CHUNK: i64 = 4096;

/// The elements of a chunk in the order by keys: the least power of two that is at least 4 times
/// the number of keys and at least [`KEYED_CHUNK`]; 2^62 if the former is larger.
pub const fn keyed_chunk(keys: i64) -> i64 {
    let least = keys.saturating_mul(4);
    if least <= KEYED_CHUNK {
        KEYED_CHUNK
    } else if least >= 1 << 62 {
        1 << 62
    } else {
        (least as u64).next_power_of_two() as i64
    }
}

/// The order in which a reduction takes its elements; see the documentation of this module for the
/// definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Order {
    /// Any order gives the same bits.
    Free,
    /// By lanes: the elements run along memory.
    Lanes,
    /// By blocks: the elements run across memory.
    Blocks,
    /// The last inclusive prefix of a scan over the elements (`e` for none).
    Scan,
}

impl Order {
    /// Every order.
    pub const ALL: [Order; 4] = [Order::Free, Order::Lanes, Order::Blocks, Order::Scan];

    /// The name in IR text.
    pub fn name(self) -> &'static str {
        match self {
            Order::Free => "free",
            Order::Lanes => "lanes",
            Order::Blocks => "blocks",
            Order::Scan => "scan",
        }
    }

    /// The order of that name.
    pub fn from_name(name: &str) -> Option<Order> {
        Order::ALL.into_iter().find(|o| o.name() == name)
    }
}
