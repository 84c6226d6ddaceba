//! Lowered programs as text, and their results compared with the meaning of the checked program.

mod programs;
mod random;
mod sample;
mod symmetric;

use ir::checked::{Checked, Extent};
use ir::nest::Program;
use ir::{Affine, Array, BinaryOp, CompareOp, Dtype, MathFn, Monoid, ReduceOp, Scalar, Size};

use compiler::lower::{LowerError, lower};
use sample::{Sample, at, plus};

fn lowered(checked: &Checked) -> Program {
    let program = lower(checked, None).expect("lowers");
    if let Err(error) = ir::verify::verify(&program) {
        panic!("{error}\n{program}");
    }
    program
}

fn kernels(checked: &Checked) -> String {
    let program = lowered(checked);
    program.kernels.values().map(|kernel| ir::print::kernel(&program, kernel)).collect::<String>()
}

/// Numbers that every order of summation adds exactly.
fn whole(dtype: Dtype, n: i64) -> Scalar {
    interp::scalar::cast(dtype, Scalar::I64(n))
}

/// Numbers that are not integers, if the type is a float.
fn fraction(dtype: Dtype, n: i64) -> Scalar {
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let third = Scalar::F64(n as f64 / 3.0);
    if dtype.is_float() { interp::scalar::cast(dtype, third) } else { whole(dtype, n) }
}

fn numbers(dtype: Dtype, shape: &[usize], make: fn(Dtype, i64) -> Scalar) -> Array {
    let count = shape.iter().product::<usize>();
    let number = |n: usize| i64::try_from((n * 7 + 3) % 11).unwrap() - 4;
    let elements: Vec<_> = (0..count).map(|n| make(dtype, number(n))).collect();
    Array::from_scalars(dtype, shape, &elements).unwrap()
}

/// Compares the lowered program with the checked one at several lengths of every size.
fn agrees(checked: &Checked, make: fn(Dtype, i64) -> Scalar) -> usize {
    let program = lowered(checked);
    let mut compared = 0;
    for lengths in [[0; 4], [1; 4], [2, 3, 1, 2], [3, 4, 3, 2], [3, 0, 2, 2]] {
        let mut inputs = vec![];
        for param in &checked.params {
            let value = |s: ir::SymbolId| lengths[s.as_u32() as usize % 4];
            let length = |s: &Size| usize::try_from(s.eval(&value).unwrap()).unwrap();
            if param.ty.is_scalar() && param.ty.dtype == Dtype::I64 {
                inputs.push(Array::scalar(Scalar::I64(2)));
                continue;
            }
            inputs.push(numbers(param.ty.dtype, &param.ty.shape.iter().map(length).collect::<Vec<_>>(), make));
        }
        let borrowed: Vec<_> = inputs.iter().map(Array::as_ref).collect();
        match interp::nest::run(&program, &borrowed) {
            Ok(outcome) => {
                let meant = interp::source::run(checked, &borrowed, &compiler::math::define);
                assert_eq!(Ok(outcome.outputs), meant, "{lengths:?}\n{program}");
                compared += 1;
            }
            // A subscript may be checked even if its value is not needed.
            Err(interp::nest::RunError::Fault(fault)) => {
                let may = interp::source::may_fault(checked, &borrowed, &compiler::math::define, fault);
                assert_eq!(may, Ok(true), "{fault:?} {lengths:?}\n{program}");
            }
            Err(interp::nest::RunError::Bind(_)) => {}
            Err(error) => panic!("{error:?} {lengths:?}\n{program}"),
        }
    }
    compared
}

#[test]
fn softmax() {
    let mut s = Sample::new();
    let x = s.param("x", Dtype::F32, &["n", "m"]);
    let (i, k, l) = (s.over("i", "n"), s.over("k", "m"), s.over("l", "m"));
    let (j, j2) = (s.over("j", "m"), s.over("j", "m"));
    let xk = s.element(x, &[at(i), at(k)]);
    let hi = s.reduce(ReduceOp::Monoid(Monoid::Max), &[k], xk);
    let xj = s.element(x, &[at(i), at(j)]);
    let d = s.binary(BinaryOp::Sub, xj, hi);
    let e = s.math(MathFn::Exp, d);
    let e = s.array(&[j], e);
    s.named("e", e);
    let el = s.element(e, &[at(l)]);
    let z = s.reduce(ReduceOp::Monoid(Monoid::Sum), &[l], el);
    let ej = s.element(e, &[at(j2)]);
    let p = s.binary(BinaryOp::Div, ej, z);
    let p = s.array(&[j2], p);
    let p = s.array(&[i], p);
    s.result("out", p);
    insta::assert_snapshot!(kernels(&s.checked));
    assert!(agrees(&s.checked, whole) > 2);
}

