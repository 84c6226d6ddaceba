//! Arguments as text: the part after `NAME=` on the command line.
//!
//! | text | meaning |
//! |---|---|
//! | `3`, `-1.5`, `1e-5`, `inf`, `nan`, `true` | a scalar, for a parameter without axes |
//! | `path.npy`, `path.npz:key`, `path.safetensors:key` | the array in that file, see [`files`] |
//! | `-` | the array on standard input, as `.npy` |
//! | `zeros:4x3`, `ones:4x3` | an array of zeros or ones of that shape |
//! | `arange:4x3` | 0, 1, 2 and so on, row-major, as NumPy's `arange(12).reshape(4, 3)` |
//! | `random:4x3` | drawn by a [`random`] generator: floats in [0, 1), integers 0 to 9, truth values |
//!
//! The element type is that of the parameter. Reading an argument gives a [`Value`], which knows
//! its shape before any of its elements exists.

use std::fmt;

use ::files::shown;
use backends::float_mode;
use grammar::Code;
use ir::array::{ArrayError, byte_len};
use ir::{Array, Dtype, Scalar};

use crate::Slot;
use crate::error::codes as call;
use crate::random::float;
pub use crate::random::random;

use crate::files::{self, FileError, Place, Stored, codes};
use crate::render::Report;

/// An argument that fits its parameter's type and rank.
#[derive(Debug)]
pub struct Value {
    param: String,
    dtype: Dtype,
    shape: Vec<usize>,
    from: From,
}

#[derive(Debug)]
enum From {
    Scalar(Scalar),
    File(Stored),
    Generator(Generator),
}

/// A way to generate an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Generator {
    Zeros,
    Ones,
    Arange,
    Random,
}

const GENERATORS: [(&str, Generator); 4] = [
    ("zeros:", Generator::Zeros),
    ("ones:", Generator::Ones),
    ("arange:", Generator::Arange),
    ("random:", Generator::Random),
];

/// The reason why a text is not a value for a parameter.
///
/// Its `Display` is one sentence; [`ValueError::report`] adds the code and the remedy.
#[derive(Debug)]
pub struct ValueError {
    /// `None` if the error concerns all arguments together.
    param: Option<String>,
    kind: ValueErrorKind,
}

/// The kinds of errors in an argument.
#[derive(Debug)]
pub enum ValueErrorKind {
    /// It has none of the forms that the parameter accepts.
    Form {
        /// The parameter's type as declared.
        declared: String,
        /// Whether it has axes.
        array: bool,
    },
    /// A number or truth value that the type cannot represent.
    Range {
        /// The text given.
        text: String,
        /// The parameter's type.
        dtype: Dtype,
    },
    /// The lengths of a generated array are not numbers joined by `x`.
    Shape(String),
    /// Another rank than the parameter's.
    Rank {
        /// The parameter's type as declared.
        declared: String,
        /// The shape given.
        found: Vec<usize>,
    },
    /// Another element type than the parameter's.
    Dtype {
        /// The parameter's.
        expected: Dtype,
        /// The file's.
        found: Dtype,
    },
    /// The file is missing or invalid.
    File(FileError),
    /// The array cannot be created.
    Array(ArrayError),
    /// Standard input can be read only once.
    StandardInput {
        /// The argument that already reads it.
        reader: String,
    },
    /// The arguments take more memory than they may.
    Memory {
        /// Bytes that they take.
        needed: u128,
        /// Bytes that they may take.
        limit: u64,
    },
}

impl ValueError {
    fn of(param: &str, kind: ValueErrorKind) -> ValueError {
        ValueError { param: Some(param.to_owned()), kind }
    }

    /// The error that an argument cannot come from standard input because something else reads it.
    pub fn standard_input(param: &str, reader: &str) -> ValueError {
        ValueError::of(param, ValueErrorKind::StandardInput { reader: reader.to_owned() })
    }

    /// The parameter; `None` if the error concerns all arguments together.
    pub fn param(&self) -> Option<&str> {
        self.param.as_deref()
    }

    /// The kind of error.
    pub fn kind(&self) -> &ValueErrorKind {
        &self.kind
    }

