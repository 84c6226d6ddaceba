//! Settings and times of GPUs that also have a meaning in builds without code for GPUs.

use std::time::Duration;

/// How exactly functions are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Math {
    /// Bit for bit as on every engine.
    #[default]
    Exact,
    /// Contractions round their `f32` factors to TF32 (11 significant bits), so that tensor cores
    /// can multiply them. Loops over rows of products in 16-bit floats add up in any order, and
    /// take the device's exponential.
    Fast,
}

/// The durations of the phases of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// Assembling kernels that were not loaded yet.
    pub assemble: Duration,
    /// Copying inputs to the device.
    pub upload: Duration,
    /// The kernels.
    pub kernels: Duration,
    /// Copying results from the device.
    pub download: Duration,
}
