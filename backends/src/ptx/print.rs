//! The text of kernels. No other module makes PTX text.

use std::fmt::{self, Display, Formatter};

use cranelift_codegen::entity::EntityRef;

use super::device::Target;
use super::inst::{Address, Class, Function, Inst, Op, Operand, Reg, Shuffle, Space, Type};
use super::tensor_map::{MAP_ALIGN, MAP_BYTES};

/// A PTX module with these kernels, for a device and later ones.
pub fn module<'t>(target: Target, functions: impl IntoIterator<Item = &'t str>) -> String {
    let mut text =
        format!(".version 8.0\n.target {target}\n.address_size 64\n.extern .shared .align 16 .b8 {MORE}[];\n");
    for function in functions {
        text.push('\n');
        text.push_str(function);
    }
    text
}

const CLASSES: [Class; 4] = [Class::Pred, Class::B16, Class::B32, Class::B64];

/// The name of the dynamic shared memory.
const MORE: &str = "more_memory";

/// The name of the memory that a space refers to without a base register.
fn own(space: Space) -> &'static str {
    match space {
        Space::Shared | Space::Cluster => "block_memory",
        Space::Local => "thread_memory",
        Space::Param | Space::Global => "arguments",
    }
}

impl Display for Function {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Function { name, arguments, threads, .. } = self;
        write!(f, ".visible .entry {name}(.param .align 8 .b8 arguments[{arguments}]")?;
        for map in 0..self.maps {
            write!(f, ", .param .align {MAP_ALIGN} .b8 {}[{MAP_BYTES}]", Operand::Map(map))?;
        }
        writeln!(f, ")")?;
        writeln!(f, ".maxntid {threads}, 1, 1")?;
        if let Some(blocks) = self.cluster {
            writeln!(f, ".explicitcluster\n.reqnctapercluster {blocks}, 1, 1")?;
        }
        if let Some(blocks) = self.resident {
            writeln!(f, ".minnctapersm {blocks}")?;
        }
        writeln!(f, "{{")?;
        for class in CLASSES {
            let of_class: Vec<Reg> = self.registers.keys().filter(|reg| self.registers[*reg] == class).collect();
            for registers in of_class.chunks(16) {
                let names: Vec<String> = registers.iter().map(|reg| format!("%r{}", reg.index())).collect();
                writeln!(f, "    .reg .{class} {};", names.join(", "))?;
            }
        }
        if self.shared > 0 {
            writeln!(f, "    .shared .align 16 .b8 {}[{}];", own(Space::Shared), self.shared)?;
        }
        if self.local > 0 {
            writeln!(f, "    .local .align 16 .b8 {}[{}];", own(Space::Local), self.local)?;
        }
        self.body.iter().try_for_each(|inst| writeln!(f, "{inst}"))?;
        writeln!(f, "}}")
    }
}

impl Display for Inst {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.op {
            Op::Label(label) => return write!(f, "$L{}:", label.index()),
            _ => f.write_str("    ")?,
        }
        match self.guard {
            Some((reg, true)) => write!(f, "@%r{} ", reg.index())?,
            Some((reg, false)) => write!(f, "@!%r{} ", reg.index())?,
            None => {}
        }
        write!(f, "{};", self.op)
    }
}

