//! Comments and pages in plain words: habits of phrase stay as rare as in the comments of
//! Cranelift, package by package, and lines of prose stay readable.
//! `cargo run -p tests --bin counts` prints all the numbers.

use tests::prose::{HABITS, LONG, LONG_LINES, areas};

/// How often a habit may occur where it is still more frequent than it should be. These numbers
/// only become smaller.
const ALLOWED: &[(&str, &str, usize)] = &[
    (".", "What ...", 29),
    (".", "of which, whose", 6),
    (".", "so many, so much", 4),
    (".", "beside", 2),
    (".", "long lines", 67),
    ("backends", "What ...", 98),
    ("backends", "of which, whose", 78),
    ("backends", "so many, so much", 44),
    ("backends", "at hand", 25),
    ("backends", "hang on", 10),
    ("backends", "anew", 4),
    ("backends", "beside", 14),
    ("backends", "long lines", 320),
    ("backends/model", "of which, whose", 2),
    ("compiler", "What ...", 25),
    ("compiler", "of which, whose", 35),
    ("compiler", "so many, so much", 10),
    ("compiler", "at hand", 2),
    ("compiler", "hang on", 3),
    ("compiler", "anew", 1),
    ("compiler", "beside", 3),
    ("compiler", "long lines", 150),
    ("compiler/ir", "long lines", 20),
    ("compiler/ir", "What ...", 3),
    ("schedule", "What ...", 6),
    ("schedule", "of which, whose", 4),
    ("schedule", "so many, so much", 2),
    ("schedule", "long lines", 60),
    ("reports", "What ...", 20),
    ("reports", "so many, so much", 4),
    ("reports", "beside", 2),
    ("reports", "long lines", 60),
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