    /// The code of the error.
    pub fn code(&self) -> Code {
        match &self.kind {
            ValueErrorKind::Form { .. } => codes::VALUE_FORM,
            ValueErrorKind::Range { .. } => codes::VALUE_RANGE,
            ValueErrorKind::Shape(_) => codes::VALUE_SHAPE,
            ValueErrorKind::Rank { .. } => call::ARGUMENT_RANK,
            ValueErrorKind::Dtype { .. } => call::ARGUMENT_TYPE,
            ValueErrorKind::File(e) => e.code(),
            ValueErrorKind::Array(_) => call::ARRAY,
            ValueErrorKind::StandardInput { .. } => codes::STANDARD_INPUT,
            ValueErrorKind::Memory { .. } => call::MEMORY,
        }
    }

    /// How to fix it, if that is not obvious.
    pub fn help(&self) -> Option<String> {
        Some(match &self.kind {
            ValueErrorKind::Form { array: true, .. } => {
                "give a file (a.npy, a.npz:key, a.safetensors:key), or random:, zeros:, ones: or arange: with a shape such as 4x3"
                    .to_owned()
            }
            ValueErrorKind::Form { array: false, .. } => "give a number, or a file that holds a single one".to_owned(),
            ValueErrorKind::Range { text, dtype } => match limits(*dtype) {
                Some((least, greatest)) => format!("{dtype} has the whole numbers from {least} to {greatest}"),
                None if *dtype == Dtype::Bool => "write true or false".to_owned(),
                None if is_number(text) => "it is beyond the greatest one; infinity is written inf".to_owned(),
                None => "write a number".to_owned(),
            },
            ValueErrorKind::Shape(_) => "write lengths joined by x, such as 4x3".to_owned(),
            ValueErrorKind::Dtype { expected, found } => match (expected, found) {
                (Dtype::Bf16, _) | (_, Dtype::Bf16) => format!("declare the parameter as {found}, and convert it: {expected}(...)"),
                _ => format!("save array.astype(numpy.{}), or declare the parameter as {found}", numpy_name(*expected)),
            },
            ValueErrorKind::File(e) => return e.help(),
            ValueErrorKind::StandardInput { .. } => "give one of the two as a file".to_owned(),
            ValueErrorKind::Memory { .. } => "raise the limit (--max-memory), or run on smaller arrays".to_owned(),
            ValueErrorKind::Rank { .. } | ValueErrorKind::Array(_) => return None,
        })
    }

    /// Whether the text itself is at fault, rather than the file that it names.
    pub fn is_misspelt(&self) -> bool {
        use ValueErrorKind as Kind;
        matches!(self.kind, Kind::Form { .. } | Kind::Range { .. } | Kind::Shape(_) | Kind::StandardInput { .. })
    }

    /// The error with its code and the remedy, ready to be drawn.
    pub fn report(&self) -> Report {
        Report { help: self.help(), ..Report::new(self.code(), self.to_string()) }
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.param {
            Some(param) => write!(f, "argument `{param}`: {}", self.kind),
            None => write!(f, "{}", self.kind),
        }
    }
}

impl fmt::Display for ValueErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueErrorKind::Form { declared, .. } => {
                write!(f, "this is not a value for a parameter of type {declared}")
            }
            ValueErrorKind::Range { text, dtype } => write!(f, "{} is not a value of type {dtype}", shown(text)),
            ValueErrorKind::Shape(text) => write!(f, "{} is not a shape", shown(text)),
            ValueErrorKind::Rank { declared, found } => {
                let found = found.iter().map(usize::to_string).collect::<Vec<_>>().join("x");
                match found.is_empty() {
                    true => write!(f, "the parameter is {declared}, this is a scalar"),
                    false => write!(f, "the parameter is {declared}, this has shape {found}"),
                }
            }
            ValueErrorKind::Dtype { expected, found } => {
                write!(f, "the parameter has elements of type {expected}, the file has {found}")
            }
            ValueErrorKind::File(e) => write!(f, "{e}"),
            ValueErrorKind::Array(e) => write!(f, "{e}"),
            ValueErrorKind::StandardInput { reader } => write!(f, "standard input is read already, by {reader}"),
            ValueErrorKind::Memory { needed, limit } => {
                write!(f, "the arguments alone take {needed} bytes, the limit is {limit}")
            }
        }
    }
}

