//! The number of elements of each buffer that a kernel loads and stores, and of scalar operations
//! that it executes, computed without running it. Counts are polynomials in the size names here,
//! and numbers for the sizes of a call in `predict`. Loads and stores are those that the
//! interpreter of loop nests counts; [`super::work::operations`] defines what counts as an
//! operation.
//!
//! A load in a nest of loops runs as often as the product of the extents says. If an extent is an
//! affine expression of one outer index (`j < i + 1`), the sum has a closed form. Statements under
//! an `If` are counted as if they always ran, and the count is then an upper bound. If an extent
//! comes from data, there is no polynomial.

use std::collections::BTreeMap;

use ir::nest::{BufferId, Extent, IndexId, Kernel, Program, Repeat};
use ir::{Affine, Size, SymbolId};

use super::accesses::{AccessKind, Accesses, ScopeId};
use super::operations;

pub use super::predict::{predict, predict_kernel};

/// A number of loads, stores or operations, exact or an upper bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count<N> {
    /// The number, or an upper bound of it; `None` if there is no telling.
    pub elements: Option<N>,
    /// Whether the number is exact.
    pub exact: bool,
}

/// Loads and stores of a buffer, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic<N> {
    /// How many elements are loaded.
    pub loads: Count<N>,
    /// How many elements are stored.
    pub stores: Count<N>,
}

/// The traffic of a kernel, for each buffer that its text mentions.
pub type KernelTraffic<N> = BTreeMap<BufferId, Traffic<N>>;

/// The counts of a kernel, for one run or for all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts<N> {
    /// Its loads and stores.
    pub traffic: KernelTraffic<N>,
    /// The scalar operations that it executes.
    pub operations: Count<N>,
}

impl Counts<u64> {
    /// The counts of all iterations of a loop over kernels. An exit makes them bounds.
    pub(super) fn repeated(mut self, repeat: &Repeat, symbols: &impl Fn(SymbolId) -> i64) -> Counts<u64> {
        let runs = repeat.trips.as_ref().map(|trips| u64::try_from(trips.wrapping(symbols)).unwrap_or(0));
        let ends_early = repeat.conditions().next().is_some();
        let counts = self.traffic.values_mut().flat_map(|traffic| [&mut traffic.loads, &mut traffic.stores]);
        for count in counts.chain([&mut self.operations]) {
            *count = if runs == Some(0) || count.elements == Some(0) {
                Count { elements: Some(0), exact: runs == Some(0) || count.exact }
            } else {
                let elements = count.elements.zip(runs).and_then(|(n, runs)| n.checked_mul(runs));
                Count { elements, exact: count.exact && elements.is_some() && !ends_early }
            };
        }
        self
    }
}

impl Count<Size> {
    /// An exact count.
    pub(super) fn exactly(elements: Size) -> Count<Size> {
        Count { elements: Some(elements), exact: true }
    }

    /// The count of an event that happens `often` times for each of these.
    pub(super) fn times(&self, often: u64) -> Count<Size> {
        let often = i64::try_from(often).map_or_else(|_| Size::overflow(Size::default()), Size::constant);
        Count { elements: self.elements.as_ref().map(|n| n * &often), exact: self.exact }
    }

    /// The sum.
    pub fn plus(&self, other: &Count<Size>) -> Count<Size> {
        let sum = self.elements.as_ref().zip(other.elements.as_ref());
        Count { elements: sum.map(|(a, b)| a + b), exact: self.exact && other.exact }
    }
}

