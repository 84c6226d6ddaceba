//! Tests the tester: switches on each deliberate bug of `ir::sabotage` in turn, lets a campaign
//! find and reduce it, and writes the table of `docs/fuzzing.md`.
//!
//! `cargo run --release -p fuzzing --features sabotage --bin sabotage [--seconds N] [--seed S]
//! [--seeds K] [--python PATH] [BUG or ROOM...]` spends N seconds on each, with the numbers from S
//! on. With several seeds, each figure is from the search that took the median time. Bugs in the
//! front end, which all engines share, are searched for with NumPy, those in derivatives with
//! difference quotients. If bugs are named, it only prints their results.

use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backends::cpu::Simd;
use fuzzing::campaign::{self, Failure, Plan, Report};
use fuzzing::engines::Engine;
use fuzzing::numpy::Batch;
use fuzzing::quotients;
use fuzzing::worker;
use ir::sabotage::{self, Bug};

/// The seconds after which a bug counts as not found, unless given, and the limit for reducing a
/// failure.
const SEARCH: u64 = 120;
const REDUCTION: u64 = 40;
/// Programs that are held to NumPy at once.
const BATCH: u64 = 200;
/// Programs that are held to difference quotients at once.
const QUOTIENTS: u64 = 16;
/// The bugs that are searched for with difference quotients.
const DERIVE: &str = "derive";
/// The distance between the numbers of several searches.
const SEED_STEP: u64 = 1_000_000_000;
/// Operations that a small program has at most.
const SMALL: usize = 5;
/// Around the table in the page.
const MARKS: [&str; 2] = ["<!-- the table of `sabotage` -->\n", "<!-- its end -->\n"];

/// The result for one bug.
struct Row {
    bug: &'static (Bug, &'static str, &'static str),
    /// With each seed.
    searches: Vec<Search>,
}

/// The result of the search with one seed.
struct Search {
    report: Report,
    /// The programs and seconds after which something else found it, if no engine did.
    apart: Option<(u64, f64)>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let engines = engines();
    // The search starts this program again for its workers, with the bug switched on in them alone,
    // so that it cannot damage the search itself.
    if let [flag, bug] = arguments.as_slice()
        && flag == "--worker"
    {
        sabotage::set(Some(bug.parse()?));
        worker::serve(&engines, io::stdin().lock(), io::stdout().lock())?;
        return Ok(());
    }
    if let [flag, bug, first] = arguments.as_slice()
        && flag == "--script"
    {
        sabotage::set(Some(bug.parse()?));
        let first: u64 = first.parse()?;
        let batch = Batch::new(first..first + BATCH);
        println!("{}", batch.script);
        batch.faults.iter().for_each(|_| println!("print(\"differs\")"));
        return Ok(());
    }
    if let [flag, bug, first] = arguments.as_slice()
        && flag == "--quotients"
    {
        sabotage::set(Some(bug.parse()?));
        let first: u64 = first.parse()?;
        for wrong in quotients::all_compared(first..first + QUOTIENTS).iter().filter_map(|found| found.as_ref().err()) {
            println!("differs: {wrong}");
        }
        return Ok(());
    }
    let seconds = number(&mut arguments, "--seconds")?.unwrap_or(SEARCH);
    let seed = number(&mut arguments, "--seed")?.unwrap_or(0);
    let seeds = number(&mut arguments, "--seeds")?.unwrap_or(1);
    let python = option(&mut arguments, "--python")?.unwrap_or_else(|| "python3".to_owned());
    let wanted = |name: &str| arguments.is_empty() || arguments.iter().any(|argument| argument == name);
    let is_wanted = |bug: &(Bug, &str, &str)| wanted(&format!("{:?}", bug.0)) || arguments.iter().any(|a| a == bug.1);
    let mut rows = vec![];
    for (number, bug) in Bug::ALL.iter().enumerate().filter(|(_, bug)| is_wanted(bug)) {
        let mut searches = vec![];
        for n in 0..seeds {
            let from = seed.wrapping_add(n.wrapping_mul(SEED_STEP));
            let time = Duration::from_secs(seconds);
            let by_quotients = bug.1 == DERIVE;
            // Engines agree on a wrong derivative: they run the same program.
            let report = search(number, &engines, if by_quotients { Duration::ZERO } else { time }, from)?;
            let apart = match report.failure {
                Some(_) => None,
                None if by_quotients => search_by_quotients(number, time, from)?,
                // A bug in the front end changes all engines alike; only NumPy can tell.
                None => search_by_numpy(number, &python, time, from)?,
            };
            searches.push(Search { report, apart });
        }
        let row = Row { bug, searches };
        eprintln!("{}", row.line());
        for search in row.searches.iter().filter(|_| !arguments.is_empty()) {
            match &search.report.failure {
                Some(failure) => eprintln!("{}\n{}", failure.source, failure.message),
                None => eprintln!("{}", search.report.tally),
            }
        }
        rows.push(row);
    }
    // The page lists all bugs, so a search for some of them does not update it.
    if arguments.is_empty() {
        let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/fuzzing.md");
        let text = std::fs::read_to_string(&page)?;
        std::fs::write(&page, with_table(&text, &table(&rows)).ok_or("the page has no place for the table")?)?;
    }
    Ok(())
}

