//! Sweeps over products that sum over any number of inner indices. The tiles of both factors come
//! in stages of 64 inner indices, as they do for a product that is stored (`bulk`). A thread has
//! the sums of all its elements in a tile of 128 or 256 columns, and runs their statements when
//! these are complete, 64 columns at a time. There is one block for each multiprocessor, so copies
//! for the next tile arrive meanwhile.

use ir::sched::{Machine, Part, Sweep, SweepForm, SweepSizes};
use ir::{Order, Scalar, Size};

use super::super::bulk::{IN_ROW, MEMORY};
use super::super::pipeline::Ring;
use super::super::stages::{BARRIERS, Stages, Turn};
use super::super::units::FactorView;
use super::super::wgmma::{BOX, PERIOD, ROW, STEP};
use super::{AT_ONCE, COLUMNS, InSweeps, Multiplying, MultiplyingThread, ROWS, ThreadRow, Tile};
use crate::ptx::build::Control;
use crate::ptx::emit::Emitter;
use crate::ptx::inst::{Comparison, Opcode, Reg, Special, TileFactors, Type};
use crate::ptx::scalar;
use crate::ptx::split::LEAST;
use crate::ptx::tile::{FEW_ROWS, length};
use crate::settings::Math;
use ir::nest::{Loop, Program};
use ir::sabotage::{self, Bug};

/// The accumulators of a thread for the columns whose statements run together.
const OF_PART: usize = AT_ONCE as usize / 2;

/// The code for a loop in sweeps, with both factors in stages.
pub(in crate::ptx) struct Streamed<'l> {
    /// A stage is as wide as its `width`.
    code: InSweeps<'l>,
    /// The columns of a tile, and the most of the product, if other code has wider tiles.
    columns: i64,
    most: Option<i64>,
    sizes: SweepSizes,
}

/// A tile of sums under way.
struct Sums<'s> {
    by: TileFactors,
    stages: &'s Stages,
    turn: Turn,
    /// The descriptors of both factors' tiles in the first stage.
    tiles: [Reg; 2],
    /// The accumulators of the thread.
    all: Vec<Reg>,
}

impl<'l> Streamed<'l> {
    /// The ways to run a part in such sweeps.
    pub(in crate::ptx) fn all(program: &Program, part: &'l Part, l: &Loop, math: Math) -> Vec<Streamed<'l>> {
        let Some(sizes) = Machine::PTX.sweeps else { return vec![] };
        let of = |columns: i64, most: Option<i64>| {
            let code = InSweeps::of(program, part, l, [sizes.fewest, IN_ROW, columns], (math, SweepForm::Exact))?;
            let code = Some(code).filter(|code| code.sweeps.weighted.is_none())?;
            Some(Streamed { code, columns, most, sizes })
        };
        let Some(narrow) = of(COLUMNS, None) else { return vec![] };
        if narrow.has_lanes() {
            return vec![narrow];
        }
        // A wide tile needs less memory traffic for a product.
        [of(COLUMNS, Some(COLUMNS)), of(sizes.tile, None)].into_iter().flatten().collect()
    }

    /// Whether a sum goes by lanes. A thread has a state for each of its lanes, and no registers
    /// for them next to the sums of a wide tile.
    fn has_lanes(&self) -> bool {
        let mut reductions = self.code.sweeps.sweeps.iter().flat_map(|sweep| &sweep.reductions);
        self.code.math == Math::Exact && reductions.any(|r| r.order == Order::Lanes)
    }

    /// The sizes that it is for: each at most the number next to it.
    pub(in crate::ptx) fn at_most(&self) -> Vec<(Size, i64)> {
        let InSweeps { sweeps, groups, fewest, .. } = &self.code;
        let (rows, columns) = (sweeps.rows.count, sweeps.columns.count);
        let mut at_most = vec![(&Size::constant(*fewest) - rows, 0)];
        at_most.extend(self.most.map(|most| (columns.clone(), most)));
        // A block goes over all columns, so there must be blocks enough, if these are more than a
        // tile.
        let batch = groups.batch.iter().filter_map(|(_, extent)| extent.as_size());
        let all = batch.fold(rows.clone(), |all, n| &all * n);
        let lacking = &Size::constant(self.sizes.many) - &all;
        let further = &columns.ceil_div(&self.columns.into()) - &Size::constant(1);
        at_most.push((&lacking * &further, 0));
        if let Some(most) = self.sizes.again(sweeps.sweeps.len()) {
            at_most.push((length(&groups.inner), most));
        }
        // The product alone has its sums in parts, if it has few rows. Its rows may be the columns
        // here.
        if std::ptr::eq(sweeps.factors[1], &raw const sweeps.scores.left) {
            let lacking = &Size::constant(FEW_ROWS) - columns;
            at_most.push((&lacking * &length(&groups.inner).floor_div(&LEAST.into()), 0));
        }
        at_most
    }

    /// The end of its function's name.
    pub(in crate::ptx) fn suffix(&self) -> String {
        format!("_bulk{}", self.columns)
    }

    /// The size of the dynamic shared memory in bytes.
    pub(in crate::ptx) fn memory(&self) -> usize {
        let ring = self.ring();
        (ring.stages * (ring.stage() + BARRIERS) + ring.align - 1) as usize
    }

    /// The number of blocks along each axis, the one that varies fastest last. If all of the batch
    /// has the same rows, these stay in the L2 cache for it.
    pub(in crate::ptx) fn counts(&self) -> Vec<Size> {
        let mut counts = self.code.counts();
        if self.shares_rows() {
            counts.rotate_right(1);
        }
        counts
    }

    fn shares_rows(&self) -> bool {
        self.code.factors[0].batch.is_empty()
    }

    /// As many stages as there is memory for.
    fn ring(&self) -> Ring {
        let tile = [ROWS, self.columns];
        let ring =
            Ring { threads: InSweeps::threads(), tile, depth: ROW, padding: 0, align: PERIOD, stages: 1, lead: 0 };
        Ring { stages: (MEMORY - ring.align) / (ring.stage() + BARRIERS), ..ring }
    }
}

impl Emitter<'_> {
    /// Runs the rows of this block in sweeps.
    pub(in crate::ptx) fn in_streamed_sweeps(&mut self, streamed: &Streamed<'_>) {
        self.mapping.resident = Some(1);
        self.fast_exp = streamed.code.math == Math::Fast;
        let ring = streamed.ring();
        let base = self.ring_base(ring);
        let barriers = self.b().op2(Opcode::Add, Type::S64, base, ring.stages * ring.stage());
        let stages = Stages { ring, base, barriers };
        self.copy_and_multiply(
            &[stages],
            |e| e.copy_streams(streamed, &stages),
            |e| e.multiply_streams(streamed, &stages),
        );
    }

