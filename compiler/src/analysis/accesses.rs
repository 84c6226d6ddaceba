//! The accesses of a kernel: its loads and stores in text order, and the enclosing loops and
//! branches as a tree.
//!
//! They are found in one walk that copies nothing, because prices are needed after every merge.

use std::ops::Range;

use cranelift_entity::{PrimaryMap, SecondaryMap, entity_impl};
use ir::Affine;
use ir::nest::{
    Block, BufferId, Contraction, Extent, IndexId, Kernel, Loop, LoopKind, Op, Statement, Subscript, ValueId, While,
};

/// A block of a kernel, with the construct that runs it: a loop, a part of a contraction, a branch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScopeId(u32);
entity_impl!(ScopeId, "scope");

/// The accesses of a kernel.
#[derive(Clone, Debug)]
pub struct Accesses<'k> {
    /// The blocks, each after its parent. The first is the kernel's body.
    pub scopes: PrimaryMap<ScopeId, Scope<'k>>,
    /// The loads and stores in text order.
    pub list: Vec<Access<'k>>,
    /// Where each index is bound.
    pub indices: SecondaryMap<IndexId, Option<Bound<'k>>>,
    /// The indices that each value depends on.
    pub hangs_on: SecondaryMap<ValueId, Places>,
}

/// A load or a store, which a value merged into a table counts as.
#[derive(Clone, Copy, Debug)]
pub struct Access<'k> {
    /// Which of the two.
    pub kind: AccessKind,
    /// The array.
    pub buffer: BufferId,
    /// The shape that the subscripts refer to, if it is not the array's own.
    pub view: Option<&'k [ir::Size]>,
    /// Which element.
    pub at: &'k [Subscript],
    /// The value that is loaded or stored.
    pub value: ValueId,
    /// The innermost block around it.
    pub scope: ScopeId,
}

/// Whether an access loads or stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// It loads.
    Load,
    /// It stores.
    Store,
}

/// A block of a kernel, with the construct that runs it.
#[derive(Clone, Debug)]
pub struct Scope<'k> {
    /// The enclosing block; `None` for the kernel's body.
    pub parent: Option<ScopeId>,
    /// The construct that runs it.
    pub kind: ScopeKind,
    /// The indices that it binds, from the outermost in.
    pub dims: &'k [(IndexId, Extent)],
    /// How many indices are bound around it.
    pub place: usize,
    /// Whether it is a branch or inside one.
    pub guarded: bool,
    /// The accesses in it and in the blocks inside.
    pub accesses: Range<usize>,
    /// For a block directly in the kernel's body: 0 if it uses nothing that another block computes
    /// or stores, else one more than the greatest stage that it waits for. Blocks of one stage
    /// could run in any order, or together.
    pub stage: usize,
}

/// The construct that runs a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeKind {
    /// The kernel.
    Body,
    /// A loop of that kind.
    Parallel,
    /// A loop of that kind.
    Serial,
    /// A loop of that kind.
    Reduce,
    /// A loop of that kind.
    Scan,
    /// A loop of that kind.
    Keyed,
    /// A loop of that kind.
    Sort,
    /// The points of a contraction: its epilogue, and the scope around its [`ScopeKind::Sum`].
    Free,
    /// The elements that a contraction sums over: its two prologues.
    Sum,
    /// One block of an `If`.
    Branch,
}

/// Where an index is bound.
#[derive(Clone, Copy, Debug)]
pub struct Bound<'k> {
    /// By what.
    pub scope: ScopeId,
    /// How many indices are bound around it.
    pub place: usize,
    /// How far it runs.
    pub extent: &'k Extent,
}

/// A set of the indices in scope, each identified by the number of indices bound around it. From
/// the 64th on they are not distinguished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places(u64);

impl Places {
    /// No index.
    pub const NONE: Places = Places(0);

    /// The index with this number of indices around it.
    pub fn one(place: usize) -> Places {
        Places(1 << place.min(63))
    }

    /// The same, unless it cannot be distinguished from others.
    pub fn alone(place: usize) -> Places {
        if place < 63 { Places::one(place) } else { Places::NONE }
    }

    /// Those with fewer around them than this.
    pub fn below(place: usize) -> Places {
        Places(if place >= 63 { u64::MAX } else { (1 << place) - 1 })
    }

    /// Those of both sets.
    #[must_use]
    pub fn and(self, other: Places) -> Places {
        Places(self.0 | other.0)
    }

    /// Those of this set that are in the other.
    #[must_use]
    pub fn within(self, other: Places) -> Places {
        Places(self.0 & other.0)
    }