impl std::error::Error for ValueError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ValueErrorKind::File(e) => Some(e),
            ValueErrorKind::Array(e) => Some(e),
            _ => None,
        }
    }
}

impl Value {
    /// Reads an argument. For a file, only the header is read.
    pub fn parse(text: &str, param: &Slot) -> Result<Value, ValueError> {
        let failed = |kind| ValueError::of(&param.name, kind);
        let (shape, from) = float_mode::standard(|| read(text, param)).map_err(failed)?;
        if shape.len() != param.rank() {
            return Err(failed(ValueErrorKind::Rank { declared: param.ty(), found: shape }));
        }
        byte_len(param.dtype, &shape).map_err(|e| failed(ValueErrorKind::Array(e)))?;
        Ok(Value { param: param.name.clone(), dtype: param.dtype, shape, from })
    }

    /// The length of each axis.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// How many bytes its elements take.
    pub fn bytes(&self) -> usize {
        byte_len(self.dtype, &self.shape).unwrap_or(usize::MAX)
    }

    /// The array. `seed` and `stream` matter only to `random:`, where each parameter has its own
    /// stream.
    pub fn load(self, seed: u64, stream: u64) -> Result<Array, ValueError> {
        let failed = |kind| ValueError::of(&self.param, kind);
        match self.from {
            From::Scalar(value) => Ok(Array::scalar(value)),
            From::File(stored) => stored.read().map_err(|e| failed(ValueErrorKind::File(e))),
            From::Generator(generator) => {
                let array = float_mode::standard(|| generator.array(self.dtype, &self.shape, seed, stream));
                array.map_err(|e| failed(ValueErrorKind::Array(e)))
            }
        }
    }
}

/// The arrays of a call's arguments. None is created if all of them together would exceed `limit`
/// bytes.
pub fn load(values: Vec<Value>, seed: u64, limit: Option<u64>) -> Result<Vec<Array>, ValueError> {
    let needed = values.iter().map(|value| value.bytes() as u128).sum();
    if let Some(limit) = limit.filter(|limit| needed > u128::from(*limit)) {
        return Err(ValueError { param: None, kind: ValueErrorKind::Memory { needed, limit } });
    }
    values.into_iter().zip(0..).map(|(value, stream)| value.load(seed, stream)).collect()
}

/// The shape of the array that a text describes, and where its elements come from.
fn read(text: &str, param: &Slot) -> Result<(Vec<usize>, From), ValueErrorKind> {
    if let Some((name, generator)) = GENERATORS.iter().find(|(name, _)| text.starts_with(name)) {
        return Ok((parse_shape(&text[name.len()..])?, From::Generator(*generator)));
    }
    if let Ok(place) = Place::parse(text) {
        let stored = files::open(&place).map_err(ValueErrorKind::File)?;
        return match stored.dtype() == param.dtype {
            true => Ok((stored.shape().to_vec(), From::File(stored))),
            false => Err(ValueErrorKind::Dtype { expected: param.dtype, found: stored.dtype() }),
        };
    }
    if param.rank() == 0 && looks_like_a_scalar(text) {
        let range = || ValueErrorKind::Range { text: text.to_owned(), dtype: param.dtype };
        return Ok((vec![], From::Scalar(parse_scalar(text, param.dtype).ok_or_else(range)?)));
    }
    Err(ValueErrorKind::Form { declared: param.ty(), array: param.rank() > 0 })
}

impl Generator {
    fn array(self, dtype: Dtype, shape: &[usize], seed: u64, stream: u64) -> Result<Array, ArrayError> {
        let mut array = crate::zeros(dtype, shape)?;
        let element = |number: u64| match self {
            Generator::Zeros => Scalar::zero(dtype),
            Generator::Ones => Scalar::one(dtype),
            Generator::Arange => counted(dtype, number),
            Generator::Random => random(dtype, seed, stream, number),
        };
        if self != Generator::Zeros {
            for number in 0..array.len() {
                array.set(number, element(number as u64));
            }
        }
        Ok(array)
    }
}

