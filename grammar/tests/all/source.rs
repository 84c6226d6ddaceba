//! Text that is shown carries no commands to a terminal.

use grammar::source::{one_line, visible};

#[test]
fn writes_out_what_is_not_to_be_sent() {
    assert_eq!(visible("a\nb\x1b[0m\u{202e}é"), "a\nb\\u{1b}[0m\\u{202e}é");
    assert_eq!(one_line("a\nb\r"), "a\\nb\\r");
}
