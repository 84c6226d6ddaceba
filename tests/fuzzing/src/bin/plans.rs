//! Measures the quality of plans: compares the plan of each program with those of every subset of
//! the passes, and with the best partition of its operations.
//!
//! `cargo run --release -p fuzzing --bin plans -- [--cases N] [--seed S] [--page] [FILE...]` runs N
//! random programs from number S on, and every function of the files, or else of the examples. It
//! prints the programs that do not get the best plan; `--page` writes the table of
//! `docs/fusion.md`. It fails if more than one plan in 5,000 is worse than one of fewer passes: the
//! search may end at a plan that it takes for the best possible although another reads less.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use fuzzing::generate::Recipe;
use fuzzing::plans::{Gaps, Source, functions, held};

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let (mut cases, mut seed, mut page, mut files) = (2000u64, 0u64, false, vec![]);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--cases" => cases = arguments.next().ok_or("an option without its value")?.parse()?,
            "--seed" => seed = arguments.next().ok_or("an option without its value")?.parse()?,
            "--page" => page = true,
            file => files.push(PathBuf::from(file)),
        }
    }
    let (mut gaps, mut worse) = (vec![Gaps::default(); 2], 0);
    let mut look = |gaps: &mut Gaps, source: &Source| {
        let found = held(source);
        if let Some(complaint) = &found.complaint {
            worse += 1;
            println!("{complaint}\n{}", source.text);
        }
        if let Some(gap) = &found.gap {
            gaps.note(gap);
            if gap.bytes > 1.0 {
                println!(
                    "{:.3} times the bytes of the best partition, which takes {:.3} times as long; {:.3} of those no slower",
                    gap.bytes, gap.time, gap.no_slower
                );
                println!("{}\n{}", gap.text, source.text);
            }
        }
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if files.is_empty() {
        for entry in std::fs::read_dir(root.join("examples"))? {
            files.push(entry?.path());
        }
        files.retain(|path| path.extension().is_some_and(|e| e == "fl"));
        files.sort();
    }
    for path in &files {
        functions(&std::fs::read_to_string(path)?).iter().for_each(|source| look(&mut gaps[0], source));
    }
    for number in seed..seed + cases {
        let program = Recipe::drawn(number).program();
        let source = Source { text: program.source, entry: program.entry.to_owned() };
        look(&mut gaps[1], &source);
    }
    let table = format!(
        "| | programs | fewest bytes of all | fewest of those no slower | beyond 1.25 of these |\n|---|--:|--:|--:|--:|\n| examples | {} |\n| random programs | {} |\n",
        gaps[0], gaps[1]
    );
    println!("{table}{worse} plans are worse than one of fewer passes");
    if page {
        let page = root.join("docs/fusion.md");
        let text = std::fs::read_to_string(&page)?;
        let (before, rest) =
            text.split_once("<!-- the table of `plans` -->\n").ok_or("the page has no place for the table")?;
        let (_, after) = rest.split_once("<!-- its end -->\n").ok_or("the table has no end")?;
        std::fs::write(
            &page,
            [before, "<!-- the table of `plans` -->\n", &table, "<!-- its end -->\n", after].concat(),
        )?;
    }
    // The search is heuristic, so a rare worse plan is tolerated: one in 5,000 programs.
    let looked_at = files.len() as u64 + cases;
    Ok(if worse * 5000 <= looked_at { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
