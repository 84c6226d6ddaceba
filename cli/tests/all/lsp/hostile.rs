//! Text and messages that no editor should send, and many that it may.

use std::fs;

use serde_json::{Value, json};

use super::client::Client;
use super::{URI, at, document, range};

/// Every request that is answered about a text.
fn requests() -> Vec<(&'static str, Value)> {
    let options = json!({ "tabSize": 4, "insertSpaces": true });
    let context = json!({ "diagnostics": [] });
    let all = range((0, 0), (1000, 0));
    vec![
        ("textDocument/codeAction", json!({ "textDocument": document(), "range": all, "context": context })),
        ("textDocument/formatting", json!({ "textDocument": document(), "options": options })),
        ("textDocument/semanticTokens/full", json!({ "textDocument": document() })),
        ("textDocument/documentSymbol", json!({ "textDocument": document() })),
        ("textDocument/hover", json!({ "textDocument": document(), "position": at(1, 5) })),
        ("textDocument/definition", json!({ "textDocument": document(), "position": at(2, 9) })),
        ("textDocument/documentHighlight", json!({ "textDocument": document(), "position": at(0, 19) })),
        ("textDocument/completion", json!({ "textDocument": document(), "position": at(1000, 9) })),
        ("textDocument/inlayHint", json!({ "textDocument": document(), "range": all })),
        ("textDocument/codeLens", json!({ "textDocument": document() })),
        (
            "textDocument/references",
            json!({ "textDocument": document(), "position": at(0, 3), "context": { "includeDeclaration": true } }),
        ),
    ]
}

#[test]
fn wrong_messages_do_not_end_the_server() {
    let mut client = Client::new();
    client.content("{");
    assert_eq!(client.receive()["error"]["code"], -32700);
    client.content("[]");
    assert_eq!(client.receive()["error"]["code"], -32600);
    client.content(&"[".repeat(100_000));
    assert_eq!(client.receive()["error"]["code"], -32700);
    client.raw(b"Content-Length: 2\r\n\r\n\xff\xfe");
    assert_eq!(client.receive()["error"]["code"], -32700);
    client.raw(b"nonsense\r\nContent-Length: many\r\n\r\n");
    client.content("{\"id\": 5}");
    assert_eq!(client.receive()["error"]["code"], -32600);
    client.notify("no/such", json!(7));
    client.notify("textDocument/didChange", json!({ "textDocument": 3 }));
    client.notify("textDocument/didOpen", Value::Null);
    client.notify("$/cancelRequest", json!({ "id": 99 }));
    assert_eq!(client.answer("no/such", Value::Null)["error"]["code"], -32601);
    for (method, _) in requests() {
        assert_eq!(client.answer(method, json!({ "textDocument": 1 }))["error"]["code"], -32602, "{method}");
    }
    for (method, params) in requests() {
        assert_eq!(client.answer(method, params)["error"]["code"], -32803, "{method}: the text is not open");
    }
    assert_eq!(client.exit(), Some(0));
}

#[test]
fn every_prefix_of_a_program_is_answered() {
    let mut client = Client::new();
    client.open(URI, "");
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples");
    for name in ["softmax.fl", "conv1d.fl"] {
        let Ok(text) = fs::read_to_string(format!("{root}/{name}")) else { continue };
        let ends = (0..text.len()).filter(|end| text.is_char_boundary(*end));
        for (version, end) in ends.step_by(7).enumerate() {
            client.set(URI, version as i64 + 2, &text[..end]);
            for (method, params) in requests() {
                let answer = client.answer(method, params);
                assert!(answer.get("error").is_none(), "{method} of {:?}: {answer}", &text[..end]);
            }
        }
    }
    assert_eq!(client.exit(), Some(0));
}

#[test]
fn hostile_text_is_answered() {
    let mut client = Client::new();
    client.open(URI, "");
    let long = format!("fn f(x: f32[n]) = x{}", " + x".repeat(2_500_000));
    let texts = ["(".repeat(1_000_000), "\u{0}\u{202e}\r\r\n\"".repeat(1000), long];
    for (version, text) in texts.iter().enumerate() {
        client.set(URI, version as i64 + 2, text);
        for (method, params) in requests() {
            let answer = client.answer(method, params);
            assert!(answer.get("error").is_none(), "{method}");
        }
    }
    assert_eq!(client.exit(), Some(0));
}

