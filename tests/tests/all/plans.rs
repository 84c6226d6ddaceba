//! Plans of random programs, compared with those of fewer passes and with the best partitions of
//! their operations.

use fuzzing::generate::Recipe;
use fuzzing::plans::{Held, Source, held};

/// How many programs. One in ten may have a plan that moves more bytes than the best partition, one
/// in twenty more than the best of those that take no longer, and none may cost more than the plan
/// of fewer passes.
const PROGRAMS: u64 = 60;

#[test]
fn few_plans_are_not_the_best() {
    let (mut worse, mut far) = (vec![], vec![]);
    for number in 0..PROGRAMS {
        let program = Recipe::drawn(number).program();
        let source = Source { text: program.source, entry: program.entry.to_owned() };
        let Held { complaint, gap } = held(&source);
        worse.extend(complaint.map(|complaint| format!("{complaint}\n{}", source.text)));
        if let Some(gap) = gap {
            assert!(gap.no_slower <= 1.25, "{}\n{}", gap.text, source.text);
            far.extend((gap.bytes > 1.0 + 1e-9).then_some((gap.bytes, gap.no_slower)));
        }
    }
    assert!(worse.is_empty(), "{}", worse.join("\n"));
    assert!(far.len() as u64 <= PROGRAMS / 10, "{far:?}");
    far.retain(|(_, no_slower)| *no_slower > 1.0 + 1e-9);
    assert!(far.len() as u64 <= PROGRAMS / 20, "{far:?}");
}
