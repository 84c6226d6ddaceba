//! The meaning of names: outline, definitions, references, rename, hover and completion.

use std::fs;

use serde_json::{Value, json};

use super::client::Client;
use super::{URI, at, document, shown};

const TEXT: &str = "# Twice it.\nfn twice(x: f32[n]) = 2 * (x)\n\n\
    fn f(x: f32[n], y: f32[n, m]) -> f32[n] {\n    let z[i] = x[i] * sum[j](y[i, j])\n    twice(z)\n}\n";

fn ask(line: u32, character: u32) -> Value {
    json!({ "textDocument": document(), "position": at(line, character) })
}

fn open() -> Client {
    let mut client = Client::new();
    client.open(URI, TEXT);
    client
}

/// The ranges of a list of places.
fn ranges(places: &Value) -> Vec<String> {
    places.as_array().unwrap().iter().map(|place| shown(&place["range"])).collect()
}

#[test]
fn names_lead_to_their_declarations() {
    let mut client = open();
    let symbols = client.request("textDocument/documentSymbol", json!({ "textDocument": document() }));
    let outline: Vec<String> =
        symbols.as_array().unwrap().iter().map(|one| format!("{} {}", one["name"], shown(&one["range"]))).collect();
    assert_eq!(outline, ["\"twice\" 1:0-1:29", "\"f\" 3:0-6:1"]);
    let mut leads = |line, character| shown(&client.request("textDocument/definition", ask(line, character))["range"]);
    assert_eq!(leads(5, 6), "1:3-1:8");
    assert_eq!(leads(5, 11), "4:8-4:9");
    assert_eq!(leads(1, 27), "1:9-1:10");
    assert_eq!(leads(3, 37), "3:12-3:13");
    assert_eq!(client.request("textDocument/definition", ask(4, 23)), Value::Null);
}

#[test]
fn references_and_renames_keep_to_one_name() {
    let mut client = open();
    let mut find = ask(4, 15);
    find["context"] = json!({ "includeDeclaration": true });
    assert_eq!(ranges(&client.request("textDocument/references", find.clone())), ["3:5-3:6", "4:15-4:16"]);
    find["context"] = json!({ "includeDeclaration": false });
    assert_eq!(ranges(&client.request("textDocument/references", find)), ["4:15-4:16"]);
    let mut rename = ask(3, 12);
    rename["newName"] = json!("rows");
    let edits = client.request("textDocument/rename", rename.clone());
    assert_eq!(ranges(&edits["changes"][URI]), ["3:12-3:13", "3:23-3:24", "3:37-3:38"]);
    for wrong in ["m", "f32", "a b", "_", "", "1"] {
        rename["newName"] = json!(wrong);
        assert_eq!(client.answer("textDocument/rename", rename.clone())["error"]["code"], -32803, "{wrong}");
    }
}

#[test]
fn hovers_tell_types_and_meanings() {
    let mut client = open();
    let mut said = String::new();
    for (line, character) in [(1, 4), (5, 6), (5, 10), (4, 16), (3, 22), (4, 23), (3, 18)] {
        let hover = client.request("textDocument/hover", ask(line, character));
        said += &format!("{line}:{character}\n{}\n\n", hover["contents"]["value"].as_str().unwrap_or("nothing"));
    }
    insta::assert_snapshot!(said);
}

#[test]
fn completion_has_names_functions_and_keywords() {
    let mut client = open();
    let items = client.request("textDocument/completion", ask(5, 4));
    let items = items.as_array().unwrap();
    let of = |label: &str| items.iter().find(|item| item["label"] == label);
    assert!(["x", "y", "z", "n", "m", "let", "exp", "f32"].iter().all(|label| of(label).is_some()));
    assert_eq!(of("twice").unwrap()["detail"], "fn twice(x: f32[n])");
    assert_eq!(of("twice").unwrap()["documentation"], "Twice it.");
    assert_eq!(of("clamp").unwrap()["detail"], "clamp(x, lo, hi)");
    assert_eq!(of("x").unwrap()["detail"], "f32[n]");
    assert_eq!(of("x").unwrap()["documentation"], "a parameter");
}

#[test]
fn names_lead_into_files_that_are_used_as_the_editor_has_them() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let (main, lib) = (folder.join("main.fl"), folder.join("lib.fl"));
    let uri = |path: &std::path::Path| format!("file://{}", path.display());
    fs::write(&lib, "fn old(x: f32[n]) = x\n").unwrap();
    let mut client = Client::new();
    client.open(&uri(&main), "use \"lib.fl\"\nfn f(x: f32[n]) = new(x)\n");
    assert_eq!(client.diagnostics(&uri(&main))[0]["code"], "E0102");
    client.open(&uri(&lib), "\nfn new(x: f32[n]) = x + 1\n");
    assert_eq!(client.diagnostics(&uri(&main)), json!([]));
    let place = json!({ "textDocument": { "uri": uri(&main) }, "position": at(1, 19) });
    let found = client.request("textDocument/definition", place);
    assert_eq!((found["uri"].as_str(), shown(&found["range"])), (Some(uri(&lib).as_str()), "1:3-1:6".to_owned()));
}
