//! Runs parallel loops around contractions so that the contractions are products of whole matrices
//! again: an iteration alone multiplies a row. Each statement of the body becomes a loop of its own
//! (loop distribution), in one of two ways.
//!
//! On a core, they run in tiles of iterations: what one of them stores for the tile is in the cache
//! for the next.
//!
//! ```text
//! parallel i < n {                        parallel tile < ceil(n / t) {
//!   contract j < m over k < d {             count = min(t, n - t * tile)
//!     left load %x[i, k]                    contract i1 < count, j < m over k < d {
//!     right load %y[k, j]                     left load %x[t * tile + i1, k]
//!     epilogue store %z[j]                    right load %y[k, j]
//!   }                               ->        epilogue store %z[i1, j]
//!   reduce j < m { load %z[j] }             }
//! }                                         parallel i2 < count {
//!                                             reduce j < m { load %z[i2, j] }
//!                                           }
//!                                         }
//! ```
//!
//! A product is faster on long tiles, and a few iterations in short tiles still keep several
//! threads busy. So the length of a tile grows with the number of iterations.
//!
//! Elsewhere they run over all iterations, one loop after the other, and scratch becomes an array.
//!
//! Values that a later loop needs are passed on through memory, except scalars that are the same in
//! all iterations.

use std::collections::{BTreeMap, BTreeSet};

use ir::choice::Choice;
use ir::nest::{
    Block, Buffer, BufferId, Contraction, Extent, IndexId, Kernel, Loop, LoopKind, Op, Program, Role, Statement,
    ValueId, is_length,
};
use ir::rewrite::{for_each_affine_mut, replace_values};
use ir::sabotage::{self, Bug};
use ir::sched::{Run, Scheduled, is_scalar};
use ir::{Affine, BinaryOp, Size, visit};

use crate::forward::is_scratch;
use crate::maker::{Maker, below, subscripts};

/// Distributes loops around contractions.
pub fn rows(scheduled: &mut Scheduled, choice: &mut Choice) {
    let machine = scheduled.machine;
    scheduled.rewrite(|program, mut part| {
        let mut body = vec![];
        let mut parts = vec![];
        let alone = part.kernel.body.iter().filter(|s| !is_scalar(s)).count() == 1;
        for statement in std::mem::take(&mut part.kernel.body) {
            let Statement::Loop(l) = statement else {
                body.push(statement);
                continue;
            };
            if l.kind != LoopKind::Parallel || !l.multiplies() {
                body.push(Statement::Loop(l));
                continue;
            }
            let tile = machine.rows.filter(|_| choice.grants(true));
            let tiles = tile.and_then(|shortest| in_tiles(Maker { program, kernel: &mut part.kernel }, &l, shortest));
            if let Some(tiles) = tiles {
                body.push(Statement::Loop(tiles));
                continue;
            }
            let loops = one_by_one(Maker { program, kernel: &mut part.kernel }, &l, alone);
            if !alone {
                body.extend(loops);
                continue;
            }
            // Each with the scalars before it: scratch belongs to one loop of a kernel.
            for statement in loops {
                let scalar = is_scalar(&statement);
                body.push(statement);
                if !scalar {
                    let kernel = Kernel { body: body.clone(), ..part.kernel.clone() };
                    parts.push(part.sibling(&parts.len().to_string(), kernel, Run::Whole));
                    body.pop();
                }
            }
        }
        if parts.is_empty() || body.iter().any(Statement::may_fault) {
            part.kernel.body = body;
            parts.push(part);
        }
        parts
    });
}

/// The longest tiles are almost this many times as long as the shortest that pay for packing.
const LONGEST: i64 = 12;
/// With this many iterations, tiles are of half of that length.
const HALFWAY: i64 = 3200;
/// Fewer iterations than this go in the shortest tiles.
const SOME: i64 = HALFWAY / (LONGEST - 1) + 1;
/// Fewer iterations than this go in tiles that a product reads in place: the shortest others would
/// leave threads without work.
const FEW: i64 = 32;
/// The length of these.
const IN_PLACE: i64 = 4;

