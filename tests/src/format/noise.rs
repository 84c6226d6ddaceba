//! Line ends, blank lines, comments and long names in every place where a program may have them.

use std::fmt::Write;

use crate::generate::Choices;

/// White space and comments for a place between two tokens where a line may end. A `#` is numbered.
const NOISE: &[(usize, &str)] = &[
    (60, ""),
    (2, "\n"),
    (1, "\n\n\n"),
    (2, "  # end\n"),
    (1, "# end\n    # more\n# and\n\n"),
    (1, "\n\n# own\n"),
    (1, "                    # far\n                    # below\n"),
    (1, "\t"),
];

const WORDS: &[&str] =
    &["fn", "let", "rec", "if", "then", "else", "where", "loop", "while", "nan", "inf", "use", "grad", "jvp"];

/// The program with line ends, comments and long names inserted. Its tree changes only in names.
pub fn noisy(source: &str, words: &[u16]) -> String {
    let mut choices = Choices::new(words);
    let mut out = String::new();
    let mut open = vec![];
    let mut previous = "\n";
    let mut count = 0;
    for token in split(source) {
        let inside = open.last().is_some_and(|bracket| *bracket != "{");
        if !token.starts_with(' ') && (inside || !ends(previous) || !begins(token)) {
            let noise = choices.weighted(NOISE).unwrap_or_default();
            for part in noise.split_inclusive('#') {
                out.push_str(part);
                if part.ends_with('#') {
                    count += 1;
                    let _ = write!(out, "{count} ");
                }
            }
        }
        out.push_str(token);
        let name = token.starts_with(|c: char| c.is_ascii_lowercase()) && !WORDS.contains(&token);
        if name && grammar::ast::Dtype::ALL.iter().all(|dtype| dtype.name() != token) {
            let length = choices.weighted(&[(80, 0), (8, 5), (4, 30), (1, 100)]).unwrap_or_default();
            out.extend(std::iter::repeat_n('_', length));
        }
        match token {
            "(" | "[" | "{" => open.push(token),
            ")" | "]" | "}" => drop(open.pop()),
            _ => {}
        }
        if !token.starts_with([' ', '#']) {
            previous = token;
        }
    }
    out
}

/// Whether a statement may end behind a token.
fn ends(token: &str) -> bool {
    let word = token.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.');
    (word && !WORDS[..9].contains(&token)) || matches!(token, ")" | "]" | "}")
}

/// Whether a statement may begin with a token.
fn begins(token: &str) -> bool {
    !matches!(token, "then" | "else" | "where" | "while" | ")" | "]" | "}" | "," | ":" | "=" | "->" | "{")
        && !token.starts_with('#')
}

/// The words, numbers, texts, signs, spaces, line ends and comments of a program.
fn split(mut source: &str) -> Vec<&str> {
    let mut tokens = vec![];
    while let Some(first) = source.chars().next() {
        let run = |wanted: &dyn Fn(char) -> bool| source.find(|c| !wanted(c)).unwrap_or(source.len());
        let length = match first {
            '#' => run(&|c| c != '\n'),
            ' ' => run(&|c| c == ' '),
            '"' => source[1..].find('"').map_or(source.len(), |end| end + 2),
            '_' | '.' | 'a'..='z' | 'A'..='Z' | '0'..='9' => {
                let word = run(&|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
                let number = first == '.' || first.is_ascii_digit();
                let exponent = number && source[..word].ends_with(['e', 'E']) && source[word..].starts_with(['+', '-']);
                let digits = if exponent { source[word + 1..].find(|c: char| !c.is_ascii_digit()) } else { None };
                word + digits.map_or(0, |digits| digits + 1)
            }
            _ if ["->", "||", "&&", "==", "!=", "<=", ">="].iter().any(|sign| source.starts_with(sign)) => 2,
            _ => first.len_utf8(),
        };
        let (token, rest) = source.split_at(length);
        tokens.push(token);
        source = rest;
    }
    tokens
}
