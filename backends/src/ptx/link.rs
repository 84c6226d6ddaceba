//! Several parts in one launch, with barriers for the grid between them. The blocks of the launch
//! take turns: a turn runs the code of some blocks that a part would have in a launch of its own,
//! and whichever block is free takes the next one. A block that finds no more turns waits until all
//! turns of the part have ended, before it takes those of the next part. So blocks only wait for
//! blocks that have started, and a grid of any size gets to its end, even if the device cannot hold
//! all of it at once (as grid barriers of cooperative launches require).
//!
//! Turns are counted from launch to launch, so that no launch has to clear what the one before it
//! has left.

use std::collections::BTreeMap;

use ir::nest::BufferId;
use ir::sabotage::{self, Bug};
use ir::sched::TURNS;

use super::build::{Builder, Control};
use super::emit::Argument;
use super::inst::{
    Address, Class, Comparison, Function, Inst, Label, Name, Op, Opcode, Operand, Reg, Rounding, Space, Special, Type,
};

/// The bytes of a count.
const WORD: i64 = 8;

/// A part as it would be launched alone.
pub(super) struct Alone {
    pub(super) function: Function,
    pub(super) arguments: Vec<Argument>,
}

/// A launch under construction.
struct Linker {
    builder: Builder,
    arguments: Vec<Argument>,
    /// The threads of a block.
    threads: u32,
    thread: Reg,
    /// Whether this is the first thread of its block.
    first: Reg,
}

impl Control for Linker {
    fn b(&mut self) -> &mut Builder {
        &mut self.builder
    }
}

/// A function that runs parts one after another. It has the threads of the largest of them; the
/// others have fewer only if their threads work independently.
pub(super) fn link(name: String, parts: &[Alone], turns: BufferId) -> (Function, Vec<Argument>) {
    let most = |of: fn(&Function) -> usize| parts.iter().map(|part| of(&part.function)).max().unwrap_or(0);
    let threads = parts.iter().map(|part| part.function.threads).max().unwrap_or(1);
    let mut builder = Builder::new();
    builder.take(Space::Shared, most(|function| function.shared));
    builder.take(Space::Local, most(|function| function.local));
    let thread = builder.mov(Type::U32, Operand::Special(Special::Tid));
    let first = builder.set(Comparison::Eq, Type::U32, thread, 0);
    let mut linker = Linker { builder, arguments: vec![], threads, thread, first };
    linker.parts(parts, turns);
    let bytes = linker.arguments.len().max(1) * 8;
    (linker.builder.finish(name, bytes, threads), linker.arguments)
}

impl Linker {
    fn parts(&mut self, parts: &[Alone], turns: BufferId) {
        let slot = Address { base: None, offset: self.b().take(Space::Shared, WORD as usize) };
        let counts = self.argument(&Argument::Buffer(turns));
        let blocks = self.b().mov(Type::U32, Operand::Special(Special::Nctaid));
        let blocks = self.b().convert(Rounding::Exact, Type::U64, Type::U32, blocks);
        // The number of launches before this one.
        let launch = self.b().mov(Type::S64, 0);
        for (number, part) in parts.iter().enumerate() {
            let own = self.argument(&Argument::Blocks(number));
            let each = self.argument(&Argument::BlocksAtOnce(number));
            let together = i64::from(self.threads / part.function.threads);
            let count = self.ceil_div(own, together.into());
            let all = self.ceil_div(count, each.into());
            // Each block asks once more, in vain.
            let asked = self.b().op2(Opcode::Add, Type::S64, all, blocks);
            let [taken, ended] = [0, WORD].map(|offset| Address {
                base: Some(counts),
                offset: number as i64 * TURNS * WORD + offset,
            });
            let done = self.b().mov(Type::S64, 0);
            let turn = self.b().mov(Type::S64, 0);
            self.while_(
                |e| {
                    e.when(e.first, |e| {
                        let ticket = e.b().take_ticket(taken);
                        e.b().store(Space::Shared, Type::B64, ticket, slot);
                    });
                    e.b().barrier();
                    let ticket = e.b().load(Space::Shared, Type::B64, slot);
                    e.b().barrier();
                    if number == 0 {
                        e.b().op_to(launch, Opcode::Div, Type::U64, &[ticket.into(), asked.into()]);
                    }
                    let before = e.b().op2(Opcode::Mul, Type::S64, launch, asked);
                    e.b().op_to(turn, Opcode::Sub, Type::S64, &[ticket.into(), before.into()]);
                    e.b().set(Comparison::Lt, Type::S64, turn, all)
                },
                |e| {
                    let from = e.b().op2(Opcode::Mul, Type::S64, turn, each);
                    let to = e.b().op2(Opcode::Add, Type::S64, from, each);
                    let to = e.b().op2(Opcode::Min, Type::S64, to, count);
                    e.counted(from, to, 1, |e, block| e.block(part, block, own, together));
                    let ran = e.b().op2(Opcode::Sub, Type::S64, to, from);
                    e.b().op_to(done, Opcode::Add, Type::S64, &[done.into(), ran.into()]);
                },
            );
            if number + 1 < parts.len() && !sabotage::on(Bug::PtxGridBarrier) {
                self.grid_barrier(ended, done, launch, count);
            }
        }
    }

