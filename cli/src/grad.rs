//! `fuseloop grad`: the derivative of a function, as a program.

use std::io::Write;
use std::path::PathBuf;

use fuseloop::Program;

use crate::arguments;
use crate::failure::{Failure, Format};

/// Writes the derivative of a function as a program, to read, run and change.
#[derive(Debug, clap::Args)]
#[command(after_help = "The result has the parameters of the function, and every call is inlined. In a program, write
`grad[w](loss(w, x))`.

Example: fuseloop grad examples/cross_entropy.fl --wrt logits")]
pub struct Arguments {
    /// The program; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The function, which gives a scalar [default: main, or the only one]
    #[arg(long = "fn", value_name = "NAME")]
    function: Option<String>,
    /// The parameters that the derivative is in [default: all of floats]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    wrt: Vec<String>,
    /// The format of errors
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Writes the derivative to standard output.
pub fn run(arguments: &Arguments, stdout: &mut impl Write) -> Result<(), Failure> {
    let (source, folder) = arguments::program(&arguments.file)?;
    let program = Program::parse_with(source.clone(), &folder)?;
    let function = arguments::function(&program, arguments.function.as_deref())?;
    let name = &function.signature().name;
    write!(stdout, "{}", Program::gradient(source, Some(&folder), name, &arguments.wrt)?)?;
    Ok(())
}
