//! The bytes of each buffer that a kernel must move between memory and caches.
//!
//! The *footprint* of an access is the set of elements that it touches while some of the enclosing
//! loops run: on each axis, the range of its subscript. Accesses to one buffer at neighbouring
//! elements (`x[i - 1]`, `x[i + 1]`) have one footprint, from the least to the greatest element. It
//! is never larger than the number of times that their subscripts change: `x[i, i]` touches one
//! line for each `i`.
//!
//! A kernel reads an element from memory once for as long as it stays in the cache. In a nest of
//! loops, consider the outermost level at which one iteration touches no more than a cache holds:
//! elements that it touches again are still in the cache for the next iteration. So the footprint
//! of the whole loop at that level crosses to the cache as often as that loop is entered. If not
//! even the innermost loops fit, each of them counts by itself. A contraction counts as touching
//! everything once, because tuned products work on tiles, and so does a loop around contractions.
//! Consecutive loops that could run together (neither uses a result of the other) read a buffer
//! once; between loops that depend on each other nothing stays in the cache.
//!
//! The same rules give numbers and polynomials, see [`Number`].

use std::ops::Range;

use cranelift_entity::SecondaryMap;
use ir::nest::{BufferId, Extent, IndexId, Kernel, Program, Role, Subscript};
use ir::{Affine, Size};

use super::accesses::{Access, Accesses, Scope, ScopeId, ScopeKind};
use super::cost::{self, Machine};

/// The numbers that footprints are computed with: `f64` where only the number counts, [`Symbolic`]
/// for reports.
pub trait Number: Clone {
    /// A whole number.
    fn whole(value: i64) -> Self;
    /// A size.
    fn size(size: &Size, value: &impl Fn(&Size) -> f64) -> Self;
    /// More than any number.
    fn boundless() -> Self;
    /// The sum.
    fn plus(&self, other: &Self) -> Self;
    /// The product.
    fn times(&self, other: &Self) -> Self;
    /// The number by which comparisons go.
    fn value(&self) -> f64;

    /// The lesser of two, the first of equal ones.
    fn least(self, other: Self) -> Self {
        if other.value() < self.value() { other } else { self }
    }

    /// The greater of two, the first of equal ones.
    fn greatest(self, other: Self) -> Self {
        if other.value() > self.value() { other } else { self }
    }
}

impl Number for f64 {
    fn whole(value: i64) -> f64 {
        value as f64
    }

    fn size(size: &Size, value: &impl Fn(&Size) -> f64) -> f64 {
        value(size)
    }

    fn boundless() -> f64 {
        f64::INFINITY
    }

    fn plus(&self, other: &f64) -> f64 {
        self + other
    }

    fn times(&self, other: &f64) -> f64 {
        // Nothing, however often, is nothing.
        if *self == 0.0 || *other == 0.0 { 0.0 } else { self * other }
    }

    fn value(&self) -> f64 {
        *self
    }
}

/// A polynomial, with the number that represents it in comparisons.
#[derive(Clone, Debug)]
pub struct Symbolic {
    size: Size,
    value: f64,
}

impl Number for Symbolic {
    fn whole(value: i64) -> Symbolic {
        Symbolic { size: Size::constant(value), value: value as f64 }
    }

    fn size(size: &Size, value: &impl Fn(&Size) -> f64) -> Symbolic {
        Symbolic { size: size.clone(), value: value(size) }
    }

    fn boundless() -> Symbolic {
        Symbolic { size: Size::overflow(Size::default()), value: f64::INFINITY }
    }

    fn plus(&self, other: &Symbolic) -> Symbolic {
        Symbolic { size: &self.size + &other.size, value: self.value + other.value }
    }

    fn times(&self, other: &Symbolic) -> Symbolic {
        Symbolic { size: &self.size * &other.size, value: self.value.times(&other.value) }
    }

    fn value(&self) -> f64 {
        self.value
    }
}

/// The bytes of one buffer that cross between memory and caches.
#[derive(Clone, Debug, PartialEq)]
pub struct Moved<N> {
    /// Which buffer.
    pub buffer: BufferId,
    /// How many bytes.
    pub bytes: N,
}

