//! The command as a user meets it: exit codes, what is printed where, and the messages for typical
//! mistakes.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

const SOURCE: &str = "fn scale(x: f32[n], by: f32) = x * by
fn pair(x: i32[n], y: i32[n]) -> (total: i32[n], most: i32) = (x + y, max(x))
fn pick(x: f32[n], at: i32[m]) = x[at]
";

struct Session {
    folder: TempDir,
}

impl Session {
    fn new(source: &str) -> Session {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.fl"), source).unwrap();
        Session { folder }
    }

    /// A session in a folder with `examples/`.
    #[cfg(unix)]
    fn beside_the_examples() -> Session {
        let s = Session::new(SOURCE);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
        std::os::unix::fs::symlink(root.join("examples"), s.path("examples")).unwrap();
        s
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fuseloop"));
        command.args(line.split_whitespace()).current_dir(&self.folder).stdin(Stdio::null());
        command
    }

    fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    /// The output of a command that must succeed.
    #[track_caller]
    fn prints(&self, line: &str) -> String {
        let output = self.run(line);
        let stderr = text(&output.stderr);
        assert_eq!((output.status.code(), stderr.as_str()), (Some(0), ""), "{line}");
        text(&output.stdout)
    }

    /// The error output of a command that must fail with an exit code.
    #[track_caller]
    fn fails(&self, code: i32, line: &str) -> String {
        let output = self.run(line);
        let stderr = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(code), ""), "{line}\n{stderr}");
        assert!(!stderr.contains("panicked") && !stderr.contains('\x1b'), "{stderr}");
        stderr
    }

    #[track_caller]
    fn says(&self, code: i32, line: &str, parts: &[&str]) {
        let stderr = self.fails(code, line);
        for part in parts {
            assert!(stderr.contains(part), "{line}\n{stderr}\nlacks {part}");
        }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn prints_results() {
    let s = Session::new(SOURCE);
    assert_eq!(s.prints("run a.fl --fn scale x=arange:4 by=0.5"), "[0.,  0.5, 1.,  1.5]\n");
    assert_eq!(s.prints("run a.fl --fn scale x=zeros:0 by=1"), "[]\n");
    assert_eq!(s.prints("run a.fl --fn pair x=arange:3 y=ones:3"), "total = [1, 2, 3]\nmost = 2\n");
    assert_eq!(s.prints("run a.fl --fn scale x=ones:3 by=-inf --device interp --threads 1"), "[-inf, -inf, -inf]\n");
}

#[test]
fn saves_results_and_reads_them_back() {
    let s = Session::new(SOURCE);
    assert_eq!(s.prints("run a.fl --fn scale x=random:1001 by=2 --seed 7 -o out=cpu.npy"), "");
    assert_eq!(s.prints("run a.fl --fn scale x=random:1001 by=2 --seed 7 -o out=interp.npy --device interp"), "");
    let bytes = std::fs::read(s.path("cpu.npy")).unwrap();
    assert_eq!(bytes.len(), 128 + 4 * 1001);
    assert_eq!(bytes, std::fs::read(s.path("interp.npy")).unwrap());
    assert_ne!(
        s.prints("run a.fl --fn scale x=random:3 by=1"),
        s.prints("run a.fl --fn scale x=random:3 by=1 --seed 1")
    );
    assert!(s.prints("run a.fl --fn scale x=cpu.npy by=0.5").starts_with('['));
    assert_eq!(s.prints("run a.fl --fn pair x=ones:2 y=ones:2 -o most=most.npy"), "total = [2, 2]\n");
    assert_eq!(std::fs::read(s.path("most.npy")).unwrap()[128..], [1, 0, 0, 0]);
    s.says(1, "run a.fl --fn pair x=cpu.npy y=ones:2", &["argument `x`", "of type i32, the file has f32"]);
    s.says(
        1,
        "run a.fl --fn scale x=ones:2 by=cpu.npy",
        &["error[E0203]", "argument `by`: the parameter is f32, this has shape 1001"],
    );
    s.says(1, "run a.fl --fn scale x=a.fl.npy by=1", &["a.fl.npy: No such file"]);
    std::fs::write(s.path("bad.npy"), &bytes[..1000]).unwrap();
    s.says(
        1,
        "run a.fl --fn scale x=bad.npy by=1",
        &["bad.npy: the header asks for 4004 bytes of data, the file has 872"],
    );
    s.says(1, "run a.fl --fn scale x=ones:2 by=1 -o out=none/a.npy", &["none/a.npy: No such file"]);
}

#[test]
fn a_function_of_floats_runs_in_the_type_of_its_arguments() {
    let s = Session::new(
        "fn third(x: float[n]) -> float[n] = x / 3\nfn sum_of(x: float[n], y: float[n]) = x + y\n\
         fn wide(n: i64) = f64(iota(n))\nfn narrow(n: i64) = f32(iota(n))\n",
    );
    s.prints("run a.fl --fn narrow n=5 -o narrow.npy");
    s.prints("run a.fl --fn wide n=5 -o wide.npy");
    for (argument, bytes) in [("arange:5", 4), ("narrow.npy", 4), ("wide.npy", 8)] {
        s.prints(&format!("run a.fl --fn third x={argument} -o third.npy"));
        assert_eq!(std::fs::read(s.path("third.npy")).unwrap().len(), 128 + 5 * bytes, "{argument}");
    }
    s.prints("run a.fl --fn sum_of x=wide.npy y=ones:5 -o sum.npy");
    assert_eq!(std::fs::read(s.path("sum.npy")).unwrap().len(), 128 + 5 * 8);
    // A file of f32 is one of f64 without a change of any value.
    s.prints("run a.fl --fn sum_of x=wide.npy y=narrow.npy -o sum.npy");
    assert_eq!(std::fs::read(s.path("sum.npy")).unwrap().len(), 128 + 5 * 8);
}

/// The output of a command with standard input from a file.
fn fed(s: &Session, input: &str, line: &str) -> Output {
    s.command(line).stdin(std::fs::File::open(s.path(input)).unwrap()).output().unwrap()
}

/// As with `fmt`, errors in one file do not keep the others from being checked.
#[test]
fn amounts_of_memory_have_units() {
    let s = Session::new(SOURCE);
    let line = "run a.fl --fn scale x=ones:1 by=1 --max-memory";
    for amount in ["1000000", "1000k", "4G"] {
        assert_eq!(s.prints(&format!("{line} {amount}")), "[1.]\n", "{amount}");
    }
    s.says(1, &format!("{line} 3"), &["E0240"]);
    for amount in ["G", "4X", "99999999999T", "1.5G"] {
        s.says(2, &format!("{line} {amount}"), &["expected bytes, such as 1000000, 512M or 4G"]);
    }
}

#[test]
fn checks_several_files() {
    let s = Session::new(SOURCE);
    std::fs::write(s.path("b.fl"), "fn g(x: f32) = x").unwrap();
    std::fs::write(s.path("c.fl"), "fn h(x: f32) = y").unwrap();
    assert!(s.prints("check a.fl b.fl").ends_with("\n\n# b.fl\nfn g(x: f32) -> f32\n"));
    let output = s.run("check c.fl b.fl");
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(1), "\n# b.fl\nfn g(x: f32) -> f32\n"));
    assert!(text(&output.stderr).contains("there is no `y` here"));
}

