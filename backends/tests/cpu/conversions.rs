//! Conversions of types of 16 bits: all of their values, to 16-bit floats also `f32` at and near
//! every rounding boundary, and to 16-bit integers the numbers at their ends.

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
fn every_value_of_16_bits_to_every_type() {
    for from in [Dtype::F16, Dtype::Bf16, Dtype::I16, Dtype::U16] {
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

/// Integers wrap and floats saturate, with NaN as 0.
#[test]
fn every_type_to_integers_of_16_bits() {
    let numbers = [-1e30, -65537.0, -32769.0, -32768.5, -1.0, -0.5, 32767.5, 32768.0, 65535.5, 65536.0, 1e30];
    for from in [Dtype::F32, Dtype::F64, Dtype::I32, Dtype::U32, Dtype::I64, Dtype::U64] {
        let mut all: Vec<Scalar> = numbers.iter().map(|v| cast(from, Scalar::F64(*v))).collect();
        all.push(cast(from, Scalar::F64(f64::NAN)));
        all.extend((0..40).map(|k| Scalar::from_bits(from, 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(k))));
        for to in [Dtype::I16, Dtype::U16] {
            check(from, to, &all);
        }
    }
}
