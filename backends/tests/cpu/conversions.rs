//! Conversions of 16-bit floats: all of their values, and `f32` at and near every rounding
//! boundary.

use interp::scalar::cast;
use ir::array::Array;
use ir::{Dtype, Scalar};

use crate::harness::{compile, parse, run};

/// Checks a conversion of these elements against the definition.
fn check(from: Dtype, to: Dtype, elements: &[Scalar]) {
    let text = format!(
        "program @p {{\n  symbol n = dim 0 of input 0\n  input 0 %x: {from}[n]\n  output %y: {to}[n]\n  kernel @k {{\n    \
         parallel i < n {{\n      v0 = load %x[i]\n      v1 = cast {to} v0\n      store %y[i], v1\n    }}\n  }}\n}}\n"
    );
    let program = parse(&text);
    let input = Array::from_scalars(from, &[elements.len()], elements).unwrap();
    let (result, outputs) = run(&program, &compile(&program), &[input], 2);
    result.unwrap();
    for (k, x) in elements.iter().enumerate() {
        assert_eq!(outputs[0].get(k), Some(cast(to, *x)), "{from} {x:?} to {to}");
    }
}

#[test]
fn every_half_to_every_type() {
    for from in [Dtype::F16, Dtype::Bf16] {
        let all: Vec<Scalar> = (0..=0xffff).map(|bits| Scalar::from_bits(from, bits)).collect();
        for to in Dtype::ALL {
            check(from, to, &all);
        }
    }
}

/// Rounding boundaries of 16-bit floats are determined by the leading 20 bits, with zeros after
/// them; also tests both neighbours.
#[test]
fn f32_to_halves_at_every_turn() {
    let bits = (0..1 << 20).flat_map(|high| [0, 1, 0xfff].map(|low| high << 12 | low));
    let all: Vec<Scalar> = bits.map(|bits| Scalar::from_bits(Dtype::F32, bits)).collect();
    for to in [Dtype::F16, Dtype::Bf16] {
        check(Dtype::F32, to, &all);
    }
}
