//! PTX as data: instructions over typed virtual registers. `print` turns them into text.
//!
//! A register has a width but no type; each instruction says how it interprets the bits. The code
//! is not in SSA form: for example, loop-carried variables are written in every iteration.

use cranelift_codegen::entity::{PrimaryMap, entity_impl};

/// A virtual register.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reg(u32);
entity_impl!(Reg, "%r");

/// A branch target.
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
    /// The class of a register.
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
    /// The type that an instruction operates on.
    Type {
        Pred = "pred", U8 = "u8", S8 = "s8", B16 = "b16", U16 = "u16", F16 = "f16", B32 = "b32", U32 = "u32", S32 = "s32", F32 = "f32",
        B64 = "b64", U64 = "u64", S64 = "s64", F64 = "f64", Bf16 = "bf16",
        /// An integer of 16 bits in memory, which a register holds extended to 32 bits.
        ExtendedU16 = "u16", ExtendedS16 = "s16",
    }
}

impl Type {
    /// The class of the registers that hold the type. Bytes, and integers of 16 bits, are held in
    /// 32-bit registers.
    pub fn class(self) -> Class {
        match self {
            Type::Pred => Class::Pred,
            Type::B16 | Type::U16 | Type::F16 | Type::Bf16 => Class::B16,
            Type::U8 | Type::S8 | Type::ExtendedU16 | Type::ExtendedS16 => Class::B32,
            Type::B32 | Type::U32 | Type::S32 | Type::F32 => Class::B32,
            Type::B64 | Type::U64 | Type::S64 | Type::F64 => Class::B64,
        }
    }
}

named! {
    /// Instructions of the form `name.type to, from...`. Float arithmetic always names its
    /// rounding, because the assembler may otherwise contract `mul` and `add` into `fma`. The
    /// approximations are starting points of `fast_division`, and used under [`Math::Fast`](super::Math).
    Opcode {
        Mov = "mov", Add = "add", Sub = "sub", Mul = "mul.lo", MulWide = "mul.wide", Mad = "mad.lo", Div = "div", Rem = "rem",
        Min = "min", Max = "max", Neg = "neg", Abs = "abs", And = "and", Or = "or", Xor = "xor", Not = "not", Shl = "shl", Shr = "shr",
        Brev = "brev", Popc = "popc", AddRn = "add.rn", SubRn = "sub.rn", MulRn = "mul.rn", DivRn = "div.rn", SqrtRn = "sqrt.rn", FmaRn = "fma.rn",
        RcpNear = "rcp.approx.ftz", RsqrtNear = "rsqrt.approx.ftz", Exp2Near = "ex2.approx.ftz", MinNan = "min.NaN", MaxNan = "max.NaN", Selp = "selp",
        Mapa = "mapa.shared::cluster",
        /// The generic address of a parameter.
        Cvta = "cvta.param",
    }
}

named! {
    /// A comparison. `neu` is also true if an operand is NaN, the other ordinary comparisons are
    /// false then.
    Comparison {
        Eq = "eq", Ne = "ne", Lt = "lt", Le = "le", Gt = "gt", Ge = "ge", Neu = "neu", Nan = "nan",
    }
}

named! {
    /// How a conversion rounds.
    Rounding {
        /// The conversion is exact.
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
    /// An address space.
    Space {
        /// The kernel's parameters.
        Param = "param",
        /// Global memory.
        Global = "global",
        /// The shared memory of the block.
        Shared = "shared",
        /// The shared memory of any block in the cluster.
        Cluster = "shared::cluster",
        /// The local memory of the thread.
        Local = "local",
    }
}

named! {
    /// A special register.
    Special {
        /// The index of the thread in its block.
        Tid = "%tid.x",
        /// The number of threads in a block.
        Ntid = "%ntid.x",
        /// The index of the block.
        Ctaid = "%ctaid.x",
        /// The index of the block in the third dimension of the grid.
        CtaidZ = "%ctaid.z",
        /// The number of blocks in the grid.
        Nctaid = "%nctaid.x",
        /// The index of the block in its cluster.
        ClusterCtarank = "%cluster_ctarank",
    }
}

named! {
    /// The lane of the warp that a shuffle reads from.
    Shuffle {
        /// A higher lane, by a fixed distance.
        Down = "down",
        /// A lower lane, by a fixed distance.
        Up = "up",
        /// The lane with a fixed index.
        Of = "idx",
        /// The lane with the other value of the bits of a mask.
        Across = "bfly",
    }
}

named! {
    /// The shape and types of a tensor core instruction.
    Factors {
        /// `f16` factors, with 16 elements along the inner dimension.
        F16 = "m16n8k16.row.col.f32.f16.f16.f32",
        /// `bf16` factors, with 16 elements along the inner dimension.
        Bf16 = "m16n8k16.row.col.f32.bf16.bf16.f32",
        /// TF32 factors (`f32` rounded to 11 significant bits), with 8 elements along the inner
        /// dimension.
        Tf32 = "m16n8k8.row.col.f32.tf32.tf32.f32",
    }
}

named! {
    /// The type of the factors of a warp group's tensor core instruction.
    TileType { F16 = "f16", Bf16 = "bf16" }
}

/// The shape and types of a warp group's tensor core instruction: 64 rows, a number of columns, and
/// 16 elements along the inner dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileFactors {
    /// The type of the factors. Sums are of `f32`.
    pub ty: TileType,
    /// The number of columns.
    pub columns: i64,
}

