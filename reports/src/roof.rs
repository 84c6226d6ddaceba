//! The limits of a device: the minimum time of a kernel there, and the bottleneck.

use compiler::explain::{Figures, Report};
use serde::Serialize;

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

/// The minimum time of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Least {
    /// In microseconds.
    pub us: f64,
    /// The bottleneck: memory or arithmetic.
    pub bound: &'static str,
}

impl Roof {
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
