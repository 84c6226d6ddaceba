//! Errors as Python exceptions: `fuseloop.Error`, with the code, the place and the remedy as
//! attributes, and the source drawn in its text.

use fuseloop::render::draw;
use fuseloop::{BenchError, CompileError, Errors, ExplainError, NotCut, Report, RunError, RunErrorKind, Source, Style};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};

/// The class `fuseloop.Error`, which is written in Python.
fn class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.import(py, "fuseloop._errors", "Error")
}

/// An exception with the parts of a report.
fn exception<'py>(py: Python<'py>, report: &Report, drawn: &str, errors: &[Py<PyAny>]) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("code", report.code.map(|code| code.to_string()))?;
    fields.set_item("span", report.labels.first().map(|(span, _)| (span.start, span.end)))?;
    fields.set_item("help", report.help.as_deref())?;
    fields.set_item("notes", PyTuple::new(py, &report.notes)?)?;
    fields.set_item("drawn", drawn)?;
    fields.set_item("errors", PyTuple::new(py, errors)?)?;
    class(py)?.call((report.message.as_str(),), Some(&fields))
}

fn raised(made: PyResult<Bound<'_, PyAny>>) -> PyErr {
    made.map_or_else(|error| error, PyErr::from_value)
}

/// The error of a report, drawn over a source.
pub(crate) fn of_report(py: Python<'_>, source: &Source, report: &Report) -> PyErr {
    raised(exception(py, report, &draw(source, report, Style::Plain), &[]))
}

/// An error of this package that concerns no place in a program.
pub(crate) fn refused(py: Python<'_>, message: impl Into<String>, help: impl Into<String>) -> PyErr {
    let report = Report { message: message.into(), help: Some(help.into()), ..Report::default() };
    of_report(py, &Source::from(""), &report)
}

/// The errors of a source: the first, with all of them as its `errors`.
pub(crate) fn of_source(py: Python<'_>, errors: &Errors) -> PyErr {
    let single = |report: &Report| -> PyResult<Py<PyAny>> {
        let drawn = draw(errors.source(), report, Style::Plain);
        Ok(exception(py, report, &drawn, &[])?.unbind())
    };
    let reports: Vec<Report> = errors.reports().collect();
    let all = reports.iter().map(single).collect::<PyResult<Vec<_>>>();
    let first = reports.first().cloned().unwrap_or_default();
    raised(all.and_then(|all| exception(py, &first, &errors.render(Style::Plain), &all)))
}

/// The error of a function that cannot be compiled.
pub(crate) fn of_compiling(py: Python<'_>, error: &CompileError) -> PyErr {
    raised(exception(py, &error.report(), &error.render(Style::Plain), &[]))
}

/// The error of a call.
pub(crate) fn of_call(py: Python<'_>, error: &RunError) -> PyErr {
    let mut report = error.report();
    if let RunErrorKind::ArgumentType { param, expected, found } = error.kind() {
        let name = numpy_name(&expected.to_string());
        report.help = Some(format!("pass {param}.astype(numpy.{name}), or declare the parameter as {found}"));
    }
    of_report(py, error.source(), &report)
}

/// The error of arrays that are cut where they cannot be.
pub(crate) fn of_cut(py: Python<'_>, error: &NotCut) -> PyErr {
    of_report(py, error.source(), &error.report())
}

/// The error of a request for a report on fusion.
pub(crate) fn of_explaining(py: Python<'_>, error: &ExplainError) -> PyErr {
    match error {
        ExplainError::Compile(error) => of_compiling(py, error),
        _ => of_report(py, &Source::from(""), &Report { message: error.to_string(), ..Report::default() }),
    }
}

/// The error of a measurement.
pub(crate) fn of_bench(py: Python<'_>, error: &BenchError) -> PyErr {
    match error {
        BenchError::Explain(error) => of_explaining(py, error),
        BenchError::Run(error) => of_call(py, error),
        _ => of_report(py, &Source::from(""), &Report { message: error.to_string(), ..Report::default() }),
    }
}

/// NumPy's name of an element type.
pub(crate) fn numpy_name(dtype: &str) -> String {
    match dtype.split_at(dtype.find(|c: char| c.is_ascii_digit()).unwrap_or(dtype.len())) {
        ("i", bits) => format!("int{bits}"),
        ("u", bits) => format!("uint{bits}"),
        ("f", bits) => format!("float{bits}"),
        ("bf", bits) => format!("bfloat{bits}"),
        _ => "bool_".to_owned(),
    }
}
