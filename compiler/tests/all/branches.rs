//! The guards of checked programs: their `if`s with two branches, and the expressions inside.

use compiler::check::check;
use ir::checked::{Checked, Kind};

fn checked(source: &str) -> Checked {
    let file = grammar::parse(source).unwrap();
    check(&file, "f").unwrap_or_else(|errors| panic!("{source}: {errors:?}"))
}

/// The parts of a `concat` are chosen by `if`s, one less than there are parts.
#[test]
fn every_if_has_two_branches_and_nothing_else_has_any() {
    for (source, ifs) in [
        ("fn f(x: f32[n], y: f32[m], z: f32[k]) = concat(x, y, z)", 2),
        ("fn f(x: f32[n], b: bool) = if b then (if x > 0 then x else 1) else 2", 2),
        ("fn f(x: f32[n]) = x + 1", 0),
    ] {
        let checked = checked(source);
        let found = checked.exprs.values().filter(|e| matches!(e.kind, Kind::If { .. })).count();
        assert_eq!((found, checked.guards.len()), (ifs, 1 + 2 * ifs), "{source}");
    }
}

/// Both sides are computed, so that no fact holds for the accesses of the right side alone.
#[test]
fn an_operator_of_arrays_is_no_branch() {
    for source in [
        "fn f(x: f32[n], y: f32[m], k: i64[n]) = x > 0 && y[k] > 0",
        "fn f(b: bool, y: f32[m], k: i64[n]) = b || y[k] > 0",
    ] {
        let checked = checked(source);
        assert_eq!(checked.sites.len(), 1);
        assert!(checked.exprs.values().all(|e| e.guard == Checked::TOP), "{source}");
    }
}
