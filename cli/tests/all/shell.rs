//! The command line as a whole: completions, the manual, help with examples, exit codes.

use std::path::Path;
use std::process::{Command, Output, Stdio};

const COMMANDS: [&str; 13] = [
    "run",
    "repl",
    "check",
    "explain",
    "bench",
    "build",
    "devices",
    "fmt",
    "fuzz",
    "lsp",
    "completions",
    "man",
    "help",
];

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn fuseloop(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fuseloop"));
    command.args(arguments).current_dir(root()).stdin(Stdio::null()).output().unwrap()
}

#[track_caller]
fn prints(arguments: &[&str]) -> String {
    let output = fuseloop(arguments);
    assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_command_has_help_with_an_example() {
    let all = prints(&["--help"]);
    for command in COMMANDS {
        assert!(all.contains(&format!("\n  {command} ")), "{all}");
        let help = prints(&[command, "--help"]);
        let example = help.rsplit("Example: ").next().unwrap();
        assert!(help.contains("Example: ") && example.contains(&format!("fuseloop {command}")), "{help}");
    }
}

/// A shell that is installed accepts the script, and completes commands and options.
#[test]
fn shells_complete_command_lines() {
    for shell in ["bash", "zsh", "fish"] {
        let script = prints(&["completions", shell]);
        for word in COMMANDS.iter().chain(&["emit", "max-memory"]) {
            assert!(script.contains(word), "{shell} has no {word}");
        }
    }
    let script = "source <(\"$0\" completions bash); COMP_WORDS=(fuseloop exp); COMP_CWORD=1; _fuseloop fuseloop exp fuseloop; \
                  echo \"${COMPREPLY[@]}\"";
    let bash = Command::new("bash").args(["-c", script, env!("CARGO_BIN_EXE_fuseloop")]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&bash.stdout).trim(), "explain", "{}", String::from_utf8_lossy(&bash.stderr));
}

#[test]
fn the_manual_has_a_page_for_each_command() {
    let page = prints(&["man"]);
    assert!(page.contains(".TH fuseloop 1") && page.contains("fuseloop\\-run(1)"), "{page}");
    for command in COMMANDS {
        let page = prints(&["man", command]);
        assert!(page.contains(&format!(".TH fuseloop-{command} 1")) && page.contains("Example: "), "{page}");
    }
    assert_eq!(fuseloop(&["man", "none"]).status.code(), Some(2));
}

/// The table of the page: each command ends with the exit code that it states.
#[test]
fn exit_codes_are_what_the_page_says() {
    let page = std::fs::read_to_string(root().join("docs/commands.md")).unwrap();
    let mut seen = vec![];
    for line in page.lines() {
        let Some((code, command)) = line.strip_prefix("| ").and_then(|line| line.split_once(" | `fuseloop ")) else {
            continue;
        };
        let code: i32 = code.parse().unwrap();
        let arguments: Vec<&str> = command.trim_end_matches("` |").split_whitespace().collect();
        assert_eq!(fuseloop(&arguments).status.code(), Some(code), "{command}");
        seen.push(code);
    }
    assert!(seen.len() >= 10 && (0..=2).all(|code| seen.contains(&code)), "{seen:?}");
}
