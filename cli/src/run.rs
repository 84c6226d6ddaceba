//! `fuseloop run`: compiles a function, calls it once, prints or saves its results.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use fuseloop::render::one_line;
use fuseloop::values::{Value, ValueError};
use fuseloop::{Array, Device, Function, Options, Signature, Times, files, json, print};

use crate::arguments;
use crate::failure::{Failure, Format};

/// Compiles a function and runs it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A VALUE is a scalar (3, -1.5, true), a file (a.npy), or zeros:4x3, ones:4x3, arange:4x3, random:4x3.
Its type is the parameter's.

Example: fuseloop run examples/softmax.fl --fn softmax_rows x=random:1000x777 -o out=a.npy"
)]
pub struct Arguments {
    /// The program
    file: PathBuf,
    /// The arguments, one for each parameter
    #[arg(value_name = "NAME=VALUE", value_parser = arguments::name_and_value)]
    values: Vec<(String, String)>,
    /// The function [default: main, or the only one]
    #[arg(long = "fn", value_name = "NAME")]
    function: Option<String>,
    /// Saves a result to a .npy file instead of printing it (an unnamed result is called out)
    #[arg(short, long = "output", value_name = "NAME=PATH", value_parser = arguments::name_and_value)]
    output: Vec<(String, String)>,
    /// What runs it
    #[arg(long, value_enum, default_value_t)]
    device: DeviceName,
    /// How many threads may work on it [default: as many as the machine has]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Where random: begins
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Prints on stderr how long each stage took
    #[arg(long)]
    time: bool,
    /// Refuses to run if the arrays would take more, such as 512M or 4G [default: 80 % of what is free]
    #[arg(long, value_name = "BYTES", value_parser = arguments::bytes)]
    max_memory: Option<u64>,
    /// For whom results, times and errors are written
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum DeviceName {
    /// Machine code for this processor
    #[default]
    Cpu,
    /// The reference interpreter
    Interp,
}

/// Runs the command.
pub fn run(arguments: &Arguments, stdout: &mut impl Write) -> Result<(), Failure> {
    let program = arguments::program(&arguments.file)?;
    let function = match &arguments.function {
        Some(name) => program.function(name).map_err(Failure::usage)?,
        None => program.main().map_err(|e| {
            Failure::usage(format!("{e}{}", if e.known.is_empty() { "" } else { ": choose with --fn" }))
        })?,
    };
    let signature = function.signature();
    let values = bind(signature, &arguments.values)?;
    let paths = outputs(signature, &arguments.output)?;
    let max_memory = arguments.max_memory.or_else(memory_to_use);
    let options = Options {
        device: match arguments.device {
            DeviceName::Cpu => Device::Cpu,
            DeviceName::Interp => Device::Interp,
        },
        threads: arguments.threads.map_or(0, usize::from),
        max_memory,
    };
    let (results, times, call) = compute(&function, &options, &values, arguments.seed)?;
    match arguments.format {
        Format::Json => writeln!(stdout, "{}", json::times(times, call))?,
        Format::Text if arguments.time => report_times(times, call),
        Format::Text => {}
    }
    for (slot, result) in signature.results.iter().zip(&results) {
        let path = paths.get(slot.name.as_str());
        if let Some(path) = path {
            let failed = |e| Failure::wrong(format!("{}: {e}", one_line(&path.display().to_string())));
            files::npy::write(path, result.as_ref()).map_err(failed)?;
        }
        match (arguments.format, path) {
            (Format::Json, path) => {
                let path = path.map(|path| path.display().to_string());
                writeln!(stdout, "{}", json::result(&slot.name, result.as_ref(), path.as_deref()))?;
            }
            (Format::Text, Some(_)) => {}
            (Format::Text, None) => {
                let text = print::to_text(result.as_ref());
                let gap = if text.contains('\n') { '\n' } else { ' ' };
                match signature.results.len() {
                    1 => writeln!(stdout, "{text}")?,
                    _ => writeln!(stdout, "{} ={gap}{text}", slot.name)?,
                }
            }
        }
    }
    Ok(())
}

/// Compiles, loads the arguments and calls.
fn compute(
    function: &Function<'_>,
    options: &Options,
    values: &[Value],
    seed: u64,
) -> Result<(Vec<Array>, Times, Duration), Failure> {
    let kernel = function.compile(options)?;
    // The kernel counts all its arrays when it is called. By then the arguments are in memory.
    let needed: u128 = values.iter().map(|v| v.bytes() as u128).sum();
    if let Some(limit) = options.max_memory.filter(|limit| needed > u128::from(*limit)) {
        return Err(Failure::wrong(format!(
            "the arguments alone take {needed} bytes, the limit is {limit} (--max-memory raises it)"
        )));
    }
    let mut inputs = vec![];
    for ((value, stream), param) in values.iter().zip(0..).zip(&function.signature().params) {
        inputs.push(value.load(seed, stream).map_err(|e| value_failure(&param.name, &e))?);
    }
    let inputs: Vec<_> = inputs.iter().map(Array::as_ref).collect();
    let start = Instant::now();
    let results = kernel.call(&inputs)?;
    Ok((results, kernel.times(), start.elapsed()))
}

/// One value for each parameter, in order.
fn bind(signature: &Signature, given: &[(String, String)]) -> Result<Vec<Value>, Failure> {
    let names: Vec<&str> = signature.params.iter().map(|p| p.name.as_str()).collect();
    let given = by_name("parameter", &names, given, signature)?;
    let missing: Vec<&str> = names.iter().copied().filter(|name| !given.contains_key(name)).collect();
    if !missing.is_empty() {
        let list = missing.iter().map(|name| format!("{name}=VALUE")).collect::<Vec<_>>().join(" ");
        return Err(Failure::usage(format!("missing arguments: {list}\n  {signature}")));
    }
    let value = |p: &fuseloop::Slot| Value::parse(given[p.name.as_str()], p).map_err(|e| value_failure(&p.name, &e));
    signature.params.iter().map(value).collect()
}

/// Where to save results, by name.
fn outputs<'a>(signature: &Signature, given: &'a [(String, String)]) -> Result<BTreeMap<&'a str, &'a Path>, Failure> {
    let names: Vec<&str> = signature.results.iter().map(|r| r.name.as_str()).collect();
    let given = by_name("result", &names, given, signature)?;
    match given.iter().find(|(_, path)| !path.to_ascii_lowercase().ends_with(".npy")) {
        Some((name, path)) => Err(Failure::usage(format!("-o {name}={path}: only .npy files can be written"))),
        None => Ok(given.into_iter().map(|(name, path)| (name, Path::new(path))).collect()),
    }
}