    /// Emits a loop over the first rows of this block's tiles.
    fn for_each_streamed_rows(&mut self, streamed: &Streamed<'_>, make: impl FnOnce(&mut Self, Reg)) {
        let counts = self.tile_counts(streamed.counts());
        let [block, blocks] = [Special::Ctaid, Special::Nctaid].map(|s| self.special(s));
        self.counted(block, counts.all, blocks, |e, number| {
            let mut digits = e.digits(number, &counts);
            let row = if streamed.shares_rows() { digits.len() - 1 } else { 0 };
            let row = digits.remove(row);
            for ((index, _), digit) in streamed.code.groups.batch.iter().rev().zip(digits) {
                e.bind(*index, digit);
            }
            let first = e.b().op2(Opcode::Mul, Type::S64, row, ROWS);
            make(e, first);
        });
    }

    /// Copies the tiles of both factors.
    fn copy_streams(&mut self, streamed: &Streamed<'_>, stages: &Stages) {
        let code = &streamed.code;
        let maps = code.factors.each_ref().map(|factor| self.tensor_map(factor.view.clone()));
        let turn = self.first_turn();
        let (columns, inner) = (self.size(code.sweeps.columns.count), self.size(&length(&code.groups.inner)));
        self.for_each_streamed_rows(streamed, |e, first| {
            let place = |e: &mut Self, factor: &FactorView, first: Reg| -> Vec<Reg> {
                let batch = factor.batch.iter().map(|index| e.index(*index));
                let all: Vec<Reg> = std::iter::once(first).chain(batch).collect();
                all.into_iter().map(|number| e.word(number)).collect()
            };
            let rows = place(e, &code.factors[0], first);
            for _ in &code.sweeps.sweeps {
                let start = e.int(0);
                e.counted(start, columns, streamed.columns, |e, from| {
                    let fixed = [rows.clone(), place(e, &code.factors[1], from)];
                    let start = e.int(0);
                    e.counted(start, inner, IN_ROW, |e, from| {
                        let (stage, full) = e.fill_stage(stages, turn);
                        let from = e.word(from);
                        let factors = code.factors.iter().zip(maps);
                        for ((factor, fixed), at) in factors.zip(&fixed).zip(stages.ring.offsets()) {
                            e.copy_boxes(factor, fixed, from, at, (stage, full));
                        }
                        e.advance(stages, turn);
                    });
                });
            }
        });
    }

