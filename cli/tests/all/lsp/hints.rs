//! Inlay hints, and hovers on `let`s.

use serde_json::{Value, json};

use super::client::Client;
use super::{URI, at, document, range};

const TEXT: &str = "fn rows(x: f32[n, m], k: i64) {
    let e = exp(x - 1)
    let s[i] = sum[j](e[i, j])
    let t = x[0, k:]
    let (lo, hi) = (min(s), max(s))
    (s / hi - lo, t)
}

fn other(y: f32[n]) -> f32[n] = y - sum(y)
";

/// The hints in a range, each at the end of the text before it.
fn hints(client: &mut Client, text: &str, range: &Value) -> String {
    let found = client.request("textDocument/inlayHint", json!({ "textDocument": document(), "range": range }));
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let place = |hint: &Value| (hint["position"]["line"].as_u64(), hint["position"]["character"].as_u64());
    let mut found: Vec<&Value> = found.as_array().unwrap().iter().collect();
    found.sort_by_key(|hint| place(hint));
    for hint in found.into_iter().rev() {
        let (Some(line), Some(character)) = place(hint) else { panic!("{hint}") };
        lines[line as usize].insert_str(character as usize, &format!("‹{}›", hint["label"].as_str().unwrap()));
    }
    lines.join("\n")
}

#[test]
fn types_ends_and_fusion_are_hints() {
    let mut client = Client::new();
    client.open(URI, TEXT);
    insta::assert_snapshot!(hints(&mut client, TEXT, &range((0, 0), (100, 0))));
    let part = hints(&mut client, TEXT, &range((2, 0), (2, 100)));
    let changed: Vec<usize> =
        part.lines().zip(TEXT.lines()).enumerate().filter(|(_, (a, b))| a != b).map(|p| p.0).collect();
    assert_eq!(changed, [2], "{part}");
}

#[test]
fn functions_without_errors_have_hints_in_half_typed_text() {
    let mut client = Client::new();
    let text = "fn f(x: f32[n]) {\n    let y[i] = x[i]\n    y\n}\nfn g(x: f32[n]) = x +\n";
    client.open(URI, text);
    insta::assert_snapshot!(hints(&mut client, text, &range((0, 0), (100, 0))));
}

#[test]
fn hovers_have_kernels_and_requirements() {
    let mut client = Client::new();
    client.open(URI, TEXT);
    let mut said = String::new();
    for (line, character) in [(0, 4), (1, 8), (2, 8), (3, 8), (4, 9), (8, 4)] {
        let hover = client
            .request("textDocument/hover", json!({ "textDocument": document(), "position": at(line, character) }));
        said += &format!("{line}:{character}\n{}\n\n", hover["contents"]["value"].as_str().unwrap_or("nothing"));
    }
    insta::assert_snapshot!(said);
}

#[test]
fn hints_follow_an_edit() {
    let mut client = Client::new();
    client.open(URI, "fn f(x: f32[n]) = x\n");
    let all = range((0, 0), (9, 0));
    assert!(hints(&mut client, "fn f(x: f32[n]) = x", &all).contains("‹ -> f32[n]›"));
    client.set(URI, 2, "fn f(x: f64[n]) = x\n");
    assert!(hints(&mut client, "fn f(x: f64[n]) = x", &all).contains("‹ -> f64[n]›"));
}

#[test]
fn hints_move_with_their_functions() {
    let mut client = Client::new();
    let all = range((0, 0), (100, 0));
    client.open(URI, TEXT);
    let before = hints(&mut client, TEXT, &all);
    let text = format!("# A line.\nfn more(x: f32[n]) -> f32[n] = x\n{TEXT}");
    client.set(URI, 2, &text);
    let after = hints(&mut client, &text, &all);
    let expected = before.replace("lines 2 to 4", "lines 4 to 6");
    assert!(after.ends_with(&expected), "{after}");
    // A function depends on those that it calls.
    let text = "fn more(x: f32[n]) = x\nfn twice(x: f32[n]) = more(x)\n";
    client.set(URI, 3, text);
    assert_eq!(hints(&mut client, text, &all).matches("‹ -> f32[n]›").count(), 2);
    let text = "fn more(x: f32[n]) = f64(x)\nfn twice(x: f32[n]) = more(x)\n";
    client.set(URI, 4, text);
    assert_eq!(hints(&mut client, text, &all).matches("‹ -> f64[n]›").count(), 2);
}