#[test]
fn saves_several_results_to_one_file() {
    let s = Session::new(SOURCE);
    let pair = "run a.fl --fn pair x=arange:3 y=ones:3";
    for ending in ["npz", "safetensors"] {
        assert_eq!(s.prints(&format!("{pair} -o all.{ending}")), "");
        assert_eq!(s.prints(&format!("{pair} -o most=m.{ending}:best -o b.{ending}")), "");
        for (x, y) in [("all.E:total", "b.E:total"), ("b.E", "all.E:total")] {
            let line =
                format!("run a.fl --fn pair x={x} y={y} -o most.npy -o total=-").replace(".E", &format!(".{ending}"));
            let output = s.run(&line);
            assert_eq!(output.stdout[128..], [2i32, 4, 6].map(i32::to_le_bytes).concat(), "{line}");
        }
        let line = format!("run a.fl --fn pair x=arange:3 y=all.{ending}");
        s.says(
            1,
            &line,
            &["error[E0319]", "it has several arrays: `", "`most`", "`total`", &format!("say which: all.{ending}:")],
        );
        s.says(1, &format!("{line}:none"), &["error[E0318]", "`none`; it has `", "`most`", "`total`"]);
    }
    s.says(2, &format!("{pair} -o one.npy"), &["error[E0322]", "one.npy: several results"]);
    s.says(2, &format!("{pair} -o -"), &["error[E0322]: -: several results"]);
    s.says(2, &format!("{pair} -o a.npz -o b.npz"), &["two -o without the name of a result"]);
    s.says(2, &format!("{pair} -o none=a.npz"), &["there is no result `none`"]);
    s.says(1, &format!("{pair} -o none/a.npz"), &["error[E0300]: none/a.npz: No such file"]);
}

