//! Loops over rows of products in sweeps (`ir::sched::Sweeps`), by warp groups. A block has 128
//! rows. One thread copies the rows of the left factor once, and in each sweep the tiles of the
//! right factor, in turns with those of the second product's matrix. Two groups of four warps have
//! 64 rows each. They multiply 64 columns at a time (128 in the online form with a second product),
//! and run the statements of these elements in the registers that hold the sums, while the tensor
//! cores go on with the second product. The weights of that product stay in registers too.
//!
//! The fragment of a thread is that of `wgmma`: of two rows, eight apart, it has two neighbouring
//! columns of every eight.

mod elements;
mod masks;
mod online;
pub(in crate::ptx) mod streamed;
mod tiles;

use std::collections::BTreeMap;

use ir::groups::Groups;
use ir::merging::Merging;
use ir::nest::{Loop, Program, Reduction, Statement, ValueId};
use ir::order::{LANES, LANES_CHUNK};
use ir::sched::{Machine, Part, Sweep, SweepForm, SweepSizes, Sweeps, Weighted, narrow};
use ir::{Dtype, Order, Scalar, Size, visit};

use super::bulk::IN_ROW;
use super::pipeline::Ring;
use super::stages::{BARRIERS, COPY, MULTIPLY, Stages, Turn, WARP};
use super::units::FactorView;
use super::wgmma::{BOX, PERIOD, ROW, STEP};
use crate::ptx::build::Control;
use crate::ptx::emit::Emitter;
use crate::ptx::fold::{Levels, MergingCode, assign, shuffled};
use crate::ptx::inst::{Address, Comparison, Opcode, Reg, Shuffle, Space, Special, TileFactors, TileType, Type};
use crate::ptx::scalar;
use crate::ptx::state::ExecScope;
use crate::ptx::tile::length;
use crate::settings::Math;
use elements::Shortcuts;
use masks::Corners;
use tiles::LastMatrix;

/// The rows of a block, and the columns of a tile.
const ROWS: i64 = 128;
const COLUMNS: i64 = LANES as i64;
/// The columns that are multiplied at a time.
const AT_ONCE: i64 = 64;
/// The rows of a warp.
const OF_WARP: i64 = 16;
/// The stages for tiles of the right factors.
const STAGES: i64 = 4;
/// The states of a sum whose order is free, so that additions need not wait for each other.
const IN_ANY_ORDER: usize = 4;

/// The code for a loop in sweeps.
pub(in crate::ptx) struct InSweeps<'l> {
    sweeps: Sweeps<'l>,
    groups: Groups,
    /// The least rows: with fewer, most of a block would have none.
    fewest: i64,
    /// The most inner indices of the product, and the most results of the second one.
    width: i64,
    ty: TileType,
    math: Math,
    /// The factors of the product, and the matrix of the second one.
    factors: [FactorView; 2],
    matrix: Option<FactorView>,
}

