//! The commands of the prompt, which begin with `:`, as a table.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use clap::ValueEnum;
use fuseloop::files::{self, Packing, Place};
use fuseloop::session::{LAST, Subject, is_name};
use fuseloop::{BenchError, Emit, ExplainError, Folder, Program, Session, errors, reference};

use super::{Next, Repl, choices, show};
use crate::arguments;
use crate::arguments::{DeviceName, MathName};
use crate::failure::Failure;
use crate::printing;

/// A command: its name, its arguments, and a function that returns the text to print.
pub struct Command {
    pub name: &'static str,
    pub takes: &'static str,
    does: &'static str,
    run: fn(&mut Repl, &str) -> Result<String, Failure>,
}

/// In the order in which `:help` lists them.
pub const COMMANDS: [Command; 23] = [
    Command {
        name: "help",
        takes: "[NAME]",
        does: "what a function, a word, an error or a command is; alone, the commands",
        run: help,
    },
    Command {
        name: "type",
        takes: "[EXPR]",
        does: "the type of a value, what a function takes; alone, all names",
        run: of_type,
    },
    Command {
        name: "explain",
        takes: "EXPR [SIZE=N ...]",
        does: "what fused, what did not and why; all of it with --all, and how it runs with --schedule",
        run: explain,
    },
    Command {
        name: "grad",
        takes: "FUNCTION [NAME ...]",
        does: "its derivative in some parameters, or in all of floats, as a program",
        run: grad,
    },
    Command {
        name: "ir",
        takes: "EXPR",
        does: "its loop nests, after fusion",
        run: |repl, text| emit(repl, text, Emit::Ir),
    },
    Command {
        name: "schedule",
        takes: "EXPR",
        does: "the parts that its kernels are cut into, and how each runs on the `:device`",
        run: |repl, text| emit(repl, text, Emit::Schedule),
    },
    Command {
        name: "clif",
        takes: "EXPR",
        does: "its code for this processor, as Cranelift gets it",
        run: |repl, text| emit(repl, text, Emit::Clif),
    },
    Command {
        name: "asm",
        takes: "EXPR",
        does: "its instructions for this processor",
        run: |repl, text| emit(repl, text, Emit::Asm),
    },
    Command {
        name: "ptx",
        takes: "EXPR",
        does: "its code for NVIDIA's GPUs",
        run: |repl, text| emit(repl, text, Emit::Ptx),
    },
    Command {
        name: "cuda",
        takes: "EXPR",
        does: "its code for NVIDIA's GPUs, as CUDA C for people to read",
        run: |repl, text| emit(repl, text, Emit::Cuda),
    },
    Command { name: "time", takes: "EXPR", does: "how long each stage takes, and the run", run: time },
    Command { name: "bench", takes: "EXPR [SIZE=N ...]", does: "measures it with fusion and without", run: bench },
    Command {
        name: "load",
        takes: "FILE",
        does: "defines what is in it: a program's functions, or arrays (.npy .npz .safetensors .csv .png)",
        run: load,
    },
    Command {
        name: "save",
        takes: "[NAME ...] FILE",
        does: "writes values (.npy .npz .safetensors .csv .png .svg), or the functions (.fl)",
        run: |repl, text| save(repl, text, false),
    },
    Command {
        name: "save!",
        takes: "[NAME ...] FILE",
        does: "the same, over a file that this session has neither loaded nor saved",
        run: |repl, text| save(repl, text, true),
    },
    Command { name: "device", takes: "[cpu|gpu|auto|interp]", does: "what runs it", run: device },
    Command {
        name: "fuse",
        takes: "[PASSES]",
        does: "the passes that may merge kernels: all, none, or some",
        run: fuse,
    },
    Command { name: "threads", takes: "[N]", does: "how many threads may work on it", run: threads },
    Command { name: "math", takes: "[exact|fast]", does: "what may be given up for speed", run: math },
    Command {
        name: "print",
        takes: "[all|N]",
        does: "how many elements an array may have to be printed in full",
        run: print_limit,
    },
    Command {
        name: "precision",
        takes: "[all|N]",
        does: "how many digits of a float are printed after the point",
        run: precision,
    },
    Command {
        name: "clear",
        takes: "[NAME ...]",
        does: "forgets what the names stand for; alone, everything",
        run: clear,
    },
    Command { name: "quit", takes: "", does: "leaves, as Ctrl-D does", run: |_, _| Ok(String::new()) },
];

/// Aliases of commands.
const ALIASES: [(&str, &str); 3] = [("?", "help"), ("exit", "quit"), ("ls", "type")];

