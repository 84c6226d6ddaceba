//! The server: takes messages in batches, applies changes, answers requests.

use std::collections::{BTreeSet, VecDeque};
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Duration;

use fuseloop::Cancel;
use lsp_types::{
    CodeActionKind, CodeActionOptions, CodeActionParams, CodeActionProviderCapability, CodeLens, CodeLensOptions,
    CodeLensParams, CompletionOptions, CompletionParams, Diagnostic, DidChangeTextDocumentParams,
    DidChangeWorkspaceFoldersParams, DidCloseTextDocumentParams, DidOpenTextDocumentParams, DocumentFormattingParams,
    DocumentSymbolParams, ExecuteCommandOptions, ExecuteCommandParams, HoverProviderCapability, InlayHintParams,
    MessageType, OneOf, PublishDiagnosticsParams, ReferenceParams, RenameParams, SemanticTokens,
    SemanticTokensFullOptions, SemanticTokensOptions, SemanticTokensParams, ServerCapabilities, ShowMessageParams,
    TextDocumentPositionParams, TextDocumentSyncCapability, TextDocumentSyncKind, TextDocumentSyncOptions,
    TextDocumentSyncSaveOptions, Uri, WorkspaceFoldersServerCapabilities, WorkspaceServerCapabilities,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::diagnostics::Reports;
use super::documents::{Document, Documents};
use super::transport::{Message, codes, send};
use super::{actions, commands, completion, diagnostics, formatting, hints, hover, lenses, symbols, tokens, uris};
use crate::failure::Failure;

/// A text is checked once the editor has been quiet for this time: requests follow an edit closely.
const PAUSE: Duration = Duration::from_millis(5);

/// The reason why a request has no result.
struct Refused {
    code: i64,
    message: String,
}

impl Refused {
    fn new(code: i64, message: impl Into<String>) -> Refused {
        Refused { code, message: message.into() }
    }
}

/// A request that waits for its answer.
struct Waiting {
    id: Value,
    method: String,
    params: Value,
    /// Set if it can no longer be answered.
    refused: Option<Refused>,
}

/// How far the conversation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Begun,
    Running,
    /// After `shutdown`.
    Down,
}

/// A conversation with an editor.
pub struct Server<'w, W> {
    output: &'w mut W,
    /// For commands to say that they have ended.
    sender: SyncSender<Message>,
    documents: Documents,
    state: State,
    /// The commands that run, by the requests that wait for them.
    running: Vec<(Value, Cancel)>,
    waiting: VecDeque<Waiting>,
    /// The texts that are to be checked, by their URIs.
    unchecked: BTreeSet<String>,
    /// Whether one is being checked.
    checking: bool,
}

/// The step after a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    GoOn,
    Exit,
    /// Nothing more comes: what waits is answered, and then the server ends.
    Finish,
}

