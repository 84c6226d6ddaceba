//! Warnings: each is given where it should be and nowhere else, and its suggestion leaves none.

use std::path::Path;

use fuseloop::Program;
use tests::page::blocks;

/// The codes and messages of a program's warnings.
fn warnings(source: &str) -> Vec<String> {
    let program = Program::parse(source).unwrap_or_else(|errors| panic!("{source}\n{errors}"));
    program.warnings().reports().map(|one| format!("{} {}", one.code.unwrap(), one.message)).collect()
}

/// The program with all suggestions made.
fn mended(source: &str) -> String {
    let program = Program::parse(source).unwrap();
    let mut edits: Vec<_> = program.warnings().reports().flat_map(|one| one.suggestion).collect();
    edits.sort_by_key(|(range, _)| range.start);
    let mut mended = source.to_owned();
    edits.iter().rev().for_each(|(range, text)| mended.replace_range(range.clone(), text));
    mended
}

#[track_caller]
fn warns(source: &str, wanted: &[&str]) {
    assert_eq!(warnings(source), wanted, "{source}");
    let mended = mended(source);
    assert_eq!(warnings(&mended), <[&str; 0]>::default(), "{source}\nbecomes\n{mended}");
}

/// A function whose body is a block.
fn f(lines: &[&str]) -> String {
    format!("fn f(x: f32[n], k: f32) {{\n    let x = x * k\n    {}\n}}\n", lines.join("\n    "))
}

#[test]
fn a_let_that_is_never_used() {
    warns(&f(&["let y = x * 2", "x * k"]), &["W0001 `y` is never used"]);
    warns(&f(&["let y = x * 2", "let y = x + k", "y"]), &["W0001 `y` is never used"]);
    warns(&f(&["let _y = x * 2", "x * k"]), &[]);
    warns(&f(&["let (a, b) = top(3, x * k)", "b"]), &["W0001 `a` is never used"]);
    warns(&f(&["let (_, b) = top(3, x * k)", "b"]), &[]);
    let inside = &["loop y = x, t < 3 {", "    let z = y * 2", "    let y = y + 1", "    y * k", "}"];
    warns(&f(inside), &["W0001 `z` is never used"]);
    let rec = "let rec y[t < n] = if t == 0 then x[t] else y[t - 1] * k";
    assert_eq!(warnings(&f(&[rec, "x"])), ["W0001 `y` is never used"]);
    warns(&f(&[rec, "y"]), &[]);
    // Of two arrays one may be there for the other.
    let rec = "let rec y[t < n] = if t == 0 then 0 else z[t - 1] * k, z[t < n] = x[t] + y[t]";
    warns(&f(&[rec, "y"]), &[]);
    let rec = "let rec y[t < n] = if t == 0 then 0 else y[t - 1] * k, z[t < n] = x[t] + y[t]";
    assert_eq!(warnings(&f(&[rec, "y"])), ["W0001 `z` is never used"]);
}

#[test]
fn a_name_with_an_underscore_that_is_taken_is_not_suggested() {
    let source = f(&["let _y = x + k", "let y = x * 2", "_y"]);
    let program = Program::parse(source).unwrap();
    let [warning] = program.warnings().diagnostics() else { panic!("{}", program.warnings()) };
    assert_eq!((warning.suggestion.as_slice(), warning.help.as_deref()), (&[][..], Some("remove it")));
}

#[test]
fn a_parameter_that_is_never_used() {
    warns("fn f(x: f32[n], y: f32) = x * 2", &["W0002 the parameter `y` is never used"]);
    warns("fn f(x: f32[n], _y: f32) = x * 2", &[]);
    warns("fn f(x: f32[n], y: f32[n]) = x * 2", &["W0002 the parameter `y` is never used"]);
    // Parameters that give sizes.
    warns("fn f(x: f32[k], k: i64) = x * 2", &[]);
    warns("fn f(x: f32[n], k: i64) = x[k:]", &[]);
    warns("fn f(x: f32[n], k: i64) where k < n = x * 2", &[]);
    warns("fn f(x: f32[n]) = iota(n)", &[]);
    warns("fn f(x: f32[n], y: f32[n]) = x * n", &["W0002 the parameter `y` is never used"]);
    warns("fn f(x: f32[n], y: f32[n]) = iota(n)", &["W0002 the parameter `y` is never used"]);
    warns("fn f(x: f32[n], y: f32[n + 1]) = y * 2", &[]);
    // A derivative names it.
    warns("fn f(x: f32[n], y: f32) = grad[y](sum(x))", &[]);
    // An index hides it.
    warns("fn f(x: f32[n], i: i64) = sum[i](x[i])", &["W0002 the parameter `i` is never used"]);
}

