//! `@kernels(n)`: refuses a function that takes more kernels with all passes enabled. The error
//! lists the reasons that keep its kernels apart, in builds with the arithmetic of the interpreter.
//!
//! It is a property of the program, so passes that a user disables for comparison do not count.

#[cfg(feature = "interp")]
mod apart;

use std::sync::Arc;

use compiler::pipeline::{self, Compiled};
use ir::checked::Checked;

use crate::error::codes;
use crate::{CompileError, Report, Source};

/// Refuses a function that takes more kernels than it promises. `compiled` is the result of all
/// passes, if it exists already.
pub fn hold(source: &Arc<Source>, checked: &Checked, compiled: Option<&Compiled>) -> Result<(), CompileError> {
    let Some(most) = checked.max_kernels else { return Ok(()) };
    let own;
    let compiled = match compiled {
        Some(compiled) => compiled,
        None => {
            own = pipeline::compile(checked, &pipeline::Options::default())?;
            &own
        }
    };
    if compiled.program.kernels.len() as u64 <= most {
        return Ok(());
    }
    let (name, kernels) = (&checked.name, compiled.program.kernels.len());
    let mut refusal = Report::new(
        codes::TOO_MANY_KERNELS,
        format!("`{name}` takes {kernels} kernels, and `@kernels({most})` allows {most}"),
    );
    #[cfg(feature = "interp")]
    apart::tell(&mut refusal, source, checked, compiled);
    let explain = "`fuseloop explain` shows the kernels";
    refusal.help = Some(refusal.help.map_or_else(|| explain.to_owned(), |help| format!("{help}; or {explain}")));
    Err(CompileError::new(refusal).at(source))
}
