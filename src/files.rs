//! Array files: `.npy`, `.npz`, `.safetensors`, tables as `.csv`, pictures as `.png`, and `.npy` on
//! standard input and output.
//!
//! ```
//! use fuseloop::{Array, files};
//!
//! let folder = tempfile::tempdir()?;
//! let file = folder.path().join("a.npz");
//! let (x, y) = (Array::scalar(1.5f32), Array::scalar(7i64));
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

use ir::Dtype;
use ir::array::ArrayError;

use crate::values::convert;

pub use files::{Fault, FileError, Format, Packing, Place, Stored, check, codes, names, replace, save};

/// Reads an array from a file. A type at the end of the place, as in `a.npy:f32`, converts it. A
/// table has two axes, or one if it has one column.
///
/// # Errors
///
/// [`FileError`] if the file is missing or not what its name says, with the reason as data and a
/// code.
pub fn read(place: &Place) -> Result<Array, FileError> {
    let (place, said) = place.clone().split_dtype();
    let failed = |error: ArrayError| FileError::of(&place, error.into());
    let stored = open_as(&place, said)?;
    let is_table = stored.is_table();
    let array = stored.read()?;
    let array = match *array.shape() {
        // A table of one column is how an array with one axis is written.
        [rows, 1] if is_table => convert::reshaped(array, &[rows]).map_err(failed)?,
        _ => array,
    };
    match said {
        Some(dtype) => convert::converted(array, dtype).map_err(failed),
        None => Ok(array),
    }
}

/// Reads what a file says of an array, and no more. (A table is read whole.)
///
/// # Errors
///
/// As [`read`].
pub fn open(place: &Place) -> Result<Stored, FileError> {
    open_as(place, None)
}

/// The same for a table with elements of a type. Other files say their own.
pub(crate) fn open_as(place: &Place, dtype: Option<Dtype>) -> Result<Stored, FileError> {
    files::open(place, dtype, backends::zeroed_words)
}
