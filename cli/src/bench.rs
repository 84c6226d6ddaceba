//! `fuseloop bench`: what fusion gains, measured.

use std::io::Write;

use fuseloop::{BenchError, ExplainError, Options};
use indicatif::{ProgressBar, ProgressStyle};

use crate::arguments::{self, SimdName, Subject};
use crate::failure::{Failure, Format};

/// Measures a function with fusion and without, kernel by kernel.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Both are called in turn on the same drawn arrays, with a copy of large arrays between. A size that is not given is
chosen so that inputs and results take up to 256 MB.

Example: fuseloop bench examples/softmax.fl --fn softmax_rows n=4096 m=1000"
)]
pub struct Arguments {
    #[command(flatten)]
    subject: Subject,
    /// How wide the CPU's vectors are, in bits
    #[arg(long, value_enum, default_value_t)]
    simd: SimdName,
    /// How many threads may work on it [default: as many as the machine has]
    #[arg(long, value_name = "N")]
    threads: Option<u16>,
    /// For whom measurements and errors are written
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Steps of the progress bar.
const STEPS: u64 = 1000;

/// Runs the command.
pub fn run(arguments: &Arguments, stdout: &mut impl Write) -> Result<(), Failure> {
    let Subject { file, sizes, function, fuse } = &arguments.subject;
    let program = arguments::program(file)?;
    let function = arguments::function(&program, function.as_deref())?;
    let sizes = arguments::sizes(sizes)?;
    let threads = arguments.threads.map_or(0, usize::from);
    let options = Options { fuse: *fuse, simd: arguments.simd.here()?, threads, ..Options::default() };
    // On standard error, and only if that is a terminal.
    let bar = ProgressBar::new(STEPS);
    let style = ProgressStyle::with_template("{msg} {wide_bar} {percent:>3} %");
    bar.set_style(style.map_err(|e| Failure::Wrong(e.to_string()))?);
    bar.set_message("measuring");
    let done = function.bench(&options, &sizes, &mut |part| bar.set_position((part * STEPS as f64) as u64));
    bar.finish_and_clear();
    let benchmark = done.map_err(|error| match error {
        BenchError::Explain(ExplainError::Compile(error)) => Failure::Compile(error),
        BenchError::Explain(error) => Failure::usage(format!("{error}\n  {}", function.signature())),
        BenchError::Run(error) => Failure::Run(error),
        BenchError::Memory(error) => Failure::Wrong(error.to_string()),
    })?;
    match arguments.format {
        Format::Text => writeln!(stdout, "{benchmark}")?,
        Format::Json => writeln!(stdout, "{}", benchmark.to_json())?,
    }
    Ok(())
}
