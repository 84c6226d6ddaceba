//! One compilation serves arrays of every shape: sizes are names in the program, and get their
//! values from the arrays of each call.
//!
//! ```sh
//! cargo run --release --example shapes
//! ```

use fuseloop::{ArrayRef, Options, Program};

/// The pairs of a smoothed series: its length depends on the window.
const SOURCE: &str = "
fn smooth(x: f32[n], window: i64) -> f32[n - window + 1] {
    let y[i < n - window + 1] = mean[k < window](x[i + k])
    y
}
fn distances(points: f32[n, d], centers: f32[m, d]) -> f32[n, m] {
    let y[i, j] = sqrt(sum[k]((points[i, k] - centers[j, k]) ^ 2))
    y
}
";

/// Calls two functions with several shapes each.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let program = Program::parse(SOURCE)?;

    let smooth = program.function("smooth")?.compile(&Options::default())?;
    for n in [4usize, 10, 100_000] {
        let series: Vec<f32> = (0..n).map(|i| (i % 3) as f32).collect();
        // The shape of the result is known before the call.
        let shape = smooth.output_shapes((&series, 3i64))?.remove(0);
        let mut out = vec![0.0f32; shape[0]];
        smooth.call_into((&series, 3i64), (&mut out,))?;
        println!("{n:>6} elements: {} means, the first is {}", out.len(), out[0]);
        assert!(out.len() == n - 2 && out.iter().all(|mean| *mean == 1.0));
    }

    let distances = program.function("distances")?.compile(&Options::default())?;
    for (n, m, d) in [(1, 1, 2), (3, 5, 2), (2, 2, 64)] {
        let (points, centers) = (vec![1.0f32; n * d], vec![2.0f32; m * d]);
        let (points_shape, centers_shape) = ([n, d], [m, d]);
        let points = ArrayRef::from_slice(&points_shape, &points)?;
        let centers = ArrayRef::from_slice(&centers_shape, &centers)?;
        let out = distances.call((points, centers))?.remove(0);
        println!("{n} points, {m} centers, {d} axes: {:?}", out.shape());
        assert_eq!(out.shape(), [n, m]);
        assert_eq!(out.as_slice::<f32>()?[0], (d as f32).sqrt());
    }
    Ok(())
}
