//! Writing: all or nothing, and only files that a reader accepts.

use super::*;

fn one(value: i32) -> Array {
    Array::scalar(Scalar::I32(value))
}

fn entries(folder: &Folder) -> Vec<String> {
    let entries = std::fs::read_dir(folder.0.path()).unwrap();
    let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn writes_several_arrays_to_one_file() {
    let (folder, other) = (Folder::new(), one(2));
    for ending in ["npz", "safetensors"] {
        let place = |key: &str| folder.place(&format!("a.{ending}:{key}"));
        save(&[(place("x"), one(1).as_ref()), (place("é\x1b/.."), other.as_ref())], Packing::Stored).unwrap();
        assert_eq!(read(&place("x")).unwrap(), one(1));
        assert_eq!(read(&place("é\x1b/..")).unwrap(), other);
        // A file is replaced, not added to.
        save(&[(place("y"), other.as_ref())], Packing::Stored).unwrap();
        assert_eq!(names(&place("")).unwrap(), ["y"]);
    }
    assert_eq!(entries(&folder), ["a.npz", "a.safetensors"]);
}

#[test]
fn a_failure_leaves_every_file_as_it_was() {
    let folder = Folder::new();
    save(&[(folder.place("a.npy"), one(1).as_ref())], Packing::Stored).unwrap();
    std::fs::create_dir(folder.path("b.npy")).unwrap();
    for bad in ["none/b.npy", "b.npy", "b.npz", "b.safetensors:__metadata__"] {
        let arrays = [(folder.place("a.npy"), one(2)), (folder.place(bad), one(3))];
        let refs: Vec<_> = arrays.iter().map(|(place, array)| (place.clone(), array.as_ref())).collect();
        save(&refs, Packing::Stored).unwrap_err();
        assert_eq!(read(&folder.place("a.npy")).unwrap(), one(1), "{bad}");
        assert_eq!(entries(&folder), ["a.npy", "b.npy"], "{bad}");
    }
}

#[test]
fn says_beforehand_what_cannot_be_written() {
    let folder = Folder::new();
    let message = |names: &[(&str, Dtype)]| {
        let places: Vec<_> = names.iter().map(|(name, dtype)| (folder.place(name), (*dtype, 1))).collect();
        check(&places).map_err(|e| e.fault().to_string())
    };
    let (f, b) = (Dtype::F32, Dtype::Bf16);
    assert_eq!(message(&[("a.npz:x", f), ("a.npz:y", f), ("b.npz:x", f), ("a.safetensors:x", b)]), Ok(()));
    for (names, expected) in [
        (&[("a.npy", b)][..], "the .npy and .npz formats have no bf16"),
        (&[("a.npz:x", b)], "the .npy and .npz formats have no bf16"),
        (&[("a.npy", f), ("a.npy", f)], "several results would go to a file that holds one"),
        (&[("a.npz:x", f), ("a.npz:x", f)], "two results would be called `x`"),
        (&[("a.npz:x", f), ("a.npz:x.npy", f)], "two results would be called `x`"),
        (&[("a.npz:x", f), ("./a.npz:x", f)], "two results would be called `x`"),
        (&[("a.npz", f)], "an array in it needs a name"),
        (&[("a.npy:x", f)], "the file holds a single array, none is called `x`"),
        (&[("a.safetensors:__metadata__", f)], "an array in it cannot be called `__metadata__`"),
    ] {
        assert_eq!(message(names), Err(expected.to_owned()));
    }
}

#[test]
#[cfg(unix)]
fn links_and_permissions_stay() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = Folder::new();
    let mode = |name: &str| std::fs::metadata(folder.path(name)).unwrap().permissions().mode() & 0o777;
    std::fs::write(folder.path("plain"), "").unwrap();
    save(&[(folder.place("a.npy"), one(1).as_ref())], Packing::Stored).unwrap();
    assert_eq!(mode("a.npy"), mode("plain"));
    std::fs::set_permissions(folder.path("a.npy"), std::fs::Permissions::from_mode(0o600)).unwrap();
    symlink(folder.path("a.npy"), folder.path("link.npy")).unwrap();
    save(&[(folder.place("link.npy"), one(2).as_ref())], Packing::Stored).unwrap();
    assert!(folder.path("link.npy").is_symlink());
    assert_eq!(read(&folder.place("a.npy")).unwrap(), one(2));
    assert_eq!(mode("a.npy"), 0o600);
}

/// Links are followed as by `numpy.save`. If the target does not exist yet, it is created.
#[test]
#[cfg(unix)]
fn links_are_written_through() {
    use std::os::unix::fs::symlink;
    let folder = Folder::new();
    std::fs::create_dir(folder.path("data")).unwrap();
    for (link, to) in [("link.npy", "data/new.npy"), ("second.npy", "link.npy"), ("round.npy", "round.npy")] {
        symlink(to, folder.path(link)).unwrap();
    }
    symlink("data", folder.path("same")).unwrap();
    save(&[(folder.place("second.npy"), one(1).as_ref())], Packing::Stored).unwrap();
    assert!(folder.path("link.npy").is_symlink() && folder.path("second.npy").is_symlink());
    assert_eq!(read(&folder.place("data/new.npy")).unwrap(), one(1));
    assert!(save(&[(folder.place("round.npy"), one(1).as_ref())], Packing::Stored).is_err());
    assert!(folder.path("round.npy").is_symlink());
    let to_both = |a: &str, b: &str| check(&[(folder.place(a), (Dtype::I32, 1)), (folder.place(b), (Dtype::I32, 1))]);
    let twice = "several results would go to a file that holds one";
    for (a, b) in [("data/new.npy", "second.npy"), ("link.npy", "same/new.npy"), ("data/b.npy", "./same/../data/b.npy")]
    {
        assert_eq!(to_both(a, b).map_err(|e| e.fault().to_string()), Err(twice.to_owned()), "{a} {b}");
    }
    assert!(to_both("data/a.npy", "same/b.npy").is_ok());
}

#[test]
fn reads_files_only() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("b.npy")).unwrap();
    assert!(matches!(read(&folder.place("b.npy")).unwrap_err().fault(), Fault::NotAFile));
    assert!(matches!(read(&folder.place("none.npy")).unwrap_err().fault(), Fault::Io(_)));
    let e = read(&folder.place("none.npz:\x1b")).unwrap_err();
    assert!(drawn(&e).contains("none.npz: No such file"));
}

#[test]
fn compresses_what_goes_into_an_archive() {
    let folder = Folder::new();
    let zeros = Array::zeros(Dtype::F64, &[4096]).unwrap();
    let arrays = [(folder.place("a.npz:zeros"), zeros.as_ref()), (folder.place("a.npz:x"), zeros.as_ref())];
    save(&arrays, Packing::Deflated).unwrap();
    assert!(std::fs::metadata(folder.path("a.npz")).unwrap().len() < 1000);
    assert_eq!(read(&arrays[0].0).unwrap(), zeros);
    assert_eq!(read(&arrays[1].0).unwrap(), zeros);
}
