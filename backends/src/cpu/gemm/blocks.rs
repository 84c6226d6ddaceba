//! Products of matrices with many rows and columns, from packed factors.

use std::ops::Range;

use ir::sabotage::{self, Bug};

use super::lanes::{LATER, Lanes, NEXT, prefetch};
use super::{BLOCK_COLUMNS, BLOCK_ROWS, Factor, HEAD, INNER_BYTES, LEFT, Matrix, Product, RIGHT, Tables};
use crate::abi::Packed;

/// The prefetch distance in rows, for packing rows that are far apart.
const AHEAD: isize = 32;
/// The prefetch distance in bytes, for rows that are contiguous.
const AHEAD_IN_ROWS: usize = 256;
/// The most runs of contiguous elements that are copied each by itself.
const FEW_RUNS: usize = 4;
/// The most tiles of columns for which a column of contiguous elements is not worth packing.
const FEW_TILES: usize = 3;

/// The factor that the right part of the packing buffer holds as a whole.
#[derive(Clone, Copy, PartialEq)]
#[repr(C)]
struct Held<T> {
    factor: Matrix<T>,
    k: usize,
    n: usize,
}

/// Where the sums of a tile go.
#[derive(Clone, Copy)]
struct TileResult<T> {
    /// The result from the tile's first element on.
    to: Matrix<T>,
    /// The rows and columns that there are.
    size: (usize, usize),
    /// In a symmetric result: the numbers of the first row and column.
    at: Option<(usize, usize)>,
    /// Whether they are added to those that are there.
    add: bool,
}

impl<T: Copy> TileResult<T> {
    /// Stores the tile's elements right of the diagonal on its left too.
    ///
    /// # Safety
    /// The tile's elements exist, and so do those that mirror them.
    #[inline(always)]
    unsafe fn mirror(self) {
        let Some((row, column)) = self.at else { return };
        let (rows, columns) = self.size;
        for n in 0..columns {
            // The row of this column's number, at the tile's rows.
            let (down, across) = ((column + n) as isize - row as isize, row as isize - column as isize);
            let mirrored = Matrix {
                first: self.to.first.wrapping_offset(down * self.to.down + across * self.to.across),
                ..self.to
            };
            for m in 0..rows.min((column + n).saturating_sub(row)) {
                // SAFETY: guaranteed by the caller.
                unsafe { *mirrored.at(0, m) = *self.to.at(m, n) };
            }
        }
    }
}

