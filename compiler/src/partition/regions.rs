//! Which part of each axis a block of a stage takes.
//!
//! The results of a stage are cut at the ends of the block. From them, a sweep from users to
//! operands finds how far each other axis reaches beyond these ends, with the distances of all
//! accesses added up.

use std::collections::BTreeMap;

use cranelift_entity::{EntityRef, SecondaryMap};
use ir::Size;
use ir::checked::{Checked, Expr, ExprId, IndexId, Kind};

use super::Refusal;
use super::axes::{Axes, Node, Read, WHOLE};
use super::plan::{Output, Plan, Stage};

/// A part of an axis: from `lo` after the beginning of the block to `hi` after its end, as far as
/// the axis goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Region {
    /// The group of axes whose block it is.
    pub group: Node,
    /// Where it begins, relative to the beginning of the block.
    pub lo: Size,
    /// Where it ends, relative to the end of the block.
    pub hi: Size,
    /// The length of the whole axis.
    pub length: Size,
}

impl Region {
    /// Its beginning and its end for a block, when sizes have these values.
    pub fn at(&self, (begin, end): (i64, i64), number: &impl Fn(&Size) -> i64) -> (i64, i64) {
        let length = number(&self.length).max(0);
        let start = begin.saturating_add(number(&self.lo)).clamp(0, length);
        // The last block goes to the end of every axis.
        let stop = if end == i64::MAX { length } else { end.saturating_add(number(&self.hi)).clamp(0, length) };
        (start, stop.max(start))
    }
}

/// The parts that a stage takes.
pub(super) struct Regions {
    /// The expressions that it computes.
    pub reached: SecondaryMap<ExprId, bool>,
    /// The values among them that are computed by stages before it.
    pub given: BTreeMap<ExprId, usize>,
    /// The number of the region of each node that is cut.
    pub of: BTreeMap<Node, usize>,
    /// The same for the axes of values that are given.
    pub of_given: BTreeMap<(usize, usize), usize>,
    /// All regions.
    pub all: Vec<Region>,
}

/// A distance from the beginning and one from the end of a block.
type Reach = (Size, Size);

struct Sweep<'a> {
    checked: &'a Checked,
    axes: &'a Axes,
    grid: &'a [Node],
    reach: BTreeMap<Node, Reach>,
    reach_given: BTreeMap<(usize, usize), Reach>,
}

/// Finds the parts for a stage.
pub(super) fn regions(checked: &Checked, axes: &Axes, plan: &Plan, stage: &Stage) -> Result<Regions, Refusal> {
    let mut sweep = Sweep { checked, axes, grid: &stage.grid, reach: BTreeMap::new(), reach_given: BTreeMap::new() };
    let mut reached: SecondaryMap<ExprId, bool> = SecondaryMap::new();
    let mut given: BTreeMap<ExprId, usize> = plan.values.iter().enumerate().map(|(k, v)| (v.expr, k)).collect();
    let none = (Size::default(), Size::default());
    let mut wanted = vec![];
    for output in &stage.outputs {
        let (root, nodes): (ExprId, Vec<Node>) = match output {
            Output::Result(number) => {
                let root = checked.results[*number].1;
                wanted.extend(axes.arrays[root].clone());
                (root, axes.arrays[root].clone())
            }
            Output::Value(number) => {
                let value = &plan.values[*number];
                given.remove(&value.expr);
                let (Kind::Reduce { over, .. } | Kind::Contract { over, .. }) = &checked.exprs[value.expr].kind else {
                    continue;
                };
                (value.expr, value.free.iter().chain(over).map(|index| index.index()).collect())
            }
        };
        reached[root] = true;
        for node in nodes {
            sweep.widen(node, none.clone(), &checked.exprs[root])?;
        }
    }
    for (id, expr) in checked.exprs.iter().rev() {
        if reached[id] {
            match given.get(&id) {
                Some(value) => sweep.given(*value, &plan.values[*value].free, expr)?,
                None => {
                    checked.for_each_operand(&expr.kind, |operand| reached[operand] = true);
                    sweep.expression(expr, id)?;
                }
            }
        }
    }
    given.retain(|id, _| reached[*id]);
    let mut regions = Regions { reached, given, of: BTreeMap::new(), of_given: BTreeMap::new(), all: vec![] };
    let mut numbers: BTreeMap<Region, usize> = BTreeMap::new();
    let mut number = |region: Region, all: &mut Vec<Region>| {
        *numbers.entry(region.clone()).or_insert_with(|| {
            all.push(region);
            all.len() - 1
        })
    };
    for (node, reach) in &sweep.reach {
        let length = axes.length(*node).cloned().unwrap_or_default();
        let region = Region { group: axes.group(*node), lo: reach.0.clone(), hi: reach.1.clone(), length };
        let number = number(region, &mut regions.all);
        regions.of.insert(*node, number);
    }
    for ((value, axis), reach) in &sweep.reach_given {
        let index = plan.values[*value].free[*axis];
        let length = axes.length(index.index()).cloned().unwrap_or_default();
        let region = Region { group: axes.of(index), lo: reach.0.clone(), hi: reach.1.clone(), length };
        let number = number(region, &mut regions.all);
        regions.of_given.insert((*value, *axis), number);
    }
    for node in wanted.into_iter().filter(|node| stage.grid.contains(&axes.group(*node))) {
        let length = axes.length(node).cloned().unwrap_or_default();
        let (lo, hi) = none.clone();
        number(Region { group: axes.group(node), lo, hi, length }, &mut regions.all);
    }
    sweep.hold_together(&regions)?;
    Ok(regions)
}

