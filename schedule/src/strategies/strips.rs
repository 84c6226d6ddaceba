//! Loops down columns ([`crate::columns`]): a block takes a few adjacent columns, with several
//! threads for each, which share the rows.

use ir::Size;
use ir::order::Scope;
use ir::sched::{Axis, Inner, Level, Refusal, Run, Strategy, Variant};

use super::Site;

/// Columns and threads for each, for long columns: a warp reads one row of 32 adjacent columns.
const TALL: (i64, i64) = (32, 32);
/// For many short rows, such as partial results.
const NARROW: (i64, i64) = (8, 64);
/// For a few rows, or for many columns: one thread for each column.
const FLAT: (i64, i64) = (256, 1);
/// The largest number of partial results that counts as a few in any case.
const FEW: i64 = 4;
/// Each of these adds one to that number: with more columns, more threads are busy anyway.
const COLUMNS: i64 = 1024;

pub(super) fn lay(site: &Site<'_>) -> Result<Vec<Variant>, Refusal> {
    let Run::Strips { joined } = &site.part.run else { return Err(Refusal::NotDown) };
    let indices: Vec<_> = site.l.dims.iter().map(|(index, _)| *index).collect();
    let strip = |(columns, threads): (i64, i64), at_most: Vec<(Size, i64)>| {
        let axis = Axis::new(indices.clone(), [Level::of(Scope::Block, columns), Level::all(Scope::Grid)]);
        Variant { at_most, inner: Inner::Together(threads), ..Variant::new(Strategy::Strips, vec![axis]) }
    };
    let Some(count) = joined else { return Ok(vec![strip(TALL, vec![])]) };
    let lengths = site.l.dims.iter().filter_map(|(_, extent)| extent.as_size());
    let columns = lengths.fold(Size::constant(1), |all, length| &all * length);
    let beyond = count - &columns.floor_div(&Size::constant(COLUMNS));
    Ok(vec![strip(FLAT, vec![(beyond, FEW)]), strip(NARROW, vec![])])
}
