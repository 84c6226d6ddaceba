//! Tensor maps: how kernels name the memory that bulk copies (`cp.async.bulk.tensor`) take boxes
//! from. A kernel gets each map as an argument that the device has encoded.

use ir::nest::BufferId;
use ir::{Dtype, Size};

/// The size and the alignment of an encoded map in bytes.
pub(super) const MAP_BYTES: usize = 128;
pub(super) const MAP_ALIGN: usize = 64;

/// The most dimensions of a map.
pub(super) const MOST_DIMS: usize = 5;
/// Addresses and distances are multiples of these bytes.
const GRAIN: i64 = 16;

/// A tensor in memory, from the innermost dimension on, and the boxes that are copied of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// The address of its first element, a multiple of 16.
    pub address: u64,
    /// The bytes of an element.
    pub width: usize,
    /// The number of elements along each dimension, at least 1.
    pub counts: Vec<u64>,
    /// The distance between elements along each dimension but the first, where they are adjacent.
    /// In bytes, a multiple of 16.
    pub strides: Vec<u64>,
    /// The number of elements of a box along each dimension. Boxes are swizzled by 128 bytes.
    pub sides: Vec<u32>,
}

/// A part of a buffer as a tensor, for any sizes.
#[derive(Clone, Debug)]
pub(super) struct TensorView {
    pub(super) buffer: BufferId,
    pub(super) dtype: Dtype,
    /// Where it begins, in elements.
    pub(super) start: Size,
    /// For each dimension, the number of elements, their distance in elements, and the number of
    /// those in a box. The distance along the first dimension is 1.
    pub(super) dims: Vec<(Size, Size, u32)>,
}

impl TensorView {
    /// The map for the sizes of a call, at the address 0, if bulk copies can read it: nothing may
    /// be empty, and all rows must begin at multiples of 16 bytes.
    pub(super) fn map(&self, value: &impl Fn(&Size) -> i64) -> Option<TensorMap> {
        const MOST_BYTES: i64 = 1 << 40;
        // Copies count elements in 32 bits, with a sign.
        const MOST: u64 = 1 << 31;
        let bytes = |size: &Size| value(size).checked_mul(self.dtype.bytes() as i64).filter(|bytes| bytes % GRAIN == 0);
        let count = |size: &Size| u64::try_from(value(size)).ok().filter(|count| (1..=MOST).contains(count));
        let stride = |size: &Size| bytes(size).filter(|bytes| (1..MOST_BYTES).contains(bytes));
        Some(TensorMap {
            address: u64::try_from(bytes(&self.start)?).ok()?,
            width: self.dtype.bytes(),
            counts: self.dims.iter().map(|(size, ..)| count(size)).collect::<Option<_>>()?,
            strides: self.dims[1..]
                .iter()
                .map(|(_, step, _)| Some(stride(step)?.unsigned_abs()))
                .collect::<Option<_>>()?,
            sides: self.dims.iter().map(|(.., side)| *side).collect(),
        })
    }
}
