//! Text as it is typed at a prompt: whether it is to be continued, and the classes of its words.

use std::fmt::Write;

use grammar::{Lines, highlight, is_unfinished};

/// After each line: whether it is to be continued, and how many brackets are open.
#[test]
fn text_goes_on_inside_brackets_and_after_operators() {
    let lines = [
        ("fn f(x: f32[n],\n", true, 1),
        ("     y: f32[n]) {\n", true, 1),
        ("    let z = g([x,\n", true, 3),
        ("               y])\n", true, 1),
        ("    z }\n", false, 0),
        ("let v = 2 *\n", true, 0),
        ("    3\n", false, 0),
        ("v +;\n", false, 0),
        ("v ]\n", false, 0),
    ];
    let mut text = Lines::default();
    for (line, goes_on, depth) in lines {
        text.push(line);
        assert_eq!((text.go_on(), text.depth()), (goes_on, depth), "{line}");
    }
}

#[test]
fn text_is_unfinished_where_only_another_line_can_mend_it() {
    for text in ["let y", "let y[i < 3]", "if c", "if true then 1\n", "@fast", "fn f()", "fn f() -> f32\n", "f(2,\n"] {
        assert!(is_unfinished(text), "{text}");
    }
    for text in ["", "2 * 3", "fn f() = 1", "fn f", "f32", "2 * )", "if c; then 1", "a b", "a b; let y"] {
        assert!(!is_unfinished(text), "{text}");
    }
}

#[test]
fn every_word_has_its_tint() {
    let source = "# one\nfn f(x: f32[n]) {\n    let y = if x[0] >= 0.5 then _ else $1 # two\n    y; # three\n}";
    let mut words = String::new();
    for (span, class) in highlight(source) {
        let line = source[..span.start as usize].matches('\n').count() + 1;
        writeln!(words, "{line} {class:?} {}", &source[span.start as usize..span.end as usize]).unwrap();
    }
    insta::assert_snapshot!(words, @r"
    1 Comment # one
    2 Keyword fn
    2 Name f
    2 Bracket (
    2 Name x
    2 Mark :
    2 Type f32
    2 Bracket [
    2 Name n
    2 Bracket ]
    2 Bracket )
    2 Bracket {
    3 Keyword let
    3 Name y
    3 Mark =
    3 Keyword if
    3 Name x
    3 Bracket [
    3 Number 0
    3 Bracket ]
    3 Mark >=
    3 Number 0.5
    3 Keyword then
    3 Name _
    3 Keyword else
    3 Wrong $
    3 Number 1
    3 Comment # two
    4 Name y
    4 Mark ;
    4 Comment # three
    5 Bracket }
    ");
}
