//! Reports of the command as JSON for programs: one object a line, its `type` first.
//! `docs/json.md` lists the fields.
//!
//! Every character that a terminal might interpret as a command is escaped, which does not change
//! the text.

use std::io;
use std::ops::Range;
use std::time::Duration;

use compiler::check::{Signature, Slot};
use grammar::source::{clamp, unprintable};
use grammar::{Report, Source};
use ir::Scalar;
use ir::array::ArrayRef;
use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};
use serde_json::ser::Formatter;

/// Larger arrays are written without their values.
pub const MAX_VALUES: usize = 1000;
/// The same for arrays of more axes, since the values are written by recursion.
const MAX_RANK: usize = 64;

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line<'a> {
    Diagnostic {
        code: Option<String>,
        severity: &'static str,
        message: &'a str,
        file: Option<&'a str>,
        spans: Vec<Span<'a>>,
        notes: &'a [String],
        help: Option<&'a str>,
        suggestion: Vec<Edit<'a>>,
    },
    Signature {
        name: &'a str,
        params: Vec<Typed<'a>>,
        results: Vec<Typed<'a>>,
        requires: &'a [String],
    },
    Result {
        name: &'a str,
        dtype: &'static str,
        shape: &'a [usize],
        values: Option<Values<'a>>,
        path: Option<&'a str>,
    },
    Times(Seconds<'a>),
    Device {
        device: &'static str,
        #[serde(flatten)]
        cpu: Option<Cpu>,
        #[serde(flatten)]
        gpu: Option<&'a Gpu<'a>>,
    },
}

/// How long each stage took.
struct Seconds<'a>(&'a [(&'static str, Duration)]);

impl Serialize for Seconds<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(stage, time)| (stage, time.as_secs_f64())))
    }
}

#[derive(Serialize)]
struct Cpu {
    threads: usize,
    bits: u32,
}

/// A GPU.
#[derive(Serialize)]
pub struct Gpu<'a> {
    /// Its number on this machine.
    pub number: i32,
    /// Its name.
    pub name: &'a str,
    /// Its compute capability.
    pub capability: [i32; 2],
    /// Bytes of its memory.
    pub memory: usize,
    /// How many multiprocessors it has.
    pub multiprocessors: i32,
    /// Bytes of its second-level cache.
    pub cache: i32,
    /// The version of CUDA that the driver speaks.
    pub cuda: [i32; 2],
}

/// Bytes of the file, and the same places as an editor counts them: lines and characters from 1.
#[derive(Serialize)]
struct Span<'a> {
    /// The file, if it is another one than that of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    start: usize,
    end: usize,
    line: usize,
    column: usize,
    end_line: usize,
    end_column: usize,
    label: String,
    primary: bool,
}

#[derive(Serialize)]
struct Edit<'a> {
    /// As in a span.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    start: usize,
    end: usize,
    replacement: String,
}

#[derive(Serialize)]
struct Typed<'a> {
    name: &'a str,
    dtype: &'static str,
    shape: &'a [String],
}

/// An error or warning, with its file and places if it has a source.
pub fn diagnostic(source: Option<&Source>, report: &Report) -> String {
    let nothing = Source::default();
    let of = source.unwrap_or(&nothing);
    let first = report.labels.first().map_or(0, |(range, _)| clamp(&of.text, range).start);
    let (_, own, _) = of.part(first);
    let span = |(k, (range, label)): (usize, &'_ (Range<usize>, String))| {
        let (file, start, end) = within(of, range);
        let ((_, line, column), (_, end_line, end_column)) = (of.place(start), of.place(end));
        let (start, end) = (start - file.0, end - file.0);
        let file = Some(file.1).filter(|file| *file != own);
        Span { file, start, end, line, column, end_line, end_column, label: label.clone(), primary: k == 0 }
    };
    let edit = |(range, replacement): &'_ (Range<usize>, String)| {
        let (file, start, end) = within(of, range);
        let (start, end) = (start - file.0, end - file.0);
        Edit { file: Some(file.1).filter(|file| *file != own), start, end, replacement: replacement.clone() }
    };
    write(&Line::Diagnostic {
        code: report.code.map(|code| code.to_string()),
        severity: report.severity().word(),
        message: &report.message,
        file: source.map(|_| own),
        spans: report.labels.iter().enumerate().map(span).collect(),
        notes: &report.notes,
        help: report.help.as_deref(),
        suggestion: report.suggestion.iter().map(edit).collect(),
    })
}

/// The parameters and results of a function.
pub fn signature(signature: &Signature) -> String {
    write(&Line::Signature {
        name: &signature.name,
        params: signature.params.iter().map(Typed::new).collect(),
        results: signature.results.iter().map(Typed::new).collect(),
        requires: &signature.requires,
    })
}

/// A result: its values if they are few, or the path that it was saved to.
pub fn result(name: &str, array: ArrayRef<'_>, path: Option<&str>) -> String {
    let few =
        path.is_none() && array.shape().iter().product::<usize>() <= MAX_VALUES && array.shape().len() <= MAX_RANK;
    let values = few.then_some(Values { array, first: 0, axis: 0 });
    write(&Line::Result { name, dtype: array.dtype().name(), shape: array.shape(), values, path })
}

