//! The gain from fusion, as a page.

use grammar::source::visible;
use maud::{Markup, html};

use super::roofline::{self, Point};
use super::{colour, figure, marked, page};
use crate::bench::text::{share, time, verdict};
use crate::bench::{Benchmark, Difference, Measured, Measurement};
use crate::roof::Roof;

/// The page. Without a roof there was no memory to measure one.
pub fn write(b: &Benchmark, roof: Option<&Roof>) -> String {
    let sizes: Vec<String> = b.sizes.iter().map(|(name, size)| format!("{name} = {size}")).collect();
    let slowest = [&b.unfused, &b.fused].map(|form| form.total.time.as_secs_f64()).into_iter().fold(1e-9, f64::max);
    let copy = b.copy.rate().unwrap_or(0.0);
    let body = html! {
        h1 { code { (visible(&b.function)) } }
        p.faint {
            (sizes.join(", ")) @if !sizes.is_empty() { "; " }
            "threads: " (b.threads) ", passes: " (b.fuse) "; inputs and results take " (format!("{:.1} MB", b.working_set as f64 / 1e6))
            "; medians of " (b.rounds) " rounds"
        }
        div.figures {
            (figure("fused", &time(b.fused.total.time), &format!("{} without fusion", time(b.unfused.total.time))))
            @match b.difference {
                Difference::Faster | Difference::Slower => {
                    (figure("times as fast", &format!("{:.2}", 1.0 / b.ratio().max(1e-9)), "as without fusion"))
                }
                Difference::None | Difference::Same => (figure("difference", "none", "that can be told from noise")),
            }
            (figure("kernels", &b.fused.kernels.len().to_string(), &format!("{} without fusion", b.unfused.kernels.len())))
            (figure("a copy moves", &format!("{copy:.1} GB/s"), "of arrays beyond the caches, in the same rounds"))
        }
        p { (verdict(b)) "." }
        h2 { "Kernels" }
        @if b.difference != Difference::Same { (table("Without fusion", &b.unfused, slowest, false)) }
        (table(if b.difference == Difference::Same { "Fused or not" } else { "Fused" }, &b.fused, slowest, true))
        h2 { "Roofline" }
        (roofline(b, roof))
    };
    page(&format!("{}: {}", b.function, verdict(b)), &body)
}

fn table(name: &str, form: &Measurement, slowest: f64, fused: bool) -> Markup {
    let number = |value: Option<f64>, decimals| value.map_or("-".to_owned(), |v| format!("{v:.decimals$}"));
    html! {
        div.scroll {
            table {
                tr {
                    th { (name) } th.right { "median" } th.right { "quartiles" } th.right { "MB" } th.right { "GB/s" } th.right { "of copy" }
                    th style="width: 30%" { "time" }
                }
                @for (k, m) in form.kernels.iter().enumerate() {
                    tr class=(colour(k)) {
                        td { (marked(&m.title)) }
                        td.right { (time(m.time)) }
                        td.right { (time(m.quartiles.0)) " to " (time(m.quartiles.1)) }
                        td.right { (number(m.bytes.map(|bytes| bytes as f64 / 1e6), 1)) }
                        td.right { (number(m.rate(), 1)) }
                        td.right { (share(m)) }
                        td {
                            @let width = 100.0 * m.time.as_secs_f64() / slowest;
                            div class=(if fused { "bar" } else { "bar plain" }) style={ "width: " (format!("{width:.2}")) "%" } {}
                        }
                    }
                }
            }
        }
    }
}

fn roofline(b: &Benchmark, roof: Option<&Roof>) -> Markup {
    let Some(roof) = roof else {
        return html! { p { "There is no memory to measure what this machine allows." } };
    };
    let point = |m: &Measured, kernel: Option<usize>| Point {
        title: m.title.clone(),
        intensity: m.bytes.map_or(0.0, |bytes| m.operations as f64 / bytes as f64),
        rate: Some(m.operations as f64 / m.time.as_nanos().max(1) as f64),
        kernel,
    };
    let before = b.unfused.kernels.iter().map(|m| point(m, None));
    let after = b.fused.kernels.iter().enumerate().map(|(k, m)| point(m, Some(k)));
    html! {
        p {
            "What this machine allows, measured beside, and what the kernels reach of it. Arrays that stay in caches, and bytes that streaming "
            "stores save, can lift a kernel above the slope."
        }
        (roofline::write(roof, &before.chain(after).collect::<Vec<_>>()))
    }
}
