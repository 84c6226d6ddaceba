//! Splits kernels into parts. A parallel loop or contraction at the top is a part of its own, and
//! its range is split over threads or a grid; so is a reducing loop, in pieces, and a scan if the
//! target passes prefixes on (`scans`). The statements between run in one piece.
//!
//! A part recomputes the scalars that it needs. If it cannot (for example results of reductions),
//! the part that defines them stores them in a temporary of rank 0. A reducing loop stores the
//! results of its pieces in temporaries, and another loop combines them. If its elements are rows,
//! an earlier loop computes these, row by row.

use ir::build::Values;
use ir::choice::Choice;
use ir::nest::{
    Block, Buffer, BufferId, Extent, Index, IndexId, Input, Kernel, Loop, LoopKind, Op, Program, Reduction, Role,
    Single, Statement, Subscript, ValueId, is_length,
};
use ir::order::{BLOCK, LANES_CHUNK};
use ir::sabotage::{self, Bug};
use ir::sched::{Machine, Part, Run, Scheduled, in_lanes, is_scalar};
use ir::{Affine, Order, Size, visit};

use crate::maker::{Pieces, goes_by_blocks, is_long};
use crate::sort::select::Reads;
use crate::{keyed, scans, sort};

/// By what pieces a reducing loop at the top goes, each with results of its own.
#[derive(Clone, Copy)]
enum By {
    /// Chunks of the order by lanes.
    Chunks,
    /// Blocks of the order by blocks.
    Blocks,
}

impl By {
    /// Those of a loop, if its reductions permit it, and its number of iterations is known in
    /// advance.
    fn of(program: &Program, machine: &Machine, values: &Values, l: &Loop) -> Option<By> {
        let LoopKind::Reduce(reductions) = &l.kind else { return None };
        // The product of two negative extents would be a positive number of pieces.
        let sizes: Vec<&Size> = l.dims.iter().map(|(_, extent)| extent.as_size()).collect::<Option<_>>()?;
        let counts = sizes.len() == 1 || sizes.into_iter().all(|size| is_length(&program.symbols, size));
        let all = |fits: &dyn Fn(Single) -> bool| reductions.iter().all(|r| r.single().is_some_and(fits));
        let in_chunks = |r: Single| {
            // A chunk has a power of two of blocks, so its result is a node of the pairwise tree
            // over blocks.
            let blocks = machine.chunks_blocks && r.order == Order::Blocks;
            in_lanes(values[r.input], if blocks { Order::Lanes } else { r.order })
        };
        let in_blocks = |r: Single| goes_by_blocks(r.order);
        if reductions.is_empty() || !counts {
            None
        } else if all(&in_chunks) {
            Some(By::Chunks)
        } else {
            (machine.gpu.is_some() && all(&in_blocks)).then_some(By::Blocks)
        }
    }

    /// The word for them in names.
    fn word(self) -> &'static str {
        match self {
            By::Chunks => "chunk",
            By::Blocks => "block",
        }
    }

    /// The number of iterations of a piece.
    fn length(self) -> usize {
        match self {
            By::Chunks => LANES_CHUNK,
            By::Blocks => BLOCK,
        }
    }

    /// How the loop runs.
    fn run(self, results: Vec<BufferId>) -> Run {
        match self {
            By::Chunks => Run::Chunks { results },
            By::Blocks => Run::Blocks { results },
        }
    }
}

/// How a statement at the top runs.
enum Way {
    /// Each part may compute it for itself.
    Scalar,
    /// In a part of its own.
    Own(Run),
    /// In one piece, with its neighbours.
    Whole,
}

/// Splits kernels that are still in one piece.
pub fn split(scheduled: &mut Scheduled, choice: &mut Choice) {
    let machine = scheduled.machine;
    let reads = Reads::of(&scheduled.program, &scheduled.parts);
    scheduled.rewrite(
        |program, part| {
            if part.run == Run::Whole { parts(program, &machine, &reads, part, choice) } else { vec![part] }
        },
    );
}

