//! Products of matrices of `f32` in AVX-512, for machines that have it; others have the library's.
//!
//! A tile of fourteen rows and thirty-two columns of the result rests in registers while the inner numbers run. Both factors are
//! laid out for that before: a block of the right one in panels of thirty-two columns, and a block of the left one, which stays in the
//! second-level cache, in panels of fourteen rows. Products of a few rows, or of a few columns, have nothing to lay out for: they go
//! over the other factor once, where it lies.
//!
//! Each element of a result adds its products in the same order wherever in the result it is computed, so the bits do not hang on how many
//! threads share the rows.

use std::arch::x86_64::{
    __m512, _MM_HINT_T0, _MM_HINT_T1, _mm_prefetch, _mm512_add_ps, _mm512_fmadd_ps, _mm512_loadu_ps,
    _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_permutex2var_ps, _mm512_reduce_add_ps, _mm512_set1_ps,
    _mm512_setr_epi32, _mm512_setzero_ps, _mm512_storeu_ps,
};

use crate::abi::GemmCall;

/// Lanes of a register.
const LANES: usize = 16;
/// Rows and columns of a tile.
const ROWS: usize = 14;
const COLUMNS: usize = 2 * LANES;
/// Inner numbers of a block: the more, the less often the result is gone over again; the left factor's block stays in the second-level cache.
pub(super) const INNER: usize = 512;
/// Rows and columns of blocks.
pub(super) const BLOCK_ROWS: usize = 6 * ROWS;
pub(super) const BLOCK_COLUMNS: usize = 1024;
/// Where the right factor's block begins: behind the left one's, and what a store of a whole register writes behind that.
const RIGHT: usize = BLOCK_ROWS * INNER + LANES * LANES;
/// Bytes of memory for laying out.
pub(super) const WORK: usize = (RIGHT + BLOCK_COLUMNS * INNER) * size_of::<f32>();
/// So many rows that lie far apart are asked for before they are laid out.
const AHEAD: isize = 32;
/// So many rows or columns are a few.
const FEW: usize = 4;
/// Registers of a row that go together where there are few.
const WIDE: usize = 4;

/// A matrix in memory, with its steps in elements.
#[derive(Clone, Copy)]
struct Matrix {
    first: *mut f32,
    down: isize,
    across: isize,
}

impl Matrix {
    fn at(self, row: usize, column: usize) -> *mut f32 {
        self.first.wrapping_offset(row as isize * self.down + column as isize * self.across)
    }

    fn from(self, row: usize, column: usize) -> Matrix {
        Matrix { first: self.at(row, column), ..self }
    }

    fn turned(self) -> Matrix {
        Matrix { down: self.across, across: self.down, ..self }
    }
}

/// `c = a * b`, or `c += a * b`.
#[derive(Clone, Copy)]
struct Product {
    m: usize,
    k: usize,
    n: usize,
    a: Matrix,
    b: Matrix,
    c: Matrix,
    add: bool,
    /// Whether the right factor's block is laid out as the call before left it.
    laid: bool,
}

impl Product {
    /// The same with rows for columns.
    fn turned(self) -> Product {
        Product {
            m: self.n,
            n: self.m,
            a: self.b.turned(),
            b: self.a.turned(),
            c: self.c.turned(),
            laid: false,
            ..self
        }
    }
}

/// Whether this machine runs what is here.
pub(super) fn is_here() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
}

