//! Matrix products of `f32` and `f64`, with the widest registers of the machine.
//!
//! A tile of the result is accumulated in registers during the loop over the inner index
//! ([`blocks`]). Both factors are packed for that: a block of the right one into panels as wide as
//! a tile, and a block of the left one, which stays in the L2 cache, into panels as high as a tile.
//! Products with a few rows or columns do not pay for packing; they read the other factor once, in
//! place ([`narrow`]). Factors with no constant distance between rows or columns, such as the parts
//! of an image that a convolution multiplies, are packed by tables of distances: nothing copies
//! them before.
//!
//! A matrix times itself, turned, is symmetric: what lies right of the diagonal is stored on its
//! left as well.
//!
//! Each element of the result is accumulated in the same order wherever it is computed, in blocks
//! of [`inner`] elements, by fused multiply-add where the machine has it. So the bits depend
//! neither on how many threads share the rows, nor on the rows that are multiplied together, nor on
//! the width of registers.

mod blocks;
mod lanes;
mod narrow;

use ir::Dtype;

use crate::abi::{GemmCall, Packed};
pub(super) use lanes::Element;
use lanes::Lanes;
#[cfg(test)]
pub(super) use lanes::Way;

/// The number of bytes of a row that are multiplied in a block. More means fewer passes over the
/// result, but the block of the left factor must stay in the L2 cache.
const INNER_BYTES: usize = 2048;
/// The number of rows and columns per block: multiples of the rows and columns of every tile.
pub(super) const BLOCK_ROWS: usize = 84;
const BLOCK_COLUMNS: usize = 1024;
/// The bytes of the packing buffer that say what the right factor's part holds.
const HEAD: usize = 64;
/// The bytes of a block of the left factor, with room for the last store of a whole register.
const LEFT: usize = BLOCK_ROWS * INNER_BYTES + 64;
/// The bytes of a block of the right factor.
const RIGHT: usize = BLOCK_COLUMNS * INNER_BYTES;
/// The size of the packing buffer in bytes.
pub(super) const WORK: usize = HEAD + LEFT + RIGHT;
/// The largest number of rows or columns that counts as a few.
const FEW: usize = 4;

/// The number of inner iterations per block.
pub(super) fn inner(dtype: Dtype) -> usize {
    INNER_BYTES / dtype.bytes()
}

/// A matrix in memory, with strides in elements.
#[derive(Clone, Copy, PartialEq)]
#[repr(C)]
struct Matrix<T> {
    first: *mut T,
    down: isize,
    across: isize,
}

impl<T: Copy> Matrix<T> {
    #[inline(always)]
    fn at(self, row: usize, column: usize) -> *mut T {
        self.first.wrapping_offset(row as isize * self.down + column as isize * self.across)
    }

    #[inline(always)]
    fn from(self, row: usize, column: usize) -> Matrix<T> {
        Matrix { first: self.at(row, column), ..self }
    }

    #[inline(always)]
    fn transposed(self) -> Matrix<T> {
        Matrix { down: self.across, across: self.down, ..self }
    }
}

/// A factor: a matrix with constant strides or, if there are tables, with rows and columns at any
/// distances from the first element.
#[derive(Clone, Copy)]
struct Factor<T> {
    matrix: Matrix<T>,
    tables: Option<Tables>,
}

/// The distances of rows and of columns in elements.
#[derive(Clone, Copy)]
struct Tables {
    rows: *const i64,
    columns: *const i64,
}

impl Tables {
    /// Whether a row's elements lie behind those of the row before.
    ///
    /// # Safety
    /// Both rows exist.
    #[inline(always)]
    unsafe fn row_follows(self, row: usize) -> bool {
        // SAFETY: guaranteed by the caller.
        unsafe { *self.rows.add(row) == *self.rows.add(row - 1) + 1 }
    }

    #[inline(always)]
    fn transposed(self) -> Tables {
        Tables { rows: self.columns, columns: self.rows }
    }
}

impl<T: Copy> Factor<T> {
    /// # Safety
    /// The row and the column exist.
    #[inline(always)]
    unsafe fn at(self, row: usize, column: usize) -> *mut T {
        match self.tables {
            None => self.matrix.at(row, column),
            // SAFETY: guaranteed by the caller.
            Some(tables) => unsafe {
                let far = *tables.rows.add(row) + *tables.columns.add(column);
                self.matrix.first.wrapping_offset(far as isize)
            },
        }
    }

    #[inline(always)]
    fn from(self, row: usize, column: usize) -> Factor<T> {
        match self.tables {
            None => Factor { matrix: self.matrix.from(row, column), ..self },
            Some(Tables { rows, columns }) => {
                let tables = Tables { rows: rows.wrapping_add(row), columns: columns.wrapping_add(column) };
                Factor { tables: Some(tables), ..self }
            }
        }
    }