/// The parts of a kernel in the order in which they run. The temporaries that they need are added
/// to the program.
fn parts(program: &mut Program, machine: &Machine, reads: &Reads, whole: Part, choice: &mut Choice) -> Vec<Part> {
    let Part { of, mut kernel, mut joins, .. } = whole;
    // A hoisted check stays in another part than the loop that it comes from, because the loop may
    // overwrite what the check reads.
    let faults = kernel.body.iter().any(Statement::may_fault);
    let mut ways = vec![];
    for statement in std::mem::take(&mut kernel.body) {
        let expanded = keyed::expand(program, machine, &mut kernel, &statement);
        if let Some(expanded) = expanded.or_else(|| sort::expand(program, machine, &mut kernel, &statement, reads)) {
            for l in expanded.loops {
                ways.push(match l.kind {
                    LoopKind::Parallel => Way::Own(Run::Ranges),
                    LoopKind::Scan => in_chunks(program, machine, &kernel, &l, choice),
                    LoopKind::Serial | LoopKind::Reduce(_) | LoopKind::Keyed { .. } | LoopKind::Sort => Way::Whole,
                });
                kernel.body.push(Statement::Loop(l));
            }
            joins.extend(expanded.joins);
            continue;
        }
        let way = match &statement {
            s if is_scalar(s) => Way::Scalar,
            s if is_ranged(s) => Way::Own(Run::Ranges),
            Statement::Loop(l)
                if let Some(by) = By::of(program, machine, &kernel.values, l)
                    && (faults || choice.grants(true)) =>
            {
                let mut l = l.clone();
                if has_rows(&l) {
                    let (rows, rest) = apart(program, &mut kernel, l);
                    kernel.body.push(Statement::Loop(rows));
                    ways.push(Way::Own(Run::Ranges));
                    l = rest;
                }
                let (part, Pieces { results, join }) = in_pieces(program, &mut kernel, l, by);
                kernel.body.push(Statement::Loop(part));
                ways.push(Way::Own(by.run(results)));
                joins.extend(join.dims.iter().map(|(index, _)| *index));
                kernel.body.push(Statement::Loop(join));
                ways.push(Way::Whole);
                continue;
            }
            Statement::Loop(l) if l.kind == LoopKind::Scan => in_chunks(program, machine, &kernel, l, choice),
            Statement::Let { .. }
            | Statement::Store { .. }
            | Statement::Scatter { .. }
            | Statement::If { .. }
            | Statement::Loop(_)
            | Statement::While(_)
            | Statement::Contract(_) => Way::Whole,
        };
        kernel.body.push(statement);
        ways.push(way);
    }
    let groups = grouped(&kernel, ways);
    let mut spills = Spills { program, kernel: &kernel, buffers: vec![] };
    // The last ones first, because their needs from an earlier part must be known before that is
    // made.
    let mut made: Vec<(Block, Run)> = groups.into_iter().rev().map(|(part, run)| (spills.block(&part), run)).collect();
    made.reverse();
    let part = |(number, (body, run))| {
        let kernel = Kernel { name: format!("{}.{number}", kernel.name), body, ..kernel.clone() };
        Part::new(of, kernel, run, joins.clone())
    };
    made.into_iter().enumerate().map(part).collect()
}

/// The statements of each part, and how it runs.
fn grouped(kernel: &Kernel, ways: Vec<Way>) -> Vec<(Vec<usize>, Run)> {
    let mut groups: Vec<(Vec<usize>, Run)> = vec![];
    let mut scalars = vec![];
    // Whether the last group takes further statements.
    let mut open = false;
    for (at, way) in ways.into_iter().enumerate() {
        let own = match way {
            Way::Scalar => {
                scalars.push(at);
                continue;
            }
            Way::Own(run) => Some(run),
            Way::Whole => None,
        };
        let opens = own.is_none();
        if !(open && opens) {
            groups.push((vec![], own.unwrap_or(Run::Whole)));
        }
        if let Some((group, _)) = groups.last_mut() {
            group.append(&mut scalars);
            group.push(at);
        }
        open = opens;
    }
    // Scalars at the end matter only if they contain checks.
    if scalars.iter().any(|at| kernel.body[*at].may_fault()) {
        groups.push((scalars, Run::Whole));
    }
    groups
}

/// How a scan at the top runs: in chunks, if that is possible.
fn in_chunks(program: &mut Program, machine: &Machine, kernel: &Kernel, l: &Loop, choice: &mut Choice) -> Way {
    scans::in_chunks(program, machine, kernel, l, choice).map_or(Way::Whole, Way::Own)
}

/// Whether an iteration is a row or more, which is too much for one thread.
pub(crate) fn has_rows(l: &Loop) -> bool {
    let mut found = false;
    visit::for_each_statement(&l.body, &mut |statement| found |= is_long(statement.dims()));
    found
}

