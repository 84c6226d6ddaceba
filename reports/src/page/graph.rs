//! Draws operations, or kernels, and the flows between them. Each node is a layer below the last
//! one that it depends on, and is placed within its layer close to the nodes that it depends on, so
//! that few lines cross (Sugiyama, Tagawa and Toda, "Methods for visual understanding of
//! hierarchical system structures", 1981). The layers run down one column and continue in the next,
//! like text in a newspaper, so that the drawing has the width of the page.

use std::collections::BTreeSet;

use grammar::source::one_line;
use maud::{Markup, html};

use super::colour;

/// The width of the page.
const PAGE: f64 = 1130.0;
const WIDTH: f64 = 220.0;
const HEIGHT: f64 = 30.0;
const ACROSS: f64 = 24.0;
const DOWN: f64 = 46.0;
/// The number of nodes that fit next to each other on the page.
const ABREAST: usize = (PAGE / (WIDTH + ACROSS)) as usize;
/// The minimum number of rows for several columns.
const ROWS: usize = 4;
/// The number of characters of a title that fit.
const LETTERS: usize = 26;
/// The number of passes that reorder the layers.
const SWEEPS: usize = 4;

/// An operation, a kernel, or several kernels that run one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) title: String,
    /// The kernel that computes it, or the first of them.
    pub(super) kernel: usize,
}

/// A flow from a node to one that comes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Flow {
    pub(super) from: usize,
    pub(super) to: usize,
    /// Whether it goes through memory.
    pub(super) apart: bool,
}

/// The position of a node: its column, and its upper left corner.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Position {
    column: usize,
    x: f64,
    y: f64,
}

/// The drawing. The nodes are in an order in which flows go forward.
pub(super) fn write(nodes: &[Node], flows: &BTreeSet<Flow>) -> Markup {
    let flows: Vec<Flow> = flows.iter().copied().collect();
    let columns = columns(&rows(layers(nodes.len(), &flows)));
    let (places, width, height) = placed(nodes.len(), &columns);
    html! {
        svg role="img" aria-label="what flows between operations" width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) } {
            defs {
                marker #head viewBox="0 0 8 8" refX="4" refY="4" markerWidth="7" markerHeight="7" orient="auto" {
                    path.head d="M0 0L8 4L0 8z" {}
                }
            }
            @for flow in &flows {
                path class=(if flow.apart { "flow apart" } else { "flow" }) d=(path(places[flow.from], places[flow.to])) marker-end="url(#head)" {}
            }
            @for (node, Position { x, y, .. }) in nodes.iter().zip(&places) {
                @let title = one_line(&node.title.replace('`', ""));
                g class=(colour(node.kernel)) {
                    title { (title) ", kernel " (node.kernel + 1) }
                    rect.node x=(x) y=(y) width=(WIDTH) height=(HEIGHT) rx="5" {}
                    text x=(x + WIDTH / 2.0) y=(y + HEIGHT * 0.65) text-anchor="middle" { (short(&title)) }
                }
            }
        }
    }
}

/// From the lower edge of one node to the upper edge of another; if that is in another column,
/// around the nodes in between.
fn path(from: Position, to: Position) -> String {
    let (x, to_x, y, to_y) = (from.x + WIDTH / 2.0, to.x + WIDTH / 2.0, from.y + HEIGHT, to.y - 5.0);
    if from.column == to.column {
        let half = f64::midpoint(y, to_y);
        return format!("M{x:.0} {y:.0}C{x:.0} {half:.0} {to_x:.0} {half:.0} {to_x:.0} {to_y:.0}");
    }
    let beside = to.x - ACROSS / 2.0;
    format!("M{x:.0} {y:.0}V{:.0}H{beside:.0}V{:.0}H{to_x:.0}V{to_y:.0}", y + DOWN / 3.0, to_y - DOWN / 4.0)
}

/// The layers as rows that fit on the page: a wide layer takes several.
fn rows(layers: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    layers.iter().flat_map(|layer| layer.chunks(ABREAST).map(<[usize]>::to_vec)).collect()
}

/// The rows, distributed over as many columns as fit on the page.
fn columns(rows: &[Vec<usize>]) -> Vec<Vec<Vec<usize>>> {
    let split = |columns: usize| {
        let each = rows.len().div_ceil(columns).max(1);
        rows.chunks(each).map(<[Vec<usize>]>::to_vec).collect::<Vec<_>>()
    };
    let most = rows.len().div_ceil(ROWS).max(1);
    let fits = |columns: &Vec<Vec<Vec<usize>>>| columns.iter().map(|column| broad(column)).sum::<f64>() <= PAGE;
    (1..=most.min(ABREAST)).rev().map(split).find(fits).unwrap_or_else(|| split(1))
}

