//! Statements about whole arrays: rearranged, reduced along an axis, combined elementwise.

use ir::Dtype;

use super::draw::{Known, ONE, WIDE, Writer, call, cast, less};
use super::tree::{Expr, Kind, Statement};

impl Writer {
    /// A whole array, rearranged or reduced along an axis.
    pub(super) fn moved(&mut self, name: &str) -> Option<Statement> {
        let array = self.some_array();
        let Known { name: from, ty, mut shape } = array;
        let (first, text) = shape[0].clone();
        let is_one = text.as_deref() == Some(ONE);
        let (fuseloop, numpy, ty) = match self.below(8) {
            0 if shape.len() == 2 => {
                shape.reverse();
                (format!("transpose({from})"), format!("{from}.T"), ty)
            }
            1 if !is_one => {
                shape[0] = (first - 1, text.map(|text| less(&text, 1)));
                (format!("{from}[1:]"), format!("tail({from})"), ty)
            }
            2 if !is_one => {
                shape[0] = ((first + 1) / 2, None);
                (format!("{from}[::2]"), format!("{from}[::2]"), ty)
            }
            3 => {
                shape[0] = (2 * first, None);
                let text = format!("concat({from}, {from}, axis = 0)");
                (text, format!("np.concatenate([{from}, {from}], axis=0)"), ty)
            }
            4 if shape.len() == 2 => {
                let (Some(a), Some(b)) = (text, shape[1].1.clone()) else { return None };
                shape = vec![(first * shape[1].0, None)];
                (format!("reshape({from}, ({a}) * ({b}))"), format!("{from}.reshape(-1)"), ty)
            }
            5 => {
                let axis = self.below(shape.len());
                let op = match ty {
                    ty if ty != Dtype::Bool && self.chance(25) => *self.pick(&[&"argmax", &"argmin"])?,
                    Dtype::Bool => *self.pick(&[&"any", &"all"])?,
                    // NumPy adds floats in another order, so only reductions without rounding are
                    // compared.
                    ty if ty.is_float() => *self.pick(&[&"max", &"min"])?,
                    _ => *self.pick(&[&"sum", &"prod", &"max", &"min"])?,
                };
                shape.remove(axis);
                if shape.is_empty() {
                    return None;
                }
                let wide = ty.compute();
                let value = format!("np.moveaxis(cast('{wide}', {from}), {axis}, -1)");
                let folded = format!("fold('{op}', '{wide}', {value}, np.broadcast_to(True, {value}.shape))");
                let ty = if op.starts_with("arg") { Dtype::I64 } else { wide };
                (format!("{op}({from}, axis = {axis})"), folded, ty)
            }
            6 if shape.len() == 1 => {
                let text = text?;
                shape.push((1, Some(ONE.to_owned())));
                (format!("reshape({from}, {text}, {ONE})"), format!("{from}[:, None]"), ty)
            }
            _ if shape.len() == 2 => {
                shape.remove(0);
                (format!("{from}[0]"), format!("row({from})"), ty)
            }
            _ => return None,
        };
        self.arrays.push(Known { name: name.to_owned(), ty, shape });
        Some(Statement { fuseloop: format!("let {name} = {fuseloop}"), numpy: format!("{name} = {numpy}") })
    }

    /// `let v = x + y`, or more operands, of any shapes: axes are matched from the last backwards,
    /// and must have the same length unless one has the literal length 1.
    pub(super) fn lifted(&mut self, name: &str) -> Statement {
        let ty = self.pick(&WIDE).unwrap_or(Dtype::I64);
        let mut operands: Vec<Known> = vec![];
        let mut whole = |writer: &mut Self| {
            let array = writer.some_array();
            let text = Expr::name(&array.name, array.ty);
            operands.push(array);
            text
        };
        let (a, b) = (whole(self), whole(self));
        let body = match self.below(4) {
            0 => {
                let c = whole(self);
                let (a, b, c) = (cast(ty, a), cast(ty, b), cast(ty, c));
                match self.chance(50) {
                    true => call(ty, "clamp", vec![a, b, c]),
                    false => {
                        let inner = self.combined(ty, b, c);
                        self.combined(ty, a, inner)
                    }
                }
            }
            1 => {
                let condition = Kind::Binary("<", Box::new(cast(ty, a.clone())), Box::new(cast(ty, b.clone())));
                let condition = Expr { ty: Dtype::Bool, kind: condition };
                call(ty, "select", vec![condition, cast(ty, b), cast(ty, a)])
            }
            _ => self.combined(ty, cast(ty, a), cast(ty, b)),
        };
        let rank = operands.iter().map(|array| array.shape.len()).max().unwrap_or(0);
        let is_one = |(_, text): &(i64, Option<String>)| text.as_deref() == Some(ONE);
        let shape: Vec<(i64, Option<String>)> = (1..=rank)
            .rev()
            .map(|back| {
                let of = |array: &Known| array.shape.len().checked_sub(back).map(|axis| array.shape[axis].clone());
                let all: Vec<_> = operands.iter().filter_map(of).collect();
                let mut long: Vec<_> = all.iter().filter(|axis| !is_one(axis)).cloned().collect();
                // Two names of the same length do not imply an end if an index is used with both.
                let agreed = long.iter().all(|(_, text)| *text == long[0].1);
                let (length, text) = if long.is_empty() { (1, Some(ONE.to_owned())) } else { long.swap_remove(0) };
                (length, text.filter(|_| agreed))
            })
            .collect();
        let axes = |array: &Known| -> Vec<&str> {
            array.shape.iter().map(|axis| if is_one(axis) { "True" } else { "False" }).collect()
        };
        let checked: Vec<String> =
            operands.iter().map(|array| format!("({}, [{}])", array.name, axes(array).join(", "))).collect();
        let statement = Statement {
            fuseloop: format!("let {name} = {}", body.fuseloop()),
            numpy: format!("agree({})\n    {name} = {}", checked.join(", "), body.numpy()),
        };
        self.arrays.push(Known { name: name.to_owned(), ty: body.ty, shape });
        statement
    }
}
