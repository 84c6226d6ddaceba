//! Fuseloop on a GPU: `bench-gpu [NAME...]` measures each workload (or those whose names contain
//! one of these) in one run with the memory's ceilings, and prints a table on standard error and a
//! JSON document on standard output.
//!
//! Kernels are timed by the device's clock, as graphs of calls that take turns on arrays that
//! together exceed three times the L2 cache. So no call finds its data in the cache, and no launch
//! from the host is counted. Latencies are measured by the host's clock.

#![forbid(unsafe_code)]

mod latency;
mod workloads;

use std::sync::Arc;
use std::time::Duration;

use fuseloop::{Array, Ceilings, Device, DeviceArray, Dtype, Facts, Gpu, Kernel, Options, Program, Scalar};
use serde::Serialize;

use workloads::{Draw, Held, WORKLOADS, Workload};

/// Anything that goes wrong.
pub type Error = Box<dyn std::error::Error>;

/// The programs of all workloads.
pub const SOURCE: &str = concat!(include_str!("../../workloads.fl"), include_str!("../workloads.fl"));

/// The arrays of all calls in a recording are this many times as large as the L2 cache.
const CACHES: usize = 3;
/// The maximum number of calls in a recording, and the minimum time of a sample.
const MOST_CALLS: usize = 256;
const SAMPLE: Duration = Duration::from_millis(10);
const SAMPLES: usize = 7;
/// One sample is enough for calls that take longer than this.
const SLOW: Duration = Duration::from_millis(300);

#[derive(Serialize)]
struct Report {
    device: String,
    driver: i32,
    /// GB/s.
    copy: f64,
    read: f64,
    workloads: Vec<Row>,
    latencies: Vec<latency::Row>,
}

/// A workload of one size.
#[derive(Serialize)]
struct Row {
    name: &'static str,
    sizes: Vec<(&'static str, i64)>,
    kernels: usize,
    /// Each input once and each result once.
    bytes: usize,
    /// How many calls took turns.
    calls: usize,
    /// Microseconds per call: the median of the samples, the minimum and the maximum.
    us: [f64; 3],
    /// GB/s, or for products GFLOP/s, and its share of the workload's ceiling.
    rate: f64,
    ceiling: &'static str,
    share: f64,
    /// The share that it is to reach.
    goal: Option<f64>,
}

fn main() -> Result<(), Error> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str()));
    let gpu = Gpu::get(0)?;
    let facts = gpu.facts();
    let ceilings = Ceilings::measure(&gpu)?;
    let (copy, read) = (ceilings.copy / 1e9, ceilings.read / 1e9);
    eprintln!("{}: copies {copy:.0} GB/s, reads {read:.0} GB/s", facts.name);
    eprintln!("{:24} {:>18} {:>3} {:>10} {:>8} {:>6} {:>5}", "workload", "sizes", "k", "us", "GB/s", "share", "goal");
    let program = Program::parse(SOURCE)?;
    let mut report =
        Report { device: facts.name.clone(), driver: facts.driver, copy, read, workloads: vec![], latencies: vec![] };
    for workload in WORKLOADS.iter().filter(|workload| is_wanted(workload.name)) {
        for sizes in workload.sizes {
            match measure(&gpu, facts, ceilings, &program, workload, sizes) {
                Ok(row) => {
                    let sizes: Vec<String> = sizes.iter().map(|(_, n)| n.to_string()).collect();
                    let goal = row.goal.map_or(String::new(), |goal| format!("{goal:.2}"));
                    let Row { name, kernels, us, rate, share, .. } = &row;
                    eprintln!(
                        "{name:24} {:>18} {kernels:>3} {:>10.1} {rate:>8.0} {share:>6.3} {goal:>5}",
                        sizes.join("x"),
                        us[0]
                    );
                    report.workloads.push(row);
                }
                Err(error) => eprintln!("{:24} {sizes:?}: {error}", workload.name),
            }
        }
    }
    if is_wanted("latency") {
        report.latencies = latency::measure(&gpu)?;
    }
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}

/// A function on the GPU.
pub fn compile(program: &Program, function: &str) -> Result<Kernel, Error> {
    let options = Options { device: Device::Gpu, ..Options::default() };
    Ok(program.function(function)?.compile(&options)?)
}

