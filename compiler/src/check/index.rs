//! Index notation: `let y[i, j < m] = e`, and where each index ends.
//!
//! An index ends (1) at its explicit bound; else (2) where the accesses with it alone in a
//! subscript all stay in bounds; else (3) where subscripts of several indices stay in bounds, given
//! the bounds of the others. An index that is bounded by an outer one (`k <= i`) stands, in a
//! subscript, for the greatest value it takes there, so that `sum[k <= i](x[k])` ends `i` as `x[i]`
//! would, and `x[n - 1 - k]` as `x[n - 1 - i]`; where it is subtracted from that one (`x[i - k]`),
//! it stands for 0. An index that is bounded from below (`i <= k < n`) stands for that bound, so
//! that `x[k]` ends `i` as `x[i]` would. An access under an `if` with a condition that mentions the
//! index bounds nothing; one on the right of `&&` or `||` does.
//!
//! The end of an array's index is a length: exact, and evaluated before any kernel runs. The end of
//! a reducer's index is an ordinary number, which wraps and divides like integers of the language,
//! so it counts as data unless the two interpretations agree. Where it begins elsewhere than at 0,
//! the name in the source stands for its first value plus an index from 0.

use grammar::Diagnostic;
use grammar::ast::{self, Span};
use ir::checked::{ExprId, Extent, GuardId, Index, IndexId, Kind, Type};
use ir::sabotage::{self, Bug};
use ir::{Affine, Dtype, Origin, Size};

use super::arena::Here;
use super::equal::Edit;
use super::facts::linear;
use super::ranges::Scalars;
use super::scope::Binding;
use super::{Checker, Side, codes, origin};

/// One access's word on where an index ends.
struct Candidate {
    extent: Size,
    length: Size,
    array: String,
    span: Span,
}

/// The kind of thing that indices are bound by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Binds {
    Array,
    Reducer,
}

/// A written bound.
#[derive(Clone)]
enum End {
    /// An affine expression of sizes and outer indices.
    Affine(Affine<IndexId>),
    /// An `i64` that depends on data.
    Data(ExprId),
}

/// The written range of an index.
struct Range {
    /// Its first value, if that is not 0.
    first: Option<End>,
    /// The number of its values.
    extent: Extent,
}

impl Default for Range {
    fn default() -> Range {
        Range { first: None, extent: Extent::Affine(Affine::constant(0)) }
    }
}

