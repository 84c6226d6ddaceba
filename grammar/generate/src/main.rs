//! Writes the generated files: run `cargo run -p generate` after a change of a grammar or of
//! tokens.

#![forbid(unsafe_code)]

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for file in generate::all(&root)? {
        std::fs::write(root.join(&file.path), &file.text)?;
    }
    Ok(())
}
