//! Emits the first part of a kernel that reduces columns block by block. `schedule::tile` makes the
//! parts; the other parts, which combine the partial results, are ordinary loops.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value};
use ir::leaf::{Access, Leaf, LeafStep};
use ir::linear::Linear;
use ir::nest::{Block, BufferId, Loop, Reduction, Single, Statement, ValueId};
use ir::order::BLOCK;
use ir::sched::{Form, Tiles, is_scalar};
use ir::{Affine, Size};

use super::emit::Emitter;
use super::fold::{Fold, FoldCode};
use super::inner_loops::{ColumnRange, axes, groups_of};
use super::lanes128::{Lanes128, Operands, Registers, vector};
use super::leaf::{Done, LeafEmitter};
use super::state::offset;
use super::strips::{self, RowLoop};

/// The number of rows that are reduced and then processed further while they are in the cache.
const ROWS: i64 = 16;

/// The accumulators of a block's columns in memory.
struct Sums {
    /// For each reduction the operation, the address of its row, and the flags of accesses.
    rows: Vec<(Fold, Value, MemFlagsData)>,
}

impl Sums {
    fn address(&self, e: &mut Emitter<'_>, k: usize, column: Value) -> Value {
        let (fold, row, _) = self.rows[k];
        let bytes = e.b.ins().imul_imm_s(column, fold.dtype.bytes() as i64);
        e.b.ins().iadd(row, bytes)
    }

    fn load(&self, l: &mut Lanes128<'_, '_>) -> Registers {
        let mut all = vec![];
        for (k, (fold, _, flags)) in self.rows.iter().enumerate() {
            let address = self.address(l.e, k, l.at.i);
            let ty = vector(fold.dtype, false);
            for part in 0..l.registers(fold.dtype) {
                all.push(l.e.b.ins().load(ty, *flags, address, offset(16 * part)));
            }
        }
        all
    }

    fn store(&self, l: &mut Lanes128<'_, '_>, mut sums: &[Value]) {
        for (k, (fold, _, flags)) in self.rows.iter().enumerate() {
            let address = self.address(l.e, k, l.at.i);
            let (own, rest) = sums.split_at(l.registers(fold.dtype));
            for (part, sum) in own.iter().enumerate() {
                l.e.b.ins().store(*flags, *sum, address, offset(16 * part));
            }
            sums = rest;
        }
    }
}

