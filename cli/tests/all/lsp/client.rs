//! An editor that talks to `fuseloop lsp`.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

pub struct Client {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next: i64,
    /// The notifications that came before the last answer.
    pub noticed: Vec<Value>,
    /// All messages of both sides, a line each, if they are to be kept.
    pub transcript: Option<String>,
}

impl Client {
    /// Starts the server without saying anything to it.
    pub fn silent() -> Client {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fuseloop"));
        let mut child = command.arg("lsp").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Client { child, input, output, next: 1, noticed: vec![], transcript: None }
    }

    /// Starts the server and initializes it.
    pub fn new() -> Client {
        let mut client = Client::silent();
        client.request("initialize", json!({ "capabilities": {} }));
        client.notify("initialized", json!({}));
        client
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Sends these bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.input.write_all(bytes).unwrap();
        self.input.flush().unwrap();
    }

    fn note(&mut self, side: &str, text: &str) {
        self.transcript.iter_mut().for_each(|all| *all += &format!("{side} {text}\n"));
    }

    /// Sends a text as the content of a message.
    pub fn content(&mut self, text: &str) {
        self.note("editor:", text);
        self.raw(format!("Content-Length: {}\r\n\r\n{text}", text.len()).as_bytes());
    }

    /// Sends messages at once, so that the server finds all of them.
    pub fn batch(&mut self, messages: &[Value]) {
        let framed = messages.iter().map(|message| {
            let text = message.to_string();
            format!("Content-Length: {}\r\n\r\n{text}", text.len())
        });
        self.raw(framed.collect::<String>().as_bytes());
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        self.content(&json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string());
    }

    pub fn receive(&mut self) -> Value {
        let (mut length, mut line) = (0, String::new());
        loop {
            line.clear();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the server has ended");
            match line.trim().strip_prefix("Content-Length: ") {
                Some(number) => length = number.parse().unwrap(),
                None => break,
            }
        }
        let mut content = vec![0; length];
        self.output.read_exact(&mut content).unwrap();
        self.note("server:", std::str::from_utf8(&content).unwrap());
        serde_json::from_slice(&content).unwrap()
    }

    /// Sends a request and waits for its answer, all of it.
    pub fn answer(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.content(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string());
        self.noticed.clear();
        loop {
            let message = self.receive();
            if message["id"] == id {
                return message;
            }
            self.noticed.push(message);
        }
    }

    /// The result of a request.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let answer = self.answer(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    pub fn open(&mut self, uri: &str, text: &str) {
        let document = json!({ "uri": uri, "languageId": "fuseloop", "version": 1, "text": text });
        self.notify("textDocument/didOpen", json!({ "textDocument": document }));
    }

    /// Replaces the whole text.
    pub fn set(&mut self, uri: &str, version: i64, text: &str) {
        let document = json!({ "uri": uri, "version": version });
        self.notify(
            "textDocument/didChange",
            json!({ "textDocument": document, "contentChanges": [{ "text": text }] }),
        );
    }

    /// The next diagnostics of a text.
    pub fn diagnostics(&mut self, uri: &str) -> Value {
        loop {
            let message = self.receive();
            if message["method"] == "textDocument/publishDiagnostics" && message["params"]["uri"] == uri {
                return message["params"]["diagnostics"].clone();
            }
        }
    }

    /// The diagnostics of a version of a text.
    pub fn diagnostics_of(&mut self, uri: &str, version: i64) -> Value {
        loop {
            let params = self.receive()["params"].clone();
            if params["uri"] == uri && params["version"] == version {
                return params["diagnostics"].clone();
            }
        }
    }

    /// Waits for the end of the server, which has been asked for; its exit code.
    pub fn ended(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Ends the conversation; the exit code of the server.
    pub fn exit(mut self) -> Option<i32> {
        self.request("shutdown", Value::Null);
        self.notify("exit", Value::Null);
        self.ended()
    }
}
