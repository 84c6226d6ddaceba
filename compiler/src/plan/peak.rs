//! The peak memory of a call: inputs, results and constants, the slots (which exist as long as the
//! call), and the scratch of each thread during a kernel. It is computed as a number for given
//! sizes and as a formula; the memory limit and the reports use the same computation.

use std::collections::BTreeSet;

use ir::nest::{Buffer, BufferId, Program, Role};
use ir::{Size, visit};

/// The bytes of a call.
#[derive(Clone, Debug)]
pub struct Peak {
    /// Arrays that each have memory of their own.
    apart: Vec<Bytes>,
    /// Slots, each as large as the largest of its members.
    slots: Vec<Vec<Bytes>>,
    /// The scratch of each kernel that has some: one kernel at a time, once for each thread.
    scratch: Vec<Vec<Bytes>>,
}

/// The bytes of an array: the product of these, where a negative one counts as 0.
type Bytes = Vec<Size>;

impl Peak {
    /// The peak memory of a program's calls.
    pub fn of(program: &Program) -> Peak {
        let bytes = |buffer: &Buffer| -> Bytes {
            let width = Size::constant(i64::try_from(buffer.dtype.bytes()).unwrap_or(i64::MAX));
            std::iter::once(width).chain(buffer.shape.iter().cloned()).collect()
        };
        let of = |id: BufferId| bytes(&program.buffers[id]);
        let is_temp = |id: &BufferId| program.buffers[*id].role == Role::Temp;
        let (mut alone, mut scratch) = (BTreeSet::new(), vec![]);
        for kernel in program.kernels.values() {
            let stored: BTreeSet<BufferId> = visit::stores(&kernel.body).into_iter().collect();
            alone.extend(stored.iter().copied().filter(is_temp));
            let tables = kernel.tables_read_once(program);
            let is_own = |id: &BufferId| program.buffers[*id].role == Role::Scratch && !tables.contains(id);
            let own: Vec<Bytes> = stored.into_iter().filter(is_own).map(of).collect();
            if !own.is_empty() {
                scratch.push(own);
            }
        }
        // Each of the two that a loop over kernels exchanges has memory.
        alone.extend(program.carried().map(|carried| carried.current));
        let mut slots = vec![];
        for members in program.slots.values() {
            members.iter().for_each(|id| _ = alone.remove(id));
            // If a result is among them, they all lie in its memory.
            if members.iter().all(is_temp) {
                slots.push(members.iter().copied().map(of).collect::<BTreeSet<Bytes>>().into_iter().collect());
            }
        }
        let given = program.buffers.values().filter(|b| !matches!(b.role, Role::Temp | Role::Scratch));
        let apart = given.map(bytes).chain(alone.into_iter().map(of)).collect();
        Peak { apart, slots, scratch }
    }

    /// The bytes of a call with these sizes and this number of threads.
    pub fn at(&self, size: &impl Fn(&Size) -> i64, threads: usize) -> u128 {
        let bytes = |factors: &Bytes| {
            let lengths = factors.iter().map(|factor| u128::from(size(factor).max(0).cast_unsigned()));
            lengths.fold(1, u128::saturating_mul)
        };
        let sum = |all: &[Bytes]| all.iter().map(bytes).fold(0, u128::saturating_add);
        let slots = self.slots.iter().map(|members| members.iter().map(bytes).max().unwrap_or(0));
        let scratch = self.scratch.iter().map(|own| sum(own)).max().unwrap_or(0);
        let scratch = scratch.saturating_mul(threads as u128);
        slots.fold(sum(&self.apart).saturating_add(scratch), u128::saturating_add)
    }

    /// The bytes of a call as a formula, such as `8 * n * m + max(4 * n, 4 * m) + threads * 4 * m`,
    /// with sizes written by `text`.
    pub fn formula(&self, text: &impl Fn(&Size) -> String) -> String {
        let product = |factors: &Bytes| factors.iter().fold(Size::constant(1), |product, factor| &product * factor);
        let sum = |all: &[Bytes]| all.iter().map(product).fold(Size::default(), |sum, bytes| &sum + &bytes);
        let most = |sizes: &BTreeSet<Size>| {
            let texts: Vec<String> = sizes.iter().map(text).collect();
            format!("max({})", texts.join(", "))
        };
        let mut always = sum(&self.apart);
        let mut parts = vec![];
        for members in &self.slots {
            let sizes: BTreeSet<Size> = members.iter().map(product).collect();
            match sizes.first() {
                Some(size) if sizes.len() == 1 => always = &always + size,
                _ => parts.push(most(&sizes)),
            }
        }
        let scratch: BTreeSet<Size> = self.scratch.iter().map(|own| sum(own)).collect();
        match scratch.first() {
            None => {}
            Some(size) if scratch.len() > 1 || size.terms().len() > 1 => {
                let each = if scratch.len() > 1 { most(&scratch) } else { format!("({})", text(size)) };
                parts.push(format!("threads * {each}"));
            }
            Some(size) => parts.push(format!("threads * {}", text(size))),
        }
        parts.insert(0, text(&always));
        parts.join(" + ")
    }
}
