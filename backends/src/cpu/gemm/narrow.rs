//! Products with a few rows or columns, in which the other factor is read once, in place.

use super::blocks::{square, store};
use super::lanes::Lanes;
use super::{FEW, INNER_BYTES, Product};

/// The number of rows of the right factor that are read side by side, if there are a few of the
/// left one: each takes its part of every sum while the sum is in a register.
const BESIDE: usize = 8;
/// The bytes of sums for a part of the columns, which stay in the first-level cache.
const SUMS: usize = 16384;

/// A product with a few rows, in which the right factor is contiguous along its rows.
///
/// # Safety
/// As for [`super::multiply`].
#[inline(always)]
pub(super) unsafe fn few_rows<V: Lanes<N>, const N: usize>(p: &Product<V::Element>) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match p.m {
            0 => {}
            1 => rows::<V, N, 1>(p),
            2 => rows::<V, N, 2>(p),
            3 => rows::<V, N, 3>(p),
            _ => rows::<V, N, FEW>(p),
        }
    }
}

/// A product with exactly `M` rows.
///
/// # Safety
/// As for [`super::multiply`].
#[inline(always)]
unsafe fn rows<V: Lanes<N>, const N: usize, const M: usize>(p: &Product<V::Element>) {
    let mut memory = Sums([0; SUMS]);
    let sums: *mut V::Element = memory.0.as_mut_ptr().cast();
    // Whole registers of sums for each row.
    let most = SUMS / size_of::<V>() / M * N;
    let inner_most = INNER_BYTES / size_of::<V::Element>();
    for (j, from) in blocks_of(p.n, most).flat_map(|j| blocks_of(p.k, inner_most).map(move |from| (j, from))) {
        let (columns, to) = ((p.n - j).min(most), p.k.min(from + inner_most));
        let mut k = from;
        // The first rows overwrite the sums: it runs at least once.
        loop {
            let beside = (to - k).min(BESIDE);
            // SAFETY: guaranteed by the caller; there is room for `most` sums of each row.
            unsafe {
                if beside == BESIDE {
                    add_rows::<V, N, M, BESIDE>(p, (k, j), columns, sums, most, k > from);
                } else {
                    if k == from {
                        add_rows::<V, N, M, 0>(p, (k, j), columns, sums, most, false);
                    }
                    for k in k..to {
                        add_rows::<V, N, M, 1>(p, (k, j), columns, sums, most, true);
                    }
                }
            }
            k += beside.max(1);
            if beside < BESIDE || k >= to {
                break;
            }
        }
        for i in 0..M {
            for at in (0..columns).step_by(N) {
                // SAFETY: as above, and the columns exist.
                unsafe {
                    let v = V::load(sums.add(i * most + at));
                    store(p.c.from(i, j + at), [v], (columns - at).min(N), p.add || from > 0);
                }
            }
        }
    }
}

/// Memory for sums, in whole lines of the cache.
#[repr(align(64))]
struct Sums([u8; SUMS]);

/// Adds the products with `K` rows of the right factor to the sums of each row, or overwrites them.
///
/// # Safety
/// As for [`super::multiply`]. The rows and columns exist, and each of the `M` rows has sums for as
/// many columns in whole registers.
#[inline(always)]
unsafe fn add_rows<V: Lanes<N>, const N: usize, const M: usize, const K: usize>(
    p: &Product<V::Element>,
    (k, j): (usize, usize),
    columns: usize,
    sums: *mut V::Element,
    apart: usize,
    add: bool,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let left: [[V::Element; K]; M] = std::array::from_fn(|i| std::array::from_fn(|row| *p.a.at(i, k + row)));
        let right: [*const V::Element; K] = std::array::from_fn(|row| p.b.matrix.at(k + row, j).cast_const());
        for at in (0..columns).step_by(N) {
            let some = (columns - at).min(N);
            let b: [V; K] = std::array::from_fn(|row| {
                let at = right[row].wrapping_add(at);
                if some == N { V::load(at) } else { V::load_first(at, some) }
            });
            for (i, left) in left.iter().enumerate() {
                let to = sums.add(i * apart + at);
                let mut sum = if add { V::load(to) } else { V::splat(V::Element::default()) };
                for (a, b) in left.iter().zip(b) {
                    sum = V::splat(*a).multiply_add(b, sum);
                }
                sum.store(to);
            }
        }
    }
}

/// The beginnings of blocks of some indices. There is one block at least, so that a sum of nothing
/// is stored.
#[inline(always)]
fn blocks_of(all: usize, block: usize) -> impl Iterator<Item = usize> {
    (0..all.max(1)).step_by(block)
}

/// A product with a few columns, in which the left factor is contiguous along its rows: `N` rows at
/// a time, transposed in registers.
///
/// # Safety
/// As for [`super::multiply`].
#[inline(always)]
pub(super) unsafe fn few_columns<V: Lanes<N>, const N: usize>(p: &Product<V::Element>) {
    let inner_most = INNER_BYTES / size_of::<V::Element>();
    for (i, from) in blocks_of(p.m, N).flat_map(|i| blocks_of(p.k, inner_most).map(move |from| (i, from))) {
        let (rows, to) = ((p.m - i).min(N), p.k.min(from + inner_most));
        // SAFETY: guaranteed by the caller.
        unsafe {
            let mut sums = [V::splat(V::Element::default()); FEW];
            for k in (from..to).step_by(N) {
                let width = (to - k).min(N);
                for (n, a) in
                    square::<V, N>(|row| p.a.matrix.at(i + row, k), rows, width).into_iter().enumerate().take(width)
                {
                    for (j, sum) in sums.iter_mut().enumerate().take(p.n) {
                        *sum = a.multiply_add(V::splat(*p.b.at(k + n, j)), *sum);
                    }
                }
            }
            for (j, sum) in sums.into_iter().enumerate().take(p.n) {
                store(p.c.transposed().from(j, i), [sum], rows, p.add || from > 0);
            }
        }
    }
}
