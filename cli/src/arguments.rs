//! The forms of arguments that clap does not parse by itself: `@FILE`, `NAME=VALUE`, byte counts,
//! source files.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use fuseloop::render::one_line;
use fuseloop::{Device, Folder, Function, FusionPass, Math, Options, Passes, Program, Simd, Source};

use crate::failure::{self, Failure, Format};

/// The limit on the bytes of a file of arguments.
const ARGUMENTS_LIMIT: u64 = 1 << 20;

/// The arguments in a file, separated by white space. `#` begins a comment that runs to the end of
/// the line.
pub fn from_file(path: &str) -> Result<Vec<String>, Failure> {
    let text = read_text(Path::new(path), ARGUMENTS_LIMIT)?;
    let lines = text.lines().map(|line| line.split_once('#').map_or(line, |(before, _)| before));
    Ok(lines.flat_map(str::split_whitespace).map(str::to_owned).collect())
}

/// The functions that a command is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// `main`, if there is one.
    Main,
    /// Any function.
    Any,
}

impl Entry {
    /// The functions that a command is about if the user may name one.
    pub fn of(named: Option<&String>) -> Entry {
        if named.is_some() { Entry::Any } else { Entry::Main }
    }
}

/// The findings that count as errors in addition to errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Denied {
    /// Every warning
    Warnings,
}

/// How a program is read, and what is made of its warnings.
#[derive(Debug, clap::Args)]
pub struct Warned {
    /// Fails if there are any
    #[arg(long, value_enum, value_name = "WHAT")]
    deny: Option<Denied>,
}

impl Warned {
    /// Parses and checks a program and reports its warnings; `-` reads it from standard input.
    pub fn program(&self, path: &Path, entry: Entry, format: Format) -> Result<Program, Failure> {
        let (source, folder) = program(path)?;
        let program = Program::parse_with(source, &folder)?;
        let warnings = match entry {
            Entry::Main => program.warnings().clone(),
            Entry::Any => program.warnings().clone().for_all_functions(),
        };
        failure::report_warnings(&warnings, format)?;
        match (self.deny, warnings.len()) {
            (None, _) | (_, 0) => Ok(program),
            (Some(Denied::Warnings), count) => {
                let name = one_line(&path.display().to_string());
                let warnings = if count == 1 { "a warning is".to_owned() } else { format!("{count} warnings are") };
                Err(Failure::Wrong(format!("{name}: {warnings} denied by `--deny warnings`")))
            }
        }
    }
}

/// The function of that name; if none is named, `main` or the only one.
pub fn function<'p>(program: &'p Program, name: Option<&str>) -> Result<Function<'p>, Failure> {
    match name {
        Some(name) => program.function(name).map_err(Failure::usage),
        None => program
            .main()
            .map_err(|e| Failure::usage(format!("{e}{}", if e.known.is_empty() { "" } else { ": choose with --fn" }))),
    }
}

/// A program and the folder that its `use` lines start from; `-` is standard input.
pub fn program(path: &Path) -> Result<(Source, Folder), Failure> {
    Ok(match path == Path::new("-") {
        true => (stdin()?, Folder::default()),
        false => (source(path)?, Folder::of(path)),
    })
}

/// A source file.
pub fn source(path: &Path) -> Result<Source, Failure> {
    let text = read_text(path, fuseloop::MAX_SOURCE as u64)?;
    Ok(Source::new(path.display().to_string(), text))
}

/// The source on standard input.
pub fn stdin() -> Result<Source, Failure> {
    let name = "<stdin>".to_owned();
    let text = read(io::stdin().lock(), &name, fuseloop::MAX_SOURCE as u64)?;
    Ok(Source::new(name, text))
}

/// A text file of at most `limit` bytes.
fn read_text(path: &Path, limit: u64) -> Result<String, Failure> {
    let name = one_line(&path.display().to_string());
    let file = File::open(path).map_err(|e| Failure::Wrong(format!("{name}: {e}")))?;
    read(file, &name, limit)
}

/// Reads a text of at most `limit` bytes. Of an endless one, no more is read.
fn read(from: impl Read, name: &str, limit: u64) -> Result<String, Failure> {
    let failed = |e: &dyn std::fmt::Display| Failure::Wrong(format!("{name}: {e}"));
    let mut bytes = vec![];
    from.take(limit + 1).read_to_end(&mut bytes).map_err(|e| failed(&e))?;
    if bytes.len() as u64 > limit {
        return Err(failed(&format_args!("the file is larger than the limit of {limit} bytes")));
    }
    String::from_utf8(bytes).map_err(|e| failed(&format_args!("byte {} is not UTF-8", e.utf8_error().valid_up_to())))
}

/// `NAME=VALUE`
pub fn name_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE, such as x=random:1000x777".to_owned()),
    }
}

/// `SIZE=N`
pub fn name_and_size(text: &str) -> Result<(String, i64), String> {
    let pair = text.split_once('=').and_then(|(name, size)| Some((name.to_owned(), size.parse().ok()?)));
    pair.filter(|(name, _)| !name.is_empty()).ok_or_else(|| "expected SIZE=N, such as n=4096".to_owned())
}