/// Computes a product, block by block.
///
/// # Safety
/// As for [`super::multiply`].
#[inline(always)]
pub(super) unsafe fn blocks<V: Lanes<N>, const N: usize, const ROWS: usize>(p: &Product<V::Element>, work: *mut u8) {
    let inner_most = INNER_BYTES / size_of::<V::Element>();
    let columns_of_tile = 2 * N;
    let (head, left) = (work.cast::<Held<V::Element>>(), work.wrapping_add(HEAD).cast::<V::Element>());
    let right = work.wrapping_add(HEAD + LEFT).cast::<V::Element>();
    // A factor that stays the same is packed as a whole where there is room.
    let held = Held { factor: p.b.matrix, k: p.k, n: p.n };
    let whole = p.packed == Packed::Stays
        && p.b.tables.is_none()
        && p.k.saturating_mul(p.n.next_multiple_of(columns_of_tile)) <= RIGHT / size_of::<V::Element>();
    // SAFETY: the head of the working memory has room for it. Whoever says that a factor stays has
    // set its first word to zero, and if that is another one now, all of it has been written.
    let holds = || unsafe {
        let first = (&raw const (*head).factor.first).read();
        !first.is_null() && (head.read() == held || sabotage::on(Bug::StaleFactor))
    };
    let there = p.packed == Packed::Before || whole && holds();
    if p.packed == Packed::Stays && !there {
        // SAFETY: as above.
        unsafe { (&raw mut (*head).factor.first).write(std::ptr::null_mut()) };
    }
    // Rows that few columns are multiplied with are not packed if they are contiguous.
    let sparing = p.n <= FEW_TILES * columns_of_tile;
    for j in (0..p.n).step_by(BLOCK_COLUMNS) {
        let columns = (p.n - j).min(BLOCK_COLUMNS);
        let padded = columns.next_multiple_of(columns_of_tile);
        let mut from = 0;
        // Run at least once, to store zeros if there is nothing to sum.
        loop {
            let inner = (p.k - from).min(inner_most);
            let right = if whole { right.wrapping_add(j * p.k + from * padded) } else { right };
            if !there {
                // SAFETY: the working memory has room for whole panels of a block of columns.
                unsafe { pack_columns::<V, N>(p.b.from(from, j), inner, columns, right) };
            }
            for i in (0..p.m).step_by(BLOCK_ROWS) {
                let rows = (p.m - i).min(BLOCK_ROWS);
                // SAFETY: the working memory has room for whole panels of a block of rows.
                let in_place = unsafe { pack_rows::<V, N, ROWS>(p.a.from(i, from), rows, inner, left, sparing) };
                for y in (0..columns).step_by(columns_of_tile) {
                    for x in (0..rows).step_by(ROWS) {
                        let size = ((rows - x).min(ROWS), (columns - y).min(columns_of_tile));
                        // The numbers of the tile's first row and column, from one diagonal on.
                        let at = p.own.map(|first| (first + i + x, j + y));
                        if at.is_some_and(|(row, column)| column + size.1 <= row) {
                            continue;
                        }
                        let (panel, right) = (left.wrapping_add(x * inner), right.wrapping_add(y * inner));
                        let (part, to) = (p.a.from(i + x, from), p.c.from(i + x, j + y));
                        let to = TileResult { to, size, at, add: p.add || from > 0 };
                        // SAFETY: the panels have been packed, or the rows are contiguous, and the
                        // part of the result exists.
                        unsafe {
                            if in_place[x] {
                                tile::<V, N, ROWS>(inner, |k| part.at(0, k), right, to);
                            } else {
                                tile::<V, N, ROWS>(inner, |k| panel.add(k * ROWS), right, to);
                            }
                            if from + inner == p.k && !sabotage::on(Bug::UnmirroredTile) {
                                to.mirror();
                            }
                        }
                    }
                }
            }
            from += inner_most;
            if from >= p.k {
                break;
            }
        }
    }
    if whole {
        const { assert!(size_of::<Held<V::Element>>() <= HEAD) }
        // SAFETY: as above.
        unsafe { head.write(held) };
    }
}

/// Packs a block of the right factor into panels as wide as a tile.
///
/// # Safety
/// The machine has the registers, the rows and columns exist, and the destination has room for
/// whole panels.
#[inline(always)]
unsafe fn pack_columns<V: Lanes<N>, const N: usize>(
    from: Factor<V::Element>,
    rows: usize,
    columns: usize,
    to: *mut V::Element,
) {
    // Rows that are contiguous are read side by side, a few at a time: all of them at once are more
    // pages than the processor keeps addresses of.
    let few = if from.has_rows_in_one_piece() { 16 } else { rows.max(1) };
    for k in (0..rows).step_by(few) {
        for at in (0..columns.next_multiple_of(2 * N)).step_by(N) {
            let some = columns.saturating_sub(at).min(N);
            let panel = at / (2 * N) * (2 * N) * rows + at % (2 * N);
            let part = from.from(k, at.min(columns)).transposed();
            // SAFETY: guaranteed by the caller.
            unsafe { pack::<V, N>(part, some, few.min(rows - k), to.add(panel + k * 2 * N), 2 * N) };
        }
    }
}

/// Packs a block of the left factor into panels as high as a tile, except for those with contiguous
/// columns if `sparing`. Returns by a panel's first row whether it is one of these.
///
/// # Safety
/// As for [`pack_columns`]; there is room for a register behind the panels.
#[inline(always)]
unsafe fn pack_rows<V: Lanes<N>, const N: usize, const ROWS: usize>(
    from: Factor<V::Element>,
    rows: usize,
    columns: usize,
    to: *mut V::Element,
    sparing: bool,
) -> [bool; BLOCK_ROWS] {
    let mut in_place = [false; BLOCK_ROWS];
    for at in (0..rows).step_by(ROWS) {
        let part = from.from(at, 0);
        // SAFETY: the rows exist.
        in_place[at] = sparing && rows - at >= ROWS && unsafe { part.has_run(ROWS) };
        if in_place[at] {
            continue;
        }
        // From the last one back: the last store of a column goes beyond it.
        for first in (0..ROWS).step_by(N).rev() {
            let some = (rows - at).min(ROWS).saturating_sub(first).min(N);
            // SAFETY: guaranteed by the caller.
            unsafe {
                let panel = to.add(at * columns + first);
                pack::<V, N>(part.from(first.min(rows - at), 0), some, columns, panel, ROWS);
            }
        }
    }
    in_place
}

