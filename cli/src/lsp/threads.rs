//! Threads for work that the server does not wait for.

use std::{io, thread};

/// Bytes of stack: as much as a program may nest.
const STACK: usize = 64 << 20;

/// Runs something on a thread of its own, or says why the system starts none.
pub fn start(run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().stack_size(STACK).spawn(run);
    thread.map(drop).map_err(|error| io::Error::other(format!("no thread can be started: {error}")))
}
