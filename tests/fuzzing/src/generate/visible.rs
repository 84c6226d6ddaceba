//! Sizes, shapes and types of visible values.

use ir::Dtype;

use super::dim::Dim;
use super::expr::Writer;
use super::piece::TYPES;

impl Writer<'_> {
    /// The length of some axis that is visible.
    pub fn some_dim(&mut self) -> Dim {
        let mut dims: Vec<Dim> = self.scope.sizes.iter().map(|name| Dim::name(name)).collect();
        for dim in self.scope.values.iter().flat_map(|v| &v.shape) {
            if !dims.contains(dim) {
                dims.push(dim.clone());
            }
        }
        if self.choices.chance(2)
            && let [first, second, ..] = self.scope.sizes.as_slice()
        {
            return Dim::name(first).over(&Dim::name(second));
        }
        self.choices.pick(&dims).cloned().unwrap_or_else(|| Dim::constant(3))
    }

    /// The shape of some visible array, or its last axes.
    pub fn some_shape(&mut self) -> Vec<Dim> {
        let shapes: Vec<Vec<Dim>> = self.scope.values.iter().rev().map(|v| v.shape.clone()).collect();
        self.one_shape(shapes)
    }

    /// The shape of some visible array of this type, or its last axes.
    pub fn some_shape_of(&mut self, ty: Dtype) -> Vec<Dim> {
        let values = self.scope.values.iter().rev().filter(|v| v.ty == ty && !v.shape.is_empty());
        let shapes: Vec<Vec<Dim>> = values.map(|v| v.shape.clone()).collect();
        if shapes.is_empty() { self.some_shape() } else { self.one_shape(shapes) }
    }

    fn one_shape(&mut self, mut shapes: Vec<Vec<Dim>>) -> Vec<Dim> {
        shapes.retain(|shape| !shape.is_empty());
        match self.choices.pick(&shapes) {
            Some(shape) => {
                let from = if self.choices.chance(30) { self.choices.below(shape.len()) } else { 0 };
                shape[from..].to_vec()
            }
            None => vec![self.some_dim()],
        }
    }

    /// This shape with one more axis, so that some value has it; rarely one that none has.
    pub fn with_axis(&mut self, ty: Dtype, shape: &[Dim]) -> Option<(usize, Vec<Dim>)> {
        let mut found = vec![];
        for value in self.scope.values.iter().rev().filter(|v| v.shape.len() == shape.len() + 1) {
            for axis in 0..value.shape.len() {
                let mut rest = value.shape.clone();
                rest.remove(axis);
                if rest == shape {
                    found.push((value.ty != ty, axis, value.shape.clone()));
                }
            }
        }
        found.sort_by_key(|(other, ..)| *other);
        if let Some((_, axis, over)) = self.choices.pick(&found) {
            return Some((*axis, over.clone()));
        }
        if !self.choices.chance(10) {
            return None;
        }
        let axis = self.choices.below(shape.len() + 1);
        let mut over = shape.to_vec();
        over.insert(axis, self.some_dim());
        Some((axis, over))
    }

    /// A type, mostly that of something that is visible.
    pub fn some_type(&mut self) -> Dtype {
        let types: Vec<Dtype> = self.scope.values.iter().rev().map(|v| v.ty).collect();
        let from = if self.choices.chance(20) { &TYPES[..] } else { &types[..] };
        self.choices.pick(from).copied().unwrap_or(Dtype::F32)
    }

    /// A type to calculate with.
    pub fn some_number_type(&mut self) -> Dtype {
        let ty = self.some_type();
        if ty == Dtype::Bool { Dtype::F32 } else { ty }
    }
}
