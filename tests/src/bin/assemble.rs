//! Runs NVIDIA's assembler and disassembler on the PTX of every program in the repository:
//! `assemble PTXAS NVDISASM [renew]`.
//!
//! Everything must assemble. Many functions have kernels in common: each distinct kernel is
//! assembled once, those of most programs for the devices where the text has all kernels, those
//! of the examples also for the oldest. The code of kernels without `fma`, division and roots must
//! have no fused multiply-add, which would round once where the language rounds twice.
//! `tests/registers.txt` records the registers and spills of the examples: changes are printed,
//! more spills are a failure, and `renew` rewrites the file.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use backends::ptx::{self, Math, Target};
use compiler::pipeline::Options;
use ir::checked::Checked;

/// Folders of programs.
const FOLDERS: [&str; 4] = ["examples", "tests/programs", "bench", "bench/gpu"];
const NEWEST: Target = Target::Sm90a;
const TARGETS: [Target; 2] = [Target::Sm80, NEWEST];
const SNAPSHOT: &str = "tests/registers.txt";
/// Instructions for which the assembler may emit fused multiply-adds.
const FUSED: [&str; 3] = ["fma.rn", "div.rn", "sqrt.rn"];

/// How the text of a kernel begins, up to its name.
const ENTRY: &str = "\n.visible .entry ";
/// The kernels of a module: the disassembler takes most of a second to start.
const TOGETHER: usize = 16;

/// A kernel of functions, fused as the model judges.
struct Kernel {
    /// From after its name on.
    text: String,
    /// The targets to assemble it for, each with how its modules begin.
    targets: BTreeMap<Target, String>,
    /// The first function that has it, and the examples that have it too, each with its name there.
    places: Vec<String>,
    is_example: bool,
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
    let mut kernels = kernels();
    kernels.retain(|kernel| kernel.is_example || !renew);
    let (figures, mut faults) = tools.all(&kernels);
    let mut registers = String::new();
    for (number, kernel) in kernels.iter().enumerate().filter(|(_, kernel)| kernel.is_example) {
        let of_kernel = TARGETS.iter().filter_map(|target| {
            let figures = figures.get(&(number, *target))?;
            Some(format!("{target} {figures}"))
        });
        let of_kernel: Vec<String> = of_kernel.collect();
        registers += &format!("{}: {}\n", kernel.places.join(", "), of_kernel.join(", "));
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
    println!("{} kernels for {}, {} faults", kernels.len(), TARGETS.map(|t| t.to_string()).join(" and "), faults.len());
    faults.iter().for_each(|fault| println!("\n{fault}"));
    ExitCode::from(u8::from(!faults.is_empty()))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// The distinct kernels of all functions of all programs.
fn kernels() -> Vec<Kernel> {
    let mut kernels: Vec<Kernel> = vec![];
    // The number of each, by its text.
    let mut numbers: HashMap<String, usize> = HashMap::new();
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
            let is_example = folder == "examples";
            for checked in functions {
                for ((name, text), mut targets) in kernels_of(&checked) {
                    let place = format!("{file} {} {name}", checked.name);
                    if let Some(number) = numbers.get(&text) {
                        kernels[*number].places.extend(is_example.then_some(place));
                        continue;
                    }
                    numbers.insert(text.clone(), kernels.len());
                    targets.retain(|target, _| is_example || *target == NEWEST);
                    kernels.push(Kernel { text, targets, places: vec![place], is_example });
                }
            }
        }
    }
    kernels
}