    /// Waits until all turns of a part have ended.
    fn grid_barrier(&mut self, ended: Address, done: Reg, launch: Reg, count: Reg) {
        self.b().barrier();
        self.when(self.first, |e| {
            let some = e.b().set(Comparison::Gt, Type::S64, done, 0);
            e.b().guarded(some, |b| b.add_released(ended, done));
            let wanted = e.b().op(Opcode::Mad, Type::S64, &[launch.into(), count.into(), count.into()]);
            let found = e.b().reg(Class::B64);
            e.while_(
                |e| {
                    e.b().load_acquired(found, ended);
                    e.b().set(Comparison::Lt, Type::S64, found, wanted)
                },
                |_| {},
            );
        });
        self.b().barrier();
    }

    /// The code of a part for a block of the launch, which has the threads of `together` blocks of
    /// the part.
    fn block(&mut self, part: &Alone, number: Reg, own: Reg, together: i64) {
        let narrow = |e: &mut Self, wide: Reg| e.b().convert(Rounding::Exact, Type::U32, Type::U64, wide);
        let (number, own) = (narrow(self, number), narrow(self, own));
        if together == 1 {
            self.copy(part, &[(Special::Ctaid, number), (Special::Nctaid, own)]);
            if part.function.shared > 0 {
                self.b().barrier();
            }
            return;
        }
        let threads = i64::from(part.function.threads);
        let thread = self.thread;
        let which = self.b().op2(Opcode::Div, Type::U32, thread, threads);
        let inside = self.b().op2(Opcode::Rem, Type::U32, thread, threads);
        let block = self.b().op(Opcode::Mad, Type::U32, &[number.into(), together.into(), which.into()]);
        let in_all = self.b().mov(Type::U32, threads);
        let exists = self.b().set(Comparison::Lt, Type::U32, block, own);
        self.when(exists, |e| {
            e.copy(
                part,
                &[(Special::Ctaid, block), (Special::Nctaid, own), (Special::Tid, inside), (Special::Ntid, in_all)],
            );
        });
    }

    /// Copies the code of a part, with values of its own for special registers.
    fn copy(&mut self, part: &Alone, values: &[(Special, Reg)]) {
        let Alone { function, arguments } = part;
        let offsets: Vec<i64> = arguments.iter().map(|argument| self.offset(argument)).collect();
        let registers: Vec<Reg> = function.registers.values().map(|class| self.b().reg(*class)).collect();
        let mut labels: BTreeMap<Label, Label> = BTreeMap::new();
        for inst in &function.body {
            if inst.op == Op::Return {
                continue;
            }
            let mut inst: Inst = inst.clone();
            if let Op::Load { space: Space::Param, at, .. } = &mut inst.op {
                at.offset = usize::try_from(at.offset / WORD).map_or(0, |k| offsets[k]);
            }
            inst.for_each_name(&mut |name| match name {
                Name::Reg(reg) => *reg = registers[reg.as_u32() as usize],
                Name::Label(label) => *label = *labels.entry(*label).or_insert_with(|| self.b().label()),
                Name::Special(operand, special) => {
                    let value = values.iter().find(|(other, _)| *other == special);
                    *operand = value.map_or(*operand, |(_, reg)| Operand::Reg(*reg));
                }
            });
            self.b().insert(inst);
        }
    }

    fn ceil_div(&mut self, a: Reg, b: Operand) -> Reg {
        let less = self.b().op2(Opcode::Sub, Type::S64, a, 1);
        let sum = self.b().op2(Opcode::Add, Type::S64, less, b);
        self.b().op2(Opcode::Div, Type::S64, sum, b)
    }

    /// The place of an argument among those of the launch.
    fn offset(&mut self, argument: &Argument) -> i64 {
        let found = self.arguments.iter().position(|other| other == argument);
        let number = found.unwrap_or_else(|| {
            self.arguments.push(argument.clone());
            self.arguments.len() - 1
        });
        number as i64 * WORD
    }

    fn argument(&mut self, argument: &Argument) -> Reg {
        let at = Address { base: None, offset: self.offset(argument) };
        self.b().load(Space::Param, Type::B64, at)
    }
}
