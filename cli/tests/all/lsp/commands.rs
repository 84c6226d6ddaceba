//! Code lenses and the commands that they name; functions across files.

use std::fs;

use serde_json::{Value, json};

use super::client::Client;
use super::{URI, at, document, shown};

fn command(name: &str, call: Value) -> Value {
    json!({ "command": name, "arguments": [call] })
}

#[test]
fn lenses_explain_and_run_functions() {
    let mut client = Client::new();
    client.open(URI, "fn f(x: f32[2 * n], k: i64) = x * f32(k)\nfn wrong(x: f32[n]) = y\n");
    let lenses = client.request("textDocument/codeLens", json!({ "textDocument": document() }));
    assert_eq!(lenses.as_array().unwrap().len(), 4);
    let mut resolve = |number: usize| client.request("codeLens/resolve", lenses[number].clone());
    let lenses = [0, 1, 3].map(&mut resolve);
    insta::assert_json_snapshot!(lenses);
    for wrong in [json!({}), json!({ "range": super::range((0, 0), (0, 0)) })] {
        assert_eq!(client.answer("codeLens/resolve", wrong)["error"]["code"], -32602);
    }
    let refused = client.answer("workspace/executeCommand", lenses[1]["command"].clone());
    assert_eq!(refused["error"]["code"], -32803, "{refused}");

    client.set(URI, 2, "fn f(x: f32[2 * n], k: i64) = x * f32(k)\n");
    let html = client.request("workspace/executeCommand", lenses[0]["command"].clone());
    assert!(html.as_str().unwrap().contains("<html") && html.as_str().unwrap().contains("1 kernel"), "{html}");
    let result = client.request("workspace/executeCommand", lenses[1]["command"].clone());
    assert!(result.as_str().unwrap().starts_with('['), "{result}");
    let call = json!({ "uri": URI, "function": "f", "arguments": "x=[1, 2] k=3" });
    assert_eq!(client.request("workspace/executeCommand", command("fuseloop.run", call)), "[3., 6.]\n");
    assert_eq!(client.exit(), Some(0));
}

#[test]
fn commands_that_cannot_run_say_why() {
    let mut client = Client::new();
    client.open(URI, "fn f(x: f32[n]) = x[0]\n");
    let mut said = String::new();
    for arguments in [
        "",
        "x",
        "x=",
        "y=1",
        "x=-",
        "x=[]",
        "x=random:99999999999",
        "x=random:999999x999999",
        "x=[1 x=2",
        "x=/no/such.npy",
    ] {
        let call = json!({ "uri": URI, "function": "f", "arguments": arguments });
        let answer = client.answer("workspace/executeCommand", command("fuseloop.run", call));
        let message = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{arguments}: {answer}"));
        said += &format!("{arguments}\n{}\n\n", message.lines().next().unwrap_or_default());
    }
    insta::assert_snapshot!(said);
    let call = json!({ "uri": URI, "function": "g" });
    let answer = client.answer("workspace/executeCommand", command("fuseloop.run", call.clone()));
    assert_eq!(answer["error"]["code"], -32803);
    for wrong in
        [command("fuseloop.other", call), command("fuseloop.run", json!(3)), json!({ "command": "fuseloop.run" })]
    {
        assert_eq!(client.answer("workspace/executeCommand", wrong)["error"]["code"], -32602);
    }
    assert_eq!(client.exit(), Some(0));
}

#[test]
fn a_run_can_be_cancelled_while_others_are_answered() {
    let mut client = Client::new();
    client.open(URI, "fn f(x: i64) = loop y = x while y != 0 { y + 0 * y }\n");
    let call = command("fuseloop.run", json!({ "uri": URI, "function": "f", "arguments": "x=1" }));
    let ask = |id: i64| json!({ "jsonrpc": "2.0", "id": id, "method": "workspace/executeCommand", "params": call });
    client.batch(&[ask(90), ask(91), ask(92), ask(93), ask(94)]);
    // A fifth is refused, and the server is there for others.
    let symbols = client.request("textDocument/documentSymbol", json!({ "textDocument": document() }));
    assert_eq!(symbols[0]["name"], "f");
    let refused = client.noticed.iter().find(|message| message["id"] == 94).expect("it was answered before");
    assert_eq!(refused["error"]["code"], -32803);
    for id in 90..94 {
        client.notify("$/cancelRequest", json!({ "id": id }));
        let answer = loop {
            let message = client.receive();
            if message["id"] == id {
                break message;
            }
        };
        assert_eq!(answer["error"]["code"], -32800);
    }
    // There is room again.
    let call = json!({ "uri": URI, "function": "f", "arguments": "x=0" });
    assert_eq!(client.request("workspace/executeCommand", command("fuseloop.run", call)), "0\n");
    assert_eq!(client.exit(), Some(0));
}

