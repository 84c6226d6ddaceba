//! The uses of the values of a kernel, by which `nests` decides whether to write them where they
//! are used or on lines of their own.

use cranelift_entity::SecondaryMap;
use ir::nest::{Block, Extent, IndexId, Reduction, Statement, Subscript, ValueId};
use ir::visit;

/// How a value is used.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Uses {
    pub(super) count: usize,
    /// The loop body in which it is computed.
    home: usize,
    /// Whether it is used in another loop body.
    pub(super) abroad: bool,
    /// Whether a use takes it unchanged: a store, or a reduction.
    pub(super) kept: bool,
}

/// The uses of all values.
pub(super) fn of(block: &Block) -> SecondaryMap<ValueId, Uses> {
    let mut count = Count { uses: SecondaryMap::new(), bodies: 0 };
    count.block(block, 0);
    count.uses
}

/// Counts uses.
struct Count {
    uses: SecondaryMap<ValueId, Uses>,
    bodies: usize,
}

impl Count {
    fn block(&mut self, block: &Block, body: usize) {
        for statement in block {
            match statement {
                Statement::Let { op, .. } => op.for_each_operand(|v| self.used(v, body, false)),
                Statement::Store { at, value, .. } | Statement::Scatter { at, value, .. } => {
                    at.iter().for_each(|s| self.subscript(s, body));
                    self.used(*value, body, true);
                }
                Statement::If { condition, then, otherwise, results } => {
                    self.used(*condition, body, false);
                    self.block(then, body);
                    self.block(otherwise, body);
                    for (_, a, b) in results {
                        self.used(*a, body, false);
                        self.used(*b, body, false);
                    }
                }
                Statement::Loop(l) => {
                    self.extents(&l.dims, body);
                    let inner = self.body();
                    self.block(&l.body, inner);
                    l.kind.reductions().iter().flat_map(Reduction::values).for_each(|v| self.used(v, inner, true));
                }
                Statement::While(w) => {
                    self.extents(std::slice::from_ref(&w.counter), body);
                    w.state.iter().for_each(|state| self.used(state.first, body, false));
                    let inner = self.body();
                    w.state.iter().for_each(|state| self.uses[state.current].home = inner);
                    statement.blocks().for_each(|block| self.block(block, inner));
                    w.condition.iter().for_each(|condition| self.used(condition.value, inner, false));
                    w.state.iter().for_each(|state| self.used(state.next, inner, true));
                }
                Statement::Contract(c) => {
                    self.extents(&c.free, body);
                    self.extents(&c.reduce, body);
                    let (inner, epilogue) = (self.body(), self.body());
                    self.block(&c.left.body, inner);
                    self.block(&c.right.body, inner);
                    self.used(c.left.value, inner, false);
                    self.used(c.right.value, inner, false);
                    self.uses[c.result].home = epilogue;
                    self.block(&c.epilogue, epilogue);
                    continue;
                }
            }
            visit::for_each_definition(statement, &mut |v| self.uses[v].home = body);
        }
    }

    fn body(&mut self) -> usize {
        self.bodies += 1;
        self.bodies
    }

    fn extents(&mut self, dims: &[(IndexId, Extent)], body: usize) {
        for (_, extent) in dims {
            if let Extent::Value(v) = extent {
                self.used(*v, body, false);
            }
        }
    }

    fn subscript(&mut self, subscript: &Subscript, body: usize) {
        if let Subscript::Value(v) = subscript {
            self.used(*v, body, false);
        }
    }

    fn used(&mut self, value: ValueId, body: usize, kept: bool) {
        let uses = &mut self.uses[value];
        uses.count += 1;
        uses.abroad |= uses.home != body;
        uses.kept |= kept;
    }
}
