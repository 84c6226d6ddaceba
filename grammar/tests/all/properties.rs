//! For any input: the parser does not panic, every span is a piece of the source, and formatting
//! changes no program.

use grammar::ast::{Binder, ExprKind, File, Item, Results, Span, Type};
use proptest::prelude::*;

const TOKENS: &[&str] = &[
    "fn", "let", "rec", "if", "then", "else", "where", "loop", "while", "f32", "i64", "bool", "x", "y", "sum", "n",
    "_", "1", "2.5", "1e-3", "(", ")", "[", "]", "{", "}", ",", ":", "->", "=", "||", "&&", "!", "==", "<", "<=", "+",
    "-", "*", "/", "%", "@", "^", ";", "\n", "#", "$", "é", "\"", "&", "//", "for", "float", "3x",
];

/// Tokens in an order that is likely in a program, so that much of it parses.
const PHRASES: &[&str] = &[
    "fn f(x: f32[n]) = ",
    "fn g(x: f32) -> f32 { ",
    "fn h(x: f32[n]) where n > 1 && n < 9 = ",
    "fn a_name_that_takes_a_good_part_of_a_line(x: f32[n], y: f32[n, m]) -> f32[n, m] where n > 1 { ",
    "@fast ",
    "let y = ",
    "let y[i, j < n] = ",
    "let rec y[i, j < n] = ",
    ", z[i] = ",
    "\n",
    "; ",
    " }",
    "x",
    "(x + 1)",
    "a_name_that_takes_a_good_part_of_a_line",
    "sum[k](x[k])",
    "x[1:, i]",
    " + ",
    " ^ ",
    "-",
    "if x then ",
    " else ",
    "(",
    ")",
    "f(x, axis = 1)",
    "loop x = 1, t < n {",
    " while x < y {",
];

fn check(source: &str) {
    match grammar::parse(source) {
        Ok(file) => {
            check_file(source, &file);
            let formatted = grammar::format(source).unwrap();
            assert_eq!(grammar::parse(&formatted).unwrap().to_string(), file.to_string(), "{source:?}");
            assert_eq!(grammar::format(&formatted).unwrap(), formatted, "{source:?}");
        }
        Err(diagnostics) => {
            assert!(!diagnostics.is_empty());
            assert_eq!(grammar::format(source).unwrap_err(), diagnostics);
            for diagnostic in diagnostics {
                assert!(!diagnostic.message.is_empty() && !diagnostic.labels.is_empty());
                diagnostic.labels.iter().for_each(|label| check_span(source, label.span));
            }
        }
    }
}

fn check_span(source: &str, span: Span) {
    assert!(source.get(span.start as usize..span.end as usize).is_some(), "{span:?} of {source:?}");
}

fn check_file(source: &str, file: &File) {
    let span = |span| check_span(source, span);
    let ty = |ty: &Type| span(ty.span);
    let binders = |binders: &[Binder]| binders.iter().for_each(|binder| span(binder.name.span));
    for function in &file.functions {
        span(function.span);
        assert_eq!(&source[function.name.span.start as usize..function.name.span.end as usize], function.name.text);
        assert!(source[function.span.start as usize..].starts_with("fn"));
        function.decorators.iter().for_each(|decorator| span(decorator.span));
        function.params.iter().for_each(|param| ty(&param.ty));
        match &function.results {
            None => {}
            Some(Results::One(one)) => ty(one),
            Some(Results::Tuple(results)) => results.iter().for_each(|(_, one)| ty(one)),
        }
        for one in &function.lets {
            span(one.span);
            one.names().iter().for_each(|name| span(name.span));
            one.binders().iter().for_each(|binder| span(binder.name.span));
        }
    }
    for expr in file.exprs.values() {
        span(expr.span);
        assert!(expr.span.start < expr.span.end);
        match &expr.kind {
            ExprKind::Reduce { binders: all, .. } => binders(all),
            ExprKind::Index { items, .. } => {
                for item in items {
                    if let Item::Slice { span: slice, .. } = item {
                        span(*slice);
                    }
                }
            }
            _ => {}
        }
    }
}

fn soup(words: &'static [&'static str], separator: &'static str) -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(words), 0..60).prop_map(move |words| words.join(separator))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text(source in any::<String>()) {
        check(&source);
    }

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        check(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_tokens(source in soup(TOKENS, " ")) {
        check(&source);
    }

    #[test]
    fn any_tokens_unspaced(source in soup(TOKENS, "")) {
        check(&source);
    }

    #[test]
    fn any_phrases(source in soup(PHRASES, "")) {
        check(&source);
    }

    /// A program with a byte range cut out or replaced.
    #[test]
    fn damaged_programs(from in 0usize..4000, length in 0usize..40, with in proptest::sample::select(TOKENS)) {
        let source = include_str!("programs/language.fl");
        check_file(source, &grammar::parse(source).unwrap());
        let from = from.min(source.len());
        let to = (from + length).min(source.len());
        check(&format!("{}{with}{}", &source[..from], &source[to..]));
    }
}
