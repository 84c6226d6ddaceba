//! Loads at small distances, as in stencils. A vector that overlaps two others that are loaded
//! anyway is composed of them with a permutation. A load of a whole vector that is not aligned to a
//! cache line crosses two lines, which takes twice as long.
//!
//! These loads extend up to one group past the step, so the loop must end a group early.

use ir::Dtype;
use ir::leaf::{Inst, Leaf, LeafStep};

use super::inst::Registers;
use crate::cpu::emit::Emitter;
use crate::cpu::leaf::is_wide;
use crate::cpu::machine::Isa;

/// The minimum number of neighbouring loads for which this pays off.
const LEAST: usize = 3;
/// The maximum number of registers for the loaded vectors.
const MOST: i32 = 16;

/// The neighbouring loads of a leaf.
#[derive(Default)]
pub(super) struct Neighbours(pub(super) Vec<Family>);

/// Loads of almost the same elements.
pub(super) struct Family {
    pub(super) dtype: Dtype,
    /// The access with the lowest address and the others, each with its distance from the first in
    /// elements, less than a group.
    pub(super) members: Vec<(usize, i32)>,
    /// The number of vectors that a step loads.
    pub(super) vectors: i32,
}

/// The vectors that a step has loaded, for each family from its first element on.
pub(super) struct Loaded<'n> {
    pub(super) neighbours: &'n Neighbours,
    pub(super) vectors: Vec<Registers>,
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
pub(super) fn lanes(dtype: Dtype) -> i32 {
    if is_wide(dtype) { 8 } else { 16 }
}
