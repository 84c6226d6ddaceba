//! The indices of a contraction by role. With each group flattened to one number, a contraction is
//! a batch of matrix products.

use crate::nest::{Contraction, Extent, IndexId};
use crate::{Affine, Size, visit};

/// Indices with their extents; the last varies fastest.
pub type Dims = Vec<(IndexId, Extent)>;

/// The indices of a contraction by role.
pub struct Groups {
    /// The free indices that both factors or neither of them mention.
    pub batch: Dims,
    /// The free indices of the left factor alone.
    pub rows: Dims,
    /// The free indices of the right factor alone.
    pub columns: Dims,
    /// The indices summed over.
    pub inner: Dims,
}

impl Groups {
    /// The groups of a contraction.
    pub fn new(c: &Contraction) -> Groups {
        let left = visit::free_indices(&c.left.body);
        let right = visit::free_indices(&c.right.body);
        let mut groups = Groups { batch: vec![], rows: vec![], columns: vec![], inner: c.reduce.clone() };
        for (index, extent) in &c.free {
            let group = match (left.contains(index), right.contains(index)) {
                (true, false) => &mut groups.rows,
                (false, true) => &mut groups.columns,
                _ => &mut groups.batch,
            };
            group.push((*index, extent.clone()));
        }
        groups
    }
}

/// The stride of an access along a flattened group, if it is the same everywhere.
pub fn step(affine: &Affine<IndexId>, dims: &Dims) -> Option<Size> {
    let Some((last, _)) = dims.last() else { return Some(Size::default()) };
    for pair in dims.windows(2) {
        let ((outer, _), (inner, extent)) = (&pair[0], &pair[1]);
        if affine.coefficient(*outer) != &affine.coefficient(*inner) * extent.as_size()? {
            return None;
        }
    }
    Some(affine.coefficient(*last))
}