impl<'l> InSweeps<'l> {
    /// The ways to run a part in sweeps.
    pub(in crate::ptx) fn all(program: &Program, part: &'l Part, l: &Loop, math: Math) -> Vec<InSweeps<'l>> {
        let Some(SweepSizes { fewest, widest, .. }) = Machine::PTX.sweeps else { return vec![] };
        let form = if math == Math::Fast { SweepForm::Online } else { SweepForm::Exact };
        let widths = (1..).map(|boxes| boxes * IN_ROW).take_while(|width| *width <= widest);
        let all = widths.filter_map(|width| InSweeps::of(program, part, l, [fewest, width, COLUMNS], (math, form)));
        all.filter(|code| code.factors.iter().all(|factor| factor.deep)).collect()
    }

    /// The code for tiles with a number of columns, which comes last.
    fn of(
        program: &Program,
        part: &'l Part,
        l: &Loop,
        [fewest, width, across]: [i64; 3],
        (math, form): (Math, SweepForm),
    ) -> Option<InSweeps<'l>> {
        let values = &part.kernel.values;
        let sweeps = Sweeps::of(program, &part.kernel, form)?;
        let (rows, batch) = l.dims.iter().cloned().partition(|(index, _)| *index == sweeps.rows.index);
        let c = sweeps.scores;
        let groups = Groups { batch, rows, columns: c.free.clone(), inner: c.reduce.clone() };
        let [of_rows, of_columns] = sweeps.factors;
        let (left, dtype) = narrow(values, of_rows)?;
        let (right, _) = narrow(values, of_columns)?;
        let left = FactorView::of(program, of_rows, left, (&groups, &groups.rows), ROWS)?;
        let right = FactorView::of(program, of_columns, right, (&groups, &groups.columns), across)?;
        let mut matrix = None;
        if let Some(Weighted { product, .. }) = &sweeps.weighted {
            let (value, of_matrix) = narrow(values, &product.right)?;
            let groups = Groups {
                batch: groups.batch.clone(),
                rows: groups.rows.clone(),
                columns: product.free.clone(),
                inner: product.reduce.clone(),
            };
            let view = FactorView::of(program, &product.right, value, (&groups, &groups.columns), IN_ROW)?;
            if view.deep || of_matrix != dtype {
                return None;
            }
            matrix = Some(view);
        }
        let ty = if dtype == Dtype::F16 { TileType::F16 } else { TileType::Bf16 };
        Some(InSweeps { groups, fewest, width, ty, math, factors: [left, right], matrix, sweeps })
    }

    /// The sizes that it is for: each at most the number next to it.
    pub(in crate::ptx) fn at_most(&self) -> Vec<(Size, i64)> {
        let lacking = &Size::constant(self.fewest) - self.sweeps.rows.count;
        let mut at_most = vec![(length(&self.groups.inner), self.width), (lacking, 0)];
        at_most.extend(self.sweeps.weighted.as_ref().map(|weighted| (weighted.columns.count.clone(), self.width)));
        at_most
    }

    /// The end of its function's name.
    pub(in crate::ptx) fn suffix(&self) -> String {
        format!("_{}", self.width)
    }

    /// The threads of a block.
    pub(in crate::ptx) fn threads() -> u32 {
        (MULTIPLY + COPY) as u32
    }

    /// The size of the dynamic shared memory in bytes.
    pub(in crate::ptx) fn memory(&self) -> usize {
        let (ring, rows) = (self.ring(STAGES), self.ring(1));
        let barriers = (ring.stages + rows.stages) * BARRIERS;
        (ring.stages * ring.stage() + rows.stage() + barriers + ring.align - 1) as usize
    }

    /// The number of blocks along each axis: the batch, then the rows.
    pub(in crate::ptx) fn counts(&self) -> Vec<Size> {
        let batch = self.groups.batch.iter().filter_map(|(_, extent)| extent.as_size().cloned());
        batch.chain([self.sweeps.rows.count.ceil_div(&ROWS.into())]).collect()
    }

    /// A ring of tiles of one factor.
    fn ring(&self, stages: i64) -> Ring {
        Ring {
            threads: InSweeps::threads(),
            tile: [ROWS, 0],
            depth: self.width * 2,
            padding: 0,
            align: PERIOD,
            stages,
            lead: 0,
        }
    }

    /// The boxes of a row of a tile.
    fn boxes(&self) -> i64 {
        self.width / IN_ROW
    }
}

/// A thread among those that multiply.
struct MultiplyingThread {
    /// Its number in its warp, and among the four that share rows.
    lane: Reg,
    quad: Reg,
    /// Its first row among those of its warp, and of the block.
    row: Reg,
    low: Reg,
    /// The number of its group of warps.
    group: Reg,
}

/// The rows of a block.
struct BlockRows {
    first: Reg,
    /// Whether all of them are in bounds.
    whole: Reg,
}

/// The rows of a thread.
struct ThreadRow {
    number: Reg,
    /// Whether it is in bounds, and whether this thread also makes its stores.
    valid: Reg,
    stores: Reg,
    /// The values of the row so far.
    values: BTreeMap<ValueId, Reg>,
    /// The values of its elements that are computed in another way.
    shortcuts: Shortcuts,
}

