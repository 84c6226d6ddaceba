//! The cells of a notebook. Each is a program that can call the functions of the cells before it.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use fuseloop::{Cancel, Folder, Outcome, Session, SessionError};
use pyo3::prelude::*;

use crate::error;
use crate::module::{Module, Settings};

/// The functions of the cells that have been run.
#[pyclass(frozen, module = "fuseloop._native")]
#[derive(Default)]
pub(crate) struct Cells(Mutex<Session>);

#[pymethods]
impl Cells {
    #[new]
    fn new() -> Cells {
        Cells::default()
    }

    /// Compiles a text with the functions of cells that it calls. The module has its own functions
    /// alone.
    #[pyo3(signature = (source, *, name, device, threads, math))]
    fn compile(
        &self,
        py: Python<'_>,
        source: &str,
        name: &str,
        device: &str,
        threads: usize,
        math: &str,
    ) -> PyResult<Module> {
        let source = self.session().complete(name, source);
        let (device, math) = (device.to_owned(), math.to_owned());
        let settings = Settings { device, threads, max_memory: None, max_steps: None, math };
        Module::new(py, source, &Folder::new(Path::new("")), settings)
    }

    /// Makes the functions of a cell that has been compiled known to later cells. Returns the
    /// functions of other cells that call them.
    fn define(&self, py: Python<'_>, source: &str, name: &str) -> PyResult<Vec<String>> {
        let mut session = self.session();
        let entered = session.enter_from(name, source, &Cancel::default());
        let outcomes = entered.map_err(|error| match error {
            SessionError::Program(errors) => error::of_source(py, &errors),
            other => error::refused(py, other.to_string(), "run the cell again"),
        })?;
        let defined: Vec<&str> = outcomes.iter().filter_map(Outcome::defined).collect();
        let callers = session.callers(&defined).into_iter().filter(|name| !defined.contains(name));
        Ok(callers.map(str::to_owned).collect())
    }

    /// The name of the cell of a function, and a text in which the function has its place there.
    fn definition(&self, name: &str) -> Option<(String, String)> {
        self.session().definition(name)
    }

    /// Forgets a function.
    fn forget(&self, name: &str) {
        self.session().forget(name);
    }
}

impl Cells {
    fn session(&self) -> std::sync::MutexGuard<'_, Session> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
