//! Parts of torch that a call on a GPU uses: the stream that the thread works on, and memory for
//! results, so that torch frees it in the order of that stream.

use fuseloop::Dtype;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};

/// The types of torch, by their names in the module.
const TYPES: [(Dtype, &str); 13] = [
    (Dtype::Bool, "bool"),
    (Dtype::I8, "int8"),
    (Dtype::U8, "uint8"),
    (Dtype::I16, "int16"),
    (Dtype::U16, "uint16"),
    (Dtype::I32, "int32"),
    (Dtype::U32, "uint32"),
    (Dtype::I64, "int64"),
    (Dtype::U64, "uint64"),
    (Dtype::F16, "float16"),
    (Dtype::Bf16, "bfloat16"),
    (Dtype::F32, "float32"),
    (Dtype::F64, "float64"),
];

/// The functions of torch, looked up once.
struct Torch {
    /// The number of the current stream of a device.
    raw_stream: Option<Py<PyAny>>,
    current_stream: Py<PyAny>,
    empty: Py<PyAny>,
    /// For each type the options with which `empty` makes a tensor in the memory of the GPU;
    /// `None` for a type that this version of torch lacks.
    options: Vec<(Dtype, Option<Py<PyDict>>)>,
}

impl Torch {
    /// The functions, with the number of the GPU that programs run on.
    fn get(py: Python<'_>, number: i32) -> PyResult<&'static Torch> {
        static TORCH: PyOnceLock<Torch> = PyOnceLock::new();
        TORCH.get_or_try_init(py, || {
            let torch = py.import("torch")?;
            let raw_stream = torch.getattr("_C")?.getattr_opt("_cuda_getCurrentRawStream")?;
            let device = torch.getattr("device")?.call1(("cuda", number))?;
            let options = TYPES.iter().map(|(dtype, name)| {
                let Some(known) = torch.getattr_opt(*name)? else { return Ok((*dtype, None)) };
                let options = PyDict::new(py);
                options.set_item("dtype", known)?;
                options.set_item("device", &device)?;
                Ok((*dtype, Some(options.unbind())))
            });
            Ok(Torch {
                raw_stream: raw_stream.map(Bound::unbind),
                current_stream: torch.getattr("cuda")?.getattr("current_stream")?.unbind(),
                empty: torch.getattr("empty")?.unbind(),
                options: options.collect::<PyResult<_>>()?,
            })
        })
    }
}

/// The stream that this thread's work of torch on the GPU is on.
pub(crate) fn current_stream(py: Python<'_>, number: i32) -> PyResult<usize> {
    let torch = Torch::get(py, number)?;
    match &torch.raw_stream {
        Some(function) => function.bind(py).call1((number,))?.extract(),
        None => torch.current_stream.bind(py).call1((number,))?.getattr("cuda_stream")?.extract(),
    }
}

/// A tensor with unspecified elements, and the address of these; `None` if torch lacks the type.
pub(crate) fn empty<'py>(
    py: Python<'py>,
    number: i32,
    dtype: Dtype,
    shape: &[usize],
) -> PyResult<Option<(Bound<'py, PyAny>, u64)>> {
    let torch = Torch::get(py, number)?;
    let options = torch.options.iter().find(|(known, _)| *known == dtype).and_then(|(_, options)| options.as_ref());
    let Some(options) = options else { return Ok(None) };
    let tensor = torch.empty.bind(py).call((PyTuple::new(py, shape)?,), Some(options.bind(py)))?;
    let address = tensor.call_method0(intern!(py, "data_ptr"))?.extract()?;
    Ok(Some((tensor, address)))
}
