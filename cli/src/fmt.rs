//! `fuseloop fmt`: programs in the one style, in place.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fuseloop::render::visible;
use fuseloop::{Source, files};
use similar::TextDiff;

use crate::failure::{Failure, Format};

/// After this long a difference need not be the smallest.
const DIFF_TIME: Duration = Duration::from_secs(1);

/// Formats programs in place; comments stay, and so does what a program means.
#[derive(Debug, clap::Args)]
#[command(after_help = "A file with errors is left as it is.

Example: fuseloop fmt --check examples/*.fl")]
pub struct Arguments {
    /// The programs; `-` is standard input, formatted to standard output
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write nothing: show what would change, and exit with 1 if anything would
    #[arg(long)]
    check: bool,
    /// How errors are reported; `json` shows no difference
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub format: Format,
}

/// Runs the command on each file, whatever becomes of the others.
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

/// Formats a file; whether that changes it.
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
