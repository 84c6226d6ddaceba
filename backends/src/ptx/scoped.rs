//! Changes a part of the state for the code that a closure emits, and restores it afterwards.

use super::emit::Emitter;
use super::inst::Reg;
use super::state::{DeferredStore, ExecScope};

impl Emitter<'_> {
    /// Emits code for the threads of an execution scope.
    pub(super) fn in_exec_scope<T>(&mut self, exec_scope: ExecScope, make: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.mapping.exec_scope, exec_scope);
        let made = make(self);
        self.mapping.exec_scope = outer;
        made
    }

    /// Emits code whose loads, stores and checks are guarded by a predicate.
    pub(super) fn masked<T>(&mut self, valid: Reg, make: impl FnOnce(&mut Self) -> T) -> T {
        let outer = self.masks.valid.replace(valid);
        let made = make(self);
        self.masks.valid = outer;
        made
    }

    /// Emits code whose stores are deferred, and so are the reports of its checks. Returns the
    /// stores.
    pub(super) fn deferring(&mut self, make: impl FnOnce(&mut Self)) -> Vec<DeferredStore> {
        let outer = self.deferred.replace(vec![]);
        self.reporting_at_end(make);
        std::mem::replace(&mut self.deferred, outer).unwrap_or_default()
    }

    /// Emits code whose stores are not deferred, because it is conditional or runs several times.
    pub(super) fn without_deferral<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> T {
        let (deferred, failed) = (self.deferred.take(), self.failed.take());
        let made = make(self);
        (self.deferred, self.failed) = (deferred, failed);
        made
    }
}
