//! The limits of a device: the minimum time of a kernel there, and the bottleneck.

use std::fmt::Write;
use std::time::{Duration, Instant};

use backends::cuda::{Ceilings, Gpu};
use compiler::explain::{Figures, Report};
use ir::array::Array;
use ir::{Dtype, Scalar};
use serde::Serialize;

use crate::bench::copy::Copies;
use crate::{Options, Program};

/// The limits of a device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Roof {
    /// Its name. For a GPU only if there is one; otherwise the figures are an H200's.
    pub device: Option<String>,
    /// The bytes that it copies in a nanosecond, measured if there is such a device.
    pub copy: f64,
    /// Floating-point operations per nanosecond, with `fma` counted twice.
    pub flops: f64,
}

/// The measured figures of an H200.
const COPY: f64 = 4270.0;
const FLOPS: f64 = 63_000.0;
const MULTIPROCESSORS: f64 = 132.0;

/// The minimum time of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Least {
    /// In microseconds.
    pub us: f64,
    /// The bottleneck: memory or arithmetic.
    pub bound: &'static str,
}

impl Roof {
    /// This machine's GPU, measured, or the known figures of one.
    pub fn here() -> Roof {
        let measured = Gpu::get(0).ok().and_then(|gpu| Some((gpu.facts(), Ceilings::measure(&gpu).ok()?)));
        match measured {
            Some((facts, ceilings)) => Roof {
                copy: ceilings.copy / 1e9,
                flops: FLOPS * f64::from(facts.multiprocessors) / MULTIPROCESSORS,
                device: Some(facts.name),
            },
            None => Roof { device: None, copy: COPY, flops: FLOPS },
        }
    }

    /// This machine's processor, measured. `None` if there is not enough memory for that.
    pub fn of_cpu() -> Option<Roof> {
        let (flops, threads) = arithmetic()?;
        let mut copies = Copies::new(&Options::default(), None, std::iter::empty()).ok()?;
        (0..ROUNDS).try_for_each(|round| copies.measure(round > 0)).ok()?;
        let copy = copies.largest().rate()?;
        Some(Roof { device: Some(format!("this machine, threads: {threads}")), copy, flops })
    }

    /// The attainable operations per nanosecond at an intensity in operations per byte.
    pub fn at(&self, intensity: f64) -> f64 {
        (intensity * self.copy).min(self.flops)
    }

    /// The minimum time of a kernel, if its sizes are known.
    pub fn least(&self, figures: &Figures) -> Option<Least> {
        let moving = figures.bytes.value? as f64 / self.copy / 1e3;
        let computing = figures.operations.value? as f64 / self.flops / 1e3;
        Some(if computing > moving {
            Least { us: computing, bound: "arithmetic" }
        } else {
            Least { us: moving, bound: "memory" }
        })
    }

    /// The same for each kernel of a report, in words.
    pub fn lines(&self, report: &Report) -> Vec<String> {
        let name = self.device.as_deref().unwrap_or("an H200");
        let head = format!("on {name}, {:.0} GB/s and {:.0} GFLOP/s at best:", self.copy, self.flops);
        let kernel = |(k, least): (usize, Option<Least>)| match least {
            Some(Least { us, bound }) => format!("  kernel {} takes at least {us:.1} us, for {bound}", k + 1),
            None => format!("  kernel {} takes as long as its sizes say", k + 1),
        };
        let kernels = report.after.kernels.iter().map(|kernel| self.least(&kernel.figures)).enumerate();
        std::iter::once(head).chain(kernels.map(kernel)).collect()
    }
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
    let x = Array::from_scalars(Dtype::F32, &[ELEMENTS], &vec![Scalar::F32(1.0); ELEMENTS]).ok()?;
    let mut y = Array::zeros(Dtype::F32, &[ELEMENTS]).ok()?;
    let mut least = Duration::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        kernel.call_into(&[x.as_ref()], &mut [y.as_mut()]).ok()?;
        least = least.min(start.elapsed());
    }
    let flops = ELEMENTS * CHAINS * (2 * LINKS + 1);
    Some((flops as f64 / least.as_nanos().max(1) as f64, kernel.threads()))
}
