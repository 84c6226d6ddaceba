//! Inputs of hostile sizes end in a stated limit, quickly and on a small stack.

use grammar::{Code, Diagnostic, MAX_DEPTH, MAX_ERRORS, MAX_SOURCE, codes};

const MILLION: usize = 1_000_000;

/// Parses on the stack of a worker thread.
fn errors(source: String) -> Vec<Diagnostic> {
    let parse = move || match grammar::parse(&source) {
        Ok(_) => vec![],
        Err(diagnostics) => diagnostics,
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(parse).unwrap().join().unwrap()
}

fn codes_of(source: String) -> Vec<Code> {
    errors(source).iter().map(|diagnostic| diagnostic.code).collect()
}

fn result(expr: &str) -> String {
    format!("fn f(x: f32[n]) = {expr}\n")
}

#[test]
fn depth_beyond_the_limit_is_one_error() {
    let deep = [
        format!("{}x{}", "(".repeat(MILLION), ")".repeat(MILLION)),
        "(".repeat(MILLION),
        format!("{}1", "1+".repeat(MILLION)),
        format!("{}1", "1^".repeat(MILLION)),
        format!("{}1", "-".repeat(MILLION)),
        format!("{}true", "!".repeat(MILLION)),
        format!("x{}", "[i]".repeat(MILLION)),
        format!("{}x{}", "f(".repeat(MILLION), ")".repeat(MILLION)),
        format!("{}x{}", "sum[k](".repeat(MILLION), ")".repeat(MILLION)),
        format!("{}x{}", "[".repeat(MILLION), "]".repeat(MILLION)),
        format!("{}x", "if c then a else ".repeat(MILLION / 2)),
        format!("{}x{}", "if ".repeat(MILLION / 2), " then a else b".repeat(MILLION / 2)),
        format!("{}x", "x < ".repeat(MILLION)),
        format!("{}x{}", "loop x = a, t < n {".repeat(MILLION / 2), "}".repeat(MILLION / 2)),
        format!("{}x{}", "loop x = ".repeat(MILLION / 2), ", t < n { x }".repeat(MILLION / 2)),
    ];
    for expr in deep {
        let found = codes_of(result(&expr));
        let depth = found.iter().filter(|code| **code == codes::TOO_DEEP).count();
        assert!(depth == 1 || found.len() == MAX_ERRORS, "{}... {found:?}", &expr[..40]);
    }
}

#[test]
fn the_limit_itself_is_allowed() {
    let fits = [
        format!("{}1", "1+".repeat(MAX_DEPTH as usize - 1)),
        format!("{}1{}", "(".repeat(MAX_DEPTH as usize - 1), ")".repeat(MAX_DEPTH as usize - 1)),
        format!("{}{}", "f(".repeat(MAX_DEPTH as usize), ")".repeat(MAX_DEPTH as usize)),
        format!("{}{}", "[".repeat(MAX_DEPTH as usize), "]".repeat(MAX_DEPTH as usize)),
        format!("{}x{}", "loop x = a, t < n {".repeat(MAX_DEPTH as usize - 2), "}".repeat(MAX_DEPTH as usize - 2)),
    ];
    for expr in fits {
        let source = result(&expr);
        let print = move || grammar::parse(&source).unwrap().to_string().len();
        let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(print).unwrap();
        assert!(thread.join().unwrap() > 10);
    }
    for expr in ["1+".repeat(MAX_DEPTH as usize), "-".repeat(MAX_DEPTH as usize)] {
        assert_eq!(codes_of(result(&(expr + "1"))), [codes::TOO_DEEP]);
    }
}

/// Operations that have begun and not ended lie on the parser's stack, so too many are refused
/// before the parser sees any.
#[test]
fn the_error_is_where_too_much_has_begun() {
    // The text that is repeated, and how many operations it leaves open.
    let begun = [
        ("(", 1),
        ("f(", 1),
        ("[", 1),
        ("-", 1),
        ("!", 1),
        ("x ^ ", 1),
        ("if ", 1),
        ("if x + y then ", 1),
        ("if c then a else ", 1),
        ("-(x + ", 2),
    ];
    let start = result("").trim_end().len() + 1;
    for (part, depth) in begun {
        let found = errors(result(&part.repeat(5000)));
        let [Diagnostic { code: codes::TOO_DEEP, labels, .. }] = found.as_slice() else { panic!("{part} {found:?}") };
        let span = labels[0].span;
        assert_eq!((span.start as usize - start) / part.len(), MAX_DEPTH as usize / depth, "{part} {span:?}");
        assert!(span.end - span.start <= 2, "one token: {part} {span:?}");
    }
}

#[test]
fn every_operator_call_and_bracket_counts() {
    // The text before and after an operand, and by how much it deepens the operand.
    let around = [
        ("(", " + x)", 2),
        ("-(", ")", 2),
        ("f(x, x + ", ", x)", 2),
        ("f32(x + ", ")", 2),
        ("[x, x + ", ", x]", 2),
        ("x[i, i + ", "]", 2),
        ("x[i:i + ", "]", 2),
        ("sum[k](x + ", ")", 2),
        ("sum[k < i + ", "](x)", 3),
        ("if x > ", " then x else x", 2),
        ("if c then x + ", " else x", 2),
        ("if c then x else x + ", "", 2),
    ];
    for (before, behind, deeper) in around {
        let nested = |times: usize| result(&format!("{}x{}", before.repeat(times), behind.repeat(times)));
        let most = (MAX_DEPTH as usize - 1) / deeper;
        assert_eq!(codes_of(nested(most)), [], "{before}x{behind}");
        assert_eq!(codes_of(nested(most + 1)), [codes::TOO_DEEP], "{before}x{behind}");
    }
}

#[test]
fn much_is_not_deep() {
    let elements = ["-1", "!a", "2 ^ -x", "if a then if b then -1 else -2 else -3", "(x)", "f(-x)[i - 1:]"];
    for element in elements {
        let list = format!("[{}]", format!("{element},").repeat(5000));
        let lets = format!("fn f() {{ {} x }}", format!("let y = {element};").repeat(5000));
        for source in [result(&list), lets] {
            assert_eq!(codes_of(source), []);
        }
    }
    let ended = [
        format!("{}a", "!a && -x < -y ^ 2 || ".repeat(900)),
        format!("{}{}x{}", "x - ".repeat(600), "(".repeat(600), ")".repeat(600)),
        format!("{}x", "if a then if b then 1 else 2 else ".repeat(600)),
        format!("{}x{}", "if if c then a else b then ".repeat(600), " else y".repeat(600)),
    ];
    for expr in ended {
        assert_eq!(codes_of(result(&expr)), [], "{}...", &expr[..40]);
    }
}

#[test]
fn each_function_has_its_own_depth_error() {
    let deep = result(&format!("{}1", "1+".repeat(5000)));
    assert_eq!(codes_of(deep.repeat(2)), [codes::TOO_DEEP; 2]);
}

#[test]
fn long_tokens_are_no_deep_stacks() {
    let long = 4 * MILLION;
    for filler in [" ".repeat(long), "\n".repeat(long), format!("#{}\n", "c".repeat(long)), "#\n".repeat(long / 2)] {
        assert!(errors(filler + &result("x")).is_empty());
    }
    assert!(errors(result(&"x".repeat(long))).is_empty());
    assert_eq!(codes_of(result(&"9".repeat(long))), [codes::INTEGER_TOO_LARGE]);
    for text in ["\"".to_owned() + &"s".repeat(long), "/*".to_owned() + &"c".repeat(long)] {
        let found = errors(result(&text));
        assert_eq!(found.len(), 1);
        assert!(found[0].message.len() < 200);
    }
}

#[test]
fn errors_have_a_limit() {
    for source in ["$ ", "fn f( = ", "let ", ") ", "@", "{", "}", "; x ", "\"\n", "fn f(x: foo) = x\n"] {
        let found = errors(source.repeat(200_000));
        assert!((1..=MAX_ERRORS).contains(&found.len()), "{source:?} {}", found.len());
    }
}

#[test]
fn a_source_beyond_the_limit_is_refused() {
    assert!(errors(" ".repeat(MAX_SOURCE)).is_empty());
    assert_eq!(codes_of(" ".repeat(MAX_SOURCE + 1)), [codes::SOURCE_TOO_LARGE]);
    let spaces = " ".repeat(MAX_SOURCE - 1);
    assert_eq!(grammar::highlight(&format!("{spaces}x")).len(), 1);
    assert!(grammar::highlight(&format!("{spaces}xx")).is_empty());
}
