//! How a host launches the kernels of a function, as JSON.

use std::collections::BTreeMap;

use compiler::check::{Signature, Slot};
use serde::Serialize;
use serde_json::json;

/// The launches of a function's kernels for given sizes. All memory is device memory; docs/gpu.md
/// explains what a host does with this.
#[derive(Debug, Serialize)]
pub struct Launches {
    /// The function.
    pub function: String,
    /// The PTX target.
    pub target: String,
    /// The sizes that the description is for.
    pub sizes: BTreeMap<String, i64>,
    /// Its parameters, in order.
    pub parameters: Vec<Array>,
    /// Its results, in order.
    pub results: Vec<Array>,
    /// The memory that its kernels share.
    pub scratch: Scratch,
    /// The launches, in order.
    pub launches: Vec<Launch>,
    /// Where a failed bounds check is recorded, if there is any check.
    pub check: Option<Check>,
}

/// An array that the host provides in device memory. Scalars are arrays without axes.
#[derive(Debug, Serialize)]
pub struct Array {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub dtype: &'static str,
    /// The length of each axis.
    pub shape: Vec<usize>,
    /// How many bytes it takes.
    pub bytes: usize,
}

/// Memory that the kernels share, aligned to 256 bytes. It need not be initialized except as
/// `contents` says.
#[derive(Debug, Serialize)]
pub struct Scratch {
    /// How many bytes it takes.
    pub bytes: usize,
    /// The bytes that the host writes to it before the first launch.
    pub contents: Vec<Contents>,
}

/// Bytes of the scratch memory.
#[derive(Debug, Serialize)]
pub struct Contents {
    /// Where they lie in it.
    pub at: usize,
    /// Two hexadecimal digits per byte.
    pub hex: String,
}

/// One launch; they run in order.
#[derive(Debug, Serialize)]
pub struct Launch {
    /// The entry of the PTX module.
    pub kernel: String,
    /// Blocks along each axis.
    pub grid: [u32; 3],
    /// Threads of a block along each axis.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: usize,
    /// The 64-bit words of the block of memory that is the kernel's one parameter.
    pub arguments: Vec<Argument>,
}

/// A 64-bit word that a kernel takes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Argument {
    /// This number.
    Number(u64),
    /// The address at this offset in bytes into the scratch memory.
    Scratch(usize),
    /// The address of that parameter.
    Parameter(String),
    /// The address of that result.
    Result(String),
}

/// Where a failed bounds check is recorded: three 64-bit words in the scratch memory. The low half
/// of the first is 0 if no check failed, else the number of a site, from 1; the others are the
/// subscript and its bound.
#[derive(Debug, Serialize)]
pub struct Check {
    /// Where it is in the scratch memory.
    pub at: usize,
    /// The access of each site, in words.
    pub sites: Vec<String>,
}

impl Launches {
    /// The description.
    pub fn to_json(&self) -> String {
        // The fields are only text and numbers, so this cannot fail.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

/// The description without sizes: only the function's parameters and results.
pub fn without_sizes(signature: &Signature, target: &str) -> String {
    let array = |slot: &Slot| json!({ "name": slot.name, "dtype": slot.dtype.name(), "shape": slot.shape });
    let slots = |slots: &[Slot]| slots.iter().map(array).collect::<Vec<_>>();
    let described = json!({
        "function": signature.name,
        "target": target,
        "sizes": null,
        "parameters": slots(&signature.params),
        "results": slots(&signature.results),
        "launches": null,
    });
    format!("{described:#}\n")
}
