//! Runs several iterations of a parallel loop together if each is a serial loop (unroll and jam:
//! Callahan, Cocke, Kennedy, "Estimating Interlock and Improving Balance for Pipelined
//! Architectures", 1988). The steps of one row depend on each other and leave most units of a
//! processor idle; those of several rows do not. Rows of a serial loop, which depend on the ones
//! before them, run behind one another (`behind`).
//!
//! ```text
//! parallel i < n {              parallel a < n / 4 {
//!   while t < m with s {          while t < m with s0, s1, s2, s3 {
//!     ...                           ... of rows 4 a, 4 a + 1, 4 a + 2, 4 a + 3
//!   }                             }
//! }                             }
//!                               parallel b < n - n / 4 * 4 { the same for row n / 4 * 4 + b }
//! ```

mod behind;

use std::collections::BTreeSet;

use ir::choice::Choice;
use ir::nest::{Block, Extent, IndexId, Kernel, Loop, LoopKind, Program, Role, Statement, Subscript, ValueId};
use ir::rewrite::{Copier, for_each_affine_mut};
use ir::sabotage::{self, Bug};
use ir::sched::Scheduled;
use ir::{Affine, Size, visit};

use self::behind::{Rows, behind};
use crate::maker::{Maker, in_place};

/// The most statements of a row that runs together with others.
const MOST: usize = 64;

/// Runs rows that are serial loops together, on targets that gain from it.
pub fn jam(scheduled: &mut Scheduled, choice: &mut Choice) {
    let Scheduled { machine, program, parts, .. } = scheduled;
    for part in parts.iter_mut().filter(|_| machine.jams > 1) {
        let kernel = &mut part.kernel;
        // Scratch belongs to one loop, and this makes several of it.
        let accesses = visit::loads(&kernel.body).into_iter().chain(visit::stores(&kernel.body));
        if accesses.into_iter().any(|buffer| program.buffers[buffer].role == Role::Scratch) {
            continue;
        }
        let body = std::mem::take(&mut kernel.body);
        kernel.body = in_block(program, kernel, choice, body, machine.jams, true);
    }
}

/// Runs rows of the loops of a block together: of parallel loops at the top of a kernel, and of
/// serial ones anywhere.
fn in_block(
    program: &mut Program,
    kernel: &mut Kernel,
    choice: &mut Choice,
    block: Block,
    rows: i64,
    top: bool,
) -> Block {
    let mut out = vec![];
    for mut statement in block {
        if let Statement::Loop(l) = &statement
            && top
            && is_chain(l)
            // The verifier tells from one iteration that none loads what another has overwritten.
            && !in_place(program, &l.body)
            && choice.grants(true)
        {
            out.extend(together(program, kernel, l, rows).into_iter().map(Statement::Loop));
        } else if let Statement::Loop(l) = &statement
            && statements(&l.body) <= MOST
            && let Some(of) = Rows::new(program, l)
            && choice.grants(true)
        {
            out.extend(behind(program, kernel, of, rows));
        } else {
            for inner in statement.blocks_mut() {
                *inner = in_block(program, kernel, choice, std::mem::take(inner), rows, false);
            }
            out.push(statement);
        }
    }
    out
}

/// The number of statements in a block.
fn statements(block: &Block) -> usize {
    let mut number = 0;
    visit::for_each_statement(block, &mut |_| number += 1);
    number
}

/// Whether an iteration consists of serial loops and straight code, with a chain of dependent steps
/// that stores.
fn is_chain(l: &Loop) -> bool {
    let Some((index, extent)) = l.dims.last() else { return false };
    let varies = varying(l, *index);
    let same = |extent: &Extent| match extent {
        Extent::Affine(a) => a.coefficient(*index).is_zero(),
        Extent::Value(value) => !varies.contains(value),
    };
    let joins = |s: &Statement| {
        let Statement::While(w) = s else { return !s.repeats() };
        w.condition.is_none() && same(&w.counter.1) && !w.body.iter().any(Statement::repeats)
    };
    // Which of several faults ends the run depends on the order of iterations.
    l.kind == LoopKind::Parallel
        && matches!(extent, Extent::Affine(a) if a.as_size().is_some())
        && statements(&l.body) <= MOST
        && l.body.iter().all(joins)
        && l.body.iter().any(|s| matches!(s, Statement::While(w) if !visit::stores(&w.body).is_empty()))
        && !l.body.iter().any(Statement::may_fault)
}

