//! Linear addresses of accesses in loop nests, as passes and code generators need them.

use crate::nest::{Block, BufferId, Extent, IndexId, Op, Program, Statement, Subscript, ValueId};
use crate::{Affine, Size, visit};

/// The address of an access as a linear, row-major element number.
#[derive(Clone, Debug)]
pub struct Linear {
    /// The part that is affine in sizes and indices.
    pub affine: Affine<IndexId>,
    /// Subscripts that are values, with their strides.
    pub values: Vec<(ValueId, Size)>,
}

impl Linear {
    /// The address of an access to a buffer, in its own shape or through a view.
    pub fn of(program: &Program, buffer: BufferId, view: Option<&[Size]>, at: &[Subscript]) -> Linear {
        let shape = view.unwrap_or_else(|| program.buffers.get(buffer).map_or(&[], |b| &b.shape));
        let mut linear = Linear { affine: Affine::constant(0), values: vec![] };
        let mut stride = Size::constant(1);
        for (axis, subscript) in at.iter().enumerate().rev() {
            match subscript {
                Subscript::Affine(affine) => linear.affine = linear.affine.add(&affine.scale(&stride)),
                Subscript::Value(value) => linear.values.push((*value, stride.clone())),
            }
            if let Some(length) = shape.get(axis) {
                stride = &stride * length;
            }
        }
        linear
    }

    /// The address as an affine expression, if no subscript is a value.
    pub fn as_affine(&self) -> Option<&Affine<IndexId>> {
        self.values.is_empty().then_some(&self.affine)
    }
}

/// Whether `outer` and `inner`, neighbours in one loop, may run as one index: each access has
/// `outer` with the coefficient of `inner` times its extent, and nothing else mentions either.
pub fn mergeable(program: &Program, outer: IndexId, inner: IndexId, extent: &Extent, bodies: &[&Block]) -> bool {
    let Extent::Affine(extent) = extent else { return false };
    let Some(extent) = extent.as_size() else { return false };
    let mut even = true;
    for body in bodies {
        let access = |buffer, view, at| {
            let linear = Linear::of(program, buffer, view, at).affine;
            linear.coefficient(outer) == &linear.coefficient(inner) * extent
        };
        let absent =
            |affine: &Affine<IndexId>| affine.coefficient(outer).is_zero() && affine.coefficient(inner).is_zero();
        let extent = |extent: &Extent| if let Extent::Affine(affine) = extent { absent(affine) } else { true };
        visit::for_each_statement(body, &mut |statement| {
            even &= match statement {
                Statement::Let { op: Op::Affine(affine), .. } => absent(affine),
                Statement::Let { op: Op::Load { buffer, view, at }, .. } => access(*buffer, view.as_deref(), at),
                Statement::Let { .. } | Statement::If { .. } => true,
                Statement::Store { buffer, at, .. } | Statement::Scatter { buffer, at, .. } => {
                    access(*buffer, None, at)
                }
                Statement::Loop(_) | Statement::While(_) | Statement::Contract(_) => {
                    statement.dims().all(|(_, e)| extent(e))
                }
            };
        });
    }
    even
}

/// Whether a subscript depends on an index.
pub fn mentions(at: &[Subscript], index: IndexId) -> bool {
    at.iter().any(|s| matches!(s, Subscript::Affine(a) if !a.coefficient(index).is_zero()))
}
