//! Properties of arbitrary bytes, for libFuzzer (`fuzz/`): each function panics if its property
//! fails.

use std::path::Path;

use backends::cpu::Simd;
use fuseloop::files::{self, Place};
use fuzzing::case::draw_with;
use fuzzing::engines::Engine;
use fuzzing::generate::Recipe;
use fuzzing::judge::{Rigour, Verdict, judge};
use ir::nest::Program;
use ir::verify::verify;

use crate::format;

/// A program text: checked and lowered, or refused with errors that point into it.
pub fn source(bytes: &[u8]) {
    let Ok(source) = std::str::from_utf8(bytes) else { return };
    match grammar::parse(source).and_then(|file| compiler::check::check_all(&file)) {
        Err(errors) => {
            assert!(!errors.is_empty(), "refused without an error");
            for label in errors.iter().flat_map(|error| &error.labels) {
                let span = label.span.start as usize..label.span.end as usize;
                assert!(source.get(span).is_some(), "a label outside: {label:?}");
            }
        }
        Ok(all) => {
            for checked in all {
                // A program beyond a limit must be reported as such.
                if let Ok(compiled) = compiler::pipeline::compile(&checked, &compiler::pipeline::Options::default()) {
                    verify(&compiled.program).unwrap_or_else(|error| panic!("{error}\n{}", compiled.program));
                }
            }
        }
    }
}

/// A program text: formatting keeps what it says.
pub fn format(bytes: &[u8]) {
    let Ok(source) = std::str::from_utf8(bytes) else { return };
    if grammar::parse(source).is_ok() {
        format::check(source).unwrap_or_else(|why| panic!("{why}"));
    }
}

/// A text of loop nests: refused, or verified and printed as it is read.
pub fn ir(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(program) = text.parse::<Program>() else { return };
    let printed = program.to_string();
    let again: Program = printed.parse().unwrap_or_else(|error| panic!("{error}\n{printed}"));
    assert_eq!(printed, again.to_string());
    assert_eq!(verify(&program).is_ok(), verify(&again).is_ok(), "{printed}");
}

/// Files of arrays are read or refused, whatever they claim to be.
pub fn files(bytes: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder for the file");
    for name in ["a.npy", "a.npz", "a.safetensors", "a.csv", "a.png"] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("room for the file");
        read(&path);
    }
}

/// Every array of a file.
fn read(path: &Path) {
    let place = |text: &str| Place::parse(text).expect("the folder's name is plain");
    let whole = place(&path.display().to_string());
    let Ok(names) = files::names(&whole) else {
        // Without names there is at most one array.
        let _ = files::read(&whole);
        return;
    };
    for name in names.iter().filter(|name| !name.is_empty()).take(16) {
        let _ = files::read(&place(&format!("{}:{name}", path.display())));
    }
}

/// The choices that make a program also choose an engine, which must give the same results.
pub fn pipeline(bytes: &[u8]) {
    let words: Vec<u16> = bytes.chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]])).collect();
    let seed = words.iter().take(4).fold(0, |seed, word| seed << 16 | u64::from(*word));
    let mut parts = words.get(4..).unwrap_or_default().chunks(60).map(<[u16]>::to_vec);
    let mut next = || parts.next().unwrap_or_default();
    let (header, result) = (next(), next());
    let helpers = (0..seed % 3).map(|_| next()).collect();
    let recipe = Recipe { header, result, helpers, lets: parts.take(6).collect(), data: seed };
    let engines = [Engine::Nest, Engine::Cpu(1, Simd::W128), Engine::Cpu(2, Simd::Auto), Engine::Ptx];
    let drawn = draw_with(&recipe, seed, &engines);
    let judged = judge(&drawn.setting, &drawn.calls, Rigour::Bits);
    if let Verdict::Failed { kind, message, call } = judged.verdict {
        let inputs = &drawn.calls[call];
        panic!("{}: {message}\n{}\n{inputs:?}", kind.name(), drawn.setting.source);
    }
}