/// A function called on numbers: what draws inputs.
fn drawn(gpu: &Arc<Gpu>, program: &Program, function: &str, numbers: &[i64]) -> Result<DeviceArray, Error> {
    let numbers: Result<Vec<_>, _> =
        numbers.iter().map(|n| DeviceArray::upload(gpu, Array::scalar(Scalar::I64(*n)).as_ref())).collect();
    let results = compile(program, function)?.call_on_gpu(&numbers?.iter().collect::<Vec<_>>())?;
    results.into_iter().next().ok_or_else(|| "it has a result".into())
}

/// The inputs of a call.
pub fn inputs(
    gpu: &Arc<Gpu>,
    program: &Program,
    workload: &Workload,
    sizes: &[(&str, i64)],
    seed: i64,
) -> Result<Vec<DeviceArray>, Error> {
    let signature = program.function(workload.function)?.signature();
    let mut arrays = vec![];
    for (k, slot) in signature.params.iter().enumerate() {
        let length =
            |axis: &String| sizes.iter().find(|(name, _)| name == axis).map(|(_, n)| *n).ok_or("an unknown size");
        let shape: Vec<i64> = slot.shape.iter().map(length).collect::<Result<_, _>>()?;
        let seed = seed * 16 + i64::try_from(k)?;
        arrays.push(match (slot.dtype, shape.as_slice(), workload.draw) {
            (Dtype::F32, [n], Draw::Normal) => drawn(gpu, program, "draw_normal", &[*n, seed])?,
            (Dtype::F32, [n, m], Draw::Normal) => drawn(gpu, program, "draw_normals", &[*n, *m, seed])?,
            (Dtype::F32, [n], Draw::Positive) => drawn(gpu, program, "draw_uniform", &[*n, seed])?,
            (Dtype::Bf16, [n, m], _) => drawn(gpu, program, "draw_narrow", &[*n, *m, seed])?,
            (Dtype::Bf16, [h, n, m], _) => drawn(gpu, program, "draw_heads", &[*h, *n, *m, seed])?,
            (Dtype::I32, [n], _) => {
                let below = sizes.last().ok_or("it has sizes")?.1;
                drawn(gpu, program, "draw_labels", &[*n, below, seed])?
            }
            _ => return Err(format!("nothing draws {}", slot.ty()).into()),
        });
    }
    Ok(arrays)
}

fn measure(
    gpu: &Arc<Gpu>,
    facts: &Facts,
    ceilings: Ceilings,
    program: &Program,
    workload: &Workload,
    sizes: &[(&'static str, i64)],
) -> Result<Row, Error> {
    let kernel = compile(program, workload.function)?;
    let first = inputs(gpu, program, workload, sizes, 0)?;
    let results = kernel.call_on_gpu(&first.iter().collect::<Vec<_>>())?;
    let bytes: usize = first.iter().chain(&results).map(DeviceArray::bytes).sum();
    let cache = CACHES * usize::try_from(facts.cache)?;
    let count = cache.div_ceil(bytes.max(1)).clamp(1, MOST_CALLS);
    let mut calls = vec![(first, results)];
    for n in 1..count {
        let inputs = inputs(gpu, program, workload, sizes, i64::try_from(n)?)?;
        let results = kernel.call_on_gpu(&inputs.iter().collect::<Vec<_>>())?;
        calls.push((inputs, results));
    }
    let replay = kernel.record(calls)?;
    let once = replay.time(1)?;
    let times = usize::try_from(SAMPLE.as_nanos() / once.as_nanos().max(1))?.max(1);
    let mut us = vec![];
    for _ in 0..if once > SLOW { 1 } else { SAMPLES } {
        us.push(replay.time(times)?.as_secs_f64() * 1e6 / (times * count) as f64);
    }
    us.sort_by(f64::total_cmp);
    let us = [us[us.len() / 2], us[0], us[us.len() - 1]];
    let (ceiling, most, work) = match workload.held {
        Held::Copy => ("copy", ceilings.copy, bytes as f64),
        Held::Read => ("read", ceilings.read, bytes as f64),
        Held::Products(most) => ("cuBLAS", most, sizes.iter().fold(2.0, |work, (_, n)| work * *n as f64)),
        Held::Attention(most) => ("cuDNN", most, sizes.iter().fold(4.0, |work, (_, n)| work * *n as f64)),
    };
    let rate = work / us[0] / 1e3;
    let kernels = program.function(workload.function)?.explain(&Options::default(), &[])?.kernels_after();
    let share = rate * 1e9 / most;
    let (name, sizes, goal) = (workload.name, sizes.to_vec(), workload.goal(sizes));
    Ok(Row { name, sizes, kernels, bytes, calls: count, us, rate, ceiling, share, goal })
}
