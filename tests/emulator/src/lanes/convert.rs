//! `cvt`: between all types of numbers.

use half::{bf16, f16};

use crate::lanes::rounding::{self, Direction, Format};
use crate::lanes::{Lane, Map, map};
use crate::types::{Class, Type, mask};

/// A conversion. Decoding has checked that the rounding is valid for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conversion {
    pub(crate) from: Type,
    pub(crate) to: Type,
    /// The rounding of a float to a narrower one, or of an integer to a float.
    pub(crate) direction: Direction,
    /// How a float becomes integral, if it does.
    pub(crate) integral: Option<Direction>,
    pub(crate) saturate: bool,
    /// Bits of the register that takes the result: integers are extended to it.
    pub(crate) register: u32,
}

/// A number on its way.
#[derive(Clone, Copy)]
enum Number {
    Integer(i128),
    Float(f64),
}

impl Conversion {
    pub(crate) fn apply(&self, bits: u64) -> u64 {
        let number = self.read(bits);
        match self.to.class() {
            Class::Float => self.float(number),
            _ => {
                let value = match number {
                    Number::Integer(i) if self.saturate => self.clamp(i),
                    Number::Integer(i) => i,
                    Number::Float(f) => self.integer(f),
                };
                self.extend(value)
            }
        }
    }

    fn read(&self, bits: u64) -> Number {
        match self.from {
            Type::F16 => Number::Float(f16::of(bits).to_f64()),
            Type::Bf16 => Number::Float(bf16::of(bits).to_f64()),
            Type::F32 => Number::Float(f64::from(f32::of(bits))),
            Type::F64 => Number::Float(f64::of(bits)),
            Type::S8 => Number::Integer(i128::from(bits as i8)),
            Type::S16 => Number::Integer(i128::from(bits as i16)),
            Type::S32 => Number::Integer(i128::from(bits as i32)),
            Type::S64 => Number::Integer(i128::from(bits as i64)),
            _ => Number::Integer(i128::from(bits & self.from.mask())),
        }
    }

    fn float(&self, number: Number) -> u64 {
        let format = format_of(self.to);
        match number {
            Number::Integer(i) => {
                let rounded = if self.saturate { i.clamp(0, 1) } else { i };
                format.of_integer(rounded, self.direction)
            }
            Number::Float(f) => {
                let f = match self.integral {
                    Some(direction) => integral(f, direction),
                    None => f,
                };
                // Saturation clamps to the unit interval and turns a NaN into zero.
                let f = if self.saturate { if f > 0.0 { f.min(1.0) } else { 0.0 } } else { f };
                format.of(f, self.direction)
            }
        }
    }

    /// A value out of range becomes the nearest end of the range.
    fn integer(&self, f: f64) -> i128 {
        if f.is_nan() {
            // In conversions through 64 bits, the hardware has a special result for a NaN.
            let wide = self.from == Type::F64 || self.to.bits() == 64;
            return if wide { 1 << (self.to.bits() - 1) } else { 0 };
        }
        self.clamp(integral(f, self.integral.unwrap_or(Direction::Zero)) as i128)
    }

    fn clamp(&self, integer: i128) -> i128 {
        let bits = self.to.bits();
        if self.to.signed() {
            integer.clamp(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        } else {
            integer.clamp(0, (1 << bits) - 1)
        }
    }

    /// The low bits of an integer, extended to the register as its type says.
    fn extend(&self, integer: i128) -> u64 {
        let low = integer as u64 & self.to.mask();
        let extended = if self.to.signed() {
            let shift = 64 - self.to.bits();
            ((low << shift) as i64 >> shift) as u64
        } else {
            low
        };
        extended & mask(self.register)
    }
}

fn format_of(ty: Type) -> Format {
    match ty {
        Type::F16 => rounding::F16,
        Type::Bf16 => rounding::BF16,
        Type::F64 => rounding::F64,
        _ => rounding::F32,
    }
}

fn integral(f: f64, direction: Direction) -> f64 {
    match direction {
        Direction::Nearest => f.round_ties_even(),
        Direction::Zero => f.trunc(),
        Direction::Down => f.floor(),
        Direction::Up => f.ceil(),
    }
}

/// Two singles to a pair of halves, the first in the high half.
pub(crate) fn pack(ty: Type) -> Option<Map> {
    match ty {
        Type::F16x2 => Some(map!(|a: f32, b: f32| pair(f16::from_f32(a).bits(), f16::from_f32(b).bits()))),
        Type::Bf16x2 => Some(map!(|a: f32, b: f32| pair(bf16::from_f32(a).bits(), bf16::from_f32(b).bits()))),
        _ => None,
    }
}

fn pair(high: u64, low: u64) -> u32 {
    (high << 16 | low) as u32
}

/// Rounds to the nearest number of eleven bits, ties away from zero. A NaN stays a NaN.
pub(crate) fn to_tf32() -> Map {
    map!(|a: f32| if a.is_finite() { f32::from_bits((a.to_bits() + 0x1000) & !0x1fff) } else { a })
}
