//! `fuseloop completions`: writes the script with which a shell completes commands and options.

use std::io::Write;

use clap::{CommandFactory, ValueEnum};

use crate::failure::Failure;

/// Writes a script with which a shell completes command lines.
#[derive(Debug, clap::Args)]
#[command(after_help = "Put it where the shell looks for completions:

  bash   fuseloop completions bash > ~/.local/share/bash-completion/completions/fuseloop
  zsh    fuseloop completions zsh > ~/.zfunc/_fuseloop      # with fpath+=~/.zfunc before compinit in ~/.zshrc
  fish   fuseloop completions fish > ~/.config/fish/completions/fuseloop.fish

Example: source <(fuseloop completions bash)")]
pub struct Arguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// A shell.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Runs the command. `C` is the whole command line.
pub fn run<C: CommandFactory>(arguments: &Arguments, stdout: &mut impl Write) -> Result<(), Failure> {
    let shell = match arguments.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    // Writing to memory cannot fail, unlike to a pipe that may be closed.
    let mut script = vec![];
    clap_complete::generate(shell, &mut C::command(), "fuseloop", &mut script);
    Ok(stdout.write_all(&script)?)
}
