//! Arguments as text: their forms, their ranges and their errors.

use super::load as load_all;

use super::*;
use crate::error::codes as call;
use crate::files::codes;

fn slot(dtype: Dtype, shape: &[&str]) -> Slot {
    Slot { name: "x".to_owned(), dtype, shape: shape.iter().map(|s| (*s).to_owned()).collect() }
}

fn load(text: &str, dtype: Dtype, shape: &[&str]) -> Array {
    Value::parse(text, &slot(dtype, shape)).unwrap().load(0, 0).unwrap()
}

fn error(text: &str, dtype: Dtype, shape: &[&str]) -> String {
    Value::parse(text, &slot(dtype, shape)).unwrap_err().to_string()
}

#[test]
fn reads_scalars() {
    for (text, expected) in [
        ("3", Scalar::I32(3)),
        ("-2147483648", Scalar::I32(i32::MIN)),
        ("true", Scalar::Bool(true)),
        ("1e-5", Scalar::F32(1e-5)),
        ("nan", Scalar::F64(f64::NAN)),
        ("-inf", Scalar::F32(f32::NEG_INFINITY)),
        ("7", Scalar::F64(7.0)),
    ] {
        assert_eq!(load(text, expected.dtype(), &[]).get(0), Some(expected), "{text}");
    }
    assert_eq!(error("2147483648", Dtype::I32, &[]), "argument `x`: `2147483648` is not a value of type i32");
    assert_eq!(error("1.5", Dtype::I64, &[]), "argument `x`: `1.5` is not a value of type i64");
    assert_eq!(error("1", Dtype::Bool, &[]), "argument `x`: `1` is not a value of type bool");
    assert!(error("x", Dtype::F32, &[]).contains("this is not a value for a parameter of type f32"));
    assert!(error("3", Dtype::F32, &["n"]).contains("this is not a value for a parameter of type f32[n]"));
}

#[test]
fn generates() {
    assert_eq!(load("zeros:2x0", Dtype::F32, &["n", "m"]).shape(), [2, 0]);
    assert_eq!(load("ones:3", Dtype::Bool, &["n"]).bytes(), [1, 1, 1]);
    let counted = load("arange:2x2", Dtype::F32, &["n", "m"]);
    assert_eq!(counted.get(3), Some(Scalar::F32(3.0)));
    assert_eq!(load("arange:300", Dtype::U8, &["n"]).bytes()[256..258], [0, 1]);
    assert!(error("random:3", Dtype::F32, &["n", "m"]).contains("f32[n, m], this has shape 3"));
    for shape in ["3x", "x", "-1", "3,4", "+3", "99999999999999999999"] {
        assert!(error(&format!("zeros:{shape}"), Dtype::F32, &["n"]).contains("is not a shape"), "{shape}");
    }
    let huge = "zeros:4294967296x4294967296";
    assert!(error(huge, Dtype::F32, &["n", "m"]).contains("the array is larger than memory can be"));
}

#[test]
fn draws_the_same_numbers_for_ever() {
    // The first outputs of SplitMix64 from seed 0.
    for (number, bits) in [(0, 0xe220_a839_7b1d_cdaf_u64), (1, 0x6e78_9e6a_a1b9_65f4)] {
        let expected = (bits >> 11) as f64 / (1u64 << 53) as f64;
        assert_eq!(random(Dtype::F64, 0, 0, number), Scalar::F64(expected));
        assert_eq!(random(Dtype::I32, 0, 0, number), Scalar::I32((bits as f64 / 1.8446744073709552e18) as i32));
    }
    let x = load("random:10000", Dtype::F32, &["n"]);
    let values: Vec<f64> = (0..x.len())
        .map(|n| match x.get(n) {
            Some(Scalar::F32(v)) => v.into(),
            _ => f64::NAN,
        })
        .collect();
    assert!(values.iter().all(|v| (0.0..1.0).contains(v)));
    assert!((values.iter().sum::<f64>() / 1e4 - 0.5).abs() < 0.01);
    let digits: Vec<u64> = (0..1000).map(|n| random(Dtype::I32, 1, 0, n).bits()).collect();
    assert!((0..10).all(|d| digits.iter().filter(|v| **v == d).count() > 70) && digits.iter().all(|d| *d < 10));
    assert_ne!(random(Dtype::F32, 1, 0, 0), random(Dtype::F32, 0, 0, 0));
    assert_ne!(random(Dtype::F32, 0, 1, 0), random(Dtype::F32, 0, 0, 0));
}

