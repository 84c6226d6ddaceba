//! The texts that the editor has open, and the files that they use.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use fuseloop::editor::{Checks, Names};
use fuseloop::{Errors, Folder, Loader, Located, MAX_SOURCE, NotRead, Program, Source};
use lsp_types::{TextDocumentContentChangeEvent, Uri};

use super::diagnostics::Reports;
use super::facts::Known;
use super::positions::Lines;
use super::uris;

/// A text that is open.
#[derive(Clone, Debug)]
pub struct Document {
    /// Its URI.
    pub uri: Uri,
    /// The number that the editor gives this state of the text.
    pub version: i32,
    /// The text.
    pub text: String,
    /// Its lines.
    pub lines: Lines,
    /// The file, if it is one.
    pub path: Option<PathBuf>,
}

impl Document {
    /// A text as the editor opens it.
    pub fn new(uri: Uri, version: i32, text: String) -> Document {
        let (lines, path) = (Lines::new(&text), uris::path(&uri));
        Document { uri, version, text, lines, path }
    }

    /// Makes the changes, in order.
    pub fn change(&mut self, version: i32, changes: Vec<TextDocumentContentChangeEvent>) {
        for change in changes {
            match change.range {
                Some(range) => {
                    let bytes = self.lines.bytes(&self.text, range);
                    self.text.replace_range(bytes, &change.text);
                }
                None => self.text = change.text,
            }
            self.lines = Lines::new(&self.text);
        }
        self.version = version;
    }

    /// The range of bytes of the text.
    pub fn range(&self, bytes: &std::ops::Range<usize>) -> lsp_types::Range {
        self.lines.range(&self.text, bytes)
    }

    /// The byte at the end of a line.
    pub fn end_of_line(&self, line: u32) -> usize {
        let start = self.byte(lsp_types::Position::new(line, 0));
        let length = self.text.get(start..).unwrap_or_default().find(['\r', '\n']);
        length.map_or(self.text.len(), |length| start + length)
    }

    /// The byte at a position.
    pub fn byte(&self, position: lsp_types::Position) -> usize {
        self.lines.byte(&self.text, position)
    }

    /// The word of letters, digits and `_` that a byte stands in or right after.
    pub fn word(&self, at: usize) -> Option<&str> {
        let within = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (before, after) = self.text.split_at_checked(at)?;
        let start = before.rfind(|c| !within(c)).map_or(0, |last| last + 1);
        let end = at + after.find(|c| !within(c)).unwrap_or(after.len());
        self.text.get(start..end).filter(|word| !word.is_empty())
    }

    /// The name that errors use for the text.
    fn name(&self) -> String {
        self.path.as_ref().map_or_else(|| self.uri.to_string(), |path| path.display().to_string())
    }

    /// The text as a source.
    pub fn source(&self) -> Source {
        Source::new(self.name(), self.text.clone())
    }
}

/// The results of reading a text, until a text changes.
#[derive(Debug, Default)]
struct Analysis {
    names: OnceCell<Rc<Names>>,
    reports: OnceCell<Rc<Reports>>,
}

/// All texts that are open, by their URIs.
#[derive(Debug, Default)]
pub struct Documents {
    open: BTreeMap<String, Document>,
    /// The folders that the editor works in.
    pub folders: Vec<PathBuf>,
    /// The facts about functions.
    pub facts: Known,
    known: RefCell<BTreeMap<String, Rc<Analysis>>>,
    checks: Arc<Checks>,
}

/// A copy of the texts that are open.
#[derive(Debug)]
pub struct Copied {
    texts: Vec<Document>,
    checks: Arc<Checks>,
}

impl Copied {
    /// The texts, open.
    pub fn open(self) -> Documents {
        let mut documents = Documents { checks: self.checks, ..Documents::default() };
        self.texts.into_iter().for_each(|document| documents.open(document));
        documents
    }
}

