//! The roofline of a GPU: how long a kernel takes there at least, and what keeps it from being faster.

use backends::cuda::{Ceilings, Gpu};
use compiler::explain::{Figures, Report};
use serde::Serialize;

/// What a GPU does at best.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Roof {
    /// Its name, if it is there; otherwise the figures are an H200's.
    pub device: Option<String>,
    /// Bytes that it copies in a nanosecond: measured, if it is there.
    pub copy: f64,
    /// Floating-point operations, fused ones counted twice, in a nanosecond.
    pub flops: f64,
}

/// An H200: measured.
const COPY: f64 = 4270.0;
const FLOPS: f64 = 63_000.0;
const MULTIPROCESSORS: f64 = 132.0;

/// How long a kernel takes at least.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Least {
    /// In microseconds.
    pub us: f64,
    /// By memory or by arithmetic.
    pub bound: &'static str,
}

impl Roof {
    /// This machine's GPU, measured, or what is known of one.
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

    /// How long a kernel takes at least, if its sizes are known.
    pub fn least(&self, figures: &Figures) -> Option<Least> {
        let moving = figures.bytes.value? as f64 / self.copy / 1e3;
        let computing = figures.flops / self.flops / 1e3;
        Some(if computing > moving {
            Least { us: computing, bound: "arithmetic" }
        } else {
            Least { us: moving, bound: "memory" }
        })
    }

    /// The same of each kernel of a report, in words.
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
