//! A process that judges: it reads a request from each line and answers with a line. The code that
//! it runs may crash it or hang, so the requests come from another process ([`crate::supervisor`]).

use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::case::{Case, draw};
use crate::engines::Engine;
use crate::judge::{Kind, Rigour, Verdict, judge};
use crate::tally::Tally;

/// A request to a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// The cases of these numbers, with an answer for each.
    Draw {
        /// The first.
        from: u64,
        /// How many.
        count: u64,
    },
    /// The case in a folder.
    Judge {
        /// The folder.
        folder: PathBuf,
        /// How closely results are compared.
        rigour: Rigour,
    },
}

/// The answer of a worker.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Answer {
    /// The verdict.
    pub verdict: Verdict,
    /// The coverage.
    pub tally: Tally,
}

/// Answers requests until there are no more.
pub fn serve(engines: &[Engine], input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    // The answer contains the message of a panic.
    std::panic::set_hook(Box::new(|_| {}));
    for line in input.lines() {
        match serde_json::from_str::<Request>(&line?)? {
            Request::Draw { from, count } => {
                for seed in from..from + count {
                    write(&mut output, &answer(seed, engines))?;
                }
            }
            Request::Judge { folder, rigour } => {
                write(&mut output, &Answer { verdict: replay(&folder, rigour), ..Answer::default() })?;
            }
        }
    }
    Ok(())
}

fn write(output: &mut impl Write, answer: &Answer) -> io::Result<()> {
    serde_json::to_writer(&mut *output, answer)?;
    output.write_all(b"\n")?;
    output.flush()
}

/// Judges the case of a number.
pub fn answer(seed: u64, engines: &[Engine]) -> Answer {
    let drawn = draw(seed, engines);
    let judged = judge(&drawn.setting, &drawn.calls, Rigour::Bits);
    let tally = Tally::of(&drawn, &judged);
    let verdict = match judged.verdict {
        // The generator writes no errors.
        Verdict::Invalid(message) => Verdict::Failed { kind: Kind::Refused, message, call: 0 },
        verdict => verdict,
    };
    Answer { verdict, tally }
}

/// Judges the case in a folder.
pub fn replay(folder: &Path, rigour: Rigour) -> Verdict {
    match Case::load(folder) {
        Ok(case) => judge(&case.setting, &[case.arguments], rigour).verdict,
        Err(error) => Verdict::Invalid(error.to_string()),
    }
}