impl<'w, W: Write> Server<'w, W> {
    /// A server that writes to `output`.
    pub fn new(output: &'w mut W, sender: SyncSender<Message>) -> Server<'w, W> {
        Server {
            output,
            sender,
            documents: Documents::default(),
            state: State::Begun,
            running: vec![],
            waiting: VecDeque::new(),
            unchecked: BTreeSet::new(),
            checking: false,
        }
    }

    /// Serves until `exit`, or until the editor has closed the connection.
    pub fn serve(mut self, received: &Receiver<Message>) -> Result<(), Failure> {
        let mut ended = false;
        loop {
            let busy = ended || !self.waiting.is_empty();
            let unchecked = !self.checking && !self.unchecked.is_empty();
            let first = match (busy, unchecked) {
                (true, _) => received.try_recv().ok(),
                (false, true) => received.recv_timeout(PAUSE).ok(),
                (false, false) => received.recv().ok(),
            };
            let quiet = first.is_none();
            for message in first.into_iter().chain(received.try_iter()) {
                match self.take(message)? {
                    Next::GoOn => {}
                    Next::Exit => return self.end(),
                    Next::Finish => ended = true,
                }
            }
            // One piece of work, then a look at what has arrived meanwhile.
            if let Some(request) = self.waiting.pop_front() {
                self.answer(request)?;
            } else if ended {
                return self.end();
            } else if quiet
                && !self.checking
                && let Some(uri) = self.unchecked.pop_first()
            {
                self.check(&uri)?;
            }
        }
    }

    fn end(&self) -> Result<(), Failure> {
        if self.state == State::Down { Ok(()) } else { Err(Failure::Said) }
    }

    /// Takes a message: applies a notification, and puts a request in line.
    fn take(&mut self, message: Message) -> io::Result<Next> {
        match message {
            Message::Wrong { id, code, message } => self.refuse(&id, &Refused::new(code, message))?,
            Message::Response => {}
            Message::End => return Ok(Next::Finish),
            Message::Checked { uri, version, reports } => self.checked(uri, version, reports)?,
            Message::Done { id, result } => {
                // One that was cancelled has been answered.
                if let Some(at) = self.running.iter().position(|(running, _)| *running == id) {
                    self.running.swap_remove(at);
                    match result {
                        Ok(text) => send(self.output, json!({ "id": id, "result": text }))?,
                        Err(why) => self.refuse(&id, &Refused::new(codes::REQUEST_FAILED, why))?,
                    }
                }
            }
            Message::Request { id, method, params } => {
                self.waiting.push_back(Waiting { id, method, params, refused: None });
            }
            Message::Notification { method, params } => return self.notice(&method, params),
        }
        Ok(Next::GoOn)
    }

    /// Applies a notification. One with wrong parameters is skipped, as is an unknown one: there is
    /// no answer that could say so.
    fn notice(&mut self, method: &str, params: Value) -> io::Result<Next> {
        match method {
            "exit" => return Ok(Next::Exit),
            "$/cancelRequest" => {
                if let Some(at) = self.running.iter().position(|(id, _)| params.get("id") == Some(id)) {
                    let (id, cancel) = self.running.swap_remove(at);
                    cancel.cancel();
                    self.refuse(&id, &Refused::new(codes::CANCELLED, "the request was cancelled"))?;
                }
                for request in self.waiting.iter_mut().filter(|request| params.get("id") == Some(&request.id)) {
                    request.refused = Some(Refused::new(codes::CANCELLED, "the request was cancelled"));
                }
            }
            "textDocument/didOpen" => {
                if let Ok(DidOpenTextDocumentParams { text_document: one }) = serde_json::from_value(params) {
                    self.outdate(&one.uri);
                    self.documents.open(Document::new(one.uri, one.version, one.text));
                    self.check_all();
                }
            }
            "textDocument/didChange" => {
                let Ok(DidChangeTextDocumentParams { text_document: one, content_changes }) =
                    serde_json::from_value(params)
                else {
                    return Ok(Next::GoOn);
                };
                self.outdate(&one.uri);
                if let Some(document) = self.documents.get_mut(&one.uri) {
                    document.change(one.version, content_changes);
                    self.check_all();
                }
            }
            "textDocument/didClose" => {
                if let Ok(DidCloseTextDocumentParams { text_document: one }) = serde_json::from_value(params) {
                    self.outdate(&one.uri);
                    self.documents.close(&one.uri);
                    self.check_all();
                    // Its diagnostics are taken back.
                    self.unchecked.insert(one.uri.to_string());
                }
            }
            "textDocument/didSave" | "workspace/didChangeWatchedFiles" => {
                self.documents.forget();
                self.check_all();
            }
            "workspace/didChangeWorkspaceFolders" => {
                if let Ok(DidChangeWorkspaceFoldersParams { event }) = serde_json::from_value(params) {
                    let paths = |folders: &[lsp_types::WorkspaceFolder]| {
                        folders.iter().filter_map(|folder| uris::path(&folder.uri)).collect::<Vec<_>>()
                    };
                    let removed = paths(&event.removed);
                    self.documents.folders.retain(|folder| !removed.contains(folder));
                    self.documents.folders.extend(paths(&event.added));
                }
            }
            _ => {}
        }
        Ok(Next::GoOn)
    }

    /// Refuses the requests about a text that is about to change.
    fn outdate(&mut self, uri: &Uri) {
        for request in self.waiting.iter_mut().filter(|request| request.refused.is_none()) {
            let about = request.params.pointer("/textDocument/uri").and_then(Value::as_str);
            if about == Some(uri.as_str()) {
                request.refused = Some(Refused::new(codes::CONTENT_MODIFIED, "the text has changed since"));
            }
        }
    }

    /// Any text may use one that has changed.
    fn check_all(&mut self) {
        self.unchecked.extend(self.documents.all().map(|document| document.uri.to_string()));
    }

    /// Has a text checked; one that is no longer open has no diagnostics.
    fn check(&mut self, uri: &str) -> io::Result<()> {
        let Ok(uri) = uri.parse::<Uri>() else { return Ok(()) };
        let Some(document) = self.documents.get(&uri) else { return self.publish(uri, None, vec![]) };
        let (version, checked) = (document.version, uri.clone());
        let done = move |reports| Message::Checked { uri: checked, version, reports };
        match diagnostics::start(self.documents.copied(), uri, self.sender.clone(), done) {
            Ok(()) => {
                self.checking = true;
                Ok(())
            }
            // The next change has it checked.
            Err(error) => self.complain(&format!("The text was not checked: {error}")),
        }
    }

    /// Publishes the diagnostics of a text, unless it has changed since it was checked.
    fn checked(&mut self, uri: Uri, version: i32, reports: Option<Reports>) -> io::Result<()> {
        self.checking = false;
        let outdated = self.unchecked.contains(uri.as_str());
        let Some(document) = self.documents.get(&uri).filter(|document| document.version == version && !outdated)
        else {
            return Ok(());
        };
        let found = reports.and_then(|reports| {
            self.documents.found(document, reports);
            caught(|| diagnostics::of(&self.documents, document))
        });
        self.publish(uri, Some(version), found.unwrap_or_default())
    }

    fn publish(&mut self, uri: Uri, version: Option<i32>, diagnostics: Vec<Diagnostic>) -> io::Result<()> {
        let params = PublishDiagnosticsParams { uri, diagnostics, version };
        send(self.output, json!({ "method": "textDocument/publishDiagnostics", "params": params }))
    }

    /// Shows an error that no request waits for.
    fn complain(&mut self, message: &str) -> io::Result<()> {
        let params = ShowMessageParams { typ: MessageType::ERROR, message: message.to_owned() };
        send(self.output, json!({ "method": "window/showMessage", "params": params }))
    }

    fn refuse(&mut self, id: &Value, refused: &Refused) -> io::Result<()> {
        let error = json!({ "code": refused.code, "message": refused.message });
        send(self.output, json!({ "id": id, "error": error }))
    }

    fn answer(&mut self, request: Waiting) -> io::Result<()> {
        let Waiting { id, method, params, refused } = request;
        let result = match refused {
            Some(refused) => Err(refused),
            None if method == "workspace/executeCommand" && self.state == State::Running => {
                match self.execute(&id, params) {
                    Ok(()) => return Ok(()),
                    Err(refused) => Err(refused),
                }
            }
            None => self.result(&method, params),
        };
        match result {
            Ok(result) => send(self.output, json!({ "id": id, "result": result })),
            Err(refused) => self.refuse(&id, &refused),
        }
    }

    /// Starts a command; its end is a message.
    fn execute(&mut self, id: &Value, params: Value) -> Result<(), Refused> {
        let ExecuteCommandParams { command, arguments, .. } = read(params)?;
        if !commands::ALL.contains(&command.as_str()) {
            return Err(Refused::new(codes::INVALID_PARAMS, format!("there is no command `{command}`")));
        }
        let mut call: commands::Call = read(arguments.into_iter().next().unwrap_or_default())?;
        if self.running.len() >= commands::MAX_RUNNING {
            let message = format!("{} commands are running", commands::MAX_RUNNING);
            return Err(Refused::new(codes::REQUEST_FAILED, message));
        }
        let document = self.document(&call.uri)?;
        call.arguments = call.arguments.or_else(|| self.documents.names(document).arguments(&call.function));
        let parsed = caught(|| self.documents.parse(document)).ok_or_else(fault)?;
        let program = parsed.map_err(|errors| Refused::new(codes::REQUEST_FAILED, errors.to_string()))?;
        let of_request = id.clone();
        let done = move |result| Message::Done { id: of_request, result };
        let job = commands::Job { command, program, call };
        let cancel = commands::start(job, self.sender.clone(), done)
            .map_err(|error| Refused::new(codes::REQUEST_FAILED, error.to_string()))?;
        self.running.push((id.clone(), cancel));
        Ok(())
    }

    fn result(&mut self, method: &str, params: Value) -> Result<Value, Refused> {
        match (self.state, method) {
            (State::Begun, "initialize") => {
                self.state = State::Running;
                self.documents.folders = folders(&params);
                let info = json!({ "name": "fuseloop", "version": env!("CARGO_PKG_VERSION") });
                Ok(json!({ "capabilities": capabilities(), "serverInfo": info }))
            }
            (State::Begun, _) => Err(Refused::new(codes::NOT_INITIALIZED, "expected `initialize` first")),
            (State::Running, "initialize") => Err(Refused::new(codes::INVALID_REQUEST, "`initialize` comes once")),
            (State::Down, _) => Err(Refused::new(codes::INVALID_REQUEST, "the server has been shut down")),
            (State::Running, "shutdown") => {
                self.state = State::Down;
                Ok(Value::Null)
            }
            (State::Running, _) => caught(|| self.capability(method, params)).unwrap_or_else(|| Err(fault())),
        }
    }

    /// The result of a request about the texts.
    fn capability(&self, method: &str, params: Value) -> Result<Value, Refused> {
        match method {
            "textDocument/codeAction" => {
                let params: CodeActionParams = read(params)?;
                written(actions::of(&self.documents, self.document(&params.text_document.uri)?, params.range))
            }
            "textDocument/formatting" => {
                let params: DocumentFormattingParams = read(params)?;
                written(formatting::of(self.document(&params.text_document.uri)?))
            }
            "textDocument/semanticTokens/full" => {
                let params: SemanticTokensParams = read(params)?;
                let data = tokens::of(self.document(&params.text_document.uri)?);
                written(SemanticTokens { result_id: None, data })
            }
            "textDocument/documentSymbol" => {
                let params: DocumentSymbolParams = read(params)?;
                let document = self.document(&params.text_document.uri)?;
                written(symbols::outline(&self.documents.names(document), document))
            }
            "textDocument/definition" | "textDocument/documentHighlight" | "textDocument/hover" => {
                let at: TextDocumentPositionParams = read(params)?;
                let document = self.document(&at.text_document.uri)?;
                match method {
                    "textDocument/definition" => written(symbols::definition(&self.documents, document, at.position)),
                    "textDocument/documentHighlight" => {
                        written(symbols::highlights(&self.documents, document, at.position))
                    }
                    _ => written(hover::of(&self.documents, document, at.position)),
                }
            }
            "textDocument/completion" => {
                let CompletionParams { text_document_position: at, .. } = read(params)?;
                let document = self.document(&at.text_document.uri)?;
                written(completion::of(&self.documents.names(document), document, at.position))
            }
            "textDocument/inlayHint" => {
                let params: InlayHintParams = read(params)?;
                written(hints::of(&self.documents, self.document(&params.text_document.uri)?, params.range))
            }
            "textDocument/codeLens" => {
                let params: CodeLensParams = read(params)?;
                let document = self.document(&params.text_document.uri)?;
                written(lenses::of(&self.documents.names(document), document))
            }
            "codeLens/resolve" => {
                let lens: CodeLens = read(params)?;
                let uri = lens.data.as_ref().and_then(|data| data["uri"].as_str()?.parse().ok());
                let uri: Uri = uri.ok_or_else(|| Refused::new(codes::INVALID_PARAMS, "a lens of another server"))?;
                written(lenses::resolve(&self.documents.names(self.document(&uri)?), lens))
            }
            "textDocument/references" => {
                let ReferenceParams { text_document_position: at, context, .. } = read(params)?;
                let document = self.document(&at.text_document.uri)?;
                written(symbols::references(&self.documents, document, at.position, context.include_declaration))
            }
            "textDocument/rename" => {
                let RenameParams { text_document_position: at, new_name, .. } = read(params)?;
                let document = self.document(&at.text_document.uri)?;
                let edits = symbols::rename(&self.documents, document, at.position, &new_name);
                written(edits.map_err(|why| Refused::new(codes::REQUEST_FAILED, why))?)
            }
            _ => Err(Refused::new(codes::METHOD_NOT_FOUND, format!("there is no method `{method}`"))),
        }
    }

    fn document(&self, uri: &Uri) -> Result<&Document, Refused> {
        let missing = || Refused::new(codes::REQUEST_FAILED, format!("the text {} is not open", uri.as_str()));
        self.documents.get(uri).ok_or_else(missing)
    }
}

/// The abilities that the server declares.
fn capabilities() -> ServerCapabilities {
    ServerCapabilities {
        text_document_sync: Some(TextDocumentSyncCapability::Options(TextDocumentSyncOptions {
            open_close: Some(true),
            change: Some(TextDocumentSyncKind::INCREMENTAL),
            save: Some(TextDocumentSyncSaveOptions::Supported(true)),
            ..TextDocumentSyncOptions::default()
        })),
        code_action_provider: Some(CodeActionProviderCapability::Options(CodeActionOptions {
            code_action_kinds: Some(vec![CodeActionKind::QUICKFIX]),
            ..CodeActionOptions::default()
        })),
        document_formatting_provider: Some(OneOf::Left(true)),
        semantic_tokens_provider: Some(
            SemanticTokensOptions {
                legend: tokens::legend(),
                full: Some(SemanticTokensFullOptions::Bool(true)),
                ..SemanticTokensOptions::default()
            }
            .into(),
        ),
        document_symbol_provider: Some(OneOf::Left(true)),
        definition_provider: Some(OneOf::Left(true)),
        references_provider: Some(OneOf::Left(true)),
        document_highlight_provider: Some(OneOf::Left(true)),
        rename_provider: Some(OneOf::Left(true)),
        hover_provider: Some(HoverProviderCapability::Simple(true)),
        completion_provider: Some(CompletionOptions::default()),
        inlay_hint_provider: Some(OneOf::Left(true)),
        code_lens_provider: Some(CodeLensOptions { resolve_provider: Some(true) }),
        execute_command_provider: Some(ExecuteCommandOptions {
            commands: commands::ALL.map(str::to_owned).to_vec(),
            ..ExecuteCommandOptions::default()
        }),
        workspace: Some(WorkspaceServerCapabilities {
            workspace_folders: Some(WorkspaceFoldersServerCapabilities {
                supported: Some(true),
                change_notifications: Some(OneOf::Left(true)),
            }),
            file_operations: None,
        }),
        ..ServerCapabilities::default()
    }
}

/// The folders that the editor works in, from the parameters of `initialize`.
fn folders(params: &Value) -> Vec<std::path::PathBuf> {
    let several = params.get("workspaceFolders").and_then(Value::as_array).into_iter().flatten();
    let named = several.filter_map(|folder| folder.get("uri"));
    // Older editors name only one.
    let named: Vec<&Value> = named.collect();
    let named = if named.is_empty() { params.get("rootUri").into_iter().collect() } else { named };
    named.into_iter().filter_map(|uri| uris::path(&uri.as_str()?.parse().ok()?)).collect()
}

fn fault() -> Refused {
    Refused::new(codes::INTERNAL_ERROR, "a fault of Fuseloop itself: please report it, with the text")
}

/// The parameters of a request.
fn read<T: DeserializeOwned>(params: Value) -> Result<T, Refused> {
    serde_json::from_value(params).map_err(|error| Refused::new(codes::INVALID_PARAMS, error.to_string()))
}

fn written(result: impl Serialize) -> Result<Value, Refused> {
    serde_json::to_value(result).map_err(|error| Refused::new(codes::INTERNAL_ERROR, error.to_string()))
}

/// The value, or `None` after a panic: a fault in one request is not the end of the others. They
/// change nothing that a panic could leave half done.
pub fn caught<T>(run: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(run)).ok()
}
