//! Making nodes of the checked program, each with its free indices and, where it has one, its affine form.

use grammar::Diagnostic;
use grammar::ast::Span;
use ir::checked::{Expr, ExprId, Extent, Index, IndexId, Kind, Subscript, Type};
use ir::sabotage::{self, Bug};
use ir::{Affine, BinaryOp, Dtype, Scalar, Size, SymbolId, UnaryOp};

use super::{Checker, MAX_EXPRS, Meta, codes, origin};

impl Checker<'_> {
    /// A new node under the current guard.
    pub(super) fn node(&mut self, kind: Kind, ty: Type, span: Span) -> ExprId {
        let meta = Meta { free: self.free_of(&kind), affine: self.affine_of(&kind, &ty) };
        self.meta.push(meta);
        self.out.exprs.push(Expr { kind, ty, origin: origin(span), guard: self.guard, name: None })
    }

    /// Whether the program has grown beyond the stated limit; reports it.
    pub(super) fn too_large(&mut self, span: Span) -> bool {
        let large = self.out.exprs.len() > MAX_EXPRS;
        if large && !self.errors.iter().any(|e| e.code == codes::TOO_LARGE) {
            let message = format!("the function has more than {MAX_EXPRS} operations when its calls are inlined");
            self.error(Diagnostic::new(codes::TOO_LARGE, span, message));
        }
        large
    }

    pub(super) fn ty(&self, id: ExprId) -> &Type {
        &self.out.exprs[id].ty
    }

    pub(super) fn dtype(&self, id: ExprId) -> Dtype {
        self.out.exprs[id].ty.dtype
    }

    pub(super) fn free(&self, id: ExprId) -> &[IndexId] {
        &self.meta[id].free
    }

    pub(super) fn affine(&self, id: ExprId) -> Option<&Affine<IndexId>> {
        self.meta[id].affine.as_ref()
    }

    /// The value of an integer scalar as a size, if it is made of sizes alone.
    pub(super) fn size_value(&self, id: ExprId) -> Option<&Size> {
        self.affine(id)?.as_size()
    }

    pub(super) fn constant(&mut self, value: Scalar, span: Span) -> ExprId {
        self.node(Kind::Constant(value), Type::scalar(value.dtype()), span)
    }

    pub(super) fn size_node(&mut self, size: Size, span: Span) -> ExprId {
        self.node(Kind::Size(size), Type::scalar(Dtype::I64), span)
    }

    /// A subscript that is inside by construction.
    pub(super) fn subscript(&mut self, at: Affine<IndexId>, span: Span) -> Subscript {
        let value = match at.as_index() {
            Some(index) => self.index_node(index, span),
            None => self.affine_node(&at, span),
        };
        Subscript { value, affine: Some(at), check: None }
    }

    pub(super) fn index_node(&mut self, index: IndexId, span: Span) -> ExprId {
        self.node(Kind::Index(index), Type::scalar(Dtype::I64), span)
    }

    /// An affine expression, written out.
    pub(super) fn affine_node(&mut self, at: &Affine<IndexId>, span: Span) -> ExprId {
        let i64s = Type::scalar(Dtype::I64);
        let mut sum = self.size_node(at.constant_part().clone(), span);
        for (index, coefficient) in at.terms() {
            let (index, coefficient) = (self.index_node(*index, span), self.size_node(coefficient.clone(), span));
            let product = self.node(Kind::Binary(BinaryOp::Mul, coefficient, index), i64s.clone(), span);
            sum = self.node(Kind::Binary(BinaryOp::Add, sum, product), i64s.clone(), span);
        }
        sum
    }

    /// A new index that runs to an extent.
    pub(super) fn index(&mut self, name: &str, extent: Affine<IndexId>, span: Span) -> IndexId {
        self.out.indices.push(Index { name: name.to_string(), extent: Extent::Affine(extent), origin: origin(span) })
    }

    /// New indices for the axes of a shape.
    pub(super) fn axis_indices(&mut self, shape: &[Size], span: Span) -> Vec<IndexId> {
        shape.iter().enumerate().map(|(k, n)| self.index(&format!("a{k}"), Affine::size(n.clone()), span)).collect()
    }

    /// An element of an array by subscripts that are inside by construction.
    pub(super) fn element(&mut self, array: ExprId, at: Vec<Affine<IndexId>>, span: Span) -> ExprId {
        if at.is_empty() {
            return array;
        }
        let ty = Type::scalar(self.dtype(array));
        let at = at.into_iter().map(|a| self.subscript(a, span)).collect();
        self.node(Kind::Access { array, at }, ty, span)
    }

    /// An array over indices; the body itself where there is none.
    pub(super) fn comprehension(&mut self, indices: Vec<IndexId>, body: ExprId, span: Span) -> ExprId {
        if indices.is_empty() {
            return body;
        }
        let extent = |i: &IndexId| match &self.out.indices[*i].extent {
            Extent::Affine(a) => a.as_size().cloned().unwrap_or_default(),
            Extent::Dynamic(_) => Size::default(),
        };
        let mut shape: Vec<Size> = indices.iter().map(extent).collect();
        shape.extend(self.ty(body).shape.iter().cloned());
        let ty = Type { dtype: self.dtype(body), shape };
        self.node(Kind::Comprehension { indices, body }, ty, span)
    }

    /// The symbol of an integer scalar parameter.
    pub(super) fn scalar_symbol(&self, param: usize) -> Option<SymbolId> {
        self.scalars.get(&param).copied()
    }

    fn free_of(&self, kind: &Kind) -> Vec<IndexId> {
        let mut free: Vec<IndexId> = vec![];
        let mut bound: &[IndexId] = &[];
        let mut add = |id: ExprId| free.extend_from_slice(self.free(id));
        match kind {
            Kind::Constant(_) | Kind::Size(_) | Kind::Param(_) => {}
            Kind::Index(i) => free.push(*i),
            Kind::Unary(_, a) | Kind::Cast(a) | Kind::Reshape(a) => add(*a),
            Kind::Binary(_, a, b) | Kind::Compare(_, a, b) => [*a, *b].into_iter().for_each(add),
            Kind::Fma(a, b, c) | Kind::If { condition: a, then: b, otherwise: c } => {
                [*a, *b, *c].into_iter().for_each(add);
            }
            Kind::Math(_, list) | Kind::ArrayLiteral(list) => list.iter().copied().for_each(add),
            Kind::Access { array, at } => {
                add(*array);
                at.iter().for_each(|s| add(s.value));
            }
            Kind::Comprehension { indices, body } => {
                bound = indices;
                add(*body);
            }
            Kind::Contract { over, left, right } => {
                bound = over;
                add(*left);
                add(*right);
            }
            Kind::Reduce { over, body, prefix, .. } => {
                bound = over;
                add(*body);
                free.extend(prefix.iter().map(|p| p.of));
            }
        }
        for index in bound {
            match &self.out.indices[*index].extent {
                Extent::Affine(extent) => free.extend(extent.terms().iter().map(|(i, _)| *i)),
                Extent::Dynamic(e) => free.extend_from_slice(self.free(*e)),
            }
        }
        free.sort_unstable();
        free.dedup();
        free.retain(|i| !bound.contains(i));
        free
    }

    fn affine_of(&self, kind: &Kind, ty: &Type) -> Option<Affine<IndexId>> {
        match kind {
            Kind::Constant(v) => i64::try_from(integer(*v)?).ok().map(Affine::constant),
            Kind::Size(size) => Some(Affine::size(size.clone())),
            Kind::Index(index) => Some(Affine::index(*index)),
            Kind::Param(k) => self.scalar_symbol(*k).map(|s| Affine::size(Size::symbol(s))),
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
                    _ => None,
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
        Scalar::I32(v) => v.into(),
        Scalar::U32(v) => v.into(),
        Scalar::I64(v) => v.into(),
        Scalar::U64(v) => v.into(),
        Scalar::Bool(_) | Scalar::F16(_) | Scalar::Bf16(_) | Scalar::F32(_) | Scalar::F64(_) => return None,
    })
}
