//! Statements: `let` in its several forms.

use ir::Dtype;

use super::dim::Dim;
use super::expr::Writer;
use super::piece::{Level, Piece};
use super::scope::{Index, Value};

/// Names of `let`s, none of them a size, an index or a parameter.
const NAMES: [&str; 10] = ["a", "b", "c", "d", "e", "a2", "b2", "c2", "d2", "e2"];

/// Names of the indices of a `let`.
pub const INDICES: [&str; 3] = ["i", "j", "l"];

/// The form of a `let`.
#[derive(Clone, Copy, Debug)]
enum Form {
    Whole,
    Indexed,
    Pair,
    Chosen,
    ExclusivePrefix,
    Reduction,
    Contraction,
    Product,
    Concat,
    Reshape,
    Move,
    Literal,
    Call,
    Idiom,
    Recurrence,
    Loop,
    Sorted,
    Shipped,
}

impl Writer<'_> {
    /// A `let`, or several related ones, whose values are visible from here on.
    pub fn statement(&mut self) -> Vec<String> {
        let forms = [
            (5, Form::Whole),
            (10, Form::Indexed),
            (1, Form::Pair),
            (3, Form::Chosen),
            (1, Form::ExclusivePrefix),
            (9, Form::Reduction),
            (3, Form::Contraction),
            (2, Form::Product),
            (2, Form::Concat),
            (2, Form::Reshape),
            (2, Form::Move),
            (1, Form::Literal),
            (if self.helpers.is_empty() { 0 } else { 8 }, Form::Call),
            (16, Form::Idiom),
            (3, Form::Recurrence),
            (if self.loops_apart { 7 } else { 0 }, Form::Loop),
            (2, Form::Sorted),
            (if self.loops_apart { 6 } else { 0 }, Form::Shipped),
        ];
        match self.choices.weighted(&forms) {
            Some(Form::Idiom) => self.idiom(),
            form => form.and_then(|form| self.single(form)).into_iter().collect(),
        }
    }

    /// A `let`.
    fn single(&mut self, form: Form) -> Option<String> {
        match form {
            Form::Whole => {
                let ty = self.some_type();
                let shape = self.some_shape_of(ty);
                let piece = self.expr(ty, &shape, 3);
                Some(self.bind("", piece, None))
            }
            Form::Indexed => Some(self.indexed()),
            Form::Pair => Some(self.pair()),
            Form::Chosen => Some(self.chosen()),
            Form::ExclusivePrefix => {
                let dim = self.some_dim().offset(1);
                self.count("exclusive prefix");
                Some(self.comprehension(&[dim], |writer| {
                    let ty = writer.some_number_type();
                    writer.prefix(ty)
                }))
            }
            Form::Reduction => self.reduction(),
            Form::Contraction => {
                let (ty, rows, inner, columns) = self.factors()?;
                Some(self.comprehension(&[rows, columns], |writer| {
                    let sum = writer.contraction(ty, inner).unwrap_or_else(|| writer.atom(ty, &[]));
                    if writer.choices.chance(50) {
                        let other = writer.loose(sum.ty, &[], 1);
                        return Piece::binary(&sum, "+", &other, Level::Add, sum.ty, &[]);
                    }
                    sum
                }))
            }
            Form::Product => {
                let (ty, rows, inner, columns) = self.factors()?;
                self.count("@");
                // Either side may be a vector.
                let (rows, columns) = match self.choices.below(6) {
                    4 => (vec![], vec![columns]),
                    5 => (vec![rows], vec![]),
                    _ => (vec![rows], vec![columns]),
                };
                let with_inner = |before: &[Dim], after: &[Dim]| [before, std::slice::from_ref(&inner), after].concat();
                let left = self.small(ty, &with_inner(&rows, &[]));
                let right = self.small(ty, &with_inner(&[], &columns));
                self.loops(&with_inner(&rows, &columns));
                let shape = [rows, columns].concat();
                let piece = Piece::binary(&left, "@", &right, Level::Mul, ty.compute(), &shape);
                Some(self.bind("", piece, None))
            }
            Form::Concat => self.concat(),
            Form::Reshape => self.reshape(),
            Form::Move => self.moved_whole(),
            Form::Literal => Some(self.literal_array()),
            Form::Call => self.helper_call(),
            Form::Recurrence => Some(self.recurrence()),
            Form::Loop => Some(self.looped()),
            Form::Sorted => self.sorted(),
            Form::Shipped => self.shipped(),
            Form::Idiom => None,
        }
    }

    /// A new name, or occasionally one that is then shadowed.
    pub fn fresh_name(&mut self) -> String {
        let taken: Vec<String> = self.scope.values.iter().map(|v| v.name.clone()).collect();
        let protected = |name: &String| self.scope.sizes.contains(name);
        if self.shadows
            && self.choices.chance(8)
            && let Some(name) = self.choices.pick(&taken)
            && !protected(name)
        {
            self.constructs.insert("shadowing");
            return name.clone();
        }
        let free = NAMES.iter().find(|name| !taken.iter().any(|t| t == *name));
        free.map_or_else(|| format!("a{}", taken.len()), |name| (*name).to_owned())
    }

    /// `let name[binders] = piece`, which makes the value visible.
    pub fn bind(&mut self, binders: &str, piece: Piece, below: Option<Dim>) -> String {
        let name = self.fresh_name();
        let text = format!("let {name}{binders} = {}", piece.text);
        self.loops(&piece.shape);
        let may_contract = piece.may_contract();
        let Piece { ty, shape, small, uses, .. } = piece;
        self.scope.define(Value { name, ty, shape, small, below, uses, may_contract });
        text
    }

    /// `let y[i, j] = body`
    pub fn comprehension(&mut self, dims: &[Dim], body: impl FnOnce(&mut Self) -> Piece) -> String {
        self.scope.indices = dims.iter().zip(INDICES).map(|(dim, name)| Index::new(name, dim.clone())).collect();
        let mut piece = body(self);
        let indices = std::mem::take(&mut self.scope.indices);
        let explicit = self.choices.chance(30);
        let binders: Vec<String> = indices.iter().map(|index| index.binder(explicit, Dim::clone)).collect();
        if binders.iter().any(|binder| !binder.contains('<')) {
            self.count("inferred bound");
        }
        for index in &indices {
            piece.uses.remove(&index.name);
        }
        piece.shape = dims.iter().chain(&piece.shape).cloned().collect();
        let binders = if binders.is_empty() { String::new() } else { format!("[{}]", binders.join(", ")) };
        self.bind(&binders, piece, None)
    }

    /// `let (a, b)[i, j] = (e, f)`
    fn pair(&mut self) -> String {
        let ty = self.some_type();
        let mut dims = self.some_shape_of(ty);
        dims.truncate(2);
        self.count("tuple of arrays");
        self.scope.indices = dims.iter().zip(INDICES).map(|(dim, name)| Index::new(name, dim.clone())).collect();
        let first = self.expr(ty, &[], 2);
        let other = self.some_type();
        let second = self.expr(other, &[], 2);
        let indices = std::mem::take(&mut self.scope.indices);
        let explicit = self.choices.chance(30);
        let binders: Vec<String> = indices.iter().map(|index| index.binder(explicit, Dim::clone)).collect();
        let text = format!("({}, {})", first.text, second.text);
        let names = self.bind_all(&indices, &dims, vec![first, second]);
        format!("let ({})[{}] = {text}", names.join(", "), binders.join(", "))
    }

    /// Makes several values visible, each with `dims` before its own axes, and returns their names.
    pub fn bind_all(&mut self, indices: &[Index], dims: &[Dim], pieces: Vec<Piece>) -> Vec<String> {
        let mut names = vec![];
        for mut piece in pieces {
            for index in indices {
                piece.uses.remove(&index.name);
            }
            piece.shape = [dims, &piece.shape].concat();
            let bound = self.bind("", piece, None);
            names.extend(
                bound.strip_prefix("let ").and_then(|rest| rest.split_once(' ')).map(|(name, _)| name.to_owned()),
            );
        }
        names
    }

    fn indexed(&mut self) -> String {
        let ty = self.some_type();
        let base = self.some_shape_of(ty);
        let rank = 1 + self.choices.below(base.len().min(3));
        let mut dims = base[..rank].to_vec();
        let mut rest = base[rank..].to_vec();
        let axis = self.choices.below(rank);
        let by = 1 + i64::try_from(self.choices.below(2)).unwrap_or(0);
        match self.choices.below(10) {
            7 | 8 if dims[axis].as_constant().is_none_or(|c| c > by) => {
                dims[axis] = dims[axis].offset(-by);
                self.count("stencil bound");
            }
            9 if self.choices.chance(50) => {
                let step = if self.choices.chance(30) { 3 } else { 2 };
                dims[axis] = dims[axis].every(step);
            }
            9 if rank < 3 => {
                dims.push(Dim::constant(1));
                rest.clear();
                self.count("kept axis");
            }
            _ => {}
        }
        if rest.is_empty() && dims.len() < 3 && self.choices.chance(15) {
            rest = vec![self.some_dim()];
        }
        if self.choices.chance(30) {
            rest.clear();
        }
        rest.truncate(3 - dims.len());
        self.count(if rest.is_empty() { "scalar body" } else { "array body" });
        self.comprehension(&dims, |writer| writer.expr(ty, &rest, 4))
    }

    fn concat(&mut self) -> Option<String> {
        let arrays: Vec<Value> = self.scope.values.iter().rev().filter(|v| !v.shape.is_empty()).cloned().collect();
        let first = self.choices.pick(&arrays)?.clone();
        let axis = self.choices.below(first.shape.len());
        let fits = |v: &&Value| {
            v.ty == first.ty
                && v.shape.len() == first.shape.len()
                && v.shape.iter().zip(&first.shape).enumerate().all(|(n, (a, b))| n == axis || a == b)
        };
        let others: Vec<&Value> = arrays.iter().filter(fits).collect();
        let second = (*self.choices.pick(&others)?).clone();
        let mut shape = first.shape.clone();
        shape[axis] = shape[axis].plus(&second.shape[axis]);
        self.count("concat");
        let mut text = format!("concat({}, {}, axis = {axis})", first.name, second.name);
        if self.choices.chance(20) {
            shape[axis] = shape[axis].plus(&first.shape[axis]);
            text = format!("concat({}, {}, {}, axis = {axis})", first.name, second.name, first.name);
        }
        let mut piece = Piece::atom(text, first.ty, &shape);
        piece.small = first.small && second.small;
        piece.uses = first.uses.union(&second.uses).cloned().collect();
        Some(self.bind("", piece, None))
    }

    fn reshape(&mut self) -> Option<String> {
        let arrays: Vec<Value> = self.scope.values.iter().rev().filter(|v| !v.shape.is_empty()).cloned().collect();
        let value = self.choices.pick(&arrays)?.clone();
        Some(self.reshaped(value))
    }

    /// A value in another shape.
    pub fn reshaped(&mut self, value: Value) -> String {
        let mut shape = value.shape.clone();
        let flat = shape.iter().fold(Dim::constant(1), |product, dim| product.times(dim));
        let hole = self.choices.chance(30);
        match self.choices.below(3) {
            0 => shape = vec![flat],
            1 => shape.reverse(),
            _ => shape.push(Dim::constant(1)),
        }
        shape.truncate(3.max(value.shape.len()));
        let mut sizes: Vec<String> = shape.iter().map(Dim::to_string).collect();
        if hole && let Some(last) = sizes.last_mut().filter(|_| shape.len() == 1) {
            *last = "_".into();
        }
        self.count("reshape");
        let text = format!("reshape({}, {})", value.name, sizes.join(", "));
        let piece = Piece { small: value.small, uses: value.uses, ..Piece::atom(text, value.ty, &shape) };
        self.bind("", piece, None)
    }

    /// A slice, a row or a transposition of a whole value.
    fn moved_whole(&mut self) -> Option<String> {
        let arrays: Vec<Value> = self.scope.values.iter().rev().filter(|v| !v.shape.is_empty()).cloned().collect();
        let value = self.choices.pick(&arrays)?.clone();
        let (name, first) = (&value.name, value.shape[0].clone());
        let fits = first.as_constant().is_none_or(|c| c > 2);
        let mut shape = value.shape.clone();
        let (construct, text) = match self.choices.below(9) {
            0 if shape.len() > 1 => {
                shape.reverse();
                ("transpose", format!("transpose({name})"))
            }
            1 if fits => {
                shape[0] = first.offset(-1);
                ("slice", format!("{name}[1:]"))
            }
            2 if fits => {
                shape[0] = first.offset(-2);
                ("slice", format!("{name}[1:{}]", first.offset(-1)))
            }
            3 if shape.len() > 1 => {
                shape[1] = shape[1].every(2);
                ("strided slice", format!("{name}[:, ::2]"))
            }
            4 => {
                shape.remove(0);
                ("row", format!("{name}[0]"))
            }
            5 if shape.len() > 1 => {
                shape.remove(1);
                ("column", format!("{name}[:, 0]"))
            }
            6 if fits => {
                shape[0] = first.offset(-1).every(2);
                ("strided slice", format!("{name}[1::2]"))
            }
            7 if fits => {
                shape[0] = first.offset(-2).every(3);
                ("strided slice", format!("{name}[1:{}:3]", first.offset(-1)))
            }
            _ => {
                let step = if self.choices.chance(40) { 3 } else { 2 };
                shape[0] = first.every(step);
                ("strided slice", format!("{name}[::{step}]"))
            }
        };
        self.count(construct);
        let piece = Piece { small: value.small, uses: value.uses.clone(), ..Piece::atom(text, value.ty, &shape) };
        Some(self.bind("", piece, None))
    }

    fn literal_array(&mut self) -> String {
        self.count("array literal");
        let (text, ty, sizes, below): (&str, Dtype, &[i64], Option<i64>) = match self.choices.below(8) {
            0 => ("[0.25, 0.5, 0.25]", Dtype::F32, &[3], None),
            // (Without its type it would be one of the whole numbers that it stands next to.)
            1 => ("i64([2, 0, 1])", Dtype::I64, &[3], Some(3)),
            2 => ("[[1.0, 2.0], [3.0, 4.0]]", Dtype::F32, &[2, 2], None),
            3 => ("u8([1, 0])", Dtype::U8, &[2], Some(2)),
            4 => ("f16([[0.25, -1, inf]])", Dtype::F16, &[1, 3], None),
            5 => ("i16([-300, 2])", Dtype::I16, &[2], None),
            6 => ("u64([18446744073709551615, 1])", Dtype::U64, &[2], None),
            _ => ("[true, false]", Dtype::Bool, &[2], None),
        };
        let shape: Vec<Dim> = sizes.iter().map(|n| Dim::constant(*n)).collect();
        let small = !text.contains("0.25") && !text.contains("18446744073709551615") && !text.contains("300");
        let piece = Piece { small, ..Piece::atom(text, ty, &shape) };
        self.bind("", piece, below.map(Dim::constant))
    }
}
