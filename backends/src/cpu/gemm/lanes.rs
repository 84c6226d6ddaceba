//! Registers of numbers: AVX-512, AVX2 with fused multiply-add, and arrays of 16 bytes, which the
//! Rust compiler keeps in registers, for other machines.

use std::ops::{Add, Mul};

use super::with;
use crate::abi::GemmCall;

/// A function that computes a product of a type's elements.
///
/// # Safety
/// The matrices are valid and aligned to their elements, and the result overlaps neither factor.
/// The working memory has [`super::WORK`] bytes that overlap none of them, aligned to 64. If the
/// call says that the right factor may be packed already, the working memory is as the calls before
/// it left it, and it holds what [`crate::abi::Packed`] asks for.
pub(in crate::cpu) type Way = unsafe fn(&GemmCall);

/// A type of numbers that products have.
pub(in crate::cpu) trait Element:
    Copy + Default + PartialEq + Add<Output = Self> + Mul<Output = Self>
{
    /// The functions that this machine can run, with the widest registers first.
    fn ways() -> [Option<Way>; 3];
}

/// A register of `N` numbers.
///
/// # Safety
/// All operations require that the machine has the register's instructions; loads and stores, that
/// the elements exist, of any alignment.
pub(super) trait Lanes<const N: usize>: Copy {
    type Element: Element;

    /// The number in each lane.
    unsafe fn splat(number: Self::Element) -> Self;

    unsafe fn load(from: *const Self::Element) -> Self;

    /// Loads the first lanes, at most `N`. The others are 0.
    unsafe fn load_first(from: *const Self::Element, lanes: usize) -> Self;

    unsafe fn store(self, to: *mut Self::Element);

    /// Stores the first lanes, at most `N`.
    unsafe fn store_first(self, to: *mut Self::Element, lanes: usize);

    unsafe fn add(self, other: Self) -> Self;

    /// `self * factor + sum`, rounded once.
    unsafe fn multiply_add(self, factor: Self, sum: Self) -> Self;

    /// The lanes of both in turns, in two registers.
    unsafe fn interleave(self, other: Self) -> (Self, Self);
}

/// Says the address of memory that is read soon.
#[inline(always)]
pub(super) fn prefetch<T, const HINT: i32>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: prefetching is a hint: it accesses no memory, and every processor has it.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<HINT>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// For memory that is read next, and for memory that is read after some other.
pub(super) const NEXT: i32 = 3;
pub(super) const LATER: i32 = 2;

/// The number of rows of a tile in arrays: their registers and three others are half of all.
const ROWS: usize = if cfg!(target_arch = "aarch64") { 12 } else { 6 };

