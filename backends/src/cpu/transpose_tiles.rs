//! Tiled transposition, for loops with strided loads (see `schedule::transpose`). The strided
//! elements are first transposed, tile by tile, into scratch memory that stays in the cache (by
//! `transpose`, which uses whole cache lines on both sides). Then the body runs along the rows of
//! the tile, where they are contiguous.

use std::ops::Range;

use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::Value;
use ir::linear::Linear;
use ir::nest::{Block, BufferId, IndexId, Loop, Op, Statement, Subscript};
use ir::sabotage::{self, Bug};
use ir::sched::Transpose;
use ir::{Affine, Size};

use super::emit::Emitter;
use super::jit::Helper;
use super::state::Axis;

const ROWS: i64 = Transpose::ROWS;
/// Padding at the end of each row of a tile, in elements. Without it, rows could map to the same
/// cache sets.
const SPARE: i64 = 16;

/// A tile: the ranges of the outer and the innermost loop.
struct Tile {
    outer: Range<Value>,
    last: Range<Value>,
}

impl Emitter<'_> {
    /// Runs the tiles `begin..end` of a loop.
    pub(super) fn across(&mut self, across: &Transpose, l: &Loop, Range { start: begin, end }: Range<Value>) {
        let extents: Vec<Value> = across.extents.iter().map(|extent| self.size(extent)).collect();
        let tiles: Vec<Value> = across.range().iter().map(|extent| self.size(extent)).collect();
        let (body, shift, locals) = self.with_tiles(across, l);
        let last = l.dims.len() - 1;
        let others: Vec<usize> = (0..last).filter(|k| *k != across.outer).collect();
        self.counted(begin, end, 1, &[], |e, number, _| {
            e.poll();
            // Split the number of the tile into its position along each axis; the last one varies
            // fastest.
            let mut number = number;
            let mut digits = vec![];
            for tiles in tiles.iter().rev() {
                digits.push(e.b.ins().urem(number, *tiles));
                number = e.b.ins().udiv(number, *tiles);
            }
            for (k, digit) in others.iter().zip(digits.iter().skip(2).rev()) {
                e.bind(l.dims[*k].0, *digit);
            }
            let mut part = |digit: Value, of: i64, extent: Value| {
                let from = e.b.ins().imul_imm_s(digit, of);
                let to = e.b.ins().iadd_imm_s(from, of);
                from..e.least(to, extent)
            };
            let outer = part(digits[0], across.height, extents[across.outer]);
            let tile = Tile { outer, last: part(digits[1], ROWS, extents[last]) };
            let outer = l.dims[across.outer].0;
            e.bind(outer, tile.outer.start);
            e.bind(l.dims[last].0, tile.last.start);
            for (load, local) in across.loads.iter().zip(&locals) {
                e.transpose(&l.body[*load], l.dims[last].0, *local, &tile);
            }
            // The position of the tile, negated: subscripts in the body become relative to it.
            let before = e.b.ins().imul_imm_s(tile.outer.start, -(ROWS + SPARE));
            let before = e.b.ins().isub(before, tile.last.start);
            e.bind(shift, before);
            let axis = Axis { index: l.dims[last].0, merged: vec![], extent: extents[last] };
            e.counted(tile.outer.start, tile.outer.end, 1, &[], |e, i, _| {
                e.bind(outer, i);
                e.innermost(&axis, tile.last.start, tile.last.end, &body);
                vec![]
            });
            vec![]
        });
    }

    /// The body with its strided loads replaced by loads from tiles in scratch; an index that must
    /// be bound to minus the number of elements before the tile; and the buffers of the tiles.
    fn with_tiles(&mut self, across: &Transpose, l: &Loop) -> (Block, IndexId, Vec<BufferId>) {
        let (mut body, shift) = (l.body.clone(), self.new_index());
        let row = Affine::index(l.dims[across.outer].0).scale(&Size::constant(ROWS + SPARE));
        let place = row.add(&Affine::index(l.dims[l.dims.len() - 1].0)).add(&Affine::index(shift));
        let mut locals = vec![];
        for number in &across.loads {
            let Statement::Let { op: Op::Load { buffer, view, at }, .. } = &mut body[*number] else { continue };
            *buffer = self.local(self.buffer_dtype(*buffer), ((ROWS + SPARE) * across.height).unsigned_abs() as usize);
            (*view, *at) = (None, vec![Subscript::Affine(place.clone())]);
            locals.push(*buffer);
        }
        (body, shift, locals)
    }

    /// Transposes the elements of a load in the current tile. The indices are bound to its first
    /// element.
    fn transpose(&mut self, load: &Statement, last: IndexId, local: BufferId, tile: &Tile) {
        let Statement::Let { op: Op::Load { buffer, view, at }, .. } = load else { return };
        let width = self.buffer_dtype(*buffer).bytes();
        let helper = match width {
            1 => Helper::Transpose1,
            2 => Helper::Transpose2,
            4 => Helper::Transpose4,
            _ => Helper::Transpose8,
        };
        let width = width as i64;
        let linear: Linear = self.linear(*buffer, view.as_deref(), at);
        let (first, near) = self.address(*buffer, &linear);
        let from = self.b.ins().iadd_imm_s(first, i64::from(near));
        let step = self.size(&(&linear.affine.coefficient(last) * &Size::constant(width)));
        let to = self.base(local);
        let pace = self.int((ROWS + SPARE - i64::from(sabotage::on(Bug::TilePitch))) * width);
        let rows = self.b.ins().isub(tile.last.end, tile.last.start);
        let columns = self.b.ins().isub(tile.outer.end, tile.outer.start);
        self.helpers.run(&mut self.b, helper, &[from, step, to, pace, rows, columns]);
    }
}
