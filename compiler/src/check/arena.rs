//! The arena of the checked program: its nodes, indices and branches, each with the notes that the
//! checker keeps on it.

use std::collections::{BTreeMap, BTreeSet};

use cranelift_entity::{PrimaryMap, SecondaryMap};
use grammar::ast::Span;
use ir::checked::{Checked, Expr, ExprId, Extent, GuardId, Index, IndexId, Kind, Loop, LoopId, Param, Subscript, Type};
use ir::nest::Symbol;
use ir::sabotage::{self, Bug};
use ir::{Affine, BinaryOp, Dtype, Scalar, Size, SymbolId, UnaryOp};

use super::alike::Alike;
use super::origin;
use super::signature::Slot;

/// The checked program as far as it has been made.
pub(super) struct Arena {
    /// The program itself.
    pub out: Checked,
    /// The indices that are open, not solved yet, or given up.
    pub ends: Ends,
    meta: PrimaryMap<ExprId, Meta>,
    alike: Alike,
    branches: SecondaryMap<GuardId, Branch>,
    /// The symbols of integer scalar parameters, by parameter number.
    scalars: BTreeMap<usize, SymbolId>,
    protected: Protected,
}

/// The accesses and the ends that are computed only inside the branch that they stand in.
#[derive(Default)]
struct Protected {
    /// Accesses, with the outermost branch that each needs.
    accesses: BTreeMap<ExprId, GuardId>,
    /// Indices of reductions, with ends that may be far away.
    ends: BTreeSet<IndexId>,
    /// Whether there are sorts, which may move out of branches.
    sorts: bool,
}

/// The place that a node is made for.
#[derive(Clone, Copy)]
pub(super) struct Here {
    /// The source that it comes from.
    pub span: Span,
    /// The branch of an `if` that it stands in.
    pub guard: GuardId,
}

/// The notes that the checker keeps on a node.
#[derive(Clone, Default)]
struct Meta {
    /// Indices that it may depend on and does not bind, ascending. A state may depend on all that
    /// are around its loop.
    free: Vec<IndexId>,
    /// Indices that it mentions and does not bind, ascending. A state mentions its loop's step.
    mentioned: Vec<IndexId>,
    /// Its value as an affine expression, if it is an `i64` scalar that is one.
    affine: Option<Affine<IndexId>>,
    /// Whether it reads elements of a recurrence that is not complete.
    earlier: bool,
}

/// The notes that the checker keeps on a branch of an `if`.
#[derive(Clone, Default)]
pub(super) struct Branch {
    /// The condition and whether it holds here; `None` if it is an array, which
    /// says nothing about a single access.
    pub condition: Option<(ExprId, bool)>,
    /// Whether an access holds only here.
    pub needed: bool,
    /// Whether it is the right side of `&&` or `||`.
    pub operator: bool,
    /// Whether it is evaluated whatever the condition: the right side of `&&` over arrays.
    pub eager: bool,
}

/// The state of indices.
#[derive(Clone, Default)]
pub(super) struct Ends {
    /// Indices with an open binder, the outermost first.
    pub open: Vec<IndexId>,
    /// Those of them that the body of a prefix or suffix is not inside of, because it is the same
    /// for all their values.
    pub aside: Vec<IndexId>,
    /// Indices with an end that is not known yet.
    pub unsolved: BTreeSet<IndexId>,
    /// Indices with an error that is reported already.
    pub poisoned: BTreeSet<IndexId>,
    /// The first values of indices that stand for others than 0 and up.
    pub first: BTreeMap<IndexId, ExprId>,
}

impl Ends {
    /// Gives up on an index.
    pub fn poison(&mut self, index: IndexId) {
        self.unsolved.remove(&index);
        self.poisoned.insert(index);
    }

    /// The indices around an expression.
    pub fn around(&self) -> impl Iterator<Item = IndexId> {
        self.open.iter().copied().filter(|index| !self.aside.contains(index))
    }

