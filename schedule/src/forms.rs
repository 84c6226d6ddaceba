//! Chooses how loops run on a core ([`ir::sched::Form`]): in vectors wherever they can.

use ir::choice::Choice;
use ir::leaf::Site;
use ir::sched::{Forms, Scheduled};

/// Chooses the forms of the loops of each part.
pub fn forms(scheduled: &mut Scheduled, choice: &mut Choice) {
    if scheduled.machine.gpu.is_some() {
        return;
    }
    let Scheduled { program, parts, .. } = scheduled;
    for part in parts {
        let values = &part.kernel.values;
        let site = Site { program, dtype: &|value| values[value], joins: &part.joins };
        part.forms = Forms { site, grants: &mut || choice.grants(true) }.of_part(part);
    }
}
