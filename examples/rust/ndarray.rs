//! Arrays and views of the crate `ndarray`, in and out.
//!
//! ```sh
//! cargo run --release --features ndarray --example ndarray
//! ```

use fuseloop::{Options, Program};
use ndarray::{Array2, Axis, array, s};

/// Each row with mean 0 and variance 1.
const SOURCE: &str = "
fn standardized(x: f64[n, m]) -> f64[n, m] {
    let y[i] = (x[i] - mean(x[i])) / sqrt(mean((x[i] - mean(x[i])) ^ 2))
    y
}
";

/// Calls with whole arrays, with parts of them and transposed, and writes to an array.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let kernel = Program::parse(SOURCE)?.main()?.compile(&Options::default())?;
    let x = array![[1.0, 3.0, 5.0, 7.0], [2.0, 2.0, 4.0, 4.0], [0.0, 1.0, 0.0, 1.0]];

    // An array in standard layout is not copied, and neither is a view of some of its rows. The
    // result is viewed as an array of `ndarray` without a copy either.
    let results = kernel.call((&x,))?;
    let y = results[0].view::<f64>()?.into_dimensionality::<ndarray::Ix2>()?;
    println!("{y:.3}");
    assert_eq!(y.row(1), array![-1.0, -1.0, 1.0, 1.0]);
    assert_eq!(kernel.call((x.slice(s![1.., ..]),))?[0].view::<f64>()?, y.slice(s![1.., ..]).into_dyn());

    // Any other view, such as a transposed one, is copied in row-major order for the call.
    let columns = kernel.call((x.t(),))?;
    let z = columns[0].view::<f64>()?;
    assert!(z.shape() == [4, 3] && z.sum_axis(Axis(1)).iter().all(|sum| sum.abs() < 1e-9));

    // Results are written to arrays in standard layout.
    let mut out = Array2::<f64>::zeros((3, 4));
    kernel.call_into((&x,), (&mut out,))?;
    assert_eq!(out, y);
    let mut turned = Array2::<f64>::zeros((4, 3)).reversed_axes();
    println!("{}", kernel.call_into((&x,), (&mut turned,)).unwrap_err());
    Ok(())
}
