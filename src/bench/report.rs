//! Measurements as a table for people, and as a line of JSON, whose fields `docs/json.md` lists.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::{Benchmark, COPY, Measured, Measurement};
use crate::render::visible;

/// Raised when a field changes its meaning; new fields do not.
const VERSION: u32 = 1;

/// The widest that a title is written.
const TITLE: usize = 40;

pub(super) fn text(b: &Benchmark, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let sizes: Vec<String> = b.sizes.iter().map(|(name, size)| format!("{name} = {size}")).collect();
    let sizes = if sizes.is_empty() { String::new() } else { format!(" with {}", sizes.join(", ")) };
    let threads = if b.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", b.threads) };
    let (place, by) = match &b.gpu {
        Some(gpu) => (visible(gpu), "that device"),
        None => (threads, "as many threads"),
    };
    writeln!(f, "{}{sizes}, {place}", visible(&b.function))?;
    let megabytes = b.working_set as f64 / 1e6;
    writeln!(f, "inputs and results take {megabytes:.1} MB; medians and quartiles of {} rounds", b.rounds)?;
    let copy = b.copy.rate().unwrap_or(0.0);
    writeln!(f, "a copy of {} MB, by {by} in the same rounds, moves {copy:.1} GB/s", COPY / 1_000_000)?;
    for (name, form) in [("without fusion", &b.unfused), ("fused", &b.fused)] {
        writeln!(f, "\n{name:TITLE$}{:>12}{:>24}{:>10}{:>8}{:>9}", "median", "quartiles", "MB", "GB/s", "of copy")?;
        for measured in &form.kernels {
            row(f, b, measured)?;
        }
        if form.kernels.len() != 1 {
            row(f, b, &form.total)?;
        }
    }
    let ratio = b.ratio();
    write!(f, "\nfused takes {ratio:.2} of the time: {:.2} times as fast", 1.0 / ratio.max(1e-9))
}

fn row(f: &mut fmt::Formatter<'_>, b: &Benchmark, m: &Measured) -> fmt::Result {
    let title = visible(&m.title);
    let short: String = match title.chars().count() {
        0..=36 => title,
        _ => title.chars().take(33).chain("...".chars()).collect(),
    };
    let quartiles = format!("{} to {}", time(m.quartiles.0), time(m.quartiles.1));
    let number = |value: Option<f64>, decimals| value.map_or("-".to_owned(), |v| format!("{v:.decimals$}"));
    let megabytes = number(m.bytes.map(|bytes| bytes as f64 / 1e6), 1);
    let share = number(share(b, m).map(|share| share * 100.0), 0);
    let rate = number(m.rate(), 1);
    let name = format!("  {short}");
    writeln!(f, "{name:TITLE$}{:>12}{quartiles:>24}{megabytes:>10}{rate:>8}{share:>7} %", time(m.time))
}

/// A time in the unit that suits it.
pub(crate) fn time(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    match micros {
        ..1e3 => format!("{micros:.1} us"),
        ..1e6 => format!("{:.2} ms", micros / 1e3),
        _ => format!("{:.2} s", micros / 1e6),
    }
}

/// The rate, of that of the copy.
pub(crate) fn share(b: &Benchmark, m: &Measured) -> Option<f64> {
    Some(m.rate()? / b.copy.rate()?)
}

#[derive(Serialize)]
struct Line<'a> {
    r#type: &'static str,
    version: u32,
    function: &'a str,
    fuse: String,
    threads: usize,
    gpu: Option<&'a str>,
    sizes: BTreeMap<&'a str, i64>,
    rounds: usize,
    working_set: u64,
    copy: MeasuredLine<'a>,
    unfused: FormLine<'a>,
    fused: FormLine<'a>,
    ratio: f64,
}

#[derive(Serialize)]
struct FormLine<'a> {
    total: MeasuredLine<'a>,
    kernels: Vec<MeasuredLine<'a>>,
}

#[derive(Serialize)]
struct MeasuredLine<'a> {
    title: &'a str,
    bytes: Option<u64>,
    seconds: f64,
    quartiles: [f64; 2],
    rate: Option<f64>,
    share: Option<f64>,
}

pub(super) fn json(b: &Benchmark) -> String {
    crate::json::write(&Line {
        r#type: "benchmark",
        version: VERSION,
        function: &b.function,
        fuse: b.fuse.to_string(),
        threads: b.threads,
        gpu: b.gpu.as_deref(),
        sizes: b.sizes.iter().map(|(name, size)| (name.as_str(), *size)).collect(),
        rounds: b.rounds,
        working_set: b.working_set,
        copy: measured(b, &b.copy),
        unfused: form(b, &b.unfused),
        fused: form(b, &b.fused),
        ratio: b.ratio(),
    })
}

fn form<'a>(b: &Benchmark, m: &'a Measurement) -> FormLine<'a> {
    FormLine { total: measured(b, &m.total), kernels: m.kernels.iter().map(|kernel| measured(b, kernel)).collect() }
}

fn measured<'a>(b: &Benchmark, m: &'a Measured) -> MeasuredLine<'a> {
    MeasuredLine {
        title: &m.title,
        bytes: m.bytes,
        seconds: m.time.as_secs_f64(),
        quartiles: [m.quartiles.0.as_secs_f64(), m.quartiles.1.as_secs_f64()],
        rate: m.rate(),
        share: share(b, m),
    }
}
