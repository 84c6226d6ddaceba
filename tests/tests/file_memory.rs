//! No file makes the reader panic or allocate more memory than its size justifies. A single test,
//! because it measures the memory of the whole process.

use std::path::Path;

use fuseloop::Array;
use fuseloop::files::{self, Place};
use peak_alloc::PeakAlloc;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The memory for reading any file: the decompressor's state, and names in a message.
const CONSTANT: usize = 1 << 18;
/// The maximum bytes of memory per byte of a file: a deflated one may stand for 1,032.
const FACTOR: usize = 1032;

/// Reads everything in a file and returns the additional memory that this took.
fn read_all(path: &Path) -> usize {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    if let Ok(place) = Place::parse(path.to_str().expect("text")) {
        let _ = files::read(&place);
        for name in files::names(&place).unwrap_or_default().iter().take(40) {
            if let Ok(place) = Place::parse(&format!("{}:{name}", path.display())) {
                let _ = files::read(&place);
            }
        }
    }
    MEMORY.peak_usage().saturating_sub(before)
}

/// A change to a file.
#[derive(Clone, Debug)]
enum Change {
    Set(usize, u8),
    /// Numbers that stand for sizes, offsets and counts.
    Wide(usize, u64),
    Cut(usize),
    Insert(usize, Vec<u8>),
    Remove(usize, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let numbers =
        prop_oneof![Just(0), Just(u64::MAX), Just(u64::from(u32::MAX)), Just(1 << 40), 0u64..4096, any::<u64>()];
    prop_oneof![
        (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        (any::<usize>(), prop::sample::select(b"0123456789{}[]()',\":<>|".to_vec()))
            .prop_map(|(at, byte)| Change::Set(at, byte)),
        (any::<usize>(), numbers).prop_map(|(at, n)| Change::Wide(at, n)),
        any::<usize>().prop_map(Change::Cut),
        (any::<usize>(), prop::collection::vec(any::<u8>(), 1..20)).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        (any::<usize>(), 1usize..20).prop_map(|(at, count)| Change::Remove(at, count)),
    ]
}

fn apply(change: &Change, bytes: &mut Vec<u8>) {
    let place = |at: &usize| at % (bytes.len() + 1);
    match change {
        Change::Set(at, byte) if !bytes.is_empty() => {
            let at = at % bytes.len();
            bytes[at] = *byte;
        }
        Change::Set(..) => {}
        Change::Wide(at, number) => {
            let at = place(at);
            bytes.iter_mut().skip(at).zip(number.to_le_bytes()).for_each(|(to, from)| *to = from);
        }
        Change::Cut(at) => bytes.truncate(at % (bytes.len() + 1)),
        Change::Insert(at, more) => {
            let at = place(at);
            bytes.splice(at..at, more.iter().copied());
        }
        Change::Remove(at, count) => {
            let at = place(at);
            let end = (at + count).min(bytes.len());
            bytes.drain(at..end);
        }
    }
}

#[test]
fn memory_is_bounded_by_the_size_of_the_file() {
    let originals = Path::new(env!("CARGO_MANIFEST_DIR")).join("files");
    let mut seeds = vec![];
    for entry in std::fs::read_dir(originals).expect("the folder is there") {
        let path = entry.expect("the folder is readable").path();
        let name = path.file_name().and_then(|n| n.to_str()).expect("names are text").to_owned();
        let bytes = std::fs::read(&path).expect("files are readable");
        if Place::parse(&name).is_ok() && bytes.len() < 10_000 {
            seeds.push((name, bytes));
        }
    }
    seeds.sort();
    assert!(seeds.len() > 10);
    seeds.push(("table.csv".to_owned(), b"a,b\n1,2\n3,4.5\n\"7\", -1e9\n".to_vec()));
    let picture = tempfile::tempdir().expect("a folder");
    let path = picture.path().join("picture.png");
    let place = Place::parse(path.to_str().expect("text")).expect("a place");
    let pixels = Array::from_slice(&[7, 9, 3], &[100u8; 7 * 9 * 3]).expect("as many as the shape says");
    files::save(&[(place, pixels.as_ref())], files::Packing::Stored).expect("the folder can be written to");
    seeds.push(("picture.png".to_owned(), std::fs::read(&path).expect("it was written")));
    for ending in ["npy", "npz", "safetensors", "csv", "png"] {
        seeds.push((format!("noise.{ending}"), vec![]));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let cases = (
        prop::sample::select(seeds),
        prop::collection::vec(change(), 1..5),
        prop::collection::vec(any::<u8>(), 0..200),
    );
    let config = Config { cases: 3000, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&cases, |((name, mut bytes), changes, noise)| {
        if bytes.is_empty() {
            bytes = noise;
        }
        changes.iter().for_each(|change| apply(change, &mut bytes));
        let path = folder.path().join(&name);
        std::fs::write(&path, &bytes).expect("the folder can be written to");
        let taken = read_all(&path);
        prop_assert!(taken <= CONSTANT + FACTOR * bytes.len(), "{} bytes took {}", bytes.len(), taken);
        Ok(())
    });
    outcome.unwrap_or_else(|e| panic!("{e}"));
}
