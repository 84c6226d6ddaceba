//! Knowledge about scalars without the data: a value, a range while indices run, or nothing.
//!
//! An unknown value carries the reason: either indices that currently run over several values, so
//! that looking at fewer of them at a time would help; or data, where nothing helps.

use ir::{Arithmetic, BinaryOp, CompareOp, Dtype, Scalar, UnaryOp};

use super::accesses::Places;

/// A scalar, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Known {
    /// Its value.
    Value(Scalar),
    /// An integer between two, both included.
    Range {
        least: i64,
        greatest: i64,
        /// The indices that keep it unknown; `None` if it depends on data too.
        because: Places,
    },
    /// Nothing.
    Nothing {
        /// The indices that keep it unknown; `None` if it depends on data.
        because: Places,
    },
}

/// Depends on data.
pub(super) const UNKNOWN: Known = Known::Nothing { because: Places::NONE };

impl Known {
    /// An integer of 64 bits between two.
    pub fn between(least: i64, greatest: i64, because: Places) -> Known {
        if least == greatest { Known::Value(Scalar::I64(least)) } else { Known::Range { least, greatest, because } }
    }

    /// The truth value, or the indices that keep it unknown.
    pub fn truth(self) -> Result<bool, Places> {
        match self {
            Known::Value(value) => Ok(value == Scalar::Bool(true)),
            Known::Range { because, .. } | Known::Nothing { because } => Err(because),
        }
    }

    /// The least and the greatest value, of an integer.
    pub fn range(self) -> Option<(i64, i64)> {
        match self {
            Known::Value(value) if value.dtype().is_int() => {
                let n =
                    if let Scalar::U64(v) = value { i64::try_from(v).ok()? } else { ir::bind::integer(Some(value)) };
                Some((n, n))
            }
            Known::Range { least, greatest, .. } => Some((least, greatest)),
            Known::Value(_) | Known::Nothing { .. } => None,
        }
    }

    /// The reason why it is unknown; `None` if it is known.
    pub fn because(self) -> Option<Places> {
        match self {
            Known::Value(_) => None,
            Known::Range { because, .. } | Known::Nothing { because } => Some(because),
        }
    }
}

/// The reason why the result of an operation on these is unknown.
pub(super) fn because(operands: &[Known]) -> Places {
    let reasons = operands.iter().filter_map(|known| known.because());
    let joined = reasons.reduce(|a, b| if a.is_empty() || b.is_empty() { Places::NONE } else { a.and(b) });
    joined.unwrap_or_default()
}

/// A primitive of one operand.
pub(super) fn unary(arithmetic: &Arithmetic, op: UnaryOp, a: Known, dtype: Dtype) -> Known {
    match (op, a, a.range()) {
        (_, Known::Value(a), _) => Known::Value((arithmetic.unary)(op, a)),
        (UnaryOp::Neg, _, Some((low, high))) => within(arithmetic, dtype, -i128::from(high), -i128::from(low), &[a]),
        _ => Known::Nothing { because: because(&[a]) },
    }
}

/// A primitive of two operands.
pub(super) fn binary(arithmetic: &Arithmetic, op: BinaryOp, a: Known, b: Known, dtype: Dtype) -> Known {
    if let (Known::Value(a), Known::Value(b)) = (a, b) {
        return Known::Value((arithmetic.binary)(op, a, b));
    }
    // One side can decide alone.
    for side in [a, b] {
        if let (BinaryOp::And, Known::Value(Scalar::Bool(false))) | (BinaryOp::Or, Known::Value(Scalar::Bool(true))) =
            (op, side)
        {
            return side;
        }
    }
    let nothing = if dtype == Dtype::Bool && matches!(op, BinaryOp::And | BinaryOp::Or) {
        // If one side depends on data, the other may still decide.
        let [a, b] = [a, b].map(|side| side.because().unwrap_or_default());
        Known::Nothing { because: a.and(b) }
    } else {
        Known::Nothing { because: because(&[a, b]) }
    };
    let (Some((low, high)), Some((least, greatest))) = (a.range(), b.range()) else { return nothing };
    let [low, high, least, greatest] = [low, high, least, greatest].map(i128::from);
    let (from, to) = match op {
        BinaryOp::Add => (low + least, high + greatest),
        BinaryOp::Sub => (low - greatest, high - least),
        BinaryOp::Min => (low.min(least), high.min(greatest)),
        BinaryOp::Max => (low.max(least), high.max(greatest)),
        BinaryOp::Mul => {
            let products = [low * least, low * greatest, high * least, high * greatest];
            (products.into_iter().fold(i128::MAX, i128::min), products.into_iter().fold(i128::MIN, i128::max))
        }
        BinaryOp::Div if least == greatest && least > 0 => (low / least, high / least),
        BinaryOp::Rem if least == greatest && least > 0 && low >= 0 && low / least == high / least => {
            (low % least, high % least)
        }
        BinaryOp::Div
        | BinaryOp::Rem
        | BinaryOp::And
        | BinaryOp::Or
        | BinaryOp::Xor
        | BinaryOp::Shl
        | BinaryOp::Shr => return nothing,
    };
    within(arithmetic, dtype, from, to, &[a, b])
}

/// A comparison.
pub(super) fn compare(arithmetic: &Arithmetic, op: CompareOp, a: Known, b: Known) -> Known {
    if let (Known::Value(a), Known::Value(b)) = (a, b) {
        return Known::Value(Scalar::Bool((arithmetic.compare)(op, a, b)));
    }
    let nothing = Known::Nothing { because: because(&[a, b]) };
    let (Some((low, high)), Some((least, greatest))) = (a.range(), b.range()) else { return nothing };
    let (below, above) = (high < least, low > greatest);
    let decided = match op {
        CompareOp::Lt if below => true,
        CompareOp::Lt if low >= greatest => false,
        CompareOp::Le if high <= least => true,
        CompareOp::Le if above => false,
        CompareOp::Gt if above => true,
        CompareOp::Gt if high <= least => false,
        CompareOp::Ge if low >= greatest => true,
        CompareOp::Ge if below => false,
        CompareOp::Eq if below || above => false,
        CompareOp::Ne if below || above => true,
        CompareOp::Eq | CompareOp::Ne | CompareOp::Lt | CompareOp::Le | CompareOp::Gt | CompareOp::Ge => {
            return nothing;
        }
    };
    Known::Value(Scalar::Bool(decided))
}

/// A conversion.
pub(super) fn cast(arithmetic: &Arithmetic, to: Dtype, a: Known) -> Known {
    match (a, a.range()) {
        (Known::Value(a), _) => Known::Value((arithmetic.cast)(to, a)),
        (_, Some((low, high))) if to.is_int() => within(arithmetic, to, low.into(), high.into(), &[a]),
        _ => Known::Nothing { because: because(&[a]) },
    }
}

/// A range of integers, if it does not wrap in the type.
fn within(arithmetic: &Arithmetic, dtype: Dtype, least: i128, greatest: i128, operands: &[Known]) -> Known {
    let because = because(operands);
    let bits = 8 * dtype.bytes();
    let (lowest, highest) = match dtype.is_signed_int() {
        true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        false => (0, (1i128 << bits) - 1),
    };
    match (i64::try_from(least), i64::try_from(greatest)) {
        (Ok(low), Ok(high)) if least >= lowest && greatest <= highest => {
            // A range of one value keeps its type.
            match low == high {
                true => Known::Value((arithmetic.cast)(dtype, Scalar::I64(low))),
                false => Known::Range { least: low, greatest: high, because },
            }
        }
        _ => Known::Nothing { because },
    }
}
