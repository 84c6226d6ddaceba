//! Devices for a [`Runner`](super::Runner), and the launches that it gives to them.

use std::collections::BTreeSet;
use std::time::Duration;

use super::tensor_map::TensorMap;

/// Something that runs kernels: a GPU or an emulator.
pub trait Device {
    /// The error of a failed operation.
    type Error;
    /// A recorded sequence of launches.
    type Recording;

    /// The number of bytes that can be allocated, if known.
    fn available(&mut self) -> Result<Option<usize>, Self::Error>;
    /// The properties that plans depend on.
    fn facts(&self) -> Facts;
    /// Allocates at least `bytes` bytes of uninitialized memory, aligned to 256.
    fn allocate(&mut self, bytes: usize) -> Result<u64, Self::Error>;
    /// Frees memory, ordered after earlier launches.
    fn free(&mut self, address: u64);
    /// Copies bytes to the device, ordered after earlier launches.
    fn upload(&mut self, to: u64, bytes: &[u8]) -> Result<(), Self::Error>;
    /// Copies bytes from the device, ordered after earlier launches.
    fn download(&mut self, from: u64, bytes: &mut [u8]) -> Result<(), Self::Error>;
    /// Loads the kernels with these names. `text` is a module with exactly these.
    fn prepare(&mut self, names: &BTreeSet<&str>, text: &str) -> Result<(), Self::Error>;
    /// Launches a loaded kernel, ordered after earlier launches.
    fn launch(&mut self, launch: &Launch<'_>) -> Result<(), Self::Error>;
    /// Launches kernels one after another, waits, and returns the duration of each.
    fn timed(&mut self, launches: &[Launch<'_>]) -> Result<Vec<Duration>, Self::Error>;
    /// Records launches for replay. Each waits for the ones that `waits` has for it, by their
    /// numbers, which are lower. Returns `None` if that is no faster than launching one by one.
    fn record(&mut self, launches: &[Launch<'_>], waits: &[Vec<usize>])
    -> Result<Option<Self::Recording>, Self::Error>;
    /// Replays a recording, ordered after earlier launches.
    fn replay(&mut self, recording: &Self::Recording) -> Result<(), Self::Error>;
    /// Waits until all work is done.
    fn wait(&mut self) -> Result<(), Self::Error>;
}

/// The oldest compute capability that code requires. Newer devices run it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// Compute capability 8.0: any supported device.
    Sm80,
    /// Compute capability 9.0: devices with thread block clusters.
    Sm90,
    /// Compute capability 9.0 and no later one: devices with tensor cores for warp groups.
    Sm90a,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Target::Sm80 => "sm_80",
            Target::Sm90 => "sm_90",
            Target::Sm90a => "sm_90a",
        })
    }
}

/// The properties of a device that plans depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The largest shared memory of a block in bytes.
    pub shared: usize,
    /// The newest code that it runs.
    pub target: Target,
    /// The number of its multiprocessors. Results do not depend on it.
    pub multiprocessors: u32,
}

/// A launch of a kernel.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// The kernel's name.
    pub kernel: &'a str,
    /// The number of blocks.
    pub blocks: u32,
    /// The number of threads in a block.
    pub threads: u32,
    /// The size of the dynamic shared memory in bytes.
    pub shared: u32,
    /// The kernel's arguments.
    pub arguments: Vec<u8>,
    /// The tensor maps that follow them, each a parameter of 128 bytes.
    pub maps: Vec<TensorMap>,
    /// The memory that it accesses.
    pub accesses: Vec<Access>,
}

/// Memory that a launch accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Where it begins.
    pub address: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// Whether the launch writes there, or may.
    pub writes: bool,
}

impl Access {
    /// Whether two launches have to be one after the other because of these.
    pub(super) fn conflicts(self, other: Access) -> bool {
        let before = |a: Access, b: Access| a.address.saturating_add(a.bytes) <= b.address;
        (self.writes || other.writes) && !before(self, other) && !before(other, self)
    }
}
