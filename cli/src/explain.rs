//! `fuseloop explain`: which operations were fused, which were not, and why.

use std::io::{self, Write};

use clap::ValueEnum;
use fuseloop::{Device, ExplainError, Options};

use crate::arguments::{self, Entry, Subject};
use crate::failure::{self, Failure};

/// Explains which operations were fused, which were not, and why.
#[derive(Debug, clap::Args)]
#[command(after_help = "Figures are formulas of the function's size names, with numbers for the sizes that are given.

Example: fuseloop explain examples/softmax.fl --fn softmax_rows n=4096 m=1000")]
pub struct Arguments {
    #[command(flatten)]
    subject: Subject,
    /// The device to estimate the shortest possible time of each kernel for, from its memory
    /// bandwidth
    #[arg(long, value_enum, default_value_t)]
    device: DeviceName,
    /// Shows the whole report on a large program, not just the two screens that matter most
    #[arg(long)]
    all: bool,
    /// Also finds the partition of the operations into kernels that moves the fewest bytes, for
    /// programs of up to 14 operations
    #[arg(long)]
    best: bool,
    /// Also shows the parts that the kernels run in on the device
    #[arg(long)]
    schedule: bool,
    /// The format of the report
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// The device that the kernels are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum DeviceName {
    /// This machine's processor
    #[default]
    Cpu,
    /// This machine's first NVIDIA GPU; without one, the measured figures of an H200
    Gpu,
}

/// The format of the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    #[default]
    Text,
    /// For programs: one JSON object (docs/json.md)
    Json,
    /// For Graphviz: the operations before and after fusion, as a graph
    Dot,
    /// For a browser: one page, with the source, the loops, the graph, the decisions and the
    /// roofline
    Html,
}

impl Arguments {
    /// The format of errors.
    pub fn errors(&self) -> failure::Format {
        match self.format {
            Format::Json => failure::Format::Json,
            Format::Text | Format::Dot | Format::Html => failure::Format::Text,
        }
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments, stdout: &mut impl Write) -> Result<(), Failure> {
    let Subject { file, sizes, function, fuse, math, warned } = &arguments.subject;
    let program = warned.program(file, Entry::of(function.as_ref()), arguments.errors())?;
    let function = arguments::function(&program, function.as_deref())?;
    let sizes = arguments::sizes(sizes)?;
    let device = match arguments.device {
        DeviceName::Cpu => Device::Cpu,
        DeviceName::Gpu => Device::Gpu,
    };
    let options = Options { fuse: *fuse, math: (*math).into(), device, ..Options::default() };
    let failed = |error| match error {
        ExplainError::Compile(error) => Failure::Compile(error),
        error => Failure::usage(format!("{error}\n  {}", function.signature())),
    };
    let explanation = function.explain(&options, &sizes).map_err(failed)?;
    let explanation = if arguments.best { explanation.with_best() } else { explanation };
    let explanation = if arguments.schedule { explanation.with_schedule().map_err(failed)? } else { explanation };
    match arguments.format {
        Format::Text if arguments.all => writeln!(stdout, "{}", explanation.render_all(crate::style(&io::stdout())))?,
        Format::Text => writeln!(stdout, "{}", explanation.render(crate::style(&io::stdout())))?,
        Format::Json => writeln!(stdout, "{}", explanation.to_json())?,
        Format::Dot => write!(stdout, "{}", explanation.to_dot())?,
        Format::Html => writeln!(stdout, "{}", explanation.to_html())?,
    }
    Ok(())
}