/// Splits a reducing loop into one that computes its elements, and one that reduces them.
fn apart(program: &mut Program, kernel: &mut Kernel, mut l: Loop) -> (Loop, Loop) {
    let shape: Vec<Size> = l.dims.iter().filter_map(|(_, extent)| extent.as_size().cloned()).collect();
    let mut dims = vec![];
    for (index, extent) in &l.dims {
        let name = format!("{}.{}", kernel.indices[*index].name, kernel.indices.len());
        dims.push((kernel.indices.push(Index { name }), extent.clone()));
    }
    let at = |dims: &[(IndexId, Extent)]| -> Vec<Subscript> {
        dims.iter().map(|(index, _)| Subscript::Affine(Affine::index(*index))).collect()
    };
    let LoopKind::Reduce(mut reductions) = std::mem::replace(&mut l.kind, LoopKind::Parallel) else {
        return (l.clone(), l);
    };
    let mut body = vec![];
    let mut known: Vec<(ValueId, ValueId)> = vec![];
    for operand in reductions.iter_mut().flat_map(|r| &mut r.inputs) {
        let Input::Value(input) = *operand else { continue };
        if let Some((_, value)) = known.iter().find(|(v, _)| *v == input) {
            *operand = Input::Value(*value);
            continue;
        }
        let dtype = kernel.values[input];
        let name = format!("{}.{input}.elements", kernel.name);
        let buffer = program.buffers.push(Buffer { name, dtype, shape: shape.clone(), role: Role::Temp });
        let value = kernel.values.push(dtype);
        l.body.push(Statement::Store { buffer, at: at(&l.dims), value: input });
        body.push(Statement::Let { value, op: Op::Load { buffer, view: None, at: at(&dims) } });
        known.push((input, value));
        *operand = Input::Value(value);
    }
    (l, Loop { dims, kind: LoopKind::Reduce(reductions), body })
}

/// The loop that computes the results of pieces, the buffers for these, and the loop that combines
/// them.
fn in_pieces(program: &mut Program, kernel: &mut Kernel, mut l: Loop, by: By) -> (Loop, Pieces) {
    let product = l.dims.iter().filter_map(|(_, extent)| extent.as_size()).fold(Size::constant(1), |p, n| &p * n);
    let length = by.length();
    let count = match sabotage::on(Bug::LastChunk) {
        true => product.floor_div(&Size::constant(length as i64)),
        false => product.ceil_div(&(length as i64).into()),
    };
    let singles: Vec<Single> = l.kind.reductions().iter().filter_map(Reduction::single).collect();
    if let LoopKind::Reduce(reductions) = &mut l.kind {
        for r in reductions {
            r.results = r.results.iter().map(|result| kernel.values.push(kernel.values[*result])).collect();
        }
    }
    (l, Pieces::new(program, kernel, (by.word(), count), &[], singles))
}

/// Whether a statement at the top is run in ranges.
fn is_ranged(statement: &Statement) -> bool {
    match statement {
        Statement::Loop(l) => matches!(l.kind, LoopKind::Parallel) && !l.dims.is_empty(),
        Statement::Contract(_) => true,
        Statement::Let { .. }
        | Statement::Store { .. }
        | Statement::Scatter { .. }
        | Statement::If { .. }
        | Statement::While(_) => false,
    }
}

/// Values passed from one part to a later one through memory.
struct Spills<'a> {
    program: &'a mut Program,
    kernel: &'a Kernel,
    buffers: Vec<(ValueId, BufferId)>,
}

impl Spills<'_> {
    /// The part with the given statements, and everything that they need from earlier ones.
    fn block(&mut self, part: &[usize]) -> Block {
        let body = &self.kernel.body;
        let mut block = vec![];
        for at in part {
            block.push(body[*at].clone());
            visit::for_each_definition(&body[*at], &mut |v| block.extend(self.store(v)));
        }
        let mut needed = visit::free_values(&block);
        let mut before = vec![];
        for statement in body[..part[0]].iter().rev() {
            let mut defined = vec![];
            visit::for_each_definition(statement, &mut |v| defined.extend(needed.contains(&v).then_some(v)));
            if defined.is_empty() {
                continue;
            }
            if is_scalar(statement) {
                let again = vec![statement.clone()];
                needed.extend(visit::free_values(&again));
                before.extend(again);
            } else {
                before.extend(defined.into_iter().map(|v| self.load(v)));
            }
        }
        before.reverse();
        before.append(&mut block);
        before
    }

    /// Stores a value that a later part has asked for.
    fn store(&self, value: ValueId) -> Option<Statement> {
        let (_, buffer) = self.buffers.iter().find(|(v, _)| *v == value)?;
        Some(Statement::Store { buffer: *buffer, at: vec![], value })
    }

    fn load(&mut self, value: ValueId) -> Statement {
        let found = self.buffers.iter().find(|(v, _)| *v == value).map(|(_, buffer)| *buffer);
        let buffer = found.unwrap_or_else(|| {
            let name = format!("{}.{value}", self.kernel.name);
            let dtype = self.kernel.values[value];
            let buffer = self.program.buffers.push(Buffer { name, dtype, shape: vec![], role: Role::Temp });
            self.buffers.push((value, buffer));
            buffer
        });
        Statement::Let { value, op: Op::Load { buffer, view: None, at: vec![] } }
    }
}