#[test]
fn a_file_is_read_and_replaced_at_once() {
    let s = Session::new(SOURCE);
    s.prints("run a.fl --fn scale x=ones:3 by=1 -o x.npy");
    s.prints("run a.fl --fn scale x=x.npy by=3 -o x.npy");
    assert_eq!(s.prints("run a.fl --fn scale x=x.npy by=1"), "[3., 3., 3.]\n");
    // A call that fails replaces no file.
    s.fails(1, "run a.fl --fn pick x=x.npy at=arange:9 -o x.npy");
    assert_eq!(s.prints("run a.fl --fn scale x=x.npy by=1"), "[3., 3., 3.]\n");
}

#[test]
fn reads_standard_input() {
    let s = Session::new(SOURCE);
    s.prints("run a.fl --fn scale x=arange:4 by=1 -o x.npy");
    let output = fed(&s, "x.npy", "run a.fl --fn scale x=- by=2");
    assert_eq!(text(&output.stdout), "[0., 2., 4., 6.]\n");
    let output = fed(&s, "a.fl", "run - --fn scale x=x.npy by=2");
    assert_eq!(text(&output.stdout), "[0., 2., 4., 6.]\n");
    let good = std::fs::read(s.path("x.npy")).unwrap();
    let claims = |n: &str| {
        let mut bytes = good.clone();
        let at = bytes.windows(4).position(|w| w == b"(4,)").unwrap();
        let shape = format!("({n},), }}");
        bytes[at..at + shape.len()].copy_from_slice(shape.as_bytes());
        bytes
    };
    let max = " --max-memory 999T";
    for (bytes, options, expected) in [
        (
            good[..140].to_vec(),
            "",
            "error[E0308]: argument `x`: -: the header asks for 16 bytes of data, there are fewer",
        ),
        ([&good[..], b"!"].concat(), "", "the header asks for 16 bytes of data, there are more"),
        (good[..5].to_vec(), "", "error[E0303]: argument `x`: -: not a .npy file"),
        (vec![], "", "error[E0303]"),
        (claims("99999999999999"), "", "error[E0240]: the arguments alone take 400000000000000 bytes"),
        (claims("99999999999999"), max, "error[E0308]: argument `x`: -: the header asks for 399999999999996 bytes"),
        (claims("9999999999999999999"), max, "error[E0309]: argument `x`: -: the array is larger than memory can be"),
    ] {
        std::fs::write(s.path("in"), &bytes).unwrap();
        let output = fed(&s, "in", &format!("run a.fl --fn scale x=- by=2{options}"));
        assert!(text(&output.stderr).contains(expected), "{}\nlacks {expected}", text(&output.stderr));
        assert_eq!(output.status.code(), Some(1));
    }
    s.says(2, "run - --fn scale x=- by=1", &["there is no function `scale`"]);
    let output = fed(&s, "a.fl", "run - --fn scale x=- by=1");
    assert!(
        text(&output.stderr).contains("error[E0323]: argument `x`: standard input is read already, by the program")
    );
    let output = fed(&s, "x.npy", "run a.fl --fn scale x=none.npy by=1 --format json");
    assert!(text(&output.stdout).contains("\"code\":\"E0300\""), "{}", text(&output.stdout));
}

