//! The files of the folders that the editor works in.

use std::path::{Path, PathBuf};

use super::documents::{Document, Documents};
use super::uris;

/// The most entries of folders that are looked at.
const MAX_ENTRIES: usize = 20_000;
/// Folders that have no sources.
const NOT_OURS: [&str; 2] = ["node_modules", "target"];

/// Calls `visit` with each text that is open, and with each program in the folders that is not.
pub fn for_each(documents: &Documents, mut visit: impl FnMut(&Document)) {
    documents.all().for_each(&mut visit);
    for path in programs(&documents.folders) {
        let is_open = documents.all().any(|document| document.path.as_deref() == Some(path.as_path()));
        if let (false, Some(uri), Some(text)) = (is_open, uris::of(&path), documents.text_of(&path)) {
            visit(&Document::new(uri, 0, text));
        }
    }
}

/// The programs in some folders and those below, in order.
fn programs(folders: &[PathBuf]) -> Vec<PathBuf> {
    let (mut found, mut left, mut seen) = (vec![], folders.to_vec(), 0);
    while let Some(folder) = left.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            seen += 1;
            if seen > MAX_ENTRIES {
                break;
            }
            // Links are not followed: they may lead around in a circle.
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            if kind.is_dir() && is_ours(&path) {
                left.push(path);
            } else if kind.is_file() && path.extension().is_some_and(|ending| ending == "fl") {
                found.push(path);
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

fn is_ours(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| !name.starts_with('.') && !NOT_OURS.contains(&name))
}
