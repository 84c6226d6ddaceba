//! PTX as data: instructions over typed registers, until `print` makes text of them.
//!
//! A register knows its width, not what its bits mean: that is said by each instruction. Registers may be written
//! more than once (carried values of loops are).

use cranelift_codegen::entity::{PrimaryMap, entity_impl};

/// A virtual register.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reg(u32);
entity_impl!(Reg, "%r");

/// A place to branch to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(u32);
entity_impl!(Label, "$L");

macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant),* }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $($name::$variant => $text),* })
            }
        }
    };
}

named! {
    /// What a register holds.
    Class {
        /// A predicate.
        Pred = "pred",
        /// Sixteen bits.
        B16 = "b16",
        /// Thirty-two bits.
        B32 = "b32",
        /// Sixty-four bits.
        B64 = "b64",
    }
}

named! {
    /// What an instruction takes its operands for.
    Type {
        Pred = "pred", U8 = "u8", S8 = "s8", B16 = "b16", U16 = "u16", F16 = "f16", B32 = "b32", U32 = "u32", S32 = "s32", F32 = "f32",
        B64 = "b64", U64 = "u64", S64 = "s64", F64 = "f64", Bf16 = "bf16",
    }
}

impl Type {
    /// The registers that hold it: bytes rest in 32 bits.
    pub fn class(self) -> Class {
        match self {
            Type::Pred => Class::Pred,
            Type::B16 | Type::U16 | Type::F16 | Type::Bf16 => Class::B16,
            Type::U8 | Type::S8 | Type::B32 | Type::U32 | Type::S32 | Type::F32 => Class::B32,
            Type::B64 | Type::U64 | Type::S64 | Type::F64 => Class::B64,
        }
    }
}

named! {
    /// Instructions of the shape `name.type to, from...`. Those on floats name their rounding, so that nothing contracts; what is
    /// only near its result is what `quick` begins with.
    Opcode {
        Mov = "mov", Add = "add", Sub = "sub", Mul = "mul.lo", MulWide = "mul.wide", Mad = "mad.lo", Div = "div", Rem = "rem",
        Min = "min", Max = "max", Neg = "neg", Abs = "abs", And = "and", Or = "or", Xor = "xor", Not = "not", Shl = "shl", Shr = "shr",
        Brev = "brev", AddRn = "add.rn", SubRn = "sub.rn", MulRn = "mul.rn", DivRn = "div.rn", SqrtRn = "sqrt.rn", FmaRn = "fma.rn",
        RcpNear = "rcp.approx.ftz", RsqrtNear = "rsqrt.approx.ftz", MinNan = "min.NaN", MaxNan = "max.NaN", Selp = "selp",
        Mapa = "mapa.shared::cluster",
    }
}

named! {
    /// A comparison; those with `u` hold for NaN too, the others do not.
    Comparison {
        Eq = "eq", Ne = "ne", Lt = "lt", Le = "le", Gt = "gt", Ge = "ge", Neu = "neu", Nan = "nan",
    }
}

named! {
    /// How a conversion rounds.
    Rounding {
        /// Nothing is to be rounded.
        Exact = "",
        /// To the nearest float, ties to even.
        Rn = ".rn",
        /// To a float, toward zero.
        Rz = ".rz",
        /// To the nearest integer, ties to even.
        Rni = ".rni",
        /// To an integer, toward zero.
        Rzi = ".rzi",
        /// To an integer, down.
        Rmi = ".rmi",
        /// To an integer, up.
        Rpi = ".rpi",
    }
}

named! {
    /// A kind of memory.
    Space {
        /// What the launch hands over.
        Param = "param",
        /// The device's memory.
        Global = "global",
        /// A block's own.
        Shared = "shared",
        /// That of a block of the cluster.
        Cluster = "shared::cluster",
        /// A thread's own.
        Local = "local",
    }
}

named! {
    /// A number that each thread has.
    Special {
        /// The thread's number in its block.
        Tid = "%tid.x",
        /// Threads of a block.
        Ntid = "%ntid.x",
        /// The block's number.
        Ctaid = "%ctaid.x",
        /// Blocks of the launch.
        Nctaid = "%nctaid.x",
        /// The block's number in its cluster.
        ClusterCtarank = "%cluster_ctarank",
    }
}

named! {
    /// Whose register a thread of a warp gets.
    Shuffle {
        /// That of the thread so many further.
        Down = "down",
        /// That of the thread so many before.
        Up = "up",
        /// That of the thread of that number.
        Of = "idx",
    }
}