#[test]
fn takes_arguments_from_a_file() {
    let s = Session::new(SOURCE);
    std::fs::write(s.path("args"), "--fn scale # the function\n\n  x=arange:3\tby=2 # and more\n").unwrap();
    assert_eq!(s.prints("run a.fl @args"), "[0., 2., 4.]\n");
    s.says(1, "run a.fl @none", &["none: No such file"]);
}

#[test]
fn checks() {
    let s = Session::new(SOURCE);
    let printed = s.prints("check a.fl");
    assert!(printed.starts_with("fn scale(x: f32[n], by: f32) -> f32[n]\nfn pair("), "{printed}");
    let s = Session::new("fn f(x: f32[n]) = y\n\nfn g(x: f32[n]) = x + z\n");
    s.says(1, "check a.fl", &["a.fl:1:19", "a.fl:3:23", "error[E"]);
    s.says(1, "run a.fl --fn f x=ones:1", &["a.fl:1:19"]);
    s.says(1, "check none.fl", &["none.fl: No such file"]);
    s.says(1, "check .", &["error: .: "]);
    std::fs::write(s.path("latin.fl"), b"# caf\xe9\n").unwrap();
    s.says(1, "check latin.fl", &["latin.fl: byte 5 is not UTF-8"]);
}

#[test]
fn explains_arguments_that_do_not_fit() {
    let s = Session::new(SOURCE);
    s.says(2, "run a.fl x=ones:1", &["several functions and none is called `main`", "`scale`, `pair`, `pick`", "--fn"]);
    s.says(2, "run a.fl --fn none", &["no function `none`", "`scale`"]);
    s.says(
        2,
        "run a.fl --fn scale x=ones:1",
        &["no value is given for `by`: add by=1, for instance", "fn scale(x: f32[n], by: f32)"],
    );
    s.says(2, "run a.fl --fn pair y=ones:3", &["no value is given for `x`: add x=random:3, for instance"]);
    s.says(2, "run a.fl --fn scale x=ones:1 by=1 z=1", &["no parameter `z`", "fn scale(x: f32[n], by: f32)"]);
    s.says(2, "run a.fl --fn scale x=ones:1 by=1 by=2", &["`by` is given twice"]);
    s.says(2, "run a.fl --fn scale x=ones:1 by=1 -o y=a.npy", &["no result `y`", "-> f32[n]"]);
    s.says(
        2,
        "run a.fl --fn scale x=ones:1 by=1 -o out=a.txt",
        &["error[E0302]: a.txt: the name tells no format", "help: give a name that ends in .npy"],
    );
    s.says(2, "run a.fl --fn scale x=ones:1 1", &["expected NAME=VALUE"]);
    s.says(
        2,
        "run a.fl --fn scale x=ones:1 by=one",
        &["error[E0330]: argument `by`: this is not a value for a parameter of type f32", "help: give a number"],
    );
    s.says(
        2,
        "run a.fl --fn scale x=3 by=1",
        &["argument `x`: this is not a value for a parameter of type f32[n]", "help: give elements"],
    );
    s.says(2, "run a.fl --fn scale x=ones:2y by=1", &["`2y` is not a shape"]);
    s.says(1, "run a.fl --fn scale x=ones:2x2 by=1", &["the parameter is f32[n], this has shape 2x2"]);
    s.says(2, "run a.fl --fn scale x=ones:1 by=1 --threads 0", &["--threads"]);
    s.says(2, "run a.fl --fn scale x=ones:1 by=1 --device tpu", &["--device", "cpu, gpu, auto, interp"]);
    s.says(2, "go", &["unrecognized subcommand"]);
}

