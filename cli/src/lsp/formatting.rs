//! Formatting, as `fuseloop fmt` does it.

use lsp_types::TextEdit;

use super::documents::Document;

/// The edit from the first to the last line that changes; none if the text is formatted or does not
/// parse.
pub fn of(document: &Document) -> Vec<TextEdit> {
    let old = document.text.as_str();
    let Ok(new) = fuseloop::format(old) else { return vec![] };
    if new == old {
        return vec![];
    }
    let (old_lines, new_lines): (Vec<&str>, Vec<&str>) =
        (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let same = |(a, b): &(&&str, &&str)| a == b;
    let before = old_lines.iter().zip(&new_lines).take_while(same).count();
    let after = old_lines[before..].iter().rev().zip(new_lines[before..].iter().rev()).take_while(same).count();
    let bytes = |lines: &[&str]| lines.iter().map(|line| line.len()).sum::<usize>();
    let start = bytes(&old_lines[..before]);
    let changed = start..old.len() - bytes(&old_lines[old_lines.len() - after..]);
    let text = new_lines[before..new_lines.len() - after].concat();
    vec![TextEdit::new(document.range(&changed), text)]
}
