//! The floating-point mode in which results are defined: round to nearest, keep denormals, mask
//! exceptions.
//!
//! The mode is a register of each thread, and a caller may have changed it: a C program built with
//! `-ffast-math` flushes denormals to zero, `fesetround` changes the rounding, `feenableexcept`
//! turns a NaN into a signal. So all code that computes with floats runs inside [`standard`], and
//! so does everything that pool threads run, because a thread inherits the mode of the thread that
//! created it.

/// Calls a closure in the standard mode, then restores the previous mode; on x86-64 that includes
/// the exception flags. It takes 10 ns.
///
/// ```
/// assert_eq!(backends::float_mode::standard(|| 1.0_f32 + f32::EPSILON / 4.0), 1.0);
/// ```
pub fn standard<T>(run: impl FnOnce() -> T) -> T {
    // The call is not inlined, so that no arithmetic can move across the changes of mode.
    #[inline(never)]
    fn inside<T>(run: impl FnOnce() -> T) -> T {
        run()
    }
    let _restore = Restore::new();
    inside(run)
}

/// Restores a mode when dropped, also while unwinding.
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

/// MXCSR. The x87 control word does not matter: nothing here computes with x87 instructions.
#[cfg(target_arch = "x86_64")]
mod register {
    use std::arch::asm;

    pub(super) type Mode = u32;

    /// All exceptions masked, no other bit set.
    pub(super) const STANDARD: Mode = 0x1f80;

    pub(super) fn read() -> Mode {
        let mut mode = 0;
        // SAFETY: the instruction is part of x86-64, and writes four bytes to a four-byte variable.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut mode, options(nostack)) };
        mode
    }

    pub(super) fn write(mode: Mode) {
        // SAFETY: the instruction is part of x86-64, and reads four bytes from a four-byte
        // variable. No reserved bit is set, which would fault: the value is `STANDARD` or was read
        // from the register. Rust assumes the standard mode. It holds from `Restore::new` until
        // `Restore::drop`; before and after, the mode is the caller's responsibility.
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
        // SAFETY: reading this register is unprivileged and has no side effects.
        unsafe { asm!("mrs {}, fpcr", out(reg) mode, options(nomem, nostack)) };
        mode
    }

    pub(super) fn write(mode: Mode) {
        // SAFETY: writing this register is unprivileged, and the value is 0 or was read from it.
        // Rust assumes the standard mode. It holds from `Restore::new` until `Restore::drop`;
        // before and after, the mode is the caller's responsibility.
        unsafe { asm!("msr fpcr, {}", in(reg) mode, options(nostack)) };
    }
}

/// On other processors the caller's mode is left as it is.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod register {
    pub(super) type Mode = u64;

    pub(super) const STANDARD: Mode = 0;

    pub(super) fn read() -> Mode {
        0
    }

    pub(super) fn write(_: Mode) {}
}