/// The values at the top of a loop's body that may differ between iterations of an index.
fn varying(l: &Loop, index: IndexId) -> BTreeSet<ValueId> {
    let mut varies = BTreeSet::new();
    for statement in &l.body {
        let Statement::Let { value, op } = statement else {
            visit::for_each_definition(statement, &mut |value| _ = varies.insert(value));
            continue;
        };
        let mut one = op.effects().load.is_some();
        op.for_each_operand(|operand| one |= varies.contains(&operand));
        op.for_each_affine(&mut |a| one |= !a.coefficient(index).is_zero());
        if one {
            varies.insert(*value);
        }
    }
    varies
}

/// The loop over several rows at a time, and the one over the rest. (A parallel loop with loops in
/// it is as long as an axis, so its length is not negative.)
fn together(program: &mut Program, kernel: &mut Kernel, l: &Loop, rows: i64) -> Vec<Loop> {
    let from = kernel.clone();
    let length = l.dims.last().and_then(|(_, extent)| extent.as_size().cloned()).unwrap_or_default();
    let number = length.floor_div(&Size::constant(rows));
    let done = &number * &Size::constant(rows);
    let mut maker = Maker { program, kernel };
    let dims = fresh(&mut maker, &from, l, number);
    let rest = fresh(&mut maker, &from, l, &length - &done);
    let mut copy = |dims: &[(IndexId, Extent)], last: Affine<IndexId>| {
        let mut copier = Copier::new(maker.program, &from, maker.kernel);
        for ((old, _), (new, _)) in l.dims.iter().zip(dims) {
            copier.map_index(*old, Subscript::index(*new));
        }
        if let Some((old, _)) = l.dims.last() {
            copier.map_index(*old, Subscript::Affine(last));
        }
        let mut body = vec![];
        copier.copy(&l.body, &mut body);
        body
    };
    let last = |dims: &[(IndexId, Extent)]| dims.last().map_or(Affine::constant(0), |(index, _)| Affine::index(*index));
    let first = last(&dims).scale(&Size::constant(rows));
    let all = (0..rows).map(|row| copy(&dims, first.add(&Affine::constant(row)))).reduce(join).unwrap_or_default();
    let alone = copy(&rest, last(&rest).add(&Affine::size(done)));
    let mut loops = vec![Loop { dims, kind: LoopKind::Parallel, body: all }];
    if !sabotage::on(Bug::JammedTail) {
        loops.push(Loop { dims: rest, kind: LoopKind::Parallel, body: alone });
    }
    loops
}

/// Fresh indices for those of a loop, with another length of the last one.
fn fresh(maker: &mut Maker, from: &Kernel, l: &Loop, length: Size) -> Vec<(IndexId, Extent)> {
    let mut dims: Vec<(IndexId, Extent)> = vec![];
    for (old, extent) in &l.dims {
        dims.push((maker.index(&from.indices[*old].name), extent.clone()));
    }
    if let Some((_, extent)) = dims.last_mut() {
        *extent = Extent::size(length);
    }
    dims
}

/// Several iterations and one more, which takes its steps together with theirs. All have the same
/// loops, with any number of statements between them.
fn join(several: Block, one: Block) -> Block {
    let (mut out, mut one) = (vec![], one.into_iter());
    for mut statement in several {
        if let Statement::While(w) = &mut statement {
            for mut added in one.by_ref() {
                let Statement::While(added) = &mut added else {
                    out.push(added);
                    continue;
                };
                let (from, to) = (added.counter.0, w.counter.0);
                let mut with = |index| Affine::index(if index == from { to } else { index });
                for inner in &mut added.body {
                    for_each_affine_mut(inner, &mut |a| *a = a.substitute(&mut with));
                }
                w.state.append(&mut added.state);
                w.body.append(&mut added.body);
                break;
            }
        }
        out.push(statement);
    }
    out.extend(one);
    out
}
