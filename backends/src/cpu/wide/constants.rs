//! Numbers that are pinned in registers for a whole function.

use super::assemble::{Assembler, Chosen};
use super::inst::{Body, Item, Operand, Splat};
use super::liveness::{for_each_item, for_each_operand, pressure};
use crate::cpu::machine::Isa;

/// The numbers that are pinned in registers for the whole function.
#[derive(Default)]
pub(super) struct PinnedConstants {
    pub(super) splats: Vec<(Splat, u32)>,
    /// The number of reserved registers, the first ones of the machine.
    pub(super) fixed: u32,
}

impl PinnedConstants {
    /// Pins the most frequently used numbers of the bodies, as far as registers are left.
    pub(super) fn of(isa: Isa, bodies: &[&Body], fixed: u32) -> PinnedConstants {
        let mut counts: Vec<(Splat, usize)> = vec![];
        for body in bodies {
            for_each_splat(&body.items, &mut |splat| match counts.iter_mut().find(|(known, _)| *known == splat) {
                Some((_, count)) => *count += 1,
                None => counts.push((splat, 1)),
            });
        }
        let most = bodies.iter().map(|body| pressure(body)).max().unwrap_or(0);
        let left = ((isa.vectors() - fixed) as usize).saturating_sub(most + 2);
        counts.sort_by_key(|(splat, count)| (std::cmp::Reverse(*count), *splat));
        let splats = counts.into_iter().take(left).map(|(splat, _)| splat).zip((0..isa.vectors()).rev()).collect();
        PinnedConstants { splats, fixed }
    }

    /// Loads the pinned numbers.
    pub(super) fn load(&self, asm: &mut Assembler) {
        for (splat, register) in &self.splats {
            broadcast(asm, *splat, *register);
        }
    }

    pub(super) fn find(&self, splat: Splat) -> Option<u32> {
        self.splats.iter().find(|(known, _)| *known == splat).map(|(_, register)| *register)
    }
}

pub(super) fn broadcast(asm: &mut Assembler, splat: Splat, register: u32) {
    let code = asm.isa.moves().broadcast[usize::from(splat.is_wide())];
    asm.vector(code, &[Chosen::Vector(register), Chosen::Broadcast(splat)], None);
}

fn for_each_splat(items: &[Item], visit: &mut impl FnMut(Splat)) {
    for_each_item(items, &mut |item| {
        for_each_operand(item, &mut |operand| {
            if let Operand::Splat(splat) = operand {
                visit(splat);
            }
        });
    });
}
