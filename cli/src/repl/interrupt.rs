//! Ctrl-C: what runs is told to stop, and if it does not within a moment it is left behind: it owns all that it works on.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use fuseloop::Cancel;

use crate::failure::Failure;

/// How often somebody looks whether Ctrl-C was pressed.
const POLL: Duration = Duration::from_millis(10);
/// How long what runs has to end by itself.
const GRACE: Duration = Duration::from_millis(50);
/// Checking and compiling recurse; so may what runs.
const STACK: usize = 16 << 20;

/// Whether Ctrl-C was pressed.
pub struct Interrupt {
    pressed: Arc<AtomicBool>,
}

impl Interrupt {
    /// From now on Ctrl-C does not end the process.
    pub fn catch() -> std::io::Result<Interrupt> {
        let pressed = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&pressed))?;
        Ok(Interrupt { pressed })
    }

    /// Does something that Ctrl-C ends.
    pub fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Cancel) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.pressed.store(false, Ordering::Relaxed);
        let (sender, receiver) = mpsc::channel();
        let cancel = Cancel::default();
        let wish = cancel.clone();
        let worker = thread::Builder::new().stack_size(STACK).spawn(move || {
            // Nobody may be waiting any more.
            let _ = sender.send(work(&wish));
        })?;
        loop {
            match receiver.recv_timeout(POLL) {
                Ok(done) => return done,
                Err(RecvTimeoutError::Timeout) if self.pressed.load(Ordering::Relaxed) => {
                    cancel.cancel();
                    // What cannot be stopped is left behind.
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
