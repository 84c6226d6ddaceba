//! Fuseloop's grammar for [tree-sitter](https://tree-sitter.github.io), for editors and other
//! programs that read source text.
//!
//! ```
//! let mut parser = tree_sitter::Parser::new();
//! parser.set_language(&tree_sitter_fuseloop::LANGUAGE.into())?;
//! let tree = parser.parse("fn twice(x: f32[n]) = x * 2", None).expect("no time limit");
//! assert!(!tree.root_node().has_error());
//! # Ok::<(), tree_sitter::LanguageError>(())
//! ```

use tree_sitter_language::LanguageFn;

unsafe extern "C" {
    fn tree_sitter_fuseloop() -> *const ();
}

/// The grammar.
// SAFETY: the generated parser defines this function, which gives a pointer to a constant.
pub const LANGUAGE: LanguageFn = unsafe { LanguageFn::from_raw(tree_sitter_fuseloop) };

/// The kinds of nodes and their fields, as JSON.
pub const NODE_TYPES: &str = include_str!("../../src/node-types.json");

/// The query that colours a text.
pub const HIGHLIGHTS_QUERY: &str = include_str!("../../queries/highlights.scm");

/// The query that finds names and where they are declared.
pub const LOCALS_QUERY: &str = include_str!("../../queries/locals.scm");