/// The bytes of each buffer that a kernel moves, as polynomials. The elements touched at nominal
/// sizes decide what the caches hold. Scratch and constants are left out.
pub fn symbolic(program: &Program, kernel: &Kernel) -> Vec<Moved<Size>> {
    let accesses = Accesses::of(kernel);
    let moved = moved::<Symbolic>(program, &accesses, &cost::nominal, &Machine::NOMINAL);
    moved.into_iter().map(|m| Moved { buffer: m.buffer, bytes: m.bytes.size }).collect()
}

/// The bytes of each buffer that a kernel moves. Scratch and constants are left out.
pub fn moved<N: Number>(
    program: &Program,
    accesses: &Accesses<'_>,
    sizes: &impl Fn(&Size) -> f64,
    machine: &Machine,
) -> Vec<Moved<N>> {
    let mut order: Vec<usize> = (0..accesses.list.len()).collect();
    order.sort_by_key(|n| accesses.list[*n].buffer);
    let mut prints = Footprints { program, accesses, sizes, machine, order, reach: SecondaryMap::new() };
    for scope in accesses.scopes.values() {
        for (index, extent) in scope.dims {
            let most = prints.most(extent);
            prints.reach[*index] = Some(most);
        }
    }
    let mut moved = prints.kernel();
    moved.retain(|m| !matches!(program.buffers[m.buffer].role, Role::Scratch | Role::Constant(_)));
    moved
}

struct Footprints<'a, 'k, N: Clone, S> {
    program: &'a Program,
    accesses: &'a Accesses<'k>,
    sizes: &'a S,
    machine: &'a Machine,
    /// The accesses by buffer.
    order: Vec<usize>,
    /// How often each index's loop runs at most.
    reach: SecondaryMap<IndexId, Option<N>>,
}

/// The elements that an access touches on one axis.
#[derive(Clone)]
struct Interval<N> {
    /// The least subscript, and one past the greatest.
    range: (N, N),
    /// How many elements between, at most.
    count: N,
}

/// The elements that neighbouring accesses to one buffer touch.
struct Group<'k, N> {
    access: Access<'k>,
    intervals: Vec<Interval<N>>,
    /// An upper bound on the number of elements: on a diagonal, fewer than lie between the
    /// subscripts.
    places: N,
}

