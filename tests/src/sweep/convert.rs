//! The conversions as Rust and `half` define them, and numbers in memory.

use fuseloop::Dtype;
use half::{bf16, f16};

/// A type of the language as Rust has it.
pub(super) trait Number: Copy + Send + Sync + 'static {
    const DTYPE: Dtype;
    /// Reads it from the bytes that it occupies.
    fn read(bytes: &[u8]) -> Self;
    /// The same bits, or both NaN.
    fn same(self, other: Self) -> bool;
}

macro_rules! number {
    ($($ty:ty: $dtype:ident, $is_nan:expr;)*) => {
        $(impl Number for $ty {
            const DTYPE: Dtype = Dtype::$dtype;
            fn read(bytes: &[u8]) -> $ty {
                let mut own = [0; size_of::<$ty>()];
                own.copy_from_slice(bytes);
                <$ty>::from_ne_bytes(own)
            }
            fn same(self, other: $ty) -> bool {
                let is_nan: fn($ty) -> bool = $is_nan;
                self.to_ne_bytes() == other.to_ne_bytes() || is_nan(self) && is_nan(other)
            }
        })*
    };
}

number! {
    i8: I8, |_| false;
    u8: U8, |_| false;
    i16: I16, |_| false;
    u16: U16, |_| false;
    i32: I32, |_| false;
    u32: U32, |_| false;
    i64: I64, |_| false;
    u64: U64, |_| false;
    f16: F16, f16::is_nan;
    bf16: Bf16, bf16::is_nan;
    f32: F32, f32::is_nan;
    f64: F64, f64::is_nan;
}

impl Number for bool {
    const DTYPE: Dtype = Dtype::Bool;
    fn read(bytes: &[u8]) -> bool {
        bytes == [1]
    }
    fn same(self, other: bool) -> bool {
        self == other
    }
}

/// The conversion to another type.
pub(super) trait As<T> {
    fn to(self) -> T;
}

/// `$exact` holds every value of the type and of an `f32` near it.
macro_rules! primitive {
    ($($from:ty, $exact:ty;)*) => {
        $(
            primitive!($from => i8 u8 i16 u16 i32 u32 i64 u64 f32 f64);
            impl As<bool> for $from {
                fn to(self) -> bool {
                    self != <$from>::default()
                }
            }
            impl As<f16> for $from {
                fn to(self) -> f16 {
                    f16::from_f32(odd!(self, $exact))
                }
            }
            impl As<bf16> for $from {
                fn to(self) -> bf16 {
                    bf16::from_f32(odd!(self, $exact))
                }
            }
        )*
    };
    ($from:ty => $($to:ty)*) => {
        $(impl As<$to> for $from {
            fn to(self) -> $to {
                self as $to
            }
        })*
    };
}

/// Rounded to odd: to an `f32` towards zero, with the last bit set if that was inexact. A second
/// rounding then has the effect of a single one.
macro_rules! odd {
    ($v:expr, $exact:ty) => {{
        let (near, exact) = ($v as f32, $v as $exact);
        if near.is_nan() || near as $exact == exact {
            near
        } else {
            let beyond = if exact < (0 as $exact) { (near as $exact) < exact } else { (near as $exact) > exact };
            f32::from_bits((near.to_bits() - u32::from(beyond)) | 1)
        }
    }};
}

primitive! {
    i8, i128;
    u8, i128;
    i16, i128;
    u16, i128;
    i32, i128;
    u32, i128;
    i64, i128;
    u64, i128;
    f32, f64;
    f64, f64;
}

macro_rules! through {
    ($from:ty, $as:expr => $($to:ty)*) => {
        $(impl As<$to> for $from {
            fn to(self) -> $to {
                $as(self).to()
            }
        })*
    };
}

through!(bool, u8::from => bool i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64);
through!(f16, f16::to_f32 => bool i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64);
through!(bf16, bf16::to_f32 => bool i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64);
