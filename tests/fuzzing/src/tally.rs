//! The coverage of many cases: how often each construct, pass, refusal and change occurred, and
//! which engines ran.

use std::collections::BTreeMap;
use std::fmt;

use ir::choice::Policy;
use ir::decision::{FusionPass, Outcome, Reason};
use serde::{Deserialize, Serialize};

use crate::case::Drawn;
use crate::judge::Judged;

/// How often each of several things occurred, by name.
pub type Counts = BTreeMap<String, u64>;

/// The coverage of some cases.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Programs that were drawn.
    pub programs: u64,
    /// Calls that were held to their meaning.
    pub calls: u64,
    /// Programs with each construct of the language.
    pub constructs: Counts,
    /// Pairs of operations that each pass fused.
    pub fused: Counts,
    /// The pairs of operations refused for each reason.
    pub refused: Counts,
    /// How the calls ended.
    pub outcomes: Counts,
    /// Programs on each engine.
    pub engines: Counts,
    /// Programs that were changed in each way.
    pub changes: Counts,
}

impl Tally {
    /// The coverage of one program.
    pub fn of(drawn: &Drawn, judged: &Judged) -> Tally {
        let mut tally = Tally { programs: 1, calls: judged.outcomes.len() as u64, ..Tally::default() };
        let mut add = |counts: fn(&mut Tally) -> &mut Counts, name: &str| {
            *counts(&mut tally).entry(name.to_owned()).or_default() += 1;
        };
        drawn.program.constructs.iter().for_each(|construct| add(|t| &mut t.constructs, construct));
        judged.outcomes.iter().for_each(|outcome| add(|t| &mut t.outcomes, outcome));
        add(|t| &mut t.engines, &drawn.setting.runner());
        if let Some(variation) = drawn.setting.variation {
            add(|t| &mut t.changes, variation.change.name());
        }
        // Decisions by a coin or by the fuel have no reason.
        let options = &drawn.setting.options;
        let by_rule = options.policy == Policy::Model && options.fuel.is_none();
        for decision in &judged.decisions {
            match &decision.outcome {
                Outcome::Fused(pass) => add(|t| &mut t.fused, pass.name()),
                Outcome::Refused(reason) if by_rule => add(|t| &mut t.refused, reason.name()),
                Outcome::Refused(_) => {}
            }
        }
        tally
    }

    /// Adds what came up elsewhere.
    pub fn add(&mut self, other: &Tally) {
        self.programs += other.programs;
        self.calls += other.calls;
        let both = [
            (&mut self.constructs, &other.constructs),
            (&mut self.fused, &other.fused),
            (&mut self.refused, &other.refused),
            (&mut self.outcomes, &other.outcomes),
            (&mut self.engines, &other.engines),
            (&mut self.changes, &other.changes),
        ];
        for (to, from) in both {
            for (name, count) in from {
                *to.entry(name.clone()).or_default() += count;
            }
        }
    }

    /// Passes and refusals that never came up.
    pub fn never(&self) -> Vec<&'static str> {
        let passes = FusionPass::ALL.iter().map(|pass| pass.name()).filter(|name| !self.fused.contains_key(*name));
        let reasons = Reason::NAMES.iter().copied().filter(|name| !self.refused.contains_key(*name));
        passes.chain(reasons).collect()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} programs, {} calls", self.programs, self.calls)?;
        let tables = [
            ("calls that ended in", &self.outcomes),
            ("programs on", &self.engines),
            ("changed", &self.changes),
            ("pairs fused by", &self.fused),
            ("pairs refused for", &self.refused),
            ("programs with", &self.constructs),
        ];
        for (title, counts) in tables.into_iter().filter(|(_, counts)| !counts.is_empty()) {
            let mut counts: Vec<(&String, &u64)> = counts.iter().collect();
            counts.sort_by_key(|(name, count)| (u64::MAX - **count, *name));
            let list: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
            writeln!(f, "  {title}: {}", list.join(", "))?;
        }
        let never = self.never();
        if !never.is_empty() {
            writeln!(f, "  never fused or refused: {}", never.join(", "))?;
        }
        Ok(())
    }
}
