//! Rust's types as elements of arrays: slices and vectors of them in and out.

use half::{bf16, f16};

use super::{Array, ArrayError, ArrayMut, ArrayRef, byte_len, first_word, words_with_room};
use crate::{Dtype, Scalar};

/// A Rust type that array elements can have: `bool`, the integers from 8 to 64 bits, `f16`, `bf16`,
/// `f32` and `f64`. No other type can implement it.
///
/// ```
/// # use ir::{Dtype, array::Element};
/// fn is_small<T: Element>() -> bool {
///     T::DTYPE.bytes() < 4
/// }
/// assert!(is_small::<u8>() && !is_small::<f32>());
/// ```
pub trait Element: Copy + PartialEq + Send + Sync + Into<Scalar> + sealed::Bytes + 'static {
    /// The element type in the language.
    const DTYPE: Dtype;
}

/// An element type whose bits may be anything: all but `bool`. A call may write to a slice of such
/// a type; truth values are written to an [`Array`].
pub trait Number: Element + sealed::BytesMut {}

mod sealed {
    use super::ArrayError;

    /// Slices as bytes, and bytes as slices.
    pub trait Bytes: Sized {
        fn bytes(elements: &[Self]) -> &[u8];
        fn of_bytes(bytes: &[u8]) -> Result<&[Self], ArrayError>;
        fn of_bytes_mut(bytes: &mut [u8]) -> Result<&mut [Self], ArrayError>;
    }

    /// The same where any byte may be written.
    pub trait BytesMut: Bytes {
        fn bytes_mut(elements: &mut [Self]) -> &mut [u8];
    }
}

/// Implements the traits for a type, with the type whose slices stand for it.
macro_rules! numbers {
    ($($rust:ident, $dtype:ident, $to:expr, $to_mut:expr, $of:expr, $of_mut:expr;)*) => {$(
        impl sealed::Bytes for $rust {
            fn bytes(elements: &[Self]) -> &[u8] {
                bytemuck::cast_slice($to(elements))
            }

            fn of_bytes(bytes: &[u8]) -> Result<&[Self], ArrayError> {
                Ok($of(bytemuck::try_cast_slice(bytes).map_err(|_| ArrayError::Unaligned)?))
            }

            fn of_bytes_mut(bytes: &mut [u8]) -> Result<&mut [Self], ArrayError> {
                Ok($of_mut(bytemuck::try_cast_slice_mut(bytes).map_err(|_| ArrayError::Unaligned)?))
            }
        }

        impl sealed::BytesMut for $rust {
            fn bytes_mut(elements: &mut [Self]) -> &mut [u8] {
                bytemuck::cast_slice_mut($to_mut(elements))
            }
        }

        impl Element for $rust {
            const DTYPE: Dtype = Dtype::$dtype;
        }

        impl Number for $rust {}

        impl From<$rust> for Scalar {
            fn from(value: $rust) -> Scalar {
                Scalar::$dtype(value)
            }
        }
    )*};
}

/// The same for a type that `bytemuck` knows.
macro_rules! plain_numbers {
    ($($rust:ident, $dtype:ident;)*) => {
        numbers! {$(
            $rust, $dtype, own::<$rust>, own_mut::<$rust>, own::<$rust>, own_mut::<$rust>;
        )*}
    };
}

fn own<T>(elements: &[T]) -> &[T] {
    elements
}

fn own_mut<T>(elements: &mut [T]) -> &mut [T] {
    elements
}

plain_numbers! {
    i8, I8;
    u8, U8;
    i16, I16;
    u16, U16;
    i32, I32;
    u32, U32;
    i64, I64;
    u64, U64;
    f32, F32;
    f64, F64;
}

/// Slices of the 16-bit floats as slices of their bits, which is how `half` offers them without
/// procedural macros.
mod bits {
    use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
    use half::{bf16, f16};