#[test]
fn shift_and_scan() {
    let mut s = Sample::new();
    let x = s.param("x", Dtype::F32, &["n"]);
    let i = s.over("i", "n");
    let (iv, zero) = (s.value_of(i), s.i64(0));
    let c = s.compare(CompareOp::Gt, iv, zero);
    let then = s.guarded(|s| {
        let e = s.element(x, &[plus(i, -1)]);
        s.math(MathFn::Exp, e)
    });
    let zero = s.f32(0.0);
    let y = s.either(c, then, zero);
    let y = s.array(&[i], y);
    let j = s.over("j", "n");
    let k = s.index("k", at(j));
    let yk = s.element(y, &[at(k)]);
    let e = s.math(MathFn::Log, yk);
    let c = s.prefix(ReduceOp::Monoid(Monoid::Sum), k, j, false, e);
    let c = s.array(&[j], c);
    s.result("c", c);
    let n = s.size("n");
    let r = s.reshape(c, vec![n, Size::constant(1)]);
    s.result("r", r);
    let (a, b) = (s.over("a", "n"), s.over("b", "n"));
    let k = s.index("k", plus(a, 1));
    let (ck, yb) = (s.element(c, &[at(k)]), s.element(y, &[at(b)]));
    let (ck, yb) = (s.math(MathFn::Tanh, ck), s.math(MathFn::Exp, yb));
    let m = s.binary(BinaryOp::Mul, ck, yb);
    let t = s.reduce(ReduceOp::Monoid(Monoid::Sum), &[k], m);
    let t = s.array(&[a, b], t);
    s.result("t", t);
    insta::assert_snapshot!(kernels(&s.checked));
    assert!(agrees(&s.checked, whole) > 2);
}

#[test]
fn ragged_and_dynamic() {
    let mut s = Sample::new();
    let x = s.param("x", Dtype::F64, &["n"]);
    let len = s.param("len", Dtype::I64, &["n"]);
    let b = s.over("b", "n");
    // The length of each row is data, and the second index of the reduction ends at the first one.
    let end = s.element(len, &[at(b)]);
    let k = s.index_to("k", Extent::Dynamic(end));
    let l = s.index("l", at(k));
    let (kv, lv) = (s.value_of(k), s.value_of(l));
    let product = s.binary(BinaryOp::Mul, kv, lv);
    let ragged = s.reduce(ReduceOp::Monoid(Monoid::Sum), &[k, l], product);
    let ragged = s.array(&[b], ragged);
    s.result("ragged", ragged);
    // An element of an array that depends on the running index, and one that does not.
    let (i, j) = (s.over("i", "n"), s.over("j", "n"));
    let k = s.index("k", plus(i, 1));
    let (xj, xk, xi) = (s.element(x, &[at(j)]), s.element(x, &[at(k)]), s.element(x, &[at(i)]));
    let product = s.binary(BinaryOp::Mul, xj, xk);
    let row = s.array(&[j], product);
    let j2 = s.over("j2", "n");
    let r = s.element(row, &[at(j2)]);
    let max = s.reduce(ReduceOp::Monoid(Monoid::Max), &[j2], r);
    let min = s.element(row, &[at(k)]);
    let both = s.binary(BinaryOp::Add, max, min);
    let square = s.binary(BinaryOp::Mul, xi, xi);
    let term = s.binary(BinaryOp::Sub, both, square);
    let sum = s.reduce(ReduceOp::Monoid(Monoid::Sum), &[k], term);
    let sum = s.array(&[i], sum);
    s.result("sum", sum);
    insta::assert_snapshot!(kernels(&s.checked));
    assert!(agrees(&s.checked, whole) > 2);
}

