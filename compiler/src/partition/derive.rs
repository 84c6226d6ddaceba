//! Derives the program of a stage from that of the function.
//!
//! An index over a cut axis counts from 0 in each block. So wherever the function uses its value,
//! the program of a block adds the number of the first element, and a subscript is relative to the
//! part of the array that the block has. These numbers are parameters of the program, like all
//! sizes of the function that its arrays no longer tell. Nothing else changes: the same operations
//! give the same bits.

use cranelift_entity::{EntityRef, SecondaryMap};
use ir::bind::MAX_LENGTH;
use ir::checked::{Checked, Expr, ExprId, Extent, Index, IndexId, Kind, Param, Prefix, Subscript, Type};
use ir::nest::{Purpose, Relation, Requirement, Symbol, SymbolSource};
use ir::{Affine, BinaryOp, Dtype, Extreme, Monoid, Order, Origin, ReduceOp, Size, SymbolId};

use super::Refusal;
use super::axes::{Axes, Node, WHOLE, sized};
use super::plan::{Output, Plan, Stage};
use super::regions::{Region, Regions, regions};
use crate::planes::{copied, relink};

/// The program of a stage.
#[derive(Clone, Debug)]
pub struct Derived {
    /// The program.
    pub checked: Checked,
    /// The sources of its arguments, in order.
    pub inputs: Vec<Input>,
    /// The parts of axes that these refer to.
    pub regions: Vec<Region>,
}

/// The source of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// An argument of the function, with the region of each axis that is cut.
    Param(usize, Vec<Option<usize>>),
    /// A value of an earlier stage, likewise.
    Value(usize, Vec<Option<usize>>),
    /// A size of the function.
    Symbol(SymbolId),
    /// The beginning of a region.
    Start(usize),
    /// The length of a region.
    Length(usize),
    /// The number of the first element of a piece, counted from the first element of the block.
    PieceStart,
    /// The number of elements of a piece.
    PieceLength,
}

/// Derives the program of a stage.
pub(super) fn derive(checked: &Checked, axes: &Axes, plan: &Plan, stage: &Stage) -> Result<Derived, Refusal> {
    let regions = regions(checked, axes, plan, stage)?;
    let mut new = Checked {
        name: checked.name.clone(),
        symbols: checked.symbols.clone(),
        indices: checked.indices.clone(),
        guards: checked.guards.clone(),
        loops: checked.loops.clone(),
        steps: checked.steps.clone(),
        recurrences: checked.recurrences.clone(),
        requires: checked.requires.clone(),
        sites: checked.sites.clone(),
        fast: checked.fast,
        ..Checked::default()
    };
    new.max_kernels = None;
    let mut deriving = Deriving {
        old: checked,
        axes,
        plan,
        stage,
        regions,
        new,
        inputs: vec![],
        params: vec![None; checked.params.len()],
        starts: vec![],
        lengths: vec![],
        piece: None,
        ids: SecondaryMap::new(),
        places: SecondaryMap::with_default(ExprId::new(0)),
        partners: SecondaryMap::new(),
    };
    deriving.arrays();
    deriving.sizes();
    deriving.extents();
    for id in checked.exprs.keys() {
        deriving.places[id] = ExprId::new(deriving.new.exprs.len());
        if deriving.regions.reached[id] {
            let copy = deriving.expression(id).ok_or_else(|| Refusal {
                message: "it cannot be computed in blocks".to_owned(),
                help: WHOLE.to_owned(),
                origin: checked.exprs[id].origin,
            })?;
            deriving.ids[id] = Some(copy);
        }
    }
    deriving.results();
    deriving.finish();
    Ok(Derived { checked: deriving.new, inputs: deriving.inputs, regions: deriving.regions.all })
}

struct Deriving<'a> {
    old: &'a Checked,
    axes: &'a Axes,
    plan: &'a Plan,
    stage: &'a Stage,
    regions: Regions,
    new: Checked,
    inputs: Vec<Input>,
    /// The new number of each parameter that is used.
    params: Vec<Option<usize>>,
    /// The beginning and the length of each region.
    starts: Vec<Size>,
    lengths: Vec<Size>,
    /// The beginning and the length of a piece that is no whole number of rows.
    piece: Option<(Size, Size)>,
    ids: SecondaryMap<ExprId, Option<ExprId>>,
    places: SecondaryMap<ExprId, ExprId>,
    /// The greatest or least element, for a reduction that gives its place; the reduction of all
    /// elements, for a scan.
    partners: SecondaryMap<ExprId, Option<ExprId>>,
}

