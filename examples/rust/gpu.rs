//! Arrays that stay on a GPU: tuples of arguments, arguments by name, and results written to the
//! same memory each time.
//!
//! ```sh
//! cargo run --release --example gpu
//! ```

use fuseloop::{Array, Device, DeviceArray, Dtype, Gpu, Options, Program};

/// A step of k-means on numbers.
const SOURCE: &str = "
fn step(x: f32[n], centre: f32[k]) -> (centre: f32[k], count: i64[k]) {
    let near[i] = argmin[c](abs(x[i] - centre[c]))
    let count[c < k] = sum[i where near[i] == c](1)
    let total[c < k] = sum[i where near[i] == c](x[i])
    let mean[c] = if count[c] > 0 then total[c] / f32(count[c]) else centre[c]
    (mean, count)
}
fn spread(x: f32[n], centre: f32[k]) = mean[i](min[c]((x[i] - centre[c]) ^ 2))
";

/// Finds the centres of some numbers.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Ok(gpu) = Gpu::get(0) else {
        println!("There is no GPU.");
        return Ok(());
    };
    let program = Program::parse(SOURCE)?;
    let on_gpu = Options { device: Device::Gpu, ..Options::default() };
    let (step, spread) = (program.function("step")?.compile(&on_gpu)?, program.function("spread")?.compile(&on_gpu)?);

    let x = Array::from((0..100_000).map(|i| (i % 7 * 10) as f32 + (i % 11) as f32 * 0.1).collect::<Vec<_>>());
    let first = Array::from(vec![0.0f32, 25.0, 70.0]);
    let (numbers, mut centre) = (DeviceArray::upload(&gpu, x.as_ref())?, DeviceArray::upload(&gpu, first.as_ref())?);

    // Two arrays for the centres take turns; nothing comes back to the host between the steps.
    let mut next = DeviceArray::new(&gpu, Dtype::F32, &[3])?;
    let mut count = DeviceArray::new(&gpu, Dtype::I64, &[3])?;
    for _ in 0..8 {
        step.call_on_gpu_into((&numbers, &centre), (&mut next, &mut count))?;
        std::mem::swap(&mut centre, &mut next);
    }
    let found = spread.call_on_gpu_named(&[("centre", &centre), ("x", &numbers)])?;
    println!("centres {:?}", centre.download()?.as_slice::<f32>()?);
    println!("counts  {:?}", count.download()?.as_slice::<i64>()?);
    println!("spread  {:?}", found[0].download()?.as_slice::<f32>()?);

    // The CPU gives the same bits.
    let step = program.function("step")?.compile(&Options::default())?;
    let mut same = first;
    for _ in 0..8 {
        same = step.call((&x, &same))?.swap_remove(0);
    }
    assert_eq!(same.as_slice::<f32>()?, centre.download()?.as_slice::<f32>()?);
    Ok(())
}
