//! Queries about statements that the passes, the verifier and code generators share.

use std::collections::BTreeSet;

use super::{Part, Run};
use crate::build::Values;
use crate::linear::Linear;
use crate::merging::Fold;
use crate::nest::{
    Block, BufferId, IndexId, Input, Kernel, Law, Loop, LoopKind, Merge, Op, Prefix, Program, Reduction, Role,
    Statement, Subscript, ValueId,
};
use crate::order::LANES;
use crate::{BinaryOp, Dtype, Order, UnaryOp, visit};

/// Whether each part may recompute the statement for itself.
pub fn is_scalar(statement: &Statement) -> bool {
    match statement {
        Statement::Let { .. } => true,
        Statement::If { then, otherwise, .. } => then.iter().chain(otherwise).all(is_scalar),
        Statement::Store { .. }
        | Statement::Scatter { .. }
        | Statement::Loop(_)
        | Statement::While(_)
        | Statement::Contract(_) => false,
    }
}

/// Whether a reduction by a primitive can go by lanes.
pub fn in_lanes(dtype: Dtype, order: Order) -> bool {
    !dtype.is_storage() && matches!(order, Order::Lanes | Order::Free)
}

/// If a reduction finds the position of an extreme, in elements of a type that vectors compare: the
/// fold that finds the extreme, and the value that it goes over.
pub fn extreme(program: &Program, dtype: &dyn Fn(ValueId) -> Dtype, r: &Reduction) -> Option<(Fold, ValueId)> {
    let Merge::Reducer(id) = r.merge else { return None };
    let (Law::First(extreme), [Input::Value(input), Input::Number]) = (program.reducers[id].law, r.inputs.as_slice())
    else {
        return None;
    };
    let fold = Fold { op: extreme.monoid(), dtype: dtype(*input) };
    let wide = matches!(fold.dtype, Dtype::F32 | Dtype::F64 | Dtype::I32 | Dtype::I64 | Dtype::U32 | Dtype::U64);
    wide.then_some((fold, *input))
}

/// The number of prefixes of a scan that can run in chunks: none of them has a composite state, and
/// the body never ends the run.
pub fn prefixes_in_chunks(l: &Loop) -> Option<usize> {
    let fit = l.kind == LoopKind::Scan && !l.body.iter().any(Statement::may_fault);
    single_prefixes(l).filter(|_| fit).map(|prefixes| prefixes.len())
}

/// The prefixes of a scan, with their values, if the state of each is a single value.
pub fn single_prefixes(l: &Loop) -> Option<Vec<(ValueId, &Prefix)>> {
    let mut prefixes = vec![];
    for statement in &l.body {
        if let Statement::Let { value, op: Op::Prefix(prefix) } = statement {
            prefix.single()?;
            prefixes.push((*value, prefix));
        }
    }
    Some(prefixes)
}

/// Whether a body has no loops.
pub fn is_flat(body: &Block) -> bool {
    let mut flat = true;
    visit::for_each_statement(body, &mut |s| flat &= !s.repeats());
    flat
}

/// The memory that a kernel both loads and stores.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    /// Buffers that it loads and stores, or merges values into.
    pub buffers: BTreeSet<BufferId>,
    /// Whether it stores to memory that it also loads through another buffer.
    pub in_place: bool,
}

impl Shared {
    /// That of a kernel of a program.
    pub fn of(program: &Program, kernel: &Kernel) -> Shared {
        let stored: BTreeSet<BufferId> = visit::stores(&kernel.body).into_iter().collect();
        let loaded: BTreeSet<BufferId> = visit::loads(&kernel.body).into_iter().collect();
        // A slot is overwritten in place if one of its members is loaded and another one is stored.
        let in_place = |members: &Vec<BufferId>| {
            members.iter().any(|b| stored.contains(b)) && members.iter().any(|b| loaded.contains(b))
        };
        // A table is loaded from too.
        let mut buffers: BTreeSet<BufferId> = loaded.intersection(&stored).copied().collect();
        visit::for_each_statement(&kernel.body, &mut |s| {
            if let Statement::Scatter { buffer, .. } = s {
                buffers.insert(*buffer);
            }
        });
        Shared { buffers, in_place: program.slots.values().any(in_place) }
    }

    /// The element number of an access at which neighbouring iterations of an index access
    /// neighbouring elements, in memory that is only loaded or only stored.
    pub fn along(&self, program: &Program, index: IndexId, access: crate::effects::Access<'_>) -> Option<Linear> {
        let linear = Linear::of(program, access.buffer, access.view, access.at);
        let along = linear.values.is_empty() && linear.affine.coefficient(index).as_constant() == Some(1);
        (along && !self.buffers.contains(&access.buffer)).then_some(linear)
    }
}

