//! Arguments as text: the part after `NAME=` on the command line.
//!
//! | text | meaning |
//! |---|---|
//! | `3`, `-1.5`, `1e-5`, `inf`, `nan`, `true` | a scalar, for a parameter without axes |
//! | `[1, 2, 3]`, `1,2,3`, `[[1, 2], [3, 4]]` | an array with these elements |
//! | `path.npy`, `path.npz:key`, `path.safetensors:key` | the array in that file, see [`files`] |
//! | `path.csv` | the numbers in that table: a row on each line |
//! | `path.png` | the picture in that file: `u8[h, w]`, or `u8[h, w, c]` in colour |
//! | `path.npy:f32`, `path.npz:key:f32` | the array in that file, converted as `f32(x)` converts it |
//! | `-` | the array on standard input, as `.npy` |
//! | `zeros:4x3`, `ones:4x3` | an array of zeros or ones of that shape |
//! | `arange:4x3` | 0, 1, 2 and so on, row-major, as NumPy's `arange(12).reshape(4, 3)` |
//! | `random:4x3` | drawn by a [`random`] generator: floats in [0, 1), integers 0 to 9, truth values |
//!
//! The element type is that of the parameter. A file of another type is converted if the
//! parameter's type has all values of the file's, as `f64` has those of `f32`; otherwise only if
//! the type is named. Reading an argument gives a [`Value`], which knows its shape before any
//! element of a binary file is read.
//!
//! ```
//! use fuseloop::{Options, Program, values};
//!
//! let program = Program::parse("fn scale(x: f32[n], by: f32) = x * by")?;
//! let params = &program.main()?.signature().params;
//! let texts = ["1,2,3", "0.5"];
//! let values = texts.into_iter().zip(params).map(|(text, param)| values::Value::parse(text, param));
//! // No array exists before all of them are known to fit into 1 MiB.
//! let arrays = values::load(values.collect::<Result<_, _>>()?, 0, Some(1 << 20))?;
//! let results = program.main()?.compile(&Options::default())?.call(&arrays)?;
//! assert_eq!(results[0].as_slice::<f32>()?, [0.5, 1.0, 1.5]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod convert;
mod error;
mod literal;

use backends::float_mode;
use ir::array::{ArrayError, byte_len};
use ir::{Array, Dtype, Scalar};

use crate::Slot;
use crate::files::{self, Place, Stored};
use crate::random::float;
pub use crate::random::random;

pub use error::{LiteralProblem, ValueError, ValueErrorKind};

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
    Array(Array),
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

impl Value {
    /// Reads an argument. For a file, only the header is read (of a table all of it).
    ///
    /// # Errors
    ///
    /// [`ValueError`] if the text has none of the forms above, or is not of the parameter's type
    /// and rank, and if a file is missing or invalid.
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

    /// How many bytes its elements take, in the file's type too while they are converted.
    pub fn bytes(&self) -> usize {
        let own = byte_len(self.dtype, &self.shape).unwrap_or(usize::MAX);
        match &self.from {
            From::File(stored) if stored.dtype() != self.dtype => own.saturating_add(stored.bytes()),
            _ => own,
        }
    }

    /// The array. `seed` and `stream` matter only to `random:`, where each parameter has its own
    /// stream.
    ///
    /// # Errors
    ///
    /// [`ValueError`] if a file is invalid or memory is missing.
    pub fn load(self, seed: u64, stream: u64) -> Result<Array, ValueError> {
        let failed = |kind| ValueError::of(&self.param, kind);
        match self.from {
            From::Array(array) => Ok(array),
            From::File(stored) => {
                let array = stored.read().map_err(|e| failed(ValueErrorKind::File(e)))?;
                let array = convert::reshaped(array, &self.shape).map_err(|e| failed(ValueErrorKind::Array(e)))?;
                convert::converted(array, self.dtype).map_err(|e| failed(ValueErrorKind::Array(e)))
            }
            From::Generator(generator) => {
                let array = float_mode::standard(|| generator.array(self.dtype, &self.shape, seed, stream));
                array.map_err(|e| failed(ValueErrorKind::Array(e)))
            }
        }
    }
}

/// The arrays of a call's arguments. None is created if all of them together would exceed `limit`
/// bytes.
///
/// # Errors
///
/// Those of [`Value::load`], and E0240 beyond the limit.
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
    let parse = |element: &str| Scalar::parse_finite(param.dtype, element);
    if let Ok(place) = Place::parse(text) {
        return file(&place, text, param);
    }
    if text.starts_with('[') {
        return literal::parse(text, param.dtype, &parse);
    }
    if text.contains(',') {
        return literal::parse(&format!("[{text}]"), param.dtype, &parse);
    }
    if param.rank() == 0 && looks_like_a_scalar(text) {
        let range = || ValueErrorKind::Range { text: text.to_owned(), dtype: param.dtype };
        return Ok((vec![], From::Array(Array::scalar(parse(text).ok_or_else(range)?))));
    }
    Err(ValueErrorKind::Form { declared: param.ty(), array: param.rank() > 0 })
}

/// The array in a file, and whether it is one for the parameter.
fn file(place: &Place, text: &str, param: &Slot) -> Result<(Vec<usize>, From), ValueErrorKind> {
    let (place, said) = place.clone().split_dtype();
    if let Some(found) = said.filter(|said| *said != param.dtype) {
        return Err(ValueErrorKind::Said { expected: param.dtype, found });
    }
    let stored = files::open_as(&place, Some(param.dtype)).map_err(ValueErrorKind::File)?;
    let found = stored.dtype();
    if said.is_none() && !convert::is_exact(found, param.dtype) {
        return Err(ValueErrorKind::Dtype { expected: param.dtype, found, text: text.to_owned() });
    }
    // A table of one row or one column is an array with one axis too, and of one cell a scalar.
    let shape = match (stored.shape(), param.rank()) {
        (lengths @ [rows, columns], 1) if stored.is_table() && lengths.contains(&1) => vec![rows * columns],
        ([1, 1], 0) if stored.is_table() => vec![],
        (shape, _) => shape.to_vec(),
    };
    Ok((shape, From::File(stored)))
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

#[cfg(test)]
mod tests;