/// The kernels of a function, and those that are different under fast math: the name and the rest
/// of the text of each, the targets that have it, and how their modules begin.
fn kernels_of(checked: &Checked) -> BTreeMap<(String, String), BTreeMap<Target, String>> {
    let compiled = compiler::pipeline::compile(checked, &Options::default()).expect("programs of ours compile");
    let scheduled = schedule::schedule(&compiled.program, schedule::Machine::PTX).expect("programs of ours compile");
    let mut kernels: BTreeMap<(String, String), BTreeMap<Target, String>> = BTreeMap::new();
    for (math, target) in [Math::Exact, Math::Fast].into_iter().flat_map(|math| TARGETS.map(|target| (math, target))) {
        let module = ptx::Module::compile_with(&scheduled, math).expect("programs of ours compile");
        let text = module.text(target);
        let mut parts = text.split(ENTRY);
        let head = parts.next().unwrap_or_default();
        let mut names = BTreeSet::new();
        for kernel in parts {
            let (name, rest) = kernel.split_once('(').expect("a kernel has parameters");
            assert!(names.insert(name), "two kernels {name} in {}", checked.name);
            let mut key = (name.to_owned(), rest.to_owned());
            if math == Math::Fast && !kernels.contains_key(&key) {
                key.0 += " fast";
            }
            let targets = kernels.entry(key).or_default();
            targets.insert(target, head.to_owned());
        }
    }
    kernels
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
    fn places(line: &str) -> impl Iterator<Item = &str> {
        line.split(": ").next().unwrap_or_default().split(", ")
    }
    let before: BTreeMap<&str, u32> =
        expected.lines().flat_map(|line| places(line).map(move |place| (place, spilled(line)))).collect();
    let more = |line: &&str| places(line).any(|place| spilled(line) > before.get(place).copied().unwrap_or(0));
    found.lines().filter(more).map(|line| format!("more is spilled than {SNAPSHOT} says: {line}")).collect()
}

/// Whether the assembler may emit fused multiply-adds for a kernel.
fn is_fused(kernel: &Kernel) -> bool {
    FUSED.iter().any(|fused| kernel.text.contains(fused))
}

struct Tools {
    ptxas: PathBuf,
    nvdisasm: PathBuf,
    folder: tempfile::TempDir,
}

/// Some kernels for a target, each with its number.
type Module<'k> = (Target, Vec<(usize, &'k Kernel)>);

/// The figures of kernels, by number and target.
type Figures = BTreeMap<(usize, Target), String>;

impl Tools {
    /// The figures of all kernels and the faults, computed on as many threads as the machine has.
    fn all(&self, kernels: &[Kernel]) -> (Figures, Vec<String>) {
        let mut modules: Vec<Module<'_>> = vec![];
        for (target, fused) in TARGETS.into_iter().flat_map(|target| [(target, false), (target, true)]) {
            let is_here = |kernel: &Kernel| kernel.targets.contains_key(&target) && is_fused(kernel) == fused;
            let here: Vec<_> = kernels.iter().enumerate().filter(|(_, kernel)| is_here(kernel)).collect();
            modules.extend(here.chunks(TOGETHER).map(|kernels| (target, kernels.to_vec())));
        }
        let next = AtomicUsize::new(0);
        let found = Mutex::new((Figures::new(), vec![]));
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(|| {
                    while let Some(module) = modules.get(next.fetch_add(1, Ordering::Relaxed)) {
                        // If there is a fault, it is looked for in each kernel alone.
                        let alone = || module.1.iter().map(|kernel| self.one(&(module.0, vec![*kernel]))).collect();
                        let results: Vec<_> = self.one(module).map_or_else(|_| alone(), |figures| vec![Ok(figures)]);
                        let (all, faults) = &mut *found.lock().expect("no thread panics");
                        for result in results {
                            match result {
                                Ok(figures) => all.extend(figures),
                                Err(fault) => faults.push(fault),
                            }
                        }
                    }
                });
            }
        });
        found.into_inner().expect("no thread panics")
    }

    /// Registers and spills of each kernel of a module.
    fn one(&self, (target, kernels): &Module<'_>) -> Result<Figures, String> {
        let Some((first, kernel)) = kernels.first() else { return Ok(Figures::new()) };
        let (place, architecture) = (&kernel.places[0], target.to_string());
        let mut ptx = kernel.targets[target].clone();
        for (number, kernel) in kernels {
            ptx += &format!("{ENTRY}kernel{number}({}", kernel.text);
        }
        let (log, cubin) = self.assemble(&first.to_string(), &architecture, &ptx, place)?;
        if !is_fused(kernel)
            && let Some(line) = self.contraction(&cubin)?
        {
            return Err(format!("{place}, {architecture}: a product is rounded with the sum: {line}"));
        }
        let number = |name: &str| name.strip_prefix("kernel")?.parse().ok();
        Ok(figures(&log).into_iter().filter_map(|(name, figures)| Some(((number(&name)?, *target), figures))).collect())
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
