//! Host arrays: what programs take and give. Dense, row-major, of any rank.

use std::fmt;

use crate::{Dtype, Scalar};

/// An array that owns its elements. The memory is aligned for every element type.
#[derive(Clone, Debug)]
pub struct Array {
    dtype: Dtype,
    shape: Vec<usize>,
    /// The elements' bytes in native order, in whole words so that they are aligned.
    words: Vec<u64>,
}

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
        /// What was asked for.
        bytes: usize,
    },
    /// The bytes are not as many as the shape says.
    Length {
        /// Bytes that the shape needs.
        expected: usize,
        /// Bytes there are.
        found: usize,
    },
    /// A `bool` element is neither 0 nor 1.
    InvalidBool {
        /// The byte's position.
        position: usize,
    },
}

impl fmt::Display for ArrayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArrayError::TooLarge => f.write_str("the array is larger than memory can be"),
            ArrayError::OutOfMemory { bytes } => write!(f, "no memory for an array of {bytes} bytes"),
            ArrayError::Length { expected, found } => write!(f, "the shape needs {expected} bytes, there are {found}"),
            ArrayError::InvalidBool { position } => write!(f, "byte {position} of a bool array is neither 0 nor 1"),
        }
    }
}

impl std::error::Error for ArrayError {}

/// Bytes that an array of this type and shape takes, if that fits `isize` (so that addresses never wrap).
/// The product of the non-zero lengths must fit too, so that no partial product of sizes overflows.
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

impl Array {
    /// An array of zeros.
    pub fn zeros(dtype: Dtype, shape: &[usize]) -> Result<Array, ArrayError> {
        Array::zeros_in(dtype, shape, |count| {
            let mut words = Vec::new();
            words.try_reserve_exact(count).ok()?;
            words.resize(count, 0);
            Some(words)
        })
    }

    /// An array of zeros in memory of so many words as `allocate` is asked for.
    pub fn zeros_in(
        dtype: Dtype,
        shape: &[usize],
        allocate: impl FnOnce(usize) -> Option<Vec<u64>>,
    ) -> Result<Array, ArrayError> {
        let bytes = byte_len(dtype, shape)?;
        let count = bytes.div_ceil(8);
        let mut words = allocate(count).ok_or(ArrayError::OutOfMemory { bytes })?;
        words.resize(count, 0);
        Ok(Array { dtype, shape: shape.to_vec(), words })
    }

    /// An array with a copy of the given elements, in native byte order.
    pub fn from_bytes(dtype: Dtype, shape: &[usize], bytes: &[u8]) -> Result<Array, ArrayError> {
        check(dtype, shape, bytes)?;
        let mut array = Array::zeros(dtype, shape)?;
        array.bytes_mut().copy_from_slice(bytes);
        Ok(array)
    }

    /// An array of the given scalars, row-major, all of type `dtype`.
    pub fn from_scalars(dtype: Dtype, shape: &[usize], scalars: &[Scalar]) -> Result<Array, ArrayError> {
        let mut bytes = Vec::with_capacity(scalars.len() * dtype.bytes());
        for s in scalars.iter().filter(|s| s.dtype() == dtype) {
            bytes.extend_from_slice(&s.bits().to_ne_bytes_low(dtype.bytes()));
        }
        Array::from_bytes(dtype, shape, &bytes)
    }

    /// A rank-0 array.
    pub fn scalar(value: Scalar) -> Array {
        let mut word = [0u8; 8];
        let bytes = value.bits().to_ne_bytes_low(value.dtype().bytes());
        word[..bytes.len()].copy_from_slice(&bytes);
        Array { dtype: value.dtype(), shape: vec![], words: vec![u64::from_ne_bytes(word)] }
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
        &bytemuck::cast_slice(&self.words)[..self.byte_len()]
    }

    /// The elements, to overwrite. A `bool` must stay 0 or 1.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = self.byte_len();
        &mut bytemuck::cast_slice_mut(&mut self.words)[..bytes]
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

    /// Overwrites the element with a row-major number; `false` if there is none or the type is another.
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
            bytes: &mut bytemuck::cast_slice_mut(&mut self.words)[..bytes],
        }
    }

    fn byte_len(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype.bytes()
    }
}

/// Equality of type, shape and elements, any NaN equal to any NaN.
impl PartialEq for Array {
    fn eq(&self, other: &Array) -> bool {
        self.dtype == other.dtype
            && self.shape == other.shape
            && (self.bytes() == other.bytes() || (0..self.len()).all(|n| self.get(n) == other.get(n)))
    }
}

impl<'a> ArrayRef<'a> {
    /// Borrows elements in native byte order, of as many bytes as the shape says; a `bool` is 0 or 1.
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
    /// Borrows memory for elements, of as many bytes as the shape says.
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
