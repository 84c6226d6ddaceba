//! Rows in registers: loops of the same length inside the iterations of a loop, such as softmax and
//! norms. A warp holds a row of up to 256 elements, a block one of up to 32,768, and a cluster of
//! blocks, on devices that have them, one of up to 262,144.
//!
//! The elements of a thread are 32 apart in a warp and 128 apart in a block, so that adjacent
//! threads load adjacent elements. Hence a thread has elements of four lanes of the canonical
//! order, or of one. In a block, each group of 128 threads (one for each lane) has one chunk of
//! 4,096 elements.

use std::collections::{BTreeMap, BTreeSet};

use ir::effects::Access;
use ir::linear::Linear;
use ir::nest::{Block, BufferId, IndexId, Loop, LoopKind, Op, Program, Role, Statement};
use ir::order::{LANES, LANES_CHUNK, Scope};
use ir::sched::{
    Axis, Beyond, Fill, Gpu, Inner, Level, Refusal, Row, Strategy, Variant, is_flat, is_scalar, reductions_bytes,
};
use ir::{Affine, Order, Size, visit};

use super::{Site, blocks, staging};

/// The number of loops over a long row from which on it pays to hold its beginning in registers,
/// because then only one block fits on a multiprocessor.
const WORTH: usize = 3;
/// The most reductions and prefixes, since each needs shared memory.
const MOST_REDUCTIONS: usize = 16;
/// See [`MOST_REDUCTIONS`].
const MOST_PREFIXES: usize = 1;
/// The elements of a thread in a short row. More elements are preferred to more threads, because
/// that keeps more loads in flight for the same number of registers.
const SHORT: i64 = 8;
/// The groups of a block.
const GROUPS: i64 = 8;

/// Which elements an access of a loop touches: the coefficient of the loop's index, and the rest of
/// the subscript.
pub(super) type Key = (BufferId, Size, Affine<IndexId>);

pub(super) fn lay(site: &Site<'_>) -> Result<Vec<Variant>, Refusal> {
    let Site { program, part, l, gpu, .. } = site;
    let length = length(l)?;
    let (mut reductions, mut prefixes) = (0, 0);
    visit::for_each_statement(&l.body, &mut |statement| {
        if let Statement::Loop(l) = statement {
            reductions += l.kind.reductions().len();
        }
        prefixes += usize::from(matches!(statement, Statement::Let { op: Op::Prefix(_), .. }));
    });
    if reductions > MOST_REDUCTIONS || prefixes > MOST_PREFIXES {
        return Err(Refusal::TooMany);
    }
    let many_threads = usize::try_from(gpu.most_threads).unwrap_or(0);
    let fits = reductions_bytes(program, &part.kernel.values, &l.body, many_threads) <= gpu.reductions;
    let long = prefixes == 0 && l.body.iter().filter(|s| matches!(s, Statement::Loop(_))).count() >= WORTH && fits;
    let registers = in_registers(program, &l.body);
    let accessed = visit::loads(&part.kernel.body).into_iter().chain(visit::stores(&part.kernel.body));
    let rests = |id: BufferId| program.buffers[id].role != Role::Scratch || registers.contains(&id);
    let clusters = long && accessed.into_iter().all(rests);
    let staged = staging::values(program, &l.body, &registers);
    let row = |levels: Vec<Level>, fill: Fill, at_least: i64| Row {
        length: length.clone(),
        levels,
        fill,
        at_least,
        registers: registers.clone(),
    };
    let mut variants = vec![];
    for row in rows(*gpu, long, clusters, staged, row) {
        let known = length.as_constant();
        if known.is_some_and(|n| !row.fits(n)) {
            continue;
        }
        // The first layout that fits a known length is the only one, unless only the device knows
        // whether it has clusters, or enough shared memory.
        let last = known.is_some() && row.staged().is_empty() && row.unit() != Scope::Cluster;
        let mut levels = vec![Level::all(Scope::Grid)];
        if row.unit() == Scope::Warp {
            levels.insert(0, Level::of(Scope::Block, LANES as i64 / gpu.warp));
        }
        let axis = Axis::new(l.dims.iter().map(|(index, _)| *index), levels);
        variants.push(Variant { inner: Inner::Row(Box::new(row)), ..Variant::new(Strategy::Rows, vec![axis]) });
        if last {
            return Ok(variants);
        }
    }
    if !long {
        // Rows that are too long for registers profit from more threads.
        let together = if fits { gpu.most_threads } else { LANES as i64 };
        let together = if variants.is_empty() { LANES as i64 } else { together };
        variants.push(blocks::with_threads(site, together));
    }
    Ok(variants)
}

