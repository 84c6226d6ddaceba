//! Comments and pages in plain words: habits of phrase stay as rare as in the comments of
//! Cranelift, package by package, and lines of prose stay readable.
//! `cargo run -p tests --bin counts` prints all the numbers.

use tests::prose::{HABITS, LONG, LONG_LINES, areas};

/// How often a habit may occur where it is still more frequent than it should be. These numbers
/// only become smaller.
const ALLOWED: &[(&str, &str, usize)] = &[
    (".", "What ...", 15),
    (".", "of which, whose", 6),
    (".", "so many, so much", 4),
    (".", "beside", 2),
    (".", "long lines", 45),
    ("backends", "What ...", 25),
    ("backends", "of which, whose", 30),
    ("backends", "so many, so much", 15),
    ("backends", "at hand", 4),
    ("backends", "anew", 2),
    ("backends", "beside", 2),
    ("backends", "long lines", 75),
    ("compiler", "of which, whose", 22),
    ("compiler", "hang on", 1),
    ("compiler", "long lines", 15),
    ("compiler/ir", "of which, whose", 12),
    ("compiler/ir", "long lines", 10),
    ("reports", "What ...", 15),
    ("reports", "of which, whose", 4),
    ("reports", "so many, so much", 4),
    ("reports", "beside", 2),
    ("reports", "long lines", 45),
    ("schedule", "What ...", 6),
    ("schedule", "of which, whose", 5),
    ("schedule", "so many, so much", 2),
    ("schedule", "long lines", 60),
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