    /// Closes the binder of the innermost indices.
    pub fn close(&mut self, indices: &[IndexId]) {
        self.open.truncate(self.open.len() - indices.len());
    }

    /// Whether the error of one of some indices is reported already.
    pub fn any_poisoned<'i>(&self, indices: impl IntoIterator<Item = &'i IndexId>) -> bool {
        indices.into_iter().any(|index| self.poisoned.contains(index))
    }
}

impl Arena {
    /// An arena with nothing in it.
    pub fn new() -> Arena {
        let mut out = Checked::default();
        out.guards.push(Checked::TOP);
        let (meta, branches) = (PrimaryMap::new(), SecondaryMap::new());
        let (ends, alike, protected) = (Ends::default(), Alike::default(), Protected::default());
        Arena { out, ends, meta, alike, branches, scalars: BTreeMap::new(), protected }
    }

    /// A new size name.
    pub fn symbol(&mut self, symbol: Symbol) -> SymbolId {
        self.out.symbols.push(symbol)
    }

    /// A new size name: the value of an integer scalar parameter.
    pub fn scalar(&mut self, param: usize, symbol: Symbol) -> SymbolId {
        let symbol = self.symbol(symbol);
        self.scalars.insert(param, symbol);
        symbol
    }

    /// A new loop without states: the number of a step, the first expression that may mention it,
    /// the indices around it, the branch that its body stands in, and whether the source says
    /// `loop`.
    pub fn begin_loop(
        &mut self,
        step: IndexId,
        begin: ExprId,
        around: Vec<IndexId>,
        guard: GuardId,
        written: bool,
    ) -> LoopId {
        let (states, condition) = (vec![], None);
        let of = self.out.loops.push(Loop { step, begin, around, states, condition, guard, written });
        self.out.steps[step] = Some(of);
        of
    }

    /// A new branch inside another.
    pub fn branch(&mut self, outer: GuardId, branch: Branch) -> GuardId {
        let guard = self.out.guards.push(outer);
        self.branches[guard] = branch;
        guard
    }

    /// The notes on the branches around a place, the innermost first.
    pub fn branches(&self, guard: GuardId) -> impl Iterator<Item = &Branch> {
        self.guards(guard).map(|guard| &self.branches[guard])
    }

    /// The branches around a place, the innermost first.
    pub fn guards(&self, guard: GuardId) -> impl Iterator<Item = GuardId> {
        let inside = |guard: GuardId| (guard != Checked::TOP).then_some(guard);
        std::iter::successors(inside(guard), move |guard| inside(self.out.guards[*guard]))
    }

    /// Notes that a branch is evaluated whatever its condition.
    pub fn evaluate_always(&mut self, guard: GuardId) {
        self.branches[guard] = Branch { eager: true, ..Branch::default() };
    }

    /// Records that an access is computed only inside a branch, and needs the conditions up to an
    /// outer one.
    pub fn protect(&mut self, access: ExprId, guard: GuardId, outermost: GuardId) {
        self.need(guard);
        if guard != Checked::TOP {
            // Another subscript of it may need fewer.
            let known = self.protected.accesses.get(&access).copied();
            let is_further = known.is_none_or(|known| self.guards(known).any(|guard| guard == outermost));
            if is_further {
                self.protected.accesses.insert(access, outermost);
            }
        }
    }

    /// Records that reductions over some indices are computed only inside a branch.
    pub fn protect_ends(&mut self, over: &[IndexId], guard: GuardId) {
        self.need(guard);
        if guard != Checked::TOP {
            self.protected.ends.extend(over);
        }
    }

    /// Records that something is computed only inside a branch, and so only inside the enclosing
    /// ones.
    fn need(&mut self, guard: GuardId) {
        for guard in self.guards(guard).collect::<Vec<_>>() {
            self.branches[guard].needed |= !self.branches[guard].eager;
        }
    }

