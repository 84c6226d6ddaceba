//! Functions computed in blocks, for `fuseloop.dask`: how arrays may be cut, and compiled stages.

use std::sync::Arc;

use fuseloop::{ArrayRef, Block, CutSummary, Device, Function as Source, Outline, OutputOutline, Scalar, StageOutline};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::arrays::{self, Argument, Home, View};
use crate::error;
use crate::interrupt;
use crate::module::Text;

/// A part of each axis of an argument; all of it if there is none.
type Parts = Vec<Option<(i64, i64)>>;

/// A compiled stage of a function that is computed in blocks.
#[pyclass(frozen, module = "fuseloop")]
pub(crate) struct Stage(fuseloop::Stage);

impl Stage {
    /// Compiles a stage of a function for some cuts.
    pub(crate) fn new(
        py: Python<'_>,
        text: &Arc<Text>,
        source: Source<'_>,
        cuts: &[usize],
        number: usize,
    ) -> PyResult<Stage> {
        let partition = source.partition();
        let blocks = partition.blocks(cuts).map_err(|e| error::of_cut(py, &e))?;
        let derived = blocks.derive(number).map_err(|e| error::of_cut(py, &e))?;
        let compiled = py.detach(|| derived.compile(&text.options));
        compiled.map(Stage).map_err(|e| error::of_compiling(py, &e))
    }
}

#[pymethods]
impl Stage {
    /// The arguments that it needs for a block: whether each is a value of an earlier stage, its
    /// number, and the part of each axis.
    fn needs(&self, sizes: Vec<i64>, ends: Vec<(i64, i64)>) -> Vec<(bool, usize, Parts)> {
        let block = Block { sizes: &sizes, ends: &ends, piece: (0, 0) };
        self.0.needs(&block).into_iter().map(|needed| (needed.value, needed.number, needed.parts)).collect()
    }

    /// Computes a block.
    #[pyo3(signature = (arrays, sizes, ends, piece, threads=0))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        arrays: Vec<Bound<'py, PyAny>>,
        sizes: Vec<i64>,
        ends: Vec<(i64, i64)>,
        piece: (i64, i64),
        threads: usize,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let slots = &self.0.signature().params;
        let view = |(object, slot): (&Bound<'py, PyAny>, &fuseloop::Slot)| {
            Argument::of(object, &slot.name, &slot.ty(), Device::Cpu)?.view(py, &slot.name, slot.dtype)
        };
        let views = arrays.iter().zip(slots).map(view).collect::<PyResult<Vec<View<'py>>>>()?;
        let read = |(view, slot): (_, &fuseloop::Slot)| View::read(view, py, &slot.name);
        let inputs = views.iter().zip(slots).map(read).collect::<PyResult<Vec<ArrayRef<'_>>>>()?;
        let block = Block { sizes: &sizes, ends: &ends, piece };
        let results = loop {
            let cancel = interrupt::watch();
            let options = fuseloop::CallOptions { threads, cancel };
            match py.detach(|| self.0.call(&inputs, &block, &options)) {
                Err(_) if cancel.is_some_and(fuseloop::Cancel::is_cancelled) => py.check_signals()?,
                done => break done.map_err(|e| error::of_call(py, &e))?,
            }
        };
        results.into_iter().map(|array| arrays::result(py, array, Home::NumPy)).collect()
    }
}

/// The cuts of a function as dictionaries.
pub(crate) fn cuts<'py>(py: Python<'py>, cuts: &[CutSummary]) -> PyResult<Bound<'py, PyList>> {
    let axes = |axes: &[fuseloop::AxisSummary]| axes.iter().map(|axis| (axis.number, axis.axis)).collect::<Vec<_>>();
    let cut = |cut: &CutSummary| {
        let made = PyDict::new(py);
        made.set_item("params", axes(&cut.params))?;
        made.set_item("results", axes(&cut.results))?;
        made.set_item("ways", cut.ways())?;
        made.set_item("refusal", cut.refusal.clone())?;
        made.set_item("text", cut.to_string())?;
        PyResult::Ok(made)
    };
    PyList::new(py, cuts.iter().map(cut).collect::<PyResult<Vec<_>>>()?)
}

/// The stages of a function for a call, as tuples.
pub(crate) fn outline<'py>(py: Python<'py>, stages: &[StageOutline]) -> PyResult<Bound<'py, PyList>> {
    let output = |output: &OutputOutline| {
        let made = PyDict::new(py);
        made.set_item("number", output.number)?;
        made.set_item("join", output.join)?;
        made.set_item("scan", output.scan)?;
        made.set_item("dtype", output.dtype.to_string())?;
        made.set_item("cuts", &output.cuts)?;
        made.set_item("shape", &output.shape)?;
        made.set_item("over", &output.over)?;
        PyResult::Ok(made)
    };
    let stage = |stage: &StageOutline| {
        let made = PyDict::new(py);
        made.set_item("cuts", &stage.cuts)?;
        made.set_item("unit", stage.unit.map(|unit| (unit.chunk, unit.inner, unit.length, unit.joined)))?;
        made.set_item("outputs", stage.outputs.iter().map(output).collect::<PyResult<Vec<_>>>()?)?;
        PyResult::Ok(made)
    };
    PyList::new(py, stages.iter().map(stage).collect::<PyResult<Vec<_>>>()?)
}

/// Arguments of a call by type, shape and, for integers, value.
pub(crate) fn outlines(given: &Bound<'_, PyTuple>, dtypes: &[fuseloop::Dtype]) -> PyResult<Vec<Outline>> {
    let outline = |(one, dtype): (Bound<'_, PyAny>, &fuseloop::Dtype)| {
        let (shape, value): (Vec<usize>, Option<i64>) = one.extract()?;
        let value = value.map(Scalar::I64);
        Ok(Outline { dtype: *dtype, shape, value })
    };
    given.iter().zip(dtypes).map(outline).collect()
}
