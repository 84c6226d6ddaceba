//! The native part of the Python package: programs, their functions, and calls on arrays that are
//! not copied. `python/fuseloop/` has the rest, in Python.

mod arrays;
mod blocks;
mod cells;
mod device;
mod dlpack;
mod error;
mod function;
mod interrupt;
mod module;
mod reports;
mod torch;

use pyo3::prelude::*;

/// The module `fuseloop._native`.
#[pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::cells::Cells;
    #[pymodule_export(name = "DeviceArray")]
    use crate::device::Result as DeviceArray;
    #[pymodule_export]
    use crate::function::Function;
    #[pymodule_export]
    use crate::module::{Module, compile, load, unpickle};
    #[pymodule_export]
    use crate::reports::{Benchmark, Explanation};

    use crate::error;

    /// The text of a program in the one style.
    #[pyfunction]
    fn format(py: Python<'_>, source: String) -> PyResult<String> {
        fuseloop::format(source).map_err(|errors| error::of_source(py, &errors))
    }

    /// The names that the language defines.
    #[pyfunction]
    fn names() -> Vec<&'static str> {
        fuseloop::builtins().collect()
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::interrupt::prepare(module.py())
    }
}
