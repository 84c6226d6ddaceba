//! The state of code generation that loops and statements share, in groups: the unit that is
//! compiled, the interface of its function, the values and indices in scope, and scratch memory.

use std::collections::BTreeMap;

use cranelift_codegen::entity::SecondaryMap;
use cranelift_codegen::ir::{self as cl, MemFlagsData, Value};
use ir::build::Values;
use ir::nest::{BufferId, IndexId, Program, SlotId, ValueId};
use ir::sched::Part;
use ir::{Dtype, Size};

use super::formula::{Formula, Rule};
use super::sizes::Width;

/// The memory slot of each buffer that shares its memory.
pub(super) type SlotTable = SecondaryMap<BufferId, Option<SlotId>>;

/// The slots of a program's buffers.
pub(super) fn slot_table(program: &Program) -> SlotTable {
    let mut table = SlotTable::new();
    for (slot, members) in &program.slots {
        members.iter().for_each(|id| table[*id] = Some(slot));
    }
    table
}

/// A unit of code generation: a part of a program, which becomes one function.
#[derive(Clone, Copy)]
pub(super) struct Unit<'a> {
    pub(super) program: &'a Program,
    pub(super) slots: &'a SlotTable,
    pub(super) part: &'a Part,
}

/// The exit blocks of the function.
#[derive(Clone, Copy)]
pub(super) struct Exits {
    /// Returns 1, after the fault record has been written.
    pub(super) fault: cl::Block,
    /// Returns 0, as at the end of the function.
    pub(super) cancelled: cl::Block,
}

/// The parameters of the function; see `abi::KernelFn`.
#[derive(Clone, Copy)]
pub(super) struct Params {
    pub(super) buffers: Value,
    pub(super) sizes: Value,
    pub(super) scratch: Value,
    pub(super) fault: Value,
}

/// The values of a kernel, or of a function while it is being inlined.
pub(super) struct Scope<'a> {
    pub(super) dtypes: &'a Values,
    /// The types of values that code generation has added.
    fresh: Vec<Dtype>,
    values: SecondaryMap<ValueId, Option<Value>>,
}

impl<'a> Scope<'a> {
    pub(super) fn new(dtypes: &'a Values) -> Scope<'a> {
        Scope { dtypes, fresh: vec![], values: SecondaryMap::new() }
    }

    /// The value, if it is already defined.
    pub(super) fn get(&self, v: ValueId) -> Option<Value> {
        self.values[v]
    }

    pub(super) fn define(&mut self, v: ValueId, value: Value) {
        self.values[v] = Some(value);
    }

    pub(super) fn dtype(&self, v: ValueId) -> Dtype {
        let fresh = || self.fresh[v.as_u32() as usize - self.dtypes.len()];
        self.dtypes.get(v).copied().unwrap_or_else(fresh)
    }

    /// Adds a value that the program does not have.
    pub(super) fn add(&mut self, dtype: Dtype) -> ValueId {
        self.fresh.push(dtype);
        ValueId::from_u32(u32::try_from(self.dtypes.len() + self.fresh.len() - 1).expect("few values"))
    }
}

/// The indices of the enclosing loops.
pub(super) struct Indices {
    /// The value of each index in scope, and the depth of its loop.
    values: SecondaryMap<IndexId, Option<(Value, u32)>>,
    /// The extents of the loops of indices, if sizes determine them.
    lengths: BTreeMap<IndexId, Size>,
    /// The number of indices, including those that code generation has added.
    count: u32,
    /// The number of enclosing loops.
    depth: u32,
}

impl Indices {
    /// For a kernel with this number of indices.
    pub(super) fn new(count: usize) -> Indices {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        Indices { values: SecondaryMap::new(), lengths: BTreeMap::new(), count, depth: 0 }
    }

    /// Adds an index that the program does not have.
    pub(super) fn add(&mut self) -> IndexId {
        self.count += 1;
        IndexId::from_u32(self.count - 1)
    }

