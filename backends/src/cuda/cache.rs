//! A cache of assembled kernels on disk, with one file for each combination of kernel text, driver
//! and device. An entry stores its whole key and a checksum. It is used only if both match; a
//! damaged or foreign entry counts as a miss and is overwritten.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::gpu::Facts;

/// A folder of assembled kernels.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
}

/// The first bytes of an entry: the version of its format.
const MAGIC: &[u8] = b"fuseloop cubin 1\n";

/// The size limit of an entry in bytes. Longer files are not even read.
const LONGEST: u64 = 256 << 20;

/// The key of an entry: the device and driver, then the text of the kernels.
pub(super) struct Key {
    made_of: Vec<u8>,
}

impl Key {
    pub(super) fn new(text: &str, facts: &Facts) -> Key {
        let (major, minor) = facts.capability;
        let device = format!("{} sm_{major}{minor} driver {}\n", facts.name.replace('\n', " "), facts.driver);
        Key { made_of: [device.as_bytes(), text.as_bytes()].concat() }
    }

    fn file(&self) -> String {
        let [a, b] = [0, 1].map(|seed| hash(seed, &self.made_of));
        format!("{a:016x}{b:016x}.cubin")
    }
}

/// Hashes bytes to 64 bits. As a file name, a collision only makes two entries evict each other,
/// because the key is compared in full. As a checksum, it detects damage on disk, not malice.
fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let mix = |hash: u64, word: u64| {
        let mixed = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(31)
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = words.iter().fold(mix(seed, bytes.len() as u64), |hash, word| mix(hash, u64::from_le_bytes(*word)));
    rest.iter().fold(hash, |hash, byte| mix(hash, u64::from(*byte)))
}

impl Cache {
    /// A cache in a folder, which is created when the first entry is written.
    pub fn new(folder: impl Into<PathBuf>) -> Cache {
        Cache { folder: folder.into() }
    }

    /// Looks up the code of a key.
    pub(super) fn get(&self, key: &Key) -> Option<Vec<u8>> {
        let path = self.folder.join(key.file());
        if fs::metadata(&path).ok()?.len() > LONGEST {
            return None;
        }
        let entry = fs::read(path).ok()?;
        let rest = entry.strip_prefix(MAGIC)?;
        let (made_of, rest) = field(rest)?;
        let (code, rest) = field(rest)?;
        let sum = hash(2, code).to_le_bytes();
        (made_of == key.made_of && rest == sum).then(|| code.to_vec())
    }

    /// Stores the code of a key. Errors are ignored, since a missing entry only costs time: the
    /// kernels are assembled again.
    pub(super) fn put(&self, key: &Key, code: &[u8]) {
        let mut entry = MAGIC.to_vec();
        for field in [&key.made_of, code] {
            entry.extend((field.len() as u64).to_le_bytes());
            entry.extend(field);
        }
        entry.extend(hash(2, code).to_le_bytes());
        _ = replace(&self.folder, &key.file(), &entry);
    }
}

/// Splits off a field, which is its length in eight bytes and then its bytes. Returns the field and
/// the rest.
fn field(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)
}

/// Writes a temporary file in the same folder and renames it, so that no process reads a
/// half-written entry.
fn replace(folder: &Path, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    let beside = folder.join(format!(".{name}.{}", std::process::id()));
    let written = fs::File::create(&beside).and_then(|mut file| file.write_all(bytes));
    let moved = written.and_then(|()| fs::rename(&beside, folder.join(name)));
    if moved.is_err() {
        _ = fs::remove_file(&beside);
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(driver: i32) -> Facts {
        let name = "a device".to_owned();
        Facts { number: 0, name, capability: (9, 0), memory: 0, multiprocessors: 1, cache: 0, driver }
    }

    #[test]
    fn what_was_kept_is_found_until_a_byte_of_it_changes() {
        let folder = std::env::temp_dir().join(format!("fuseloop-cache-{}", std::process::id()));
        let cache = Cache::new(&folder);
        let key = Key::new("some text", &facts(13000));
        assert_eq!(cache.get(&key), None);
        cache.put(&key, b"machine code");
        assert_eq!(cache.get(&key).as_deref(), Some(&b"machine code"[..]));
        assert_eq!(cache.get(&Key::new("some text", &facts(13010))), None);
        assert_eq!(cache.get(&Key::new("other text", &facts(13000))), None);
        let path = folder.join(key.file());
        let entry = fs::read(&path).unwrap();
        for at in 0..entry.len() {
            let mut changed = entry.clone();
            changed[at] ^= 4;
            fs::write(&path, &changed).unwrap();
            assert_eq!(cache.get(&key), None, "byte {at}");
            fs::write(&path, &entry[..at]).unwrap();
            assert_eq!(cache.get(&key), None, "{at} bytes");
        }
        fs::write(&path, [&entry[..], b"more"].concat()).unwrap();
        assert_eq!(cache.get(&key), None);
        cache.put(&key, b"machine code");
        assert!(cache.get(&key).is_some());
        fs::remove_dir_all(folder).unwrap();
    }
}
