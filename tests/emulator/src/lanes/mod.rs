//! The arithmetic of instructions: stateless functions from rows of lanes to a row. One is chosen
//! by operation and type when the text is decoded; running it is one loop over the lanes.
//!
//! A function computes all 32 lanes, including those of inactive threads and of registers that were
//! never written, so none may panic on any bits. The result is zero-extended, as rows are.

use half::{bf16, f16};

use crate::types::Row;

pub(crate) mod bits;
pub(crate) mod compare;
pub(crate) mod convert;
pub(crate) mod float;
pub(crate) mod integer;
pub(crate) mod rounding;

/// A function of up to four rows. It ignores those that it does not need.
pub(crate) type Map = fn(&mut Row, [&Row; 4]);

/// A comparison of two rows: the mask of lanes where it holds.
pub(crate) type Compare = fn(&Row, &Row) -> u32;

/// A type that a lane can hold.
pub(crate) trait Lane: Copy {
    /// The low bits of a register, as this type.
    fn of(bits: u64) -> Self;

    /// The value as the bits of a register. A NaN becomes the canonical one, as GPUs do.
    fn bits(self) -> u64;
}

macro_rules! integer_lanes {
    ($($t:ty as $unsigned:ty),*) => {
        $(impl Lane for $t {
            fn of(bits: u64) -> Self {
                bits as $t
            }
            fn bits(self) -> u64 {
                u64::from(self as $unsigned)
            }
        })*
    };
}
integer_lanes!(u8 as u8, u16 as u16, u32 as u32, u64 as u64, i8 as u8, i16 as u16, i32 as u32, i64 as u64);

macro_rules! float_lanes {
    ($($t:ty as $unsigned:ty, NaN $nan:literal);*) => {
        $(impl Lane for $t {
            fn of(bits: u64) -> Self {
                <$t>::from_bits(bits as $unsigned)
            }
            fn bits(self) -> u64 {
                if self.is_nan() { $nan } else { u64::from(self.to_bits()) }
            }
        })*
    };
}
float_lanes!(
    f16 as u16, NaN 0x7fff;
    bf16 as u16, NaN 0x7fff;
    f32 as u32, NaN 0x7fff_ffff;
    f64 as u64, NaN 0x7fff_ffff_ffff_ffff
);

/// A `Map` of one, two, three or four typed arguments.
macro_rules! map {
    (|$a:ident: $ta:ty| $e:expr) => {
        map!(|$a: $ta, _b: u64, _c: u64, _d: u64| $e)
    };
    (|$a:ident: $ta:ty, $b:ident: $tb:ty| $e:expr) => {
        map!(|$a: $ta, $b: $tb, _c: u64, _d: u64| $e)
    };
    (|$a:ident: $ta:ty, $b:ident: $tb:ty, $c:ident: $tc:ty| $e:expr) => {
        map!(|$a: $ta, $b: $tb, $c: $tc, _d: u64| $e)
    };
    (|$a:ident: $ta:ty, $b:ident: $tb:ty, $c:ident: $tc:ty, $d:ident: $td:ty| $e:expr) => {{
        let map: $crate::lanes::Map = |row, from| {
            for (lane, to) in row.iter_mut().enumerate() {
                let $a = <$ta as $crate::lanes::Lane>::of(from[0][lane]);
                let $b = <$tb as $crate::lanes::Lane>::of(from[1][lane]);
                let $c = <$tc as $crate::lanes::Lane>::of(from[2][lane]);
                let $d = <$td as $crate::lanes::Lane>::of(from[3][lane]);
                *to = $crate::lanes::Lane::bits($e);
            }
        };
        map
    }};
}
pub(crate) use map;

/// `Some` of an expression in which `$T` is the Rust type of a PTX type, if that is among those
/// listed.
macro_rules! by_type {
    ($ty:expr, $T:ident in [$($($variant:ident)|+ = $t:ty),* $(,)?] => $e:expr) => {
        match $ty {
            $($(Type::$variant)|+ => {
                type $T = $t;
                Some($e)
            })*
            _ => None,
        }
    };
}
pub(crate) use by_type;

/// `by_type` over the integers of 16 bits and more.
macro_rules! integers {
    ($ty:expr, $T:ident => $e:expr) => {
        $crate::lanes::by_type!($ty, $T in [U16 = u16, U32 = u32, U64 = u64, S16 = i16, S32 = i32, S64 = i64] => $e)
    };
}
pub(crate) use integers;
