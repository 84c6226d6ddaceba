//! Programs as objects: compiled ahead of time, linked into a C program that calls them through
//! their header, and run there, on this machine or under an emulator of another one.

use std::fmt::Write;
use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Command, Stdio};

use backends::cpu::object::{Function, Settings, Status, Target, header, object};
use fuzzing::objects::outcome;
use ir::array::{Array, ArrayRef};
use ir::bind::{BindError, Binding};
use ir::nest::{Program, Purpose};
use schedule::schedule;
use tempfile::TempDir;

use crate::engines::Outcome;

/// How objects become programs that run.
pub struct Machine {
    /// The machine that objects are for.
    pub target: Target,
    /// The C compiler.
    pub compiler: &'static str,
    /// Options for the compiler. With `-DMODE=...` the program sets its floating-point mode
    /// register to this value before any call.
    pub flags: &'static [&'static str],
    /// The command that runs its programs, if this machine cannot.
    pub runner: Option<&'static str>,
}

/// A C program with the functions of some programs in it.
pub struct Linked {
    folder: TempDir,
    runner: Option<&'static str>,
    programs: Vec<Program>,
    sizes: Vec<Vec<String>>,
}

/// A call of one of the programs.
pub struct Call<'a> {
    /// Which one.
    pub program: usize,
    /// Its arguments.
    pub inputs: &'a [ArrayRef<'a>],
}

/// Whether a command is there.
pub fn is_there(command: &str) -> bool {
    let quiet = Command::new(command).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    quiet.is_ok_and(|status| status.success())
}

/// The text of a status, which failing tests show and [`outcome`] looks up.
fn text(status: Status) -> String {
    format!("{status:?}")
}

