//! The machines that leaves are made for, and in what they differ beside their instructions.

use iced_x86::{Code, Register};

use crate::cpu::{Far, Simd};

/// The vectors of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cpu) enum Isa {
    /// 512 bits, and masks in registers of their own.
    Avx512,
    /// 256 bits; a mask is a vector with all bits of a lane alike. With multiply-adds and 16-bit floats.
    Avx2,
}

/// How a machine reads and writes arrays that its caches do not hold.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct Memory {
    /// Whether every array is taken as one of these.
    every: bool,
    /// Whether the processor, asked for lines of several pages, runs along each of them: see `ahead`.
    pub(super) along_pages: bool,
}

impl Memory {
    /// This machine's.
    pub(in crate::cpu) fn here(far: Far) -> Memory {
        match far {
            Far::Auto => Memory { every: false, along_pages: runs_along_pages() },
            Far::Pages => Memory { every: true, along_pages: true },
            Far::Streams => Memory { every: true, along_pages: false },
        }
    }

    /// That of a machine not known: who runs along pages gains as much by it as the others lose.
    pub(in crate::cpu) fn unknown() -> Memory {
        Memory { every: false, along_pages: true }
    }

    /// What arrays' bytes exceed that are beyond the caches, where these hold `bytes`.
    pub(in crate::cpu) fn limit(self, bytes: i64) -> i64 {
        if self.every { -1 } else { bytes }
    }
}

/// Whether this machine's processor runs along pages: Intel's do.
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

/// Instructions on whole registers, whatever they hold.
pub(super) struct Moves {
    /// A number of four bytes to all lanes, and of eight.
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
    /// What a width asks for, if the machine has it: the widest, where it does not matter.
    pub(in crate::cpu) fn of(simd: Simd) -> Option<Isa> {
        let wanted: &[Isa] = match simd {
            Simd::W128 => &[],
            Simd::W256 => &[Isa::Avx2],
            Simd::Auto | Simd::W512 => &[Isa::Avx512, Isa::Avx2],
        };
        wanted.iter().copied().find(|isa| isa.is_here())
    }

    /// Whether this machine runs it.
    pub(in crate::cpu) fn is_here(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            // What is asked for beside AVX-512 came before it in every processor.
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

    /// Bytes of a vector register.
    pub(super) fn bytes(self) -> u32 {
        match self {
            Isa::Avx512 => 64,
            Isa::Avx2 => 32,
        }
    }

    /// Elements of a step: as many as a register has lanes of four bytes.
    pub(super) fn group(self) -> i32 {
        self.half() * 2
    }

    /// Lanes of eight bytes in a register.
    pub(super) fn half(self) -> i32 {
        self.bytes().cast_signed() / 8
    }

    /// How many vector registers there are.
    pub(super) fn vectors(self) -> u32 {
        match self {
            Isa::Avx512 => 32,
            Isa::Avx2 => 16,
        }
    }

    /// The first of them.
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

/// Which operand a fused multiply-add overwrites.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// The first factor; the others follow.
    F213,
    /// A factor; the addend is the second.
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
