//! Objects as C sees them: headers compile whatever names the program has and whatever headers come
//! before, statuses have names, and calls that violate the contract return a status.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

/// The headers that C programs include.
const HEADERS: &[&str] = &[
    "assert.h",
    "complex.h",
    "ctype.h",
    "errno.h",
    "fenv.h",
    "float.h",
    "inttypes.h",
    "iso646.h",
    "limits.h",
    "locale.h",
    "math.h",
    "setjmp.h",
    "signal.h",
    "stdarg.h",
    "stdbool.h",
    "stddef.h",
    "stdint.h",
    "stdio.h",
    "stdlib.h",
    "string.h",
    "time.h",
    "wchar.h",
    "wctype.h",
    "unistd.h",
    "sys/types.h",
    "sys/stat.h",
    "sys/mman.h",
    "sys/socket.h",
    "sys/time.h",
    "sys/wait.h",
    "netinet/in.h",
    "netdb.h",
    "fcntl.h",
    "pthread.h",
    "dirent.h",
    "dlfcn.h",
    "poll.h",
    "sched.h",
    "termios.h",
];

/// Names that clash, whether or not this machine's headers define them.
const HOSTILE: &[&str] = &[
    "int8_t",
    "int64_t",
    "uint16_t",
    "size_t",
    "EOF",
    "NULL",
    "errno",
    "stdin",
    "double",
    "class",
    "new",
    "this",
    "and",
    "xor",
    "nullptr",
    "template",
    "I",
    "complex",
    "M_PI",
    "HUGE_VAL",
    "NAN",
    "INFINITY",
    "INT8_MAX",
    "PRId64",
    "BUFSIZ",
    "FILE",
    "DIR",
    "linux",
    "unix",
    "__linux__",
    "_Bool",
    "isnan",
    "sin",
    "printf",
    "assert",
    "st_atime",
    "si_pid",
    "noexcept",
    "decltype",
    "asm",
    "restrict",
    "inline",
    "register",
    "alignof",
    "static_assert",
    "thread_local",
    "constexpr",
    "typeof",
    "math_errhandling",
    "fuseloop_numbers",
    "needs",
    "numbers",
    "scratch",
    "scratch_bytes",
    "out",
    "fl_scalars0_needs",
    "fl_scalars0_query",
    "fl_scalars0_status",
    "va_list",
    "char8_t",
    "co_await",
    "requires",
    "concept",
    "final",
    "override",
    "module",
    "import",
    "N",
    "K1",
    "TRUE",
    "FALSE",
];

fn includes() -> String {
    HEADERS.iter().map(|header| format!("#include <{header}>\n")).collect()
}

