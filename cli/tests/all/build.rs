//! `fuseloop build` as a user runs it: examples that link its objects, built by the commands in
//! their headers, are compared with the interpreter; and invalid command lines are refused.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const FUSELOOP: &str = env!("CARGO_BIN_EXE_fuseloop");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn fuseloop(arguments: &[&str]) -> Output {
    Command::new(FUSELOOP).current_dir(root()).args(arguments).output().expect("the command runs")
}

fn shell(command: &str) -> String {
    let done = Command::new("sh").current_dir(root()).args(["-c", command]).output().expect("there is a shell");
    assert!(done.status.success(), "{command}\n{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("text")
}

fn floats(text: &str) -> Vec<u32> {
    text.split_whitespace().map(|number| number.parse::<f32>().expect("a number").to_bits()).collect()
}

/// Runs all commands at the head of an example except the last, then the last one with these
/// arguments, in a folder of the test.
fn example(path: &str, sizes: [&str; 2]) -> Vec<u32> {
    let folder = tempfile::tempdir().expect("a folder");
    let text = std::fs::read_to_string(root().join(path)).expect("the example is there");
    let lines = text.lines().map(|line| line.trim_start_matches(['/', '!', ' ']));
    let commands =
        lines.filter(|line| ["fuseloop ", "cc ", "rustc ", "target/"].iter().any(|head| line.starts_with(head)));
    let mut printed = String::new();
    for command in commands {
        let command = command.replace("target/embed", &folder.path().display().to_string());
        let command = command.replacen("fuseloop ", &format!("{FUSELOOP} "), 1).replace("3 5", &sizes.join(" "));
        printed = shell(&command);
    }
    floats(&printed)
}

/// The same with the interpreter.
fn interpreted([n, m]: [&str; 2]) -> Vec<u32> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out.npy").display().to_string();
    let x = format!("x=arange:{n}x{m}");
    let done = fuseloop(&["run", "examples/softmax.fl", "--fn", "softmax_rows", "--device", "interp", &x, "-o", &path]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let file = std::fs::read(path).expect("the file is written");
    let header = 10 + usize::from(u16::from_le_bytes([file[8], file[9]]));
    file[header..].chunks(4).map(|bytes| u32::from_le_bytes(bytes.try_into().expect("whole floats"))).collect()
}

#[test]
fn the_examples_give_the_bits_of_the_interpreter() {
    for sizes in [["3", "5"], ["1", "1"], ["7", "129"], ["2", "5000"]] {
        let expected = interpreted(sizes);
        assert_eq!(example("examples/embed-c/main.c", sizes), expected);
        assert_eq!(example("examples/embed-rust/embed.rs", sizes), expected);
    }
}

/// The program in the documentation prints the output shown there.
#[test]
fn the_page_on_embedding_means_what_it_says() {
    let page = std::fs::read_to_string(root().join("docs/embedding.md")).expect("the page is there");
    let block = |head: &str| {
        let (_, rest) = page.split_once(&format!("```{head}\n")).expect("the page has such a block");
        rest.split_once("```").expect("the block ends").0
    };
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("it can be written");
    write("strided.fl", block("fl"));
    write("main.c", block("c"));
    let at = folder.path().display();
    let mut printed = String::new();
    for line in block("sh").lines() {
        printed = shell(&format!("cd {at} && {}", line.replacen("fuseloop ", &format!("{FUSELOOP} "), 1)));
    }
    assert_eq!(printed, block("text"));
}

#[test]
fn the_same_program_gives_the_same_object() {
    let folder = tempfile::tempdir().expect("a folder");
    let built = |name: &str, more: &[&str]| {
        let to = folder.path().join(name).display().to_string();
        let done = fuseloop(&[&["build", "examples/softmax.fl", "--emit", "obj,header", "-o", &to], more].concat());
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let read = |file: &str| std::fs::read(folder.path().join(name).join(file)).expect("the file is written");
        (read("softmax.o"), String::from_utf8(read("softmax.h")).expect("text"))
    };
    let first = built("a", &["--target", "x86_64"]);
    assert_eq!(built("b", &["--target", "x86_64-unknown-linux-musl", "--cpu", "x86-64-v3"]), first);
    assert!(first.1.contains("int32_t fl_softmax(") && first.1.contains("int32_t fl_softmax_rows("));
    let other = built("c", &["--target", "aarch64", "--prefix", "", "--fn", "softmax"]);
    assert!(other.1.contains("int32_t softmax(") && !other.1.contains("softmax_rows"));
    assert_eq!(&other.0[18..20], [183, 0], "EM_AARCH64");
}

/// Names that are reserved in C, and functions with names that clash with another's companions or
/// with the object's own helpers.
#[test]
fn names_make_way() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let source = "fn f(double: f32[n], n_: f32[n]) = double + n_\nfn f_query(x: f32) = x\nfn main(scratch: f32[I]) = scratch\nfn turn_4(x: f32[n, m], y: f32[m, n]) = transpose(x) + y\n";
    std::fs::write(path("names.fl"), source).expect("it can be written");
    let done = fuseloop(&["build", &path("names.fl"), "--emit", "obj,header", "-o", &path(".")]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let header = std::fs::read_to_string(path("names.h")).expect("the header is written");
    assert!(header.contains("fl_f(int64_t n, const float *double_, const float *n_, float *out,"), "{header}");
    assert!(header.contains("int32_t fl_f_query_(int64_t n, fl_f_needs *needs,"), "{header}");
    assert!(header.contains("fl_main(int64_t I_, const float *scratch, float *out, void *scratch_, "), "{header}");
    std::fs::write(path("main.c"), "#include \"names.h\"\nint main(void) { return 0; }\n").expect("it can be written");
    let at = folder.path().display();
    shell(&format!("cd {at} && cc -std=c99 -Wall -Wextra -pedantic -Werror main.c names.o && ./a.out"));
}

/// `-o` names a file for one output, and a folder for several.
#[test]
fn one_output_is_a_file_and_several_are_a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let build = |arguments: &[&str], to: &str| {
        let done = fuseloop(&[&["build", "examples/softmax.fl"], arguments, &["-o", &path(to)]].concat());
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let built = (Some(0), String::new());
    assert_eq!(build(&["--emit", "obj"], "foo.o"), built);
    assert!(std::fs::read(path("foo.o")).expect("a file").starts_with(b"\x7fELF"));
    assert_eq!(build(&["--emit", "obj,header", "--fn", "softmax", "--fn", "softmax_rows"], "two"), built);
    let header = std::fs::read_to_string(path("two/softmax.h")).expect("the header is written");
    assert!(header.contains("fl_softmax(") && header.contains("fl_softmax_rows("));
    assert_eq!(build(&["--emit", "header"], "two"), built, "a folder that is there");
    assert_eq!(build(&["--emit", "obj"], "new/"), built);
    assert!(Path::new(&path("new/softmax.o")).is_file());
    assert_eq!(build(&["--emit", "ptx", "--fn", "softmax_rows", "n=1000", "m=777"], "rows.ptx"), built);
    let launches = std::fs::read_to_string(path("rows.json")).expect("the launches are described");
    let launches: serde_json::Value = serde_json::from_str(&launches).expect("JSON");
    assert_eq!(launches["launches"][0]["grid"], serde_json::json!([1000, 1, 1]));
    assert_eq!(launches["parameters"][0]["bytes"], 3_108_000);
    let ptx = std::fs::read_to_string(path("rows.ptx")).expect("the PTX is written");
    let kernel = launches["launches"][0]["kernel"].as_str().expect("a name");
    assert!(ptx.contains(&format!(".visible .entry {kernel}(")), "{kernel}");
    assert_eq!(build(&["--emit", "ptx"], "all"), built);
    for file in ["softmax.ptx", "softmax.json", "softmax_rows.ptx", "softmax_rows.json"] {
        assert!(Path::new(&path("all")).join(file).is_file(), "{file}");
    }
    let (code, said) = build(&["--emit", "obj,header"], "foo.o");
    assert!(code == Some(1) && said.contains("foo.o: File exists"), "{said}");
}

/// Assembling `--emit asm` gives the same code as the object.
#[test]
fn assembly_is_the_object() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().display();
    for target in ["x86_64", "aarch64"] {
        let build = |emit: &str, to: &str| {
            let to = format!("{at}/{to}");
            let arguments = ["build", "examples/gathered.fl", "--target", target, "--emit", emit, "-o", &to];
            let done = fuseloop(&arguments);
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        };
        build("asm", "a.s");
        build("obj", "b.o");
        if target == std::env::consts::ARCH {
            shell(&format!(
                "cd {at} && cc -c a.s -o a.o && objcopy -O binary -j .text a.o a.bin && objcopy -O binary -j .text b.o b.bin"
            ));
            let code = |name: &str| std::fs::read(folder.path().join(name)).expect("it is written");
            assert!(!code("a.bin").is_empty() && code("a.bin") == code("b.bin"));
            let symbols = |name: &str| shell(&format!("nm --defined-only -g {at}/{name}"));
            assert_eq!(symbols("a.o"), symbols("b.o"));
        }
    }
    let text = std::fs::read_to_string(folder.path().join("a.s")).expect("it is written");
    assert!(text.contains("\t.globl fl_gathered\n") && text.contains("\t.inst 0x"), "{text}");
}

#[test]
fn what_it_refuses() {
    for (arguments, message) in [
        (&["--emit", "obj"][..], "say which with -o FILE"),
        (&["--emit", "header", "--target", "riscv64"], "objects are not made for `riscv64`"),
        (&["--emit", "header", "--target", "x86_64-pc-windows-msvc"], "for x86_64 and aarch64 under Linux"),
        (&["--emit", "header", "--target", "x86_64", "--cpu", "z80"], "`z80` is not one of the processors x86-64-v2, "),
        (&["--emit", "header", "--prefix", "2"], "a prefix is a name in C"),
        (&["--emit", "header", "--fn", "softmax", "--fn", "softmax"], "the function `softmax` is asked for twice"),
        (&["--emit", "header", "--fn", "hardmax"], "there is no function `hardmax`"),
        (&["--emit", "ptx", "-o", "none/p.ptx", "--fn", "softmax_rows", "n=3"], "sizes that are not given: add m=N"),
        (&["--emit", "ptx", "q=3"], "no function has a size `q`"),
    ] {
        let done = fuseloop(&[&["build", "examples/softmax.fl"], arguments].concat());
        assert_eq!(done.status.code(), Some(2), "{arguments:?}");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(said.contains(message), "{arguments:?}: {said}");
    }
}
