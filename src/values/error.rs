//! The reasons why a text is not a value for a parameter, as data and as sentences.

use std::fmt;

use ::files::shown;
use grammar::Code;
use ir::Dtype;
use ir::array::ArrayError;

use crate::error::codes as call;
use crate::files::{FileError, codes};
use crate::render::Report;

/// The reason why a text is not a value for a parameter.
///
/// Its `Display` is one sentence; [`ValueError::report`] adds the code and the remedy.
#[derive(Debug)]
pub struct ValueError {
    /// `None` if the error concerns all arguments together.
    pub(super) param: Option<String>,
    pub(super) kind: ValueErrorKind,
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
    /// An element of an array that the type cannot represent.
    Element {
        /// The text given.
        text: String,
        /// The parameter's element type.
        dtype: Dtype,
        /// Its subscripts.
        at: Vec<usize>,
    },
    /// Brackets, commas and elements do not form an array.
    Literal {
        /// The fault.
        problem: LiteralProblem,
        /// The number of characters before it.
        at: usize,
    },
    /// A row of another length than the rows before it.
    Rows {
        /// The row's subscripts.
        row: Vec<usize>,
        /// The length of the others.
        expected: usize,
        /// Its length.
        found: usize,
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
        /// The argument's text, without a type.
        text: String,
    },
    /// The argument names another type than the parameter's.
    Said {
        /// The parameter's.
        expected: Dtype,
        /// The one named.
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
    pub(super) fn of(param: &str, kind: ValueErrorKind) -> ValueError {
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
            ValueErrorKind::Range { .. } | ValueErrorKind::Element { .. } => codes::VALUE_RANGE,
            ValueErrorKind::Literal { .. } => codes::VALUE_LITERAL,
            ValueErrorKind::Rows { .. } => codes::VALUE_ROWS,
            ValueErrorKind::Shape(_) => codes::VALUE_SHAPE,
            ValueErrorKind::Rank { .. } => call::ARGUMENT_RANK,
            ValueErrorKind::Dtype { .. } | ValueErrorKind::Said { .. } => call::ARGUMENT_TYPE,
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
                "give elements (1,2,3 or [[1,2],[3,4]]), a file (a.npy, a.npz:key, a.csv, a.png), or random:, zeros:, ones: or arange: with a shape such as 4x3"
                    .to_owned()
            }
            ValueErrorKind::Form { array: false, .. } => "give a number, or a file that holds a single one".to_owned(),
            ValueErrorKind::Range { text, dtype } | ValueErrorKind::Element { text, dtype, .. } => match limits(*dtype) {
                Some((least, greatest)) => format!("{dtype} has the whole numbers from {least} to {greatest}"),
                None if *dtype == Dtype::Bool => "write true or false".to_owned(),
                None if is_number(text) => "it is beyond the greatest one; infinity is written inf".to_owned(),
                None => "write a number".to_owned(),
            },
            ValueErrorKind::Shape(_) => "write lengths joined by x, such as 4x3".to_owned(),
            ValueErrorKind::Literal { problem: LiteralProblem::Elided, .. } => {
                "print all of it (--print all), or save it to a file".to_owned()
            }
            ValueErrorKind::Dtype { expected, found, text } => {
                format!("convert it, which may change values: {text}:{expected}; or declare the parameter as {found}")
            }
            ValueErrorKind::Said { expected, .. } => format!("name the parameter's type, {expected}, or none"),
            ValueErrorKind::File(e) => return e.help(),
            ValueErrorKind::StandardInput { .. } => "give one of the two as a file".to_owned(),
            ValueErrorKind::Memory { .. } => "raise the limit (--max-memory), or run on smaller arrays".to_owned(),
            ValueErrorKind::Rank { .. }
            | ValueErrorKind::Literal { .. }
            | ValueErrorKind::Rows { .. }
            | ValueErrorKind::Array(_) => return None,
        })
    }

    /// Whether the text itself is at fault, rather than the file that it names.
    pub fn is_misspelt(&self) -> bool {
        use ValueErrorKind as Kind;
        matches!(
            self.kind,
            Kind::Form { .. }
                | Kind::Range { .. }
                | Kind::Element { .. }
                | Kind::Literal { .. }
                | Kind::Rows { .. }
                | Kind::Said { .. }
                | Kind::Shape(_)
                | Kind::StandardInput { .. }
        )
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
            ValueErrorKind::Element { text, dtype, at } => {
                write!(f, "{} is not a value of type {dtype}, at {at:?}", shown(text))
            }
            ValueErrorKind::Literal { problem, at } => write!(f, "{problem}, after {at} characters"),
            ValueErrorKind::Rows { row, expected, found } => {
                let elements = if *found == 1 { "element" } else { "elements" };
                write!(f, "row {row:?} has {found} {elements}, those before it have {expected}")
            }
            ValueErrorKind::Shape(text) => write!(f, "{} is not a shape", shown(text)),
            ValueErrorKind::Rank { declared, found } => {
                let found = found.iter().map(usize::to_string).collect::<Vec<_>>().join("x");
                match found.is_empty() {
                    true => write!(f, "the parameter is {declared}, this is a scalar"),
                    false => write!(f, "the parameter is {declared}, this has shape {found}"),
                }
            }
            ValueErrorKind::Dtype { expected, found, .. } => {
                write!(f, "the parameter has elements of type {expected}, the file has {found}")
            }
            ValueErrorKind::Said { expected, found } => {
                write!(f, "the parameter has elements of type {expected}, the argument says {found}")
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

/// The ways in which brackets, commas and elements do not form an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiteralProblem {
    /// A bracket is not closed.
    Open,
    /// Text follows the array.
    GoesOn,
    /// A comma or a closing bracket is missing.
    NoComma,
    /// An element or a row is missing.
    NoElement,
    /// An element stands where others have rows, or the converse.
    Depth,
    /// It has more axes than any array.
    TooDeep,
    /// Elements were left out when the array was printed.
    Elided,
}

impl fmt::Display for LiteralProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LiteralProblem::Open => "the array is not closed: a `]` is missing",
            LiteralProblem::GoesOn => "text follows the array",
            LiteralProblem::NoComma => "expected a comma or `]`",
            LiteralProblem::NoElement => "expected an element or `[`",
            LiteralProblem::Depth => "elements and rows stand side by side",
            LiteralProblem::TooDeep => "the array has too many axes",
            LiteralProblem::Elided => "elements were left out when the array was printed",
        })
    }
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
