//! Files by their URIs.

use std::path::{Path, PathBuf};

/// The file that a URI means; `None` for a text that is no file, such as one that is not saved yet.
pub fn path(uri: &lsp_types::Uri) -> Option<PathBuf> {
    let rest = uri.as_str().strip_prefix("file://")?;
    let path = rest.get(rest.find('/')?..)?;
    let mut bytes = Vec::with_capacity(path.len());
    let mut left = path.bytes();
    while let Some(byte) = left.next() {
        if byte == b'%' {
            let mut digit = || char::from(left.next()?).to_digit(16);
            bytes.push((digit()? * 16 + digit()?) as u8);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok().map(PathBuf::from)
}

/// The URI of a file by its absolute path.
pub fn of(path: &Path) -> Option<lsp_types::Uri> {
    let path = path.to_str().filter(|_| path.is_absolute())?;
    let mut text = "file://".to_owned();
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => text.push(char::from(byte)),
            _ => text += &format!("%{byte:02X}"),
        }
    }
    text.parse().ok()
}