/// What was given, by name; each name at most once and only those that there are.
fn by_name<'a>(
    what: &str,
    names: &[&str],
    given: &'a [(String, String)],
    signature: &Signature,
) -> Result<BTreeMap<&'a str, &'a str>, Failure> {
    let mut map = BTreeMap::new();
    for (name, value) in given {
        if !names.contains(&name.as_str()) {
            return Err(Failure::usage(format!("there is no {what} `{name}`\n  {signature}")));
        }
        if map.insert(name.as_str(), value.as_str()).is_some() {
            return Err(Failure::usage(format!("the {what} `{name}` is given twice\n  {signature}")));
        }
    }
    Ok(map)
}

fn value_failure(param: &str, error: &ValueError) -> Failure {
    let message = format!("argument `{param}`: {error}");
    match error {
        ValueError::Form { .. } | ValueError::Scalar(_) | ValueError::Shape(_) => Failure::Usage(message),
        _ => Failure::Wrong(message),
    }
}

fn report_times(times: Times, call: Duration) {
    let stages = [
        ("parse", times.parse),
        ("check", times.check),
        ("lower", times.lower),
        ("compile", times.compile),
        ("text to callable", times.total()),
        ("run", call),
    ];
    for (stage, time) in stages {
        eprintln!("{stage:>16} {:>10.3} ms", time.as_secs_f64() * 1e3);
    }
}

/// 80 % of the memory that is free, where the system says.
fn memory_to_use() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024 / 5 * 4)
}
