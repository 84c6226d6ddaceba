//! Threads for work that the server does not wait for.

use std::thread;

/// Bytes of stack: as much as a program may nest.
const STACK: usize = 64 << 20;

/// Runs something on a thread of its own, unless the system has none left.
pub fn start(run: impl FnOnce() + Send + 'static) {
    let _ = thread::Builder::new().stack_size(STACK).spawn(run);
}
