//! Judges a case: the engine must reproduce the bits that the source means, or neither of the two
//! gives results.

use std::cell::OnceCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use compiler::pipeline::Options;
use interp::source;
use ir::array::{Array, ArrayRef};
use ir::bind::BindError;
use ir::checked::Checked;
use ir::decision::{Decision, Passes};
use serde::{Deserialize, Serialize};

use crate::case::{Arguments, Setting, Through};
use crate::engines::{Engine, Form, Outcome, agree, allows, has_contractions};
use crate::library::{self, Library};
use crate::objects::Object;
use crate::variation::Change;

/// The verdict on a case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// As it must be.
    #[default]
    Passed,
    /// The program has errors: the first of them.
    Invalid(String),
    /// Something is wrong.
    Failed {
        /// The kind of failure.
        kind: Kind,
        /// More of it.
        message: String,
        /// The call that shows it.
        call: usize,
    },
}

/// The kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Other results, or results where there should be none.
    Differs,
    /// A program that breaks a rule, or an engine that gives up.
    Broken,
    /// The checker reports an error in a program that has none.
    Refused,
    /// A panic.
    Panic,
    /// The process ended.
    Crash,
    /// It does not come to an end.
    Hang,
}

impl Kind {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Differs => "differs",
            Kind::Broken => "is broken",
            Kind::Refused => "is refused",
            Kind::Panic => "panics",
            Kind::Crash => "crashes",
            Kind::Hang => "hangs",
        }
    }
}

/// How closely results are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rigour {
    /// On bits: generated programs have exact matrix products.
    Bits,
    /// If there are matrix products of floats, only large differences count: a reduced program may
    /// have inexact ones.
    Products,
}

/// The verdict on a setting's calls.
pub struct Judged {
    /// The verdict.
    pub verdict: Verdict,
    /// How each call that was judged ended.
    pub outcomes: Vec<&'static str>,
    /// The decisions of fusion.
    pub decisions: Vec<Decision>,
}

/// Judges the calls of a setting, up to the first that fails.
pub fn judge(setting: &Setting, calls: &[Arguments], rigour: Rigour) -> Judged {
    let mut judged = Judged { verdict: Verdict::Passed, outcomes: vec![], decisions: vec![] };
    let done = catch_unwind(AssertUnwindSafe(|| judge_in(setting, calls, rigour, &mut judged)));
    let call = judged.outcomes.len();
    let failed = |kind, message| Verdict::Failed { kind, message, call };
    judged.verdict = match done {
        Ok(Ok(())) => Verdict::Passed,
        Ok(Err(Stop::Invalid(message))) => Verdict::Invalid(message),
        Ok(Err(Stop::Failed(kind, message))) => failed(kind, message),
        Err(payload) => {
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a panic");
            failed(Kind::Panic, text.to_owned())
        }
    };
    judged
}

enum Stop {
    Invalid(String),
    Failed(Kind, String),
}

/// A source text, checked.
pub fn check(source: &str, entry: &str) -> Result<Checked, String> {
    let file = grammar::parse(source);
    let checked = file.and_then(|file| compiler::check::check(&file, entry));
    checked.map_err(|errors| errors.first().map(|e| format!("{} {}", e.code, e.message)).unwrap_or_default())
}