/// The command that a text without a `:` stands for, with its argument, unless the session defines
/// that name.
pub fn meant(repl: &Repl, text: &str) -> Option<String> {
    let text = text.trim();
    let (word, rest) = match text.strip_prefix('?') {
        Some(rest) => ("help", rest),
        None => text.split_once(char::is_whitespace).unwrap_or((text, "")),
    };
    let rest = rest.trim();
    let word = word.strip_suffix("()").unwrap_or(word);
    let known = repl.session.value(word).is_some() || repl.session.functions().any(|function| function.name == word);
    let topic = rest.chars().all(|c| c.is_ascii_alphanumeric() || "_:".contains(c));
    match word {
        "exit" | "quit" if rest.is_empty() && !known => Some("quit".to_owned()),
        "help" if topic && !known => Some(format!("help {rest}")),
        _ => None,
    }
}

impl Command {
    /// Its syntax.
    fn signature(&self) -> String {
        format!(":{} {}", self.name, self.takes)
    }

    /// Whether its arguments are optional.
    fn may_stand_alone(&self) -> bool {
        self.takes.is_empty() || self.takes.starts_with('[') && self.takes.ends_with(']')
    }
}

/// Runs the text after a `:`.
pub fn run(repl: &mut Repl, text: &str) -> Result<(Next, String), Failure> {
    let (name, argument) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name);
    let all = || COMMANDS.iter().filter(|command| command.name.starts_with(name) && !command.name.ends_with('!'));
    let found = match (COMMANDS.iter().find(|command| command.name == name), all().collect::<Vec<_>>().as_slice()) {
        (Some(exact), _) => exact,
        (None, [only]) => only,
        (None, []) => return Err(Failure::usage(format!("there is no command `:{name}`: `:help` lists them"))),
        (None, several) => {
            let names: Vec<String> = several.iter().map(|command| format!("`:{}`", command.name)).collect();
            return Err(Failure::usage(format!("`:{name}` may be {}", names.join(", "))));
        }
    };
    let argument = argument.trim();
    let next = if found.name == "quit" { Next::Quit } else { Next::Read };
    match (found.takes, argument) {
        ("", rest) if !rest.is_empty() => Err(Failure::usage(format!("`:{}` takes nothing", found.name))),
        (takes, "") if !found.may_stand_alone() => Err(Failure::usage(format!("`:{}` takes {takes}", found.name))),
        _ => Ok((next, (found.run)(repl, argument)?)),
    }
}

/// Appends a line to a `String`.
macro_rules! say {
    ($to:expr, $($what:tt)*) => {
        // Writing to a string cannot fail.
        let _ = writeln!($to, $($what)*);
    };
}

/// The column at which descriptions start in the list of commands.
const COLUMN: usize = 33;

fn help(repl: &mut Repl, topic: &str) -> Result<String, Failure> {
    if !topic.is_empty() {
        return help_on(repl, topic);
    }
    let mut said = wrap(
        "An expression is evaluated, `_` is the last value; `let` gives a value a name, `fn` defines a function; load(\"a.npy\") is the \
         array in a file. EXPR is an expression, or the name of a function. `:help sum` explains a function or a word, `:help E0115` an error.",
        0,
        repl.width,
    );
    said.push_str("\n\n");
    for command in &COMMANDS {
        say!(said, "  {:<30} {}", command.signature(), wrap(command.does, COLUMN, repl.width));
    }
    Ok(said)
}

/// Wraps text to a width. Lines after the first are indented by `indent` spaces, the column at
/// which the first starts.
fn wrap(text: &str, indent: usize, width: usize) -> String {
    let mut wrapped = String::new();
    let mut column = indent;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > indent && column + 1 + length > width {
            wrapped.push('\n');
            wrapped.push_str(&" ".repeat(indent));
            column = indent;
        } else if column > indent {
            wrapped.push(' ');
            column += 1;
        }
        wrapped.push_str(word);
        column += length;
    }
    wrapped
}

/// Help on a name: a function of the session, an item of the language, an error or a command.
fn help_on(repl: &mut Repl, topic: &str) -> Result<String, Failure> {
    if let Some(function) = repl.session.functions().find(|function| function.name == topic) {
        return Ok(format!("{function}\n"));
    }
    let entries = reference::find(topic);
    if !entries.is_empty() {
        let texts: Vec<String> = entries.iter().map(|entry| explained(entry, repl.width)).collect();
        return Ok(texts.join("\n"));
    }
    let named = |command: &&Command| command.name == topic.strip_prefix(':').unwrap_or(topic);
    if let Some(command) = COMMANDS.iter().find(named) {
        return Ok(format!("{}\n    {}\n", command.signature().trim_end(), wrap(command.does, 4, repl.width)));
    }
    if errors::is_code(topic) {
        return Ok(errors::find(topic).map_err(Failure::usage)?.page.to_owned());
    }
    let message = format!("there is no help on `{topic}`: `:help` lists the commands, Tab completes names");
    Err(Failure::usage(message))
}

