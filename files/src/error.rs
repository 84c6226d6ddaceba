//! The errors of array files, as data and as sentences.

use std::fmt;
use std::io;

use grammar::source::one_line;
use grammar::{Code, Report};
use ir::Dtype;
use ir::array::ArrayError;

use crate::codes;
use crate::place::{Format, Place};

/// The reason why an array could not be read from a file or written to one.
///
/// Its `Display` is one sentence; [`FileError::report`] adds the code and the remedy.
#[derive(Debug)]
pub struct FileError {
    file: String,
    fault: Box<Fault>,
}

/// The kinds of errors in a file.
#[derive(Debug)]
pub enum Fault {
    /// The system could not read or write it.
    Io(io::Error),
    /// Its name tells no format.
    UnknownFormat,
    /// It is a folder, a pipe or a device.
    NotAFile,
    /// It does not begin as `.npy` files do.
    NotNpy,
    /// It has an unpublished version of the `.npy` format.
    NpyVersion(u8, u8),
    /// The `.npy` header is malformed.
    NpyHeader(String),
    /// The header is longer than any array needs.
    HeaderTooLong {
        /// Its length.
        found: u64,
        /// The maximum.
        limit: u64,
    },
    /// The elements have a type that does not exist in the language.
    Dtype {
        /// The type, in the words of the file's format.
        found: String,
        /// How to fix it.
        remedy: &'static str,
    },
    /// The amount of data differs from the header.
    Length {
        /// Bytes that the header asks for.
        expected: u64,
        /// Bytes that there are.
        found: u64,
    },
    /// A stream ends before all the data that the header declares.
    EndsEarly {
        /// Bytes that the header asks for.
        expected: u64,
    },
    /// A stream continues after all the data that the header declares.
    GoesOn {
        /// Bytes that the header asks for.
        expected: u64,
    },
    /// The array is invalid: too large, or with a `bool` other than 0 and 1.
    Array(ArrayError),
    /// The archive's structure is malformed.
    Zip(String),
    /// A part of the archive is compressed in a way that NumPy does not use.
    ZipMethod(String),
    /// The compressed data is invalid, or differs from the data that was compressed.
    Damaged(String),
    /// A part of the archive claims more bytes than its compressed data can expand to.
    Ratio {
        /// Bytes that it claims.
        claimed: u64,
        /// Bytes that it takes in the archive.
        packed: u64,
    },
    /// The `.safetensors` header is malformed.
    Safetensors(String),
    /// A tensor does not lie where it should.
    Offsets {
        /// The tensor's name.
        name: String,
        /// The problem.
        problem: String,
    },
    /// Two arrays have one name.
    DuplicateKey(String),
    /// No array has that name.
    UnknownKey {
        /// The name.
        key: String,
        /// Those that there are.
        names: Vec<String>,
    },
    /// There is not exactly one array, and none was named.
    KeyNeeded(Vec<String>),
    /// An array was named in a file with a single unnamed one.
    KeyUnused(String),
    /// The name is invalid for an array in a file; a file of several arrays needs one.
    KeyName(String),
    /// A cell of a table is not an element.
    Cell {
        /// Its line, from 1.
        line: u64,
        /// The number of the cell in its row, from 1.
        column: usize,
        /// The cell.
        text: String,
        /// The type that it should have.
        dtype: Dtype,
    },
    /// A row of a table has another length than the first one.
    Row {
        /// Its line, from 1.
        line: u64,
        /// The length of the first row.
        expected: usize,
        /// Its length.
        found: usize,
    },
    /// It is not a picture, or a damaged one.
    Png(String),
    /// Files of the format are written and not read.
    OnlyWritten,
    /// The format has no such type.
    UnwritableDtype(Dtype, Format),
    /// The format has no array with this number of axes.
    UnwritableRank(usize, Format),
    /// The format has no array of such a shape.
    UnwritableShape(Vec<usize>, Format),
    /// Two results have the same destination: a file of one array, or one name in a file.
    WrittenTwice(Option<String>),
}

/// The maximum number of names in a message, and of characters of each.
const NAMES_SHOWN: usize = 12;
const NAME_SHOWN: usize = 60;

/// A name from a file or a command line for a message: printable, and shortened.
pub fn shown(name: &str) -> String {
    match name.char_indices().nth(NAME_SHOWN) {
        Some((end, _)) => format!("`{}...`", one_line(&name[..end])),
        None => format!("`{}`", one_line(name)),
    }
}

fn cells(count: usize) -> String {
    format!("{count} {}", if count == 1 { "cell" } else { "cells" })
}

fn list(names: &[String]) -> String {
    let mut parts: Vec<String> = names.iter().take(NAMES_SHOWN).map(|n| shown(n)).collect();
    match names.len() {
        0 => return "no array".to_owned(),
        n if n > NAMES_SHOWN => parts.push(format!("and {} more", n - NAMES_SHOWN)),
        _ => {}
    }
    parts.join(", ")
}

