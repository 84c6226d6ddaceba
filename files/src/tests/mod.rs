//! Files written by other programs, hostile files, and round trips of all types (each NaN becomes
//! the canonical one).

use std::path::PathBuf;

use ir::{Array, Dtype, Scalar};
use proptest::prelude::*;

use super::*;

mod csv;
mod npy;
mod picture;
mod plot;
mod safetensors;
mod save;
mod zip;

fn open(place: &Place) -> Result<Stored, FileError> {
    super::open(place, None, |count| Some(vec![0; count]))
}

fn read(place: &Place) -> Result<Array, FileError> {
    open(place)?.read()
}

/// A folder for files that is deleted when the test ends.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn place(&self, name: &str) -> Place {
        Place::parse(self.path(name).to_str().unwrap()).unwrap()
    }

    /// The array at a place such as `a.npz:x`, in a file of these bytes.
    fn read(&self, name: &str, bytes: &[u8]) -> Result<Array, FileError> {
        let place = self.place(name);
        std::fs::write(place.path().unwrap(), bytes).unwrap();
        read(&place)
    }

    /// The bytes of a file of this array.
    fn written(&self, name: &str, array: &Array) -> Vec<u8> {
        let place = self.place(name);
        save(&[(place.clone(), array.as_ref())], Packing::Stored).unwrap();
        std::fs::read(place.path().unwrap()).unwrap()
    }
}

fn drawn(e: &FileError) -> String {
    reports::draw::draw(&grammar::Source::from(""), &e.report(), grammar::Style::Plain)
}

/// The places to write an array of a type to.
fn places(dtype: Dtype) -> &'static [&'static str] {
    match dtype {
        Dtype::Bf16 => &["a.safetensors:x"],
        _ => &["a.npy", "a.npz:x", "a.safetensors:x"],
    }
}

fn arrays() -> impl Strategy<Value = Array> {
    (proptest::sample::select(&Dtype::ALL[..]), prop::collection::vec(0usize..4, 0..7)).prop_flat_map(
        |(dtype, shape)| {
            let count = shape.iter().product::<usize>();
            prop::collection::vec(any::<u64>(), count).prop_map(move |bits| {
                let scalars: Vec<_> = bits.into_iter().map(|b| Scalar::from_bits(dtype, b)).collect();
                Array::from_scalars(dtype, &shape, &scalars).unwrap()
            })
        },
    )
}

proptest! {
    #[test]
    fn reads_back_what_it_writes_but_for_the_bits_of_nan(array in arrays()) {
        let folder = Folder::new();
        let mut canonical = array.clone();
        canonical.canonical_nan();
        for name in places(array.dtype()) {
            let bytes = folder.written(name, &array);
            let stored = open(&folder.place(name)).unwrap();
            prop_assert_eq!((stored.dtype(), stored.shape(), stored.bytes()), (array.dtype(), array.shape(), array.bytes().len()));
            let back = folder.read(name, &bytes).unwrap();
            prop_assert_eq!(back.bytes(), canonical.bytes());
            prop_assert_eq!(back, array.clone());
        }
    }
}
