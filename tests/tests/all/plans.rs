//! Plans of random programs, held to those of fewer passes and to the best partitions of their operations.

use fuzzing::generate::Recipe;
use fuzzing::plans::{Held, Source, held};

/// How many programs: one in ten may have a plan that moves more than the best partition, one in twenty though that is no slower, and one in fifty
/// a plan that costs more than that of fewer passes.
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
            assert!(gap.bytes <= 1.25 || gap.time > 1.0, "{}\n{}", gap.text, source.text);
            far.extend((gap.bytes > 1.0 + 1e-9).then_some((gap.bytes, gap.time)));
        }
    }
    assert!(worse.len() as u64 <= PROGRAMS / 50, "{}", worse.join("\n"));
    assert!(far.len() as u64 <= PROGRAMS / 10, "{far:?}");
    far.retain(|(_, time)| *time <= 1.0);
    assert!(far.len() as u64 <= PROGRAMS / 20, "{far:?}");
}