/// The width of a column.
fn broad(column: &[Vec<usize>]) -> f64 {
    let widest = column.iter().map(Vec::len).max().unwrap_or(0);
    widest as f64 * (WIDTH + ACROSS) + ACROSS
}

/// The positions of nodes, and the size of the whole.
fn placed(nodes: usize, columns: &[Vec<Vec<usize>>]) -> (Vec<Position>, f64, f64) {
    let mut places = vec![Position::default(); nodes];
    let mut left = 0.0;
    for (number, column) in columns.iter().enumerate() {
        let width = broad(column);
        for (down, row) in column.iter().enumerate() {
            let free = width - row.len() as f64 * (WIDTH + ACROSS) + ACROSS;
            for (across, node) in row.iter().enumerate() {
                let x = left + free / 2.0 + across as f64 * (WIDTH + ACROSS);
                places[*node] = Position { column: number, x, y: down as f64 * (HEIGHT + DOWN) + DOWN / 2.0 };
            }
        }
        left += width;
    }
    let tallest = columns.iter().map(Vec::len).max().unwrap_or(0);
    (places, left, tallest as f64 * (HEIGHT + DOWN) + DOWN / 2.0)
}

fn short(title: &str) -> String {
    match title.chars().count() {
        0..=LETTERS => title.to_owned(),
        _ => title.chars().take(LETTERS - 1).chain(['…']).collect(),
    }
}

/// The nodes of each layer, in order.
fn layers(nodes: usize, flows: &[Flow]) -> Vec<Vec<usize>> {
    let mut depth = vec![0usize; nodes];
    for node in 0..nodes {
        let above = flows.iter().filter(|flow| flow.to == node && flow.from < node);
        depth[node] = above.map(|flow| depth[flow.from] + 1).max().unwrap_or(0);
    }
    let mut layers = vec![vec![]; depth.iter().max().map_or(0, |most| most + 1)];
    for (node, depth) in depth.iter().enumerate() {
        layers[*depth].push(node);
    }
    let mut place = vec![0.0; nodes];
    let number = |layer: &[usize], place: &mut [f64]| {
        for (k, node) in layer.iter().enumerate() {
            place[*node] = k as f64 - layer.len() as f64 / 2.0;
        }
    };
    layers.iter().for_each(|layer| number(layer, &mut place));
    // The barycentre method: place each node at the mean of its neighbours in the layer before, in
    // sweeps down and up in turn.
    for sweep in 0..SWEEPS {
        let order: Vec<usize> =
            if sweep % 2 == 0 { (0..layers.len()).collect() } else { (0..layers.len()).rev().collect() };
        for layer in order {
            let middle = |node: usize, place: &[f64]| {
                let neighbours = flows.iter().filter_map(|flow| match sweep % 2 {
                    0 => (flow.to == node).then_some(flow.from),
                    _ => (flow.from == node).then_some(flow.to),
                });
                let (sum, count) = neighbours.fold((0.0, 0.0), |(sum, count), other| (sum + place[other], count + 1.0));
                if count > 0.0 { sum / count } else { place[node] }
            };
            layers[layer].sort_by(|a, b| middle(*a, &place).total_cmp(&middle(*b, &place)));
            number(&layers[layer], &mut place);
        }
    }
    layers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stands_below_what_it_takes_from() {
        let flow = |from, to| Flow { from, to, apart: false };
        // They would cross if the second layer kept the order of the source.
        let flows = [flow(0, 3), flow(1, 2), flow(2, 4), flow(3, 4)];
        assert_eq!(layers(5, &flows), [vec![0, 1], vec![3, 2], vec![4]]);
        assert!(layers(0, &[]).is_empty());
    }

    #[test]
    fn a_drawing_takes_the_width_of_the_page() {
        let chain: Vec<Vec<usize>> = (0..13).map(|node| vec![node]).collect();
        assert_eq!(columns(&chain).iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 4, 1]);
        // Short drawings stay in one column, and wide layers take several rows.
        assert_eq!(columns(&chain[..3]).len(), 1);
        let wide = rows(vec![(0..9).collect()]);
        assert_eq!(wide.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 1]);
        let (places, width, _) = placed(9, &columns(&wide));
        assert!(width <= PAGE && places.iter().all(|place| place.x >= 0.0 && place.x + WIDTH <= width), "{places:?}");
        assert!(columns(&rows(layers(0, &[]))).is_empty());
    }
}
