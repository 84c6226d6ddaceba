//! `.safetensors`: headers with false claims.

use super::*;

/// A file with this header and this data.
pub fn file(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

fn tensor(name: &str, dtype: &str, shape: &str, start: u64, end: u64) -> String {
    format!(r#""{name}":{{"dtype":"{dtype}","shape":[{shape}],"data_offsets":[{start},{end}]}}"#)
}

fn files(tensors: &[String], data: &[u8]) -> Vec<u8> {
    file(&format!("{{{}}}", tensors.join(",")), data)
}

#[test]
fn reads_what_others_write() {
    let folder = Folder::new();
    // A header of odd length: the tensors are not aligned. In any order, with fields of later
    // versions.
    let two = tensor("x", "I32", "2", 1, 9).replace("\"dtype\"", "\"later\":{\"a\":[1]},\"dtype\"");
    let tensors = [two, tensor("b", "BOOL", "", 0, 1), tensor("z", "F64", "0,7", 9, 9)];
    let header = format!("{{\"__metadata__\":{{\"a\":\"b\"}},{}}}  ", tensors.join(", "));
    let bytes = file(&header, &[1, 1, 0, 0, 0, 254, 255, 255, 255]);
    let read = |key: &str| folder.read(&format!("a.safetensors:{key}"), &bytes).unwrap();
    assert_eq!([read("x").get(0), read("x").get(1)], [Some(Scalar::I32(1)), Some(Scalar::I32(-2))]);
    assert_eq!(read("b"), Array::scalar(Scalar::Bool(true)));
    assert_eq!(read("z").shape(), [0, 7]);
    assert_eq!(names(&folder.place("a.safetensors")).unwrap(), ["b", "x", "z"]);
    let e = folder.read("a.safetensors:__metadata__", &bytes).unwrap_err();
    assert_eq!(e.fault().to_string(), "no array is called `__metadata__`; it has `b`, `x`, `z`");
}

#[test]
fn refuses_what_lies() {
    let x = |shape: &str, start, end| tensor("x", "F32", shape, start, end);
    let max = u64::MAX;
    let with_length = |length: u64| [&length.to_le_bytes()[..], b"{}"].concat();
    let deep = format!("{{\"x\":{}", "[".repeat(100_000));
    for (bytes, expected) in [
        (files(&[x("2", 0, 8)], &[0; 9]), "the file has 9 bytes of data, the tensors 8"),
        (files(&[x("2", 0, 8)], &[0; 7]), "the tensor `x` would end at byte 8 of 7"),
        (files(&[x("2", 0, 4)], &[0; 4]), "`x` has 4 bytes, which is not what its type and shape say"),
        (files(&[x("2", 8, 0)], &[0; 8]), "`x` would end at byte 0, before its start at 8"),
        (files(&[x("2", 1, 9)], &[0; 9]), "`x` leaves a gap before it: it starts at byte 1, not 0"),
        (files(&[x("2", max, max)], &[0; 8]), "leaves a gap"),
        (files(&[x("2", 0, max)], &[0; 8]), "would end at byte 18446744073709551615 of 8"),
        (files(&[x("2", 0, 8), tensor("y", "U8", "4", 4, 8)], &[0; 8]), "`y` overlaps the one before it"),
        (files(&[x("2", 0, 8), tensor("y", "F8_E4M3", "9", 4, 8)], &[0; 8]), "`y` overlaps the one before it"),
        (files(&[x("2", 0, 8), x("2", 0, 8)], &[0; 8]), "two arrays are called `x`"),
        (files(&[x("4294967296,4294967296,0", 0, 0)], &[]), "the array is larger than memory can be"),
        (files(&[x("0,4611686018427387904,4", 0, 0)], &[]), "the array is larger than memory can be"),
        (files(&[x("1099511627776", 0, 0)], &[]), "which is not what its type and shape say"),
        (files(&[x("-1", 0, 0)], &[]), "malformed .safetensors header: invalid value: integer `-1`"),
        (files(&[x("1.5", 0, 0)], &[]), "malformed .safetensors header: invalid type: floating point"),
        (files(&[tensor("x", "F8_E4M3", "2", 0, 2)], &[0; 2]), "type `F8_E4M3` are not in the language"),
        (files(&[tensor("x", "C64", "2", 0, 16)], &[0; 16]), "type `C64` are not in the language"),
        (files(&[tensor("x", "\\u001b[2J", "2", 0, 2)], &[0; 2]), "type `\\u{1b}[2J` are not"),
        (files(&[tensor("x", "BOOL", "2", 0, 2)], &[1, 2]), "byte 1 of a bool array is neither 0 nor 1"),
        (file("{}", &[]), "no array is called `x`; it has no array"),
        (file("[]", &[]), "invalid type: sequence, expected an object of tensors"),
        (file("{\"x\":1}", &[]), "invalid type: integer `1`"),
        (file("{\"x\":{\"dtype\":\"F32\"}}", &[]), "missing field `shape`"),
        (file("{} x", &[]), "trailing characters"),
        (file("\x00", &[]), "malformed"),
        (file(&deep, &[]), "malformed"),
        (file(&deep.replace('[', "{\"dtype\":"), &[]), "malformed"),
        (file(&format!("{{\"x\":{{\"later\":{}", "[".repeat(100_000)), &[]), "malformed"),
        (with_length(3), "it would have 3 bytes, the file has 2"),
        (with_length(100_000_001), "a header of 100000001 bytes is longer than the limit of 100000000"),
        (with_length(max), "is longer than the limit"),
        (vec![2, 0, 0], "the file is too short for one"),
        (vec![], "the file is too short for one"),
    ] {
        let found = Folder::new().read("a.safetensors:x", &bytes).unwrap_err().fault().to_string();
        assert!(found.contains(expected), "{found}\nlacks {expected}");
        assert!(!found.contains(['\x1b', '\0']) && found.len() < 400, "{found}");
    }
}