/// Whether a body may run a second time: it has no loops, and no load or check depends on a value
/// that it computes.
pub fn may_repeat(body: &Block) -> bool {
    let mut again = true;
    visit::for_each_statement(body, &mut |statement| {
        again &= match statement {
            Statement::Let { op, .. } => {
                let effects = op.effects();
                let is_affine = |s: &Subscript| matches!(s, Subscript::Affine(_));
                !effects.may_fault && effects.load.is_none_or(|load| load.at.iter().all(is_affine))
            }
            Statement::Store { .. } | Statement::If { .. } => true,
            Statement::Scatter { .. } | Statement::Loop(_) | Statement::While(_) | Statement::Contract(_) => false,
        }
    });
    again
}

/// Whether a body, or a function that it calls, divides or takes square roots of `f32` in ranges
/// that are not known.
pub fn divides(program: &Program, body: &Block, dtype: &dyn Fn(ValueId) -> Dtype) -> bool {
    let mut found = false;
    visit::for_each_statement(body, &mut |statement| {
        let Statement::Let { op, .. } = statement else { return };
        if let Op::Binary(BinaryOp::Div, x, _) | Op::Unary(UnaryOp::Sqrt, x) = op {
            found |= dtype(*x) == Dtype::F32;
        } else if let Op::Call(function, _) = op {
            let function = &program.functions[*function];
            found |= !function.quotients_in_range && divides(program, &function.body, &|v| function.values[v]);
        }
    });
    found
}

/// The levels of a pairwise order that a block keeps for each reduction, enough for any number of
/// results.
pub const LEVELS: usize = 64;
/// The least bytes of a state in a level.
pub const STATE: usize = 16;

/// The bytes of a register of a thread for a value.
pub fn register_bytes(dtype: Dtype) -> usize {
    match dtype {
        Dtype::F16 | Dtype::Bf16 => 2,
        Dtype::I64 | Dtype::U64 | Dtype::F64 => 8,
        Dtype::Bool | Dtype::I8 | Dtype::U8 | Dtype::I16 | Dtype::U16 | Dtype::I32 | Dtype::U32 | Dtype::F32 => 4,
    }
}

/// The bytes of shared memory in which this many threads combine the states of a reduction.
pub fn reduction_bytes(program: &Program, values: &Values, r: &Reduction, threads: usize) -> usize {
    let bytes = match r.merge {
        Merge::Monoid(_) => {
            let value = r.inputs.first().and_then(|input| input.value());
            register_bytes(value.map_or(Dtype::I64, |value| values[value]))
        }
        Merge::Reducer(id) => 8 * program.reducers[id].identity.len(),
    };
    let columns = if r.order == Order::Blocks { tile_columns(bytes, threads) + 1 } else { 1 };
    bytes * threads * columns + LEVELS * bytes.max(STATE)
}

/// The most bytes of a tile.
const TILE: usize = 8 << 10;

/// How many states of each block of the order stand in a tile in shared memory, with a row for each
/// thread: a power of two.
pub fn tile_columns(bytes: usize, threads: usize) -> usize {
    let columns = (TILE / (bytes * threads).max(1)).clamp(1, 16);
    1 << columns.ilog2()
}

/// The same for all reductions in some statements.
pub fn reductions_bytes(program: &Program, values: &Values, body: &[Statement], threads: usize) -> usize {
    let mut bytes = 0;
    visit::for_each_statement(body, &mut |statement| {
        if let Statement::Loop(l) = statement {
            bytes += l.kind.reductions().iter().map(|r| reduction_bytes(program, values, r, threads)).sum::<usize>();
        }
    });
    bytes
}

/// The number of chunks that a block merges into one result, if it has the memory.
const RUN: i64 = 4;

/// The number of chunks that a block reduces to one result, for reductions by primitives. The part
/// that reduces the chunks and the one that joins the results have the same number, because it
/// depends only on the types of the results.
pub fn chunks_together(program: &Program, values: &Values, reductions: &[Reduction], memory: usize) -> i64 {
    let threads = RUN as usize * LANES;
    let bytes: usize = reductions.iter().map(|r| reduction_bytes(program, values, r, threads)).sum();
    if bytes <= memory { RUN } else { 1 }
}

/// Whether the last block that ends a part can run the next one too: it joins the results of the
/// same kernel, without scratch, which blocks would have in other places.
pub fn ends_in_last_block(program: &Program, before: &Part, part: &Part) -> bool {
    let accesses = visit::loads(&part.kernel.body).into_iter().chain(visit::stores(&part.kernel.body));
    let scratch = accesses.into_iter().any(|id| program.buffers[id].role == Role::Scratch);
    let reduces = |s: &Statement| matches!(s, Statement::Loop(l) if matches!(l.kind, LoopKind::Reduce(_)));
    matches!(before.run, Run::Chunks { .. } | Run::Blocks { .. })
        && before.root().is_some_and(|(_, last)| reduces(last))
        && part.run == Run::Whole
        && before.of == part.of
        && !part.joins.is_empty()
        && !scratch
}
