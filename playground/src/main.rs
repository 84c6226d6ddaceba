//! The playground's compiler: it reads one request from standard input, as JSON, and writes what
//! the page shows to standard output, an object a line.
//!
//! The page runs it as a WASI command, from the start for each request. So no request sees memory
//! of another one, and one that fails, or that is stopped, ends nothing else.

mod answer;
#[cfg(any(test, target_family = "wasm"))]
mod blocks;
mod machines;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use serde::Deserialize;

/// Compiling allocates much, and the allocator of the standard library is slow there.
#[cfg(target_family = "wasm")]
#[global_allocator]
static ALLOCATOR: blocks::Blocks<rlsf::SmallGlobalTlsf> = blocks::Blocks::new(rlsf::SmallGlobalTlsf::new());

/// A request of the page.
#[derive(Debug, Deserialize)]
struct Request {
    /// The program.
    source: String,
    /// The function that it is about; if there is none of the name, `main` or the last one.
    function: Option<String>,
    /// Lengths for the report, by the names of sizes; `null` leaves formulas.
    #[serde(default)]
    sizes: BTreeMap<String, Option<i64>>,
    /// Arguments, by the names of parameters, in the forms that the command line takes. The page
    /// brings the files that they name.
    #[serde(default)]
    arguments: BTreeMap<String, String>,
    /// The machine of the roofline.
    machine: Option<String>,
    /// The kind of answer.
    want: Want,
}

/// A kind of answer. Errors and warnings come with each but the report, which does not wait for
/// the check of other functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Want {
    /// Nothing more.
    Check,
    /// The report on fusion, as a part of a page.
    Report,
    /// The results of a call.
    Results,
    /// The loop nests after fusion.
    Nests,
    /// The parts that kernels run in.
    Schedule,
    /// The derivative of the function, as a program.
    Derivative,
    /// The program in the one style.
    Format,
}

fn main() -> io::Result<()> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    let request: Request = serde_json::from_str(&text)?;
    let mut lines = answer::lines(&request).join("\n");
    lines.push('\n');
    io::stdout().write_all(lines.as_bytes())
}
