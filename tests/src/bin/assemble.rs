//! Runs NVIDIA's assembler and disassembler on the PTX of every program in the repository:
//! `assemble PTXAS NVDISASM [renew]`.
//!
//! Everything must assemble. Most programs are assembled for the devices where the text has all
//! kernels; the examples also for the oldest. The code of kernels without `fma`, division and
//! roots must have no fused multiply-add, which would round once where the language rounds
//! twice. `tests/registers.txt` records the registers and spills of the examples: changes are
//! printed, more spills are a failure, and `renew` rewrites the file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use backends::ptx::{self, Target};
use compiler::pipeline::Options;

/// Folders of programs.
const FOLDERS: [&str; 4] = ["examples", "tests/programs", "bench", "bench/gpu"];
const TARGETS: [Target; 2] = [Target::Sm80, Target::Sm90a];
const SNAPSHOT: &str = "tests/registers.txt";
/// Instructions for which the assembler may emit fused multiply-adds.
const FUSED: [&str; 3] = ["fma.rn", "div.rn", "sqrt.rn"];

/// A function's kernels, fused as the model judges.
struct Text {
    name: String,
    is_example: bool,
    /// For each target.
    ptx: [String; TARGETS.len()],
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [ptxas, nvdisasm, rest @ ..] = arguments.as_slice() else {
        eprintln!("assemble PTXAS NVDISASM [renew]");
        return ExitCode::from(2);
    };
    let tools =
        Tools { ptxas: ptxas.into(), nvdisasm: nvdisasm.into(), folder: tempfile::tempdir().expect("a folder") };
    let renew = rest.iter().any(|word| word == "renew");
    let mut texts = texts();
    texts.retain(|text| text.is_example || !renew);
    let mut faults = vec![];
    let mut registers = String::new();
    for (text, found) in texts.iter().zip(tools.all(&texts)) {
        match found {
            Ok(lines) if text.is_example => registers.extend(lines.iter().map(|line| format!("{line}\n"))),
            Ok(_) => {}
            Err(fault) => faults.push(fault),
        }
    }
    if let Err(fault) = tools.finds_contraction() {
        faults.push(fault);
    }
    let path = root().join(SNAPSHOT);
    if renew {
        std::fs::write(&path, &registers).expect("the snapshot can be written");
    } else {
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        let changed = changes(&expected, &registers);
        println!("{} lines of {SNAPSHOT} have changed\n{}", changed.len(), changed.join("\n"));
        if !expected.is_empty() {
            faults.extend(new_spills(&expected, &registers));
        }
    }
    println!("{} modules for {}, {} faults", texts.len(), TARGETS.map(|t| t.to_string()).join(" and "), faults.len());
    faults.iter().for_each(|fault| println!("\n{fault}"));
    ExitCode::from(u8::from(!faults.is_empty()))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// Every function of every program as PTX.
fn texts() -> Vec<Text> {
    let mut texts = vec![];
    for folder in FOLDERS {
        let entries = std::fs::read_dir(root().join(folder)).expect("the folder is there");
        let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "fl"));
        files.sort();
        for file in files {
            let source = std::fs::read_to_string(&file).expect("sources are UTF-8");
            let Ok(parsed) = grammar::parse(&source) else { continue };
            let Ok(functions) = compiler::check::check_all(&parsed) else { continue };
            let file = file.strip_prefix(root()).unwrap_or(&file).display().to_string();
            for checked in functions {
                let compiled = compiler::pipeline::compile(&checked, &Options::default());
                let compiled = compiled.expect("programs of ours compile");
                let scheduled = schedule::schedule(&compiled.program, schedule::Machine::PTX);
                let scheduled = scheduled.expect("programs of ours compile");
                let module = ptx::Module::compile(&scheduled).expect("programs of ours compile");
                let name = format!("{file} {}", checked.name);
                texts.push(Text {
                    name,
                    is_example: folder == "examples",
                    ptx: TARGETS.map(|target| module.text(target)),
                });
            }
        }
    }
    texts
}

/// The lines of the snapshot that have changed, for people to look at.
fn changes(expected: &str, found: &str) -> Vec<String> {
    let expected: BTreeSet<&str> = expected.lines().collect();
    found.lines().filter(|line| !expected.contains(line)).map(|line| format!("  {line}")).collect()
}

/// Kernels that spill more than the snapshot says.
fn new_spills(expected: &str, found: &str) -> Vec<String> {
    let spilled = |line: &str| -> u32 {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.windows(2).filter(|pair| pair[1] == "bytes").filter_map(|pair| pair[0].parse::<u32>().ok()).sum()
    };
    let kernel = |line: &'_ str| line.split(": ").next().unwrap_or_default().to_owned();
    let before: BTreeMap<String, u32> = expected.lines().map(|line| (kernel(line), spilled(line))).collect();
    let more = |line: &&str| spilled(line) > before.get(&kernel(line)).copied().unwrap_or(0);
    found.lines().filter(more).map(|line| format!("more is spilled than {SNAPSHOT} says: {line}")).collect()
}

struct Tools {
    ptxas: PathBuf,
    nvdisasm: PathBuf,
    folder: tempfile::TempDir,
}

