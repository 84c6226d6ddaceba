//! Checked programs written by hand: such as the checker would make, and some that it would not.

use ir::checked::{Checked, Expr, ExprId, Extent, GuardId, Index, IndexId, Kind, Param, Prefix, Subscript, Type};
use ir::nest::{CheckKind, Site, Symbol, SymbolSource};
use ir::{Affine, BinaryOp, CompareOp, Dtype, MathFn, Order, Origin, ReduceOp, Scalar, Size};

pub struct Sample {
    pub checked: Checked,
    pub guard: GuardId,
}

pub fn at(index: IndexId) -> Affine<IndexId> {
    Affine::index(index)
}

pub fn plus(index: IndexId, offset: i64) -> Affine<IndexId> {
    Affine::index(index).add(&Affine::constant(offset))
}

impl Sample {
    pub fn new() -> Sample {
        let mut checked = Checked { name: "sample".to_string(), ..Checked::default() };
        let guard = checked.guards.push(Checked::TOP);
        Sample { checked, guard }
    }

    /// An array parameter with axes that bind a size name each, or share one of that name.
    pub fn param(&mut self, name: &str, dtype: Dtype, axes: &[&str]) -> ExprId {
        let input = self.checked.params.len();
        let mut shape = vec![];
        for (axis, axis_name) in axes.iter().enumerate() {
            let known = self.checked.symbols.iter().find(|(_, s)| s.name == *axis_name).map(|(id, _)| id);
            let symbol = known.unwrap_or_else(|| {
                let source = SymbolSource::Dimension { input, axis };
                self.checked.symbols.push(Symbol { name: (*axis_name).to_string(), source })
            });
            shape.push(Size::symbol(symbol));
        }
        let ty = Type { dtype, shape };
        self.checked.params.push(Param { name: name.to_string(), ty: ty.clone(), origin: Origin::default() });
        self.node(Kind::Param(input), ty)
    }

    pub fn size(&self, name: &str) -> Size {
        let symbol = self.checked.symbols.iter().find(|(_, s)| s.name == name).map(|(id, _)| id);
        Size::symbol(symbol.expect("a size name"))
    }

    pub fn index(&mut self, name: &str, extent: Affine<IndexId>) -> IndexId {
        self.index_to(name, Extent::Affine(extent))
    }

    pub fn index_to(&mut self, name: &str, extent: Extent) -> IndexId {
        self.checked.indices.push(Index { name: name.to_string(), extent, origin: Origin::default() })
    }

    /// An index that runs to a named size.
    pub fn over(&mut self, name: &str, size: &str) -> IndexId {
        let size = self.size(size);
        self.index(name, Affine::size(size))
    }

    pub fn node(&mut self, kind: Kind, ty: Type) -> ExprId {
        self.checked.exprs.push(Expr { kind, ty, origin: Origin::default(), guard: self.guard, name: None })
    }

    pub fn scalar(&mut self, kind: Kind, dtype: Dtype) -> ExprId {
        self.node(kind, Type::scalar(dtype))
    }

    pub fn dtype(&self, id: ExprId) -> Dtype {
        self.checked.exprs[id].ty.dtype
    }

    pub fn f32(&mut self, value: f32) -> ExprId {
        self.scalar(Kind::Constant(Scalar::F32(value)), Dtype::F32)
    }

    pub fn i64(&mut self, value: i64) -> ExprId {
        self.scalar(Kind::Constant(Scalar::I64(value)), Dtype::I64)
    }

    pub fn value_of(&mut self, index: IndexId) -> ExprId {
        self.scalar(Kind::Index(index), Dtype::I64)
    }

    pub fn math(&mut self, function: MathFn, a: ExprId) -> ExprId {
        let dtype = self.dtype(a);
        self.scalar(Kind::Math(function, vec![a]), dtype)
    }

    pub fn binary(&mut self, op: BinaryOp, a: ExprId, b: ExprId) -> ExprId {
        let dtype = self.dtype(a);
        self.scalar(Kind::Binary(op, a, b), dtype)
    }

    pub fn compare(&mut self, op: CompareOp, a: ExprId, b: ExprId) -> ExprId {
        self.scalar(Kind::Compare(op, a, b), Dtype::Bool)
    }

