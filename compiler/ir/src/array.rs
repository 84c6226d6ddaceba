//! Host arrays, the arguments and results of programs. Dense, row-major, of any rank.

mod element;
mod lend;
#[cfg(feature = "ndarray")]
mod ndarray;

use std::fmt;

use crate::{Dtype, Scalar};

pub use element::{Element, Number};
pub use lend::{Input, Inputs, Output, Outputs, Room};

/// An array that owns its elements: dense, row-major, of any number of axes. One without axes holds
/// a scalar.
///
/// The memory is aligned for every element type, and to cache lines if it is at least as long as
/// one, so that a vector of that length never spans two lines. Equality is on type, shape and
/// elements; any NaN equals any other.
///
/// ```
/// # use ir::{Array, Dtype, Scalar};
/// let x = Array::from_slice(&[2, 2], &[1.0f32, 2.0, 3.0, 4.0])?;
/// assert_eq!((x.dtype(), x.shape(), x.len()), (Dtype::F32, &[2, 2][..], 4));
/// assert_eq!(x.as_slice::<f32>()?[2], 3.0);
/// assert_eq!(x.get(2), Some(Scalar::F32(3.0))); // where the type is only known at run time
/// # Ok::<(), ir::array::ArrayError>(())
/// ```
#[derive(Debug)]
pub struct Array {
    dtype: Dtype,
    shape: Vec<usize>,
    /// The elements' bytes in native order, in whole words so that they are aligned.
    words: Vec<u64>,
    /// The word where they begin.
    first: usize,
}

/// Bytes of a line, and its words.
const LINE: usize = 64;
const LINE_WORDS: usize = LINE / 8;

/// Borrowed elements, row-major. The bytes need not be aligned.
#[derive(Clone, Copy, Debug)]
pub struct ArrayRef<'a> {
    dtype: Dtype,
    shape: &'a [usize],
    bytes: &'a [u8],
}

/// Borrowed elements that a program may overwrite, row-major. The bytes need not be aligned.
#[derive(Debug)]
pub struct ArrayMut<'a> {
    dtype: Dtype,
    shape: &'a [usize],
    bytes: &'a mut [u8],
}

/// Why an array cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArrayError {
    /// The shape has more bytes than memory can hold.
    TooLarge,
    /// There is no memory for it.
    OutOfMemory {
        /// The size of the failed allocation.
        bytes: usize,
    },
    /// The number of bytes does not match the shape.
    Length {
        /// Bytes that the shape needs.
        expected: usize,
        /// Bytes there are.
        found: usize,
    },
    /// The number of scalars does not match the shape.
    Count {
        /// The number of elements in the shape.
        expected: usize,
        /// The number of scalars.
        found: usize,
    },
    /// A scalar of another type than the array's.
    ScalarType {
        /// Its position among the scalars.
        position: usize,
        /// The array's type.
        expected: Dtype,
        /// The scalar's type.
        found: Dtype,
    },
    /// A `bool` element is neither 0 nor 1.
    InvalidBool {
        /// The byte's position.
        position: usize,
    },
    /// The elements are asked for as another type than theirs.
    ElementType {
        /// The array's type.
        expected: Dtype,
        /// The type asked for.
        found: Dtype,
    },
    /// Borrowed bytes do not lie as their type needs it.
    Unaligned,
    /// An array to write to is not dense and row-major.
    Layout,
}

impl fmt::Display for ArrayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArrayError::TooLarge => f.write_str("the array is larger than memory can be"),
            ArrayError::OutOfMemory { bytes } => write!(f, "no memory for an array of {bytes} bytes"),
            ArrayError::Length { expected, found } => write!(f, "the shape needs {expected} bytes, there are {found}"),
            ArrayError::Count { expected, found } => {
                let are = if *found == 1 { "is" } else { "are" };
                write!(f, "the shape has {expected} elements, {found} {are} given")
            }
            ArrayError::ScalarType { position, expected, found } => {
                write!(f, "the array is of {expected}, scalar {position} is of {found}")
            }
            ArrayError::InvalidBool { position } => write!(f, "byte {position} of a bool array is neither 0 nor 1"),
            ArrayError::ElementType { expected, found } => {
                write!(f, "the array has elements of type {expected}, not {found}")
            }
            ArrayError::Unaligned => f.write_str("the bytes do not lie as elements of their type do"),
            ArrayError::Layout => f.write_str("an array to write to must be dense and row-major"),
        }
    }
}

