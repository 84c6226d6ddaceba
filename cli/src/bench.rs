//! `fuseloop bench`: what fusion gains, measured.

use std::io::Write;
use std::path::PathBuf;

use fuseloop::{BenchError, ExplainError, Options, Passes};
use indicatif::{ProgressBar, ProgressStyle};

use crate::arguments::{self, SimdName};
use crate::failure::{Failure, Format};

/// Measures a function with fusion and without, kernel by kernel.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Both are called in turn on the same drawn arrays, with a copy of large arrays between. A size that is not given is
chosen so that inputs and results take up to 256 MB.

Example: fuseloop bench examples/softmax.fl --fn softmax_rows n=4096 m=1000"
)]
pub struct Arguments {
    /// The program; - reads it from standard input
    file: PathBuf,
    /// Sizes, by their names in the source
    #[arg(value_name = "SIZE=N", value_parser = arguments::name_and_size)]
    sizes: Vec<(String, i64)>,
    /// The function [default: main, or the only one]
    #[arg(long = "fn", value_name = "NAME")]
    function: Option<String>,
    /// The passes that may merge kernels: all, none, or some of kloop, kinput, siblings, nest, koutput
    #[arg(long, value_name = "PASSES", default_value_t, value_parser = arguments::passes)]
    fuse: Passes,
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
    let program = arguments::program(&arguments.file)?;
    let function = arguments::function(&program, arguments.function.as_deref())?;
    let sizes = arguments::sizes(&arguments.sizes)?;
    let threads = arguments.threads.map_or(0, usize::from);
    let options = Options { fuse: arguments.fuse, simd: arguments.simd.into(), threads, ..Options::default() };
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
