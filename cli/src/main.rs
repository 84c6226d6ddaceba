//! The command `fuseloop`: one file for each subcommand, built on the library alone (except
//! `fuzz`).
//!
//! Exit codes: 0; 1 if the program or its data is wrong; 2 if the command line is. Results go to
//! stdout, everything else to stderr.

#![forbid(unsafe_code)]

mod arguments;
mod bench;
mod build;
mod check;
mod completions;
mod devices;
mod explain;
mod failure;
mod fmt;
mod fuzz;
mod grad;
mod help;
mod lsp;
mod man;
mod printing;
mod repl;
mod run;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use fuseloop::Style;

use failure::{Failure, Format};

/// Compiles programs of a tiny array language into fused loops, and runs them.
#[derive(Debug, Parser)]
#[command(name = "fuseloop", version, arg_required_else_help = true, disable_help_subcommand = true)]
#[command(
    after_help = "An argument @FILE stands for the arguments in FILE, separated by white space; # begins a comment.

Example: fuseloop run examples/softmax.fl --fn softmax_rows x=random:1000x777 -o out=a.npy"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Arguments),
    Repl(repl::Arguments),
    Check(check::Arguments),
    Explain(explain::Arguments),
    Bench(bench::Arguments),
    Build(build::Arguments),
    Devices(devices::Arguments),
    Fmt(fmt::Arguments),
    Grad(grad::Arguments),
    Fuzz(fuzz::Arguments),
    Lsp(lsp::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
    Help(help::Arguments),
}

fn main() -> ExitCode {
    let style = style(&io::stderr());
    let mut format = Format::Text;
    let mut stdout = io::stdout().lock();
    let done = command_line().and_then(|arguments| {
        let cli = Cli::try_parse_from(arguments)?;
        // The library turns a panic into an error. Suppress Rust's own message except when fuzzing
        // or when a backtrace was requested.
        if !matches!(cli.command, Command::Fuzz(_)) && std::env::var_os("RUST_BACKTRACE").is_none() {
            std::panic::set_hook(Box::new(|_| {}));
        }
        match cli.command {
            Command::Run(arguments) => {
                format = arguments.format;
                run::run(&arguments, &mut stdout)
            }
            Command::Repl(arguments) => repl::run(&arguments, &mut stdout),
            Command::Check(arguments) => {
                format = arguments.format;
                check::run(&arguments, &mut stdout)
            }
            Command::Explain(arguments) => {
                format = arguments.errors();
                explain::run(&arguments, &mut stdout)
            }
            Command::Bench(arguments) => {
                format = arguments.errors();
                bench::run(&arguments, &mut stdout)
            }
            Command::Build(arguments) => {
                format = arguments.format;
                build::run(&arguments, &mut stdout)
            }
            Command::Devices(arguments) => {
                format = arguments.format;
                devices::run(&arguments, &mut stdout)
            }
            Command::Fmt(arguments) => {
                format = arguments.format;
                fmt::run(&arguments, &mut stdout)
            }
            Command::Grad(arguments) => {
                format = arguments.format;
                grad::run(&arguments, &mut stdout)
            }
            Command::Fuzz(arguments) => {
                format = arguments.format;
                fuzz::run(&arguments, &mut stdout)
            }
            Command::Lsp(arguments) => lsp::run(&arguments, &mut stdout),
            Command::Completions(arguments) => completions::run::<Cli>(&arguments, &mut stdout),
            Command::Man(arguments) => man::run::<Cli>(&arguments, &mut stdout),
            Command::Help(arguments) => help::run::<Cli>(&arguments, &mut stdout),
        }
    });
    match done.and_then(|()| Ok(stdout.flush()?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(format, style),
    }
}

/// Whether a terminal can show only lines of text.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb")
}

/// The arguments, with each `@FILE` replaced by the arguments in the file.
fn command_line() -> Result<Vec<OsString>, Failure> {
    let mut arguments = vec![];
    for argument in std::env::args_os() {
        match argument.to_str().and_then(|text| text.strip_prefix('@')) {
            Some(path) => arguments.extend(arguments::from_file(path)?.into_iter().map(OsString::from)),
            None => arguments.push(argument),
        }
    }
    Ok(arguments)
}

/// Colours are used only on a terminal that supports them and unless the user has disabled them.
fn style(stream: &impl IsTerminal) -> Style {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if stream.is_terminal() && !refused && !is_dumb() { Style::Colored } else { Style::Plain }
}
