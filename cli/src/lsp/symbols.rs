//! The functions of a text, and the places of its names: outline, definition, references,
//! highlights and rename.

use std::ops::Range;

use fuseloop::editor::{Names, Occurrence, Role};
use lsp_types::{DocumentHighlight, DocumentSymbol, Location, Position, SymbolKind, TextEdit, Uri, WorkspaceEdit};

use super::diagnostics::location;
use super::documents::{Document, Documents};
use super::workspace;

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
pub fn definition(documents: &Documents, document: &Document, position: Position) -> Option<Location> {
    let names = documents.names(document);
    let one = names.at(document.byte(position))?;
    location(documents, document, names.source(), &names.declaration(&one)?)
}

/// The places where the same name stands in the text; those of a function also in the other texts
/// that are open and in the folders of the editor. `visit` gets each text with its places.
fn everywhere(
    documents: &Documents,
    document: &Document,
    position: Position,
    visit: &mut dyn FnMut(&Document, Vec<Range<usize>>),
) -> Option<Occurrence> {
    let names = documents.names(document);
    let one = names.at(document.byte(position))?;
    let declared = names.declaration(&one).and_then(|bytes| location(documents, document, names.source(), &bytes));
    let Some(declared) = declared.filter(|_| one.role == Role::Function) else {
        visit(document, names.same(&one));
        return Some(one);
    };
    workspace::for_each(documents, |other| {
        if !other.text.contains(&one.text) {
            return;
        }
        let names = documents.names(other);
        let is = |found: &Occurrence| {
            let place = names.declaration(found).filter(|_| found.role == Role::Function && found.text == one.text);
            place.and_then(|bytes| location(documents, other, names.source(), &bytes)).is_some_and(|at| at == declared)
        };
        let bytes = |found: &Occurrence| found.span.start as usize..found.span.end as usize;
        let mut places: Vec<Range<usize>> = names.all().iter().filter(|found| is(found)).map(bytes).collect();
        places.sort_by_key(|place| place.start);
        if !places.is_empty() {
            visit(other, places);
        }
    });
    Some(one)
}

/// The places where the same name stands, and, if it is wanted, where it is declared.
pub fn references(
    documents: &Documents,
    document: &Document,
    position: Position,
    declaration: bool,
) -> Option<Vec<Location>> {
    let names = documents.names(document);
    let declared = names.at(document.byte(position)).and_then(|one| names.declaration(&one));
    let declared = declared.and_then(|bytes| location(documents, document, names.source(), &bytes));
    let mut found: Vec<Location> = vec![];
    everywhere(documents, document, position, &mut |other, places| {
        found.extend(places.iter().map(|place| Location::new(other.uri.clone(), other.range(place))));
    })?;
    found.retain(|place| declaration || Some(place) != declared.as_ref());
    // A file outside of the editor's folders.
    let elsewhere = declared.filter(|place| declaration && !found.contains(place));
    found.extend(elsewhere);
    Some(found)
}

/// The same name in the text, to be marked.
pub fn highlights(documents: &Documents, document: &Document, position: Position) -> Vec<DocumentHighlight> {
    let names = documents.names(document);
    let places = names.at(document.byte(position)).map(|one| names.same(&one)).unwrap_or_default();
    places.iter().map(|place| DocumentHighlight { range: document.range(place), kind: None }).collect()
}

/// The edits that give the name at a position another text, or the reason why there are none.
pub fn rename(
    documents: &Documents,
    document: &Document,
    position: Position,
    new: &str,
) -> Result<WorkspaceEdit, &'static str> {
    if !matches!(fuseloop::highlight(new).as_slice(), [(span, fuseloop::Highlight::Name)] if span.end as usize == new.len())
        || new == "_"
    {
        return Err("the new text is no name");
    }
    let mut changes: Vec<(Uri, Vec<TextEdit>)> = vec![];
    let mut taken = false;
    let one = everywhere(documents, document, position, &mut |other, places| {
        let names = documents.names(other);
        taken |= is_taken(&names, &places, new);
        let edits = places.iter().map(|place| TextEdit::new(other.range(place), new.to_owned())).collect();
        changes.push((other.uri.clone(), edits));
    });
    let one = one.ok_or("there is no name here")?;
    if one.role == Role::Function {
        let names = documents.names(document);
        let declared = names.declaration(&one).ok_or("a function of the language keeps its name")?;
        let declared = location(documents, document, names.source(), &declared);
        let declared = declared.ok_or("a function of a library keeps its name")?;
        let is_changed = |uri: &Uri| changes.iter().any(|(changed, _)| changed == uri);
        if !is_changed(&declared.uri) {
            return Err("the file that declares the function is neither open nor in a folder of the editor");
        }
        if !fuseloop::reference::find(new).is_empty() {
            return Err("the language has that name");
        }
        let called = |names: &Names| names.callable().iter().any(|function| function.name == new);
        workspace::for_each(documents, |other| {
            taken |= is_changed(&other.uri) && called(&documents.names(other));
        });
    }
    if taken {
        return Err("that name is taken where this one stands");
    }
    Ok(WorkspaceEdit::new(changes.into_iter().collect()))
}

/// Whether a function that has one of the places has the name already.
fn is_taken(names: &Names, places: &[Range<usize>], new: &str) -> bool {
    let all = names.all();
    names.functions().filter(|function| places.iter().any(|place| function.bytes.contains(&place.start))).any(
        |function| {
            let inside = |at: u32| function.bytes.contains(&(at as usize));
            all.iter().any(|other| other.text == new && inside(other.span.start))
        },
    )
}
