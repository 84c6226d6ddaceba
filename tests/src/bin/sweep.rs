//! Visits every input of the functions of one argument and of the conversions, and reports how far
//! results are from exact, and whether they depend on the width of vectors.
//!
//!     cargo run --release -p tests --bin sweep -- [NAME...] [--widths] [--stride N] [--threads N] [--json FILE]
//!
//! A name is that of a case, such as `exp` or `i8(f32)`, or `functions` or `conversions`. The exit
//! status is 1 if a result is more than two units in the last place off, a conversion is wrong, or
//! two widths disagree.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use tests::sweep::{Case, Finding, Group, Visit, cases};

/// Visits every input of the functions of one argument and of the conversions.
#[derive(Parser)]
struct Arguments {
    /// Cases such as `exp` or `i8(f32)`, or `functions` or `conversions`; all if there is none
    names: Vec<String>,
    /// Only compare the widths of vectors with each other, which is many times faster
    #[arg(long)]
    widths: bool,
    /// Visit every Nth input only
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    stride: u64,
    /// Threads, by default as many as the machine has
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Write what was found to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

/// Whether all is as the language promises.
fn run(arguments: &Arguments) -> Result<bool, String> {
    let all = cases();
    let is = |case: &Case, name: &str| case.name == name || case.group.name() == name;
    if let Some(unknown) = arguments.names.iter().find(|name| !all.iter().any(|case| is(case, name))) {
        let names: Vec<&str> = all.iter().map(|case| case.name.as_str()).collect();
        return Err(format!("no case is called `{unknown}`; there are: {}", names.join(" ")));
    }
    let chosen: Vec<&Case> = all
        .iter()
        .filter(|case| arguments.names.is_empty() || arguments.names.iter().any(|name| is(case, name)))
        .collect();
    let threads = arguments.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let bar = ProgressBar::new(chosen.iter().map(|case| case.inputs(arguments.stride)).sum());
    let style = "{msg:20} {wide_bar} {percent:>3} %  {eta} left";
    bar.set_style(ProgressStyle::with_template(style).map_err(|e| e.to_string())?);
    let visit = Visit { stride: arguments.stride, threads, judged: !arguments.widths };
    let mut holds = true;
    let mut found = vec![];
    for case in chosen {
        bar.set_message(case.name.clone());
        let start = Instant::now();
        let finding = case.run(visit, &|inputs| bar.inc(inputs))?;
        holds &= finding.holds();
        bar.suspend(|| {
            println!("{:14} {}  [{:.1} s]", case.name, line(case, visit, &finding), start.elapsed().as_secs_f64())
        });
        found.push(json(case, &finding));
        if let Some(path) = &arguments.json {
            // After each case, so that an interrupted run leaves its results.
            let text = format!("{:#}\n", serde_json::Value::from(found.clone()));
            std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))?;
        }
    }
    bar.finish_and_clear();
    println!("{}", if holds { "all as promised" } else { "NOT all as promised" });
    Ok(holds)
}

/// The findings, for people.
fn line(case: &Case, visit: Visit, found: &Finding) -> String {
    let visited = found.inputs;
    match found.unrounded {
        _ if found.differing > 0 => format!("{} of {visited} hang on the WIDTH of vectors", found.differing),
        _ if !visit.judged => format!("the same bits at every width for {visited} inputs"),
        0 if found.worst == 0.0 => format!("exact for {visited} inputs"),
        _ if case.group == Group::Conversions || found.worst.is_infinite() => {
            format!("WRONG for {} of {visited} inputs, such as {}", found.unrounded, case.show(found.at))
        }
        unrounded => {
            #[expect(clippy::cast_precision_loss, reason = "a percentage")]
            let part = 100.0 * unrounded as f64 / visited as f64;
            let at = case.show(found.at);
            format!("{:.4} units at {at}; {unrounded} ({part:.3} %) not correctly rounded", found.worst)
        }
    }
}

/// The findings, for programs; an infinity is null.
fn json(case: &Case, found: &Finding) -> serde_json::Value {
    serde_json::json!({
        "name": case.name,
        "inputs": found.inputs,
        "worst": found.worst,
        "at": format!("{:#x}", found.at),
        "unrounded": found.unrounded,
        "differing": found.differing,
    })
}
