//! The sessions in the documentation: each command with its output. Those about files and their
//! errors run in a folder of good and bad files, the others next to the examples. `UPDATE_DOCS=1`
//! rewrites the output.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

const PROGRAMS: &[(&str, &str)] = &[
    ("total.fl", "fn total(x: f32[n]) = sum(x)\n"),
    ("some.fl", "fn some(x: bool[n]) = any(x)\n"),
    ("same.fl", "fn same(x: bf16[n]) = x\n"),
    ("extremes.fl", "fn extremes(x: f32[n]) -> (lo: f32, hi: f32) = (min(x), max(x))\n"),
    ("dot.fl", "fn dot(x: f32[n], y: f32[n]) = sum(x * y)\n"),
    ("scale.fl", "fn scale(x: f32[n], by: u8) = x * f32(by)\n"),
    ("sums.fl", "fn sums(x: f32[n, m]) = sum(x)\n"),
    ("bright.fl", "fn bright(image: u8[h, w]) = max(image)\n"),
    ("cube.fl", "fn cube(n: i64) { let y[i < n, j < n, k < n] = i + j + k; y }\n"),
    ("squares.fl", "fn squares(n: i64) { let y[k < n] = k * k; y }\nfn twice(x: f64[n]) = 2 * x\n"),
    ("blend.fl", "fn blend(image: u8[h, w], by: f32) { let y[i, j] = u8(f32(image[i, j]) * by); y }\n"),
    ("prices.csv", "open,close\n10.5,11.25\n11.25,n/a\n"),
    ("whole.csv", "open,close\n10.5,11.25\n11.25,11.5\n"),
    ("ragged.csv", "1,2,3\n4,5\n"),
    ("filled.csv", "1,2,3\n4,5,0\n"),
    ("words.png", "These are words.\n"),
    ("feet.fl", "fn size(x: f32) = x / 0.3048\nfn meters(x: f32) = 0.3048 * x\n"),
    ("yards.fl", "fn size(x: f32) = x / 0.9144\n"),
    ("both.fl", "use \"feet.fl\"\nuse \"yards.fl\"\n\nfn sizes(x: f32[n]) = size(x)\n"),
    ("picked.fl", "use \"feet.fl\"\nuse \"yards.fl\" (size)\n\nfn sizes(x: f32[n]) = size(meters(x))\n"),
    ("lost.fl", "use \"foot.fl\"\n\nfn sizes(x: f32[n]) = size(x)\n"),
    ("found.fl", "use \"feet.fl\"\n\nfn sizes(x: f32[n]) = size(x)\n"),
    ("egg.fl", "use \"hen.fl\"\n\nfn egg(x: f32) = 2 * x\nfn chick(x: f32) = hen(x) - 1\n"),
    ("both_ways.fl", "fn egg(x: f32) = 2 * x\nfn hen(x: f32) = egg(x) + 1\n"),
    ("chick.fl", "use \"both_ways.fl\"\n\nfn chick(x: f32) = hen(x) - 1\n"),
    ("hen.fl", "use \"egg.fl\"\n\nfn hen(x: f32) = egg(x) + 1\n"),
];

/// A `.npy` file with this header.
fn npy(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(header.len()).unwrap().to_le_bytes();
    let length = if version == 1 { &length[..2] } else { &length[..] };
    [&b"\x93NUMPY"[..], &[version, 0], length, header.as_bytes(), data].concat()
}

fn floats() -> Vec<u8> {
    [1.0f32, 2.0, 3.0].map(f32::to_le_bytes).concat()
}

