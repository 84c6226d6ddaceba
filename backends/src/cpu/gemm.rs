//! Matrix products of `f32` with AVX-512. Machines without it use the `matrixmultiply` crate.
//!
//! A tile of 14 rows and 32 columns of the result is accumulated in registers during the loop over
//! the inner index. Both factors are packed for that: a block of the right one into panels of 32
//! columns, and a block of the left one, which stays in the L2 cache, into panels of 14 rows.
//! Products with a few rows or columns do not pay for packing; they read the other factor once, in
//! place.
//!
//! Each element of the result is accumulated in the same order wherever it is computed, in blocks
//! of [`INNER`] elements, so the bits do not depend on how many threads share the rows, or on the
//! rows that are multiplied together.

use std::arch::x86_64::{
    __m512, _MM_HINT_T0, _MM_HINT_T1, _mm_prefetch, _mm512_add_ps, _mm512_fmadd_ps, _mm512_loadu_ps,
    _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_permutex2var_ps, _mm512_set1_ps, _mm512_setr_epi32,
    _mm512_setzero_ps, _mm512_storeu_ps,
};

use crate::abi::GemmCall;

/// The number of lanes in a register.
const LANES: usize = 16;
/// The size of a tile.
const ROWS: usize = 14;
const COLUMNS: usize = 2 * LANES;
/// The number of inner iterations per block. More means fewer passes over the result, but the block
/// of the left factor must stay in the L2 cache.
pub(super) const INNER: usize = 512;
/// The number of rows and columns per block.
pub(super) const BLOCK_ROWS: usize = 6 * ROWS;
pub(super) const BLOCK_COLUMNS: usize = 1024;
/// The offset of the right factor's block. It leaves room for the last full-register store past the
/// left block.
const RIGHT: usize = BLOCK_ROWS * INNER + LANES * LANES;
/// The size of the packing buffer in bytes.
pub(super) const WORK: usize = (RIGHT + BLOCK_COLUMNS * INNER) * size_of::<f32>();
/// The prefetch distance in rows, for packing rows that are far apart.
const AHEAD: isize = 32;
/// The largest number of rows or columns that counts as a few.
const FEW: usize = 4;
/// The number of registers of a row that are accumulated together if there are a few rows.
const WIDE: usize = 4;

/// A matrix in memory, with strides in elements.
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

    fn transposed(self) -> Matrix {
        Matrix { down: self.across, across: self.down, ..self }
    }
}

/// The arguments of `c = a * b` or `c += a * b`.
#[derive(Clone, Copy)]
struct Product {
    m: usize,
    k: usize,
    n: usize,
    a: Matrix,
    b: Matrix,
    c: Matrix,
    add: bool,
    /// Whether the right factor's block is still packed from the previous call.
    packed: bool,
}

impl Product {
    /// The transposed product, which swaps rows and columns.
    fn transposed(self) -> Product {
        Product {
            m: self.n,
            n: self.m,
            a: self.b.transposed(),
            b: self.a.transposed(),
            c: self.c.transposed(),
            packed: false,
            ..self
        }
    }
}

/// Whether this machine has the instructions.
pub(super) fn is_here() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
}

/// Computes a product.
///
/// # Safety
/// The machine has AVX-512. The matrices are valid and aligned to their elements, and the result
/// overlaps neither factor. The working memory has [`WORK`] bytes that overlap none of them. If the
/// call claims that the right factor is packed, the working memory is as the previous call with the
/// same right factor left it, which had at most [`INNER`] rows and [`BLOCK_COLUMNS`] columns.
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
        packed: call.packed != 0,
    };
    let suits = |p: &Product| match (p.m <= FEW, p.n <= FEW) {
        (false, false) => p.c.across == 1,
        (rows, columns) => rows && p.b.across == 1 || columns && p.a.across == 1,
    };
    if !suits(&p) && suits(&p.transposed()) {
        p = p.transposed();
    }
    // SAFETY: guaranteed by the caller.
    unsafe {
        if p.m <= FEW && p.b.across == 1 {
            few_rows(&p);
        } else if p.n <= FEW && p.a.across == 1 {
            few_columns(&p);
        } else {
            blocks(&p, call.work.cast());
        }
    }
}

/// A mask of the lanes below a number.
fn below(lanes: usize) -> u16 {
    ((1u32 << lanes.min(LANES)) - 1) as u16
}

