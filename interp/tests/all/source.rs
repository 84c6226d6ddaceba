//! Properties of the evaluator of checked programs beyond agreeing with the other engines: depth
//! and sharing cost neither stack nor time, values that are not needed are not computed, and memory
//! is bounded.

use interp::source::{RunError, may_fault, run};
use ir::bind::Fault;
use ir::checked::{Checked, Expr, ExprId, Extent, GuardId, Index, IndexId, Kind, Param, Subscript, Type};
use ir::nest::{CheckKind, Site, SiteId, Symbol, SymbolSource};
use ir::{Affine, Array, BinaryOp, CompareOp, Dtype, Monoid, Order, Origin, ReduceOp, Scalar, Size, SymbolId};

/// A checked program of one array parameter `x: f32[n]`, in the making.
struct Sample {
    checked: Checked,
    guard: GuardId,
    n: Size,
    x: ExprId,
}

impl Sample {
    fn new() -> Sample {
        let mut checked = Checked::default();
        let guard = checked.guards.push(Checked::TOP);
        let source = SymbolSource::Dimension { input: 0, axis: 0 };
        let n = Size::symbol(checked.symbols.push(Symbol { name: "n".into(), source }));
        let ty = Type { dtype: Dtype::F32, shape: vec![n.clone()] };
        checked.params.push(Param { name: "x".into(), ty: ty.clone(), origin: Origin::default() });
        let mut sample = Sample { checked, guard, n, x: ExprId::from_u32(0) };
        sample.x = sample.node(Kind::Param(0), ty);
        sample
    }

    fn node(&mut self, kind: Kind, ty: Type) -> ExprId {
        self.checked.exprs.push(Expr { kind, ty, origin: Origin::default(), guard: self.guard, name: None })
    }

    fn scalar(&mut self, kind: Kind, dtype: Dtype) -> ExprId {
        self.node(kind, Type::scalar(dtype))
    }

    fn add(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.scalar(Kind::Binary(BinaryOp::Add, a, b), Dtype::F32)
    }

    fn one(&mut self) -> ExprId {
        self.scalar(Kind::Constant(Scalar::F32(1.0)), Dtype::F32)
    }

    fn index(&mut self) -> IndexId {
        let extent = Extent::Affine(Affine::size(self.n.clone()));
        self.checked.indices.push(Index { name: "i".into(), extent, origin: Origin::default() })
    }

    fn at(&mut self, array: ExprId, value: ExprId, check: Option<SiteId>) -> ExprId {
        self.scalar(Kind::Access { array, at: vec![Subscript { value, affine: None, check }] }, Dtype::F32)
    }

    fn element(&mut self, array: ExprId, index: IndexId) -> ExprId {
        let value = self.scalar(Kind::Index(index), Dtype::I64);
        self.at(array, value, None)
    }

    fn array(&mut self, index: IndexId, body: ExprId) -> ExprId {
        let ty = Type { dtype: Dtype::F32, shape: vec![self.n.clone()] };
        self.node(Kind::Comprehension { indices: vec![index], body }, ty)
    }

    fn sum(&mut self, index: IndexId, body: ExprId) -> ExprId {
        let kind = Kind::Reduce {
            op: ReduceOp::Monoid(Monoid::Sum),
            over: vec![index],
            body,
            order: Order::Lanes,
            prefix: None,
            by: vec![],
        };
        self.scalar(kind, Dtype::F32)
    }

    fn run(mut self, result: ExprId, x: &[f32]) -> Result<Vec<Array>, RunError> {
        self.checked.results.push(("out".into(), result));
        run(&self.checked, &[array(x).as_ref()], &|_, _| None)
    }
}

fn array(x: &[f32]) -> Array {
    Array::from(x.to_vec())
}

fn number(v: f32) -> Vec<Array> {
    vec![Array::scalar(Scalar::F32(v))]
}

#[test]
fn a_million_operations_deep() {
    let mut s = Sample::new();
    let one = s.one();
    let mut last = one;
    for _ in 0..1_000_000 {
        last = s.add(last, one);
    }
    assert_eq!(s.run(last, &[]), Ok(number(1_000_001.0)));
}

