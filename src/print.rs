//! Arrays as text that the language reads: aligned, and elided in the middle beyond a number of
//! elements.
//!
//! Floats have the fewest digits that distinguish them from their neighbours, so that an array that
//! is not elided can be entered again and has the same bits, as an argument ([`crate::values`]) or
//! at the prompt. The layout is that of NumPy: the rules are those of `numpy/_core/arrayprint.py`
//! (NumPy 2.4) for `array2string(x, separator=", ", floatmode="unique")`, or `"maxprec"` with a
//! precision.

use backends::float_mode;
use ir::array::ArrayRef;
use ir::{Dtype, Scalar};

/// The number of elements left at each end of an elided axis.
const EDGE: usize = 3;
/// More digits than a 16-bit float has.
const SHORT: usize = 8;
/// NumPy's own limit. It bounds the depth of recursion here.
const MAX_RANK: usize = 64;

/// How arrays are written.
///
/// ```
/// use fuseloop::{Array, print};
///
/// let x = Array::from(vec![0.5f32, 1.0, 1.0 / 3.0]);
/// assert_eq!(print::to_text(x.as_ref(), &print::Format::default()), "[0.5,        1.,         0.33333334]");
/// let short = print::Format { precision: Some(2), ..print::Format::default() };
/// assert_eq!(print::to_text(x.as_ref(), &short), "[0.5,  1.,   0.33]");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// The maximum number of characters in a line. A single element may be longer.
    pub width: usize,
    /// The number of elements from which on an array is elided in the middle; `None` prints all.
    pub most: Option<usize>,
    /// The maximum number of digits after the decimal point of a float; `None` prints as many as it
    /// takes to read the same bits back.
    pub precision: Option<usize>,
}

/// Lines of 75 characters, at most 1,000 elements, all digits.
impl Default for Format {
    fn default() -> Format {
        Format { width: 75, most: Some(1000), precision: None }
    }
}

/// The array as text, over several lines if it is long, without a newline at the end.
///
/// ```
/// use fuseloop::{Array, print};
///
/// let x = Array::from_slice(&[2, 2], &[true, false, true, true])?;
/// let text = print::to_text(x.as_ref(), &print::Format::default());
/// assert_eq!(text, "[[ true, false],\n [ true,  true]]");
/// # Ok::<(), fuseloop::ArrayError>(())
/// ```
pub fn to_text(array: ArrayRef<'_>, format: &Format) -> String {
    float_mode::standard(|| text(array, format))
}

fn text(array: ArrayRef<'_>, format: &Format) -> String {
    let shape = array.shape();
    if let ([], Some(value)) = (shape, array.get(0)) {
        return one(value, format.precision);
    }
    if shape.contains(&0) {
        return "[]".to_owned();
    }
    if shape.len() > MAX_RANK {
        return format!("<{} of {} axes>", array.dtype(), shape.len());
    }
    let elided = format.most.is_some_and(|most| shape.iter().product::<usize>() > most);
    let shown: Vec<Vec<usize>> = shape.iter().map(|n| shown(*n, elided)).collect();
    let words = words(array.dtype(), &elements(array, &shown), format.precision);
    let mut layout = Layout { shape, shown: &shown, words: words.into_iter(), text: String::new() };
    layout.axis(0, format.width);
    layout.text
}