/// # Safety
/// As for [`multiply`]. A packed right factor is a single block.
#[target_feature(enable = "avx512f")]
unsafe fn blocks(p: &Product, left: *mut f32) {
    let right = left.wrapping_add(RIGHT);
    for j in (0..p.n).step_by(BLOCK_COLUMNS) {
        let columns = (p.n - j).min(BLOCK_COLUMNS);
        let mut from = 0;
        // Run at least once, to store zeros if there is nothing to sum.
        loop {
            let inner = (p.k - from).min(INNER);
            let lanes = if p.packed { 0 } else { columns.next_multiple_of(COLUMNS) };
            // Rows that are contiguous are read side by side, a few at a time: all of them at once
            // are more pages than the processor keeps addresses of.
            let rows = if p.b.across == 1 { LANES } else { inner.max(1) };
            for (k, at) in (0..inner).step_by(rows).flat_map(|k| (0..lanes).step_by(LANES).map(move |at| (k, at))) {
                let there = columns.saturating_sub(at).min(LANES);
                let panel = right.wrapping_add(at / COLUMNS * COLUMNS * inner + at % COLUMNS + k * COLUMNS);
                let part = p.b.from(from + k, j + at).transposed();
                // SAFETY: the columns exist, and the working memory has room for whole panels of
                // them.
                unsafe { pack(part, there, rows.min(inner - k), panel, COLUMNS) };
            }
            for i in (0..p.m).step_by(BLOCK_ROWS) {
                let rows = (p.m - i).min(BLOCK_ROWS);
                for at in (0..rows).step_by(ROWS) {
                    let panel = left.wrapping_add(at * inner);
                    // SAFETY: the rows exist, and the working memory has room for whole panels of
                    // them.
                    unsafe { pack(p.a.from(i + at, from), (rows - at).min(ROWS), inner, panel, ROWS) };
                }
                for y in (0..columns).step_by(COLUMNS) {
                    for x in (0..rows).step_by(ROWS) {
                        let panels =
                            (left.wrapping_add(x * inner).cast_const(), right.wrapping_add(y * inner).cast_const());
                        let size = ((rows - x).min(ROWS), (columns - y).min(COLUMNS));
                        // SAFETY: both panels have been packed, and the part of the result exists.
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

/// Packs up to 16 rows of a matrix: 16 elements for each column, with zeros for missing rows, and
/// `step` elements between columns.
///
/// # Safety
/// The machine has AVX-512, the rows and columns exist, and the destination has room for all
/// stores, including 16 elements at the last step.
#[target_feature(enable = "avx512f")]
unsafe fn pack(from: Matrix, rows: usize, columns: usize, to: *mut f32, step: usize) {
    // SAFETY: guaranteed by the caller; masks exclude missing elements.
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
                for (n, v) in transposed(square).into_iter().enumerate().take(width) {
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

/// Transposes a 16 x 16 tile: interleaves row `k` with row `k + 8`, four times.
#[target_feature(enable = "avx512f")]
#[inline]
fn transposed(mut rows: [__m512; LANES]) -> [__m512; LANES] {
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

/// Computes a tile of the result from a panel of each factor.
///
/// # Safety
/// The machine has AVX-512, the panels have `inner` columns and rows, and the rows and columns of
/// the result exist.
#[target_feature(enable = "avx512f")]
unsafe fn tile(
    inner: usize,
    (mut left, mut right): (*const f32, *const f32),
    c: Matrix,
    (rows, columns): (usize, usize),
    add: bool,
) {
    let mut sums = [[_mm512_setzero_ps(); COLUMNS / LANES]; ROWS];
    // SAFETY: guaranteed by the caller; masks exclude missing columns.
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
        // Constant loop bounds let the compiler keep the accumulators in registers.
        for (row, sums) in sums.into_iter().enumerate() {
            if row < rows {
                store(c.from(row, 0), sums, columns, add);
            }
        }
    }
}

/// Stores a row to the result or adds it.
///
/// # Safety
/// The machine has AVX-512, and the columns exist.
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn store<const N: usize>(c: Matrix, row: [__m512; N], columns: usize, add: bool) {
    // SAFETY: guaranteed by the caller; masks exclude missing columns.
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

/// A product with a few rows, in which the right factor is contiguous along its rows: 64 columns at
/// a time.
///
/// # Safety
/// As for [`multiply`].
#[target_feature(enable = "avx512f")]
unsafe fn few_rows(p: &Product) {
    for (j, from) in blocks_of(p.n, WIDE * LANES).flat_map(|j| blocks_of(p.k, INNER).map(move |from| (j, from))) {
        let columns = (p.n - j).min(WIDE * LANES);
        let masks: [u16; WIDE] = std::array::from_fn(|k| below(columns.saturating_sub(k * LANES)));
        let mut sums = [[_mm512_setzero_ps(); WIDE]; FEW];
        for k in from..p.k.min(from + INNER) {
            // SAFETY: guaranteed by the caller; masks exclude missing columns.
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
            unsafe { store(p.c.from(i, j), sums, columns, p.add || from > 0) };
        }
    }
}

/// The beginnings of blocks of some indices. There is one block at least, so that a sum of nothing
/// is stored.
fn blocks_of(all: usize, block: usize) -> impl Iterator<Item = usize> {
    (0..all.max(1)).step_by(block)
}

/// A product with a few columns, in which the left factor is contiguous along its rows: 16 rows at
/// a time, transposed in registers.
///
/// # Safety
/// As for [`multiply`].
#[target_feature(enable = "avx512f")]
unsafe fn few_columns(p: &Product) {
    for (i, from) in blocks_of(p.m, LANES).flat_map(|i| blocks_of(p.k, INNER).map(move |from| (i, from))) {
        let (rows, to) = ((p.m - i).min(LANES), p.k.min(from + INNER));
        let mut sums = [_mm512_setzero_ps(); FEW];
        for k in (from..to).step_by(LANES) {
            let width = (to - k).min(LANES);
            let mut square = [_mm512_setzero_ps(); LANES];
            for (row, v) in square.iter_mut().enumerate().take(rows) {
                // SAFETY: guaranteed by the caller; masks exclude missing elements.
                *v = unsafe { _mm512_maskz_loadu_ps(below(width), p.a.at(i + row, k)) };
            }
            for (n, a) in transposed(square).into_iter().enumerate().take(width) {
                for (j, sum) in sums.iter_mut().enumerate().take(p.n) {
                    // SAFETY: guaranteed by the caller.
                    *sum = _mm512_fmadd_ps(a, _mm512_set1_ps(unsafe { *p.b.at(k + n, j) }), *sum);
                }
            }
        }
        for (j, sum) in sums.into_iter().enumerate().take(p.n) {
            // SAFETY: guaranteed by the caller.
            unsafe { store(p.c.transposed().from(j, i), [sum], rows, p.add || from > 0) };
        }
    }
}
