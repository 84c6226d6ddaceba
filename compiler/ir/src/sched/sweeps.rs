//! Sweeps: loops over the rows of a product that never store it. A block of rows goes over the
//! columns several times. Each time it multiplies again, tile by tile, and the body takes an
//! element while it is in a register:
//!
//! ```text
//! parallel i < s {
//!   contract j < t over c < d {          every sweep multiplies
//!     left load %q[i, c]
//!     right load %k[j, c]
//!     epilogue store %score[j]
//!   }
//!   m = reduce j < t max %score[j]       sweep 1
//!   z = reduce j < t sum {               sweep 2
//!     e = exp(%score[j] - m)
//!     store %e[j]
//!   }
//!   contract c < d over j < t {          sweep 2
//!     left load %e[j]
//!     right load %v[j, c]
//!     epilogue store %o[c]
//!   }
//!   parallel c < d: store %out[i, c] = %o[c] / z      at the end
//! }
//! ```
//!
//! A value of an element belongs to the sweep after the one whose results it needs, and is computed
//! again in later sweeps. Reductions keep their orders, so all this changes no bit, but for the
//! online form.

mod online;

use std::collections::BTreeSet;

use crate::build::Values;
use crate::nest::{
    BufferId, Contraction, Extent, IndexId, Kernel, Loop, LoopKind, Op, Program, Prologue, Reduction, Role, Statement,
    Subscript, ValueId,
};
use crate::{Affine, BinaryOp, CompareOp, Dtype, Order, Scalar, Size, visit};

pub use online::{CommonFactor, Rescaled};

/// The most sweeps, since each multiplies again.
const MOST: usize = 3;

/// Which results sweeps have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SweepForm {
    /// The bits of the statements.
    Exact,
    /// Those of the [online form](Rescaled), with fewer sweeps.
    Online,
}

/// A loop that runs in sweeps.
pub struct Sweeps<'l> {
    /// Its rows.
    pub rows: ProductRows<'l>,
    /// The product whose elements the sweeps go over.
    pub scores: &'l Contraction,
    /// The factors of its rows and its columns. In a loop over columns of a product, these are the
    /// rows.
    pub factors: [&'l Prologue; 2],
    /// The columns of this product.
    pub columns: ProductColumns<'l>,
    /// The statements of a row, each with the number of sweeps that come before it.
    pub row_statements: Vec<(usize, &'l Statement)>,
    /// The sweeps, in order.
    pub sweeps: Vec<Sweep<'l>>,
    /// The product that a sweep accumulates.
    pub weighted: Option<Weighted<'l>>,
}

/// The rows of a product.
pub struct ProductRows<'l> {
    /// The index of a row.
    pub index: IndexId,
    /// The number of rows.
    pub count: &'l Size,
}

/// The columns of a product.
pub struct ProductColumns<'l> {
    /// The number of columns.
    pub count: &'l Size,
    /// The index of each loop over them.
    pub indices: Vec<IndexId>,
}

/// One of the sweeps.
#[derive(Default)]
pub struct Sweep<'l> {
    /// The statements of an element.
    pub elements: Vec<&'l Statement>,
    /// The reductions that it completes.
    pub reductions: Vec<&'l Reduction>,
    /// If elements take a score only where a condition holds.
    pub mask: Option<Mask<'l>>,
    /// If its sums follow a maximum that it finds too.
    pub rescaled: Option<Rescaled<'l>>,
}

/// A condition on a row and a column, without which an element has no use of its score. A tile in
/// which it never holds needs no statements for its elements, if those of one of them come to
/// nothing.
pub struct Mask<'l> {
    /// The comparisons that must all hold.
    pub comparisons: Vec<(CompareOp, Bound<'l>, Bound<'l>)>,
    /// The value that has a score in it where they hold.
    pub masked: ValueId,
    /// The value that stands in its place elsewhere.
    pub fill: ValueId,
    /// The statements of an element without a score. No column is different from the others.
    pub elements: Vec<&'l Statement>,
    /// Whether such an element comes to nothing in all rows.
    pub is_nothing: bool,
}

/// A side of a comparison.
#[derive(Clone, Copy)]
pub enum Bound<'l> {
    /// It grows or falls evenly along rows and columns.
    Affine(&'l Affine<IndexId>),
    /// It is the same for all.
    Value(ValueId),
}

/// A product of values of elements with a matrix that has a row for each column.
pub struct Weighted<'l> {
    /// The number of the sweep that accumulates it.
    pub sweep: usize,
    /// The product.
    pub product: &'l Contraction,
    /// The values of elements that it multiplies, before their conversion.
    pub weight: ValueId,
    /// The columns of this product.
    pub columns: ProductColumns<'l>,
    /// A factor of the weights that is applied to the results instead.
    pub common: Option<CommonFactor>,
    /// The statements for a result, at the end.
    pub after: Vec<&'l Statement>,
}

