//! The machines that objects can be compiled for.

use std::fmt;

use cranelift_codegen::isa::{self, OwnedTargetIsa};
use cranelift_codegen::settings::Configurable;

use crate::cpu::jit::{self, Effort, Host};
use crate::cpu::machine::{Isa, Memory};
use crate::cpu::options::{MemoryRegime, Simd};
use crate::error::{CompileError, internal};

/// A machine that an object is compiled for: an architecture, with Linux, and the minimum level of
/// its processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    arch: Arch,
    cpu: Cpu,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arch {
    X86_64,
    Aarch64,
}

/// The minimum level of processors. For x86-64 these are the levels of its ABI, except for the
/// first one, which cannot shuffle bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cpu {
    Generic,
    V2,
    V3,
    V4,
    Native,
}

/// A row of the table of processor levels.
struct CpuLevel {
    arch: Arch,
    cpu: Cpu,
    name: &'static str,
    /// The features that it adds to the previous level, by their names in Cranelift.
    adds: &'static [&'static str],
}

static CPUS: [CpuLevel; 4] = [
    CpuLevel {
        arch: Arch::X86_64,
        cpu: Cpu::V2,
        name: "x86-64-v2",
        adds: &["has_sse3", "has_ssse3", "has_sse41", "has_sse42", "has_popcnt", "has_cmpxchg16b"],
    },
    CpuLevel {
        arch: Arch::X86_64,
        cpu: Cpu::V3,
        name: "x86-64-v3",
        adds: &["has_avx", "has_avx2", "has_bmi1", "has_bmi2", "has_fma", "has_lzcnt"],
    },
    CpuLevel {
        arch: Arch::X86_64,
        cpu: Cpu::V4,
        name: "x86-64-v4",
        adds: &["has_avx512f", "has_avx512dq", "has_avx512vl"],
    },
    CpuLevel { arch: Arch::Aarch64, cpu: Cpu::Generic, name: "generic", adds: &[] },
];

const NATIVE: &str = "native";

/// An unsupported target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetError {
    /// Unsupported architecture or system.
    Machine(String),
    /// Unknown processor for the architecture, with the known ones.
    Cpu(String, Vec<&'static str>),
    /// `native` for an architecture that is not this machine's.
    NotHere,
}

impl Arch {
    const ALL: [(Arch, &'static str); 2] = [(Arch::X86_64, "x86_64"), (Arch::Aarch64, "aarch64")];

    fn here() -> Option<Arch> {
        Arch::ALL.into_iter().find(|(_, name)| *name == std::env::consts::ARCH).map(|(arch, _)| arch)
    }

    /// The default level: one that most machines in use have. Below the third level of x86-64 there
    /// is no fused multiply-add, and functions such as `exp` would call the C library for each one.
    fn default_cpu(self) -> Cpu {
        match self {
            Arch::X86_64 => Cpu::V3,
            Arch::Aarch64 => Cpu::Generic,
        }
    }

    fn cpus(self) -> impl Iterator<Item = &'static CpuLevel> {
        CPUS.iter().filter(move |entry| entry.arch == self)
    }
}

impl Target {
    /// The target with a name: `x86_64` or `aarch64`, or a triple of one with Linux. Without a name
    /// it is this machine's architecture, and without `cpu` the default level.
    ///
    /// # Errors
    ///
    /// [`TargetError`] if there is no such machine or processor.
    pub fn new(machine: Option<&str>, cpu: Option<&str>) -> Result<Target, TargetError> {
        let name = machine.unwrap_or(std::env::consts::ARCH);
        let (arch, system) = name.split_once('-').unwrap_or((name, "linux"));
        let found = Arch::ALL.into_iter().find(|(_, known)| *known == arch);
        let is_linux = system.split('-').any(|part| part == "linux");
        let Some((arch, _)) = found.filter(|_| is_linux) else { return Err(TargetError::Machine(name.to_owned())) };
        let cpu = match cpu {
            None => arch.default_cpu(),
            Some(NATIVE) if Arch::here() == Some(arch) => Cpu::Native,
            Some(NATIVE) => return Err(TargetError::NotHere),
            Some(name) => match arch.cpus().find(|entry| entry.name == name) {
                Some(entry) => entry.cpu,
                None => {
                    let known = arch.cpus().map(|entry| entry.name).chain([NATIVE]).collect();
                    return Err(TargetError::Cpu(name.to_owned(), known));
                }
            },
        };
        Ok(Target { arch, cpu })
    }

    /// The Cranelift target.
    pub(in crate::cpu) fn machine(self, effort: Effort) -> Result<OwnedTargetIsa, CompileError> {
        let mut builder = match (self.cpu, self.arch) {
            (Cpu::Native, _) => cranelift_native::builder().map_err(|e| internal(&e))?,
            (_, Arch::X86_64) => isa::lookup_by_name("x86_64-unknown-linux-gnu").map_err(|e| internal(&e))?,
            (_, Arch::Aarch64) => isa::lookup_by_name("aarch64-unknown-linux-gnu").map_err(|e| internal(&e))?,
        };
        if self.cpu != Cpu::Native {
            for feature in self.arch.cpus().filter(|entry| entry.cpu <= self.cpu).flat_map(|entry| entry.adds) {
                builder.enable(feature).map_err(|e| internal(&e))?;
            }
        }
        builder.finish(jit::flags(effort, Host::Anywhere)?).map_err(|e| internal(&e))
    }

    /// Whether the target is x86-64.
    pub(super) fn is_x86(self) -> bool {
        self.arch == Arch::X86_64
    }

    /// Whether the target has fused multiply-add.
    pub(super) fn fuses(self) -> bool {
        self.arch != Arch::X86_64 || self.cpu >= Cpu::V3
    }

    /// The widest leaves that the target supports.
    pub(super) fn wide(self) -> Option<Isa> {
        match (self.arch, self.cpu) {
            (Arch::X86_64, Cpu::V3) => Some(Isa::Avx2),
            (Arch::X86_64, Cpu::V4) => Some(Isa::Avx512),
            (Arch::X86_64, Cpu::Native) => Isa::of(Simd::Auto),
            _ => None,
        }
    }

    /// How the target reads and writes arrays that do not fit into its caches.
    pub(super) fn memory(self) -> Memory {
        if self.cpu == Cpu::Native { Memory::here(MemoryRegime::Auto) } else { Memory::unknown() }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arch = Arch::ALL.into_iter().find(|(arch, _)| *arch == self.arch).map_or("", |(_, name)| name);
        let entry = self.arch.cpus().find(|entry| entry.cpu == self.cpu);
        write!(f, "{arch} ({})", entry.map_or(NATIVE, |entry| entry.name))
    }
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TargetError::Machine(name) => {
                write!(f, "objects are not made for `{name}`, but for x86_64 and aarch64 under Linux")
            }
            TargetError::Cpu(name, known) => write!(f, "`{name}` is not one of the processors {}", known.join(", ")),
            TargetError::NotHere => f.write_str("`native` is the processor of this machine, which is another one"),
        }
    }
}

impl std::error::Error for TargetError {}
