//! Prints arrays as NumPy does: aligned, elided in the middle beyond 1,000 elements, each float in
//! the fewest digits that distinguish it from its neighbours.
//!
//! The rules are those of `numpy/_core/arrayprint.py` (NumPy 2.4) at its defaults.

use backends::float_mode;
use ir::array::ArrayRef;
use ir::{Dtype, Scalar};

/// Larger arrays are elided.
const THRESHOLD: usize = 1000;
/// The number of elements left at each end of an elided axis.
const EDGE: usize = 3;
const LINE_WIDTH: usize = 75;
/// The maximum number of digits after the decimal point.
const PRECISION: usize = 8;
/// NumPy's own limit. It bounds the depth of recursion here.
const MAX_RANK: usize = 64;

/// The array as text, over several lines if it is long, without a newline at the end.
///
/// ```
/// use fuseloop::{Array, Dtype, Scalar, print};
///
/// let x = Array::from_scalars(Dtype::F32, &[3], &[0.5, 1.0, -2.25].map(Scalar::F32)).unwrap();
/// assert_eq!(print::to_text(x.as_ref()), "[ 0.5   1.   -2.25]");
/// ```
pub fn to_text(array: ArrayRef<'_>) -> String {
    float_mode::standard(|| text(array, LINE_WIDTH, Notation::NumPy))
}

/// The array as an array literal of the language, unless it is elided, in lines of at most `width`
/// characters except where a single element is longer.
///
/// ```
/// use fuseloop::{Array, Dtype, Scalar, print};
///
/// let x = Array::from_scalars(Dtype::Bool, &[2], &[true, false].map(Scalar::Bool)).unwrap();
/// assert_eq!(print::to_literal(x.as_ref(), 75), "[ true, false]");
/// ```
pub fn to_literal(array: ArrayRef<'_>, width: usize) -> String {
    let text = float_mode::standard(|| text(array, width, Notation::Literal));
    match array.dtype() {
        Dtype::Bool => text.replace("True", "true").replace("False", "false"),
        _ => text,
    }
}

/// How elements are separated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Notation {
    /// By spaces.
    NumPy,
    /// By commas and spaces.
    Literal,
}

fn text(array: ArrayRef<'_>, width: usize, notation: Notation) -> String {
    let shape = array.shape();
    if let ([], Some(value)) = (shape, array.get(0)) {
        return one(value);
    }
    if shape.contains(&0) {
        return "[]".to_owned();
    }
    if shape.len() > MAX_RANK {
        return format!("<{} of {} axes>", array.dtype(), shape.len());
    }
    let elided = shape.iter().product::<usize>() > THRESHOLD;
    let shown: Vec<Vec<usize>> = shape.iter().map(|n| shown(*n, elided)).collect();
    let words = words(array.dtype(), &elements(array, &shown));
    let mut layout = Layout { shape, shown: &shown, words: words.into_iter(), notation, text: String::new() };
    layout.axis(0, width);
    layout.text
}

/// One value as text: `True`, `3`, `0.1`, `1e-05`.
pub fn scalar(value: Scalar) -> String {
    float_mode::standard(|| one(value))
}

fn one(value: Scalar) -> String {
    let Some(float) = Float::new(value) else { return plain(value) };
    let magnitude = float.exact.abs();
    let too_large = if value.dtype() == Dtype::F64 { 1e16 } else { exponent_from(value.dtype()) };
    if !float.exact.is_finite() {
        return float.non_finite().to_owned();
    }
    if magnitude == 0.0 || (1e-4..too_large).contains(&magnitude) {
        return format!("{:?}", float.shortest);
    }
    let (mantissa, exponent) = split_exponent(&float.shortest_exponential());
    format!("{mantissa}e{exponent}")
}

/// The subscripts shown along an axis.
fn shown(n: usize, elided: bool) -> Vec<usize> {
    if elided && n > 2 * EDGE { (0..EDGE).chain(n - EDGE..n).collect() } else { (0..n).collect() }
}

/// The shown elements, row-major.
fn elements(array: ArrayRef<'_>, shown: &[Vec<usize>]) -> Vec<Scalar> {
    let mut numbers = vec![0];
    for (axis, n) in array.shape().iter().enumerate() {
        numbers = numbers.iter().flat_map(|base| shown[axis].iter().map(move |k| base * n + k)).collect();
    }
    numbers.into_iter().filter_map(|number| array.get(number)).collect()
}