macro_rules! elements {
    ($($element:ident, $array:literal: $wide:ident $wide_lanes:literal, $narrow:ident $narrow_lanes:literal;)+) => {
        $(impl Element for $element {
            #[inline]
            fn ways() -> [Option<Way>; 3] {
                unsafe fn arrays(call: &GemmCall) {
                    // SAFETY: guaranteed by the caller; every machine has arrays.
                    unsafe { with::<[$element; $array], $array, ROWS>(call) }
                }
                #[cfg(target_arch = "x86_64")]
                {
                    #[target_feature(enable = "avx512f")]
                    unsafe fn wide(call: &GemmCall) {
                        // SAFETY: guaranteed by the caller.
                        unsafe { with::<x86::$wide, $wide_lanes, 14>(call) }
                    }

                    #[target_feature(enable = "avx2,fma")]
                    unsafe fn narrow(call: &GemmCall) {
                        // SAFETY: guaranteed by the caller.
                        unsafe { with::<x86::$narrow, $narrow_lanes, 6>(call) }
                    }

                    let has_narrow = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
                    [
                        is_x86_feature_detected!("avx512f").then_some(wide as Way),
                        has_narrow.then_some(narrow as Way),
                        Some(arrays),
                    ]
                }
                #[cfg(not(target_arch = "x86_64"))]
                [Some(arrays), None, None]
            }
        }

        impl Lanes<$array> for [$element; $array] {
            type Element = $element;

            #[inline(always)]
            unsafe fn splat(number: $element) -> Self {
                [number; $array]
            }

            #[inline(always)]
            unsafe fn load(from: *const $element) -> Self {
                // SAFETY: guaranteed by the caller.
                unsafe { from.cast::<Self>().read_unaligned() }
            }

            #[inline(always)]
            unsafe fn load_first(from: *const $element, lanes: usize) -> Self {
                // SAFETY: guaranteed by the caller.
                std::array::from_fn(|lane| if lane < lanes { unsafe { *from.add(lane) } } else { 0.0 })
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut $element) {
                // SAFETY: guaranteed by the caller.
                unsafe { to.cast::<Self>().write_unaligned(self) }
            }

            #[inline(always)]
            unsafe fn store_first(self, to: *mut $element, lanes: usize) {
                for (lane, number) in self.into_iter().enumerate().take(lanes) {
                    // SAFETY: guaranteed by the caller.
                    unsafe { *to.add(lane) = number }
                }
            }

            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                std::array::from_fn(|lane| self[lane] + other[lane])
            }

            #[inline(always)]
            unsafe fn multiply_add(self, factor: Self, sum: Self) -> Self {
                // Without the instruction, it would be a call for each lane.
                let one = |x: $element, y: $element, z: $element| {
                    if cfg!(target_arch = "aarch64") { x.mul_add(y, z) } else { x * y + z }
                };
                std::array::from_fn(|lane| one(self[lane], factor[lane], sum[lane]))
            }

            #[inline(always)]
            unsafe fn interleave(self, other: Self) -> (Self, Self) {
                let at = |place: usize| if place % 2 == 0 { self[place / 2] } else { other[place / 2] };
                (std::array::from_fn(at), std::array::from_fn(|lane| at($array + lane)))
            }
        })+
    };
}

