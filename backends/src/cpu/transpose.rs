//! Transposition of a block of memory.
//!
//! The block is divided into square tiles, with rows of 16 bytes. A tile of `n` rows is transposed
//! in registers: row `k` is interleaved with row `k + n / 2`, for all `k`, and this step is
//! repeated `log2(n)` times. The edges are copied element by element.

/// A block of elements and its destination.
struct Block {
    from: *const u8,
    /// The distance between rows in bytes.
    step: isize,
    to: *mut u8,
    /// The distance between columns in bytes, at the destination.
    pace: isize,
    rows: isize,
    columns: isize,
}

/// A type of the elements' size. Elements are only moved.
trait Element: Copy {
    /// Transposes the tile at the beginning of the block. Returns `None` if the machine has no
    /// instructions for it.
    ///
    /// # Safety
    /// The tile lies in a block, and the destination is valid and does not overlap it.
    unsafe fn square(from: *const u8, step: isize, to: *mut u8, pace: isize) -> Option<()>;
}

macro_rules! element {
    ($($type:ty, $count:literal, $low:ident, $high:ident;)+) => {$(
        impl Element for $type {
            #[cfg(target_arch = "x86_64")]
            #[inline(always)]
            unsafe fn square(from: *const u8, step: isize, to: *mut u8, pace: isize) -> Option<()> {
                use std::arch::x86_64::{$high, $low, _mm_loadu_si128, _mm_setzero_si128, _mm_storeu_si128};
                const N: usize = $count;
                // SAFETY: the caller's promise. Neither access asks for alignment.
                unsafe {
                    let mut rows = [_mm_setzero_si128(); N];
                    for (k, row) in rows.iter_mut().enumerate() {
                        *row = _mm_loadu_si128(from.offset(step * k as isize).cast());
                    }
                    // Each round interleaves the rows, and log2(N) rounds transpose the tile.
                    let mut left = N;
                    while left > 1 {
                        let old = rows;
                        for k in 0..N / 2 {
                            rows[2 * k] = $low(old[k], old[k + N / 2]);
                            rows[2 * k + 1] = $high(old[k], old[k + N / 2]);
                        }
                        left /= 2;
                    }
                    for (k, row) in rows.into_iter().enumerate() {
                        _mm_storeu_si128(to.offset(pace * k as isize).cast(), row);
                    }
                }
                Some(())
            }

            #[cfg(not(target_arch = "x86_64"))]
            unsafe fn square(_: *const u8, _: isize, _: *mut u8, _: isize) -> Option<()> {
                None
            }
        }
    )+};
}

element! {
    u8, 16, _mm_unpacklo_epi8, _mm_unpackhi_epi8;
    u16, 8, _mm_unpacklo_epi16, _mm_unpackhi_epi16;
    u32, 4, _mm_unpacklo_epi32, _mm_unpackhi_epi32;
    u64, 2, _mm_unpacklo_epi64, _mm_unpackhi_epi64;
}

/// Transposes a block of elements of the size of `T`.
///
/// # Safety
/// The block and its destination are valid and do not overlap.
unsafe fn transpose<T: Element>(block: &Block) {
    let Block { step, pace, rows, columns, .. } = *block;
    let width = size_of::<T>().cast_signed();
    let n = 16 / width;
    // SAFETY: it is called only with rows and columns of the block, and both the block and its
    // destination are in bounds.
    let at = |row: isize, column: isize| unsafe {
        (block.from.offset(row * step + column * width), block.to.offset(column * pace + row * width))
    };
    let one = |row: isize, column: isize| {
        let (from, to) = at(row, column);
        // SAFETY: the element exists, and the destination has room for it.
        unsafe { to.cast::<T>().write_unaligned(from.cast::<T>().read_unaligned()) };
    };
    // Whole tiles first, then the remaining columns of each row of tiles, and finally the remaining
    // rows.
    let (high, wide) = (rows - rows % n, columns - columns % n);
    for row in (0..high).step_by(n.unsigned_abs()) {
        for column in (0..wide).step_by(n.unsigned_abs()) {
            let (from, to) = at(row, column);
            // SAFETY: the tile lies in the block.
            if unsafe { T::square(from, step, to, pace) }.is_none() {
                (0..n * n).for_each(|k| one(row + k / n, column + k % n));
            }
        }
        (row..row + n).for_each(|row| (wide..columns).for_each(|column| one(row, column)));
    }
    (high..rows).for_each(|row| (0..columns).for_each(|column| one(row, column)));
}

macro_rules! transposes {
    ($($name:ident, $type:ty;)+) => {$(
        pub(super) extern "C" fn $name(
            from: *const u8,
            step: isize,
            to: *mut u8,
            pace: isize,
            rows: isize,
            columns: isize,
        ) {
            // SAFETY: compiled code passes a block of elements that its loops would load one by
            // one, in bounds as those are (see `Task::piece`), and scratch with room for them.
            unsafe { transpose::<$type>(&Block { from, step, to, pace, rows, columns }) }
        }
    )+};
}

transposes! {
    transpose_1, u8;
    transpose_2, u16;
    transpose_4, u32;
    transpose_8, u64;
}
