//! Products in pieces: an element has the same bits however many rows are multiplied together,
//! whichever of them lie next to each other in memory, and with every width of registers.

use std::fmt::Debug;

use super::gemm::{Element, WORK, Way};
use crate::abi::{GemmCall, Packed};

/// The strides of a matrix, row-major or column-major.
fn strides(rows: usize, columns: usize, row_major: bool) -> (i64, i64) {
    if row_major { (columns as i64, 1) } else { (1, rows as i64) }
}

/// A type of numbers that fractions convert to.
trait Number: Element + From<f32> + Debug {
    /// The number of ways that round a product and a sum once. They come first.
    fn fused() -> usize {
        Self::ways().iter().flatten().count() - usize::from(cfg!(not(target_arch = "aarch64")))
    }
}

impl Number for f32 {}
impl Number for f64 {}

/// The product of all rows, `step` of them in a call; the result is given row-major. If the right
/// factor stays, a second product in the same working memory has another one.
fn product<T: Number>(
    way: Way,
    [m, k, n]: [usize; 3],
    layouts: [bool; 3],
    step: usize,
    packed: Packed,
) -> Vec<T> {
    let number = |seed: usize| move |at: usize| T::from(((at * 7919 + seed) % 1013) as f32 / 1013.0 - 0.4);
    let place = |(down, across): (i64, i64), i: usize, j: usize| i * down as usize + j * across as usize;
    let fill = |rows: usize, columns: usize, at: (i64, i64), seed: usize| {
        let mut elements = vec![T::default(); rows * columns];
        (0..rows * columns).for_each(|n| elements[place(at, n / columns, n % columns)] = number(seed)(n));
        elements
    };
    let (ours, theirs) = (strides(m, k, layouts[0]), strides(k, n, layouts[1]));
    let to = strides(m, n, layouts[2]);
    let (a, b) = (fill(m, k, ours, 1), fill(k, n, theirs, 2));
    let (other, mut c) = (fill(k, n, theirs, 3), vec![T::default(); m * n]);
    let mut work = vec![[0u64; 8]; WORK.div_ceil(64) + 1];
    let start = work.as_mut_ptr().cast::<u8>();
    let start = start.wrapping_add(start.align_offset(64));
    for b in [&other, &b] {
        for from in (0..m).step_by(step) {
            let call = GemmCall {
                m: step.min(m - from) as i64,
                k: k as i64,
                n: n as i64,
                a: a.as_ptr().wrapping_add(place(ours, from, 0)).cast(),
                a_row: ours.0,
                a_column: ours.1,
                b: b.as_ptr().cast(),
                b_row: theirs.0,
                b_column: theirs.1,
                c: c.as_mut_ptr().wrapping_add(place(to, from, 0)).cast(),
                c_row: to.0,
                c_column: to.1,
                accumulate: 0,
                packed,
                work: start,
            };
            // SAFETY: the machine has the registers, the arrays have these many elements, and the
            // working memory has its size and was zero at first.
            unsafe { way(&call) };
        }
    }
    (0..m * n).map(|at| c[place(to, at / n, at % n)]).collect()
}

fn pieces<T: Number>() {
    let ways: Vec<Way> = T::ways().into_iter().flatten().collect();
    for sizes in [
        [1, 7, 3],
        [5, 16, 77],
        [6, 1000, 40],
        [9, 1030, 5],
        [40, 513, 2],
        [33, 0, 4],
        [21, 600, 70],
        [3, 521, 4300],
        [90, 300, 1030],
    ] {
        let first = product::<T>(ways[0], sizes, [true; 3], sizes[0], Packed::No);
        for (number, way) in ways.iter().enumerate() {
            let whole = product::<T>(*way, sizes, [true; 3], sizes[0], Packed::No);
            assert!(number >= T::fused() || whole == first, "{sizes:?} in registers of another width");
            let layouts = if sizes[0] * sizes[2] > 10_000 { [0, 3].as_slice() } else { &[0, 1, 2, 3, 4, 5, 6, 7] };
            for layout in layouts {
                let layouts = [layout & 1 == 0, layout & 2 == 0, layout & 4 == 0];
                for (step, packed) in [1, 2, 4, 5, sizes[0]].into_iter().flat_map(|n| [(n, Packed::No), (n, Packed::Stays)])
                {
                    let pieces = product::<T>(*way, sizes, layouts, step, packed);
                    assert!(pieces == whole, "{sizes:?} in {layouts:?}, {step} rows at a time, {packed:?}");
                }
            }
        }
    }
}

#[test]
fn an_element_has_the_same_bits_in_every_piece() {
    pieces::<f32>();
    pieces::<f64>();
}
