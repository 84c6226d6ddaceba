//! The floating-point mode in which results are defined: rounding to nearest, denormals kept, exceptions masked.
//!
//! The mode is a register of each thread, and a caller may have changed it: a C program that was built with `-ffast-math` flushes
//! denormals to zero, `fesetround` changes every rounding, `feenableexcept` turns a NaN into a signal. So whatever computes with floats
//! does so inside [`standard`], and the threads that help do from their first instruction on, since they inherit the mode of whoever
//! made them.

/// Sets the mode, runs something, and puts back what was there before, on x86-64 with the flags of exceptions that there have been. That
/// takes 10 ns.
///
/// ```
/// assert_eq!(backends::float_mode::standard(|| 1.0_f32 + f32::EPSILON / 4.0), 1.0);
/// ```
pub fn standard<T>(run: impl FnOnce() -> T) -> T {
    // Behind a call that is not inlined, so that no arithmetic can be moved across the changes of the mode.
    #[inline(never)]
    fn inside<T>(run: impl FnOnce() -> T) -> T {
        run()
    }
    let _restore = Restore::new();
    inside(run)
}

/// Puts a mode back when it goes, also when a panic passes.
struct Restore(register::Mode);

impl Restore {
    fn new() -> Restore {
        let before = register::read();
        register::write(register::STANDARD);
        Restore(before)
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        register::write(self.0);
    }
}

/// MXCSR. Instructions on the older stack of x87 registers compute nothing here.
#[cfg(target_arch = "x86_64")]
mod register {
    use std::arch::asm;

    pub(super) type Mode = u32;

    /// All exceptions masked, nothing else.
    pub(super) const STANDARD: Mode = 0x1f80;

    pub(super) fn read() -> Mode {
        let mut mode = 0;
        // SAFETY: the instruction is part of x86-64, and writes four bytes to the address of a variable of four bytes.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut mode, options(nostack)) };
        mode
    }

    pub(super) fn write(mode: Mode) {
        // SAFETY: the instruction is part of x86-64, and reads four bytes at the address of a variable of four bytes. They have no reserved
        // bit, which would be an exception: they are `STANDARD` or were read from the register. Rust's own arithmetic assumes the standard
        // mode. It has that from `Restore::new` until `Restore::drop`; before and after, the mode is the caller's own affair.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const mode, options(nostack)) };
    }
}

/// FPCR.
#[cfg(target_arch = "aarch64")]
mod register {
    use std::arch::asm;

    pub(super) type Mode = u64;

    /// No bit set: rounding to nearest, denormals kept, NaNs propagated, no exception trapped.
    pub(super) const STANDARD: Mode = 0;

    pub(super) fn read() -> Mode {
        let mode;
        // SAFETY: every program may read this register, and nothing else changes.
        unsafe { asm!("mrs {}, fpcr", out(reg) mode, options(nomem, nostack)) };
        mode
    }

    pub(super) fn write(mode: Mode) {
        // SAFETY: every program may write this register, and the value is 0 or was read from it. Rust's own arithmetic assumes the standard
        // mode. It has that from `Restore::new` until `Restore::drop`; before and after, the mode is the caller's own affair.
        unsafe { asm!("msr fpcr, {}", in(reg) mode, options(nostack)) };
    }
}

/// On other processors the mode stays the caller's.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod register {
    pub(super) type Mode = u64;

    pub(super) const STANDARD: Mode = 0;

    pub(super) fn read() -> Mode {
        0
    }

    pub(super) fn write(_: Mode) {}
}
