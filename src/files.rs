//! Array files: `.npy`, `.npz`, `.safetensors`, and `.npy` on standard input and output.
//!
//! ```
//! use fuseloop::{Array, Scalar, files};
//!
//! let folder = tempfile::tempdir()?;
//! let file = folder.path().join("a.npz");
//! let (x, y) = (Array::scalar(Scalar::F32(1.5)), Array::scalar(Scalar::I64(7)));
//!
//! // Several results in one file; all that is named is written, or nothing is.
//! let place = |key: &str| files::Place::parse(&format!("{}:{key}", file.display()));
//! files::save(&[(place("x")?, x.as_ref()), (place("y")?, y.as_ref())], files::Packing::Stored)?;
//! assert_eq!(files::read(&place("x")?)?, x);
//!
//! // The contents of a file are known before any of it is in memory.
//! let stored = files::open(&place("y")?)?;
//! assert_eq!((stored.dtype(), stored.shape(), stored.bytes()), (fuseloop::Dtype::I64, &[][..], 8));
//! assert_eq!(stored.read()?, y);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Files are hostile until they have shown otherwise. Nothing in them is evaluated, and no memory
//! is taken on their word alone: what is allocated is bounded by the file's size (of deflated data,
//! 1,032 times its size), and [`Stored::bytes`] tells how much it will be. Each kind of error has a
//! code, listed in [`codes`].

use crate::Array;

pub use files::{Fault, FileError, Format, Packing, Place, Stored, check, codes, names, replace, save};

/// Reads an array from a file.
pub fn read(place: &Place) -> Result<Array, FileError> {
    open(place)?.read()
}

/// Reads what a file says of an array, and no more.
pub fn open(place: &Place) -> Result<Stored, FileError> {
    files::open(place, backends::zeroed_words)
}