fn judge_in(setting: &Setting, calls: &[Arguments], rigour: Rigour, judged: &mut Judged) -> Result<(), Stop> {
    let Setting { source, entry, options, engine, through, meet, far, variation } = setting;
    let checked = check(source, entry).map_err(Stop::Invalid)?;
    let varied_text = variation.and_then(|variation| variation.apply(source, entry));
    let varied = match &varied_text {
        Some(text) => Some(check(text, entry).map_err(Stop::Invalid)?),
        None => None,
    };
    let broken = |message| Stop::Failed(Kind::Broken, message);
    let run = varied.as_ref().unwrap_or(&checked);
    let mut form = Form::new(run, options).map_err(broken)?;
    (form.meet, form.far) = (*meet, *far);
    judged.decisions.clone_from(&form.decisions);
    let slack = rigour == Rigour::Products && has_contractions(&form.program);
    let (mut library, mut object) = (None, None);
    match (through, engine) {
        (Through::Library, _) => {
            let text = varied_text.as_deref().unwrap_or(source);
            if options.fuse == Passes::ALL {
                library::hold_kernels(text, entry, form.program.kernels.len()).map_err(broken)?;
            }
            library = Some(Library::new(text, entry, *engine, options.fuse).map_err(broken)?);
        }
        (Through::Object, Engine::Cpu(_, simd)) => {
            object = Some(Object::new(&form.program, *simd).map_err(broken)?);
        }
        (Through::Object | Through::Backend, _) => {}
    }
    let unfused = OnceCell::new();
    for arguments in calls {
        let inputs: Vec<ArrayRef<'_>> = arguments.iter().map(|(_, array)| array.as_ref()).collect();
        let meant = form.run(&checked, Engine::Source, &inputs);
        if meant == Outcome::BeyondMemory {
            judged.outcomes.push("beyond memory");
            continue;
        }
        // An error from the library, or a status of an object, may stand for several outcomes. It
        // is taken for the correct one if that is among them.
        let here = || match &varied {
            Some(varied) => form.run(varied, Engine::Source, &inputs),
            None => meant.clone(),
        };
        let is_possible = |fault| source::may_fault(run, &inputs, &compiler::math::define, fault) == Ok(true);
        let found = library.as_ref().map(|library| library.call(&inputs, &form.program, &here(), &is_possible));
        let found = found.or_else(|| object.as_ref()?.call(&inputs, &here()));
        let found = found.unwrap_or_else(|| form.run(run, *engine, &inputs));
        let same = match (&varied, variation) {
            (Some(varied), Some(variation)) => agree_varied(varied, variation.change, &inputs, &meant, &found),
            _ => agree(&checked, &inputs, &meant, &found),
        };
        let near = slack && are_near(&meant, &found);
        let fail = || {
            let place = meant.first_difference(&found).unwrap_or_default();
            Stop::Failed(
                Kind::Differs,
                format!("{} differs: {place}\nexpected {meant:?}\nfound    {found:?}", setting.runner()),
            )
        };
        if let Outcome::Broken(message) = &found {
            return Err(broken(message.clone()));
        }
        if !same && !near {
            return Err(fail());
        }
        // Whether a fault may be encountered, or missed, given that less fused loop nests encounter
        // one.
        if !form.program.sites.is_empty() && varied.is_none() {
            let witness = match engine {
                Engine::Nest => {
                    let options = Options { fuse: Passes::NONE, ..Options::default() };
                    let unfused = unfused.get_or_init(|| Form::new(run, &options));
                    unfused.as_ref().map_err(|e| broken(e.clone()))?.run(run, Engine::Nest, &inputs)
                }
                _ => form.run(run, Engine::Nest, &inputs),
            };
            if !allows(&witness, &found, *engine) {
                return Err(fail());
            }
        }
        judged.outcomes.push(match meant {
            Outcome::Results(_) => "results",
            Outcome::Refused(_) => "refused",
            _ => "fault",
        });
    }
    Ok(())
}

/// Whether a changed program means what it meant before. Faults have other places in it.
///
/// A sum that is split has its terms under an `if`. There, an access is checked where its value is
/// needed rather than required of the call, so the changed program may run where the original call
/// was refused.
fn agree_varied(varied: &Checked, change: Change, inputs: &[ArrayRef<'_>], meant: &Outcome, found: &Outcome) -> bool {
    match (meant, found) {
        (
            Outcome::Refused(BindError::Requirement { .. } | BindError::RequirementSize { .. }),
            Outcome::Results(_) | Outcome::Fault(_),
        ) => change == Change::Split,
        (Outcome::Results(_), Outcome::Results(_)) => meant == found,
        (Outcome::Results(_) | Outcome::Fault(_), Outcome::Fault(fault)) => {
            source::may_fault(varied, inputs, &compiler::math::define, *fault) == Ok(true)
        }
        (Outcome::Refused(_), Outcome::Refused(_)) => true,
        _ => false,
    }
}

/// Whether all results are about the same.
fn are_near(meant: &Outcome, found: &Outcome) -> bool {
    let (Outcome::Results(these), Outcome::Results(others)) = (meant, found) else { return false };
    these.iter().zip(others).all(|(a, b)| {
        let scale = (0..a.len()).map(|n| number(a, n).abs()).filter(|v| v.is_finite()).fold(1e-3, f64::max);
        (0..a.len()).all(|n| {
            let (a, b) = (number(a, n), number(b, n));
            // Where an addition overflows, the order decides.
            !a.is_finite() || !b.is_finite() || (a - b).abs() <= scale * 1e-2
        })
    })
}

fn number(array: &Array, n: usize) -> f64 {
    use ir::Scalar;
    match array.get(n).map(|v| interp::scalar::cast(ir::Dtype::F64, v)) {
        Some(Scalar::F64(v)) => v,
        _ => f64::NAN,
    }
}
