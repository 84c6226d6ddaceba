//! `.npz`: archives with false claims.

use std::io::Write;

use flate2::Crc;
use flate2::write::DeflateEncoder;

use super::npy::file;
use super::*;

/// A part, with everything that its records claim.
#[derive(Clone)]
struct Raw {
    name: Vec<u8>,
    local_name: Vec<u8>,
    data: Vec<u8>,
    flags: u16,
    method: u16,
    crc: u32,
    packed: u32,
    bytes: u32,
    at: Option<u32>,
    extra: Vec<u8>,
}

fn stored(name: &str, data: &[u8]) -> Raw {
    let mut crc = Crc::new();
    crc.update(data);
    let length = u32::try_from(data.len()).unwrap();
    let name = name.as_bytes().to_vec();
    let (crc, data) = (crc.sum(), data.to_vec());
    Raw {
        local_name: name.clone(),
        name,
        data,
        flags: 0,
        method: 0,
        crc,
        packed: length,
        bytes: length,
        at: None,
        extra: vec![],
    }
}

fn deflated(name: &str, data: &[u8]) -> Raw {
    let mut encoder = DeflateEncoder::new(vec![], flate2::Compression::default());
    encoder.write_all(data).unwrap();
    let packed = encoder.finish().unwrap();
    Raw { method: 8, packed: u32::try_from(packed.len()).unwrap(), data: packed, ..stored(name, data) }
}

fn fields(numbers: &[(u32, usize)]) -> Vec<u8> {
    numbers.iter().flat_map(|(n, width)| n.to_le_bytes()[..*width].to_vec()).collect()
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap()
}

fn archive(parts: &[Raw]) -> Vec<u8> {
    let (mut bytes, mut central) = (vec![], vec![]);
    for p in parts {
        let at = p.at.unwrap_or(length(&bytes));
        let common =
            [(20, 2), (p.flags.into(), 2), (p.method.into(), 2), (0, 4), (p.crc, 4), (p.packed, 4), (p.bytes, 4)];
        bytes.extend(b"PK\x03\x04");
        bytes.extend(fields(&common));
        bytes.extend(fields(&[(length(&p.local_name), 2), (0, 2)]));
        bytes.extend(&p.local_name);
        bytes.extend(&p.data);
        central.extend(b"PK\x01\x02\x14\x00");
        central.extend(fields(&common));
        central.extend(fields(&[(length(&p.name), 2), (length(&p.extra), 2), (0, 2), (0, 2), (0, 2), (0, 4), (at, 4)]));
        central.extend([&p.name[..], &p.extra].concat());
    }
    let (start, count) = (length(&bytes), u32::try_from(parts.len()).unwrap());
    let size = length(&central);
    bytes.extend(central);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend(fields(&[(count, 2), (count, 2), (size, 4), (start, 4), (0, 2)]));
    bytes
}

fn three() -> Vec<u8> {
    file("{'descr': '|u1', 'fortran_order': False, 'shape': (3,)}", &[1, 2, 3])
}

fn message(bytes: &[u8]) -> String {
    Folder::new().read("a.npz:x", bytes).unwrap_err().fault().to_string()
}

#[test]
fn reads_stored_and_deflated_parts() {
    let folder = Folder::new();
    for part in [stored("x.npy", &three()), deflated("x.npy", &three())] {
        let bytes = archive(&[part, stored("y.npy", &three()), stored("notes.txt", b"")]);
        for key in ["x", "x.npy", "y"] {
            assert_eq!(folder.read(&format!("a.npz:{key}"), &bytes).unwrap().bytes(), [1, 2, 3]);
        }
        assert_eq!(names(&folder.place("a.npz")).unwrap(), ["x", "y"]);
        let e = folder.read("a.npz", &bytes).unwrap_err();
        assert_eq!(e.fault().to_string(), "it has several arrays: `x`, `y`");
        assert!(e.help().unwrap().ends_with("a.npz:x"));
        let e = folder.read("a.npz:z", &bytes).unwrap_err();
        assert_eq!(e.fault().to_string(), "no array is called `z`; it has `x`, `y`");
    }
    let odd = archive(&[stored("x.npy.npy", &three()), stored("x.npy", &three()[..5])]);
    assert_eq!(folder.read("a.npz:x.npy.npy", &odd).unwrap().bytes(), [1, 2, 3]);
}

