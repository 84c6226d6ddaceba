//! Who tests the tester: switches each deliberate bug of `ir::sabotage` on, lets a campaign find it and make it small, and writes the
//! table of `docs/fuzzing.md`.
//!
//! `cargo run --release -p fuzzing --features sabotage --bin sabotage [--seconds N] [--seed S] [BUG...]`: so many seconds for each, with the
//! numbers from there on. With names it only prints what came of these bugs.

use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use backends::cpu::Simd;
use fuzzing::campaign::{self, Failure, Plan, Report};
use fuzzing::engines::Engine;
use fuzzing::worker;
use ir::sabotage::{self, Bug};

/// Seconds until a bug counts as not found, unless told, and that a failure may take to be made small.
const SEARCH: u64 = 120;
const REDUCTION: u64 = 40;
/// Operations that a small program has at most.
const SMALL: usize = 5;
/// Around the table in the page.
const MARKS: [&str; 2] = ["<!-- the table of `sabotage` -->\n", "<!-- its end -->\n"];

/// What came of one bug.
struct Row {
    bug: &'static (Bug, &'static str, &'static str),
    report: Report,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let engines = engines();
    if let [flag, bug] = arguments.as_slice()
        && flag == "--worker"
    {
        sabotage::set(Some(bug.parse()?));
        worker::serve(&engines, io::stdin().lock(), io::stdout().lock())?;
        return Ok(());
    }
    let seconds = option(&mut arguments, "--seconds")?.unwrap_or(SEARCH);
    let seed = option(&mut arguments, "--seed")?.unwrap_or(0);
    let wanted = |name: &str| arguments.is_empty() || arguments.iter().any(|argument| argument == name);
    let mut rows = vec![];
    for (number, bug) in Bug::ALL.iter().enumerate().filter(|(_, bug)| wanted(&format!("{:?}", bug.0))) {
        let report = search(number, &engines, Duration::from_secs(seconds), seed)?;
        let row = Row { bug, report };
        eprintln!("{}", row.line());
        match &row.report.failure {
            _ if arguments.is_empty() => {}
            Some(failure) => eprintln!("{}\n{}", failure.source, failure.message),
            None => eprintln!("{}", row.report.tally),
        }
        rows.push(row);
    }
    if arguments.is_empty() {
        let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/fuzzing.md");
        let text = std::fs::read_to_string(&page)?;
        std::fs::write(&page, with_table(&text, &table(&rows)).ok_or("the page has no place for the table")?)?;
    }
    Ok(())
}

/// The number that follows an option, which are taken out.
fn option(arguments: &mut Vec<String>, name: &str) -> Result<Option<u64>, Box<dyn std::error::Error>> {
    let Some(at) = arguments.iter().position(|argument| argument == name) else { return Ok(None) };
    let number = arguments.get(at + 1).ok_or("an option without its number")?.parse()?;
    arguments.drain(at..at + 2);
    Ok(Some(number))
}

/// Everything that a machine without a GPU has.
fn engines() -> Vec<Engine> {
    let widths = [Simd::W128, Simd::W256, Simd::W512].into_iter().filter(|simd| simd.is_here());
    let cpu = widths.flat_map(|simd| [1, 2, 4].map(|threads| Engine::Cpu(threads, simd)));
    cpu.chain([Engine::Nest, Engine::Ptx, Engine::Ptx]).collect()
}

/// Looks for a bug.
fn search(number: usize, engines: &[Engine], time: Duration, seed: u64) -> io::Result<Report> {
    let folder = tempfile::tempdir()?;
    let plan = Plan {
        cases: u64::MAX,
        time: Some(time),
        seed,
        engines: engines.to_vec(),
        workers: std::thread::available_parallelism().map_or(1, usize::from),
        reduction: Duration::from_secs(REDUCTION),
        // Who waits for a planted hang waits often.
        patience: Duration::from_secs(20),
        folder: folder.path().to_owned(),
    };
    let program = std::env::current_exe()?;
    let start = || {
        let mut command = Command::new(&program);
        command.args(["--worker", &number.to_string()]);
        command
    };
    campaign::run(&plan, &start, &|_| {})
}

impl Row {
    fn line(&self) -> String {
        let (bug, room, what) = self.bug;
        let programs = self.report.tally.programs;
        match &self.report.failure {
            None => format!("| {bug:?} | {room} | {what} | not found | {programs} | | | |"),
            Some(Failure { found_after, operations: [before, after], kind, engine, .. }) => {
                let kind = kind.name();
                format!(
                    "| {bug:?} | {room} | {what} | {found_after:.1} | {programs} | {before} | {after} | {engine} {kind} |"
                )
            }
        }
    }
}

fn table(rows: &[Row]) -> String {
    let found: Vec<&Failure> = rows.iter().filter_map(|row| row.report.failure.as_ref()).collect();
    let mut times: Vec<f64> = rows
        .iter()
        .map(|row| row.report.failure.as_ref().map_or(f64::INFINITY, |failure| failure.found_after))
        .collect();
    times.sort_by(f64::total_cmp);
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    let small = found.iter().filter(|failure| failure.operations[1] <= SMALL).count();
    let mut text = format!(
        "{} of {} bugs found, the median after {median:.1} seconds; {} of 100 programs have at most {SMALL} operations when they are small.\n\n",
        found.len(),
        rows.len(),
        100 * small / found.len().max(1),
    );
    text.push_str("| bug | room | what is wrong | seconds | programs | operations | small | what shows it |\n");
    text.push_str("|---|---|---|--:|--:|--:|--:|---|\n");
    rows.iter().for_each(|row| text.push_str(&(row.line() + "\n")));
    text
}

/// The page with another table.
fn with_table(page: &str, table: &str) -> Option<String> {
    let [begin, end] = MARKS;
    let (before, rest) = page.split_once(begin)?;
    let (_, after) = rest.split_once(end)?;
    Some([before, begin, table, end, after].concat())
}