/// Computes a product.
///
/// # Safety
/// The machine has AVX-512. The matrices are there, aligned to their elements, and the result overlaps neither factor; so are
/// [`WORK`] bytes of working memory, which overlap nothing and, if the call says so, hold what the call before with the same right factor,
/// of at most [`INNER`] rows and [`BLOCK_COLUMNS`] columns, left there.
pub(super) unsafe fn multiply(call: &GemmCall) {
    let size = |n: i64| usize::try_from(n).unwrap_or(0);
    let matrix = |first: *const u8, down: i64, across: i64| Matrix {
        first: first.cast_mut().cast(),
        down: down as isize,
        across: across as isize,
    };
    let mut p = Product {
        m: size(call.m),
        k: size(call.k),
        n: size(call.n),
        a: matrix(call.a, call.a_row, call.a_column),
        b: matrix(call.b, call.b_row, call.b_column),
        c: matrix(call.c, call.c_row, call.c_column),
        add: call.accumulate != 0,
        laid: call.laid != 0,
    };
    let suits = |p: &Product| match (p.m <= FEW, p.n <= FEW) {
        (false, false) => p.c.across == 1,
        (rows, columns) => rows && p.b.across == 1 || columns && p.a.across == 1,
    };
    if !suits(&p) && suits(&p.turned()) {
        p = p.turned();
    }
    // SAFETY: the caller's promise.
    unsafe {
        if p.m <= FEW && p.b.across == 1 {
            few_rows(&p);
        } else if p.n <= FEW && p.a.across == 1 {
            few_columns(&p, call.work.cast());
        } else {
            blocks(&p, call.work.cast());
        }
    }
}

/// The lanes below a number.
fn below(lanes: usize) -> u16 {
    ((1u32 << lanes.min(LANES)) - 1) as u16
}

/// # Safety
/// As for [`multiply`]; what is said to be laid out is one block.
#[target_feature(enable = "avx512f")]
unsafe fn blocks(p: &Product, left: *mut f32) {
    let right = left.wrapping_add(RIGHT);
    for j in (0..p.n).step_by(BLOCK_COLUMNS) {
        let columns = (p.n - j).min(BLOCK_COLUMNS);
        let mut from = 0;
        // Once even if there is nothing to sum.
        loop {
            let inner = (p.k - from).min(INNER);
            let lanes = if p.laid { 0 } else { columns.next_multiple_of(COLUMNS) };
            for at in (0..lanes).step_by(LANES) {
                let there = columns.saturating_sub(at).min(LANES);
                let panel = right.wrapping_add(at / COLUMNS * COLUMNS * inner + at % COLUMNS);
                // SAFETY: so many columns are there, and the working memory has room for whole panels of them.
                unsafe { lay(p.b.from(from, j + at).turned(), there, inner, panel, COLUMNS) };
            }
            for i in (0..p.m).step_by(BLOCK_ROWS) {
                let rows = (p.m - i).min(BLOCK_ROWS);
                for at in (0..rows).step_by(ROWS) {
                    let panel = left.wrapping_add(at * inner);
                    // SAFETY: the rows are there, and the working memory has room for whole panels of them.
                    unsafe { lay(p.a.from(i + at, from), (rows - at).min(ROWS), inner, panel, ROWS) };
                }
                for y in (0..columns).step_by(COLUMNS) {
                    for x in (0..rows).step_by(ROWS) {
                        let panels =
                            (left.wrapping_add(x * inner).cast_const(), right.wrapping_add(y * inner).cast_const());
                        let size = ((rows - x).min(ROWS), (columns - y).min(COLUMNS));
                        // SAFETY: both panels have been laid out, and that part of the result is there.
                        unsafe { tile(inner, panels, p.c.from(i + x, j + y), size, p.add || from > 0) };
                    }
                }
            }
            from += INNER;
            if from >= p.k {
                break;
            }
        }
    }
}

