//! Loops that are laid out in rows: each thread has the same elements in all loops of a row, so its
//! registers keep the values that one loop loads or computes for the next.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use ir::effects::Access;
use ir::linear::Linear;
use ir::nest::{Block, BufferId, IndexId, Loop, LoopKind, Op, Prefix, Reduction, Statement, Subscript, ValueId};
use ir::order::LANES;
use ir::sabotage::{self, Bug};
use ir::sched::{Fill, Row};
use ir::{Affine, Order, visit};

use super::build::Control;
use super::emit::Emitter;
use super::fold::MergingCode;
use super::inst::{Comparison, Opcode, Reg, Space, Special, Type};
use super::loops::AT_ONCE;
use super::state::{ExecScope, Key, RegisterRow, SyncScope, ThreadElements};
use super::vectors::uniform;
use ir::merging::Merging;

/// The number of threads in a warp.
pub(super) const WARP: i64 = 32;
/// The number of threads in a group: one per canonical lane.
pub(super) const GROUP: i64 = LANES as i64;

pub(super) fn key(buffer: BufferId, linear: &Linear, index: IndexId) -> Option<Key> {
    let coefficient = linear.affine.coefficient(index);
    let rest = linear.affine.sub(&Affine::index(index).scale(&coefficient));
    (linear.values.is_empty() && !coefficient.is_zero()).then_some((buffer, coefficient, rest))
}

/// The prefix that a statement defines, if any.
fn prefix_of(statement: &Statement) -> Option<(ValueId, &Prefix)> {
    if let Statement::Let { value, op: Op::Prefix(prefix) } = statement { Some((*value, prefix)) } else { None }
}

/// A loop over a row while it is being emitted for the elements of a thread.
pub(super) struct ElementLoop<'s> {
    pub(super) index: IndexId,
    pub(super) body: &'s Block,
    pub(super) elements: &'s ThreadElements,
    /// Values that are the same for all elements.
    pub(super) uniform: BTreeSet<ValueId>,
    /// The results of loads that have been issued early, by element.
    pub(super) loaded: BTreeMap<ValueId, Vec<Reg>>,
}

impl ThreadElements {
    pub(super) fn valid(&self, place: usize) -> Option<Reg> {
        self.valid.get(place).copied()
    }
}

