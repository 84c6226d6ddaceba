//! The entry into the library: it sets the standard floating-point mode and catches panics. A panic
//! is a bug of ours and is returned as error E0299, so that it ends neither a prompt nor a program
//! that embeds the library.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use backends::float_mode;

use crate::error::CompileError;

/// Runs a request from outside; `fault` turns the message of a panic into an error.
pub(crate) fn enter<T, E>(fault: impl FnOnce(String) -> E, run: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    // State that `run` was changing is dropped or guarded by locks that recover, so it is never
    // seen half changed.
    catch_unwind(AssertUnwindSafe(|| float_mode::standard(run))).unwrap_or_else(|panic| Err(fault(said(&*panic))))
}

/// The same for compiling, where the errors need no source.
pub(crate) fn compile<T>(run: impl FnOnce() -> Result<T, CompileError>) -> Result<T, CompileError> {
    enter(CompileError::fault, run)
}

/// The message of a panic, as a sentence.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    match text {
        Some(text) => format!("a fault of Fuseloop itself: {text}"),
        None => "a fault of Fuseloop itself".to_owned(),
    }
}

#[cfg(all(test, feature = "reports"))]
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