impl Documents {
    /// Adds a text, or replaces it.
    pub fn open(&mut self, document: Document) {
        self.forget();
        self.open.insert(document.uri.to_string(), document);
    }

    /// Forgets a text.
    pub fn close(&mut self, uri: &Uri) {
        self.forget();
        self.open.remove(uri.as_str());
    }

    /// Forgets what is known: a text has changed, and any other may use it.
    pub fn forget(&mut self) {
        self.known.get_mut().clear();
    }

    /// A text that is open.
    pub fn get(&self, uri: &Uri) -> Option<&Document> {
        self.open.get(uri.as_str())
    }

    /// A text that is open, to be changed.
    pub fn get_mut(&mut self, uri: &Uri) -> Option<&mut Document> {
        self.forget();
        self.open.get_mut(uri.as_str())
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Document> {
        self.open.values()
    }

    /// A text with the files that it uses, as they are in the editor or else on disk.
    pub fn parse(&self, document: &Document) -> Result<Program, Errors> {
        match &document.path {
            Some(path) => Program::parse_with(document.source(), &Files::new(self, path)),
            None => Program::parse(document.source()),
        }
    }

    fn analysis(&self, document: &Document) -> Rc<Analysis> {
        Rc::clone(self.known.borrow_mut().entry(document.uri.to_string()).or_default())
    }

    /// The errors of a text, or its warnings.
    pub fn reports(&self, document: &Document) -> Rc<Reports> {
        Rc::clone(self.analysis(document).reports.get_or_init(|| Rc::new(self.find(document))))
    }

    /// Finds the errors of a text, or its warnings.
    pub fn find(&self, document: &Document) -> Reports {
        let (source, all) = match &document.path {
            Some(path) => self.checks.reports(document.source(), Some(&Files::new(self, path))),
            None => self.checks.reports(document.source(), None),
        };
        Reports { source, all }
    }

    /// Takes the errors or warnings of a text, which another thread has found.
    pub fn found(&self, document: &Document, reports: Reports) {
        // They may be there already.
        let _ = self.analysis(document).reports.set(Rc::new(reports));
    }

    /// A copy of the texts, for another thread.
    pub fn copied(&self) -> Copied {
        Copied { texts: self.all().cloned().collect(), checks: Arc::clone(&self.checks) }
    }

    /// The names of a text and of the files that it uses.
    pub fn names(&self, document: &Document) -> Rc<Names> {
        let read = || match &document.path {
            Some(path) => Names::new(document.source(), Some(&Files::new(self, path))),
            None => Names::new(document.source(), None),
        };
        Rc::clone(self.analysis(document).names.get_or_init(|| Rc::new(read())))
    }

    /// The text of a file, as it is in the editor or else on disk.
    pub fn text_of(&self, path: &Path) -> Option<String> {
        match self.all().find(|document| document.path.as_deref() == Some(path)) {
            Some(document) => Some(document.text.clone()),
            None => {
                let small = path.metadata().ok()?.len() <= MAX_SOURCE as u64;
                small.then(|| std::fs::read_to_string(path).ok()).flatten()
            }
        }
    }
}

/// Finds files on disk, and reads those that are open from the editor.
struct Files<'d> {
    documents: &'d Documents,
    folder: Folder,
}

impl<'d> Files<'d> {
    fn new(documents: &'d Documents, program: &Path) -> Files<'d> {
        Files { documents, folder: Folder::of(program) }
    }
}

impl Loader for Files<'_> {
    fn program(&self) -> Option<Located> {
        self.folder.program()
    }

    fn locate(&self, path: &str, from: Option<&Located>) -> Result<Located, NotRead> {
        self.folder.locate(path, from)
    }

    fn read(&self, file: &Located) -> Result<String, NotRead> {
        let is =
            |document: &&Document| document.path.as_ref().is_some_and(|path| *path == file.path || *path == file.id);
        match self.documents.all().find(is) {
            Some(document) => Ok(document.text.clone()),
            None => self.folder.read(file),
        }
    }
}
