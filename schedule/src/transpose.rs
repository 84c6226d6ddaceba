//! Finds loops that load across memory: neighbouring iterations of the innermost loop access
//! elements in different rows, while those of an outer loop access adjacent ones. Transpositions
//! do, alone or inside any expression. Such a loop runs in tiles.

use ir::choice::Choice;
use ir::effects::Access;
use ir::linear::Linear;
use ir::nest::{Loop, LoopKind, Program, Statement};
use ir::sched::{Run, Scheduled, Transpose};
use ir::{Size, visit};

/// The bytes of a row of memory in a tile: many cache lines, because memory is fastest when a row
/// is read contiguously.
const LINES: i64 = 1024;
/// Loads of a body that are transposed.
const MOST: usize = 4;
/// It does not pay off for loops known to be shorter.
const SHORT: i64 = 16;

/// Finds parallel loops that go in tiles.
pub fn transpose(scheduled: &mut Scheduled, choice: &mut Choice) {
    for part in &mut scheduled.parts {
        if part.run == Run::Ranges
            && let Some((_, Statement::Loop(l))) = part.root()
            && let Some(found) = find(&scheduled.program, l)
            && choice.grants(true)
        {
            part.run = Run::Transpose(found);
        }
    }
}

/// The loop in tiles, if they help.
fn find(program: &Program, l: &Loop) -> Option<Transpose> {
    let extents: Vec<Size> = l.dims.iter().map(|(_, e)| e.as_size().cloned()).collect::<Option<_>>()?;
    let straight =
        l.body.iter().all(|s| matches!(s, Statement::Let { .. } | Statement::If { .. } | Statement::Store { .. }));
    let short = |size: &Size| size.as_constant().is_some_and(|n| n < SHORT);
    let (last, others) = l.dims.split_last()?;
    if !matches!(l.kind, LoopKind::Parallel)
        || !straight
        || l.body.iter().any(Statement::may_fault)
        || short(extents.last()?)
    {
        return None;
    }
    let stored = visit::stores(&l.body);
    let mut found: Option<Transpose> = None;
    for (number, statement) in l.body.iter().enumerate() {
        let Some(Access { buffer, view, at }) = statement.effects().load else { continue };
        let linear = Linear::of(program, buffer, view, at);
        let Some(at) = linear.as_affine() else { continue };
        // Small steps leave vectors something of each line.
        let far = at.coefficient(last.0).as_constant().is_none_or(|step| step.abs() > SHORT);
        let along = |(index, _): &_| at.coefficient(*index).as_constant() == Some(1);
        let Some(outer) =
            others.iter().position(along).filter(|outer| far && !short(&extents[*outer]) && !stored.contains(&buffer))
        else {
            continue;
        };
        let width = i64::try_from(program.buffers[buffer].dtype.bytes()).ok()?;
        let tiles = found.get_or_insert_with(|| Transpose {
            outer,
            loads: vec![],
            height: LINES / width,
            extents: extents.clone(),
        });
        if tiles.outer == outer && tiles.loads.len() < MOST {
            tiles.loads.push(number);
        }
    }
    found
}
