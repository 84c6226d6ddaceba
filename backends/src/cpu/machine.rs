//! The instruction sets and memory systems that leaves are generated for.

use iced_x86::{Code, Register};

use super::options::{MemoryRegime, Simd};

/// An instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Isa {
    /// 512-bit vectors, with mask registers.
    Avx512,
    /// 256-bit vectors, with fused multiply-add and `f16` conversions. A mask is a vector of lanes
    /// that are all ones or all zeros.
    Avx2,
}

/// How a machine best reads and writes arrays that do not fit into its caches.
#[derive(Clone, Copy)]
pub(super) struct Memory {
    far: Far,
    /// Whether the hardware prefetcher continues along each page that is touched: see `prefetch`.
    pub(super) along_pages: bool,
}

/// Which arrays count as larger than a cache.
#[derive(Clone, Copy)]
enum Far {
    All,
    Larger,
    None,
}

impl Memory {
    /// The memory system of this machine.
    pub(super) fn here(regime: MemoryRegime) -> Memory {
        match regime {
            MemoryRegime::Auto => Memory { far: Far::Larger, along_pages: runs_along_pages() },
            MemoryRegime::Pages => Memory { far: Far::All, along_pages: true },
            MemoryRegime::Streams => Memory { far: Far::All, along_pages: false },
        }
    }

    /// For an unknown machine: assumes the page prefetcher, since machines with it gain as much as
    /// others lose.
    #[cfg(feature = "objects")]
    pub(super) fn unknown() -> Memory {
        Memory { far: Far::Larger, along_pages: true }
    }

    /// The same for kernels that work on a part of their arrays that is in a cache.
    pub(super) fn near(self) -> Memory {
        Memory { far: Far::None, ..self }
    }

    /// The size in bytes above which an array counts as larger than a cache of `bytes`.
    pub(super) fn limit(self, bytes: i64) -> i64 {
        match self.far {
            Far::All => -1,
            Far::Larger => bytes,
            Far::None => i64::MAX,
        }
    }
}

/// Whether this processor has the page prefetcher: Intel's do.
fn runs_along_pages() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        static INTEL: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| {
            let found = std::arch::x86_64::__cpuid(0);
            [found.ebx, found.edx, found.ecx].map(u32::to_le_bytes).concat() == *b"GenuineIntel"
        });
        *INTEL
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

/// Moves of whole registers, for any element type.
pub(super) struct Moves {
    /// Broadcasts of four and eight bytes.
    pub(super) broadcast: [Code; 2],
    pub(super) load: Code,
    pub(super) store: Code,
    pub(super) copy: Code,
}

static AVX512: Moves = Moves {
    broadcast: [Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32, Code::EVEX_Vpbroadcastq_zmm_k1z_xmmm64],
    load: Code::EVEX_Vmovups_zmm_k1z_zmmm512,
    store: Code::EVEX_Vmovups_zmmm512_k1z_zmm,
    copy: Code::EVEX_Vmovaps_zmm_k1z_zmmm512,
};

static AVX2: Moves = Moves {
    broadcast: [Code::VEX_Vpbroadcastd_ymm_xmmm32, Code::VEX_Vpbroadcastq_ymm_xmmm64],
    load: Code::VEX_Vmovups_ymm_ymmm256,
    store: Code::VEX_Vmovups_ymmm256_ymm,
    copy: Code::VEX_Vmovaps_ymm_ymmm256,
};

impl Isa {
    /// The instruction set for a vector width, if the machine has it; the widest for `Auto`.
    pub(super) fn of(simd: Simd) -> Option<Isa> {
        let wanted: &[Isa] = match simd {
            Simd::W128 => &[],
            Simd::W256 => &[Isa::Avx2],
            Simd::Auto | Simd::W512 => &[Isa::Avx512, Isa::Avx2],
        };
        wanted.iter().copied().find(|isa| isa.is_here())
    }

    /// Whether this machine supports it.
    pub(super) fn is_here(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            // All processors with AVX-512 have the features that `Avx2` requires as well.
            use std::arch::is_x86_feature_detected as has;
            let has = match self {
                Isa::Avx512 => {
                    has!("avx512f") && has!("avx512dq") && has!("avx512bw") && has!("avx512vl") && has!("bmi2")
                }
                Isa::Avx2 => has!("avx2") && has!("fma") && has!("f16c"),
            };
            has && cfg!(unix)
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            false
        }
    }

    /// The size of a vector register in bytes.
    pub(super) fn bytes(self) -> u32 {
        match self {
            Isa::Avx512 => 64,
            Isa::Avx2 => 32,
        }
    }

    /// The number of elements in a group: the 32-bit lanes of a register.
    pub(super) fn group(self) -> i32 {
        self.half() * 2
    }

    /// The number of 64-bit lanes in a register.
    pub(super) fn half(self) -> i32 {
        self.bytes().cast_signed() / 8
    }

    /// The number of vector registers.
    pub(super) fn vectors(self) -> u32 {
        match self {
            Isa::Avx512 => 32,
            Isa::Avx2 => 16,
        }
    }

    /// The first vector register.
    pub(super) fn first(self) -> Register {
        match self {
            Isa::Avx512 => Register::ZMM0,
            Isa::Avx2 => Register::YMM0,
        }
    }

    pub(super) fn moves(self) -> &'static Moves {
        match self {
            Isa::Avx512 => &AVX512,
            Isa::Avx2 => &AVX2,
        }
    }
}

impl Simd {
    /// Whether this machine has vectors of this width.
    pub fn is_here(self) -> bool {
        match self {
            Simd::Auto | Simd::W128 => true,
            Simd::W256 => Isa::Avx2.is_here(),
            Simd::W512 => Isa::Avx512.is_here(),
        }
    }
}

/// Which operand a fused multiply-add overwrites.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// The first factor; the second factor and the addend follow.
    F213,
    /// A factor; the addend and the other factor follow.
    F132,
    /// The addend.
    F231,
}

impl Form {
    pub(super) fn code(self, isa: Isa, wide: bool) -> Code {
        let codes = match (self, isa) {
            (Form::F213, Isa::Avx512) => {
                [Code::EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er, Code::EVEX_Vfmadd213pd_zmm_k1z_zmm_zmmm512b64_er]
            }
            (Form::F132, Isa::Avx512) => {
                [Code::EVEX_Vfmadd132ps_zmm_k1z_zmm_zmmm512b32_er, Code::EVEX_Vfmadd132pd_zmm_k1z_zmm_zmmm512b64_er]
            }
            (Form::F231, Isa::Avx512) => {
                [Code::EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er, Code::EVEX_Vfmadd231pd_zmm_k1z_zmm_zmmm512b64_er]
            }
            (Form::F213, Isa::Avx2) => [Code::VEX_Vfmadd213ps_ymm_ymm_ymmm256, Code::VEX_Vfmadd213pd_ymm_ymm_ymmm256],
            (Form::F132, Isa::Avx2) => [Code::VEX_Vfmadd132ps_ymm_ymm_ymmm256, Code::VEX_Vfmadd132pd_ymm_ymm_ymmm256],
            (Form::F231, Isa::Avx2) => [Code::VEX_Vfmadd231ps_ymm_ymm_ymmm256, Code::VEX_Vfmadd231pd_ymm_ymm_ymmm256],
        };
        codes[usize::from(wide)]
    }
}