/// The layouts of rows, those for shorter rows first.
fn rows(
    gpu: Gpu,
    long: bool,
    clusters: bool,
    staged: Vec<ir::sched::Staged>,
    row: impl Fn(Vec<Level>, Fill, i64) -> Row,
) -> Vec<Row> {
    let (lanes, held) =
        (Level::of(Scope::Block, LANES as i64), Level::of(Scope::Register, (LANES_CHUNK / LANES) as i64));
    let warp = || vec![Level::of(Scope::Warp, gpu.warp), Level::of(Scope::Register, SHORT)];
    let group = || vec![lanes, Level::of(Scope::Register, SHORT)];
    let block = || vec![lanes, held, Level::up_to(Scope::Block, GROUPS)];
    let cluster = || vec![lanes, held, Level::up_to(Scope::Block, GROUPS), Level::of(Scope::Cluster, gpu.cluster)];
    let mut rows = vec![row(warp(), Fill::Whole, 0), row(warp(), Fill::Masked, 0), row(group(), Fill::Masked, 0)];
    if clusters {
        // A cluster needs enough work. A multiprocessor runs several small blocks, which hide each
        // other's latency, so the longest rows of a single block stay with the block. Longer rows
        // go to a cluster, unless half of its threads would be idle.
        let longest = LANES_CHUNK as i64 * GROUPS;
        rows.push(row(cluster(), Fill::Whole, longest));
        rows.push(row(cluster(), Fill::Masked, longest + longest / 2));
    }
    rows.extend([row(block(), Fill::Whole, 0), row(block(), Fill::Masked, 0)]);
    if long {
        let others = || {
            let each = Level::of(Scope::Register, gpu.at_once);
            vec![Level::of(Scope::Block, gpu.most_threads), each, Level::all(Scope::Memory)]
        };
        if !staged.is_empty() {
            rows.push(row(block(), Fill::Beyond(Beyond { levels: others(), staged }), 0));
        }
        rows.push(row(block(), Fill::Beyond(Beyond { levels: others(), staged: vec![] }), 0));
    }
    rows
}

/// The length of the rows that the iterations of a loop consist of.
fn length(l: &Loop) -> Result<Size, Refusal> {
    let mut length = None;
    for statement in &l.body {
        match statement {
            Statement::Loop(inner) => {
                let [(_, extent)] = inner.dims.as_slice() else { return Err(Refusal::NotRows) };
                let extent = extent.as_size().ok_or(Refusal::NotRows)?;
                let same = *length.get_or_insert(extent) == extent;
                if !same || !is_flat(&inner.body) || !is_spread(inner) {
                    return Err(Refusal::NotRows);
                }
            }
            Statement::Store { .. } => {}
            Statement::Let { .. } | Statement::If { .. } if is_scalar(statement) => {}
            Statement::Let { .. }
            | Statement::If { .. }
            | Statement::Scatter { .. }
            | Statement::While(_)
            | Statement::Contract(_) => return Err(Refusal::NotRows),
        }
    }
    length.cloned().ok_or(Refusal::NotRows)
}

/// Whether the elements of a loop can be distributed over threads in the order by lanes.
fn is_spread(l: &Loop) -> bool {
    match &l.kind {
        LoopKind::Parallel | LoopKind::Scan => true,
        LoopKind::Reduce(reductions) => reductions.iter().all(|r| matches!(r.order, Order::Lanes | Order::Free)),
        LoopKind::Serial | LoopKind::Keyed { .. } | LoopKind::Sort => false,
    }
}

/// Which elements of an array an access of a loop touches, if its index alone decides.
pub(super) fn key(buffer: BufferId, linear: &Linear, index: IndexId) -> Option<Key> {
    let coefficient = linear.affine.coefficient(index);
    let rest = linear.affine.sub(&Affine::index(index).scale(&coefficient));
    (linear.values.is_empty() && !coefficient.is_zero()).then_some((buffer, coefficient, rest))
}

/// Finds scratch that one loop stores and other loops load at the same elements, so that each
/// thread only reads what it has written itself.
fn in_registers(program: &Program, row: &Block) -> BTreeSet<BufferId> {
    let mut keys: BTreeMap<BufferId, BTreeSet<Option<Key>>> = BTreeMap::new();
    let mut stores: BTreeMap<BufferId, usize> = BTreeMap::new();
    for statement in row {
        let (index, body) = if let Statement::Loop(l) = statement {
            (l.dims.first().map(|(index, _)| *index), &l.body[..])
        } else {
            (None, std::slice::from_ref(statement))
        };
        visit::for_each_statement(body, &mut |s| {
            let effects = s.effects();
            for Access { buffer, view, at } in effects.accesses() {
                let linear = Linear::of(program, buffer, view, at);
                let key = index.and_then(|index| key(buffer, &linear, index));
                keys.entry(buffer).or_default().insert(key);
            }
            if let Some(store) = effects.store {
                // A store in a branch counts twice, which excludes the buffer.
                let count = if body.iter().any(|top| std::ptr::eq(top, s)) { 1 } else { 2 };
                *stores.entry(store.buffer).or_default() += count;
            }
        });
    }
    let rests = |id: &BufferId| {
        let is_one = keys[id].len() == 1 && keys[id].iter().all(Option::is_some);
        program.buffers[*id].role == Role::Scratch && stores[id] == 1 && is_one
    };
    stores.keys().copied().filter(rests).collect()
}
