//! `.npy`, NumPy's own format: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>.
//!
//! The reader treats a file as hostile. It evaluates nothing (the header is a Python literal, of which [`Header`]
//! takes the one form that an array has); it allocates nothing on a header's word, only what the file is long
//! enough to fill; and it wants exactly the bytes that the shape says. The writer gives NumPy's own bytes.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use ir::array::{ArrayError, ArrayRef, byte_len};
use ir::{Array, Dtype};

const MAGIC: &[u8] = b"\x93NUMPY";
/// A header of an array of numbers is one line; this is room for any rank that makes sense.
const HEADER_LIMIT: usize = 1 << 16;
/// NumPy aligns the data so.
const ALIGN: usize = 64;

/// What a file's header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The type of the elements.
    pub dtype: Dtype,
    /// The length of each axis.
    pub shape: Vec<usize>,
    /// Whether the first axis runs fastest.
    pub fortran_order: bool,
    /// Whether the elements' bytes are in the order that this machine does not use.
    swapped: bool,
}

/// Why a file is not an array.
#[derive(Debug)]
pub enum NpyError {
    /// The system could not read or write it.
    Io(io::Error),
    /// It is a folder, a pipe or a device.
    NotAFile,
    /// It does not begin as `.npy` files do.
    Magic,
    /// It has a version of the format that nobody has published.
    Version(u8, u8),
    /// The header is longer than any array needs.
    HeaderTooLong(usize),
    /// The header is not what it should be.
    Header(String),
    /// The elements have a type that the language has not.
    Dtype(String),
    /// The file is longer or shorter than its header says.
    Length {
        /// Bytes of data that the header asks for.
        expected: usize,
        /// Bytes of data in the file.
        found: u64,
    },
    /// The array cannot be: too large, or a `bool` that is none.
    Array(ArrayError),
}

impl fmt::Display for NpyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NpyError::Io(e) => write!(f, "{e}"),
            NpyError::NotAFile => f.write_str("not a regular file"),
            NpyError::Magic => f.write_str("not a .npy file (it does not begin with \\x93NUMPY)"),
            NpyError::Version(major, minor) => write!(f, "version {major}.{minor} of the .npy format is unknown"),
            NpyError::HeaderTooLong(n) => write!(f, "a header of {n} bytes is longer than the limit of {HEADER_LIMIT}"),
            NpyError::Header(what) => write!(f, "malformed header: {what}"),
            NpyError::Dtype(what) => f.write_str(what),
            NpyError::Length { expected, found } => {
                write!(f, "the header asks for {expected} bytes of data, the file has {found}")
            }
            NpyError::Array(e) => write!(f, "{e}"),
        }
    }
}

impl std::error::Error for NpyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            NpyError::Io(e) => Some(e),
            NpyError::Array(e) => Some(e),
            _ => None,
        }
    }
}

impl From<io::Error> for NpyError {
    fn from(e: io::Error) -> NpyError {
        NpyError::Io(e)
    }
}

impl From<ArrayError> for NpyError {
    fn from(e: ArrayError) -> NpyError {
        NpyError::Array(e)
    }
}

/// Reads an array from a file.
pub fn read(path: &Path) -> Result<Array, NpyError> {
    let (mut file, length) = open(path)?;
    read_from(&mut file, length)
}

/// Reads no more than what a file says of its array.
pub fn read_header(path: &Path) -> Result<Header, NpyError> {
    let (mut file, _) = open(path)?;
    Ok(header_from(&mut file)?.0)
}

/// Writes an array to a file, byte for byte as `numpy.save` does.
pub fn write(path: &Path, array: ArrayRef<'_>) -> Result<(), NpyError> {
    let header = encode_header(array.dtype(), array.shape())?;
    let mut file = File::create(path)?;
    file.write_all(&header)?;
    if cfg!(target_endian = "little") {
        file.write_all(array.bytes())?;
    } else {
        let mut bytes = array.bytes().to_vec();
        bytes.chunks_exact_mut(array.dtype().bytes()).for_each(<[u8]>::reverse);
        file.write_all(&bytes)?;
    }
    Ok(())
}

// A pipe could be endless, and opening one waits for a writer.
fn open(path: &Path) -> Result<(File, u64), NpyError> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(NpyError::NotAFile);
    }
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    Ok((file, length))
}