/// The counts of one run of a kernel as polynomials. They hold for all sizes at which no extent has a negative
/// maximum.
pub fn polynomials(program: &Program, kernel: &Kernel) -> Counts<Size> {
    let accesses = Accesses::of(kernel);
    let trips: Vec<Count<Size>> = accesses.scopes.keys().map(|scope| trips(&accesses, scope, &[])).collect();
    let mut traffic = KernelTraffic::new();
    for access in &accesses.list {
        let nothing = || Count::exactly(Size::default());
        let entry = traffic.entry(access.buffer).or_insert_with(|| Traffic { loads: nothing(), stores: nothing() });
        let count = match access.kind {
            AccessKind::Load => &mut entry.loads,
            AccessKind::Store => &mut entry.stores,
        };
        *count = count.plus(&trips[access.scope.as_u32() as usize]);
    }
    Counts { traffic, operations: operations::of(program, kernel, &accesses) }
}

/// How often a block runs in total, where loops over the indices in `apart` count as one iteration.
pub(super) fn trips(accesses: &Accesses<'_>, scope: ScopeId, apart: &[IndexId]) -> Count<Size> {
    let dims: Vec<&(IndexId, Extent)> =
        accesses.around(scope).flat_map(|scope| scope.dims.iter().rev()).filter(|(i, _)| !apart.contains(i)).collect();
    let exactly = closed_form(accesses, &dims);
    let exact = exactly.is_some() && !accesses.scopes[scope].guarded;
    Count { elements: exactly.or_else(|| bound(accesses, &dims)), exact }
}

/// The sum of 1 over all indices, if it is a simple polynomial: from the inside out, with a summand
/// that stays affine.
fn closed_form(accesses: &Accesses<'_>, dims: &[&(IndexId, Extent)]) -> Option<Size> {
    let mut summand: Affine<IndexId> = Affine::constant(1);
    for (index, extent) in dims {
        let Extent::Affine(extent) = extent else { return None };
        if extent.as_size().is_none() && !never_negative(accesses, extent) {
            return None;
        }
        let slope = summand.coefficient(*index);
        if slope.is_zero() {
            summand = summand.mul(extent)?;
        } else {
            // sum of (base + slope * i) over i < n is base * n + slope * n (n - 1) / 2
            let n = extent.as_size()?;
            let base = summand.substitute(&mut |i| if i == *index { Affine::constant(0) } else { Affine::index(i) });
            let triangle = (&(n * n) - n).floor_div(&Size::constant(2));
            summand = base.scale(n).add(&Affine::size(&slope * &triangle));
        }
    }
    summand.as_size().cloned()
}

/// Whether an extent is 0 or more for all values of the outer indices, if sizes are.
fn never_negative(accesses: &Accesses<'_>, extent: &Affine<IndexId>) -> bool {
    let mut least = extent.constant_part().clone();
    for (index, slope) in extent.terms() {
        if slope.terms().iter().all(|(_, c)| *c >= 0) {
            continue;
        }
        // It is decreasing, so the last iteration has the least value.
        let Some(Extent::Affine(outer)) = accesses.indices[*index].map(|bound| bound.extent) else { return false };
        let Some(outer) = outer.as_size() else { return false };
        least = &least + &(slope * &(outer - &Size::constant(1)));
    }
    least.terms().iter().all(|(_, c)| *c >= 0)
}

/// An upper bound on how often a block runs: every extent at its greatest.
fn bound(accesses: &Accesses<'_>, dims: &[&(IndexId, Extent)]) -> Option<Size> {
    dims.iter().map(|(_, extent)| most(accesses, extent)).try_fold(Size::constant(1), |product, n| Some(&product * &n?))
}

fn most(accesses: &Accesses<'_>, extent: &Extent) -> Option<Size> {
    let Extent::Affine(extent) = extent else { return None };
    let mut greatest = extent.constant_part().clone();
    for (index, slope) in extent.terms() {
        let signs = |positive: bool| slope.terms().iter().all(|(_, c)| (*c > 0) == positive);
        if signs(true) {
            let outer = most(accesses, accesses.indices[*index]?.extent)?;
            greatest = &greatest + &(slope * &(&outer - &Size::constant(1)));
        } else if !signs(false) {
            return None;
        }
    }
    Some(greatest)
}
