//! Messages over stdin and stdout: headers, then JSON. Text that is no message is answered and
//! skipped; it never ends the server.

use std::io::{self, BufRead, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use lsp_types::Uri;
use serde_json::{Value, json};

use super::diagnostics::Reports;

/// The limit on the bytes of a message.
const MAX_MESSAGE: u64 = 256 << 20;
/// The limit on the bytes of a line of a header.
const MAX_LINE: u64 = 1 << 16;
/// Messages that wait to be taken; then the reader waits.
const WAITING: usize = 1024;

/// The numbers of errors that JSON-RPC and the protocol define.
pub mod codes {
    pub const PARSE_ERROR: i64 = -32700;
    pub const INVALID_REQUEST: i64 = -32600;
    pub const METHOD_NOT_FOUND: i64 = -32601;
    pub const INVALID_PARAMS: i64 = -32602;
    pub const INTERNAL_ERROR: i64 = -32603;
    pub const NOT_INITIALIZED: i64 = -32002;
    pub const CANCELLED: i64 = -32800;
    pub const CONTENT_MODIFIED: i64 = -32801;
    pub const REQUEST_FAILED: i64 = -32803;
}

/// A message from the editor.
#[derive(Debug)]
pub enum Message {
    /// It waits for an answer.
    Request { id: Value, method: String, params: Value },
    /// It does not.
    Notification { method: String, params: Value },
    /// The answer to a request of the server, which makes none that needs one.
    Response,
    /// Not from the editor: the result of a command that ran on a thread of its own.
    Done { id: Value, result: Result<String, String> },
    /// Not from the editor: the errors or warnings of a version of a text; `None` after a fault.
    Checked { uri: Uri, version: i32, reports: Option<Reports> },
    /// The editor has closed the connection.
    End,
    /// Text that is no message.
    Wrong { id: Value, code: i64, message: String },
}

impl Message {
    fn new(text: &[u8]) -> Message {
        let wrong = |id, code, message: &str| Message::Wrong { id, code, message: message.to_owned() };
        let mut value: Value = match serde_json::from_slice(text) {
            Ok(value) => value,
            Err(error) => return wrong(Value::Null, codes::PARSE_ERROR, &error.to_string()),
        };
        let Some(fields) = value.as_object_mut() else {
            return wrong(Value::Null, codes::INVALID_REQUEST, "a message is a JSON object");
        };
        let params = fields.remove("params").unwrap_or_default();
        let id = fields.remove("id");
        match (fields.remove("method"), id) {
            (Some(Value::String(method)), None) => Message::Notification { method, params },
            (Some(Value::String(method)), Some(id @ (Value::Number(_) | Value::String(_)))) => {
                Message::Request { id, method, params }
            }
            (None, Some(_)) if fields.contains_key("result") || fields.contains_key("error") => Message::Response,
            _ => wrong(Value::Null, codes::INVALID_REQUEST, "expected `method`, and `id` for a request"),
        }
    }
}

/// Reads messages on a thread of its own, until stdin ends. The sender is for others that have
/// something to say to the server.
pub fn receive() -> io::Result<(SyncSender<Message>, Receiver<Message>)> {
    let (sender, receiver) = sync_channel(WAITING);
    let others = sender.clone();
    thread::Builder::new().spawn(move || {
        let mut stdin = io::stdin().lock();
        while let Ok(Some(message)) = read(&mut stdin) {
            let last = matches!(&message, Message::Notification { method, .. } if method == "exit");
            if sender.send(message).is_err() || last {
                return;
            }
        }
        // The server may have ended meanwhile.
        let _ = sender.send(Message::End);
    })?;
    Ok((others, receiver))
}

/// The next message; `None` at the end of the input.
fn read(input: &mut impl BufRead) -> io::Result<Option<Message>> {
    let mut length = None;
    let mut line = vec![];
    loop {
        line.clear();
        if input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        let header = String::from_utf8_lossy(&line);
        let header = header.trim();
        match (header.split_once(':'), length) {
            (Some((name, value)), _) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse::<u64>().ok();
            }
            (None, Some(length)) if header.is_empty() => return body(input, length),
            _ => {}
        }
    }
}

fn body(input: &mut impl BufRead, length: u64) -> io::Result<Option<Message>> {
    let mut content = input.take(length);
    if length > MAX_MESSAGE {
        io::copy(&mut content, &mut io::sink())?;
        let message = format!("a message has more than {MAX_MESSAGE} bytes");
        return Ok(Some(Message::Wrong { id: Value::Null, code: codes::INVALID_REQUEST, message }));
    }
    let mut text = vec![];
    content.read_to_end(&mut text)?;
    Ok((text.len() as u64 == length).then(|| Message::new(&text)))
}

/// Writes a message.
pub fn send(output: &mut impl Write, mut message: Value) -> io::Result<()> {
    message["jsonrpc"] = json!("2.0");
    let text = message.to_string();
    write!(output, "Content-Length: {}\r\n\r\n{text}", text.len())?;
    output.flush()
}
