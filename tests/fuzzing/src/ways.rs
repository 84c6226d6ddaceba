//! Ways to fuse a program: those that tests draw, and the merge that causes a failure.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use compiler::pipeline::Options;
use ir::checked::Checked;
use ir::choice::Policy;
use ir::decision::{FusionPass, Passes};
use ir::nest::Program;

use crate::engines::{Form, Shown};
use crate::generate::data::Random;

/// Ways for one program: some with random legal merges, and one of another kind.
pub fn drawn(seed: u64) -> Vec<Options> {
    let mut random = Random::new(seed);
    let legal = Options { policy: Policy::Random(random.bits()), ..Options::default() };
    let single = random.below(i64::try_from(FusionPass::ALL.len()).unwrap_or(1));
    let pass = FusionPass::ALL.get(usize::try_from(single).unwrap_or(0)).copied();
    let some = FusionPass::ALL.iter().copied().filter(|_| random.below(2) == 1).collect::<Passes>();
    let fuel = Some(random.below(12).unsigned_abs());
    let other = match random.below(8) {
        0 | 1 => Options { fuse: pass.into_iter().collect(), ..Options::default() },
        2 | 3 => Options { fuse: pass.into_iter().collect(), ..legal.clone() },
        4 => Options { fuse: some, ..Options::default() },
        5 => Options { fuse: some, ..legal.clone() },
        6 => Options { fuel, ..Options::default() },
        _ => Options { fuel, ..legal.clone() },
    };
    vec![legal, other]
}

/// If a way to fuse is wrong, the kernels before and after the first merge that makes it wrong.
pub fn blame(checked: &Checked, options: &Options, is_wrong: impl Fn(&Form) -> bool) -> Option<String> {
    let form = |fuel| {
        let options = Options { fuel, ..options.clone() };
        catch_unwind(AssertUnwindSafe(|| Form::new(checked, &options))).unwrap_or_else(|_| Err("a panic".into()))
    };
    let is_bad = |fuel| form(fuel).map_or(true, |form| is_wrong(&form));
    if !is_bad(options.fuel) {
        return None;
    }
    let shown = Shown(options);
    if is_bad(Some(0)) {
        return Some(format!("{shown} is wrong before any merge"));
    }
    let (mut right, mut bad) = (0, 1);
    // Double the fuel until it is wrong, because the number of merges is not known.
    while !is_bad(Some(bad)) {
        if bad > 1 << 20 {
            return Some(format!("{shown} is wrong, but right with any number of merges"));
        }
        (right, bad) = (bad, bad * 2);
    }
    // Then bisect: it is right with `right` merges and wrong with `bad`.
    while right + 1 < bad {
        let middle = right.midpoint(bad);
        if is_bad(Some(middle)) { bad = middle } else { right = middle }
    }
    let way = Options { fuel: Some(bad), ..options.clone() };
    let mut text = format!("the first bad merge is the last of {}\n", Shown(&way));
    match (form(Some(right)), form(Some(bad))) {
        (Ok(before), Ok(after)) => {
            let (before, after) = (kernels(&before.program), kernels(&after.program));
            let only = |these: &BTreeSet<String>, others: &BTreeSet<String>| -> String {
                these.difference(others).map(String::as_str).collect()
            };
            let _ = write!(text, "before:\n{}\nafter:\n{}", only(&before, &after), only(&after, &before));
        }
        (Ok(before), Err(error)) => {
            let _ = write!(text, "{error}\nbefore:\n{}", before.program);
        }
        (Err(error), _) => text.push_str(&error),
    }
    Some(text)
}

fn kernels(program: &Program) -> BTreeSet<String> {
    program.kernels.values().map(|kernel| ir::print::kernel(program, kernel)).collect()
}
