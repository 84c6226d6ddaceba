//! A kernel of several statements becomes parts, kernels of one function each: a parallel loop or contraction at the top
//! is a part of its own, whose range is split over threads, and so is a reducing loop, chunk by chunk; what stands
//! between runs on one thread.
//!
//! `ptx` launches the same parts, without what only threads of a processor do: tiles of rows and columns, scans and sums by blocks in chunks.
//!
//! A part computes again what scalars it needs. Where it cannot (results of reductions, say), the part that
//! defines them leaves them in a temporary of rank 0. A reducing loop leaves the results of its chunks in temporaries, and
//! another loop joins them; if its elements are rows, a loop before computes these, row by row.

use ir::build::Values;
use ir::nest::{
    Block, Buffer, BufferId, Extent, Index, IndexId, Input, Kernel, Loop, LoopKind, Op, Program, Reduction, Role,
    Statement, Subscript, ValueId,
};
use ir::order::LANES_CHUNK;
use ir::sabotage::{self, Bug};
use ir::{Affine, Dtype, Order, Size, visit};

use crate::nests::{is_length, is_scalar};
use crate::tile::{Tiled, tile};

/// A part of a kernel.
pub struct Part {
    /// Its statements, with the values and indices of the kernel that it is a part of.
    pub kernel: Kernel,
    /// If its last statement is a reducing loop that runs by chunks, where the results of these go.
    pub chunks: Vec<BufferId>,
    /// Loops over results of chunks: the reductions of these join them.
    pub joins: Vec<IndexId>,
    /// If its last statement is a scan that runs by chunks, what their threads hand on.
    pub baton: Option<Baton>,
    /// If it is loops over rows and columns that go together.
    pub tiled: Option<Tiled>,
}

/// The state that the threads of a scan pass from chunk to chunk, for each of its prefixes: whose turn it is, and the result of the
/// chunks so far.
#[derive(Clone, Copy)]
pub struct Baton {
    /// Where it is, one entry of [`Baton::BYTES`] after another.
    pub buffer: BufferId,
    /// How many there are.
    pub prefixes: usize,
}

impl Baton {
    /// Bytes for one prefix: a cache line of its own.
    pub const BYTES: usize = 64;
}

impl Part {
    /// A part of statements over the values and indices of another one.
    pub fn beside(other: &Part, body: Block) -> Part {
        let kernel = Kernel { body, ..other.kernel.clone() };
        Part { kernel, chunks: vec![], joins: other.joins.clone(), baton: None, tiled: None }
    }
}

/// Whether a reduction by a primitive can go by lanes.
pub fn in_lanes(dtype: Dtype, order: Order) -> bool {
    !matches!(dtype, Dtype::I8 | Dtype::U8 | Dtype::F16 | Dtype::Bf16) && matches!(order, Order::Lanes | Order::Free)
}

/// Whether a reduction can be shared out by chunks as long as those of the order by lanes. A chunk has a power of two of blocks, so its result
/// is a node of the pairwise tree over blocks.
fn in_chunks(dtype: Dtype, order: Order) -> bool {
    in_lanes(dtype, if order == Order::Blocks { Order::Lanes } else { order })
}

/// How many prefixes a scan has, if it can go by chunks.
pub fn prefixes_in_chunks(l: &Loop) -> Option<usize> {
    let mut prefixes = vec![];
    for statement in &l.body {
        if let Statement::Let { op: Op::Prefix(prefix), .. } = statement {
            prefixes.push(prefix);
        }
    }
    let single = prefixes.iter().all(|prefix| prefix.single().is_some());
    let fit = l.kind == LoopKind::Scan && single && !l.body.iter().any(Statement::may_fault);
    fit.then_some(prefixes.len())
}

/// How often a loop runs that makes a row of what it is in.
const LONG: i64 = 64;

/// How a statement at the top runs.
enum Run {
    /// Each part may compute it for itself.
    Scalar,
    /// In ranges.
    Ranged,
    /// In ranges of chunks, with their results kept.
    Chunks(Vec<BufferId>),
    /// A scan, in ranges of chunks.
    Scan(Baton),
    /// In one piece.
    Alone,
}

