//! `fuseloop fmt`: formats programs in place.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fuseloop::render::visible;
use fuseloop::{Source, files};
use similar::TextDiff;

use crate::failure::{Failure, Format};

/// After this time a difference need no longer be minimal.
const DIFF_TIME: Duration = Duration::from_secs(1);

/// Formats programs in place; keeps comments, and never changes the meaning of a program.
#[derive(Debug, clap::Args)]
#[command(after_help = "A file with errors is left unchanged.

Example: fuseloop fmt --check examples/*.fl")]
pub struct Arguments {
    /// The programs; `-` is standard input, formatted to standard output
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Writes nothing: shows the changes that formatting would make, and exits with 1 if there are
    /// any
    #[arg(long)]
    check: bool,
    /// The format of errors; `json` shows no difference
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub format: Format,
}

/// Formats each file, even if others have errors.
pub fn run(arguments: &Arguments, stdout: &mut impl Write) -> Result<(), Failure> {
    let mut failures = vec![];
    let mut unformatted = vec![];
    for file in &arguments.files {
        match one(file, arguments, stdout) {
            Ok(changes) if changes && arguments.check => unformatted.push(file.display().to_string()),
            Ok(_) => {}
            Err(Failure::BrokenPipe) => return Err(Failure::BrokenPipe),
            Err(failure) => failures.push(failure),
        }
    }
    if !unformatted.is_empty() {
        let (some, all, names) = (unformatted.len(), arguments.files.len(), unformatted.join(", "));
        failures.push(Failure::Wrong(format!("{some} of {all} files not formatted: {names}; `fuseloop fmt` does it")));
    }
    if failures.is_empty() { Ok(()) } else { Err(Failure::Several(failures)) }
}

/// Formats a file and returns whether that changes it.
fn one(file: &Path, arguments: &Arguments, stdout: &mut impl Write) -> Result<bool, Failure> {
    let stdin = file.as_os_str() == "-";
    let source = if stdin { crate::arguments::stdin()? } else { crate::arguments::source(file)? };
    let formatted = fuseloop::format(source.clone())?;
    let changes = formatted != source.text;
    if arguments.check {
        if changes && arguments.format == Format::Text {
            write!(stdout, "{}", difference(&source, &formatted))?;
        }
    } else if stdin {
        stdout.write_all(formatted.as_bytes())?;
    } else if changes {
        files::replace(file, &formatted)?;
    }
    Ok(changes)
}

/// A unified diff.
fn difference(source: &Source, formatted: &str) -> String {
    let diff = TextDiff::configure().timeout(DIFF_TIME).diff_lines(source.text.as_str(), formatted);
    let name = source.name.as_str();
    visible(&diff.unified_diff().header(name, &format!("{name} (formatted)")).to_string())
}