/// How long each stage took, in seconds.
pub fn times(stages: &[(&'static str, Duration)]) -> String {
    write(&Line::Times(Seconds(stages)))
}

/// This machine's processor: the number of threads that it runs, and the width of its vectors.
pub fn cpu(threads: usize, bits: u32) -> String {
    write(&Line::Device { device: "cpu", cpu: Some(Cpu { threads, bits }), gpu: None })
}

/// A GPU.
pub fn gpu(gpu: &Gpu<'_>) -> String {
    write(&Line::Device { device: "gpu", cpu: None, gpu: Some(gpu) })
}

impl<'a> Typed<'a> {
    fn new(slot: &'a Slot) -> Typed<'a> {
        Typed { name: &slot.name, dtype: slot.dtype.name(), shape: &slot.shape }
    }
}

/// The file of a range of bytes, with the byte at which it begins, and the range within the text.
fn within<'s>(source: &'s Source, range: &Range<usize>) -> ((usize, &'s str), usize, usize) {
    let Range { start, end } = clamp(&source.text, range);
    let (part, name, _) = source.part(start);
    ((part.start, name), start, end.min(part.end))
}

/// The elements of an array from `first` along an axis, nested as its axes are.
#[derive(Clone, Copy)]
struct Values<'a> {
    array: ArrayRef<'a>,
    first: usize,
    axis: usize,
}

impl Serialize for Values<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Some((length, inner)) = self.array.shape()[self.axis..].split_first() else {
            return match self.array.get(self.first) {
                Some(value) => element(value, to),
                None => to.serialize_none(),
            };
        };
        let stride: usize = inner.iter().product();
        let mut list = to.serialize_seq(Some(*length))?;
        for k in 0..*length {
            list.serialize_element(&Values { first: self.first + k * stride, axis: self.axis + 1, ..*self })?;
        }
        list.end()
    }
}

/// A number in the fewest digits that distinguish it from its neighbours in its type. JSON has no
/// infinities and no NaN, so those are the strings that the command line accepts for them.
fn element<S: Serializer>(value: Scalar, to: S) -> Result<S::Ok, S::Error> {
    let not_finite = |value: f64| match value {
        _ if value.is_finite() => None,
        _ if value.is_nan() => Some("nan"),
        _ if value > 0.0 => Some("inf"),
        _ => Some("-inf"),
    };
    match value {
        Scalar::Bool(v) => to.serialize_bool(v),
        Scalar::I8(v) => to.serialize_i8(v),
        Scalar::U8(v) => to.serialize_u8(v),
        Scalar::I16(v) => to.serialize_i16(v),
        Scalar::U16(v) => to.serialize_u16(v),
        Scalar::I32(v) => to.serialize_i32(v),
        Scalar::I64(v) => to.serialize_i64(v),
        Scalar::U32(v) => to.serialize_u32(v),
        Scalar::U64(v) => to.serialize_u64(v),
        Scalar::F16(v) => element(Scalar::F32(v.to_f32()), to),
        Scalar::Bf16(v) => element(Scalar::F32(v.to_f32()), to),
        Scalar::F32(v) => match not_finite(v.into()) {
            Some(word) => to.serialize_str(word),
            None => to.serialize_f32(v),
        },
        Scalar::F64(v) => match not_finite(v) {
            Some(word) => to.serialize_str(word),
            None => to.serialize_f64(v),
        },
    }
}

/// Compact JSON with every character escaped that must not reach a terminal.
struct Escaping;

impl Formatter for Escaping {
    fn write_string_fragment<W: io::Write + ?Sized>(&mut self, to: &mut W, fragment: &str) -> io::Result<()> {
        for c in fragment.chars() {
            if unprintable(c) {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    write!(to, "\\u{unit:04x}")?;
                }
            } else {
                to.write_all(c.encode_utf8(&mut [0; 4]).as_bytes())?;
            }
        }
        Ok(())
    }
}

/// A line of JSON.
pub(crate) fn write(line: &impl Serialize) -> String {
    let mut bytes = vec![];
    let written = line.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, Escaping));
    debug_assert!(written.is_ok(), "memory takes all that is written, and every field has a form");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::{Array, Dtype};

    #[test]
    fn values_are_nested_as_the_axes_are() {
        let values = [0.1f32, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 1e-9];
        let array = Array::from_slice(&[2, 3], &values).unwrap();
        let text = result("out", array.as_ref(), None);
        assert!(
            text.ends_with(r#""shape":[2,3],"values":[[0.1,"nan","inf"],["-inf",-0.0,1e-9]],"path":null}"#),
            "{text}"
        );
        let empty = Array::zeros(Dtype::U64, &[2, 0]).unwrap();
        assert!(result("out", empty.as_ref(), None).contains(r#""values":[[],[]]"#));
        let scalar = Array::scalar(Scalar::U64(u64::MAX));
        assert!(result("out", scalar.as_ref(), None).contains(r#""shape":[],"values":18446744073709551615"#));
        let large = Array::zeros(Dtype::Bool, &[1001]).unwrap();
        assert!(result("out", large.as_ref(), None).contains(r#""values":null"#));
        assert!(result("out", empty.as_ref(), Some("a.npy")).contains(r#""values":null,"path":"a.npy""#));
    }

    #[test]
    fn places_are_those_of_an_editor() {
        let place = |text: &str, at| {
            let source = Source::new("a.fl", text);
            let (_, line, column) = source.place(at);
            (line, column)
        };
        assert_eq!(place("é\nab", 3), (2, 1));
        assert_eq!(place("é\nab", 5), (2, 3));
        assert_eq!(place("éa", 2), (1, 2));
    }

    #[test]
    fn text_is_kept_and_commands_are_not_sent() {
        let message = "\x1b[2J\u{9b}\u{202e}\u{e0041}\x07é\"\\";
        let source = Source::new(message, message);
        let mut report = Report { message: message.to_owned(), ..Report::default() };
        report.labels.push((0..99, message.to_owned()));
        let line = diagnostic(Some(&source), &report);
        assert!(!line.contains(unprintable), "{line}");
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!([&read["message"], &read["file"], &read["spans"][0]["label"]], [message; 3]);
    }
}
