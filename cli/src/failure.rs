//! The failures that end a command early, and their exit codes.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use fuseloop::files::{Fault, FileError};
use fuseloop::render::{draw, visible};
use fuseloop::values::ValueError;
use fuseloop::{CompileError, Errors, Report, RunError, SessionError, Source, Style, Warnings, json};

/// The format of errors and results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Text,
    /// For programs: one JSON object per line on stdout (docs/json.md)
    Json,
}

/// The reason why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// The command line is wrong: exit code 2.
    Usage(String),
    /// The program or its data is wrong: exit code 1.
    Wrong(String),
    /// The program has errors.
    Program(Errors),
    /// The function exceeds a limit of the compiler, or its own limit on kernels.
    Compile(CompileError),
    /// An argument is invalid: exit code 2 if it is misspelt.
    Value(ValueError),
    /// A file cannot be written: exit code 2 if the request itself is invalid.
    File(FileError),
    /// The call failed.
    Run(RunError),
    /// An entry of a session failed.
    Session(SessionError),
    /// The failure has already been reported.
    Said,
    /// Clap's own help, version and usage errors, in its own words.
    Clap(clap::Error),
    /// Several programs or files failed.
    Several(Vec<Failure>),
    /// The reader of the results has closed the pipe.
    BrokenPipe,
}

impl Failure {
    /// The command line is wrong.
    pub fn usage(what: impl fmt::Display) -> Failure {
        Failure::Usage(what.to_string())
    }

    /// Reports the failure and returns the exit code. If even the error stream is closed, nothing
    /// can be reported.
    pub fn report(self, format: Format, style: Style) -> ExitCode {
        let code = match &self {
            Failure::Usage(_) => 2,
            Failure::Value(e) if e.is_misspelt() => 2,
            Failure::File(e) if e.fault().is_misspelt() => 2,
            Failure::Clap(e) => u8::try_from(e.exit_code()).unwrap_or(2),
            Failure::BrokenPipe => 0,
            _ => 1,
        };
        let _ = match format {
            Format::Json if code != 0 => self.write_json(),
            _ => self.print(style),
        };
        ExitCode::from(code)
    }

    /// On stdout: one line for each error.
    fn write_json(&self) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        let mut line =
            |source: Option<&Source>, report: &Report| writeln!(stdout, "{}", json::diagnostic(source, report));
        let plain = |message: &str| Report { message: message.to_owned(), ..Report::default() };
        match self {
            Failure::Usage(what) | Failure::Wrong(what) => line(None, &plain(what)),
            Failure::Program(errors) => errors.reports().try_for_each(|report| line(Some(errors.source()), &report)),
            Failure::Compile(e) => line(e.source(), &e.report()),
            Failure::Value(e) => line(None, &e.report()),
            Failure::File(e) => line(None, &e.report()),
            Failure::Run(e) => line(Some(e.source()), &e.report()),
            Failure::Several(all) => all.iter().try_for_each(Failure::write_json),
            // Before the command line is parsed, nobody can have asked for JSON.
            Failure::Clap(_) | Failure::BrokenPipe | Failure::Said => Ok(()),
            Failure::Session(e) => line(None, &plain(&e.to_string())),
        }
    }

    /// On stderr, for people.
    pub fn print(&self, style: Style) -> io::Result<()> {
        let mut stderr = io::stderr().lock();
        match self {
            Failure::Clap(e) => match e.to_string() {
                // Clap quotes the command line verbatim, including control characters.
                text if visible(&text) != text => write!(stderr, "{}", visible(&text)),
                _ => e.print(),
            },
            Failure::Several(all) => all.iter().try_for_each(|failure| failure.print(style)),
            failure => failure.text(style).map_or(Ok(()), |text| writeln!(stderr, "{text}")),
        }
    }

    /// The failure for people; `None` if nothing is to be said.
    pub fn text(&self, style: Style) -> Option<String> {
        let error = match style {
            Style::Plain => "error",
            Style::Colored => "\x1b[1m\x1b[91merror\x1b[0m",
        };
        Some(match self {
            Failure::Usage(what) | Failure::Wrong(what) => format!("{error}: {}", visible(what)),
            Failure::Program(errors) => errors.render(style),
            Failure::Compile(e) => e.render(style),
            Failure::Value(e) => draw(&Source::from(""), &e.report(), style),
            Failure::File(e) => draw(&Source::from(""), &e.report(), style),
            Failure::Run(e) => e.render(style),
            Failure::Clap(e) => visible(&e.to_string()).to_string(),
            Failure::Several(all) => all.iter().filter_map(|one| one.text(style)).collect::<Vec<_>>().join("\n"),
            Failure::Session(e) => e.render(style),
            Failure::BrokenPipe | Failure::Said => return None,
        })
    }
}

/// Reports warnings: on stderr for people, on stdout for programs.
pub fn report_warnings(warnings: &Warnings, format: Format) -> io::Result<()> {
    match format {
        _ if warnings.is_empty() => Ok(()),
        Format::Text => writeln!(io::stderr().lock(), "{}", warnings.render(crate::style(&io::stderr()))),
        Format::Json => {
            let mut stdout = io::stdout().lock();
            let mut line = |report| writeln!(stdout, "{}", json::diagnostic(Some(warnings.source()), &report));
            warnings.reports().try_for_each(&mut line)
        }
    }
}

impl From<SessionError> for Failure {
    fn from(e: SessionError) -> Failure {
        match e {
            SessionError::Subject(what) => Failure::Usage(what),
            e => Failure::Session(e),
        }
    }
}

impl From<CompileError> for Failure {
    fn from(e: CompileError) -> Failure {
        Failure::Compile(e)
    }
}

impl From<ValueError> for Failure {
    fn from(e: ValueError) -> Failure {
        Failure::Value(e)
    }
}

impl From<FileError> for Failure {
    fn from(e: FileError) -> Failure {
        match e.fault() {
            Fault::Io(io) if io.kind() == io::ErrorKind::BrokenPipe => Failure::BrokenPipe,
            _ => Failure::File(e),
        }
    }
}

impl From<RunError> for Failure {
    fn from(e: RunError) -> Failure {
        Failure::Run(e)
    }
}

impl From<Errors> for Failure {
    fn from(e: Errors) -> Failure {
        Failure::Program(e)
    }
}

impl From<clap::Error> for Failure {
    fn from(e: clap::Error) -> Failure {
        Failure::Clap(e)
    }
}

/// An error from writing to stdout. Errors from files are handled where their names are known.
impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Failure {
        match e.kind() {
            io::ErrorKind::BrokenPipe => Failure::BrokenPipe,
            _ => Failure::Wrong(format!("stdout: {e}")),
        }
    }
}