/// Packs up to `N` rows of a factor: `N` elements for each column, with zeros for missing rows, and
/// `step` elements between columns.
///
/// # Safety
/// The machine has the registers, the rows and columns exist, and the destination has room for all
/// stores, including `N` elements at the last step.
#[inline(always)]
unsafe fn pack<V: Lanes<N>, const N: usize>(
    from: Factor<V::Element>,
    rows: usize,
    columns: usize,
    to: *mut V::Element,
    step: usize,
) {
    // SAFETY: guaranteed by the caller; missing elements are not loaded.
    unsafe {
        match from.tables {
            Some(tables) if rows > 0 => {
                return pack_by_tables::<V, N>(from, tables, rows, columns, to, step);
            }
            _ => {}
        }
        let matrix = from.matrix;
        if matrix.down == 1 || rows == 0 {
            for k in 0..columns {
                let at = matrix.at(0, k);
                prefetch::<_, LATER>(at.wrapping_offset(AHEAD * matrix.across));
                let v = if rows == N { V::load(at) } else { V::load_first(at, rows) };
                v.store(to.add(k * step));
            }
        } else if matrix.across == 1 {
            for k in (0..columns).step_by(N) {
                let width = (columns - k).min(N);
                let square = square::<V, N>(|row| matrix.at(row, k), rows, width);
                for (n, v) in square.into_iter().enumerate().take(width) {
                    v.store(to.add((k + n) * step));
                }
            }
        } else {
            one_by_one::<V, N>(from, rows, 0..columns, to, step);
        }
    }
}

/// Packs rows by tables of distances: by runs of rows with contiguous elements, if there are a few,
/// else by contiguous columns, where there are any.
///
/// # Safety
/// As for [`pack`]. There is a row.
#[inline(always)]
unsafe fn pack_by_tables<V: Lanes<N>, const N: usize>(
    from: Factor<V::Element>,
    tables: Tables,
    rows: usize,
    columns: usize,
    to: *mut V::Element,
    step: usize,
) {
    // SAFETY: guaranteed by the caller; missing elements are neither loaded nor looked up.
    unsafe {
        let (mut firsts, mut runs) = ([0; N], 1);
        for row in (1..rows).filter(|row| !tables.row_follows(*row)) {
            firsts[runs] = row;
            runs += 1;
        }
        if runs == 1 || sabotage::on(Bug::LostRun) {
            for k in 0..columns {
                let at = from.at(0, k);
                let v = if rows == N { V::load(at) } else { V::load_first(at, rows) };
                v.store(to.add(k * step));
            }
        } else if runs <= FEW_RUNS {
            // The last run, which brings the zeros of missing rows, may go beyond its column, where
            // the others then overwrite it.
            for run in (0..runs).rev() {
                let (first, last) = (firsts[run], run + 1 == runs);
                let count = if last { rows } else { firsts[run + 1] } - first;
                let stored = if last { N - first } else { count };
                for k in 0..columns {
                    V::load_first(from.at(first, k), count).store_first(to.add(k * step + first), stored);
                }
            }
        } else {
            for k in (0..columns).step_by(N) {
                let width = (columns - k).min(N);
                if (k + 1..k + width).all(|column| tables.transposed().row_follows(column)) {
                    let square = square::<V, N>(|row| from.at(row, k), rows, width);
                    for (n, v) in square.into_iter().enumerate().take(width) {
                        v.store(to.add((k + n) * step));
                    }
                } else {
                    one_by_one::<V, N>(from, rows, k..k + width, to, step);
                }
            }
        }
    }
}

/// Packs rows element by element.
///
/// # Safety
/// As for [`pack`].
#[inline(always)]
unsafe fn one_by_one<V: Lanes<N>, const N: usize>(
    from: Factor<V::Element>,
    rows: usize,
    columns: Range<usize>,
    to: *mut V::Element,
    step: usize,
) {
    for k in columns {
        let mut v = [V::Element::default(); N];
        // SAFETY: guaranteed by the caller.
        unsafe {
            for (row, v) in v.iter_mut().enumerate().take(rows) {
                *v = *from.at(row, k);
            }
            V::load(v.as_ptr()).store(to.add(k * step));
        }
    }
}