impl FileError {
    pub(super) fn new(file: String, fault: Fault) -> FileError {
        FileError { file, fault: Box::new(fault) }
    }

    /// The error of a fault in the file of a place.
    pub fn of(place: &Place, fault: Fault) -> FileError {
        FileError::new(place.file_name(), fault)
    }

    /// The file, as it was named.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The fault.
    pub fn fault(&self) -> &Fault {
        &self.fault
    }

    /// The code of the error.
    pub fn code(&self) -> Code {
        self.fault.code()
    }

    /// How to fix it, if that is not obvious.
    pub fn help(&self) -> Option<String> {
        self.fault.help(&self.file)
    }

    /// The error with its code and the remedy, ready to be drawn.
    pub fn report(&self) -> Report {
        Report { help: self.help(), ..Report::new(self.code(), self.to_string()) }
    }
}

impl Fault {
    /// The code of the error.
    pub fn code(&self) -> Code {
        match self {
            Fault::Io(_) => codes::ACCESS,
            Fault::UnknownFormat => codes::UNKNOWN_FORMAT,
            Fault::NotAFile => codes::NOT_A_FILE,
            Fault::NotNpy => codes::NOT_NPY,
            Fault::NpyVersion(..) => codes::NPY_VERSION,
            Fault::NpyHeader(_) => codes::NPY_HEADER,
            Fault::HeaderTooLong { .. } => codes::HEADER_TOO_LONG,
            Fault::Dtype { .. } => codes::DTYPE,
            Fault::Length { .. } | Fault::EndsEarly { .. } | Fault::GoesOn { .. } => codes::DATA_LENGTH,
            Fault::Array(ArrayError::InvalidBool { .. }) => codes::INVALID_BOOL,
            Fault::Array(_) => codes::TOO_LARGE,
            Fault::Zip(_) => codes::ZIP,
            Fault::ZipMethod(_) => codes::ZIP_METHOD,
            Fault::Damaged(_) => codes::DAMAGED,
            Fault::Ratio { .. } => codes::RATIO,
            Fault::Safetensors(_) => codes::SAFETENSORS,
            Fault::Offsets { .. } => codes::OFFSETS,
            Fault::DuplicateKey(_) => codes::DUPLICATE_KEY,
            Fault::UnknownKey { .. } => codes::UNKNOWN_KEY,
            Fault::KeyNeeded(_) => codes::KEY_NEEDED,
            Fault::KeyUnused(_) => codes::KEY_UNUSED,
            Fault::KeyName(_) => codes::KEY_NAME,
            Fault::Cell { .. } => codes::CSV_CELL,
            Fault::Row { .. } => codes::CSV_ROWS,
            Fault::Png(_) => codes::PNG,
            Fault::OnlyWritten => codes::ONLY_WRITTEN,
            Fault::UnwritableDtype(..) => codes::UNWRITABLE_DTYPE,
            Fault::UnwritableRank(..) | Fault::UnwritableShape(..) => codes::UNWRITABLE_SHAPE,
            Fault::WrittenTwice(_) => codes::WRITTEN_TWICE,
        }
    }

    /// Whether the place as it was written is at fault, rather than its contents.
    pub fn is_misspelt(&self) -> bool {
        matches!(
            self,
            Fault::UnknownFormat
                | Fault::KeyUnused(_)
                | Fault::KeyName(_)
                | Fault::UnwritableDtype(..)
                | Fault::UnwritableRank(..)
                | Fault::WrittenTwice(_)
        )
    }

