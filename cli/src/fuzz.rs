//! `fuseloop fuzz`: runs random programs on every engine and compares them with their meaning. A
//! failure is reduced and saved.

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::ValueEnum;
use fuseloop::{Gpu, Simd};
use fuzzing::campaign::{self, Failure as Found, Plan, Report};
use fuzzing::engines::Engine;
use fuzzing::judge::{Rigour, Verdict};
use fuzzing::worker;
use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use signal_hook::consts::SIGINT;

use crate::arguments::SimdName;
use crate::failure::{Failure, Format};

/// Tests the compiler: runs random programs and data on every engine, fused in every way, and
/// compares the bits with the interpreter's.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A failure ends the run. It is reduced and saved as a program with its data and settings; --replay runs it again.

Example: fuseloop fuzz --cases 1000 --device cpu,emulator"
)]
pub struct Arguments {
    /// The number of programs
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    cases: u64,
    /// The number of the first program; a number always gives the same program
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Ends after this many seconds
    #[arg(long, alias = "seconds", value_name = "SECONDS")]
    time: Option<u64>,
    /// The devices to test, in turn
    #[arg(long, value_enum, value_delimiter = ',', default_value = "cpu,interp,emulator")]
    device: Vec<DeviceName>,
    /// The widths of the CPU's vectors, in turn [default: all that this machine has]
    #[arg(long, value_enum, value_delimiter = ',')]
    simd: Vec<SimdName>,
    /// The numbers of threads for a call, in turn
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,2,4", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Vec<u16>,
    /// Runs the failure saved in this folder again instead
    #[arg(long, value_name = "DIR")]
    replay: Option<PathBuf>,
    /// The folder to save a failure in
    #[arg(short, long = "output", value_name = "DIR", default_value = "fuzz-failures")]
    output: PathBuf,
    /// The limit on the seconds for reducing a failure
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    reduce: u64,
    /// The format of the report
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Answers requests on standard input: the processes in which programs run
    #[arg(long, hide = true, value_name = "ENGINE", value_delimiter = ',')]
    worker: Vec<Engine>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DeviceName {
    /// Machine code for this processor
    Cpu,
    /// The loop nests in the interpreter
    Interp,
    /// PTX on an emulator
    Emulator,
    /// This machine's first NVIDIA GPU
    Gpu,
}

/// How many turns a GPU gets for one of each slower engine.
const GPU_TURNS: usize = 8;
/// How many turns the emulator gets. There is one kind of it but many of processors.
const EMULATOR_TURNS: usize = 2;

/// The maximum number of lines shown of a failure.
const LINES: usize = 12;

/// Runs the command.
pub fn run(arguments: &Arguments, stdout: &mut impl Write) -> Result<(), Failure> {
    if !arguments.worker.is_empty() {
        // Ctrl-C at a terminal reaches the workers too. They end with the campaign.
        interrupted()?;
        return Ok(worker::serve(&arguments.worker, io::stdin().lock(), stdout)?);
    }
    if let Some(folder) = &arguments.replay {
        return match worker::replay(folder, Rigour::Bits) {
            Verdict::Passed => Ok(writeln!(stdout, "{}: passes", folder.display())?),
            Verdict::Invalid(why) => Err(Failure::Wrong(why)),
            Verdict::Failed { kind, message, .. } => {
                Err(Failure::Wrong(format!("{} {}\n{message}", folder.display(), kind.name())))
            }
        };
    }
    let engines = engines(arguments)?;
    let plan = Plan {
        cases: arguments.cases,
        time: arguments.time.map(Duration::from_secs),
        stop: interrupted()?,
        seed: arguments.seed,
        engines,
        workers: std::thread::available_parallelism().map_or(1, usize::from),
        reduction: Duration::from_secs(arguments.reduce),
        patience: Duration::from_secs(60),
        folder: arguments.output.clone(),
    };
    // On standard error, and only if that is a terminal.
    let bar = ProgressBar::new(plan.cases);
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len}{rate}{left}");
    let style = style.map_err(|e| Failure::Wrong(e.to_string()))?;
    let time = plan.time;
    let style = style.with_key("rate", |state: &ProgressState, to: &mut dyn fmt::Write| _ = to.write_str(&rate(state)));
    let style = style
        .with_key("left", move |state: &ProgressState, to: &mut dyn fmt::Write| _ = to.write_str(&left(state, time)));
    bar.set_style(style);
    bar.set_message("testing");
    let names: Vec<String> = plan.engines.iter().map(Engine::to_string).collect();
    let names = names.join(",");
    let program = std::env::current_exe()?;
    let start = || {
        let mut command = Command::new(&program);
        command.args(["fuzz", "--worker", &names]);
        command
    };
    let done = campaign::run(&plan, &start, &|tally| {
        bar.set_position(tally.programs);
        if tally.programs == plan.cases {
            bar.set_message("tested");
        }
    });
    bar.finish_and_clear();
    let report = done?;
    match arguments.format {
        Format::Text => write_text(&report, stdout)?,
        Format::Json => writeln!(stdout, "{}", report.to_json())?,
    }
    match &report.failure {
        None if plan.stop.load(Ordering::Relaxed) => Err(Failure::Wrong("interrupted".to_owned())),
        None => Ok(()),
        Some(Found { folder, kind, engine, .. }) => {
            Err(Failure::Wrong(format!("{engine} {}: fuseloop fuzz --replay {}", kind.name(), folder.display())))
        }
    }
}

