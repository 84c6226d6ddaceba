//! `fuseloop run`: compiles a function, calls it once, and prints or saves its results.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fuseloop::files::{self, Packing, Place};
use fuseloop::values::{self, Value, ValueError};
use fuseloop::{Array, Dtype, Function, Options, Phases, Signature, Slot, Times, json, print};

use crate::arguments::{self, Engine, Entry, Warned};
use crate::failure::{Failure, Format};
use crate::printing::Printing;

/// Compiles a function and runs it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A VALUE is a scalar (3, -1.5, true), elements (1,2,3 or [[1,2],[3,4]]), a file (a.npy, a.npz:key,
a.safetensors:key, a.csv, a.png), - (.npy on standard input), or zeros:4x3, ones:4x3, arange:4x3, random:4x3. Its type is
the parameter's; a type after a file, as in a.npy:f32, converts it.

A PATH is a file of one of these formats, or - (.npy on standard output).

Example: fuseloop run examples/softmax.fl --fn softmax_rows x=random:1000x777 -o out=a.npy"
)]
pub struct Arguments {
    /// The program; - reads it from standard input
    file: PathBuf,
    /// The arguments, one for each parameter
    #[arg(value_name = "NAME=VALUE", value_parser = arguments::name_and_value)]
    values: Vec<(String, String)>,
    /// The function [default: main, or the only one]
    #[arg(long = "fn", value_name = "NAME")]
    function: Option<String>,
    /// Saves a result to a file instead of printing it (an unnamed result is called out); without
    /// NAME, all others
    #[arg(short, long = "output", value_name = "[NAME=]PATH")]
    output: Vec<String>,
    /// Compresses the arrays in .npz files
    #[arg(long, requires = "output")]
    compress: bool,
    #[command(flatten)]
    engine: Engine,
    /// The seed of random:
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    printing: Printing,
    /// Prints the time of each stage on stderr
    #[arg(long)]
    time: bool,
    /// Refuses to run if the arrays would take more memory, such as 512M or 4G [default: 80 % of
    /// the free memory]
    #[arg(long, value_name = "BYTES", value_parser = arguments::bytes)]
    max_memory: Option<u64>,
    /// Refuses to run if the arrays would take more of the GPU's memory [default: the free memory]
    #[arg(long, value_name = "BYTES", value_parser = arguments::bytes)]
    max_device_memory: Option<u64>,
    /// Ends the call with an error if a `loop` takes more steps
    #[arg(long, value_name = "N")]
    max_steps: Option<u64>,
    #[command(flatten)]
    warned: Warned,
    /// The format of results, times and errors
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Runs the command.
pub fn run(arguments: &Arguments, stdout: &mut impl Write) -> Result<(), Failure> {
    let program =
        arguments.warned.program(&arguments.file, Entry::of(arguments.function.as_ref()), arguments.format)?;
    let function = arguments::function(&program, arguments.function.as_deref())?;
    let bind_to = |function: &Function<'_>| bind(function.signature(), &arguments.values, &arguments.file);
    let (function, values) = match bind_to(&function) {
        Ok(values) => (function, values),
        // Arguments in `f64` fit only where `float` is that.
        Err(error) => {
            let wide = function.for_f64().and_then(|wide| Some((wide, bind_to(&wide).ok()?)));
            wide.ok_or(error)?
        }
    };
    let signature = function.signature();
    let places = outputs(signature, &arguments.output)?;
    // Without a limit of its own, a call that needs more than the machine has would be killed,
    // without an error message, by the operating system.
    let max_memory = arguments.max_memory.or_else(memory_to_use);
    let max_device_memory = arguments.max_device_memory;
    let max_steps = arguments.max_steps;
    let options = Options { max_memory, max_device_memory, max_steps, cache: cache(), ..arguments.engine.options()? };
    let (results, times, call, phases) = compute(&function, &options, values, arguments.seed)?;
    let saved = places.iter().zip(&results).filter_map(|(place, result)| Some((place.clone()?, result.as_ref())));
    let saved: Vec<_> = saved.collect();
    // Files first: if one cannot be written, nothing is printed that looks like success.
    files::save(&saved, if arguments.compress { Packing::Deflated } else { Packing::Stored })?;
    if arguments.time && arguments.format == Format::Text {
        eprint!("{}", table_of_times(times, call, phases));
    }
    if saved.iter().any(|(place, _)| place.path().is_none()) {
        return Ok(()); // Anything else on standard output would be taken for a part of the array.
    }
    for ((slot, result), place) in signature.results.iter().zip(&results).zip(&places) {
        match (arguments.format, place) {
            (Format::Json, place) => {
                let path = place.as_ref().map(Place::to_string);
                writeln!(stdout, "{}", json::result(&slot.name, result.as_ref(), path.as_deref()))?;
            }
            (Format::Text, Some(_)) => {}
            (Format::Text, None) => {
                let text = print::to_text(result.as_ref(), &arguments.printing.for_stdout());
                let gap = if text.contains('\n') { '\n' } else { ' ' };
                match signature.results.len() {
                    1 => writeln!(stdout, "{text}")?,
                    _ => writeln!(stdout, "{} ={gap}{text}", slot.name)?,
                }
            }
        }
    }
    if arguments.format == Format::Json {
        writeln!(stdout, "{}", json::times(times, call, phases))?;
    }
    Ok(())
}

/// Compiles the function, loads its arguments and calls it.
fn compute(
    function: &Function<'_>,
    options: &Options,
    values: Vec<Value>,
    seed: u64,
) -> Result<(Vec<Array>, Times, Duration, Option<Phases>), Failure> {
    let kernel = function.compile(options)?;
    // The kernel counts all its arrays when it is called. By then the arguments are in memory.
    let inputs = values::load(values, seed, options.max_memory)?;
    let start = Instant::now();
    let (results, phases) = kernel.call_in_phases(&inputs)?;
    Ok((results, kernel.times(), start.elapsed(), phases))
}

/// One value for each parameter, in order.
pub fn bind(signature: &Signature, given: &[(String, String)], program: &Path) -> Result<Vec<Value>, Failure> {
    let names: Vec<&str> = signature.params.iter().map(|p| p.name.as_str()).collect();
    let given = by_name("parameter", &names, given, signature)?;
    let missing: Vec<&str> = names.iter().copied().filter(|name| !given.contains_key(name)).collect();
    if !missing.is_empty() {
        let named: Vec<String> = missing.iter().map(|name| format!("`{name}`")).collect();
        // The sizes that other arguments determine.
        let mut lengths: BTreeMap<&str, usize> = BTreeMap::new();
        for param in &signature.params {
            let text = given.get(param.name.as_str()).filter(|text| **text != "-");
            if let Some(value) = text.and_then(|text| Value::parse(text, param).ok()) {
                lengths.extend(param.shape.iter().map(String::as_str).zip(value.shape().iter().copied()));
            }
        }
        let slots = signature.params.iter().filter(|slot| missing.contains(&slot.name.as_str()));
        let sample: Vec<String> = slots.map(|slot| sample(slot, &lengths)).collect();
        let (named, sample) = (named.join(", "), sample.join(" "));
        return Err(Failure::usage(format!(
            "no value is given for {named}: add {sample}, for instance\n  {signature}"
        )));
    }
    let mut reader = (program == Path::new("-")).then(|| "the program".to_owned());
    let mut values = vec![];
    for param in &signature.params {
        let text = given[param.name.as_str()];
        if text == "-"
            && let Some(reader) = reader.replace(format!("`{}`", param.name))
        {
            return Err(ValueError::standard_input(&param.name, &reader).into());
        }
        values.push(Value::parse(text, param)?);
    }
    Ok(values)
}

/// An example of an argument for a parameter, using these values for sizes.
fn sample(slot: &Slot, sizes: &BTreeMap<&str, usize>) -> String {
    let value = match (slot.shape.as_slice(), slot.dtype) {
        ([], Dtype::Bool) => "true".to_owned(),
        ([], _) => "1".to_owned(),
        (shape, _) => {
            let length = |n: &String| sizes.get(n.as_str()).copied().or(n.parse().ok()).unwrap_or(8);
            let lengths = shape.iter().map(|n| length(n).to_string());
            format!("random:{}", lengths.collect::<Vec<_>>().join("x"))
        }
    };
    format!("{}={value}", slot.name)
}

/// Where to save each result, if anywhere. `NAME=PATH` is for the named result, a path alone for
/// all others. In a file of several arrays, a result goes by its own name.
fn outputs(signature: &Signature, given: &[String]) -> Result<Vec<Option<Place>>, Failure> {
    let names: Vec<&str> = signature.results.iter().map(|r| r.name.as_str()).collect();
    let (mut named, mut others) = (vec![], None);
    for text in given {
        match text.split_once('=') {
            Some((name, path)) => named.push((name.to_owned(), path.to_owned())),
            None if others.is_none() => others = Some(text.as_str()),
            None => return Err(Failure::usage("two -o without the name of a result")),
        }
    }
    let named = by_name("result", &names, &named, signature)?;
    let mut places = vec![];
    for name in &names {
        let text = named.get(name).copied().or(others);
        let place = text.map(Place::parse).transpose()?;
        places.push(place.map(|place| place.or_key(name)));
    }
    let planned = places
        .iter()
        .zip(&signature.results)
        .filter_map(|(place, slot)| Some((place.clone()?, (slot.dtype, slot.rank()))));
    files::check(&planned.collect::<Vec<_>>())?;
    Ok(places)
}

/// The given pairs by name. Each name must exist and may occur only once.
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

/// The time of each stage, one per line.
pub fn table_of_times(times: Times, call: Duration, phases: Option<Phases>) -> String {
    let mut stages = vec![
        ("parse", times.parse),
        ("check", times.check),
        ("lower", times.lower),
        ("compile", times.compile),
        ("text to callable", times.total()),
        ("run", call),
    ];
    if let Some(Phases { assemble, upload, kernels, download }) = phases {
        let parts = [("assemble", assemble), ("to the GPU", upload), ("kernels", kernels), ("from the GPU", download)];
        stages.extend(parts);
    }
    stages.iter().map(|(stage, time)| format!("{stage:>16} {:>10.3} ms\n", time.as_secs_f64() * 1e3)).collect()
}

/// The user's cache folder, where assembled GPU kernels are kept.
pub fn cache() -> Option<PathBuf> {
    let given = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = given("XDG_CACHE_HOME").or_else(|| given("HOME").map(|home| home.join(".cache")))?;
    folder.is_absolute().then(|| folder.join("fuseloop"))
}

/// 80 % of the free memory, if the system reports it.
pub fn memory_to_use() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024 / 5 * 4)
}