#[test]
fn cancelled_and_outdated_requests_are_refused() {
    let mut client = Client::new();
    client.open(URI, "fn f(x: f32[n]) = x\n");
    let (method, params) = requests().remove(1);
    let ask = |id: i64| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    let change =
        json!({ "textDocument": { "uri": URI, "version": 2 }, "contentChanges": [{ "text": "fn g() = 1\n" }] });
    client.batch(&[
        ask(70),
        json!({ "jsonrpc": "2.0", "method": "$/cancelRequest", "params": { "id": 70 } }),
        ask(71),
        json!({ "jsonrpc": "2.0", "method": "textDocument/didChange", "params": change }),
        ask(72),
    ]);
    let mut codes = vec![];
    while codes.len() < 3 {
        let message = client.receive();
        if message.get("id").is_some() {
            codes.push((message["id"].as_i64().unwrap(), message["error"]["code"].as_i64()));
        }
    }
    // Either came too late if the request was answered at once.
    assert!(matches!(codes[0], (70, None | Some(-32800))), "{codes:?}");
    assert!(matches!(codes[1], (71, None | Some(-32801))), "{codes:?}");
    assert_eq!(codes[2], (72, None));
    assert_eq!(client.exit(), Some(0));
}

/// Kibibytes of memory that a process holds.
#[cfg(target_os = "linux")]
fn resident(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn memory_stays_flat_over_ten_thousand_edits() {
    let mut client = Client::new();
    client.open(URI, "fn f(x: f32[n]) = x + 1\n");
    let edits = |client: &mut Client, from: i64, count: i64| {
        for version in from..from + count {
            let text = if version % 2 == 0 { "2" } else { "y" };
            let change = json!({ "range": { "start": at(0, 22), "end": at(0, 23) }, "text": text });
            let document = json!({ "uri": URI, "version": version });
            client.notify("textDocument/didChange", json!({ "textDocument": document, "contentChanges": [change] }));
            if version % 10 == 0 {
                let (method, params) = requests().remove(0);
                client.request(method, params);
            }
        }
    };
    edits(&mut client, 2, 1000);
    let before = resident(client.process());
    edits(&mut client, 1002, 9000);
    let after = resident(client.process());
    assert!(after < before + (8 << 10), "{before} KiB, then {after} KiB");
    assert_eq!(client.exit(), Some(0));
}

/// Sets how many more bytes of addresses a process may take.
#[cfg(target_os = "linux")]
fn limit_memory(process: u32, more: Option<u64>) {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    let now: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    let limit = more.map_or("unlimited".to_owned(), |more| (now * 1024 + more).to_string());
    let mut command = std::process::Command::new("prlimit");
    assert!(command.args([format!("--pid={process}"), format!("--as={limit}:")]).status().unwrap().success());
}

#[test]
#[cfg(target_os = "linux")]
fn without_a_thread_errors_are_said_and_the_server_goes_on() {
    let mut client = Client::new();
    // There is no room for the stack of a thread.
    limit_memory(client.process(), Some(48 << 20));
    client.open(URI, "fn f(x: f32[n]) = y\n");
    let said = client.receive();
    assert_eq!(said["method"], "window/showMessage", "{said}");
    let message = said["params"]["message"].as_str().unwrap();
    assert!(message.starts_with("The text was not checked: no thread can be started: "), "{message}");
    let run = json!({ "command": "fuseloop.run", "arguments": [{ "uri": URI, "function": "f" }] });
    client.set(URI, 2, "fn f(x: f32[n]) = x\n");
    let answer = client.answer("workspace/executeCommand", run.clone());
    assert_eq!(answer["error"]["code"], -32803, "{answer}");
    limit_memory(client.process(), None);
    client.set(URI, 3, "fn f(x: f32[n]) = y\n");
    // The text before may be checked only now, when there is room.
    assert_eq!(client.diagnostics_of(URI, 3)[0]["code"], "E0101");
    client.set(URI, 4, "fn f(x: f32[n]) = x\n");
    assert!(client.request("workspace/executeCommand", run).is_string());
    assert_eq!(client.exit(), Some(0));
}
