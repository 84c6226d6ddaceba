//! `fuseloop help`: of an error code its page, of `errors` the list of them; of a command what clap says.

use std::io::Write;

use clap::CommandFactory;
use fuseloop::errors;

use crate::failure::Failure;

/// Explains an error (`help E0101`), lists them all (`help errors`), or describes a command (`help run`).
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: fuseloop help E0115")]
pub struct Arguments {
    /// An error code, `errors`, or a command
    #[arg(value_name = "CODE|COMMAND")]
    topic: Option<String>,
}

/// Runs the command.
pub fn run<C: CommandFactory>(arguments: &Arguments, stdout: &mut impl Write) -> Result<(), Failure> {
    let mut command = C::command();
    match arguments.topic.as_deref() {
        None => write!(stdout, "{}", command.render_long_help())?,
        Some("errors") => {
            for entry in errors::all() {
                writeln!(stdout, "{}  {}", entry.code, entry.title)?;
            }
        }
        Some(topic) if errors::is_code(topic) => {
            write!(stdout, "{}", errors::find(topic).map_err(Failure::usage)?.page)?;
        }
        Some(topic) => {
            command.build();
            match command.find_subcommand_mut(topic) {
                Some(command) => write!(stdout, "{}", command.render_long_help())?,
                None => {
                    let message =
                        format!("there is no command and no error `{topic}`: `fuseloop help` lists the commands");
                    return Err(Failure::Usage(format!("{message}, `fuseloop help errors` the errors")));
                }
            }
        }
    }
    Ok(())
}
