//! Loops whose steps depend on each other: scalars carried from step to step, and a condition that
//! may end the loop early.

use super::{Block, Extent, IndexId, ValueId};

/// A loop over carried scalars. Its counter ascends from 0. Before each step the loop ends if the
/// counter has reached its extent, and otherwise if the condition does not hold; the counter is
/// compared first, so the condition is not evaluated after the last step that the extent allows.
///
/// Each iteration of the loops around has a `while` of its own. Engines may run several of them at
/// once, but one that has ended keeps its state, loads nothing and reports no fault, so no result
/// depends on which run together.
///
/// The counter bounds every `while`, so no engine can run forever. A loop of the source that has no
/// bound gets a large one, and a check after the loop that its condition does not hold any more.
///
/// ```
/// let program: ir::nest::Program = "program @collatz {
///   symbol n = dim 0 of input 0
///   input %x: i64[n]
///   output %steps: i64[n]
///   kernel @k {
///     parallel i < n {
///       v0 = load %x[i]
///       v1 = const i64 0
///       v2, v3 = while t < 1000 with v4 = v0, v5 = v1 if {
///         v6 = const i64 1
///         v7 = gt v4, v6
///         yield v7
///       } do {
///         v8 = const i64 2
///         v9 = rem v4, v8
///         v10 = div v4, v8
///         v11 = const i64 3
///         v12 = mul v11, v4
///         v13 = const i64 1
///         v14 = add v12, v13
///         v15 = const i64 0
///         v16 = eq v9, v15
///         v17 = select v16, v10, v14
///         v18 = add v5, v13
///         yield v17, v18
///       }
///       store %steps[i], v3
///     }
///   }
/// }"
/// .parse()?;
/// ir::verify::verify(&program)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct While {
    /// Counts the steps, and is visible in the condition and the body. The extent is the greatest
    /// number of steps; below 1 there is none.
    pub counter: (IndexId, Extent),
    /// The scalars carried from step to step. There may be none, if only checks are left.
    pub state: Vec<State>,
    /// Whether there is another step; without one, only the counter ends the loop.
    pub condition: Option<Condition>,
    /// Computes the next state. Without a condition it may store, as the body of a serial loop
    /// does.
    pub body: Block,
}

/// A scalar that a [`While`] carries from step to step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The value before the first step, defined outside of the loop.
    pub first: ValueId,
    /// The value before the current step. The loop defines it, for its condition and body.
    pub current: ValueId,
    /// The value after the current step, visible at the end of the body.
    pub next: ValueId,
    /// The value after the last step: `first` if there was none. The loop defines it.
    pub result: ValueId,
}

/// Decides whether a [`While`] takes another step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Statements under the same rules as the body of the loop.
    pub body: Block,
    /// A `bool`, visible at the end of the statements.
    pub value: ValueId,
}