    /// Whether an index is in the set.
    pub fn contains(self, place: usize) -> bool {
        self.0 >> place.min(63) & 1 == 1
    }

    /// The outermost index of the set, as the number of indices around it.
    pub fn first(self) -> usize {
        self.0.trailing_zeros() as usize
    }

    /// Whether no index is.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl<'k> Accesses<'k> {
    /// Looks through a kernel.
    pub fn of(kernel: &'k Kernel) -> Accesses<'k> {
        let accesses = Accesses {
            scopes: PrimaryMap::new(),
            list: vec![],
            indices: SecondaryMap::new(),
            hangs_on: SecondaryMap::with_capacity(kernel.values.len()),
        };
        let values = SecondaryMap::with_capacity(kernel.values.len());
        let mut walk = Walk { accesses, values, buffers: SecondaryMap::new(), stage: 0 };
        let body = walk.enter(None, ScopeKind::Body, &[]);
        for statement in &kernel.body {
            walk.stage = 0;
            let first = walk.accesses.list.len();
            walk.statement(statement, body);
            for access in &walk.accesses.list[first..] {
                if access.kind == AccessKind::Store {
                    walk.buffers[access.buffer] = walk.stage + 1;
                }
            }
        }
        walk.leave(body);
        walk.accesses
    }

    /// The blocks directly in another.
    pub fn inside(&self, scope: ScopeId) -> impl Iterator<Item = (ScopeId, &Scope<'k>)> {
        self.scopes.iter().filter(move |(_, inner)| inner.parent == Some(scope))
    }

    /// A block and its ancestors, from the inside out.
    pub fn around(&self, scope: ScopeId) -> impl Iterator<Item = &Scope<'k>> {
        std::iter::successors(Some(&self.scopes[scope]), |scope| Some(&self.scopes[scope.parent?]))
    }

    /// The indices of an affine expression.
    pub fn places(&self, affine: &Affine<IndexId>) -> Places {
        let places = affine.terms().iter().filter_map(|(index, _)| self.indices[*index]);
        places.fold(Places::default(), |set, bound| set.and(Places::one(bound.place)))
    }

    /// The indices that a subscript depends on.
    pub fn subscript(&self, subscript: &Subscript) -> Places {
        match subscript {
            Subscript::Affine(a) => self.places(a),
            Subscript::Value(v) => self.hangs_on[*v],
        }
    }
}

struct Walk<'k> {
    accesses: Accesses<'k>,
    /// The first stage that may use a value.
    values: SecondaryMap<ValueId, usize>,
    /// The first stage that may load a buffer.
    buffers: SecondaryMap<BufferId, usize>,
    /// The stage of the current statement of the kernel's body.
    stage: usize,
}

impl<'k> Walk<'k> {
    fn enter(&mut self, parent: Option<ScopeId>, kind: ScopeKind, dims: &'k [(IndexId, Extent)]) -> ScopeId {
        let around = parent.map(|parent| &self.accesses.scopes[parent]);
        let place = around.map_or(0, |p| p.place + p.dims.len());
        let guarded = kind == ScopeKind::Branch || around.is_some_and(|p| p.guarded);
        let first = self.accesses.list.len();
        let scope =
            self.accesses.scopes.push(Scope { parent, kind, dims, place, guarded, accesses: first..first, stage: 0 });
        for (n, (index, extent)) in dims.iter().enumerate() {
            self.accesses.indices[*index] = Some(Bound { scope, place: place + n, extent });
            if let Extent::Value(v) = extent {
                self.uses(*v);
            }
        }
        scope
    }

    fn leave(&mut self, scope: ScopeId) {
        let scope = &mut self.accesses.scopes[scope];
        scope.accesses.end = self.accesses.list.len();
        scope.stage = self.stage;
    }

    fn block(&mut self, block: &'k Block, scope: ScopeId) {
        block.iter().for_each(|statement| self.statement(statement, scope));
    }

    fn statement(&mut self, statement: &'k Statement, scope: ScopeId) {
        match statement {
            Statement::Let { value, op } => self.define(*value, op, scope),
            Statement::Store { buffer, at, value } | Statement::Scatter { buffer, at, value, monoid: _ } => {
                self.at(at);
                self.uses(*value);
                let (kind, buffer, value) = (AccessKind::Store, *buffer, *value);
                self.accesses.list.push(Access { kind, buffer, view: None, at, value, scope });
            }
            Statement::If { condition, then, otherwise, results } => {
                let condition = self.uses(*condition);
                for block in [then, otherwise] {
                    let branch = self.enter(Some(scope), ScopeKind::Branch, &[]);
                    self.block(block, branch);
                    self.leave(branch);
                }
                for (value, a, b) in results {
                    self.accesses.hangs_on[*value] = condition.and(self.uses(*a)).and(self.uses(*b));
                    self.values[*value] = self.stage;
                }
            }
            Statement::Loop(l) => self.loop_(l, scope),
            Statement::While(w) => self.while_(w, scope),
            Statement::Contract(c) => self.contract(c, scope),
        }
    }

