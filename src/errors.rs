//! The index of errors and warnings: each code with its title and the page that explains it, as
//! `fuseloop help E0123` shows it.
//!
//! ```
//! let entry = fuseloop::errors::find("e115").unwrap();
//! assert_eq!(entry.code.to_string(), "E0115");
//! assert!(entry.page.starts_with("# E0115: "));
//! ```

use std::fmt;

use grammar::Code;

use crate::error::codes;
use crate::link;

/// A kind of error or warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its code.
    pub code: Code,
    /// Its title, in a few words.
    pub title: &'static str,
    /// An explanation and the fixes, in Markdown.
    pub page: &'static str,
}

/// A text that is not a code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownCode {
    /// The text.
    pub text: String,
    /// The nearest code, if the text is a number close to one.
    pub nearest: Option<Entry>,
}

/// The tables of codes, in the order of their numbers.
const TABLES: &[&[(Code, &str)]] = &[
    grammar::codes::ALL,
    compiler::check::codes::ALL,
    link::codes::ALL,
    codes::ALL,
    #[cfg(feature = "files")]
    crate::files::codes::ALL,
    compiler::check::warnings::codes::ALL,
];

/// The distance within which a number is taken for a misspelling of a code.
const NEAR: u16 = 9;

/// Page by number.
const PAGES: &[(u16, &str)] = include!(concat!(env!("OUT_DIR"), "/pages.rs"));

/// Every code, by number.
pub fn all() -> impl Iterator<Item = Entry> {
    TABLES.iter().copied().flatten().map(|(code, title)| {
        let page = PAGES.binary_search_by_key(&code.0, |(number, _)| *number).map_or("", |k| PAGES[k].1);
        Entry { code: *code, title, page }
    })
}

/// The numbers that have a page, whether or not there is a code of that number.
pub fn pages() -> impl Iterator<Item = u16> {
    PAGES.iter().map(|(number, _)| *number)
}

/// The entry of a code in any common spelling: `E0123`, `e123`, `123`, `W0001`.
///
/// # Errors
///
/// [`UnknownCode`] has the nearest code, if there is one.
pub fn find(text: &str) -> Result<Entry, UnknownCode> {
    let code = Code::parse(text);
    match code.and_then(|code| all().find(|entry| entry.code == code)) {
        Some(entry) => Ok(entry),
        None => Err(UnknownCode {
            text: text.to_owned(),
            nearest: code.and_then(|code| {
                let distance = |entry: &Entry| entry.code.0.abs_diff(code.0);
                all().min_by_key(distance).filter(|entry| distance(entry) <= NEAR)
            }),
        }),
    }
}

/// Whether a text looks like a code, rather than a word.
pub fn is_code(text: &str) -> bool {
    let digits = text.strip_prefix(['E', 'e', 'W', 'w']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

/// The list of all codes, as `docs/errors/README.md` has it.
pub fn index() -> String {
    let mut text = "# Errors and warnings\n\nEach has a code that never changes its meaning. `fuseloop help E0101` shows the page of one; \
                    every example on a page is run by the tests.\n"
        .to_owned();
    let mut group = "";
    for Entry { code, title, .. } in all() {
        let of = match code.0 {
            ..100 => "Reading a program",
            100..200 => "Checking a program",
            200..300 => "Compiling, calling, running",
            300..1000 => "Files and arguments",
            _ => "Warnings",
        };
        if group != of {
            group = of;
            text += &format!("\n## {of}\n\n");
        }
        text += &format!("- [{code}]({code}.md) {title}\n");
    }
    text
}

impl fmt::Display for UnknownCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no error `{}`", self.text)?;
        match self.nearest {
            Some(entry) => write!(f, "; the nearest is {}: {}", entry.code, entry.title),
            None => f.write_str(": `fuseloop help errors` lists them"),
        }
    }
}

impl std::error::Error for UnknownCode {}
