//! Comments and pages in plain words: habits of phrase stay as rare as in the comments of
//! Cranelift, package by package, and lines of prose stay readable.
//! `cargo run -p tests --bin counts` prints all the numbers.

use tests::prose::{HABITS, LONG, LONG_LINES, areas};

/// How often a habit may occur where it is still more frequent than it should be. These numbers
/// only become smaller.
const ALLOWED: &[(&str, &str, usize)] = &[
    ("reports", "What ...", 15),
    ("reports", "of which, whose", 4),
    ("reports", "so many, so much", 4),
    ("reports", "beside", 2),
    ("reports", "long lines", 45),
];

#[test]
fn habits_are_as_rare_as_elsewhere() {
    let mut faults = vec![];
    for (name, area) in areas() {
        let habits = HABITS.iter().map(|habit| (habit.name, habit.rate * area.words as f64 / 10_000.0));
        for (habit, expected) in habits.chain([(LONG, LONG_LINES * area.lines as f64 / 1000.0)]) {
            let listed = ALLOWED.iter().find(|(at, what, _)| *at == name && *what == habit);
            let allowed = listed.map_or(expected.ceil() as usize, |(.., allowed)| *allowed);
            let places = area.places.get(habit).map_or(&[][..], Vec::as_slice);
            if places.len() > allowed {
                let count = places.len();
                faults.push(format!("(\"{name}\", \"{habit}\", {count}), // {allowed} allowed: {}", places.join(" ")));
            }
        }
    }
    assert!(faults.is_empty(), "\n  {}\n", faults.join("\n  "));
}