#[test]
fn explains_calls_that_fail() {
    let s = Session::new(SOURCE);
    s.says(
        1,
        "run a.fl --fn pair x=ones:2 y=ones:3",
        &["axis 0 of `y` is 3, its declared size is 2", "a.fl:2:27", "n = 2, from axis 0 of x"],
    );
    for device in ["cpu", "interp"] {
        let line = format!("run a.fl --fn pick x=ones:2 at=arange:4 --device {device}");
        s.says(1, &line, &["subscript 2 is outside", "length 2", "a.fl:3:"]);
    }
    std::fs::write(s.folder.path().join("b.fl"), "fn halve(x: f32) = loop y = x while y > 1 { y / 2 }").unwrap();
    for device in ["cpu", "interp"] {
        let line = format!("run b.fl x=1024 --device {device} --max-steps");
        assert_eq!(s.prints(&format!("{line} 10")), "1.0\n");
        s.says(1, &format!("{line} 9"), &["E0244", "a loop takes more than 9 steps"]);
    }
    s.says(1, "run a.fl --fn scale x=ones:1000 by=1 --max-memory 1K", &["4004 bytes, the limit is 1024"]);
    s.says(1, "run a.fl --fn scale x=ones:1000 by=1 --max-memory 5K", &["8004 bytes, the limit is 5120"]);
    s.says(1, "run a.fl --fn scale x=zeros:4611686018427387904 by=1", &["larger than memory can be"]);
    s.says(1, "run a.fl --fn scale x=zeros:1000000000000 by=1", &["the limit is"]);
}

#[test]
fn helps() {
    let s = Session::new(SOURCE);
    for command in ["run", "check", "explain", "bench"] {
        assert!(s.prints(&format!("{command} --help")).contains(&format!("Example: fuseloop {command} examples/")));
    }
    assert!(s.prints("--help").contains("Example: fuseloop run"));
    assert!(s.prints("--version").starts_with("fuseloop "));
}

#[test]
fn reports_times() {
    let s = Session::new(SOURCE);
    let output = s.run("run a.fl --fn scale x=ones:1 by=1 --time");
    assert_eq!(text(&output.stdout), "[1.]\n");
    let stderr = text(&output.stderr);
    for stage in ["parse", "check", "lower", "compile", "text to callable", "run"] {
        assert!(stderr.contains(&format!("{stage} ")), "{stderr}");
    }
}

/// The caller or the function can permit a loss of precision.
#[test]
fn fast_math() {
    let s =
        Session::new("fn f(a: f32[n, k], b: f32[k, m]) = a @ b\n@fast fn g(a: f32[n, k], b: f32[k, m]) = f(a, b)\n");
    let is_fast = |line: &str| s.prints(line).contains(".tf32.");
    assert!(!is_fast("build a.fl --fn f --emit ptx"));
    assert!(!is_fast("build a.fl --fn f --emit ptx --math exact"));
    assert!(is_fast("build a.fl --fn f --emit ptx --math fast"));
    assert!(is_fast("build a.fl --fn g --emit ptx"));
    let run = |math: &str| s.prints(&format!("run a.fl --fn f a=random:9x9 b=random:9x9 --math {math}"));
    assert_eq!(run("fast"), run("exact"), "the CPU gives nothing up");
}