/// A reduction under way.
struct Running<'l> {
    reduction: &'l Reduction,
    merging: Merging,
    /// For each row of the thread the state, or those of its lanes, with the results of chunks.
    states: [Vec<Vec<Reg>>; 2],
    chunks: [Option<Levels>; 2],
}

/// The state of the threads that multiply.
struct Multiplying<'s, 'l> {
    code: &'s InSweeps<'l>,
    tiles: &'s Stages,
    turn: Turn,
    /// The descriptors of the block's rows, of the group's, and of the first stage.
    rows: Reg,
    left: Reg,
    right: Reg,
    /// The sums of both products.
    scores: Vec<Reg>,
    results: Vec<Reg>,
    /// The weights of each half of a tile.
    weights: [Vec<Reg>; 2],
    /// The first column of the thread in a tile, and its first row among those of its warp.
    column: Reg,
    row: Reg,
    always: Reg,
    never: Reg,
    /// Whether this is the first thread of its warp, which says when the warp is done with a stage.
    leads: Reg,
}

/// A tile of columns.
struct Tile {
    /// Its first column, and the number of columns.
    from: Reg,
    end: Reg,
    /// Whether all its elements are in bounds.
    whole: Reg,
    /// Whether an element comes to nothing if it is masked, where elements are.
    idle: Option<Reg>,
}

