//! Prose in comments and Markdown pages, and habits in it that can be counted: turns of phrase that
//! make a text read like a translation, and lines that are too long to read side by side.

use std::collections::BTreeMap;
use std::iter::Peekable;

use crate::source::{Comment, files, lex, package};

/// Lines of prose are no longer than this.
pub const COLUMNS: usize = 100;

/// A habit, by the words that show it.
#[derive(Clone, Copy, Debug)]
pub struct Habit {
    /// How reports call it.
    pub name: &'static str,
    /// Sequences of words in lower case, any one of which counts.
    phrases: &'static [&'static [&'static str]],
    /// How often it may occur in 10,000 words: as often as in the comments of Cranelift's code
    /// generator.
    pub rate: f64,
}

/// The habits. A sentence that begins with "What" and is not a question is counted by its first
/// word.
pub const HABITS: [Habit; 7] = [
    Habit { name: WHAT, phrases: &[], rate: 0.7 },
    Habit { name: "of which, whose", phrases: &[&["of", "which"], &["whose"]], rate: 3.6 },
    Habit { name: "so many, so much", phrases: &[&["so", "many"], &["so", "much"]], rate: 0.0 },
    Habit { name: "at hand", phrases: &[&["at", "hand"]], rate: 0.1 },
    Habit { name: "hang on", phrases: &[&["hang", "on"], &["hangs", "on"]], rate: 0.0 },
    Habit { name: "anew", phrases: &[&["anew"]], rate: 0.0 },
    Habit { name: "beside", phrases: &[&["beside"]], rate: 0.0 },
];

const WHAT: &str = "What ...";

/// How many lines in 1,000 may be longer than [`COLUMNS`].
pub const LONG_LINES: f64 = 2.0;

/// How long lines are called in reports.
pub const LONG: &str = "long lines";

/// The measures of some prose.
#[derive(Clone, Debug, Default)]
pub struct Measures {
    /// Words.
    pub words: usize,
    /// Lines.
    pub lines: usize,
    /// Where a habit shows, by its name ([`LONG`] among them), and the line.
    pub found: Vec<(&'static str, usize)>,
}

/// The measures of all the prose of a package, or of all the pages.
#[derive(Clone, Debug, Default)]
pub struct Area {
    /// Words.
    pub words: usize,
    /// Lines.
    pub lines: usize,
    /// Where each habit shows, by its name, as `path:line`.
    pub places: BTreeMap<&'static str, Vec<String>>,
}

/// The measures of each package, by its folder, and those of all Markdown as `pages`.
pub fn areas() -> BTreeMap<String, Area> {
    let mut areas: BTreeMap<String, Area> = BTreeMap::new();
    for file in files(&["rs", "lalrpop", "md"]) {
        let (name, measures) = match file.path.ends_with(".md") {
            true => ("pages", of_page(&file.text)),
            false => (package(&file.path), of_rust(&file.text)),
        };
        let area = areas.entry(name.to_owned()).or_default();
        area.words += measures.words;
        area.lines += measures.lines;
        for (habit, line) in measures.found {
            area.places.entry(habit).or_default().push(format!("{}:{line}", file.path));
        }
    }
    areas
}

impl Measures {
    fn paragraph(&mut self, line: usize, text: &str) {
        let words: Vec<&str> = text.split_whitespace().collect();
        self.words += words.len();
        let bare = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
        let lower: Vec<String> = words.iter().map(|word| bare(word)).collect();
        for habit in HABITS {
            for phrase in habit.phrases {
                let count = lower.windows(phrase.len()).filter(|words| words == phrase).count();
                self.found.extend(std::iter::repeat_n((habit.name, line), count));
            }
        }
        for (at, _) in words.iter().enumerate().filter(|(_, word)| **word == "What") {
            let end = words[at..].iter().find(|word| word.ends_with(['.', ':', ';', '!', '?']));
            if !end.is_some_and(|word| word.ends_with('?')) {
                self.found.push((WHAT, line));
            }
        }
    }

    fn line(&mut self, line: usize, columns: usize, text: &str) {
        self.lines += 1;
        // A link alone cannot be broken.
        if columns > COLUMNS && text.split_whitespace().nth(1).is_some() {
            self.found.push((LONG, line));
        }
    }

    /// Adds the prose of Markdown, given as lines with their numbers and their columns in the file:
    /// all but program text, tables and headings. An item of a list is a paragraph.
    fn markdown<'a>(&mut self, lines: impl Iterator<Item = (usize, usize, &'a str)>) {
        let (mut begin, mut paragraph, mut in_program) = (0, String::new(), false);
        for (number, columns, line) in lines {
            let text = line.trim_start();
            let fence = text.starts_with("```");
            let aside = in_program || fence || text.starts_with(['|', '#']) || line.starts_with("    ");
            if aside || text.is_empty() || text.starts_with("- ") {
                self.paragraph(begin, &std::mem::take(&mut paragraph));
            }
            in_program ^= fence;
            if !aside && !text.is_empty() {
                self.line(number, columns, text);
                if paragraph.is_empty() {
                    begin = number;
                }
                paragraph.push_str(text);
                paragraph.push(' ');
            }
        }
        self.paragraph(begin, &paragraph);
    }
}

/// The prose of a page in Markdown.
pub fn of_page(text: &str) -> Measures {
    let mut measures = Measures::default();
    measures.markdown(text.lines().zip(1..).map(|(line, number)| (number, line.chars().count(), line)));
    measures
}

/// The prose in the comments of a Rust file.
pub fn of_rust(text: &str) -> Measures {
    let lines: Vec<&str> = text.lines().collect();
    let mut measures = Measures::default();
    let mut comments = lex(text).comments.into_iter().peekable();
    while let Some(block) = block(&mut comments) {
        let columns = |line: usize| lines.get(line - 1).map_or(0, |line| line.chars().count());
        measures.markdown(block.iter().map(|comment| (comment.line, columns(comment.line), &*comment.text)));
    }
    measures
}

/// The next comments that are read as one: of one kind, in lines that follow each other.
fn block(comments: &mut Peekable<impl Iterator<Item = Comment>>) -> Option<Vec<Comment>> {
    let mut block = vec![comments.next()?];
    while let Some(last) = block.last()
        && let Some(next) =
            comments.next_if(|next| next.alone && next.line == last.line + 1 && next.marker == last.marker)
    {
        block.push(next);
    }
    Some(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn habits_are_found_where_they_are() {
        let text = "/// What is counted. What\n/// is a question? A text, of\n/// which this is one.\nlet at = 1; // So much at hand.\n";
        let measures = of_rust(text);
        assert_eq!(measures.found, [("of which, whose", 1), (WHAT, 1), ("so many, so much", 4), ("at hand", 4)]);
        assert_eq!((measures.words, measures.lines), (18, 4));
    }

    #[test]
    fn programs_and_tables_are_no_prose() {
        let page = format!(
            "# What\n\n```\nanew\n```\n| beside | {} |\n\nAn item of {}.\n",
            "w ".repeat(60),
            "words ".repeat(20)
        );
        let measures = of_page(&page);
        assert_eq!(measures.found, [(LONG, 8)]);
    }
}