#[test]
fn writes_what_other_tools_read() {
    let s = Session::new(SOURCE);
    let ptx = s.prints("build a.fl --fn scale --emit ptx");
    assert!(
        ptx.starts_with(".version") && ptx.contains("// a.fl:1: fn scale(x: f32[n], by: f32) = x * by\n.visible"),
        "{ptx}"
    );
    assert_eq!(s.prints("build a.fl --fn scale --emit ir,ptx -o out"), "");
    assert_eq!(std::fs::read_to_string(s.path("out/scale.ptx")).unwrap(), ptx);
    assert!(std::fs::read_to_string(s.path("out/scale.ir")).unwrap().contains("kernel"));
    s.says(1, "build a.fl --fn scale --emit ir -o a.fl", &["a.fl"]);
}

#[test]
fn runs_on_a_gpu_or_says_why_not() {
    let s = Session::new(SOURCE);
    let call = "run a.fl --fn scale x=arange:3 by=2 --device";
    let (devices, lines) = (s.prints("devices"), s.prints("devices --format json"));
    assert!(devices.starts_with("cpu ") && devices.contains("interp "), "{devices}");
    let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["type"], &lines[0]["device"]), (&"device".into(), &"cpu".into()));
    if lines.len() > 1 {
        assert_eq!(s.prints(&format!("{call} gpu")), "[0., 2., 4.]\n");
        s.says(1, &format!("{call} gpu --max-device-memory 100"), &["E0242", "it may take 100"]);
    } else {
        s.says(1, &format!("{call} gpu"), &["error[E0260]: there is no ", "on the CPU too"]);
    }
    assert_eq!(s.prints(&format!("{call} auto")), s.prints(&format!("{call} cpu")));
    let explained = s.prints("explain a.fl --fn scale n=1000000 --device gpu");
    assert!(explained.contains("GB/s") && explained.contains("us, for memory"), "{explained}");
}

#[test]
fn measures_with_fusion_and_without() {
    let s = Session::new(SOURCE);
    let line = s.prints("bench a.fl --fn scale n=1000 --threads 1 --format json");
    for part in [
        r#"{"type":"benchmark","version":2,"function":"scale","fuse":"all","threads":1,"gpu":null,"sizes":{"n":1000},"#,
        r#""ratio":"#,
    ] {
        assert!(line.contains(part), "{line}");
    }
    // Fused and unfused are the same program, so it is measured once and the ratio is 1.
    assert!(line.contains(r#""ratio":1.0,"difference":"same""#), "{line}");
    for line in ["bench a.fl --fn scale n=0", "bench a.fl --fn scale n=1000 --fuse none"] {
        let text = s.prints(line);
        for part in ["\nfused or not ", "\nno difference: nothing is merged"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains("without fusion"), "{text}");
    }
    s.says(2, "bench a.fl --fn scale q=3", &["there is no size `q`"]);
    s.says(2, "bench a.fl --fn scale n=1 n=2", &["given twice"]);
}

#[test]
#[cfg(unix)]
fn does_not_mind_a_closed_pipe() {
    let s = Session::new(SOURCE);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut child =
        s.command("run a.fl --fn scale x=zeros:900 by=1").stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(0));
}

/// Each example checks, and each command in its header runs.
#[test]
#[cfg(unix)]
fn the_examples_run_as_they_say() {
    let s = Session::beside_the_examples();
    let mut count = 0;
    for entry in std::fs::read_dir(s.path("examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "fl") {
            continue;
        }
        s.prints(&format!("check {}", path.display()));
        let source = std::fs::read_to_string(&path).unwrap();
        let commands: Vec<&str> = source.lines().filter_map(|line| line.strip_prefix("#     fuseloop ")).collect();
        let name = path.file_name().unwrap().to_string_lossy();
        assert!(!commands.is_empty(), "the header of {name} shows no command");
        for command in commands {
            assert!(command.starts_with(&format!("run examples/{name} ")), "{command}");
            s.prints(command);
        }
        count += 1;
    }
    assert!(count > 30);
}

/// The README's first command prints the output shown there; its sessions are run with those of the
/// other pages.
#[test]
#[cfg(unix)]
fn the_readme_begins_right() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let s = Session::beside_the_examples();
    let (_, first) = readme.split_once("cargo run --release -p cli -- ").unwrap();
    let (command, after) = first.split_once('\n').unwrap();
    let (_, shown) = after.split_once("```text\n").unwrap();
    let output = s.run(command);
    assert_eq!(text(&output.stdout) + &text(&output.stderr), shown.split("```").next().unwrap(), "{command}");
}

