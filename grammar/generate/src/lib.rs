//! Generates the parser and the lexers. Their code is part of the repository, so that a build of the
//! library needs no generators.

#![forbid(unsafe_code)]

use std::error::Error;
use std::fs;
use std::path::Path;

use proc_macro2::TokenStream;

/// The grammar of the language.
const GRAMMAR: &str = "grammar/src/grammar.lalrpop";

/// The tokens of the language, and those of IR text.
const TOKENS: [&str; 2] = ["grammar/src/tokens.logos", "compiler/ir/src/parse/token.logos"];

/// A generated file.
pub struct Generated {
    /// Its path from the root of the repository.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// Every generated file of the repository at `root`.
pub fn all(root: &Path) -> Result<Vec<Generated>, Box<dyn Error>> {
    let generated = |source: &str, text| {
        let path = Path::new(source).with_extension("generated").display().to_string();
        Generated { path, text }
    };
    let mut all = vec![generated(GRAMMAR, parser(&root.join(GRAMMAR))?)];
    for source in TOKENS {
        all.push(generated(source, lexer(&fs::read_to_string(root.join(source))?)?));
    }
    Ok(all)
}

/// The parser of a grammar, by lalrpop.
fn parser(grammar: &Path) -> Result<String, Box<dyn Error>> {
    let out = tempfile::tempdir()?;
    let mut lalrpop = lalrpop::Configuration::new();
    lalrpop.set_in_dir(grammar.parent().unwrap_or(grammar)).set_out_dir(out.path()).force_build(true).log_quiet();
    lalrpop.emit_whitespace(false).process()?;
    Ok(fs::read_to_string(out.path().join("grammar.rs"))?)
}

/// The lexer of an `enum` of tokens, by logos.
fn lexer(tokens: &str) -> Result<String, Box<dyn Error>> {
    let tokens: TokenStream = tokens.parse()?;
    let mut code = logos_codegen::strip_attributes(tokens.clone());
    code.extend(logos_codegen::generate(tokens));
    Ok(prettyplease::unparse(&syn::parse2(code)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_has_what_is_generated() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for Generated { path, text } in all(&root).unwrap() {
            let found = fs::read_to_string(root.join(&path)).unwrap_or_default();
            assert!(found == text, "{path} is out of date: run `cargo run -p generate`");
        }
    }
}
