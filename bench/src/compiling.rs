//! Measures the time from text to a callable function, stage by stage: for a program for `run.py`,
//! or for many as a report.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fuseloop::{Options, Program, Source, Times};
use serde::Serialize;

use crate::Error;

/// How often the report compiles each function, by default.
const ROUNDS: usize = 15;

/// Functions that the report lists.
const SLOWEST: usize = 10;

/// A function's times, in seconds: of the round with the median of their sums.
#[derive(Serialize)]
pub struct Compiled {
    name: String,
    /// Text to syntax tree.
    parse: f64,
    /// Names, types, shapes and bounds, of the whole program.
    check: f64,
    /// Loop nests, and fusion.
    lower: f64,
    /// Machine code.
    code: f64,
}

/// Compiles each function of a program, from its text, this many times.
pub fn functions(program: &Path, rounds: usize) -> Result<Vec<Compiled>, Error> {
    let mut functions = read(program)?;
    for _ in 0..rounds.max(1) {
        functions.iter_mut().try_for_each(Timed::compile)?;
    }
    Ok(functions.into_iter().map(Timed::median).collect())
}

/// Prints how long compiling the functions of many programs takes: percentiles, and the slowest
/// functions stage by stage. The arguments are files and folders of programs, and `--rounds N`.
pub fn report(arguments: impl Iterator<Item = OsString>) -> Result<(), Error> {
    let mut arguments = arguments.peekable();
    let (mut rounds, mut functions) = (ROUNDS, vec![]);
    while let Some(argument) = arguments.next() {
        if argument == "--rounds" {
            let number = arguments.next().ok_or("--rounds needs a number")?;
            rounds = number.to_string_lossy().parse::<usize>()?.max(1);
            continue;
        }
        for program in programs(&PathBuf::from(argument))? {
            functions.append(&mut read(&program)?);
        }
    }
    if functions.is_empty() {
        return Err("no program is given".into());
    }
    // Each round goes over all functions, so that a disturbance hits one round of many functions
    // and not all rounds of one.
    for _ in 0..rounds {
        functions.iter_mut().try_for_each(Timed::compile)?;
    }
    let mut all: Vec<(String, Compiled)> =
        functions.into_iter().map(|function| (function.file(), function.median())).collect();
    all.sort_by(|(_, a), (_, b)| a.total().total_cmp(&b.total()));
    let at = |percent: usize| all[(all.len() - 1) * percent / 100].1.total() * 1e3;
    println!("{} functions, median of {rounds} rounds, in ms", all.len());
    println!("p50 {:.2}  p95 {:.2}  max {:.2}", at(50), at(95), at(100));
    println!("{:8} {:8} {:8} {:8} {:8} slowest functions", "total", "parse", "check", "lower", "code");
    for (file, compiled) in all.iter().rev().take(SLOWEST) {
        let [total, parse, check, lower, code] =
            [compiled.total(), compiled.parse, compiled.check, compiled.lower, compiled.code].map(|time| time * 1e3);
        let name = &compiled.name;
        println!("{total:<8.2} {parse:<8.2} {check:<8.2} {lower:<8.2} {code:<8.2} {file}.{name}");
    }
    Ok(())
}

/// The program files of a folder, in their order, or the one file.
fn programs(path: &Path) -> Result<Vec<PathBuf>, Error> {
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let entries = std::fs::read_dir(path)?.collect::<Result<Vec<_>, _>>()?;
    let mut files: Vec<PathBuf> = entries.iter().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "fl"));
    files.sort();
    Ok(files)
}

/// A function with the times of the rounds so far.
struct Timed {
    source: Source,
    name: String,
    times: Vec<Times>,
}

/// The functions of a program.
fn read(program: &Path) -> Result<Vec<Timed>, Error> {
    let source = Source::new(program.display().to_string(), std::fs::read_to_string(program)?);
    let read = Program::parse(source.clone())?;
    let names = read.functions().map(|signature| signature.name.clone());
    Ok(names.map(|name| Timed { source: source.clone(), name, times: vec![] }).collect())
}

impl Timed {
    fn compile(&mut self) -> Result<(), Error> {
        let program = Program::parse(self.source.clone())?;
        self.times.push(program.function(&self.name)?.compile(&Options::default())?.times());
        Ok(())
    }

    /// The name of its program's file, without what comes after a dot.
    fn file(&self) -> String {
        Path::new(&self.source.name).file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn median(mut self) -> Compiled {
        self.times.sort_by_key(Times::total);
        let median = self.times[self.times.len() / 2];
        let [parse, check, lower, code] =
            [median.parse, median.check, median.lower, median.compile].map(|time: Duration| time.as_secs_f64());
        Compiled { name: self.name, parse, check, lower, code }
    }
}

impl Compiled {
    fn total(&self) -> f64 {
        self.parse + self.check + self.lower + self.code
    }
}