    /// Binds an index to a value in the current loop.
    pub(super) fn bind(&mut self, index: IndexId, value: Value) {
        self.values[index] = Some((value, self.depth));
    }

    /// The value of an index, and the depth of its loop.
    pub(super) fn get(&self, index: IndexId) -> (Value, u32) {
        self.values[index].expect("a verified program uses indices inside their loops")
    }

    /// The extent of an index's loop, if sizes determine it.
    pub(super) fn length(&self, index: IndexId) -> Option<&Size> {
        self.lengths.get(&index)
    }

    pub(super) fn set_length(&mut self, index: IndexId, length: Size) {
        self.lengths.insert(index, length);
    }

    /// Enters the body of a loop.
    pub(super) fn enter(&mut self) {
        self.depth += 1;
    }

    /// Leaves the body of a loop.
    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }
}

/// A buffer of rank 1 in scratch memory that code generation has added.
#[derive(Clone, Copy)]
pub(super) struct Local {
    pub(super) dtype: Dtype,
    pub(super) base: Value,
}

/// The scratch memory of a thread, as far as it is allocated.
#[derive(Default)]
pub(super) struct Scratch {
    /// The size of the allocated memory in bytes.
    used: u32,
    locals: Vec<Local>,
}

impl Scratch {
    /// The size of the allocated memory in bytes.
    pub(super) fn used(&self) -> usize {
        self.used as usize
    }

    /// Allocates memory. Returns its offset.
    pub(super) fn allocate(&mut self, bytes: usize) -> u32 {
        let offset = self.used;
        // Whole cache lines, so that accumulators of different reductions do not share any.
        let bytes = u32::try_from(bytes.next_multiple_of(64)).expect("scratch is bounded");
        self.used = offset.checked_add(bytes).expect("scratch is bounded");
        offset
    }

    /// Adds a buffer. Its number follows those of the program's buffers.
    pub(super) fn add(&mut self, program: &Program, local: Local) -> BufferId {
        self.locals.push(local);
        BufferId::from_u32(u32::try_from(program.buffers.len() + self.locals.len() - 1).expect("few buffers"))
    }

    /// A buffer that code generation has added.
    pub(super) fn local(&self, program: &Program, buffer: BufferId) -> Option<Local> {
        self.locals.get((buffer.as_u32() as usize).checked_sub(program.buffers.len())?).copied()
    }
}

/// A loop: one index, or several adjacent ones merged into one.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// The index that is counted.
    pub(super) index: IndexId,
    /// The merged indices, which are bound to 0.
    pub(super) merged: Vec<IndexId>,
    /// The number of iterations, not negative.
    pub(super) extent: Value,
}

/// A strip of columns.
#[derive(Clone, Copy)]
pub(super) struct Strip {
    pub(super) from: Value,
    pub(super) to: Value,
    /// The distance between rows of scratch in columns.
    pub(super) width: Value,
}

/// The requirements of a kernel's passes over columns.
#[derive(Default)]
pub(super) struct Columns {
    /// The last index of the loop that is distributed over threads.
    pub(super) ranged: Option<IndexId>,
    /// Whether strips extend along that index.
    pub(super) strips: bool,
    /// The current strip.
    pub(super) strip: Option<Strip>,
    /// Scratch buffers that each column of a strip has a copy of.
    pub(super) spread: Vec<(BufferId, Width)>,
}

impl Columns {
    /// The number of copies of a scratch buffer that a thread needs.
    pub(super) fn times(&self, buffer: BufferId) -> Formula {
        let widths = self.spread.iter().filter(|(b, _)| *b == buffer).map(|(_, width)| width.formula());
        widths.reduce(|a, b| a.then(Rule::Greater, b)).unwrap_or(Formula::Constant(1))
    }
}

/// An offset in bytes as an immediate.
pub(super) fn offset(bytes: usize) -> i32 {
    i32::try_from(bytes).expect("a small offset")
}

/// Flags for memory that only the kernel accesses: aligned, and not aliased by buffers.
pub(super) fn own_memory() -> MemFlagsData {
    MemFlagsData::trusted()
}
