//! Plots as `.svg`, which are written and not read: a line through the elements of an array with one
//! axis, over their places, and a line for each row of one with two.

use std::io::Write;

use ir::Scalar;
use ir::array::ArrayRef;
use plotters::prelude::*;

use super::error::Fault;
use super::place::Format;

/// The size of the picture.
const SIZE: (u32, u32) = (640, 320);

/// The most points of a line. Of a longer one, the least and the greatest of neighbours are drawn.
const POINTS: usize = 2 * SIZE.0 as usize;

/// A place in an array and the element there.
type Point = (f64, f64);

/// Writes a plot. Elements that are not finite leave a gap.
pub(super) fn write(array: &ArrayRef<'_>, to: &mut impl Write) -> Result<(), Fault> {
    let length = array.shape().last().copied().unwrap_or(1);
    let rows = array.shape().iter().rev().skip(1).product();
    let lines: Vec<Vec<Vec<Point>>> = (0..rows).map(|row| pieces(array, row * length, length)).collect();
    let mut picture = String::new();
    draw(&lines, length, &mut picture).map_err(|_| Fault::UnwritableShape(array.shape().to_vec(), Format::Svg))?;
    Ok(to.write_all(picture.as_bytes())?)
}

/// The stretches of finite elements of a row, thinned out.
fn pieces(array: &ArrayRef<'_>, first: usize, length: usize) -> Vec<Vec<Point>> {
    let per_pair = length.div_ceil(POINTS / 2).max(1);
    let mut pieces = vec![vec![]];
    let mut group: Vec<Point> = vec![];
    for place in 0..length {
        let value = array.get(first + place).map_or(f64::NAN, number);
        if value.is_finite() {
            group.push((place as f64, value));
        }
        let ends = !value.is_finite() || place + 1 == length;
        if group.len() == per_pair || ends {
            pieces.last_mut().into_iter().for_each(|piece| piece.extend(extremes(&group)));
            group.clear();
        }
        if ends && pieces.last().is_some_and(|piece| !piece.is_empty()) {
            pieces.push(vec![]);
        }
    }
    pieces
}

/// The least and the greatest of some points, in their order.
fn extremes(group: &[Point]) -> Vec<Point> {
    let by_value = |a: &&Point, b: &&Point| a.1.total_cmp(&b.1);
    let (least, greatest) = (group.iter().min_by(by_value), group.iter().max_by(by_value));
    let mut two: Vec<Point> = least.into_iter().chain(greatest).copied().collect();
    two.sort_by(|a, b| a.0.total_cmp(&b.0));
    two.dedup();
    two
}

/// An element as a height.
fn number(value: Scalar) -> f64 {
    match value {
        Scalar::Bool(v) => f64::from(v),
        Scalar::F16(v) => v.to_f64(),
        Scalar::Bf16(v) => v.to_f64(),
        Scalar::F32(v) => f64::from(v),
        Scalar::F64(v) => v,
        Scalar::I8(v) => f64::from(v),
        Scalar::U8(v) => f64::from(v),
        Scalar::I16(v) => f64::from(v),
        Scalar::U16(v) => f64::from(v),
        Scalar::I32(v) => f64::from(v),
        Scalar::U32(v) => f64::from(v),
        Scalar::I64(v) => v as f64,
        Scalar::U64(v) => v as f64,
    }
}

/// Draws lines over the places of `length` elements.
fn draw(lines: &[Vec<Vec<Point>>], length: usize, to: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let heights = || lines.iter().flatten().flatten().map(|point| point.1);
    let (least, greatest) = heights().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
    let (least, greatest) = if least <= greatest { (least, greatest) } else { (0.0, 1.0) };
    // A line that is level gets some room as well, and one of the greatest numbers stays finite.
    let room = ((greatest / 20.0 - least / 20.0).abs()).max(least.abs() / 1e6).max(f64::MIN_POSITIVE * 1e6);
    let (bottom, top) = ((least - room).max(f64::MIN / 4.0), (greatest + room).min(f64::MAX / 4.0));

    let area = SVGBackend::with_string(to, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(12)
        .x_label_area_size(28)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..(length.max(2) - 1) as f64, bottom..top)?;
    let places = |place: &f64| place.to_string();
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .x_label_formatter(&places)
        .draw()?;
    for (number, line) in lines.iter().enumerate() {
        let style = Palette99::pick(number).stroke_width(2);
        for piece in line.iter().filter(|piece| !piece.is_empty()) {
            if let [alone] = piece[..] {
                chart.draw_series([Circle::new(alone, 2, style.filled())])?;
            } else {
                chart.draw_series(LineSeries::new(piece.iter().copied(), style))?;
            }
        }
    }
    area.present()?;
    Ok(())
}
