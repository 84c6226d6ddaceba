//! The arguments of a call in the forms in which callers have them: arrays, slices, scalars and
//! tuples of these, each lent for the length of the call.

use std::sync::Arc;

use half::{bf16, f16};
use smallvec::SmallVec;

use super::{Array, ArrayError, ArrayMut, ArrayRef, Element, Number};

/// One argument of a call: an [`Array`], an [`ArrayRef`], a slice or a vector of an [`Element`]
/// type (an array with one axis), a value of such a type (a scalar), or a reference or an
/// [`Arc`] to any of these. None is copied.
///
/// With the feature `ndarray`, arrays and views of that crate are arguments too. Those in standard
/// layout are not copied; of others, such as transposed ones, the call makes a copy in row-major
/// order first.
///
/// A type of your own that holds elements can implement it by lending them as an [`ArrayRef`].
pub trait Input {
    /// The elements. `room` keeps memory that only the call needs.
    ///
    /// # Errors
    ///
    /// [`ArrayError::OutOfMemory`] if the elements must be copied and there is no memory for that.
    fn lend<'a>(&'a self, room: &'a mut Room) -> Result<ArrayRef<'a>, ArrayError>;

    /// Lends several arguments of this type.
    #[doc(hidden)]
    fn lend_all<R>(inputs: &[Self], call: impl FnOnce(&[ArrayRef<'_>]) -> R) -> Result<R, ArrayError>
    where
        Self: Sized,
    {
        let mut rooms: SmallVec<[Room; 4]> = inputs.iter().map(|_| Room::default()).collect();
        let lent = inputs.iter().zip(&mut rooms).map(|(input, room)| input.lend(room));
        let lent: SmallVec<[ArrayRef<'_>; 4]> = lent.collect::<Result<_, _>>()?;
        Ok(call(&lent))
    }
}

/// An array that a call writes a result to: an [`Array`], an [`ArrayMut`], a slice or a vector of a
/// [`Number`] type (a result with one axis), or a mutable reference to any of these.
///
/// With the feature `ndarray`, also arrays and mutable views of that crate in standard layout;
/// another layout is [`ArrayError::Layout`].
pub trait Output {
    /// The memory. `room` keeps memory that only the call needs.
    ///
    /// # Errors
    ///
    /// [`ArrayError::Layout`] if the memory is not dense and row-major.
    fn lend<'a>(&'a mut self, room: &'a mut Room) -> Result<ArrayMut<'a>, ArrayError>;

    /// Lends several arrays of this type.
    #[doc(hidden)]
    fn lend_all<R>(outputs: &mut [Self], call: impl FnOnce(&mut [ArrayMut<'_>]) -> R) -> Result<R, ArrayError>
    where
        Self: Sized,
    {
        let mut rooms: SmallVec<[Room; 4]> = outputs.iter().map(|_| Room::default()).collect();
        let lent = outputs.iter_mut().zip(&mut rooms).map(|(output, room)| output.lend(room));
        let mut lent: SmallVec<[ArrayMut<'_>; 4]> = lent.collect::<Result<_, _>>()?;
        Ok(call(&mut lent))
    }
}

/// Memory for the length of a call: the shape of a slice, or a copy in another layout.
#[derive(Debug, Default)]
pub struct Room {
    pub(super) shape: SmallVec<[usize; 4]>,
    #[cfg(feature = "ndarray")]
    pub(super) copy: Option<Array>,
}

/// The arguments of a call, in the order of the function's parameters: a tuple of up to twelve
/// [`Input`]s, each of a type of its own, or a slice, an array or a vector of `Input`s of one type.
/// `()` is no arguments, and `(&x,)` a single one.
pub trait Inputs {
    /// Calls with the arguments.
    ///
    /// # Errors
    ///
    /// Those of [`Input::lend`].
    fn with<R>(self, call: impl FnOnce(&[ArrayRef<'_>]) -> R) -> Result<R, ArrayError>;
}

/// The arrays to which a call writes its results, in their order: a tuple of up to twelve
/// [`Output`]s, or a mutable slice, array or vector of `Output`s of one type.
pub trait Outputs {
    /// Calls with the memory.
    ///
    /// # Errors
    ///
    /// Those of [`Output::lend`].
    fn with<R>(self, call: impl FnOnce(&mut [ArrayMut<'_>]) -> R) -> Result<R, ArrayError>;
}

impl<I: Input + ?Sized> Input for &I {
    fn lend<'a>(&'a self, room: &'a mut Room) -> Result<ArrayRef<'a>, ArrayError> {
        (**self).lend(room)
    }
}

impl<I: Input + ?Sized> Input for Arc<I> {
    fn lend<'a>(&'a self, room: &'a mut Room) -> Result<ArrayRef<'a>, ArrayError> {
        (**self).lend(room)
    }
}

impl Input for Array {
    fn lend<'a>(&'a self, _: &'a mut Room) -> Result<ArrayRef<'a>, ArrayError> {
        Ok(self.as_ref())
    }
}

impl Input for ArrayRef<'_> {
    fn lend<'a>(&'a self, _: &'a mut Room) -> Result<ArrayRef<'a>, ArrayError> {
        Ok(*self)
    }

    fn lend_all<R>(inputs: &[Self], call: impl FnOnce(&[ArrayRef<'_>]) -> R) -> Result<R, ArrayError> {
        Ok(call(inputs))
    }
}

macro_rules! scalars {
    ($($scalar:ident)*) => {$(
        impl Input for $scalar {
            fn lend<'a>(&'a self, _: &'a mut Room) -> Result<ArrayRef<'a>, ArrayError> {
                ArrayRef::from_slice(&[], std::slice::from_ref(self))
            }
        }
    )*};
}

scalars! { bool i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64 }

impl<T: Element> Input for [T] {
    fn lend<'a>(&'a self, room: &'a mut Room) -> Result<ArrayRef<'a>, ArrayError> {
        ArrayRef::from_slice(room.one_axis(self.len()), self)
    }
}

impl<T: Element, const N: usize> Input for [T; N] {
    fn lend<'a>(&'a self, room: &'a mut Room) -> Result<ArrayRef<'a>, ArrayError> {
        self.as_slice().lend(room)
    }
}

impl<T: Element> Input for Vec<T> {
    fn lend<'a>(&'a self, room: &'a mut Room) -> Result<ArrayRef<'a>, ArrayError> {
        self.as_slice().lend(room)
    }
}

impl<O: Output + ?Sized> Output for &mut O {
    fn lend<'a>(&'a mut self, room: &'a mut Room) -> Result<ArrayMut<'a>, ArrayError> {
        (**self).lend(room)
    }
}

impl Output for Array {
    fn lend<'a>(&'a mut self, _: &'a mut Room) -> Result<ArrayMut<'a>, ArrayError> {
        Ok(self.as_mut())
    }
}

impl Output for ArrayMut<'_> {
    fn lend<'a>(&'a mut self, _: &'a mut Room) -> Result<ArrayMut<'a>, ArrayError> {
        Ok(ArrayMut { dtype: self.dtype, shape: self.shape, bytes: self.bytes })
    }

    fn lend_all<R>(outputs: &mut [Self], call: impl FnOnce(&mut [ArrayMut<'_>]) -> R) -> Result<R, ArrayError> {
        Ok(call(outputs))
    }
}

impl<T: Number> Output for [T] {
    fn lend<'a>(&'a mut self, room: &'a mut Room) -> Result<ArrayMut<'a>, ArrayError> {
        ArrayMut::from_slice(room.one_axis(self.len()), self)
    }
}

impl<T: Number, const N: usize> Output for [T; N] {
    fn lend<'a>(&'a mut self, room: &'a mut Room) -> Result<ArrayMut<'a>, ArrayError> {
        self.as_mut_slice().lend(room)
    }
}

impl<T: Number> Output for Vec<T> {
    fn lend<'a>(&'a mut self, room: &'a mut Room) -> Result<ArrayMut<'a>, ArrayError> {
        self.as_mut_slice().lend(room)
    }
}

impl Room {
    /// The shape of an array with one axis.
    fn one_axis(&mut self, length: usize) -> &[usize] {
        self.shape.clear();
        self.shape.push(length);
        &self.shape
    }
}

impl<I: Input> Inputs for &[I] {
    fn with<R>(self, call: impl FnOnce(&[ArrayRef<'_>]) -> R) -> Result<R, ArrayError> {
        I::lend_all(self, call)
    }
}

impl<I: Input, const N: usize> Inputs for &[I; N] {
    fn with<R>(self, call: impl FnOnce(&[ArrayRef<'_>]) -> R) -> Result<R, ArrayError> {
        I::lend_all(self, call)
    }
}

impl<I: Input> Inputs for &Vec<I> {
    fn with<R>(self, call: impl FnOnce(&[ArrayRef<'_>]) -> R) -> Result<R, ArrayError> {
        I::lend_all(self, call)
    }
}

impl<O: Output> Outputs for &mut [O] {
    fn with<R>(self, call: impl FnOnce(&mut [ArrayMut<'_>]) -> R) -> Result<R, ArrayError> {
        O::lend_all(self, call)
    }
}

impl<O: Output, const N: usize> Outputs for &mut [O; N] {
    fn with<R>(self, call: impl FnOnce(&mut [ArrayMut<'_>]) -> R) -> Result<R, ArrayError> {
        O::lend_all(self, call)
    }
}

impl<O: Output> Outputs for &mut Vec<O> {
    fn with<R>(self, call: impl FnOnce(&mut [ArrayMut<'_>]) -> R) -> Result<R, ArrayError> {
        O::lend_all(self, call)
    }
}

impl Inputs for () {
    fn with<R>(self, call: impl FnOnce(&[ArrayRef<'_>]) -> R) -> Result<R, ArrayError> {
        Ok(call(&[]))
    }
}

macro_rules! tuples {
    ($(($($name:ident)*))*) => {$(
        impl<$($name: Input),*> Inputs for ($($name,)*) {
            #[expect(non_snake_case, reason = "a variable has the name of its type")]
            fn with<R>(self, call: impl FnOnce(&[ArrayRef<'_>]) -> R) -> Result<R, ArrayError> {
                let ($($name,)*) = &self;
                Ok(call(&[$($name.lend(&mut Room::default())?),*]))
            }
        }

        impl<$($name: Output),*> Outputs for ($($name,)*) {
            #[expect(non_snake_case, reason = "a variable has the name of its type")]
            fn with<R>(self, call: impl FnOnce(&mut [ArrayMut<'_>]) -> R) -> Result<R, ArrayError> {
                let ($(mut $name,)*) = self;
                Ok(call(&mut [$($name.lend(&mut Room::default())?),*]))
            }
        }
    )*};
}

tuples! {
    (A)
    (A B)
    (A B C)
    (A B C D)
    (A B C D E)
    (A B C D E F)
    (A B C D E F G)
    (A B C D E F G H)
    (A B C D E F G H I)
    (A B C D E F G H I J)
    (A B C D E F G H I J K)
    (A B C D E F G H I J K L)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dtype;

    fn shapes(inputs: impl Inputs) -> Vec<(Dtype, Vec<usize>)> {
        inputs.with(|lent| lent.iter().map(|one| (one.dtype(), one.shape().to_vec())).collect()).unwrap()
    }

    #[test]
    fn arguments_are_lent_in_every_form() {
        let (array, vector) = (Array::zeros(Dtype::F64, &[2, 3]).unwrap(), vec![1i32, 2]);
        let found = shapes((&array, array.as_ref(), &vector, &vector[1..], [true; 3], 0.5f32, &7u8));
        let expected: [(Dtype, &[usize]); 7] = [
            (Dtype::F64, &[2, 3]),
            (Dtype::F64, &[2, 3]),
            (Dtype::I32, &[2]),
            (Dtype::I32, &[1]),
            (Dtype::Bool, &[3]),
            (Dtype::F32, &[]),
            (Dtype::U8, &[]),
        ];
        assert_eq!(found, expected.map(|(dtype, shape)| (dtype, shape.to_vec())));
        assert!(shapes(()).is_empty());
        let several: Vec<&dyn Input> = vec![&array, &vector, &0.5f32];
        assert_eq!(shapes(&several), shapes((&array, &vector, 0.5f32)));
        assert_eq!(shapes(&[array.as_ref(); 2]), shapes(&vec![array.clone(), array.clone()]));
        let addresses = (&array, &vector).with(|lent| [lent[0].bytes().as_ptr(), lent[1].bytes().as_ptr()]).unwrap();
        assert_eq!(addresses, [array.bytes().as_ptr(), vector.as_ptr().cast()]);
    }

    #[test]
    fn memory_is_lent_in_every_form() {
        let (mut array, mut vector, mut few) = (Array::from(vec![0u8; 2]), vec![0u8; 3], [0u8; 1]);
        let fill = |lent: &mut [ArrayMut<'_>]| {
            lent.iter_mut().zip(1..).for_each(|(one, k)| one.bytes_mut().fill(k));
            lent.iter().map(|one| one.shape()[0]).collect::<Vec<_>>()
        };
        assert_eq!((&mut array, &mut vector, &mut few).with(fill).unwrap(), [2, 3, 1]);
        assert_eq!((array.bytes(), &*vector, few), (&[1, 1][..], &[2, 2, 2][..], [3]));
        assert_eq!((&mut [array.as_mut()]).with(fill).unwrap(), [2]);
        assert_eq!((&mut vec![array]).with(fill).unwrap(), [2]);
    }
}
