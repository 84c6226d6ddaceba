//! Functions of whole arrays that are written in terms of the others: `var`, `std`, `norm`,
//! `diff`, and those that sort.

use grammar::ast;
use ir::checked::{ExprId, Sorted};
use ir::{Affine, BinaryOp, Size, UnaryOp};

use super::Checker;
use super::arena::Here;
use super::reducers::{Takes, reducer};

/// A function of an array, which takes an axis as `sum` does.
#[derive(Clone, Copy)]
pub(super) struct Derived {
    pub(super) name: &'static str,
    takes: Takes,
    /// Writes it out for an array and an axis.
    write: fn(&mut Checker<'_>, ExprId, Option<usize>, Here) -> Option<ExprId>,
    /// How to write it over indices.
    pub(super) indexed: &'static str,
}

/// Every one of them.
pub(super) const DERIVED: [Derived; 7] = [
    Derived {
        name: "var",
        takes: Takes::Floats,
        write: |checker, x, axis, here| checker.variance(x, axis, here),
        indexed: "with `let m = mean[i](x[i])` before it, write `mean[i]((x[i] - m) ^ 2)`",
    },
    Derived {
        name: "std",
        takes: Takes::Floats,
        write: |checker, x, axis, here| {
            let variance = checker.variance(x, axis, here)?;
            checker.unary(UnaryOp::Sqrt, variance, here)
        },
        indexed: "with `let m = mean[i](x[i])` before it, write `sqrt(mean[i]((x[i] - m) ^ 2))`",
    },
    Derived {
        name: "norm",
        takes: Takes::Floats,
        write: |checker, x, axis, here| {
            let squares = checker.binary(BinaryOp::Mul, x, x, here)?;
            let sum = checker.reduce_along(reducer("sum")?, squares, axis, here)?;
            checker.unary(UnaryOp::Sqrt, sum, here)
        },
        indexed: "write `sqrt(sum[i](x[i] ^ 2))`",
    },
    Derived {
        name: "diff",
        takes: Takes::Numbers,
        write: |checker, x, axis, here| checker.differences(x, axis, here),
        indexed: "write `let d[i] = x[i + 1] - x[i]`",
    },
    Derived {
        name: "sort",
        takes: Takes::Numbers,
        write: |checker, x, axis, here| checker.sort(x, axis, Sorted::Values, here),
        indexed: "write `sort(x)`, and `sort(x[i])` to sort each row",
    },
    Derived {
        name: "argsort",
        takes: Takes::Numbers,
        write: |checker, x, axis, here| checker.sort(x, axis, Sorted::Numbers, here),
        indexed: "write `argsort(x)`, and `argsort(x[i])` to sort each row",
    },
    Derived {
        name: "median",
        takes: Takes::Floats,
        write: |checker, x, axis, here| checker.median(x, axis, here),
        indexed: "write `median(x)`, and `median(x[i])` for the median of each row",
    },
];

/// The function of that name.
pub(super) fn derived(name: &str) -> Option<Derived> {
    DERIVED.into_iter().find(|function| function.name == name)
}

impl Checker<'_> {
    /// `var(x)`, `var(x, axis = k)` and the like.
    pub(super) fn derived_call(
        &mut self,
        function: Derived,
        x: ast::ExprId,
        axis: Option<ast::ExprId>,
        here: Here,
    ) -> Option<ExprId> {
        let x = self.expr(x, None, here.guard)?;
        let axis = self.reduced_axis(function.name, x, axis, here)?;
        self.expect_elements(function.takes, x, function.name, here)?;
        (function.write)(self, x, axis, here)
    }

    /// The mean of the squared distances from the mean: two passes, because the difference of the
    /// mean square and the squared mean would cancel.
    fn variance(&mut self, x: ExprId, axis: Option<usize>, here: Here) -> Option<ExprId> {
        let mean = self.reduce_along(reducer("mean")?, x, axis, here)?;
        let indices = self.arena.axis_indices(&self.arena.ty(x).shape.clone(), here.span);
        let at: Vec<_> = indices.iter().map(|i| Affine::index(*i)).collect();
        let kept = at.iter().enumerate().filter(|(k, _)| axis.is_some_and(|axis| axis != *k));
        let kept = kept.map(|(_, at)| at.clone()).collect();
        let (element, mean) = (self.arena.element(x, at, here), self.arena.element(mean, kept, here));
        let distance = self.binary(BinaryOp::Sub, element, mean, here)?;
        let square = self.binary(BinaryOp::Mul, distance, distance, here)?;
        let squares = self.arena.comprehension(indices, square, here);
        self.reduce_along(reducer("mean")?, squares, axis, here)
    }

    /// The differences of neighbours along an axis, by default the last one: `x[1:] - x[:n - 1]`.
    fn differences(&mut self, x: ExprId, axis: Option<usize>, here: Here) -> Option<ExprId> {
        let mut shape = self.arena.ty(x).shape.clone();
        let axis = axis.unwrap_or(shape.len() - 1);
        shape[axis] = &shape[axis] - &Size::constant(1);
        self.require_size(&shape[axis], "the number of differences", here.span)?;
        let indices = self.arena.axis_indices(&shape, here.span);
        let at: Vec<_> = indices.iter().map(|i| Affine::index(*i)).collect();
        let mut next = at.clone();
        next[axis] = next[axis].add(&Affine::constant(1));
        let (next, own) = (self.arena.element(x, next, here), self.arena.element(x, at, here));
        let difference = self.binary(BinaryOp::Sub, next, own, here)?;
        Some(self.arena.comprehension(indices, difference, here))
    }
}