/// Lays out up to sixteen rows of a matrix side by side: sixteen elements for each column, zeros where there is no row, `step` elements
/// from a column to the next.
///
/// # Safety
/// The machine has AVX-512, so many rows and columns are there, and there is room for what is written: sixteen elements behind the
/// last step too.
#[target_feature(enable = "avx512f")]
unsafe fn lay(from: Matrix, rows: usize, columns: usize, to: *mut f32, step: usize) {
    // SAFETY: the caller's promise; masks leave out what is not there.
    unsafe {
        if from.down == 1 || rows == 0 {
            let mask = below(rows);
            for k in 0..columns {
                let at = from.at(0, k);
                _mm_prefetch::<_MM_HINT_T1>(at.wrapping_offset(AHEAD * from.across).cast());
                _mm512_storeu_ps(to.add(k * step), _mm512_maskz_loadu_ps(mask, at));
            }
        } else if from.across == 1 {
            for k in (0..columns).step_by(LANES) {
                let width = (columns - k).min(LANES);
                let mut square = [_mm512_setzero_ps(); LANES];
                for (row, v) in square.iter_mut().enumerate().take(rows) {
                    _mm_prefetch::<_MM_HINT_T1>(from.at(row, k + 4 * LANES).cast());
                    *v = _mm512_maskz_loadu_ps(below(width), from.at(row, k));
                }
                for (n, v) in turned(square).into_iter().enumerate().take(width) {
                    _mm512_storeu_ps(to.add((k + n) * step), v);
                }
            }
        } else {
            for k in 0..columns {
                let mut v = [0.0f32; LANES];
                for (row, v) in v.iter_mut().enumerate().take(rows) {
                    *v = *from.at(row, k);
                }
                _mm512_storeu_ps(to.add(k * step), _mm512_loadu_ps(v.as_ptr()));
            }
        }
    }
}

/// A square with rows for columns: row `k` interleaved with row `k + 8`, four times.
#[target_feature(enable = "avx512f")]
#[inline]
fn turned(mut rows: [__m512; LANES]) -> [__m512; LANES] {
    let low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    let high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    for _ in 0..LANES.ilog2() {
        let old = rows;
        for k in 0..LANES / 2 {
            rows[2 * k] = _mm512_permutex2var_ps(old[k], low, old[k + LANES / 2]);
            rows[2 * k + 1] = _mm512_permutex2var_ps(old[k], high, old[k + LANES / 2]);
        }
    }
    rows
}

/// A tile of the result from a panel of each factor.
///
/// # Safety
/// The machine has AVX-512, the panels hold `inner` columns and rows, and so many rows and columns of the result are there.
#[target_feature(enable = "avx512f")]
unsafe fn tile(
    inner: usize,
    (mut left, mut right): (*const f32, *const f32),
    c: Matrix,
    (rows, columns): (usize, usize),
    add: bool,
) {
    let mut sums = [[_mm512_setzero_ps(); COLUMNS / LANES]; ROWS];
    // SAFETY: the caller's promise; masks leave out the columns that are not there.
    unsafe {
        for row in 0..rows {
            _mm_prefetch::<_MM_HINT_T0>(c.at(row, 0).cast());
            _mm_prefetch::<_MM_HINT_T0>(c.at(row, columns - 1).cast());
        }
        for _ in 0..inner {
            let b = [_mm512_loadu_ps(right), _mm512_loadu_ps(right.add(LANES))];
            for (row, sums) in sums.iter_mut().enumerate() {
                let a = _mm512_set1_ps(*left.add(row));
                sums[0] = _mm512_fmadd_ps(a, b[0], sums[0]);
                sums[1] = _mm512_fmadd_ps(a, b[1], sums[1]);
            }
            left = left.add(ROWS);
            right = right.add(COLUMNS);
        }
        // Numbers that are known here keep the sums in registers.
        for (row, sums) in sums.into_iter().enumerate() {
            if row < rows {
                store(c.from(row, 0), sums, columns, add);
            }
        }
    }
}

/// Puts or adds a row into the result.
///
/// # Safety
/// The machine has AVX-512, and so many columns are there.
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn store<const N: usize>(c: Matrix, row: [__m512; N], columns: usize, add: bool) {
    // SAFETY: the caller's promise; masks leave out the columns that are not there.
    unsafe {
        if c.across == 1 {
            for (k, v) in row.into_iter().enumerate() {
                let (at, mask) = (c.first.wrapping_add(k * LANES), below(columns.saturating_sub(k * LANES)));
                let v = if add { _mm512_add_ps(_mm512_maskz_loadu_ps(mask, at), v) } else { v };
                _mm512_mask_storeu_ps(at, mask, v);
            }
        } else {
            let mut all = [[0.0f32; LANES]; N];
            for (to, v) in all.iter_mut().zip(row) {
                _mm512_storeu_ps(to.as_mut_ptr(), v);
            }
            for (k, v) in all.as_flattened().iter().enumerate().take(columns) {
                let at = c.at(0, k);
                *at = if add { *at + v } else { *v };
            }
        }
    }
}

