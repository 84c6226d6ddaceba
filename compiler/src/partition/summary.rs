//! A partition in words of the source, as data.

use std::fmt;

use ir::checked::Checked;
use ir::{Size, SymbolId};

use super::{Cut, Partition, Reduced};

/// Axes that are cut together, and what that takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutSummary {
    /// The axes of parameters.
    pub params: Vec<AxisSummary>,
    /// The axes of results.
    pub results: Vec<AxisSummary>,
    /// The reductions over it.
    pub joins: Vec<JoinSummary>,
    /// If it cannot be cut: why, and what to change.
    pub refusal: Option<(String, String)>,
}

/// An axis of a parameter or a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AxisSummary {
    /// The number of the parameter or result.
    pub number: usize,
    /// Its name.
    pub name: String,
    /// The axis, from 0.
    pub axis: usize,
    /// From where to where a block reads it, relative to the block's first and last element, if
    /// that is not from the one to the other.
    pub reach: Option<(String, String)>,
}

/// A reduction over an axis that is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinSummary {
    /// Its text.
    pub what: String,
    /// Its kind.
    pub kind: Reduced,
    /// The elements between two cuts, or a divisor of them; any cut will do if there is none.
    pub chunk: Option<String>,
}

impl CutSummary {
    /// The ways in which it may be cut, in one word each; none if it cannot be cut.
    pub fn ways(&self) -> Vec<&'static str> {
        let mut ways: Vec<&'static str> = vec![];
        if self.refusal.is_none() {
            ways.extend(self.params.iter().any(|axis| axis.reach.is_some()).then_some("stencil"));
            for join in &self.joins {
                if !ways.contains(&join.kind.name()) {
                    ways.push(join.kind.name());
                }
            }
            if ways.is_empty() {
                ways.push("mapped");
            }
        }
        ways
    }
}

impl Partition {
    /// The partition in words.
    pub fn summary(&self, checked: &Checked) -> Vec<CutSummary> {
        self.cuts.iter().map(|cut| summary(checked, cut)).collect()
    }
}

fn summary(checked: &Checked, cut: &Cut) -> CutSummary {
    let text = |size: &Size| size.display(&|s: SymbolId| checked.symbols[s].name.as_str()).to_string();
    let reach = |place: usize| {
        let (lo, hi) = cut.reach.get(place)?;
        (!lo.is_zero() || !hi.is_zero()).then(|| (text(lo), text(hi)))
    };
    let params = cut.params.iter().enumerate().map(|(place, (number, axis))| AxisSummary {
        number: *number,
        name: checked.params[*number].name.clone(),
        axis: *axis,
        reach: reach(place),
    });
    let results = cut.results.iter().map(|(number, axis)| AxisSummary {
        number: *number,
        name: checked.results[*number].0.clone(),
        axis: *axis,
        reach: None,
    });
    let joins = cut.joins.iter().map(|join| JoinSummary {
        what: join.what.clone(),
        kind: join.kind,
        chunk: join.chunk.as_ref().map(text),
    });
    CutSummary {
        params: params.collect(),
        results: results.collect(),
        joins: joins.collect(),
        refusal: cut.refusal.as_ref().map(|refusal| (refusal.message.clone(), refusal.help.clone())),
    }
}

impl fmt::Display for CutSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes = self.params.iter().chain(&self.results);
        let axes: Vec<String> = axes.map(|axis| format!("axis {} of `{}`", axis.axis, axis.name)).collect();
        write!(f, "{}: ", axes.join(", "))?;
        if let Some((why, _)) = &self.refusal {
            return write!(f, "whole, because {why}");
        }
        let mut words = vec![];
        for axis in &self.params {
            if let Some((lo, hi)) = &axis.reach {
                words.push(format!("stencil that reads `{}` from {} to {}", axis.name, signed(lo), signed(hi)));
            }
        }
        for join in &self.joins {
            let chunk = join.chunk.as_ref().map_or(String::new(), |chunk| format!(" in chunks of {chunk}"));
            words.push(format!("{} by `{}`{chunk}", join.kind.name(), join.what));
        }
        if words.is_empty() {
            words.push("mapped".to_owned());
        }
        f.write_str(&words.join(", "))
    }
}

/// A distance with its sign.
fn signed(distance: &str) -> String {
    if distance.starts_with('-') { distance.to_owned() } else { format!("+{distance}") }
}