impl std::error::Error for ArrayError {}

/// Bytes that an array of this type and shape takes, if that fits `isize` (so that addresses never
/// wrap). The product of the non-zero lengths must fit too, so that no partial product of sizes
/// overflows.
///
/// # Errors
///
/// [`ArrayError::TooLarge`] if it does not fit.
pub fn byte_len(dtype: Dtype, shape: &[usize]) -> Result<usize, ArrayError> {
    let mut bytes = dtype.bytes();
    for &n in shape.iter().filter(|n| **n != 0) {
        bytes = bytes.checked_mul(n).ok_or(ArrayError::TooLarge)?;
    }
    if isize::try_from(bytes).is_err() {
        return Err(ArrayError::TooLarge);
    }
    Ok(if shape.contains(&0) { 0 } else { bytes })
}

fn check(dtype: Dtype, shape: &[usize], bytes: &[u8]) -> Result<(), ArrayError> {
    let expected = byte_len(dtype, shape)?;
    if bytes.len() != expected {
        return Err(ArrayError::Length { expected, found: bytes.len() });
    }
    match bytes.iter().position(|b| *b > 1) {
        Some(position) if dtype == Dtype::Bool => Err(ArrayError::InvalidBool { position }),
        _ => Ok(()),
    }
}

/// Replaces every NaN among elements in native byte order, as [`Array::canonical_nan`] does.
pub fn canonical_nan(dtype: Dtype, bytes: &mut [u8]) {
    fn each<const N: usize>(bytes: &mut [u8], nan: [u8; N], is_nan: impl Fn([u8; N]) -> bool) {
        for element in bytes.as_chunks_mut().0 {
            *element = if is_nan(*element) { nan } else { *element };
        }
    }
    match Scalar::nan(dtype) {
        Some(Scalar::F16(nan)) => each(bytes, nan.to_ne_bytes(), |e| half::f16::from_ne_bytes(e).is_nan()),
        Some(Scalar::Bf16(nan)) => each(bytes, nan.to_ne_bytes(), |e| half::bf16::from_ne_bytes(e).is_nan()),
        Some(Scalar::F32(nan)) => each(bytes, nan.to_ne_bytes(), |e| f32::from_ne_bytes(e).is_nan()),
        Some(Scalar::F64(nan)) => each(bytes, nan.to_ne_bytes(), |e| f64::from_ne_bytes(e).is_nan()),
        _ => {}
    }
}

/// The number of words for this many bytes, plus those before the first cache line.
fn words_with_room(bytes: usize) -> usize {
    bytes.div_ceil(8) + if bytes < LINE { 0 } else { LINE_WORDS - 1 }
}

/// The index of the word, in such memory, at which this many bytes begin.
fn first_word(words: &[u64], bytes: usize) -> usize {
    if bytes < LINE { 0 } else { words.as_ptr().align_offset(LINE).min(LINE_WORDS - 1) }
}

impl Clone for Array {
    fn clone(&self) -> Array {
        // Memory elsewhere is aligned in another way.
        let mut words = vec![0; self.words.len()];
        let first = first_word(&words, self.byte_len());
        let count = self.byte_len().div_ceil(8);
        words[first..first + count].copy_from_slice(&self.words[self.first..self.first + count]);
        Array { dtype: self.dtype, shape: self.shape.clone(), words, first }
    }
}

