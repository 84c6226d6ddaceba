//! Array files: `.npy`, `.npz`, `.safetensors`, tables as `.csv`, pictures as `.png`, `.npy` on
//! standard input and output, and plots as `.svg`, which are only written.
//!
//! Files are treated as hostile. Nothing in them is evaluated, and their claims alone allocate no
//! memory: the allocations are bounded by the file's size (for deflated data, 1,032 times its
//! size), and [`Stored::bytes`] tells how much memory an array will take. Each kind of error has a
//! code, listed in [`codes`].

#![forbid(unsafe_code)]
#![warn(clippy::missing_errors_doc)]

pub mod codes;
mod csv;
mod error;
mod npy;
mod picture;
mod place;
mod plot;
mod safetensors;
mod save;
mod zip;

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use ir::array::{ArrayError, byte_len};
use ir::{Array, Dtype};

pub use error::{Fault, FileError, shown};
pub use place::{Format, Place};
pub use save::{check, replace, save};
pub use zip::Packing;

use npy::Layout;

/// An array in a file: its type and shape are known, its elements not yet read.
pub struct Stored {
    place: Place,
    layout: Layout,
    bytes: usize,
    content: Content,
    allocate: Allocate,
}

/// The elements of a file that has been opened.
enum Content {
    /// Bytes in the layout.
    Bytes {
        /// Positioned at the first element; ends with the array.
        data: Box<dyn Read + Send>,
        /// The number of bytes, which is unknown for a stream.
        length: Option<u64>,
    },
    /// A table, which has to be read to know its shape.
    Table(Array),
    /// A picture.
    Picture(Box<picture::Reader>),
}

/// Allocates this many words of zeros; `None` if there is no memory for them.
pub type Allocate = fn(usize) -> Option<Vec<u64>>;

/// Reads the description of an array and nothing more, except for a table, which is read whole:
/// its elements have the type `dtype`, or the one that they suggest. `allocate` will provide the
/// array's memory.
///
/// # Errors
///
/// [`FileError`] with the file and the fault: it is missing, is not what its name says, or lacks
/// the array.
pub fn open(place: &Place, dtype: Option<Dtype>, allocate: Allocate) -> Result<Stored, FileError> {
    let failed = |fault| FileError::new(place.file_name(), fault);
    let (layout, content) = find(place, dtype).map_err(failed)?;
    let bytes = byte_len(layout.dtype, &layout.shape).map_err(|e| failed(e.into()))?;
    if let Content::Bytes { length: Some(found), .. } = content
        && found != bytes as u64
    {
        return Err(failed(Fault::Length { expected: bytes as u64, found }));
    }
    Ok(Stored { place: place.clone(), layout, bytes, content, allocate })
}

/// The names of the arrays in a `.npz` or `.safetensors` file; none for files of a single array.
///
/// # Errors
///
/// As [`open`].
pub fn names(place: &Place) -> Result<Vec<String>, FileError> {
    let names = || match (place.path(), place.format()) {
        (None, _) | (_, Format::Npy | Format::Csv | Format::Png | Format::Svg) => Ok(vec![]),
        (Some(path), Format::Npz) => {
            let (mut file, length) = regular(path)?;
            Ok(members(&zip::Directory::read(&mut file, length)?))
        }
        (Some(path), Format::Safetensors) => {
            let (mut file, length) = regular(path)?;
            Ok(safetensors::Index::read(&mut file, length)?.names().map(str::to_owned).collect())
        }
    };
    names().map_err(|fault| FileError::new(place.file_name(), fault))
}

impl Stored {
    /// The type of the elements.
    pub fn dtype(&self) -> Dtype {
        self.layout.dtype
    }

    /// The length of each axis.
    pub fn shape(&self) -> &[usize] {
        &self.layout.shape
    }

    /// How many bytes the elements take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it is a table, with two axes whatever its shape was when it was written.
    pub fn is_table(&self) -> bool {
        matches!(self.content, Content::Table(_))
    }

    /// The array itself.
    ///
    /// # Errors
    ///
    /// [`FileError`] if the data ends early, goes on too long or is damaged, and if there is no
    /// memory for it.
    pub fn read(self) -> Result<Array, FileError> {
        let name = self.place.file_name();
        self.elements().map_err(|fault| FileError::new(name, fault))
    }

    fn elements(self) -> Result<Array, Fault> {
        let Layout { dtype, ref shape, fortran_order, swapped } = self.layout;
        let (mut data, length) = match self.content {
            Content::Bytes { data, length } => (data, length),
            Content::Table(array) => return Ok(array),
            Content::Picture(reader) => {
                let mut array = Array::zeros_in(dtype, shape, self.allocate)?;
                reader.read(array.bytes_mut())?;
                return Ok(array);
            }
        };
        let expected = self.bytes as u64;
        let ended = |e: io::Error| match e.kind() {
            io::ErrorKind::UnexpectedEof => Fault::EndsEarly { expected },
            io::ErrorKind::OutOfMemory => ArrayError::OutOfMemory { bytes: self.bytes }.into(),
            _ => e.into(),
        };
        if length.is_none() {
            // A stream determines its own length.
            let mut bytes = vec![];
            data.by_ref().take(expected).read_to_end(&mut bytes).map_err(ended)?;
            if (bytes.len() as u64) < expected {
                return Err(Fault::EndsEarly { expected });
            }
            data = Box::new(io::Cursor::new(bytes).chain(data));
        }
        let mut array = Array::zeros_in(dtype, shape, self.allocate)?;
        match fortran_order {
            true => read_column_major(&mut data, &mut array),
            false => data.read_exact(array.bytes_mut()),
        }
        .map_err(ended)?;
        if read_one(&mut data)? {
            return Err(Fault::GoesOn { expected });
        }
        if swapped {
            array.bytes_mut().chunks_exact_mut(dtype.bytes()).for_each(<[u8]>::reverse);
        }
        if dtype == Dtype::Bool
            && let Some(position) = array.bytes().iter().position(|b| *b > 1)
        {
            return Err(ArrayError::InvalidBool { position }.into());
        }
        Ok(array)
    }
}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stored").field("place", &self.place).field("layout", &self.layout).finish_non_exhaustive()
    }
}