    /// Whether there are recurrences or sorts, which are computed apart from their users.
    pub fn has_parts_alone(&self) -> bool {
        !self.out.recurrences.is_empty() || self.protected.sorts
    }

    /// Moves an expression and its operands out of the branches around it if nothing in it needs
    /// their conditions.
    pub fn move_out(&mut self, id: ExprId) {
        let around: Vec<GuardId> = self.guards(self.out.exprs[id].guard).collect();
        let (mut seen, mut pending) = (BTreeSet::new(), vec![id]);
        while let Some(id) = pending.pop() {
            let Expr { kind, guard, .. } = &self.out.exprs[id];
            if *guard == Checked::TOP || !seen.insert(id) {
                continue;
            }
            let ends = self.out.bound(kind).any(|index| self.protected.ends.contains(&index));
            if ends || self.protected.accesses.get(&id).is_some_and(|outermost| around.contains(outermost)) {
                return;
            }
            self.out.for_each_operand(kind, |operand| pending.push(operand));
        }
        let innermost = |arena: &Arena, guard| arena.guards(guard).take_while(|guard| !around.contains(guard)).last();
        for id in seen {
            match innermost(self, self.out.exprs[id].guard) {
                None => self.out.exprs[id].guard = Checked::TOP,
                Some(inner) => self.out.guards[inner] = Checked::TOP,
            }
            // The steps of a loop that had no branch of their own.
            if let Kind::Loop { of, .. } = self.out.exprs[id].kind
                && innermost(self, self.out.loops[of].guard).is_none()
            {
                self.out.loops[of].guard = Checked::TOP;
            }
        }
    }

    /// The innermost branch around a place that protects something; the top level if there is none.
    pub fn innermost_needed(&self, guard: GuardId) -> GuardId {
        self.guards(guard).find(|guard| self.branches[*guard].needed).unwrap_or(Checked::TOP)
    }

    /// Whether something is computed only inside a branch.
    pub fn is_needed(&self, guard: GuardId) -> bool {
        self.branches[guard].needed
    }

    /// A new node. It is inside the branches that its operands are inside of, but for those that it
    /// opens itself.
    pub fn node(&mut self, kind: Kind, ty: Type, here: Here) -> ExprId {
        let mut earlier = matches!(kind, Kind::Earlier { .. });
        if !matches!(kind, Kind::Recurrence { .. }) {
            self.out.for_each_operand(&kind, |operand| earlier |= self.meta[operand].earlier);
        }
        let mut mentioned = self.own_mentions(&kind);
        let mut free = mentioned.clone();
        self.out.for_each_operand(&kind, |operand| {
            mentioned.extend_from_slice(self.mentioned(operand));
            free.extend_from_slice(self.free(operand));
        });
        match kind {
            Kind::State { of, .. } => free.extend(&self.out.loops[of].around),
            // A loop that is complete depends on no index around it that nothing in it mentions.
            Kind::Loop { of, .. } => {
                free.clone_from(&mentioned);
                free.extend(self.needed_around(of));
            }
            _ => {}
        }
        for indices in [&mut free, &mut mentioned] {
            indices.sort_unstable();
            indices.dedup();
            let bound = self.out.bound(&kind);
            indices.retain(|i| !bound.clone().any(|b| b == *i));
        }
        let meta = Meta { free, mentioned, affine: self.affine_of(&kind, &ty), earlier };
        let id = self.meta.push(meta);
        if ty.is_scalar() {
            self.alike.add(id, &kind, ty.dtype, |operand| self.meta[operand].affine.as_ref());
        }
        self.protected.sorts |= matches!(kind, Kind::Sort { .. });
        let mut guard = here.guard;
        if !matches!(kind, Kind::If { .. } | Kind::Loop { .. } | Kind::Recurrence { .. }) {
            self.out.for_each_operand(&kind, |operand| {
                let inner = self.out.exprs[operand].guard;
                if inner != guard && (guard == Checked::TOP || self.guards(inner).any(|outer| outer == guard)) {
                    guard = inner;
                }
            });
        }
        self.out.exprs.push(Expr { kind, ty, origin: origin(here.span), guard, name: None })
    }

