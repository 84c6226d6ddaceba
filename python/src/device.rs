//! Arrays in the memory of a GPU: those of torch, JAX, CuPy and others as arguments, by DLPack or
//! `__cuda_array_interface__`, and results. Nothing is copied. Calls run on a stream of their own,
//! which waits for the caller's stream before a call, and which that stream waits for after it.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use fuseloop::{Device, DeviceArray, Dtype, Gpu, Kernel, Options, Program};
use pyo3::exceptions::{PyAttributeError, PyBufferError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::arrays::{Home, home_of, of_numpy};
use crate::dlpack::{self, MAX_RANK, Tensor};
use crate::error::{self, refused};
use crate::torch;

/// `kDLCUDA` and `kDLCUDAManaged`.
const ON_A_GPU: [i32; 2] = [2, 13];

/// The types of `__cuda_array_interface__`, in the byte order of CUDA.
const TYPES: [(&str, Dtype); 12] = [
    ("|b1", Dtype::Bool),
    ("|i1", Dtype::I8),
    ("|u1", Dtype::U8),
    ("<i2", Dtype::I16),
    ("<u2", Dtype::U16),
    ("<i4", Dtype::I32),
    ("<u4", Dtype::U32),
    ("<i8", Dtype::I64),
    ("<u8", Dtype::U64),
    ("<f2", Dtype::F16),
    ("<f4", Dtype::F32),
    ("<f8", Dtype::F64),
];

/// An array that somebody else has in the memory of a GPU, row-major.
pub(crate) struct OnDevice<'py> {
    pub(crate) dtype: Dtype,
    pub(crate) home: Home,
    shape: Vec<usize>,
    address: usize,
    writable: bool,
    /// The stream that the array's library works on, where it says so.
    stream: Option<usize>,
    _owner: Owner<'py>,
}

/// The owner of the memory, which keeps it there.
enum Owner<'py> {
    Object { _object: Bound<'py, PyAny> },
    Tensor { _tensor: Tensor },
}

/// How an object says that its elements are in the memory of a GPU.
pub(crate) enum Way {
    /// By DLPack, with the number of the GPU.
    DlPack(i32),
    /// By `__cuda_array_interface__`.
    Interface,
}

/// How an object that is no array of NumPy says that its elements are in the memory of a GPU, if
/// it does.
pub(crate) fn way(object: &Bound<'_, PyAny>) -> PyResult<Option<Way>> {
    let py = object.py();
    if let Some(device) = object.getattr_opt(intern!(py, "__dlpack_device__"))? {
        let (kind, number): (i32, i32) = device.call0()?.extract()?;
        return Ok(ON_A_GPU.contains(&kind).then_some(Way::DlPack(number)));
    }
    Ok(object.hasattr(intern!(py, "__cuda_array_interface__"))?.then_some(Way::Interface))
}

/// Refuses arrays on a GPU in a program for the CPU.
fn compiled_for(py: Python<'_>, device: Device, name: &str, home: Home) -> PyResult<()> {
    if matches!(device, Device::Gpu | Device::Auto) {
        return Ok(());
    }
    let message = format!("`{name}` is in the memory of a GPU, and the program is compiled for the CPU");
    let copy =
        if home == Home::Torch { format!("{name}.cpu()") } else { "a copy in the memory of the host".to_owned() };
    Err(refused(py, message, format!("compile the program with device=\"gpu\", or pass {copy}")))
}

/// The GPU that programs run on.
fn gpu(py: Python<'_>) -> PyResult<Arc<Gpu>> {
    py.detach(|| Gpu::get(0)).map_err(|e| error::of_compiling(py, &e.into()))
}