/// Whether there is one more byte. At the end of a part of an archive, this verifies the checksum.
fn read_one(reader: &mut dyn Read) -> Result<bool, Fault> {
    loop {
        match reader.read(&mut [0]) {
            Ok(count) => return Ok(count > 0),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// An array's layout and its elements.
fn find(place: &Place, dtype: Option<Dtype>) -> Result<(Layout, Content), Fault> {
    let bytes = |data: Box<dyn Read + Send>, length| Content::Bytes { data, length: Some(length) };
    let Some(path) = place.path() else {
        let mut stdin = io::stdin();
        let (layout, _) = npy::read_header(&mut stdin)?;
        return Ok((layout, Content::Bytes { data: Box::new(stdin), length: None }));
    };
    if let (false, Some(key)) = (place.format().has_names(), place.key()) {
        return Err(Fault::KeyUnused(key.to_owned()));
    }
    let (mut file, length) = regular(path)?;
    match place.format() {
        Format::Svg => Err(Fault::OnlyWritten),
        Format::Csv => {
            let array = csv::read(file, dtype)?;
            Ok((Layout::native(array.dtype(), array.shape()), Content::Table(array)))
        }
        Format::Png => {
            let (reader, dtype, shape) = picture::open(file, length)?;
            Ok((Layout::native(dtype, &shape), Content::Picture(Box::new(reader))))
        }
        Format::Npy => {
            let (layout, start) = npy::read_header(&mut file)?;
            Ok((layout, bytes(Box::new(file), length.saturating_sub(start))))
        }
        Format::Npz => {
            let directory = zip::Directory::read(&mut file, length)?;
            let names = members(&directory);
            let name = choose(place.key(), &names)?;
            let part = |name: &str| directory.parts.iter().find(|part| part.name == name);
            // As in NumPy, a name may be given as it is in the archive.
            let part = part(name).filter(|part| is_array(&part.name)).or_else(|| part(&format!("{name}.npy")));
            let part = part.ok_or_else(|| Fault::UnknownKey { key: name.to_owned(), names: names.clone() })?;
            let mut data = directory.open(file, part)?;
            let (layout, start) = npy::read_header(&mut data)?;
            Ok((layout, bytes(Box::new(data), part.bytes.saturating_sub(start))))
        }
        Format::Safetensors => {
            let index = safetensors::Index::read(&mut file, length)?;
            let names: Vec<String> = index.names().map(str::to_owned).collect();
            let name = choose(place.key(), &names)?;
            let found = index.find(&mut file, name)?;
            let (dtype, shape, length) =
                found.ok_or_else(|| Fault::UnknownKey { key: name.to_owned(), names: names.clone() })?;
            let layout = Layout { dtype, shape, fortran_order: false, swapped: npy::is_swapped(dtype, true) };
            Ok((layout, bytes(Box::new(file.take(length)), length)))
        }
    }
}

/// The array that was named, or the only one.
fn choose<'a>(key: Option<&'a str>, names: &'a [String]) -> Result<&'a str, Fault> {
    match (key, names) {
        (Some(key), _) => Ok(key),
        (None, [only]) => Ok(only),
        (None, _) => Err(Fault::KeyNeeded(names.to_vec())),
    }
}

/// The arrays of an archive, as NumPy names them. Other parts of it are ignored.
fn members(directory: &zip::Directory) -> Vec<String> {
    let arrays = directory.parts.iter().filter_map(|part| part.name.strip_suffix(".npy"));
    arrays.map(str::to_owned).collect()
}

fn is_array(name: &str) -> bool {
    name.ends_with(".npy")
}

/// Opens a file of known length. A pipe could be endless, and opening one blocks until it has a
/// writer.
fn regular(path: &Path) -> Result<(File, u64), Fault> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(Fault::NotAFile);
    }
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    Ok((file, length))
}

/// Fills an array from elements in which the first axis varies fastest.
fn read_column_major(from: &mut dyn Read, array: &mut Array) -> io::Result<()> {
    let (shape, width) = (array.shape().to_vec(), array.dtype().bytes());
    let mut strides = vec![width; shape.len()];
    for axis in (1..shape.len()).rev() {
        // No overflow: the array exists, and is only read if it has elements.
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    let bytes = array.bytes_mut();
    let mut piece = vec![0; bytes.len().min(PIECE)];
    let (mut at, mut to, mut left) = (vec![0usize; shape.len()], 0, bytes.len());
    while left > 0 {
        let count = left.min(PIECE);
        from.read_exact(&mut piece[..count])?;
        left -= count;
        for element in piece[..count].chunks_exact(width) {
            bytes[to..to + width].copy_from_slice(element);
            for (at, (length, stride)) in at.iter_mut().zip(shape.iter().zip(&strides)) {
                *at += 1;
                to += stride;
                if *at < *length {
                    break;
                }
                to -= stride * length;
                *at = 0;
            }
        }
    }
    Ok(())
}

/// The bytes of an array that are converted at a time: a multiple of every element size.
const PIECE: usize = 1 << 16;

#[cfg(test)]
mod tests;
