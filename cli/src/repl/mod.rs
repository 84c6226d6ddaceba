//! `fuseloop repl`: a session at a prompt, or read from a pipe.
//!
//! `lines` reads entries (on most terminals `editor` does), `commands` runs those that begin with
//! `:`, `show` formats results, and `interrupt` lets Ctrl-C stop the work. The session itself is
//! part of the library.

mod commands;
mod editor;
mod interrupt;
mod lines;
mod show;

use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use fuseloop::session::PROMPT;
use fuseloop::{Cancel, Options, Outcome, Session, Style, print};

use crate::arguments::{self, Engine};
use crate::failure::Failure;
use crate::printing::Printing;
use crate::run::{cache, memory_to_use};

use editor::Editor;
use interrupt::Interrupt;
use lines::{Entered, Lines};

/// Evaluates each entry as it is typed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Expressions are evaluated, functions and `let`s defined; :help lists the commands. On a pipe the results go to standard
output, and the exit code is 1 if anything failed.

Example: echo 'sum(iota(10))' | fuseloop repl"
)]
pub struct Arguments {
    /// Files to load at the start: programs, and arrays as .npy, .npz, .safetensors, .csv, .png
    files: Vec<String>,
    #[command(flatten)]
    printing: Printing,
    #[command(flatten)]
    engine: Engine,
}

/// The line width if the terminal's is unknown.
const WIDTH: usize = 120;

/// A session and its settings for input and output.
struct Repl {
    session: Session,
    /// Set on a terminal. Elsewhere Ctrl-C ends the process.
    interrupt: Option<Interrupt>,
    /// The style of results, and that of errors.
    style: Style,
    error_style: Style,
    /// The line width for output.
    width: usize,
    printing: Printing,
    /// The files that were loaded or saved, which may be overwritten.
    files: BTreeSet<PathBuf>,
}

/// The source of entries.
enum From {
    Terminal(Box<Editor>),
    Lines(Lines),
}

/// Whether to continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Read,
    Quit,
}

/// Runs the command.
pub fn run(arguments: &Arguments, stdout: &mut impl Write) -> Result<(), Failure> {
    let options = Options { cache: cache(), ..arguments.engine.options()? };
    let (style, error_style) = (crate::style(&io::stdout()), crate::style(&io::stderr()));
    let mut repl = Repl {
        session: Session::new(options),
        interrupt: None,
        style,
        error_style,
        width: WIDTH,
        printing: arguments.printing,
        files: BTreeSet::new(),
    };
    for file in &arguments.files {
        repl.load(file)?;
    }
    // A terminal that cannot move its cursor is read line by line, as a pipe is, with a prompt.
    let terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let mut from = if terminal && !crate::is_dumb() {
        From::Terminal(Box::new(Editor::new(style).map_err(|e| Failure::Wrong(format!("the terminal: {e}")))?))
    } else {
        From::Lines(Lines::new(terminal))
    };
    if terminal {
        repl.interrupt = Some(Interrupt::catch().map_err(|e| Failure::Wrong(format!("Ctrl-C: {e}")))?);
        writeln!(stdout, "Fuseloop {}. :help lists the commands, Ctrl-D leaves.", env!("CARGO_PKG_VERSION"))?;
    }
    let mut failed = false;
    'session: loop {
        stdout.flush()?;
        let entered = match &mut from {
            From::Terminal(editor) => {
                let entered = editor.read(&repl.session)?;
                repl.width = editor.width().unwrap_or(WIDTH);
                entered
            }
            From::Lines(lines) => lines.read(stdout)?,
        };
        let pieces = match entered {
            Entered::Pieces(pieces) => pieces,
            Entered::Interrupted => continue,
            Entered::End => break,
        };
        for text in pieces {
            match repl.enter(&text, stdout) {
                Ok(Next::Read) => {}
                Ok(Next::Quit) => break 'session,
                Err(Failure::BrokenPipe) => return Err(Failure::BrokenPipe),
                Err(failure) => {
                    failed = true;
                    stdout.flush()?;
                    failure.print(repl.error_style)?;
                }
            }
        }
    }
    if let From::Terminal(editor) = &mut from {
        editor.keep_history();
    }
    // On a terminal the user has already seen each failure.
    if terminal {
        return Ok(());
    }
    repl.nothing_waits()?;
    if failed { Err(Failure::Said) } else { Ok(()) }
}

impl Repl {
    /// How arrays are printed: as wide as the terminal, if there is one.
    fn format(&self) -> print::Format {
        let lines = if self.interrupt.is_some() { self.width } else { print::Format::default().width };
        self.printing.format(lines)
    }

