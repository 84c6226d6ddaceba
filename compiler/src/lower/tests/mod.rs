//! Lowered programs as text.

mod sample;

use ir::checked::{Checked, IndexId};
use ir::nest::Program;
use ir::{Affine, BinaryOp, CompareOp, Dtype, MathFn, ReduceOp, Size};

use super::lower;
use sample::{Sample, at, plus};

fn lowered(sample: &Sample) -> Program {
    lower(&sample.checked).expect("lowers")
}

fn kernels(sample: &Sample) -> String {
    let program = lowered(sample);
    program.kernels.values().map(|kernel| ir::print::kernel(&program, kernel)).collect::<Vec<_>>().join("\n")
}

#[test]
fn softmax() {
    let mut s = Sample::new();
    let x = s.param("x", Dtype::F32, &["n", "m"]);
    let (i, k, l) = (s.over("i", "n"), s.over("k", "m"), s.over("l", "m"));
    let (j, j2) = (s.over("j", "m"), s.over("j", "m"));
    let xk = s.element(x, &[at(i), at(k)]);
    let hi = s.reduce(ReduceOp::Max, &[k], xk);
    let xj = s.element(x, &[at(i), at(j)]);
    let d = s.binary(BinaryOp::Sub, xj, hi);
    let e = s.math(MathFn::Exp, d);
    let e = s.array(&[j], e);
    s.named("e", e);
    let el = s.element(e, &[at(l)]);
    let z = s.reduce(ReduceOp::Sum, &[l], el);
    let ej = s.element(e, &[at(j2)]);
    let p = s.binary(BinaryOp::Div, ej, z);
    let p = s.array(&[j2], p);
    let p = s.array(&[i], p);
    s.result("out", p);
    println!("{}", kernels(&s));
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
    let c = s.prefix(ReduceOp::Sum, k, j, false, e);
    let c = s.array(&[j], c);
    s.result("c", c);
    let n = s.size("n");
    let r = s.reshape(c, vec![n, Size::constant(1)]);
    s.result("r", r);
    let (a, b) = (s.over("a", "n"), s.over("b", "n"));
    let k = s.index("k", plus(a, 1));
    let (ck, yb) = (s.element(c, &[at(k)]), s.element(y, &[at(b)]));
    let (ck, yb) = (s.math(MathFn::Sin, ck), s.math(MathFn::Cos, yb));
    let m = s.binary(BinaryOp::Mul, ck, yb);
    let t = s.reduce(ReduceOp::Sum, &[k], m);
    let t = s.array(&[a, b], t);
    s.result("t", t);
    println!("{}", kernels(&s));
}
