//! The files that NumPy and safetensors wrote into `tests/files`, compared with `expected.txt`
//! there.

use std::path::{Path, PathBuf};

use fuseloop::files::{self, Place};
use fuseloop::{Array, Dtype, Scalar};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("files")
}

fn place(name: &str) -> Place {
    Place::parse(folder().join(name).to_str().expect("the folder's name is text")).expect("a place")
}

/// `dtype shape bytes` of an array, as `expected.txt` has it.
fn described(array: &Array) -> String {
    let little = |n: usize| {
        let element = array.get(n).expect("inside");
        element.bits().to_le_bytes()[..array.dtype().bytes()].to_vec()
    };
    let hex: String = (0..array.len()).flat_map(little).map(|byte| format!("{byte:02x}")).collect();
    let shape = array.shape().iter().map(usize::to_string).collect::<Vec<_>>().join("x");
    let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    format!("{} {} {}", array.dtype(), or_dash(shape), or_dash(hex))
}

#[test]
fn others_files_are_read_as_they_were_meant() {
    let expected = std::fs::read_to_string(folder().join("expected.txt")).expect("the folder has it");
    let mut faults = vec![];
    for line in expected.lines() {
        let (name, expected) = line.split_once(' ').expect("a place and what it holds");
        let found = match files::read(&place(name)) {
            Ok(array) => described(&array),
            Err(e) => format!("error {}", e.code()),
        };
        if found != expected {
            faults.push(format!("{name}: {found}, not {expected}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(expected.lines().count() > 500);
}

#[test]
fn what_is_written_has_the_bytes_of_the_originals() {
    let scalars = |dtype, shape: &[usize], values: &[Scalar]| Array::from_scalars(dtype, shape, values).expect("fits");
    let b = [-60.0, -23.0, 14.0, 51.0, -40.0, -3.0].map(Scalar::F32);
    let a = [-60i64, -23, 14].map(|v| Scalar::I64(v << 32));
    let arrays = [
        ("b", scalars(Dtype::F32, &[2, 3], &b)),
        ("a", scalars(Dtype::I64, &[3], &a)),
        ("c", Array::scalar(Scalar::Bool(true))),
    ];
    let target = tempfile::tempdir().expect("a folder");
    for file in ["written.npz", "written.safetensors"] {
        let path = target.path().join(file);
        let place = |name: &str| Place::parse(&format!("{}:{name}", path.display())).expect("a place");
        let saved: Vec<_> = arrays.iter().map(|(name, array)| (place(name), array.as_ref())).collect();
        files::save(&saved, files::Packing::Stored).expect("the folder can be written to");
        let (ours, theirs) = (std::fs::read(&path), std::fs::read(folder().join(file)));
        assert_eq!(ours.expect("it was written"), theirs.expect("it is there"), "{file}");
    }
}
