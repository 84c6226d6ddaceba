//! Lays loops out on the units of a GPU: threads, blocks, vectors. Strategies are asked in the
//! order of this table, and the first one that applies makes the variants of a part. Reports show
//! the refusals of those before.
//!
//! | strategy | lays out |
//! |---|---|
//! | `tiles` | loops that load across memory, in square tiles through shared memory |
//! | `stencil` | loops over two indices with loads that overlap, in columns of a few rows |
//! | `vectors` | loops along memory, with several adjacent iterations for each thread |
//! | `threads` | any loop with iterations that a thread can run alone |
//! | `strips` | loops down columns, in strips of adjacent columns |
//! | `rows` | loops over rows of one length, in registers |
//! | `blocks` | any other loop, with an iteration for each block |

mod blocks;
mod rows;
mod staging;
mod stencil;
mod strips;
mod threads;
mod tiles;
mod vectors;

use ir::choice::Choice;
use ir::nest::{Loop, LoopKind, Program, Statement};
use ir::sched::ordered::has_ordered;
use ir::sched::{Gpu, Part, Refusal, Run, Scheduled, Shared, Strategy, Variant};
use ir::{Size, visit};

/// A loop that strategies are asked to lay out.
struct Site<'p> {
    program: &'p Program,
    part: &'p Part,
    l: &'p Loop,
    gpu: Gpu,
    shared: Shared,
    /// Whether a thread can run an iteration alone.
    alone: bool,
}

/// A strategy makes variants for all sizes, or says why it does not apply.
type Lay = fn(&Site<'_>) -> Result<Vec<Variant>, Refusal>;

const STRATEGIES: [(Strategy, Lay); 7] = [
    (Strategy::Tiles, tiles::lay),
    (Strategy::Stencil, stencil::lay),
    (Strategy::Vectors, vectors::lay),
    (Strategy::Threads, threads::lay),
    (Strategy::Strips, strips::lay),
    (Strategy::Rows, rows::lay),
    (Strategy::Blocks, blocks::lay),
];

/// Lays out parallel loops.
pub fn strategies(scheduled: &mut Scheduled, choice: &mut Choice) {
    let Some(gpu) = scheduled.machine.gpu else { return };
    for part in &mut scheduled.parts {
        let Some(l) = parallel(part) else { continue };
        let shared = Shared::of(&scheduled.program, &part.kernel);
        let alone = is_short(&l.body, gpu.sequential) && !has_ordered(&l.body);
        let site = Site { program: &scheduled.program, part, l, gpu, shared, alone };
        let (mut refused, mut variants) = (vec![], vec![]);
        for (strategy, lay) in STRATEGIES {
            match lay(&site) {
                // These two apply to what is left, so they are no choice.
                Ok(_) if !matches!(strategy, Strategy::Threads | Strategy::Blocks) && !choice.grants(true) => {
                    refused.push((strategy, Refusal::Chosen));
                }
                Ok(found) => {
                    variants = found;
                    break;
                }
                Err(refusal) => refused.push((strategy, refusal)),
            }
        }
        let in_blocks = variants.last().is_some_and(|variant| variant.strategy == Strategy::Blocks);
        (part.refused, part.variants) = (refused, variants);
        if let Some(Statement::Loop(l)) = part.kernel.body.last_mut().filter(|_| in_blocks) {
            blocks::step_by_step(&mut l.body);
        }
    }
}

/// The parallel loop of a part that runs in ranges of its iterations.
fn parallel(part: &Part) -> Option<&Loop> {
    let runs = match &part.run {
        Run::Ranges | Run::Transpose(_) | Run::Strips { .. } => true,
        Run::Whole
        | Run::Chunks { .. }
        | Run::Blocks { .. }
        | Run::HandOff(_)
        | Run::Relay(_)
        | Run::Tiles(_)
        | Run::Sweeps => false,
    };
    let (_, last) = part.root().filter(|_| runs)?;
    if let Statement::Loop(l) = last { Some(l) } else { None }
}

/// Whether one thread can run a body: all inner extents are constants, with a small product. The
/// iterations of a serial loop have to follow each other in any case.
fn is_short(body: &[Statement], most: i64) -> bool {
    let mut iterations = 1i64;
    let mut known = true;
    visit::for_each_statement(body, &mut |statement| {
        if let Statement::Loop(l) = statement
            && l.kind != LoopKind::Serial
        {
            for (_, extent) in &l.dims {
                match extent.as_size().and_then(Size::as_constant) {
                    Some(n) => iterations = iterations.saturating_mul(n.max(1)),
                    None => known = false,
                }
            }
        }
    });
    known && iterations <= most
}