/// The length of the tiles of a loop: short for few iterations, else a multiple of `shortest`.
fn length(program: &Program, lengths: &[&Size], shortest: i64) -> Size {
    let constant = Size::constant;
    if !lengths.iter().all(|length| is_length(&program.symbols, length)) {
        return constant(shortest);
    }
    let n = lengths.iter().fold(constant(1), |n, length| &n * *length);
    let times = (&constant(LONGEST) * &n).floor_div(&(&n + &constant(HALFWAY)));
    let long = &constant(shortest) * &(&times + &below(&n, SOME));
    &long - &(&constant(shortest - IN_PLACE) * &below(&n, FEW))
}

/// The loop in tiles, if its contractions have rows along some index.
fn in_tiles(mut maker: Maker<'_>, l: &Loop, shortest: i64) -> Option<Loop> {
    let along = *l.along_rows(maker.program).last()?;
    let at = l.dims.iter().position(|(index, _)| *index == along)?;
    let lengths = l.dims.iter().map(|(_, extent)| extent.as_size()).collect::<Option<Vec<_>>>()?;
    let (all, length) = (lengths[at].clone(), length(maker.program, &lengths, shortest));
    let tile = maker.index("tile");
    let mut dims = l.dims.clone();
    dims[at] = (tile, Extent::size(all.ceil_div(&length)));
    let mut body = vec![];
    let first = Affine::index(tile).scale(&length);
    let end = Affine::size(all).sub(&Affine::constant(i64::from(sabotage::on(Bug::LastRow))));
    let left = maker.define(&mut body, Op::Affine(end.sub(&first)));
    let most = maker.define(&mut body, Op::Affine(Affine::size(length.clone())));
    let count = maker.define(&mut body, Op::Binary(BinaryOp::Min, left, most));
    let apart = Apart {
        dims: vec![(along, Extent::Value(count))],
        shape: vec![length],
        first,
        role: Role::Scratch,
        kind: LoopKind::Serial,
        owns: true,
        column: l.column(maker.program).map(|_| 0),
    };
    body.extend(distribute(maker, &l.body, &apart));
    Some(Loop { dims, kind: LoopKind::Parallel, body })
}

/// A loop over all iterations for each statement. Each may have scratch of its own if they become
/// kernels.
fn one_by_one(maker: Maker<'_>, l: &Loop, kernels: bool) -> Block {
    let shape = l.dims.iter().filter_map(|(_, extent)| extent.as_size().cloned()).collect();
    let column = l.column(maker.program).and_then(|column| l.dims.iter().position(|(index, _)| *index == column));
    let (dims, first) = (l.dims.clone(), Affine::constant(0));
    let apart = Apart { dims, shape, first, role: Role::Temp, kind: LoopKind::Parallel, owns: kernels, column };
    distribute(maker, &l.body, &apart)
}

/// The iterations of the loops in place of one.
struct Apart {
    /// The indices that each of them has of its own, by those of the loop.
    dims: Vec<(IndexId, Extent)>,
    /// The lengths of these indices, and so of the axes of what the loops pass on.
    shape: Vec<Size>,
    /// The value of the index where those of the loops are 0.
    first: Affine<IndexId>,
    /// The role of the arrays between them.
    role: Role,
    /// The kind of a loop with scratch that no other has: an iteration has its own, unless one
    /// overwrites that of the one before.
    kind: LoopKind,
    /// Whether the loops may have scratch of their own.
    owns: bool,
    /// The number of the index that counts columns, if one does. It goes behind the indices and
    /// axes of an iteration, the others before these: so arrays are as the contraction without a
    /// loop would store them.
    column: Option<usize>,
}

impl Apart {
    /// Puts items for the indices around those of an iteration.
    fn place<T: Clone>(&self, items: &[T], own: &mut Vec<T>) {
        let mut items = items.to_vec();
        let column = self.column.map(|at| items.remove(at));
        own.splice(0..0, items);
        own.extend(column);
    }
}

/// Consecutive statements that stay together.
enum Piece {
    Product(Contraction),
    Others(Block),
}

impl Piece {
    /// The buffers that it loads and stores.
    fn buffers(&self) -> BTreeSet<BufferId> {
        let of = |block: &[Statement]| visit::loads(block).into_iter().chain(visit::stores(block)).collect();
        match self {
            Piece::Product(c) => of(&[Statement::Contract(c.clone())]),
            Piece::Others(block) => of(block),
        }
    }
}