#[test]
fn refuses_what_lies() {
    let data = three();
    let count = length(&data);
    let (plain, packed) = (stored("x.npy", &data), deflated("x.npy", &data));
    let one = |part: Raw| archive(&[part]);
    let bomb = deflated("x.npy", &[&data[..], &[0; 1 << 20]].concat());
    let short = file("{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}", &[1, 2, 3]);
    let endless = file("{'descr': '|u1', 'fortran_order': False, 'shape': (1099511627776,)}", &[1, 2, 3]);
    for (bytes, expected) in [
        (one(Raw { crc: 1, ..plain.clone() }), "the data is damaged: its checksum is another"),
        (one(Raw { crc: 1, ..packed.clone() }), "the data is damaged: its checksum is another"),
        (one(Raw { bytes: count - 1, ..packed.clone() }), "header asks for 3 bytes of data, the file has 2"),
        (one(Raw { bytes: count + 1, ..packed.clone() }), "header asks for 3 bytes of data, the file has 4"),
        (
            one(Raw { bytes: u32::MAX - 1, ..packed.clone() }),
            "bytes of compressed data cannot stand for 4294967294 bytes",
        ),
        (one(Raw { bytes: 0, ..packed.clone() }), "it unpacks to more than the directory says"),
        (one(Raw { bytes: count, ..bomb.clone() }), "the data is damaged: it unpacks to more than the directory says"),
        (one(bomb), "the header asks for 3 bytes of data, the file has 1048579"),
        (one(deflated("x.npy", &short)), "the header asks for 2 bytes of data, the file has 3"),
        (one(deflated("x.npy", &endless)), "the header asks for 1099511627776 bytes of data, the file has 3"),
        (one(Raw { bytes: count - 1, ..plain.clone() }), "a stored part has two sizes"),
        (one(Raw { bytes: count + 1, packed: count + 1, ..plain.clone() }), "a part reaches into the directory"),
        (one(Raw { bytes: 1 << 31, packed: 1 << 31, ..plain.clone() }), "a part reaches into the directory"),
        (one(Raw { data: packed.data[..20].to_vec(), packed: 20, ..packed.clone() }), "the data is damaged: it "),
        (one(Raw { data: vec![0xff; 20], packed: 20, ..packed.clone() }), "the data is damaged: it does not unpack"),
        (one(Raw { method: 12, ..plain.clone() }), "it is packed by method 12, not stored or deflated"),
        (one(Raw { flags: 1, ..plain.clone() }), "it is encrypted"),
        (one(Raw { at: Some(1), ..plain.clone() }), "a part is not where the directory says"),
        (one(Raw { at: Some(1 << 30), ..plain.clone() }), "a record lies outside of the file"),
        (
            one(Raw { local_name: b"y.npy".to_vec(), ..plain.clone() }),
            "a part has another name than the directory says",
        ),
        (one(Raw { name: b"\xff.npy".to_vec(), ..plain.clone() }), "a name in it is not UTF-8"),
        (one(Raw { at: Some(u32::MAX), ..plain.clone() }), "a record ends early"),
        (archive(&[plain.clone(), packed]), "two arrays are called `x.npy`"),
        (archive(&[]), "no array is called `x`; it has no array"),
        (one(stored("x", &data)), "no array is called `x`; it has no array"),
        (data, "it does not end as one"),
        (vec![], "it does not end as one"),
        (b"PK\x05\x06".to_vec(), "it does not end as one"),
    ] {
        let found = message(&bytes);
        assert!(found.contains(expected), "{found}\nlacks {expected}");
    }
}

#[test]
fn refuses_a_directory_that_lies() {
    let good = archive(&[stored("x.npy", &three())]);
    let end = good.len() - 22;
    let with = |at: usize, bytes: &[u8]| {
        let mut bad = good.clone();
        bad[end + at..end + at + bytes.len()].copy_from_slice(bytes);
        message(&bad)
    };
    for (found, expected) in [
        (with(4, &[1, 0]), "it is a part of a larger one"),
        (with(8, &[2, 0]), "it is a part of a larger one"),
        (with(8, &[2, 0, 2, 0]), "its directory is too short for its entries"),
        (with(8, &[0, 0, 0, 0]), "its directory has 1 entries, 0 are announced"),
        (with(10, &[255, 255]), "its 64-bit end record is missing"),
        (with(12, &[255; 4]), "its 64-bit end record is missing"),
        (with(12, &[0; 4]), "its directory is not where the end record says"),
        (with(16, &[0; 4]), "its directory is not where the end record says"),
        (with(20, &[1, 0]), "it does not end as one"),
        (message(&[&good[..], b" "].concat()), "it does not end as one"),
        (message(&[b" ", &good[..]].concat()), "its directory is not where the end record says"),
    ] {
        assert!(found.contains(expected), "{found}\nlacks {expected}");
    }
    for end in 0..good.len() {
        message(&good[..end]);
    }
}

