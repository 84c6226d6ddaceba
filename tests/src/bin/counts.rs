//! Measures of the code base, package by package, to be compared before and after a large change:
//! `cargo run -p tests --bin counts`.

use tests::measure::{Code, measure};
use tests::prose::{HABITS, LONG, areas};
use tests::source::{files, package};

/// The packages that are part of the product, by their folders.
fn is_product(package: &str) -> bool {
    !["tests", "bench", "fuzz", "examples"].contains(&package.split('/').next().unwrap_or_default())
}

fn main() {
    let sources = files(&["rs"]);
    let mut packages: Vec<&str> = sources.iter().map(|file| package(&file.path)).collect();
    packages.sort_unstable();
    packages.dedup();
    println!(
        "| package | files | lines | functions | longest | over 100 lines | tuple parameters | `_ =>` | comments in 1,000 lines of code |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|");
    let mut details = vec![];
    for package in packages.into_iter().filter(|package| is_product(package)) {
        let own: Vec<_> = sources.iter().filter(|file| is_own(&file.path, package)).cloned().collect();
        let code = measure(&own, package);
        let (longest, long) =
            (code.functions.last().unwrap_or(&0), code.functions.iter().filter(|n| **n > 100).count());
        let (Code { files, lines, tuples, wildcards, .. }, functions) = (&code, code.functions.len());
        let inline = code.inline as f64 * 1000.0 / code.lines.max(1) as f64;
        println!(
            "| {package} | {files} | {lines} | {functions} | {longest} | {long} | {tuples} | {wildcards} | {inline:.1} |"
        );
        details.push((package, code));
    }
    println!("\nLarge types (methods, fields) and circles of imports (files in each):\n");
    for (package, code) in &details {
        let mut types: Vec<_> = code.methods.iter().filter(|(_, methods)| **methods >= 60).collect();
        types.sort_by_key(|(_, methods)| std::cmp::Reverse(**methods));
        for (name, methods) in types {
            println!("- {package}: `{name}` ({methods}, {})", code.fields.get(name).copied().unwrap_or_default());
        }
        if !code.circles.is_empty() {
            let sizes: Vec<String> = code.circles.iter().map(|circle| circle.len().to_string()).collect();
            println!("- {package}: circles of {}", sizes.join(", "));
        }
    }
    println!("\nHabits of prose, in 10,000 words, and long lines in 1,000:\n");
    let names: Vec<&str> = HABITS.iter().map(|habit| habit.name).collect();
    println!("| prose of | words | {} | {LONG} |", names.join(" | "));
    println!("|---|--:|{}--:|", "--:|".repeat(names.len()));
    for (name, area) in areas() {
        let count = |habit: &str| area.places.get(habit).map_or(0, Vec::len) as f64;
        let rates = names.iter().map(|habit| format!("{:.1}", count(habit) * 10_000.0 / area.words.max(1) as f64));
        let long = count(LONG) * 1000.0 / area.lines.max(1) as f64;
        println!("| {name} | {} | {} | {long:.1} |", area.words, rates.collect::<Vec<_>>().join(" | "));
    }
}

/// Whether a file is part of the product's code of a package, tests aside.
fn is_own(path: &str, folder: &str) -> bool {
    let inside = path.strip_prefix(folder).map_or(path, |path| path.trim_start_matches('/'));
    package(path) == folder && inside.starts_with("src/") && !inside.contains("tests")
}