#[test]
fn reads_files() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("a.npy").display().to_string();
    files::save(&[(Place::parse(&text).unwrap(), Array::scalar(Scalar::F32(2.5)).as_ref())], files::Packing::Stored)
        .unwrap();
    assert_eq!(load(&text, Dtype::F32, &[]).get(0), Some(Scalar::F32(2.5)));
    assert!(error(&text, Dtype::F16, &[]).contains("of type f16, the file has f32"));
    assert!(error(&text, Dtype::F32, &["n"]).contains("this is a scalar"));
    assert!(error("none.npy", Dtype::F32, &["n"]).contains("`x`: none.npy: No such file"));
}

#[test]
fn a_bomb_is_refused_before_it_takes_memory() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("a.npz:x").display().to_string();
    let zeros = Array::zeros(Dtype::U8, &[1 << 26]).unwrap();
    files::save(&[(Place::parse(&text).unwrap(), zeros.as_ref())], files::Packing::Deflated).unwrap();
    let value = Value::parse(&text, &slot(Dtype::U8, &["n"])).unwrap();
    assert_eq!(load_all(vec![value], 0, Some(1 << 20)).unwrap_err().code(), call::MEMORY);
}

#[test]
fn scalars_have_the_range_of_their_type() {
    for (dtype, least, greatest) in [
        (Dtype::I8, "-128", "127"),
        (Dtype::U8, "0", "255"),
        (Dtype::I32, "-2147483648", "2147483647"),
        (Dtype::U32, "0", "4294967295"),
        (Dtype::I64, "-9223372036854775808", "9223372036854775807"),
        (Dtype::U64, "0", "18446744073709551615"),
    ] {
        for (text, step) in [(least, -1), (greatest, 1)] {
            let value = Scalar::parse(dtype, text);
            assert_eq!(load(text, dtype, &[]).get(0), value);
            let beyond = (text.parse::<i128>().unwrap() + step).to_string();
            let e = Value::parse(&beyond, &slot(dtype, &[])).unwrap_err();
            assert_eq!(e.code(), codes::VALUE_RANGE, "{beyond}");
            assert_eq!(e.help(), Some(format!("{dtype} has the whole numbers from {least} to {greatest}")));
        }
    }
    for (dtype, greatest, beyond) in [
        (Dtype::F16, "65504", "65520"),
        (Dtype::Bf16, "3.38e38", "3.4e38"),
        (Dtype::F32, "3.4e38", "3.41e38"),
        (Dtype::F64, "1.7e308", "1e309"),
    ] {
        assert_eq!(load(greatest, dtype, &[]).get(0), Scalar::parse(dtype, greatest));
        assert_eq!(load("-inf", dtype, &[]).get(0), Scalar::parse(dtype, "-inf"));
        assert!(error(beyond, dtype, &[]).contains(&format!("is not a value of type {dtype}")));
    }
}

#[test]
fn memory_is_granted_before_it_is_taken() {
    let value = |text: &str| Value::parse(text, &slot(Dtype::F32, &["n", "m"])).unwrap();
    let e = load_all(vec![value("zeros:1000000x1000000")], 0, Some(1 << 40)).unwrap_err();
    assert_eq!(e.code(), call::MEMORY);
    assert_eq!(e.to_string(), "the arguments alone take 4000000000000 bytes, the limit is 1099511627776");
    assert!(load_all(vec![value("ones:4x4"), value("ones:4x4")], 0, Some(127)).is_err());
    assert_eq!(load_all(vec![value("ones:4x4"), value("ones:4x4")], 0, Some(128)).unwrap().len(), 2);
}

