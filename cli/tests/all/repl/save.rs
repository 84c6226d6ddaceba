//! `:save` reports what it wrote and overwrites nothing unasked; `:clear` reports what it forgot.

use std::fs;

use super::{pipe, text};

const PROGRAM: &str = "fn kept(x: f32[n]) = x\n";

#[test]
fn save_destroys_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keep.fl");
    fs::write(&file, PROGRAM).unwrap();
    fs::write(folder.path().join("x.npy"), "mine").unwrap();
    let refused = |entered: &str, why: &str| {
        let said = pipe(folder.path(), &format!("{entered}\n"));
        assert_eq!(said.status.code(), Some(1), "{entered}");
        assert!(text(&said.stderr).contains(why), "{entered}: {}", text(&said.stderr));
        assert_eq!(fs::read_to_string(&file).unwrap(), PROGRAM);
        assert_eq!(fs::read_to_string(folder.path().join("x.npy")).unwrap(), "mine");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "{entered}");
    };
    refused(":save keep.fl", "there are no functions to save");
    refused(":save new.fl", "there are no functions to save");
    refused(":save! keep.fl", "there are no functions to save");
    refused("fn f(x: f32) = x\n:save keep.fl", "`:save!` writes over it");
    refused("let x = 1\n:save x.npy", "`:save!` writes over it");
    refused("fn f(x: f32) = x\n:save a.txt", "all functions as .fl");
    refused("fn f(x: f32) = x\n:save program", "all functions as .fl");
    refused("fn f(x: f32) = x\n:save f new.fl", "all functions as .fl");
    refused("let x = 1\n:save y new.npy", "there is no value `y`");
    refused(":save new.npz", "there are no values to save");
}

#[test]
fn save_and_clear_say_what_they_did() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("keep.fl"), PROGRAM).unwrap();
    fs::write(folder.path().join("other.fl"), PROGRAM).unwrap();
    let said = pipe(
        folder.path(),
        "let x = 1\nlet y = 2\nfn f(x: f32) = x\n:save x a.npy\n:save all.npz\n:save a.npy\n:save! other.fl\n:load keep.fl\n\
         :save keep.fl\n:save new.fl\n:save new.fl\n:clear x\n:clear\n:clear nothing\n",
    );
    let lines: Vec<String> = text(&said.stdout).lines().map(str::to_owned).collect();
    let said_of = [
        "a.npy: 1 value",
        "all.npz: 2 values",
        "other.fl: 1 function",
        "keep.fl: 2 functions",
        "new.fl: 2 functions",
        "forgot x",
        "forgot 2 functions and 1 value",
    ];
    for line in said_of {
        assert!(lines.iter().any(|seen| seen == line), "{line}: {lines:?}");
    }
    // A `.npy` file holds one array, not two.
    assert!(text(&said.stderr).contains("a.npy"), "{}", text(&said.stderr));
    assert!(fs::read_to_string(folder.path().join("keep.fl")).unwrap().contains("fn kept"));
}