/// The number as an element: integers wrap, and a `bool` is whether it is nonzero.
fn counted(dtype: Dtype, number: u64) -> Scalar {
    match dtype {
        Dtype::Bool => Scalar::Bool(number != 0),
        #[expect(clippy::cast_precision_loss, reason = "rounding is what a float does with a large number")]
        _ if dtype.is_float() => float(dtype, number as f64),
        _ => Scalar::from_bits(dtype, number),
    }
}

/// A shape such as `4096x1024`. The empty text is the shape of a scalar.
fn parse_shape(text: &str) -> Result<Vec<usize>, ValueErrorKind> {
    if text.is_empty() {
        return Ok(vec![]);
    }
    let length = |part: &str| match part.bytes().all(|b| b.is_ascii_digit()) {
        true => part.parse().ok(),
        false => None,
    };
    let lengths: Option<Vec<usize>> = text.split('x').map(length).collect();
    lengths.ok_or_else(|| ValueErrorKind::Shape(text.to_owned()))
}

/// Whether the text looks like a number or truth value of some type.
fn looks_like_a_scalar(text: &str) -> bool {
    matches!(text, "true" | "false") || text.parse::<f64>().is_ok()
}

/// The scalar that a text stands for. A number too large for the float type is rejected, but `inf`
/// is accepted.
fn parse_scalar(text: &str, dtype: Dtype) -> Option<Scalar> {
    let infinite = |value: &Scalar| match value {
        Scalar::F16(v) => v.is_infinite(),
        Scalar::Bf16(v) => v.is_infinite(),
        Scalar::F32(v) => v.is_infinite(),
        Scalar::F64(v) => v.is_infinite(),
        _ => false,
    };
    Scalar::parse(dtype, text).filter(|value| !(is_number(text) && infinite(value)))
}

/// Whether it is written in digits rather than as a word.
fn is_number(text: &str) -> bool {
    text.contains(|c: char| c.is_ascii_digit())
}

/// The least and the greatest value of an integer type.
fn limits(dtype: Dtype) -> Option<(i64, u64)> {
    Some(match dtype {
        Dtype::I8 => (i8::MIN.into(), i8::MAX.cast_unsigned().into()),
        Dtype::U8 => (0, u8::MAX.into()),
        Dtype::I16 => (i16::MIN.into(), i16::MAX.cast_unsigned().into()),
        Dtype::U16 => (0, u16::MAX.into()),
        Dtype::I32 => (i32::MIN.into(), i32::MAX.cast_unsigned().into()),
        Dtype::I64 => (i64::MIN, i64::MAX.cast_unsigned()),
        Dtype::U32 => (0, u32::MAX.into()),
        Dtype::U64 => (0, u64::MAX),
        Dtype::Bool | Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64 => return None,
    })
}

