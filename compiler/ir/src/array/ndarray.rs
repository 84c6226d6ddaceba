//! Arrays of the crate `ndarray` as arguments, as memory for results, and as views of arrays.

use ndarray::{ArrayBase, ArrayViewD, ArrayViewMutD, Data, DataMut, Dimension, IxDyn};

use super::{Array, ArrayError, ArrayMut, ArrayRef, Element, Input, Number, Output, Room};

/// In standard layout (row-major, dense) without a copy; otherwise a copy for the call.
impl<T: Element, S: Data<Elem = T>, D: Dimension> Input for ArrayBase<S, D> {
    fn lend<'a>(&'a self, room: &'a mut Room) -> Result<ArrayRef<'a>, ArrayError> {
        match self.as_slice() {
            Some(elements) => ArrayRef::from_slice(self.shape(), elements),
            None => Ok(room.copy.insert(copied(self)?).as_ref()),
        }
    }
}

/// Standard layout only.
impl<T: Number, S: DataMut<Elem = T>, D: Dimension> Output for ArrayBase<S, D> {
    fn lend<'a>(&'a mut self, room: &'a mut Room) -> Result<ArrayMut<'a>, ArrayError> {
        room.shape = self.shape().into();
        ArrayMut::from_slice(&room.shape, self.as_slice_mut().ok_or(ArrayError::Layout)?)
    }
}

/// A copy of the elements in row-major order.
fn copied<T: Element, S: Data<Elem = T>, D: Dimension>(from: &ArrayBase<S, D>) -> Result<Array, ArrayError> {
    let mut array = Array::zeros(T::DTYPE, from.shape())?;
    array.as_mut_slice::<T>()?.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    Ok(array)
}

/// A copy of the elements in row-major order, whatever the strides are.
impl<T: Element, S: Data<Elem = T>, D: Dimension> TryFrom<&ArrayBase<S, D>> for Array {
    type Error = ArrayError;

    fn try_from(from: &ArrayBase<S, D>) -> Result<Array, ArrayError> {
        copied(from)
    }
}

impl Array {
    /// The array as a view of the crate `ndarray`, without a copy. `into_dimensionality` fixes the
    /// number of axes.
    ///
    /// # Errors
    ///
    /// As [`Array::as_slice`].
    ///
    /// ```
    /// # use ir::array::{Array, ArrayError};
    /// let x = Array::from_slice(&[2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    /// let view = x.view::<f32>()?;
    /// assert_eq!(view[[1, 0]], 4.0);
    /// assert_eq!(view.as_ptr(), x.as_slice::<f32>()?.as_ptr());
    /// # Ok::<(), ArrayError>(())
    /// ```
    pub fn view<T: Element>(&self) -> Result<ArrayViewD<'_, T>, ArrayError> {
        // The array has as many elements as its shape says.
        ArrayViewD::from_shape(IxDyn(&self.shape), self.as_slice()?).map_err(|_| ArrayError::TooLarge)
    }

    /// The array as a view of the crate `ndarray` that may be written to, without a copy.
    ///
    /// # Errors
    ///
    /// As [`Array::as_slice`].
    pub fn view_mut<T: Element>(&mut self) -> Result<ArrayViewMutD<'_, T>, ArrayError> {
        let shape = self.shape.clone();
        ArrayViewMutD::from_shape(shape, self.as_mut_slice()?).map_err(|_| ArrayError::TooLarge)
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, Axis, Slice, arr0, array};

    use super::*;
    use crate::array::{Inputs, Outputs};

    #[test]
    fn standard_layout_is_not_copied_and_any_other_is_read_in_its_order() {
        let x = array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
        let read = |input: &dyn Input| {
            let elements = |one: &ArrayRef<'_>| (one.shape().to_vec(), one.as_slice::<f32>().unwrap().to_vec());
            (input,).with(|lent| (elements(&lent[0]), lent[0].bytes().as_ptr())).unwrap()
        };
        let ((shape, elements), address) = read(&x);
        assert_eq!((shape, elements, address), (vec![2, 3], x.iter().copied().collect(), x.as_ptr().cast()));
        assert_eq!(read(&x.slice_axis(Axis(0), Slice::from(1..))).1, x.as_ptr().wrapping_add(3).cast());
        for view in [
            x.t(),
            x.slice_axis(Axis(0), Slice::new(0, None, -1)),
            x.slice_axis(Axis(1), Slice::from(1..)),
            x.slice_axis(Axis(1), Slice::new(0, None, 2)),
        ] {
            let ((shape, elements), _) = read(&view);
            assert_eq!((shape.as_slice(), elements), (view.shape(), view.iter().copied().collect()));
            assert_eq!(Array::try_from(&view).unwrap().view::<f32>().unwrap(), view.into_dyn());
        }
        assert_eq!(read(&arr0(7.0f32)).0, (vec![], vec![7.0]));
        assert_eq!(read(&Array2::<f32>::zeros((0, 3))).0, (vec![0, 3], vec![]));
    }

    #[test]
    fn results_are_written_in_standard_layout_only() {
        let mut out = Array2::<u8>::zeros((2, 3));
        let fill = |lent: &mut [ArrayMut<'_>]| lent[0].bytes_mut().fill(7);
        Outputs::with((&mut out,), fill).unwrap();
        assert!(out.iter().all(|element| *element == 7));
        Outputs::with((out.slice_axis_mut(Axis(0), Slice::from(..1)),), fill).unwrap();
        let turned = (out.view_mut().reversed_axes(),);
        assert_eq!(Outputs::with(turned, fill).unwrap_err(), ArrayError::Layout);
        let mut array = Array::from_slice(&[2, 2], &[true, false, true, true]).unwrap();
        array.view_mut::<bool>().unwrap()[[0, 1]] = true;
        assert_eq!(array.bytes(), [1; 4]);
        assert!(array.view::<u8>().is_err());
    }
}