#[test]
fn every_type_is_generated() {
    for dtype in Dtype::ALL {
        for (text, expected) in [("zeros:2", ["0", "0"]), ("ones:2", ["1", "1"]), ("arange:2", ["0", "1"])] {
            let word = |text| if text == "0" { "false" } else { "true" };
            let expected = expected.map(|t| Scalar::parse(dtype, if dtype == Dtype::Bool { word(t) } else { t }));
            let array = load(text, dtype, &["n"]);
            assert_eq!([array.get(0), array.get(1)], expected, "{dtype} {text}");
        }
        assert_eq!(load("random:3x4", dtype, &["n", "m"]).shape(), [3, 4]);
    }
}

proptest::proptest! {
    #[test]
    fn any_text_is_a_value_or_an_error(text in "[-+0-9a-z.:x\\PC]{0,20}", ending in "|\\.npy|\\.npz:.{0,3}|x3") {
        let text = format!("{text}{ending}");
        for (dtype, shape) in [(Dtype::F16, &[][..]), (Dtype::I8, &[]), (Dtype::F32, &["n"])] {
            // Arrays that are not read are not created, so a shape may be anything.
            let _ = Value::parse(&text, &slot(dtype, shape)).map(|value| value.bytes());
            let _ = Value::parse(&format!("random:{text}"), &slot(dtype, shape)).map(|value| value.bytes());
        }
    }
}

#[test]
fn reads_elements() {
    for (text, shape) in [
        ("1,2,3", vec![3]),
        ("[1, 2, 3]", vec![3]),
        (" [1,2,3,] ".trim(), vec![3]),
        ("[ 1,\n  2 ]", vec![2]),
        ("1,", vec![1]),
        ("[]", vec![0]),
    ] {
        let found = load(text, Dtype::I32, &["n"]);
        assert_eq!(found.shape(), shape, "{text}");
        assert_eq!(found.as_slice::<i32>().unwrap(), &[1, 2, 3][..found.len()], "{text}");
    }
    for (text, shape) in [("[[1,2],[3,4]]", [2, 2]), ("[[1, 2, 3]]", [1, 3]), ("[[],[]]", [2, 0])] {
        assert_eq!(load(text, Dtype::F32, &["n", "m"]).shape(), shape, "{text}");
    }
    assert_eq!(load("[true, false]", Dtype::Bool, &["n"]).bytes(), [1, 0]);
    assert_eq!(load("-inf,nan,1e-5", Dtype::F64, &["n"]).get(0), Some(Scalar::F64(f64::NEG_INFINITY)));
    let deep = format!("{}{}", "[".repeat(64), "]".repeat(64));
    assert_eq!(load(&deep, Dtype::F32, &["n"; 64]).shape().len(), 64);
}

#[test]
fn says_what_is_wrong_with_elements() {
    for (text, shape, expected) in [
        ("[1, 2", &["n"][..], "the array is not closed: a `]` is missing, after 5 characters"),
        ("[1] 2", &["n"], "text follows the array, after 4 characters"),
        ("[1 2]", &["n"], "expected a comma or `]`, after 3 characters"),
        ("[1,,2]", &["n"], "expected an element or `[`, after 3 characters"),
        ("1,2]", &["n"], "text follows the array, after 5 characters"),
        ("[[1,2],3]", &["n", "m"], "elements and rows stand side by side, after 7 characters"),
        ("[1,[2]]", &["n", "m"], "elements and rows stand side by side, after 3 characters"),
        ("[1, ..., 9]", &["n"], "elements were left out when the array was printed, after 4 characters"),
        ("[[1,2],[3]]", &["n", "m"], "row [1] has 1 element, those before it have 2"),
        ("[[[1],[2]],[[3],[4,5]]]", &["n", "m", "k"], "row [1, 1] has 2 elements, those before it have 1"),
        ("[1, 2.5]", &["n"], "`2.5` is not a value of type i32, at [1]"),
        ("[[1, 2], [3, x]]", &["n", "m"], "`x` is not a value of type i32, at [1, 1]"),
        ("[1, 2]", &[], "the parameter is i32, this has shape 2"),
        ("1,2", &["n", "m"], "the parameter is i32[n, m], this has shape 2"),
    ] {
        assert_eq!(error(text, Dtype::I32, shape), format!("argument `x`: {expected}"), "{text}");
    }
    let deep = "[".repeat(100_000);
    assert!(error(&deep, Dtype::F32, &["n"]).contains("too many axes"));
    assert!(error("[1e39]", Dtype::F32, &["n"]).contains("`1e39` is not a value of type f32"));
}