named! {
    /// What tensor units multiply: the shape of a step and its types.
    Factors {
        /// Sixteen inner numbers of `f16`.
        F16 = "m16n8k16.row.col.f32.f16.f16.f32",
        /// Sixteen inner numbers of `bf16`.
        Bf16 = "m16n8k16.row.col.f32.bf16.bf16.f32",
        /// Eight inner numbers of `f32` rounded to eleven bits.
        Tf32 = "m16n8k8.row.col.f32.tf32.tf32.f32",
    }
}

/// What an instruction takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A register.
    Reg(Reg),
    /// An integer.
    Int(i64),
    /// The bits of an `f32`.
    F32(u32),
    /// The bits of an `f64`.
    F64(u64),
    /// A number that each thread has.
    Special(Special),
    /// The address of a block's or a thread's own memory.
    Own(Space),
    /// The address of what a launch adds to a block's.
    More,
}

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Operand {
        Operand::Reg(reg)
    }
}

impl From<i64> for Operand {
    fn from(value: i64) -> Operand {
        Operand::Int(value)
    }
}

/// Where something lies: so many bytes behind the address in a register, or behind the beginning of the space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The register, if there is one.
    pub base: Option<Reg>,
    /// Bytes.
    pub offset: i64,
}

/// One instruction, or what stands between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// `opcode.type to, from...`
    Plain { opcode: Opcode, ty: Type, to: Reg, from: Vec<Operand> },
    /// `setp.compare.type to, a, b`
    Set { compare: Comparison, ty: Type, to: Reg, a: Operand, b: Operand },
    /// `cvt.rounding.to_type.from_type to, from`
    Convert { rounding: Rounding, to_type: Type, from_type: Type, to: Reg, from: Operand },
    /// `ld.space.type to, [at]`, of one register or a vector of two or four.
    Load { space: Space, ty: Type, to: Vec<Reg>, at: Address },
    /// `st.space.type [at], from`
    Store { space: Space, ty: Type, from: Vec<Reg>, at: Address },
    /// `cp.async.ca.shared.global [to], [from], bytes`: four or eight.
    Copy { to: Address, from: Address, bytes: i64 },
    /// `cp.async.cg.shared.global [to], [from], 16, read`: of sixteen bytes those that are read, then zeros.
    CopyWide { to: Address, from: Address, read: Reg },
    /// `cp.async.commit_group`: the copies since the last one are a group.
    GroupCopies,
    /// `cp.async.wait_group but`: waits for all groups but the last ones.
    AwaitGroups { but: u32 },
    /// `cp.async.wait_all`
    AwaitCopies,
    /// `ldmatrix.sync.aligned.m8n8.x4.shared.b16`: four matrices of 8 x 8 elements of 16 bits, for the threads of a warp together.
    LoadMatrices { to: [Reg; 4], at: Address, transposed: bool },
    /// `mma.sync.aligned.factors sum, a, b, sum`: a step of a product of matrices by the threads of a warp together.
    Multiply { factors: Factors, sum: [Reg; 4], a: [Reg; 4], b: [Reg; 2] },
    /// `cvt.rna.tf32.f32 to, from`
    ToTf32 { to: Reg, from: Reg },
    /// `shfl.sync.whose.b32`: another thread's register, or one's own where there is no such thread.
    Shuffle { whose: Shuffle, to: Reg, from: Reg, by: u32 },
    /// `atom.global.cas.b32`: what was there; if that is `expected`, `new` is now.
    CompareAndSwap { to: Reg, at: Address, expected: Operand, new: Operand },
    /// A place to branch to.
    Label(Label),
    /// Goes on at a label.
    Branch(Label),
    /// Waits for all threads of the block.
    Barrier,
    /// Waits for all threads of the warp.
    WarpBarrier,
    /// Waits for all threads of the cluster.
    ClusterBarrier,
    /// Ends the thread.
    Return,
}

/// An instruction under a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inst {
    /// Happens where the predicate is so.
    pub guard: Option<(Reg, bool)>,
    /// What happens.
    pub op: Op,
}

/// One kernel.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Bytes of its arguments.
    pub arguments: usize,
    /// Threads of a block.
    pub threads: u32,
    /// Blocks of a cluster, if it is launched in such.
    pub cluster: Option<u32>,
    /// Blocks that a multiprocessor is to have at once, if that is to limit registers.
    pub resident: Option<u32>,
    /// Bytes of shared memory.
    pub shared: usize,
    /// Bytes of memory for each thread.
    pub local: usize,
    /// What each register holds.
    pub registers: PrimaryMap<Reg, Class>,
    /// What it does.
    pub body: Vec<Inst>,
}
