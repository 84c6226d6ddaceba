//! Reports on fusion and measurements: text at a prompt, a page in a notebook.

use pyo3::prelude::*;

use crate::function::STYLE;

/// The report on what fusion made of a function, and why. Its text is for people; a notebook shows
/// it as a page.
#[pyclass(frozen, module = "fuseloop")]
pub(crate) struct Explanation(fuseloop::Explanation);

impl Explanation {
    pub(crate) fn new(explanation: fuseloop::Explanation) -> Explanation {
        Explanation(explanation)
    }
}

#[pymethods]
impl Explanation {
    /// The number of kernels without fusion, one an operation.
    #[getter]
    fn kernels_before(&self) -> usize {
        self.0.kernels_before()
    }

    /// The number of kernels that run.
    #[getter]
    fn kernels_after(&self) -> usize {
        self.0.kernels_after()
    }

    /// The bytes that cross between memory and caches without fusion, if the sizes are known.
    #[getter]
    fn bytes_before(&self) -> Option<u64> {
        self.0.bytes_before()
    }

    /// The bytes that cross between memory and caches, if the sizes are known.
    #[getter]
    fn bytes_after(&self) -> Option<u64> {
        self.0.bytes_after()
    }

    /// The report with the fields that `docs/json.md` lists, as one line.
    fn to_json(&self) -> String {
        self.0.to_json()
    }

    /// The report as a page that needs no other file.
    fn to_html(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.to_html())
    }

    fn _repr_html_(&self, py: Python<'_>) -> String {
        framed(&self.to_html(py))
    }

    fn __repr__(&self) -> String {
        self.0.render(STYLE)
    }
}

/// The measured gain from fusion. Its text is a table; a notebook shows it as a page.
#[pyclass(frozen, module = "fuseloop")]
pub(crate) struct Benchmark(fuseloop::Benchmark);

impl Benchmark {
    pub(crate) fn new(benchmark: fuseloop::Benchmark) -> Benchmark {
        Benchmark(benchmark)
    }
}

#[pymethods]
impl Benchmark {
    /// The time of the fused function, relative to that of the unfused one.
    #[getter]
    fn ratio(&self) -> f64 {
        self.0.ratio()
    }

    /// The median time of a call of the fused function, in seconds.
    #[getter]
    fn seconds(&self) -> f64 {
        self.0.fused.total.time.as_secs_f64()
    }

    /// The measurements with the fields that `docs/json.md` lists, as one line.
    fn to_json(&self) -> String {
        self.0.to_json()
    }

    /// The measurements as a page that needs no other file.
    fn to_html(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.to_html())
    }

    fn _repr_html_(&self, py: Python<'_>) -> String {
        framed(&self.to_html(py))
    }

    fn __repr__(&self) -> String {
        self.0.to_string()
    }
}

/// The page in a frame of its own, so that its styles do not reach the notebook around it.
fn framed(page: &str) -> String {
    let quoted = page.replace('&', "&amp;").replace('"', "&quot;");
    format!("<iframe srcdoc=\"{quoted}\" style=\"width: 100%; height: 40em; border: 0\"></iframe>")
}