#[test]
fn converts_what_it_may() {
    let folder = tempfile::tempdir().unwrap();
    let saved = |name: &str, array: &Array| {
        let text = folder.path().join(name).display().to_string();
        files::save(&[(Place::parse(&text).unwrap(), array.as_ref())], files::Packing::Stored).unwrap();
        text
    };
    let small = saved("a.npy", &Array::from_slice(&[2, 2], &[1u8, 2, 3, 255]).unwrap());
    assert_eq!(load(&small, Dtype::F32, &["n", "m"]).as_slice::<f32>().unwrap(), [1.0, 2.0, 3.0, 255.0]);
    let wide = saved("b.npz:x", &Array::from(vec![0.1f64, 1e300, -2.5]));
    assert!(error(&wide, Dtype::F32, &["n"]).contains("the file has f64"));
    let said = load(&format!("{wide}:f32"), Dtype::F32, &["n"]);
    assert_eq!(said.as_slice::<f32>().unwrap(), [0.1, f32::INFINITY, -2.5]);
    assert_eq!(load(&format!("{wide}:i32"), Dtype::I32, &["n"]).as_slice::<i32>().unwrap(), [0, i32::MAX, -2]);
    assert!(error(&format!("{wide}:i32"), Dtype::F32, &["n"]).contains("the argument says i32"));
    assert_eq!(files::read(&Place::parse(&format!("{wide}:f32")).unwrap()).unwrap(), said);

    let column = saved("c.csv", &Array::from(vec![0.5f32, 2.0]));
    assert_eq!(load(&column, Dtype::F64, &["n"]).as_slice::<f64>().unwrap(), [0.5, 2.0]);
    assert_eq!(load(&column, Dtype::F64, &["n", "m"]).shape(), [2, 1]);
    assert!(error(&column, Dtype::I32, &["n"]).contains("line 1, column 1: `0.5` is not a value of type i32"));
    assert!(error(&column, Dtype::F32, &[]).contains("this has shape 2x1"));
    assert_eq!(files::read(&Place::parse(&column).unwrap()).unwrap(), Array::from(vec![0.5f64, 2.0]));
    let one = saved("d.csv", &Array::scalar(7u8));
    assert_eq!(load(&one, Dtype::I64, &[]), Array::scalar(7i64));

    let picture = saved("e.png", &Array::from_slice(&[1, 2], &[300u16, 65535]).unwrap());
    assert!(error(&picture, Dtype::U8, &["h", "w"]).contains("of type u8, the file has u16"));
    assert!(error(&picture, Dtype::U16, &["h", "w", "c"]).contains("this has shape 1x2"));
    assert_eq!(load(&picture, Dtype::F32, &["h", "w"]).as_slice::<f32>().unwrap(), [300.0, 65535.0]);
}

proptest::proptest! {
    /// Whatever is printed can be entered again, with the same bits.
    #[test]
    fn printed_arrays_are_arguments(
        dtype in proptest::sample::select(&Dtype::ALL[..]),
        shape in proptest::collection::vec(1usize..4, 0..4),
        bits in proptest::collection::vec(proptest::prelude::any::<u64>(), 27),
        width in 1usize..100,
    ) {
        let count = shape.iter().product();
        let scalars: Vec<Scalar> = bits.into_iter().take(count).map(|bits| Scalar::from_bits(dtype, bits)).collect();
        let array = Array::from_scalars(dtype, &shape, &scalars).unwrap();
        let text = crate::print::to_text(array.as_ref(), &crate::print::Format { width, ..Default::default() });
        let names = ["a", "b", "c"];
        proptest::prop_assert_eq!(load(&text, dtype, &names[..shape.len()]), array);
    }
}
