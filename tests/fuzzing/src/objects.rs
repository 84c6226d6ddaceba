//! Runs a case as an object: compiled ahead of time, loaded as a shared library, called through its
//! C header.

use backends::cpu::Simd;
use backends::cpu::object::Target;
use ir::array::ArrayRef;
use ir::bind::{BindError, Fault};
use ir::nest::{BufferId, Program, SiteId};
use ir::size::SizeError;
use opened::{Opened, Reply};

pub use opened::is_possible;

use crate::engines::{Outcome, poison};

/// A program in a shared library.
pub struct Object {
    opened: Opened,
    program: Program,
}

impl Object {
    /// Compiles a program for processors with vectors of this width.
    pub fn new(program: &Program, simd: Simd) -> Result<Object, String> {
        let target = Target::new(None, Some(processor(simd))).map_err(|e| format!("{e:?}"))?;
        Ok(Object { opened: Opened::new(program, target)?, program: program.clone() })
    }

    /// Calls the function; `None` if the call cannot be expressed in C. A status may stand for
    /// several outcomes; it is then taken for `meant` if that is one of them.
    pub fn call(&self, inputs: &[ArrayRef<'_>], meant: &Outcome) -> Option<Outcome> {
        Some(match self.opened.call(inputs, poison) {
            Ok(None) => return None,
            Ok(Some(Reply { status: None, results, .. })) => Outcome::Results(results),
            Ok(Some(Reply { status: Some(_), results, .. })) if results.iter().any(is_written) => {
                Outcome::Broken("a call without results has written some".into())
            }
            Ok(Some(Reply { status: Some(status), numbers, .. })) => {
                let found = outcome(&self.program, &status, numbers);
                // A status does not say why a size has no value.
                let requirement = |outcome: &Outcome| match outcome {
                    Outcome::Refused(BindError::RequirementSize { requirement, .. }) => Some(*requirement),
                    _ => None,
                };
                let is_same = requirement(&found).is_some() && requirement(&found) == requirement(meant);
                // Nor does it say which argument has an axis that is too long.
                let is_long = status == "Size" && matches!(meant, Outcome::Refused(BindError::InputLength { .. }));
                if is_same || is_long { meant.clone() } else { found }
            }
            Err(what) => Outcome::Broken(what),
        })
    }
}

fn is_written(array: &ir::Array) -> bool {
    array.bytes().iter().any(|byte| *byte != poison(array.dtype()))
}

/// The name of the oldest processor with vectors of this width, or of this machine's.
fn processor(simd: Simd) -> &'static str {
    match simd {
        _ if cfg!(not(target_arch = "x86_64")) => "generic",
        Simd::W512 if simd.is_here() => "x86-64-v4",
        Simd::W256 if simd.is_here() => "x86-64-v3",
        Simd::W128 => "x86-64-v2",
        Simd::Auto | Simd::W256 | Simd::W512 => "native",
    }
}

/// The outcome for a status, given as `{:?}` prints it, and its two numbers.
pub fn outcome(program: &Program, status: &str, [found, wanted]: [i64; 2]) -> Outcome {
    let number = |head: &str| status.strip_prefix(head)?.strip_suffix(')')?.parse::<usize>().ok();
    if let Some(requirement) = number("Requirement(") {
        return Outcome::Refused(BindError::Requirement { requirement, left: found, right: wanted });
    }
    if let Some(requirement) = number("NoValue(") {
        return Outcome::Refused(BindError::RequirementSize { requirement, error: SizeError::Overflow });
    }
    if let Some(site) = number("Site(site") {
        let site = SiteId::from_u32(u32::try_from(site).unwrap_or(u32::MAX));
        return Outcome::Fault(Fault { site, index: found, bound: wanted });
    }
    if status.starts_with("Length(") {
        let buffer = program.outputs().first().copied().unwrap_or(BufferId::from_u32(0));
        return Outcome::Refused(BindError::Length { buffer, axis: 0, value: Ok(found) });
    }
    Outcome::Broken(status.to_owned())
}