impl Linked {
    /// Compiles programs and links them.
    pub fn new(programs: Vec<Program>, machine: &Machine) -> Result<Linked, String> {
        let named = |(n, program): (usize, Program)| Program { name: format!("p{n}"), ..program };
        let programs: Vec<Program> = programs.into_iter().enumerate().map(named).collect();
        let scheduled = programs.iter().map(|program| schedule(program, schedule::Machine::OBJECT));
        let scheduled: Vec<_> = scheduled.collect::<Result<_, _>>().map_err(|e| e.to_string())?;
        let function =
            |scheduled| Function { scheduled, signature: String::new(), comment: String::new(), text: &text };
        let functions: Vec<Function<'_>> = scheduled.iter().map(function).collect();
        let settings = Settings { target: machine.target, prefix: "fl_", origin: "programs" };
        let object = object(&functions, &settings).map_err(|e| e.to_string())?;
        let header = header(&functions, &settings);
        let mut source = format!("#define _GNU_SOURCE\n{header}\n{}", include_str!("harness.c"));
        let mut sizes = vec![];
        for (n, program) in programs.iter().enumerate() {
            let caller = Caller::new(n, program, &header)?;
            source += &caller.source(n, program);
            sizes.push(caller.sizes);
        }
        source += "\nint main(void) {\n    int64_t which;\n    begin();\n    while (fread(&which, 1, sizeof which, stdin) == sizeof which) {\n        switch (which) {\n";
        (0..programs.len()).for_each(|n| _ = writeln!(source, "        case {n}: call_{n}(); break;"));
        source += "        default: abort();\n        }\n        hold_mode();\n        forget();\n        fflush(stdout);\n    }\n    return 0;\n}\n";
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        let write =
            |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).map_err(|e| e.to_string());
        write("programs.o", &object)?;
        write("main.c", source.as_bytes())?;
        let mut compile = Command::new(machine.compiler);
        compile.current_dir(folder.path()).args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-o", "main", "main.c"]);
        compile.args(machine.flags);
        if machine.runner.is_some() {
            compile.arg("-static");
        }
        run(compile.args(["programs.o", "-lm"]))?;
        Ok(Linked { folder, runner: machine.runner, programs, sizes })
    }

    /// Makes calls, all in one process. A call that cannot be expressed in C, since an argument has
    /// another shape than declared, gives `None`.
    pub fn call(&self, calls: &[Call<'_>]) -> Result<Vec<Option<Outcome>>, String> {
        let mut asked = vec![];
        let mut input = vec![];
        for call in calls {
            let said = self.say(call, &mut input);
            asked.push(said);
        }
        let path = |name: &str| self.folder.path().join(name);
        std::fs::write(path("in"), &input).map_err(|e| e.to_string())?;
        let status = self.run(&path("in"), &path("out"))?;
        let mut reply = Reply { rest: &std::fs::read(path("out")).map_err(|e| e.to_string())? };
        let mut outcomes = vec![];
        for (call, asked) in calls.iter().zip(asked) {
            outcomes.push(match asked {
                true => Some(self.outcome(call, &mut reply).unwrap_or_else(|| Outcome::Broken(status.clone()))),
                false => None,
            });
        }
        Ok(outcomes)
    }

    fn run(&self, input: &Path, output: &Path) -> Result<String, String> {
        let program = self.folder.path().join("main");
        let mut command = match self.runner {
            Some(runner) => Command::new(runner),
            None => Command::new(&program),
        };
        if self.runner.is_some() {
            command.arg(&program);
        }
        let file = |file: std::io::Result<std::fs::File>| file.map_err(|e| e.to_string());
        let mut errors = file(tempfile::tempfile())?;
        command.stdin(file(std::fs::File::open(input))?).stdout(file(std::fs::File::create(output))?);
        command.stderr(file(errors.try_clone())?);
        let status = command.status().map_err(|e| e.to_string())?;
        let mut said = String::new();
        errors.rewind().and_then(|()| errors.read_to_string(&mut said)).map_err(|e| e.to_string())?;
        Ok(format!("{status} {said}"))
    }

    /// Writes the input of the C program for a call; `None` if the call cannot be expressed.
    fn say(&self, call: &Call<'_>, to: &mut Vec<u8>) -> bool {
        let program = &self.programs[call.program];
        if let Err(BindError::Requirement { requirement, .. }) = Binding::new(program, call.inputs)
            && program.requires[requirement].purpose == Purpose::Declared
        {
            return false;
        }
        let none = Program { requires: vec![], ..program.clone() };
        let params: Vec<_> =
            none.inputs().iter().map(|id| (none.buffers[*id].dtype, none.buffers[*id].shape.len())).collect();
        let Ok(binding) = Binding::of_call(&none.symbols, &params, &[], call.inputs) else { return false };
        // A caller in C gives the sizes that are solved for, and none of them is negative.
        if none.symbols.iter().any(|(s, symbol)| symbol.source.is_length() && binding.symbol(s) < 0) {
            return false;
        }
        to.extend((call.program as i64).to_le_bytes());
        for name in &self.sizes[call.program] {
            let symbol = program.symbols.iter().find(|(_, s)| s.name == name.trim_end_matches('_') || s.name == *name);
            to.extend(symbol.map_or(0, |(s, _)| binding.symbol(s)).to_le_bytes());
        }
        for input in call.inputs {
            if !input.shape().is_empty() {
                to.extend((input.bytes().len() as i64).to_le_bytes());
            }
            to.extend(input.bytes());
        }
        true
    }

    /// The outcome of a call.
    fn outcome(&self, call: &Call<'_>, reply: &mut Reply<'_>) -> Option<Outcome> {
        let program = &self.programs[call.program];
        let asked = reply.numbers(3)?;
        if asked[0] != 0 {
            return Some(outcome(program, &reply.string()?, [asked[1], asked[2]]));
        }
        let results = program.outputs();
        let shaped = results.iter().filter(|id| !program.buffers[**id].shape.is_empty());
        let count = shaped.map(|id| program.buffers[*id].shape.len()).sum();
        let lengths = reply.numbers(count)?;
        let done = reply.numbers(3)?;
        let status = reply.string()?;
        let (mut arrays, mut at, mut touched) = (vec![], 0, false);
        for id in results {
            let buffer = &program.buffers[id];
            let lengths = &lengths[at..at + buffer.shape.len()];
            at += lengths.len();
            let shape: Vec<usize> = lengths.iter().filter_map(|n| usize::try_from(*n).ok()).collect();
            let bytes = reply.array()?;
            touched |= bytes.iter().any(|byte| *byte != 0xa5);
            if done[0] == 0 {
                arrays.push(Array::from_bytes(buffer.dtype, &shape, bytes).ok()?);
            }
        }
        Some(match done[0] {
            0 => Outcome::Results(arrays),
            _ if touched => Outcome::Broken("a call without results has written some".into()),
            _ => outcome(program, &status, [done[1], done[2]]),
        })
    }
}

/// Runs a command that must succeed.
pub fn run(command: &mut Command) -> Result<String, String> {
    let done = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    let said = String::from_utf8_lossy(&done.stderr);
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    Err(format!("{command:?}: {}\n{said}", done.status))
}

/// The output of the C program.
struct Reply<'a> {
    rest: &'a [u8],
}