/// Whether Ctrl-C was pressed, which from now on ends the process only the second time.
fn interrupted() -> io::Result<Arc<AtomicBool>> {
    let pressed = Arc::new(AtomicBool::new(false));
    // In this order, or the first time would be taken for the second.
    signal_hook::flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&pressed))?;
    signal_hook::flag::register(SIGINT, Arc::clone(&pressed))?;
    Ok(pressed)
}

/// The number of programs tested per second, as text; empty before the first.
fn rate(state: &ProgressState) -> String {
    let seconds = state.elapsed().as_secs_f64();
    match state.pos() {
        0 => String::new(),
        tested => format!(", {:.0}/s", tested as f64 / seconds.max(1e-9)),
    }
}

/// The time left: at that rate or until the time limit, whichever is less.
fn left(state: &ProgressState, time: Option<Duration>) -> String {
    let until_time = time.map(|time| time.saturating_sub(state.elapsed()));
    let until_done = (state.pos() > 0).then(|| state.eta());
    let left = [until_time, until_done].into_iter().flatten().min();
    left.map_or_else(String::new, |left| format!(", {} left", HumanDuration(left)))
}

/// The engines that take turns.
fn engines(arguments: &Arguments) -> Result<Vec<Engine>, Failure> {
    let mut widths = vec![];
    for simd in &arguments.simd {
        widths.push(simd.here()?);
    }
    if widths.is_empty() {
        widths = [Simd::W128, Simd::W256, Simd::W512].into_iter().filter(|simd| simd.is_here()).collect();
    }
    let mut engines = vec![];
    for device in &arguments.device {
        match device {
            DeviceName::Interp => engines.push(Engine::Nest),
            DeviceName::Emulator => engines.extend([Engine::Ptx; EMULATOR_TURNS]),
            DeviceName::Gpu => {
                Gpu::get(0).map_err(|e| Failure::Wrong(e.to_string()))?;
                engines.extend([Engine::Gpu; GPU_TURNS]);
            }
            DeviceName::Cpu => {
                let each = arguments
                    .threads
                    .iter()
                    .flat_map(|threads| widths.iter().map(|simd| Engine::Cpu(usize::from(*threads), *simd)));
                engines.extend(each);
            }
        }
    }
    Ok(engines)
}

fn write_text(report: &Report, stdout: &mut impl Write) -> io::Result<()> {
    let Report { tally, seconds, rate, failure } = report;
    write!(stdout, "{tally}")?;
    writeln!(stdout, "  {seconds:.1} s, {rate:.0} programs a second")?;
    let Some(failure) = failure else { return Ok(()) };
    let Found { seed, message, operations: [before, after], judged, fuse, merges, source, .. } = failure;
    writeln!(stdout, "\nprogram {seed}, from {before} operations to {after} by {judged} trials:\n\n{source}")?;
    // The first lines may be followed by whole kernels.
    for line in message.lines().take(LINES) {
        writeln!(stdout, "{line}")?;
    }
    match merges {
        Some(merges) => writeln!(stdout, "fused by {fuse}; the first wrong merge is number {merges}"),
        None => writeln!(stdout, "fused by {fuse}"),
    }
}
