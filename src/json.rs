//! The command's results as JSON for programs: one object per line, beginning with its `type`.
//! `docs/json.md` lists the fields.
//!
//! ```
//! use fuseloop::{Array, json};
//!
//! let line = json::result("out", Array::from(vec![1i32, 2]).as_ref(), None);
//! assert!(line.contains(r#""dtype":"i32","shape":[2],"values":[1,2]"#), "{line}");
//! ```

use std::time::Duration;

use crate::{Phases, Times};

pub use reports::json::{MAX_VALUES, cpu, diagnostic, result, signature};

/// The seconds of each stage, and for a call on a GPU also those of its parts.
pub fn times(times: Times, run: Duration, phases: Option<Phases>) -> String {
    let Times { parse, check, lower, compile } = times;
    let mut stages = vec![("parse", parse), ("check", check), ("lower", lower), ("compile", compile), ("run", run)];
    if let Some(Phases { assemble, upload, kernels, download }) = phases {
        stages.extend([("assemble", assemble), ("upload", upload), ("kernels", kernels), ("download", download)]);
    }
    reports::json::times(&stages)
}

/// A GPU.
#[cfg(feature = "gpu")]
pub fn gpu(facts: &crate::Facts) -> String {
    let crate::Facts { number, name, capability: (major, minor), memory, multiprocessors, cache, driver } = facts;
    reports::json::gpu(&reports::json::Gpu {
        number: *number,
        name,
        capability: [*major, *minor],
        memory: *memory,
        multiprocessors: *multiprocessors,
        cache: *cache,
        cuda: [driver / 1000, driver % 1000 / 10],
    })
}
