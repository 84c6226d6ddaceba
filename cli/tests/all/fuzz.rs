//! `fuseloop fuzz` as a user runs it.

use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

fn fuzz(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fuseloop"));
    command.arg("fuzz").args(arguments).output().expect("the command starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

#[test]
fn random_programs_pass() {
    let done = fuzz(&["--cases", "40", "--seed", "500", "--format", "json"]);
    assert!(done.status.success(), "{}", text(&done.stdout));
    assert!(done.stderr.is_empty(), "{}", text(&done.stderr));
    let report: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_eq!(report["type"], "fuzz");
    assert_eq!(report["tally"]["programs"], 40);
    assert!(report["failure"].is_null());
    let page = include_str!("../../../docs/json.md");
    let tally = report["tally"].as_object().expect("an object").keys();
    for field in tally.chain(report.as_object().expect("an object").keys()) {
        assert!(page.contains(&format!("`{field}`")), "docs/json.md says nothing of `{field}`");
    }
    let done = fuzz(&["--cases", "6", "--seed", "1", "--device", "cpu", "--simd", "128", "--threads", "1"]);
    let found = text(&done.stdout);
    assert!(found.starts_with("6 programs, "), "{found}");
    // Whatever route it takes, everything runs on the one engine that is left.
    let runners = found.lines().find_map(|line| line.trim_start().strip_prefix("programs on: ")).expect("a line");
    assert!(runners.split(", ").all(|runner| runner.contains("cpu:1:128 ")), "{found}");
}

/// Ctrl-C ends a campaign, and what it has tested until then is reported.
#[cfg(unix)]
#[test]
fn an_interrupted_campaign_reports() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fuseloop"));
    command.args(["fuzz", "--cases", "100000000", "--device", "cpu", "--seed", "500"]);
    let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
    // It listens from its first moments on.
    sleep(Duration::from_secs(3));
    let sent = Command::new("kill").args(["-INT", &running.id().to_string()]).status();
    assert!(sent.expect("the command `kill`").success());
    let done = running.wait_with_output().expect("it ends");
    assert_eq!(done.status.code(), Some(1), "{}", text(&done.stderr));
    assert!(text(&done.stdout).contains(" programs, "), "{}", text(&done.stdout));
    assert_eq!(text(&done.stderr).trim_end(), "error: interrupted");
}

/// A case that a person wrote: a replayed case need not have been found by the fuzzer.
#[test]
fn a_saved_case_is_run_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("program.fl"), "fn main(x: f32[n]) = sum(x)\n").expect("room");
    let setting = r#"{"entry": "main", "engine": "cpu:1:128", "fuse": "all", "coin": null, "fuel": 1, "variation": null, "arguments": ["x"]}"#;
    std::fs::write(path("case.json"), setting).expect("room");
    let name = folder.path().to_str().expect("a plain name");
    let missing = fuzz(&["--replay", name]);
    assert_eq!(missing.status.code(), Some(1));
    let data = format!("out={}:x", path("data.safetensors").display());
    let program = path("make.fl");
    std::fs::write(&program, "fn main(x: f32[n]) = x\n").expect("room");
    let made = Command::new(env!("CARGO_BIN_EXE_fuseloop"))
        .args(["run", program.to_str().expect("a plain name"), "x=arange:9", "-o", &data])
        .status();
    assert!(made.expect("the command starts").success());
    let done = fuzz(&["--replay", name]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(text(&done.stdout), format!("{name}: passes\n"));
}
