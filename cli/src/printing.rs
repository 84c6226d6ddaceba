//! How arrays are printed: `--print`, `--precision`, and the width of the terminal.

use std::io::{self, IsTerminal};

use fuseloop::print;

/// How arrays are printed.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Printing {
    /// Prints arrays of up to N elements in full, or all; larger ones are elided in the middle
    #[arg(long = "print", value_name = "all|N", default_value = "1000", value_parser = most)]
    pub most: Limit,
    /// The digits of a float after the decimal point: at most N, or all that it takes to read the
    /// same bits back
    #[arg(long, value_name = "all|N", default_value = "all", value_parser = digits)]
    pub precision: Limit,
}

/// A greatest number, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(pub Option<usize>);

/// The most digits that may be asked for: `f64` never has more.
const MOST_DIGITS: usize = 1100;

impl Printing {
    /// For lines of this many characters.
    pub fn format(&self, width: usize) -> print::Format {
        print::Format { width, most: self.most.0, precision: self.precision.0 }
    }

    /// For standard output: as wide as the terminal, if it is one.
    pub fn for_stdout(&self) -> print::Format {
        let columns = || console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
        let width = if io::stdout().is_terminal() { columns().filter(|columns| *columns > 0) } else { None };
        self.format(width.unwrap_or(print::Format::default().width))
    }
}

/// Parses the number of elements from which on arrays are elided.
pub fn most(text: &str) -> Result<Limit, String> {
    limit(text, usize::MAX).ok_or_else(|| "expected all, or a number of elements such as 1000".to_owned())
}

/// Parses a number of digits.
pub fn digits(text: &str) -> Result<Limit, String> {
    limit(text, MOST_DIGITS).ok_or_else(|| "expected all, or a number of digits such as 3".to_owned())
}

fn limit(text: &str, greatest: usize) -> Option<Limit> {
    match text {
        "all" => Some(Limit(None)),
        _ => text.parse().ok().filter(|n| *n <= greatest).map(|n| Limit(Some(n))),
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            None => f.write_str("all"),
            Some(n) => write!(f, "{n}"),
        }
    }
}