    fn loop_(&mut self, l: &'k Loop, scope: ScopeId) {
        let kind = match &l.kind {
            LoopKind::Parallel => ScopeKind::Parallel,
            LoopKind::Serial => ScopeKind::Serial,
            LoopKind::Reduce(_) => ScopeKind::Reduce,
            LoopKind::Scan => ScopeKind::Scan,
            LoopKind::Keyed { .. } => ScopeKind::Keyed,
            LoopKind::Sort => ScopeKind::Sort,
        };
        let inner = self.enter(Some(scope), kind, &l.dims);
        self.block(&l.body, inner);
        self.leave(inner);
        for r in l.kind.reductions() {
            let inputs = r.values().fold(Places::default(), |all, v| all.and(self.uses(v)));
            r.results.iter().for_each(|v| self.result(*v, inputs, inner));
        }
    }

    fn while_(&mut self, w: &'k While, scope: ScopeId) {
        w.state.iter().for_each(|state| _ = self.uses(state.first));
        // With a condition, it may take fewer steps than the counter allows.
        let branch = w.condition.as_ref().map(|_| self.enter(Some(scope), ScopeKind::Branch, &[]));
        let counter = std::slice::from_ref(&w.counter);
        let steps = self.enter(Some(branch.unwrap_or(scope)), ScopeKind::Serial, counter);
        // The number of steps may depend on everything around, and so does the state.
        let place = self.accesses.scopes[steps].place;
        for state in &w.state {
            self.accesses.hangs_on[state.current] = Places::below(place + 1);
            self.values[state.current] = self.stage;
        }
        if let Some(condition) = &w.condition {
            self.block(&condition.body, steps);
            self.uses(condition.value);
        }
        self.block(&w.body, steps);
        self.leave(steps);
        branch.into_iter().for_each(|branch| self.leave(branch));
        for state in &w.state {
            self.uses(state.next);
            self.result(state.result, Places::below(place), steps);
        }
    }

    fn contract(&mut self, c: &'k Contraction, scope: ScopeId) {
        let free = self.enter(Some(scope), ScopeKind::Free, &c.free);
        let sum = self.enter(Some(free), ScopeKind::Sum, &c.reduce);
        self.block(&c.left.body, sum);
        self.block(&c.right.body, sum);
        self.leave(sum);
        let factors = self.uses(c.left.value).and(self.uses(c.right.value));
        self.result(c.result, factors, sum);
        self.values[c.result] = self.stage;
        self.block(&c.epilogue, free);
        self.leave(free);
    }

    /// Defines the result of a loop: it depends on whatever its elements and extents depend on,
    /// except the loop's own indices.
    fn result(&mut self, value: ValueId, input: Places, scope: ScopeId) {
        let Scope { dims, place, .. } = self.accesses.scopes[scope];
        let extents = dims.iter().map(|(_, extent)| match extent {
            Extent::Affine(a) => self.accesses.places(a),
            Extent::Value(v) => self.accesses.hangs_on[*v],
        });
        let all = extents.fold(input, Places::and);
        self.accesses.hangs_on[value] = all.within(Places::below(place));
        self.values[value] = self.stage + usize::from(place == 0);
    }

    fn define(&mut self, value: ValueId, op: &'k Op, scope: ScopeId) {
        let mut places = Places::default();
        op.for_each_operand(|v| places = places.and(self.uses(v)));
        if let Op::Affine(a) = op {
            places = self.accesses.places(a);
        }
        if let Some(load) = op.effects().load {
            places = self.at(load.at);
            self.stage = self.stage.max(self.buffers[load.buffer]);
            let (kind, buffer, view, at) = (AccessKind::Load, load.buffer, load.view, load.at);
            self.accesses.list.push(Access { kind, buffer, view, at, value, scope });
        }
        self.accesses.hangs_on[value] = places;
        self.values[value] = self.stage;
    }

    fn uses(&mut self, value: ValueId) -> Places {
        self.stage = self.stage.max(self.values[value]);
        self.accesses.hangs_on[value]
    }

    fn at(&mut self, at: &[Subscript]) -> Places {
        at.iter().fold(Places::default(), |set, subscript| {
            set.and(match subscript {
                Subscript::Affine(a) => self.accesses.places(a),
                Subscript::Value(v) => self.uses(*v),
            })
        })
    }
}
