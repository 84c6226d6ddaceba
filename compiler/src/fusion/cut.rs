//! Cuts a program that is too large for one kernel along the order of its operations, where the
//! fewest bytes cross.
//!
//! A cut between two operations costs the bytes that are written before it and read after it, both
//! ways, and a second read of the program's arrays that are read on both sides. The cheapest cuts
//! that leave no part larger than a kernel are found by dynamic programming over the possible
//! places, as lines of a paragraph are broken (Knuth and Plass, *Breaking paragraphs into lines*,
//! 1981).

use cranelift_entity::SecondaryMap;
use ir::nest::{KernelId, Role};

use super::Graph;
use super::legality::{MAX_LINES, MAX_SIZE};
use super::profit;

/// The fraction of a kernel's limit that a part may take, because merging adds lines.
const ROOM: f64 = 0.9;

/// Which operations may be in one kernel.
#[derive(Clone, Default)]
pub struct Parts {
    /// The part of each operation.
    of: SecondaryMap<KernelId, u32>,
    /// The lines of each part.
    lines: Vec<u64>,
}

impl Parts {
    /// Some operations in one part, and each of the others in one of its own.
    pub fn together(operations: &[KernelId], members: &[KernelId]) -> Parts {
        let mut parts = Parts::default();
        for (id, number) in operations.iter().zip(1..) {
            parts.of[*id] = if members.contains(id) { 0 } else { number };
        }
        parts
    }

    /// Whether there are any cuts.
    pub fn are_several(&self) -> bool {
        self.lines.len() > 1
    }

    /// Whether two operations may be in one kernel; if not, the length of the whole program.
    pub fn allow(&self, first: KernelId, second: KernelId) -> Result<(), u64> {
        if self.of[first] == self.of[second] { Ok(()) } else { Err(self.lines.iter().sum()) }
    }
}

/// The cheapest cuts of a program.
pub(super) fn parts(graph: &Graph) -> Parts {
    let operations: Vec<KernelId> = graph.kernels().collect();
    let crossing = crossing(graph, &operations);
    // For the operations before each place: the least cost of cuts with the last one there, and the
    // place of the one before.
    let mut least = vec![(0.0, 0)];
    for end in 1..=operations.len() {
        let (mut lines, mut statements) = (0.0, 0.0);
        let mut best = (f64::INFINITY, end - 1);
        for begin in (0..end).rev() {
            let id = operations[begin];
            lines += own_lines(graph, id);
            statements += graph.price(id).statements as f64;
            if begin + 1 < end && (lines > ROOM * MAX_LINES as f64 || statements > ROOM * MAX_SIZE as f64) {
                break;
            }
            let cost = least[begin].0 + crossing[begin];
            if cost <= best.0 {
                best = (cost, begin);
            }
        }
        least.push(best);
    }
    let mut parts = Parts::default();
    let mut end = operations.len();
    while end > 0 {
        let begin = least[end].1;
        let number = u32::try_from(parts.lines.len()).unwrap_or(u32::MAX);
        operations[begin..end].iter().for_each(|id| parts.of[*id] = number);
        parts.lines.push(operations[begin..end].iter().map(|id| own_lines(graph, *id)).sum::<f64>() as u64);
        end = begin;
    }
    parts
}

/// The lines of an operation that remain when it becomes part of a kernel: without its loop, its
/// store and its loads from others.
fn own_lines(graph: &Graph, id: KernelId) -> f64 {
    let flows = graph.loads(id).iter().filter(|buffer| graph.writer(**buffer).is_some()).count();
    graph.price(id).lines.saturating_sub(2 + flows as u64) as f64
}

/// The bytes that cross each place, at nominal sizes: before the first operation, before the
/// second, and so on.
fn crossing(graph: &Graph, operations: &[KernelId]) -> Vec<f64> {
    let mut place: SecondaryMap<KernelId, usize> = SecondaryMap::new();
    operations.iter().enumerate().for_each(|(n, id)| place[*id] = n);
    let mut change = vec![0.0; operations.len() + 1];
    for buffer in graph.frame().buffers.keys() {
        let readers = || graph.readers(buffer).map(|id| place[id]);
        let Some(last) = readers().max() else { continue };
        let (first, times) = match (&graph.frame().buffers[buffer].role, graph.writer(buffer)) {
            (Role::Temp, Some(writer)) => (place[writer], 2.0),
            // A result is written whoever reads it.
            (_, Some(writer)) => (place[writer], 1.0),
            (_, None) => (readers().min().unwrap_or(last), 1.0),
        };
        let bytes = times * profit::bytes(graph.frame(), buffer);
        change[first + 1] += bytes;
        change[last + 1] -= bytes;
    }
    let mut crosses = 0.0;
    let place = |change: f64| {
        crosses += change;
        crosses
    };
    let mut all: Vec<f64> = change.into_iter().map(place).collect();
    // Where the program begins nothing is cut.
    all[0] = 0.0;
    all
}
