//! A contraction's indices in groups: with one number for each, it is a product of matrices.

use ir::nest::{Contraction, Extent, IndexId};
use ir::{Affine, Size, visit};

/// Indices with their extents, the last running fastest.
pub(crate) type Dims = Vec<(IndexId, Extent)>;

/// The index groups of a contraction.
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

/// The step of an access from one number of a group to the next, if it is even.
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
