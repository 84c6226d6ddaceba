//! `.safetensors`: <https://huggingface.co/docs/safetensors>. A length, a header in JSON, the
//! tensors' bytes.
//!
//! The reader checks everything that the format guarantees (each tensor has as many bytes as its
//! shape says; they are contiguous and end with the file), whichever tensor is requested. Elements
//! are copied, so a tensor may begin at any byte. Written files are byte for byte those of the
//! `safetensors` package.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::io::{Read, Seek, SeekFrom, Write};

use ir::Dtype;
use ir::array::{ArrayRef, byte_len};
use ir::sabotage::{self, Bug};
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use super::error::Fault;
use super::npy::write_elements;

/// The format's own limit.
const HEADER_LIMIT: u64 = 100_000_000;
/// The header's length is padded to a multiple of this.
const ALIGN: usize = 8;

/// The entry of this name is not a tensor.
pub(super) const METADATA: &str = "__metadata__";

/// The names of the language's types, in the order in which the format's own writer sorts tensors:
/// from the last to the first.
const NAMES: [(&str, Dtype); 13] = [
    ("BOOL", Dtype::Bool),
    ("U8", Dtype::U8),
    ("I8", Dtype::I8),
    ("I16", Dtype::I16),
    ("U16", Dtype::U16),
    ("F16", Dtype::F16),
    ("BF16", Dtype::Bf16),
    ("I32", Dtype::I32),
    ("U32", Dtype::U32),
    ("F32", Dtype::F32),
    ("F64", Dtype::F64),
    ("I64", Dtype::I64),
    ("U64", Dtype::U64),
];

/// Types of the format that do not exist in the language, with remedies.
const UNSUPPORTED: [(&str, &str); 1] = [("C64", "save the real and the imaginary parts by themselves")];

/// The description of a tensor, from the header.
#[derive(Debug, serde::Deserialize)]
pub(super) struct Tensor {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

/// Tensors by name.
#[derive(Debug)]
struct Header(BTreeMap<String, Tensor>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Header, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Header;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let mut tensors = BTreeMap::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == METADATA {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    }
                    match tensors.entry(name) {
                        Entry::Vacant(place) => place.insert(map.next_value()?),
                        Entry::Occupied(place) => {
                            return Err(A::Error::custom(format_args!("{DUPLICATE}{}", place.key())));
                        }
                    };
                }
                Ok(Header(tensors))
            }
        }
        from.deserialize_map(Entries)
    }
}

/// Marks the only error of the visitor with a code of its own.
const DUPLICATE: &str = "duplicate tensor ";

/// The tensors of a file.
#[derive(Debug)]
pub(super) struct Index {
    tensors: BTreeMap<String, Tensor>,
    data_start: u64,
}

fn bad<T>(what: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Safetensors(what.into()))
}

impl Index {
    /// Reads the header of a file of `length` bytes.
    pub fn read(file: &mut impl Read, length: u64) -> Result<Index, Fault> {
        let mut field = [0; 8];
        if length < field.len() as u64 {
            return bad("the file is too short for one");
        }
        file.read_exact(&mut field)?;
        let header_len = u64::from_le_bytes(field);
        if header_len > HEADER_LIMIT {
            return Err(Fault::HeaderTooLong { found: header_len, limit: HEADER_LIMIT });
        }
        let data_start = header_len + field.len() as u64;
        if data_start > length {
            return bad(format!("it would have {header_len} bytes, the file has {}", length - field.len() as u64));
        }
        let mut text = vec![0; usize::try_from(header_len).unwrap_or(usize::MAX)];
        file.read_exact(&mut text)?;
        let Header(tensors) = serde_json::from_slice(&text).map_err(|e| {
            let message = e.to_string();
            match message.strip_prefix(DUPLICATE) {
                Some(rest) => Fault::DuplicateKey(rest.rsplit_once(" at line ").map_or(rest, |(n, _)| n).to_owned()),
                None => Fault::Safetensors(message),
            }
        })?;
        let index = Index { tensors, data_start };
        index.check(length - data_start)?;
        Ok(index)
    }

