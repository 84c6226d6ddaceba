//! What ends a command early, and the exit code that it gives.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use fuseloop::Style;
use fuseloop::render::visible;

/// Why a command came to nothing.
#[derive(Debug)]
pub enum Failure {
    /// The command line is wrong: exit code 2.
    Usage(String),
    /// The program or its data is wrong: exit code 1.
    Wrong(String),
    /// The same, drawn already.
    Drawn(String),
    /// Clap's own: help, version and usage errors, in its own words.
    Clap(clap::Error),
    /// Nobody reads the results any more.
    BrokenPipe,
}

impl Failure {
    /// The program or its data is wrong.
    pub fn wrong(what: impl fmt::Display) -> Failure {
        Failure::Wrong(what.to_string())
    }

    /// The command line is wrong.
    pub fn usage(what: impl fmt::Display) -> Failure {
        Failure::Usage(what.to_string())
    }

    /// Says so on stderr and gives the exit code. (If stderr is gone too, nobody is left to tell.)
    pub fn report(self, style: Style) -> ExitCode {
        let error = match style {
            Style::Plain => "error",
            Style::Colored => "\x1b[1m\x1b[91merror\x1b[0m",
        };
        let mut stderr = io::stderr().lock();
        let (_, code) = match self {
            Failure::Usage(what) => (writeln!(stderr, "{error}: {}", visible(&what)), 2),
            Failure::Wrong(what) => (writeln!(stderr, "{error}: {}", visible(&what)), 1),
            Failure::Drawn(what) => (writeln!(stderr, "{what}"), 1),
            Failure::Clap(e) => (e.print(), u8::try_from(e.exit_code()).unwrap_or(2)),
            Failure::BrokenPipe => (Ok(()), 0),
        };
        ExitCode::from(code)
    }
}

impl From<clap::Error> for Failure {
    fn from(e: clap::Error) -> Failure {
        Failure::Clap(e)
    }
}

/// Of writing to stdout: files are opened and read where their names are at hand for the message.
impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Failure {
        match e.kind() {
            io::ErrorKind::BrokenPipe => Failure::BrokenPipe,
            _ => Failure::Wrong(format!("stdout: {e}")),
        }
    }
}