/// One value as text: `true`, `3`, `0.1`, `1e-05`.
fn one(value: Scalar, precision: Option<usize>) -> String {
    let Some(float) = Float::new(value) else { return plain(value) };
    let magnitude = float.exact.abs();
    let too_large = if value.dtype() == Dtype::F64 { 1e16 } else { exponent_from(value.dtype()) };
    if !float.exact.is_finite() {
        return float.non_finite().to_owned();
    }
    if magnitude == 0.0 || (1e-4..too_large).contains(&magnitude) {
        let (whole, fraction) = float.positional(precision);
        return format!("{whole}.{}", if fraction.is_empty() { "0" } else { &fraction });
    }
    let (mantissa, exponent) = float.exponential(precision);
    format!("{}e{exponent}", mantissa.trim_end_matches('.'))
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
fn words(dtype: Dtype, elements: &[Scalar], precision: Option<usize>) -> Vec<String> {
    let floats: Vec<Float> = elements.iter().filter_map(|e| Float::new(*e)).collect();
    if dtype.is_float() {
        return float_words(dtype, &floats, precision);
    }
    let words: Vec<String> = elements.iter().map(|e| plain(*e)).collect();
    let width = words.iter().map(String::len).max().unwrap_or(0);
    // NumPy pads every array of truth values as if it contained a `False`.
    let width = if dtype == Dtype::Bool { width.max(5) } else { width };
    words.into_iter().map(|w| format!("{w:>width$}")).collect()
}

fn plain(value: Scalar) -> String {
    match value {
        Scalar::Bool(v) => v.to_string(),
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

fn float_words(dtype: Dtype, floats: &[Float], precision: Option<usize>) -> Vec<String> {
    let finite: Vec<&Float> = floats.iter().filter(|v| v.exact.is_finite()).collect();
    let exponential = wants_exponent(dtype, &finite);
    // (before the point, after it, the exponent) of each finite element, at its own width.
    let parts: Vec<(String, String, String)> = if exponential {
        let own = finite.iter().map(|v| v.exponential(precision).0.split_once('.').map_or(0, |(_, f)| f.len()));
        let digits = own.max().unwrap_or(0);
        let parts = finite.iter().map(|v| {
            let (mantissa, exponent) = split_exponent(&v.with_digits(digits, precision));
            let (whole, fraction) = mantissa.split_once('.').unwrap_or((&mantissa, ""));
            (whole.to_owned(), fraction.to_owned(), exponent)
        });
        parts.collect()
    } else {
        finite
            .iter()
            .map(|v| v.positional(precision))
            .map(|(whole, fraction)| (whole, fraction, String::new()))
            .collect()
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
    value: Scalar,
    exact: f64,
    /// A decimal, read as `f64`. As such it has the digits that are shortest in the element's own
    /// type.
    shortest: f64,
}

impl Float {
    fn new(value: Scalar) -> Option<Float> {
        // Rust has no shortest form for these types, so the first precision that reads back is used.
        // It is read as a text: `half` drops the last digits of an `f64` before it rounds.
        let search = |exact: f64| {
            let mut texts = (0..SHORT).map(|digits| format!("{exact:.digits$e}"));
            let text = texts.find(|text| Scalar::parse(value.dtype(), text) == Some(value));
            (exact, text.and_then(|text| text.parse().ok()).unwrap_or(exact))
        };
        let (exact, shortest) = match value {
            Scalar::F16(v) => search(v.to_f64()),
            Scalar::Bf16(v) => search(v.to_f64()),
            Scalar::F32(v) => (v.into(), v.to_string().parse().unwrap_or(v.into())),
            Scalar::F64(v) => (v, v),
            _ => return None,
        };
        Some(Float { value, exact, shortest })
    }

    fn non_finite(&self) -> &'static str {
        match (self.exact.is_nan(), self.exact < 0.0) {
            (true, _) => "nan",
            (_, true) => "-inf",
            _ => "inf",
        }
    }

    /// The digits before and after the decimal point, without trailing zeros.
    fn positional(&self, precision: Option<usize>) -> (String, String) {
        let text = self.shortest.to_string();
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        match precision {
            Some(most) if fraction.len() > most => {
                let text = format!("{:.most$}", self.exact);
                let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
                (whole.to_owned(), fraction.trim_end_matches('0').to_owned())
            }
            _ => (whole.to_owned(), fraction.to_owned()),
        }
    }

    /// The mantissa, without trailing zeros, and the exponent.
    fn exponential(&self, precision: Option<usize>) -> (String, String) {
        let (mantissa, exponent) = split_exponent(&format!("{:e}", self.shortest));
        match (mantissa.split_once('.'), precision) {
            (Some((_, fraction)), Some(most)) if fraction.len() > most => {
                let (mantissa, exponent) = split_exponent(&format!("{:.most$e}", self.exact));
                let mantissa = if most == 0 { &mantissa } else { mantissa.trim_end_matches('0') };
                (mantissa.to_owned(), exponent)
            }
            _ => (mantissa, exponent),
        }
    }

    /// The element with an exponent and this many digits after the point.
    fn with_digits(&self, digits: usize, precision: Option<usize>) -> String {
        let text = format!("{:.digits$e}", self.exact);
        // Next to a power of two, the nearest decimal of so few digits may be another element's.
        if precision.is_some() || Scalar::parse(self.value.dtype(), &text) == Some(self.value) {
            return text;
        }
        let text = format!("{:e}", self.shortest);
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        format!("{whole}.{fraction:0<digits$}e{exponent}")
    }
}

/// Arranges the words in brackets and lines, with ellipses.
struct Layout<'a> {
    shape: &'a [usize],
    shown: &'a [Vec<usize>],
    words: std::vec::IntoIter<String>,
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
            let between = format!(",{}{indent}", "\n".repeat(self.shape.len() - axis - 1));
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

    /// Appends the elements of the last axis, broken into lines.
    fn row(&mut self, indent: &str, count: usize, gap: usize, width: usize) {
        let mut column = indent.len();
        for k in 0..count {
            let word = self.words.next().unwrap_or_default();
            let ellipsis = (k == gap).then(|| "...".to_owned());
            for (nth, word) in ellipsis.into_iter().chain([word]).enumerate() {
                let first = k == 0 && nth == 0;
                if !first {
                    self.text.insert(self.text.trim_end_matches(' ').len(), ',');
                    column += 1;
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