    #[inline(always)]
    fn transposed(self) -> Factor<T> {
        Factor { matrix: self.matrix.transposed(), tables: self.tables.map(Tables::transposed) }
    }

    /// Whether these first rows are contiguous in each column.
    ///
    /// # Safety
    /// The rows exist.
    #[inline(always)]
    unsafe fn has_run(self, rows: usize) -> bool {
        match self.tables {
            None => self.matrix.down == 1,
            // SAFETY: guaranteed by the caller.
            Some(tables) => (1..rows).all(|row| unsafe { tables.row_follows(row) }),
        }
    }

    /// Whether rows are contiguous.
    #[inline(always)]
    fn has_rows_in_one_piece(&self) -> bool {
        self.tables.is_none() && self.matrix.across == 1
    }
}

/// The arguments of `c = a * b` or `c += a * b`.
#[derive(Clone, Copy)]
struct Product<T> {
    m: usize,
    k: usize,
    n: usize,
    a: Factor<T>,
    b: Factor<T>,
    c: Matrix<T>,
    /// If the product is of rows with all rows: the number of the first.
    own: Option<usize>,
    add: bool,
    packed: Packed,
}

impl<T: Copy> Product<T> {
    fn of(call: &GemmCall) -> Product<T> {
        let size = |n: i64| usize::try_from(n).unwrap_or(0);
        let matrix = |first: *const u8, down: i64, across: i64| Matrix {
            first: first.cast_mut().cast(),
            down: down as isize,
            across: across as isize,
        };
        let tables = |rows: *const i64, columns: *const i64| (!rows.is_null()).then_some(Tables { rows, columns });
        Product {
            m: size(call.m),
            k: size(call.k),
            n: size(call.n),
            a: Factor {
                matrix: matrix(call.a, call.a_row, call.a_column),
                tables: tables(call.a_rows, call.a_columns),
            },
            b: Factor {
                matrix: matrix(call.b, call.b_row, call.b_column),
                tables: tables(call.b_rows, call.b_columns),
            },
            c: matrix(call.c, call.c_row, call.c_column),
            own: usize::try_from(call.own).ok(),
            add: call.accumulate != 0,
            packed: call.packed,
        }
    }

    /// The transposed product, which swaps rows and columns.
    fn transposed(self) -> Product<T> {
        Product {
            m: self.n,
            n: self.m,
            a: self.b.transposed(),
            b: self.a.transposed(),
            c: self.c.transposed(),
            packed: Packed::No,
            ..self
        }
    }

    /// Whether the product is fast as it is, not transposed.
    fn suits(&self) -> bool {
        match (self.m <= FEW, self.n <= FEW) {
            (false, false) => self.c.across == 1,
            (rows, columns) => rows && self.b.has_rows_in_one_piece() || columns && self.a.has_rows_in_one_piece(),
        }
    }
}

/// Computes a product with the widest registers of the machine.
///
/// # Safety
/// As for a [`Way`].
pub(super) unsafe fn multiply<T: Element>(call: &GemmCall) {
    for way in T::ways().into_iter().flatten().take(1) {
        // SAFETY: guaranteed by the caller.
        unsafe { way(call) }
    }
}

/// Computes a product with registers `V` of `N` lanes, in tiles of `ROWS` rows and two registers.
///
/// # Safety
/// As for a [`Way`]. In addition, the machine has the registers.
#[inline(always)]
unsafe fn with<V: Lanes<N>, const N: usize, const ROWS: usize>(call: &GemmCall) {
    const { assert!(BLOCK_ROWS.is_multiple_of(ROWS) && BLOCK_COLUMNS.is_multiple_of(2 * N)) }
    let mut p = Product::<V::Element>::of(call);
    // A right factor that stays packed is worth more than rows of the result in one piece.
    let stays = p.packed == Packed::Stays && p.m > FEW && p.n > FEW;
    if p.own.is_none() && !stays && !p.suits() && p.transposed().suits() {
        p = p.transposed();
    }
    // SAFETY: guaranteed by the caller.
    unsafe {
        if p.own.is_some() {
            blocks::blocks::<V, N, ROWS>(&p, call.work);
        } else if p.m <= FEW && p.b.has_rows_in_one_piece() {
            narrow::few_rows::<V, N>(&p);
        } else if p.n <= FEW && p.a.has_rows_in_one_piece() {
            narrow::few_columns::<V, N>(&p);
        } else {
            blocks::blocks::<V, N, ROWS>(&p, call.work);
        }
    }
}