/// A few rows, the right factor's along memory: sixty-four columns at a time.
///
/// # Safety
/// As for [`multiply`].
#[target_feature(enable = "avx512f")]
unsafe fn few_rows(p: &Product) {
    for j in (0..p.n).step_by(WIDE * LANES) {
        let columns = (p.n - j).min(WIDE * LANES);
        let masks: [u16; WIDE] = std::array::from_fn(|k| below(columns.saturating_sub(k * LANES)));
        let mut sums = [[_mm512_setzero_ps(); WIDE]; FEW];
        for k in 0..p.k {
            // SAFETY: the caller's promise; masks leave out the columns that are not there.
            unsafe {
                let row = p.b.at(k, j);
                let b: [__m512; WIDE] =
                    std::array::from_fn(|v| _mm512_maskz_loadu_ps(masks[v], row.wrapping_add(v * LANES)));
                for (i, sums) in sums.iter_mut().enumerate() {
                    if i < p.m {
                        let a = _mm512_set1_ps(*p.a.at(i, k));
                        for v in 0..WIDE {
                            sums[v] = _mm512_fmadd_ps(a, b[v], sums[v]);
                        }
                    }
                }
            }
        }
        for (i, sums) in sums.into_iter().enumerate().take(p.m) {
            // SAFETY: as above.
            unsafe { store(p.c.from(i, j), sums, columns, p.add) };
        }
    }
}

/// A few columns, the left factor's rows along memory: products of a few rows with the columns, which are laid out as rows if they are
/// not ones, as many inner numbers at a time as there is room for.
///
/// # Safety
/// As for [`multiply`].
#[target_feature(enable = "avx512f")]
unsafe fn few_columns(p: &Product, work: *mut f32) {
    const MOST: usize = BLOCK_COLUMNS * INNER / FEW;
    let mut from = 0;
    loop {
        let inner = (p.k - from).min(MOST);
        let mut b = p.b.from(from, 0);
        if b.down != 1 {
            let laid = Matrix { first: work, down: 1, across: inner as isize };
            for (k, j) in (0..inner).flat_map(|k| (0..p.n).map(move |j| (k, j))) {
                // SAFETY: the elements are there, and the working memory has room for a few times as many as `MOST`.
                unsafe { *laid.at(k, j) = *b.at(k, j) };
            }
            b = laid;
        }
        for i in (0..p.m).step_by(FEW) {
            let rows = (p.m - i).min(FEW);
            let mut sums = [[_mm512_setzero_ps(); FEW]; FEW];
            for k in (0..inner).step_by(LANES) {
                let mask = below(inner - k);
                // SAFETY: the caller's promise; masks leave out what is not there.
                unsafe {
                    let right: [__m512; FEW] =
                        std::array::from_fn(|j| _mm512_maskz_loadu_ps(if j < p.n { mask } else { 0 }, b.at(k, j)));
                    for (row, sums) in sums.iter_mut().enumerate() {
                        let mask = if row < rows { mask } else { 0 };
                        let left = _mm512_maskz_loadu_ps(mask, p.a.at(i + row, from + k));
                        for j in 0..FEW {
                            sums[j] = _mm512_fmadd_ps(left, right[j], sums[j]);
                        }
                    }
                }
            }
            for (row, sums) in sums.into_iter().enumerate().take(rows) {
                for (j, sum) in sums.into_iter().enumerate().take(p.n) {
                    let (at, sum) = (p.c.at(i + row, j), _mm512_reduce_add_ps(sum));
                    // SAFETY: the caller's promise.
                    unsafe { *at = if p.add || from > 0 { *at + sum } else { sum } };
                }
            }
        }
        from += MOST;
        if from >= p.k {
            break;
        }
    }
}
