//! The memory of a call of an object: the sizes of arrays, the layout of scratch memory, and the
//! checks of the caller's pointers.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};
use ir::nest::BufferId;
use ir::sabotage::{self, Bug};

use super::Driver;
use crate::abi::SCRATCH_ALIGN;
use crate::cpu::formula::Rule;
use crate::cpu::object::interface::{Param, Status};
use crate::cpu::object::sizes::{both, checked};

/// If kernels need at most this many bytes of scratch for their code, it is on the stack. Most
/// calls then need no scratch memory from the caller.
const ON_STACK: usize = 4096;

/// The location of a temporary.
#[derive(Clone, Copy)]
pub(super) enum Location {
    /// In the scratch memory, at this offset in bytes.
    At(Value),
    /// In the memory of this output.
    Of(BufferId),
}

/// An area of memory, with its size in bytes.
#[derive(Clone, Copy)]
pub(super) struct Area {
    pub(super) address: Value,
    pub(super) bytes: Value,
}

/// The layout of a call's scratch memory.
pub(super) struct Layout {
    pub(super) temporaries: Vec<(BufferId, Location)>,
    /// Results that are stored here until no check can fail any more, with their offsets and sizes.
    pub(super) held: Vec<(BufferId, Value, Value)>,
    /// The offset of the kernels' own scratch, and in it those of each kernel's scratch buffers.
    pub(super) own: Value,
    pub(super) buffers: Vec<Vec<(BufferId, Value)>>,
    pub(super) bytes: Value,
}

