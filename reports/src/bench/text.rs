//! The measurements as a table for people, and as a line of JSON with the fields listed in
//! `docs/json.md`.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use grammar::source::visible;
use serde::Serialize;

use super::{Benchmark, Difference, Measured, Measurement};

/// Incremented when a field changes its meaning, but not when one is added.
const VERSION: u32 = 2;

/// The maximum width of a title.
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
    let rate = b.copy.rate().unwrap_or(0.0);
    let large = b.copy.bytes.unwrap_or(0) / 2 / 1_000_000;
    writeln!(
        f,
        "a copy of {large} MB, by {by} in the same rounds, moves {rate:.1} GB/s; `of copy`: of one that moves as many bytes"
    )?;
    let forms: &[_] = match b.difference {
        Difference::Same => &[("fused or not", &b.fused)],
        _ => &[("without fusion", &b.unfused), ("fused", &b.fused)],
    };
    for (name, form) in forms {
        writeln!(f, "\n{name:TITLE$}{:>12}{:>24}{:>10}{:>8}{:>17}", "median", "quartiles", "MB", "GB/s", "of copy")?;
        for measured in &form.kernels {
            row(f, measured)?;
        }
        if form.kernels.len() != 1 {
            row(f, &form.total)?;
        }
    }
    write!(f, "\n{}", verdict(b))
}

/// Whether fusion made a difference, as text.
pub(crate) fn verdict(b: &Benchmark) -> String {
    let ratio = b.ratio();
    match b.difference {
        Difference::Same => {
            "no difference: nothing is merged, so fused and unfused are one program, measured once".to_owned()
        }
        Difference::None => format!("no difference: the quartiles overlap (fused takes {ratio:.2} of the time)"),
        Difference::Faster | Difference::Slower => {
            format!("fused takes {ratio:.2} of the time: {:.2} times as fast", 1.0 / ratio.max(1e-9))
        }
    }
}

fn row(f: &mut fmt::Formatter<'_>, m: &Measured) -> fmt::Result {
    let title = visible(&m.title);
    let short: String = match title.chars().count() {
        0..=36 => title,
        _ => title.chars().take(33).chain("...".chars()).collect(),
    };
    let quartiles = format!("{} to {}", time(m.quartiles.0), time(m.quartiles.1));
    let number = |value: Option<f64>, decimals| value.map_or("-".to_owned(), |v| format!("{v:.decimals$}"));
    let megabytes = number(m.bytes.map(|bytes| bytes as f64 / 1e6), 1);
    let rate = number(m.rate(), 1);
    let name = format!("  {short}");
    writeln!(f, "{name:TITLE$}{:>12}{quartiles:>24}{megabytes:>10}{rate:>8}{:>17}", time(m.time), share(m))
}

/// The rate relative to that of a copy that moves about as many bytes, as text.
pub(crate) fn share(m: &Measured) -> String {
    let Some(share) = m.share() else { return "-".to_owned() };
    format!("{:.0} %{}", share * 100.0, if m.in_cache { ", in cache" } else { "" })
}

/// A time in a suitable unit.
pub(crate) fn time(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    match micros {
        ..1e3 => format!("{micros:.1} us"),
        ..1e6 => format!("{:.2} ms", micros / 1e3),
        _ => format!("{:.2} s", micros / 1e6),
    }
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
    difference: &'static str,
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
    in_cache: bool,
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
        copy: measured(&b.copy),
        unfused: form(&b.unfused),
        fused: form(&b.fused),
        ratio: b.ratio(),
        difference: b.difference.name(),
    })
}

fn form(m: &Measurement) -> FormLine<'_> {
    FormLine { total: measured(&m.total), kernels: m.kernels.iter().map(measured).collect() }
}

fn measured(m: &Measured) -> MeasuredLine<'_> {
    MeasuredLine {
        title: &m.title,
        bytes: m.bytes,
        seconds: m.time.as_secs_f64(),
        quartiles: [m.quartiles.0.as_secs_f64(), m.quartiles.1.as_secs_f64()],
        rate: m.rate(),
        share: m.share(),
        in_cache: m.in_cache,
    }
}