/// The help on an entry of the reference: its syntax, description and an example.
fn explained(entry: &reference::Entry, width: usize) -> String {
    let reference::Entry { signature, types, about, example, value, .. } = entry;
    let types = if types.is_empty() { String::new() } else { format!("  # {types}") };
    format!("{signature}{types}\n    {}\n    > {example}\n    {value}\n", wrap(about, 4, width))
}

/// The signatures of the functions with this name, unless it is the name of a value. A function of
/// the session comes before those of the language.
pub fn signatures(repl: &Repl, text: &str) -> Option<String> {
    let name = text.trim();
    if repl.session.value(name).is_some() {
        return None;
    }
    if let Some(function) = repl.session.functions().find(|function| function.name == name) {
        return Some(format!("{function}\n"));
    }
    if repl.session.used().any(|used| used == name)
        && let Ok(subject) = repl.session.subject(name)
    {
        return Some(format!("{}\n", subject.signature()));
    }
    let functions = reference::find(name).into_iter().filter(|entry| entry.kind.is_called());
    let lines: String = functions.map(|entry| format!("{}  # {}\n", entry.signature, entry.types)).collect();
    (!lines.is_empty()).then_some(lines)
}

fn of_type(repl: &mut Repl, text: &str) -> Result<String, Failure> {
    let mut said = String::new();
    if text.is_empty() {
        repl.session.functions().for_each(|signature| {
            say!(said, "{signature}");
        });
        repl.session.waiting().for_each(|name| {
            say!(said, "fn {name} waits");
        });
        repl.session.values().for_each(|(name, value)| {
            say!(said, "{name}: {}", show::type_of(value));
        });
        return Ok(said);
    }
    if let Some(signatures) = signatures(repl, text) {
        return Ok(signatures);
    }
    let subject = repl.session.subject(text)?;
    match (subject.is_function(), subject.signature().results.as_slice()) {
        (true, _) => {
            say!(said, "{}", subject.signature());
        }
        (false, [only]) => {
            say!(said, "{}", only.ty());
        }
        (false, several) => several.iter().for_each(|slot| {
            say!(said, "{}: {}", slot.name, slot.ty());
        }),
    }
    Ok(said)
}

/// An expression, and the sizes given after it.
fn with_sizes(text: &str) -> (String, Vec<(String, i64)>) {
    let (mut text, mut sizes) = (text.trim(), vec![]);
    while let Some((before, last)) = text.rsplit_once(char::is_whitespace)
        && let Ok(size) = arguments::name_and_size(last)
    {
        sizes.insert(0, size);
        text = before.trim_end();
    }
    (text.to_owned(), sizes)
}

fn explain(repl: &mut Repl, text: &str) -> Result<String, Failure> {
    let (mut text, mut all, mut schedule) = (text.trim_end(), false, false);
    // With these spaces it cannot be an operator and a name.
    loop {
        let (given, rest) = match (text.strip_suffix(" --all"), text.strip_suffix(" --schedule")) {
            (Some(rest), _) => (&mut all, rest),
            (_, Some(rest)) => (&mut schedule, rest),
            (None, None) => break,
        };
        *given = true;
        text = rest.trim_end();
    }
    let ((text, sizes), style) = (with_sizes(text), repl.style);
    repl.work(move |session, _| {
        let subject = session.subject(&text)?;
        let explained = subject.function().explain(&session.options, &arguments::sizes(&sizes)?);
        let explained =
            explained.and_then(|explained| if schedule { explained.with_schedule() } else { Ok(explained) });
        let explained = explained.map_err(|error| not_explained(error, &subject))?;
        Ok(format!("{}\n", if all { explained.render_all(style) } else { explained.render(style) }))
    })
}

fn not_explained(error: ExplainError, subject: &Subject) -> Failure {
    match error {
        ExplainError::Compile(error) => Failure::Compile(error),
        error => Failure::usage(format!("{error}\n  {}", subject.signature())),
    }
}