/// The value of a factor of 16-bit floats, possibly before its conversion to `f32`.
pub fn narrow(values: &Values, prologue: &Prologue) -> Option<(ValueId, Dtype)> {
    let found = prologue.body.iter().find_map(|statement| {
        let Statement::Let { value, op: Op::Cast(Dtype::F32, from) } = statement else { return None };
        Some(*from).filter(|_| *value == prologue.value)
    });
    let taken = found.unwrap_or(prologue.value);
    Some((taken, values[taken])).filter(|(_, dtype)| matches!(dtype, Dtype::F16 | Dtype::Bf16))
}

/// Both factors of a product, if they are 16-bit floats of one type.
fn narrow_both(values: &Values, c: &Contraction) -> Option<[ValueId; 2]> {
    let [(left, one), (right, other)] = [narrow(values, &c.left)?, narrow(values, &c.right)?];
    (one == other && values[c.result] == Dtype::F32).then_some([left, right])
}

impl<'l> Sweeps<'l> {
    /// The sweeps of the last loop of a kernel, if it runs in them: its products have 16-bit
    /// factors.
    pub fn of(program: &Program, kernel: &'l Kernel, form: SweepForm) -> Option<Sweeps<'l>> {
        let Some((Statement::Loop(l), outside)) = kernel.body.split_last() else { return None };
        let values = &kernel.values;
        let row = *l.along_rows(program).last()?;
        let sized = l.dims.iter().all(|(_, extent)| extent.as_size().is_some());
        if !sized || l.body.iter().any(Statement::may_fault) {
            return None;
        }
        let (_, rows) = l.dims.iter().find(|(index, _)| *index == row)?;
        let (at, scores) = first_product(&l.body)?;
        let [(column, columns)] = scores.free.as_slice() else { return None };
        let columns = columns.as_size()?;
        narrow_both(values, scores)?;
        let mut factors = [&scores.left, &scores.right];
        let across = l.column(program).is_some();
        if across {
            factors.reverse();
        }
        let mut found = Finder {
            program,
            values,
            form,
            outside,
            columns: Extent::size(columns.clone()),
            indices: vec![*column],
            row,
            score: scores.result,
            ready: vec![(scores.result, 0)],
            scratch: vec![],
            row_statements: vec![],
            elements: vec![],
            reductions: vec![],
            weighted: None,
        };
        let (before, after) = (&l.body[..at], &l.body[at + 1..]);
        before.iter().try_for_each(|statement| found.statement(statement))?;
        found.elements(&scores.epilogue, *column)?;
        after.iter().try_for_each(|statement| found.statement(statement))?;
        let mut sweeps = found.sweeps()?;
        if form == SweepForm::Online {
            sweeps = found.together(sweeps);
        }
        let Finder { indices, row_statements, weighted, .. } = found;
        let loads = visit::loads(&l.body);
        let apart = visit::stores(&l.body).iter().all(|b| is_scratch(program, *b) || !loads.contains(b));
        (apart && !(across && weighted.is_some())).then_some(Sweeps {
            rows: ProductRows { index: row, count: rows.as_size()? },
            scores,
            factors,
            columns: ProductColumns { count: columns, indices },
            row_statements,
            sweeps,
            weighted,
        })
    }
}

fn is_scratch(program: &Program, buffer: BufferId) -> bool {
    program.buffers[buffer].role == Role::Scratch
}

fn first_product(body: &[Statement]) -> Option<(usize, &Contraction)> {
    body.iter().enumerate().find_map(|(at, s)| if let Statement::Contract(c) = s { Some((at, c)) } else { None })
}

/// The analysis of the statements so far.
struct Finder<'p, 'l> {
    program: &'p Program,
    values: &'p Values,
    form: SweepForm,
    /// The statements before the loop.
    outside: &'l [Statement],
    columns: Extent,
    /// The indices of loops over the columns, and that of the rows.
    indices: Vec<IndexId>,
    row: IndexId,
    /// The element of the product.
    score: ValueId,
    /// The number of sweeps that come before a value.
    ready: Vec<(ValueId, usize)>,
    /// The same for the contents of scratch.
    scratch: Vec<(BufferId, usize)>,
    row_statements: Vec<(usize, &'l Statement)>,
    elements: Vec<(usize, &'l Statement)>,
    /// The reductions, with the number of their sweep.
    reductions: Vec<(usize, &'l Reduction)>,
    weighted: Option<Weighted<'l>>,
}

impl<'l> Finder<'_, 'l> {
    /// A statement of the row.
    fn statement(&mut self, statement: &'l Statement) -> Option<()> {
        match statement {
            Statement::Let { .. } | Statement::Store { .. } => {
                let ready = self.flat(statement, None)?;
                self.row_statements.push((ready, statement));
                Some(())
            }
            Statement::Loop(l) => self.inner(l),
            Statement::Contract(c) => self.product(c),
            Statement::Scatter { .. } | Statement::If { .. } | Statement::While(_) => None,
        }
    }

    /// The number of sweeps before values. Those from outside of the loop are there before.
    fn before(&self, values: Vec<ValueId>) -> usize {
        self.ready.iter().filter(|(value, _)| values.contains(value)).map(|(_, ready)| *ready).max().unwrap_or(0)
    }

    /// Whether a value is one of the loop.
    fn is_own(&self, value: ValueId) -> bool {
        self.ready.iter().any(|(other, _)| *other == value)
    }

    /// The number of sweeps before a statement without others inside. With an index, it may access
    /// scratch at this index.
    fn flat(&mut self, statement: &'l Statement, index: Option<IndexId>) -> Option<usize> {
        let mut ready = self.before(uses(statement));
        let mut known = true;
        let own = |at: &[Subscript]| index.is_some_and(|index| at == [Subscript::Affine(Affine::index(index))]);
        match statement {
            Statement::Let { op: Op::Check { .. } | Op::Prefix(_) | Op::Place(_), .. } => return None,
            Statement::Let { op: Op::Load { buffer, view, at }, .. } if is_scratch(self.program, *buffer) => {
                known = own(at) && view.is_none();
                let (_, stored) = self.scratch.iter().find(|(other, _)| other == buffer)?;
                ready = ready.max(*stored);
            }
            Statement::Store { buffer, at, .. } if is_scratch(self.program, *buffer) => {
                known = own(at) && self.scratch.iter().all(|(other, _)| other != buffer);
                self.scratch.push((*buffer, ready));
            }
            Statement::Let { .. } | Statement::Store { .. } => {}
            Statement::Scatter { .. }
            | Statement::If { .. }
            | Statement::Loop(_)
            | Statement::While(_)
            | Statement::Contract(_) => return None,
        }
        if let Statement::Let { value, .. } = statement {
            self.ready.push((*value, ready));
        }
        known.then_some(ready)
    }

    fn elements(&mut self, body: &'l [Statement], index: IndexId) -> Option<()> {
        for statement in body {
            let ready = self.flat(statement, Some(index))?;
            self.elements.push((ready, statement));
        }
        Some(())
    }

    /// A loop over columns, or over the results of the second product.
    fn inner(&mut self, l: &'l Loop) -> Option<()> {
        let [(index, extent)] = l.dims.as_slice() else { return None };
        let loads = visit::loads(&l.body);
        let of_results = self.weighted.as_ref().filter(|weighted| {
            let stored = visit::stores(&weighted.product.epilogue);
            loads.iter().any(|buffer| is_scratch(self.program, *buffer) && stored.contains(buffer))
        });
        if of_results.is_some() {
            if l.kind != LoopKind::Parallel {
                return None;
            }
            for statement in &l.body {
                self.flat(statement, Some(*index))?;
            }
            let weighted = self.weighted.as_mut()?;
            weighted.after.extend(&l.body);
            weighted.columns.indices.push(*index);
            return (extent.as_size()? == weighted.columns.count).then_some(());
        }
        if *extent != self.columns {
            return None;
        }
        let reductions = match &l.kind {
            LoopKind::Parallel => [].as_slice(),
            LoopKind::Reduce(reductions) => reductions,
            LoopKind::Serial | LoopKind::Scan | LoopKind::Keyed { .. } | LoopKind::Sort => return None,
        };
        self.indices.push(*index);
        self.elements(&l.body, *index)?;
        for r in reductions {
            let fits = r.order == Order::Free || r.order == Order::Lanes && r.single().is_some();
            let ready = self.before(r.values().collect());
            let wide = |value: &ValueId| matches!(self.values[*value].bytes(), 8);
            if !fits || r.order == Order::Lanes && r.results.iter().any(wide) {
                return None;
            }
            self.ready.extend(r.results.iter().map(|value| (*value, ready + 1)));
            self.reductions.push((ready + 1, r));
        }
        Some(())
    }

    /// The second product: its inner index goes over the columns.
    fn product(&mut self, c: &'l Contraction) -> Option<()> {
        let ([(column, extent)], [(result, results)]) = (c.reduce.as_slice(), c.free.as_slice()) else { return None };
        let [weight, _] = narrow_both(self.values, c)?;
        if self.weighted.is_some() || *extent != self.columns {
            return None;
        }
        // The matrix is the same for all rows.
        let mut scratch = visit::loads(&c.right.body);
        scratch.retain(|buffer| is_scratch(self.program, *buffer));
        if !scratch.is_empty() || visit::free_values(&c.right.body).into_iter().any(|v| self.is_own(v)) {
            return None;
        }
        self.indices.push(*column);
        self.elements(&c.left.body, *column)?;
        let common = self.common_factor(weight).filter(|_| self.form == SweepForm::Online);
        let sweep = self.before(vec![common.map_or(weight, |common| common.without)]) + 1;
        self.ready.push((c.result, sweep));
        for statement in &c.epilogue {
            self.flat(statement, Some(*result))?;
        }
        let after = c.epilogue.iter().collect();
        let columns = ProductColumns { count: results.as_size()?, indices: vec![*result] };
        self.weighted = Some(Weighted { sweep, product: c, weight, columns, common, after });
        Some(())
    }

    /// The sweeps, each with the statements that it needs.
    fn sweeps(&self) -> Option<Vec<Sweep<'l>>> {
        let of_stores = self.elements.iter().filter(|(_, s)| self.leaves(s)).map(|(ready, _)| ready + 1);
        let of_reductions = self.reductions.iter().map(|(sweep, _)| *sweep);
        let count = of_stores.chain(of_reductions).chain(self.weighted.as_ref().map(|w| w.sweep)).max()?;
        let sweep = |number: usize| {
            let reductions = self.reductions.iter().filter(|(sweep, _)| *sweep == number).map(|(_, r)| *r);
            let reductions: Vec<_> = reductions.collect();
            let elements = self.needed(&reductions, number, None);
            let mask = self.mask(&elements, &reductions, number);
            Sweep { elements, reductions, mask, rescaled: None }
        };
        (count <= MOST).then(|| (1..=count).map(sweep).collect())
    }

    /// The statements of elements that a sweep needs, in order. One value may be known already.
    fn needed(&self, reductions: &[&Reduction], number: usize, known: Option<ValueId>) -> Vec<&'l Statement> {
        let mut values: BTreeSet<ValueId> = reductions.iter().flat_map(|r| r.values()).collect();
        values.extend(self.weighted.as_ref().filter(|w| w.sweep == number).map(|w| w.weight));
        self.needed_values(values, known, |ready| ready + 1 == number)
    }