/// Searches for a bug that all engines share, in batches of programs that are also written in
/// NumPy. Fuseloop's part runs in a process of its own, since the bug may crash it.
fn search_by_numpy(number: usize, python: &str, time: Duration, seed: u64) -> io::Result<Option<(u64, f64)>> {
    let begin = Instant::now();
    let program = std::env::current_exe()?;
    let mut first = seed;
    while begin.elapsed() < time {
        let made = Command::new(&program).args(["--script", &number.to_string(), &first.to_string()]).output()?;
        let mut differs = !made.status.success();
        if !differs {
            let mut script = tempfile::NamedTempFile::new()?;
            io::Write::write_all(&mut script, &made.stdout)?;
            let compared = Command::new(python).arg(script.path()).output()?;
            if !compared.status.success() {
                return Err(io::Error::other(String::from_utf8_lossy(&compared.stderr).into_owned()));
            }
            differs = String::from_utf8_lossy(&compared.stdout).contains("differs");
        }
        first += BATCH;
        if differs {
            return Ok(Some((first - seed, begin.elapsed().as_secs_f64())));
        }
    }
    Ok(None)
}

/// Searches for a bug in derivatives with difference quotients, in processes of their own, since it
/// may crash them.
fn search_by_quotients(number: usize, time: Duration, seed: u64) -> io::Result<Option<(u64, f64)>> {
    let begin = Instant::now();
    let program = std::env::current_exe()?;
    let mut first = seed;
    while begin.elapsed() < time {
        let made = Command::new(&program).args(["--quotients", &number.to_string(), &first.to_string()]).output()?;
        first += QUOTIENTS;
        if !made.status.success() || String::from_utf8_lossy(&made.stdout).contains("differs") {
            return Ok(Some((first - seed, begin.elapsed().as_secs_f64())));
        }
    }
    Ok(None)
}

/// Takes an option out of the arguments and returns its value.
fn option(arguments: &mut Vec<String>, name: &str) -> Result<Option<String>, Box<dyn std::error::Error>> {
    let Some(at) = arguments.iter().position(|argument| argument == name) else { return Ok(None) };
    let value = arguments.get(at + 1).ok_or("an option without its value")?.clone();
    arguments.drain(at..at + 2);
    Ok(Some(value))
}

fn number(arguments: &mut Vec<String>, name: &str) -> Result<Option<u64>, Box<dyn std::error::Error>> {
    Ok(option(arguments, name)?.map(|value| value.parse()).transpose()?)
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
        stop: Arc::default(),
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

impl Search {
    /// Seconds until it was found.
    fn seconds(&self) -> f64 {
        let failure = self.report.failure.as_ref().map(|failure| failure.found_after);
        failure.or(self.apart.map(|(_, seconds)| seconds)).unwrap_or(f64::INFINITY)
    }
}

impl Row {
    /// The search that took neither longest nor shortest.
    fn median(&self) -> Option<&Search> {
        let mut searches: Vec<&Search> = self.searches.iter().collect();
        searches.sort_by(|a, b| a.seconds().total_cmp(&b.seconds()));
        searches.get(searches.len() / 2).copied()
    }

    fn line(&self) -> String {
        let (bug, room, what) = self.bug;
        let Some(search) = self.median() else { return String::new() };
        let (programs, seconds) = (search.report.tally.programs, search.seconds());
        match (&search.report.failure, search.apart) {
            (Some(Failure { operations: [before, after], kind, engine, .. }), _) => {
                let kind = kind.name();
                format!(
                    "| {bug:?} | {room} | {what} | {seconds:.1} | {programs} | {before} | {after} | {engine} {kind} |"
                )
            }
            (None, Some((programs, _))) => {
                let by = if *room == DERIVE { "a difference quotient" } else { "NumPy" };
                format!("| {bug:?} | {room} | {what} | {seconds:.1} | {programs} | | | {by} differs |")
            }
            (None, None) => format!("| {bug:?} | {room} | {what} | not found | {programs} | | | |"),
        }
    }
}

fn table(rows: &[Row]) -> String {
    let searches: Vec<&Search> = rows.iter().filter_map(Row::median).collect();
    let mut times: Vec<f64> = searches.iter().map(|search| search.seconds()).collect();
    times.sort_by(f64::total_cmp);
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    let found = times.iter().filter(|seconds| seconds.is_finite()).count();
    let reduced: Vec<&Failure> = searches.iter().filter_map(|search| search.report.failure.as_ref()).collect();
    let small = reduced.iter().filter(|failure| failure.operations[1] <= SMALL).count();
    let mut text = format!(
        "{found} of {} bugs found, the median after {median:.1} seconds; {} of 100 programs have at most {SMALL} operations when they are small.\n\n",
        rows.len(),
        100 * small / reduced.len().max(1),
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