impl Driver<'_, '_> {
    /// The size of an array in bytes, as in `call::bytes`. Ends the call if it overflows.
    pub(super) fn bytes(&mut self, id: BufferId) -> Value {
        if let Some(bytes) = self.bytes.get(&id) {
            return *bytes;
        }
        let buffer = &self.parts.run.buffers[id];
        let mut bytes = self.int(buffer.dtype.bytes() as i64);
        let (one, zero) = (self.int(1), self.int(0));
        let (mut sound, mut some) = (None, None);
        for size in &buffer.shape {
            let length = self.sizes.size(&mut self.b, size).value;
            let least = self.b.ins().smax(length, one);
            bytes = checked(&mut self.b, &mut sound, Rule::Times, bytes, least);
            let there = self.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, length, 0);
            some = both(&mut self.b, some, Some(there));
        }
        self.fits(sound);
        let bytes = some.map_or(bytes, |some| self.b.ins().select(some, bytes, zero));
        self.bytes.insert(id, bytes);
        bytes
    }

    pub(super) fn fits(&mut self, sound: Option<Value>) {
        if let Some(sound) = sound {
            let zero = self.int(0);
            self.ensure(sound, Status::Memory, [zero, zero]);
        }
    }

    /// `a + b`, with `b` rounded up to the alignment of scratch memory.
    pub(super) fn behind(&mut self, a: Value, b: Value) -> Value {
        let mut sound = None;
        let spare = self.int(SCRATCH_ALIGN as i64 - 1);
        let b = checked(&mut self.b, &mut sound, Rule::Plus, b, spare);
        let b = self.b.ins().band_imm_s(b, -(SCRATCH_ALIGN as i64));
        let sum = checked(&mut self.b, &mut sound, Rule::Plus, a, b);
        self.fits(sound);
        sum
    }

    /// Lays out the temporaries, then the results that are held back, then the kernels' own
    /// scratch.
    pub(super) fn layout(&mut self) -> Layout {
        let parts = self.parts;
        let mut end = self.int(0);
        let mut temporaries = vec![];
        for members in &parts.slots.own {
            let begin = if sabotage::on(Bug::ObjectTemporaries) { self.int(0) } else { end };
            for id in members {
                temporaries.push((*id, Location::At(begin)));
                let bytes = self.bytes(*id);
                let own = self.behind(begin, bytes);
                end = self.b.ins().smax(end, own);
            }
        }
        temporaries.extend(parts.slots.lent.iter().map(|(id, output)| (*id, Location::Of(*output))));
        let mut held = vec![];
        if parts.late_faults {
            for id in &parts.interface.outputs {
                let bytes = self.bytes(*id);
                held.push((*id, end, bytes));
                end = self.behind(end, bytes);
            }
        }
        let own = end;
        let mut buffers = vec![];
        for kernel in &parts.kernels {
            let used = if self.on_stack() { 0 } else { kernel.scratch };
            let used = self.int(i64::try_from(used).expect("scratch is bounded"));
            let mut at = self.behind(own, used);
            let mut places = vec![];
            for id in &kernel.buffers {
                places.push((*id, at));
                let bytes = self.bytes(*id);
                let times = self.sizes.formula(&mut self.b, &kernel.columns.times(*id));
                let mut sound = None;
                let bytes = checked(&mut self.b, &mut sound, Rule::Times, bytes, times);
                self.fits(sound);
                at = self.behind(at, bytes);
            }
            buffers.push(places);
            end = self.b.ins().smax(end, at);
        }
        Layout { temporaries, held, own, buffers, bytes: end }
    }

    /// The scratch memory to ask for. It includes padding, so that the caller's memory need not be
    /// aligned.
    pub(super) fn asked(&mut self, layout: &Layout) -> Value {
        let spare = self.int(SCRATCH_ALIGN as i64 - 1);
        let mut sound = None;
        let more = checked(&mut self.b, &mut sound, Rule::Plus, layout.bytes, spare);
        self.fits(sound);
        let zero = self.int(0);
        let some = self.b.ins().icmp_imm_s(IntCC::NotEqual, layout.bytes, 0);
        self.b.ins().select(some, more, zero)
    }

    /// The aligned address of the scratch memory. Ends the call if there is not enough.
    pub(super) fn scratch(&mut self, layout: &Layout) -> Value {
        let asked = self.asked(layout);
        let (scratch, bytes) = (self.param(Param::Scratch), self.param(Param::Bytes));
        let enough = self.b.ins().icmp(IntCC::SignedGreaterThanOrEqual, bytes, asked);
        let none = self.b.ins().icmp_imm_s(IntCC::Equal, asked, 0);
        let there = self.b.ins().icmp_imm_s(IntCC::NotEqual, scratch, 0);
        let there = self.b.ins().bor(there, none);
        let holds = self.b.ins().band(enough, there);
        self.ensure(holds, Status::Scratch, [bytes, asked]);
        self.aligned(scratch)
    }

    /// Rounds an address up to the alignment of scratch memory.
    pub(super) fn aligned(&mut self, address: Value) -> Value {
        let up = self.b.ins().iadd_imm_s(address, SCRATCH_ALIGN as i64 - 1);
        self.b.ins().band_imm_s(up, -(SCRATCH_ALIGN as i64))
    }

    /// Whether the kernels' own scratch is on the stack.
    pub(super) fn on_stack(&self) -> bool {
        self.parts.kernels.iter().all(|kernel| kernel.scratch <= ON_STACK)
    }

    /// The address of a caller's array. Ends the call if it is null or misaligned.
    pub(super) fn array(&mut self, id: BufferId, param: Param) -> Value {
        let address = self.param(param);
        let bytes = self.bytes(id);
        let width = self.parts.run.buffers[id].dtype.bytes() as i64;
        let off = self.b.ins().band_imm_s(address, width - 1);
        let aligned = self.b.ins().icmp_imm_s(IntCC::Equal, off, 0);
        let there = self.b.ins().icmp_imm_s(IntCC::NotEqual, address, 0);
        let empty = self.b.ins().icmp_imm_s(IntCC::Equal, bytes, 0);
        let there = self.b.ins().bor(there, empty);
        let holds = self.b.ins().band(aligned, there);
        let zero = self.int(0);
        self.ensure(holds, Status::Pointer, [address, zero]);
        address
    }

    /// Ends the call if a result overlaps scratch memory or another of the caller's arrays. Kernels
    /// reload inputs after they have stored results, in overlapping vectors, so not even an
    /// elementwise function could allow it.
    pub(super) fn hold_apart(&mut self, scratch: Area) {
        let interface = self.parts.interface;
        let mut written = vec![scratch];
        let mut shared = None;
        let mut look = |d: &mut Self, area: Area, written: &[Area]| {
            for other in written {
                let meets = d.overlap(area, *other);
                shared = Some(shared.map_or(meets, |shared| d.b.ins().bor(shared, meets)));
            }
        };
        for id in &interface.outputs {
            let area = Area { address: self.param(Param::Output(*id)), bytes: self.bytes(*id) };
            look(self, area, &written);
            written.push(area);
        }
        for id in interface.inputs.iter().filter(|id| !interface.is_scalar(**id)) {
            let area = Area { address: self.param(Param::Input(*id)), bytes: self.bytes(*id) };
            look(self, area, &written);
        }
        let Some(shared) = shared else { return };
        let (apart, zero) = (self.b.ins().icmp_imm_s(IntCC::Equal, shared, 0), self.int(0));
        self.ensure(apart, Status::Overlap, [zero, zero]);
    }

    /// Whether two areas overlap.
    fn overlap(&mut self, a: Area, b: Area) -> Value {
        // They overlap if one begins inside the other. Empty areas overlap nothing.
        let (from_a, from_b) = (self.b.ins().isub(b.address, a.address), self.b.ins().isub(a.address, b.address));
        let in_a = self.b.ins().icmp(IntCC::UnsignedLessThan, from_a, a.bytes);
        let in_b = self.b.ins().icmp(IntCC::UnsignedLessThan, from_b, b.bytes);
        let begins = self.b.ins().bor(in_a, in_b);
        let least = self.b.ins().umin(a.bytes, b.bytes);
        let some = self.b.ins().icmp_imm_s(IntCC::NotEqual, least, 0);
        self.b.ins().band(begins, some)
    }
}