/// Each element as text, all with the same width.
fn words(dtype: Dtype, elements: &[Scalar]) -> Vec<String> {
    let floats: Vec<Float> = elements.iter().filter_map(|e| Float::new(*e)).collect();
    if dtype.is_float() {
        return float_words(dtype, &floats);
    }
    let words: Vec<String> = elements.iter().map(|e| plain(*e)).collect();
    let width = words.iter().map(String::len).max().unwrap_or(0);
    // NumPy pads every array of bools as if it contained a `False`.
    let width = if dtype == Dtype::Bool { width.max(5) } else { width };
    words.into_iter().map(|w| format!("{w:>width$}")).collect()
}

fn plain(value: Scalar) -> String {
    match value {
        Scalar::Bool(v) => if v { "True" } else { "False" }.to_owned(),
        Scalar::I8(v) => v.to_string(),
        Scalar::U8(v) => v.to_string(),
        Scalar::I16(v) => v.to_string(),
        Scalar::U16(v) => v.to_string(),
        Scalar::I32(v) => v.to_string(),
        Scalar::I64(v) => v.to_string(),
        Scalar::U32(v) => v.to_string(),
        Scalar::U64(v) => v.to_string(),
        Scalar::F16(v) => v.to_string(),
        Scalar::Bf16(v) => v.to_string(),
        Scalar::F32(v) => v.to_string(),
        Scalar::F64(v) => v.to_string(),
    }
}

fn float_words(dtype: Dtype, floats: &[Float]) -> Vec<String> {
    let finite: Vec<&Float> = floats.iter().filter(|v| v.exact.is_finite()).collect();
    let exponential = wants_exponent(dtype, &finite);
    // (before the point, after it, the exponent) of each finite element, at its own width.
    let parts: Vec<(String, String, String)> = if exponential {
        let own = finite.iter().map(|v| v.exponential().0.split_once('.').map_or(0, |(_, f)| f.len()));
        let precision = own.max().unwrap_or(0);
        let parts = finite.iter().map(|v| {
            let (mantissa, exponent) = split_exponent(&format!("{:.precision$e}", v.exact));
            let (whole, fraction) = mantissa.split_once('.').unwrap_or((&mantissa, ""));
            (whole.to_owned(), fraction.to_owned(), exponent)
        });
        parts.collect()
    } else {
        finite.iter().map(|v| v.positional()).map(|(whole, fraction)| (whole, fraction, String::new())).collect()
    };
    let widest = |part: fn(&(String, String, String)) -> usize| parts.iter().map(part).max().unwrap_or(0);
    let (mut left, fraction, exponent) = (widest(|p| p.0.len()), widest(|p| p.1.len()), widest(|p| p.2.len()));
    // An `e` precedes an exponent.
    let right = fraction + if exponential { exponent + 1 } else { 0 };
    for v in floats.iter().filter(|v| !v.exact.is_finite()) {
        left = left.max(v.non_finite().len().saturating_sub(right + 1));
    }
    let mut parts = parts.into_iter();
    let word = |v: &Float| match v.exact.is_finite().then(|| parts.next()).flatten() {
        Some((whole, digits, e)) if exponential => {
            let (sign, e) = e.split_at(1);
            format!("{whole:>left$}.{digits}e{sign}{e:0>width$}", width = exponent - 1)
        }
        Some((whole, digits, _)) => format!("{whole:>left$}.{digits:<fraction$}"),
        None => format!("{:>width$}", v.non_finite(), width = left + right + 1),
    };
    floats.iter().map(word).collect()
}

/// Whether the elements are too large, too small or too different to be aligned at the decimal
/// point.
fn wants_exponent(dtype: Dtype, finite: &[&Float]) -> bool {
    let magnitudes = || finite.iter().map(|v| v.exact.abs()).filter(|v| *v != 0.0);
    let (Some(max), Some(min)) = (magnitudes().reduce(f64::max), magnitudes().reduce(f64::min)) else {
        return false;
    };
    max >= exponent_from(dtype) || min < round_to(dtype, 1e-4) || round_to(dtype, max / min) > 1000.0
}

/// The magnitude from which on elements are written with an exponent.
fn exponent_from(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F16 | Dtype::Bf16 => 1e3,
        Dtype::F32 => 1e6,
        _ => 1e8,
    }
}

/// The value rounded to an element of a type, since NumPy compares in the array's own type.
#[expect(clippy::cast_possible_truncation, reason = "rounding is the purpose")]
fn round_to(dtype: Dtype, value: f64) -> f64 {
    match dtype {
        Dtype::F16 => half::f16::from_f64(value).to_f64(),
        Dtype::Bf16 => half::bf16::from_f64(value).to_f64(),
        Dtype::F32 => f64::from(value as f32),
        _ => value,
    }
}

/// `1.5e-5` as `1.5` and `-05`.
fn split_exponent(text: &str) -> (String, String) {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    (mantissa.to_owned(), format!("{sign}{digits:0>2}"))
}