/// Checks that a source compiles, without linking it.
fn compiles(compiler: &str, arguments: &[&str], source: &str) {
    let mut command = Command::new(compiler);
    command.args(arguments).args(["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-"]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("there is a compiler");
    child.stdin.take().expect("piped").write_all(source.as_bytes()).expect("the compiler reads");
    let done = child.wait_with_output().expect("the compiler ends");
    assert!(done.status.success(), "{compiler} {arguments:?}\n{}", String::from_utf8_lossy(&done.stderr));
}

fn is_there(command: &str) -> bool {
    Command::new(command)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

/// The object-like macros of this machine's headers.
fn macros() -> BTreeSet<String> {
    let mut child = Command::new("cc")
        .args(["-D_GNU_SOURCE", "-dM", "-E", "-x", "c", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("there is a C compiler");
    child.stdin.take().expect("piped").write_all(includes().as_bytes()).expect("the compiler reads");
    let listed = String::from_utf8(child.wait_with_output().expect("the compiler ends").stdout).expect("text");
    let names = listed.lines().filter_map(|line| line.split_whitespace().nth(1)).filter(|name| !name.contains('('));
    names.map(str::to_owned).collect()
}

/// Builds a program in a folder, and returns its header.
fn header(folder: &tempfile::TempDir, source: &str, emit: &str) -> String {
    std::fs::write(folder.path().join("p.fl"), source).expect("it can be written");
    let done = Command::new(env!("CARGO_BIN_EXE_fuseloop"))
        .current_dir(folder.path())
        .args(["build", "p.fl", "--emit", emit, "-o", "./"])
        .output()
        .expect("the command runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    std::fs::read_to_string(folder.path().join("p.h")).expect("the header is written")
}

#[test]
fn headers_compile_whatever_the_names_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let words = ["fn", "let", "rec", "if", "then", "else", "where", "loop", "while", "true", "false", "bool", "_"];
    let mut names = macros();
    assert!(names.len() > 500, "the headers have macros: {}", names.len());
    // A sample of the names in capitals is enough.
    let mut number = 0;
    names.retain(|name| {
        number += 1;
        name.chars().any(|c| c.is_ascii_lowercase()) || number % 16 == 0
    });
    names.extend(HOSTILE.iter().map(|name| (*name).to_owned()));
    names
        .retain(|name| !words.contains(&name.as_str()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
    let names: Vec<String> = names.into_iter().collect();
    let mut source = String::new();
    for (k, some) in names.chunks(50).enumerate() {
        let list = |each: &dyn Fn(&String) -> String| some.iter().map(each).collect::<Vec<_>>().join(", ");
        let scalars = list(&|name| format!("{name}: i8"));
        let lengths = list(&|name| format!("x{}: f32[{name}]", names.iter().position(|n| n == name).unwrap_or(0)));
        let results = list(&|name| format!("{name}: f32[n]"));
        let values = list(&|_| "y".to_owned());
        source += &format!("fn scalars{k}({scalars}, y: f32[n]) = y\nfn lengths{k}({lengths}) = x{}\n", k * 50);
        source += &format!("fn results{k}(y: f32[n]) -> ({results}) = ({values})\n");
    }
    let header = header(&folder, &source, "header");
    compiles("cc", &["-x", "c", "-std=c99", "-pedantic"], &header);
    compiles("cc", &["-x", "c", "-std=gnu17", "-D_GNU_SOURCE"], &format!("{}{header}", includes()));
    if is_there("c++") {
        compiles(
            "c++",
            &["-x", "c++", "-std=gnu++20", "-D_GNU_SOURCE"],
            &format!("{}{header}", includes().replace("#include <iso646.h>\n", "")),
        );
    }
}

/// Calls that violate the contract return a status, and a query may pass a null `needs`.
#[test]
fn calls_are_held_to_the_contract() {
    const SOURCE: &str =
        "# Backwards.\n#\n# The last comes first.\nfn back(x: f32[n]) {\n    let y[i < n] = x[n - 1 - i]\n    y\n}\n
fn two(x: f32[n], y: f32[m]) -> (a: f32[n], b: f32) where n == m = (x + y, sum(x))\n";
    const MAIN: &str = "#include <stdio.h>
#include \"p.h\"
int main(void) {
    static char room[65536];
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[4] = {0};
    enum fl_back_status status = (enum fl_back_status)fl_back(4, x, x, NULL, 0, NULL);
    printf(\"%d\", status == fl_back_OVERLAP);
    printf(\" %d\", fl_back(4, x, x + 3, NULL, 0, NULL) == fl_back_OVERLAP);
    printf(\" %d\", fl_back(4, x + 3, x, NULL, 0, NULL) == fl_back_OVERLAP);
    printf(\" %d\", fl_back(4, x, x + 4, NULL, 0, NULL) == fl_back_OK);
    printf(\" %g\", x[4]);
    printf(\" %d\", fl_back(0, x, x, NULL, 0, NULL) == fl_back_OK);
    printf(\" %d\", fl_back(4, NULL, NULL, NULL, 0, NULL) == fl_back_POINTER);
    printf(\" %d\", fl_back_query(4, NULL, NULL) == fl_back_OK);
    printf(\" %d\", fl_back_query(-1, NULL, NULL) == fl_back_SIZE);
    printf(\" %d\", fl_back_query(INT64_C(1) << 48, NULL, NULL) == fl_back_OK);
    printf(\" %d\", fl_back_query((INT64_C(1) << 48) + 1, NULL, NULL) == fl_back_SIZE);
    printf(\" %d\", fl_two(4, 4, x, y, x + 4, x + 7, room, sizeof room, NULL) == fl_two_OVERLAP);
    printf(\" %d\", fl_two(4, 4, x, x, x + 4, y, room, sizeof room, NULL) == fl_two_OK);
    printf(\" %d\", fl_two(4, 4, x, x, x + 4, (float *)room, room, sizeof room, NULL) == fl_two_OVERLAP);
    printf(\" %d\", fl_two(4, 3, x, x, x + 4, y, room, sizeof room, NULL) == fl_two_CONDITION);
    return 0;
}
";
    let folder = tempfile::tempdir().expect("a folder");
    let header = header(&folder, SOURCE, "obj,header");
    assert!(
        header.contains("/* Backwards.\n\n   The last comes first.\n\n   fn back(x: f32[n]) -> f32[n] */"),
        "{header}"
    );
    std::fs::write(folder.path().join("main.c"), MAIN).expect("it can be written");
    let command = "cc -std=c99 -Wall -Wextra -Werror -o main main.c p.o -lm && ./main";
    let done = Command::new("sh").current_dir(folder.path()).args(["-c", command]).output().expect("there is a shell");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(String::from_utf8_lossy(&done.stdout), "1 1 1 1 4 1 1 1 1 1 1 1 1 1 1");
}
