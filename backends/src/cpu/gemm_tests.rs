//! Products in pieces: an element has the same bits however many rows are multiplied together,
//! whichever of them lie next to each other in memory, and with every width of registers.

use std::fmt::Debug;

use super::gemm::{Element, WORK, Way};
use crate::abi::{GemmCall, Packed};

/// How a matrix lies in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Layout {
    RowMajor,
    ColumnMajor,
    /// Contiguous rows at distances of their own.
    Rows,
    /// Columns in contiguous runs of some elements, each column in as many.
    Runs(usize),
}

/// The distance of each row from the first and of each column from the beginning of its row.
struct Offsets {
    rows: Vec<i64>,
    columns: Vec<i64>,
    layout: Layout,
}

impl Offsets {
    fn new(rows: usize, columns: usize, layout: Layout) -> Offsets {
        let distances = |count: usize, at: &dyn Fn(usize) -> usize| (0..count).map(|n| at(n) as i64).collect();
        let (down, across): (Vec<i64>, Vec<i64>) = match layout {
            Layout::RowMajor => (distances(rows, &|i| i * columns), distances(columns, &|j| j)),
            Layout::ColumnMajor => (distances(rows, &|i| i), distances(columns, &|j| j * rows)),
            Layout::Rows => (distances(rows, &|i| i * (columns + 3) + i / 2), distances(columns, &|j| j)),
            Layout::Runs(run) => {
                (distances(rows, &|i| i + i / run * 3), distances(columns, &|j| j * (4 * rows + 3) + j / 5))
            }
        };
        Offsets { rows: down, columns: across, layout }
    }

    fn elements(&self) -> usize {
        let last = |distances: &[i64]| distances.last().copied().unwrap_or(0) as usize;
        last(&self.rows) + last(&self.columns) + 1
    }

    fn at(&self, i: usize, j: usize) -> usize {
        (self.rows[i] + self.columns[j]) as usize
    }

    /// The strides between rows and columns.
    fn strides(&self) -> (i64, i64) {
        let step = |distances: &[i64]| distances.get(1).map_or(1, |second| second - distances[0]);
        (step(&self.rows), step(&self.columns))
    }

    /// The tables of distances, from a row on, if strides do not say them.
    fn tables(&self, row: usize) -> (*const i64, *const i64) {
        match self.layout {
            Layout::RowMajor | Layout::ColumnMajor => (std::ptr::null(), std::ptr::null()),
            Layout::Rows | Layout::Runs(_) => (self.rows.as_ptr().wrapping_add(row), self.columns.as_ptr()),
        }
    }

    /// The address of a row, which tables know as well.
    fn row<T>(&self, elements: &[T], row: usize) -> *const u8 {
        let by_tables = !self.tables(0).0.is_null();
        elements.as_ptr().wrapping_add(if by_tables { 0 } else { self.at(row, 0) }).cast()
    }
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

/// Working memory that is zero.
fn working_memory() -> Vec<[u64; 8]> {
    vec![[0; 8]; WORK.div_ceil(64) + 1]
}

/// The first address in it that is a multiple of 64.
fn aligned(memory: &mut [[u64; 8]]) -> *mut u8 {
    let start = memory.as_mut_ptr().cast::<u8>();
    start.wrapping_add(start.align_offset(64))
}

/// The product of all rows, `step` of them in a call; the result is given row-major. If the right
/// factor stays, it is the second one in the same working memory.
fn product<T: Number>(way: Way, [m, k, n]: [usize; 3], layouts: [Layout; 3], step: usize, packed: Packed) -> Vec<T> {
    let number = |seed: usize, at: usize| T::from(((at * 7919 + seed) % 1013) as f32 / 1013.0 - 0.4);
    let fill = |rows: usize, columns: usize, places: &Offsets, seed: usize| {
        let mut elements = vec![T::from(f32::NAN); places.elements()];
        (0..rows * columns).for_each(|n| elements[places.at(n / columns, n % columns)] = number(seed, n));
        elements
    };
    let [ours, theirs, to] =
        [(m, k, layouts[0]), (k, n, layouts[1]), (m, n, layouts[2])].map(|(i, j, layout)| Offsets::new(i, j, layout));
    let (a, b, other) = (fill(m, k, &ours, 1), fill(k, n, &theirs, 2), fill(k, n, &theirs, 3));
    let mut c = vec![T::from(f32::NAN); to.elements()];
    let mut work = working_memory();
    let start = aligned(&mut work);
    for b in [&other, &b] {
        for from in (0..m).step_by(step) {
            let ((a_row, a_column), (b_row, b_column), (c_row, c_column)) =
                (ours.strides(), theirs.strides(), to.strides());
            let ((a_rows, a_columns), (b_rows, b_columns)) = (ours.tables(from), theirs.tables(0));
            let call = GemmCall {
                m: step.min(m - from) as i64,
                k: k as i64,
                n: n as i64,
                a: if k == 0 { a.as_ptr().cast() } else { ours.row(&a, from) },
                a_row,
                a_column,
                a_rows,
                a_columns,
                b: b.as_ptr().cast(),
                b_row,
                b_column,
                b_rows,
                b_columns,
                c: c.as_mut_ptr().wrapping_add(to.at(from, 0)).cast(),
                c_row,
                c_column,
                own: -1,
                accumulate: 0,
                packed,
                work: start,
            };
            // SAFETY: the machine has the registers, the arrays have these many elements, and the
            // working memory has its size and was zero at first.
            unsafe { way(&call) };
        }
    }
    (0..m * n).map(|at| c[to.at(at / n, at % n)]).collect()
}

fn pieces<T: Number>() {
    use Layout::*;
    const PLAIN: [Layout; 3] = [RowMajor; 3];
    let ways: Vec<Way> = T::ways().into_iter().flatten().collect();
    let mut layouts = vec![];
    for to in [RowMajor, ColumnMajor] {
        for a in [RowMajor, ColumnMajor, Rows, Runs(1), Runs(6), Runs(9), Runs(40)] {
            layouts.extend([RowMajor, ColumnMajor, Rows, Runs(6)].map(|b| [a, b, to]));
        }
    }
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
        let first = product::<T>(ways[0], sizes, PLAIN, sizes[0], Packed::No);
        for (number, way) in ways.iter().enumerate() {
            let whole = product::<T>(*way, sizes, PLAIN, sizes[0], Packed::No);
            assert!(number >= T::fused() || whole == first, "{sizes:?} in registers of another width");
            let few = if sizes[0] * sizes[2] > 10_000 { 19 } else { 3 };
            for layouts in layouts.iter().skip(number).step_by(few) {
                let whole_and_parts = [(sizes[0], Packed::No), (2, Packed::No), (5, Packed::Stays)];
                for (step, packed) in whole_and_parts {
                    let pieces = product::<T>(*way, sizes, *layouts, step, packed);
                    assert!(pieces == whole, "{sizes:?} in {layouts:?}, {step} rows at a time, {packed:?}");
                }
            }
        }
    }
}