#[test]
fn guarded_arrays() {
    let mut s = Sample::new();
    let x = s.param("x", Dtype::I32, &["n", "m"]);
    let idx = s.param("idx", Dtype::I64, &["n"]);
    let i = s.over("i", "n");
    let (m, n) = (s.size("m"), s.size("n"));
    let (iv, zero) = (s.value_of(i), s.i64(0));
    let c = s.compare(CompareOp::Gt, iv, zero);
    let then = s.guarded(|s| {
        // reshape(x[i - 1, :] * 2, [m, 1]), at a checked place.
        let (j, two) = (s.over("j", "m"), s.scalar(ir::checked::Kind::Constant(Scalar::I32(2)), Dtype::I32));
        let e = s.element(x, &[plus(i, -1), at(j)]);
        let e = s.binary(BinaryOp::Mul, e, two);
        let row = s.array(&[j], e);
        let flat = s.reshape(row, vec![Size::constant(1), m.clone()]);
        let flat = s.reshape(flat, vec![m.clone()]);
        let at = s.element(idx, &[plus(i, -1)]);
        let last = s.scalar(ir::checked::Kind::Size(&m - &1.into()), Dtype::I64);
        let at = s.binary(BinaryOp::Max, at, zero);
        let at = s.binary(BinaryOp::Min, at, last);
        let picked = s.gather(flat, at);
        let j = s.over("j", "m");
        let e = s.element(row, &[Affine::index(j)]);
        let sum = s.reduce(ReduceOp::Monoid(Monoid::Sum), &[j], e);
        s.binary(BinaryOp::Add, picked, sum)
    });
    let last = s.scalar(ir::checked::Kind::Constant(Scalar::I32(-1)), Dtype::I32);
    let y = s.either(c, then, last);
    let y = s.array(&[i], y);
    s.result("y", y);
    let r = s.reshape(x, vec![&n * &m]);
    let r2 = s.reshape(r, vec![m.clone(), n.clone()]);
    let (a, b) = (s.over("a", "m"), s.over("b", "n"));
    let e = s.element(r2, &[at(a), at(b)]);
    let e = s.scalar(ir::checked::Kind::Unary(ir::UnaryOp::Neg, e), Dtype::I32);
    let t = s.array(&[a, b], e);
    s.result("t", t);
    insta::assert_snapshot!(kernels(&s.checked));
    assert!(agrees(&s.checked, whole) > 2);
}

#[test]
fn a_long_chain_is_fast_and_no_depth_of_stack() {
    let mut s = Sample::new();
    let mut x = s.param("x", Dtype::F32, &["n"]);
    let mut scalar = s.param("a", Dtype::F32, &[]);
    for _ in 0..5_000 {
        let i = s.over("i", "n");
        let e = s.element(x, &[at(i)]);
        let e = s.binary(BinaryOp::Mul, e, scalar);
        x = s.array(&[i], e);
        scalar = s.binary(BinaryOp::Add, scalar, scalar);
    }
    s.result("out", x);
    let start = std::time::Instant::now();
    let program = lower(&s.checked, None).expect("lowers");
    assert!(start.elapsed() < std::time::Duration::from_secs(5), "{:?}", start.elapsed());
    assert!((5_000..=10_000).contains(&program.kernels.len()));
    // Scalars are recomputed by their users, within limits.
    assert!(program.kernels.values().all(|k| k.values.len() < 100));
}

#[test]
fn limits() {
    let mut s = Sample::new();
    let x = s.param("x", Dtype::F32, &["n"]);
    let i = s.over("i", "n");
    let (iv, zero) = (s.value_of(i), s.i64(0));
    let c = s.compare(CompareOp::Gt, iv, zero);
    fn nest(
        s: &mut Sample,
        depth: usize,
        make: &mut dyn FnMut(&mut Sample) -> ir::checked::ExprId,
        c: ir::checked::ExprId,
    ) -> ir::checked::ExprId {
        if depth == 0 {
            return make(s);
        }
        let then = s.guarded(|s| nest(s, depth - 1, make, c));
        let zero = s.f32(0.0);
        s.either(c, then, zero)
    }
    let y = nest(&mut s, 200, &mut |s| s.element(x, &[plus(i, -1)]), c);
    let y = s.array(&[i], y);
    s.result("y", y);
    assert_eq!(lower(&s.checked, None).unwrap_err(), LowerError::TooDeep);
}

#[test]
fn random_programs() {
    let mut compared = 0;
    for seed in 0..1000 {
        compared += agrees(&random::program(seed), fraction);
    }
    assert!(compared > 3000, "{compared}");
}