/// Reads an array from `length` bytes.
pub fn read_from(reader: &mut impl Read, length: u64) -> Result<Array, NpyError> {
    let (header, data_start) = header_from(reader)?;
    let expected = byte_len(header.dtype, &header.shape)?;
    let found = length.saturating_sub(data_start);
    if u64::try_from(expected) != Ok(found) {
        return Err(NpyError::Length { expected, found });
    }
    let mut array = Array::zeros(header.dtype, &header.shape)?;
    reader.read_exact(array.bytes_mut())?;
    if header.swapped {
        array.bytes_mut().chunks_exact_mut(header.dtype.bytes()).for_each(<[u8]>::reverse);
    }
    if header.dtype == Dtype::Bool
        && let Some(position) = array.bytes().iter().position(|b| *b > 1)
    {
        return Err(ArrayError::InvalidBool { position }.into());
    }
    if header.fortran_order { Ok(from_column_major(&array)?) } else { Ok(array) }
}

/// The array whose elements, the first axis running fastest, are those of `array` in row-major order.
fn from_column_major(array: &Array) -> Result<Array, ArrayError> {
    let (shape, width) = (array.shape(), array.dtype().bytes());
    let mut result = Array::zeros(array.dtype(), shape)?;
    let mut strides = Vec::with_capacity(shape.len());
    let mut stride = width;
    for n in shape {
        strides.push(stride);
        stride *= n; // no overflow: the array exists, and without elements nothing below is read
    }
    let mut at = vec![0usize; shape.len()];
    let mut from = 0;
    for to in result.bytes_mut().chunks_exact_mut(width) {
        to.copy_from_slice(&array.bytes()[from..from + width]);
        for axis in (0..shape.len()).rev() {
            at[axis] += 1;
            from += strides[axis];
            if at[axis] < shape[axis] {
                break;
            }
            from -= strides[axis] * shape[axis];
            at[axis] = 0;
        }
    }
    Ok(result)
}

/// The header and where the data starts.
fn header_from(reader: &mut impl Read) -> Result<(Header, u64), NpyError> {
    let mut start = [0u8; 8];
    read_or(reader, &mut start, || NpyError::Magic)?;
    let [magic @ .., major, minor] = start;
    if magic != MAGIC {
        return Err(NpyError::Magic);
    }
    let ended = || NpyError::Header("the file ends in it".to_owned());
    let mut field = [0u8; 4];
    let field_len = match (major, minor) {
        (1, 0) => 2,
        (2 | 3, 0) => 4,
        _ => return Err(NpyError::Version(major, minor)),
    };
    read_or(reader, &mut field[..field_len], ended)?;
    let length = usize::try_from(u32::from_le_bytes(field)).unwrap_or(usize::MAX);
    if length > HEADER_LIMIT {
        return Err(NpyError::HeaderTooLong(length));
    }
    let mut text = vec![0; length];
    read_or(reader, &mut text, ended)?;
    let data_start = start.len() + field_len + length;
    Ok((Parser { text: &text, at: 0 }.header()?, data_start as u64))
}

fn read_or(reader: &mut impl Read, into: &mut [u8], ended: impl Fn() -> NpyError) -> Result<(), NpyError> {
    reader.read_exact(into).map_err(|e| if e.kind() == io::ErrorKind::UnexpectedEof { ended() } else { e.into() })
}

/// The letter and width that NumPy writes for a type; `bf16` has none.
fn descr(dtype: Dtype) -> Option<&'static str> {
    Some(match dtype {
        Dtype::Bool => "|b1",
        Dtype::I8 => "|i1",
        Dtype::U8 => "|u1",
        Dtype::I32 => "<i4",
        Dtype::I64 => "<i8",
        Dtype::U32 => "<u4",
        Dtype::U64 => "<u8",
        Dtype::F16 => "<f2",
        Dtype::F32 => "<f4",
        Dtype::F64 => "<f8",
        Dtype::Bf16 => return None,
    })
}

/// Magic, version, length and header, padded as NumPy pads them.
fn encode_header(dtype: Dtype, shape: &[usize]) -> Result<Vec<u8>, NpyError> {
    let descr = descr(dtype).ok_or_else(|| NpyError::Dtype(format!("the .npy format has no {dtype}")))?;
    let tuple = match shape {
        [n] => format!("({n},)"),
        _ => format!("({})", shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
    };
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple}, }}");
    // NumPy leaves room for the first length to grow to 21 digits in place.
    let room = shape.first().map_or(0, |n| 21 - n.to_string().len());
    let unpadded = MAGIC.len() + 4 + header.len() + room + 1;
    let padding = room + ALIGN - unpadded % ALIGN;
    header.extend(std::iter::repeat_n(' ', padding));
    header.push('\n');
    let length = u16::try_from(header.len()).map_err(|_| NpyError::HeaderTooLong(header.len()))?;
    Ok([MAGIC, &[1, 0], &length.to_le_bytes(), header.as_bytes()].concat())
}

