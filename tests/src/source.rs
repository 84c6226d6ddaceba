//! The sources of the workspace as the house tests and the program `counts` read them: the files,
//! and for each Rust file its code without comments and strings, and its comments without code.

use std::path::{Path, PathBuf};

/// A file of the workspace.
#[derive(Clone, Debug)]
pub struct File {
    /// Its path from the root, with `/` between folders.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// The root of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ stands in the workspace").to_path_buf()
}

/// Every file of the workspace with one of these extensions, in the order of their paths.
pub fn files(extensions: &[&str]) -> Vec<File> {
    let mut found = vec![];
    let mut left = vec![root()];
    while let Some(folder) = left.pop() {
        for entry in std::fs::read_dir(&folder).expect("the workspace is readable") {
            let path = entry.expect("the workspace is readable").path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() {
                if !["target", "node_modules"].contains(&name) && !name.starts_with('.') {
                    left.push(path);
                }
            } else if extensions.iter().any(|extension| path.extension().is_some_and(|found| found == *extension)) {
                let text = std::fs::read_to_string(&path).expect("sources are UTF-8");
                let path = path.strip_prefix(root()).expect("found below the root").display().to_string();
                found.push(File { path, text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// The package that a file belongs to, as a folder: the innermost one above the file that has a
/// `Cargo.toml`. The root package is `.`.
pub fn package(path: &str) -> &str {
    let mut folder = path;
    while let Some((above, _)) = folder.rsplit_once('/') {
        if root().join(above).join("Cargo.toml").exists() {
            return above;
        }
        folder = above;
    }
    "."
}

/// A comment up to the end of its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// Its line, from 1.
    pub line: usize,
    /// `//`, `///` or `//!`.
    pub marker: &'static str,
    /// Whether no code stands before it.
    pub alone: bool,
    /// Its text behind the marker and a space.
    pub text: String,
}

/// A Rust file, taken apart.
#[derive(Clone, Debug, Default)]
pub struct Lexed {
    /// The text, with comments and literals of strings and characters replaced by spaces.
    pub code: String,
    /// The comments, block comments apart.
    pub comments: Vec<Comment>,
}

/// Takes a Rust file apart.
pub fn lex(text: &str) -> Lexed {
    let mut lexed = Lexed::default();
    let (mut rest, mut line) = (text, 1);
    while let Some(next) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            let comment = rest.lines().next().unwrap_or_default();
            let before = lexed.code.rsplit('\n').next().unwrap_or_default();
            lexed.comments.push(read_comment(comment, line, before.trim().is_empty()));
            comment.len()
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = literal(rest, lexed.code.chars().next_back()) {
            length
        } else {
            line += usize::from(next == '\n');
            lexed.code.push(next);
            rest = &rest[next.len_utf8()..];
            continue;
        };
        line += rest[..length].matches('\n').count();
        lexed.code.extend(rest[..length].chars().map(|blanked| if blanked == '\n' { '\n' } else { ' ' }));
        rest = &rest[length..];
    }
    lexed
}

fn read_comment(text: &str, line: usize, alone: bool) -> Comment {
    // Four slashes or more are no documentation.
    let marker = ["//!", "///"].into_iter().find(|marker| text.starts_with(marker) && !text.starts_with("////"));
    let marker = marker.unwrap_or("//");
    let text = text[marker.len()..].trim_end();
    Comment { line, marker, alone, text: text.strip_prefix(' ').unwrap_or(text).to_owned() }
}

/// The length of the literal of a string or a character that `rest` begins with, if it does.
fn literal(rest: &str, before: Option<char>) -> Option<usize> {
    let in_word = before.is_some_and(|before| before.is_alphanumeric() && before != 'b' || before == '_');
    if let Some(raw) = rest.strip_prefix('r').filter(|_| !in_word) {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let begin = 1 + hashes + 1;
            return Some(rest[begin..].find(&end).map_or(rest.len(), |at| begin + at + end.len()));
        }
    }
    let quote = rest.chars().next().filter(|quote| ['"', '\''].contains(quote))?;
    let mut characters = rest.char_indices().skip(1);
    if quote == '\'' {
        // A lifetime has no quote behind its first character.
        let mut peek = rest.chars().skip(1);
        if peek.next() != Some('\\') && peek.next() != Some('\'') {
            return None;
        }
    }
    while let Some((at, character)) = characters.next() {
        if character == '\\' {
            characters.next();
        } else if character == quote {
            return Some(at + 1);
        }
    }
    Some(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_and_comments_come_apart() {
        let text = "//! Head.\nlet url = \"http://a\"; // Why.\nlet (a, b): (&'a str, char) = (r#\"\"//\"#, '\"');\n/// Doc.\n";
        let lexed = lex(text);
        assert_eq!(
            lexed.code.lines().map(str::trim_end).collect::<Vec<_>>(),
            ["", "let url =           ;", "let (a, b): (&'a str, char) = (        ,    );", ""]
        );
        let comment = |line, marker, alone, text: &str| Comment { line, marker, alone, text: text.to_owned() };
        assert_eq!(
            lexed.comments,
            [comment(1, "//!", true, "Head."), comment(2, "//", false, "Why."), comment(4, "///", true, "Doc.")]
        );
    }

    #[test]
    fn files_know_their_package() {
        assert_eq!(package("compiler/ir/src/lib.rs"), "compiler/ir");
        assert_eq!(package("compiler/src/lib.rs"), "compiler");
        assert_eq!(package("src/lib.rs"), ".");
    }
}