    pub fn ty(&self, id: ExprId) -> &Type {
        &self.out.exprs[id].ty
    }

    pub fn dtype(&self, id: ExprId) -> Dtype {
        self.out.exprs[id].ty.dtype
    }

    pub fn free(&self, id: ExprId) -> &[IndexId] {
        &self.meta[id].free
    }

    pub fn mentioned(&self, id: ExprId) -> &[IndexId] {
        &self.meta[id].mentioned
    }

    /// Whether a node, or any that it is computed from, is of a kind.
    pub fn has_inside(&self, id: ExprId, is: impl Fn(ExprId) -> bool) -> bool {
        let (mut pending, mut seen) = (vec![id], BTreeSet::new());
        while let Some(id) = pending.pop() {
            if is(id) {
                return true;
            }
            if seen.insert(id) {
                self.out.for_each_operand(&self.out.exprs[id].kind, |operand| pending.push(operand));
            }
        }
        false
    }

    /// The first node with the value of this one.
    pub fn first_alike(&self, id: ExprId) -> ExprId {
        self.alike.first(id)
    }

    /// Whether a node reads elements of a recurrence that is not complete.
    pub fn reads_earlier(&self, id: ExprId) -> bool {
        self.meta[id].earlier
    }

    pub fn affine(&self, id: ExprId) -> Option<&Affine<IndexId>> {
        self.meta[id].affine.as_ref()
    }

    /// The value of an integer scalar as a size, if it is made of sizes alone.
    pub fn size_value(&self, id: ExprId) -> Option<&Size> {
        self.affine(id)?.as_size()
    }

    pub fn constant(&mut self, value: Scalar, here: Here) -> ExprId {
        self.node(Kind::Constant(value), Type::scalar(value.dtype()), here)
    }

    pub fn size_node(&mut self, size: Size, here: Here) -> ExprId {
        self.node(Kind::Size(size), Type::scalar(Dtype::I64), here)
    }

    /// A subscript that is inside by construction.
    pub fn subscript(&mut self, at: Affine<IndexId>, here: Here) -> Subscript {
        let value = match at.as_index() {
            Some(index) => self.index_node(index, here),
            None => self.affine_node(&at, here),
        };
        Subscript { value, affine: Some(at), check: None }
    }

    pub fn index_node(&mut self, index: IndexId, here: Here) -> ExprId {
        self.node(Kind::Index(index), Type::scalar(Dtype::I64), here)
    }

    /// An affine expression, written out.
    pub fn affine_node(&mut self, at: &Affine<IndexId>, here: Here) -> ExprId {
        let i64s = Type::scalar(Dtype::I64);
        let mut sum = self.size_node(at.constant_part().clone(), here);
        for (index, coefficient) in at.terms() {
            let (index, coefficient) = (self.index_node(*index, here), self.size_node(coefficient.clone(), here));
            let product = self.node(Kind::Binary(BinaryOp::Mul, coefficient, index), i64s.clone(), here);
            sum = self.node(Kind::Binary(BinaryOp::Add, sum, product), i64s.clone(), here);
        }
        sum
    }

    /// A new index that runs to an extent.
    pub fn index(&mut self, name: &str, extent: Affine<IndexId>, span: Span) -> IndexId {
        self.out.indices.push(Index { name: name.to_string(), extent: Extent::Affine(extent), origin: origin(span) })
    }

    /// New indices for the axes of a shape.
    pub fn axis_indices(&mut self, shape: &[Size], span: Span) -> Vec<IndexId> {
        shape.iter().enumerate().map(|(k, n)| self.index(&format!("a{k}"), Affine::size(n.clone()), span)).collect()
    }