impl Display for Op {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Op::Plain { opcode, ty, to, from } => {
                write!(f, "{opcode}.{ty} %r{}", to.index())?;
                from.iter().try_for_each(|operand| write!(f, ", {operand}"))
            }
            Op::Set { compare, ty, to, a, b } => write!(f, "setp.{compare}.{ty} %r{}, {a}, {b}", to.index()),
            Op::Convert { rounding, to_type, from_type, to, from } => {
                write!(f, "cvt{rounding}.{to_type}.{from_type} %r{}, {from}", to.index())
            }
            Op::Load { space, ty, to, at } => write!(f, "ld.{space}{}, {}", Vector(*ty, to), In(*space, at)),
            Op::Store { space, ty, from, at } => {
                let vector = Vector(*ty, from);
                write!(f, "st.{space}{} {}, {}", vector.suffix(), In(*space, at), vector.registers())
            }
            Op::Copy { to, from, bytes, read } => {
                let [to, from] = [In(Space::Shared, to), In(Space::Global, from)];
                // Only 16 bytes at once can bypass the first-level cache.
                let cache = if *bytes == 16 { "cg" } else { "ca" };
                write!(f, "cp.async.{cache}.shared.global {to}, {from}, {bytes}")?;
                read.map_or(Ok(()), |read| write!(f, ", %r{}", read.index()))
            }
            Op::GroupCopies => f.write_str("cp.async.commit_group"),
            Op::AwaitGroups { but } => write!(f, "cp.async.wait_group {but}"),
            Op::AwaitCopies => f.write_str("cp.async.wait_all"),
            Op::LoadMatrices { to, at, transposed } => {
                let how = if *transposed { ".trans" } else { "" };
                write!(f, "ldmatrix.sync.aligned.m8n8.x4{how}.shared.b16 {}, {}", braced(to), In(Space::Shared, at))
            }
            Op::Multiply { factors, sum, a, b } => {
                let sum = braced(sum);
                write!(f, "mma.sync.aligned.{factors} {sum}, {}, {}, {sum}", braced(a), braced(b))
            }
            Op::FenceTiles => f.write_str("fence.proxy.async.shared::cta"),
            Op::FenceProducts => f.write_str("wgmma.fence.sync.aligned"),
            Op::MultiplyTiles { factors, sum, tiles: [left, right], accumulate, wide } => {
                let [left_wide, right_wide] = wide.map(u8::from);
                let (sum, left, right, accumulate) = (braced(sum), left.index(), right.index(), accumulate.index());
                write!(f, "wgmma.mma_async.sync.aligned.{factors} {sum}, %r{left}, %r{right}, ")?;
                write!(f, "%r{accumulate}, 1, 1, {left_wide}, {right_wide}")
            }
            Op::MultiplyRows { factors, sum, left, right, accumulate, wide } => {
                let (sum, left, right) = (braced(sum), braced(left), right.index());
                let (accumulate, wide) = (accumulate.index(), u8::from(*wide));
                write!(f, "wgmma.mma_async.sync.aligned.{factors} {sum}, {left}, %r{right}, ")?;
                write!(f, "%r{accumulate}, 1, 1, {wide}")
            }
            Op::GroupProducts => f.write_str("wgmma.commit_group.sync.aligned"),
            Op::AwaitProducts { but } => write!(f, "wgmma.wait_group.sync.aligned {but}"),
            Op::InitArrivals { at, count } => {
                write!(f, "mbarrier.init.shared::cta.b64 {}, {count}", In(Space::Shared, at))
            }
            Op::FenceArrivals => f.write_str("fence.mbarrier_init.release.cluster"),
            Op::Sleep { time } => write!(f, "nanosleep.u32 {time}"),
            Op::SetRegisters { more, count } => {
                write!(f, "setmaxnreg.{}.sync.aligned.u32 {count}", if *more { "inc" } else { "dec" })
            }
            Op::Arrive { at } => write!(f, "mbarrier.arrive.shared::cta.b64 _, {}", In(Space::Shared, at)),
            Op::ArriveExpecting { at, bytes } => {
                write!(f, "mbarrier.arrive.expect_tx.shared::cta.b64 _, {}, {bytes}", In(Space::Shared, at))
            }
            Op::TryWait { to, at, parity } => {
                let (to, parity, at) = (to.index(), parity.index(), In(Space::Shared, at));
                write!(f, "mbarrier.try_wait.parity.shared::cta.b64 %r{to}, {at}, %r{parity}")
            }
            Op::CopyBox { to, map, from, arrivals } => {
                let [to, arrivals] = [to, arrivals].map(|at| In(Space::Shared, at));
                let (rank, map, from) = (from.len(), map.index(), braced(from));
                write!(f, "cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes ")?;
                write!(f, "{to}, [%r{map}, {from}], {arrivals}")
            }
            Op::ConvertPair { ty, to, high, low } => {
                write!(f, "cvt.rn.{ty}x2.f32 %r{}, %r{}, %r{}", to.index(), high.index(), low.index())
            }
            Op::ToTf32 { to, from } => write!(f, "cvt.rna.tf32.f32 %r{}, %r{}", to.index(), from.index()),
            Op::Shuffle { whose, to, from, by } => {
                // The last operand clamps the source lane: lanes below 0 or above 31 do not exist.
                let bound = if *whose == Shuffle::Up { 0 } else { 31 };
                write!(f, "shfl.sync.{whose}.b32 %r{}, %r{}, {by}, {bound}, 0xffffffff", to.index(), from.index())
            }
            Op::Match { to, from } => write!(f, "match.any.sync.b64 %r{}, %r{}, 0xffffffff", to.index(), from.index()),
            Op::Ballot { to, from } => {
                write!(f, "vote.sync.ballot.b32 %r{}, %r{}, 0xffffffff", to.index(), from.index())
            }
            Op::Any { to, from } => write!(f, "vote.sync.any.pred %r{}, %r{}, 0xffffffff", to.index(), from.index()),
            Op::CompareAndSwap { to, at, expected, new } => {
                write!(f, "atom.global.cas.b32 %r{}, {}, {expected}, {new}", to.index(), In(Space::Global, at))
            }
            Op::TakeTicket { to, at } => {
                write!(f, "atom.relaxed.gpu.global.add.u64 %r{}, {}, 1", to.index(), In(Space::Global, at))
            }
            Op::LoadAtOnce { to, at } => {
                write!(f, "ld.relaxed.gpu.global.u64 %r{}, {}", to.index(), In(Space::Global, at))
            }
            Op::StoreAtOnce { from, at } => {
                write!(f, "st.relaxed.gpu.global.u64 {}, %r{}", In(Space::Global, at), from.index())
            }
            Op::CountInOrder { to, at } => {
                write!(f, "atom.acq_rel.gpu.global.add.u64 %r{}, {}, 1", to.index(), In(Space::Global, at))
            }
            Op::Branch(label) => write!(f, "bra $L{}", label.index()),
            Op::Barrier => f.write_str("bar.sync 0"),
            Op::BarrierAll { to, from } => write!(f, "bar.red.and.pred %r{}, 0, %r{}", to.index(), from.index()),
            Op::WarpBarrier => f.write_str("bar.warp.sync 0xffffffff"),
            // All threads of the cluster arrive and wait at once, so one operation prints as two
            // instructions.
            Op::ClusterBarrier => f.write_str("barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned"),
            Op::Return => f.write_str("ret"),
            Op::Label(_) => Ok(()),
        }
    }
}