impl<'py> OnDevice<'py> {
    /// Reads an object that is there, as this way says, for a program on `device`.
    pub(crate) fn of(object: &Bound<'py, PyAny>, way: &Way, name: &str, device: Device) -> PyResult<OnDevice<'py>> {
        let py = object.py();
        let home = home_of(object)?;
        compiled_for(py, device, name, home)?;
        let Way::DlPack(number) = *way else {
            return OnDevice::of_interface(object, name);
        };
        let gpu = gpu(py)?;
        hold_number(py, name, number, &gpu)?;
        let stream = match home {
            Home::Torch => Some(torch::current_stream(py, number)?),
            Home::Jax => None,
            Home::NumPy if object.hasattr("__cuda_array_interface__")? => {
                stream_of_interface(object.getattr("__cuda_array_interface__")?.cast()?, name)?
            }
            Home::NumPy => None,
        };
        // The calls wait for torch's stream in any case; the others let ours wait for theirs.
        let waiting = if home == Home::Torch { -1 } else { gpu.stream().cast_signed() as i64 };
        let lent = dlpack::take(object, name, Some(waiting))?;
        Ok(OnDevice {
            dtype: lent.dtype,
            home,
            shape: lent.shape[..lent.rank].to_vec(),
            address: lent.data.addr(),
            // JAX's arrays are immutable.
            writable: home != Home::Jax,
            stream,
            _owner: Owner::Tensor { _tensor: lent.owner },
        })
    }

    /// Reads `__cuda_array_interface__`, which
    /// <https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html> describes.
    fn of_interface(object: &Bound<'py, PyAny>, name: &str) -> PyResult<OnDevice<'py>> {
        let py = object.py();
        let interface = object.getattr("__cuda_array_interface__")?;
        let wrong = |what: &str| {
            let message = format!("`__cuda_array_interface__` of `{name}` has {what}");
            refused(py, message, "pass an array of a library that keeps to version 3 of the interface")
        };
        let Ok(interface) = interface.cast::<PyDict>() else { return Err(wrong("another form than a dictionary")) };
        let field = |key: &str| Ok::<_, PyErr>(interface.get_item(key)?.filter(|value| !value.is_none()));
        let lengths = field("shape")?.and_then(|shape| shape.extract::<Vec<usize>>().ok());
        let shape = lengths.ok_or_else(|| wrong("no `shape`"))?;
        if shape.len() > MAX_RANK {
            return Err(refused(py, format!("`{name}` has {} axes, more than {MAX_RANK}", shape.len()), "reshape it"));
        }
        let typestr = field("typestr")?.and_then(|typestr| typestr.extract::<String>().ok());
        let typestr = typestr.ok_or_else(|| wrong("no `typestr`"))?;
        let found = TYPES.iter().find(|(known, _)| *known == typestr || known.replace('|', "<") == typestr);
        let Some(&(_, dtype)) = found else {
            let message = format!("`{name}` has elements of type `{typestr}`, which the language lacks");
            return Err(refused(py, message, "convert it"));
        };
        let data = field("data")?.and_then(|data| data.extract::<(usize, bool)>().ok());
        let (address, read_only) = data.ok_or_else(|| wrong("no `data`"))?;
        if field("mask")?.is_some() {
            return Err(refused(py, format!("`{name}` is a masked array, and the language has no masks"), "fill it"));
        }
        if let Some(strides) = field("strides")? {
            let strides: Vec<i64> = strides.extract().map_err(|_| wrong("`strides` that are no integers"))?;
            let size = dtype.bytes() as i64;
            let whole = strides.iter().all(|stride| stride % size == 0);
            let steps: Vec<i64> = strides.iter().map(|stride| stride / size).collect();
            if strides.len() != shape.len() || !whole || !dlpack::is_dense(&shape, &steps) {
                return Err(crate::arrays::not_dense(py, name, "a copy without gaps"));
            }
        }
        let stream = stream_of_interface(interface, name)?;
        let owner = Owner::Object { _object: object.clone() };
        Ok(OnDevice { dtype, home: Home::NumPy, shape, address, writable: !read_only, stream, _owner: owner })
    }

    /// The addresses of its elements.
    fn range(&self) -> Range<usize> {
        let count = self.shape.iter().fold(self.dtype.bytes(), |count, length| count.saturating_mul(*length));
        self.address..self.address.saturating_add(count)
    }

    /// The array as kernels take it. It must not outlive this one.
    fn lent(&self, py: Python<'_>, gpu: &Arc<Gpu>, name: &str) -> PyResult<DeviceArray> {
        if !self.range().start.is_multiple_of(self.dtype.bytes()) {
            return Err(refused(py, format!("the elements of `{name}` are not aligned"), "pass a copy"));
        }
        // SAFETY: the elements are row-major there, and `_owner` keeps them for as long as this is
        // there. Before that ends, `Call` either lets the stream that may take the memory back wait
        // for the call, or waits itself; before the call, it lets ours wait for that stream.
        // That nobody else writes meanwhile, and that the object speaks the truth about its memory,
        // is what the documentation asks of the caller; `hold_truth_values` reads the bytes of a
        // `bool` array.
        let made = unsafe { DeviceArray::lent(gpu, self.dtype, &self.shape, self.address as u64) };
        made.map_err(|e| match e {
            fuseloop::GpuError::NotThere(_) => {
                let message = format!("`{name}` is not in the memory of a GPU: {e}");
                refused(py, message, "keep the array alive until the call, and pass one that lies on the GPU")
            }
            fuseloop::GpuError::WrongDevice => on_another(py, name, "another GPU"),
            e => failed(py, e),
        })
    }

    /// Refuses truth values that are neither 0 nor 1.
    fn hold_truth_values(&self, py: Python<'_>, gpu: &Arc<Gpu>, name: &str) -> PyResult<()> {
        static CHECK: OnceLock<Kernel> = OnceLock::new();
        if self.dtype != Dtype::Bool {
            return Ok(());
        }
        let kernel = match CHECK.get() {
            Some(kernel) => kernel,
            None => {
                let program =
                    Program::parse("fn others(x: u8[n]) = any(x > 1)").map_err(|e| error::of_source(py, &e))?;
                let options = Options { device: Device::Gpu, ..Options::default() };
                let function = program.function("others").expect("the program has it");
                let kernel = py.detach(|| function.compile(&options)).map_err(|e| error::of_compiling(py, &e))?;
                CHECK.get_or_init(|| kernel)
            }
        };
        // SAFETY: as in `lent`; the bytes of a `u8` array may have any value.
        let bytes = unsafe { DeviceArray::lent(gpu, Dtype::U8, &[self.range().len()], self.address as u64) };
        let bytes = bytes.map_err(|e| failed(py, e))?;
        let found = py.detach(|| kernel.call_on_gpu(&[&bytes])).map_err(|e| error::of_call(py, &e))?;
        let found = py.detach(|| found[0].download()).map_err(|e| failed(py, e))?;
        match found.bytes() {
            [0] => Ok(()),
            _ => Err(refused(py, format!("`{name}` has bytes that are no truth values"), "pass a copy, x != 0")),
        }
    }
}

/// The `stream` of an interface; `None` if there is none to wait for.
fn stream_of_interface(interface: &Bound<'_, PyDict>, name: &str) -> PyResult<Option<usize>> {
    let Some(stream) = interface.get_item("stream")?.filter(|stream| !stream.is_none()) else { return Ok(None) };
    match stream.extract::<usize>() {
        Ok(stream) if stream > 0 => Ok(Some(stream)),
        _ => {
            let message = format!("`__cuda_array_interface__` of `{name}` names {stream} as its stream");
            Err(refused(interface.py(), message, "1 is the default stream, 2 that of the thread"))
        }
    }
}

/// The stream that the argument `stream` of a call names: a number, or a stream of torch, CuPy or
/// another library.
fn stream_of(stream: &Bound<'_, PyAny>) -> PyResult<usize> {
    if let Ok(number) = stream.extract() {
        return Ok(number);
    }
    for name in ["cuda_stream", "ptr"] {
        if let Ok(number) = stream.getattr(name).and_then(|number| number.extract()) {
            return Ok(number);
        }
    }
    // The protocol of NVIDIA's libraries: a version and a number.
    if let Ok(pair) = stream.call_method0("__cuda_stream__")
        && let Ok((_, number)) = pair.extract::<(i32, usize)>()
    {
        return Ok(number);
    }
    let message = format!("`stream` is a stream of CUDA, an object of type `{}` was given", stream.get_type().name()?);
    Err(refused(stream.py(), message, "pass the stream of torch or CuPy, or the number of one"))
}

fn failed(py: Python<'_>, error: fuseloop::GpuError) -> PyErr {
    error::of_compiling(py, &error.into())
}

fn on_another(py: Python<'_>, name: &str, place: &str) -> PyErr {
    let message = format!("`{name}` is in the memory of {place}, and programs run on GPU 0");
    refused(py, message, "copy it to GPU 0, or let CUDA_VISIBLE_DEVICES name the other one")
}

/// Refuses arrays of another GPU.
fn hold_number(py: Python<'_>, name: &str, number: i32, gpu: &Gpu) -> PyResult<()> {
    if number == gpu.facts().number { Ok(()) } else { Err(on_another(py, name, &format!("GPU {number}"))) }
}

/// An argument of a call on a GPU.
pub(crate) enum Given<'a, 'py> {
    /// An array there.
    There(&'a OnDevice<'py>),
    /// A number of the host.
    Number(fuseloop::Scalar),
}

/// A call on arrays that are on the GPU.
pub(crate) struct Call<'a, 'py> {
    pub(crate) kernel: &'a Kernel,
    /// The arguments with their names.
    pub(crate) inputs: Vec<(Given<'a, 'py>, &'a str)>,
    /// The arrays to write to with their names, if there are any.
    pub(crate) outputs: Option<Vec<(&'a OnDevice<'py>, &'a str)>>,
    /// The stream that the caller named.
    pub(crate) stream: Option<&'a Bound<'py, PyAny>>,
    /// The types of the results.
    pub(crate) types: Vec<Dtype>,
    /// The library that the results go to.
    pub(crate) home: Home,
}

impl<'py> Call<'_, 'py> {
    /// Starts the call, and gives its results where there are no arrays to write to.
    pub(crate) fn run(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let gpu = self.kernel.gpu().expect("the kernel was compiled for one");
        let (streams, wait) = self.streams()?;
        let order = |before: bool| {
            streams.iter().try_for_each(|stream| {
                // SAFETY: the number is that of a stream of the caller, as the documentation asks,
                // or what the library of an argument says about its stream. Both are there now.
                let done = unsafe { if before { gpu.follow(*stream) } else { gpu.precede(*stream) } };
                done.map_err(|e| failed(py, e))
            })
        };
        let mut results = vec![];
        let done = self.start(py, gpu, &streams, &|| order(true), &mut results);
        let ordered = order(false);
        if wait || done.is_err() || ordered.is_err() {
            // Nobody else knows when the memory of the arguments is free again.
            let waited = py.detach(|| gpu.wait()).map_err(|e| failed(py, e));
            done?;
            return waited.and(ordered).map(|()| results);
        }
        Ok(results)
    }

    /// The streams to order the call with, and whether some argument names none.
    fn streams(&self) -> PyResult<(BTreeSet<usize>, bool)> {
        if let Some(stream) = self.stream {
            return Ok((BTreeSet::from([stream_of(stream)?]), false));
        }
        let arrays = self.inputs.iter().filter_map(|(given, _)| match given {
            Given::There(array) => Some(*array),
            Given::Number(_) => None,
        });
        let arrays: Vec<&OnDevice<'_>> = arrays.chain(self.outputs.iter().flatten().map(|(array, _)| *array)).collect();
        let wait = arrays.iter().any(|array| array.stream.is_none());
        Ok((arrays.iter().filter_map(|array| array.stream).collect(), wait))
    }

    /// Starts the call after what `follow` lets it wait for. Whatever it makes is in `results`,
    /// also where it fails, so that the memory is there until the call is ordered with its owner.
    fn start(
        &self,
        py: Python<'py>,
        gpu: &Arc<Gpu>,
        streams: &BTreeSet<usize>,
        follow: &dyn Fn() -> PyResult<()>,
        results: &mut Vec<Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        let arrays = self.inputs.iter().filter_map(|(given, _)| match given {
            Given::There(array) => Some(*array),
            Given::Number(_) => None,
        });
        // Truth values, and scalars that are sizes, are read before anything else.
        if arrays.into_iter().any(|array| array.dtype == Dtype::Bool || array.shape.is_empty()) {
            follow()?;
        }
        let mut inputs = vec![];
        for (given, name) in &self.inputs {
            inputs.push(match given {
                Given::There(array) => {
                    let lent = array.lent(py, gpu, name)?;
                    array.hold_truth_values(py, gpu, name)?;
                    lent
                }
                Given::Number(value) => DeviceArray::scalar(gpu, *value),
            });
        }
        let inputs: Vec<&DeviceArray> = inputs.iter().collect();
        let written = match &self.outputs {
            Some(outputs) => Some(self.written(py, gpu, outputs)?),
            None => self.of_torch(py, gpu, &inputs, streams, results)?,
        };
        // Memory that torch has given for results may be what its stream used until now.
        follow()?;
        let Some(mut written) = written else {
            let made = py.detach(|| self.kernel.call_on_gpu(&inputs)).map_err(|e| error::of_call(py, &e))?;
            *results = made.into_iter().map(|array| result(py, array, self.home)).collect::<PyResult<_>>()?;
            return Ok(());
        };
        let mut written: Vec<&mut DeviceArray> = written.iter_mut().collect();
        let done = py.detach(|| self.kernel.call_on_gpu_into(&inputs, &mut written));
        done.map_err(|e| error::of_call(py, &e))
    }

    /// The arrays to write to, as kernels take them.
    fn written(
        &self,
        py: Python<'py>,
        gpu: &Arc<Gpu>,
        outputs: &[(&OnDevice<'py>, &str)],
    ) -> PyResult<Vec<DeviceArray>> {
        let lent = outputs.iter().map(|(array, name)| match array.writable {
            true => array.lent(py, gpu, name),
            false => Err(crate::arrays::read_only(py, name)),
        });
        lent.collect()
    }

    /// Results in memory of torch as kernels take them, and in `results` the tensors, where results
    /// go there and the call is in the order of the stream with which torch allocates and frees.
    fn of_torch(
        &self,
        py: Python<'py>,
        gpu: &Arc<Gpu>,
        inputs: &[&DeviceArray],
        streams: &BTreeSet<usize>,
        results: &mut Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Vec<DeviceArray>>> {
        let number = gpu.facts().number;
        if self.home != Home::Torch || !streams.contains(&torch::current_stream(py, number)?) {
            return Ok(None);
        }
        let shapes = py.detach(|| self.kernel.output_shapes_on_gpu(inputs)).map_err(|e| error::of_call(py, &e))?;
        let mut lent = vec![];
        for (dtype, shape) in self.types.iter().zip(shapes) {
            let Some((tensor, address)) = torch::empty(py, number, *dtype, &shape)? else { return Ok(None) };
            results.push(tensor);
            // SAFETY: the elements are the tensor's, which `Call::run` drops or gives away only
            // after the stream that torch frees it with waits for the call. Nobody reads them
            // before the kernels have written each.
            let array = unsafe { DeviceArray::lent(gpu, *dtype, &shape, address) };
            lent.push(array.map_err(|e| failed(py, e))?);
        }
        Ok(Some(lent))
    }
}

impl<'py> OnDevice<'py> {
    /// The addresses of its elements, and of no others if it has none.
    pub(crate) fn addresses(&self) -> Range<usize> {
        self.range()
    }
}

/// An array in the memory of a GPU, as a call gives it where arguments come from no library that is
/// known. Others take it without a copy by DLPack and `__cuda_array_interface__`:
/// `cupy.from_dlpack(x)`, `torch.from_dlpack(x)`. It may be an argument of another call.
#[pyclass(frozen, name = "DeviceArray", module = "fuseloop")]
pub(crate) struct Result {
    /// There until this is dropped.
    array: Option<Arc<DeviceArray>>,
    /// The streams of others that may use the memory.
    streams: Mutex<BTreeSet<usize>>,
}

/// A stream that is not known.
const UNKNOWN: usize = usize::MAX;

impl Result {
    fn array(&self) -> &Arc<DeviceArray> {
        self.array.as_ref().expect("only dropping takes it")
    }

    fn address(&self) -> u64 {
        self.array().address().expect("results are on the device")
    }

    fn used_by(&self, stream: usize) {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).insert(stream);
    }
}

impl Drop for Result {
    fn drop(&mut self) {
        let streams = std::mem::take(self.streams.get_mut().unwrap_or_else(PoisonError::into_inner));
        let mut array = self.array.take();
        let mut free = move || {
            let Some(array) = array.take() else { return };
            for stream in &streams {
                if array.gpu().follow_former(*stream).is_err() {
                    // The device is lost, and its memory with it.
                    break;
                }
            }
        };
        // It may wait for the device, and others need the interpreter meanwhile.
        if Python::try_attach(|py| py.detach(&mut free)).is_none() {
            free();
        }
    }
}

#[pymethods]
impl Result {
    /// The lengths of the axes.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.array().shape())
    }

    /// The name of the type of the elements, as NumPy calls it.
    #[getter]
    fn dtype(&self) -> String {
        error::numpy_name(&self.array().dtype().to_string()).trim_end_matches('_').to_owned()
    }

    /// Copies the elements into an array of NumPy, once they are computed.
    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let array = self.array();
        of_numpy(py, py.detach(|| array.download()).map_err(|e| failed(py, e))?)
    }

    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let array = self.array();
        let Some((typestr, _)) = TYPES.iter().find(|(_, dtype)| *dtype == array.dtype()) else {
            return Err(PyAttributeError::new_err("the interface has no type for bf16; use DLPack"));
        };
        self.used_by(UNKNOWN);
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("shape", self.shape(py)?)?;
        interface.set_item("typestr", typestr)?;
        interface.set_item("data", (self.address(), false))?;
        interface.set_item("strides", py.None())?;
        interface.set_item("stream", array.gpu().stream())?;
        Ok(interface)
    }

    #[pyo3(signature = (*, stream = None, **options))]
    fn __dlpack__<'py>(
        slf: &Bound<'py, Result>,
        stream: Option<i64>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let this = slf.get();
        let array = this.array();
        for (key, value) in options.into_iter().flatten() {
            let asked = match key.extract::<String>()?.as_str() {
                "dl_device" if !value.is_none() => value.extract::<(i32, i32)>()? != this.__dlpack_device__(),
                "copy" => value.is_truthy()?,
                _ => false,
            };
            if asked {
                return Err(PyBufferError::new_err("the array is on a GPU, and not copied; `numpy()` copies it"));
            }
        }
        match stream {
            // Whoever asks does not want to wait.
            Some(-1) => this.used_by(UNKNOWN),
            stream => {
                let stream = usize::try_from(stream.unwrap_or(1)).map_err(|_| PyBufferError::new_err("no stream"))?;
                // SAFETY: the protocol says that this is a stream of the receiver.
                unsafe { array.gpu().precede(stream) }.map_err(|e| failed(slf.py(), e))?;
                this.used_by(stream);
            }
        }
        let place = (this.__dlpack_device__(), this.address() as usize);
        dlpack::give(slf.py(), (array.dtype(), array.shape()), place, slf.clone().into_any().unbind())
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        (ON_A_GPU[0], self.array().gpu().facts().number)
    }

    fn __repr__(&self) -> String {
        format!("<fuseloop.DeviceArray {:?}>", self.array())
    }
}

/// A result as an array of the library that the arguments came from.
fn result<'py>(py: Python<'py>, array: DeviceArray, home: Home) -> PyResult<Bound<'py, PyAny>> {
    let made = Bound::new(py, Result { array: Some(Arc::new(array)), streams: Mutex::default() })?.into_any();
    match home {
        Home::NumPy => Ok(made),
        Home::Torch | Home::Jax => crate::arrays::taken_by(py, home, made),
    }
}