impl std::fmt::Display for TileFactors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let TileFactors { ty, columns } = self;
        write!(f, "m64n{columns}k16.f32.{ty}.{ty}")
    }
}

/// An operand.
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
    /// A special register.
    Special(Special),
    /// The base address of the block's static shared memory or of the thread's local memory.
    Own(Space),
    /// The base address of the dynamic shared memory. Each launch chooses its size.
    More,
    /// The address of a tensor map among the parameters.
    Map(u32),
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

/// A memory operand: a byte offset from a register, or from the base of the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The register, if there is one.
    pub base: Option<Reg>,
    /// The offset in bytes.
    pub offset: i64,
}

/// An instruction, or a label between instructions.
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
    /// `st.space.type [at], from`, of one register or a vector of two or four.
    Store { space: Space, ty: Type, from: Vec<Reg>, at: Address },
    /// `cp.async.shared.global [to], [from], bytes, read`: copies 4, 8 or 16 bytes, or `read` of
    /// them and fills up with zeros.
    Copy { to: Address, from: Address, bytes: i64, read: Option<Reg> },
    /// `cp.async.commit_group`: groups the copies issued since the previous group.
    GroupCopies,
    /// `cp.async.wait_group but`: waits for all groups except the `but` most recent ones.
    AwaitGroups { but: u32 },
    /// `cp.async.wait_all`
    AwaitCopies,
    /// `ldmatrix.sync.aligned.m8n8.x4.shared.b16`: the warp loads four 8 x 8 matrices of 16-bit
    /// elements.
    LoadMatrices { to: [Reg; 4], at: Address, transposed: bool },
    /// `mma.sync.aligned.factors sum, a, b, sum`: the warp multiplies two fragments and
    /// accumulates.
    Multiply { factors: Factors, sum: [Reg; 4], a: [Reg; 4], b: [Reg; 2] },
    /// `fence.proxy.async.shared::cta`: makes this thread's writes to shared memory visible to
    /// tensor cores that read it by descriptors, after the next barrier.
    FenceTiles,
    /// `wgmma.fence.sync.aligned`: the products issued next take the accumulators as they are now.
    FenceProducts,
    /// `wgmma.mma_async.sync.aligned.factors sum, left, right, 1, 1, 1, wide, wide`: the warp group
    /// starts to multiply two tiles in shared memory, named by descriptors, and accumulates.
    MultiplyTiles { factors: TileFactors, sum: Vec<Reg>, tiles: [Reg; 2], accumulate: Reg, wide: [bool; 2] },
    /// The same with a left factor of 64 rows and 16 inner indices in registers.
    MultiplyRows { factors: TileFactors, sum: Vec<Reg>, left: [Reg; 4], right: Reg, accumulate: Reg, wide: bool },
    /// `wgmma.commit_group.sync.aligned`: groups the products issued since the previous group.
    GroupProducts,
    /// `wgmma.wait_group.sync.aligned but`: waits for all groups of products except the `but` most
    /// recent ones.
    AwaitProducts { but: u32 },
    /// `mbarrier.init.shared::cta.b64 [at], count`: makes an arrival barrier. A phase of it ends
    /// when this many threads have arrived and all bytes that they expect are there.
    InitArrivals { at: Address, count: u32 },
    /// `fence.mbarrier_init.release.cluster`: bulk copies may arrive at new barriers afterwards.
    FenceArrivals,
    /// `mbarrier.arrive.shared::cta.b64 _, [at]`
    Arrive { at: Address },
    /// `mbarrier.arrive.expect_tx.shared::cta.b64 _, [at], bytes`: arrives, and this many bytes
    /// of bulk copies are expected too.
    ArriveExpecting { at: Address, bytes: u32 },
    /// `mbarrier.try_wait.parity.shared::cta.b64 to, [at], parity`: waits a while, and says
    /// whether the phase with this parity has ended.
    TryWait { to: Reg, at: Address, parity: Reg },
    /// `nanosleep.u32 time`: suspends the thread for about as many nanoseconds.
    Sleep { time: u32 },
    /// `cp.async.bulk.tensor`: copies a box of a tensor to shared memory. Its bytes arrive at a
    /// barrier.
    CopyBox { to: Address, map: Reg, from: Vec<Reg>, arrivals: Address },
    /// `setmaxnreg.inc.sync.aligned.u32 count`, or `dec`: the warps of a group may use more
    /// registers, or give some back.
    SetRegisters { more: bool, count: u32 },
    /// `cvt.rn.tyx2.f32 to, high, low`: two rounded values in one register.
    ConvertPair { ty: TileType, to: Reg, high: Reg, low: Reg },
    /// `cvt.rna.tf32.f32 to, from`
    ToTf32 { to: Reg, from: Reg },
    /// `shfl.sync.whose.b32`: reads another lane's register, or the thread's own if there is no
    /// such lane.
    Shuffle { whose: Shuffle, to: Reg, from: Reg, by: u32 },
    /// `match.any.sync.b64`: the lanes whose value is the lane's own, as bits.
    Match { to: Reg, from: Reg },
    /// `vote.sync.ballot.b32`: the lanes in which the predicate holds, as bits.
    Ballot { to: Reg, from: Reg },
    /// `vote.sync.any.pred`: whether the predicate holds in any lane.
    Any { to: Reg, from: Reg },
    /// `atom.global.cas.b32`: stores `new` if memory holds `expected`, and returns the old value.
    CompareAndSwap { to: Reg, at: Address, expected: Operand, new: Operand },
    /// `atom.relaxed.gpu.global.add.u64 to, [at], 1`: the number of tickets that blocks have taken
    /// before.
    TakeTicket { to: Reg, at: Address },
    /// `ld.relaxed.gpu.global.u64 to, [at]`: a word that another block may be writing.
    LoadAtOnce { to: Reg, at: Address },
    /// `st.relaxed.gpu.global.u64 [at], from`: a word that other blocks may be reading.
    StoreAtOnce { from: Reg, at: Address },
    /// `atom.acq_rel.gpu.global.add.u64 to, [at], 1`: the number of blocks that have been counted
    /// before, and a view of all that they have written.
    CountInOrder { to: Reg, at: Address },
    /// A branch target.
    Label(Label),
    /// An unconditional branch.
    Branch(Label),
    /// A barrier for the block.
    Barrier,
    /// `bar.red.and.pred to, 0, from`: a barrier for the block, and whether the predicate holds in
    /// all its threads.
    BarrierAll { to: Reg, from: Reg },
    /// A barrier for the warp.
    WarpBarrier,
    /// A barrier for the cluster.
    ClusterBarrier,
    /// Ends the thread.
    Return,
}

