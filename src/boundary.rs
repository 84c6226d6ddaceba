//! The way into the library: floating-point arithmetic in the standard mode, and no panic on the way out. A panic is a fault of ours,
//! and comes out as an error with the code E0299, so that it ends neither a prompt nor a program that embeds the library.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use backends::float_mode;

use crate::error::CompileError;

/// Runs what somebody outside has asked for; `fault` makes an error of what a panic says.
pub(crate) fn enter<T, E>(fault: impl FnOnce(String) -> E, run: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    // Whatever `run` was changing is dropped, or guarded by locks that recover: nobody sees it half changed.
    catch_unwind(AssertUnwindSafe(|| float_mode::standard(run))).unwrap_or_else(|panic| Err(fault(said(&*panic))))
}

/// The same for compiling, whose errors have no other source than the function's.
pub(crate) fn compile<T>(run: impl FnOnce() -> Result<T, CompileError>) -> Result<T, CompileError> {
    enter(CompileError::fault, run)
}

/// What a panic says, as a sentence.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    match text {
        Some(text) => format!("a fault of Fuseloop itself: {text}"),
        None => "a fault of Fuseloop itself".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_comes_out_as_an_error() {
        let error = compile::<()>(|| panic!("{} is no number", "seven")).unwrap_err();
        insta::assert_snapshot!(error.render(crate::Style::Plain), @r"
        error[E0299]: a fault of Fuseloop itself: seven is no number
         |
         = help: please report it, with the program
        ");
        assert_eq!(compile(|| Ok(7)), Ok(7));
    }
}