#[test]
fn reads_digits() {
    let s = Session::new(SOURCE);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for device in ["cpu", "interp"] {
        let mut command = s.command("run examples/digits.fl @examples/digits/args --device");
        let output = command.arg(device).current_dir(&root).output().unwrap();
        let stdout = text(&output.stdout);
        assert!(stdout.starts_with("accuracy = 0.97"), "{stdout}{}", text(&output.stderr));
    }
}

#[test]
fn learns_to_read_digits() {
    let s = Session::new(SOURCE);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut command = s.command("run examples/train_digits.fl --fn main @examples/digits/training -o");
    command.arg(format!("losses={}", s.path("losses.svg").display()));
    let output = command.current_dir(&root).output().unwrap();
    let accuracy = text(&output.stdout);
    let accuracy = accuracy.trim().strip_prefix("accuracy = ").and_then(|number| number.parse::<f64>().ok());
    let accuracy = accuracy.unwrap_or_else(|| panic!("{}", text(&output.stderr)));
    assert!(accuracy >= 0.97, "{accuracy}");
}

#[test]
fn warnings_go_to_the_error_stream_and_change_nothing_unless_they_are_denied() {
    let s = Session::new("fn half(x: f32[n], by: f32) = x / 2\nfn main(x: f32[n]) = x / 3\n");
    let warned = |line: &str, code: i32| {
        let output = s.run(line);
        assert_eq!(output.status.code(), Some(code), "{line}\n{}", text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    };
    let drawn = " --> a.fl:1:20\n";
    let (stdout, stderr) = warned("check a.fl", 0);
    assert!(stdout.contains("fn main(x: f32[n]) -> f32[n]"), "{stdout}");
    assert!(stderr.starts_with("warning[W0003]: `main` does not need `half`\n"), "{stderr}");
    assert!(
        stderr.contains("warning[W0002]: the parameter `by` is never used\n") && stderr.contains(drawn),
        "{stderr}"
    );
    let lines = ["run a.fl x=ones:3", "explain a.fl", "bench a.fl n=10"];
    let lines = lines.into_iter().map(|line| (line, true));
    // With another entry, functions that `main` does not need are no mistake.
    let named = ["run a.fl --fn half x=ones:3 by=1", "explain a.fl --fn half", "build a.fl --emit ir --fn half"];
    for (line, main) in lines.chain(named.map(|line| (line, false))) {
        let (stdout, stderr) = warned(line, 0);
        assert!(!stdout.is_empty() && stderr.contains("warning[W0002]"), "{line}\n{stderr}");
        assert_eq!(stderr.contains("warning[W0003]"), main, "{line}\n{stderr}");
        let (stdout, denied) = warned(&format!("{line} --deny warnings"), 1);
        assert_eq!((stdout.as_str(), denied.starts_with(&stderr)), ("", true), "{line}\n{denied}");
        assert!(denied.contains("error: a.fl: ") && denied.contains("denied by `--deny warnings`"), "{denied}");
    }
    let (stdout, stderr) = warned("run a.fl --format json x=ones:3", 0);
    let types: Vec<&str> = stdout.lines().filter_map(|line| line.split('"').nth(3)).collect();
    assert_eq!(
        (types.as_slice(), stderr.as_str()),
        (&["diagnostic", "diagnostic", "result", "times"][..], ""),
        "{stdout}"
    );
    assert!(stdout.starts_with(r#"{"type":"diagnostic","code":"W0003","severity":"warning","#), "{stdout}");
    assert!(s.prints("help w2").starts_with("# W0002: "));
}