fn grad(repl: &mut Repl, text: &str) -> Result<String, Failure> {
    let mut names = text.split_whitespace().map(|name| name.trim_matches(',').to_owned());
    let Some(function) = names.next() else { return Err(Failure::usage("which function: `:grad loss w`")) };
    let of: Vec<String> = names.collect();
    if !repl.session.functions().any(|signature| signature.name == function) {
        return Err(Failure::usage(format!("there is no function `{function}` here: define or `:load` it")));
    }
    let source = repl.session.source(Path::new(""));
    Ok(Program::gradient(source, Some(&Folder::default()), &function, &of)?)
}

fn emit(repl: &mut Repl, text: &str, emit: Emit) -> Result<String, Failure> {
    let text = text.to_owned();
    repl.work(move |session, _| {
        let text = session.subject(&text)?.function().emit(&session.options, emit)?;
        Ok(format!("{}\n", text.trim_end()))
    })
}

fn time(repl: &mut Repl, text: &str) -> Result<String, Failure> {
    let text = text.to_owned();
    repl.work(move |session, _| {
        let subject = session.subject(&text)?;
        let inputs = subject.inputs()?;
        let kernel = subject.function().compile(&session.options)?;
        let start = Instant::now();
        let (_, phases) = kernel.call_in_phases(inputs)?;
        Ok(crate::run::table_of_times(kernel.times(), start.elapsed(), phases))
    })
}

fn bench(repl: &mut Repl, text: &str) -> Result<String, Failure> {
    let (text, sizes) = with_sizes(text);
    repl.work(move |session, _| {
        let subject = session.subject(&text)?;
        let measured = subject.function().bench(&session.options, &arguments::sizes(&sizes)?, &mut |_| {});
        let measured = measured.map_err(|error| match error {
            BenchError::Explain(error) => not_explained(error, &subject),
            BenchError::Run(error) => Failure::Run(error),
            BenchError::Memory(error) => Failure::Wrong(error.to_string()),
            BenchError::Gpu(error) => Failure::Wrong(error.to_string()),
        })?;
        Ok(format!("{measured}\n"))
    })
}

fn load(repl: &mut Repl, text: &str) -> Result<String, Failure> {
    repl.load(text.trim_matches('"'))
}

/// The arrays of a file by name. An unnamed array gets the name of the file.
pub fn load_arrays(mut session: Session, place: &Place, path: &str) -> Result<(Session, String), Failure> {
    let stem = place.path().and_then(|path| path.file_stem()).map(|stem| stem.to_string_lossy().into_owned());
    let named: Vec<(String, String)> = match place.clone().split_dtype().0.key() {
        Some(key) => vec![(key.to_owned(), path.to_owned())],
        None if !place.format().has_names() => vec![(stem.unwrap_or_default(), path.to_owned())],
        None => files::names(place)?.into_iter().map(|key| (key.clone(), format!("{path}:{key}"))).collect(),
    };
    let mut said = String::new();
    for (name, text) in named {
        if !is_name(&name) {
            let message = format!("`{name}` cannot be a name: write `let NAME = load(\"{text}\")`");
            return Err(Failure::Wrong(message));
        }
        let array = files::read(&Place::parse(&text)?)?;
        say!(said, "{name}: {}", show::type_of(&array));
        session.set(&name, Arc::new(array));
    }
    Ok((session, said))
}

/// Writes values or functions to a file, atomically, and reports their number.
fn save(repl: &mut Repl, text: &str, over: bool) -> Result<String, Failure> {
    let (names, path) = text.rsplit_once(char::is_whitespace).unwrap_or(("", text));
    let path = path.trim_matches('"');
    let names: Vec<&str> = names.split_whitespace().collect();
    let count = match Place::parse(path) {
        Ok(place) => save_values(repl, &names, &place, over)?,
        Err(_) if names.is_empty() && Path::new(path).extension().is_some_and(|ending| ending == "fl") => {
            save_functions(repl, Path::new(path), over)?
        }
        Err(_) => {
            return Err(Failure::usage(
                "values are saved as .npy, .npz, .safetensors, .csv, .png or .svg, all functions as .fl",
            ));
        }
    };
    // Say nothing if the values went to standard output.
    Ok(if path == "-" { String::new() } else { format!("{path}: {count}\n") })
}

fn save_functions(repl: &mut Repl, file: &Path, over: bool) -> Result<String, Failure> {
    let count = repl.session.functions().count() + repl.session.waiting().count();
    if count == 0 {
        return Err(Failure::usage("there are no functions to save"));
    }
    repl.may_write(file, over)?;
    files::replace(file, &repl.session.source(file.parent().unwrap_or(Path::new(""))))?;
    repl.knows(file);
    Ok(counted(count, "function"))
}

