//! Loops down columns ([`crate::columns`]): a block takes a few adjacent columns, with several
//! threads for each, which share the rows.

use ir::Size;
use ir::groups::Dims;
use ir::nest::Statement;
use ir::order::{BLOCK, Scope};
use ir::sched::{Axis, Inner, Level, Refusal, Run, Strategy, Variant};

use super::Site;

/// Columns and threads for each: a warp reads one row of 32 adjacent columns.
const WIDE: (i64, i64) = (32, 32);
/// For so few columns that wide strips would leave most multiprocessors without one: a warp reads 8
/// columns of four rows, which are sectors of memory if elements have four bytes.
const SLIM: (i64, i64) = (8, 32);
/// The same for columns that are so long that more threads have a block of rows each.
const TALL: (i64, i64) = (8, 64);
/// The most columns of slim and of tall strips.
const SLIM_COLUMNS: i64 = 1024;
/// The least rows of tall strips, which are enough for all threads.
const TALL_ROWS: i64 = TALL.1 * BLOCK as i64;
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
        // A thread has many loads in flight, which takes registers.
        let resident = joined.is_none().then_some(1);
        Variant { at_most, resident, inner: Inner::Together(threads), ..Variant::new(Strategy::Strips, vec![axis]) }
    };
    let sizes = |dims: &Dims| {
        let lengths = dims.iter().filter_map(|(_, extent)| extent.as_size());
        lengths.fold(Size::constant(1), |all, length| &all * length)
    };
    let columns = sizes(&site.l.dims);
    let Some(count) = joined else {
        let rows =
            site.l.body.iter().find_map(|s| if let Statement::Loop(l) = s { Some(sizes(&l.dims)) } else { None });
        let short = &Size::constant(TALL_ROWS) - &rows.unwrap_or(Size::constant(0));
        let tall = strip(TALL, vec![(columns.clone(), SLIM_COLUMNS), (short, 0)]);
        return Ok(possible(vec![tall, strip(SLIM, vec![(columns, SLIM_COLUMNS)]), strip(WIDE, vec![])]));
    };
    let beyond = count - &columns.floor_div(&Size::constant(COLUMNS));
    Ok(vec![strip(FLAT, vec![(beyond, FEW)]), strip(NARROW, vec![])])
}

/// Without the variants that no call takes, if lengths are constants.
fn possible(mut variants: Vec<Variant>) -> Vec<Variant> {
    let fits = |(size, most): &(Size, i64)| size.as_constant().map(|n| n <= *most);
    variants.retain(|variant| !variant.at_most.iter().any(|limit| fits(limit) == Some(false)));
    let always = variants.iter().position(|variant| variant.at_most.iter().all(|limit| fits(limit) == Some(true)));
    variants.truncate(always.map_or(variants.len(), |at| at + 1));
    variants
}
