//! Compared with NumPy itself: `cases.py` writes the cases.

use ir::Array;

use super::*;

#[test]
fn lays_out_as_numpy_does() {
    let cases = include_str!("cases.txt");
    let mut wrong = String::new();
    let mut count = 0;
    for case in cases.split_terminator("\n--\n") {
        let (array, expected) = case.split_once('\n').unwrap();
        let mut fields = array.split_whitespace();
        let dtype = Dtype::from_name(fields.next().unwrap()).unwrap();
        let shape: Vec<usize> = match fields.next().unwrap() {
            "scalar" => vec![],
            shape => shape.split('x').map(|n| n.parse().unwrap()).collect(),
        };
        let precision = fields.next().unwrap().parse().ok();
        let bits = fields.map(|word| Scalar::from_bits(dtype, u64::from_str_radix(word, 16).unwrap()));
        let array = Array::from_scalars(dtype, &shape, &bits.collect::<Vec<_>>()).unwrap();
        let found = to_text(array.as_ref(), &Format { precision, ..Format::default() });
        count += 1;
        if found != expected {
            wrong += &format!("{dtype} {shape:?}\n{expected}\nbut\n{found}\n\n");
        }
    }
    assert!(count > 150, "{count} cases");
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn prints_any_rank() {
    let text = |array: &Array| to_text(array.as_ref(), &Format::default());
    assert!(text(&Array::from_slice(&[1; 64], &[half::bf16::from_f32(0.1)]).unwrap()).contains("[0.1]"));
    assert_eq!(text(&Array::zeros(Dtype::I32, &[1; 40_000]).unwrap()), "<i32 of 40000 axes>");
}

#[test]
fn arrays_fit_the_format() {
    let x = Array::from((0..40).collect::<Vec<i32>>());
    let lines = |width, most| {
        let text = to_text(x.as_ref(), &Format { width, most, precision: None });
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    for width in [8, 20, 75, 200] {
        let all = lines(width, None);
        assert!(all.iter().all(|line| line.len() <= width), "{all:?}");
        assert_eq!(all.concat().split(',').count(), 40);
    }
    assert_eq!(lines(75, Some(39)), ["[ 0,  1,  2, ..., 37, 38, 39]"]);
    assert_eq!(lines(200, Some(40)).len(), 1);
    // An element that is longer than the line has a line of its own.
    assert_eq!(lines(1, None).len(), 40);
}

/// The elements between the brackets and commas of a text.
fn read(text: &str, dtype: Dtype) -> Vec<Option<Scalar>> {
    let words = text.split(|c: char| "[],".contains(c) || c.is_whitespace()).filter(|word| !word.is_empty());
    words.map(|word| Scalar::parse(dtype, word)).collect()
}

/// Every element of the short types, so that no decimal near the middle of two of them is missed.
#[test]
fn short_floats_read_back() {
    for dtype in [Dtype::F16, Dtype::Bf16] {
        for bits in 0..=u64::from(u16::MAX) {
            let scalar = Scalar::from_bits(dtype, bits);
            let text = to_text(Array::scalar(scalar).as_ref(), &Format::default());
            assert_eq!(read(&text, dtype), [Some(scalar)], "{text}");
        }
    }
}

proptest::proptest! {
    /// Whatever is printed reads back with the same bits, alone and among others.
    #[test]
    fn elements_read_back(bits: [u64; 5], near in 0u64..3, power in 0u64..2048) {
        for dtype in Dtype::ALL {
            // Powers of two and their neighbours, where the shortest decimals are delicate.
            let powers = match dtype {
                Dtype::F16 => (power % 32) << 10,
                Dtype::Bf16 => (power % 256) << 7,
                Dtype::F32 => (power % 256) << 23,
                Dtype::F64 => power << 52,
                _ => power,
            };
            let bits = bits.into_iter().chain([powers.wrapping_add(near).wrapping_sub(1)]);
            let scalars: Vec<Scalar> = bits.map(|bits| Scalar::from_bits(dtype, bits)).collect();
            let all: Vec<Option<Scalar>> = scalars.iter().copied().map(Some).collect();
            let array = Array::from_scalars(dtype, &[2, 3], &scalars).unwrap();
            proptest::prop_assert_eq!(read(&to_text(array.as_ref(), &Format::default()), dtype), all);
            for scalar in scalars {
                for array in [Array::scalar(scalar), Array::from_scalars(dtype, &[1], &[scalar]).unwrap()] {
                    let text = to_text(array.as_ref(), &Format::default());
                    proptest::prop_assert_eq!(read(&text, dtype), [Some(scalar)], "{}", text);
                }
            }
        }
    }
}
