//! Our side of the benchmark: a process that prepares one task (a workload, or one of the machine's
//! ceilings), times it on request, and reports the time for compiling. `run.py` starts it alongside
//! a process for each peer, and lets them take turns.
//!
//! Requests are read from standard input and answered on standard output, one JSON object a line.
//! `bench-worker compiling PATH...` instead prints how long compiling the programs there takes.

#![deny(unsafe_code)]

mod ceilings;
mod compiling;
mod workload;

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use ceilings::Ceiling;
use workload::Workload;

type Error = Box<dyn std::error::Error>;

#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
enum Request {
    /// Compiles a function, reads its inputs, calls it once and saves samples of its results.
    Prepare { program: PathBuf, function: String, inputs: Vec<String>, threads: usize, fuse: bool, samples: PathBuf },
    /// Compiles each function of a program so often.
    Compile { program: PathBuf, rounds: usize },
    /// Allocates arrays of this many bytes in all for a ceiling.
    Ceiling { kind: ceilings::Kind, bytes: usize, threads: usize },
    /// Repeats the task for this long, at least once.
    Time { seconds: f64 },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Answer {
    Prepared {
        /// How long one run takes, about.
        seconds: f64,
        #[serde(flatten)]
        result: Option<workload::Prepared>,
    },
    Timed {
        /// The time of each run: the mean of several if the clock is too coarse for one.
        times: Vec<f64>,
    },
    Compiled {
        functions: Vec<compiling::Compiled>,
    },
    Failed {
        error: String,
    },
}

/// A task that is timed.
trait Task {
    /// Repeats it.
    fn run(&mut self, times: usize) -> Result<(), Error>;

    /// The minimum time of repetitions that are timed as one.
    fn shortest(&self) -> Duration;
}

/// A task, and how often it runs for one measurement.
struct Ready {
    task: Box<dyn Task>,
    times: usize,
}

impl Ready {
    /// Runs the task until its time is known.
    fn new(mut task: Box<dyn Task>) -> Result<(Ready, f64), Error> {
        let mut times = 1;
        loop {
            task.run(times)?;
            let start = Instant::now();
            task.run(times)?;
            let time = start.elapsed();
            if time >= task.shortest() {
                return Ok((Ready { task, times }, time.as_secs_f64() / times as f64));
            }
            times *= 2;
        }
    }

    fn time(&mut self, seconds: f64) -> Result<Vec<f64>, Error> {
        let begin = Instant::now();
        // Meanwhile others have used the caches, and the threads may sleep.
        self.task.run(1)?;
        let mut found = vec![];
        while found.is_empty() || begin.elapsed().as_secs_f64() < seconds {
            let start = Instant::now();
            self.task.run(self.times)?;
            found.push(start.elapsed().as_secs_f64() / self.times as f64);
        }
        Ok(found)
    }
}

fn answer(request: &str, ready: &mut Option<Ready>) -> Result<Answer, Error> {
    let (task, result): (Box<dyn Task>, _) = match serde_json::from_str(request)? {
        Request::Time { seconds } => {
            let ready = ready.as_mut().ok_or("nothing is prepared")?;
            return Ok(Answer::Timed { times: ready.time(seconds)? });
        }
        Request::Compile { program, rounds } => {
            return Ok(Answer::Compiled { functions: compiling::functions(&program, rounds)? });
        }
        Request::Prepare { program, function, inputs, threads, fuse, samples } => {
            let (workload, prepared) = Workload::new(&program, &function, &inputs, threads, fuse, &samples)?;
            (Box::new(workload), Some(prepared))
        }
        Request::Ceiling { kind, bytes, threads } => (Box::new(Ceiling::new(kind, bytes, threads)), None),
    };
    let (prepared, seconds) = Ready::new(task)?;
    *ready = Some(prepared);
    Ok(Answer::Prepared { seconds, result })
}

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(command) if command == "compiling" => return compiling::report(arguments),
        Some(command) => return Err(format!("there is no command {}", command.display()).into()),
        None => {}
    }
    let mut ready = None;
    let mut stdout = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let answer = answer(&line?, &mut ready).unwrap_or_else(|e| Answer::Failed { error: e.to_string() });
        writeln!(stdout, "{}", serde_json::to_string(&answer)?)?;
        stdout.flush()?;
    }
    Ok(())
}
