//! `fuseloop man`: the manual, with one page for the whole and one for each command.

use std::io::Write;

use clap::CommandFactory;
use clap_mangen::Man;

use crate::failure::Failure;

/// Writes a page of the manual, for `man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "For one command: fuseloop man run > fuseloop-run.1

Example: fuseloop man > ~/.local/share/man/man1/fuseloop.1")]
pub struct Arguments {
    /// The command to describe [default: an overview of all]
    command: Option<String>,
}

/// Runs the command. `C` is the whole command line.
pub fn run<C: CommandFactory>(arguments: &Arguments, stdout: &mut impl Write) -> Result<(), Failure> {
    let mut all = C::command();
    // The names by which pages refer to each other.
    all.build();
    let page = match &arguments.command {
        None => all,
        Some(name) => {
            let found = all.find_subcommand(name).cloned();
            let unknown = || Failure::usage(format!("there is no command `{name}`: `fuseloop help` lists them"));
            found.ok_or_else(unknown)?
        }
    };
    let mut text = vec![];
    Man::new(page).render(&mut text)?;
    Ok(stdout.write_all(&text)?)
}