fn save_values(repl: &mut Repl, names: &[&str], place: &Place, over: bool) -> Result<String, Failure> {
    let values: Vec<_> = match names.is_empty() {
        true => repl.session.values().filter(|(name, _)| *name != LAST).collect(),
        false => {
            let find = |name: &&str| {
                let value = repl.session.values().find(|(known, _)| known == name);
                value.ok_or_else(|| Failure::usage(format!("there is no value `{name}`")))
            };
            names.iter().map(find).collect::<Result<_, _>>()?
        }
    };
    if values.is_empty() {
        return Err(Failure::usage("there are no values to save"));
    }
    if let Some(file) = place.path() {
        repl.may_write(file, over)?;
    }
    let placed: Vec<_> =
        values.iter().map(|(name, value)| (place.clone().or_key(name), value.as_ref().as_ref())).collect();
    files::save(&placed, Packing::Stored)?;
    let count = values.len();
    if let Some(file) = place.path() {
        repl.knows(file);
    }
    Ok(counted(count, "value"))
}

/// `1 value`, `3 values`
fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Parses one of several names.
fn choose<T: ValueEnum>(text: &str, what: &str) -> Result<T, Failure> {
    let unknown = |_| Failure::usage(format!("there is no {what} `{text}`: expected {}", choices::<T>().join(", ")));
    T::from_str(text, false).map_err(unknown)
}

/// The name of a choice, on a line.
fn chosen<T: ValueEnum + Copy + Into<O>, O: PartialEq>(value: &O) -> String {
    let name = T::value_variants().iter().find(|name| (**name).into() == *value);
    name.and_then(ValueEnum::to_possible_value).map(|name| format!("{}\n", name.get_name())).unwrap_or_default()
}

fn device(repl: &mut Repl, text: &str) -> Result<String, Failure> {
    if !text.is_empty() {
        repl.session.options.device = choose::<DeviceName>(text, "device")?.into();
        return Ok(String::new());
    }
    Ok(chosen::<DeviceName, _>(&repl.session.options.device))
}

fn math(repl: &mut Repl, text: &str) -> Result<String, Failure> {
    if !text.is_empty() {
        repl.session.options.math = choose::<MathName>(text, "math")?.into();
        return Ok(String::new());
    }
    Ok(chosen::<MathName, _>(&repl.session.options.math))
}

fn fuse(repl: &mut Repl, text: &str) -> Result<String, Failure> {
    if text.is_empty() {
        return Ok(format!("{}\n", repl.session.options.fuse));
    }
    repl.session.options.fuse = arguments::passes(text).map_err(Failure::Usage)?;
    Ok(String::new())
}

fn threads(repl: &mut Repl, text: &str) -> Result<String, Failure> {
    if text.is_empty() {
        return Ok(match repl.session.options.threads {
            0 => "as many as the machine has\n".to_owned(),
            n => format!("{n}\n"),
        });
    }
    let count: Option<usize> = text.parse().ok().filter(|n| (1..=1024).contains(n));
    repl.session.options.threads = count.ok_or_else(|| Failure::usage("`:threads` takes a number from 1 to 1024"))?;
    Ok(String::new())
}

fn print_limit(repl: &mut Repl, text: &str) -> Result<String, Failure> {
    if text.is_empty() {
        return Ok(format!("{}\n", repl.printing.most));
    }
    repl.printing.most = printing::most(text).map_err(Failure::Usage)?;
    Ok(String::new())
}

fn precision(repl: &mut Repl, text: &str) -> Result<String, Failure> {
    if text.is_empty() {
        return Ok(format!("{}\n", repl.printing.precision));
    }
    repl.printing.precision = printing::digits(text).map_err(Failure::Usage)?;
    Ok(String::new())
}

fn clear(repl: &mut Repl, text: &str) -> Result<String, Failure> {
    if text.is_empty() {
        let functions = repl.session.functions().count() + repl.session.waiting().count();
        let values = repl.session.values().filter(|(name, _)| *name != LAST).count();
        repl.session.clear();
        return Ok(format!("forgot {} and {}\n", counted(functions, "function"), counted(values, "value")));
    }
    let mut session = repl.session.clone();
    let unknown: Vec<&str> = text.split_whitespace().filter(|name| !session.forget(name)).collect();
    if !unknown.is_empty() {
        return Err(Failure::usage(format!("there is no {}", unknown.join(", "))));
    }
    repl.session = session;
    Ok(format!("forgot {}\n", text.split_whitespace().collect::<Vec<_>>().join(", ")))
}
