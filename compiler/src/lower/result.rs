//! Results: turns the operands that are returned into output buffers.

use ir::nest::{Buffer, Role};

use super::operand::{Element, Lambda, Operand};
use super::{LowerError, Lowering};

impl Lowering<'_> {
    /// Gives a result its output: the temporary that holds it, unless that is already another
    /// result; else a copy, as for parameters, views, broadcasts and constants.
    pub fn result(&mut self, number: usize) -> Result<(), LowerError> {
        let (name, id) = &self.known.checked.results[number];
        let ty = &self.known.checked.exprs[*id].ty;
        let lambda = match &self.known.operands[*id] {
            Some(operand) => Lambda { axes: vec![], operand: operand.clone() },
            None => self.known.array(*id)?.clone(),
        };
        // A parameter of that name keeps it.
        let name = match self.known.checked.params.iter().any(|param| param.name == *name) {
            true => self.unique(name),
            false => name.clone(),
        };
        if let Operand::Element(Element { buffer, view: None, at }) = &lambda.operand
            && at.len() == lambda.axes.len()
            && at.iter().zip(&lambda.axes).all(|(s, axis)| s.as_index() == Some(*axis))
        {
            let found = &mut self.target.program.buffers[*buffer];
            // The states of a loop over kernels have no producer: they go from buffer to buffer.
            if let Some(kernel) = self.producers[*buffer]
                && found.role == Role::Temp
                && found.shape == ty.shape
            {
                found.role = Role::Output(number);
                found.name = name.clone();
                self.target.program.kernels[kernel].name = name;
                return Ok(());
            }
        }
        let buffer = Buffer { name, dtype: ty.dtype, shape: ty.shape.clone(), role: Role::Output(number) };
        self.copy(*id, buffer, &lambda.axes, &lambda.operand)?;
        Ok(())
    }
}
