//! Rows in registers: loops over loops of one length, as softmax and norms are. A warp has a row of up to 256 elements, a block
//! one of up to 8192; each thread has the same eight of its elements in all of these loops, so that what one of them
//! loads or computes need not be loaded by the next.
//!
//! The elements of a thread are 32 (in a warp) or 128 apart (in a block), and neighbours are loaded by neighbours. So a thread has
//! elements of four lanes of the canonical order, or of one: then the threads that share a lane take turns.

use std::collections::{BTreeMap, BTreeSet};

use ir::build::Values;
use ir::nest::{Block, BufferId, IndexId, Loop, LoopKind, Op, Program, Reduction, Role, Statement, Subscript, ValueId};
use ir::order::{LANES, LANES_CHUNK};
use ir::{Affine, Order, ReduceOp, Size, visit};

use super::build::Control;
use super::emit::{Crew, Emitter, Team};
use super::fold::{STATE, assign};
use super::inst::{Address, Comparison, Opcode, Reg, Shuffle, Space, Special, Type};
use super::vectors::uniform;
use crate::access::Linear;
use crate::cpu::fold::Fold;
use crate::cpu::split::{Part, extent_size, is_scalar, root};

/// Elements of a row that a thread has.
const EACH: i64 = 8;
/// Threads of a warp.
const WARP: i64 = 32;
/// The longest row of a warp.
pub(super) const WARP_ROW: i64 = WARP * EACH;
/// Elements of a row that the threads of a block's group have: a group has a thread for each lane.
pub(super) const GROUP: i64 = LANES as i64 * EACH;
/// Most groups of a block.
const GROUPS: i64 = 8;
/// The longest row of a block.
pub(super) const BLOCK_ROW: i64 = GROUPS * GROUP;
/// Most reductions: each has shared memory of its own.
const MOST: usize = 32;
/// Groups that share a chunk.
const SHARE: i64 = LANES_CHUNK as i64 / GROUP;

/// A part that is rows.
pub(super) struct Rows {
    /// How long they are.
    pub(super) extent: Size,
    /// Scratch that rests in registers.
    resting: BTreeSet<BufferId>,
}

/// Which element of a buffer the elements of a loop have: the coefficient of the loop's index, and the rest.
type Key = (BufferId, Size, Affine<IndexId>);

fn key(buffer: BufferId, linear: &Linear, index: IndexId) -> Option<Key> {
    let coefficient = linear.affine.coefficient(index);
    let rest = linear.affine.sub(&Affine::index(index).scale(&coefficient));
    (linear.values.is_empty() && !coefficient.is_zero()).then_some((buffer, coefficient, rest))
}

impl Rows {
    /// A part as rows, if it is such.
    pub(super) fn of(program: &Program, part: &Part) -> Option<Rows> {
        let (_, Statement::Loop(l)) = root(part)? else { return None };
        if l.kind != LoopKind::Parallel || !part.chunks.is_empty() {
            return None;
        }
        let mut extent = None;
        for statement in &l.body {
            match statement {
                Statement::Loop(inner) => {
                    let [(_, length)] = inner.dims.as_slice() else { return None };
                    let length = extent_size(length)?;
                    let same = *extent.get_or_insert(length) == length;
                    if !same || !is_flat(&inner.body) || !is_spread(&part.kernel.values, inner) {
                        return None;
                    }
                }
                Statement::Store { .. } => {}
                other if is_scalar(other) => {}
                _ => return None,
            }
        }
        let reductions = |s: &Statement| {
            if let Statement::Loop(Loop { kind: LoopKind::Reduce(all), .. }) = s { all.len() } else { 0 }
        };
        if l.body.iter().map(reductions).sum::<usize>() > MOST {
            return None;
        }
        Some(Rows { extent: extent?.clone(), resting: resting(program, &l.body) })
    }
}

