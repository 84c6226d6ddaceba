//! Products in pieces: an element has the same bits however many rows are multiplied together, and
//! whichever of them lie next to each other in memory.

use super::gemm::{WORK, is_here, multiply};
use crate::abi::GemmCall;

/// The strides of a matrix, row-major or column-major.
fn strides(rows: usize, columns: usize, row_major: bool) -> (i64, i64) {
    if row_major { (columns as i64, 1) } else { (1, rows as i64) }
}

/// The product of all rows, `step` of them in a call; the result is given row-major.
fn product([m, k, n]: [usize; 3], layouts: [bool; 3], step: usize) -> Vec<u32> {
    let number = |seed: usize| move |at: usize| ((at * 7919 + seed) % 1013) as f32 / 1013.0 - 0.4;
    let place = |(down, across): (i64, i64), i: usize, j: usize| i * down as usize + j * across as usize;
    let fill = |rows: usize, columns: usize, at: (i64, i64), seed: usize| {
        let mut elements = vec![0.0f32; rows * columns];
        (0..rows * columns).for_each(|n| elements[place(at, n / columns, n % columns)] = number(seed)(n));
        elements
    };
    let (ours, theirs) = (strides(m, k, layouts[0]), strides(k, n, layouts[1]));
    let to = strides(m, n, layouts[2]);
    let (a, b) = (fill(m, k, ours, 1), fill(k, n, theirs, 2));
    let (mut c, mut work) = (vec![f32::NAN; m * n], vec![0.0f32; WORK / size_of::<f32>()]);
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
            packed: 0,
            work: work.as_mut_ptr().cast(),
        };
        // SAFETY: the caller has seen that the machine has the instructions, the arrays have these
        // many elements, and the working memory has its size.
        unsafe { multiply(&call) };
    }
    (0..m * n).map(|at| c[place(to, at / n, at % n)].to_bits()).collect()
}

#[test]
fn an_element_has_the_same_bits_in_every_piece() {
    if !is_here() {
        return;
    }
    for sizes in [[1, 7, 3], [5, 16, 77], [6, 1000, 40], [9, 1030, 5], [40, 513, 2], [33, 0, 4], [21, 600, 70]] {
        let whole = product(sizes, [true; 3], sizes[0]);
        for layout in 0..8 {
            let layouts = [layout & 1 == 0, layout & 2 == 0, layout & 4 == 0];
            for step in [1, 2, 4, 5, sizes[0]] {
                assert_eq!(product(sizes, layouts, step), whole, "{sizes:?} in {layouts:?}, {step} rows at a time");
            }
        }
    }
}