fn safetensors(tensors: &[(&str, u64, u64)], data: &[u8]) -> Vec<u8> {
    let entry = |(name, start, end): &(&str, u64, u64)| {
        format!(r#""{name}":{{"dtype":"F32","shape":[3],"data_offsets":[{start},{end}]}}"#)
    };
    let header = format!("{{{}}}", tensors.iter().map(entry).collect::<Vec<_>>().join(","));
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The folder in which the sessions take place: programs, good files, bad files.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    PROGRAMS.iter().for_each(|(name, text)| write(name, text.as_bytes()));
    std::fs::create_dir(folder.path().join("folder.npy")).unwrap();
    let of = |descr: &str, shape: &str| format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    let f32s = of("<f4", "(3,)");
    let good = npy(1, &f32s, &floats());
    write("x.npy", &good);
    write("text.npy", b"1 2 3\n");
    write("later.npy", &npy(4, &f32s, &floats()));
    write("broken.npy", &npy(1, "{'descr': '<f4', 'shape': (3,), }", &floats()));
    write("long.npy", &npy(2, &" ".repeat(1_000_000), &floats()));
    write("complex.npy", &npy(1, &of("<c8", "(3,)"), &[0; 24]));
    write("short.npy", &good[..good.len() - 4]);
    write("huge.npy", &npy(1, &of("<f4", "(4294967296, 4294967296, 0)"), &[]));
    write("flags.npy", &npy(1, &of("|b1", "(3,)"), &[0, 1, 2]));
    for ending in ["npz", "safetensors"] {
        let place = |key: &str| {
            let path = folder.path().join(format!("arrays.{ending}:{key}"));
            fuseloop::files::Place::parse(path.to_str().unwrap()).unwrap()
        };
        let array = fuseloop::Array::from(vec![1.0f32, 2.0, 3.0]);
        let arrays = [(place("x"), array.as_ref()), (place("y"), array.as_ref())];
        fuseloop::files::save(&arrays, fuseloop::files::Packing::Stored).unwrap();
    }
    let place = |name: &str| fuseloop::files::Place::parse(folder.path().join(name).to_str().unwrap()).unwrap();
    let grey = fuseloop::Array::from_slice(&[2, 2], &[0u8, 128, 255, 7]).unwrap();
    let wide = fuseloop::Array::from(vec![1.0f64, 2.5, 0.1]);
    let saved = [(place("grey.png"), grey.as_ref()), (place("wide.npy"), wide.as_ref())];
    fuseloop::files::save(&saved, fuseloop::files::Packing::Stored).unwrap();
    let archive = std::fs::read(folder.path().join("arrays.npz")).unwrap();
    write("cut.npz", &archive[..archive.len() - 30]);
    let mut damaged = archive.clone();
    let last = archive.windows(12).position(|window| window == floats()).unwrap();
    damaged[last] ^= 1;
    write("damaged.npz", &damaged);
    write("bzip2.npz", &std::fs::read(root().join("tests/files/bzip2.npz")).unwrap());
    let mut bomb = std::fs::read(root().join("tests/files/streamed.npz")).unwrap();
    let entry = bomb.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    bomb[entry + 24..entry + 28].copy_from_slice(&2_000_000_000u32.to_le_bytes());
    write("bomb.npz", &bomb);
    write("broken.safetensors", &safetensors(&[("x", 0, 12)], &[0; 20]));
    write("overlap.safetensors", &safetensors(&[("x", 0, 12), ("y", 8, 20)], &[0; 20]));
    write("twice.safetensors", &safetensors(&[("x", 0, 12), ("x", 12, 24)], &[0; 24]));
    folder
}

/// The output of a command in a shell, with a line end.
fn shown(folder: &Path, command: &str) -> String {
    let binaries = Path::new(env!("CARGO_BIN_EXE_fuseloop")).parent().unwrap();
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(folder).env("PATH", path).stdin(Stdio::null());
    let output = shell.output().unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

/// The page with the output of each command of its sessions, run in a folder. A session is a block
/// that begins with a command.
fn played(page: &str, folder: &Path) -> String {
    let mut text = String::new();
    let mut lines = page.lines().peekable();
    let (mut inside, mut session) = (false, false);
    while let Some(line) = lines.next() {
        if let Some(head) = line.strip_prefix("```") {
            inside = !inside;
            session = inside && head == "text" && lines.peek().is_some_and(|next| next.starts_with("$ "));
        } else if session && !line.starts_with("$ ") {
            continue;
        }
        writeln!(text, "{line}").unwrap();
        if let (true, Some(command)) = (session, line.strip_prefix("$ ")) {
            text += &shown(folder, command);
        }
    }
    text
}

#[test]
fn sessions_show_what_happens() {
    let docs = root().join("docs");
    let mut pages = vec![docs.join("files.md")];
    let codes = fuseloop::files::codes::ALL.iter().map(|(code, _)| code.to_string());
    let of_used_files = ["E0160", "E0170", "E0173", "E0174"].map(str::to_owned);
    pages.extend(codes.chain(of_used_files).map(|code| docs.join(format!("errors/{code}.md"))));
    let mut faults = vec![];
    for path in pages {
        let page = std::fs::read_to_string(&path).unwrap();
        let played = played(&page, folder().path());
        if let Some(code) = path.file_stem().and_then(|s| s.to_str()).filter(|s| s.starts_with('E')) {
            // First the error, then its fix.
            let errors: Vec<_> = played.match_indices("\nerror").collect();
            let own = played.find(&format!("\nerror[{code}]: "));
            let mended = played.matches("\n```python\n").count() + played.matches("\n```text\n").count() == 2;
            if errors.len() != 1 || own.is_none() || !mended {
                faults.push(format!("{code} is not: its error, and a way out\n{played}"));
            }
        }
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, played).unwrap();
        } else if played != page {
            faults.push(format!("{}\n{played}", path.display()));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

#[test]
fn sessions_with_the_examples_show_what_happens() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root().canonicalize().unwrap().join("examples"), folder.path().join("examples"))
        .unwrap();
    let mut faults = vec![];
    for name in ["README.md", "docs/fusion.md", "docs/gpu.md", "docs/schedules.md"] {
        let path = root().join(name);
        let page = std::fs::read_to_string(&path).unwrap();
        let played = played(&page, folder.path());
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, played).unwrap();
        } else if played != page {
            faults.push(format!("{name}\n{played}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}
