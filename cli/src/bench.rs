//! `fuseloop bench`: measures the gain from fusion.

use std::io::Write;

use clap::ValueEnum;
use fuseloop::{BenchError, Device, ExplainError, Options};
use indicatif::{ProgressBar, ProgressStyle};

use crate::arguments::{self, Entry, SimdName, Subject};
use crate::failure::{self, Failure};

/// Measures a function with fusion and without, kernel by kernel.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Both are called in turn on the same random arrays, with copies of the same size in between. Sizes that are not given
are chosen so that inputs and results take up to 256 MB.

Example: fuseloop bench examples/softmax.fl --fn softmax_rows n=4096 m=1000"
)]
pub struct Arguments {
    #[command(flatten)]
    subject: Subject,
    /// The device to measure on
    #[arg(long, value_enum, default_value_t)]
    device: DeviceName,
    /// The width of the CPU's vectors in bits
    #[arg(long, value_enum, default_value_t)]
    simd: SimdName,
    /// The number of threads to use [default: as many as the machine has]
    #[arg(long, value_name = "N")]
    threads: Option<u16>,
    /// The format of the report
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// The format of the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    #[default]
    Text,
    /// For programs: one JSON object (docs/json.md)
    Json,
    /// For a browser: one page, with the roofline
    Html,
}

impl Arguments {
    /// The format of errors.
    pub fn errors(&self) -> failure::Format {
        match self.format {
            Format::Json => failure::Format::Json,
            Format::Text | Format::Html => failure::Format::Text,
        }
    }
}

/// A device to measure on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum DeviceName {
    /// This machine's processor
    #[default]
    Cpu,
    /// This machine's first NVIDIA GPU, on arrays in its memory, timed by its own clock
    Gpu,
}

/// The resolution of the progress bar.
const STEPS: u64 = 1000;

/// Runs the command.
pub fn run(arguments: &Arguments, stdout: &mut impl Write) -> Result<(), Failure> {
    let Subject { file, sizes, function, fuse, math, warned } = &arguments.subject;
    let program = warned.program(file, Entry::of(function.as_ref()), arguments.errors())?;
    let function = arguments::function(&program, function.as_deref())?;
    let sizes = arguments::sizes(sizes)?;
    let threads = arguments.threads.map_or(0, usize::from);
    let device = match arguments.device {
        DeviceName::Cpu => Device::Cpu,
        DeviceName::Gpu => Device::Gpu,
    };
    let options = Options {
        fuse: *fuse,
        math: (*math).into(),
        device,
        simd: arguments.simd.here()?,
        threads,
        ..Options::default()
    };
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
        BenchError::Gpu(error) => Failure::Wrong(error.to_string()),
    })?;
    match arguments.format {
        Format::Text => writeln!(stdout, "{benchmark}")?,
        Format::Json => writeln!(stdout, "{}", benchmark.to_json())?,
        Format::Html => writeln!(stdout, "{}", benchmark.to_html())?,
    }
    Ok(())
}
