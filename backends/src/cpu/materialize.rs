//! Materializes values of a loop's body: the body runs as a vectorized leaf for a chunk of
//! iterations and stores the values to scratch. Code that needs elements in an order of its own (a
//! scan, or a reduction over several axes) then loads them from contiguous memory.

use std::ops::Range;

use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value};
use ir::Affine;
use ir::nest::{Block, BufferId, IndexId, Op, Statement, Subscript, ValueId};

use super::emit::Emitter;
use super::state::Axis;

/// An array of materialized values: its address, and the flags of accesses.
#[derive(Clone, Copy)]
pub(super) struct ScratchArray {
    pub(super) base: Value,
    pub(super) flags: MemFlagsData,
}

/// Arrays in scratch memory, one per value.
pub(super) struct Materialized {
    values: Vec<(ValueId, BufferId)>,
    /// Added to the index of the innermost loop to get an element's position in the arrays.
    shift: IndexId,
}

impl Materialized {
    /// Allocates arrays of `elements` for each value.
    pub(super) fn new(e: &mut Emitter<'_>, mut values: Vec<ValueId>, elements: usize) -> Materialized {
        values.sort_unstable();
        values.dedup();
        let values = values.into_iter().map(|v| (v, e.local(e.dtype(v), elements))).collect();
        Materialized { values, shift: e.new_index() }
    }

    /// The array of a value.
    pub(super) fn array(&self, e: &mut Emitter<'_>, value: ValueId) -> ScratchArray {
        let (_, buffer) = self.values.iter().find(|(v, _)| *v == value).expect("it is one of the materialized values");
        ScratchArray { base: e.base(*buffer), flags: e.buffer_memory(*buffer) }
    }

    fn at(&self, index: IndexId) -> Vec<Subscript> {
        vec![Subscript::Affine(Affine::index(index).add(&Affine::index(self.shift)))]
    }

    /// Statements that store the values of iteration `index`.
    pub(super) fn stores(&self, index: IndexId) -> Block {
        let store = |(value, buffer): &_| Statement::Store { buffer: *buffer, at: self.at(index), value: *value };
        self.values.iter().map(store).collect()
    }

    /// Statements that reload the values of iteration `index`.
    pub(super) fn loads(&self, index: IndexId) -> Block {
        let load = |(value, buffer): &_| {
            let op = Op::Load { buffer: *buffer, view: None, at: self.at(index) };
            Statement::Let { value: *value, op }
        };
        self.values.iter().map(load).collect()
    }

    /// Makes iteration `first` of the innermost loop the first element of the arrays.
    pub(super) fn begin(&self, e: &mut Emitter<'_>, first: Value) {
        let shift = e.b.ins().ineg(first);
        e.bind(self.shift, shift);
    }

    /// Runs iterations `from..to` of a nest with a leaf, including the stores, as its body.
    pub(super) fn fill(&self, e: &mut Emitter<'_>, axes: &[Axis], range: Range<Value>, body: &Block) {
        let Some((last, outer)) = axes.split_last() else { return };
        let from = range.start;
        e.ranged(axes, range, &mut |e, first, stop| {
            let mut number = e.int(0);
            for axis in outer {
                number = e.b.ins().imul(number, axis.extent);
                let index = e.index_value(axis.index);
                number = e.b.ins().iadd(number, index);
            }
            let row = e.b.ins().imul(number, last.extent);
            let before = e.b.ins().isub(from, row);
            self.begin(e, before);
            e.innermost(last, first, stop, body);
        });
    }
}