/// The parts of `kernel` in the order they run; temporaries that they need are added to the program. Scans go by chunks if the parts have
/// `threads`: one alone has nobody to hand a prefix on to.
pub fn split(program: &mut Program, kernel: Kernel, threads: bool) -> Vec<Part> {
    tile(program, &kernel).unwrap_or_else(|| split_in(program, kernel, in_chunks, threads))
}

/// The same for who knows no tiles of rows and columns, and runs scans and reductions by blocks in one piece.
pub fn split_plainly(program: &mut Program, kernel: Kernel) -> Vec<Part> {
    split_in(program, kernel, in_lanes, false)
}

fn split_in(program: &mut Program, mut kernel: Kernel, fits: fn(Dtype, Order) -> bool, scans: bool) -> Vec<Part> {
    let mut runs = vec![];
    let mut joins = vec![];
    for statement in std::mem::take(&mut kernel.body) {
        let run = match &statement {
            s if is_scalar(s) => Run::Scalar,
            s if is_ranged(s) => Run::Ranged,
            Statement::Loop(l) if by_chunks(program, &kernel.values, l, fits) => {
                let mut l = l.clone();
                if has_rows(&l) {
                    let (rows, rest) = apart(program, &mut kernel, l);
                    kernel.body.push(Statement::Loop(rows));
                    runs.push(Run::Ranged);
                    l = rest;
                }
                let (part, buffers, join) = chunks(program, &mut kernel, l);
                kernel.body.push(Statement::Loop(part));
                runs.push(Run::Chunks(buffers));
                joins.extend(join.dims.iter().map(|(index, _)| *index));
                kernel.body.push(Statement::Loop(join));
                runs.push(Run::Alone);
                continue;
            }
            Statement::Loop(l) if scans => baton(program, &kernel, l).map_or(Run::Alone, Run::Scan),
            Statement::Let { .. }
            | Statement::Store { .. }
            | Statement::If { .. }
            | Statement::Loop(_)
            | Statement::Contract(_) => Run::Alone,
        };
        kernel.body.push(statement);
        runs.push(run);
    }
    let mut parts: Vec<(Vec<usize>, Vec<BufferId>, Option<Baton>)> = vec![];
    let mut scalars = vec![];
    let mut open = false;
    for (at, run) in runs.into_iter().enumerate() {
        let alone = !matches!(run, Run::Alone);
        if let Run::Scalar = run {
            scalars.push(at);
            continue;
        }
        if alone || !open {
            parts.push((vec![], vec![], None));
        }
        if let Some((part, chunks, baton)) = parts.last_mut() {
            part.append(&mut scalars);
            part.push(at);
            match run {
                Run::Chunks(buffers) => *chunks = buffers,
                Run::Scan(own) => *baton = Some(own),
                Run::Scalar | Run::Ranged | Run::Alone => {}
            }
        }
        open = !alone;
    }
    // Scalars at the end matter only for the checks among them.
    if scalars.iter().any(|at| kernel.body[*at].may_fault()) {
        parts.push((scalars, vec![], None));
    }
    let mut spills = Spills { program, kernel: &kernel, buffers: vec![] };
    // Last ones first: what they ask for is then known when its part is made.
    let mut made: Vec<(Block, Vec<BufferId>, Option<Baton>)> = vec![];
    for (part, chunks, baton) in parts.into_iter().rev() {
        made.push((spills.block(&part), chunks, baton));
    }
    made.reverse();
    let part = |(number, (body, chunks, baton))| {
        let kernel = Kernel { name: format!("{}.{number}", kernel.name), body, ..kernel.clone() };
        Part { kernel, chunks, joins: joins.clone(), baton, tiled: None }
    };
    made.into_iter().enumerate().map(part).collect()
}

/// Whether a reducing loop at the top may run by chunks: its reductions fit, and how often it runs is known before.
fn by_chunks(program: &Program, values: &Values, l: &Loop, fits: fn(Dtype, Order) -> bool) -> bool {
    let LoopKind::Reduce(reductions) = &l.kind else { return false };
    let fit = |r: &Reduction| r.single().is_some_and(|r| fits(values[r.input], r.order));
    // Two extents below 0 would multiply to chunks that there are not.
    let sizes: Option<Vec<&Size>> = l.dims.iter().map(|(_, extent)| extent.as_size()).collect();
    reductions.iter().all(fit)
        && sizes.is_some_and(|s| s.len() == 1 || s.into_iter().all(|size| is_length(program, size)))
}