#[test]
fn a_function_that_main_does_not_need() {
    let main = "fn half(x: f32[n]) = x / 2\nfn main(x: f32[n]) = half(x)\n";
    warns(main, &[]);
    warns(&format!("{main}fn g(x: f32[n]) = x + 1"), &["W0003 `main` does not need `g`"]);
    warns(&format!("{main}fn _g(x: f32[n]) = half(h(x))\nfn h(x: f32[n]) = x + 1"), &[]);
    warns("fn half(x: f32[n]) = x / 2\nfn g(x: f32[n]) = x + 1", &[]);
    // The name of one that is called cannot change alone.
    let source = format!("{main}fn g(x: f32[n]) = h(x)\nfn h(x: f32[n]) = x + 1");
    assert_eq!(warnings(&source), ["W0003 `main` does not need `g`", "W0003 `main` does not need `h`"]);
    assert_eq!(warnings(&mended(&source)), <[&str; 0]>::default());
    let program = Program::parse(source).unwrap();
    assert!(program.warnings().clone().for_all_functions().is_empty());
}

#[test]
fn a_use_that_is_not_needed() {
    let f = "fn f(x: f32[n]) = softmax(x)";
    warns(&format!("use nn\n{f}"), &[]);
    warns(&format!("use stats\nuse nn\n{f}"), &["W0004 no function of `stats` is called"]);
    warns(&format!("use nn (softmax)\n{f}"), &[]);
    warns(&format!("use nn (softmax, layer_norm)\n{f}"), &["W0004 `layer_norm` is never called"]);
    warns(&format!("use nn (layer_norm, softmax)\n{f}"), &["W0004 `layer_norm` is never called"]);
}

#[test]
fn a_recurrence_that_does_not_refer_to_itself() {
    let rec = "let rec y[t < n] = x[t] * k";
    warns(&f(&[rec, "y"]), &["W0005 `y` does not refer to itself"]);
    let source = f(&["let rec y[t < n] = x[t] * k, z[t < n] = x[t] + 1", "y + z"]);
    assert_eq!(warnings(&source), ["W0005 `y` does not refer to itself"]);
}

#[test]
fn a_reducer_that_looks_at_all_elements_for_each_index() {
    let prefix = ["W0006 all elements are looked at for each prefix"];
    let by_key = ["W0006 all elements are looked at for each key"];
    let body = |reducer: &str| f(&[&format!("let y[i < n] = {reducer}"), "y"]);
    for reducer in [
        "sum[j < n](if j <= i then x[j] else 0)",
        "sum[j < n](if i > j then (x[j] + 1) * 2 else 0.0)",
        "sum[j < n]((if (j <= i) then x[j] else 0))",
        "max[j < n where j <= i](x[j])",
    ] {
        warns(&body(reducer), &prefix);
    }
    for reducer in [
        "sum[j](if i64(x[j]) == i then x[j] else 0)",
        "sum[j < n](if i == i64(x[j]) then 1 else 0)",
        "sum[j < n]((if (i64(x[j]) == i) then (x[j] + 1) else 0))",
    ] {
        warns(&body(reducer), &by_key);
    }
    for reducer in [
        "sum[j <= i](x[j])",
        "sum[j where i64(x[j]) == i](x[j])",
        "sum[j < n](if j <= i then x[j] * i else 0)",
        "sum[j < n](if j <= i then x[j] else 1)",
        "sum[j < n](if j == i then x[j] else 0)",
        "mean[j < n where j <= i](x[j])",
        "sum[j](if x[j] > 0 then x[j] else 0)",
        // Not the index of the `let`.
        "sum[i < n](if i <= i then x[i] else 0)",
    ] {
        warns(&body(reducer), &[]);
    }
}

#[test]
fn no_program_that_is_shown_to_users_has_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut sources: Vec<(String, String)> = vec![];
    for folder in ["examples", "bench", "bench/gpu", "docs", "."] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.display().to_string();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("fl") => sources.push((name, std::fs::read_to_string(&path).unwrap())),
                Some("md") => {
                    let page = std::fs::read_to_string(&path).unwrap();
                    let right = blocks(&page).into_iter().filter(|block| block.error.is_none());
                    sources.extend(right.map(|block| (format!("{name}:{}", block.line), block.source)));
                }
                _ => {}
            }
        }
    }
    sources.extend(compiler::library::ALL.iter().map(|one| (one.name.to_owned(), one.text.to_owned())));
    assert!(sources.len() > 80, "there are {} programs", sources.len());
    let warned = sources.iter().filter_map(|(name, source)| {
        let program = Program::parse(source.as_str()).ok()?;
        (!program.warnings().is_empty()).then(|| format!("{name}\n{}", program.warnings()))
    });
    let warned: Vec<String> = warned.collect();
    assert!(warned.is_empty(), "{}", warned.join("\n\n"));
}
