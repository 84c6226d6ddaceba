//! `fuseloop help`: the page of an error code, the list of all errors, or clap's help on a command.

use std::io::Write;

use clap::Parser;
use fuseloop::errors;

use crate::failure::Failure;

/// Explains an error (`help E0101`), lists them all (`help errors`), or describes a command
/// (`help run`).
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: fuseloop help E0115")]
pub struct Arguments {
    /// An error code, `errors`, or a command
    #[arg(value_name = "CODE|COMMAND")]
    topic: Option<String>,
}

/// Runs the command. `C` is the whole command line.
pub fn run<C: Parser>(arguments: &Arguments, stdout: &mut impl Write) -> Result<(), Failure> {
    match arguments.topic.as_deref() {
        None => describe::<C>(&["fuseloop", "--help"])?,
        Some("errors") => {
            for entry in errors::all() {
                writeln!(stdout, "{}  {}", entry.code, entry.title)?;
            }
        }
        Some(topic) if errors::is_code(topic) => {
            write!(stdout, "{}", errors::find(topic).map_err(Failure::usage)?.page)?;
        }
        Some(topic) if C::command().find_subcommand(topic).is_some() => describe::<C>(&["fuseloop", topic, "--help"])?,
        Some(topic) => {
            let message = format!("there is no command and no error `{topic}`: `fuseloop help` lists the commands");
            return Err(Failure::Usage(format!("{message}, `fuseloop help errors` the errors")));
        }
    }
    Ok(())
}

/// Clap's help on a command, which clap reports as an error of parsing.
fn describe<C: Parser>(line: &[&str]) -> Result<(), Failure> {
    C::try_parse_from(line)?;
    Ok(())
}
