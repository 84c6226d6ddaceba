//! Ctrl-C during a call. Python only notes the signal, and raises `KeyboardInterrupt` once the main
//! thread is back in the interpreter, so a handler of ours cancels the call that this thread is in.
//!
//! The handler stands in front of Python's, which it calls. Python installs its own again whenever
//! a program calls `signal.signal`, so each call of the main thread looks, in one system call,
//! whether ours is still there. Where the signal is ignored or kills the process, nothing is
//! installed.

use fuseloop::Cancel;
use pyo3::prelude::*;

/// Notes which thread is the main one.
pub(crate) fn prepare(py: Python<'_>) -> PyResult<()> {
    #[cfg(unix)]
    {
        let main: usize = py.import("threading")?.call_method0("main_thread")?.getattr("ident")?.extract()?;
        unix::begin(main);
    }
    #[cfg(not(unix))]
    let _ = py;
    Ok(())
}

/// The request that Ctrl-C makes, if this is the main thread, which alone handles signals.
pub(crate) fn watch() -> Option<&'static Cancel> {
    #[cfg(unix)]
    return unix::watch();
    #[cfg(not(unix))]
    None
}

#[cfg(unix)]
mod unix {
    use std::ffi::{c_int, c_void};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use fuseloop::Cancel;

    /// The request, which calls of the main thread share, and that thread as `pthread_self` names
    /// it.
    static CANCEL: OnceLock<(Cancel, usize)> = OnceLock::new();
    /// The handler that ours stands in front of, and whether it takes three arguments.
    static BEFORE: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);
    static TAKES_THREE: AtomicBool = AtomicBool::new(false);

    pub(super) fn begin(main: usize) {
        CANCEL.get_or_init(|| (Cancel::default(), main));
    }

    pub(super) fn watch() -> Option<&'static Cancel> {
        let (cancel, main) = CANCEL.get()?;
        // SAFETY: it has no preconditions.
        let this = unsafe { libc::pthread_self() } as usize;
        if this != *main {
            return None;
        }
        install();
        cancel.withdraw();
        Some(cancel)
    }

    fn install() {
        let ours = on_interrupt as *const () as usize;
        // SAFETY: a zeroed `sigaction` is one without flags or blocked signals; both calls get
        // pointers to such structures or null, and the handler calls nothing but an atomic store
        // and the handler before it, which was installed as one.
        unsafe {
            let mut found: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(libc::SIGINT, std::ptr::null(), &raw mut found) != 0 {
                return;
            }
            if [ours, libc::SIG_DFL, libc::SIG_IGN].contains(&found.sa_sigaction) {
                return;
            }
            TAKES_THREE.store(found.sa_flags & libc::SA_SIGINFO != 0, Ordering::Release);
            BEFORE.store(found.sa_sigaction, Ordering::Release);
            found.sa_sigaction = ours;
            found.sa_flags |= libc::SA_SIGINFO;
            libc::sigaction(libc::SIGINT, &raw const found, std::ptr::null_mut());
        }
    }

    extern "C" fn on_interrupt(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
        if let Some((cancel, _)) = CANCEL.get() {
            cancel.cancel();
        }
        let before = BEFORE.load(Ordering::Acquire);
        if TAKES_THREE.load(Ordering::Acquire) {
            type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
            // SAFETY: `install` found this address where `SA_SIGINFO` says that it has this type,
            // and stored it before ours was called.
            let handler = unsafe { std::mem::transmute::<usize, Handler>(before) };
            handler(signal, info, context);
        } else {
            // SAFETY: as above, without `SA_SIGINFO`.
            let handler = unsafe { std::mem::transmute::<usize, extern "C" fn(c_int)>(before) };
            handler(signal);
        }
    }
}