/// The part of Python's literals that headers are written in.
struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Parser<'a> {
    fn header(mut self) -> Result<Header, NpyError> {
        let (mut dtype, mut fortran_order, mut shape) = (None, None, None);
        self.expect(b'{')?;
        while !self.take(b'}') {
            let key = self.string()?;
            self.expect(b':')?;
            let again = match key {
                b"descr" => dtype.replace(self.dtype()?).is_some(),
                b"fortran_order" => fortran_order.replace(self.boolean()?).is_some(),
                b"shape" => shape.replace(self.shape()?).is_some(),
                _ => return self.fail("a key other than descr, fortran_order and shape"),
            };
            if again {
                return self.fail("a key comes twice");
            }
            if !self.take(b',') {
                self.expect(b'}')?;
                break;
            }
        }
        self.space();
        if self.at != self.text.len() {
            return self.fail("text behind the dictionary");
        }
        match (dtype, fortran_order, shape) {
            (Some((dtype, swapped)), Some(fortran_order), Some(shape)) => {
                Ok(Header { dtype, shape, fortran_order, swapped })
            }
            _ => self.fail("descr, fortran_order or shape is missing"),
        }
    }

    fn fail<T>(&self, what: &str) -> Result<T, NpyError> {
        Err(NpyError::Header(format!("{what} (at byte {} of it)", self.at)))
    }

    fn space(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        self.space();
        let there = self.text.get(self.at) == Some(&byte);
        self.at += usize::from(there);
        there
    }

    fn expect(&mut self, byte: u8) -> Result<(), NpyError> {
        if self.take(byte) { Ok(()) } else { self.fail(&format!("expected `{}`", byte.escape_ascii())) }
    }

    fn string(&mut self) -> Result<&'a [u8], NpyError> {
        self.space();
        let quote = self.text.get(self.at).copied();
        let rest = self.text.get(self.at + 1..).unwrap_or_default();
        match (quote, rest.iter().position(|b| Some(*b) == quote)) {
            (Some(b'\'' | b'"'), Some(length)) if !rest[..length].contains(&b'\\') => {
                self.at += length + 2;
                Ok(&rest[..length])
            }
            _ => self.fail("expected a string"),
        }
    }

    fn boolean(&mut self) -> Result<bool, NpyError> {
        self.space();
        for (word, value) in [(&b"True"[..], true), (b"False", false)] {
            if self.text[self.at..].starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        self.fail("expected True or False")
    }

    fn shape(&mut self) -> Result<Vec<usize>, NpyError> {
        let mut shape = vec![];
        self.expect(b'(')?;
        while !self.take(b')') {
            self.space();
            let digits = self.text[self.at..].iter().take_while(|b| b.is_ascii_digit()).count();
            let text = std::str::from_utf8(&self.text[self.at..self.at + digits]).unwrap_or_default();
            let Ok(length) = text.parse() else {
                return self.fail("a length is not a number that memory can hold");
            };
            self.at += digits;
            shape.push(length);
            if !self.take(b',') {
                // `(3)` is no tuple.
                if shape.len() == 1 {
                    return self.fail("expected `,`");
                }
                self.expect(b')')?;
                break;
            }
        }
        Ok(shape)
    }

    /// The type, and whether its bytes are swapped.
    fn dtype(&mut self) -> Result<(Dtype, bool), NpyError> {
        if self.take(b'[') {
            return Err(NpyError::Dtype("structured types are not supported: save each field by itself".to_owned()));
        }
        let name = self.string()?;
        let shown = name.escape_ascii();
        let (order, kind) = match name {
            [order @ (b'<' | b'>' | b'=' | b'|'), kind @ ..] => (*order, kind),
            kind => (b'=', kind),
        };
        if kind.starts_with(b"O") {
            return Err(NpyError::Dtype(
                "the elements are Python objects: save numbers, with an explicit dtype".to_owned(),
            ));
        }
        let dtype = Dtype::ALL.into_iter().find(|d| descr(*d).is_some_and(|text| &text.as_bytes()[1..] == kind));
        let Some(dtype) = dtype else {
            return Err(NpyError::Dtype(format!("elements of type '{shown}' are not supported by the language")));
        };
        let native = if cfg!(target_endian = "little") { b'<' } else { b'>' };
        let swapped = dtype.bytes() > 1 && matches!(order, b'<' | b'>') && order != native;
        Ok((dtype, swapped))
    }
}

#[cfg(test)]
mod tests;
