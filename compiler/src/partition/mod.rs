//! How the arrays of a function may be cut into blocks that are computed apart from each other.
//!
//! [`Partition`] says so for each axis, in the terms of the source, from the accesses of the
//! checked program. [`Partition::plan`] lists the programs that compute the function for a cut, and
//! [`Partition::derive`] makes them.
//!
//! ```text
//! axes      the axes that have to be cut together, and what stands in the way
//! plan      the stages of a cut: partial results at the cuts of the canonical order, and joins
//! regions   which part of each axis a block takes
//! derive    the program of a stage
//! summary   all of this in words of the source
//! ```

mod axes;
mod derive;
mod plan;
mod regions;
mod summary;
#[cfg(test)]
mod tests;

use cranelift_entity::EntityRef;
use ir::checked::{Checked, Expr, IndexId, Kind};
use ir::{Origin, ReduceOp, Size};

use axes::{Axes, Node};

pub use derive::{Derived, Input};
pub use plan::{Join, Output, Plan, Stage, Unit, Value};
pub use regions::Region;
pub use summary::{AxisSummary, CutSummary, JoinSummary};

/// How the arrays of a function may be cut.
pub struct Partition {
    /// The groups of axes that are cut together.
    pub cuts: Vec<Cut>,
    axes: Axes,
}

/// Axes that are cut together.
#[derive(Clone, Debug)]
pub struct Cut {
    /// The group, as plans name it.
    pub group: Node,
    /// The axes of parameters: the numbers of the parameter and of its axis.
    pub params: Vec<(usize, usize)>,
    /// The axes of results, likewise.
    pub results: Vec<(usize, usize)>,
    /// How far a block reads beyond its ends in each of `params`, if it does.
    pub reach: Vec<(Size, Size)>,
    /// The reductions over it.
    pub joins: Vec<Joined>,
    /// Why it cannot be cut.
    pub refusal: Option<Refusal>,
}

/// A reduction over an axis that can be cut.
#[derive(Clone, Debug)]
pub struct Joined {
    /// Its text.
    pub what: String,
    /// Its kind.
    pub kind: Reduced,
    /// The elements of a chunk of its order; any cut will do if there is none.
    pub chunk: Option<Size>,
}

/// The kind of a reduction over a cut axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduced {
    /// To a value, or one for each index around it.
    Values,
    /// The prefixes of a scan, which goes on from one block to the next.
    Prefixes,
    /// By key, to tables.
    Tables,
    /// A sum of products.
    Products,
}

impl Reduced {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Reduced::Values => "reduced",
            Reduced::Prefixes => "scanned",
            Reduced::Tables => "keyed",
            Reduced::Products => "contracted",
        }
    }
}

/// Why axes cannot be cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason, in the terms of the source.
    pub message: String,
    /// A change that helps.
    pub help: String,
    /// The expression.
    pub origin: Origin,
}

impl Partition {
    /// Finds how the arrays of a function may be cut. `source` is its text.
    pub fn new(checked: &Checked, source: &str) -> Partition {
        let axes = Axes::new(checked, &|expr| excerpt(source, expr));
        let mut cuts: Vec<Cut> = vec![];
        let params =
            axes.params.iter().enumerate().flat_map(|(p, nodes)| nodes.iter().enumerate().map(move |n| (p, n)));
        let params: Vec<(usize, usize, Node)> = params.map(|(p, (axis, node))| (p, axis, axes.group(*node))).collect();
        let results = checked.results.iter().enumerate();
        let results = results.flat_map(|(r, (_, id))| axes.arrays[*id].iter().enumerate().map(move |n| (r, n)));
        let results: Vec<(usize, usize, Node)> =
            results.map(|(r, (axis, node))| (r, axis, axes.group(*node))).collect();
        for (_, _, group) in params.iter().chain(&results) {
            if cuts.iter().any(|cut| cut.group == *group) {
                continue;
            }
            let of = |all: &[(usize, usize, Node)]| {
                all.iter().filter(|(_, _, other)| other == group).map(|(array, axis, _)| (*array, *axis)).collect()
            };
            let mut cut = Cut {
                group: *group,
                params: of(&params),
                results: of(&results),
                reach: vec![],
                joins: vec![],
                refusal: None,
            };
            if let Err(refusal) = look(checked, &axes, &mut cut, source) {
                cut.refusal = Some(refusal);
            }
            cuts.push(cut);
        }
        Partition { cuts, axes }
    }

