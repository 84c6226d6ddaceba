//! `.npy`, NumPy's own format:
//! <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>.
//!
//! Nothing is evaluated: the header is a Python literal, and [`Parser`] accepts only the form that
//! describes an array. Written files are byte for byte those that `numpy.save` writes for the same
//! array with canonical NaNs.

use std::io::{self, Read, Write};

use ir::Dtype;
use ir::array::{ArrayRef, canonical_nan};
use ir::sabotage::{self, Bug};

use super::PIECE;
use super::error::{Fault, shown};
use super::place::Format;

pub(super) const MAGIC: &[u8] = b"\x93NUMPY";
/// The header of an array of numbers is one line. This leaves room for any reasonable rank.
const HEADER_LIMIT: usize = 1 << 16;
/// NumPy aligns the data so.
pub(super) const ALIGN: usize = 64;

/// The description of the data, from the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    /// Whether the first axis runs fastest.
    pub fortran_order: bool,
    /// Whether the bytes of elements are in the opposite order of this machine's.
    pub swapped: bool,
}

impl Layout {
    /// Row-major, in this machine's byte order.
    pub(super) fn native(dtype: Dtype, shape: &[usize]) -> Layout {
        Layout { dtype, shape: shape.to_vec(), fortran_order: false, swapped: false }
    }
}

/// Bytes of another order than this machine's.
pub(super) fn is_swapped(dtype: Dtype, little: bool) -> bool {
    dtype.bytes() > 1 && little != cfg!(target_endian = "little")
}

/// Writes the elements in the form common to all formats: little-endian, with canonical NaNs.
pub(super) fn write_elements(array: &ArrayRef<'_>, to: &mut impl Write) -> io::Result<()> {
    let (dtype, swapped) = (array.dtype(), is_swapped(array.dtype(), true));
    if !dtype.is_float() && !swapped {
        return to.write_all(array.bytes());
    }
    // In pieces, because a copy of the whole array might not fit in memory.
    let mut piece = Vec::with_capacity(PIECE.min(array.bytes().len()));
    for bytes in array.bytes().chunks(PIECE) {
        piece.clear();
        piece.extend_from_slice(bytes);
        canonical_nan(dtype, &mut piece);
        if swapped {
            piece.chunks_exact_mut(dtype.bytes()).for_each(<[u8]>::reverse);
        }
        to.write_all(&piece)?;
    }
    Ok(())
}

/// Reads the header, and returns the description and the offset of the data.
pub(super) fn read_header(reader: &mut impl Read) -> Result<(Layout, u64), Fault> {
    let mut start = [0u8; 8];
    read_or(reader, &mut start, || Fault::NotNpy)?;
    let [magic @ .., major, minor] = start;
    if magic != MAGIC {
        return Err(Fault::NotNpy);
    }
    let ended = || Fault::NpyHeader("the file ends in it".to_owned());
    let mut field = [0u8; 4];
    let field_len = match (major, minor) {
        (1, 0) => 2,
        (2 | 3, 0) => 4,
        _ => return Err(Fault::NpyVersion(major, minor)),
    };
    read_or(reader, &mut field[..field_len], ended)?;
    let length = usize::try_from(u32::from_le_bytes(field)).unwrap_or(usize::MAX);
    if length > HEADER_LIMIT {
        return Err(too_long(length));
    }
    let mut text = vec![0; length];
    read_or(reader, &mut text, ended)?;
    let data_start = start.len() + field_len + length;
    Ok((Parser { text: &text, at: 0 }.header()?, data_start as u64))
}

fn too_long(length: usize) -> Fault {
    Fault::HeaderTooLong { found: length as u64, limit: HEADER_LIMIT as u64 }
}

fn read_or(reader: &mut impl Read, into: &mut [u8], ended: impl Fn() -> Fault) -> Result<(), Fault> {
    reader.read_exact(into).map_err(|e| if e.kind() == io::ErrorKind::UnexpectedEof { ended() } else { e.into() })
}