    /// An element of an array by subscripts that are inside by construction.
    pub fn element(&mut self, array: ExprId, at: Vec<Affine<IndexId>>, here: Here) -> ExprId {
        if at.is_empty() {
            return array;
        }
        let ty = Type::scalar(self.dtype(array));
        let at = at.into_iter().map(|a| self.subscript(a, here)).collect();
        self.node(Kind::Access { array, at }, ty, here)
    }

    /// The length of an array along the axis of an index; 0 as long as it is not known.
    pub fn length(&self, index: IndexId) -> Size {
        self.out.indices[index].extent.as_size().cloned().unwrap_or_default()
    }

    /// An array over indices; the body itself where there is none.
    pub fn comprehension(&mut self, indices: Vec<IndexId>, body: ExprId, here: Here) -> ExprId {
        if indices.is_empty() {
            return body;
        }
        let mut shape: Vec<Size> = indices.iter().map(|index| self.length(*index)).collect();
        shape.extend(self.ty(body).shape.iter().cloned());
        let ty = Type { dtype: self.dtype(body), shape };
        self.node(Kind::Comprehension { indices, body }, ty, here)
    }

    /// A scalar, widened if its type is for storage alone.
    pub fn widened(&mut self, value: ExprId, here: Here) -> ExprId {
        let dtype = self.dtype(value);
        if !dtype.is_storage() {
            return value;
        }
        self.node(Kind::Cast(value), Type::scalar(dtype.compute()), here)
    }

    /// A new parameter.
    pub fn param(&mut self, param: Param, here: Here) -> ExprId {
        let ty = param.ty.clone();
        let number = self.out.params.len();
        self.out.params.push(param);
        self.node(Kind::Param(number), ty, here)
    }

    /// Indices, and those that their extents mention.
    pub fn bounded_by(&self, indices: &[IndexId]) -> Vec<IndexId> {
        let mut all: Vec<IndexId> = vec![];
        let mut pending = indices.to_vec();
        while let Some(index) = pending.pop() {
            if all.contains(&index) {
                continue;
            }
            all.push(index);
            match &self.out.indices[index].extent {
                Extent::Affine(extent) => pending.extend(extent.terms().iter().map(|(i, _)| *i)),
                Extent::Dynamic(extent) => pending.extend_from_slice(self.free(*extent)),
            }
        }
        all
    }

    /// A size as the user would write it.
    pub fn show(&self, size: &Size) -> String {
        size.display(&|s| self.out.symbols[s].name.as_str()).to_string()
    }

    /// A type as the user would write it.
    pub fn show_type(&self, ty: &Type) -> String {
        format!("`{}`", Slot::new(&self.out, "", ty).ty())
    }

    /// An expression in a few words: its name if it has one.
    pub fn describe(&self, id: ExprId) -> String {
        match (&self.out.exprs[id].name, &self.out.exprs[id].kind) {
            (Some(name), _) => format!("`{name}`"),
            (None, Kind::Param(k)) => format!("`{}`", self.out.params[*k].name),
            _ if self.out.exprs[id].ty.is_scalar() => "this value".to_string(),
            _ => "this array".to_string(),
        }
    }

    /// The indices that an expression of this kind mentions by itself, apart from its operands.
    fn own_mentions(&self, kind: &Kind) -> Vec<IndexId> {
        let mut mentioned: Vec<IndexId> = match kind {
            Kind::Index(i) => vec![*i],
            Kind::State { of, .. } => vec![self.out.loops[*of].step],
            Kind::Reduce { prefix: Some(prefix), .. } => vec![prefix.of],
            // How far the array is complete is another thing at each of its points.
            Kind::Earlier { recurrence, within, .. } => {
                self.out.recurrences[*recurrence].equations[*within].indices.clone()
            }
            _ => vec![],
        };
        for index in self.out.bound(kind) {
            if let Extent::Affine(extent) = &self.out.indices[index].extent {
                mentioned.extend(extent.terms().iter().map(|(i, _)| *i));
            }
        }
        mentioned
    }

