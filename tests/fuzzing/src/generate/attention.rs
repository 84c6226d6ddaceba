//! Programs like attention: products of 16-bit floats, reductions of their rows, and products of
//! the weights that follow. There are rows enough for sweeps on a GPU. As in any matrix product,
//! factors are small whole numbers, weights too, so that all orders of addition agree.

use ir::Dtype;

use super::choice::Choices;
use super::dim::Dim;
use super::expr::Writer;
use super::piece::Piece;
use super::{Param, ParamRole};

/// The fewest rows that a GPU takes in sweeps.
const FEWEST: i64 = 64;

/// The matrices: rows and columns of the scores, and one to multiply the weights with. Their rows
/// begin at multiples of 16 bytes.
pub fn params(choices: &mut Choices<'_>) -> (Vec<Param>, Vec<String>) {
    let ty = if choices.chance(50) { Dtype::F16 } else { Dtype::Bf16 };
    let rows = Dim::name("n").offset(FEWEST);
    let columns = Dim::name("m").times(&Dim::constant(choices.weighted(&[(2, 1), (1, 8)]).unwrap_or(1)));
    let [depth, width] =
        [(); 2].map(|()| Dim::constant(choices.weighted(&[(6, 8), (3, 16), (2, 24), (1, 72)]).unwrap_or(8)));
    let shapes = [("x", rows, &depth), ("y", columns.clone(), &depth), ("z", columns, &width)];
    let param = |(name, rows, columns): (&str, Dim, &Dim)| Param {
        name: name.to_owned(),
        ty,
        shape: vec![rows, columns.clone()],
        role: ParamRole::Small,
    };
    (shapes.map(param).into(), ["n", "m"].map(str::to_owned).into())
}

impl Writer<'_> {
    /// Attention over the first three values.
    pub fn attention(&mut self) -> Vec<String> {
        let [x, y, z, ..] = self.scope.values.as_slice() else { return vec![] };
        let ([rows, depth], [columns, width], ty) = (x.shape.as_slice(), z.shape.as_slice(), x.ty) else {
            return vec![];
        };
        let [rows, depth, columns, width] = [rows, depth, columns, width].map(Dim::clone);
        let product = format!("sum[r < {depth}](f32({}[i, r]) * f32({}[j, r]))", x.name, y.name);
        let matrix = format!("f32({}[j, l])", z.name);
        let (i, j, l) = (("i", &rows), ("j", &columns), ("l", &width));
        self.work.push(rows.times(&columns).times(&depth));
        self.count("attention");
        self.shadows = false;
        let mut lets = vec![];
        let scores = self.scores(product);
        let score = self.array(&[i, j], scores, &mut lets);
        let most = self.array(&[i], format!("max({score}[i])"), &mut lets);
        let apart = format!("{score}[i, j] - {most}[i]");
        let mut by = None;
        if self.choices.chance(70) {
            let each = if self.choices.chance(70) { "exp" } else { "abs" };
            let sum = format!("sum[j < {columns}]({each}({apart}))");
            by = Some(self.array(&[i], sum, &mut lets));
        }
        let divided = |text: String| by.as_ref().map_or_else(|| text.clone(), |by| format!("{text} / {by}[i]"));
        if self.choices.chance(20) {
            self.array(&[i, j], divided(format!("exp({apart})")), &mut lets);
        } else {
            let weight = match self.choices.below(3) {
                0 => format!("max({apart}, -4) + 4"),
                1 => format!("if {score}[i, j] == {most}[i] then 1 else 0"),
                _ => format!("relu({apart} + 3)"),
            };
            self.work.push(rows.times(&columns).times(&width));
            let sum = format!("sum[j < {columns}](f32({}({weight})) * {matrix})", ty.name());
            self.array(&[i, l], divided(sum), &mut lets);
        }
        self.shadows = true;
        lets
    }

    /// The elements of a product, perhaps where a condition on their rows and columns holds.
    fn scores(&mut self, product: String) -> String {
        match self.choices.below(10) {
            0..4 => product,
            4 => format!("{product} / 2 + 1"),
            _ => {
                self.count("mask of a product");
                let masks = ["j <= i", "j <= i && i - j < 40", "i < j + 3", "j < i", "i <= j"];
                let mask = *self.choices.pick(&masks).unwrap_or(&masks[0]);
                let fill = *self.choices.pick(&["-inf", "-inf", "0", "-100"]).unwrap_or(&"-inf");
                format!("if {mask} then {product} else {fill}")
            }
        }
    }

    /// Adds `let a[i < n] = text`, and returns the name.
    fn array(&mut self, indices: &[(&str, &Dim)], text: String, lets: &mut Vec<String>) -> String {
        let shape: Vec<Dim> = indices.iter().map(|(_, dim)| (*dim).clone()).collect();
        let binders: Vec<String> = indices.iter().map(|(name, dim)| format!("{name} < {dim}")).collect();
        lets.push(self.bind(&format!("[{}]", binders.join(", ")), Piece::atom(text, Dtype::F32, &shape), None));
        self.scope.values.last().map(|value| value.name.clone()).unwrap_or_default()
    }
}
