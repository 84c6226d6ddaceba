//! Lists the pages of `docs/errors` so that the library can include them, without a list to keep up
//! to date.

use std::fmt::Write;
use std::path::Path;

fn main() {
    let root = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let folder = Path::new(&root).join("docs/errors");
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = std::fs::read_dir(&folder).expect("docs/errors is there");
    let mut pages: Vec<(u16, String)> = entries
        .filter_map(|entry| entry.expect("docs/errors is readable").file_name().into_string().ok())
        .filter_map(|name| {
            // The pages of warnings come after those of errors, as their numbers do.
            let (first, digits) = match name.strip_prefix('W') {
                Some(digits) => (1000, digits),
                None => (0, name.strip_prefix('E')?),
            };
            Some((first + digits.strip_suffix(".md")?.parse::<u16>().ok()?, name))
        })
        .collect();
    pages.sort();
    let mut table = "&[\n".to_owned();
    for (number, name) in pages {
        let path = folder.join(name);
        writeln!(table, "    ({number}, include_str!({path:?})),").expect("a string takes any text");
    }
    table += "]\n";
    let to = Path::new(&std::env::var("OUT_DIR").expect("cargo says where to")).join("pages.rs");
    std::fs::write(to, table).expect("the build folder can be written to");
}
