//! `fuseloop build`: compiles functions to files for other tools: objects with C headers, PTX with
//! a description of its launches, and the text of intermediate stages.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use fuseloop::{Emit, Function, LaunchError, Object, Options, Passes, Program, Signature, Target};

use crate::arguments::{self, Entry, Warned};
use crate::failure::{Failure, Format};

/// Compiles functions ahead of time: to an object with a C header, to PTX for NVIDIA's GPUs, or to
/// the text of an intermediate stage.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "An object and its header contain all the requested functions; other outputs are one file per function.

Example: fuseloop build examples/softmax.fl --emit obj,header -o out
         fuseloop build examples/softmax.fl --fn softmax --emit obj -o softmax.o
         fuseloop build examples/softmax.fl --fn softmax_rows --emit ptx -o rows.ptx n=1000 m=777"
)]
pub struct Arguments {
    /// The program; - reads it from standard input
    file: PathBuf,
    /// Sizes, by their names in the source: the description next to PTX is of launches for these
    #[arg(value_name = "SIZE=N", value_parser = arguments::name_and_size)]
    sizes: Vec<(String, i64)>,
    /// A function; may be repeated [default: all functions; for ptx, cuda, ir, schedule and clif
    /// on standard output, main or the only one]
    #[arg(long = "fn", value_name = "NAME")]
    functions: Vec<String>,
    /// The kind of output
    #[arg(long, value_enum, value_delimiter = ',', required = true)]
    emit: Vec<EmitName>,
    /// The file to write, or a folder for PROGRAM.o, .h and .s, FUNCTION.ptx with .json, .cu, .ir,
    /// .schedule and .clif if there is one of that name or several files are written [default:
    /// standard output]
    #[arg(short, long = "output", value_name = "PATH")]
    output: Option<PathBuf>,
    /// The device of a schedule: cpu or gpu
    #[arg(long, value_enum, default_value_t)]
    device: arguments::DeviceName,
    /// The target machine of an object: x86_64, aarch64, or a Linux target triple of one of these
    /// [default: this machine]
    #[arg(long, value_name = "MACHINE")]
    target: Option<String>,
    /// The oldest processor that the object must run on: x86-64-v2, x86-64-v3 (the default there),
    /// x86-64-v4, generic (aarch64), native
    #[arg(long, value_name = "NAME")]
    cpu: Option<String>,
    /// The prefix of the symbols of an object
    #[arg(long, value_name = "TEXT", default_value = "fl_", value_parser = prefix)]
    prefix: String,
    /// The passes that may fuse kernels: all, none, or some of kloop, kinput, siblings, nest,
    /// koutput
    #[arg(long, value_name = "PASSES", default_value_t, value_parser = arguments::passes)]
    fuse: Passes,
    /// The precision that may be given up for speed
    #[arg(long, value_enum, default_value_t)]
    math: arguments::MathName,
    #[command(flatten)]
    warned: Warned,
    /// The format of errors
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EmitName {
    /// A relocatable object file, with a C function for each function
    Obj,
    /// The C header of the object
    Header,
    /// The object as assembly
    Asm,
    /// PTX, with the source lines that each kernel computes as comments, and a JSON file that
    /// describes how to launch it
    Ptx,
    /// CUDA C for people to read, with the same bits as the PTX
    Cuda,
    /// The loop nests, after fusion
    Ir,
    /// The parts that kernels are cut into, and how each of them runs on the device
    Schedule,
    /// The input to Cranelift for this processor
    Clif,
}

/// The contents of a file to write.
struct Output {
    name: String,
    extension: &'static str,
    bytes: Vec<u8>,
    /// The extension and the text of another file that is written next to it.
    companion: Option<(&'static str, String)>,
}

/// Checks the prefix of a C symbol.
fn prefix(text: &str) -> Result<String, String> {
    let begins = text.chars().next().is_none_or(|c| c.is_ascii_alphabetic() || c == '_');
    let legal = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if begins && legal { Ok(text.to_owned()) } else { Err("a prefix is a name in C, or nothing".to_owned()) }
}

/// Runs the command.
pub fn run(arguments: &Arguments, stdout: &mut impl Write) -> Result<(), Failure> {
    if arguments.output.is_none() && arguments.emit.contains(&EmitName::Obj) {
        return Err(Failure::usage("an object is written to a file: say which with -o FILE"));
    }
    let program = arguments.warned.program(&arguments.file, Entry::Any, arguments.format)?;
    let known = |name: &str| program.functions().any(|signature| has_size(signature, name));
    if let Some((name, _)) = arguments.sizes.iter().find(|(name, _)| !known(name)) {
        return Err(Failure::usage(format!("no function has a size `{name}`")));
    }
    let outputs = outputs(arguments, &program)?;
    let Some(path) = &arguments.output else {
        outputs.iter().try_for_each(|output| stdout.write_all(&output.bytes))?;
        return Ok(());
    };
    let says_folder = path.as_os_str().as_encoded_bytes().ends_with(b"/") || path.is_dir();
    match outputs.as_slice() {
        [only] if !says_folder => only.write(path, &arguments.file),
        outputs => {
            std::fs::create_dir_all(path).map_err(|e| failed(path, &e))?;
            let place = |output: &Output| path.join(format!("{}.{}", output.name, output.extension));
            outputs.iter().try_for_each(|output| output.write(&place(output), &arguments.file))
        }
    }
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::Wrong(format!("{}: {error}", path.display()))
}

impl Output {
    /// Writes it to a file, with its companion next to it. It never overwrites the program.
    fn write(&self, path: &Path, program: &Path) -> Result<(), Failure> {
        let same = std::fs::canonicalize(path).ok().zip(std::fs::canonicalize(program).ok());
        if same.is_some_and(|(path, program)| path == program) {
            return Err(failed(path, &"this is the program, and not written over"));
        }
        std::fs::write(path, &self.bytes).map_err(|e| failed(path, &e))?;
        let Some((extension, text)) = &self.companion else { return Ok(()) };
        let path = path.with_extension(extension);
        std::fs::write(&path, text).map_err(|e| failed(&path, &e))
    }
}

/// The requested outputs, in the order given: one file for all functions, or one for each.
fn outputs(arguments: &Arguments, program: &Program) -> Result<Vec<Output>, Failure> {
    let Arguments { fuse, math, device, .. } = arguments;
    let options = Options { fuse: *fuse, math: (*math).into(), device: (*device).into(), ..Options::default() };
    let mut object = None;
    let mut outputs = vec![];
    for emit in &arguments.emit {
        let stage = match emit {
            EmitName::Obj | EmitName::Header | EmitName::Asm => {
                if object.is_none() {
                    object = Some(self::object(arguments, program, &options)?);
                }
                let Some(object) = &object else { continue };
                let (extension, bytes) = match emit {
                    EmitName::Obj => ("o", object.bytes.clone()),
                    EmitName::Header => ("h", object.header.clone().into_bytes()),
                    _ => ("s", object.assembly()?.into_bytes()),
                };
                outputs.push(Output { name: stem(&arguments.file), extension, bytes, companion: None });
                continue;
            }
            EmitName::Ptx => (Emit::Ptx, "ptx"),
            EmitName::Cuda => (Emit::Cuda, "cu"),
            EmitName::Ir => (Emit::Ir, "ir"),
            EmitName::Schedule => (Emit::Schedule, "schedule"),
            EmitName::Clif => (Emit::Clif, "clif"),
        };
        let functions = match (arguments.functions.as_slice(), &arguments.output) {
            ([], None) => vec![arguments::function(program, None)?],
            _ => functions(arguments, program)?,
        };
        for function in functions {
            outputs.push(text(arguments, &function, &options, stage)?);
        }
    }
    Ok(outputs)
}

/// A function at one stage. PTX that goes to a file comes with a description of its launches.
fn text(
    arguments: &Arguments,
    function: &Function<'_>,
    options: &Options,
    (emit, extension): (Emit, &'static str),
) -> Result<Output, Failure> {
    let text = function.emit(options, emit)?;
    let text = if arguments.output.is_none() { format!("{}\n", text.trim_end()) } else { text };
    let companion = match emit {
        Emit::Ptx if arguments.output.is_some() => {
            let signature = function.signature();
            let sizes: Vec<(&str, i64)> =
                arguments::sizes(&arguments.sizes)?.into_iter().filter(|(name, _)| has_size(signature, name)).collect();
            let described = function.launches(options, &sizes).map_err(|e| match e {
                LaunchError::Sizes(what) => Failure::usage(format!("{what}\n  {}", function.signature())),
                LaunchError::Compile(e) => e.into(),
                LaunchError::Run(e) => e.into(),
            });
            Some(("json", described?))
        }
        _ => None,
    };
    Ok(Output { name: function.signature().name.clone(), extension, bytes: text.into_bytes(), companion })
}

/// Whether the function has a size or a scalar parameter of this name.
fn has_size(signature: &Signature, name: &str) -> bool {
    signature.params.iter().any(|slot| match slot.shape.as_slice() {
        [] => slot.name == name,
        shape => shape.iter().any(|size| size == name),
    })
}

/// The object with the requested functions.
fn object(arguments: &Arguments, program: &Program, options: &Options) -> Result<Object, Failure> {
    let target = Target::new(arguments.target.as_deref(), arguments.cpu.as_deref()).map_err(Failure::usage)?;
    Ok(Object::new(&functions(arguments, program)?, options, target, &arguments.prefix)?)
}

/// The requested functions, or all of the program if none is named.
fn functions<'p>(arguments: &Arguments, program: &'p Program) -> Result<Vec<Function<'p>>, Failure> {
    let mut names: Vec<&str> = arguments.functions.iter().map(String::as_str).collect();
    if let Some(twice) = (1..names.len()).find(|k| names[..*k].contains(&names[*k])) {
        return Err(Failure::usage(format!("the function `{}` is asked for twice", names[twice])));
    }
    if names.is_empty() {
        names = program.functions().map(|signature| signature.name.as_str()).collect();
    }
    names.into_iter().map(|name| arguments::function(program, Some(name))).collect()
}

/// The name, without extension, of the files made from a program.
fn stem(file: &Path) -> String {
    let stem = file.file_stem().filter(|stem| *stem != "-");
    stem.map_or_else(|| "program".to_owned(), |stem| stem.to_string_lossy().into_owned())
}
