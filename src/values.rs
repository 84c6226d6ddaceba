//! Arguments as text: what stands behind `NAME=` on the command line.
//!
//! | text | is |
//! |---|---|
//! | `3`, `-1.5`, `1e-5`, `inf`, `nan`, `true` | a scalar, for a parameter without axes |
//! | `path.npy` | the array in that file |
//! | `zeros:4x3`, `ones:4x3` | an array of zeros or ones of that shape |
//! | `arange:4x3` | 0, 1, 2 and so on, row-major, as NumPy's `arange(12).reshape(4, 3)` |
//! | `random:4x3` | drawn by a [`random`] generator: floats in [0, 1), integers 0 to 9, truth values |
//!
//! The element type is the parameter's. Reading an argument gives a [`Value`], which knows its shape before any
//! element of it exists.

use std::fmt;
use std::path::PathBuf;

use ir::array::{ArrayError, byte_len};
use ir::{Array, Dtype, Scalar};

use crate::Slot;
use crate::files::npy::{self, NpyError};
use crate::render::visible;

/// An argument that fits its parameter's type and rank.
#[derive(Clone, Debug)]
pub struct Value {
    dtype: Dtype,
    shape: Vec<usize>,
    from: From,
}

#[derive(Clone, Debug)]
enum From {
    Scalar(Scalar),
    Npy(PathBuf),
    Generator(Generator),
}

/// A way to make an array up.
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

/// Why a text is no value for a parameter.
#[derive(Debug)]
pub enum ValueError {
    /// It is none of the forms that the parameter takes.
    Form {
        /// The parameter's type as declared.
        declared: String,
        /// Whether it has axes.
        array: bool,
    },
    /// A number that the type does not hold.
    Scalar(Dtype),
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
    /// The file is not there, or is not what it should be.
    Npy(PathBuf, NpyError),
    /// The array cannot be.
    Array(ArrayError),
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueError::Form { declared, array: true } => write!(
                f,
                "the parameter is {declared}: give a .npy file, or random:, zeros:, ones: or arange: with a shape such as 4x3"
            ),
            ValueError::Form { declared, array: false } => {
                write!(f, "the parameter is {declared}: give a number, or a .npy file that holds a single one")
            }
            ValueError::Scalar(dtype) => write!(f, "not a value of type {dtype}"),
            ValueError::Shape(text) => write!(f, "`{}` is not a shape: write lengths such as 4x3", visible(text)),
            ValueError::Rank { declared, found } => {
                let found = found.iter().map(usize::to_string).collect::<Vec<_>>().join("x");
                match found.is_empty() {
                    true => write!(f, "the parameter is {declared}, this is a scalar"),
                    false => write!(f, "the parameter is {declared}, this has shape {found}"),
                }
            }
            ValueError::Dtype { expected, found } => {
                write!(f, "the parameter has elements of type {expected}, the file has {found}")
            }
            ValueError::Npy(path, e) => write!(f, "{}: {e}", visible(&path.display().to_string())),
            ValueError::Array(e) => write!(f, "{e}"),
        }
    }
}

impl std::error::Error for ValueError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ValueError::Npy(_, e) => Some(e),
            ValueError::Array(e) => Some(e),
            _ => None,
        }
    }
}

impl Value {
    /// Reads an argument. Of a file only the header is read.
    pub fn parse(text: &str, param: &Slot) -> Result<Value, ValueError> {
        let (shape, from) = if let Some((name, generator)) = GENERATORS.iter().find(|(name, _)| text.starts_with(name))
        {
            (parse_shape(&text[name.len()..])?, From::Generator(*generator))
        } else if text.to_ascii_lowercase().ends_with(".npy") {
            let path = PathBuf::from(text);
            let header = npy::read_header(&path).map_err(|e| ValueError::Npy(path.clone(), e))?;
            if header.dtype != param.dtype {
                return Err(ValueError::Dtype { expected: param.dtype, found: header.dtype });
            }
            (header.shape, From::Npy(path))
        } else if param.rank() == 0 && looks_like_a_scalar(text) {
            (vec![], From::Scalar(Scalar::parse(param.dtype, text).ok_or(ValueError::Scalar(param.dtype))?))
        } else {
            return Err(ValueError::Form { declared: param.ty(), array: param.rank() > 0 });
        };
        if shape.len() != param.rank() {
            return Err(ValueError::Rank { declared: param.ty(), found: shape });
        }
        byte_len(param.dtype, &shape).map_err(ValueError::Array)?;
        Ok(Value { dtype: param.dtype, shape, from })
    }

    /// The length of each axis.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// How many bytes its elements take.
    pub fn bytes(&self) -> usize {
        byte_len(self.dtype, &self.shape).unwrap_or(usize::MAX)
    }

