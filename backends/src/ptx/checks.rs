//! Bounds checks. A thread with a subscript out of bounds goes on with subscript 0, and reports the
//! fault. In unrolled code it reports after all iterations, so that no branch keeps the loads of a
//! later one behind those of an earlier one.

use ir::Size;
use ir::nest::{SiteId, ValueId};

use super::build::Control;
use super::emit::Emitter;
use super::inst::{Address, Comparison, Opcode, Reg, Space, Type};
use super::state::{Argument, Failed};

impl Emitter<'_> {
    /// Emits a bounds check and returns the subscript, or 0 if it is out of bounds.
    pub(super) fn check(&mut self, value: ValueId, bound: &Size, site: SiteId) -> Reg {
        let (index, bound) = (self.value(value), self.size(bound));
        let inside = self.b().set(Comparison::Lt, Type::U64, index, bound);
        let mut outside = self.b().op(Opcode::Not, Type::Pred, &[inside.into()]);
        if let Some(valid) = self.masks.valid {
            outside = self.b().op2(Opcode::And, Type::Pred, outside, valid);
        }
        let failed = Failed { outside, index, bound, site };
        match &mut self.failed {
            Some(all) => {
                all.push(failed);
                if let Some(passed) = self.masks.passed {
                    let fine = self.b().op(Opcode::Not, Type::Pred, &[outside.into()]);
                    self.b().op_to(passed, Opcode::And, Type::Pred, &[passed.into(), fine.into()]);
                }
            }
            None => self.when(outside, |e| {
                if let Some(passed) = e.masks.passed {
                    e.b().op_to(passed, Opcode::And, Type::Pred, &[passed.into(), inside.into()]);
                }
                e.report(failed);
            }),
        }
        self.b().select(Type::B64, index, 0, inside)
    }

    /// Emits code whose checks report at its end.
    pub(super) fn reporting_at_end(&mut self, make: impl FnOnce(&mut Self)) {
        let outer = self.failed.replace(vec![]);
        make(self);
        let failed = std::mem::replace(&mut self.failed, outer).unwrap_or_default();
        let all: Vec<Reg> = failed.iter().map(|failed| failed.outside).collect();
        let Some(any) = all.into_iter().reduce(|a, b| self.b().op2(Opcode::Or, Type::Pred, a, b)) else { return };
        self.when(any, |e| failed.into_iter().for_each(|failed| e.when(failed.outside, |e| e.report(failed))));
    }

    /// Reports a failed check. Of all threads with one, the first to swap its site into the record
    /// reports its fault.
    fn report(&mut self, Failed { index, bound, site, .. }: Failed) {
        let fault = self.argument(Argument::Fault);
        let at = |offset| Address { base: Some(fault), offset };
        // The record holds 0 until a check fails. Only the thread that replaces the 0 writes the
        // rest.
        let before = self.b().compare_and_swap(at(0), 0, i64::from(site.as_u32()) + 1);
        let first = self.b().set(Comparison::Eq, Type::U32, before, 0);
        self.b().guarded(first, |b| {
            b.store(Space::Global, Type::B64, index, at(8));
            b.store(Space::Global, Type::B64, bound, at(16));
        });
    }
}