    macro_rules! bits {
        ($($rust:ident, $to:ident, $to_mut:ident, $of:ident, $of_mut:ident;)*) => {$(
            pub fn $to(elements: &[$rust]) -> &[u16] {
                elements.reinterpret_cast()
            }

            pub fn $to_mut(elements: &mut [$rust]) -> &mut [u16] {
                elements.reinterpret_cast_mut()
            }

            pub fn $of(bits: &[u16]) -> &[$rust] {
                bits.reinterpret_cast()
            }

            pub fn $of_mut(bits: &mut [u16]) -> &mut [$rust] {
                bits.reinterpret_cast_mut()
            }
        )*};
    }

    bits! {
        f16, of_f16, of_f16_mut, f16, f16_mut;
        bf16, of_bf16, of_bf16_mut, bf16, bf16_mut;
    }
}

numbers! {
    f16, F16, bits::of_f16, bits::of_f16_mut, bits::f16, bits::f16_mut;
    bf16, Bf16, bits::of_bf16, bits::of_bf16_mut, bits::bf16, bits::bf16_mut;
}

impl sealed::Bytes for bool {
    fn bytes(elements: &[bool]) -> &[u8] {
        bytemuck::cast_slice(elements)
    }

    fn of_bytes(bytes: &[u8]) -> Result<&[bool], ArrayError> {
        bytemuck::checked::try_cast_slice(bytes).map_err(|_| invalid_bool(bytes))
    }

    fn of_bytes_mut(bytes: &mut [u8]) -> Result<&mut [bool], ArrayError> {
        // The error would need bytes that are borrowed until the end.
        if bytes.iter().any(|byte| *byte > 1) {
            return Err(invalid_bool(bytes));
        }
        bytemuck::checked::try_cast_slice_mut(bytes).map_err(|_| ArrayError::Unaligned)
    }
}

fn invalid_bool(bytes: &[u8]) -> ArrayError {
    ArrayError::InvalidBool { position: bytes.iter().position(|byte| *byte > 1).unwrap_or(0) }
}

impl Element for bool {
    const DTYPE: Dtype = Dtype::Bool;
}

impl From<bool> for Scalar {
    fn from(value: bool) -> Scalar {
        Scalar::Bool(value)
    }
}

/// Checks that a shape has as many elements as there are.
fn fits<T: Element>(shape: &[usize], found: usize) -> Result<(), ArrayError> {
    let expected = byte_len(T::DTYPE, shape)? / T::DTYPE.bytes();
    if found == expected { Ok(()) } else { Err(ArrayError::Count { expected, found }) }
}

/// Checks that an array has elements of a type.
fn is_of<T: Element>(expected: Dtype) -> Result<(), ArrayError> {
    if expected == T::DTYPE { Ok(()) } else { Err(ArrayError::ElementType { expected, found: T::DTYPE }) }
}

impl Array {
    /// An array with a copy of these elements, row-major: of a shape of rank 2, one row after
    /// another.
    ///
    /// # Errors
    ///
    /// [`ArrayError::Count`] if the shape has another number of elements;
    /// [`ArrayError::OutOfMemory`] if there is no memory for the copy.
    ///
    /// ```
    /// # use ir::array::{Array, ArrayError};
    /// let x = Array::from_slice(&[2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    /// assert_eq!(x.shape(), [2, 3]);
    /// let error = Array::from_slice(&[2, 3], &[1.0f32]).unwrap_err();
    /// assert_eq!(error.to_string(), "the shape has 6 elements, 1 is given");
    /// # Ok::<(), ArrayError>(())
    /// ```
    pub fn from_slice<T: Element>(shape: &[usize], elements: &[T]) -> Result<Array, ArrayError> {
        fits::<T>(shape, elements.len())?;
        let mut array = Array::zeros(T::DTYPE, shape)?;
        array.bytes_mut().copy_from_slice(T::bytes(elements));
        Ok(array)
    }

