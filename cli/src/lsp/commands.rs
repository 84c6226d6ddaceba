//! The commands that an editor may have executed. They run on threads of their own, so that the
//! server goes on answering, and end when the editor cancels them or after a minute.

use std::io;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, channel};
use std::time::Duration;

use fuseloop::values::{self, Value};
use fuseloop::{CallOptions, Cancel, Function, Options, Program, Style, print};
use lsp_types::Uri;
use serde::Deserialize;

use super::threads;
use super::transport::Message;
use crate::failure::Failure;
use crate::run::memory_to_use;

/// Gives the report on a function as an HTML page.
pub const EXPLAIN: &str = "fuseloop.explain";
/// Calls a function, and gives its results as text.
pub const RUN: &str = "fuseloop.run";
/// All of them.
pub const ALL: [&str; 2] = [EXPLAIN, RUN];

/// How long a command may run.
const MAX_TIME: Duration = Duration::from_secs(60);
/// The most commands that run at the same time.
pub const MAX_RUNNING: usize = 4;
/// The most bytes of the arrays of a call.
const MAX_MEMORY: u64 = 4 << 30;

/// The argument of a command.
#[derive(Clone, Debug, Deserialize)]
pub struct Call {
    /// The text.
    pub uri: Uri,
    /// A function of it.
    pub function: String,
    /// For a run, its arguments as on the command line; made up if they are left out.
    pub arguments: Option<String>,
}

/// A command that is to run.
pub struct Job {
    /// Its name.
    pub command: String,
    /// The program.
    pub program: Program,
    /// The function.
    pub call: Call,
}

/// Starts a command. Its end is a message to the server; `done` makes it from the result.
pub fn start(
    job: Job,
    sender: SyncSender<Message>,
    done: impl FnOnce(Result<String, String>) -> Message + Send + 'static,
) -> io::Result<Cancel> {
    let cancel = Cancel::default();
    let (of_job, of_clock) = (cancel.clone(), cancel.clone());
    let (ended, end) = channel::<()>();
    threads::start(move || {
        if end.recv_timeout(MAX_TIME) == Err(RecvTimeoutError::Timeout) {
            of_clock.cancel();
        }
    })?;
    threads::start(move || {
        let result = super::server::caught(|| run(&job, &of_job))
            .unwrap_or_else(|| Err("a fault of Fuseloop itself: please report it, with the text".to_owned()));
        drop(ended);
        // The server may have ended meanwhile.
        let _ = sender.send(done(result));
    })?;
    Ok(cancel)
}

fn run(job: &Job, cancel: &Cancel) -> Result<String, String> {
    let function = job.program.function(&job.call.function).map_err(|error| error.to_string())?;
    match job.command.as_str() {
        EXPLAIN => {
            let explanation = function.explain(&Options::default(), &[]).map_err(|error| error.to_string())?;
            Ok(explanation.to_html())
        }
        _ => results(&function, job.call.arguments.as_deref().unwrap_or_default(), cancel),
    }
}

/// The results of a call as text.
fn results(function: &Function<'_>, arguments: &str, cancel: &Cancel) -> Result<String, String> {
    let given = words(arguments)?;
    let bind = |function: &Function<'_>| {
        // Standard input has the messages of the editor, as it otherwise may have the program.
        crate::run::bind(function.signature(), &given, Path::new("-")).map_err(said)
    };
    // Arguments in `f64` fit only where `float` is that.
    let wide = || function.for_f64().and_then(|wide| Some((wide, bind(&wide).ok()?)));
    let (function, values): (Function<'_>, Vec<Value>) = match bind(function) {
        Ok(values) => (*function, values),
        Err(error) => wide().ok_or(error)?,
    };
    let max_memory = Some(memory_to_use().unwrap_or(MAX_MEMORY).min(MAX_MEMORY));
    let options = Options { max_memory, ..Options::default() };
    let kernel = function.compile(&options).map_err(said)?;
    let inputs = values::load(values, 0, max_memory).map_err(said)?;
    let results = kernel.call_with(&inputs, &CallOptions::until(cancel)).map_err(said)?;
    let several = results.len() > 1;
    let shown = function.signature().results.iter().zip(&results).map(|(slot, array)| {
        let text = print::to_text(array.as_ref(), &print::Format::default());
        let gap = if text.contains('\n') { '\n' } else { ' ' };
        if several { format!("{} ={gap}{text}\n", slot.name) } else { format!("{text}\n") }
    });
    Ok(shown.collect())
}

fn said(failure: impl Into<Failure>) -> String {
    failure.into().text(Style::Plain).unwrap_or_default()
}

/// `x=[1, 2] k=3` as names and values: a space within brackets ends no argument.
fn words(text: &str) -> Result<Vec<(String, String)>, String> {
    let (mut words, mut depth) = (vec![String::new()], 0_usize);
    for c in text.chars() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match words.last_mut() {
            Some(word) if depth > 0 || !c.is_whitespace() => word.push(c),
            _ => words.push(String::new()),
        }
    }
    let words = words.into_iter().filter(|word| !word.is_empty());
    words.map(|word| crate::arguments::name_and_value(&word)).collect()
}