    /// Takes loops out of the indices around them that nothing in them depends on: they are the
    /// same for all their values.
    pub fn narrow_loops(&mut self) {
        // The loops around a loop come before it.
        for of in self.out.loops.keys().collect::<Vec<_>>() {
            let needed = self.needed_around(of);
            self.out.loops[of].around.retain(|index| needed.contains(index));
        }
    }

    /// The indices that anything in a loop depends on, those around the loops that it is in among
    /// them.
    fn needed_around(&self, of: LoopId) -> BTreeSet<IndexId> {
        let Loop { step, states, condition, .. } = &self.out.loops[of];
        let (mut found, mut parts) = (BTreeSet::new(), condition.iter().copied().collect::<Vec<_>>());
        parts.extend(states.iter().flat_map(|state| [state.first, state.next]));
        match &self.out.indices[*step].extent {
            Extent::Dynamic(extent) => parts.push(*extent),
            Extent::Affine(extent) => found.extend(extent.terms().iter().map(|(i, _)| *i)),
        }
        parts.into_iter().for_each(|part| found.extend(self.mentioned(part)));
        let outer = found.iter().filter_map(|index| self.out.steps[*index]).filter(|outer| *outer != of);
        let more: Vec<IndexId> = outer.flat_map(|outer| self.out.loops[outer].around.iter().copied()).collect();
        found.extend(more);
        found
    }

    fn affine_of(&self, kind: &Kind, ty: &Type) -> Option<Affine<IndexId>> {
        match kind {
            Kind::Constant(v) => i64::try_from(integer(*v)?).ok().map(Affine::constant),
            Kind::Size(size) => Some(Affine::size(size.clone())),
            Kind::Index(index) => Some(Affine::index(*index)),
            Kind::Param(k) => self.scalars.get(k).map(|s| Affine::size(Size::symbol(*s))),
            Kind::Cast(a) if keeps_value(self.dtype(*a), ty.dtype) => self.affine(*a).cloned(),
            // Narrow arithmetic wraps where an affine expression would not.
            _ if ty.dtype != Dtype::I64 => None,
            Kind::Unary(UnaryOp::Neg, a) => Some(self.affine(*a)?.scale(&Size::constant(-1))),
            Kind::Binary(op, a, b) => {
                let (a, b) = (self.affine(*a)?, self.affine(*b)?);
                match op {
                    BinaryOp::Add => Some(a.add(b)),
                    BinaryOp::Sub => Some(a.sub(b)),
                    BinaryOp::Mul => a.mul(b),
                    BinaryOp::Div
                    | BinaryOp::Rem
                    | BinaryOp::Min
                    | BinaryOp::Max
                    | BinaryOp::And
                    | BinaryOp::Or
                    | BinaryOp::Xor
                    | BinaryOp::Shl
                    | BinaryOp::Shr => None,
                }
            }
            _ => None,
        }
    }
}

/// Whether conversion keeps the value of every integer of a type.
pub(super) fn keeps_value(from: Dtype, to: Dtype) -> bool {
    from.is_int()
        && to.is_int()
        && (sabotage::on(Bug::KeptValue)
            || match (from.is_signed_int(), to.is_signed_int()) {
                (true, false) => false,
                (false, true) => from.bytes() < to.bytes(),
                _ => from.bytes() <= to.bytes(),
            })
}

/// The value of an integer; none of anything else.
fn integer(value: Scalar) -> Option<i128> {
    Some(match value {
        Scalar::I8(v) => v.into(),
        Scalar::U8(v) => v.into(),
        Scalar::I16(v) => v.into(),
        Scalar::U16(v) => v.into(),
        Scalar::I32(v) => v.into(),
        Scalar::U32(v) => v.into(),
        Scalar::I64(v) => v.into(),
        Scalar::U64(v) => v.into(),
        Scalar::Bool(_) | Scalar::F16(_) | Scalar::Bf16(_) | Scalar::F32(_) | Scalar::F64(_) => return None,
    })
}