impl Array {
    /// An array of zeros, or `false`.
    ///
    /// # Errors
    ///
    /// [`ArrayError::TooLarge`] or [`ArrayError::OutOfMemory`].
    pub fn zeros(dtype: Dtype, shape: &[usize]) -> Result<Array, ArrayError> {
        Array::zeros_in(dtype, shape, |count| {
            let mut words = Vec::new();
            words.try_reserve_exact(count).ok()?;
            words.resize(count, 0);
            Some(words)
        })
    }

    /// An array of zeros. `allocate` is called with the number of words to allocate.
    ///
    /// # Errors
    ///
    /// As [`Array::zeros`]; `None` of `allocate` is [`ArrayError::OutOfMemory`].
    pub fn zeros_in(
        dtype: Dtype,
        shape: &[usize],
        allocate: impl FnOnce(usize) -> Option<Vec<u64>>,
    ) -> Result<Array, ArrayError> {
        let bytes = byte_len(dtype, shape)?;
        let count = words_with_room(bytes);
        let mut words = allocate(count).ok_or(ArrayError::OutOfMemory { bytes })?;
        words.resize(count, 0);
        let first = first_word(&words, bytes);
        Ok(Array { dtype, shape: shape.to_vec(), words, first })
    }

    /// An array with a copy of the given elements, in native byte order: for types that are only
    /// known at run time. [`Array::from_slice`] takes elements of a Rust type.
    ///
    /// # Errors
    ///
    /// [`ArrayError::Length`] if the shape needs another number of bytes,
    /// [`ArrayError::InvalidBool`] if a truth value is neither 0 nor 1.
    pub fn from_bytes(dtype: Dtype, shape: &[usize], bytes: &[u8]) -> Result<Array, ArrayError> {
        check(dtype, shape, bytes)?;
        let mut array = Array::zeros(dtype, shape)?;
        array.bytes_mut().copy_from_slice(bytes);
        Ok(array)
    }

    /// An array of the given scalars, row-major, all of type `dtype`: for types that are only known
    /// at run time.
    ///
    /// # Errors
    ///
    /// [`ArrayError::ScalarType`] if a scalar has another type, [`ArrayError::Count`] if the shape
    /// has another number of elements.
    pub fn from_scalars(dtype: Dtype, shape: &[usize], scalars: &[Scalar]) -> Result<Array, ArrayError> {
        if let Some((position, other)) = scalars.iter().enumerate().find(|(_, s)| s.dtype() != dtype) {
            return Err(ArrayError::ScalarType { position, expected: dtype, found: other.dtype() });
        }
        byte_len(dtype, shape)?;
        let expected: usize = if shape.contains(&0) { 0 } else { shape.iter().product() };
        if scalars.len() != expected {
            return Err(ArrayError::Count { expected, found: scalars.len() });
        }
        let mut bytes = Vec::with_capacity(scalars.len() * dtype.bytes());
        for s in scalars {
            bytes.extend_from_slice(&s.bits().to_ne_bytes_low(dtype.bytes()));
        }
        Array::from_bytes(dtype, shape, &bytes)
    }

    /// An array without axes, which holds one value: of a Rust type, or a [`Scalar`].
    ///
    /// ```
    /// # use ir::{Array, Scalar};
    /// assert_eq!(Array::scalar(0.5f32), Array::scalar(Scalar::F32(0.5)));
    /// ```
    pub fn scalar(value: impl Into<Scalar>) -> Array {
        let value = value.into();
        let mut word = [0u8; 8];
        let bytes = value.bits().to_ne_bytes_low(value.dtype().bytes());
        word[..bytes.len()].copy_from_slice(&bytes);
        Array { dtype: value.dtype(), shape: vec![], words: vec![u64::from_ne_bytes(word)], first: 0 }
    }