impl<'a> Reply<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(taken)
    }

    fn numbers(&mut self, count: usize) -> Option<Vec<i64>> {
        let bytes = self.take(8 * count)?;
        Some(bytes.chunks(8).filter_map(|word| Some(i64::from_le_bytes(word.try_into().ok()?))).collect())
    }

    fn array(&mut self) -> Option<&'a [u8]> {
        let bytes = self.numbers(1)?[0];
        self.take(usize::try_from(bytes).ok()?)
    }

    fn string(&mut self) -> Option<String> {
        Some(String::from_utf8_lossy(self.array()?).into_owned())
    }
}

/// A function as its header declares it.
struct Caller {
    /// Types and names of its parameters.
    params: Vec<(String, String)>,
    /// The names of those of its query.
    query: Vec<String>,
    /// Its sizes: the parameters before the inputs.
    sizes: Vec<String>,
}

impl Caller {
    fn new(n: usize, program: &Program, header: &str) -> Result<Caller, String> {
        let declared = |name: String| -> Result<Vec<(String, String)>, String> {
            let head = format!("int32_t {name}(");
            let line = header.lines().find_map(|line| line.strip_prefix(&head)?.strip_suffix(");"));
            let params = line.ok_or_else(|| format!("the header has no {name}"))?.split(", ");
            let split = |param: &str| {
                let at = param.rfind([' ', '*']).map_or(0, |at| at + 1);
                (param[..at].trim().to_owned(), param[at..].to_owned())
            };
            Ok(params.map(split).collect())
        };
        let params = declared(format!("fl_p{n}"))?;
        let query = declared(format!("fl_p{n}_query"))?;
        let arrays = program.inputs().len() + program.outputs().len() + 3;
        let sizes = params.len().checked_sub(arrays).ok_or("too few parameters")?;
        Ok(Caller {
            sizes: params[..sizes].iter().map(|(_, name)| name.clone()).collect(),
            query: query.into_iter().map(|(_, name)| name).collect(),
            params,
        })
    }

    /// A function that makes a call described on standard input.
    fn source(&self, n: usize, program: &Program) -> String {
        let mut out = format!("\nstatic void call_{n}(void) {{\n");
        let (inputs, outputs) = (program.inputs(), program.outputs());
        let (sizes, rest) = self.params.split_at(self.sizes.len());
        let (given, rest) = rest.split_at(inputs.len());
        sizes.iter().for_each(|(_, name)| _ = writeln!(out, "    int64_t {name} = number();"));
        for (ty, name) in given {
            _ = match ty.strip_suffix('*') {
                Some(_) => writeln!(out, "    {ty}{name} = array();"),
                None => writeln!(out, "    {ty} {name};\n    get(&{name}, sizeof {name});"),
            };
        }
        let tell = format!("put_array(fl_p{n}_error(status), (int64_t)strlen(fl_p{n}_error(status)));");
        let query = self.query[..self.query.len() - 2].iter().map(|name| format!("{name}, ")).collect::<String>();
        let _ = write!(
            out,
            "    fuseloop_numbers numbers = {{0, 0}};\n    fl_p{n}_needs needs;\n    \
             int32_t status = fl_p{n}_query({query}&needs, &numbers);\n    put_status(status, numbers);\n    \
             if (status != 0) {{\n        {tell}\n        return;\n    }}\n    \
             put((const char *)&needs + 8, sizeof needs - 8);\n    void *scratch = memory(needs.scratch);\n"
        );
        // The fields of the needs are in the order of the results that have axes.
        let mut at = 1;
        for ((ty, name), id) in rest.iter().zip(&outputs) {
            let rank = program.buffers[*id].shape.len();
            let _ = writeln!(
                out,
                "    int64_t {name}_bytes = product((const int64_t *)&needs + {at}, {rank}) * (int64_t)sizeof({});",
                ty.trim_end_matches('*')
            );
            let _ = writeln!(out, "    {ty}{name} = room({name}_bytes);");
            at += rank;
        }
        let all: String =
            sizes.iter().chain(given).chain(&rest[..outputs.len()]).map(|(_, name)| format!("{name}, ")).collect();
        let _ = write!(
            out,
            "    status = fl_p{n}({all}scratch, needs.scratch, &numbers);\n    put_status(status, numbers);\n    {tell}\n"
        );
        for (_, name) in &rest[..outputs.len()] {
            let _ = writeln!(out, "    put_array({name}, {name}_bytes);");
        }
        out + "}\n"
    }
}
