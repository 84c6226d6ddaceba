//! `fuseloop devices`: lists the values of `--device` on this machine.

use std::io::Write;

use fuseloop::{Facts, Simd, json};

use crate::failure::{Failure, Format};

/// Lists the devices on this machine that can run programs.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: fuseloop devices --format json")]
pub struct Arguments {
    /// The format of the list
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Runs the command.
pub fn run(arguments: &Arguments, stdout: &mut impl Write) -> Result<(), Failure> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let widths = [(Simd::W512, 512), (Simd::W256, 256)];
    let bits = widths.into_iter().find(|(simd, _)| simd.is_here()).map_or(128, |(_, bits)| bits);
    let gpus = Facts::all();
    if arguments.format == Format::Json {
        writeln!(stdout, "{}", json::cpu(threads, bits))?;
        for facts in &gpus {
            writeln!(stdout, "{}", json::gpu(facts))?;
        }
        return Ok(());
    }
    let many = if threads == 1 { "thread" } else { "threads" };
    writeln!(stdout, "cpu     {threads} {many}, vectors of {bits} bits")?;
    for Facts { number, name, capability: (major, minor), memory, multiprocessors, driver, .. } in &gpus {
        // The other GPUs can be selected by CUDA_VISIBLE_DEVICES.
        let what = if *number == 0 { "gpu" } else { "" };
        let gibibytes = *memory as f64 / f64::from(1 << 30);
        let driver = format!("{}.{}", driver / 1000, driver % 1000 / 10);
        writeln!(
            stdout,
            "{what:<7} {name}, sm_{major}{minor}, {multiprocessors} multiprocessors, {gibibytes:.1} GiB, driver for CUDA {driver}"
        )?;
    }
    if gpus.is_empty() {
        writeln!(stdout, "gpu     none: no NVIDIA driver, or no device")?;
    }
    writeln!(stdout, "interp  the reference interpreter")?;
    Ok(())
}
