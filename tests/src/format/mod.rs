//! Properties that formatting must keep, and programs to test them on: programs of every form of
//! the grammar, well typed or not, and programs that are hard to lay out.

mod noise;
mod syntax;

pub use noise::noisy;
pub use syntax::program;

/// Checks the properties of formatting for a program that parses: the same tree, tokens and
/// comments, and a second formatting changes nothing.
pub fn check(source: &str) -> Result<(), String> {
    let parse = |text: &str| grammar::parse(text).map_err(|errors| format!("{errors:?}\n{text}"));
    let file = parse(source)?;
    let formatted = grammar::format(source).map_err(|errors| format!("parses, but: {errors:?}"))?;
    let again = grammar::format(&formatted).map_err(|errors| format!("{errors:?}\n{formatted}"))?;
    same("tree", &file.to_string(), &parse(&formatted)?.to_string(), &formatted)?;
    same("comments", &comments(source), &comments(&formatted), &formatted)?;
    same("tokens", &tokens(source), &tokens(&formatted), &formatted)?;
    same("text formatted again", &formatted, &again, &formatted)?;
    match formatted.lines().find(|line| line.ends_with(' ')) {
        Some(line) => Err(format!("space at the end of {line:?} in\n{formatted}")),
        None => Ok(()),
    }
}

fn same(what: &str, before: &str, after: &str, formatted: &str) -> Result<(), String> {
    if before == after {
        return Ok(());
    }
    Err(format!("another {what}:\n{before}\n---- became\n{after}\n---- in\n{formatted}"))
}

/// The comments of a program, a line each. (Nothing else in it has a `#`.)
fn comments(source: &str) -> String {
    let comments = source.lines().filter_map(|line| line.find('#').map(|at| line[at..].trim_end()));
    comments.collect::<Vec<_>>().join("\n")
}

/// The tokens of a program in a row, without those that formatting may add or remove.
fn tokens(source: &str) -> String {
    let code = source.lines().map(|line| line.split('#').next().unwrap_or_default());
    code.flat_map(str::chars).filter(|c| !c.is_whitespace() && !";,()\u{feff}".contains(*c)).collect()
}
