//! Code lenses: the commands above each function. Their arguments follow when an editor shows them,
//! because functions have to be checked for these.

use fuseloop::editor::Names;
use lsp_types::{CodeLens, Command};
use serde_json::{Value, json};

use super::commands;
use super::documents::Document;

/// The lenses of a text.
pub fn of(names: &Names, document: &Document) -> Vec<CodeLens> {
    let lenses = names.functions().flat_map(|function| {
        let range = document.range(&function.at);
        commands::ALL.map(|command| {
            let data = json!({ "uri": document.uri, "function": function.name, "command": command });
            CodeLens { range, command: None, data: Some(data) }
        })
    });
    lenses.collect()
}

/// A lens of the text with its command.
pub fn resolve(names: &Names, lens: CodeLens) -> CodeLens {
    let data = lens.data.unwrap_or_default();
    let text = |field: &str| data.get(field).and_then(Value::as_str).unwrap_or_default();
    let (command, function) = (text("command").to_owned(), text("function"));
    let call = json!({ "uri": text("uri"), "function": function, "arguments": names.arguments(function) });
    let title = command.rsplit('.').next().unwrap_or_default().to_owned();
    let command = Command { title, command, arguments: Some(vec![call]) };
    CodeLens { range: lens.range, command: Some(command), data: None }
}
