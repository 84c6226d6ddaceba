//! `docs/pictures.md` and `docs/derivatives.md` show what their commands draw, byte for byte. `UPDATE_DOCS=1` draws the
//! pictures again.

use std::path::Path;
use std::process::Command;

#[test]
fn pictures_are_what_the_commands_draw() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let pages = ["pictures", "derivatives"];
    let page = pages.map(|page| std::fs::read_to_string(root.join(format!("docs/{page}.md"))).unwrap()).concat();
    let folder = tempfile::tempdir().unwrap();
    let commands = page.lines().filter_map(|line| line.strip_prefix("fuseloop run "));
    let commands: Vec<&str> = commands.filter(|command| command.contains(" -o ")).collect();
    assert_eq!(commands.len(), page.matches("](pictures/").count());
    for command in commands {
        let (rest, to) = command.rsplit_once(' ').unwrap();
        let (result, name) = to.split_once('=').unwrap_or(("out", to));
        assert!(page.contains(&format!("](pictures/{name})")), "{name} is not on the page");
        let drawn = folder.path().join(name);
        let mut run = Command::new(env!("CARGO_BIN_EXE_fuseloop"));
        let done = run
            // Products of matrices have other bits where vectors have 512.
            .args(["run", "--simd", "128"])
            .args(rest.split(' '))
            .arg(format!("{result}={}", drawn.display()))
            .current_dir(&root)
            .output()
            .unwrap();
        assert!(done.status.success(), "{command}\n{}", String::from_utf8_lossy(&done.stderr));
        let (drawn, kept) = (std::fs::read(drawn).unwrap(), root.join("docs/pictures").join(name));
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(kept, drawn).unwrap();
        } else {
            assert!(std::fs::read(kept).unwrap() == drawn, "{name} has changed");
        }
    }
}
