//! Tables: what is read as which type, what is written, and what is wrong with the others.

use super::*;

fn table(text: &str, dtype: Option<Dtype>) -> Result<Array, String> {
    let folder = Folder::new();
    std::fs::write(folder.path("a.csv"), text).unwrap();
    let stored = super::super::open(&folder.place("a.csv"), dtype, |count| Some(vec![0; count]));
    let read = stored.and_then(|stored| {
        assert!(stored.is_table());
        let shape = stored.shape().to_vec();
        let array = stored.read()?;
        assert_eq!(array.shape(), shape);
        Ok(array)
    });
    read.map_err(|e| e.fault().to_string())
}

#[test]
fn cells_are_elements() {
    let two = Array::from_slice(&[2, 2], &[1.5f32, -2.0, f32::INFINITY, 0.25]).unwrap();
    for text in [
        "1.5,-2\ninf,.25\n",
        "1.5,-2\ninf,.25",
        "a,b\n1.5,-2\ninf,.25\n",
        "\u{feff}a,\"b, c\"\r\n 1.5 , -2 \r\n\r\n\"inf\",25e-2\r\n",
    ] {
        assert_eq!(table(text, Some(Dtype::F32)).unwrap(), two, "{text:?}");
    }
    assert_eq!(table("1\n2\n", Some(Dtype::U8)).unwrap(), Array::from_slice(&[2, 1], &[1u8, 2]).unwrap());
    assert_eq!(table("true,false\n", Some(Dtype::Bool)).unwrap().bytes(), [1, 0]);
    for (text, shape) in [("", [0, 0]), ("a,b\n", [0, 2])] {
        assert_eq!(table(text, Some(Dtype::F32)).unwrap().shape(), shape);
    }
}

#[test]
fn without_a_type_the_cells_suggest_one() {
    for (text, dtype) in [
        ("1,2\n3,4\n", Dtype::I64),
        ("n\n9007199254740993\n", Dtype::I64),
        ("true\nfalse\n", Dtype::Bool),
        ("1,2.5\n", Dtype::F64),
        ("1,nan\n", Dtype::F64),
    ] {
        assert_eq!(table(text, None).unwrap().dtype(), dtype, "{text}");
    }
}

#[test]
fn faults_name_the_line_and_the_column() {
    for (text, dtype, expected) in [
        ("1,2\n3,x\n", Dtype::F32, "line 2, column 2: `x` is not a value of type f32"),
        ("a,b\n\n1,2\n3,\n", Dtype::F32, "line 4, column 2: the cell is empty"),
        ("1\n2.5\n", Dtype::I32, "line 2, column 1: `2.5` is not a value of type i32"),
        ("1\n300\n", Dtype::U8, "line 2, column 1: `300` is not a value of type u8"),
        ("1e39\n", Dtype::F32, "line 1, column 1: `1e39` is not a value of type f32"),
        // A first line with a number has no names.
        ("a,1\n2,3\n", Dtype::F32, "line 1, column 1: `a` is not a value of type f32"),
        ("1,2\n3,4,5\n", Dtype::F32, "line 2 has 3 cells, the first row has 2"),
        ("a,b\n3\n", Dtype::F32, "line 2 has 1 cell, the first row has 2"),
    ] {
        assert_eq!(table(text, Some(dtype)).unwrap_err(), expected, "{text:?}");
    }
    assert_eq!(table("1,2\n3,x\n", None).unwrap_err(), "line 2, column 2: `x` is not a value of type f64");
    let folder = Folder::new();
    std::fs::write(folder.path("a.csv"), b"1,\xff\n").unwrap();
    assert!(read(&folder.place("a.csv")).is_err());
}

proptest! {
    #[test]
    fn tables_read_back(
        dtype in proptest::sample::select(&Dtype::ALL[..]),
        bits in prop::collection::vec(any::<u64>(), 12),
        columns in proptest::sample::select(vec![1usize, 3, 12]),
    ) {
        let scalars: Vec<_> = bits.into_iter().map(|b| Scalar::from_bits(dtype, b)).collect();
        let array = Array::from_scalars(dtype, &[12 / columns, columns], &scalars).unwrap();
        let folder = Folder::new();
        let text = String::from_utf8(folder.written("a.csv", &array)).unwrap();
        prop_assert_eq!(table(&text, Some(dtype)), Ok(array.clone()));
        let flat = Array::from_scalars(dtype, &[12], &scalars).unwrap();
        let column = String::from_utf8(folder.written("a.csv", &flat)).unwrap();
        prop_assert_eq!(column.lines().count(), 12);
    }
}
