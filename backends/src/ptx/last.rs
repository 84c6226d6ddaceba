//! Two parts in one launch: the last block that ends the first part runs the second one.
//!
//! Blocks are counted from launch to launch, so that no launch has to clear what the one before it
//! has left. No block waits for another.

use std::collections::BTreeMap;

use ir::nest::BufferId;

use super::build::{Builder, Control};
use super::inst::{Address, Function, Inst, Label, Name, Op, Operand, Reg, Rounding, Space, Special, Type};
use super::state::Argument;

/// The bytes of a word.
const WORD: i64 = 8;

/// The code of a part, and the arguments that it needs.
pub(super) type Code = (Function, Vec<Argument>);

/// A launch under construction.
struct Joined {
    builder: Builder,
    arguments: Vec<Argument>,
}

impl Control for Joined {
    fn b(&mut self) -> &mut Builder {
        &mut self.builder
    }
}

/// A function that runs the first part, and then the second one in its last block. Both have the
/// same number of threads. `ended` has the count of blocks.
pub(super) fn in_last_block((first, second): (&Code, &Code), ended: BufferId) -> Code {
    let parts = [&first.0, &second.0];
    let most = |of: fn(&Function) -> usize| parts.into_iter().map(of).max().unwrap_or(0);
    let mut builder = Builder::new();
    builder.take(Space::Shared, most(|function| function.shared));
    builder.take(Space::Local, most(|function| function.local));
    let mut joined = Joined { builder, arguments: vec![] };
    joined.copy(first);
    let blocks = joined.b().mov(Type::U32, Operand::Special(Special::Nctaid));
    let blocks = joined.b().convert(Rounding::Exact, Type::U64, Type::U32, blocks);
    let last = joined.ends_last(blocks, |e| {
        let at = Address { base: None, offset: e.offset(&Argument::Buffer(ended)) };
        e.b().load(Space::Param, Type::B64, at)
    });
    joined.when(last, |e| e.copy(second));
    let bytes = joined.arguments.len() * WORD as usize;
    let function = joined.builder.finish(first.0.name.clone(), bytes, first.0.threads);
    (function, joined.arguments)
}

impl Joined {
    /// Copies the code of a part.
    fn copy(&mut self, (function, arguments): &Code) {
        let offsets: Vec<i64> = arguments.iter().map(|argument| self.offset(argument)).collect();
        let registers: Vec<Reg> = function.registers.values().map(|class| self.b().reg(*class)).collect();
        let mut labels: BTreeMap<Label, Label> = BTreeMap::new();
        for inst in function.body.iter().filter(|inst| inst.op != Op::Return) {
            let mut inst: Inst = inst.clone();
            if let Op::Load { space: Space::Param, at, .. } = &mut inst.op {
                at.offset = usize::try_from(at.offset / WORD).map_or(0, |k| offsets[k]);
            }
            inst.for_each_name(&mut |name| match name {
                Name::Reg(reg) => *reg = registers[reg.as_u32() as usize],
                Name::Label(label) => *label = *labels.entry(*label).or_insert_with(|| self.b().label()),
            });
            self.b().insert(inst);
        }
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
}