/// NumPy's name for a type.
fn numpy_name(dtype: Dtype) -> String {
    let text = dtype.to_string();
    match text.split_at(1) {
        ("f", bits) => format!("float{bits}"),
        ("i", bits) => format!("int{bits}"),
        ("u", bits) => format!("uint{bits}"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::load as load_all;
    use super::*;

    fn slot(dtype: Dtype, shape: &[&str]) -> Slot {
        Slot { name: "x".to_owned(), dtype, shape: shape.iter().map(|s| (*s).to_owned()).collect() }
    }

    fn load(text: &str, dtype: Dtype, shape: &[&str]) -> Array {
        Value::parse(text, &slot(dtype, shape)).unwrap().load(0, 0).unwrap()
    }

    fn error(text: &str, dtype: Dtype, shape: &[&str]) -> String {
        Value::parse(text, &slot(dtype, shape)).unwrap_err().to_string()
    }

    #[test]
    fn reads_scalars() {
        for (text, expected) in [
            ("3", Scalar::I32(3)),
            ("-2147483648", Scalar::I32(i32::MIN)),
            ("true", Scalar::Bool(true)),
            ("1e-5", Scalar::F32(1e-5)),
            ("nan", Scalar::F64(f64::NAN)),
            ("-inf", Scalar::F32(f32::NEG_INFINITY)),
            ("7", Scalar::F64(7.0)),
        ] {
            assert_eq!(load(text, expected.dtype(), &[]).get(0), Some(expected), "{text}");
        }
        assert_eq!(error("2147483648", Dtype::I32, &[]), "argument `x`: `2147483648` is not a value of type i32");
        assert_eq!(error("1.5", Dtype::I64, &[]), "argument `x`: `1.5` is not a value of type i64");
        assert_eq!(error("1", Dtype::Bool, &[]), "argument `x`: `1` is not a value of type bool");
        assert!(error("x", Dtype::F32, &[]).contains("this is not a value for a parameter of type f32"));
        assert!(error("3", Dtype::F32, &["n"]).contains("this is not a value for a parameter of type f32[n]"));
    }

    #[test]
    fn generates() {
        assert_eq!(load("zeros:2x0", Dtype::F32, &["n", "m"]).shape(), [2, 0]);
        assert_eq!(load("ones:3", Dtype::Bool, &["n"]).bytes(), [1, 1, 1]);
        let counted = load("arange:2x2", Dtype::F32, &["n", "m"]);
        assert_eq!(counted.get(3), Some(Scalar::F32(3.0)));
        assert_eq!(load("arange:300", Dtype::U8, &["n"]).bytes()[256..258], [0, 1]);
        assert!(error("random:3", Dtype::F32, &["n", "m"]).contains("f32[n, m], this has shape 3"));
        for shape in ["3x", "x", "-1", "3,4", "+3", "99999999999999999999"] {
            assert!(error(&format!("zeros:{shape}"), Dtype::F32, &["n"]).contains("is not a shape"), "{shape}");
        }
        let huge = "zeros:4294967296x4294967296";
        assert!(error(huge, Dtype::F32, &["n", "m"]).contains("the array is larger than memory can be"));
    }

    #[test]
    fn draws_the_same_numbers_for_ever() {
        // The first outputs of SplitMix64 from seed 0.
        for (number, bits) in [(0, 0xe220_a839_7b1d_cdaf_u64), (1, 0x6e78_9e6a_a1b9_65f4)] {
            let expected = (bits >> 11) as f64 / (1u64 << 53) as f64;
            assert_eq!(random(Dtype::F64, 0, 0, number), Scalar::F64(expected));
            assert_eq!(random(Dtype::I32, 0, 0, number), Scalar::I32((bits as f64 / 1.8446744073709552e18) as i32));
        }
        let x = load("random:10000", Dtype::F32, &["n"]);
        let values: Vec<f64> = (0..x.len())
            .map(|n| match x.get(n) {
                Some(Scalar::F32(v)) => v.into(),
                _ => f64::NAN,
            })
            .collect();
        assert!(values.iter().all(|v| (0.0..1.0).contains(v)));
        assert!((values.iter().sum::<f64>() / 1e4 - 0.5).abs() < 0.01);
        let digits: Vec<u64> = (0..1000).map(|n| random(Dtype::I32, 1, 0, n).bits()).collect();
        assert!((0..10).all(|d| digits.iter().filter(|v| **v == d).count() > 70) && digits.iter().all(|d| *d < 10));
        assert_ne!(random(Dtype::F32, 1, 0, 0), random(Dtype::F32, 0, 0, 0));
        assert_ne!(random(Dtype::F32, 0, 1, 0), random(Dtype::F32, 0, 0, 0));
    }

    #[test]
    fn reads_files() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("a.npy").display().to_string();
        files::save(
            &[(Place::parse(&text).unwrap(), Array::scalar(Scalar::F32(2.5)).as_ref())],
            files::Packing::Stored,
        )
        .unwrap();
        assert_eq!(load(&text, Dtype::F32, &[]).get(0), Some(Scalar::F32(2.5)));
        assert!(error(&text, Dtype::F64, &[]).contains("of type f64, the file has f32"));
        assert!(error(&text, Dtype::F32, &["n"]).contains("this is a scalar"));
        assert!(error("none.npy", Dtype::F32, &["n"]).contains("`x`: none.npy: No such file"));
    }

    #[test]
    fn a_bomb_is_refused_before_it_takes_memory() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("a.npz:x").display().to_string();
        let zeros = Array::zeros(Dtype::U8, &[1 << 26]).unwrap();
        files::save(&[(Place::parse(&text).unwrap(), zeros.as_ref())], files::Packing::Deflated).unwrap();
        let value = Value::parse(&text, &slot(Dtype::U8, &["n"])).unwrap();
        assert_eq!(load_all(vec![value], 0, Some(1 << 20)).unwrap_err().code(), call::MEMORY);
    }

    #[test]
    fn scalars_have_the_range_of_their_type() {
        for (dtype, least, greatest) in [
            (Dtype::I8, "-128", "127"),
            (Dtype::U8, "0", "255"),
            (Dtype::I32, "-2147483648", "2147483647"),
            (Dtype::U32, "0", "4294967295"),
            (Dtype::I64, "-9223372036854775808", "9223372036854775807"),
            (Dtype::U64, "0", "18446744073709551615"),
        ] {
            for (text, step) in [(least, -1), (greatest, 1)] {
                let value = Scalar::parse(dtype, text);
                assert_eq!(load(text, dtype, &[]).get(0), value);
                let beyond = (text.parse::<i128>().unwrap() + step).to_string();
                let e = Value::parse(&beyond, &slot(dtype, &[])).unwrap_err();
                assert_eq!(e.code(), codes::VALUE_RANGE, "{beyond}");
                assert_eq!(e.help(), Some(format!("{dtype} has the whole numbers from {least} to {greatest}")));
            }
        }
        for (dtype, greatest, beyond) in [
            (Dtype::F16, "65504", "65520"),
            (Dtype::Bf16, "3.38e38", "3.4e38"),
            (Dtype::F32, "3.4e38", "3.41e38"),
            (Dtype::F64, "1.7e308", "1e309"),
        ] {
            assert_eq!(load(greatest, dtype, &[]).get(0), Scalar::parse(dtype, greatest));
            assert_eq!(load("-inf", dtype, &[]).get(0), Scalar::parse(dtype, "-inf"));
            assert!(error(beyond, dtype, &[]).contains(&format!("is not a value of type {dtype}")));
        }
    }

    #[test]
    fn memory_is_granted_before_it_is_taken() {
        let value = |text: &str| Value::parse(text, &slot(Dtype::F32, &["n", "m"])).unwrap();
        let e = load_all(vec![value("zeros:1000000x1000000")], 0, Some(1 << 40)).unwrap_err();
        assert_eq!(e.code(), call::MEMORY);
        assert_eq!(e.to_string(), "the arguments alone take 4000000000000 bytes, the limit is 1099511627776");
        assert!(load_all(vec![value("ones:4x4"), value("ones:4x4")], 0, Some(127)).is_err());
        assert_eq!(load_all(vec![value("ones:4x4"), value("ones:4x4")], 0, Some(128)).unwrap().len(), 2);
    }

    #[test]
    fn every_type_is_generated() {
        for dtype in Dtype::ALL {
            for (text, expected) in [("zeros:2", ["0", "0"]), ("ones:2", ["1", "1"]), ("arange:2", ["0", "1"])] {
                let word = |text| if text == "0" { "false" } else { "true" };
                let expected = expected.map(|t| Scalar::parse(dtype, if dtype == Dtype::Bool { word(t) } else { t }));
                let array = load(text, dtype, &["n"]);
                assert_eq!([array.get(0), array.get(1)], expected, "{dtype} {text}");
            }
            assert_eq!(load("random:3x4", dtype, &["n", "m"]).shape(), [3, 4]);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_value_or_an_error(text in "[-+0-9a-z.:x\\PC]{0,20}", ending in "|\\.npy|\\.npz:.{0,3}|x3") {
            let text = format!("{text}{ending}");
            for (dtype, shape) in [(Dtype::F16, &[][..]), (Dtype::I8, &[]), (Dtype::F32, &["n"])] {
                // Arrays that are not read are not created, so a shape may be anything.
                let _ = Value::parse(&text, &slot(dtype, shape)).map(|value| value.bytes());
                let _ = Value::parse(&format!("random:{text}"), &slot(dtype, shape)).map(|value| value.bytes());
            }
        }
    }
}
