//! What a checked program means, element by element and without sharing anything with lowering: exponentially slow, and
//! too simple to be wrong.

use std::collections::BTreeMap;

use ir::checked::{Checked, ExprId, Extent, IndexId, Kind};
use ir::nest::SymbolSource;
use ir::{Affine, Array, Dtype, Order, ReduceOp, Scalar, Size, SymbolId};

/// A subscript is outside.
#[derive(Debug, PartialEq, Eq)]
pub struct Outside;

type Result<T> = std::result::Result<T, Outside>;

struct Oracle<'a> {
    checked: &'a Checked,
    inputs: &'a [Array],
    symbols: Vec<i64>,
    indices: BTreeMap<IndexId, i64>,
}

/// The results of a call whose sizes fit.
pub fn results(checked: &Checked, inputs: &[Array]) -> Result<Vec<Array>> {
    let length = |source: &SymbolSource| match *source {
        SymbolSource::Dimension { input, axis } => i64::try_from(inputs[input].shape()[axis]).unwrap(),
        SymbolSource::Scalar { input } => number(inputs[input].get(0).unwrap()),
    };
    let symbols = checked.symbols.values().map(|s| length(&s.source)).collect();
    let mut oracle = Oracle { checked, inputs, symbols, indices: BTreeMap::new() };
    checked.results.iter().map(|(_, id)| oracle.array(*id)).collect()
}

fn number(value: Scalar) -> i64 {
    match interp::scalar::cast(Dtype::I64, value) {
        Scalar::I64(v) => v,
        _ => unreachable!("cast to i64"),
    }
}

/// Every position in a box.
fn positions(lengths: &[i64]) -> Vec<Vec<i64>> {
    let mut all = vec![vec![]];
    for length in lengths {
        let longer = |at: &Vec<i64>| (0..*length).map(|i| [at.as_slice(), &[i]].concat()).collect::<Vec<_>>();
        all = all.iter().flat_map(longer).collect();
    }
    all
}