/// The columns of a square with contiguous rows, which begin at `first`, and zeros for missing rows
/// and columns.
///
/// # Safety
/// The machine has the registers, and the rows and columns exist.
#[inline(always)]
pub(super) unsafe fn square<V: Lanes<N>, const N: usize>(
    first: impl Fn(usize) -> *mut V::Element,
    rows: usize,
    columns: usize,
) -> [V; N] {
    // SAFETY: guaranteed by the caller; missing elements are not loaded.
    unsafe {
        let mut square = [V::splat(V::Element::default()); N];
        for (row, v) in square.iter_mut().enumerate().take(rows) {
            let at = first(row);
            prefetch::<_, LATER>(at.wrapping_add(AHEAD_IN_ROWS / size_of::<V::Element>()));
            *v = if columns == N { V::load(at) } else { V::load_first(at, columns) };
        }
        // Interleaves row `k` with row `k + N / 2`, until each has been everywhere.
        for _ in 0..N.ilog2() {
            let old = square;
            for k in 0..N / 2 {
                (square[2 * k], square[2 * k + 1]) = old[k].interleave(old[k + N / 2]);
            }
        }
        square
    }
}

/// Computes a tile of the result from `ROWS` contiguous elements of each column of the left factor
/// and a panel of the right one.
///
/// # Safety
/// The machine has the registers, there are `inner` columns of the left factor and rows of the
/// panel, and the rows and columns of the result exist.
#[inline(always)]
unsafe fn tile<V: Lanes<N>, const N: usize, const ROWS: usize>(
    inner: usize,
    left: impl Fn(usize) -> *mut V::Element,
    right: *mut V::Element,
    TileResult { to: c, size: (rows, columns), at, add }: TileResult<V::Element>,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut sums = [[V::splat(V::Element::default()); 2]; ROWS];
        for row in 0..rows {
            prefetch::<_, NEXT>(c.at(row, 0));
            prefetch::<_, NEXT>(c.at(row, columns - 1));
        }
        for k in 0..inner {
            let (column, row) = (left(k), right.add(k * 2 * N));
            let b = [V::load(row), V::load(row.add(N))];
            for (row, sums) in sums.iter_mut().enumerate() {
                let a = V::splat(*column.add(row));
                sums[0] = a.multiply_add(b[0], sums[0]);
                sums[1] = a.multiply_add(b[1], sums[1]);
            }
        }
        // Constant loop bounds let the compiler keep the accumulators in registers.
        for (row, sums) in sums.into_iter().enumerate() {
            // Left of the diagonal there is nothing to store.
            let first = at.map_or(0, |(down, across)| (down + row).saturating_sub(across));
            if row < rows && first == 0 {
                store(c.from(row, 0), sums, columns, add);
            } else if row < rows {
                store_behind(c.from(row, 0), sums, first..columns, add);
            }
        }
    }
}

/// Stores a row to the result or adds it.
///
/// # Safety
/// The machine has the registers, and the columns exist.
#[inline(always)]
pub(super) unsafe fn store<V: Lanes<N>, const N: usize, const COUNT: usize>(
    c: Matrix<V::Element>,
    row: [V; COUNT],
    columns: usize,
    add: bool,
) {
    // SAFETY: guaranteed by the caller; missing columns are not stored.
    unsafe {
        if c.across == 1 {
            for (k, v) in row.into_iter().enumerate() {
                let (at, some) = (c.first.wrapping_add(k * N), columns.saturating_sub(k * N).min(N));
                if some == N {
                    if add { V::load(at).add(v) } else { v }.store(at);
                } else {
                    if add { V::load_first(at, some).add(v) } else { v }.store_first(at, some);
                }
            }
        } else {
            store_behind(c, row, 0..columns, add);
        }
    }
}

/// Stores some columns of a row, or adds them, one by one.
///
/// # Safety
/// As for [`store`].
#[inline(always)]
unsafe fn store_behind<V: Lanes<N>, const N: usize, const COUNT: usize>(
    c: Matrix<V::Element>,
    row: [V; COUNT],
    columns: Range<usize>,
    add: bool,
) {
    let mut all = [[V::Element::default(); N]; COUNT];
    // SAFETY: guaranteed by the caller.
    unsafe {
        for (to, v) in all.iter_mut().zip(row) {
            v.store(to.as_mut_ptr());
        }
        for k in columns {
            let (at, v) = (c.at(0, k), all.as_flattened()[k]);
            *at = if add { *at + v } else { v };
        }
    }
}
