//! The functions of a text, and the places of its names: outline, definition, references,
//! highlights and rename.

use std::collections::HashMap;
use std::ops::Range;

use fuseloop::editor::{Names, Role};
use lsp_types::{DocumentHighlight, DocumentSymbol, Location, Position, SymbolKind, TextEdit, WorkspaceEdit};

use super::diagnostics::location;
use super::documents::{Document, Documents};

/// The functions of a text.
#[expect(deprecated, reason = "the protocol's type has a deprecated field, which is left out")]
pub fn outline(names: &Names, document: &Document) -> Vec<DocumentSymbol> {
    let symbol = |function: fuseloop::editor::Declared| DocumentSymbol {
        name: function.name,
        detail: Some(function.signature),
        kind: SymbolKind::FUNCTION,
        tags: None,
        deprecated: None,
        range: document.range(&function.bytes),
        selection_range: document.range(&function.at),
        children: None,
    };
    names.functions().map(symbol).collect()
}

/// Where the name at a position is declared.
pub fn definition(documents: &Documents, names: &Names, document: &Document, position: Position) -> Option<Location> {
    let one = names.at(document.byte(position))?;
    location(documents, document, names.source(), &names.declaration(&one)?)
}

/// The places of the name at a position in the text.
fn places(names: &Names, document: &Document, position: Position) -> Vec<Range<usize>> {
    names.at(document.byte(position)).map(|one| names.same(&one)).unwrap_or_default()
}

/// The places where the same name stands, and, if it is wanted, where it is declared.
pub fn references(
    documents: &Documents,
    names: &Names,
    document: &Document,
    position: Position,
    declaration: bool,
) -> Vec<Location> {
    let declared = names.at(document.byte(position)).and_then(|one| names.declaration(&one));
    let here = |bytes: &Range<usize>| Location::new(document.uri.clone(), document.range(bytes));
    let mut found: Vec<Location> = places(names, document, position)
        .iter()
        .filter(|place| declaration || Some(*place) != declared.as_ref())
        .map(here)
        .collect();
    let elsewhere = declared.filter(|bytes| declaration && bytes.start > document.text.len());
    found.extend(elsewhere.and_then(|bytes| location(documents, document, names.source(), &bytes)));
    found
}

/// The same, to be marked in the text.
pub fn highlights(names: &Names, document: &Document, position: Position) -> Vec<DocumentHighlight> {
    let mark = |bytes: &Range<usize>| DocumentHighlight { range: document.range(bytes), kind: None };
    places(names, document, position).iter().map(mark).collect()
}

/// The edits that give the name at a position another text, or the reason why there are none.
pub fn rename(
    names: &Names,
    document: &Document,
    position: Position,
    new: &str,
) -> Result<WorkspaceEdit, &'static str> {
    let one = names.at(document.byte(position)).ok_or("there is no name here")?;
    if one.role == Role::Function {
        return Err("functions are not renamed: files that are not open may call them");
    }
    if !matches!(fuseloop::highlight(new).as_slice(), [(span, fuseloop::Highlight::Name)] if span.end as usize == new.len())
        || new == "_"
    {
        return Err("the new text is no name");
    }
    let taken =
        names.functions().find(|function| function.bytes.contains(&(one.span.start as usize))).is_some_and(|f| {
            let inside = |at: u32| f.bytes.contains(&(at as usize));
            names.all().iter().any(|other| other.text == new && inside(other.span.start))
        });
    if taken {
        return Err("the function has that name already");
    }
    let edit = |bytes: &Range<usize>| TextEdit::new(document.range(bytes), new.to_owned());
    let edits = names.same(&one).iter().map(edit).collect();
    Ok(WorkspaceEdit::new(HashMap::from([(document.uri.clone(), edits)])))
}