/// Values and scratch of an iteration, which pass from loop to loop through memory.
struct Passed<'a> {
    maker: Maker<'a>,
    apart: &'a Apart,
    /// Where a value is stored.
    values: BTreeMap<ValueId, BufferId>,
    /// Where the scratch of the loop lies that several pieces access.
    scratch: BTreeMap<BufferId, BufferId>,
}

fn distribute(mut maker: Maker<'_>, body: &Block, apart: &Apart) -> Block {
    let stores: BTreeSet<BufferId> = visit::stores(body).into_iter().collect();
    let (mut out, pieces) = pieces(body, apart);
    let mentions: Vec<BTreeSet<BufferId>> = pieces.iter().map(Piece::buffers).collect();
    let several = |buffer: &BufferId| !apart.owns || mentions.iter().filter(|piece| piece.contains(buffer)).count() > 1;
    let mut scratch = BTreeMap::new();
    for id in stores.into_iter().filter(several) {
        if !is_scratch(maker.program, id) {
            continue;
        }
        let Buffer { name, dtype, mut shape, .. } = maker.program.buffers[id].clone();
        apart.place(&apart.shape, &mut shape);
        scratch.insert(id, maker.buffer(&name, "rows", dtype, shape, apart.role.clone()));
    }
    let values = crossing(&pieces).into_iter().map(|value| {
        let dtype = maker.kernel.values[value];
        let name = maker.kernel.name.clone();
        (value, maker.buffer(&name, &value.to_string(), dtype, apart.shape.clone(), apart.role.clone()))
    });
    let values = values.collect();
    let mut passed = Passed { maker, apart, values, scratch };
    out.extend(pieces.into_iter().map(|piece| passed.loop_of(piece)));
    out
}

/// The statements that define scalars, the same in all iterations, and the others in pieces.
fn pieces(body: &Block, apart: &Apart) -> (Block, Vec<Piece>) {
    let (mut scalars, mut pieces) = (vec![], vec![]);
    let mut varying = BTreeSet::new();
    for statement in body {
        let mut changes = false;
        let mut affine = |a: &Affine<IndexId>| {
            changes |= a.terms().iter().any(|(index, _)| apart.dims.iter().any(|(i, _)| i == index));
        };
        visit::for_each_own_affine(statement, &mut affine);
        visit::for_each_use(statement, &mut |value| changes |= varying.contains(&value));
        let effects = statement.effects();
        // An element that only iterations load may not exist if there are none.
        let pure = !effects.may_fault && effects.load.is_none();
        if pure && !changes && matches!(statement, Statement::Let { .. }) {
            scalars.push(statement.clone());
            continue;
        }
        visit::for_each_definition(statement, &mut |value| _ = varying.insert(value));
        match (statement, pieces.last_mut()) {
            // Work around a product that needs none of it stays together.
            (Statement::Contract(c), Some(Piece::Others(block))) if is_apart(block, statement) => {
                pieces.insert(pieces.len() - 1, Piece::Product(c.clone()));
            }
            (Statement::Contract(c), _) => pieces.push(Piece::Product(c.clone())),
            (_, Some(Piece::Others(block))) => block.push(statement.clone()),
            _ => pieces.push(Piece::Others(vec![statement.clone()])),
        }
    }
    (scalars, pieces)
}

/// Whether a statement may run before a block that stands before it.
fn is_apart(block: &Block, statement: &Statement) -> bool {
    let this = std::slice::from_ref(statement);
    let mut defined = BTreeSet::new();
    block.iter().for_each(|s| visit::for_each_definition(s, &mut |value| _ = defined.insert(value)));
    let stored = visit::stores(block);
    !statement.may_fault()
        && !block.iter().any(Statement::may_fault)
        && defined.is_disjoint(&visit::free_values(&this.to_vec()))
        && !visit::loads(this).iter().any(|buffer| stored.contains(buffer))
}

/// The values that one piece defines and another one uses.
fn crossing(pieces: &[Piece]) -> BTreeSet<ValueId> {
    let (mut earlier, mut crossing) = (BTreeSet::new(), BTreeSet::new());
    for piece in pieces {
        match piece {
            Piece::Product(c) => {
                let all = vec![Statement::Contract(c.clone())];
                crossing.extend(visit::free_values(&all).intersection(&earlier).copied());
            }
            Piece::Others(block) => {
                crossing.extend(visit::free_values(block).intersection(&earlier).copied());
                block.iter().for_each(|s| visit::for_each_definition(s, &mut |value| _ = earlier.insert(value)));
            }
        }
    }
    crossing
}