elements! {
    f32, 4: F32x16 16, F32x8 8;
    f64, 2: F64x8 8, F64x4 4;
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::Lanes;

    /// The registers of a type: loads and stores of some lanes take a mask.
    macro_rules! registers {
        ($(
            $name:ident: [$element:ident; $lanes:literal] in $register:ident;
            $splat:ident $load:ident $store:ident $add:ident $multiply_add:ident;
            $first:ident($mask:ident) $load_first:expr, $store_first:expr;
            ($a:ident, $b:ident) $interleave:expr;
        )+) => {$(
            #[derive(Clone, Copy)]
            pub(super) struct $name($register);

            impl Lanes<$lanes> for $name {
                type Element = $element;

                #[inline(always)]
                unsafe fn splat(number: $element) -> Self {
                    // SAFETY: guaranteed by the caller, here and below.
                    unsafe { $name($splat(number)) }
                }

                #[inline(always)]
                unsafe fn load(from: *const $element) -> Self {
                    // SAFETY: as above.
                    unsafe { $name($load(from)) }
                }

                #[inline(always)]
                unsafe fn load_first(from: *const $element, lanes: usize) -> Self {
                    // SAFETY: as above; the mask excludes missing elements.
                    unsafe {
                        let $mask = $first(lanes);
                        $name($load_first(from))
                    }
                }

                #[inline(always)]
                unsafe fn store(self, to: *mut $element) {
                    // SAFETY: as above.
                    unsafe { $store(to, self.0) }
                }

                #[inline(always)]
                unsafe fn store_first(self, to: *mut $element, lanes: usize) {
                    // SAFETY: as above; the mask excludes missing elements.
                    unsafe {
                        let $mask = $first(lanes);
                        $store_first(to, self.0);
                    }
                }

                #[inline(always)]
                unsafe fn add(self, other: Self) -> Self {
                    // SAFETY: as above.
                    unsafe { $name($add(self.0, other.0)) }
                }

                #[inline(always)]
                unsafe fn multiply_add(self, factor: Self, sum: Self) -> Self {
                    // SAFETY: as above.
                    unsafe { $name($multiply_add(self.0, factor.0, sum.0)) }
                }

                #[inline(always)]
                unsafe fn interleave(self, other: Self) -> (Self, Self) {
                    let ($a, $b) = (self.0, other.0);
                    // SAFETY: as above.
                    let (low, high) = unsafe { $interleave };
                    ($name(low), $name(high))
                }
            }
        )+};
    }

    registers! {
        F32x16: [f32; 16] in __m512;
        _mm512_set1_ps _mm512_loadu_ps _mm512_storeu_ps _mm512_add_ps _mm512_fmadd_ps;
        first16(mask) |from| _mm512_maskz_loadu_ps(mask, from), |to, x| _mm512_mask_storeu_ps(to, mask, x);
        (a, b) (
            _mm512_permutex2var_ps(
                a, _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23), b,
            ),
            _mm512_permutex2var_ps(
                a, _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31), b,
            ),
        );

        F64x8: [f64; 8] in __m512d;
        _mm512_set1_pd _mm512_loadu_pd _mm512_storeu_pd _mm512_add_pd _mm512_fmadd_pd;
        first8(mask) |from| _mm512_maskz_loadu_pd(mask, from), |to, x| _mm512_mask_storeu_pd(to, mask, x);
        (a, b) (
            _mm512_permutex2var_pd(a, _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), b),
            _mm512_permutex2var_pd(a, _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15), b),
        );

        F32x8: [f32; 8] in __m256;
        _mm256_set1_ps _mm256_loadu_ps _mm256_storeu_ps _mm256_add_ps _mm256_fmadd_ps;
        words(mask) |from| _mm256_maskload_ps(from, mask), |to, x| _mm256_maskstore_ps(to, mask, x);
        (a, b) halves(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));

        F64x4: [f64; 4] in __m256d;
        _mm256_set1_pd _mm256_loadu_pd _mm256_storeu_pd _mm256_add_pd _mm256_fmadd_pd;
        double_words(mask) |from| _mm256_maskload_pd(from, mask), |to, x| _mm256_maskstore_pd(to, mask, x);
        (a, b) wide_halves(_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
    }

    /// The mask of the first lanes.
    #[inline(always)]
    unsafe fn first16(lanes: usize) -> __mmask16 {
        ((1u32 << lanes.min(16)) - 1) as __mmask16
    }

    #[inline(always)]
    unsafe fn first8(lanes: usize) -> __mmask8 {
        ((1u32 << lanes.min(8)) - 1) as __mmask8
    }

    #[inline(always)]
    unsafe fn words(lanes: usize) -> __m256i {
        // SAFETY: the caller has AVX2.
        unsafe { _mm256_cmpgt_epi32(_mm256_set1_epi32(lanes.min(8) as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)) }
    }

    #[inline(always)]
    unsafe fn double_words(lanes: usize) -> __m256i {
        // SAFETY: the caller has AVX2.
        unsafe { _mm256_cmpgt_epi64(_mm256_set1_epi64x(lanes.min(4) as i64), _mm256_setr_epi64x(0, 1, 2, 3)) }
    }

    /// Instructions interleave within each half of a register; this puts the halves in order.
    #[inline(always)]
    unsafe fn halves(low: __m256, high: __m256) -> (__m256, __m256) {
        // SAFETY: the caller has AVX2.
        unsafe { (_mm256_permute2f128_ps::<0x20>(low, high), _mm256_permute2f128_ps::<0x31>(low, high)) }
    }

    #[inline(always)]
    unsafe fn wide_halves(low: __m256d, high: __m256d) -> (__m256d, __m256d) {
        // SAFETY: the caller has AVX2.
        unsafe { (_mm256_permute2f128_pd::<0x20>(low, high), _mm256_permute2f128_pd::<0x31>(low, high)) }
    }
}
