//! Binding a call: sizes from lengths and scalars, requirements, and the lengths of every buffer.

use ir::array::Array;
use ir::bind::{BindError, Binding, MAX_LENGTH, integer};
use ir::nest::Program;
use ir::size::SizeError;
use ir::{Dtype, Scalar, SymbolId};

fn program(text: &str) -> Program {
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn scalars_of_any_integer_type_are_sizes() {
    for dtype in Dtype::ALL.into_iter().filter(|d| d.is_int()) {
        assert_eq!(integer(Scalar::parse(dtype, "7")), 7, "{dtype}");
    }
    assert_eq!(integer(Some(Scalar::I8(-1))), -1);
    assert_eq!(integer(Some(Scalar::U64(u64::MAX))), i64::MAX);
    assert_eq!((integer(Some(Scalar::F32(3.0))), integer(None)), (0, 0));
}

/// By value, borrowed, and borrowed to be written: a length and a scalar each.
#[test]
fn arguments_are_bound_however_they_are_lent() {
    let p = program(
        "program @p { symbol n = dim 1 of input 0 symbol k = value of input 1 input %x: f32[2, n] input 1 %k: i32
         output %y: f32[n] kernel @k { parallel i < n { v0 = load %x[0, i] store %y[i], v0 } } }",
    );
    let (mut x, mut number) = (Array::zeros(Dtype::F32, &[2, 5]).unwrap(), Array::scalar(Scalar::I32(9)));
    let bound = |binding: Binding| [0, 1].map(|n| binding.symbol(SymbolId::from_u32(n)));
    let inputs = [x.as_ref(), number.as_ref()];
    assert_eq!(bound(Binding::new(&p, &inputs).unwrap()), [5, 9]);
    assert_eq!(bound(Binding::new(&p, &[&inputs[0], &inputs[1]]).unwrap()), [5, 9]);
    let (mut a, mut b) = (x.as_mut(), number.as_mut());
    assert_eq!(bound(Binding::new(&p, &[&mut a, &mut b]).unwrap())[0], 5);
    let (mut a, mut b) = (x.as_ref(), number.as_ref());
    assert_eq!(bound(Binding::new(&p, &[&mut a, &mut b]).unwrap()), [5, 9]);
    let (x, number) = (Array::zeros(Dtype::F32, &[2, 5]).unwrap(), Array::zeros(Dtype::F64, &[]).unwrap());
    let error = Binding::new(&p, &[x.as_ref(), number.as_ref()]).map(|_| ());
    assert_eq!(error, Err(BindError::InputDtype { input: 1, expected: Dtype::I32, found: Dtype::F64 }));
    let error = Binding::new(&p, &[x.as_ref(), x.as_ref()]).map(|_| ());
    assert!(matches!(error, Err(BindError::InputDtype { .. } | BindError::InputRank { .. })), "{error:?}");
}

#[test]
fn sizes_are_solved_for() {
    let p = program(
        "program @p { symbol x_0 = dim 0 of input 0 symbol n = (x_0 - 1) / 2 for dim 0 of input 0 input %x: f32[2 * n + 1]
         output %r: f32[n] require x_0 == 2 * n + 1 as \"left\", \"right\" at 0..0
         require 0 <= n as \"left\", \"right\" at 0..0
         kernel @k { parallel i < n { v0 = load %x[i] store %r[i], v0 } } }",
    );
    let bind = |length| {
        let x = Array::zeros(Dtype::F32, &[length]).unwrap();
        Binding::new(&p, &[x.as_ref()]).map(|binding| binding.symbol(SymbolId::from_u32(1))).map_err(|e| match e {
            BindError::Requirement { requirement, left, right } => (requirement, left, right),
            other => panic!("{other:?}"),
        })
    };
    assert_eq!([7, 1, 6, 0].map(bind), [Ok(3), Ok(0), Err((0, 6, 5)), Err((0, 0, -1))]);
}

#[test]
fn a_requirement_is_void_where_a_size_is_empty() {
    let p = program(
        "program @p { symbol n = dim 0 of input 0 symbol m = dim 0 of input 1 symbol k = dim 0 of input 2
         input %x: f32[n] input 1 %y: f32[m] input 2 %z: f32[k] output %r: f32[n]
         require n <= m unless empty(k, n) as \"left\", \"right\" at 0..0
         kernel @k { parallel i < n { v0 = load %x[i] store %r[i], v0 } } }",
    );
    let bind = |n, m, k| {
        let [x, y, z] = [n, m, k].map(|n| Array::zeros(Dtype::F32, &[n]).unwrap());
        Binding::new(&p, &[x.as_ref(), y.as_ref(), z.as_ref()]).map(|_| ())
    };
    assert_eq!(bind(3, 3, 1), Ok(()));
    assert!(matches!(bind(3, 2, 1), Err(BindError::Requirement { .. })));
    // Either of the two makes it void; 0 alone is empty.
    assert_eq!((bind(3, 2, 0), bind(0, 0, 1)), (Ok(()), Ok(())));
    assert!(matches!(bind(1, 0, 1), Err(BindError::Requirement { .. })));
}

#[test]
fn every_buffer_has_a_length() {
    let p = program(
        "program @p { symbol n = dim 0 of input 0 input %x: f32[n] output %r: f32[n - 3]
         kernel @k { parallel i < n - 3 { v0 = load %x[i] store %r[i], v0 } } }",
    );
    let bind = |n: usize| {
        let x = Array::zeros(Dtype::F32, &[n]).unwrap();
        Binding::new(&p, &[x.as_ref()]).map(|_| ())
    };
    assert_eq!(bind(3), Ok(()));
    assert!(matches!(bind(2), Err(BindError::Length { axis: 0, value: Ok(-1), .. })));
    let p = program(
        "program @p { symbol n = value of input 0 input %x: i64 output %r: f32[n * n]
         kernel @k { parallel i < n * n { v0 = const f32 1.0 store %r[i], v0 } } }",
    );
    let number = Array::scalar(Scalar::I64(1 << 40));
    let error = Binding::new(&p, &[number.as_ref()]).map(|_| ());
    assert!(matches!(error, Err(BindError::Length { value: Err(SizeError::Overflow), .. })), "{error:?}");
}

/// Only an array without elements can have a longer axis.
#[test]
fn an_axis_has_a_longest_length() {
    let p = program(
        "program @p { symbol n = dim 0 of input 0 symbol m = dim 1 of input 0 input %x: f32[n, m] output %r: f32
         kernel @k { v0 = const f32 0.0 store %r[], v0 } }",
    );
    let bind = |shape: [usize; 2]| {
        let x = Array::zeros(Dtype::F32, &shape).unwrap();
        Binding::new(&p, &[x.as_ref()]).map(|_| ())
    };
    let longest = usize::try_from(MAX_LENGTH).unwrap();
    assert_eq!((bind([longest, 0]), bind([0, longest])), (Ok(()), Ok(())));
    for (shape, axis) in [([longest + 1, 0], 0), ([0, longest + 1], 1)] {
        assert_eq!(bind(shape), Err(BindError::InputLength { input: 0, axis, found: longest + 1 }));
    }
}
