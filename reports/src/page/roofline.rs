//! The roofline: the attainable operations per second of a machine as a function of operations per
//! byte that crosses its memory (Williams, Waterman and Patterson, "Roofline: an insightful visual
//! performance model for multicore architectures", 2009).

use maud::{Markup, html};

use super::colour;
use crate::roof::Roof;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 50.0;

/// A kernel, or all of them together.
pub(super) struct Point {
    pub(super) title: String,
    /// Operations per byte.
    pub(super) intensity: f64,
    /// Operations per nanosecond if measured; otherwise the point is drawn on the roof.
    pub(super) rate: Option<f64>,
    /// Its kernel after fusion; `None` before.
    pub(super) kernel: Option<usize>,
}

/// A range of powers of ten, mapped to a length in the drawing.
struct Scale {
    from: i32,
    to: i32,
    start: f64,
    end: f64,
}

impl Scale {
    fn around(values: impl Iterator<Item = f64> + Clone, start: f64, end: f64) -> Scale {
        let least = values.clone().fold(f64::INFINITY, f64::min);
        let most = values.fold(0.0, f64::max);
        let from = least.log10().floor() as i32;
        Scale { from, to: (most.log10().ceil() as i32).max(from + 1), start, end }
    }

    fn at(&self, value: f64) -> f64 {
        let part = (value.log10() - f64::from(self.from)) / f64::from(self.to - self.from);
        self.start + part.clamp(0.0, 1.0) * (self.end - self.start)
    }

    /// The powers of ten, with their labels.
    fn ticks(&self) -> impl Iterator<Item = (f64, String)> {
        (self.from..=self.to).map(|power| {
            let value = 10f64.powi(power);
            (
                self.at(value),
                if power < 0 { format!("{value:.*}", power.unsigned_abs() as usize) } else { format!("{value:.0}") },
            )
        })
    }
}

/// Draws the roofline. Points without operations or bytes are left out.
pub(super) fn write(roof: &Roof, points: &[Point]) -> Markup {
    let points: Vec<(&Point, f64)> = points
        .iter()
        .filter(|p| p.intensity > 0.0 && p.intensity.is_finite())
        .map(|p| (p, p.rate.unwrap_or_else(|| roof.at(p.intensity)).max(1e-6)))
        .collect();
    let ridge = roof.flops / roof.copy;
    let x = Scale::around(points.iter().map(|(p, _)| p.intensity).chain([0.1, ridge * 2.0]), LEFT, WIDTH - RIGHT);
    let lowest = 10f64.powi(x.from);
    let heights = points.iter().map(|(_, rate)| *rate).chain([roof.at(lowest.max(0.05)), roof.flops * 1.5]);
    let y = Scale::around(heights, HEIGHT - BOTTOM, TOP);
    // Where the slope meets the lower edge, if that is inside.
    let begin = lowest.max(10f64.powi(y.from) / roof.copy);
    let line = [begin, ridge, 10f64.powi(x.to)].map(|at| format!("{:.1},{:.1}", x.at(at), y.at(roof.at(at)))).join(" ");
    html! {
        svg role="img" aria-label="roofline" viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } width=(WIDTH) {
            @for (at, label) in x.ticks() {
                line.grid x1=(at) y1=(TOP) x2=(at) y2=(HEIGHT - BOTTOM) {}
                text.faint x=(at) y=(HEIGHT - BOTTOM + 18.0) text-anchor="middle" { (label) }
            }
            @for (at, label) in y.ticks() {
                line.grid x1=(LEFT) y1=(at) x2=(WIDTH - RIGHT) y2=(at) {}
                text.faint x=(LEFT - 8.0) y=(at + 4.0) text-anchor="end" { (label) }
            }
            text.faint x=(f64::midpoint(LEFT, WIDTH - RIGHT)) y=(HEIGHT - 10.0) text-anchor="middle" { "operations a byte" }
            text.faint x="16" y=(HEIGHT / 2.0) text-anchor="middle" transform={ "rotate(-90 16 " (HEIGHT / 2.0) ")" } { "billion operations a second" }
            polyline.ceiling points=(line) {}
            text.ceiling x=(WIDTH - RIGHT - 6.0) y=(y.at(roof.flops) - 8.0) text-anchor="end" { (format!("{:.0} billion operations/s", roof.flops)) }
            @let low = (begin * ridge).sqrt();
            text.ceiling x=(x.at(low) - 8.0) y=(y.at(roof.at(low)) - 8.0) text-anchor="end" { (format!("{:.0} GB/s", roof.copy)) }
            @for (point, rate) in &points {
                g class=(point.kernel.map_or_else(String::new, colour)) {
                    title { (point.title.replace('`', "")) ": " (format!("{:.2} operations a byte, {rate:.1} billion operations/s", point.intensity)) }
                    @let before = point.kernel.is_none();
                    circle class=(if before { "point before" } else { "point" }) cx=(x.at(point.intensity)) cy=(y.at(*rate)) r=(if before { 5 } else { 7 }) {}
                }
            }
        }
        p.faint { "Hollow: without fusion. Filled: fused, in the colours of the kernels. Point at one for its name." }
    }
}