impl Tools {
    /// The results for each text, in order, computed on as many threads as the machine has.
    fn all(&self, texts: &[Text]) -> Vec<Result<Vec<String>, String>> {
        let next = AtomicUsize::new(0);
        let found = Mutex::new(BTreeMap::new());
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(|| {
                    while let at = next.fetch_add(1, Ordering::Relaxed)
                        && let Some(text) = texts.get(at)
                    {
                        let result = self.one(at, text);
                        found.lock().expect("no thread panics").insert(at, result);
                    }
                });
            }
        });
        found.into_inner().expect("no thread panics").into_values().collect()
    }

    /// Registers and spills of each kernel of a text.
    fn one(&self, number: usize, text: &Text) -> Result<Vec<String>, String> {
        let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (target, ptx) in TARGETS.iter().zip(&text.ptx).skip(usize::from(!text.is_example)) {
            let architecture = target.to_string();
            let (log, cubin) = self.assemble(&number.to_string(), &architecture, ptx, &text.name)?;
            for (kernel, figures) in figures(&log) {
                lines.entry(kernel).or_default().push(format!("{architecture} {figures}"));
            }
            if !FUSED.iter().any(|fused| ptx.contains(fused))
                && let Some(line) = self.contraction(&cubin)?
            {
                return Err(format!("{}, {architecture}: a product is rounded with the sum: {line}", text.name));
            }
        }
        Ok(lines
            .into_iter()
            .map(|(kernel, figures)| format!("{} {kernel}: {}", text.name, figures.join(", ")))
            .collect())
    }

    fn assemble(&self, file: &str, architecture: &str, ptx: &str, name: &str) -> Result<(String, PathBuf), String> {
        let from = self.folder.path().join(format!("{file}.ptx"));
        let to = self.folder.path().join(format!("{file}.{architecture}"));
        std::fs::write(&from, ptx).map_err(|error| error.to_string())?;
        let mut command = Command::new(&self.ptxas);
        command.arg(format!("-arch={architecture}")).arg("-v").arg("-o").arg(&to).arg(&from);
        let output = command.output().map_err(|error| format!("{}: {error}", self.ptxas.display()))?;
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok((log, to)) } else { Err(format!("{name}, {architecture}: {log}")) }
    }

    /// A fused multiply-add in machine code that is not merely a product or a sum (with an addend
    /// of zero or a factor of one).
    fn contraction(&self, cubin: &Path) -> Result<Option<String>, String> {
        let output = Command::new(&self.nvdisasm).arg("-c").arg(cubin).output();
        let output = output.map_err(|error| format!("{}: {error}", self.nvdisasm.display()))?;
        if !output.status.success() {
            return Err(format!("nvdisasm: {}", String::from_utf8_lossy(&output.stderr)));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let fused = |line: &&str| ["FFMA", "DFMA", "HFMA2"].iter().any(|name| line.contains(name));
        let alone = |line: &str| {
            let operands: Vec<&str> = line.split(';').next().unwrap_or(line).split(',').map(str::trim).collect();
            let trivial = |operand: &&str| matches!(operand.trim_start_matches('-'), "RZ" | "1" | "RZ.H0_H0" | "1, 1");
            operands.iter().skip(1).any(trivial)
        };
        Ok(text.lines().filter(fused).find(|line| !alone(line)).map(|line| line.trim().to_owned()))
    }

    /// Checks that a contraction would be found, on code that leaves the rounding to the
    /// assembler.
    fn finds_contraction(&self) -> Result<(), String> {
        let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry f(.param .b64 p) {\n.reg .b64 %p;\n.reg .f32 %x, %y;\n\
                   ld.param.b64 %p, [p];\nld.global.f32 %x, [%p];\nld.global.f32 %y, [%p+4];\nmul.f32 %y, %x, %y;\nadd.f32 %y, %y, %x;\n\
                   st.global.f32 [%p], %y;\nret;\n}\n";
        let (_, cubin) = self.assemble("contracted", "sm_80", ptx, "a contraction")?;
        let (_, exact) = self.assemble(
            "exact",
            "sm_80",
            &ptx.replace("mul.f32", "mul.rn.f32").replace("add.f32", "add.rn.f32"),
            "none",
        )?;
        match (self.contraction(&cubin)?, self.contraction(&exact)?) {
            (Some(_), None) => Ok(()),
            found => Err(format!("a contraction is not told from none: {found:?}")),
        }
    }
}

/// The assembler's figures for each kernel.
fn figures(log: &str) -> Vec<(String, String)> {
    let number_before = |line: &str, what: &str| -> u32 {
        let before = line.split(what).next().unwrap_or_default().trim_end();
        before.rsplit([' ', ',']).next().and_then(|word| word.parse().ok()).unwrap_or(0)
    };
    let (mut found, mut kernel, mut spills) = (vec![], String::new(), 0);
    for line in log.lines() {
        if let Some(rest) = line.split("Compiling entry function '").nth(1) {
            kernel = rest.split('\'').next().unwrap_or_default().to_owned();
        } else if line.contains("spill stores") {
            spills = number_before(line, " bytes spill stores") + number_before(line, " bytes spill loads");
        } else if line.contains("Used ") && line.contains(" registers") {
            let registers = number_before(line, " registers");
            found.push((kernel.clone(), format!("{registers} registers, {spills} bytes spilled")));
        }
    }
    found
}
