//! Writes the parser of `grammar.js`, as `tree-sitter generate` does: run `cargo run` in the folder
//! of this crate after a change of the grammar. It needs `node`.

#![forbid(unsafe_code)]

use std::error::Error;
use std::path::Path;

use tree_sitter_generate::{OptLevel, generate_parser_in_directory};

/// The version of the interface between parsers and the library.
const ABI: usize = 15;

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let nowhere: Option<&Path> = None;
    let mut notes = vec![];
    let node = Some("node");
    generate_parser_in_directory(root, nowhere, nowhere, ABI, None, node, true, OptLevel::default(), &mut notes)?;
    for note in notes {
        eprintln!("note: {note}");
    }
    Ok(())
}