impl Emitter<'_> {
    /// Emits a range of the first part of a tiled kernel.
    pub(super) fn tiled(&mut self, t: &Tiles, body: &Block, Range { start: begin, end }: Range<Value>) {
        let (scalars, loops): (Vec<&Statement>, Vec<&Statement>) = body.iter().partition(|s| is_scalar(s));
        scalars.into_iter().for_each(|s| self.statement(s));
        let loops: Vec<&Loop> =
            loops.iter().filter_map(|s| if let Statement::Loop(l) = s { Some(l) } else { None }).collect();
        let (rows, columns) = loops.split_at(t.rows);
        let [height, width, strips] = [&t.height, &t.width, &t.range()[1]].map(|size| self.size(size));
        self.counted(begin, end, 1, &[], |e, number, _| {
            let block = e.b.ins().udiv(number, strips);
            let strip = e.b.ins().urem(number, strips);
            let first = e.b.ins().imul_imm_s(block, BLOCK as i64);
            let past = e.b.ins().iadd_imm_s(first, BLOCK as i64);
            let past = e.least(past, height);
            let (mut from, mut to) = (e.int(0), width);
            if t.rows == 0 {
                from = e.b.ins().imul_imm_s(strip, Tiles::STRIP);
                to = e.b.ins().iadd_imm_s(from, Tiles::STRIP);
                to = e.least(to, width);
            }
            // Compile the leaves once, outside of the loop over rows.
            let leaves: Vec<Option<Leaf>> = columns.iter().map(|l| e.leaf_of(l)).collect();
            rows.iter().for_each(|l| e.enter_body(l));
            let mut sums = vec![];
            for (l, buffers) in columns.iter().zip(&t.sums) {
                sums.push(e.sums(l, buffers, block, width));
            }
            let wide: Vec<Option<RowLoop>> = leaves
                .iter()
                .zip(&t.sums)
                .map(|(leaf, sums)| e.wide_rows(leaf.as_ref()?, sums, block, width))
                .collect();
            for ((l, leaf), sums) in columns.iter().zip(&leaves).zip(&sums) {
                match leaf {
                    Some(leaf) => e.clear_sums(leaf, sums, from..to),
                    None => e.sum_columns(l, sums, first..past, from..to),
                }
            }
            e.counted(first, past, ROWS, &[], |e, row, _| {
                e.poll();
                let next = e.b.ins().iadd_imm_s(row, ROWS);
                let stop = e.least(next, past);
                // Reduce the columns first: reading several rows at once suits the memory system
                // better than one row after another.
                for ((leaf, sums), wide) in leaves.iter().zip(&sums).zip(&wide) {
                    match (leaf, wide) {
                        (_, Some(wide)) => wide.run(e, row..stop, from..to),
                        (Some(leaf), None) => e.add_rows(leaf, sums, row..stop, from..to),
                        (None, None) => {}
                    }
                }
                for l in rows {
                    e.counted(row, stop, 1, &[], |e, i, _| {
                        e.bind(l.dims[0].0, i);
                        e.block(&l.body);
                        vec![]
                    });
                }
                vec![]
            });
            vec![]
        });
    }

    /// The vector form of a loop over columns, if it runs in it.
    fn leaf_of(&self, l: &Loop) -> Option<Leaf> {
        let index = l.dims[0].0;
        if self.form(index, &l.body) == Form::Vectors { self.leaf(index, &l.body, &[]) } else { None }
    }

    /// Enters the body of a loop whose iterations run one after another in any case.
    fn enter_body(&mut self, l: &Loop) {
        if let Form::Single { inside, .. } = self.form(l.dims[0].0, &l.body) {
            self.enter(&inside);
        }
    }

    /// The accumulators of a block.
    fn sums(&mut self, l: &Loop, buffers: &[BufferId], block: Value, width: Value) -> Sums {
        let mut rows = vec![];
        let row = self.b.ins().iadd_imm_s(width, Tiles::SPARE);
        let row = self.b.ins().imul(row, block);
        for (r, buffer) in singles(l).iter().zip(buffers) {
            let fold = Fold { op: r.monoid, dtype: self.dtype(r.input) };
            let base = self.base(*buffer);
            let bytes = self.b.ins().imul_imm_s(row, fold.dtype.bytes() as i64);
            rows.push((fold, self.b.ins().iadd(base, bytes), self.buffer_memory(*buffer)));
        }
        Sums { rows }
    }

    fn clear_sums(&mut self, leaf: &Leaf, sums: &Sums, Range { start: from, end: to }: Range<Value>) {
        let operands = Operands::new(self, leaf);
        let columns = ColumnRange { leaf, operands: &operands, strip: None, from, to };
        columns.groups(self, 4, &mut |l| {
            let empty: Registers = sums.rows.iter().flat_map(|(fold, ..)| l.constant(fold.identity())).collect();
            sums.store(l, &empty);
        });
    }

    /// Compiles the leaf that adds rows to the accumulators with wide vectors, if possible.
    fn wide_rows(&mut self, leaf: &Leaf, buffers: &[BufferId], block: Value, width: Value) -> Option<RowLoop> {
        let [LeafStep::Nest(nest)] = leaf.steps.as_slice() else { return None };
        let row = self.b.ins().iadd_imm_s(width, Tiles::SPARE);
        let row = self.b.ins().imul(row, block);
        let index = self.new_index();
        self.bind(index, row);
        let accumulator = |k: usize| Access {
            buffer: buffers[k],
            start: Linear { affine: Affine::index(index), values: vec![] },
            stride: Size::constant(1),
            gathered: vec![],
            inner: false,
            spread: false,
        };
        for (value, op) in &leaf.uniform {
            self.let_(*value, op);
        }
        RowLoop::new(
            self,
            leaf,
            nest,
            &|| strips::PhaseBuilder::new(leaf, &BTreeSet::new(), &BTreeMap::new()),
            &accumulator,
        )
    }

    /// Adds some rows to the accumulators.
    fn add_rows(&mut self, leaf: &Leaf, sums: &Sums, rows: Range<Value>, columns: Range<Value>) {
        let Range { start: from, end: to } = columns;
        let operands = Operands::new(self, leaf);
        for step in &leaf.steps {
            let LeafStep::Nest(nest) = step else { continue };
            let axes = axes(self, nest);
            let groups = groups_of(leaf, nest, 0);
            let levels: Vec<_> = nest.accumulators.iter().map(|_| None).collect();
            let columns = ColumnRange { leaf, operands: &operands, strip: None, from, to };
            columns.groups(self, groups, &mut |l| {
                let mut state = vec![l.e.int(0)];
                state.extend(sums.load(l));
                let last = l.iterate(nest, &axes, Some(rows.clone()), &levels, &state, &mut Done::new(leaf));
                sums.store(l, &last[1..]);
            });
        }
    }

    /// Reduces the columns of a block one after another, if they are not a leaf.
    fn sum_columns(&mut self, l: &Loop, sums: &Sums, rows: Range<Value>, columns: Range<Value>) {
        let [Statement::Loop(reduce)] = l.body.as_slice() else { return };
        let inputs: Vec<ValueId> = singles(l).iter().map(|r| r.input).collect();
        self.counted(columns.start, columns.end, 1, &[], |e, j, _| {
            e.bind(l.dims[0].0, j);
            let empty: Vec<Value> = sums.rows.iter().map(|(fold, ..)| fold.empty(e)).collect();
            let found = e.counted(rows.start, rows.end, 1, &empty, |e, i, state| {
                e.bind(reduce.dims[0].0, i);
                e.block(&reduce.body);
                let mut next = vec![];
                for (((fold, ..), input), old) in sums.rows.iter().zip(&inputs).zip(state) {
                    let x = e.value(*input);
                    next.push(fold.join(e, *old, x));
                }
                next
            });
            for (k, sum) in found.into_iter().enumerate() {
                let address = sums.address(e, k, j);
                e.b.ins().store(sums.rows[k].2, sum, address, 0);
            }
            vec![]
        });
    }
}

/// The reductions of a loop over columns.
fn singles(l: &Loop) -> Vec<Single> {
    let [Statement::Loop(reduce)] = l.body.as_slice() else { return vec![] };
    reduce.kind.reductions().iter().filter_map(Reduction::single).collect()
}