    /// The array itself. `seed` and `stream` matter to `random:` alone: each parameter has a stream of its own.
    pub fn load(&self, seed: u64, stream: u64) -> Result<Array, ValueError> {
        let generator = match &self.from {
            From::Scalar(value) => return Ok(Array::scalar(*value)),
            From::Npy(path) => {
                let array = npy::read(path).map_err(|e| ValueError::Npy(path.clone(), e))?;
                // The file may have changed since its header was read.
                return match array.dtype() == self.dtype && array.shape() == self.shape {
                    true => Ok(array),
                    false => {
                        Err(ValueError::Npy(path.clone(), NpyError::Header("it changed while it was read".into())))
                    }
                };
            }
            From::Generator(generator) => *generator,
        };
        let mut array = Array::zeros(self.dtype, &self.shape).map_err(ValueError::Array)?;
        let element = |number: u64| match generator {
            Generator::Zeros => Scalar::zero(self.dtype),
            Generator::Ones => Scalar::one(self.dtype),
            Generator::Arange => counted(self.dtype, number),
            Generator::Random => random(self.dtype, seed, stream, number),
        };
        if generator != Generator::Zeros {
            let width = self.dtype.bytes();
            for (to, number) in array.bytes_mut().chunks_exact_mut(width).zip(0..) {
                to.copy_from_slice(Array::scalar(element(number)).bytes());
            }
        }
        Ok(array)
    }
}

/// The value with a number in a counter-based generator: a pure function of its arguments.
///
/// With `mix` the finalizer of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
/// 2014), the bits are `mix(mix(mix(seed) + stream) + (number + 1) * 0x9e3779b97f4a7c15)`: SplitMix64 started at
/// a key that hangs on seed and stream. Floats are the top bits, as many as the significand has, in [0, 1); integers are
/// 0 to 9, so that they may serve as labels and subscripts.
pub fn random(dtype: Dtype, seed: u64, stream: u64, number: u64) -> Scalar {
    const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
    fn mix(z: u64) -> u64 {
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    let key = mix(mix(seed).wrapping_add(stream));
    let bits = mix(key.wrapping_add(number.wrapping_add(1).wrapping_mul(GAMMA)));
    let significand = match dtype {
        Dtype::F64 => 53,
        Dtype::F32 => 24,
        Dtype::F16 => 11,
        Dtype::Bf16 => 8,
        Dtype::Bool => return Scalar::Bool(bits >> 63 == 1),
        _ => {
            // The high half of the product with 10 is uniform on 0 to 9.
            let digit = (u128::from(bits) * 10) >> 64;
            return Scalar::from_bits(dtype, digit as u64 & 15);
        }
    };
    #[expect(clippy::cast_precision_loss, reason = "at most 53 bits")]
    let unit = (bits >> (64 - significand)) as f64 / (1u64 << significand) as f64;
    float(dtype, unit)
}

/// The number as an element: integers wrap, `bool` is whether it is not 0.
fn counted(dtype: Dtype, number: u64) -> Scalar {
    match dtype {
        Dtype::Bool => Scalar::Bool(number != 0),
        #[expect(clippy::cast_precision_loss, reason = "rounding is what a float does with a large number")]
        _ if dtype.is_float() => float(dtype, number as f64),
        _ => Scalar::from_bits(dtype, number),
    }
}

/// A floating-point value, rounded to the type; zero of a type that is none.
#[expect(clippy::cast_possible_truncation, reason = "rounding is the purpose")]
fn float(dtype: Dtype, value: f64) -> Scalar {
    match dtype {
        Dtype::F16 => Scalar::F16(half::f16::from_f64(value)),
        Dtype::Bf16 => Scalar::Bf16(half::bf16::from_f64(value)),
        Dtype::F32 => Scalar::F32(value as f32),
        Dtype::F64 => Scalar::F64(value),
        _ => Scalar::zero(dtype),
    }
}

/// `4096x1024`; nothing at all is the shape of a scalar.
fn parse_shape(text: &str) -> Result<Vec<usize>, ValueError> {
    if text.is_empty() {
        return Ok(vec![]);
    }
    let length = |part: &str| match part.bytes().all(|b| b.is_ascii_digit()) {
        true => part.parse().ok(),
        false => None,
    };
    let lengths: Option<Vec<usize>> = text.split('x').map(length).collect();
    lengths.ok_or_else(|| ValueError::Shape(text.to_owned()))
}

/// Whether somebody meant a number or a truth value, of whatever type.
fn looks_like_a_scalar(text: &str) -> bool {
    matches!(text, "true" | "false") || text.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
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
        assert_eq!(error("2147483648", Dtype::I32, &[]), "not a value of type i32");
        assert_eq!(error("1.5", Dtype::I64, &[]), "not a value of type i64");
        assert_eq!(error("1", Dtype::Bool, &[]), "not a value of type bool");
        assert!(error("x", Dtype::F32, &[]).contains("give a number"));
        assert!(error("3", Dtype::F32, &["n"]).contains("the parameter is f32[n]: give a .npy file"));
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
        assert_eq!(error(huge, Dtype::F32, &["n", "m"]), "the array is larger than memory can be");
    }

    #[test]
    fn draws_the_same_numbers_for_ever() {
        // What SplitMix64 gives first from the seed 0.
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
        let path = folder.path().join("a.npy");
        npy::write(&path, Array::scalar(Scalar::F32(2.5)).as_ref()).unwrap();
        let text = path.to_str().unwrap();
        assert_eq!(load(text, Dtype::F32, &[]).get(0), Some(Scalar::F32(2.5)));
        assert!(error(text, Dtype::F64, &[]).contains("of type f64, the file has f32"));
        assert!(error(text, Dtype::F32, &["n"]).contains("this is a scalar"));
        assert!(error("none.npy", Dtype::F32, &["n"]).starts_with("none.npy: No such file"));
    }
}
