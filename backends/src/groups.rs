//! The indices of a contraction by role. With each group flattened to one number, a contraction is
//! a batch of matrix products.

use ir::nest::{Contraction, Extent, IndexId};
use ir::{Affine, Size, visit};

/// Indices with their extents; the last varies fastest.
pub(crate) type Dims = Vec<(IndexId, Extent)>;

/// The indices of a contraction by role: `rows` occur in the left factor alone, `columns` in the
/// right one alone, `batch` in both or neither, and `inner` are summed over.
pub(crate) struct Groups {
    pub(crate) batch: Dims,
    pub(crate) rows: Dims,
    pub(crate) columns: Dims,
    pub(crate) inner: Dims,
}

impl Groups {
    pub(crate) fn new(c: &Contraction) -> Groups {
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
pub(crate) fn step(affine: &Affine<IndexId>, dims: &Dims) -> Option<Size> {
    let Some((last, _)) = dims.last() else { return Some(Size::default()) };
    for pair in dims.windows(2) {
        let ((outer, _), (inner, extent)) = (&pair[0], &pair[1]);
        if affine.coefficient(*outer) != &affine.coefficient(*inner) * extent.as_size()? {
            return None;
        }
    }
    Some(affine.coefficient(*last))
}
