//! `explain --format html` and `bench --format html`: complete pages that load nothing and in which
//! text from outside is text.

use std::process::{Command, Stdio};

/// `a < b`, and names that would be markup if they were not escaped.
const PROGRAM: &str = "\
# <script>alert(1)</script> & more
fn main(x: f32[n, m], bias: f32[m]) -> f32[n, m] {
    let y = select(x < 2, x * 2 + bias, x)
    let s[i] = sum[j](y[i, j])
    let t[i] = s[n - 1 - i]
    let z[i, j] = y[i, j] / t[i]
    z
}
";

/// Elements without an end tag.
const EMPTY: [&str; 3] = ["!DOCTYPE", "meta", "br"];

fn page(line: &str) -> String {
    page_of(PROGRAM, line)
}

fn page_of(program: &str, line: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("p.fl"), program).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fuseloop"));
    let output = command.args(line.split(' ')).current_dir(folder.path()).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Checks that each element ends where it should, and that the page fetches and runs nothing.
fn hold(page: &str) {
    let mut open: Vec<&str> = vec![];
    for part in page.split('<').skip(1) {
        let (tag, _) = part.split_once('>').expect("a tag ends");
        let name = tag.split([' ', '/']).next().unwrap();
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None if EMPTY.contains(&name) => {}
            None => open.push(name),
        }
        assert!(!["script", "link", "img", "iframe"].contains(&name), "{tag}");
        assert!(!tag.contains("NaN") && !tag.contains("inf"), "{tag}");
    }
    assert!(open.is_empty(), "{open:?}");
    assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("url(h"));
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn explanations() {
    let whole = page("explain p.fl --format html n=1000 m=300");
    hold(&whole);
    for heading in ["Source", "Loops", "Graph", "Decisions", "Blocks", "Roofline"] {
        assert!(whole.contains(&format!("<h2>{heading}</h2>")), "{heading}");
    }
    assert!(whole.contains("&lt;script&gt;alert(1)&lt;/script&gt; &amp; more"));
    assert!(!whole.contains('`'));
    // The line of the source without its marks.
    let text: String = whole.split('<').map(|part| part.split_once('>').map_or("", |(_, text)| text)).collect();
    assert!(text.contains("    let y = select(x &lt; 2, x * 2 + bias, x)\n"), "{text}");
    assert!(text.contains("axis 0 of x, axis 0 of out: whole, because s[n - 1 - i] reads it in steps"), "{text}");
    // For a GPU that is not there nothing is measured, so the same input gives the same page.
    let line = "explain p.fl --format html --device gpu";
    assert_eq!(page(line), page(line));
}

/// A page stays readable, however large the program is, and names are not taken for code between
/// backquotes.
#[test]
fn of_a_large_program() {
    let mut text = "fn main(x0: f32[n, m]) {\n".to_owned();
    for k in 0..600 {
        let next = k + 1;
        text += &format!("    let s{k} = sum(x{k}) + {k}\n    let x{next}[i] = x{k}[i] / s{k} + {}\n", 1000 - k);
    }
    text += "    x600\n}\n";
    let whole = page_of(&text, "explain p.fl --format html --device gpu");
    hold(&whole);
    assert!(whole.contains("more kernels that move no more") && whole.contains("more pairs that are apart"));
    assert!(whole.len() < 400_000, "{} bytes", whole.len());
    assert!(!whole.contains('`'));
    let boxes = whole.matches("<rect").count();
    assert!((20..=60).contains(&boxes), "{boxes} boxes");
}

#[test]
fn of_nothing() {
    hold(&page("explain p.fl --format html n=0 m=0"));
    hold(&page("explain p.fl --format html --fuse none"));
}

#[test]
fn measurements() {
    // Large enough that fusion saves more time than a call takes.
    let whole = page("bench p.fl --format html n=400 m=500");
    hold(&whole);
    assert!(whole.contains("times as fast") && whole.contains("Without fusion"));
}