impl<'k, N: Number, S: Fn(&Size) -> f64> Footprints<'_, 'k, N, S> {
    /// The bytes that the kernel moves: the maximum over blocks that could run together, and the
    /// sum over those that wait for each other.
    fn kernel(&self) -> Vec<Moved<N>> {
        let body = ScopeId::from_u32(0);
        let mut stages: Vec<Vec<Moved<N>>> = vec![self.footprint(0..self.accesses.list.len(), 0, Some(body))];
        for (id, scope) in self.accesses.inside(body) {
            while stages.len() <= scope.stage {
                stages.push(vec![]);
            }
            join(&mut stages[scope.stage], self.crossing(id), N::greatest);
        }
        let mut all = vec![];
        for stage in stages {
            join(&mut all, stage, |a, b| a.plus(&b));
        }
        all
    }

    /// The bytes that one entry of a block moves.
    fn crossing(&self, id: ScopeId) -> Vec<Moved<N>> {
        let scope = &self.accesses.scopes[id];
        let mut outer = self.footprint(scope.accesses.clone(), scope.place, None);
        let multiplies = |(_, inner): (ScopeId, &Scope<'k>)| inner.kind == ScopeKind::Free;
        if scope.kind == ScopeKind::Free || self.fits(&outer) || self.accesses.inside(id).any(multiplies) {
            return outer;
        }
        let mut entries = N::whole(1);
        for (level, (index, _)) in scope.dims.iter().enumerate() {
            let inner = self.footprint(scope.accesses.clone(), scope.place + level + 1, None);
            if self.fits(&inner) {
                return repeat(outer, &entries);
            }
            let runs = self.reach(*index);
            let known = if runs.value().is_finite() { runs } else { N::whole(cost::NOMINAL as i64) };
            entries = entries.times(&known);
            outer = inner;
        }
        repeat(self.apart(id, scope), &entries)
    }

    /// The bytes that one iteration of a block moves if they are more than a cache holds.
    fn apart(&self, id: ScopeId, scope: &Scope<'k>) -> Vec<Moved<N>> {
        let mut all = self.footprint(scope.accesses.clone(), scope.place + scope.dims.len(), Some(id));
        for (inner, _) in self.accesses.inside(id) {
            join(&mut all, self.crossing(inner), |a, b| a.plus(&b));
        }
        all
    }

    fn fits(&self, footprint: &[Moved<N>]) -> bool {
        footprint.iter().map(|m| m.bytes.value()).sum::<f64>() <= self.machine.cache
    }

    /// The bytes by buffer that accesses touch while the indices with fewer than `fixed` others
    /// around them keep their values; for one block alone, if one is given.
    fn footprint(&self, among: Range<usize>, fixed: usize, only: Option<ScopeId>) -> Vec<Moved<N>> {
        let mut all: Vec<Moved<N>> = vec![];
        let mut groups: Vec<Group<'k, N>> = vec![];
        for n in &self.order {
            let access = self.accesses.list[*n];
            if !among.contains(n) || only.is_some_and(|scope| scope != access.scope) {
                continue;
            }
            if groups.first().is_some_and(|group| group.access.buffer != access.buffer) {
                all.push(self.total(&mut groups));
            }
            let intervals: Vec<Interval<N>> =
                (0..access.at.len()).map(|axis| self.interval(&access, axis, fixed)).collect();
            let beside = |group: &&mut Group<'k, N>| self.side_by_side(&group.access, &access, fixed);
            let places = self.places(&access, fixed);
            match groups.iter_mut().find(beside) {
                Some(group) => unite(group, intervals, &places),
                None => groups.push(Group { access, intervals, places }),
            }
        }
        if !groups.is_empty() {
            all.push(self.total(&mut groups));
        }
        all
    }

    /// The bytes that groups of accesses of one buffer touch.
    fn total(&self, groups: &mut Vec<Group<'k, N>>) -> Moved<N> {
        let buffer = groups[0].access.buffer;
        let ir::nest::Buffer { dtype, shape, .. } = &self.program.buffers[buffer];
        let width = i64::try_from(dtype.bytes()).unwrap_or(0);
        let product = |lengths: &mut dyn Iterator<Item = N>| lengths.fold(N::whole(1), |a, b| a.times(&b));
        let mut sum: Option<N> = None;
        // Memory is transferred in lines, so an element without neighbours costs a whole line.
        let line = self.machine.line / width.max(1);
        for group in groups.drain(..) {
            let seen = group.access.view.unwrap_or(shape);
            let most = group.places.times(&N::whole(line));
            let lengths = group.intervals.into_iter().zip(seen).enumerate().map(|(axis, (interval, length))| {
                let line = if axis + 1 == seen.len() { line } else { 1 };
                let (low, high) = interval.range;
                let range = high.plus(&low.times(&N::whole(-1)));
                let reached = range.greatest(N::whole(0)).least(interval.count.times(&N::whole(line)));
                N::size(length, self.sizes).least(reached)
            });
            let elements = product(&mut lengths.collect::<Vec<_>>().into_iter()).least(most);
            sum = Some(sum.map_or_else(|| elements.clone(), |sum| sum.plus(&elements)));
        }
        let whole = product(&mut shape.iter().map(|n| N::size(n, self.sizes)));
        let elements = sum.map_or_else(|| N::whole(0), |sum| whole.least(sum));
        Moved { buffer, bytes: elements.times(&N::whole(width)) }
    }

    /// Whether two accesses to one buffer differ only by constants in the indices that keep their
    /// values.
    fn side_by_side(&self, a: &Access<'k>, b: &Access<'k>, fixed: usize) -> bool {
        let stays = |index: &IndexId| self.accesses.indices[*index].is_some_and(|bound| bound.place < fixed);
        a.view == b.view
            && a.at.iter().zip(b.at).all(|(a, b)| match (a, b) {
                (Subscript::Affine(a), Subscript::Affine(b)) => {
                    let terms = |affine: &'k Affine<IndexId>| affine.terms().iter().filter(|(i, _)| stays(i));
                    terms(a).eq(terms(b))
                }
                (Subscript::Value(a), Subscript::Value(b)) => a == b,
                _ => false,
            })
    }

    /// The range of a subscript while the first indices keep their values, which count as 0.
    fn interval(&self, access: &Access<'k>, axis: usize, fixed: usize) -> Interval<N> {
        let shape = access.view.unwrap_or(&self.program.buffers[access.buffer].shape);
        match &access.at[axis] {
            Subscript::Affine(a) => {
                let constant = N::size(a.constant_part(), self.sizes);
                let mut interval =
                    Interval { range: (constant.clone(), constant.plus(&N::whole(1))), count: N::whole(1) };
                for (index, coefficient) in a.terms() {
                    let Some(bound) = self.accesses.indices[*index] else { continue };
                    // An index that keeps its value does not widen the range.
                    if bound.place < fixed {
                        continue;
                    }
                    let runs = self.reach(*index);
                    let coefficient = N::size(coefficient, self.sizes);
                    let last = coefficient.times(&runs.plus(&N::whole(-1)));
                    let moved = if coefficient.value() < 0.0 { &mut interval.range.0 } else { &mut interval.range.1 };
                    *moved = moved.plus(&last);
                    interval.count = interval.count.times(&runs);
                }
                interval
            }
            Subscript::Value(v) => {
                let hangs_on = self.accesses.hangs_on[*v];
                let moving = self.accesses.around(access.scope).flat_map(|scope| {
                    (scope.place..).zip(scope.dims).filter(|(place, _)| *place >= fixed && hangs_on.contains(*place))
                });
                let count = moving.fold(N::whole(1), |count, (_, (index, _))| count.times(&self.reach(*index)));
                Interval { range: (N::whole(0), N::size(&shape[axis], self.sizes)), count }
            }
        }
    }

    /// An upper bound on the number of elements that an access visits while the first indices keep
    /// their values: the number of times that the others change.
    fn places(&self, access: &Access<'k>, fixed: usize) -> N {
        let of = |subscript: &Subscript, index: IndexId, place: usize| match subscript {
            Subscript::Affine(a) => !a.coefficient(index).is_zero(),
            Subscript::Value(v) => self.accesses.hangs_on[*v].contains(place),
        };
        let around = self.accesses.around(access.scope).flat_map(|scope| (scope.place..).zip(scope.dims));
        let moving = around.filter(|(place, (i, _))| *place >= fixed && access.at.iter().any(|s| of(s, *i, *place)));
        moving.fold(N::whole(1), |product, (_, (index, _))| product.times(&self.reach(*index)))
    }

    fn reach(&self, index: IndexId) -> N {
        self.reach[index].clone().unwrap_or_else(|| N::whole(1))
    }

    /// How far an extent goes at most.
    fn most(&self, extent: &Extent) -> N {
        let Extent::Affine(a) = extent else { return N::boundless() };
        let terms = a.terms().iter().fold(N::size(a.constant_part(), self.sizes), |sum, (index, coefficient)| {
            let coefficient = N::size(coefficient, self.sizes);
            match coefficient.value() > 0.0 {
                true => sum.plus(&coefficient.times(&self.reach(*index).plus(&N::whole(-1)))),
                false => sum,
            }
        });
        terms.greatest(N::whole(0))
    }
}