#[test]
fn ten_thousand_arrays_deep() {
    let mut s = Sample::new();
    let mut last = s.x;
    for _ in 0..10_000 {
        let (i, one) = (s.index(), s.one());
        let element = s.element(last, i);
        let sum = s.add(element, one);
        last = s.array(i, sum);
    }
    assert_eq!(s.run(last, &[0.0, 1.0]), Ok(vec![array(&[10_000.0, 10_001.0])]));
}

#[test]
fn what_is_shared_is_computed_once() {
    // Doubled a hundred times as a scalar, and as often as the sum of an array plus its elements.
    let mut s = Sample::new();
    let mut last = s.one();
    for _ in 0..100 {
        last = s.add(last, last);
    }
    assert_eq!(s.run(last, &[]), Ok(number(2f32.powi(100))));
    let mut s = Sample::new();
    let mut last = s.x;
    for _ in 0..100 {
        let (i, k) = (s.index(), s.index());
        let (xi, xk) = (s.element(last, i), s.element(last, k));
        let sum = s.sum(k, xk);
        let body = s.add(xi, sum);
        last = s.array(i, body);
    }
    let doubled = s.run(last, &[1.0]).unwrap();
    assert_eq!(doubled, vec![array(&[2f32.powi(100)])]);
}

#[test]
fn what_no_result_needs_is_not_looked_at() {
    let mut s = Sample::new();
    let site =
        s.checked.sites.push(Site { origin: Origin::default(), what: CheckKind::Axis { array: "x".into(), axis: 0 } });
    let (far, zero) =
        (s.scalar(Kind::Constant(Scalar::I64(7)), Dtype::I64), s.scalar(Kind::Constant(Scalar::I64(0)), Dtype::I64));
    let condition = s.scalar(Kind::Compare(CompareOp::Lt, far, zero), Dtype::Bool);
    s.guard = s.checked.guards.push(Checked::TOP);
    let outside = s.at(s.x, far, Some(site));
    s.guard = Checked::TOP;
    let one = s.one();
    let guarded = s.scalar(Kind::If { condition, then: outside, otherwise: one }, Dtype::F32);
    s.checked.results.push(("out".into(), guarded));
    let (x, fault) = (array(&[1.0]), Fault { site, index: 7, bound: 1 });
    assert_eq!(run(&s.checked, &[x.as_ref()], &|_, _| None), Ok(number(1.0)));
    assert_eq!(may_fault(&s.checked, &[x.as_ref()], &|_, _| None, fault), Ok(false));
    // The other branch.
    if let Kind::If { condition, then, otherwise } = &mut s.checked.exprs[guarded].kind {
        std::mem::swap(then, otherwise);
        assert_eq!(*condition, ExprId::from_u32(3));
    }
    assert_eq!(run(&s.checked, &[x.as_ref()], &|_, _| None), Err(RunError::Fault(fault)));
    assert_eq!(may_fault(&s.checked, &[x.as_ref()], &|_, _| None, fault), Ok(true));
    let other = Fault { index: 6, ..fault };
    assert_eq!(may_fault(&s.checked, &[x.as_ref()], &|_, _| None, other), Ok(false));
    // A subscript that ends in this fault may be any value elsewhere.
    let elsewhere =
        s.checked.sites.push(Site { origin: s.checked.sites[site].origin, what: s.checked.sites[site].what.clone() });
    let data = s.scalar(Kind::Cast(outside), Dtype::I64);
    let by_data = s.at(s.x, data, Some(elsewhere));
    s.checked.results.push(("by_data".into(), by_data));
    let other = Fault { site: elsewhere, index: 6, bound: 1 };
    assert_eq!(may_fault(&s.checked, &[x.as_ref()], &|_, _| None, other), Ok(true));
    let shorter = Fault { bound: 0, ..other };
    assert_eq!(may_fault(&s.checked, &[x.as_ref()], &|_, _| None, shorter), Ok(false));
}

#[test]
fn memory_is_bounded() {
    // Two arrays of 2^40 elements, one the sum of the other's.
    let mut s = Sample::new();
    let n = SymbolId::from_u32(0);
    s.n = &Size::symbol(n) * &Size::constant(1 << 40);
    let (i, k, one) = (s.index(), s.index(), s.one());
    let ones = s.array(i, one);
    let element = s.element(ones, k);
    let sum = s.sum(k, element);
    assert!(matches!(s.run(sum, &[0.0]), Err(RunError::OutOfMemory { .. })));
}
