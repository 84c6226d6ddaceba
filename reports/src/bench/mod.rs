//! The measured gain from fusion.

pub(crate) mod text;

use std::fmt;
use std::time::Duration;

use ir::decision::Passes;

use crate::page;
use crate::roof::Roof;

/// The measurements. Their `Display` is a table for people.
#[derive(Clone, Debug)]
pub struct Benchmark {
    /// The function.
    pub function: String,
    /// The value of each size name.
    pub sizes: Vec<(String, i64)>,
    /// The number of threads.
    pub threads: usize,
    /// The GPU, if it ran on one.
    pub gpu: Option<String>,
    /// The passes that merged kernels.
    pub fuse: Passes,
    /// The number of measurements of each.
    pub rounds: usize,
    /// Bytes of the inputs and results.
    pub working_set: u64,
    /// A copy of arrays larger than the caches: the bytes that it reads and writes, and its time.
    pub copy: Measured,
    /// Without fusion.
    pub unfused: Measurement,
    /// With fusion.
    pub fused: Measurement,
    /// Whether fusion made a difference.
    pub difference: Difference,
    /// Measures what the device does at best, which takes part of a second: only the page asks.
    pub roof: fn() -> Option<Roof>,
}

/// How the fused function compares to the unfused one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// Both are the same program, which was measured once.
    Same,
    /// The difference is within noise: the interquartile ranges overlap.
    None,
    /// It is faster.
    Faster,
    /// It is slower.
    Slower,
}

impl Difference {
    /// Compares two measurements by their quartiles.
    pub fn between(unfused: (Duration, Duration), fused: (Duration, Duration)) -> Difference {
        if fused.1 < unfused.0 {
            Difference::Faster
        } else if unfused.1 < fused.0 {
            Difference::Slower
        } else {
            Difference::None
        }
    }

    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Difference::Same => "same",
            Difference::None => "none",
            Difference::Faster => "faster",
            Difference::Slower => "slower",
        }
    }
}

/// The measurements of one form of the function.
#[derive(Clone, Debug, Default)]
pub struct Measurement {
    /// Each kernel, in the order they run.
    pub kernels: Vec<Measured>,
    /// The whole call.
    pub total: Measured,
}

/// A measured time.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Its name.
    pub title: String,
    /// Bytes that cross between memory and caches, for kernels by the cost model.
    pub bytes: Option<u64>,
    /// Scalar operations; an upper bound if they depend on data, and 0 if unknown.
    pub operations: u64,
    /// The median.
    pub time: Duration,
    /// The quartiles: half of the rounds are between them.
    pub quartiles: (Duration, Duration),
    /// The rate of a copy that moves about as many bytes, in bytes per nanosecond.
    pub copy_rate: Option<f64>,
    /// Whether the arrays of that copy are in cache.
    pub in_cache: bool,
}

impl Measured {
    /// The median and the quartiles of times of something that moves and computes this much.
    pub fn new(
        title: impl Into<String>,
        (bytes, operations): (Option<u64>, u64),
        mut times: Vec<Duration>,
    ) -> Measured {
        times.sort_unstable();
        let at = |part: usize| times.get((times.len() - 1) * part / 4).copied().unwrap_or_default();
        let quartiles = (at(1), at(3));
        Measured { title: title.into(), bytes, operations, time: at(2), quartiles, copy_rate: None, in_cache: false }
    }

    /// The rate relative to that of a copy that moves about as many bytes.
    pub fn share(&self) -> Option<f64> {
        Some(self.rate()? / self.copy_rate?)
    }

    /// Bytes in a nanosecond, that is, gigabytes in a second.
    pub fn rate(&self) -> Option<f64> {
        Some(self.bytes? as f64 / self.time.as_nanos().max(1) as f64)
    }
}

impl Benchmark {
    /// The time of the fused function, relative to that of the unfused one.
    pub fn ratio(&self) -> f64 {
        self.fused.total.time.as_secs_f64() / self.unfused.total.time.as_secs_f64().max(1e-9)
    }

    /// The measurements as a self-contained HTML page, with this machine's roofline.
    pub fn to_html(&self) -> String {
        page::bench(self, (self.roof)().as_ref())
    }

    /// The measurements for programs, as one line with the fields listed in `docs/json.md`.
    pub fn to_json(&self) -> String {
        text::json(self)
    }
}

impl fmt::Display for Benchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::text(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_quartiles_are_no_difference() {
        let between = |a: [u64; 2], b: [u64; 2]| {
            let [a, b] = [a, b].map(|[low, high]| (Duration::from_micros(low), Duration::from_micros(high)));
            Difference::between(a, b)
        };
        assert_eq!(between([10, 12], [8, 9]), Difference::Faster);
        assert_eq!(between([10, 12], [8, 10]), Difference::None);
        assert_eq!(between([10, 12], [11, 20]), Difference::None);
        assert_eq!(between([10, 12], [5, 30]), Difference::None);
        assert_eq!(between([10, 12], [13, 14]), Difference::Slower);
    }
}