impl Checker<'_> {
    /// The arrays of `let y[binders] = value`, one for each name. A single one takes the type that
    /// is wanted.
    pub(super) fn indexed(
        &mut self,
        target: &ast::Target,
        value: ast::ExprId,
        want: Option<Dtype>,
        span: Span,
        here: Here,
    ) -> Option<Vec<ExprId>> {
        let depth = self.scope.len();
        let indices = self.open(&target.binders, Binds::Array, here.guard)?;
        let bodies = self.values(&target.pattern, value, want, span, here.guard);
        self.scope.truncate(depth);
        self.excuse(&indices, bodies.is_some());
        self.close(&indices, Binds::Array);
        let bodies = bodies?;
        if self.arena.ends.any_poisoned(&indices) {
            return None;
        }
        for body in &bodies {
            self.check_rank(indices.len() + self.arena.ty(*body).shape.len(), here.span)?;
        }
        for index in &indices {
            if let Extent::Affine(extent) = &self.arena.out.indices[*index].extent
                && let Some(extent) = extent.as_size().cloned()
            {
                let what = format!("the number of values of the index `{}`", self.arena.out.indices[*index].name);
                self.require_size(&extent, &what, here.span)?;
            }
        }
        let here = Here { span: self.ast(value).span, ..here };
        Some(bodies.into_iter().map(|body| self.arena.comprehension(indices.clone(), body, here)).collect())
    }

    /// Brings indices into scope, with their explicit bounds. Those of a reducer may begin and end
    /// where data says.
    pub(super) fn open(&mut self, binders: &[ast::Binder], binds: Binds, guard: GuardId) -> Option<Vec<IndexId>> {
        let mut indices = vec![];
        for binder in binders {
            let name = &binder.name;
            if indices.iter().any(|i| self.arena.out.indices[*i].name == name.text) {
                let message = format!("the index `{}` is bound twice", name.text);
                self.report.error(Diagnostic::new(codes::DUPLICATE_NAME, name.span, message));
            }
            let range = self.range(binder, binds, guard);
            let known = range.is_some();
            let Range { first, extent } = range.unwrap_or_default();
            let index =
                self.arena.out.indices.push(Index { name: name.text.clone(), extent, origin: origin(name.span) });
            match (known, binder.upper) {
                (true, _) => {}
                (false, None) => drop(self.arena.ends.unsolved.insert(index)),
                (false, Some(_)) => drop(self.arena.ends.poisoned.insert(index)),
            }
            let here = Here { span: name.span, guard };
            let node = match first {
                None => self.arena.index_node(index, here),
                Some(End::Affine(first)) => {
                    let node = self.arena.affine_node(&first, here);
                    self.arena.ends.first.insert(index, node);
                    self.arena.affine_node(&first.add(&Affine::index(index)), here)
                }
                Some(End::Data(first)) => {
                    self.arena.ends.first.insert(index, first);
                    let index = self.arena.index_node(index, here);
                    self.binary(ir::BinaryOp::Add, first, index, here)?
                }
            };
            self.scope.push(&name.text, Binding::Index(node));
            indices.push(index);
        }
        self.arena.ends.open.extend(&indices);
        Some(indices)
    }

    /// The written range of an index. `None` if there is none, or an error is reported.
    fn range(&mut self, binder: &ast::Binder, binds: Binds, guard: GuardId) -> Option<Range> {
        let upper = binder.upper?;
        let here = Here { span: binder.name.span, guard };
        let first = match binder.lower {
            Some(lower) => Some(self.end(lower, !lower.inclusive, binds, guard)?),
            None => None,
        };
        let end = self.end(upper, upper.inclusive, binds, guard)?;
        let first = first.filter(|first| !matches!(first, End::Affine(first) if *first == Affine::constant(0)));
        let extent = match (&first, end) {
            (None, End::Affine(end)) => Extent::Affine(end),
            (None, End::Data(end)) => Extent::Dynamic(end),
            (Some(End::Affine(first)), End::Affine(end))
                if let Some(form) =
                    linear(&end.sub(first)).filter(|form| self.facts().fits(form, Scalars::Bounded)) =>
            {
                for symbol in self.facts().scalars_to_bound(&form) {
                    self.requirements.bound_scalar(&self.arena, symbol, here.span);
                }
                Extent::Affine(end.sub(first))
            }
            // A difference that wraps would be the number of elements of no range.
            (Some(first), end) => {
                let [first, end] = [first.clone(), end].map(|end| match end {
                    End::Affine(end) => self.arena.affine_node(&end, here),
                    End::Data(end) => end,
                });
                let some = self.compare(ir::CompareOp::Lt, first, end, here)?;
                let then = self.binary(ir::BinaryOp::Sub, end, first, here)?;
                let otherwise = self.arena.constant(ir::Scalar::I64(0), here);
                let kind = Kind::If { condition: some, then, otherwise };
                Extent::Dynamic(self.arena.node(kind, Type::scalar(Dtype::I64), here))
            }
        };
        Some(Range { first, extent })
    }

    /// A written bound as the first value of an index, or as the one after its last.
    fn end(&mut self, bound: ast::Bound, one_more: bool, binds: Binds, guard: GuardId) -> Option<End> {
        let here = Here { span: self.ast(bound.limit).span, guard };
        let reducer = binds == Binds::Reducer;
        let more = Affine::constant(i64::from(one_more));
        let size = if reducer { self.number(bound.limit) } else { self.plain_size(bound.limit) };
        if let Some(size) = size {
            return Some(End::Affine(Affine::size(size).add(&more)));
        }
        let value = self.expr(bound.limit, Some(Dtype::I64), guard)?;
        if !self.arena.dtype(value).is_int() || !self.arena.ty(value).is_scalar() {
            let shown = self.arena.show_type(&self.arena.ty(value).clone());
            let message = format!("the bound of an index is an integer, this is {shown}");
            self.report.error(Diagnostic::new(codes::DTYPE_EXPECTED, here.span, message));
            return None;
        }
        match self.arena.affine(value).cloned() {
            Some(affine) if reducer || affine.as_size().is_some() => Some(End::Affine(affine.add(&more))),
            _ if !reducer => {
                let message = "where an index of an array ends cannot depend on other indices or on data";
                let help =
                    "take the greatest size and write `if` in the body: `let y[i, j < n] = if j <= i then ... else 0`";
                self.report.error(Diagnostic::new(codes::RAGGED, here.span, message).help(help));
                None
            }
            _ => {
                let mut value = self.clamped(value, here)?;
                if one_more {
                    let one = self.arena.constant(ir::Scalar::I64(1), here);
                    value = self.binary(ir::BinaryOp::Add, value, one, here)?;
                }
                Some(End::Data(value))
            }
        }
    }

    /// The value of an integer scalar as an `i64`. A `u64` that does not fit is clamped to
    /// `i64::MAX`, as in a subscript.
    fn clamped(&mut self, value: ExprId, here: Here) -> Option<ExprId> {
        let mut value = value;
        if self.arena.dtype(value) == Dtype::U64 {
            let greatest = self.arena.constant(ir::Scalar::U64(i64::MAX.unsigned_abs()), here);
            value = self.binary(ir::BinaryOp::Min, value, greatest, here)?;
        }
        self.cast(Dtype::I64, value, here)
    }

    /// Of a body with errors nobody can say where its indices end: that is no error of its own.
    pub(super) fn excuse(&mut self, indices: &[IndexId], sound: bool) {
        for index in indices {
            if !sound && self.arena.ends.unsolved.contains(index) {
                self.arena.ends.poison(*index);
            }
        }
    }

    /// Takes indices out of scope and works out where they end. Those of a reducer may wait for an
    /// outer binder.
    pub(super) fn close(&mut self, indices: &[IndexId], binds: Binds) {
        self.arena.ends.close(indices);
        // Each round may make another index known: first by accesses of an index alone, then by the
        // others.
        while self.solve_one(false) || self.solve_one(true) {}
        let ends = &self.arena.ends;
        let unsolved: Vec<IndexId> = match binds == Binds::Reducer && !ends.open.is_empty() {
            true => vec![],
            false if ends.open.is_empty() => ends.unsolved.iter().copied().collect(),
            false => indices.iter().copied().filter(|i| ends.unsolved.contains(i)).collect(),
        };
        let cascade = self.arena.ends.any_poisoned(indices);
        for index in unsolved {
            self.arena.ends.poison(index);
            if cascade {
                continue;
            }
            let Index { name, origin, .. } = self.arena.out.indices[index].clone();
            let span = Span { start: origin.start, end: origin.end };
            let message = format!("nothing says where the index `{name}` ends");
            let error = Diagnostic::new(codes::UNBOUNDED_INDEX, span, message);
            // A condition that mentions the index may keep it away from the end of the array.
            let guarded = self.accesses.mentioning(index).find(|record| {
                let alone = self.arena.affine(record.value).and_then(Affine::as_index) == Some(index);
                alone && record.of.is_none() && record.exempt.contains(&index)
            });
            self.report.error(match guarded {
                Some(record) => {
                    let bound = format!("{name} < {}", self.arena.show(&record.length));
                    let help = format!("an access under a condition on `{name}` does not end it: write `{bound}`");
                    error.label(record.span, "this access is under a condition").help(help).suggest(span, bound)
                }
                None => {
                    error.help(format!("give it a bound: `{name} < n`, or use it alone in a subscript: `x[{name}]`"))
                }
            });
        }
    }

    /// Finds the end of one index, from the accesses that allow it; whether there was one.
    fn solve_one(&mut self, mixed: bool) -> bool {
        // An index with an open binder may have more accesses to come.
        for index in self.arena.ends.unsolved.clone().into_iter().filter(|i| !self.arena.ends.open.contains(i)) {
            let candidates = self.candidates(index, mixed);
            let mut agreed: Vec<Candidate> = vec![];
            for new in candidates {
                let same = agreed.iter_mut().find(|old| {
                    let constant = (&old.extent - &new.extent).as_constant().is_some();
                    constant && (old.extent.as_constant().is_none() || old.length == new.length)
                });
                match same {
                    Some(old) => {
                        if (&new.extent - &old.extent)
                            .as_constant()
                            .is_some_and(|d| (d < 0) != sabotage::on(Bug::GreatestEnd))
                        {
                            *old = new;
                        }
                    }
                    None => agreed.push(new),
                }
            }
            let mut agreed = agreed.into_iter();
            let Some(first) = agreed.next() else { continue };
            for other in agreed {
                let name = self.arena.out.indices[index].name.clone();
                let side =
                    |of: &str, c: &Candidate| Side::new(&c.extent, format!("where {of}{} ends `{name}`", c.array));
                let another = if other.array == first.array { "another access of " } else { "" };
                let shorter = match (&first.extent - &other.extent).terms() {
                    [(_, 1..)] => &other.extent,
                    _ => &first.extent,
                };
                let text = format!("{name} < {}", self.arena.show(shorter));
                let Origin { start, end } = self.arena.out.indices[index].origin;
                let edit = Edit { at: Span { start, end }, text };
                if self.unify_by(side("", &first), side(another, &other), other.span, Some(edit)).is_none() {
                    self.arena.ends.poisoned.insert(index);
                }
            }
            self.arena.out.indices[index].extent = Extent::Affine(Affine::size(first.extent));
            self.arena.ends.unsolved.remove(&index);
            return true;
        }
        false
    }

    fn candidates(&self, index: IndexId, mixed: bool) -> Vec<Candidate> {
        let mut found = vec![];
        for record in self.accesses.mentioning(index) {
            if record.exempt.contains(&index) || record.of.is_some() {
                continue;
            }
            let Some(at) = self.arena.affine(record.value) else { continue };
            let coefficient = |at: &Affine<IndexId>| at.coefficient(index).as_constant();
            // at = a i + s, with a > 0, is at most length - 1.
            let below = |at: Affine<IndexId>| {
                let a = Size::constant(coefficient(&at).filter(|a| *a > 0)?);
                let room = &(&record.length - &Size::constant(1)) - at.constant_part();
                Some((&room + &a).floor_div(&a))
            };
            let rises = coefficient(at).is_some_and(|a| a > 0);
            let greatest = self.extreme(at, index, mixed, true);
            let extent = match greatest.as_ref().map(coefficient) {
                Some(Some(1..)) => greatest.and_then(below),
                // Where the index bounds another one from below, `i <= k`, that one stands for it.
                // Of `x[k - i]`, where `k <= i`, nobody means the one `i` for which a i + s >= 0.
                Some(Some(0)) | None if rises => self.extreme(at, index, mixed, false).and_then(below),
                Some(Some(a)) if a < 0 || at.coefficient(index).is_zero() => {
                    self.extreme(at, index, mixed, false).and_then(|least| {
                        let a = coefficient(&least).filter(|a| *a < 0)?;
                        Some((least.constant_part() - &Size::constant(a)).floor_div(&Size::constant(-a)))
                    })
                }
                _ => None,
            };
            let Some(extent) = extent else { continue };
            found.push(Candidate {
                extent,
                length: record.length.clone(),
                array: record.array.clone(),
                span: record.span,
            });
        }
        found
    }

    /// The greatest (or least) value of an expression over all its indices but one. Without `mixed`
    /// only indices that end where that one says may be replaced.
    fn extreme(&self, at: &Affine<IndexId>, keep: IndexId, mixed: bool, greatest: bool) -> Option<Affine<IndexId>> {
        let mut at = at.clone();
        // An extent mentions only indices bound before, so the last goes first.
        while let Some((index, coefficient)) = at.terms().iter().rev().find(|(i, _)| *i != keep).cloned() {
            if self.arena.ends.unsolved.contains(&index) || self.arena.ends.poisoned.contains(&index) {
                return None;
            }
            let upwards = (likely_sign(&coefficient)? > 0) == greatest;
            let to = match &self.arena.out.indices[index].extent {
                Extent::Affine(extent) if mixed || !extent.coefficient(keep).is_zero() => match upwards {
                    true => extent.sub(&Affine::constant(1)),
                    false => Affine::constant(0),
                },
                Extent::Dynamic(_) if !upwards && self.begins_at(index, keep) => Affine::constant(0),
                _ => return None,
            };
            at = at.substitute(&mut |i| if i == index { to.clone() } else { Affine::index(i) });
        }
        Some(at)
    }

    /// Whether the first value of an index mentions another one.
    fn begins_at(&self, index: IndexId, other: IndexId) -> bool {
        let first = self.arena.ends.first.get(&index).and_then(|first| self.arena.affine(*first));
        first.is_some_and(|first| !first.coefficient(other).is_zero())
    }
}

/// The sign of a coefficient, where it is the same for all sizes that are not negative. A scalar
/// parameter may be: so it serves for finding an end, not for a proof.
fn likely_sign(coefficient: &Size) -> Option<i64> {
    if let Some(c) = coefficient.as_constant() {
        return Some(c.signum());
    }
    let mut signs = coefficient.terms().iter().map(|(_, c)| c.signum());
    let first = signs.next()?;
    signs.all(|s| s == first).then_some(first)
}
