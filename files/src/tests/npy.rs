//! `.npy`: NumPy's own bytes, and hostile ones.

use ir::{Array, Dtype, Scalar};

use super::super::npy::{ALIGN, MAGIC, encode_header};
use super::*;

fn decode(bytes: &[u8]) -> Result<Array, FileError> {
    Folder::new().read("a.npy", bytes)
}

fn encode(array: &Array) -> Vec<u8> {
    Folder::new().written("a.npy", array)
}

/// A file of version 1 with this header, unpadded, and this data.
pub fn file(header: &str, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(header.len()).unwrap().to_le_bytes();
    [MAGIC, &[1, 0], &length, header.as_bytes(), data].concat()
}

fn message(bytes: &[u8]) -> String {
    decode(bytes).unwrap_err().to_string()
}

#[test]
fn writes_the_bytes_of_numpy() {
    // numpy.save of numpy.arange(6, dtype='<f4').reshape(2, 3), numpy 2.4.6.
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    let mut expected = b"\x93NUMPY\x01\x00v\x00".to_vec();
    expected.extend(header.as_bytes());
    expected.resize(127, b' ');
    expected.push(b'\n');
    let values: Vec<_> = (0u8..6).map(|v| Scalar::F32(v.into())).collect();
    values.iter().for_each(|v| expected.extend(u32::try_from(v.bits()).unwrap().to_le_bytes()));
    let array = Array::from_scalars(Dtype::F32, &[2, 3], &values).unwrap();
    assert_eq!(encode(&array), expected);
    assert_eq!(decode(&expected).unwrap(), array);
}

#[test]
fn pads_to_the_alignment_for_every_length() {
    for n in [0usize, 1, 10, 1 << 20, 1 << 40, usize::MAX] {
        for rank in 0..70 {
            let header = encode_header(Dtype::Bool, &vec![n; rank]).unwrap();
            assert_eq!(header.len() % ALIGN, 0, "{n} {rank}");
        }
    }
    assert!(matches!(encode_header(Dtype::F32, &[1; 40_000]), Err(Fault::HeaderTooLong { .. })));
}

#[test]
fn reads_what_others_write() {
    let two = Array::from(vec![1i32, -2]);
    let big = file("{'descr': '>i4', 'fortran_order': False, 'shape': (2,)}", &[0, 0, 0, 1, 255, 255, 255, 254]);
    assert_eq!(decode(&big).unwrap(), two);
    let loose =
        file("{ \"shape\":( 2 , ) ,'fortran_order' : True,\"descr\":\"<i4\"}\n\n ", &[1, 0, 0, 0, 254, 255, 255, 255]);
    assert_eq!(decode(&loose).unwrap(), two);
    for version in [2, 3] {
        let header = b"{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }";
        let length = u32::try_from(header.len()).unwrap().to_le_bytes();
        let data = [1, 0, 0, 0, 254, 255, 255, 255];
        let bytes = [MAGIC, &[version, 0], &length, header, &data].concat();
        assert_eq!(decode(&bytes).unwrap(), two);
    }
}

#[test]
fn turns_column_major_around() {
    let bytes =
        file("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 2), }", &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    assert_eq!(decode(&bytes).unwrap().bytes(), [0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11]);
    let empty = file("{'descr': '<f8', 'fortran_order': True, 'shape': (2, 0, 3), }", &[]);
    assert_eq!(decode(&empty).unwrap().shape(), [2, 0, 3]);
}

#[test]
fn refuses_hostile_headers() {
    let with = |rest: &str| file(&format!("{{'descr': '<f4', 'fortran_order': False, {rest}}}"), &[0; 8]);
    assert_eq!(decode(&with("'shape': (2,), ")).unwrap().shape(), [2]);
    let max = usize::MAX;
    for (bytes, expected) in [
        (with(&format!("'shape': ({max}, {max}), ")), "the array is larger than memory can be"),
        (with("'shape': (1099511627776,), "), "the header asks for 4398046511104 bytes of data, the file has 8"),
        (with("'shape': (0, 4611686018427387904, 4), "), "the array is larger than memory can be"),
        (with("'shape': (3,), "), "the header asks for 12 bytes of data, the file has 8"),
        (with("'shape': (1,), "), "the header asks for 4 bytes of data, the file has 8"),
        (with("'shape': (-2,), "), "a length is not a number"),
        (with("'shape': (99999999999999999999999,), "), "a length is not a number"),
        (with("'shape': (04,), "), "a length begins with 0"),
        (with("'shape': (2), "), "expected `,`"),
        (with("'shape': (__import__('os'),), "), "a length is not a number"),
        (with("'shape': (2,), 'shape': (2,), "), "a key comes twice"),
        (with("'shape': (2,), 'x': 1"), "a key other than"),
        (with(""), "shape is missing"),
        (with("'shape': (2,), }#"), "text after the dictionary"),
        (file("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", &[0; 8]), "`|O` (Python objects)"),
        (file("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", &[0; 4]), "structured"),
        (
            file("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", &[0; 8]),
            "elements of type `<c8` (complex) are not in the language",
        ),
        (file("{'descr': '\x1b[2J', 'fortran_order': False, 'shape': (1,), }", &[]), "`\\u{1b}[2J`"),
        (file("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", &[0, 1, 2]), "byte 2 of a bool array"),
        (file(&"{".repeat(60_000), &[]), "expected a string"),
        (file(&format!("{{'shape': {}", "(".repeat(60_000)), &[]), "a length is not a number"),
        (file(&format!("{{'descr': {}", "[".repeat(60_000)), &[]), "elements of type record (structured) are not"),
        (file("", &[]), "expected `{`"),
        (file("{'descr", &[]), "expected a string"),
        (b"\x93NUMPY\x04\x00".to_vec(), "version 4.0"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff".to_vec(), "a header of 4294967295 bytes"),
        (b"\x93NUMPY\x01\x00\xff\x7f".to_vec(), "the file ends in it"),
        (b"\x93NUM".to_vec(), "not a .npy file"),
        (b"PK\x03\x04 and so on".to_vec(), "not a .npy file"),
    ] {
        let found = message(&bytes);
        assert!(found.contains(expected), "{found}\nlacks {expected}");
    }
}