/// A folder with a program that uses a library of its own, and one that has the name for another
/// function.
fn folder() -> (tempfile::TempDir, impl Fn(&str) -> String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    fs::create_dir(path.join("lib")).unwrap();
    fs::write(path.join("lib/rows.fl"), "fn scaled(x: f32[n]) = x * 2\nfn twice(x: f32[n]) = scaled(scaled(x))\n")
        .unwrap();
    fs::write(path.join("other.fl"), "use \"lib/rows.fl\" (scaled)\nfn g(x: f32[n]) = scaled(x)\n").unwrap();
    fs::write(path.join("apart.fl"), "fn scaled(x: f32[n]) = x\nfn h(x: f32[n]) = scaled(x)\n").unwrap();
    let uri = move |name: &str| format!("file://{}", path.join(name).display());
    (folder, uri)
}

#[test]
fn functions_are_found_and_renamed_in_all_files() {
    let (_folder, uri) = folder();
    let mut client = Client::silent();
    let folders = json!([{ "uri": uri(""), "name": "here" }]);
    client.request("initialize", json!({ "capabilities": {}, "workspaceFolders": folders }));
    // The editor's text counts, not that on disk.
    client.open(&uri("main.fl"), "use \"lib/rows.fl\"\nfn f(x: f32[n]) = scaled(x) + scaled(x)\n");
    let place = json!({ "textDocument": { "uri": uri("main.fl") }, "position": at(1, 20) });
    let mut ask = place.clone();
    ask["context"] = json!({ "includeDeclaration": true });
    let found = client.request("textDocument/references", ask.clone());
    let places = |found: &Value| -> Vec<String> {
        let place = |one: &Value| {
            format!("{} {}", one["uri"].as_str().unwrap().rsplit('/').next().unwrap(), shown(&one["range"]))
        };
        found.as_array().unwrap().iter().map(place).collect()
    };
    let all = [
        "main.fl 1:18-1:24",
        "main.fl 1:30-1:36",
        "rows.fl 0:3-0:9",
        "rows.fl 1:22-1:28",
        "rows.fl 1:29-1:35",
        "other.fl 0:19-0:25",
        "other.fl 1:18-1:24",
    ];
    assert_eq!(places(&found), all);
    ask["context"] = json!({ "includeDeclaration": false });
    assert_eq!(client.request("textDocument/references", ask).as_array().unwrap().len(), all.len() - 1);

    let mut rename = place;
    rename["newName"] = json!("grown");
    let edits = client.request("textDocument/rename", rename.clone());
    let count = |name: &str| edits["changes"][uri(name)].as_array().map_or(0, Vec::len);
    assert_eq!((count("main.fl"), count("lib/rows.fl"), count("other.fl"), count("apart.fl")), (2, 3, 2, 0));
    for taken in ["twice", "x", "sum", "f"] {
        rename["newName"] = json!(taken);
        assert_eq!(client.answer("textDocument/rename", rename.clone())["error"]["code"], -32803, "{taken}");
    }
    assert_eq!(client.exit(), Some(0));
}

#[test]
fn functions_of_the_language_and_of_libraries_keep_their_names() {
    let mut client = Client::new();
    client.open(URI, "use nn\nfn f(x: f32[n]) = exp(softmax(x))\n");
    for character in [18, 22] {
        let rename = json!({ "textDocument": document(), "position": at(1, character), "newName": "other" });
        let answer = client.answer("textDocument/rename", rename);
        assert!(answer["error"]["message"].as_str().unwrap().contains("keeps its name"), "{answer}");
    }
    assert_eq!(client.exit(), Some(0));
}