/// The letter and width that NumPy writes for a type; `None` for `bf16`.
pub(super) fn descr(dtype: Dtype) -> Option<&'static str> {
    Some(match dtype {
        Dtype::Bool => "|b1",
        Dtype::I8 => "|i1",
        Dtype::U8 => "|u1",
        Dtype::I16 => "<i2",
        Dtype::U16 => "<u2",
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
pub(super) fn encode_header(dtype: Dtype, shape: &[usize]) -> Result<Vec<u8>, Fault> {
    let descr = descr(dtype).ok_or(Fault::UnwritableDtype(dtype, Format::Npy))?;
    let tuple = match shape {
        [n] => format!("({n},)"),
        _ => format!("({})", shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
    };
    let turned = if sabotage::on(Bug::FortranOrder) { "True" } else { "False" };
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': {turned}, 'shape': {tuple}, }}");
    // NumPy leaves room for the first length to grow to 21 digits in place.
    let room = shape.first().map_or(0, |n| 21 - n.to_string().len());
    let unpadded = MAGIC.len() + 4 + header.len() + room + 1;
    let padding = room + ALIGN - unpadded % ALIGN;
    header.extend(std::iter::repeat_n(' ', padding));
    header.push('\n');
    let length = u16::try_from(header.len()).map_err(|_| too_long(header.len()))?;
    Ok([MAGIC, &[1, 0], &length.to_le_bytes(), header.as_bytes()].concat())
}

/// A parser for the subset of Python's literals that headers use.
struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Parser<'a> {
    fn header(mut self) -> Result<Layout, Fault> {
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
            return self.fail("text after the dictionary");
        }
        match (dtype, fortran_order, shape) {
            (Some((dtype, swapped)), Some(fortran_order), Some(shape)) => {
                Ok(Layout { dtype, shape, fortran_order, swapped })
            }
            _ => self.fail("descr, fortran_order or shape is missing"),
        }
    }

    fn fail<T>(&self, what: &str) -> Result<T, Fault> {
        Err(Fault::NpyHeader(format!("{what} (at byte {} of it)", self.at)))
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

    fn expect(&mut self, byte: u8) -> Result<(), Fault> {
        if self.take(byte) { Ok(()) } else { self.fail(&format!("expected `{}`", byte.escape_ascii())) }
    }

    fn string(&mut self) -> Result<&'a [u8], Fault> {
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

    fn boolean(&mut self) -> Result<bool, Fault> {
        self.space();
        for (word, value) in [(&b"True"[..], true), (b"False", false)] {
            if self.text[self.at..].starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        self.fail("expected True or False")
    }

    fn shape(&mut self) -> Result<Vec<usize>, Fault> {
        let mut shape = vec![];
        self.expect(b'(')?;
        while !self.take(b')') {
            self.space();
            let digits = self.text[self.at..].iter().take_while(|b| b.is_ascii_digit()).count();
            let text = std::str::from_utf8(&self.text[self.at..self.at + digits]).unwrap_or_default();
            let Ok(length) = text.parse() else {
                return self.fail("a length is not a number that memory can hold");
            };
            if digits > 1 && text.starts_with('0') {
                return self.fail("a length begins with 0");
            }
            self.at += digits;
            // Python 2 wrote `3L`.
            self.at += usize::from(self.text.get(self.at) == Some(&b'L'));
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
    fn dtype(&mut self) -> Result<(Dtype, bool), Fault> {
        if self.take(b'[') {
            let remedy = "save each field by itself";
            return Err(Fault::Dtype { found: "record (structured)".to_owned(), remedy });
        }
        let name = self.string()?;
        let (order, kind) = match name {
            [order @ (b'<' | b'>' | b'=' | b'|'), kind @ ..] => (*order, kind),
            kind => (b'=', kind),
        };
        let Some(dtype) = Dtype::ALL.into_iter().find(|d| descr(*d).is_some_and(|text| &text.as_bytes()[1..] == kind))
        else {
            return Err(unsupported(name, kind));
        };
        let native = cfg!(target_endian = "little");
        let little = order == b'<' || order != b'>' && native;
        Ok((dtype, is_swapped(dtype, little)))
    }
}

/// NumPy types that do not exist in the language, by prefixes of their names, with descriptions and
/// remedies.
const UNSUPPORTED: &[(&str, &str, &str)] = &[
    ("f", "long double", "save array.astype(numpy.float64)"),
    ("c", "complex", "save array.real and array.imag by themselves"),
    ("O", "Python objects", "they are never unpickled; save numbers, array.astype(numpy.float64) for one"),
    ("S", "bytes", "save numbers, such as array.view(numpy.uint8)"),
    ("U", "text", "save numbers, such as the codes that numpy.unique(array, return_inverse=True) gives"),
    ("M", "dates", "save array.astype(numpy.int64)"),
    ("m", "time spans", "save array.astype(numpy.int64)"),
    ("V1", "raw bytes", "an 8-bit float of ml_dtypes? save array.astype(numpy.float32)"),
    ("V2", "raw bytes", "bfloat16 of ml_dtypes? .npy forgets its type: save it to a .safetensors file"),
    ("V", "raw bytes", "save numbers, such as array.view(numpy.uint8)"),
];

/// The error for a type that does not exist, with its name from the header.
fn unsupported(name: &[u8], kind: &[u8]) -> Fault {
    let text = shown(&String::from_utf8_lossy(name));
    match UNSUPPORTED.iter().find(|(start, ..)| kind.starts_with(start.as_bytes())) {
        Some((_, what, remedy)) => Fault::Dtype { found: format!("{text} ({what})"), remedy },
        None => {
            Fault::Dtype { found: text, remedy: "save array.astype(numpy.float32), or another type of the language" }
        }
    }
}
