//! Tables of numbers as `.csv`: a line for each row, with commas between the elements, and names of
//! the columns in the first line if none of its cells is a number.

use std::borrow::Cow;
use std::fs::File;
use std::io::{Seek, Write};

use ::csv::{ByteRecord, ReaderBuilder, Trim};
use ir::array::ArrayRef;
use ir::{Array, Dtype, Scalar};

use super::error::Fault;

/// The table in a file, with two axes. Without a type its elements are `i64` if all are whole
/// numbers, `bool` if all are truth values, and `f64` otherwise.
pub(super) fn read(mut file: File, dtype: Option<Dtype>) -> Result<Array, Fault> {
    let dtype = match dtype {
        Some(dtype) => dtype,
        None => {
            let mut guess = Guess { whole: true, truth: true };
            each(&file, &mut |cell| {
                guess.see(cell.text);
                Ok(())
            })?;
            file.rewind()?;
            guess.dtype()
        }
    };
    let mut bytes = vec![];
    let shape = each(&file, &mut |cell| {
        let Some(value) = Scalar::parse_finite(dtype, cell.text) else {
            return Err(Fault::Cell { line: cell.line, column: cell.column, text: cell.text.to_owned(), dtype });
        };
        let low = &value.bits().to_le_bytes()[..dtype.bytes()];
        bytes.extend_from_slice(low);
        if cfg!(target_endian = "big") {
            let start = bytes.len() - low.len();
            bytes[start..].reverse();
        }
        Ok(())
    })?;
    Ok(Array::from_bytes(dtype, &shape, &bytes)?)
}

/// A cell and its place, from 1.
struct Cell<'a> {
    line: u64,
    column: usize,
    text: &'a str,
}

/// Visits the cells row by row, and returns how many rows and columns there are.
fn each(file: &File, visit: &mut dyn FnMut(Cell<'_>) -> Result<(), Fault>) -> Result<[usize; 2], Fault> {
    let mut reader = ReaderBuilder::new().has_headers(false).flexible(true).trim(Trim::All).from_reader(file);
    let mut record = ByteRecord::new();
    let (mut rows, mut columns, mut first) = (0, None, true);
    while reader.read_byte_record(&mut record).map_err(unreadable)? {
        let line = record.position().map_or(0, |position| position.line());
        let mut cells: Vec<Cow<'_, str>> = record.iter().map(String::from_utf8_lossy).collect();
        if let (true, Some(start)) = (first, cells.first_mut())
            && let Some(rest) = start.strip_prefix('\u{feff}')
        {
            // A byte order mark belongs to no cell.
            *start = Cow::Owned(rest.to_owned());
        }
        if std::mem::take(&mut first) && cells.iter().all(|cell| is_name(cell)) {
            columns = Some(cells.len());
            continue;
        }
        let expected = *columns.get_or_insert(cells.len());
        if cells.len() != expected {
            return Err(Fault::Row { line, expected, found: cells.len() });
        }
        for (text, column) in cells.iter().zip(1..) {
            visit(Cell { line, column, text })?;
        }
        rows += 1;
    }
    Ok([rows, columns.unwrap_or(0)])
}

/// Whether a cell of the first line may be the name of a column.
fn is_name(cell: &str) -> bool {
    !cell.is_empty() && cell.parse::<f64>().is_err() && cell.parse::<bool>().is_err()
}

fn unreadable(error: ::csv::Error) -> Fault {
    match error.into_kind() {
        ::csv::ErrorKind::Io(error) => error.into(),
        other => Fault::Damaged(format!("{other:?}")),
    }
}

/// The type that the cells so far suggest.
struct Guess {
    whole: bool,
    truth: bool,
}

impl Guess {
    fn see(&mut self, text: &str) {
        self.whole &= text.parse::<i64>().is_ok();
        self.truth &= text.parse::<bool>().is_ok();
    }

    fn dtype(&self) -> Dtype {
        match self {
            Guess { whole: true, .. } => Dtype::I64,
            Guess { truth: true, .. } => Dtype::Bool,
            _ => Dtype::F64,
        }
    }
}

/// Writes an array with at most two axes: one of one axis as a column. Its elements read back with
/// the same bits, in the same type; NaNs as in other files.
pub(super) fn write(array: &ArrayRef<'_>, to: &mut impl Write) -> Result<(), Fault> {
    let columns = match *array.shape() {
        [_, columns] => columns,
        _ => 1,
    };
    let count = array.bytes().len() / array.dtype().bytes();
    for number in 0..count {
        let Some(value) = array.get(number) else { break };
        let end = if (number + 1).is_multiple_of(columns) { "\n" } else { "," };
        write!(to, "{}{end}", text(value))?;
    }
    Ok(())
}

/// An element in the fewest digits that read back.
fn text(value: Scalar) -> String {
    match value {
        _ if value.is_nan() => "nan".to_owned(),
        Scalar::Bool(v) => v.to_string(),
        Scalar::F16(v) => format!("{:?}", v.to_f32()),
        Scalar::Bf16(v) => format!("{:?}", v.to_f32()),
        Scalar::F32(v) => format!("{v:?}"),
        Scalar::F64(v) => format!("{v:?}"),
        Scalar::I8(v) => v.to_string(),
        Scalar::U8(v) => v.to_string(),
        Scalar::I16(v) => v.to_string(),
        Scalar::U16(v) => v.to_string(),
        Scalar::I32(v) => v.to_string(),
        Scalar::U32(v) => v.to_string(),
        Scalar::I64(v) => v.to_string(),
        Scalar::U64(v) => v.to_string(),
    }
}