    /// The statements that some values need, and stores to arrays that are ready by then.
    fn needed_values(
        &self,
        mut values: BTreeSet<ValueId>,
        known: Option<ValueId>,
        stores: impl Fn(usize) -> bool,
    ) -> Vec<&'l Statement> {
        let mut scratch = BTreeSet::new();
        let mut elements = vec![];
        for (ready, statement) in self.elements.iter().rev() {
            let needed = match statement {
                Statement::Let { value, .. } => values.contains(value) && known != Some(*value),
                Statement::Store { buffer, .. } if is_scratch(self.program, *buffer) => scratch.contains(buffer),
                _ => stores(*ready),
            };
            if needed {
                if let Statement::Let { op: Op::Load { buffer, .. }, .. } = statement {
                    scratch.insert(*buffer);
                }
                values.extend(uses(statement));
                elements.push(*statement);
            }
        }
        elements.reverse();
        elements
    }

    /// The mask of a sweep's elements.
    fn mask(&self, elements: &[&'l Statement], reductions: &[&Reduction], number: usize) -> Option<Mask<'l>> {
        let (masked, condition, fill) = elements.iter().find_map(|statement| match statement {
            Statement::Let { value, op: Op::Select(condition, _, fill) } => Some((*value, *condition, *fill)),
            _ => None,
        })?;
        let is_element = |value: ValueId| elements.iter().any(|s| defines(s, value));
        let rest = self.needed(reductions, number, Some(masked));
        let even = rest.iter().all(|statement| {
            let even = match statement {
                Statement::Let { op: Op::Load { buffer, .. }, .. } | Statement::Store { buffer, .. } => {
                    is_scratch(self.program, *buffer)
                }
                Statement::Let { op: Op::Affine(affine), .. } => !self.is_across(affine),
                _ => true,
            };
            even && !uses(statement).contains(&self.score)
        });
        let mut comparisons = vec![];
        self.comparisons(elements, condition, &mut comparisons)?;
        // The maximum of a row does not change by elements that are least of all.
        let greatest = reductions.iter().all(|r| self.is_maximum(r) && r.values().all(|v| self.source(v) == masked));
        let of_maxima = greatest && self.is_least(fill) && self.weighted.as_ref().is_none_or(|w| w.sweep != number);
        let is_nothing = of_maxima && !elements.iter().any(|s| self.leaves(s));
        (even && !is_element(fill)).then_some(Mask { comparisons, masked, fill, elements: rest, is_nothing })
    }

    /// Whether a statement stores to memory.
    fn leaves(&self, statement: &Statement) -> bool {
        matches!(statement, Statement::Store { buffer, .. } if !is_scratch(self.program, *buffer))
    }

    fn is_least(&self, value: ValueId) -> bool {
        self.constant(value).is_some_and(|constant| constant == Scalar::F32(f32::NEG_INFINITY))
    }

    /// The operation of a value of an element.
    fn element_op(&self, value: ValueId) -> Option<&'l Op> {
        self.elements.iter().find_map(|(_, statement)| defined(statement, value))
    }

    /// A value that is a constant.
    fn constant(&self, value: ValueId) -> Option<Scalar> {
        let of_loop = self.row_statements.iter().chain(&self.elements).map(|(_, statement)| *statement);
        match of_loop.chain(self.outside).find_map(|statement| defined(statement, value)) {
            Some(Op::Constant(constant)) => Some(*constant),
            _ => None,
        }
    }

    /// The value in scratch.
    fn stored(&self, of: BufferId) -> Option<ValueId> {
        self.elements.iter().find_map(|(_, statement)| match statement {
            Statement::Store { buffer, value, .. } if *buffer == of => Some(*value),
            _ => None,
        })
    }

    /// The value that was stored in scratch, if this one was loaded from there.
    fn source(&self, value: ValueId) -> ValueId {
        match self.element_op(value) {
            Some(Op::Load { buffer, .. }) if is_scratch(self.program, *buffer) => {
                self.stored(*buffer).map_or(value, |stored| self.source(stored))
            }
            _ => value,
        }
    }

    fn is_across(&self, affine: &Affine<IndexId>) -> bool {
        affine.terms().iter().any(|(index, _)| self.indices.contains(index))
    }

    /// The comparisons that must hold for a condition.
    fn comparisons(
        &self,
        elements: &[&'l Statement],
        condition: ValueId,
        found: &mut Vec<(CompareOp, Bound<'l>, Bound<'l>)>,
    ) -> Option<()> {
        let op = elements.iter().find_map(|s| match s {
            Statement::Let { value, op } if *value == condition => Some(op),
            _ => None,
        })?;
        match op {
            Op::Binary(BinaryOp::And, a, b) => {
                self.comparisons(elements, *a, found)?;
                self.comparisons(elements, *b, found)
            }
            Op::Compare(op @ (CompareOp::Lt | CompareOp::Le | CompareOp::Gt | CompareOp::Ge), a, b) => {
                let [left, right] = [*a, *b].map(|value| self.bound(value));
                found.push((*op, left?, right?));
                Some(())
            }
            _ => None,
        }
    }

    /// A value that all elements have in common, or that is affine.
    fn bound(&self, value: ValueId) -> Option<Bound<'l>> {
        if self.values[value] != Dtype::I64 {
            return None;
        }
        let mut of_loop = self.elements.iter().chain(&self.row_statements).map(|(_, statement)| *statement);
        match of_loop.find(|statement| defines(statement, value)) {
            Some(Statement::Let { op: Op::Affine(affine), .. }) => {
                let own = affine.terms().iter().filter(|(index, _)| *index == self.row || self.indices.contains(index));
                let even = own.clone().all(|(_, coefficient)| coefficient.as_constant().is_some());
                even.then_some(Bound::Affine(affine))
            }
            Some(_) => None,
            // The result of a reduction is of its row.
            None => (!self.is_own(value)).then_some(Bound::Value(value)),
        }
    }
}

/// The values that a statement uses.
fn uses(statement: &Statement) -> Vec<ValueId> {
    let mut used = vec![];
    visit::for_each_use(statement, &mut |value| used.push(value));
    used
}

/// The operation of a value, if a statement defines it.
fn defined(statement: &Statement, value: ValueId) -> Option<&Op> {
    match statement {
        Statement::Let { value: defined, op } if *defined == value => Some(op),
        _ => None,
    }
}

/// Whether a statement defines a value.
fn defines(statement: &Statement, value: ValueId) -> bool {
    matches!(statement, Statement::Let { value: defined, .. } if *defined == value)
}