/// What a scan at the top hands on if it runs by chunks.
fn baton(program: &mut Program, kernel: &Kernel, l: &Loop) -> Option<Baton> {
    let [(_, extent)] = l.dims.as_slice() else { return None };
    extent.as_size()?;
    let prefixes = prefixes_in_chunks(l)?;
    let shape = vec![Size::constant(i64::try_from(prefixes * Baton::BYTES / 8).ok()?)];
    let name = format!("{}.{}.baton", kernel.name, program.buffers.len());
    let buffer = program.buffers.push(Buffer { name, dtype: Dtype::U64, shape, role: Role::Temp });
    Some(Baton { buffer, prefixes })
}

/// Whether an iteration is a row or more: then a chunk of them is too much to share out.
fn has_rows(l: &Loop) -> bool {
    let mut found = false;
    visit::for_each_statement(&l.body, &mut |statement| {
        if let Statement::Loop(inner) = statement {
            let long = |(_, extent): &(_, Extent)| {
                extent.as_size().is_none_or(|size| size.as_constant().is_none_or(|n| n >= LONG))
            };
            found |= inner.dims.iter().any(long);
        }
    });
    found
}

/// A reducing loop as one that computes its elements, and one that reduces them.
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

/// The loop that computes the results of chunks, the buffers that they go to, and the loop that joins them.
fn chunks(program: &mut Program, kernel: &mut Kernel, mut l: Loop) -> (Loop, Vec<BufferId>, Loop) {
    let product = l.dims.iter().filter_map(|(_, extent)| extent.as_size()).fold(Size::constant(1), |p, n| &p * n);
    let count = match sabotage::on(Bug::LastChunk) {
        true => product.floor_div(&Size::constant(LANES_CHUNK as i64)),
        false => product.ceil_div(LANES_CHUNK as i64),
    };
    let index = kernel.indices.push(Index { name: format!("chunk.{}", kernel.indices.len()) });
    let mut buffers = vec![];
    let mut body = vec![];
    let mut joined = vec![];
    if let LoopKind::Reduce(reductions) = &mut l.kind {
        for r in reductions {
            let Some(whole) = r.single() else { continue };
            let (result, dtype) = (whole.result, kernel.values[whole.result]);
            r.results = vec![kernel.values.push(dtype)];
            let name = format!("{}.{result}.chunks", kernel.name);
            let buffer = program.buffers.push(Buffer { name, dtype, shape: vec![count.clone()], role: Role::Temp });
            let value = kernel.values.push(dtype);
            let at = vec![Subscript::Affine(Affine::index(index))];
            body.push(Statement::Let { value, op: Op::Load { buffer, view: None, at } });
            joined.push(Reduction::monoid(result, whole.monoid, whole.order, value));
            buffers.push(buffer);
        }
    }
    let dims = vec![(index, Extent::Affine(Affine::size(count)))];
    (l, buffers, Loop { dims, kind: LoopKind::Reduce(joined), body })
}

/// The statements before the last one of a part, which define scalars, and the last one, if that is run in ranges.
pub fn root(part: &Part) -> Option<(&[Statement], &Statement)> {
    let (last, before) = part.kernel.body.split_last()?;
    let ranged = is_ranged(last) || !part.chunks.is_empty() || part.baton.is_some();
    (ranged && before.iter().all(is_scalar)).then_some((before, last))
}

/// Whether a statement at the top is run in ranges.
fn is_ranged(statement: &Statement) -> bool {
    match statement {
        Statement::Loop(l) => matches!(l.kind, LoopKind::Parallel) && !l.dims.is_empty(),
        Statement::Contract(_) => true,
        Statement::Let { .. } | Statement::Store { .. } | Statement::If { .. } => false,
    }
}

/// Values that go from one part to a later one through memory.
struct Spills<'a> {
    program: &'a mut Program,
    kernel: &'a Kernel,
    buffers: Vec<(ValueId, BufferId)>,
}

impl Spills<'_> {
    /// The part of the given statements, with what it needs of those before it.
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

    /// Keeps a value that a later part has asked for.
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