/// Adds the elements of another access to a group.
fn unite<N: Number>(group: &mut Group<'_, N>, intervals: Vec<Interval<N>>, places: &N) {
    group.places = group.places.plus(places);
    for (one, other) in group.intervals.iter_mut().zip(intervals) {
        let same = one.range.0.value() == other.range.0.value() && one.range.1.value() == other.range.1.value();
        one.count = match same {
            true => one.count.clone().greatest(other.count),
            false => one.count.plus(&other.count),
        };
        one.range.0 = one.range.0.clone().least(other.range.0);
        one.range.1 = one.range.1.clone().greatest(other.range.1);
    }
}

/// Adds moved bytes to a list sorted by buffer, combining those of buffers that are in both with
/// `rule`.
fn join<N: Number>(all: &mut Vec<Moved<N>>, more: Vec<Moved<N>>, rule: impl Fn(N, N) -> N) {
    for Moved { buffer, bytes } in more {
        match all.binary_search_by_key(&buffer, |m| m.buffer) {
            Ok(n) => all[n].bytes = rule(all[n].bytes.clone(), bytes),
            Err(n) => all.insert(n, Moved { buffer, bytes }),
        }
    }
}

fn repeat<N: Number>(moved: Vec<Moved<N>>, times: &N) -> Vec<Moved<N>> {
    moved.into_iter().map(|m| Moved { bytes: m.bytes.times(times), ..m }).collect()
}
