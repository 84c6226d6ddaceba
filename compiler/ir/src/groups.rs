//! The indices of a contraction by role. With each group flattened to one number, a contraction is
//! a batch of matrix products.
//!
//! In a loop, a contraction multiplies one row of a factor, or some of them, in each iteration.
//! Such a loop runs in tiles of iterations, so that these rows are one product again.

use std::collections::BTreeSet;

use crate::nest::{Block, Contraction, Extent, IndexId, Loop, LoopKind, Program, Prologue, Role, Statement, ValueId};
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

impl Loop {
    /// Whether a contraction stands directly in its body.
    pub fn multiplies(&self) -> bool {
        self.contractions().next().is_some()
    }

    fn contractions(&self) -> impl Iterator<Item = &Contraction> {
        self.body.iter().filter_map(|s| if let Statement::Contract(c) = s { Some(c) } else { None })
    }

    /// The indices of a parallel loop along which its iterations are rows, or columns, of every
    /// contraction directly in its body: one factor differs in each of them, and the other has an
    /// index of its own.
    pub fn along_rows(&self, program: &Program) -> Vec<IndexId> {
        if self.kind != LoopKind::Parallel {
            return vec![];
        }
        let is_row = |c: &Contraction, index: IndexId| {
            let [left, right] = self.mentioned(program, c);
            let (one, other) = match (left.differs(index), right.differs(index)) {
                (true, false) => (left, right),
                (false, true) => (right, left),
                _ => return false,
            };
            c.free.iter().any(|(i, _)| other.indices.contains(i) && !one.indices.contains(i))
        };
        let dims = self.dims.iter().map(|(index, _)| *index);
        dims.filter(|index| self.contractions().all(|c| is_row(c, *index))).collect()
    }

    /// The last of these indices, if iterations are columns along it: of every contraction directly
    /// in the body, the right factor differs.
    pub fn column(&self, program: &Program) -> Option<IndexId> {
        let along = *self.along_rows(program).last()?;
        let is_column = |c: &Contraction| self.mentioned(program, c)[1].differs(along);
        self.contractions().all(is_column).then_some(along)
    }

    /// The mentions of both factors of a contraction in the body.
    fn mentioned(&self, program: &Program, c: &Contraction) -> [Mentioned; 2] {
        let mut defined = BTreeSet::new();
        for statement in &self.body {
            visit::for_each_definition(statement, &mut |value| _ = defined.insert(value));
        }
        [&c.left, &c.right].map(|factor| Mentioned::by(program, factor, &defined))
    }
}

/// The indices and values that a factor of a contraction in a loop mentions.
struct Mentioned {
    indices: BTreeSet<IndexId>,
    /// Whether it mentions values of an iteration, or elements of scratch.
    own: bool,
}

impl Mentioned {
    fn by(program: &Program, factor: &Prologue, defined: &BTreeSet<ValueId>) -> Mentioned {
        let values = visit::free_values(&factor.body);
        let scratch =
            |block: &Block| visit::loads(block).iter().any(|buffer| program.buffers[*buffer].role == Role::Scratch);
        let own = values.iter().chain([&factor.value]).any(|v| defined.contains(v)) || scratch(&factor.body);
        Mentioned { indices: visit::free_indices(&factor.body), own }
    }

    fn differs(&self, index: IndexId) -> bool {
        self.own || self.indices.contains(&index)
    }
}