    fn help(&self, file: &str) -> Option<String> {
        Some(match self {
            Fault::UnknownFormat => "give a name that ends in .npy, .npz, .safetensors, .csv, .png or .svg".to_owned(),
            Fault::NotNpy | Fault::NpyVersion(..) => "write it with numpy.save(file, array)".to_owned(),
            Fault::Dtype { remedy, .. } => (*remedy).to_owned(),
            Fault::Zip(_) | Fault::ZipMethod(_) => {
                "write it with numpy.savez(file, name=array) or numpy.savez_compressed".to_owned()
            }
            Fault::KeyNeeded(names) => format!("say which: {file}:{}", names.first()?),
            Fault::KeyUnused(key) => format!("leave `:{key}` out"),
            Fault::UnwritableDtype(_, Format::Png) => "make the result u8, or save it to a .npy file".to_owned(),
            Fault::OnlyWritten => "save the array to a .npy file, and read that".to_owned(),
            Fault::UnwritableDtype(..) => "save it to a .safetensors file".to_owned(),
            Fault::UnwritableRank(_, Format::Png) | Fault::UnwritableShape(_, Format::Png) => {
                "a picture has the shape [height, width], or [height, width, 1 to 4] in colour".to_owned()
            }
            Fault::UnwritableRank(..) | Fault::UnwritableShape(..) => "save it to a .npy file".to_owned(),
            Fault::Row { .. } => "fill the missing cells, with nan for instance".to_owned(),
            Fault::WrittenTwice(None) => "save several results to one .npz or .safetensors file".to_owned(),
            Fault::WrittenTwice(Some(_)) => "give each a name of its own: NAME=FILE:KEY".to_owned(),
            Fault::NotAFile => "to read an array from a pipe, give `-`: .npy on standard input".to_owned(),
            _ => return None,
        })
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", one_line(&self.file), self.fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Io(e) => write!(f, "{e}"),
            Fault::UnknownFormat => f.write_str("the name tells no format"),
            Fault::NotAFile => f.write_str("not a regular file"),
            Fault::NotNpy => f.write_str("not a .npy file (it does not begin with \\x93NUMPY)"),
            Fault::NpyVersion(major, minor) => write!(f, "version {major}.{minor} of the .npy format is unknown"),
            Fault::NpyHeader(what) => write!(f, "malformed .npy header: {what}"),
            Fault::HeaderTooLong { found, limit } => {
                write!(f, "a header of {found} bytes is longer than the limit of {limit}")
            }
            Fault::Dtype { found, .. } => write!(f, "elements of type {found} are not in the language"),
            Fault::Length { expected, found } => {
                write!(f, "the header asks for {expected} bytes of data, the file has {found}")
            }
            Fault::EndsEarly { expected } => {
                write!(f, "the header asks for {expected} bytes of data, there are fewer")
            }
            Fault::GoesOn { expected } => write!(f, "the header asks for {expected} bytes of data, there are more"),
            Fault::Array(e) => write!(f, "{e}"),
            Fault::Zip(what) => write!(f, "not a .npz archive: {what}"),
            Fault::ZipMethod(what) => f.write_str(what),
            Fault::Damaged(what) => write!(f, "the data is damaged: {what}"),
            Fault::Ratio { claimed, packed } => {
                write!(f, "{packed} bytes of compressed data cannot stand for {claimed} bytes")
            }
            Fault::Safetensors(what) => write!(f, "malformed .safetensors header: {what}"),
            Fault::Offsets { name, problem } => write!(f, "the tensor {} {problem}", shown(name)),
            Fault::DuplicateKey(name) => write!(f, "two arrays are called {}", shown(name)),
            Fault::UnknownKey { key, names } => write!(f, "no array is called {}; it has {}", shown(key), list(names)),
            Fault::KeyNeeded(names) if names.is_empty() => f.write_str("it has no array"),
            Fault::KeyNeeded(names) => write!(f, "it has several arrays: {}", list(names)),
            Fault::KeyUnused(key) => write!(f, "the file holds a single array, none is called {}", shown(key)),
            Fault::KeyName(name) if name.is_empty() => f.write_str("an array in it needs a name"),
            Fault::KeyName(name) => write!(f, "an array in it cannot be called {}", shown(name)),
            Fault::Cell { line, column, text, .. } if text.is_empty() => {
                write!(f, "line {line}, column {column}: the cell is empty")
            }
            Fault::Cell { line, column, text, dtype } => {
                write!(f, "line {line}, column {column}: {} is not a value of type {dtype}", shown(text))
            }
            Fault::Row { line, expected, found } => {
                write!(f, "line {line} has {}, the first row has {expected}", cells(*found))
            }
            Fault::Png(what) => write!(f, "not a picture: {what}"),
            Fault::OnlyWritten => f.write_str("a plot shows an array, it does not hold it"),
            Fault::UnwritableDtype(dtype, Format::Png) => write!(f, "the .png format has no {dtype}"),
            Fault::UnwritableDtype(dtype, _) => write!(f, "the .npy and .npz formats have no {dtype}"),
            Fault::UnwritableRank(rank, format) => {
                write!(
                    f,
                    "the {} format has no array with {rank} {}",
                    format.ending(),
                    if *rank == 1 { "axis" } else { "axes" }
                )
            }
            Fault::UnwritableShape(shape, format) => {
                write!(f, "the {} format has no array of shape {shape:?}", format.ending())
            }
            Fault::WrittenTwice(None) => f.write_str("several results would go to a file that holds one"),
            Fault::WrittenTwice(Some(name)) => write!(f, "two results would be called {}", shown(name)),
        }
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.fault {
            Fault::Io(e) => Some(e),
            Fault::Array(e) => Some(e),
            _ => None,
        }
    }
}

impl From<io::Error> for Fault {
    fn from(e: io::Error) -> Fault {
        match e.kind() {
            // Reading a file never causes it; it comes from decompression and checksums.
            io::ErrorKind::InvalidData => Fault::Damaged(e.to_string()),
            _ => Fault::Io(e),
        }
    }
}

impl From<ArrayError> for Fault {
    fn from(e: ArrayError) -> Fault {
        Fault::Array(e)
    }
}
