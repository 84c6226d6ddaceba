//! Loads of elements that lie a few apart, as stencils have them: a vector that lies across others that are loaded anyway is put together
//! of two of these. A load of a whole vector that does not begin with a line of memory lies across two lines, and takes twice as long.
//!
//! What is loaded ends at most one group behind the step, so there must be that group.

use iced_x86::Code;
use ir::Dtype;

use super::inst::{Operand, Place};
use super::lanes::{Parts, WideX86};
use super::machine::Isa;
use crate::cpu::emit::Emitter;
use crate::cpu::lanes128::is_wide;
use crate::cpu::leaf::{Inst, Leaf, Step};

/// So many loads that lie a few apart are worth it.
const LEAST: usize = 3;
/// So many registers may hold what is loaded.
const MOST: i32 = 16;

/// The loads of a leaf that lie a few elements apart.
#[derive(Default)]
pub(super) struct Neighbours(Vec<Family>);

/// Loads of the same elements, or almost.
struct Family {
    dtype: Dtype,
    /// The first element's access and the others, by how many elements they lie behind it: less than a group.
    members: Vec<(usize, i32)>,
    /// How many vectors a step loads.
    vectors: i32,
}

/// What a step has loaded: for each family the vectors from its first element on.
pub(super) struct Loaded<'n> {
    neighbours: &'n Neighbours,
    vectors: Vec<Parts>,
}

impl Neighbours {
    /// Those of a leaf that takes so many groups a step, in arrays that it does not store to.
    pub(super) fn of(e: &Emitter<'_>, leaf: &Leaf, isa: Isa, groups: i32) -> Neighbours {
        // AVX2 has no such permutation.
        if isa == Isa::Avx2 {
            return Neighbours::default();
        }
        let mut loads: Vec<usize> = vec![];
        let mut stored = vec![];
        for step in &leaf.steps {
            match step {
                Step::Value(id) => {
                    if let Inst::Load(access) = leaf.values[*id].1 {
                        loads.push(access);
                    }
                }
                Step::Store { access, .. } => stored.push(leaf.accesses[*access].buffer),
                Step::Scalar(..) | Step::Nest(_) | Step::Branch(_) => {}
            }
        }
        loads.retain(|access| {
            let a = &leaf.accesses[*access];
            let bytes = e.buffer_dtype(a.buffer).bytes();
            a.contiguous() && !a.inner && !a.spread && bytes >= 4 && !stored.contains(&a.buffer)
        });
        let mut families: Vec<Family> = vec![];
        while let Some(any) = loads.first().copied() {
            let behind = |access: usize, other: usize| leaf.accesses[access].behind(&leaf.accesses[other]);
            let apart = loads.iter().filter_map(|access| Some((behind(*access, any)?, *access)));
            let first = apart.min().map_or(any, |(_, access)| access);
            let near = |access: usize| {
                let apart = i32::try_from(behind(access, first)?).ok()?;
                (0..isa.group()).contains(&apart).then_some((access, apart))
            };
            let members: Vec<(usize, i32)> = loads.iter().filter_map(|access| near(*access)).collect();
            loads.retain(|access| !members.iter().any(|(member, _)| member == access));
            let dtype = e.buffer_dtype(leaf.accesses[first].buffer);
            let last = members.iter().map(|(_, apart)| *apart).max().unwrap_or(0);
            let vectors = (groups * isa.group() + last + lanes(dtype) - 1) / lanes(dtype);
            let all: i32 = families.iter().map(|family| family.vectors).sum();
            if members.len() >= LEAST && all + vectors <= MOST {
                families.push(Family { dtype, members, vectors });
            }
        }
        Neighbours(families)
    }

    /// How many elements more than its own a step loads at most.
    pub(super) fn beyond(&self, isa: Isa) -> i32 {
        if self.0.is_empty() { 0 } else { isa.group() }
    }
}

/// Elements of a vector.
fn lanes(dtype: Dtype) -> i32 {
    if is_wide(dtype) { 8 } else { 16 }
}

impl WideX86<'_, '_> {
    /// Loads what a step needs of each family.
    pub(super) fn load_neighbours<'n>(&mut self, neighbours: &'n Neighbours) -> Loaded<'n> {
        let mut vectors = vec![];
        for family in &neighbours.0 {
            let first = family.members.iter().find(|(_, apart)| *apart == 0).map_or(0, |(access, _)| *access);
            let place = |n| Operand::Memory(Place::Along { access: first, offset: n * lanes(family.dtype) });
            let mut load = |n| self.vector(Code::EVEX_Vmovups_zmm_k1z_zmmm512, &[place(n)]);
            vectors.push((0..family.vectors).map(&mut load).collect());
        }
        Loaded { neighbours, vectors }
    }

    /// The elements of an access for the group at hand, if they are loaded.
    pub(super) fn neighbour(&mut self, access: usize) -> Option<Parts> {
        let loaded = self.loaded?;
        let find = |(family, vectors): (&Family, _)| {
            let (_, apart) = family.members.iter().find(|(member, _)| *member == access)?;
            Some((family.dtype, *apart, vectors))
        };
        let (dtype, apart, vectors): (_, _, &Parts) = loaded.neighbours.0.iter().zip(&loaded.vectors).find_map(find)?;
        let lanes = lanes(dtype);
        let code = if is_wide(dtype) {
            Code::EVEX_Valignq_zmm_k1z_zmm_zmmm512b64_imm8
        } else {
            Code::EVEX_Valignd_zmm_k1z_zmm_zmmm512b32_imm8
        };
        let mut parts = vec![];
        for part in 0..self.isa().group() / lanes {
            let begin = self.offset + apart + part * lanes;
            let vector = |number: i32| vectors.get(usize::try_from(number).ok()?).copied();
            let (low, by) = (vector(begin / lanes)?, u8::try_from(begin % lanes).ok()?);
            parts.push(match by {
                0 => low,
                _ => self.vector(code, &[vector(begin / lanes + 1)?, low, Operand::Immediate(by)]),
            });
        }
        Some(parts)
    }
}
