//! The cost of a call in addition to its kernels: launches through the library, the first call of a
//! program, the same with its machine code in the cache folder, and transfers.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use fuseloop::{Array, Device, DeviceArray, Dtype, Gpu, Kernel, Options, Program};
use serde::Serialize;

use crate::{Error, SOURCE, compile};

#[derive(Serialize)]
pub struct Row {
    what: &'static str,
    us: f64,
    goal: Option<f64>,
}

/// Calls of a sample.
const CALLS: usize = 2000;

/// Measures all of them.
pub fn measure(gpu: &Arc<Gpu>) -> Result<Vec<Row>, Error> {
    let program = Program::parse(SOURCE)?;
    let mut rows = vec![];
    let mut row = |what, time: Duration, goal: Option<f64>| {
        let us = time.as_secs_f64() * 1e6;
        eprintln!("{what:52} {us:>10.2} us {}", goal.map_or(String::new(), |goal| format!("(goal {goal})")));
        rows.push(Row { what, us, goal });
    };
    let one = compile(&program, "chain5")?;
    let two = compile(&program, "two_kernels")?;
    row("a call of one kernel, 4096 elements", submitted(gpu, &one)?, Some(5.0));
    row("a call of two kernels, 4096 elements", submitted(gpu, &two)?, Some(10.0));
    row("a call of one kernel, waited for", waited(gpu, &one)?, None);
    row("a call on arrays of the host, 4096 elements", host(&one, 4096)?.0, None);
    let (call, phases) = host(&one, 64 << 20)?;
    row("a call on arrays of the host, 64M elements", call, None);
    row("of that, to the GPU", phases.upload, None);
    row("of that, kernels", phases.kernels, None);
    row("of that, from the GPU", phases.download, None);
    let folder = std::env::temp_dir().join(format!("bench-gpu-{}", std::process::id()));
    row("first call of a one-kernel program", first_call(gpu, &folder, 0)?, Some(50_000.0));
    row("the same with its machine code in a folder", first_call(gpu, &folder, 1)?, Some(2_000.0));
    std::fs::remove_dir_all(folder)?;
    Ok(rows)
}

fn arrays(gpu: &Arc<Gpu>) -> Result<(DeviceArray, DeviceArray), Error> {
    Ok((DeviceArray::zeros(gpu, Dtype::F32, &[4096])?, DeviceArray::zeros(gpu, Dtype::F32, &[4096])?))
}

/// Calls without waiting for each: the rate of submission.
fn submitted(gpu: &Arc<Gpu>, kernel: &Kernel) -> Result<Duration, Error> {
    let (x, mut out) = arrays(gpu)?;
    let mut best = Duration::MAX;
    for _ in 0..9 {
        gpu.wait()?;
        let start = Instant::now();
        for _ in 0..CALLS {
            kernel.call_on_gpu_into(&[&x], &mut [&mut out])?;
        }
        gpu.wait()?;
        best = best.min(start.elapsed() / u32::try_from(CALLS)?);
    }
    Ok(best)
}

/// The median of calls that are each waited for.
fn waited(gpu: &Arc<Gpu>, kernel: &Kernel) -> Result<Duration, Error> {
    let (x, mut out) = arrays(gpu)?;
    let mut times = vec![];
    for _ in 0..CALLS {
        let start = Instant::now();
        kernel.call_on_gpu_into(&[&x], &mut [&mut out])?;
        gpu.wait()?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    Ok(times[CALLS / 2])
}

/// The fastest of some calls on arrays of the host, with its parts.
fn host(kernel: &Kernel, elements: usize) -> Result<(Duration, fuseloop::Phases), Error> {
    let x = Array::zeros(Dtype::F32, &[elements])?;
    let mut out = Array::zeros(Dtype::F32, &[elements])?;
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        kernel.call_into((&x,), (&mut out,))?;
        best = best.min(start.elapsed());
    }
    let (_, phases) = kernel.call_in_phases((&x,))?;
    Ok((best, phases.ok_or("it runs on the GPU")?))
}

/// From text to the end of the first call, for a new program; or, the n-th time, for one in the
/// cache folder.
fn first_call(gpu: &Arc<Gpu>, folder: &Path, nth: usize) -> Result<Duration, Error> {
    let (x, mut out) = arrays(gpu)?;
    let options = Options { device: Device::Gpu, cache: Some(folder.to_path_buf()), ..Options::default() };
    let mut times = vec![];
    for sample in 0..7 {
        let seed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.subsec_nanos();
        let text = format!("fn main(x: f32[n]) = sigmoid(relu((x + 1) * 2) - 0.{seed:09}{sample})");
        for n in 0..=nth {
            let start = Instant::now();
            let kernel = Program::parse(text.as_str())?.main()?.compile(&options)?;
            kernel.call_on_gpu_into(&[&x], &mut [&mut out])?;
            gpu.wait()?;
            if n == nth {
                times.push(start.elapsed());
            }
        }
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}