/// An instruction with an optional guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inst {
    /// The instruction only has an effect if the predicate has this value.
    pub guard: Option<(Reg, bool)>,
    /// The instruction.
    pub op: Op,
}

/// A name in an instruction.
pub enum Name<'i> {
    /// A register.
    Reg(&'i mut Reg),
    /// A branch target.
    Label(&'i mut Label),
}

impl Inst {
    /// Calls a function with each register and branch target.
    pub fn for_each_name(&mut self, visit: &mut impl FnMut(Name<'_>)) {
        if let Some((reg, _)) = &mut self.guard {
            visit(Name::Reg(reg));
        }
        match &mut self.op {
            Op::Plain { to, from, .. } => {
                visit(Name::Reg(to));
                from.iter_mut().for_each(|operand| operand.name(visit));
            }
            Op::Set { to, a, b, .. } => {
                visit(Name::Reg(to));
                [a, b].into_iter().for_each(|operand| operand.name(visit));
            }
            Op::Convert { to, from, .. } => {
                visit(Name::Reg(to));
                from.name(visit);
            }
            Op::Load { to: regs, at, .. } | Op::Store { from: regs, at, .. } => {
                regs.iter_mut().for_each(|reg| visit(Name::Reg(reg)));
                at.name(visit);
            }
            Op::Copy { to, from, read, .. } => {
                [to, from].into_iter().for_each(|at| at.name(visit));
                read.iter_mut().for_each(|read| visit(Name::Reg(read)));
            }
            Op::LoadMatrices { to, at, .. } => {
                to.iter_mut().for_each(|reg| visit(Name::Reg(reg)));
                at.name(visit);
            }
            Op::Multiply { sum, a, b, .. } => {
                sum.iter_mut().chain(a).chain(b).for_each(|reg| visit(Name::Reg(reg)));
            }
            Op::MultiplyTiles { sum, tiles, accumulate, .. } => {
                sum.iter_mut().chain(tiles).chain([accumulate]).for_each(|reg| visit(Name::Reg(reg)));
            }
            Op::MultiplyRows { sum, left, right, accumulate, .. } => {
                sum.iter_mut().chain(left).chain([right, accumulate]).for_each(|reg| visit(Name::Reg(reg)));
            }
            Op::InitArrivals { at, .. } | Op::Arrive { at } | Op::ArriveExpecting { at, .. } => at.name(visit),
            Op::TryWait { to, at, parity } => {
                [to, parity].into_iter().for_each(|reg| visit(Name::Reg(reg)));
                at.name(visit);
            }
            Op::CopyBox { to, map, from, arrivals } => {
                from.iter_mut().chain([map]).for_each(|reg| visit(Name::Reg(reg)));
                [to, arrivals].into_iter().for_each(|at| at.name(visit));
            }
            Op::ConvertPair { to, high, low, .. } => {
                [to, high, low].into_iter().for_each(|reg| visit(Name::Reg(reg)));
            }
            Op::ToTf32 { to, from }
            | Op::Shuffle { to, from, .. }
            | Op::Match { to, from }
            | Op::Ballot { to, from }
            | Op::Any { to, from }
            | Op::BarrierAll { to, from } => [to, from].into_iter().for_each(|reg| visit(Name::Reg(reg))),
            Op::CompareAndSwap { to, at, expected, new } => {
                visit(Name::Reg(to));
                at.name(visit);
                [expected, new].into_iter().for_each(|operand| operand.name(visit));
            }
            Op::TakeTicket { to: reg, at }
            | Op::CountInOrder { to: reg, at }
            | Op::LoadAtOnce { to: reg, at }
            | Op::StoreAtOnce { from: reg, at } => {
                visit(Name::Reg(reg));
                at.name(visit);
            }
            Op::Label(label) | Op::Branch(label) => visit(Name::Label(label)),
            Op::GroupCopies
            | Op::AwaitGroups { .. }
            | Op::AwaitCopies
            | Op::FenceTiles
            | Op::FenceArrivals
            | Op::SetRegisters { .. }
            | Op::Sleep { .. }
            | Op::FenceProducts
            | Op::GroupProducts
            | Op::AwaitProducts { .. }
            | Op::Barrier
            | Op::WarpBarrier
            | Op::ClusterBarrier
            | Op::Return => {}
        }
    }
}

impl Operand {
    fn name(&mut self, visit: &mut impl FnMut(Name<'_>)) {
        if let Operand::Reg(reg) = self {
            visit(Name::Reg(reg));
        }
    }
}

impl Address {
    fn name(&mut self, visit: &mut impl FnMut(Name<'_>)) {
        self.base.iter_mut().for_each(|reg| visit(Name::Reg(reg)));
    }
}

/// A kernel.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The size of its parameters in bytes, except for tensor maps.
    pub arguments: usize,
    /// The number of its tensor maps.
    pub maps: u32,
    /// The number of threads in a block.
    pub threads: u32,
    /// The number of blocks in a cluster, if it is launched in clusters.
    pub cluster: Option<u32>,
    /// The number of blocks that must fit on a multiprocessor. It makes the assembler limit the
    /// number of registers per thread, for a higher occupancy.
    pub resident: Option<u32>,
    /// The size of the static shared memory in bytes.
    pub shared: usize,
    /// The size of each thread's local memory in bytes.
    pub local: usize,
    /// The class of each register.
    pub registers: PrimaryMap<Reg, Class>,
    /// Its instructions.
    pub body: Vec<Inst>,
}
