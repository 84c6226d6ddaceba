//! The files that a session uses. They are read when a `use` is entered, not again for each entry
//! after it; the next `use` reads all of them afresh.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use grammar::ast::{File, ModuleId, Use, Used};

use crate::{Folder, Loader, Located, NotRead};

/// A `use` as it was entered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// The file or library.
    what: What,
    /// The functions that are picked; none stands for all.
    picked: Vec<String>,
    /// The names of the functions that it brings.
    pub(super) names: BTreeSet<String>,
}

/// A file, by its path from the current folder, or a library.
#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    File(PathBuf),
    Library(String),
}

impl Line {
    /// The line of a program that has been read.
    pub(super) fn new(one: &Use, file: &File) -> Line {
        let what = match &one.what {
            Used::Path(path) => What::File(PathBuf::from(&path.text)),
            Used::Library(name) => What::Library(name.text.clone()),
        };
        let picked: Vec<String> = one.names.iter().map(|name| name.text.clone()).collect();
        let of = |module: ModuleId| file.functions.iter().filter(move |function| function.module == module);
        let all = one.module.into_iter().flat_map(of).map(|function| &function.name.text);
        let names = all.filter(|name| picked.is_empty() || picked.contains(name)).cloned().collect();
        Line { what, picked, names }
    }

    /// Whether both lines are the same, though the file may have changed.
    pub(super) fn same(&self, other: &Line) -> bool {
        self.what == other.what && self.picked == other.picked
    }

    /// The line without some of the names that it picks, if that leaves one.
    pub(super) fn without(&self, removed: impl Fn(&str) -> bool) -> Option<Line> {
        let picked: Vec<String> = self.picked.iter().filter(|name| !removed(name)).cloned().collect();
        (picked.is_empty() == self.picked.is_empty()).then(|| Line { picked, ..self.clone() })
    }

    /// The line as a program in a folder has it; `None` stands for the current folder.
    pub(super) fn written(&self, folder: Option<&Path>) -> String {
        let what = match &self.what {
            What::Library(name) => name.clone(),
            What::File(path) => format!("\"{}\"", folder.map_or_else(|| path.clone(), |to| from(to, path)).display()),
        };
        match self.picked.as_slice() {
            [] => format!("use {what}"),
            picked => format!("use {what} ({})", picked.join(", ")),
        }
    }
}

/// The path from a folder to a file, which is given from the current folder. If the file is not in
/// that folder, the path is absolute.
fn from(folder: &Path, file: &Path) -> PathBuf {
    let here = if folder == Path::new("") { Path::new(".") } else { folder };
    let [folder, file] = [here, file].map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    file.strip_prefix(&folder).map(Path::to_owned).unwrap_or(file)
}

/// Replaces the paths in the `use`s of a file by paths from the current folder.
pub(super) fn rebase(file: &Path, uses: &mut [Use]) {
    let folder = file.parent().unwrap_or(Path::new(""));
    for one in uses {
        if let Used::Path(path) = &mut one.what {
            path.text = folder.join(&path.text).display().to_string();
        }
    }
}

/// Files that have been read. All paths of the session itself start from the current folder.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    located: Mutex<BTreeMap<(Option<PathBuf>, String), Located>>,
    texts: Mutex<BTreeMap<PathBuf, String>>,
}

impl Loader for Remembered {
    fn locate(&self, path: &str, from: Option<&Located>) -> Result<Located, NotRead> {
        let key = (from.map(|from| from.path.clone()), path.to_owned());
        let mut located = self.located.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = located.get(&key) {
            return Ok(known.clone());
        }
        let found = Folder::default().locate(path, from)?;
        located.insert(key, found.clone());
        Ok(found)
    }

    fn read(&self, file: &Located) -> Result<String, NotRead> {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = texts.get(&file.id) {
            return Ok(known.clone());
        }
        let text = Folder::default().read(file)?;
        texts.insert(file.id.clone(), text.clone());
        Ok(text)
    }
}
