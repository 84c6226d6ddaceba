//! `fuseloop build`: a function as text for other tools, at some stage behind the source.

use std::io::Write;
use std::path::PathBuf;

use clap::ValueEnum;
use fuseloop::{Emit, Options, Passes};

use crate::arguments;
use crate::failure::{Failure, Format};

/// Writes a function as PTX for NVIDIA's GPUs, or as loop nests.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: fuseloop build examples/softmax.fl --fn softmax_rows --emit ptx")]
pub struct Arguments {
    /// The program; - reads it from standard input
    file: PathBuf,
    /// The function [default: main, or the only one]
    #[arg(long = "fn", value_name = "NAME")]
    function: Option<String>,
    /// What is written
    #[arg(long, value_enum, value_delimiter = ',', required = true)]
    emit: Vec<EmitName>,
    /// The folder to write to, a file FUNCTION.ptx or FUNCTION.ir each [default: standard output]
    #[arg(short, long = "output", value_name = "DIR")]
    output: Option<PathBuf>,
    /// The passes that may merge kernels: all, none, or some of kloop, kinput, siblings, nest, koutput
    #[arg(long, value_name = "PASSES", default_value_t, value_parser = arguments::passes)]
    fuse: Passes,
    /// For whom errors are written
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum EmitName {
    /// PTX, with the lines of the source that each kernel computes as comments
    Ptx,
    /// The loop nests, after fusion
    Ir,
}

/// Runs the command.
pub fn run(arguments: &Arguments, stdout: &mut impl Write) -> Result<(), Failure> {
    let program = arguments::program(&arguments.file)?;
    let function = arguments::function(&program, arguments.function.as_deref())?;
    let options = Options { fuse: arguments.fuse, ..Options::default() };
    for emit in &arguments.emit {
        let (emit, extension) = match emit {
            EmitName::Ptx => (Emit::Ptx, "ptx"),
            EmitName::Ir => (Emit::Ir, "ir"),
        };
        let text = function.emit(&options, emit)?;
        match &arguments.output {
            None => writeln!(stdout, "{}", text.trim_end())?,
            Some(folder) => {
                let path = folder.join(format!("{}.{extension}", function.signature().name));
                let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text));
                written.map_err(|e| Failure::Wrong(format!("{}: {e}", path.display())))?;
            }
        }
    }
    Ok(())
}