    /// The programs that compute the function where these groups of axes are cut.
    ///
    /// # Errors
    ///
    /// The reason why one of them cannot be cut, or not together with the others.
    pub fn plan(&self, checked: &Checked, source: &str, cut: &[Node]) -> Result<Plan, Refusal> {
        plan::plan(checked, &self.axes, cut, &|id| excerpt(source, &checked.exprs[id]))
    }

    /// The program of a stage.
    ///
    /// # Errors
    ///
    /// The reason why there is none.
    pub fn derive(&self, checked: &Checked, plan: &Plan, stage: &Stage) -> Result<Derived, Refusal> {
        derive::derive(checked, &self.axes, plan, stage)
    }

    /// The group of each axis of a result, as plans name it.
    pub fn of_result(&self, checked: &Checked, number: usize) -> Vec<Node> {
        self.axes.arrays[checked.results[number].1].iter().map(|node| self.axes.group(*node)).collect()
    }

    /// The length of an index, if it depends on no other index and no data.
    pub fn length(&self, index: IndexId) -> Option<&Size> {
        self.axes.length(index.index())
    }

    /// The group of each axis of a value.
    pub fn of_value(&self, value: &Value) -> Vec<Node> {
        value.free.iter().map(|index| self.axes.of(*index)).collect()
    }
}

/// Finds how far blocks reach and which reductions there are, with this cut alone.
fn look(checked: &Checked, axes: &Axes, cut: &mut Cut, source: &str) -> Result<(), Refusal> {
    let plan = plan::plan(checked, axes, &[cut.group], &|id| excerpt(source, &checked.exprs[id]))?;
    cut.reach = vec![(Size::default(), Size::default()); cut.params.len()];
    for stage in &plan.stages {
        let regions = regions::regions(checked, axes, &plan, stage)?;
        for ((param, axis), reach) in cut.params.iter().zip(&mut cut.reach) {
            if let Some(region) = regions.of.get(&axes.params[*param][*axis]) {
                let region = &regions.all[*region];
                if (&region.lo - &reach.0).as_constant().is_none_or(|n| n < 0) {
                    reach.0 = region.lo.clone();
                }
                if (&region.hi - &reach.1).as_constant().is_none_or(|n| n > 0) {
                    reach.1 = region.hi.clone();
                }
            }
        }
    }
    for value in &plan.values {
        let kind = match &checked.exprs[value.expr].kind {
            Kind::Reduce { prefix: Some(_), .. } => Reduced::Prefixes,
            Kind::Reduce { by, .. } if !by.is_empty() => Reduced::Tables,
            Kind::Reduce { op: ReduceOp::Monoid(_) | ReduceOp::Position(_), .. } => Reduced::Values,
            _ => Reduced::Products,
        };
        let what = excerpt(source, &checked.exprs[value.expr]);
        let chunk = value.unit.as_ref().map(|unit| unit.chunk.clone());
        let joined = Joined { what, kind, chunk };
        if !cut.joins.iter().any(|other| (&other.what, other.kind) == (&joined.what, joined.kind)) {
            cut.joins.push(joined);
        }
    }
    Ok(())
}

/// The text of an expression, on one line.
fn excerpt(source: &str, expr: &Expr) -> String {
    let text = source.get(expr.origin.start as usize..expr.origin.end as usize).unwrap_or_default();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
