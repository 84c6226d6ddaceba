//! Compared with NumPy itself: `cases.py` writes the cases.

use ir::Array;

use super::*;

#[test]
fn prints_as_numpy_does() {
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
        let bits = fields.map(|word| Scalar::from_bits(dtype, u64::from_str_radix(word, 16).unwrap()));
        let array = Array::from_scalars(dtype, &shape, &bits.collect::<Vec<_>>()).unwrap();
        let found = to_text(array.as_ref());
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
    let array = Array::from_scalars(Dtype::Bf16, &[1; 64], &[Scalar::Bf16(half::bf16::from_f32(0.1))]).unwrap();
    assert!(to_text(array.as_ref()).contains("[0.1]"));
    let array = Array::zeros(Dtype::I32, &[1; 40_000]).unwrap();
    assert_eq!(to_text(array.as_ref()), "<i32 of 40000 axes>");
}