impl Sweep<'_> {
    fn refused(expr: &Expr, message: &str) -> Refusal {
        Refusal { message: message.to_owned(), help: WHOLE.to_owned(), origin: expr.origin }
    }

    /// Makes the part of an axis reach as far as this.
    fn widen(&mut self, node: Node, reach: Reach, expr: &Expr) -> Result<(), Refusal> {
        if !self.grid.contains(&self.axes.group(node)) {
            return Ok(());
        }
        if self.axes.length(node).is_none() {
            return Err(Sweep::refused(expr, "it ends where another index or data says"));
        }
        let known = self.reach.get(&node).cloned();
        self.reach.insert(node, hull(known, reach, expr)?);
        Ok(())
    }

    fn of(&self, index: IndexId, expr: &Expr) -> Result<Reach, Refusal> {
        let reach = self.reach.get(&index.index()).cloned();
        reach.ok_or_else(|| Sweep::refused(expr, "an index of it stands outside of all results"))
    }

    /// A value that earlier stages compute.
    fn given(&mut self, value: usize, free: &[IndexId], expr: &Expr) -> Result<(), Refusal> {
        for (axis, index) in free.iter().enumerate() {
            if self.grid.contains(&self.axes.of(*index)) {
                let reach = self.of(*index, expr)?;
                let known = self.reach_given.get(&(value, axis)).cloned();
                self.reach_given.insert((value, axis), hull(known, reach, expr)?);
            }
        }
        Ok(())
    }

    fn expression(&mut self, expr: &Expr, id: ExprId) -> Result<(), Refusal> {
        match &expr.kind {
            Kind::Access { array, at } => {
                for (axis, subscript) in at.iter().enumerate() {
                    let node = self.axes.arrays[*array][axis];
                    if !self.grid.contains(&self.axes.group(node)) {
                        continue;
                    }
                    if let Read::Along { index, lo, hi } = self.axes.read(self.checked, subscript) {
                        let (from, to) = self.of(index, expr)?;
                        self.widen(node, (&from + &lo, &to + &hi), expr)?;
                    }
                }
            }
            Kind::Reshape(from) => {
                for node in self.axes.arrays[id].clone() {
                    let Some(reach) = self.reach.get(&node).cloned() else { continue };
                    let group = self.axes.group(node);
                    let source = self.axes.arrays[*from].iter().find(|other| self.axes.group(**other) == group);
                    if let Some(source) = source {
                        self.widen(*source, reach, expr)?;
                    }
                }
            }
            Kind::Loop { of, number, .. } => {
                for part in &self.checked.loops[*of].states[*number].needs {
                    let state = &self.checked.loops[*of].states[*part];
                    let nodes = self.axes.arrays[state.current].clone();
                    for (axis, node) in nodes.into_iter().enumerate() {
                        let none = (Size::default(), Size::default());
                        let reach = self.reach.get(&node).cloned().unwrap_or(none);
                        for value in [state.first, state.next] {
                            if let Some(other) = self.axes.arrays[value].get(axis) {
                                self.widen(*other, reach.clone(), expr)?;
                            }
                        }
                        self.widen(node, reach, expr)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Refuses arrays that have to be of one size and would not be.
    fn hold_together(&self, regions: &Regions) -> Result<(), Refusal> {
        let same = |a: Node, b: Node| regions.of.get(&a) == regions.of.get(&b);
        for (id, expr) in self.checked.exprs.iter().filter(|(id, _)| regions.reached[*id]) {
            let arrays = |id: ExprId| &self.axes.arrays[id];
            let fits = match &expr.kind {
                Kind::Loop { of, .. } => self.checked.loops[*of].states.iter().all(|state| {
                    let nodes = arrays(state.current).iter().enumerate();
                    let values = [state.first, state.next];
                    nodes.filter(|_| regions.reached[state.next]).all(|(axis, node)| {
                        values.iter().all(|v| arrays(*v).get(axis).is_none_or(|other| same(*node, *other)))
                    })
                }),
                Kind::Recurrence { recurrence, .. } => {
                    let known = &self.checked.recurrences[*recurrence];
                    known.independent.iter().all(|places| {
                        let node = |array: usize| known.equations[array].indices[places[array]].index();
                        let part = |node| {
                            regions.of.get(&node).map(|region| (&regions.all[*region].lo, &regions.all[*region].hi))
                        };
                        (0..places.len()).all(|array| part(node(array)) == part(node(0)))
                    })
                }
                Kind::Reshape(from) => arrays(id).iter().filter(|node| regions.of.contains_key(node)).all(|node| {
                    let group = self.axes.group(*node);
                    arrays(*from)
                        .iter()
                        .filter(|other| self.axes.group(**other) == group)
                        .all(|other| same(*node, *other))
                }),
                _ => true,
            };
            if !fits {
                return Err(Sweep::refused(expr, "it reaches further beyond a block with each step"));
            }
        }
        Ok(())
    }
}

/// The distances that include both.
fn hull(known: Option<Reach>, other: Reach, expr: &Expr) -> Result<Reach, Refusal> {
    let Some(known) = known else { return Ok(other) };
    let pick = |a: Size, b: Size, less: bool| match (&a - &b).as_constant() {
        Some(difference) => Ok(if (difference < 0) == less { a } else { b }),
        None => Err(Sweep::refused(expr, "it is read at several distances that sizes tell")),
    };
    Ok((pick(known.0, other.0, true)?, pick(known.1, other.1, false)?))
}
