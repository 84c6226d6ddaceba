//! Loads at small distances, as in stencils. A vector that overlaps two others that are loaded
//! anyway is composed of them with a permutation. A load of a whole vector that is not aligned to a
//! cache line crosses two lines, which takes twice as long.
//!
//! These loads extend up to one group past the step, so the loop must end a group early.

use ir::Dtype;
use ir::leaf::{Inst, Leaf, LeafStep};

use super::inst::{MemoryRef, Operand};
use super::lanes::{Registers, WideX86};
use super::machine::Isa;
use super::op::{VectorOp, W32};
use crate::cpu::emit::Emitter;
use crate::cpu::lanes128::is_wide;

/// The minimum number of neighbouring loads for which this pays off.
const LEAST: usize = 3;
/// The maximum number of registers for the loaded vectors.
const MOST: i32 = 16;

/// The neighbouring loads of a leaf.
#[derive(Default)]
pub(super) struct Neighbours(Vec<Family>);

/// Loads of almost the same elements.
struct Family {
    dtype: Dtype,
    /// The access with the lowest address and the others, each with its distance from the first in
    /// elements, less than a group.
    members: Vec<(usize, i32)>,
    /// The number of vectors that a step loads.
    vectors: i32,
}

/// The vectors that a step has loaded, for each family from its first element on.
pub(super) struct Loaded<'n> {
    neighbours: &'n Neighbours,
    vectors: Vec<Registers>,
}

impl Neighbours {
    /// Finds the neighbouring loads of a leaf with `groups` groups per step, in arrays that it does
    /// not store to.
    pub(super) fn of(e: &Emitter<'_>, leaf: &Leaf, isa: Isa, groups: i32) -> Neighbours {
        // AVX2 has no two-register permutation that shifts across lanes.
        if isa == Isa::Avx2 {
            return Neighbours::default();
        }
        let mut loads: Vec<usize> = vec![];
        let mut stored = vec![];
        for step in &leaf.steps {
            match step {
                LeafStep::Value(id) => {
                    if let Inst::Load(access) = leaf.values[*id].1 {
                        loads.push(access);
                    }
                }
                LeafStep::Store { access, .. } => stored.push(leaf.accesses[*access].buffer),
                LeafStep::Scalar(..) | LeafStep::Nest(_) | LeafStep::Branch(_) | LeafStep::While(_) => {}
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

    /// The maximum number of elements that a step loads past its end.
    pub(super) fn beyond(&self, isa: Isa) -> i32 {
        if self.0.is_empty() { 0 } else { isa.group() }
    }
}

/// The number of elements in a vector.
fn lanes(dtype: Dtype) -> i32 {
    if is_wide(dtype) { 8 } else { 16 }
}

impl WideX86<'_, '_> {
    /// Loads the vectors of each family for a step.
    pub(super) fn load_neighbours<'n>(&mut self, neighbours: &'n Neighbours) -> Loaded<'n> {
        let mut vectors = vec![];
        for family in &neighbours.0 {
            let first = family.members.iter().find(|(_, apart)| *apart == 0).map_or(0, |(access, _)| *access);
            let place = |n| Operand::Memory(MemoryRef::Along { access: first, offset: n * lanes(family.dtype) });
            let mut load = |n| self.vector(VectorOp::Load(W32), &[place(n)]);
            vectors.push((0..family.vectors).map(&mut load).collect());
        }
        Loaded { neighbours, vectors }
    }

    /// The elements of an access for the current group, if they have been loaded.
    pub(super) fn neighbour(&mut self, access: usize) -> Option<Registers> {
        let loaded = self.loaded?;
        let find = |(family, vectors): (&Family, _)| {
            let (_, apart) = family.members.iter().find(|(member, _)| *member == access)?;
            Some((family.dtype, *apart, vectors))
        };
        let (dtype, apart, vectors): (_, _, &Registers) =
            loaded.neighbours.0.iter().zip(&loaded.vectors).find_map(find)?;
        let lanes = lanes(dtype);
        let code = VectorOp::Align(is_wide(dtype));
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