/// A floating-point element: its value, and the shortest decimal among those nearest to it.
struct Float {
    exact: f64,
    /// A decimal, read as `f64`. As such it has the digits that are shortest in the element's own
    /// type.
    shortest: f64,
}

impl Float {
    fn new(value: Scalar) -> Option<Float> {
        // Rust has no shortest form for this type, so the first precision that reads back is used.
        let search = |exact: f64, reads_back: &dyn Fn(f64) -> bool| {
            let candidates = (0..PRECISION).map(|digits| format!("{exact:.digits$e}").parse().unwrap_or(exact));
            candidates.into_iter().find(|v| reads_back(*v)).unwrap_or(exact)
        };
        let (exact, shortest) = match value {
            Scalar::F16(v) => (v.to_f64(), search(v.to_f64(), &|w| half::f16::from_f64(w) == v)),
            Scalar::Bf16(v) => (v.to_f64(), search(v.to_f64(), &|w| half::bf16::from_f64(w) == v)),
            Scalar::F32(v) => (v.into(), v.to_string().parse().unwrap_or(v.into())),
            Scalar::F64(v) => (v, v),
            _ => return None,
        };
        Some(Float { exact, shortest })
    }

    fn non_finite(&self) -> &'static str {
        match (self.exact.is_nan(), self.exact < 0.0) {
            (true, _) => "nan",
            (_, true) => "-inf",
            _ => "inf",
        }
    }

    /// The digits before and after the decimal point, without trailing zeros.
    fn positional(&self) -> (String, String) {
        let text = self.shortest.to_string();
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        if fraction.len() <= PRECISION {
            return (whole.to_owned(), fraction.to_owned());
        }
        let text = format!("{:.PRECISION$}", self.exact);
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        (whole.to_owned(), fraction.trim_end_matches('0').to_owned())
    }

    fn shortest_exponential(&self) -> String {
        format!("{:e}", self.shortest)
    }

    /// The mantissa, without trailing zeros, and the exponent.
    fn exponential(&self) -> (String, String) {
        let (mantissa, exponent) = split_exponent(&self.shortest_exponential());
        match mantissa.split_once('.') {
            Some((_, fraction)) if fraction.len() > PRECISION => {
                let (mantissa, exponent) = split_exponent(&format!("{:.PRECISION$e}", self.exact));
                (mantissa.trim_end_matches('0').to_owned(), exponent)
            }
            _ => (mantissa, exponent),
        }
    }
}

/// Arranges the words in brackets and lines, with ellipses.
struct Layout<'a> {
    shape: &'a [usize],
    shown: &'a [Vec<usize>],
    words: std::vec::IntoIter<String>,
    notation: Notation,
    text: String,
}

impl Layout<'_> {
    /// Appends the contents of one axis, in lines of `width` characters less the closing brackets.
    fn axis(&mut self, axis: usize, width: usize) {
        self.text.push('[');
        let indent = " ".repeat(axis + 1);
        let count = self.shown[axis].len();
        let gap = if count < self.shape[axis] { EDGE } else { usize::MAX };
        if axis + 1 == self.shape.len() {
            self.row(&indent, count, gap, width.saturating_sub(1));
        } else {
            let between = self.comma().to_owned() + &"\n".repeat(self.shape.len() - axis - 1) + &indent;
            for k in 0..count {
                if k > 0 {
                    self.text.push_str(&between);
                }
                if k == gap {
                    self.text.push_str("...");
                    self.text.push_str(&between);
                }
                self.axis(axis + 1, width.saturating_sub(1));
            }
        }
        self.text.push(']');
    }

    fn comma(&self) -> &'static str {
        match self.notation {
            Notation::NumPy => "",
            Notation::Literal => ",",
        }
    }

    /// Appends the elements of the last axis, broken into lines.
    fn row(&mut self, indent: &str, count: usize, gap: usize, width: usize) {
        let mut column = indent.len();
        for k in 0..count {
            let word = self.words.next().unwrap_or_default();
            let ellipsis = (k == gap).then(|| "...".to_owned());
            for (nth, word) in ellipsis.into_iter().chain([word]).enumerate() {
                let first = k == 0 && nth == 0;
                if !first {
                    self.text.insert_str(self.text.trim_end_matches(' ').len(), self.comma());
                    column += self.comma().len();
                }
                if !first && column + 1 + word.len() > width {
                    self.text.truncate(self.text.trim_end_matches(' ').len());
                    self.text.push('\n');
                    self.text.push_str(indent);
                    column = indent.len();
                } else if !first {
                    self.text.push(' ');
                    column += 1;
                }
                column += word.len();
                self.text.push_str(&word);
            }
        }
    }
}

#[cfg(test)]
mod tests;
