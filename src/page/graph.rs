//! Operations and what flows between them, as a drawing: each stands a layer below the last that it takes from, and within a layer where those
//! stand, so that few lines cross (Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system structures", 1981).

use maud::{Markup, html};

use super::colour;
use crate::render::one_line;

/// More operations are not drawn: nobody could read it.
pub(super) const MOST: usize = 150;

const WIDTH: f64 = 220.0;
const HEIGHT: f64 = 30.0;
const ACROSS: f64 = 24.0;
const DOWN: f64 = 46.0;
/// Characters of a title that fit.
const LETTERS: usize = 26;
/// How often layers are ordered anew.
const SWEEPS: usize = 4;

/// An operation.
pub(super) struct Node<'r> {
    pub(super) title: &'r str,
    /// The kernel that computes it.
    pub(super) kernel: usize,
}

/// What flows from one to another.
pub(super) struct Flow {
    pub(super) from: usize,
    pub(super) to: usize,
    /// Whether through memory.
    pub(super) apart: bool,
}

/// The drawing, of nodes in an order in which flows go forward.
pub(super) fn write(nodes: &[Node<'_>], flows: &[Flow]) -> Markup {
    let layers = layers(nodes.len(), flows);
    let widest = layers.iter().map(Vec::len).max().unwrap_or(0);
    let width = widest as f64 * (WIDTH + ACROSS) + ACROSS;
    let height = layers.len() as f64 * (HEIGHT + DOWN);
    let mut places = vec![(0.0, 0.0); nodes.len()];
    for (down, layer) in layers.iter().enumerate() {
        let free = width - layer.len() as f64 * (WIDTH + ACROSS) + ACROSS;
        for (across, node) in layer.iter().enumerate() {
            let x = free / 2.0 + across as f64 * (WIDTH + ACROSS);
            places[*node] = (x, down as f64 * (HEIGHT + DOWN) + DOWN / 4.0);
        }
    }
    let path = |flow: &Flow| {
        let ((x, y), (to_x, to_y)) = (places[flow.from], places[flow.to]);
        let (x, to_x, y, to_y) = (x + WIDTH / 2.0, to_x + WIDTH / 2.0, y + HEIGHT, to_y - 5.0);
        let half = f64::midpoint(y, to_y);
        format!("M{x:.1} {y:.1}C{x:.1} {half:.1} {to_x:.1} {half:.1} {to_x:.1} {to_y:.1}")
    };
    html! {
        div.scroll {
            svg.wide role="img" aria-label="operations and what flows between them" width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) } {
                defs {
                    marker #head viewBox="0 0 8 8" refX="4" refY="4" markerWidth="7" markerHeight="7" orient="auto" {
                        path.head d="M0 0L8 4L0 8z" {}
                    }
                }
                @for flow in flows {
                    path class=(if flow.apart { "flow apart" } else { "flow" }) d=(path(flow)) marker-end="url(#head)" {}
                }
                @for (node, (x, y)) in nodes.iter().zip(&places) {
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
}

fn short(title: &str) -> String {
    match title.chars().count() {
        0..=LETTERS => title.to_owned(),
        _ => title.chars().take(LETTERS - 1).chain(['…']).collect(),
    }
}

/// Which nodes stand in which layer, in their order.
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
        // Crossing, if the second layer kept the order of the source.
        let flows = [flow(0, 3), flow(1, 2), flow(2, 4), flow(3, 4)];
        assert_eq!(layers(5, &flows), [vec![0, 1], vec![3, 2], vec![4]]);
        assert!(layers(0, &[]).is_empty());
    }
}