    /// The elements, row-major, without a copy.
    ///
    /// # Errors
    ///
    /// [`ArrayError::ElementType`] if the elements have another type. A `bool` that
    /// [`Array::bytes_mut`] has set to something other than 0 or 1 is
    /// [`ArrayError::InvalidBool`].
    ///
    /// ```
    /// # use ir::array::{Array, ArrayError};
    /// let x = Array::from_slice(&[3], &[1i32, 2, 3])?;
    /// assert_eq!(x.as_slice::<i32>()?, [1, 2, 3]);
    /// let error = x.as_slice::<f32>().unwrap_err();
    /// assert_eq!(error.to_string(), "the array has elements of type i32, not f32");
    /// # Ok::<(), ArrayError>(())
    /// ```
    pub fn as_slice<T: Element>(&self) -> Result<&[T], ArrayError> {
        is_of::<T>(self.dtype)?;
        T::of_bytes(self.bytes())
    }

    /// The elements, to overwrite, row-major.
    ///
    /// # Errors
    ///
    /// As [`Array::as_slice`].
    ///
    /// ```
    /// # use ir::array::{Array, ArrayError};
    /// let mut x = Array::from(vec![1u8, 2]);
    /// x.as_mut_slice::<u8>()?[1] = 7;
    /// assert_eq!(x.into_vec::<u8>()?, [1, 7]);
    /// # Ok::<(), ArrayError>(())
    /// ```
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T], ArrayError> {
        is_of::<T>(self.dtype)?;
        T::of_bytes_mut(self.bytes_mut())
    }

    /// A copy of the elements, row-major.
    ///
    /// # Errors
    ///
    /// As [`Array::as_slice`].
    pub fn into_vec<T: Element>(self) -> Result<Vec<T>, ArrayError> {
        self.as_slice().map(<[T]>::to_vec)
    }
}

/// An array with one axis. The elements are copied, because arrays are aligned to cache lines.
impl<T: Element> From<Vec<T>> for Array {
    fn from(elements: Vec<T>) -> Array {
        // The vector exists, so the length of the array fits.
        let bytes = T::bytes(&elements);
        let words = vec![0; words_with_room(bytes.len())];
        let first = first_word(&words, bytes.len());
        let mut array = Array { dtype: T::DTYPE, shape: vec![elements.len()], words, first };
        array.bytes_mut().copy_from_slice(bytes);
        array
    }
}

impl<'a> ArrayRef<'a> {
    /// Borrows elements, row-major, without a copy.
    ///
    /// # Errors
    ///
    /// [`ArrayError::Count`] if the shape has another number of elements.
    ///
    /// ```
    /// # use ir::array::{ArrayError, ArrayRef};
    /// let elements = [1.0f32, 2.0, 3.0, 4.0];
    /// let x = ArrayRef::from_slice(&[2, 2], &elements)?;
    /// assert_eq!(x.bytes().as_ptr(), elements.as_ptr().cast());
    /// # Ok::<(), ArrayError>(())
    /// ```
    pub fn from_slice<T: Element>(shape: &'a [usize], elements: &'a [T]) -> Result<ArrayRef<'a>, ArrayError> {
        fits::<T>(shape, elements.len())?;
        Ok(ArrayRef { dtype: T::DTYPE, shape, bytes: T::bytes(elements) })
    }

    /// The elements, row-major, without a copy.
    ///
    /// # Errors
    ///
    /// As [`Array::as_slice`]; and [`ArrayError::Unaligned`] if the bytes that the array was made
    /// of do not lie as this type needs it.
    pub fn as_slice<T: Element>(&self) -> Result<&'a [T], ArrayError> {
        is_of::<T>(self.dtype)?;
        T::of_bytes(self.bytes)
    }
}

