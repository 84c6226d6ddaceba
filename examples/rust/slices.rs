//! Slices in, slices out: nothing but the standard library's types.
//!
//! ```sh
//! cargo run --release --example slices
//! ```

use fuseloop::{Array, ArrayRef, Options, Program};

/// A program with a matrix, a vector, a scalar and truth values.
const SOURCE: &str = "
fn layer(x: f32[n, k], w: f32[k, m], bias: f32[m], slope: f32) -> (y: f32[n, m], active: bool[n, m]) {
    let h = x @ w + bias
    (if h > 0 then h else slope * h, h > 0)
}
";

/// Calls the function with arrays, vectors and scalars, then into memory of its own.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let kernel = Program::parse(SOURCE)?.main()?.compile(&Options::default())?;

    // A slice with one axis is an argument as it is. More axes need a shape, and an `ArrayRef`
    // borrows the elements for that.
    let x = [1.0f32, 2.0, 3.0, -1.0, -2.0, -3.0];
    let w = vec![0.5f32, -0.5, 0.25, 1.0, -1.0, 0.5];
    let bias = [0.0f32, 0.125];
    let x = ArrayRef::from_slice(&[2, 3], &x)?;
    let w = ArrayRef::from_slice(&[3, 2], &w)?;
    let results = kernel.call((x, w, &bias, 0.1f32))?;
    println!("y      = {:?}", results[0].as_slice::<f32>()?);
    println!("active = {:?}", results[1].as_slice::<bool>()?);
    assert_eq!(results[0].shape(), [2, 2]);
    assert_eq!(results[1].as_slice::<bool>()?, [false, true, true, false]);

    // Results can be written to memory that is already there, and nothing is allocated for them.
    let mut y = Array::from_slice(&[2, 2], &[0.0f32; 4])?;
    let mut active = Array::from_slice(&[2, 2], &[false; 4])?;
    kernel.call_into((x, w, &bias, 0.1f32), (&mut y, &mut active))?;
    assert_eq!([y, active], *results);
    Ok(())
}