/// Whether a body has no loops.
pub(super) fn is_flat(body: &Block) -> bool {
    let mut flat = true;
    visit::for_each_statement(body, &mut |s| flat &= !matches!(s, Statement::Loop(_) | Statement::Contract(_)));
    flat
}

/// Whether the threads may have the elements of a loop in the order by lanes.
fn is_spread(values: &Values, l: &Loop) -> bool {
    match &l.kind {
        LoopKind::Parallel | LoopKind::Scan => true,
        LoopKind::Reduce(reductions) => reductions.iter().all(|r| {
            let fold = Fold { op: r.op, dtype: values[r.input] };
            matches!(r.order, Order::Lanes | Order::Free) || !fold.op.depends_on_order(fold.dtype)
        }),
        LoopKind::Serial => false,
    }
}

/// Scratch that one loop stores and loops load, each element where it was stored.
fn resting(program: &Program, row: &Block) -> BTreeSet<BufferId> {
    let mut keys: BTreeMap<BufferId, BTreeSet<Option<Key>>> = BTreeMap::new();
    let mut stores: BTreeMap<BufferId, usize> = BTreeMap::new();
    for statement in row {
        let (index, body) = match statement {
            Statement::Loop(l) => (l.dims.first().map(|(index, _)| *index), &l.body[..]),
            other => (None, std::slice::from_ref(other)),
        };
        let mut note = |buffer: BufferId, linear: &Linear| {
            _ = keys.entry(buffer).or_default().insert(index.and_then(|index| key(buffer, linear, index)));
        };
        visit::for_each_statement(body, &mut |s| match s {
            Statement::Let { op: Op::Load { buffer, view, at }, .. } => {
                note(*buffer, &Linear::of(program, *buffer, view.as_deref(), at));
            }
            Statement::Store { buffer, at, .. } => {
                // One that stands in a branch counts twice.
                let count = if body.iter().any(|top| std::ptr::eq(top, s)) { 1 } else { 2 };
                *stores.entry(*buffer).or_default() += count;
                note(*buffer, &Linear::of(program, *buffer, None, at));
            }
            _ => {}
        });
    }
    let rests = |id: &BufferId| {
        let is_one = keys[id].len() == 1 && keys[id].iter().all(Option::is_some);
        program.buffers[*id].role == Role::Scratch && stores[id] == 1 && is_one
    };
    stores.keys().copied().filter(rests).collect()
}

/// A prefix with its operation and what it is over, if a statement is one.
fn prefix_of(statement: &Statement) -> Option<(ValueId, ReduceOp, ValueId)> {
    if let Statement::Let { value, op: Op::Prefix(op, input) } = statement { Some((*value, *op, *input)) } else { None }
}

/// The elements of a loop that a thread has.
pub(super) struct Mine {
    /// The number of the first one.
    pub(super) first: Reg,
    /// From one to the next.
    pub(super) stride: i64,
    /// Whether there are as many; none is there behind one that is not.
    pub(super) valid: Vec<Reg>,
}

/// The row that the threads of a crew have.
pub(super) struct Row {
    mine: Mine,
    resting: BTreeSet<BufferId>,
    /// Elements that were loaded or stored.
    kept: Vec<(Key, Vec<Reg>)>,
    /// The loop at hand and which of the thread's elements.
    at: Option<(IndexId, usize)>,
    /// Shared memory: a place for each lane of two chunks.
    lanes: i64,
}