/// Sizes by name, each given once.
pub fn sizes(given: &[(String, i64)]) -> Result<Vec<(&str, i64)>, Failure> {
    let mut sizes: Vec<(&str, i64)> = vec![];
    for (name, size) in given {
        if sizes.iter().any(|(other, _)| other == name) {
            return Err(Failure::usage(format!("the size `{name}` is given twice")));
        }
        sizes.push((name, *size));
    }
    Ok(sizes)
}

/// Parses `all`, `none`, or passes separated by commas.
pub fn passes(text: &str) -> Result<Passes, String> {
    text.parse().map_err(|name| {
        let names: Vec<&str> = passes_by_name().collect();
        format!("there is no pass `{name}`: expected all, none, or some of {}", names.join(","))
    })
}

/// The names of the passes.
pub fn passes_by_name() -> impl Iterator<Item = &'static str> {
    FusionPass::ALL.iter().map(|pass| pass.name())
}

/// The device that runs functions, and its settings.
#[derive(Debug, clap::Args)]
pub struct Engine {
    /// The device to run on
    #[arg(long, value_enum, default_value_t)]
    device: DeviceName,
    /// The number of threads to use [default: as many as the machine has]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// The width of the CPU's vectors in bits
    #[arg(long, value_enum, default_value_t)]
    simd: SimdName,
    /// The passes that may fuse kernels: all, none, or some of kloop, kinput, siblings, nest,
    /// koutput
    #[arg(long, value_name = "PASSES", default_value_t, value_parser = passes)]
    fuse: Passes,
    /// The precision that may be given up for speed
    #[arg(long, value_enum, default_value_t)]
    math: MathName,
}

impl Engine {
    /// The same as the library's options.
    pub fn options(&self) -> Result<Options, Failure> {
        let threads = self.threads.map_or(0, usize::from);
        let simd = self.simd.here()?;
        Ok(Options {
            device: self.device.into(),
            threads,
            fuse: self.fuse,
            simd,
            math: self.math.into(),
            ..Options::default()
        })
    }
}

/// A device that runs functions.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum DeviceName {
    /// Machine code for this processor
    #[default]
    Cpu,
    /// This machine's first NVIDIA GPU
    Gpu,
    /// The GPU if there is one and the cost model takes it to be faster, else the CPU
    Auto,
    /// The reference interpreter
    Interp,
}

impl From<DeviceName> for Device {
    fn from(name: DeviceName) -> Device {
        match name {
            DeviceName::Cpu => Device::Cpu,
            DeviceName::Gpu => Device::Gpu,
            DeviceName::Auto => Device::Auto,
            DeviceName::Interp => Device::Interp,
        }
    }
}

/// How exact results must be.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum MathName {
    /// The same bits everywhere
    #[default]
    Exact,
    /// On GPUs, drop lower bits of matrix products in f32, and of attention in 16-bit floats
    Fast,
}

impl From<MathName> for Math {
    fn from(name: MathName) -> Math {
        match name {
            MathName::Exact => Math::Exact,
            MathName::Fast => Math::Fast,
        }
    }
}

/// A function, the way in which it is fused, and its sizes.
#[derive(Debug, clap::Args)]
pub struct Subject {
    /// The program; - reads it from standard input
    pub file: PathBuf,
    /// Sizes, by their names in the source
    #[arg(value_name = "SIZE=N", value_parser = name_and_size)]
    pub sizes: Vec<(String, i64)>,
    /// The function [default: main, or the only one]
    #[arg(long = "fn", value_name = "NAME")]
    pub function: Option<String>,
    /// The passes that may fuse kernels: all, none, or some of kloop, kinput, siblings, nest,
    /// koutput
    #[arg(long, value_name = "PASSES", default_value_t, value_parser = passes)]
    pub fuse: Passes,
    /// The precision that may be given up for speed
    #[arg(long, value_enum, default_value_t)]
    pub math: MathName,
    #[command(flatten)]
    pub warned: Warned,
}

/// The width of vectors.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum SimdName {
    /// The widest that this machine has
    #[default]
    Auto,
    /// Available on every machine
    #[value(name = "128")]
    W128,
    /// AVX2, on machines that have it
    #[value(name = "256")]
    W256,
    /// AVX-512, on machines that have it
    #[value(name = "512")]
    W512,
}

impl SimdName {
    /// The width, if this machine supports it.
    pub fn here(self) -> Result<Simd, Failure> {
        let simd = match self {
            SimdName::Auto => Simd::Auto,
            SimdName::W128 => Simd::W128,
            SimdName::W256 => Simd::W256,
            SimdName::W512 => Simd::W512,
        };
        if simd.is_here() {
            Ok(simd)
        } else {
            Err(Failure::usage("--simd: this machine does not have vectors of that width"))
        }
    }
}

/// Parses a count of bytes: `1000000`, `512M`, `4G`.
pub fn bytes(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.find(|c: char| !c.is_ascii_digit()) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let shift = ["", "K", "M", "G", "T"].iter().position(|u| u.eq_ignore_ascii_case(unit));
    let value = digits.parse::<u64>().ok().zip(shift);
    value
        .and_then(|(n, k)| n.checked_mul(1 << (10 * k)))
        .ok_or_else(|| "expected bytes, such as 1000000, 512M or 4G".to_owned())
}
