//! Computes the softmax of the rows of a matrix by a function of Fuseloop's. From the root of the
//! repository:
//!
//! ```sh
//! fuseloop build examples/softmax.fl --emit obj -o target/embed
//! rustc -O -C link-arg=target/embed/softmax.o -o target/embed/embed-rust examples/embed-rust/embed.rs
//! target/embed/embed-rust 3 5
//! ```
//!
//! prints what `fuseloop run examples/softmax.fl --fn softmax_rows x=arange:3x5` computes, bit for
//! bit.

use std::ffi::{CStr, c_char, c_void};

#[repr(C)]
#[derive(Default)]
struct Numbers {
    found: i64,
    wanted: i64,
}

#[repr(C)]
#[derive(Default)]
struct Needs {
    scratch: i64,
    out: [i64; 2],
}

// As in `softmax.h`.
unsafe extern "C" {
    fn fl_softmax_rows_query(n: i64, m: i64, needs: *mut Needs, numbers: *mut Numbers) -> i32;
    fn fl_softmax_rows(
        n: i64,
        m: i64,
        x: *const f32,
        out: *mut f32,
        scratch: *mut c_void,
        scratch_bytes: i64,
        numbers: *mut Numbers,
    ) -> i32;
    fn fl_softmax_rows_error(status: i32) -> *const c_char;
}

/// The softmax of each of `n` rows of `x`.
fn softmax_rows(n: usize, x: &[f32]) -> Result<Vec<f32>, String> {
    let m = x.len() / n.max(1);
    assert_eq!(n * m, x.len(), "rows of equal length");
    let (mut needs, mut numbers) = (Needs::default(), Numbers::default());
    // SAFETY: both are there to be written to.
    let status = unsafe { fl_softmax_rows_query(n as i64, m as i64, &mut needs, &mut numbers) };
    let mut out = vec![];
    let status = if status == 0 {
        out.resize((needs.out[0] * needs.out[1]) as usize, 0.0);
        let mut scratch = vec![0u8; needs.scratch as usize];
        // SAFETY: `x` has `n * m` elements, `out` and `scratch` are as long as the query said, and
        // none overlaps another.
        unsafe {
            let memory = scratch.as_mut_ptr().cast();
            fl_softmax_rows(n as i64, m as i64, x.as_ptr(), out.as_mut_ptr(), memory, needs.scratch, &mut numbers)
        }
    } else {
        status
    };
    if status == 0 {
        return Ok(out);
    }
    // SAFETY: the text is a constant that ends in a 0.
    let text = unsafe { CStr::from_ptr(fl_softmax_rows_error(status)) };
    Err(format!("{}: found {}, wanted {}", text.to_string_lossy(), numbers.found, numbers.wanted))
}

fn main() -> Result<(), String> {
    let mut sizes = std::env::args().skip(1).map(|size| size.parse().map_err(|_| format!("not a size: {size}")));
    let (n, m): (usize, usize) = (sizes.next().unwrap_or(Ok(3))?, sizes.next().unwrap_or(Ok(5))?);
    let x: Vec<f32> = (0..n * m).map(|i| i as f32).collect();
    softmax_rows(n, &x)?.iter().for_each(|y| println!("{y}"));
    Ok(())
}