impl Emitter<'_> {
    /// A loop over rows, of which each crew takes one at a time.
    pub(super) fn rows(&mut self, l: &Loop, rows: &Rows) {
        let resting = &rows.resting;
        self.shared.retain(|buffer| !resting.contains(buffer));
        let extent = self.size(&rows.extent);
        let thread = self.special(Special::Tid);
        let (first, stride, lanes) = match self.crew {
            Crew::Warp => (self.rank(), WARP, 0),
            Crew::Block => {
                let group = self.b().op2(Opcode::Shr, Type::U64, thread, i64::from(LANES.ilog2()));
                let lane = self.b().op2(Opcode::And, Type::B64, thread, LANES as i64 - 1);
                let first = self.b().op(Opcode::Mad, Type::S64, &[group.into(), GROUP.into(), lane.into()]);
                let lanes = self.b().take(Space::Shared, 2 * LANES * STATE as usize);
                (first, LANES as i64, lanes)
            }
        };
        let mine = self.mine(first, extent, stride, EACH);
        let row = Row { mine, resting: resting.clone(), kept: vec![], at: None, lanes };
        let (block, blocks) = (self.special(Special::Ctaid), self.special(Special::Nctaid));
        let axes = self.axes(&l.dims, &l.body);
        let (begin, step) = match self.crew {
            Crew::Block => (block, blocks),
            Crew::Warp => {
                let warps = i64::from(self.threads) / WARP;
                let warp = self.b().op2(Opcode::Shr, Type::U64, thread, 5);
                let begin = self.b().op(Opcode::Mad, Type::S64, &[block.into(), warps.into(), warp.into()]);
                (begin, self.b().op2(Opcode::Mul, Type::S64, blocks, warps))
            }
        };
        self.row = Some(row);
        self.counted(begin, axes.total, step, |e, number| {
            e.unravel(&axes, number);
            e.as_team(Team::Block, |e| e.block(&l.body));
            // The next row writes anew what this one reads.
            e.sync();
        });
        self.row = None;
    }

    /// So many elements from the first on, of those below an end.
    pub(super) fn mine(&mut self, first: Reg, end: Reg, stride: i64, count: i64) -> Mine {
        let left = self.b().op2(Opcode::Sub, Type::S64, end, first);
        let valid = (0..count).map(|k| self.b().set(Comparison::Gt, Type::S64, left, k * stride)).collect();
        Mine { first, stride, valid }
    }

    /// What the thread has of an element, if the row keeps it.
    pub(super) fn kept(&self, buffer: BufferId, linear: &Linear) -> Option<Reg> {
        let row = self.row.as_ref()?;
        let (index, place) = row.at?;
        let key = key(buffer, linear, index)?;
        row.kept.iter().find(|(k, _)| *k == key)?.1.get(place).copied()
    }

    fn keep(&mut self, key: Key, value: Reg) {
        let Some(row) = &mut self.row else { return };
        match row.kept.iter_mut().find(|(k, _)| *k == key) {
            Some((_, values)) => values.push(value),
            None => row.kept.push((key, vec![value])),
        }
    }

    /// A loop over the row's elements.
    pub(super) fn row_loop(&mut self, l: &Loop) {
        let Some(row) = self.row.as_mut() else { return };
        let empty = Mine { first: row.mine.first, stride: 0, valid: vec![] };
        let mine = std::mem::replace(&mut row.mine, empty);
        let (index, _) = l.dims[0];
        let reductions: &[Reduction] = if let LoopKind::Reduce(reductions) = &l.kind { reductions } else { &[] };
        let inputs = self.elements(index, &l.body, &mine, reductions);
        for (r, inputs) in reductions.iter().zip(&inputs) {
            let fold = Fold { op: r.op, dtype: self.dtype(r.input) };
            let ones = self.ones(fold, inputs, &mine);
            let state = match self.crew {
                Crew::Warp => self.fold_in_warp(fold, &ones, &mine.valid),
                Crew::Block if r.order == Order::Lanes && fold.op.depends_on_order(fold.dtype) => {
                    self.fold_in_turns(fold, &ones, &mine.valid)
                }
                Crew::Block => self.fold_in_block(fold, &ones, &mine.valid),
            };
            let result = fold.result(self.b(), &state);
            self.define(r.result, result);
        }
        if let Some(row) = &mut self.row {
            row.mine = mine;
        }
        self.settle(&l.body);
    }

    /// The body of a loop for the elements that a thread has; what it gives to reductions, by reduction and element.
    pub(super) fn elements(
        &mut self,
        index: IndexId,
        body: &Block,
        mine: &Mine,
        reductions: &[Reduction],
    ) -> Vec<Vec<Reg>> {
        let uniform = uniform(body, index);
        let loaded = self.load_first(index, body, mine, &uniform);
        let mut inputs = vec![vec![]; reductions.len()];
        let mut known: Vec<Vec<(ValueId, Reg)>> = vec![vec![]; mine.valid.len()];
        // A prefix is one operation of all elements.
        let pieces = body.split_inclusive(|s| prefix_of(s).is_some());
        let nothing: &[Statement] = &[];
        for piece in pieces.chain(body.is_empty().then_some(nothing)) {
            let prefix = piece.last().and_then(prefix_of);
            self.bind(index, mine.first);
            let mut scanned = vec![];
            for place in 0..mine.valid.len() {
                self.turn_to(index, mine, place);
                known[place].iter().for_each(|(value, reg)| self.define(*value, *reg));
                for statement in &piece[..piece.len() - usize::from(prefix.is_some())] {
                    match statement {
                        Statement::Let { value, .. } if place > 0 && uniform.contains(value) => continue,
                        Statement::Let { value, .. } if let Some(values) = loaded.get(value) => {
                            self.define(*value, values[place]);
                        }
                        Statement::Store { buffer, at, value } => self.keep_and_store(index, *buffer, at, *value),
                        other => self.as_team(Team::Thread, |e| e.statement(other)),
                    }
                    visit::for_each_definition(statement, &mut |v| known[place].push((v, self.value(v))));
                }
                match prefix {
                    Some((_, _, input)) => scanned.push(self.value(input)),
                    None => reductions.iter().zip(&mut inputs).for_each(|(r, all)| all.push(self.value(r.input))),
                }
            }
            self.turn_from();
            if let Some((value, op, input)) = prefix {
                let fold = Fold { op, dtype: self.dtype(input) };
                let ones = self.ones(fold, &scanned, mine);
                let prefixes = self.prefixes(fold, &ones);
                let prefixes = self.past_chunk(value, fold, prefixes);
                for (known, state) in known.iter_mut().zip(prefixes) {
                    known.push((value, fold.result(self.b(), &state)));
                }
            }
        }
        inputs
    }

    /// An element that a loop stores, which the row keeps.
    fn keep_and_store(&mut self, index: IndexId, buffer: BufferId, at: &[Subscript], value: ValueId) {
        let linear = Linear::of(self.program, buffer, None, at);
        if let Some(key) = key(buffer, &linear, index) {
            let value = self.value(value);
            self.keep(key, value);
        }
        if !self.row.as_ref().is_some_and(|row| row.resting.contains(&buffer)) {
            self.as_team(Team::Thread, |e| e.store(buffer, at, value));
        }
    }

    /// Loads that stand on nothing else, for all elements: they are under way together.
    fn load_first(
        &mut self,
        index: IndexId,
        body: &Block,
        mine: &Mine,
        uniform: &BTreeSet<ValueId>,
    ) -> BTreeMap<ValueId, Vec<Reg>> {
        let stored: BTreeSet<BufferId> = visit::stores(body).into_iter().collect();
        let mut loaded = BTreeMap::new();
        self.bind(index, mine.first);
        for statement in body {
            let Statement::Let { value, op: Op::Load { buffer, view, at } } = statement else { continue };
            let linear = Linear::of(self.program, *buffer, view.as_deref(), at);
            if stored.contains(buffer) || uniform.contains(value) || !linear.values.is_empty() {
                continue;
            }
            let mut values = vec![];
            for place in 0..mine.valid.len() {
                self.turn_to(index, mine, place);
                values.push(self.load(*buffer, view.as_deref(), at));
            }
            if let Some(key) = key(*buffer, &linear, index)
                && let Some(row) = &mut self.row
                && !row.kept.iter().any(|(k, _)| *k == key)
            {
                row.kept.push((key, values.clone()));
            }
            loaded.insert(*value, values);
        }
        loaded
    }

    /// What follows is about one of a thread's elements.
    fn turn_to(&mut self, index: IndexId, mine: &Mine, place: usize) {
        self.valid = Some(mine.valid[place]);
        self.ahead = Some((index, mine.stride * i64::try_from(place).unwrap_or(0)));
        if let Some(row) = &mut self.row {
            row.at = Some((index, place));
        }
    }

    fn turn_from(&mut self) {
        (self.valid, self.ahead) = (None, None);
        if let Some(row) = &mut self.row {
            row.at = None;
        }
    }

    /// Elements as states.
    pub(super) fn ones(&mut self, fold: Fold, inputs: &[Reg], mine: &Mine) -> Vec<Vec<Reg>> {
        let mut number = mine.first;
        let mut ones = vec![];
        for (k, input) in inputs.iter().enumerate() {
            if fold.is_arg() && k > 0 {
                number = self.b().op2(Opcode::Add, Type::S64, number, mine.stride);
            }
            ones.push(fold.one(self.b(), *input, number));
        }
        ones
    }

    /// Takes a state into a variable one where a predicate holds.
    pub(super) fn add_where(&mut self, fold: Fold, valid: Reg, state: &[Reg], more: &[Reg]) {
        let sum = fold.merge(self.b(), state, more);
        self.b().guarded((valid, true), |b| assign(b, state, &sum));
    }

    /// Folds four lanes, 32 apart, and those of the other threads of the warp: the first thread's state is all of them.
    pub(super) fn fold_warp(&mut self, fold: Fold, lanes: &[Vec<Reg>]) -> Vec<Reg> {
        let low = fold.merge(self.b(), &lanes[0], &lanes[2]);
        let high = fold.merge(self.b(), &lanes[1], &lanes[3]);
        let state = fold.merge(self.b(), &low, &high);
        self.fold_threads(fold, state)
    }

    /// Folds the states of a warp's threads in halves.
    fn fold_threads(&mut self, fold: Fold, mut state: Vec<Reg>) -> Vec<Reg> {
        for half in [16, 8, 4, 2, 1] {
            let other = fold.further(self.b(), &state, half);
            state = fold.merge(self.b(), &state, &other);
        }
        state
    }

    /// The row of a warp: each thread has elements of four lanes.
    fn fold_in_warp(&mut self, fold: Fold, ones: &[Vec<Reg>], valid: &[Reg]) -> Vec<Reg> {
        let lanes: Vec<Vec<Reg>> = (0..4).map(|_| fold.variable(self.b())).collect();
        for (k, (one, valid)) in ones.iter().zip(valid).enumerate() {
            self.add_where(fold, *valid, &lanes[k % 4], one);
        }
        let state = self.fold_warp(fold, &lanes);
        fold.of(self.b(), &state, Shuffle::Of, 0)
    }

    /// The row of a block, in any order: each warp has a state, and each folds them all.
    fn fold_in_block(&mut self, fold: Fold, ones: &[Vec<Reg>], valid: &[Reg]) -> Vec<Reg> {
        let state = fold.variable(self.b());
        for (one, valid) in ones.iter().zip(valid) {
            self.add_where(fold, *valid, &state, one);
        }
        let state = self.fold_threads(fold, state);
        let size = fold.bytes();
        let at = self.b().take(Space::Shared, (WARP * size) as usize);
        let (thread, threads) = (self.special(Special::Tid), self.special(Special::Ntid));
        let [warp, warps] = [thread, threads].map(|n| self.b().op2(Opcode::Shr, Type::U64, n, 5));
        let place = self.b().op2(Opcode::And, Type::B64, thread, WARP - 1);
        let first = self.b().set(Comparison::Eq, Type::S64, place, 0);
        self.when(first, |e| {
            let own = e.b().element(Space::Shared, at, warp, size);
            fold.store(e.b(), Space::Shared, &state, own);
        });
        self.sync();
        let state = fold.variable(self.b());
        let some = self.b().set(Comparison::Lt, Type::S64, place, warps);
        self.when(some, |e| {
            let other = e.b().element(Space::Shared, at, place, size);
            let other = fold.load(e.b(), Space::Shared, other);
            assign(e.b(), &state, &other);
        });
        let state = self.fold_threads(fold, state);
        fold.of(self.b(), &state, Shuffle::Of, 0)
    }

    /// The row of a block by lanes: the threads of a lane take turns, then a warp folds the lanes of each chunk.
    fn fold_in_turns(&mut self, fold: Fold, ones: &[Vec<Reg>], valid: &[Reg]) -> Vec<Reg> {
        let size = fold.bytes();
        let at = self.row.as_ref().map_or(0, |row| row.lanes);
        let chunks = self.b().take(Space::Shared, 2 * STATE as usize);
        let (thread, threads) = (self.special(Special::Tid), self.special(Special::Ntid));
        let group = self.b().op2(Opcode::Shr, Type::U64, thread, i64::from(LANES.ilog2()));
        let groups = self.b().op2(Opcode::Shr, Type::U64, threads, i64::from(LANES.ilog2()));
        let chunk = self.b().op2(Opcode::Shr, Type::U64, group, i64::from(SHARE.ilog2()));
        let share = self.b().op2(Opcode::And, Type::B64, group, SHARE - 1);
        let lane = self.b().op2(Opcode::And, Type::B64, thread, LANES as i64 - 1);
        let place = self.b().op(Opcode::Mad, Type::S64, &[chunk.into(), (LANES as i64).into(), lane.into()]);
        let place = self.b().element(Space::Shared, at, place, size);
        let turns = self.b().op2(Opcode::Min, Type::S64, groups, SHARE);
        let zero = self.int(0);
        self.counted(zero, turns, 1, |e, turn| {
            let mine = e.b().set(Comparison::Eq, Type::S64, share, turn);
            e.when(mine, |e| {
                let state = fold.variable(e.b());
                let later = e.b().set(Comparison::Gt, Type::S64, turn, 0);
                e.when(later, |e| {
                    let before = fold.load(e.b(), Space::Shared, place);
                    assign(e.b(), &state, &before);
                });
                for (one, valid) in ones.iter().zip(valid) {
                    e.add_where(fold, *valid, &state, one);
                }
                fold.store(e.b(), Space::Shared, &state, place);
            });
            e.sync();
        });
        let in_first = self.b().set(Comparison::Lt, Type::S64, lane, WARP);
        let heads = self.b().set(Comparison::Eq, Type::S64, share, 0);
        let folds = self.b().op2(Opcode::And, Type::Pred, in_first, heads);
        self.when(folds, |e| {
            let quarter = |quarter: i64| Address { offset: place.offset + WARP * size * quarter, ..place };
            let lanes: Vec<Vec<Reg>> = (0..4).map(|k| fold.load(e.b(), Space::Shared, quarter(k))).collect();
            let state = e.fold_warp(fold, &lanes);
            let first = e.b().set(Comparison::Eq, Type::S64, lane, 0);
            e.when(first, |e| {
                let own = e.b().element(Space::Shared, chunks, chunk, STATE);
                fold.store(e.b(), Space::Shared, &state, own);
            });
        });
        self.sync();
        let result = |k: i64| Address { base: None, offset: chunks + k * STATE };
        let state = fold.load(self.b(), Space::Shared, result(0));
        let state: Vec<Reg> = state.into_iter().map(|reg| self.b().copy(reg)).collect();
        let two = self.b().set(Comparison::Gt, Type::S64, groups, SHARE);
        self.when(two, |e| {
            let second = fold.load(e.b(), Space::Shared, result(1));
            fold.add(e.b(), &state, &second);
        });
        state
    }
}
