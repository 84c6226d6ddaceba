//! Code lenses: the commands above each function.

use fuseloop::editor::Names;
use lsp_types::{CodeLens, Command};
use serde_json::json;

use super::commands;
use super::documents::Document;

/// The lenses of the functions without errors.
pub fn of(names: &Names, document: &Document) -> Vec<CodeLens> {
    let lenses = names.functions().filter_map(|function| {
        let arguments = names.arguments(&function.name)?;
        let range = document.range(&function.at);
        let call = json!({ "uri": document.uri, "function": function.name, "arguments": arguments });
        Some([commands::EXPLAIN, commands::RUN].map(|command| CodeLens {
            range,
            command: Some(Command {
                title: command.rsplit('.').next().unwrap_or_default().to_owned(),
                command: command.to_owned(),
                arguments: Some(vec![call.clone()]),
            }),
            data: None,
        }))
    });
    lenses.flatten().collect()
}