    /// The type of the elements.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The length of each axis.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The elements in native byte order.
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words[self.first..])[..self.byte_len()]
    }

    /// The elements, to overwrite. A `bool` must stay 0 or 1.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = self.byte_len();
        &mut bytemuck::cast_slice_mut(&mut self.words[self.first..])[..bytes]
    }

    /// Replaces every NaN by the positive quiet NaN without a payload: `0x7fc00000` in `f32`,
    /// `0x7ff8000000000000` in `f64`, `0x7e00` in `f16` and `0x7fc0` in `bf16`. Other elements, and
    /// arrays of other types, are unchanged.
    ///
    /// Engines agree on every bit of a result except the sign and payload of a NaN. After this call
    /// they agree on those too, so call it before you hash the bytes, compare them or send them
    /// elsewhere. Writing to a file does the same.
    pub fn canonical_nan(&mut self) {
        canonical_nan(self.dtype, self.bytes_mut());
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.byte_len() / self.dtype.bytes()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element with a row-major number, or `None` beyond the end.
    pub fn get(&self, number: usize) -> Option<Scalar> {
        self.as_ref().get(number)
    }

    /// Overwrites the element with a row-major number; `false` if there is none or it has another
    /// type.
    pub fn set(&mut self, number: usize, value: Scalar) -> bool {
        let width = self.dtype.bytes();
        let start = number.saturating_mul(width);
        if value.dtype() != self.dtype {
            return false;
        }
        let Some(place) = self.bytes_mut().get_mut(start..start.saturating_add(width)) else { return false };
        let bits = value.bits().to_ne_bytes();
        let low = if cfg!(target_endian = "little") { 0 } else { 8 - width };
        place.copy_from_slice(&bits[low..low + width]);
        true
    }

    /// The array, borrowed.
    pub fn as_ref(&self) -> ArrayRef<'_> {
        ArrayRef { dtype: self.dtype, shape: &self.shape, bytes: self.bytes() }
    }

    /// The array, borrowed to be overwritten.
    pub fn as_mut(&mut self) -> ArrayMut<'_> {
        let bytes = self.byte_len();
        ArrayMut {
            dtype: self.dtype,
            shape: &self.shape,
            bytes: &mut bytemuck::cast_slice_mut(&mut self.words[self.first..])[..bytes],
        }
    }

    fn byte_len(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype.bytes()
    }
}

/// Equality of type, shape and elements, where any NaN equals any other.
impl PartialEq for Array {
    fn eq(&self, other: &Array) -> bool {
        self.dtype == other.dtype
            && self.shape == other.shape
            && (self.bytes() == other.bytes() || (0..self.len()).all(|n| self.get(n) == other.get(n)))
    }
}

impl<'a> ArrayRef<'a> {
    /// Borrows elements in native byte order: for types that are only known at run time.
    /// [`ArrayRef::from_slice`] borrows elements of a Rust type.
    ///
    /// # Errors
    ///
    /// [`ArrayError::Length`] if the shape needs another number of bytes,
    /// [`ArrayError::InvalidBool`] if a truth value is neither 0 nor 1.
    pub fn new(dtype: Dtype, shape: &'a [usize], bytes: &'a [u8]) -> Result<ArrayRef<'a>, ArrayError> {
        check(dtype, shape, bytes)?;
        Ok(ArrayRef { dtype, shape, bytes })
    }

    /// The type of the elements.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The length of each axis.
    pub fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// The elements in native byte order.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The element with a row-major number, or `None` beyond the end.
    pub fn get(&self, number: usize) -> Option<Scalar> {
        let width = self.dtype.bytes();
        let bytes = self.bytes.get(number.checked_mul(width)?..)?.get(..width)?;
        let mut word = [0u8; 8];
        let start = if cfg!(target_endian = "little") { 0 } else { 8 - width };
        word[start..start + width].copy_from_slice(bytes);
        Some(Scalar::from_bits(self.dtype, u64::from_ne_bytes(word)))
    }
}