    /// Multiplies, and runs the statements of rows and elements.
    fn multiply_streams(&mut self, streamed: &Streamed<'_>, stages: &Stages) {
        let code = &streamed.code;
        let zero = scalar::constant(self.b(), Scalar::F32(0.0));
        let none = self.b().mov(Type::B32, 0);
        let MultiplyingThread { lane, quad, row, low, group } = self.multiplying_thread();
        let left = self.b().op(Opcode::Mad, Type::S64, &[group.into(), BOX.into(), stages.base.into()]);
        let right = self.b().op2(Opcode::Add, Type::S64, stages.base, stages.ring.offsets()[1].offset);
        let sums = Sums {
            by: TileFactors { ty: code.ty, columns: streamed.columns },
            stages,
            turn: self.first_turn(),
            tiles: [left, right].map(|at| self.descriptor_at(at)),
            all: (0..streamed.columns / 2).map(|_| self.b().copy(zero)).collect(),
        };
        let column = self.b().op2(Opcode::Mul, Type::S64, quad, 2);
        let always = self.b().set(Comparison::Eq, Type::B32, none, 0);
        let never = self.b().set(Comparison::Ne, Type::B32, none, 0);
        let leads = self.b().set(Comparison::Eq, Type::S64, lane, 0);
        let parts: Vec<Multiplying<'_, '_>> = sums
            .all
            .chunks(OF_PART)
            .map(|scores| Multiplying {
                code,
                tiles: stages,
                turn: sums.turn,
                rows: sums.tiles[0],
                left: sums.tiles[0],
                right: sums.tiles[1],
                scores: scores.to_vec(),
                results: vec![],
                weights: [vec![], vec![]],
                column,
                row,
                always,
                never,
                leads,
            })
            .collect();
        let first_of_quad = self.b().set(Comparison::Eq, Type::S64, quad, 0);
        let count = self.size(code.sweeps.rows.count);
        self.for_each_streamed_rows(streamed, |e, first| {
            let (mut rows, whole) = e.thread_rows((first, low, count), first_of_quad);
            e.row_statements(code, &mut rows, 0);
            for (number, sweep) in (1..).zip(&code.sweeps.sweeps) {
                e.streamed_sweep(&parts, &sums, sweep, &mut rows, whole);
                e.row_statements(code, &mut rows, number);
            }
        });
    }

    /// Runs a sweep. The parts of a tile are one after the other.
    fn streamed_sweep(
        &mut self,
        parts: &[Multiplying<'_, '_>],
        sums: &Sums<'_>,
        sweep: &Sweep<'_>,
        rows: &mut [ThreadRow; 2],
        whole_rows: Reg,
    ) {
        let state = &parts[0];
        let code = state.code;
        let running = self.begin_reductions(code, sweep);
        let idle = sweep.mask.as_ref().and_then(|mask| self.comes_to_nothing(state, mask, &running, None, rows));
        let (start, end) = (self.int(0), self.size(code.sweeps.columns.count));
        self.counted(start, end, sums.by.columns, |e, from| {
            e.add_products(state, sums);
            let last = e.b().op2(Opcode::Add, Type::S64, from, sums.by.columns);
            let beyond = if sabotage::on(Bug::SweptBeyond) { from } else { last };
            let whole = e.b().set(Comparison::Le, Type::S64, beyond, end);
            let whole = e.b().op2(Opcode::And, Type::Pred, whole, whole_rows);
            let tile = Tile { from, end, whole, idle };
            for (number, part) in (0..).zip(parts) {
                e.half(part, (sweep, None), &running, rows, (&tile, number));
            }
            e.end_chunk(&running, (from, last, end));
        });
        self.end_reductions(code, running, rows);
    }

    /// Computes the sums of a tile.
    fn add_products(&mut self, state: &Multiplying<'_, '_>, sums: &Sums<'_>) {
        let Sums { by, stages, turn, tiles, all } = sums;
        let zero = scalar::constant(self.b(), Scalar::F32(0.0));
        all.iter().for_each(|sum| self.b().assign(*sum, zero));
        let wide = state.code.factors.each_ref().map(|factor| !factor.deep);
        let (start, inner) = (self.int(0), self.size(&length(&state.code.groups.inner)));
        self.counted(start, inner, IN_ROW, |e, _| {
            let [full, free] = e.barriers(stages, *turn);
            e.await_phase(full, turn.parity);
            let stage = e.b().op2(Opcode::Mul, Type::S64, turn.number, stages.ring.stage() / 16);
            let tiles = tiles.map(|tile| e.b().op2(Opcode::Add, Type::S64, tile, stage));
            e.b().fence_products();
            for step in 0..IN_ROW / STEP {
                let tiles = [0, 1].map(|side| {
                    // The next inner indices are further along a deep row, or in later wide rows.
                    let apart = if wide[side] { STEP * ROW } else { STEP * 2 };
                    e.b().op2(Opcode::Add, Type::S64, tiles[side], step * apart / 16)
                });
                e.b().multiply_tiles((*by, wide), all.clone(), tiles, state.always);
            }
            e.b().group_products();
            e.b().await_products(0);
            e.b().guarded(state.leads, |b| b.arrive(free));
            e.advance(stages, *turn);
        });
    }
}