impl Emitter<'_> {
    /// A loop over rows. Each warp, block or cluster processes one row at a time.
    pub(super) fn rows(&mut self, l: &Loop, layout: &Row) {
        let is_dropped = |buffer| match layout.beyond() {
            Some(beyond) => beyond.staged.iter().any(|value| value.sole && value.buffer == buffer),
            None => layout.registers.contains(&buffer),
        };
        self.shared.buffers.retain(|buffer| !is_dropped(*buffer));
        let extent = self.size(&layout.length);
        self.staging = (!layout.staged().is_empty()).then(|| self.staging(layout, extent));
        let thread = self.special(Special::Tid);
        let (first, stride, lanes) = match self.mapping.sync_scope {
            SyncScope::Warp => (self.rank(), WARP, 0),
            SyncScope::Block | SyncScope::Cluster => {
                let bytes = if layout.beyond().is_some() {
                    0
                } else {
                    self.mapping.threads as usize * self.largest_state(&l.body)
                };
                let lanes = self.b().take(Space::Shared, bytes);
                let (mut group, lane) = self.group_and_lane();
                if self.mapping.sync_scope == SyncScope::Cluster {
                    let rank = self.rank();
                    group = self.b().op2(Opcode::Shr, Type::U64, rank, i64::from(GROUP.ilog2()));
                }
                let first =
                    self.b().op(Opcode::Mad, Type::S64, &[group.into(), (GROUP * layout.each()).into(), lane.into()]);
                (first, GROUP, lanes)
            }
        };
        let mut elements = self.thread_elements(first, extent, stride, layout.each());
        if layout.fill != Fill::Masked {
            elements.valid.clear();
        }
        let row =
            RegisterRow { elements, layout: layout.clone(), cached: vec![], at: None, lanes, cluster_synced: false };
        let (block, blocks) = (self.special(Special::Ctaid), self.special(Special::Nctaid));
        let axes = self.axes(&l.dims, &l.body);
        let (begin, step) = match self.mapping.sync_scope {
            SyncScope::Block => (block, blocks),
            SyncScope::Cluster => {
                let clusters = i64::from(layout.blocks().ilog2());
                let [begin, step] = [block, blocks].map(|n| self.b().op2(Opcode::Shr, Type::U64, n, clusters));
                (begin, step)
            }
            SyncScope::Warp => {
                let warps = i64::from(self.mapping.threads) / WARP;
                let warp = self.b().op2(Opcode::Shr, Type::U64, thread, 5);
                let begin = self.b().op(Opcode::Mad, Type::S64, &[block.into(), warps.into(), warp.into()]);
                (begin, self.b().op2(Opcode::Mul, Type::S64, blocks, warps))
            }
        };
        self.row = Some(row);
        self.counted(begin, axes.total, step, |e, number| {
            e.unravel(&axes, number);
            e.prefetch_staged(extent);
            e.in_exec_scope(ExecScope::Block, |e| e.block(&l.body));
            // The next row overwrites shared memory that this one reads. A cluster synchronizes in
            // the middle of each row, which is enough.
            if !e.row.as_ref().is_some_and(|row| row.cluster_synced) {
                e.sync();
            }
        });
        (self.row, self.staging) = (None, None);
    }

    /// The size of the largest state of a row's reductions in bytes.
    fn largest_state(&self, row: &Block) -> usize {
        let mut largest = 0;
        visit::for_each_statement(row, &mut |statement| {
            if let Statement::Loop(l) = statement {
                for r in l.kind.reductions() {
                    largest = largest.max(self.merging(r).bytes(self.program));
                }
            }
        });
        usize::try_from(largest).unwrap_or(0)
    }

    /// The index of the thread's group, and the thread's lane in it.
    pub(super) fn group_and_lane(&mut self) -> (Reg, Reg) {
        let thread = self.special(Special::Tid);
        let group = self.b().op2(Opcode::Shr, Type::U64, thread, i64::from(GROUP.ilog2()));
        (group, self.b().op2(Opcode::And, Type::B64, thread, GROUP - 1))
    }

    /// `count` elements from `first` on, `stride` apart, as far as they are below `end`.
    pub(super) fn thread_elements(&mut self, first: Reg, end: Reg, stride: i64, count: i64) -> ThreadElements {
        let left = self.b().op2(Opcode::Sub, Type::S64, end, first);
        let within = if sabotage::on(Bug::ThreadBound) { Comparison::Ge } else { Comparison::Gt };
        let valid: Vec<Reg> = (0..count).map(|k| self.b().set(within, Type::S64, left, k * stride)).collect();
        ThreadElements { first, stride, count: valid.len(), valid }
    }

    /// The register with an element, if the row holds it.
    pub(super) fn in_register(&self, buffer: BufferId, linear: &Linear) -> Option<Reg> {
        let row = self.row.as_ref()?;
        let (index, place) = row.at?;
        let key = key(buffer, linear, index)?;
        row.cached.iter().find(|(k, _)| *k == key)?.1.get(place).copied()
    }

    fn cache_in_register(&mut self, key: Key, value: Reg) {
        let Some(row) = &mut self.row else { return };
        match row.cached.iter_mut().find(|(k, _)| *k == key) {
            Some((_, values)) => values.push(value),
            None => row.cached.push((key, vec![value])),
        }
    }

    /// A loop over the elements of the row.
    pub(super) fn row_loop(&mut self, l: &Loop) {
        let Some(row) = self.row.as_mut() else { return };
        let empty = ThreadElements { first: row.elements.first, stride: 0, count: 0, valid: vec![] };
        let elements = std::mem::replace(&mut row.elements, empty);
        let (index, _) = l.dims[0];
        let reductions = l.kind.reductions();
        let beyond = self.row.as_ref().and_then(|row| Some((row.layout.capacity(), row.layout.beyond()?.each())));
        let inputs = self.elements(index, &l.body, &elements, reductions);
        match &l.kind {
            LoopKind::Reduce(_) if let Some((held, _)) = beyond => {
                self.reduce_long(l, reductions, (&inputs, &elements), held);
            }
            LoopKind::Parallel | LoopKind::Serial | LoopKind::Scan | LoopKind::Keyed { .. } | LoopKind::Sort
                if let Some((held, each)) = beyond =>
            {
                self.beyond_registers(|e| {
                    let axes = e.axes(&l.dims, &l.body);
                    let threads = i64::from(e.mapping.threads);
                    let thread = e.special(Special::Tid);
                    let begin = e.b().op2(Opcode::Add, Type::S64, thread, held);
                    e.counted(begin, axes.total, threads * each, |e, first| {
                        let elements = e.thread_elements(first, axes.total, threads, each);
                        e.elements(index, &l.body, &elements, &[]);
                    });
                });
            }
            LoopKind::Parallel
            | LoopKind::Serial
            | LoopKind::Scan
            | LoopKind::Keyed { .. }
            | LoopKind::Sort
            | LoopKind::Reduce(_) => self.fold_row(reductions, &inputs, &elements),
        }
        if let Some(row) = &mut self.row {
            row.elements = elements;
        }
        self.settle(&l.body);
        self.settle_staged();
    }

    /// Emits code for elements that the row does not hold in registers.
    pub(super) fn beyond_registers<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> T {
        self.await_staged();
        let row = self.row.take();
        let made = make(self);
        self.row = row;
        made
    }

    /// The reductions of a row, from the elements of each thread.
    fn fold_row(&mut self, reductions: &[Reduction], inputs: &[Vec<Vec<Reg>>], elements: &ThreadElements) {
        // A block writes to the shared memory of another one, which must exist and be done with the
        // previous row. The wait comes after the loads of this row have been issued.
        if self.mapping.sync_scope == SyncScope::Cluster
            && let Some(row) = &mut self.row
            && !std::mem::replace(&mut row.cluster_synced, true)
        {
            self.sync();
        }
        for (r, values) in reductions.iter().zip(inputs) {
            let fold = self.merging(r);
            let ones = self.ones(&r.inputs, values, elements);
            let mut state = match self.mapping.sync_scope {
                SyncScope::Warp => self.fold_in_warp(fold, &ones, elements),
                _ if r.order == Order::Lanes => self.fold_in_groups(fold, &ones, elements),
                _ => self.fold_in_block(fold, &ones, elements),
            };
            if self.mapping.sync_scope == SyncScope::Cluster {
                state = self.fold_in_cluster(fold, &state);
            }
            self.define_state(&r.results, fold, &state);
        }
    }

    /// Emits the body of a loop for the elements of a thread. Returns the inputs of reductions, by
    /// reduction and element.
    pub(super) fn elements(
        &mut self,
        index: IndexId,
        body: &Block,
        elements: &ThreadElements,
        reductions: &[Reduction],
    ) -> Vec<Vec<Vec<Reg>>> {
        let mut element_loop =
            ElementLoop { index, body, elements, uniform: uniform(body, index), loaded: BTreeMap::new() };
        self.hoist_addresses(index, body, elements);
        // The loads of the row's first loop are kept in registers anyway. Later loops are limited
        // to a few loads at a time.
        let first = self.row.as_ref().is_none_or(|row| row.cached.is_empty());
        let batch = if first { elements.count.max(1) } else { usize::try_from(AT_ONCE).unwrap_or(1) };
        // With a mask per element and many elements, registers are scarce.
        let few = elements.valid.is_empty() || elements.count <= batch;
        if reductions.is_empty() && few && self.can_divide_fast(body) {
            for begin in (0..elements.count).step_by(batch) {
                let places = begin..elements.count.min(begin + batch);
                self.load_early(&mut element_loop, places.clone());
                self.divide_batch(&element_loop, places);
            }
            self.addresses.bases.clear();
            return vec![];
        }
        let mut inputs = vec![vec![]; reductions.len()];
        let mut known: Vec<Vec<(ValueId, Reg)>> = vec![vec![]; elements.count];
        // A prefix needs all elements at once, so the body is split at prefixes.
        let pieces = body.split_inclusive(|s| prefix_of(s).is_some());
        let nothing: &[Statement] = &[];
        for piece in pieces.chain(body.is_empty().then_some(nothing)) {
            let prefix = piece.last().and_then(prefix_of);
            self.bind(index, elements.first);
            let mut scanned = vec![];
            for place in 0..elements.count {
                if place % batch == 0 {
                    let places = place..elements.count.min(place + batch);
                    self.load_early(&mut element_loop, places);
                }
                self.select_element(index, elements, place);
                known[place].iter().for_each(|(value, reg)| self.define(*value, *reg));
                for statement in &piece[..piece.len() - usize::from(prefix.is_some())] {
                    match statement {
                        Statement::Let { value, .. } if place > 0 && element_loop.uniform.contains(value) => continue,
                        Statement::Let { value, .. } if let Some(values) = element_loop.loaded.get(value) => {
                            self.define(*value, values[place]);
                        }
                        Statement::Store { buffer, at, value } => self.keep_and_store(index, *buffer, at, *value),
                        Statement::Let { .. }
                        | Statement::Scatter { .. }
                        | Statement::If { .. }
                        | Statement::Loop(_)
                        | Statement::While(_)
                        | Statement::Contract(_) => self.in_exec_scope(ExecScope::Thread, |e| e.statement(statement)),
                    }
                    visit::for_each_definition(statement, &mut |v| known[place].push((v, self.value(v))));
                }
                match prefix {
                    Some((_, prefix)) => {
                        let values = prefix.inputs.iter().filter_map(|input| input.value());
                        scanned.push(values.map(|v| self.value(v)).collect::<Vec<_>>());
                    }
                    None => {
                        for (r, all) in reductions.iter().zip(&mut inputs) {
                            all.push(r.values().map(|v| self.value(v)).collect());
                        }
                    }
                }
            }
            self.deselect_element();
            if let Some((value, prefix)) = prefix {
                let fold = Merging::of_prefix(self.dtypes(), prefix);
                let ones = self.ones(&prefix.inputs, &scanned, elements);
                let prefixes = self.prefixes(value, fold, &ones);
                for (known, state) in known.iter_mut().zip(prefixes) {
                    known.push((value, fold.values(self, &state)[prefix.field]));
                }
            }
        }
        self.addresses.bases.clear();
        inputs
    }

    /// Hoists the addresses of the first elements. The other elements are at constant offsets from
    /// them.
    fn hoist_addresses(&mut self, index: IndexId, body: &Block, elements: &ThreadElements) {
        self.bind(index, elements.first);
        for Access { buffer, view, at } in body.iter().flat_map(|statement| statement.effects().accesses()) {
            let linear = Linear::of(self.program, buffer, view, at);
            let in_registers = self.row.as_ref().is_some_and(|row| row.layout.registers.contains(&buffer));
            let in_registers =
                in_registers || self.staging.as_ref().is_some_and(|staging| staging.is_sole_copy(buffer));
            if linear.values.is_empty() && !in_registers {
                let base = self.first_address(buffer, &linear);
                self.addresses.bases.push((buffer, linear.affine, base));
            }
        }
    }

    /// Stores an element and keeps it in a register.
    fn keep_and_store(&mut self, index: IndexId, buffer: BufferId, at: &[Subscript], value: ValueId) {
        let linear = Linear::of(self.program, buffer, None, at);
        let reg = self.value(value);
        if let Some(key) = key(buffer, &linear, index) {
            self.cache_in_register(key, reg);
        }
        if self.store_staged(buffer, &linear, reg) {
            return;
        }
        if !self.row.as_ref().is_some_and(|row| row.layout.registers.contains(&buffer)) {
            self.in_exec_scope(ExecScope::Thread, |e| e.store(buffer, at, value));
        }
    }

    /// Issues the loads that depend on nothing else for several elements, so that they overlap.
    fn load_early(&mut self, element_loop: &mut ElementLoop<'_>, places: Range<usize>) {
        let ElementLoop { index, body, elements, uniform, loaded } = element_loop;
        let stored: BTreeSet<BufferId> = visit::stores(body).into_iter().collect();
        let mut loads = vec![];
        for statement in *body {
            let Statement::Let { value, op: Op::Load { buffer, view, at } } = statement else { continue };
            let linear = Linear::of(self.program, *buffer, view.as_deref(), at);
            if !stored.contains(buffer) && !uniform.contains(value) && linear.values.is_empty() {
                loads.push((*value, *buffer, view.as_deref(), at, linear));
            }
        }
        // Elements of a thread can coincide, for example in a stencil. Load each only once.
        let mut seen: Vec<(BufferId, Affine<IndexId>, Reg)> = vec![];
        for place in places.clone() {
            self.select_element(*index, elements, place);
            for (value, buffer, view, at, linear) in &loads {
                let exact = linear.affine.add(&Affine::size(self.displacement(&linear.affine)));
                let known = seen.iter().find(|(b, affine, _)| b == buffer && *affine == exact).map(|(.., reg)| *reg);
                let reg = known.unwrap_or_else(|| self.load(*buffer, *view, at));
                if known.is_none() {
                    seen.push((*buffer, exact, reg));
                }
                let all = loaded.entry(*value).or_default();
                all.truncate(place);
                all.push(reg);
            }
        }
        for (value, buffer, _, _, linear) in loads {
            if places.end == elements.count
                && let Some(key) = key(buffer, &linear, *index)
                && let Some(row) = &mut self.row
                && !row.cached.iter().any(|(k, _)| *k == key)
            {
                row.cached.push((key, loaded[&value].clone()));
            }
        }
    }

    /// Selects one of the thread's elements for the code that follows.
    pub(super) fn select_element(&mut self, index: IndexId, elements: &ThreadElements, place: usize) {
        self.masks.valid = elements.valid(place);
        self.addresses.displaced = Some((index, elements.stride * i64::try_from(place).unwrap_or(0)));
        if let Some(row) = &mut self.row {
            row.at = Some((index, place));
        }
    }

    pub(super) fn deselect_element(&mut self) {
        (self.masks.valid, self.addresses.displaced) = (None, None);
        if let Some(row) = &mut self.row {
            row.at = None;
        }
    }
}
