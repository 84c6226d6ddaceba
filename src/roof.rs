//! Measures what a device does at best.

use std::fmt::Write;
use std::time::{Duration, Instant};

use reports::roof::Roof;

use crate::bench::copy::Copies;
use crate::{Options, Program};

/// The measured figures of an H200.
const COPY: f64 = 4270.0;
const FLOPS: f64 = 63_000.0;
#[cfg(feature = "gpu")]
const MULTIPROCESSORS: f64 = 132.0;

/// This machine's GPU, measured, or the known figures of one.
pub fn of_gpu() -> Roof {
    #[cfg(feature = "gpu")]
    if let Some(roof) = measured() {
        return roof;
    }
    Roof { device: None, copy: COPY, flops: FLOPS }
}

#[cfg(feature = "gpu")]
fn measured() -> Option<Roof> {
    let gpu = crate::Gpu::get(0).ok()?;
    let (facts, ceilings) = (gpu.facts(), crate::Ceilings::measure(&gpu).ok()?);
    Some(Roof {
        copy: ceilings.copy / 1e9,
        flops: FLOPS * f64::from(facts.multiprocessors) / MULTIPROCESSORS,
        device: Some(facts.name.clone()),
    })
}

/// This machine's processor, measured. `None` if there is not enough memory for that.
pub fn of_cpu() -> Option<Roof> {
    let (flops, threads) = arithmetic()?;
    let mut copies = Copies::new(&Options::default(), None, std::iter::empty()).ok()?;
    (0..ROUNDS).try_for_each(|round| copies.measure(round > 0)).ok()?;
    let copy = copies.largest().rate()?;
    Some(Roof { device: Some(format!("this machine, threads: {threads}")), copy, flops })
}

/// How often each is measured.
const ROUNDS: usize = 6;
/// The sums of products for each element, in independent dependency chains.
const CHAINS: usize = 8;
const LINKS: usize = 16;
/// The number of elements: enough for all threads, and small enough for their caches.
const ELEMENTS: usize = 1 << 19;

/// The `f32` operations per nanosecond that our code reaches at best, and the number of threads for
/// that.
fn arithmetic() -> Option<(f64, usize)> {
    let mut text = "fn arithmetic(x: f32[n]) -> f32[n] = x".to_owned();
    for chain in 0..CHAINS {
        let links = (0..LINKS).fold("x".to_owned(), |sum, link| format!("fma({sum}, 0.5, {chain}.{link:02})"));
        // Writing to a string cannot fail.
        let _ = write!(text, " + {links}");
    }
    let kernel = Program::parse(text.as_str()).ok()?.main().ok()?.compile(&Options::default()).ok()?;
    let x = vec![1.0f32; ELEMENTS];
    let mut y = vec![0.0f32; ELEMENTS];
    let mut least = Duration::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        kernel.call_into((&x,), (&mut y,)).ok()?;
        least = least.min(start.elapsed());
    }
    let flops = ELEMENTS * CHAINS * (2 * LINKS + 1);
    Some((flops as f64 / least.as_nanos().max(1) as f64, kernel.threads()))
}
