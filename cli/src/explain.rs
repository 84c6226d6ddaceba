//! `fuseloop explain`: what fused, what did not and why.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::ValueEnum;
use fuseloop::{ExplainError, Options, Passes};

use crate::arguments;
use crate::failure::{self, Failure};

/// Explains what fused, what did not, and why.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Figures are formulas of the function's size names; of those that are given the numbers are put in.

Example: fuseloop explain examples/softmax.fl --fn softmax_rows n=4096 m=1000"
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
    /// For whom it is written
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// For whom an explanation is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    #[default]
    Text,
    /// For programs: one JSON object (docs/json.md)
    Json,
    /// For Graphviz: the operations before and after, as a graph
    Dot,
}

impl Arguments {
    /// For whom errors are written.
    pub fn errors(&self) -> failure::Format {
        match self.format {
            Format::Json => failure::Format::Json,
            Format::Text | Format::Dot => failure::Format::Text,
        }
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments, stdout: &mut impl Write) -> Result<(), Failure> {
    let program = arguments::program(&arguments.file)?;
    let function = arguments::function(&program, arguments.function.as_deref())?;
    let sizes = arguments::sizes(&arguments.sizes)?;
    let options = Options { fuse: arguments.fuse, ..Options::default() };
    let explanation = function.explain(&options, &sizes).map_err(|error| match error {
        ExplainError::Compile(error) => Failure::Compile(error),
        error => Failure::usage(format!("{error}\n  {}", function.signature())),
    })?;
    match arguments.format {
        Format::Text => writeln!(stdout, "{}", explanation.render(crate::style(&io::stdout())))?,
        Format::Json => writeln!(stdout, "{}", explanation.to_json())?,
        Format::Dot => write!(stdout, "{}", explanation.to_dot())?,
    }
    Ok(())
}
