//! `fuseloop build`: functions as files for other tools: objects with headers for those who link, and text of some stage behind the
//! source.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use fuseloop::{Emit, Function, Object, Options, Passes, Program, Target};

use crate::arguments;
use crate::failure::{Failure, Format};

/// Compiles functions ahead of time: as an object with a C header, as PTX for NVIDIA's GPUs, or as text of some stage between.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: fuseloop build examples/softmax.fl --emit obj,header -o out
         fuseloop build examples/softmax.fl --fn softmax_rows --emit ptx")]
pub struct Arguments {
    /// The program; - reads it from standard input
    file: PathBuf,
    /// The function [default: all of them in an object; else main, or the only one]
    #[arg(long = "fn", value_name = "NAME")]
    function: Option<String>,
    /// What is written
    #[arg(long, value_enum, value_delimiter = ',', required = true)]
    emit: Vec<EmitName>,
    /// The folder to write to: PROGRAM.o and PROGRAM.h, FUNCTION.ptx, .ir, .clif and .s [default: standard output]
    #[arg(short, long = "output", value_name = "DIR")]
    output: Option<PathBuf>,
    /// The machine that an object is for: x86_64, aarch64, or a triple of one with Linux [default: this one's]
    #[arg(long, value_name = "MACHINE")]
    target: Option<String>,
    /// What its processors have at least: x86-64-v2, x86-64-v3 (the default there), x86-64-v4, generic (aarch64), native
    #[arg(long, value_name = "NAME")]
    cpu: Option<String>,
    /// What the symbols of an object begin with
    #[arg(long, value_name = "TEXT", default_value = "fl_", value_parser = prefix)]
    prefix: String,
    /// The passes that may merge kernels: all, none, or some of kloop, kinput, siblings, nest, koutput
    #[arg(long, value_name = "PASSES", default_value_t, value_parser = arguments::passes)]
    fuse: Passes,
    /// What may be given up for speed
    #[arg(long, value_enum, default_value_t)]
    math: arguments::MathName,
    /// For whom errors are written
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EmitName {
    /// A relocatable object file with a C function for each function
    Obj,
    /// The C header of that
    Header,
    /// PTX, with the lines of the source that each kernel computes as comments
    Ptx,
    /// The loop nests, after fusion
    Ir,
    /// This processor's code as Cranelift gets it
    Clif,
    /// This processor's instructions
    Asm,
}

/// What becomes a file.
enum Unit {
    Object,
    Header,
    Text(Emit),
}

impl EmitName {
    /// What it is, and how its file's name ends.
    fn unit(self) -> (Unit, &'static str) {
        match self {
            EmitName::Obj => (Unit::Object, "o"),
            EmitName::Header => (Unit::Header, "h"),
            EmitName::Ptx => (Unit::Text(Emit::Ptx), "ptx"),
            EmitName::Ir => (Unit::Text(Emit::Ir), "ir"),
            EmitName::Clif => (Unit::Text(Emit::Clif), "clif"),
            EmitName::Asm => (Unit::Text(Emit::Asm), "s"),
        }
    }
}

/// The beginning of a symbol in C.
fn prefix(text: &str) -> Result<String, String> {
    let begins = text.chars().next().is_none_or(|c| c.is_ascii_alphabetic() || c == '_');
    let legal = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if begins && legal { Ok(text.to_owned()) } else { Err("a prefix is a name in C, or nothing".to_owned()) }
}

/// Runs the command.
pub fn run(arguments: &Arguments, stdout: &mut impl Write) -> Result<(), Failure> {
    let program = arguments::program(&arguments.file)?;
    let options = Options { fuse: arguments.fuse, math: arguments.math.into(), ..Options::default() };
    let mut object = None;
    for emit in &arguments.emit {
        let (unit, extension) = emit.unit();
        let (name, bytes) = match unit {
            Unit::Object | Unit::Header => {
                if object.is_none() {
                    object = Some(self::object(arguments, &program, &options)?);
                }
                let Some(Object { bytes, header }) = &object else { continue };
                (
                    stem(&arguments.file),
                    if *emit == EmitName::Obj { bytes.clone() } else { header.clone().into_bytes() },
                )
            }
            Unit::Text(emit) => {
                let function = arguments::function(&program, arguments.function.as_deref())?;
                let text = function.emit(&options, emit)?;
                let text = if arguments.output.is_none() { format!("{}\n", text.trim_end()) } else { text };
                (function.signature().name.clone(), text.into_bytes())
            }
        };
        match &arguments.output {
            None if *emit == EmitName::Obj => {
                return Err(Failure::usage("an object is written to a folder: say which with -o DIR"));
            }
            None => stdout.write_all(&bytes)?,
            Some(folder) => {
                let path = folder.join(format!("{name}.{extension}"));
                let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, bytes));
                written.map_err(|e| Failure::Wrong(format!("{}: {e}", path.display())))?;
            }
        }
    }
    Ok(())
}

/// The object of the functions asked for.
fn object(arguments: &Arguments, program: &Program, options: &Options) -> Result<Object, Failure> {
    let target = Target::new(arguments.target.as_deref(), arguments.cpu.as_deref()).map_err(Failure::usage)?;
    let functions: Vec<Function<'_>> = match &arguments.function {
        Some(name) => vec![arguments::function(program, Some(name))?],
        None => {
            let names = program.functions().map(|signature| signature.name.as_str());
            names.map(|name| arguments::function(program, Some(name))).collect::<Result<_, _>>()?
        }
    };
    Ok(Object::new(&functions, options, target, &arguments.prefix)?)
}

/// What files of a program are called.
fn stem(file: &Path) -> String {
    let stem = file.file_stem().filter(|stem| *stem != "-");
    stem.map_or_else(|| "program".to_owned(), |stem| stem.to_string_lossy().into_owned())
}
