//! The arguments of a call on a GPU in the forms in which callers have them, as `ir::array::lend`
//! has those of a call on arrays of the host.

use std::sync::Arc;

use backends::cuda::{DeviceArray, Error, Gpu};
use half::{bf16, f16};

/// One argument of a call on a GPU: a [`DeviceArray`], a number, which is copied to the GPU, or a
/// reference or an [`Arc`] to either.
pub trait DeviceInput {
    /// The argument in the GPU's memory. `room` keeps memory that only the call needs.
    ///
    /// # Errors
    ///
    /// [`GpuError`](crate::GpuError) if a number cannot be copied.
    fn lend<'a>(&'a self, gpu: &Arc<Gpu>, room: &'a mut Option<DeviceArray>) -> Result<&'a DeviceArray, Error>;
}

/// The arguments of a call on a GPU, in the order of the function's parameters: a tuple of up to
/// twelve [`DeviceInput`]s, or a slice, an array or a vector of `DeviceInput`s of one type. `()` is
/// no arguments, and `(&x,)` a single one.
pub trait DeviceInputs {
    /// Calls with the arguments.
    ///
    /// # Errors
    ///
    /// Those of [`DeviceInput::lend`].
    fn with<R>(self, gpu: &Arc<Gpu>, call: impl FnOnce(&[&DeviceArray]) -> R) -> Result<R, Error>;
}

/// The arrays to which a call on a GPU writes its results, in their order: a tuple of up to twelve
/// mutable references to [`DeviceArray`]s, or a mutable slice, array or vector of such references.
pub trait DeviceOutputs {
    /// Calls with the arrays.
    fn with<R>(self, call: impl FnOnce(&mut [&mut DeviceArray]) -> R) -> R;
}

impl DeviceInput for DeviceArray {
    fn lend<'a>(&'a self, _: &Arc<Gpu>, _: &'a mut Option<DeviceArray>) -> Result<&'a DeviceArray, Error> {
        Ok(self)
    }
}

impl<I: DeviceInput + ?Sized> DeviceInput for &I {
    fn lend<'a>(&'a self, gpu: &Arc<Gpu>, room: &'a mut Option<DeviceArray>) -> Result<&'a DeviceArray, Error> {
        (**self).lend(gpu, room)
    }
}

impl<I: DeviceInput + ?Sized> DeviceInput for Arc<I> {
    fn lend<'a>(&'a self, gpu: &Arc<Gpu>, room: &'a mut Option<DeviceArray>) -> Result<&'a DeviceArray, Error> {
        (**self).lend(gpu, room)
    }
}

macro_rules! numbers {
    ($($number:ident)*) => {$(
        impl DeviceInput for $number {
            fn lend<'a>(&'a self, gpu: &Arc<Gpu>, room: &'a mut Option<DeviceArray>) -> Result<&'a DeviceArray, Error> {
                Ok(room.insert(DeviceArray::scalar(gpu, (*self).into())))
            }
        }
    )*};
}

numbers! { bool i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64 }

impl<I: DeviceInput> DeviceInputs for &[I] {
    fn with<R>(self, gpu: &Arc<Gpu>, call: impl FnOnce(&[&DeviceArray]) -> R) -> Result<R, Error> {
        let mut rooms: Vec<Option<DeviceArray>> = self.iter().map(|_| None).collect();
        let lent = self.iter().zip(&mut rooms).map(|(input, room)| input.lend(gpu, room));
        Ok(call(&lent.collect::<Result<Vec<_>, _>>()?))
    }
}

impl<I: DeviceInput, const N: usize> DeviceInputs for &[I; N] {
    fn with<R>(self, gpu: &Arc<Gpu>, call: impl FnOnce(&[&DeviceArray]) -> R) -> Result<R, Error> {
        self.as_slice().with(gpu, call)
    }
}

impl<I: DeviceInput> DeviceInputs for &Vec<I> {
    fn with<R>(self, gpu: &Arc<Gpu>, call: impl FnOnce(&[&DeviceArray]) -> R) -> Result<R, Error> {
        self.as_slice().with(gpu, call)
    }
}

impl DeviceInputs for () {
    fn with<R>(self, _: &Arc<Gpu>, call: impl FnOnce(&[&DeviceArray]) -> R) -> Result<R, Error> {
        Ok(call(&[]))
    }
}

impl DeviceOutputs for &mut [&mut DeviceArray] {
    fn with<R>(self, call: impl FnOnce(&mut [&mut DeviceArray]) -> R) -> R {
        call(self)
    }
}

impl<const N: usize> DeviceOutputs for &mut [&mut DeviceArray; N] {
    fn with<R>(self, call: impl FnOnce(&mut [&mut DeviceArray]) -> R) -> R {
        call(self)
    }
}

impl DeviceOutputs for &mut Vec<&mut DeviceArray> {
    fn with<R>(self, call: impl FnOnce(&mut [&mut DeviceArray]) -> R) -> R {
        call(self)
    }
}

/// The type of each result in a tuple of results.
macro_rules! written {
    ($name:ident) => {
        &mut DeviceArray
    };
}

macro_rules! tuples {
    ($(($($name:ident)*))*) => {$(
        impl<$($name: DeviceInput),*> DeviceInputs for ($($name,)*) {
            #[expect(non_snake_case, reason = "a variable has the name of its type")]
            fn with<R>(self, gpu: &Arc<Gpu>, call: impl FnOnce(&[&DeviceArray]) -> R) -> Result<R, Error> {
                let ($($name,)*) = &self;
                Ok(call(&[$($name.lend(gpu, &mut None)?),*]))
            }
        }

        impl DeviceOutputs for ($(written!($name),)*) {
            #[expect(non_snake_case, reason = "a variable has the name of its place")]
            fn with<R>(self, call: impl FnOnce(&mut [&mut DeviceArray]) -> R) -> R {
                let ($($name,)*) = self;
                call(&mut [$($name),*])
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
