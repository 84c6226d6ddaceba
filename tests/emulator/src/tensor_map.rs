//! Tensor maps: what `cp.async.bulk.tensor` copies boxes of. PTX says how a kernel gets one, but
//! not what its bytes mean. The bytes here are the emulator's own.

use crate::types::LANES;

/// The bytes of a map, and the multiple of bytes that it begins at.
pub(crate) const BYTES: usize = 128;
pub(crate) const ALIGN: u64 = 64;
/// The most dimensions.
pub(crate) const MOST_DIMS: usize = 5;
/// Marks the bytes of a map.
const MARK: u64 = 0x7465_6e73;

/// A tensor in global memory, from its innermost dimension on, with the sides of the boxes that
/// are copied. Boxes are swizzled by 128 bytes; elements out of bounds are zeros.
///
/// ```
/// use emulator::TensorMap;
///
/// let map = TensorMap { address: 256, width: 2, counts: vec![100, 30], strides: vec![208],
/// sides: vec![64, 8] }; assert!(map.bytes().is_ok()); // Rows begin at multiples of 16 bytes.
/// assert!(TensorMap { strides: vec![200], ..map }.bytes().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// The address of its first element.
    pub address: u64,
    /// The bytes of an element.
    pub width: usize,
    /// The number of elements along each dimension.
    pub counts: Vec<u64>,
    /// The bytes between elements along each dimension but the first.
    pub strides: Vec<u64>,
    /// The number of elements of a box along each dimension.
    pub sides: Vec<u32>,
}

impl TensorMap {
    /// The bytes of the map as a parameter of a kernel.
    ///
    /// # Errors
    /// The rule of `cuTensorMapEncodeTiled` that it breaks.
    pub fn bytes(&self) -> Result<[u8; BYTES], String> {
        let TensorMap { address, width, counts, strides, sides } = self;
        let rank = counts.len();
        if !(1..=MOST_DIMS).contains(&rank) || strides.len() + 1 != rank || sides.len() != rank {
            return Err(format!("{rank} dimensions"));
        }
        if !address.is_multiple_of(16) {
            return Err(format!("the address {address:#x} is no multiple of 16"));
        }
        if let Some(stride) = strides.iter().find(|stride| !stride.is_multiple_of(16) || **stride >= 1 << 40) {
            return Err(format!("a stride of {stride} bytes"));
        }
        if let Some(count) = counts.iter().find(|count| !(1..=1 << 32).contains(*count)) {
            return Err(format!("{count} elements along a dimension"));
        }
        if let Some(side) = sides.iter().find(|side| !(1..=256).contains(*side)) {
            return Err(format!("a box with a side of {side}"));
        }
        if ![1, 2, 4, 8].contains(width) || sides[0] as usize * width != 128 {
            return Err(format!("rows of {} elements of {width} bytes, swizzled by 128", sides[0]));
        }
        let mut words = [0; BYTES / 8];
        words[..2].copy_from_slice(&[*address, MARK << LANES | (width << 8 | rank) as u64]);
        words[2..2 + rank].copy_from_slice(counts);
        words[7..6 + rank].copy_from_slice(strides);
        sides.iter().zip(&mut words[11..]).for_each(|(side, word)| *word = u64::from(*side));
        let mut bytes = [0; BYTES];
        bytes.chunks_exact_mut(8).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
        Ok(bytes)
    }

    /// The map with these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Option<TensorMap> {
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
        let words: Vec<u64> = bytes.chunks_exact(8).map(word).collect();
        let rank = (words[1] & 0xff) as usize;
        let found = TensorMap {
            address: words[0],
            width: (words[1] >> 8 & 0xff) as usize,
            counts: words[2..].iter().take(rank).copied().collect(),
            strides: words[7..].iter().take(rank.saturating_sub(1)).copied().collect(),
            sides: words[11..].iter().take(rank).map(|side| *side as u32).collect(),
        };
        found.bytes().is_ok_and(|own| own == *bytes).then_some(found)
    }
}
