//! A part of the sweep: every 65,537th input of each function and conversion.
//! `cargo run --release -p tests --bin sweep` visits all of them.

use tests::sweep::{LIMIT, Visit, cases};

#[test]
fn functions_and_conversions_hold_on_a_part_of_their_inputs() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    // A prime, so that all bits of an input vary.
    let visit = Visit { stride: 65_537, threads, judged: true };
    for case in cases() {
        let found = case.run(visit, &|_| ()).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        assert_eq!(found.differing, 0, "{}: results hang on the width of vectors", case.name);
        assert!(found.holds(), "{} is {} (at most {LIMIT}) at {}", case.name, found.worst, case.show(found.at));
    }
}