impl Deriving<'_> {
    fn region(&self, node: Node) -> Option<usize> {
        self.regions.of.get(&node).copied()
    }

    /// Adds the parameters and values that are used.
    fn arrays(&mut self) {
        let mut used = vec![false; self.old.params.len()];
        for (id, expr) in &self.old.exprs {
            if let Kind::Param(number) = expr.kind
                && self.regions.reached[id]
            {
                used[number] = true;
            }
        }
        for (number, param) in self.old.params.iter().enumerate().filter(|(number, _)| used[*number]) {
            let parts = self.axes.params[number].iter().map(|node| self.region(*node)).collect();
            self.params[number] = Some(self.inputs.len());
            self.inputs.push(Input::Param(number, parts));
            self.new.params.push(param.clone());
        }
        let given: Vec<(ExprId, usize)> = self.regions.given.iter().map(|(id, value)| (*id, *value)).collect();
        for (id, number) in given {
            let value = &self.plan.values[number];
            let parts = (0..value.free.len()).map(|axis| self.regions.of_given.get(&(number, axis)).copied());
            self.inputs.push(Input::Value(number, parts.collect()));
            let length = |index: &IndexId| self.axes.length(index.index()).cloned().unwrap_or_default();
            let shape = value.free.iter().map(length).collect();
            let name = self.unused(&format!("value_{number}"));
            let origin = self.old.exprs[id].origin;
            self.new.params.push(Param { name, ty: Type { dtype: value.dtype, shape }, origin });
        }
    }

    fn unused(&self, name: &str) -> String {
        let taken = |name: &str| {
            let params = self.new.params.iter().chain(&self.old.params).any(|param| param.name == name);
            params || self.new.symbols.values().any(|symbol| symbol.name == name)
        };
        let mut name = name.to_owned();
        while taken(&name) {
            name.push('_');
        }
        name
    }

    /// A new parameter that is a number, and the size that it is.
    fn number(&mut self, name: &str, input: Input) -> Size {
        let name = self.unused(name);
        let source = SymbolSource::Scalar { input: self.inputs.len() };
        self.inputs.push(input);
        self.new.params.push(Param { name: name.clone(), ty: Type::scalar(Dtype::I64), origin: Origin::default() });
        Size::symbol(self.new.symbols.push(Symbol { name, source }))
    }

    /// Gives every size of the function a source, and each axis the length of its part.
    fn sizes(&mut self) {
        for (symbol, known) in &self.old.symbols {
            let kept = match known.source {
                SymbolSource::Dimension { input, axis } => match self.params[input] {
                    Some(number) if self.region(self.axes.params[input][axis]).is_none() => {
                        Some(SymbolSource::Dimension { input: number, axis })
                    }
                    _ => None,
                },
                _ => None,
            };
            self.new.symbols[symbol].source = kept.unwrap_or_else(|| {
                let source = SymbolSource::Scalar { input: self.inputs.len() };
                self.inputs.push(Input::Symbol(symbol));
                let mut name = format!("size_{}", known.name);
                while self.new.params.iter().chain(&self.old.params).any(|param| param.name == name) {
                    name.push('_');
                }
                self.new.params.push(Param { name, ty: Type::scalar(Dtype::I64), origin: Origin::default() });
                source
            });
            // Proofs rely on that of lengths, which arrays are known to have.
            if known.source.is_length() && !self.new.symbols[symbol].source.is_length() {
                let size = Size::symbol(symbol);
                self.require(Size::default(), size.clone());
                self.require(size, Size::constant(MAX_LENGTH as i64));
            }
        }
        for region in 0..self.regions.all.len() {
            let start = self.number(&format!("begin_{region}"), Input::Start(region));
            let length = self.number(&format!("length_{region}"), Input::Length(region));
            self.starts.push(start);
            self.lengths.push(length);
        }
        if self.stage.unit.as_ref().is_some_and(|unit| unit.inner.as_constant() != Some(1)) {
            let start = self.number("piece_begin", Input::PieceStart);
            let length = self.number("piece_length", Input::PieceLength);
            self.piece = Some((start, length));
        }
        // Where an array has the length, its axis tells it: then it is known to be no less than 0.
        let given = self.lengths.clone();
        let inputs = self.inputs.clone();
        for (input, source) in inputs.iter().enumerate() {
            let (Input::Param(_, parts) | Input::Value(_, parts)) = source else { continue };
            for (axis, part) in parts.iter().enumerate() {
                let (name, ty) = (self.new.params[input].name.clone(), self.new.params[input].ty.clone());
                let from = SymbolSource::Dimension { input, axis };
                let known = ty.shape[axis].as_symbol().is_some_and(|s| self.new.symbols[s].source == from);
                if part.is_none() && known {
                    continue;
                }
                let symbol = self.unused(&format!("{name}_{axis}"));
                let own = Size::symbol(self.new.symbols.push(Symbol { name: symbol, source: from }));
                let length = match part {
                    Some(region) => {
                        if self.lengths[*region] == given[*region] {
                            self.lengths[*region] = own.clone();
                        }
                        self.new.params[input].ty.shape[axis] = self.lengths[*region].clone();
                        given[*region].clone()
                    }
                    None => ty.shape[axis].clone(),
                };
                self.new.requires.push(Requirement {
                    left: own,
                    relation: Relation::Equal,
                    right: length,
                    unless_empty: vec![],
                    left_is: format!("axis {axis} of `{name}`"),
                    right_is: "the length of its part in this block".to_owned(),
                    purpose: Purpose::Lengths,
                    origin: self.new.params[input].origin,
                });
            }
        }
    }

    /// Requires of a call that a size is at most another one.
    fn require(&mut self, left: Size, right: Size) {
        self.new.requires.push(Requirement {
            left,
            relation: Relation::AtMost,
            right,
            unless_empty: vec![],
            left_is: "a size".to_owned(),
            right_is: "its limit".to_owned(),
            purpose: Purpose::Lengths,
            origin: Origin::default(),
        });
    }

    /// An index of the function, as it counts in the new program.
    fn to(&self, index: IndexId) -> Affine<IndexId> {
        match self.region(index.index()) {
            Some(region) => Affine::index(index).add(&sized(self.starts[region].clone())),
            None => Affine::index(index),
        }
    }

    fn extents(&mut self) {
        for (index, known) in &self.old.indices {
            if let Some(region) = self.region(index.index()) {
                self.new.indices[index].extent = Extent::Affine(sized(self.lengths[region].clone()));
            } else if let Extent::Affine(extent) = &known.extent {
                self.new.indices[index].extent = Extent::Affine(extent.substitute(&mut |index| self.to(index)));
            }
        }
    }

    /// The type of the copy of an expression.
    fn ty(&self, id: ExprId) -> Type {
        let Type { dtype, shape } = &self.old.exprs[id].ty;
        let lengths = shape.iter().enumerate().map(|(axis, length)| {
            let node = self.axes.arrays[id].get(axis);
            node.and_then(|node| self.region(*node)).map_or(length.clone(), |region| self.lengths[region].clone())
        });
        Type { dtype: *dtype, shape: lengths.collect() }
    }

    fn push(&mut self, kind: Kind, ty: Type, like: &Expr) -> ExprId {
        self.new.exprs.push(Expr { kind, ty, origin: like.origin, guard: like.guard, name: like.name.clone() })
    }

    fn scalar(&mut self, kind: Kind, dtype: Dtype, like: &Expr) -> ExprId {
        let (ty, origin, guard) = (Type::scalar(dtype), like.origin, like.guard);
        self.new.exprs.push(Expr { kind, ty, origin, guard, name: None })
    }

    fn subscript(&mut self, affine: Affine<IndexId>, check: Option<ir::nest::SiteId>, like: &Expr) -> Subscript {
        let value = self.integer(&affine, like);
        Subscript { value, affine: Some(affine), check }
    }

    /// An affine expression as a scalar.
    fn integer(&mut self, affine: &Affine<IndexId>, like: &Expr) -> ExprId {
        let mut sum = None;
        for (index, coefficient) in affine.terms() {
            let mut term = self.scalar(Kind::Index(*index), Dtype::I64, like);
            if coefficient.as_constant() != Some(1) {
                let factor = self.scalar(Kind::Size(coefficient.clone()), Dtype::I64, like);
                term = self.scalar(Kind::Binary(BinaryOp::Mul, term, factor), Dtype::I64, like);
            }
            sum = Some(match sum {
                Some(sum) => self.scalar(Kind::Binary(BinaryOp::Add, sum, term), Dtype::I64, like),
                None => term,
            });
        }
        if sum.is_some() && affine.constant_part().is_zero() {
            return sum.unwrap_or(ExprId::new(0));
        }
        let constant = self.scalar(Kind::Size(affine.constant_part().clone()), Dtype::I64, like);
        match sum {
            Some(sum) => self.scalar(Kind::Binary(BinaryOp::Add, sum, constant), Dtype::I64, like),
            None => constant,
        }
    }

    /// The copy of an expression.
    fn expression(&mut self, id: ExprId) -> Option<ExprId> {
        let expr = &self.old.exprs[id];
        if let Some(value) = self.regions.given.get(&id).copied() {
            return self.given(value, expr);
        }
        let ty = self.ty(id);
        let kind = match &expr.kind {
            Kind::Param(number) => Kind::Param(self.params[*number]?),
            Kind::Index(index) if self.region(index.index()).is_some() => {
                return Some(self.integer(&self.to(*index), expr));
            }
            Kind::Access { array, at } => {
                let nodes = self.axes.arrays[*array].clone();
                let mut subscripts = vec![];
                for (axis, subscript) in at.iter().enumerate() {
                    let new = match &subscript.affine {
                        Some(affine) => {
                            let mut at = affine.substitute(&mut |index| self.to(index));
                            if let Some(region) = self.region(nodes[axis]) {
                                at = at.sub(&sized(self.starts[region].clone()));
                            }
                            if at == *affine {
                                let value = self.ids[subscript.value]?;
                                Subscript { value, affine: Some(at), check: subscript.check }
                            } else {
                                self.subscript(at, subscript.check, expr)
                            }
                        }
                        None => Subscript { value: self.ids[subscript.value]?, affine: None, check: subscript.check },
                    };
                    subscripts.push(new);
                }
                Kind::Access { array: self.ids[*array]?, at: subscripts }
            }
            Kind::Reduce { op: ReduceOp::Monoid(monoid), over, body, order, prefix: Some(prefix), .. }
                if self.is_root(id) =>
            {
                return self.scan(id, *monoid, over[0], *body, *order, *prefix);
            }
            Kind::Reduce { op, over, body, order, by, .. } if self.is_root(id) => {
                if let ReduceOp::Position(extreme) = op {
                    return self.position(id, *extreme, over, *body);
                }
                match self.piece.clone() {
                    Some(piece) if by.is_empty() => return self.flat(id, *op, over, *body, *order, piece),
                    _ => self.copied(&expr.kind)?,
                }
            }
            kind => self.copied(kind)?,
        };
        Some(self.push(kind, ty, expr))
    }

    fn copied(&self, kind: &Kind) -> Option<Kind> {
        copied(kind, &|id| self.ids[id], &Affine::index)
    }

    fn is_root(&self, id: ExprId) -> bool {
        let is_it = |output: &Output| matches!(output, Output::Value(value) if self.plan.values[*value].expr == id);
        self.stage.outputs.iter().any(is_it)
    }

    /// An element of a value of an earlier stage.
    fn given(&mut self, value: usize, expr: &Expr) -> Option<ExprId> {
        let is_it = |input: &Input| matches!(input, Input::Value(other, _) if *other == value);
        let number = self.inputs.iter().position(is_it)?;
        let ty = self.new.params[number].ty.clone();
        if ty.is_scalar() {
            return Some(self.push(Kind::Param(number), ty, expr));
        }
        let array = self.new.exprs.push(Expr {
            kind: Kind::Param(number),
            ty: ty.clone(),
            origin: expr.origin,
            guard: Checked::TOP,
            name: None,
        });
        let mut at = vec![];
        for (axis, index) in self.plan.values[value].free.clone().into_iter().enumerate() {
            let mut affine = self.to(index);
            if let Some(region) = self.regions.of_given.get(&(value, axis)) {
                affine = affine.sub(&sized(self.starts[*region].clone()));
            }
            at.push(self.subscript(affine, None, expr));
        }
        Some(self.push(Kind::Access { array, at }, Type::scalar(ty.dtype), expr))
    }

    /// The place of the greatest or least element of a block, and that element.
    fn position(&mut self, id: ExprId, extreme: Extreme, over: &[IndexId], body: ExprId) -> Option<ExprId> {
        let expr = &self.old.exprs[id];
        let body = self.ids[body]?;
        // Each binder has indices of its own: both reductions read one array.
        let like = self.new.exprs[body].clone();
        let shape: Vec<Size> =
            over.iter().map(|index| self.new.indices[*index].extent.as_size().cloned()).collect::<Option<_>>()?;
        let dtype = like.ty.dtype;
        let array = self.push(Kind::Comprehension { indices: over.to_vec(), body }, Type { dtype, shape }, &like);
        let element = self.reduced(array, ReduceOp::Monoid(extreme.monoid()), Order::Free, over, &like);
        self.partners[id] = Some(element);
        let own = self.reduced(array, ReduceOp::Position(extreme), Order::Free, over, expr);
        let region = self.region(over[0].index())?;
        let length = |index: &IndexId| self.old.indices[*index].extent.as_size().cloned();
        let before = over[1..].iter().try_fold(self.starts[region].clone(), |n, index| Some(&n * &length(index)?))?;
        let before = self.scalar(Kind::Size(before), Dtype::I64, expr);
        Some(self.scalar(Kind::Binary(BinaryOp::Add, own, before), Dtype::I64, expr))
    }

    /// The prefixes of the elements of a block, and the reduction of all of them.
    fn scan(
        &mut self,
        id: ExprId,
        monoid: Monoid,
        running: IndexId,
        body: ExprId,
        order: Order,
        prefix: Prefix,
    ) -> Option<ExprId> {
        let expr = &self.old.exprs[id];
        let (body, op) = (self.ids[body]?, ReduceOp::Monoid(monoid));
        let like = self.new.exprs[body].clone();
        let dtype = like.ty.dtype;
        let shape = vec![self.new.indices[running].extent.as_size().cloned()?];
        let array = self.push(Kind::Comprehension { indices: vec![running], body }, Type { dtype, shape }, &like);
        self.partners[id] = Some(self.reduced(array, op, order, &[running], &like));
        let end = Affine::index(prefix.of).add(&Affine::constant(i64::from(prefix.inclusive)));
        let index = Index { extent: Extent::Affine(end), ..self.old.indices[running].clone() };
        let index = self.new.indices.push(index);
        let at = self.subscript(Affine::index(index), None, &like);
        let body = self.scalar(Kind::Access { array, at: vec![at] }, dtype, &like);
        let kind = Kind::Reduce { op, over: vec![index], body, order, prefix: Some(prefix), by: vec![] };
        Some(self.push(kind, Type::scalar(expr.ty.dtype), expr))
    }

    /// A reduction of an array with an axis for each of some indices.
    fn reduced(&mut self, array: ExprId, op: ReduceOp, order: Order, over: &[IndexId], like: &Expr) -> ExprId {
        let (mut fresh, mut at) = (vec![], vec![]);
        for index in over {
            let copy = self.new.indices.push(self.new.indices[*index].clone());
            fresh.push(copy);
            at.push(self.subscript(Affine::index(copy), None, like));
        }
        let dtype = self.new.exprs[array].ty.dtype;
        let body = self.scalar(Kind::Access { array, at }, dtype, like);
        let kind = Kind::Reduce { op, over: fresh, body, order, prefix: None, by: vec![] };
        self.scalar(kind, op.result(dtype), like)
    }

    /// The reduction of a piece that begins and ends within rows: of elements one after another.
    fn flat(
        &mut self,
        id: ExprId,
        op: ReduceOp,
        over: &[IndexId],
        body: ExprId,
        order: Order,
        (start, length): (Size, Size),
    ) -> Option<ExprId> {
        let expr = &self.old.exprs[id];
        let body = self.ids[body]?;
        let like = self.new.exprs[body].clone();
        let shape: Vec<Size> =
            over.iter().map(|index| self.new.indices[*index].extent.as_size().cloned()).collect::<Option<_>>()?;
        let all = shape.iter().fold(Size::constant(1), |product, length| &product * length);
        for number in [&start, &length] {
            self.require(Size::default(), number.clone());
        }
        self.require(&start + &length, all.clone());
        let dtype = like.ty.dtype;
        let rows = self.push(Kind::Comprehension { indices: over.to_vec(), body }, Type { dtype, shape }, &like);
        let elements = self.push(Kind::Reshape(rows), Type { dtype, shape: vec![all] }, &like);
        let index = Index { name: "element".to_owned(), extent: Extent::Affine(sized(length)), origin: expr.origin };
        let index = self.new.indices.push(index);
        let at = self.subscript(Affine::index(index).add(&sized(start)), None, &like);
        let body = self.scalar(Kind::Access { array: elements, at: vec![at] }, dtype, &like);
        let kind = Kind::Reduce { op, over: vec![index], body, order, prefix: None, by: vec![] };
        Some(self.push(kind, Type::scalar(expr.ty.dtype), expr))
    }

    /// The results: blocks without what lies beyond their ends, and partial results.
    fn results(&mut self) {
        for output in &self.stage.outputs {
            match output {
                Output::Result(number) => {
                    let (name, old) = &self.old.results[*number];
                    let Some(id) = self.ids[*old] else { continue };
                    let id = self.cut_off(*old, id);
                    self.new.results.push((name.clone(), id));
                }
                Output::Value(number) => {
                    let value = &self.plan.values[*number];
                    let Some(id) = self.ids[value.expr] else { continue };
                    let whole = self.around(&value.free, id);
                    self.new.results.push((format!("value_{number}"), whole));
                    if let Some(partner) = self.partners[value.expr] {
                        let around = value.free.iter().enumerate().filter(|(axis, _)| value.scan != Some(*axis));
                        let around: Vec<IndexId> = around.map(|(_, index)| *index).collect();
                        let whole = self.around(&around, partner);
                        self.new.results.push((format!("partner_{number}"), whole));
                    }
                }
            }
        }
    }

    /// A scalar at each setting of indices that are free in it. They are bound once for each
    /// result, behind all other expressions.
    fn around(&mut self, indices: &[IndexId], body: ExprId) -> ExprId {
        if indices.is_empty() {
            return body;
        }
        let length = |index: &IndexId| self.new.indices[*index].extent.as_size().cloned().unwrap_or_default();
        let like = self.new.exprs[body].clone();
        let ty = Type { dtype: like.ty.dtype, shape: indices.iter().map(length).collect() };
        let like = Expr { guard: Checked::TOP, ..like };
        self.push(Kind::Comprehension { indices: indices.to_vec(), body }, ty, &like)
    }

    /// The part of a result that belongs to the block.
    fn cut_off(&mut self, old: ExprId, id: ExprId) -> ExprId {
        let nodes = self.axes.arrays[old].clone();
        let wanted: Vec<Option<usize>> = nodes
            .iter()
            .map(|node| {
                let own = &self.regions.all[self.region(*node)?];
                let is_it = |other: &Region| {
                    (other.group, &other.length) == (own.group, &own.length) && other.lo.is_zero() && other.hi.is_zero()
                };
                self.regions.all.iter().position(is_it)
            })
            .collect();
        if nodes.iter().zip(&wanted).all(|(node, wanted)| self.region(*node) == *wanted) {
            return id;
        }
        let like = self.new.exprs[id].clone();
        let (mut indices, mut at, mut shape) = (vec![], vec![], vec![]);
        for ((axis, node), wanted) in nodes.iter().enumerate().zip(wanted) {
            let (length, offset) = match (wanted, self.region(*node)) {
                (Some(wanted), Some(own)) => (self.lengths[wanted].clone(), &self.starts[wanted] - &self.starts[own]),
                _ => (like.ty.shape[axis].clone(), Size::default()),
            };
            let extent = Extent::Affine(sized(length.clone()));
            let index = Index { name: format!("i{axis}"), extent, origin: like.origin };
            let index = self.new.indices.push(index);
            indices.push(index);
            shape.push(length);
            at.push(self.subscript(Affine::index(index).add(&sized(offset)), None, &like));
        }
        let body = self.scalar(Kind::Access { array: id, at }, like.ty.dtype, &like);
        let ty = Type { dtype: like.ty.dtype, shape };
        self.push(Kind::Comprehension { indices, body }, ty, &like)
    }

    /// Lets loops, recurrences and ends that data tells refer to the copies.
    fn finish(&mut self) {
        relink(&mut self.new, self.old, &|id| self.ids[id], &self.places);
    }
}
