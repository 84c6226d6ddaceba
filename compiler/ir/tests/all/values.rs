//! Scalars and arrays: equality, rounding of decimals, and arrays from memory.

use ir::array::{Array, ArrayError, ArrayMut, ArrayRef};
use ir::{Dtype, Scalar};

fn all(dtype: Dtype, scalars: &[Scalar]) -> Array {
    Array::from_scalars(dtype, &[scalars.len()], scalars).unwrap()
}

/// NaNs of each type with a sign and a payload.
const ODD: [(Dtype, u64); 4] =
    [(Dtype::F16, 0xfd55), (Dtype::Bf16, 0xffd5), (Dtype::F32, 0xffd5_5555), (Dtype::F64, 0xfffd_5555_5555_5555)];

#[test]
fn types_are_of_one_kind() {
    let kinds = Dtype::ALL.map(|d| (d.name(), d.is_float(), d.is_int(), d.is_signed_int()));
    let expected = [
        ("bool", false, false, false),
        ("i8", false, true, true),
        ("u8", false, true, false),
        ("i16", false, true, true),
        ("u16", false, true, false),
        ("i32", false, true, true),
        ("i64", false, true, true),
        ("u32", false, true, false),
        ("u64", false, true, false),
        ("f16", true, false, false),
        ("bf16", true, false, false),
        ("f32", true, false, false),
        ("f64", true, false, false),
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn nans_are_equal_and_zeros_are_not() {
    for (dtype, bits) in ODD {
        let (odd, nan) = (Scalar::from_bits(dtype, bits), Scalar::parse(dtype, "nan").unwrap());
        assert!(odd.is_nan() && nan.is_nan() && odd.bits() != nan.bits(), "{dtype}");
        assert_eq!(odd, nan);
        let one = Scalar::one(dtype);
        assert!(!one.is_nan(), "{dtype}");
        assert_ne!(one, nan);
        assert_ne!(nan, one);
        let zeros = ["0.0", "-0.0"].map(|text| Scalar::parse(dtype, text).unwrap());
        assert_ne!(zeros[0], zeros[1]);
        assert_eq!(all(dtype, &[odd, one]), all(dtype, &[nan, one]));
        assert_ne!(all(dtype, &[odd, one]), all(dtype, &[one, nan]));
        let mut canonical = all(dtype, &[odd, one]);
        canonical.canonical_nan();
        assert_eq!(canonical.bytes(), all(dtype, &[nan, one]).bytes(), "{dtype}");
    }
    assert!(!Scalar::I64(-1).is_nan() && !Scalar::Bool(true).is_nan());
    assert_ne!(Scalar::I32(1), Scalar::U32(1));
}

#[test]
fn arrays_are_equal_in_type_shape_and_elements() {
    let ones = |dtype, shape: &[usize]| Array::from_scalars(dtype, shape, &[Scalar::one(dtype); 6]).unwrap();
    let x = ones(Dtype::I32, &[2, 3]);
    assert_eq!(x, ones(Dtype::I32, &[2, 3]));
    assert_ne!(x, ones(Dtype::U32, &[2, 3]));
    assert_ne!(x, ones(Dtype::I32, &[3, 2]));
    let mut y = x.clone();
    assert!(y.set(5, Scalar::I32(7)));
    assert_ne!(x, y);
    assert_eq!((y.get(4), y.get(5), y.get(6)), (Some(Scalar::I32(1)), Some(Scalar::I32(7)), None));
    assert!(!y.set(6, Scalar::I32(7)) && !y.set(0, Scalar::U32(7)), "beyond the end, of another type");
    assert_eq!((x.len(), x.is_empty()), (6, false));
    let none = Array::zeros(Dtype::F64, &[3, 0]).unwrap();
    assert_eq!((none.len(), none.is_empty()), (0, true));
}

#[test]
fn elements_of_each_type_are_stored_and_read() {
    for dtype in Dtype::ALL {
        let mut x = Array::zeros(dtype, &[3]).unwrap();
        assert!(x.set(1, Scalar::one(dtype)));
        let [zero, one] = [Scalar::zero(dtype), Scalar::one(dtype)];
        assert_eq!(x, all(dtype, &[zero, one, zero]));
        assert_eq!(Array::from_bytes(dtype, &[3], x.bytes()).unwrap(), x);
    }
}

/// Short arrays and long ones, which begin at a cache line.
#[test]
fn arrays_of_any_length_hold_their_elements() {
    for n in (0..80).chain([1000, 4097]) {
        let scalars: Vec<Scalar> = (0..n).map(|k| Scalar::U8(k as u8)).collect();
        let x = all(Dtype::U8, &scalars);
        assert_eq!(x.bytes().len(), n);
        assert!((0..n).all(|k| x.get(k) == Some(Scalar::U8(k as u8))), "{n}");
        assert!(n < 64 || (x.bytes().as_ptr() as usize).is_multiple_of(64), "{n}");
        assert_eq!(x.clone(), x);
    }
}

#[test]
fn memory_that_is_no_array_is_refused() {
    let length = |expected, found| Err(ArrayError::Length { expected, found });
    assert_eq!(Array::from_bytes(Dtype::F32, &[2], &[0; 7]).map(|_| ()), length(8, 7));
    assert_eq!(ArrayRef::new(Dtype::F32, &[2], &[0; 9]).map(|_| ()), length(8, 9));
    assert_eq!(ArrayMut::new(Dtype::F32, &[2], &mut [0; 9]).map(|_| ()), length(8, 9));
    let wrong = Err(ArrayError::InvalidBool { position: 2 });
    assert_eq!(Array::from_bytes(Dtype::Bool, &[3], &[0, 1, 2]).map(|_| ()), wrong);
    assert_eq!(ArrayRef::new(Dtype::Bool, &[3], &[0, 1, 2]).map(|_| ()), wrong);
    assert!(Array::from_bytes(Dtype::U8, &[3], &[0, 1, 2]).is_ok());
    assert!(Array::from_bytes(Dtype::Bool, &[3], &[0, 1, 1]).is_ok());
}

/// Decimals halfway between neighbours, and very close to that: rounding twice would go the wrong
/// way.
#[test]
fn decimals_round_once() {
    for bits in (0..0x7bff_u16).step_by(13) {
        let [low, high] = [bits, bits + 1].map(|bits| f64::from(half::f16::from_bits(bits)));
        let middle = (low + high) / 2.0;
        let even = if bits % 2 == 0 { bits } else { bits + 1 };
        let exact = format!("{middle:.60e}");
        let (digits, exponent) = exact.split_once('e').unwrap();
        // An `f32` to either side of the midpoint. One more rounding would end at the midpoint.
        let (above, below) = ((middle as f32).next_up(), (middle as f32).next_down());
        let cases = [
            (exact.clone(), even),
            (format!("{middle:.60}"), even),
            (format!("{digits}1e{exponent}"), bits + 1),
            (format!("{:.60e}", middle.next_down()), bits),
            (format!("{:.60e}", f64::from(above).next_down()), bits + 1),
            (format!("{:.120}", f64::from(below).next_up()), bits),
        ];
        for (text, expected) in cases {
            let found = Scalar::parse(Dtype::F16, &text).map(Scalar::bits);
            assert_eq!(found, Some(expected.into()), "{text}");
            let negative = Scalar::parse(Dtype::F16, &format!("-{text}")).map(Scalar::bits);
            assert_eq!(negative, Some(u64::from(expected | 0x8000)), "-{text}");
        }
    }
    for (text, value) in [("00.00390625E0", 0x1c00), ("390625e-8", 0x1c00), ("65504", 0x7bff), ("1e99", 0x7c00)] {
        assert_eq!(Scalar::parse(Dtype::F16, text).map(Scalar::bits), Some(value), "{text}");
    }
}