    /// Executes an entry.
    fn enter(&mut self, text: &str, stdout: &mut impl Write) -> Result<Next, Failure> {
        let text = text.trim_end();
        let command = text.trim_start().strip_prefix(':').map(str::to_owned);
        if let Some(command) = command.or_else(|| commands::meant(self, text)) {
            let (next, said) = commands::run(self, &command)?;
            write!(stdout, "{said}")?;
            return Ok(next);
        }
        if let Some(signatures) = commands::signatures(self, text) {
            write!(stdout, "{signatures}")?;
            return Ok(Next::Read);
        }
        let entered = text.to_owned();
        let (session, outcomes) = self.work(move |mut session, cancel| {
            let outcomes = session.enter_from(PROMPT, &entered, cancel)?;
            Ok((session, outcomes))
        })?;
        self.session = session;
        for outcome in &outcomes {
            write!(stdout, "{}", show::outcome(outcome, self.style, &self.format()))?;
        }
        stdout.flush()?;
        self.warn(&outcomes)?;
        refused(outcomes)?;
        Ok(Next::Read)
    }

    /// Runs work on a copy of the session, so that Ctrl-C can abandon it.
    fn work<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(Session, &Cancel) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.session.options.max_memory = memory_to_use();
        let session = self.session.clone();
        match &self.interrupt {
            Some(interrupt) => interrupt.run(move |cancel| work(session, cancel)),
            None => work(session, &Cancel::default()),
        }
    }

    /// Loads a file: the functions of a program, or arrays under their names.
    fn load(&mut self, path: &str) -> Result<String, Failure> {
        if let Ok(place) = fuseloop::files::Place::parse(path) {
            let file = place.path().map(Path::to_owned);
            let path = path.to_owned();
            let (session, said) = self.work(move |session, _| commands::load_arrays(session, &place, &path))?;
            self.session = session;
            if let Some(file) = file {
                self.knows(&file);
            }
            return Ok(said);
        }
        let source = arguments::source(&PathBuf::from(path))?;
        let (session, outcomes) = self.work(move |mut session, cancel| {
            let outcomes = session.enter_from(&source.name, &source.text, cancel)?;
            Ok((session, outcomes))
        })?;
        self.session = session;
        self.knows(Path::new(path));
        let said = outcomes.iter().map(|outcome| show::outcome(outcome, Style::Plain, &self.format())).collect();
        self.warn(&outcomes)?;
        refused(outcomes)?;
        Ok(said)
    }

    /// Prints the warnings about new functions.
    fn warn(&self, outcomes: &[Outcome]) -> io::Result<()> {
        let mut stderr = io::stderr().lock();
        for outcome in outcomes {
            if let Outcome::Defined { warnings, .. } = outcome
                && !warnings.is_empty()
            {
                writeln!(stderr, "{}", warnings.render(self.error_style))?;
            }
        }
        Ok(())
    }

    /// Whether a file may be written: it does not exist, this session has loaded or saved it, or
    /// `over` is set.
    fn may_write(&self, file: &Path, over: bool) -> Result<(), Failure> {
        let known = || file.canonicalize().is_ok_and(|file| self.files.contains(&file));
        if over || std::fs::symlink_metadata(file).is_err() || known() {
            return Ok(());
        }
        let file = file.display();
        let message =
            format!("`{file}` is there, and this session has neither loaded nor saved it: `:save!` writes over it");
        Err(Failure::usage(message))
    }

    /// Records a file as loaded or saved by this session.
    fn knows(&mut self, file: &Path) {
        self.files.extend(file.canonicalize());
    }

    /// The errors about functions that are still missing, if there are any.
    fn nothing_waits(&self) -> Result<(), Failure> {
        let missing: Vec<_> = self.session.missing().map(|errors| Failure::Program(errors.clone())).collect();
        if missing.is_empty() { Ok(()) } else { Err(Failure::Several(missing)) }
    }
}

/// The errors of functions that turned out not to fit the ones they waited for.
fn refused(outcomes: Vec<Outcome>) -> Result<(), Failure> {
    let errors = outcomes.into_iter().filter_map(|outcome| match outcome {
        Outcome::Refused { errors } => Some(Failure::Program(errors)),
        _ => None,
    });
    let errors: Vec<Failure> = errors.collect();
    if errors.is_empty() { Ok(()) } else { Err(Failure::Several(errors)) }
}

/// The names of a choice, for messages and completion.
fn choices<T: ValueEnum>() -> Vec<String> {
    let names = T::value_variants().iter().filter_map(T::to_possible_value);
    names.map(|value| value.get_name().to_owned()).collect()
}
