//! Transposing a block of memory: rows become columns.
//!
//! Elements go in squares of sixteen-byte rows. A square of `n` rows is turned by interleaving row `k` with row `k + n / 2`, for all `k`,
//! as often as `n` can be halved. What is left at the edges goes element by element.

/// A block of elements, and where it goes.
struct Block {
    from: *const u8,
    /// Bytes from a row to the next.
    step: isize,
    to: *mut u8,
    /// Bytes from a column to the next, where it goes.
    pace: isize,
    rows: isize,
    columns: isize,
}

/// A type as wide as the elements: they are only moved.
trait Element: Copy {
    /// Turns the square at the beginning of the block; `None` where the machine has nothing for it.
    ///
    /// # Safety
    /// It lies in a block, and the memory that it goes to is there and overlaps nothing of it.
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

/// Transposes a block of elements that are as wide as `T`.
///
/// # Safety
/// The block and the memory that it goes to are there, and do not overlap.
unsafe fn turn<T: Element>(block: &Block) {
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
        // SAFETY: there is such an element, and room for it.
        unsafe { to.cast::<T>().write_unaligned(from.cast::<T>().read_unaligned()) };
    };
    let (high, wide) = (rows - rows % n, columns - columns % n);
    for row in (0..high).step_by(n.unsigned_abs()) {
        for column in (0..wide).step_by(n.unsigned_abs()) {
            let (from, to) = at(row, column);
            // SAFETY: the square lies in the block.
            if unsafe { T::square(from, step, to, pace) }.is_none() {
                (0..n * n).for_each(|k| one(row + k / n, column + k % n));
            }
        }
        (row..row + n).for_each(|row| (wide..columns).for_each(|column| one(row, column)));
    }
    (high..rows).for_each(|row| (0..columns).for_each(|column| one(row, column)));
}

macro_rules! turns {
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
            unsafe { turn::<$type>(&Block { from, step, to, pace, rows, columns }) }
        }
    )+};
}

turns! {
    turn_1, u8;
    turn_2, u16;
    turn_4, u32;
    turn_8, u64;
}