/// The product of a matrix and the same one, turned, in calls for `step` rows from the last one on.
fn symmetric<T: Number>(way: Way, [m, k]: [usize; 2], layouts: [Layout; 2], step: usize, by_halves: bool) -> Vec<T> {
    let (places, to) = (Offsets::new(m, k, layouts[0]), Offsets::new(m, m, layouts[1]));
    let mut a = vec![T::default(); places.elements()];
    (0..m * k).for_each(|n| a[places.at(n / k, n % k)] = T::from((n * 7919 % 1013) as f32 / 1013.0 - 0.4));
    let mut c = vec![T::from(f32::NAN); to.elements()];
    let mut work = working_memory();
    let start = aligned(&mut work);
    let ((down, across), (c_row, c_column)) = (places.strides(), to.strides());
    for from in (0..m).step_by(step).rev() {
        let call = GemmCall {
            m: step.min(m - from) as i64,
            k: k as i64,
            n: m as i64,
            a: if k == 0 { a.as_ptr().cast() } else { places.row(&a, from) },
            a_row: down,
            a_column: across,
            a_rows: std::ptr::null(),
            a_columns: std::ptr::null(),
            b: a.as_ptr().cast(),
            b_row: across,
            b_column: down,
            b_rows: std::ptr::null(),
            b_columns: std::ptr::null(),
            c: c.as_mut_ptr().wrapping_add(to.at(from, 0)).cast(),
            c_row,
            c_column,
            own: if by_halves { from as i64 } else { -1 },
            accumulate: 0,
            packed: Packed::No,
            work: start,
        };
        // SAFETY: as in `product`; the calls are for all rows of the square.
        unsafe { way(&call) };
    }
    (0..m * m).map(|at| c[to.at(at / m, at % m)]).collect()
}

fn halves<T: Number>() {
    use Layout::*;
    for way in T::ways().into_iter().flatten() {
        for sizes in [[1, 5], [14, 3], [15, 0], [33, 20], [100, 600], [170, 7], [1100, 3]] {
            let whole = symmetric::<T>(way, sizes, [RowMajor; 2], sizes[0], false);
            for layouts in [[RowMajor; 2], [RowMajor, ColumnMajor], [ColumnMajor, RowMajor], [ColumnMajor; 2]] {
                for step in [1, 3, 17, sizes[0]] {
                    let halves = symmetric::<T>(way, sizes, layouts, step, true);
                    assert!(halves == whole, "{sizes:?} in {layouts:?}, {step} rows at a time");
                }
            }
        }
    }
}

#[test]
fn a_symmetric_product_is_computed_by_halves() {
    halves::<f32>();
    halves::<f64>();
}

#[test]
fn an_element_has_the_same_bits_in_every_piece() {
    pieces::<f32>();
    pieces::<f64>();
}
