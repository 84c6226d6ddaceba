//! Handles Ctrl-C. The running work is told to stop. If it does not stop soon, it is abandoned,
//! which is safe because it owns everything that it works on.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use fuseloop::Cancel;

use crate::failure::Failure;

/// How often Ctrl-C is polled.
const POLL: Duration = Duration::from_millis(10);
/// How long the running work gets to stop by itself.
const GRACE: Duration = Duration::from_millis(50);
/// Checking and compiling recurse, and so may the work.
const STACK: usize = 16 << 20;

/// Whether Ctrl-C was pressed.
pub struct Interrupt {
    pressed: Arc<AtomicBool>,
}

impl Interrupt {
    /// Catches Ctrl-C, which then no longer ends the process.
    pub fn catch() -> std::io::Result<Interrupt> {
        let pressed = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&pressed))?;
        Ok(Interrupt { pressed })
    }

    /// Runs work that Ctrl-C can stop.
    pub fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Cancel) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.pressed.store(false, Ordering::Relaxed);
        let (sender, receiver) = mpsc::channel();
        let cancel = Cancel::default();
        let wish = cancel.clone();
        let worker = thread::Builder::new().stack_size(STACK).spawn(move || {
            // The receiver may have given up.
            let _ = sender.send(work(&wish));
        })?;
        loop {
            match receiver.recv_timeout(POLL) {
                Ok(done) => return done,
                Err(RecvTimeoutError::Timeout) if self.pressed.load(Ordering::Relaxed) => {
                    cancel.cancel();
                    // Work that does not stop in time is abandoned.
                    let _ = receiver.recv_timeout(GRACE);
                    return Err(Failure::Wrong("interrupted".to_owned()));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => match worker.join() {
                    Err(panic) => resume_unwind(panic),
                    Ok(()) => return Err(Failure::Wrong("interrupted".to_owned())),
                },
            }
        }
    }
}
