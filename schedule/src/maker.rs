//! The tools of passes that write loops in place of one that no target runs as it stands.

use std::collections::BTreeSet;

use ir::build::op_dtype;
use ir::nest::{
    Block, Buffer, BufferId, Extent, Index, IndexId, Kernel, Loop, LoopKind, Op, Program, Reduction, Role, Single,
    Statement, Subscript, ValueId,
};
use ir::rewrite::fresh_name;
use ir::{Affine, Dtype, Order, Size, visit};

/// The loops in place of one. Parallel ones run in ranges.
pub struct Expanded {
    /// The loops.
    pub loops: Vec<Loop>,
    /// The indices of loops over the results of chunks.
    pub joins: Vec<IndexId>,
}

/// Adds to a kernel.
pub struct Maker<'a> {
    /// The program.
    pub program: &'a mut Program,
    /// The kernel, currently taken out of it.
    pub kernel: &'a mut Kernel,
}

impl Maker<'_> {
    /// A new index.
    pub fn index(&mut self, name: &str) -> IndexId {
        let sizes = self.program.symbols.values().map(|s| s.name.clone());
        let mut taken: BTreeSet<String> = sizes.chain(self.kernel.indices.values().map(|i| i.name.clone())).collect();
        self.kernel.indices.push(Index { name: fresh_name(&mut taken, name) })
    }

    /// An index for each axis of a shape.
    pub fn axes(&mut self, shape: &[Size]) -> Vec<(IndexId, Extent)> {
        shape.iter().map(|length| (self.index("key"), Extent::size(length.clone()))).collect()
    }

    /// A buffer that `name` is computed by way of.
    pub fn buffer(&mut self, name: &str, part: &str, dtype: Dtype, shape: Vec<Size>, role: Role) -> BufferId {
        let mut names: BTreeSet<String> = self.program.buffers.values().map(|b| b.name.clone()).collect();
        let name = fresh_name(&mut names, &format!("{name}.{part}"));
        self.program.buffers.push(Buffer { name, dtype, shape, role })
    }

    /// Appends an operation to a block.
    pub fn define(&mut self, block: &mut Block, op: Op) -> ValueId {
        // The verifier reports an operand that does not exist.
        let dtype = op_dtype(self.program, &self.kernel.values, &op).unwrap_or(Dtype::I64);
        let value = self.kernel.values.push(dtype);
        block.push(Statement::Let { value, op });
        value
    }

    /// The value of a subscript.
    pub fn value(&mut self, block: &mut Block, subscript: &Subscript) -> ValueId {
        match subscript {
            Subscript::Value(value) => *value,
            Subscript::Affine(at) => self.define(block, Op::Affine(at.clone())),
        }
    }
}

/// A reduction in pieces: where their results lie, and the loop that combines them.
pub struct Pieces {
    /// The results of the pieces, for each reduction.
    pub results: Vec<BufferId>,
    /// The loop over the pieces.
    pub join: Loop,
}

impl Pieces {
    /// Those of some reductions for each iteration of the loops around, in `count` pieces named
    /// `word`.
    pub fn new(
        program: &mut Program,
        kernel: &mut Kernel,
        (word, count): (&str, Size),
        around: &[(IndexId, Extent)],
        reductions: impl IntoIterator<Item = Single>,
    ) -> Pieces {
        let index = kernel.indices.push(Index { name: format!("{word}.{}", kernel.indices.len()) });
        let at: Vec<Subscript> = [Subscript::index(index)].into_iter().chain(subscripts(around)).collect();
        let lengths = around.iter().filter_map(|(_, extent)| extent.as_size().cloned());
        let shape: Vec<Size> = [count.clone()].into_iter().chain(lengths).collect();
        let (mut results, mut body, mut joined) = (vec![], vec![], vec![]);
        for r in reductions {
            let dtype = kernel.values[r.result];
            let name = format!("{}.{}.{word}s", kernel.name, r.result);
            let buffer = program.buffers.push(Buffer { name, dtype, shape: shape.clone(), role: Role::Temp });
            let value = kernel.values.push(dtype);
            body.push(Statement::Let { value, op: Op::Load { buffer, view: None, at: at.clone() } });
            joined.push(Reduction::monoid(r.result, r.monoid, r.order, value));
            results.push(buffer);
        }
        let dims = vec![(index, Extent::Affine(Affine::size(count)))];
        Pieces { results, join: Loop { dims, kind: LoopKind::Reduce(joined), body } }
    }
}

/// Whether a reduction is one of blocks, by its order or because any order will do.
pub fn goes_by_blocks(order: Order) -> bool {
    matches!(order, Order::Blocks | Order::Free)
}

/// The subscripts of the element at the indices of a loop.
pub fn subscripts(dims: &[(IndexId, Extent)]) -> Vec<Subscript> {
    dims.iter().map(|(index, _)| Subscript::index(*index)).collect()
}

/// Whether a block stores elements where it loads others. One loop may do that; several in its
/// place have to keep them apart.
pub fn in_place(program: &Program, block: &Block) -> bool {
    let (stored, loaded) = (visit::stores(block), visit::loads(block));
    let of_both = |members: &Vec<BufferId>| {
        members.iter().any(|b| stored.contains(b)) && members.iter().any(|b| loaded.contains(b))
    };
    program.slots.values().any(of_both)
}

/// 1 for a length below the limit, else 0.
pub fn below(length: &Size, limit: i64) -> Size {
    let limit = Size::constant(limit);
    limit.floor_div(&(length + &Size::constant(1))).ceil_div(&limit)
}

/// The statements of a block that are `roots`, and those that they or the values `wanted` are
/// computed from. The `given` values are known.
pub fn needed(block: &[Statement], roots: impl Fn(&Statement) -> bool, wanted: &[ValueId], given: &[ValueId]) -> Block {
    let mut wanted: BTreeSet<ValueId> = wanted.iter().copied().collect();
    let mut kept = vec![];
    for statement in block.iter().rev() {
        let mut keep = roots(statement);
        visit::for_each_definition(statement, &mut |v| keep |= wanted.contains(&v) && !given.contains(&v));
        if keep {
            wanted.extend(visit::free_values(&vec![statement.clone()]));
            kept.push(statement.clone());
        }
    }
    kept.reverse();
    kept
}

/// The fewest iterations that are too many for a thread where others wait for it.
const LONG: i64 = 64;

/// Whether a loop over these indices may be too long for a thread where others wait for it.
pub fn is_long<'d>(dims: impl Iterator<Item = &'d (IndexId, Extent)>) -> bool {
    let length = |(_, extent): &(IndexId, Extent)| extent.as_size().and_then(Size::as_constant);
    dims.map(length).product::<Option<i64>>().is_none_or(|n| n >= LONG)
}

/// The operations of a block with functions inlined.
pub fn operations(program: &Program, block: &Block) -> usize {
    let own = |statement: &Statement| match statement {
        Statement::Let { op: Op::Call(function, _), .. } => operations(program, &program.functions[*function].body),
        Statement::Let { .. } | Statement::Store { .. } | Statement::Scatter { .. } => 1,
        Statement::If { .. } | Statement::Loop(_) | Statement::While(_) | Statement::Contract(_) => {
            1 + statement.blocks().map(|inner| operations(program, inner)).sum::<usize>()
        }
    };
    block.iter().map(own).sum()
}