impl Passed<'_> {
    /// The loop that a piece becomes.
    fn loop_of(&mut self, piece: Piece) -> Statement {
        let own = |(index, extent): &(IndexId, Extent)| {
            let name = self.maker.kernel.indices[*index].name.clone();
            (self.maker.index(&name), extent.clone())
        };
        let dims: Vec<(IndexId, Extent)> = self.apart.dims.iter().map(own).collect();
        let mut statement = match piece {
            Piece::Product(mut c) => {
                for factor in [&mut c.left, &mut c.right] {
                    let renamed = self.load(&dims, &mut factor.body, &[factor.value]);
                    factor.value = renamed.get(&factor.value).copied().unwrap_or(factor.value);
                }
                self.load(&dims, &mut c.epilogue, &[]);
                self.apart.place(&dims, &mut c.free);
                Statement::Contract(c)
            }
            Piece::Others(mut body) => {
                let mut defined = BTreeSet::new();
                body.iter().for_each(|s| visit::for_each_definition(s, &mut |value| _ = defined.insert(value)));
                self.load(&dims, &mut body, &[]);
                let is_own = |b: &BufferId| is_scratch(self.maker.program, *b) && !self.scratch.contains_key(b);
                let own = visit::stores(&body).iter().any(is_own);
                let stored = self.values.iter().filter(|(value, _)| defined.contains(value));
                body.extend(stored.map(|(value, buffer)| Statement::Store {
                    buffer: *buffer,
                    at: subscripts(&dims),
                    value: *value,
                }));
                let kind = if own { self.apart.kind.clone() } else { LoopKind::Parallel };
                Statement::Loop(Loop { dims: dims.clone(), kind, body })
            }
        };
        for inner in statement.blocks_mut() {
            self.widen(&dims, inner);
        }
        for_each_affine_mut(&mut statement, &mut |affine| {
            *affine = affine.substitute(&mut |index| {
                let own = self.apart.dims.iter().zip(&dims).find(|((old, _), _)| *old == index);
                own.map_or_else(|| Affine::index(index), |(_, (own, _))| self.apart.first.add(&Affine::index(*own)))
            });
        });
        statement
    }

    /// Loads the values from other loops that a block uses, with names of its own for them, which
    /// are returned.
    fn load(&mut self, dims: &[(IndexId, Extent)], block: &mut Block, also: &[ValueId]) -> BTreeMap<ValueId, ValueId> {
        let mut used = visit::free_values(block);
        used.extend(also);
        let mut renamed = BTreeMap::new();
        let mut loads = vec![];
        for (value, buffer) in &self.values {
            let mut defined = false;
            block.iter().for_each(|s| visit::for_each_definition(s, &mut |v| defined |= v == *value));
            if used.contains(value) && !defined {
                let op = Op::Load { buffer: *buffer, view: None, at: subscripts(dims) };
                renamed.insert(*value, self.maker.define(&mut loads, op));
            }
        }
        replace_values(block, &renamed);
        block.splice(0..0, loads);
        renamed
    }

    /// Gives the accesses to scratch the axes that it has now.
    fn widen(&self, dims: &[(IndexId, Extent)], block: &mut Block) {
        for statement in block {
            match statement {
                Statement::Let { op: Op::Load { buffer, view, at }, .. }
                    if let Some(rows) = self.scratch.get(buffer) =>
                {
                    *buffer = *rows;
                    self.apart.place(&subscripts(dims), at);
                    if let Some(view) = view {
                        self.apart.place(&self.apart.shape, view);
                    }
                }
                Statement::Store { buffer, at, .. } | Statement::Scatter { buffer, at, .. }
                    if let Some(rows) = self.scratch.get(buffer) =>
                {
                    *buffer = *rows;
                    self.apart.place(&subscripts(dims), at);
                }
                Statement::Let { .. }
                | Statement::Store { .. }
                | Statement::Scatter { .. }
                | Statement::If { .. }
                | Statement::Loop(_)
                | Statement::While(_)
                | Statement::Contract(_) => {}
            }
            statement.blocks_mut().for_each(|inner| self.widen(dims, inner));
        }
    }
}
