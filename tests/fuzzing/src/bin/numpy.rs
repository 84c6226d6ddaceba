//! Compares Fuseloop with NumPy on random programs of integers and elementwise floats.
//!
//! `cargo run --release -p fuzzing --bin numpy -- [--python PATH] [--cases N] [--seed S]` runs N
//! programs from number S on, with a Python that has NumPy. It prints those that differ, with both
//! texts, and the number of programs compared.

use std::io::Write;
use std::process::{Command, ExitCode};

use fuzzing::numpy::{Batch, drawn};

/// Programs in one script.
const BATCH: u64 = 500;

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (mut python, mut cases, mut seed) = ("python3".to_owned(), 5000, 0);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or("an option without its value")?;
        match name.as_str() {
            "--python" => python = value,
            "--cases" => cases = value.parse()?,
            "--seed" => seed = value.parse()?,
            _ => return Err(format!("there is no option {name}").into()),
        }
    }
    let (mut compared, mut refused, mut wrong) = (0, 0, 0);
    for first in (seed..seed + cases).step_by(usize::try_from(BATCH)?) {
        let batch = Batch::new(first..(first + BATCH).min(seed + cases));
        for fault in &batch.faults {
            wrong += 1;
            println!("{fault}");
        }
        let mut script = tempfile::NamedTempFile::new()?;
        script.write_all(batch.script.as_bytes())?;
        let done = Command::new(&python).arg(script.path()).output()?;
        let said = String::from_utf8_lossy(&done.stdout);
        if !done.status.success() {
            return Err(format!("{}: {}", script.keep()?.1.display(), String::from_utf8_lossy(&done.stderr)).into());
        }
        for line in said.lines() {
            if let Some(differs) = line.strip_prefix("differs ") {
                wrong += 1;
                println!("program {differs}");
                let number = differs.split(':').next().unwrap_or_default().parse()?;
                let program = drawn(number, "main");
                println!("{}\n{}", program.source, program.numpy);
            } else if let Some((a, b)) = line.split_once(" compared, ") {
                compared += a.parse::<u64>()?;
                refused += b.trim_end_matches(" without results").parse::<u64>()?;
            }
        }
    }
    println!(
        "{cases} programs from number {seed} on: {compared} compared with NumPy, {refused} without results, {wrong} wrong"
    );
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
