//! `fuseloop lsp` as an editor meets it.

mod client;
mod commands;
mod hints;
mod hostile;
mod names;

use client::Client;
use serde_json::{Value, json};

const URI: &str = "file:///nowhere/a.fl";

fn at(line: u32, character: u32) -> Value {
    json!({ "line": line, "character": character })
}

fn range(start: (u32, u32), end: (u32, u32)) -> Value {
    json!({ "start": at(start.0, start.1), "end": at(end.0, end.1) })
}

fn document() -> Value {
    json!({ "uri": URI })
}

/// A range as `line:character-line:character`.
fn shown(range: &Value) -> String {
    let place = |at: &Value| format!("{}:{}", at["line"], at["character"]);
    format!("{}-{}", place(&range["start"]), place(&range["end"]))
}

#[test]
fn a_conversation_begins_and_ends() {
    let mut client = Client::silent();
    assert_eq!(client.answer("textDocument/hover", json!({}))["error"]["code"], -32002);
    let result = client.request("initialize", json!({ "capabilities": {} }));
    insta::assert_snapshot!(serde_json::to_string_pretty(&result["capabilities"]["textDocumentSync"]).unwrap());
    assert_eq!(client.answer("initialize", json!({}))["error"]["code"], -32600);
    assert_eq!(client.exit(), Some(0));

    let mut abrupt = Client::new();
    abrupt.notify("exit", Value::Null);
    assert_eq!(abrupt.ended(), Some(1), "`exit` without `shutdown`");
}

/// All that an editor and the server say to each other, from the beginning to the end.
#[test]
fn a_conversation_as_a_transcript() {
    let mut client = Client::silent();
    client.transcript = Some(String::new());
    client.request("initialize", json!({ "capabilities": {} }));
    client.notify("initialized", json!({}));
    client.open(URI, "fn share(x: f32[n]) = x / summ(x)\n");
    let found = client.diagnostics(URI);
    let word = range((0, 26), (0, 30));
    let context = json!({ "diagnostics": found });
    client.request("textDocument/codeAction", json!({ "textDocument": document(), "range": word, "context": context }));
    let change = json!({ "range": word, "text": "sum" });
    let changed = json!({ "uri": URI, "version": 2 });
    client.notify("textDocument/didChange", json!({ "textDocument": changed, "contentChanges": [change] }));
    client.diagnostics(URI);
    let all = range((0, 0), (1, 0));
    client.request("textDocument/hover", json!({ "textDocument": document(), "position": at(0, 4) }));
    client.request("textDocument/inlayHint", json!({ "textDocument": document(), "range": all }));
    client.request("shutdown", Value::Null);
    client.notify("exit", Value::Null);
    let transcript = client.transcript.take().unwrap_or_default();
    assert_eq!(client.ended(), Some(0));
    insta::assert_snapshot!(transcript);
}

#[test]
fn diagnostics_have_their_places_in_utf_16() {
    let mut client = Client::new();
    // The two characters take one and two units.
    client.open(URI, "# é 𝄞\r\nfn f(x: f32[n]) = /* 𝄞 */ y\n");
    let found = client.diagnostics(URI);
    assert!(found.as_array().unwrap().iter().all(|one| one["source"] == "fuseloop"), "{found}");
    client.set(URI, 2, "fn f(x: f32[n]) = x + # é 𝄞\n  y");
    let found = client.diagnostics(URI);
    assert_eq!((shown(&found[0]["range"]), &found[0]["code"]), ("1:2-1:3".to_owned(), &json!("E0101")));
    client.set(URI, 3, "use \"é𝄞.fl\" fn g() = 1");
    let found = client.diagnostics(URI);
    insta::assert_json_snapshot!(found);
}

#[test]
fn changes_apply_to_parts_of_the_text() {
    let mut client = Client::new();
    client.open(URI, "# 𝄞é\nfn f(x: f32[n]) = x\n");
    assert_eq!(client.diagnostics(URI), json!([]));
    let edit = |range: Value, text: &str| json!({ "range": range, "text": text });
    let changes =
        [edit(range((0, 4), (0, 5)), "e"), edit(range((1, 18), (1, 19)), "y"), edit(range((9, 9), (9, 9)), "#")];
    client.notify(
        "textDocument/didChange",
        json!({ "textDocument": { "uri": URI, "version": 2 }, "contentChanges": changes }),
    );
    let found = client.diagnostics(URI);
    assert_eq!((found.as_array().unwrap().len(), shown(&found[0]["range"])), (1, "1:18-1:19".to_owned()));
}

#[test]
fn warnings_and_related_places_are_published() {
    let mut client = Client::new();
    client.open(URI, "fn f(x: f32[n], y: f32) = x * 2\n");
    let found = client.diagnostics(URI);
    assert_eq!((&found[0]["code"], &found[0]["severity"]), (&json!("W0002"), &json!(2)));
    client.set(URI, 2, "fn f(x: f32[n]) = x\nfn f(x: f32[n]) = x\n");
    insta::assert_json_snapshot!(client.diagnostics(URI));
}

#[test]
fn fixes_come_from_suggestions() {
    let mut client = Client::new();
    client.open(URI, "fn total(x: f32[n]) = summ(x)\n");
    let ask = json!({ "textDocument": document(), "range": range((0, 23), (0, 23)), "context": { "diagnostics": [] } });
    let actions = client.request("textDocument/codeAction", ask);
    insta::assert_json_snapshot!(actions);
    let ask = json!({ "textDocument": document(), "range": range((0, 1), (0, 1)), "context": { "diagnostics": [] } });
    assert_eq!(client.request("textDocument/codeAction", ask), json!([]));
}

#[test]
fn formatting_changes_only_the_lines_that_differ() {
    let mut client = Client::new();
    client.open(URI, "fn f(x: f32[n]) = x\n\nfn g(x:f32[n])=x*2\n\nfn h(x: f32[n]) = x\n");
    let ask = json!({ "textDocument": document(), "options": { "tabSize": 4, "insertSpaces": true } });
    let edits = client.request("textDocument/formatting", ask.clone());
    assert_eq!(edits, json!([{ "range": range((2, 0), (3, 0)), "newText": "fn g(x: f32[n]) = x * 2\n" }]));
    client.set(URI, 2, "fn f(x:f32[n])=");
    assert_eq!(client.request("textDocument/formatting", ask), json!([]));
}

#[test]
fn words_have_classes() {
    let mut client = Client::new();
    let text = "use nn\n@kernels(1)\nfn f(x: f32[n]) = exp(x) + 1 # 𝄞\nfn g(x: f32[n]) = f(x)\n\
                @fast\nfn h(x: f32[n]) {\n    let y = sum[i < n](x[i]) * x[0]\n    (y)\n}\n";
    client.open(URI, text);
    let result = client.request("textDocument/semanticTokens/full", json!({ "textDocument": document() }));
    let numbers: Vec<u64> = result["data"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
    let (mut line, mut character, mut shown) = (0, 0, String::new());
    for token in numbers.chunks(5) {
        character = if token[0] > 0 { token[1] } else { character + token[1] } as usize as u64;
        line += token[0] as usize;
        let units: Vec<u16> = text.lines().nth(line).unwrap().encode_utf16().collect();
        let word = &units[character as usize..(character + token[2]) as usize];
        shown += &format!("{} {} {}\n", String::from_utf16(word).unwrap(), token[3], token[4]);
    }
    insta::assert_snapshot!(shown);
}