impl<'a> ArrayMut<'a> {
    /// Borrows memory for elements.
    ///
    /// # Errors
    ///
    /// [`ArrayError::Length`] if the shape needs another number of bytes.
    pub fn new(dtype: Dtype, shape: &'a [usize], bytes: &'a mut [u8]) -> Result<ArrayMut<'a>, ArrayError> {
        let expected = byte_len(dtype, shape)?;
        if bytes.len() != expected {
            return Err(ArrayError::Length { expected, found: bytes.len() });
        }
        Ok(ArrayMut { dtype, shape, bytes })
    }

    /// The type of the elements.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The length of each axis.
    pub fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// The elements, to overwrite, in native byte order. A `bool` must be 0 or 1.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes
    }
}

trait LowBytes {
    fn to_ne_bytes_low(self, width: usize) -> Vec<u8>;
}

impl LowBytes for u64 {
    /// The low `width` bytes of a word, in native order.
    fn to_ne_bytes_low(self, width: usize) -> Vec<u8> {
        let bytes = self.to_ne_bytes();
        if cfg!(target_endian = "little") { bytes[..width].to_vec() } else { bytes[8 - width..].to_vec() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_all_of_the_type_and_as_many_as_the_shape_says() {
        let (one, two) = (Scalar::I32(1), Scalar::F32(2.0));
        let of = |shape: &[usize], scalars: &[Scalar]| Array::from_scalars(Dtype::I32, shape, scalars).unwrap_err();
        let other = ArrayError::ScalarType { position: 1, expected: Dtype::I32, found: Dtype::F32 };
        assert_eq!(of(&[2], &[one, two]), other);
        assert_eq!(of(&[2, 2], &[one; 3]), ArrayError::Count { expected: 4, found: 3 });
        assert_eq!(of(&[3, 0], &[one]), ArrayError::Count { expected: 0, found: 1 });
        assert!(Array::from_scalars(Dtype::I32, &[0, 3], &[]).is_ok());
        assert_eq!(Array::from_scalars(Dtype::I32, &[], &[one]).unwrap(), Array::scalar(one));
    }

    #[test]
    fn every_nan_gets_the_same_bits_and_nothing_else_changes() {
        // The sign, the infinity and the canonical NaN of each type.
        for (dtype, sign, infinity, nan) in [
            (Dtype::F16, 1 << 15, 0x7c00, 0x7e00),
            (Dtype::Bf16, 1 << 15, 0x7f80, 0x7fc0),
            (Dtype::F32, 1 << 31, 0x7f80_0000, 0x7fc0_0000),
            (Dtype::F64, 1 << 63, 0x7ff0_0000_0000_0000, 0x7ff8_0000_0000_0000),
        ] {
            for magnitude in [0, 1, infinity - 1, infinity, infinity + 1, nan - 1, nan, nan + 1, sign - 1] {
                for bits in [magnitude, magnitude | sign] {
                    let mut array = Array::from_scalars(dtype, &[3], &[Scalar::from_bits(dtype, bits); 3]).unwrap();
                    array.canonical_nan();
                    let expected = if magnitude > infinity { nan } else { bits };
                    assert!((0..3).all(|n| array.get(n).map(Scalar::bits) == Some(expected)), "{dtype} {bits:#x}");
                }
            }
        }
        let mut whole = Array::from_scalars(Dtype::I32, &[1], &[Scalar::I32(-1)]).unwrap();
        whole.canonical_nan();
        assert_eq!(whole.get(0), Some(Scalar::I32(-1)));
    }

    #[test]
    fn elements_begin_at_a_line() {
        for count in [0, 1, 15, 16, 17, 1000] {
            let mut array = Array::zeros(Dtype::F32, &[count]).unwrap();
            array.bytes_mut().iter_mut().enumerate().for_each(|(n, byte)| *byte = (n % 251) as u8);
            let copies: Vec<Array> = (0..5).map(|_| array.clone()).collect();
            for array in copies.iter().chain([&array]) {
                assert_eq!(array.len(), count);
                assert!(array.bytes().iter().enumerate().all(|(n, byte)| *byte == (n % 251) as u8));
                assert!(count < 16 || array.bytes().as_ptr().addr().is_multiple_of(LINE));
            }
        }
    }
}
