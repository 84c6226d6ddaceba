//! Rounds an exact number to a floating-point format, in each direction. Everything that is not an
//! operation of the host's `f32` or `f64` goes through here: narrow formats, directed rounding,
//! conversions of integers.

/// Which way to round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// To nearest, ties to even.
    Nearest,
    /// Towards zero.
    Zero,
    /// Towards minus infinity.
    Down,
    /// Towards plus infinity.
    Up,
}

/// A binary floating-point format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    /// Bits behind the point.
    fraction: u32,
    exponent: u32,
}

pub(crate) const F16: Format = Format { fraction: 10, exponent: 5 };
pub(crate) const BF16: Format = Format { fraction: 7, exponent: 8 };
pub(crate) const F32: Format = Format { fraction: 23, exponent: 8 };
pub(crate) const F64: Format = Format { fraction: 52, exponent: 11 };

impl Format {
    fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    fn infinity(self) -> u64 {
        ((1 << self.exponent) - 1) << self.fraction
    }

    fn nan(self) -> u64 {
        (1 << (self.fraction + self.exponent)) - 1
    }

    fn signed(self, negative: bool, bits: u64) -> u64 {
        u64::from(negative) << (self.fraction + self.exponent) | bits
    }

    /// The bits of `±magnitude * 2^exponent`, rounded once.
    pub(crate) fn round(self, negative: bool, magnitude: u128, exponent: i32, direction: Direction) -> u64 {
        if magnitude == 0 {
            return self.signed(negative, 0);
        }
        let top = 127 - magnitude.leading_zeros() as i32 + exponent;
        let least = 1 - self.bias();
        // The exponent of the last bit kept. It is constant below the smallest normal number.
        let last = top.max(least) - self.fraction as i32;
        let shift = last - exponent;
        let (kept, rest, half) = match shift {
            ..=0 => (magnitude << -shift, 0, 1),
            1..=127 => (magnitude >> shift, magnitude & ((1 << shift) - 1), 1 << (shift - 1)),
            // The whole number is at most half of the last bit.
            128 => (0, magnitude, 1 << 127),
            _ => (0, 1, 2),
        };
        let up = match direction {
            Direction::Nearest => rest > half || rest == half && kept & 1 == 1,
            Direction::Zero => false,
            Direction::Down => negative && rest != 0,
            Direction::Up => !negative && rest != 0,
        };
        let kept = kept as u64 + u64::from(up);
        let implicit = 1u64 << self.fraction;
        // A fraction that carries into the next power of two increments the exponent by itself.
        let bits = if kept < implicit {
            kept
        } else {
            (((last + self.fraction as i32 - least + 1) as u64) << self.fraction) + (kept - implicit)
        };
        if bits < self.infinity() {
            return self.signed(negative, bits);
        }
        let to_infinity = match direction {
            Direction::Nearest => true,
            Direction::Zero => false,
            Direction::Down => negative,
            Direction::Up => !negative,
        };
        self.signed(negative, if to_infinity { self.infinity() } else { self.infinity() - 1 })
    }

    /// The bits of a double, rounded once; of any NaN, the canonical one.
    pub(crate) fn of(self, value: f64, direction: Direction) -> u64 {
        if value.is_nan() {
            return self.nan();
        }
        let negative = value.is_sign_negative();
        if value.is_infinite() {
            return self.signed(negative, self.infinity());
        }
        let bits = value.to_bits();
        let (fraction, exponent) = (bits & ((1 << 52) - 1), (bits >> 52 & 0x7ff) as i32);
        let normal = u64::from(exponent != 0) << 52;
        self.round(negative, u128::from(fraction | normal), exponent.max(1) - 1075, direction)
    }

    /// The bits of an integer, rounded once.
    pub(crate) fn of_integer(self, value: i128, direction: Direction) -> u64 {
        self.round(value < 0, value.unsigned_abs(), 0, direction)
    }
}

/// `a + b` rounded to odd. Rounding that to a format of at most 51 bits is the same as rounding the
/// exact sum once.
pub(crate) fn add_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    if !sum.is_finite() {
        return sum;
    }
    // Knuth's two-sum: what rounding took away, exactly.
    let part = sum - a;
    let error = (a - (sum - part)) + (b - part);
    if error == 0.0 || sum.to_bits() & 1 == 1 {
        return sum;
    }
    // The exact sum lies between two doubles; the odd one is the neighbour on the side of the
    // error.
    let away = (error > 0.0) == (sum > 0.0);
    f64::from_bits(if away { sum.to_bits() + 1 } else { sum.to_bits() - 1 })
}