impl<'a> ArrayMut<'a> {
    /// Borrows elements to overwrite, row-major, without a copy.
    ///
    /// # Errors
    ///
    /// [`ArrayError::Count`] if the shape has another number of elements.
    pub fn from_slice<T: Number>(shape: &'a [usize], elements: &'a mut [T]) -> Result<ArrayMut<'a>, ArrayError> {
        fits::<T>(shape, elements.len())?;
        Ok(ArrayMut { dtype: T::DTYPE, shape, bytes: T::bytes_mut(elements) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Elements go in and come out unchanged, as slices, vectors and scalars.
    fn round<T: Element + std::fmt::Debug>(elements: [T; 3]) {
        let array = Array::from_slice(&[1, 3], &elements).unwrap();
        assert_eq!((array.dtype(), array.shape()), (T::DTYPE, &[1, 3][..]));
        assert_eq!(array.as_slice::<T>().unwrap(), elements);
        assert_eq!(array.get(2), Some(elements[2].into()));
        assert_eq!(array.as_ref().as_slice::<T>().unwrap(), elements);
        let borrowed = ArrayRef::from_slice(&[1, 3], &elements).unwrap();
        assert_eq!(borrowed.bytes(), array.bytes());
        let mut array = Array::from(elements.to_vec());
        assert_eq!(array.shape(), [3]);
        array.as_mut_slice::<T>().unwrap()[0] = elements[1];
        assert_eq!(array.into_vec::<T>().unwrap(), [elements[1], elements[1], elements[2]]);
        assert_eq!(Array::scalar(elements[1]).as_slice::<T>().unwrap(), [elements[1]]);
        assert!(Array::from(Vec::<T>::new()).as_slice::<T>().unwrap().is_empty());
    }

    fn writes<T: Number + std::fmt::Debug>(elements: [T; 3]) {
        round(elements);
        let mut own = elements;
        let mut lent = ArrayMut::from_slice(&[3], &mut own).unwrap();
        let count = T::DTYPE.bytes();
        let last: Vec<u8> = lent.bytes_mut()[2 * count..].to_vec();
        lent.bytes_mut()[..count].copy_from_slice(&last);
        assert_eq!(own, [elements[2], elements[1], elements[2]]);
    }

    #[test]
    fn every_type_goes_in_and_out() {
        round([true, false, true]);
        writes([-1i8, 2, i8::MIN]);
        writes([1u8, 2, u8::MAX]);
        writes([-1i16, 2, i16::MIN]);
        writes([1u16, 2, u16::MAX]);
        writes([-1i32, 2, i32::MIN]);
        writes([1u32, 2, u32::MAX]);
        writes([-1i64, 2, i64::MIN]);
        writes([1u64, 2, u64::MAX]);
        writes([1.5f32, -0.0, f32::INFINITY]);
        writes([1.5f64, -0.0, f64::INFINITY]);
        writes([1.5f32, -0.0, 65504.0].map(f16::from_f32));
        writes([1.5f32, -0.0, 65504.0].map(bf16::from_f32));
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let count = ArrayError::Count { expected: 4, found: 3 };
        assert_eq!(Array::from_slice(&[2, 2], &[1u8; 3]).unwrap_err(), count);
        assert_eq!(ArrayRef::from_slice(&[2, 2], &[1u8; 3]).unwrap_err(), count);
        assert_eq!(ArrayMut::from_slice(&[2, 2], &mut [1u8; 3]).unwrap_err(), count);
        assert_eq!(Array::from_slice::<u8>(&[usize::MAX, 2], &[]).unwrap_err(), ArrayError::TooLarge);
        let mut array = Array::from(vec![1u8, 2]);
        let other = ArrayError::ElementType { expected: Dtype::U8, found: Dtype::I8 };
        assert_eq!(array.as_slice::<i8>().unwrap_err(), other);
        assert_eq!(array.as_mut_slice::<i8>().unwrap_err(), other);
        assert_eq!(array.into_vec::<i8>().unwrap_err(), other);
        let mut truths = Array::from(vec![true, true]);
        truths.bytes_mut()[1] = 2;
        assert_eq!(truths.as_slice::<bool>().unwrap_err(), ArrayError::InvalidBool { position: 1 });
        assert_eq!(truths.as_mut_slice::<bool>().unwrap_err(), ArrayError::InvalidBool { position: 1 });
        let words = [0u64; 2];
        let bytes: &[u8] = bytemuck::cast_slice(&words);
        let crooked = ArrayRef::new(Dtype::F32, &[2], &bytes[1..9]).unwrap();
        assert_eq!(crooked.as_slice::<f32>().unwrap_err(), ArrayError::Unaligned);
    }
}