    /// Checks that the tensors fill the data, each with as many bytes as its shape says.
    fn check(&self, data_len: u64) -> Result<(), Fault> {
        let mut sorted: Vec<_> = self.tensors.iter().collect();
        sorted.sort_by_key(|(_, tensor)| tensor.data_offsets);
        let mut at = 0;
        for (name, tensor) in sorted {
            let (start, end) = tensor.data_offsets;
            let fail = |problem: String| Err(Fault::Offsets { name: name.clone(), problem });
            if end < start {
                return fail(format!("would end at byte {end}, before its start at {start}"));
            }
            if start != at {
                let what = if start < at { "overlaps the one before it" } else { "leaves a gap before it" };
                return fail(format!("{what}: it starts at byte {start}, not {at}"));
            }
            if end > data_len {
                return fail(format!("would end at byte {end} of {data_len}"));
            }
            if let Some(dtype) = dtype_of(&tensor.dtype)
                && byte_len(dtype, &tensor.shape)? as u64 != end - start
            {
                return fail(format!("has {} bytes, which is not what its type and shape say", end - start));
            }
            at = end;
        }
        if at != data_len {
            return bad(format!("the file has {data_len} bytes of data, the tensors {at}"));
        }
        Ok(())
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The type and shape of a tensor in the index, and its range of bytes in the file; `file` is
    /// positioned at its beginning.
    pub fn find(&self, file: &mut (impl Read + Seek), name: &str) -> Result<Option<(Dtype, Vec<usize>, u64)>, Fault> {
        let Some(tensor) = self.tensors.get(name) else { return Ok(None) };
        let Some(dtype) = dtype_of(&tensor.dtype) else {
            let remedy = UNSUPPORTED.iter().find(|(name, _)| *name == tensor.dtype).map(|(_, remedy)| *remedy);
            let found = super::error::shown(&tensor.dtype);
            return Err(Fault::Dtype { found, remedy: remedy.unwrap_or("save it as float16, bfloat16 or float32") });
        };
        let (start, end) = tensor.data_offsets;
        file.seek(SeekFrom::Start(self.data_start + start))?;
        Ok(Some((dtype, tensor.shape.clone(), end - start)))
    }
}

fn dtype_of(name: &str) -> Option<Dtype> {
    NAMES.iter().find(|(n, _)| *n == name).map(|(_, dtype)| *dtype)
}

/// Writes a file of these tensors.
pub(super) fn write(to: &mut impl Write, arrays: &[(&str, ArrayRef<'_>)]) -> Result<(), Fault> {
    let place = |array: &ArrayRef<'_>| NAMES.iter().position(|(_, dtype)| *dtype == array.dtype());
    let mut sorted: Vec<_> = arrays.iter().collect();
    sorted.sort_by(|(a, x), (b, y)| place(y).cmp(&place(x)).then_with(|| a.cmp(b)));
    let mut entries = vec![];
    let mut at = 0;
    for (name, array) in &sorted {
        let end = at + array.bytes().len();
        let dtype = place(array).map_or("", |n| NAMES[n].0);
        let name = serde_json::Value::from(*name);
        let mut shape: Vec<String> = array.shape().iter().map(usize::to_string).collect();
        if sabotage::on(Bug::TensorShape) {
            shape.reverse();
        }
        let shape = shape.join(",");
        entries.push(format!(r#"{name}:{{"dtype":"{dtype}","shape":[{shape}],"data_offsets":[{at},{end}]}}"#));
        at = end;
    }
    let mut header = format!("{{{}}}", entries.join(","));
    header.extend(std::iter::repeat_n(' ', header.len().next_multiple_of(ALIGN) - header.len()));
    to.write_all(&(header.len() as u64).to_le_bytes())?;
    to.write_all(header.as_bytes())?;
    for (_, array) in &sorted {
        write_elements(array, to)?;
    }
    Ok(())
}