/// The type and registers of a load or store.
struct Vector<'a>(Type, &'a [Reg]);

impl Vector<'_> {
    fn suffix(&self) -> String {
        let count = if self.1.len() > 1 { format!(".v{}", self.1.len()) } else { String::new() };
        format!("{count}.{}", self.0)
    }

    fn registers(&self) -> String {
        if let [only] = self.1 { format!("%r{}", only.index()) } else { braced(self.1) }
    }
}

/// A vector of registers in braces.
fn braced(registers: &[Reg]) -> String {
    let names: Vec<String> = registers.iter().map(|reg| format!("%r{}", reg.index())).collect();
    format!("{{{}}}", names.join(", "))
}

impl Display for Vector<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.suffix(), self.registers())
    }
}

/// An address in a space.
struct In<'a>(Space, &'a Address);

impl Display for In<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.1.base {
            Some(reg) => write!(f, "[%r{}+{}]", reg.index(), self.1.offset),
            None => write!(f, "[{}+{}]", own(self.0), self.1.offset),
        }
    }
}

impl Display for Operand {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Operand::Reg(reg) => write!(f, "%r{}", reg.index()),
            Operand::Int(value) => write!(f, "{value}"),
            Operand::F32(bits) => write!(f, "0f{bits:08X}"),
            Operand::F64(bits) => write!(f, "0d{bits:016X}"),
            Operand::Special(special) => write!(f, "{special}"),
            Operand::Own(space) => f.write_str(own(*space)),
            Operand::More => f.write_str(MORE),
            Operand::Map(number) => write!(f, "map{number}"),
        }
    }
}
