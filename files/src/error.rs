//! What can be wrong with an array file, as data and as sentences.

use std::fmt;
use std::io;

use grammar::source::one_line;
use grammar::{Code, Report};
use ir::Dtype;
use ir::array::ArrayError;

use crate::codes;

/// Why an array could not be read from a file or written to one.
///
/// Its `Display` is one sentence; [`FileError::report`] adds the code and the remedy.
#[derive(Debug)]
pub struct FileError {
    file: String,
    fault: Box<Fault>,
}

/// What is wrong with a file.
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
    /// It has a version of the `.npy` format that nobody has published.
    NpyVersion(u8, u8),
    /// The `.npy` header is not what it should be.
    NpyHeader(String),
    /// The header is longer than any array needs.
    HeaderTooLong {
        /// Its length.
        found: u64,
        /// What is allowed.
        limit: u64,
    },
    /// The elements have a type that the language does not have.
    Dtype {
        /// The type, in the words of the file's format.
        found: String,
        /// What to do about it.
        remedy: &'static str,
    },
    /// There is more or less data than the header says.
    Length {
        /// Bytes that the header asks for.
        expected: u64,
        /// Bytes that there are.
        found: u64,
    },
    /// There is less data than the header says, in a stream.
    EndsEarly {
        /// Bytes that the header asks for.
        expected: u64,
    },
    /// There is more data than the header says, in a stream.
    GoesOn {
        /// Bytes that the header asks for.
        expected: u64,
    },
    /// The array cannot be: too large, or a `bool` that is none.
    Array(ArrayError),
    /// The archive's structure is not what it should be.
    Zip(String),
    /// A part of the archive is packed in a way that NumPy does not use.
    ZipMethod(String),
    /// What is compressed is no valid data, or not the data that was packed.
    Damaged(String),
    /// A part of the archive claims more bytes than its compressed ones can stand for.
    Ratio {
        /// Bytes that it claims.
        claimed: u64,
        /// Bytes that it takes in the archive.
        packed: u64,
    },
    /// The `.safetensors` header is not what it should be.
    Safetensors(String),
    /// A tensor does not lie where it should.
    Offsets {
        /// The tensor's name.
        name: String,
        /// What is wrong.
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
    /// There is not just one array, and none was named.
    KeyNeeded(Vec<String>),
    /// An array was named in a file that holds just one.
    KeyUnused(String),
    /// An array in a file cannot be called so; without a name it cannot be in a file of several.
    KeyName(String),
    /// The format has no such type.
    UnwritableDtype(Dtype),
    /// Two results go to one place: a file of one array, or one name in a file.
    WrittenTwice(Option<String>),
}

/// How many names a message lists, and how much of each.
const NAMES_SHOWN: usize = 12;
const NAME_SHOWN: usize = 60;

/// A name from a file or a command line, as messages show it: visible, and not endless.
pub fn shown(name: &str) -> String {
    match name.char_indices().nth(NAME_SHOWN) {
        Some((end, _)) => format!("`{}...`", one_line(&name[..end])),
        None => format!("`{}`", one_line(name)),
    }
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

    /// The file, as it was named.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// What is wrong with it.
    pub fn fault(&self) -> &Fault {
        &self.fault
    }

    /// Which kind of error it is.
    pub fn code(&self) -> Code {
        self.fault.code()
    }

    /// What to do about it, where that is not plain.
    pub fn help(&self) -> Option<String> {
        self.fault.help(&self.file)
    }

    /// The error with its code and the remedy, ready to be drawn.
    pub fn report(&self) -> Report {
        Report { help: self.help(), ..Report::new(self.code(), self.to_string()) }
    }
}

impl Fault {
    /// Which kind of error it is.
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
            Fault::UnwritableDtype(_) => codes::UNWRITABLE_DTYPE,
            Fault::WrittenTwice(_) => codes::WRITTEN_TWICE,
        }
    }

    /// Whether the place as it was written is at fault, and not what is there.
    pub fn is_misspelt(&self) -> bool {
        matches!(
            self,
            Fault::UnknownFormat
                | Fault::KeyUnused(_)
                | Fault::KeyName(_)
                | Fault::UnwritableDtype(_)
                | Fault::WrittenTwice(_)
        )
    }

    fn help(&self, file: &str) -> Option<String> {
        Some(match self {
            Fault::UnknownFormat => "give a name that ends in .npy, .npz or .safetensors".to_owned(),
            Fault::NotNpy | Fault::NpyVersion(..) => "write it with numpy.save(file, array)".to_owned(),
            Fault::Dtype { remedy, .. } => (*remedy).to_owned(),
            Fault::Zip(_) | Fault::ZipMethod(_) => {
                "write it with numpy.savez(file, name=array) or numpy.savez_compressed".to_owned()
            }
            Fault::KeyNeeded(names) => format!("say which: {file}:{}", names.first()?),
            Fault::KeyUnused(key) => format!("leave `:{key}` out"),
            Fault::UnwritableDtype(_) => "save it to a .safetensors file".to_owned(),
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
            Fault::KeyUnused(key) => write!(f, "a .npy file holds a single array, none is called {}", shown(key)),
            Fault::KeyName(name) if name.is_empty() => f.write_str("an array in it needs a name"),
            Fault::KeyName(name) => write!(f, "an array in it cannot be called {}", shown(name)),
            Fault::UnwritableDtype(dtype) => write!(f, "the .npy and .npz formats have no {dtype}"),
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
            // Files never give it: it is the decompressor's and the checksum's.
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