#[test]
fn reads_64_bit_records() {
    let extra = |values: &[u64]| {
        let body: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        // Another field stands before.
        [&b"\x99\x99\x01\x00!\x01\x00"[..], &fields(&[(length(&body), 2)]), &body].concat()
    };
    let data = three();
    let size = data.len() as u64;
    let wide = Raw { at: Some(u32::MAX), ..stored("x.npy", &data) };
    let good = archive(&[Raw { extra: extra(&[0]), ..wide.clone() }]);
    let folder = Folder::new();
    assert_eq!(folder.read("a.npz:x", &good).unwrap().bytes(), [1, 2, 3]);
    let all = Raw { bytes: u32::MAX, packed: u32::MAX, extra: extra(&[size, size, 0]), ..wide.clone() };
    assert_eq!(folder.read("a.npz:x", &archive(std::slice::from_ref(&all))).unwrap().bytes(), [1, 2, 3]);
    for values in [&[1u64 << 63, 1 << 63, 0][..], &[size, size, u64::MAX], &[size, size, u64::MAX - 30], &[size, size]]
    {
        message(&archive(&[Raw { extra: extra(values), ..all.clone() }]));
    }

    // The end record, with its numbers in the record before it.
    let end = good.len() - 22;
    let start = u64::from(u32::from_le_bytes(good[end + 16..end + 20].try_into().unwrap()));
    let build = |count: u64, size: u64, start: u64, at: u64| {
        let mut bytes = good[..end].to_vec();
        bytes.extend(b"PK\x06\x06");
        bytes.extend(44u64.to_le_bytes());
        bytes.extend(fields(&[(45, 2), (45, 2), (0, 4), (0, 4)]));
        bytes.extend([count, count, size, start].map(u64::to_le_bytes).as_flattened());
        bytes.extend(b"PK\x06\x07\0\0\0\0");
        bytes.extend(at.to_le_bytes());
        bytes.extend(fields(&[(1, 4)]));
        bytes.extend(b"PK\x05\x06\0\0\0\0\xff\xff\xff\xff");
        bytes.extend([255; 8]);
        bytes.extend([0; 2]);
        bytes
    };
    let (size, at) = (end as u64 - start, end as u64);
    assert_eq!(folder.read("a.npz:x", &build(1, size, start, at)).unwrap().bytes(), [1, 2, 3]);
    for (bytes, expected) in [
        (build(2, size, start, at), "too short for its entries"),
        (build(u64::MAX, size, start, at), "too short for its entries"),
        (build(1, u64::MAX, start, at), "not where the end record says"),
        (build(1, size, u64::MAX, at), "not where the end record says"),
        (build(1, size, start, at + 1), "not where it should be"),
        (build(1, size, start, u64::MAX), "not where it should be"),
    ] {
        let found = message(&bytes);
        assert!(found.contains(expected), "{found}\nlacks {expected}");
    }
}

#[test]
fn writes_64_bit_records() {
    // The form of archives from 2 GiB on, which Python's `zipfile` and NumPy read too.
    for limit in [0, 200] {
        let mut writer = super::super::zip::Writer::new(vec![], limit);
        writer.add("x.npy", &|to| to.write_all(&three()), Packing::Stored).unwrap();
        writer.add("y.npy", &|to| to.write_all(&three()), Packing::Deflated).unwrap();
        let bytes = writer.finish().unwrap();
        assert!(bytes.windows(4).any(|window| window == b"PK\x06\x06"));
        let folder = Folder::new();
        assert_eq!(folder.read("a.npz:x", &bytes).unwrap().bytes(), [1, 2, 3]);
        assert_eq!(folder.read("a.npz:y", &bytes).unwrap().bytes(), [1, 2, 3]);
    }
}

#[test]
fn names_are_neither_paths_nor_escapes() {
    let folder = Folder::new();
    let long = "n".repeat(60_000);
    let keys = ["../../x", "/etc/x", "C:\\x", "\x1b[2J\u{202e}", "a\nb", &long];
    let parts: Vec<Raw> = keys.iter().map(|key| stored(&format!("{key}.npy"), &three())).collect();
    let bytes = archive(&parts);
    for key in keys {
        assert_eq!(folder.read(&format!("a.npz:{key}"), &bytes).unwrap().bytes(), [1, 2, 3]);
    }
    let many = (0..1000).map(|n| stored(&format!("{n}.npy"), b""));
    for bytes in [bytes.clone(), archive(&many.collect::<Vec<_>>())] {
        let e = folder.read("a.npz:none\x1b[2J", &bytes).unwrap_err();
        let text = drawn(&e);
        assert!(!text.contains(['\x1b', '\u{202e}']) && text.lines().count() == 1 && text.len() < 600, "{text}");
    }
}

#[test]
fn a_bomb_is_as_large_as_it_says() {
    let zeros = file("{'descr': '|u1', 'fortran_order': False, 'shape': (67108864,)}", &[0; 1 << 26]);
    let bytes = archive(&[deflated("x.npy", &zeros)]);
    assert!(bytes.len() < 100_000);
    let folder = Folder::new();
    std::fs::write(folder.path("a.npz"), &bytes).unwrap();
    let stored = open(&folder.place("a.npz")).unwrap();
    assert_eq!(stored.bytes(), 1 << 26);
}