impl Emitter<'_> {
    /// Runs the rows of this block in sweeps.
    pub(in crate::ptx) fn in_sweeps(&mut self, code: &InSweeps<'_>) {
        self.mapping.resident = Some(1);
        self.fast_exp = code.math == Math::Fast;
        let (ring, row_ring) = (code.ring(STAGES), code.ring(1));
        let base = self.ring_base(ring);
        let rows_base = self.b().op2(Opcode::Add, Type::S64, base, ring.stages * ring.stage());
        let barriers = self.b().op2(Opcode::Add, Type::S64, rows_base, row_ring.stage());
        let row_barriers = self.b().op2(Opcode::Add, Type::S64, barriers, ring.stages * BARRIERS);
        let tiles = Stages { ring, base, barriers };
        let rows = Stages { ring: row_ring, base: rows_base, barriers: row_barriers };
        self.copy_and_multiply(
            &[tiles, rows],
            |e| e.copy_for_sweeps(code, &rows, &tiles),
            |e| e.multiply_in_sweeps(code, &rows, &tiles),
        );
    }

    /// Emits a loop over the first rows of this block's tiles.
    fn for_each_rows(&mut self, code: &InSweeps<'_>, make: impl FnOnce(&mut Self, Reg)) {
        let counts = self.tile_counts(code.counts());
        let [block, blocks] = [Special::Ctaid, Special::Nctaid].map(|s| self.special(s));
        self.counted(block, counts.all, blocks, |e, number| {
            let digits = e.digits(number, &counts);
            for ((index, _), digit) in code.groups.batch.iter().rev().zip(&digits[1..]) {
                e.bind(*index, *digit);
            }
            let mut first = digits[0];
            if code.sweeps.sweeps.iter().any(|sweep| sweep.mask.as_ref().is_some_and(|mask| mask.is_nothing)) {
                // The last rows of causal attention take longest.
                let count = e.size(&code.sweeps.rows.count.ceil_div(&ROWS.into()));
                let last = e.b().op2(Opcode::Sub, Type::S64, count, 1);
                first = e.b().op2(Opcode::Sub, Type::S64, last, first);
            }
            let first = e.b().op2(Opcode::Mul, Type::S64, first, ROWS);
            make(e, first);
        });
    }

    /// Copies the tiles of all factors.
    fn copy_for_sweeps(&mut self, code: &InSweeps<'_>, rows: &Stages, tiles: &Stages) {
        let [left, right] = &code.factors;
        let maps = [left, right].map(|factor| self.tensor_map(factor.view.clone()));
        let matrix = code.matrix.as_ref().map(|matrix| (matrix, self.tensor_map(matrix.view.clone())));
        let (row_turn, turn) = (self.first_turn(), self.first_turn());
        let columns = self.size(code.sweeps.columns.count);
        self.for_each_rows(code, |e, first| {
            let place = |e: &mut Self, factor: &FactorView| -> Vec<Reg> {
                let batch: Vec<Reg> = factor.batch.iter().map(|index| e.index(*index)).collect();
                batch.into_iter().map(|number| e.word(number)).collect()
            };
            let deep = |e: &mut Self, (factor, map): (&FactorView, Reg), stages: &Stages, turn, first| {
                let batch = place(e, factor);
                let first = e.word(first);
                let (stage, full) = e.fill_stage(stages, turn);
                for number in 0..code.boxes() {
                    let to = Address { base: Some(stage), offset: number * ROWS * ROW };
                    let inner = e.b().mov(Type::U32, number * IN_ROW);
                    e.b().copy_box(to, map, [vec![inner, first], batch.clone()].concat(), full);
                }
                e.advance(stages, turn);
            };
            deep(e, (left, maps[0]), rows, row_turn, first);
            for (number, sweep) in (1..).zip(&code.sweeps.sweeps) {
                let weighted = code.sweeps.weighted.as_ref().is_some_and(|weighted| weighted.sweep == number);
                let matrix = matrix.as_ref().filter(|_| weighted);
                e.for_each_columns(code, (sweep, first), columns, |e, from| {
                    deep(e, (right, maps[1]), tiles, turn, from);
                    let Some((matrix, map)) = matrix else { return };
                    let batch = place(e, matrix);
                    let (stage, full) = e.fill_stage(tiles, turn);
                    for half in 0..COLUMNS / AT_ONCE {
                        let first = e.b().op2(Opcode::Add, Type::S64, from, half * AT_ONCE);
                        let first = e.word(first);
                        for number in 0..code.boxes() {
                            let to = Address { base: Some(stage), offset: (half * code.boxes() + number) * BOX };
                            let column = e.b().mov(Type::U32, number * IN_ROW);
                            e.b().copy_box(to, *map, [vec![column, first], batch.clone()].concat(), full);
                        }
                    }
                    e.advance(tiles, turn);
                });
            }
        });
    }

    /// Emits a loop over the first columns of a sweep's tiles, but for those in which no element
    /// has a score, if that comes to nothing.
    fn for_each_columns(
        &mut self,
        code: &InSweeps<'_>,
        (sweep, first): (&Sweep<'_>, Reg),
        columns: Reg,
        make: impl FnOnce(&mut Self, Reg),
    ) {
        let start = self.int(0);
        self.counted(start, columns, COLUMNS, |e, from| match &sweep.mask {
            Some(mask) if mask.is_nothing => {
                let tile = Corners::of(e, [first, from], [ROWS, COLUMNS]);
                let has_scores = e.has_scores(code, mask, &tile);
                e.when(has_scores, |e| make(e, from));
            }
            _ => make(e, from),
        });
    }

    fn multiplying_thread(&mut self) -> MultiplyingThread {
        let (thread, warp) = (self.special(Special::Tid), self.warp());
        let lane = self.b().op2(Opcode::And, Type::B64, thread, WARP - 1);
        let quad = self.b().op2(Opcode::And, Type::B64, lane, 3);
        let row = self.b().op2(Opcode::Shr, Type::U64, lane, 2);
        let low = self.b().op(Opcode::Mad, Type::S64, &[warp.into(), OF_WARP.into(), row.into()]);
        let group = self.b().op2(Opcode::Shr, Type::U64, warp, 2);
        MultiplyingThread { lane, quad, row, low, group }
    }

    /// Multiplies, and runs the statements of rows, elements and results.
    fn multiply_in_sweeps(&mut self, code: &InSweeps<'_>, rows: &Stages, tiles: &Stages) {
        let zero = scalar::constant(self.b(), Scalar::F32(0.0));
        let none = self.b().mov(Type::B32, 0);
        let variables = |e: &mut Self, count: i64, first| (0..count).map(|_| e.b().copy(first)).collect::<Vec<_>>();
        let MultiplyingThread { lane, quad, row, low, group } = self.multiplying_thread();
        let left = self.b().op(Opcode::Mad, Type::S64, &[group.into(), BOX.into(), rows.base.into()]);
        let rescales = code.sweeps.sweeps.iter().any(|sweep| sweep.rescaled.is_some());
        let at_once = if rescales && code.matrix.is_some() { COLUMNS } else { AT_ONCE };
        let weights = if code.matrix.is_some() { AT_ONCE / 4 } else { 0 };
        let state = Multiplying {
            code,
            tiles,
            turn: self.first_turn(),
            rows: self.descriptor_at(rows.base),
            left: self.descriptor_at(left),
            right: self.descriptor_at(tiles.base),
            scores: variables(self, at_once / 2, zero),
            results: variables(self, if code.matrix.is_some() { code.width / 2 } else { 0 }, zero),
            weights: [variables(self, weights, none), variables(self, weights, none)],
            column: self.b().op2(Opcode::Mul, Type::S64, quad, 2),
            row,
            always: self.b().set(Comparison::Eq, Type::B32, none, 0),
            never: self.b().set(Comparison::Ne, Type::B32, none, 0),
            leads: self.b().set(Comparison::Eq, Type::S64, lane, 0),
        };
        let first_of_quad = self.b().set(Comparison::Eq, Type::S64, quad, 0);
        let row_turn = self.first_turn();
        let count = self.size(code.sweeps.rows.count);
        self.for_each_rows(code, |e, first| {
            let (mut of_thread, whole) = e.thread_rows((first, low, count), first_of_quad);
            let rows_of_block = BlockRows { first, whole };
            let [full, free] = e.barriers(rows, row_turn);
            e.await_phase(full, row_turn.parity);
            e.row_statements(code, &mut of_thread, 0);
            for (number, sweep) in (1..).zip(&code.sweeps.sweeps) {
                e.sweep(&state, (number, sweep), &mut of_thread, &rows_of_block);
                if number == code.sweeps.sweeps.len() {
                    e.b().guarded(state.leads, |b| b.arrive(free));
                }
                e.row_statements(code, &mut of_thread, number);
            }
            e.advance(rows, row_turn);
            e.results(&state, &mut of_thread);
        });
    }

    /// The rows of a thread in a block with a first row, and whether all rows of that are in
    /// bounds. `low` is the number of the thread's first one in the block.
    fn thread_rows(&mut self, (first, low, count): (Reg, Reg, Reg), first_of_quad: Reg) -> ([ThreadRow; 2], Reg) {
        let last = self.b().op2(Opcode::Add, Type::S64, first, ROWS);
        let whole = self.b().set(Comparison::Le, Type::S64, last, count);
        let first = self.b().op2(Opcode::Add, Type::S64, first, low);
        let rows = [0, 8].map(|below| {
            let number = self.b().op2(Opcode::Add, Type::S64, first, below);
            let valid = self.b().set(Comparison::Lt, Type::S64, number, count);
            let stores = self.b().op2(Opcode::And, Type::Pred, valid, first_of_quad);
            ThreadRow { number, valid, stores, values: BTreeMap::new(), shortcuts: Shortcuts::new() }
        });
        (rows, whole)
    }

    /// Defines the values of a row.
    fn enter_row(&mut self, code: &InSweeps<'_>, row: &ThreadRow) {
        self.bind(code.sweeps.rows.index, row.number);
        row.values.iter().for_each(|(value, reg)| self.define(*value, *reg));
    }

    /// Runs the statements of rows that a number of sweeps comes before.
    fn row_statements(&mut self, code: &InSweeps<'_>, rows: &mut [ThreadRow; 2], before: usize) {
        for row in rows {
            self.enter_row(code, row);
            for (_, statement) in code.sweeps.row_statements.iter().filter(|(sweeps, _)| *sweeps == before) {
                let mask = if let Statement::Store { .. } = statement { row.stores } else { row.valid };
                self.masked(mask, |e| e.in_exec_scope(ExecScope::Thread, |e| e.statement(statement)));
                visit::for_each_definition(statement, &mut |value| _ = row.values.insert(value, self.value(value)));
            }
        }
    }

    /// Runs a sweep.
    fn sweep(
        &mut self,
        state: &Multiplying<'_, '_>,
        (number, sweep): (usize, &Sweep<'_>),
        rows: &mut [ThreadRow; 2],
        of_block: &BlockRows,
    ) {
        let code = state.code;
        let weighted = code.sweeps.weighted.as_ref().filter(|weighted| weighted.sweep == number);
        let running = self.begin_reductions(code, sweep);
        if weighted.is_some() {
            let zero = scalar::constant(self.b(), Scalar::F32(0.0));
            state.results.iter().for_each(|sum| self.b().assign(*sum, zero));
        }
        if code.math == Math::Fast {
            rows.iter_mut().for_each(|row| self.take_shortcuts(code, (&sweep.elements, weighted), row));
        }
        match &sweep.rescaled {
            Some(rescaled) => self.rescaled_sweep(state, (sweep, rescaled, weighted), &running, rows, of_block),
            None => self.tiles(state, (sweep, weighted), &running, rows, of_block),
        }
        self.end_reductions(code, running, rows);
    }

    /// The states of a sweep's reductions, but for a maximum that its sums follow.
    fn begin_reductions<'l>(&mut self, code: &InSweeps<'_>, sweep: &Sweep<'l>) -> Vec<Running<'l>> {
        let maximum = sweep.rescaled.as_ref().map(|rescaled| rescaled.maximum);
        let others = sweep.reductions.iter().filter(|r| maximum.is_none_or(|maximum| !std::ptr::eq(**r, maximum)));
        others
            .map(|reduction| {
                let merging = Merging::of(self.dtypes(), reduction);
                let by_lanes = reduction.order == Order::Lanes && code.math == Math::Exact;
                let lanes = match reduction.order {
                    Order::Lanes if by_lanes => LANES / 4,
                    Order::Lanes => IN_ANY_ORDER,
                    _ => 1,
                };
                let states = [(); 2].map(|()| (0..lanes).map(|_| merging.variable(self)).collect());
                let chunks = [(); 2].map(|()| {
                    let bytes = Levels::bytes(merging, self.program);
                    let at = by_lanes.then(|| self.b().take(Space::Local, bytes));
                    at.map(|at| Levels { fold: merging, space: Space::Local, at })
                });
                Running { reduction, merging, states, chunks }
            })
            .collect()
    }

    /// Gives rows the results of a sweep's reductions.
    fn end_reductions(&mut self, code: &InSweeps<'_>, running: Vec<Running<'_>>, rows: &mut [ThreadRow; 2]) {
        let count = code.sweeps.columns.count.ceil_div(&Size::constant(LANES_CHUNK as i64));
        for Running { reduction, merging, states, chunks } in running {
            for ((row, states), chunks) in rows.iter_mut().zip(states).zip(chunks) {
                let state = match chunks {
                    Some(chunks) => {
                        let count = self.size(&count);
                        chunks.finish(self, count)
                    }
                    None => self.fold_quad(merging, states),
                };
                let values = merging.values(self, &state);
                row.values.extend(reduction.results.iter().copied().zip(values));
            }
        }
    }

    /// Ends a chunk of the order by lanes, if it ends with a tile.
    fn end_chunk(&mut self, running: &[Running<'_>], (from, last, end): (Reg, Reg, Reg)) {
        if running.iter().all(|running| running.chunks[0].is_none()) {
            return;
        }
        let rest = self.b().op2(Opcode::And, Type::B64, last, LANES_CHUNK as i64 - 1);
        let is_full = self.b().set(Comparison::Eq, Type::S64, rest, 0);
        let is_last = self.b().set(Comparison::Ge, Type::S64, last, end);
        let ends = self.b().op2(Opcode::Or, Type::Pred, is_full, is_last);
        self.when(ends, |e| {
            let number = e.b().op2(Opcode::Shr, Type::U64, from, i64::from(LANES_CHUNK.ilog2()));
            for Running { merging, states, chunks, .. } in running {
                for (states, chunks) in states.iter().zip(chunks) {
                    let Some(chunks) = chunks else { continue };
                    let result = e.fold_quad(*merging, states.clone());
                    chunks.push(e, number, &result);
                    states.iter().for_each(|state| merging.clear(e, state));
                }
            }
        });
    }

    /// Waits for the tile of the next stage. Returns its descriptor, and where the stage is given
    /// back.
    fn full_stage(&mut self, state: &Multiplying<'_, '_>) -> (Reg, Address) {
        let Multiplying { tiles, turn, right, .. } = state;
        let [full, free] = self.barriers(tiles, *turn);
        self.await_phase(full, turn.parity);
        let stage = self.b().op2(Opcode::Mul, Type::S64, turn.number, tiles.ring.stage() / 16);
        (self.b().op2(Opcode::Add, Type::S64, *right, stage), free)
    }

    /// Starts to multiply the group's rows with some of a tile's columns: those from one on, and
    /// their number.
    fn start_scores(&mut self, state: &Multiplying<'_, '_>, columns: Reg, [from, count]: [i64; 2]) {
        let by = TileFactors { ty: state.code.ty, columns: count };
        let scores = &state.scores[..count as usize / 2];
        self.b().fence_products();
        for step in 0..state.code.width / STEP {
            let (number, step) = (step * STEP / IN_ROW, step % (IN_ROW / STEP));
            let offset = number * ROWS * ROW + step * STEP * 2;
            let left = self.b().op2(Opcode::Add, Type::S64, state.left, offset / 16);
            let right = self.b().op2(Opcode::Add, Type::S64, columns, (offset + from * ROW) / 16);
            let accumulate = if offset == 0 { state.never } else { state.always };
            self.b().multiply_tiles((by, [false; 2]), scores.to_vec(), [left, right], accumulate);
        }
        self.b().group_products();
    }

    /// Starts to multiply the weights of halves of a tile with the rows of the matrix.
    fn start_results(&mut self, state: &Multiplying<'_, '_>, matrix: Reg, halves: &[i64], accumulate: Reg) {
        let by = TileFactors { ty: state.code.ty, columns: state.code.width };
        self.b().fence_products();
        let mut accumulate = accumulate;
        for half in halves {
            let (weights, _) = state.weights[usize::from(*half > 0)].as_chunks::<4>();
            for (step, weights) in (0..).zip(weights) {
                let offset = half * state.code.boxes() * BOX + step * STEP * ROW;
                let right = self.b().op2(Opcode::Add, Type::S64, matrix, offset / 16);
                self.b().multiply_rows((by, true), state.results.clone(), *weights, right, accumulate);
                accumulate = state.always;
            }
        }
        self.b().group_products();
    }

    /// Merges the states of a row, which four neighbouring threads have. All return the result.
    fn fold_quad(&mut self, merging: Merging, mut states: Vec<Vec<Reg>>) -> Vec<Reg> {
        // Halves of the lanes, down to the two neighbours of a thread.
        while states.len() > 2 {
            let upper = states.split_off(states.len() / 2);
            states = states.iter().zip(upper).map(|(lower, upper)| merging.merge(self, lower, &upper)).collect();
        }
        let thread = self.special(Special::Tid);
        for distance in [2, 1] {
            let bit = self.b().op2(Opcode::And, Type::B64, thread, distance);
            let is_upper = self.b().set(Comparison::Ne, Type::S64, bit, 0);
            let by = u32::try_from(distance).unwrap_or(0);
            for state in &mut states {
                let [above, below] = [Shuffle::Down, Shuffle::Up].map(|whose| shuffled(self.b(), state, whose, by));
                let [lower, upper] = [(below, state.clone()), (state.clone(), above)].map(|(of_upper, of_lower)| {
                    let own = of_upper.iter().zip(&of_lower);
                    own.map(|(upper, lower)| self.either_of(*upper, *lower, is_upper)).collect::<Vec<Reg>>()
                });
                *state = merging.merge(self, &lower, &upper);
            }
        }
        let mut states = states.into_iter();
        let first = states.next().unwrap_or_default();
        states.fold(first, |state, next| merging.merge(self, &state, &next))
    }

    fn either_of(&mut self, yes: Reg, no: Reg, condition: Reg) -> Reg {
        let to = self.b().copy(no);
        self.b().guarded(condition, |b| assign(b, &[to], &[yes]));
        to
    }
}
