//! The calls of the kernels: in order, with loops over kernels as loops. As in a run (`cpu::steps`),
//! an iteration leaves what it carries by moving addresses in the table of buffers.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use cranelift_codegen::entity::EntityRef;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I64};
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use cranelift_module::Module;
use ir::nest::{BufferId, Carried, Node, Repeat, kernels_in};

use super::memory::Layout;
use super::{Driver, own_memory};

/// The state that the calls of the kernels share.
pub(super) struct Steps<'l> {
    /// The addresses of buffers, in memory.
    pub(super) table: Value,
    pub(super) sizes: Value,
    /// The kernels' own scratch, and the caller's scratch memory.
    pub(super) own: Value,
    pub(super) scratch: Value,
    pub(super) fault: Value,
    /// The floating-point mode of the caller.
    pub(super) mode: Value,
    pub(super) layout: &'l Layout,
    /// The memory of each temporary.
    pub(super) initial_addresses: BTreeMap<BufferId, Value>,
    /// How far the ranges of kernels in loops go.
    pub(super) totals: BTreeMap<usize, Value>,
}

impl Steps<'_> {
    /// Where the table has the address of a buffer.
    fn at(id: BufferId) -> i32 {
        i32::try_from(id.index() * 8).expect("few buffers")
    }

    /// Puts the address of a buffer into the table.
    pub(super) fn enter(&self, d: &mut Driver<'_, '_>, id: BufferId, address: Value) {
        d.b.ins().store(own_memory(), address, self.table, Self::at(id));
    }

    fn address(&self, d: &mut Driver<'_, '_>, id: BufferId) -> Value {
        d.b.ins().load(I64, own_memory(), self.table, Self::at(id))
    }

    /// Computes the numbers of iterations of all loops, and how far the ranges of their kernels go:
    /// values computed inside a loop do not dominate the code after it.
    pub(super) fn prepare(&mut self, d: &mut Driver<'_, '_>) {
        let parts = d.parts;
        for repeat in parts.run.repeats() {
            repeat.trips.iter().for_each(|trips| _ = d.sizes.size(&mut d.b, trips));
            for id in kernels_in(&repeat.body) {
                if let Entry::Vacant(entry) = self.totals.entry(id.index()) {
                    entry.insert(d.total(&parts.kernels[id.index()]));
                }
            }
        }
    }

    /// Calls the kernels of the program.
    pub(super) fn program(&mut self, d: &mut Driver<'_, '_>, module: &mut dyn Module) {
        let (nodes, behind) = (&d.parts.run.body, d.b.create_block());
        self.sequence(d, module, nodes, behind);
        d.b.ins().jump(behind, &[]);
        d.b.switch_to_block(behind);
    }

    /// Calls the kernels of a sequence. Exits of the loop around it go to the block `behind`.
    fn sequence(&mut self, d: &mut Driver<'_, '_>, module: &mut dyn Module, nodes: &[Node], behind: Block) {
        for node in nodes {
            match node {
                Node::Kernel(id) => self.kernel(d, module, id.index()),
                Node::Repeat(repeat) => self.repeat(d, module, repeat),
                Node::Exit { unless } => {
                    let address = self.address(d, *unless);
                    let holds = d.b.ins().load(I8, own_memory(), address, 0);
                    let on = d.b.create_block();
                    d.b.ins().brif(holds, on, &[], behind, &[]);
                    d.b.switch_to_block(on);
                }
            }
        }
    }

    fn kernel(&mut self, d: &mut Driver<'_, '_>, module: &mut dyn Module, number: usize) {
        let parts = d.parts;
        for (id, at) in &self.layout.buffers[number] {
            let address = d.b.ins().iadd(self.scratch, *at);
            self.enter(d, *id, address);
        }
        let kernel = &parts.kernels[number];
        let begin = d.int(0);
        let end = self.totals.get(&number).copied().unwrap_or_else(|| d.total(kernel));
        let callee = module.declare_func_in_func(kernel.function, d.b.func);
        let call = d.b.ins().call(callee, &[self.table, self.sizes, begin, end, self.own, self.fault]);
        let failed = d.b.inst_results(call)[0];
        if !parts.interface.program.sites.is_empty() {
            d.faulted(module, failed, self.fault, self.mode);
        }
    }

    fn repeat(&mut self, d: &mut Driver<'_, '_>, module: &mut dyn Module, repeat: &Repeat) {
        let trips = match &repeat.trips {
            Some(trips) => d.sizes.size(&mut d.b, trips).value,
            None => d.int(i64::MAX),
        };
        for Carried { initial, current, next } in &repeat.carried {
            let first = self.address(d, *initial);
            self.enter(d, *current, first);
            self.enter(d, *next, self.initial_addresses[next]);
        }
        let [head, body, behind] = [(); 3].map(|()| d.b.create_block());
        let count = d.b.append_block_param(head, I64);
        let zero = d.int(0);
        d.b.ins().jump(head, &[zero.into()]);
        d.b.switch_to_block(head);
        let more = d.b.ins().icmp(IntCC::SignedLessThan, count, trips);
        d.b.ins().brif(more, body, &[], behind, &[]);
        d.b.switch_to_block(body);
        self.sequence(d, module, &repeat.body, behind);
        for Carried { current, next, .. } in &repeat.carried {
            let (stored, own) = (self.address(d, *next), self.initial_addresses[next]);
            let is_own = d.b.ins().icmp(IntCC::Equal, stored, own);
            let other = d.b.ins().select(is_own, self.initial_addresses[current], own);
            self.enter(d, *next, other);
            self.enter(d, *current, stored);
        }
        let count = d.b.ins().iadd_imm_s(count, 1);
        d.b.ins().jump(head, &[count.into()]);
        d.b.switch_to_block(behind);
    }
}