    pub fn element(&mut self, array: ExprId, at: &[Affine<IndexId>]) -> ExprId {
        let mut subscripts = vec![];
        for affine in at {
            subscripts.push(Subscript { value: self.sum_of(affine), affine: Some(affine.clone()), check: None });
        }
        let at = subscripts;
        let dtype = self.dtype(array);
        self.scalar(Kind::Access { array, at }, dtype)
    }

    /// An affine expression written out.
    fn sum_of(&mut self, affine: &Affine<IndexId>) -> ExprId {
        let mut sum = self.scalar(Kind::Size(affine.constant_part().clone()), Dtype::I64);
        for (index, coefficient) in affine.terms() {
            let (index, by) = (self.value_of(*index), self.scalar(Kind::Size(coefficient.clone()), Dtype::I64));
            let term = self.binary(BinaryOp::Mul, index, by);
            sum = self.binary(BinaryOp::Add, sum, term);
        }
        sum
    }

    /// An element of an array of rank 1 at a checked subscript.
    pub fn gather(&mut self, array: ExprId, value: ExprId) -> ExprId {
        let site = Site { origin: Origin::default(), what: CheckKind::Axis { array: "x".to_string(), axis: 0 } };
        let check = Some(self.checked.sites.push(site));
        let dtype = self.dtype(array);
        self.scalar(Kind::Access { array, at: vec![Subscript { value, affine: None, check }] }, dtype)
    }

    pub fn array(&mut self, indices: &[IndexId], body: ExprId) -> ExprId {
        let size = |i: &IndexId| match &self.checked.indices[*i].extent {
            Extent::Affine(extent) => extent.as_size().cloned().unwrap_or_default(),
            Extent::Dynamic(_) => Size::default(),
        };
        let mut shape: Vec<Size> = indices.iter().map(size).collect();
        shape.extend(self.checked.exprs[body].ty.shape.iter().cloned());
        let dtype = self.dtype(body);
        self.node(Kind::Comprehension { indices: indices.to_vec(), body }, Type { dtype, shape })
    }

    pub fn reduce(&mut self, op: ReduceOp, over: &[IndexId], body: ExprId) -> ExprId {
        let dtype = op.result(self.dtype(body));
        self.scalar(
            Kind::Reduce { op, over: over.to_vec(), body, order: Order::Lanes, prefix: None, by: vec![] },
            dtype,
        )
    }

    pub fn prefix(&mut self, op: ReduceOp, k: IndexId, of: IndexId, inclusive: bool, body: ExprId) -> ExprId {
        let dtype = op.result(self.dtype(body));
        let prefix = Some(Prefix { of, inclusive });
        self.scalar(Kind::Reduce { op, over: vec![k], body, order: Order::Scan, prefix, by: vec![] }, dtype)
    }

    pub fn contract(&mut self, over: &[IndexId], left: ExprId, right: ExprId) -> ExprId {
        let dtype = self.dtype(left);
        self.scalar(Kind::Contract { over: over.to_vec(), left, right }, dtype)
    }

    pub fn reshape(&mut self, array: ExprId, shape: Vec<Size>) -> ExprId {
        let dtype = self.dtype(array);
        self.node(Kind::Reshape(array), Type { dtype, shape })
    }

    /// Makes a node in a branch of its own.
    pub fn guarded(&mut self, make: impl FnOnce(&mut Sample) -> ExprId) -> ExprId {
        let outer = self.guard;
        self.guard = self.checked.guards.push(outer);
        let made = make(self);
        self.guard = outer;
        made
    }

    pub fn either(&mut self, condition: ExprId, then: ExprId, otherwise: ExprId) -> ExprId {
        let dtype = self.dtype(then);
        self.scalar(Kind::If { condition, then, otherwise }, dtype)
    }

    pub fn named(&mut self, name: &str, id: ExprId) -> ExprId {
        self.checked.exprs[id].name = Some(name.to_string());
        id
    }

    pub fn result(&mut self, name: &str, id: ExprId) {
        self.checked.results.push((name.to_string(), id));
    }
}