impl Oracle<'_> {
    fn size(&self, size: &Size) -> i64 {
        size.eval(&|s: SymbolId| self.symbols[s.as_u32() as usize]).unwrap()
    }

    fn affine(&self, a: &Affine<IndexId>) -> i64 {
        let terms = a.terms().iter().map(|(i, c)| self.size(c) * self.indices[i]);
        self.size(a.constant_part()) + terms.sum::<i64>()
    }

    fn array(&mut self, id: ExprId) -> Result<Array> {
        let ty = &self.checked.exprs[id].ty;
        let lengths: Vec<i64> = ty.shape.iter().map(|s| self.size(s)).collect();
        let shape: Vec<usize> = lengths.iter().map(|n| usize::try_from(*n).unwrap()).collect();
        let elements = positions(&lengths).iter().map(|at| self.element(id, at)).collect::<Result<Vec<_>>>()?;
        Ok(Array::from_scalars(ty.dtype, &shape, &elements).unwrap())
    }

    /// An element of an array, or a scalar.
    fn element(&mut self, id: ExprId, at: &[i64]) -> Result<Scalar> {
        let expr = &self.checked.exprs[id];
        let number_of = |oracle: &Self| expr.ty.shape.iter().zip(at).fold(0, |n, (size, i)| n * oracle.size(size) + i);
        match &expr.kind {
            Kind::Param(k) => {
                let n = number_of(self);
                Ok(self.inputs[*k].get(usize::try_from(n).unwrap()).expect("inside"))
            }
            Kind::Comprehension { indices, body } => {
                let (own, rest) = at.split_at(indices.len());
                let saved = self.indices.clone();
                self.indices.extend(indices.iter().copied().zip(own.iter().copied()));
                let value = self.element(*body, rest);
                self.indices = saved;
                value
            }
            Kind::Reshape(inner) => {
                let n = number_of(self);
                let lengths: Vec<i64> = self.checked.exprs[*inner].ty.shape.iter().map(|s| self.size(s)).collect();
                let at = positions(&lengths)[usize::try_from(n).unwrap()].clone();
                self.element(*inner, &at)
            }
            Kind::ArrayLiteral(elements) => self.scalar(elements[usize::try_from(number_of(self)).unwrap()]),
            _ => self.scalar(id),
        }
    }

    fn scalar(&mut self, id: ExprId) -> Result<Scalar> {
        let expr = &self.checked.exprs[id];
        Ok(match &expr.kind {
            Kind::Constant(value) => *value,
            Kind::Size(size) => Scalar::I64(self.size(size)),
            Kind::Index(index) => Scalar::I64(self.indices[index]),
            Kind::Unary(op, a) => interp::scalar::unary(*op, self.scalar(*a)?),
            Kind::Binary(op, a, b) => interp::scalar::binary(*op, self.scalar(*a)?, self.scalar(*b)?),
            Kind::Compare(op, a, b) => Scalar::Bool(interp::scalar::compare(*op, self.scalar(*a)?, self.scalar(*b)?)),
            Kind::Fma(a, b, c) => interp::scalar::fma(self.scalar(*a)?, self.scalar(*b)?, self.scalar(*c)?),
            Kind::Cast(a) => interp::scalar::cast(expr.ty.dtype, self.scalar(*a)?),
            Kind::Math(function, list) => {
                let arguments = list.iter().map(|a| self.scalar(*a)).collect::<Result<Vec<_>>>()?;
                interp::scalar::call(&crate::math::define(*function, expr.ty.dtype).unwrap(), &arguments)
            }
            Kind::If { condition, then, otherwise } => {
                let condition = self.scalar(*condition)? == Scalar::Bool(true);
                self.scalar(if condition { *then } else { *otherwise })?
            }
            Kind::Access { array, at } => {
                let mut position = vec![];
                for (subscript, size) in at.iter().zip(&self.checked.exprs[*array].ty.shape) {
                    let value = match &subscript.affine {
                        Some(affine) => self.affine(affine),
                        None => number(self.scalar(subscript.value)?),
                    };
                    let inside = (0..self.size(size)).contains(&value);
                    assert!(inside || subscript.check.is_some(), "an access that is said to be inside is not");
                    if !inside {
                        return Err(Outside);
                    }
                    position.push(value);
                }
                self.element(*array, &position)?
            }
            Kind::Reduce { op, over, body, order, .. } => {
                let mut elements = vec![];
                self.each(over, &mut |oracle| {
                    elements.push(oracle.scalar(*body)?);
                    Ok(())
                })?;
                self.reduction(*op, *order, self.checked.exprs[*body].ty.dtype, &elements)
            }
            Kind::Contract { over, left, right } => {
                let mut elements = vec![];
                self.each(over, &mut |oracle| {
                    let (left, right) = (oracle.scalar(*left)?, oracle.scalar(*right)?);
                    elements.push(interp::scalar::binary(ir::BinaryOp::Mul, left, right));
                    Ok(())
                })?;
                self.reduction(ReduceOp::Sum, Order::Blocks, expr.ty.dtype, &elements)
            }
            _ => self.element(id, &[])?,
        })
    }

    fn reduction(&self, op: ReduceOp, order: Order, dtype: Dtype, elements: &[Scalar]) -> Scalar {
        interp::reduce::reduce(op, if op.depends_on_order(dtype) { order } else { Order::Free }, dtype, elements)
    }

    fn each(&mut self, over: &[IndexId], visit: &mut dyn FnMut(&mut Self) -> Result<()>) -> Result<()> {
        let Some((first, rest)) = over.split_first() else { return visit(self) };
        let extent = match &self.checked.indices[*first].extent {
            Extent::Affine(extent) => self.affine(extent),
            Extent::Dynamic(extent) => number(self.scalar(*extent)?),
        };
        let saved = self.indices.get(first).copied();
        for i in 0..extent {
            self.indices.insert(*first, i);
            self.each(rest, visit)?;
        }
        match saved {
            Some(saved) => self.indices.insert(*first, saved),
            None => self.indices.remove(first),
        };
        Ok(())
    }
}
