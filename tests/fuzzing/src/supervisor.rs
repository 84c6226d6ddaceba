//! Workers as processes: they are asked, waited for, and replaced when the code that they run
//! crashes or hangs.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::case::Case;
use crate::judge::{Kind, Rigour, Verdict};
use crate::worker::{Answer, Request};

/// How a worker is started: the command, complete.
pub type Start<'a> = &'a (dyn Fn() -> Command + Sync);

/// A worker. Its process is started when it is first asked, and again after its end.
pub struct Worker<'a> {
    start: Start<'a>,
    running: Option<Running>,
    /// Where cases are handed over.
    folder: tempfile::TempDir,
    /// So long one program may take.
    patience: Duration,
}

struct Running {
    child: Child,
    requests: ChildStdin,
    answers: Receiver<String>,
}

impl Running {
    /// The processor time of its first thread, which judges. It tells an endless loop from waiting.
    /// Known only on Linux.
    fn computed(&self) -> Option<Duration> {
        let text = std::fs::read_to_string(format!("/proc/{}/schedstat", self.child.id())).ok()?;
        text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
    }
}

impl<'a> Worker<'a> {
    /// A worker that `start` starts. Each program may take as long as `patience`.
    pub fn new(start: Start<'a>, patience: Duration) -> io::Result<Worker<'a>> {
        let folder = tempfile::tempdir()?;
        Ok(Worker { start, running: None, folder, patience })
    }

    fn running(&mut self) -> io::Result<&mut Running> {
        if self.running.is_none() {
            let mut child =
                (self.start)().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
            let (Some(requests), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
                return Err(io::Error::other("a worker without pipes"));
            };
            let (send, answers) = channel();
            std::thread::spawn(move || {
                BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| send.send(line))
            });
            self.running = Some(Running { child, requests, answers });
        }
        self.running.as_mut().ok_or_else(|| io::Error::other("a worker that is none"))
    }

    /// Asks; the answers are to be [awaited](Worker::answer).
    pub fn ask(&mut self, request: &Request) -> io::Result<()> {
        let line = serde_json::to_string(request)? + "\n";
        let sent = self.running()?.requests.write_all(line.as_bytes());
        if sent.is_err() {
            // It has ended since its last answer, so a new one is started.
            self.stop();
            return self.running()?.requests.write_all(line.as_bytes());
        }
        Ok(())
    }

    /// The next answer. A crash and a timeout are answers too.
    pub fn answer(&mut self) -> io::Result<Answer> {
        let patience = self.patience;
        let failed = |kind: Kind, message: String| Answer {
            verdict: Verdict::Failed { kind, message, call: 0 },
            ..Answer::default()
        };
        let running = self.running()?;
        let before = running.computed();
        match running.answers.recv_timeout(patience) {
            Ok(line) => Ok(serde_json::from_str(&line)?),
            Err(RecvTimeoutError::Timeout) => {
                let computed = running.computed().zip(before).map(|(now, before)| now.saturating_sub(before));
                self.stop();
                let computed = computed.map(|time| format!(", computing for {:.1}s of it", time.as_secs_f64()));
                Ok(failed(Kind::Hang, format!("no answer in {patience:?}{}", computed.unwrap_or_default())))
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.stop();
                Ok(failed(Kind::Crash, format!("the process ended: {status}")))
            }
        }
    }

    /// Judges a case.
    pub fn judge(&mut self, case: &Case, rigour: Rigour) -> io::Result<Verdict> {
        case.save(self.folder.path()).map_err(io::Error::other)?;
        let folder = self.folder.path().to_owned();
        self.ask(&Request::Judge { folder, rigour })?;
        Ok(self.answer()?.verdict)
    }

    fn stop(&mut self) -> String {
        let Some(mut running) = self.running.take() else { return String::new() };
        // One that has ended says how.
        let ended = running.child.try_wait();
        let _ = running.child.kill();
        match (ended, running.child.wait()) {
            (Ok(Some(status)), _) | (_, Ok(status)) => status.to_string(),
            (_, Err(error)) => error.to_string(),
        }
    }
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        self.stop();
    }
}
